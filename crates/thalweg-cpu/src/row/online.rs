//! Rows beyond the caches whose second pass follows from the first by a rescaling identity
//! ([`thalweg_kernel::online`]): both run on each block while it is in the nearest cache, so the row is read from
//! memory once.
//!
//! In a block the values that the first pass gave stand for those of the row; what runs once a row between the passes
//! runs once a block, on the thread's own values, and what it would store goes to a word that nobody reads. When all
//! blocks have run, the first pass's folds are put together in the normative order, what runs once a row runs with
//! them, and the second pass's folds follow by the rescaling identities.
//!
//! Always true: blocks are those of the layout and are put together in their order, so threads make no difference.

use super::along_call::Along;
use super::layout::{Block, Layout, Tables};
use super::passes::{Chunk, Kernel};
use crate::engine::{AlongEngine, Choice};
use crate::memory::PRIVATE;
use crate::prepare::prepare;
use crate::row_call::ACCESS_WORDS;
use thalweg_ir::{DType, Scalar};
use thalweg_kernel::{AccessClass, Body, OnlinePasses, Part, Phases, online_passes, order, with_residuals};
use thalweg_runtime::{Error, ProgramInfo};

/// Elements of a run below which blocks are too short to be put together one by one.
const LEAST_RUN: usize = 1024;
/// Words that a block leaves of a rescaling identity.
const ONLINE_WORDS: usize = 3;

/// A body compiled with what its rescaling identities need.
pub struct OnlineProgram {
    pub engine: AlongEngine,
    pub online: OnlinePasses,
}

impl OnlineProgram {
    /// None where the body has no rescaling identities, or where no code is emitted for it though it is for the body as
    /// it was (`plain`).
    pub fn new(body: &Body, choice: Choice, plain: &ProgramInfo) -> Option<OnlineProgram> {
        let body = with_residuals(&prepare(body));
        // As the engine will see it.
        let prepared = prepare(&body);
        let phases = thalweg_kernel::phases(&prepared, false);
        let online = online_passes(&prepared, &phases)?;
        let engine = AlongEngine::new(&body, choice, false);
        (engine.info().engine == plain.engine).then_some(OnlineProgram { engine, online })
    }
}

/// Whether rows are so long that a second pass would read them from memory again.
pub fn pays(body: &Body, layout: &Layout<'_>) -> bool {
    let loads = |number: usize| !body.stores.iter().any(|s| s.access as usize == number);
    let moves = |number: &usize| {
        let a = &body.accesses[*number];
        a.operand.is_some() && !a.per_row && a.class != AccessClass::Uniform && loads(*number)
    };
    let bytes: usize = (0..body.accesses.len()).filter(moves).map(|i| body.accesses[i].dtype.size()).sum();
    !body.strict && layout.n >= LEAST_RUN && layout.row.saturating_mul(bytes) > PRIVATE
}

/// Words that a block leaves: the first pass's folds, then of each rescaling identity the fold, the shift and the
/// residual.
pub fn words(phases: &Phases, online: &OnlinePasses) -> usize {
    phases.list[online.phases.start].body.folds.len() + ONLINE_WORDS * online.list.len()
}

/// A value of a row, in the form of [`Scalar::to_bits`].
///
/// # Safety
/// There is a word for each slot.
unsafe fn value(values: *const u8, slot: u16, dtype: DType) -> u64 {
    // SAFETY: the caller's promise. Of 4-byte values only the lower half is written.
    unsafe {
        let at = values.cast::<u64>().add(slot as usize);
        if dtype.size() == 4 { at.cast::<u32>().read() as u64 } else { at.read() }
    }
}

/// Runs both passes of a block.
///
/// # Safety
/// As [`Kernel::blocks_together`].
pub unsafe fn block(
    along: &Along<'_>,
    online: &OnlinePasses,
    block: Block,
    chunk: Chunk,
    (args, tables): (&mut Vec<u64>, &mut Tables),
    out: *mut u64,
) -> Result<(), Error> {
    let (phases, first) = (along.phases, online.phases.start);
    let values = phases.values.len();
    // SAFETY: as in `Along::block`. Stores of what runs once a row are of one element, which has room in the last word
    // of the thread's memory.
    unsafe {
        std::ptr::copy_nonoverlapping(chunk.memory, chunk.own, 8 * values);
        along.args(chunk.number, block, block.len, chunk.memory, chunk.own, (args, tables));
        for store in online.phases.clone().flat_map(|p| &phases.list[p].body.stores) {
            args[ACCESS_WORDS * store.access as usize] = chunk.own.add(8 * values) as u64;
        }
        along.call(args, block.len, 1, first..first + 1)?;
        let body = &phases.list[first].body;
        for (f, fold) in body.folds.iter().enumerate() {
            out.add(f).write(value(chunk.own, fold.slot, body.dtype(fold.node)));
        }
        for (l, rescaled) in online.list.iter().enumerate() {
            // Several rescaling identities may share the earlier fold, whose value is the same for all of them.
            if online.list[..l].iter().all(|other| other.first != rescaled.first) {
                let own = value(chunk.own, rescaled.first, rescaled.dtype);
                let local = rescaled.local(own, block.len, along.layout.row);
                chunk.own.cast::<u64>().add(rescaled.first as usize).write(local);
            }
        }
        // This code asks for the next row while it passes one again. Here that is the next block.
        for (line, words) in along.layout.lines.iter().zip(args.chunks_exact_mut(ACCESS_WORDS)) {
            words[1] = line.point.wrapping_mul(block.len as i64) as u64;
        }
        along.call(args, block.len, 1, first + 1..online.phases.end)?;
        for (l, rescaled) in online.list.iter().enumerate() {
            let to = out.add(body.folds.len() + ONLINE_WORDS * l);
            to.write(value(chunk.own, rescaled.second, rescaled.dtype));
            to.add(1).write(value(chunk.own, rescaled.shift, rescaled.dtype));
            to.add(2).write(rescaled.residual.map_or(0, |r| value(chunk.own, r, rescaled.dtype)));
        }
    }
    Ok(())
}

/// Puts the blocks of a row together.
///
/// # Safety
/// As [`Kernel::resolve`].
pub unsafe fn resolve(
    along: &Along<'_>,
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
            // SAFETY: every block has left so many words.
            tree.push(unsafe { results.add(b * words + f).read() });
        }
        let bits = tree.take();
        // SAFETY: a word holds any element, the lower half of it one of 4 bytes.
        unsafe { along.set(fold.slot, chunk, (&raw const bits).cast()) };
    }
    for once in online.phases.start + 1..online.phases.end - 1 {
        // SAFETY: the values that it needs are there.
        unsafe { along.once(once, chunk, (args, tables))? };
    }
    for (l, rescaled) in online.list.iter().enumerate() {
        let float = |bits: u64| Scalar::from_bits(bits, rescaled.dtype).to_f64();
        let part = |b: usize| {
            // SAFETY: as above.
            let word = |w: usize| unsafe { results.add(b * words + body.folds.len() + ONLINE_WORDS * l + w).read() };
            let [result, shift, residual] = [0, 1, 2].map(|w| float(word(w)));
            Part { points: layout.block(b).len as f64, shift, result, residual }
        };
        let parts: Vec<Part> = (0..layout.blocks()).map(part).collect();
        // SAFETY: a word for each slot.
        let [first, shift] =
            [rescaled.first, rescaled.shift].map(|slot| float(unsafe { value(chunk.memory, slot, rescaled.dtype) }));
        let bits = Scalar::Float(rescaled.whole(&parts, first, shift)).to_bits(rescaled.dtype);
        // SAFETY: as above.
        unsafe { along.set(rescaled.second, chunk, (&raw const bits).cast()) };
    }
    Ok(())
}
