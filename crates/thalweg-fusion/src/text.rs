//! Text form of a segment with everything that its plan depends on: written into reports of defects, and read back to
//! reproduce them.
//!
//! In: a segment, the cost constants and the search effort. Out: text with one line per operation, and from that the
//! same again. It contains shapes, layouts, scalars and operations, but no elements of tensors.
//!
//! Always true: [`read`] of [`write()`] is the identity. Invalid text is rejected with the line that is wrong.

use crate::cost::Costs;
use crate::partition::{Effort, PLANNER};
use crate::segment::{BitSet, Mode, OwnedSegment, Segment};
use std::fmt::Write;
use thalweg_ir::{Arg, DType, InputKind, MAX_ARGS, MAX_RANK, Op, RelArg, RelOp, Shape, View};
use thalweg_kernel::Contracts;

/// First line of the text: format name and version.
const HEAD: &str = "thalweg segment 2";

/// Names of the [`Contracts`] variants in the text, in their order.
const CONTRACTS: [(&str, Contracts); 3] =
    [("bare", Contracts::Bare), ("tiles", Contracts::Tiles), ("contracts", Contracts::Rows)];

/// Writes a segment, with its cost constants and search effort, as text.
pub fn write(segment: &Segment<'_>, costs: &Costs, effort: Effort) -> String {
    let mut out = format!("{HEAD}\nplanner {PLANNER}\n");
    let word = |on: bool, yes, no| if on { yes } else { no };
    let Mode { fused, strict, tf32, atomic, contracts } = segment.mode;
    let (fused, strict) = (word(fused, "fused", "unfused"), word(strict, "strict", "fast"));
    let (tf32, atomic) = (word(tf32, "tf32", "f32"), word(atomic, "atomic", "fixed"));
    let contracts = CONTRACTS[contracts as usize].0;
    let _ = writeln!(out, "mode {fused} {strict} {tf32} {atomic} {contracts}");
    let _ = match effort {
        Effort::None => writeln!(out, "effort none"),
        Effort::Quick => writeln!(out, "effort quick"),
        Effort::Full => writeln!(out, "effort full"),
        Effort::Visits(n) => writeln!(out, "effort {n}"),
    };
    let _ = writeln!(out, "costs {}", serde_json::to_string(costs).expect("plain numbers become JSON"));
    for (i, (dtype, view)) in segment.inputs.iter().enumerate() {
        let (shape, strides, offset) = (view.shape.dims(), view.strides(), view.offset);
        let _ = writeln!(out, "in{i} {dtype} {shape:?} strides {strides:?} offset {offset}");
    }
    let (mut ints, mut scalars) = (segment.ints.iter(), segment.scalars.iter());
    for (i, op) in segment.ops.iter().enumerate() {
        let argument = |a: Arg| match a {
            Arg::Op(n) => format!("%{n}"),
            Arg::Input(n) => format!("in{n}"),
            Arg::Scalar => format!("{:#x}", scalars.next().copied().unwrap_or_default()),
            Arg::None => unreachable!("arguments that are there"),
        };
        let arguments: Vec<String> = op.args().map(argument).collect();
        let ints: Vec<i64> = ints.by_ref().take(op.int_count()).copied().collect();
        let (live, name) = (if segment.live.has(i) { "*" } else { "" }, op.op.spelled());
        let (attr, dtype, shape) = (op.attr, op.dtype, segment.shapes[i].dims());
        let arguments = arguments.join(" ");
        let _ = writeln!(out, "%{i}{live} {name} ({arguments}) attr {attr:#x} ints {ints:?} -> {dtype} {shape:?}");
    }
    out
}

/// Parses the output of [`write()`]; lines that begin with `#` are skipped.
///
/// # Errors
/// The first invalid line.
pub fn read(text: &str) -> Result<(OwnedSegment, Costs, Effort), String> {
    let mut lines = text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty());
    if lines.next().map(str::trim) != Some(HEAD) {
        return Err(format!("the first line is not `{HEAD}`"));
    }
    let lines: Vec<&str> = lines.collect();
    let operations = lines.iter().filter(|l| l.starts_with('%')).count();
    let mode = Mode::fused(Contracts::Bare);
    let segment = OwnedSegment {
        ops: vec![],
        live: BitSet::new(operations),
        mode,
        shapes: vec![],
        ints: vec![],
        scalars: vec![],
        inputs: vec![],
    };
    let mut read = (segment, Costs::typical(), Effort::default());
    for line in lines {
        take(line, &mut read).ok_or_else(|| format!("not understood: {line}"))?;
    }
    Ok(read)
}

/// Parses one line into the segment, constants or effort; `None` if it is invalid.
fn take(line: &str, (segment, costs, effort): &mut (OwnedSegment, Costs, Effort)) -> Option<()> {
    let (word, rest) = line.split_once(' ')?;
    match word {
        // The text may come from another version of the planner.
        "planner" => {}
        "mode" => {
            let words: Vec<&str> = rest.split(' ').collect();
            let &[fused, strict, product, sums, contracts] = &words[..] else { return None };
            let is = |word: &str, yes, no| (word == yes).then_some(true).or((word == no).then_some(false));
            segment.mode = Mode {
                fused: is(fused, "fused", "unfused")?,
                strict: is(strict, "strict", "fast")?,
                tf32: is(product, "tf32", "f32")?,
                atomic: is(sums, "atomic", "fixed")?,
                contracts: CONTRACTS.iter().find(|c| c.0 == contracts)?.1,
            };
        }
        "effort" => {
            *effort = match rest {
                "none" => Effort::None,
                "quick" => Effort::Quick,
                "full" => Effort::Full,
                visits => Effort::Visits(visits.parse().ok()?),
            }
        }
        "costs" => *costs = serde_json::from_str(rest).ok()?,
        _ if word.starts_with("in") => {
            let number: usize = word[2..].parse().ok()?;
            let (dtype, rest) = rest.split_once(' ')?;
            let (shape, rest) = list(rest)?;
            let (strides, rest) = list::<isize>(rest.strip_prefix(" strides ")?)?;
            let offset = rest.strip_prefix(" offset ")?.parse().ok()?;
            let shape = shape_of(&shape)?;
            if number != segment.inputs.len() || strides.len() != shape.rank() {
                return None;
            }
            segment.inputs.push((DType::from_name(dtype)?, View::new(shape, &strides, offset)));
        }
        _ if word.starts_with('%') => operation(word, rest, segment)?,
        _ => return None,
    }
    Some(())
}

fn operation(word: &str, rest: &str, segment: &mut OwnedSegment) -> Option<()> {
    let here = segment.ops.len();
    let (number, live) = (word[1..].trim_end_matches('*'), word.ends_with('*'));
    let (name, rest) = rest.split_once(" (")?;
    let (arguments, rest) = rest.split_once(") attr 0x")?;
    let (attr, rest) = rest.split_once(" ints ")?;
    let (ints, rest) = list::<i64>(rest)?;
    let (dtype, shape) = rest.strip_prefix(" -> ")?.split_once(' ')?;
    let shape = shape_of(&list(shape)?.0)?;
    let mut op = RelOp {
        op: Op::from_name(name)?,
        dtype: DType::from_name(dtype)?,
        rank: shape.rank() as u8,
        attr: u32::from_str_radix(attr, 16).ok()?,
        args: [RelArg::NONE; MAX_ARGS],
    };
    for (n, text) in arguments.split_whitespace().enumerate() {
        *op.args.get_mut(n)? = match text.strip_prefix('%') {
            Some(op) => RelArg::op(op.parse().ok().filter(|&o: &usize| o < here)?),
            None => match text.strip_prefix("in") {
                Some(number) => {
                    let number: usize = number.parse().ok()?;
                    let (dtype, view) = segment.inputs.get(number)?;
                    let (rank, contiguous) = (view.shape.rank(), view.is_contiguous());
                    RelArg::input(number, InputKind { dtype: *dtype, rank, contiguous })
                }
                None => {
                    segment.scalars.push(u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?);
                    RelArg::SCALAR
                }
            },
        };
    }
    if number.parse() != Ok(here) || ints.len() != op.int_count() {
        return None;
    }
    if live {
        segment.live.insert(here);
    }
    segment.ints.extend(ints);
    segment.shapes.push(shape);
    segment.ops.push(op);
    Some(())
}

/// Parses a list `[1, 2, 3]` at the beginning of the text; returns its numbers, and the rest of the text.
fn list<T: std::str::FromStr>(text: &str) -> Option<(Vec<T>, &str)> {
    let (inside, rest) = text.strip_prefix('[')?.split_once(']')?;
    let numbers = inside.split(',').map(str::trim).filter(|n| !n.is_empty());
    let numbers: Option<Vec<T>> = numbers.map(|n| n.parse().ok()).collect();
    Some((numbers?, rest))
}

fn shape_of(dims: &[usize]) -> Option<Shape> {
    (dims.len() <= MAX_RANK).then(|| Shape::new(dims))
}
