//! Random tile kernels: GEMMs, transposes, reductions and user-defined reductions of tiles, with functions of elements
//! between them, over batches, between other operations.
//!
//! Input: a seed. By the interpreter a kernel has the bits of its results on numbers, batch by batch; the recorded
//! operations form a program like any other. Invariant: an instruction takes tiles of matching sizes, which are known
//! when it is drawn.

use super::{after, before, input, record_program};
use crate::check::{Checker, ExtraChecks};
use crate::program::{Input, Program};
use fastrand::Rng;
use thalweg::kernel::{Call, Mask, Over, Plain, Prepared, Real, Take, Tile, compare, select, to_real};
use thalweg::{Element, Operand, Scalar, Tensor};
use thalweg_ir::{DType, ElementOp, Shape};

/// Instruction of a tile kernel: computes the next tile from earlier ones, which are given by index.
#[derive(Clone, Copy, Debug)]
enum Instruction {
    /// Product of two tiles, each optionally transposed.
    Dot([usize; 2], [bool; 2]),
    Transposed(usize),
    /// Sum, maximum or minimum along an axis.
    Reduced(usize, usize, usize),
    /// Operator on two tiles that broadcast.
    Operator(usize, [usize; 2]),
    /// Function of each element alone, of the element and its index, or of the element and a bool, which may broadcast.
    Map(usize, usize),
    Placed(usize),
    Masked(usize),
    /// Operator on a tile and a number, on either side.
    Number(usize, usize, bool),
    /// User-defined reduction along an axis by a combine of two numbers.
    Fold(usize, usize),
}

/// Random tile kernel with its arguments.
#[derive(Debug)]
struct Case {
    dtype: DType,
    code: Vec<Instruction>,
    /// Sizes of the tile operands: three of floats and one of bools.
    sizes: [[usize; 2]; 4],
    /// Operands: the tiles, and one number per batch.
    inputs: Vec<Input>,
    batches: Vec<usize>,
    scalar: f64,
    around: [usize; 2],
    /// Cache of the kernel's calls: all calls but the first are recorded at once, if possible.
    known: Prepared,
}

fn broadcast(a: [usize; 2], b: [usize; 2]) -> Option<[usize; 2]> {
    let one = |a: usize, b: usize| (a == b || b == 1).then_some(a).or((a == 1).then_some(b));
    Some([one(a[0], b[0])?, one(a[1], b[1])?])
}

impl Case {
    fn new(seed: u64) -> Case {
        let mut rng = Rng::with_seed(seed);
        let dtype = if rng.usize(..3) == 0 { DType::F64 } else { DType::F32 };
        let most = if rng.usize(..8) == 0 { 70 } else { 12 };
        let (a, b) = (rng.usize(1..most), rng.usize(1..most));
        // Sizes repeat, so that some tiles can be multiplied.
        let size = |rng: &mut Rng| [a, b, b, 1][rng.usize(..4)];
        let mut tiles =
            [[a, b], [b, size(&mut rng)], [size(&mut rng), size(&mut rng)], [size(&mut rng), size(&mut rng)]];
        if rng.usize(..60) == 0 {
            tiles[0][1] = 0;
            tiles[1][0] = 0;
        }
        let batches: Vec<usize> = (0..[0, 0, 1, 1, 2][rng.usize(..5)]).map(|_| rng.usize(1..4)).collect();
        let of = |rng: &mut Rng, sizes: &[usize]| {
            let own: Vec<usize> = batches.iter().map(|&d| if rng.usize(..4) == 0 { 1 } else { d }).collect();
            let from = if rng.usize(..3) == 0 { rng.usize(..=own.len()) } else { 0 };
            Shape::new(&own[from..].iter().chain(sizes).copied().collect::<Vec<_>>())
        };
        let mut inputs: Vec<Input> = tiles
            .iter()
            .enumerate()
            .map(|(i, sizes)| {
                let dtype = if i == 3 { DType::Bool } else { dtype };
                // The first operand has all batches.
                let shape = match i {
                    0 => Shape::new(&batches.iter().chain(sizes).copied().collect::<Vec<_>>()),
                    // A tile with one row may have one dimension.
                    2 if sizes[0] == 1 && rng.bool() => Shape::new(&sizes[1..]),
                    _ => of(&mut rng, sizes),
                };
                input(&mut rng, dtype, shape)
            })
            .collect();
        let once = of(&mut rng, &[]);
        inputs.push(input(&mut rng, dtype, once));
        let (mut sizes, mut code) = (tiles[..3].to_vec(), vec![]);
        while code.len() < rng.usize(2..12) {
            let Some((next, made)) = instruction(&mut rng, &sizes, tiles[3]) else { continue };
            code.push(next);
            sizes.push(made);
        }
        let around = [rng.usize(..4), rng.usize(..4)];
        Case {
            dtype,
            code,
            sizes: tiles,
            inputs,
            batches,
            scalar: rng.f64() * 4.0 - 2.0,
            around,
            known: Prepared::new(),
        }
    }

    /// Runs the kernel on one batch; returns its last tiles.
    fn run<F: Real>(&self, tiles: [Tile<F>; 3], mask: &Tile<F, Mask<F>>, once: F, s: F) -> [Tile<F>; 3] {
        let mut all = tiles.to_vec();
        for instruction in &self.code {
            let next = match *instruction {
                Instruction::Dot([x, y], [first, second]) => {
                    let of = |i: usize, transposed: bool| if transposed { all[i].t() } else { all[i].clone() };
                    of(x, first).dot(&of(y, second))
                }
                Instruction::Transposed(x) => all[x].t(),
                Instruction::Reduced(which, x, axis) => match which {
                    0 => all[x].max(axis),
                    1 => all[x].min(axis),
                    _ => all[x].sum(axis),
                },
                Instruction::Operator(which, [x, y]) => match which {
                    0 => &all[x] + &all[y],
                    1 => &all[x] - &all[y],
                    2 => &all[x] * &all[y],
                    _ => all[x].zip(&all[y]).map(|(x, y)| x.max(y)),
                },
                Instruction::Map(which, x) => match which {
                    0 => all[x].map(|x| x.tanh()),
                    1 => all[x].map(|x| (-x * x).exp()),
                    2 => all[x].map(|x| select::<F, _, _, _>(compare(ElementOp::Gt, x, once), || x * s, || once)),
                    _ => -&all[x],
                },
                Instruction::Placed(x) => all[x].zip(&all[x].places()).map(|(x, (i, j))| {
                    let later: Mask<F> = compare(ElementOp::Gt, j, i);
                    select::<F, _, _, _>(later, || F::lit(0.0), || x * to_real::<F>(i - j))
                }),
                Instruction::Masked(x) => {
                    all[x].zip(mask).map(|(x, on)| select::<F, _, _, _>(on, || x, || F::lit(0.25)))
                }
                Instruction::Number(which, x, left) => match (which, left) {
                    (0, false) => &all[x] * s,
                    (0, true) => thalweg::kernel::Left(s) - &all[x],
                    (_, false) => &all[x] - once,
                    (_, true) => thalweg::kernel::Left(once) * &all[x],
                },
                Instruction::Fold(x, axis) => {
                    let (zero, least) = (F::lit(0.0), F::lit(f64::NEG_INFINITY));
                    let both = all[x].map(|x| (x, F::lit(1.0))).fold(axis, (least, zero), |(m1, s1), (m2, s2)| {
                        let m = m1.max(m2);
                        (m, s1 * (m1 - m).exp() + s2 * (m2 - m).exp())
                    });
                    both.map(|(m, s)| m + s.ln())
                }
            };
            all.push(next);
        }
        let last = all.len() - 1;
        [last, last - 1, 3].map(|i| all[i].clone())
    }

    /// Calls the kernel on tensors.
    fn on(&self, x: &[Tensor]) -> [Tensor; 3] {
        let operands = [
            ("x", Take::Tile, Operand::Tensor(&x[0])),
            ("y", Take::Tile, Operand::Tensor(&x[1])),
            ("z", Take::Tile, Operand::Tensor(&x[2])),
            ("mask", Take::MaskTile, Operand::Tensor(&x[3])),
            ("once", Take::Number, Operand::Tensor(&x[4])),
            ("s", Take::Number, Operand::Scalar(Scalar::Float(self.scalar))),
        ];
        Call::cached(&self.known, Over::Tiles, Some(&Plain::new()), "random", &operands, |call| {
            let tiles = [0, 1, 2].map(|i| call.tile(i));
            self.run(tiles, &call.mask_tile(3), call.number(4), call.number(5))
        })
    }

    /// Runs the kernel on numbers; returns the elements of the results of each batch.
    fn on_numbers<T: Real<RawInt = i32, RawMask = bool> + Element + Into<f64>>(
        &self,
        x: &[Tensor],
    ) -> Result<Vec<[Vec<f64>; 3]>, thalweg::Error> {
        let whole = |i: usize| -> Shape {
            let sizes: &[usize] = if i < 4 { &self.sizes[i] } else { &[] };
            Shape::new(&self.batches.iter().chain(sizes).copied().collect::<Vec<_>>())
        };
        let [a, b, c, once] = [0, 1, 2, 4].map(|i| x[i].broadcast_to(whole(i)).to_vec::<T>());
        let (all, once, mask) = ([a?, b?, c?], once?, x[3].broadcast_to(whole(3)).to_vec::<bool>()?);
        let one = |batch: usize| {
            let part = |i: usize| {
                let n = self.sizes[i].iter().product::<usize>();
                batch * n..(batch + 1) * n
            };
            let tiles = [0, 1, 2].map(|i| Tile::new(all[i][part(i)].iter().copied(), self.sizes[i]));
            let mask = Tile::new(mask[part(3)].iter().copied(), self.sizes[3]);
            let results = self.run(tiles, &mask, once[batch], T::lit(self.scalar));
            results.map(|tile| tile.elements().iter().map(|&x| x.into()).collect())
        };
        Ok((0..once.len()).map(one).collect())
    }
}

/// Random instruction on tiles of these sizes, if it applies, and the sizes of its result.
fn instruction(rng: &mut Rng, sizes: &[[usize; 2]], mask: [usize; 2]) -> Option<(Instruction, [usize; 2])> {
    let (x, y) = (rng.usize(..sizes.len()), rng.usize(..sizes.len()));
    let own = sizes[x];
    let without = |axis: usize| {
        let mut own = own;
        own[axis] = 1;
        own
    };
    Some(match rng.usize(..12) {
        0..3 => {
            let transposed = [rng.bool(), rng.bool()];
            let of = |[n, m]: [usize; 2], t: bool| if t { [m, n] } else { [n, m] };
            let ([n, k], [rows, m]) = (of(own, transposed[0]), of(sizes[y], transposed[1]));
            (k == rows).then_some((Instruction::Dot([x, y], transposed), [n, m]))?
        }
        3 => (Instruction::Transposed(x), [own[1], own[0]]),
        4 | 5 => {
            let (which, axis) = (rng.usize(..4), rng.usize(..2));
            (own[axis] > 0 || which > 1).then_some((Instruction::Reduced(which, x, axis), without(axis)))?
        }
        6 | 7 => (Instruction::Operator(rng.usize(..4), [x, y]), broadcast(own, sizes[y])?),
        8 => (Instruction::Map(rng.usize(..4), x), own),
        9 => match rng.bool() {
            true => (Instruction::Placed(x), own),
            false => (Instruction::Masked(x), broadcast(own, mask)?),
        },
        10 => (Instruction::Number(rng.usize(..2), x, rng.bool()), own),
        _ => {
            let axis = rng.usize(..2);
            (own[axis] > 0).then_some((Instruction::Fold(x, axis), without(axis)))?
        }
    })
}

fn recorded(case: &Case, x: &[Tensor]) -> Result<Program, String> {
    let made = |x: &[Tensor]| {
        let [y, z, first] = case.on(x);
        (after(&y, case.around[1]), vec![z, first])
    };
    record_program(&case.inputs, x, &|i, x| before(x, case.around[0] + i), &made)
}

/// Program recorded by a call of a seed's tile kernel between other operations, to be differentiated.
pub fn program(checker: &Checker, seed: u64) -> Result<Program, String> {
    let case = Case::new(seed);
    recorded(&case, &super::tensors(checker, &case.inputs)?)
}

/// Checks the tile kernel of a seed against the interpreter, in every mode.
pub fn check(checker: &Checker, seed: u64, ways: ExtraChecks) -> Result<(), String> {
    let case = Case::new(seed);
    let told = |why: String| format!("{why}\n{:?}", (case.dtype, &case.batches, &case.sizes, &case.code));
    let x = super::tensors(checker, &case.inputs)?;
    // The first call is traced, the second one comes from the cache.
    by_numbers(&case, &x).map_err(told)?;
    by_numbers(&case, &x).map_err(|why| told(format!("called again: {why}")))?;
    let recorded = recorded(&case, &x).map_err(told)?;
    let ways = ExtraChecks { plans: ways.plans && recorded.steps.len() < 60, ..ways };
    checker.check(&recorded, ways).map_err(|why| told(format!("{why}\nas recorded:\n{}", recorded.listing())))
}

/// Checks that the interpreter gives the same bits as the kernel run on numbers.
fn by_numbers(case: &Case, x: &[Tensor]) -> Result<(), String> {
    let failed = |e: thalweg::Error| e.to_string();
    let got = thalweg::with_reference(|| {
        let [y, z, first] = case.on(x).map(|t| t.to_f64_vec());
        Ok::<_, thalweg::Error>([y?, z?, first?])
    })
    .map_err(failed)?;
    let want = match case.dtype {
        DType::F32 => case.on_numbers::<f32>(x),
        _ => case.on_numbers::<f64>(x),
    };
    for (batch, want) in want.map_err(failed)?.into_iter().enumerate() {
        for (r, want) in want.into_iter().enumerate() {
            let got = &got[r][batch * want.len()..];
            for (p, want) in want.iter().enumerate() {
                if got[p].to_bits() != want.to_bits() && !(got[p].is_nan() && want.is_nan()) {
                    return Err(format!("batch {batch}, result {r} at {p}: {} on tensors, {want} on numbers", got[p]));
                }
            }
        }
    }
    Ok(())
}
