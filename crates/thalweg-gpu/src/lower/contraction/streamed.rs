//! Lowering of flash attention: a contraction whose left factor is computed from another product, as one kernel that
//! reads the keys once.
//!
//! In: weights of one pass ([`thalweg_kernel::weights`]) between two products of factors in memory. Out: one launch.
//! Other forms, and those too large for the registers of a warp, take the unfused fallback.

use super::fed::Factor;
use super::tile::{Part, alignable, is_busy, is_counted, is_pitch, lies_at, math, result, sums_operand};
use crate::class::contraction::Math;
use crate::class::streamed::{HEAD, StreamedBlock, StreamedClass, StreamedSlots};
use crate::lower::operands::add_reciprocals;
use crate::maps::MAP_WORDS;
use crate::plan::Word;
use crate::plan::{Draft, Plan, blocks};
use crate::skeleton::Skeleton;
use crate::space::divisor;
use crate::target::Chip;
use crate::target::Target;
use crate::traffic;
use crate::tunable::TUNABLES;
use std::sync::Arc;
use thalweg_ir::DType;
use thalweg_kernel::{
    CausalMask, Contraction, ContractionGeometry, Inner, Kernel, MatmulGeometry, Moved, Prologue, TileGeometry,
    Weights, causal_mask, expand, scores, weights, widen_sums,
};

/// Columns of the result, and terms of a score, at most: more, and a warp's registers do not hold its sums.
const WIDEST: usize = 128;
/// Maximum number of lanes of the score bodies: a thread has two neighbouring keys.
const LANES: usize = 2;

/// Properties of a contraction of this form.
struct Found<'a> {
    inner: &'a Inner,
    of_inner: &'a ContractionGeometry,
    prologue: &'a Prologue,
    tiles: &'a TileGeometry,
    weights: Weights,
    along: [bool; 3],
    math: Math,
}

/// Layout of a factor: batch strides, offset of the first element, strides from line to line and from term to term.
struct Lies {
    batch: Vec<isize>,
    first: isize,
    line: isize,
    term: isize,
    reach: Option<(usize, usize)>,
}

fn lies(g: &MatmulGeometry, right: bool) -> Lies {
    let batch = g.batch.iter().map(|d| if right { d.2 } else { d.1 }).collect();
    let (first, line, term) = lies_at(g, right as usize);
    Lies { batch, first, line, term, reach: g.reach[right as usize] }
}

impl Lies {
    /// Whether terms are neighbours; `None` where it cannot be copied in vectors of 16 bytes.
    fn along(&self, size: usize) -> Option<bool> {
        let aligned = |pitch| is_pitch(pitch) && alignable(self.batch.iter().copied().chain([self.first, pitch]), size);
        match () {
            () if self.term == 1 && aligned(self.line) => Some(true),
            () if self.line == 1 && aligned(self.term) => Some(false),
            () => None,
        }
    }

    fn pitch(&self, along: bool) -> isize {
        if along { self.line } else { self.term }
    }
}

/// Matches the contraction to this form.
fn find<'a>(c: &'a Contraction, g: &'a ContractionGeometry, chip: &Chip) -> Option<Found<'a>> {
    let math = math(c, chip);
    let (prologue, tiles) = c.factors[0].as_deref().zip(g.factors[0].as_deref())?;
    let (inner, of_inner) = prologue.inner.as_deref().zip(g.inner.as_deref())?;
    if math == Math::Plain || inner.product.factors.iter().any(Option::is_some) || c.factors[1].is_some() {
        return None;
    }
    let map = |k: &Kernel, t: &TileGeometry| matches!(k, Kernel::Map(_)) && t.boxes.len() == 1;
    let simple = |e: Option<(&thalweg_kernel::Epilogue, &TileGeometry)>| e.is_none_or(|(e, t)| map(&e.kernel, t));
    let both = |c: &'a Contraction, g: &'a ContractionGeometry| c.epilogue.as_deref().zip(g.epilogue.as_deref());
    if !simple(both(c, g)) || !simple(both(&inner.product, of_inner)) || tiles.boxes.len() != 1 {
        return None;
    }
    let body = match &prologue.kernel {
        Kernel::Map(body) | Kernel::Rows { body, .. } => body,
        _ => return None,
    };
    let (p, q) = (&g.product, &of_inner.product);
    // Weights are row-major, the matrices of the batch one after the other.
    let mut matrix = (p.m * p.k) as isize;
    let mut row_major = true;
    for d in p.batch.iter().rev() {
        row_major &= d.0 == 1 || d.1 == matrix;
        matrix *= d.0 as isize;
    }
    let sizes = |g: &MatmulGeometry| g.batch.iter().map(|d| d.0).collect::<Vec<_>>();
    let fits = row_major && sizes(p) == sizes(q) && [p.n, q.k].iter().all(|&n| (1..=WIDEST).contains(&n));
    if !fits || !is_counted(p) || p.k == 0 || p.m == 0 || q.m != p.m || q.n != p.k || c.dtype != inner.product.dtype {
        return None;
    }
    let size = c.dtype.size();
    let along = [lies(q, false).along(size)?, lies(q, true).along(size)?, lies(p, true).along(size)?];
    // `weights` is `None` where a weight needs more than one pass.
    let weights = weights(body)?;
    Some(Found { inner, of_inner, prologue, tiles, weights, along, math })
}

/// Plans the launch of a contraction of this form; `None` for others.
pub fn plan(c: &Contraction, g: &ContractionGeometry, written: DType, target: &dyn Target) -> Option<Plan> {
    let Found { inner, of_inner, prologue, tiles, weights, along, math } = find(c, g, target.chip())?;
    let (p, q) = (&g.product, &of_inner.product);
    let (mut plan, size) = (Plan::default(), c.dtype.size());
    // Operands: rows, keys, those of the first product's epilogue, those of the weights, values, and the rest.
    let reads = inner.product.reads() as u16;
    let values = reads + prologue.operands as u16;
    let mut points = vec![];
    let bodies = scores(c)?;
    let epilogue = inner.product.epilogue.as_deref().zip(of_inner.epilogue.as_deref());
    if let (Some((e, t)), [body, _]) = (epilogue, &bodies[..]) {
        points.push((Part::reading(body, t, LANES, (2, e.reads, e.sums), (0, target)), e.sums));
    }
    let scalars = inner.product.scalars() as u16;
    let reads_of = (reads, prologue.operands as u16 + 1, inner.sums);
    points.push((Part::reading(&weights.point, tiles, LANES, reads_of, (scalars, target)), inner.sums));
    let (c_reads, c_scalars) = (values + 1, scalars + prologue.scalars as u16);
    let result = result(c, g, written, c_reads, (c_scalars, target));
    let once = weights.once.map(|o| (expand(&o.body, &|op, dtype| target.is_native(op, dtype)), [o.max, o.sum]));
    let seen = causal_mask(c, g);
    let sizes = [q.k, p.n].map(|n| n.next_power_of_two().max(if math == Math::Warpgroup { 64 } else { 16 }) as u32);
    let of_points: Vec<_> = points.iter().map(|(part, sums)| (part.class(), *sums)).collect();
    let loads: usize = of_points.iter().map(|(part, sums)| part.loads(*sums)).sum();
    let tiles = |rows: usize| g.batches() * p.m.div_ceil(rows);
    let mut block = StreamedBlock::fed(sizes, loads, &tiles, target.chip());
    let by_boxes = match math {
        Math::Warpgroup => boxes(c, (p, q), (values, along), block.boxes(sizes), target),
        _ => None,
    };
    if by_boxes.is_none() {
        block = StreamedBlock::unfed(math, is_busy(g.batches() * p.m.div_ceil(128), target.chip()));
    }
    let class = StreamedClass {
        dtype: c.dtype,
        math,
        block,
        sizes,
        batch: p.batch.len() as u8,
        along,
        fed: by_boxes.as_ref().map(|all| all.each_ref().map(|b| b.0.class())),
        points: of_points,
        // The causal offset is an argument word, and not part of the class.
        seen: seen.as_ref().map(|(n, s)| {
            let body = expand(&widen_sums(&s.body, Some(points[*n].1)), &|op, dtype| target.is_native(op, dtype));
            (*n as u8, CausalMask { ahead: 0, body, ..s.clone() })
        }),
        once,
        result: (result.class(), sums_operand(c)),
    };
    if class.shared() > target.chip().shared {
        return None;
    }
    let slots = StreamedSlots::new(&class);
    let mut words = vec![0u64; slots.end];
    let tall = p.m.div_ceil(class.rows() as usize);
    words[..5].copy_from_slice(&[p.m, p.n, p.k, q.k, tall].map(|v| v as u64));
    words[6] = g.batches() as u64;
    for (i, (outer, inner)) in p.batch.iter().zip(&q.batch).enumerate() {
        let [w, s] = divisor(outer.0.max(1));
        let far = match &by_boxes {
            Some(all) => all.each_ref().map(|b| b.0.far[i] as u64),
            None => [inner.1, inner.2, outer.2].map(|far| far as u64),
        };
        words[HEAD + 5 * i..][..5].copy_from_slice(&[w, s, far[0], far[1], far[2]]);
    }
    if let Some((_, seen)) = &seen {
        words[slots.ahead] = seen.ahead as u64;
    }
    let mut patches = vec![];
    for (n, (lies, operand)) in [(lies(q, false), 0), (lies(q, true), 1), (lies(p, true), values)].iter().enumerate() {
        let (at, first) = (slots.factors[n], lies.first as i64 * size as i64);
        match &by_boxes {
            Some(all) => {
                let (factor, map) = &all[n];
                factor.fill(at, &mut words);
                words[slots.maps[n]..][..MAP_WORDS].copy_from_slice(map);
                patches.push((slots.maps[n], Word::Map(*operand, first)));
            }
            None => {
                patches.push((at, Word::Operand(*operand, first)));
                words[at + 1] = lies.pitch(along[n]) as u64;
            }
        }
        plan.needs.extend(lies.reach.map(|(_, high)| (*operand, (high + 1) * size)));
    }
    for ((part, _), slots) in points.iter().zip(&slots.points) {
        part.fill(slots, &mut words, &mut plan, &mut patches);
    }
    if let Some((body, _)) = &class.once {
        patches.extend((0..body.scalars).map(|s| (slots.once[0] + s as usize, Word::Scalar(s + scalars))));
        let mut own = vec![];
        add_reciprocals(&mut own, slots.once[1], body);
        patches.extend(own.into_iter().map(|(at, word)| match word {
            Word::Reciprocal(s, wide) => (at, Word::Reciprocal(s + scalars, wide)),
            other => (at, other),
        }));
    }
    result.fill(&slots.result, &mut words, &mut plan, &mut patches);
    if plan.checked {
        patches.push((5, Word::Fault));
    }
    plan.moved = moved(
        (c, g),
        of_inner,
        &points,
        &result,
        (class.rows() as usize, seen.filter(|s| s.1.moved.is_none()).map(|s| s.1.ahead)),
    );
    let (block, shared, stays) = (class.threads(), class.shared(), class.block.stays);
    let all = tall * g.batches();
    let grid = [blocks(if stays { all.min(target.chip().multiprocessors as usize) } else { all }, 1), 1, 1];
    let kernel = Arc::new(Skeleton::Streamed(Box::new(class)));
    plan.stages.push(Draft { kernel, grid, block, shared, words, patches });
    Some(plan)
}

impl StreamedBlock {
    /// One whose rows, keys and values are copied by boxes, of so many tiles of so many rows; `loads` are the bytes that
    /// each score reads beside them, which wait in registers. Where there are enough tiles, blocks stay and share keys
    /// among two warpgroups or, where there is room in the registers and their 64 more rows do not leave multiprocessors
    /// without work, three. Else blocks of one warpgroup, side by side, hide each other's steps.
    fn fed(sizes: [u32; 2], loads: usize, tiles: &dyn Fn(usize) -> usize, chip: &Chip) -> StreamedBlock {
        let narrow = sizes.iter().all(|&n| n <= 64);
        let room = loads == 0 || narrow && loads <= 4;
        if !room || !is_busy(tiles(128), chip) {
            return StreamedBlock { warps: 4, keys: 64, blocks: if narrow { 3 } else { 2 }, stays: false };
        }
        let rounds = |rows: usize| tiles(rows).div_ceil(chip.multiprocessors as usize);
        let percent = &TUNABLES.three_warpgroups_percent;
        let pays = || percent.side(percent.get() * rounds(192) <= 100 * rounds(128));
        let three = narrow && loads == 0 && pays();
        StreamedBlock { warps: if three { 12 } else { 8 }, keys: 128, blocks: 1, stays: true }
    }

    /// A block in which all threads copy. Measured on an H200: blocks of four warps, three of them per multiprocessor,
    /// hide each other's latency.
    fn unfed(math: Math, many: bool) -> StreamedBlock {
        match (math, many) {
            (Math::Warpgroup, _) => StreamedBlock { warps: 4, keys: 64, blocks: 3, stays: false },
            (_, true) => StreamedBlock { warps: 8, keys: 64, blocks: 1, stays: false },
            (_, false) => StreamedBlock { warps: 4, keys: 64, blocks: 2, stays: false },
        }
    }

    /// Lines and terms per copy, of rows, keys and values.
    fn boxes(&self, [depth, columns]: [u32; 2]) -> [[u32; 2]; 3] {
        [[16 * self.warps, depth], [self.keys, depth], [columns, self.keys]]
    }
}

/// Rows, keys and values with their tensor maps, for boxes of so many lines and terms. `None` where layouts differ, or
/// the driver cannot encode the maps.
fn boxes(
    c: &Contraction,
    (p, q): (&MatmulGeometry, &MatmulGeometry),
    (values, along): (u16, [bool; 3]),
    counts: [[u32; 2]; 3],
    target: &dyn Target,
) -> Option<[(Factor, [u64; MAP_WORDS]); 3]> {
    let one = |n: usize| {
        let (lies, operand, lines, terms) = match n {
            0 => (lies(q, false), 0, q.m, q.k),
            1 => (lies(q, true), 1, q.n, q.k),
            _ => (lies(p, true), values, p.n, p.k),
        };
        let sizes = if n == 2 { &p.batch } else { &q.batch };
        let products: Vec<_> = sizes.iter().map(|d| d.0).zip(lies.batch.iter().copied()).collect();
        let factor = Factor::in_memory(operand, lies.first, [(terms, lies.term), (lines, lies.line)], &products)?;
        if factor.along != along[n] {
            return None;
        }
        let map = target.map(&factor.map(c.dtype, counts[n])?)?;
        Some((factor, map))
    };
    Some([one(0)?, one(1)?, one(2)?])
}

/// Memory traffic: each block of rows reads all keys and values that it sees, everything else is read once.
fn moved(
    (c, g): (&Contraction, &ContractionGeometry),
    of_inner: &ContractionGeometry,
    points: &[(Part, u16)],
    result: &Part,
    (rows, ahead): (usize, Option<i64>),
) -> Moved {
    let (p, q, size) = (&g.product, &of_inner.product, c.dtype.size());
    let seen = |tile: usize| match ahead {
        Some(ahead) => ((tile + 1) * rows) as i64 + ahead - 1,
        None => p.k as i64,
    };
    let keys: i64 = (0..p.m.div_ceil(rows)).map(|tile| seen(tile).clamp(0, p.k as i64)).sum();
    let factors = g.batches() * (p.m * q.k + keys as usize * (q.k + p.n)) * size;
    let mut all = Moved { read: factors as u64, ..Moved::default() };
    for (part, sums) in points.iter().map(|(part, sums)| (part, *sums)).chain([(result, sums_operand(c))]) {
        all.read += part.read(Some(sums));
    }
    all.written += traffic::map(&result.body, &result.geometry.extents, &result.geometry.accesses).written;
    all
}
