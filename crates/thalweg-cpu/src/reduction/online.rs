//! Online reduction of rows beyond the caches whose second pass follows from the first by a rescaling identity
//! ([`thalweg_kernel::online`], as in online softmax): both passes run on each block while it is in the nearest cache,
//! so the row is read from memory once.
//!
//! Within a block, the first pass's partial values stand in for those of the row. Phases between the passes that run
//! once per row run once per block, on the thread's own values; their stores go to a dummy word. After all blocks, the
//! first pass's folds are combined in the normative order, the phases that run once per row run with the results, and
//! the rescaling identities give the second pass's folds.
//!
//! Always true: blocks are those of the layout and are combined in their order, so bits do not depend on threads.

use super::inner_axis_call::InnerReductionLaunch;
use super::layout::{Block, Layout};
use super::passes::{Chunk, Kernel};
use super::tables::Tables;
use crate::engine::{Choice, InnerReductionEngine};
use crate::prepare::prepare;
use crate::row_call::ACCESS_WORDS;
use crate::tunable::TUNABLES;
use thalweg_ir::{DType, Scalar};
use thalweg_kernel::{
    AccessClass, BlockResult, Body, LOWER, OnlineFold, OnlinePasses, Phases, Rescaling, Shift, chosen, online_passes,
    order, with_lower_moments,
};
use thalweg_runtime::{Error, ProgramInfo};

/// Number of result words of a block per rescaling identity: the second pass's fold, the shift, and the lower moments.
const ONLINE_WORDS: usize = 2 + LOWER;

/// Row body compiled with the additional folds (lower moments) that its rescaling identities need.
pub struct OnlineProgram {
    pub engine: InnerReductionEngine,
    pub online: OnlinePasses,
}

impl OnlineProgram {
    /// Compiles a body. `None` if the body has no rescaling identities, or if it would run on another engine than the
    /// variant without them, whose information is `plain`.
    pub fn new(body: &Body, choice: Choice, plain: &ProgramInfo) -> Option<OnlineProgram> {
        let own = body.folds.len();
        let body = with_lower_moments(&prepare(body));
        // In the form that the engine compiles.
        let prepared = prepare(&body);
        let phases = thalweg_kernel::phases(&prepared, false);
        let online = online_passes(&prepared, &phases, own)?;
        let engine = InnerReductionEngine::new(&body, choice, false);
        (engine.info().engine == plain.engine).then_some(OnlineProgram { engine, online })
    }
}

/// Whether an online reduction may and should run: the body permits other orders, and rows are so long that a second
/// pass would read them from memory again.
pub fn pays(body: &Body, layout: &Layout<'_>) -> bool {
    let loads = |number: usize| !body.stores.iter().any(|s| s.access as usize == number);
    let moves = |number: &usize| {
        let a = &body.accesses[*number];
        a.operand.is_some() && !a.per_row && a.class != AccessClass::Uniform && loads(*number)
    };
    let bytes: usize = (0..body.accesses.len()).filter(moves).map(|i| body.accesses[i].dtype.size()).sum();
    !body.strict
        && body.combined.is_empty()
        && TUNABLES.min_online_run.reached_by(layout.n)
        && !TUNABLES.max_private_row.admits(layout.row.saturating_mul(bytes))
}

/// Number of result words of a block: one for each fold of the first pass, then [`ONLINE_WORDS`] for each rescaling
/// identity.
pub fn words(phases: &Phases, online: &OnlinePasses) -> usize {
    phases.list[online.phases.start].body.folds.len() + ONLINE_WORDS * online.list.len()
}

/// Reads a value of a row by its slot, in the form of [`Scalar::to_bits`].
///
/// # Safety
/// There is a word for each slot.
unsafe fn value(values: *const u8, slot: u16, dtype: DType) -> u64 {
    // SAFETY: the caller's promise. Only the lower half is written for 4-byte values.
    unsafe {
        let at = values.cast::<u64>().add(slot as usize);
        if dtype.size() == 4 { at.cast::<u32>().read() as u64 } else { at.read() }
    }
}

/// Runs both passes, and the phases between them, on one block, and writes the block's result words.
///
/// # Safety
/// As for [`Kernel::run_fused_block`].
pub unsafe fn block(
    along: &InnerReductionLaunch<'_>,
    online: &OnlinePasses,
    block: Block,
    chunk: Chunk,
    (args, tables): (&mut Vec<u64>, &mut Tables),
    out: *mut u64,
) -> Result<(), Error> {
    let (phases, first) = (along.phases, online.phases.start);
    let values = phases.values.len();
    // SAFETY: as in `InnerReductionLaunch::block`. Per-row stores have one element, which fits the last word of the
    // thread's memory.
    unsafe {
        std::ptr::copy_nonoverlapping(chunk.memory, chunk.own, 8 * values);
        along.args((chunk.number, block, block.len), None, chunk.memory, chunk.own, (args, tables));
        for store in online.phases.clone().flat_map(|p| &phases.list[p].body.stores) {
            args[ACCESS_WORDS * store.access as usize] = chunk.own.add(8 * values) as u64;
        }
        along.call(args, block.len, 1, first..first + 1)?;
        let body = &phases.list[first].body;
        for (f, fold) in body.folds.iter().enumerate() {
            out.add(f).write(value(chunk.own, fold.slot, body.dtype(fold.node)));
        }
        let sizes = (block.len, along.layout.row);
        let put = &mut |slot: u16, bits: u64| chunk.own.cast::<u64>().add(slot as usize).write(bits);
        online.localise(body, sizes, &|slot, dtype| value(chunk.own, slot, dtype), put);
        // In its last pass, the code prefetches the next row. Here that is the next block.
        for (line, words) in along.layout.lines.iter().zip(args.chunks_exact_mut(ACCESS_WORDS)) {
            words[1] = line.point.wrapping_mul(block.len as i64) as u64;
        }
        along.call(args, block.len, 1, first + 1..online.phases.end)?;
        for (l, rescaled) in online.list.iter().enumerate() {
            let to = out.add(body.folds.len() + ONLINE_WORDS * l);
            to.write(value(chunk.own, rescaled.second, rescaled.dtype));
            to.add(1).write(value(chunk.own, rescaled.shift, rescaled.shift_dtype));
            for (q, slot) in lower(rescaled).iter().enumerate() {
                to.add(2 + q).write(slot.map_or(0, |slot| value(chunk.own, slot, rescaled.dtype)));
            }
        }
    }
    Ok(())
}

/// Combines the result words of a row's blocks, and sets the results as values of the row.
///
/// # Safety
/// As for [`Kernel::resolve`].
pub unsafe fn resolve(
    along: &InnerReductionLaunch<'_>,
    online: &OnlinePasses,
    chunk: Chunk,
    results: *const u64,
    (args, tables): (&mut Vec<u64>, &mut Tables),
) -> Result<(), Error> {
    let (phases, layout, words) = (along.phases, along.layout, words(along.phases, online));
    let body = &phases.list[online.phases.start].body;
    for (f, fold) in body.folds.iter().enumerate() {
        let mut tree = order::Tree::new(fold.op, body.dtype(fold.node));
        for b in 0..layout.blocks() {
            // SAFETY: every block has written its words.
            tree.push(unsafe { results.add(b * words + f).read() });
        }
        let bits = tree.take();
        // SAFETY: a word holds any element; a 4-byte one is in its lower half.
        unsafe { along.set(fold.slot, chunk, (&raw const bits).cast()) };
    }
    for once in online.phases.start + 1..online.phases.end - 1 {
        // SAFETY: the values that it needs are set.
        unsafe { along.once(once, chunk, (args, tables))? };
    }
    for (l, rescaled) in online.list.iter().enumerate() {
        let left = |b: usize| {
            let at = b * words + body.folds.len() + ONLINE_WORDS * l;
            // SAFETY: as above.
            move |w: usize| unsafe { results.add(at + w).read() }
        };
        // SAFETY: there is a word for each slot.
        let value = |slot: u16, dtype: DType| unsafe { value(chunk.memory, slot, dtype) };
        let bits = match rescaled.how {
            Rescaling::Chosen { op, .. } => {
                let shift = (value(rescaled.shift, rescaled.shift_dtype), rescaled.shift_dtype);
                chosen(op, rescaled.dtype, shift, (0..layout.blocks()).map(|b| (left(b)(1), left(b)(0))))
            }
            Rescaling::Shifted { .. } => {
                let parts: Vec<BlockResult> =
                    (0..layout.blocks()).map(|b| part(rescaled, layout.block(b).len as f64, &left(b))).collect();
                shifted(rescaled, &parts, &value, along.scalars)
            }
        };
        // SAFETY: as above.
        unsafe { along.set(rescaled.second, chunk, (&raw const bits).cast()) };
    }
    Ok(())
}

fn lower(rescaled: &OnlineFold) -> &[Option<u16>] {
    match &rescaled.how {
        Rescaling::Shifted { lower, .. } => lower,
        Rescaling::Chosen { .. } => &[],
    }
}

/// Result of a centred sum over one block of `points` points, decoded from the block's result words.
fn part(rescaled: &OnlineFold, points: f64, left: &dyn Fn(usize) -> u64) -> BlockResult {
    let float = |word: usize| Scalar::from_bits(left(word), rescaled.dtype).to_f64();
    let mut part = BlockResult { points, shift: float(1), result: float(0), ..BlockResult::default() };
    for (q, slot) in lower(rescaled).iter().enumerate() {
        part.lower[q] = if slot.is_some() { float(2 + q) } else { points };
    }
    part
}

/// Merges the block results of a centred sum `Σ w·(x - m)^p·e^(a·(x - m))` (variance, softmax denominator) into the
/// row's result. `value` returns the row's values, such as `m`.
fn shifted(rescaled: &OnlineFold, parts: &[BlockResult], value: &dyn Fn(u16, DType) -> u64, scalars: &[u64]) -> u64 {
    let float = |slot: u16| Scalar::from_bits(value(slot, rescaled.dtype), rescaled.dtype).to_f64();
    let total = match rescaled.how {
        Rescaling::Shifted { from: Shift::Mean(first), .. } => float(first),
        _ => 0.0,
    };
    Scalar::Float(rescaled.whole(parts, total, float(rescaled.shift), scalars)).to_bits(rescaled.dtype)
}
