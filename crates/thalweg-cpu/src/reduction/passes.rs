//! Execution of row kernels phase by phase.
//!
//! In: a kernel ([`Kernel`]) whose rows (or strips of columns) are independent *chunks*, and code that runs one block
//! of one phase of a chunk. Out: all phases of all chunks, in order. Each block of a pass produces the partial results
//! of its folds; these are combined in the order of the blocks, and become values of the chunk before its next phase.
//!
//! Fused passes ([`Blockwise`]) run block by block, while a block is in the nearest cache. Each block produces result
//! words, from which the kernel computes values of the chunk after all blocks have run.
//!
//! Threads take chunks; if there are too few chunks for the threads, the threads take blocks of each phase instead.
//! Partial results are then stored by block and combined afterwards, so the bits are the same.

use super::arena::Arena;
use super::combined::Combines;
use super::fold::Tree;
use super::layout::{Block, Layout};
use super::scans;
use super::tables::Tables;
use crate::simd::Shared;
use crate::threads::Threads;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Mutex;
use thalweg_kernel::{Along, Phases, order};
use thalweg_runtime::Error;

/// Number of points that a thread takes at a time, if chunks are small.
pub const CHUNK: usize = 32 << 10;
/// Maximum bytes of scratch memory that a thread retains between launches.
const KEEP_BYTES: usize = 8 << 20;

/// Scratch memory of one thread, retained between launches.
#[derive(Default)]
pub struct Scratch {
    pub args: Vec<u64>,
    pub tables: Tables,
    pub chunk: Arena,
    pub own: Arena,
    partial: Vec<u64>,
    trees: Vec<Tree>,
    /// Result words of the blocks of fused passes.
    together: Vec<u64>,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Calls `work` with this thread's scratch memory.
pub fn with_scratch(work: impl FnOnce(&mut Scratch)) {
    // Taken out of the thread-local cell, so that a nested launch gets memory of its own.
    let mut scratch = SCRATCH.take().unwrap_or_default();
    work(&mut scratch);
    if scratch.chunk.len() + scratch.own.len() <= KEEP_BYTES {
        SCRATCH.set(Some(scratch));
    }
}

/// First error that a thread of a launch reported.
#[derive(Default)]
pub struct Failure(Mutex<Option<Error>>);

impl Failure {
    pub fn note(&self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.0.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
        }
    }

    /// Whether a thread has reported an error: the remaining work is then skipped.
    pub fn any(&self) -> bool {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).is_some()
    }

    pub fn result(self) -> Result<(), Error> {
        self.0.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
    }
}

/// Chunk that a thread is processing, with its memory.
#[derive(Clone, Copy)]
pub struct Chunk {
    pub number: usize,
    /// Memory of the chunk's values and buffers.
    pub memory: *mut u8,
    /// Scratch memory of the thread that runs a block of the chunk.
    pub own: *mut u8,
}

/// Range of phases that run fused, block by block.
pub struct Blockwise {
    pub phases: Range<usize>,
    /// Number of result words that a block produces.
    pub words: usize,
}

/// A launch of a row kernel that runs phase by phase.
pub trait Kernel: Sync {
    fn phases(&self) -> &Phases;
    fn layout(&self) -> &Layout<'_>;
    /// Number of chunks: rows, or strips of columns.
    fn chunks(&self) -> usize;
    /// Number of columns of a chunk, which is the number of results per fold.
    fn width(&self, chunk: usize) -> usize;
    /// Maximum of [`Kernel::width`] over all chunks.
    fn widest(&self) -> usize;
    /// Bytes of memory for [`Chunk::memory`], and for [`Chunk::own`].
    fn memory(&self) -> [usize; 2];
    /// Byte offset of a buffer in [`Chunk::memory`].
    fn buffer(&self, number: usize) -> usize;
    /// User-defined monoids of the body.
    fn combines(&self) -> &Combines;

    /// Runs a block of a pass. Fold `f` writes [`Kernel::width`] results at word `f·widest` of `out`.
    ///
    /// # Safety
    /// The chunk has memory as [`Kernel::memory`] says, values of earlier phases are set, and no other thread runs this
    /// block.
    unsafe fn block(
        &self,
        phase: usize,
        block: Block,
        chunk: Chunk,
        scratch: (&mut Vec<u64>, &mut Tables),
        out: *mut u64,
    ) -> Result<(), Error>;

    /// Runs a phase that runs once per row.
    ///
    /// # Safety
    /// As for [`Kernel::block`].
    unsafe fn once(&self, phase: usize, chunk: Chunk, scratch: (&mut Vec<u64>, &mut Tables)) -> Result<(), Error>;

    /// Range of the phases that run fused; `None` if there are none.
    fn blockwise(&self) -> Option<Blockwise> {
        None
    }

    /// Runs a block of the phases of [`Kernel::blockwise`], which writes [`Blockwise::words`] words at `out`.
    ///
    /// # Safety
    /// As for [`Kernel::block`].
    unsafe fn run_fused_block(
        &self,
        _: Block,
        _: Chunk,
        _: (&mut Vec<u64>, &mut Tables),
        _: *mut u64,
    ) -> Result<(), Error> {
        unreachable!("there are phases that run together")
    }

    /// Finishes the phases of [`Kernel::blockwise`]: computes the chunk's values from the words of all blocks, and
    /// performs the per-row stores.
    ///
    /// # Safety
    /// As for [`Kernel::once`]; `results` holds the words of all blocks, in order.
    unsafe fn resolve(&self, _: Chunk, _: *const u64, _: (&mut Vec<u64>, &mut Tables)) -> Result<(), Error> {
        unreachable!("there are phases that run together")
    }

    /// Sets the results of a fold as values of the chunk.
    ///
    /// # Safety
    /// `from` holds [`Kernel::width`] elements of the value's dtype; the chunk has memory.
    unsafe fn set(&self, slot: u16, chunk: Chunk, from: *const u8);
}

/// Estimated nanoseconds of work that a thread takes at a time: as much as [`CHUNK`] points of light work take.
const GRAIN_NS: f64 = 10_000.0;

/// Whether threads take blocks of a chunk instead of whole chunks, because there are too few chunks.
pub fn splits(chunks: usize, blocks: usize, helpers: usize) -> bool {
    let few = chunks < helpers || chunks < 4 * helpers && blocks >= 8 * helpers;
    helpers > 1 && few && blocks > 1
}

/// Runs all phases of all chunks.
///
/// # Safety
/// The kernel's layout was checked against its operands.
pub unsafe fn run(kernel: &impl Kernel, threads: &Threads, estimate_ns: f64) -> Result<(), Error> {
    let (chunks, blocks) = (kernel.chunks(), kernel.layout().blocks());
    if splits(chunks, blocks, threads.for_work(estimate_ns)) {
        // SAFETY: the caller's promise.
        return unsafe { split(kernel, threads, estimate_ns) };
    }
    let points = kernel.layout().row.max(1) * kernel.widest();
    // Enough chunks at a time to amortise dispatch; fewer if points are slow.
    let slow = (GRAIN_NS / (estimate_ns / chunks.max(1) as f64)) as usize;
    let failure = Failure::default();
    threads.run(chunks, (CHUNK / points).min(slow).max(1), estimate_ns, |range| {
        if failure.any() {
            return;
        }
        with_scratch(|scratch| {
            let [memory, own] = kernel.memory();
            let (memory, own) = (scratch.chunk.bytes(memory), scratch.own.bytes(own));
            for number in range {
                // SAFETY: the caller's promise; the memory belongs to this thread.
                failure.note(unsafe { serial(kernel, Chunk { number, memory, own }, scratch) });
            }
        });
    });
    failure.result()
}

/// Runs all phases of a chunk on this thread.
///
/// # Safety
/// As for [`run`]; the chunk's memory belongs to this thread.
pub unsafe fn serial(kernel: &impl Kernel, chunk: Chunk, scratch: &mut Scratch) -> Result<(), Error> {
    let (phases, layout, widest) = (kernel.phases(), kernel.layout(), kernel.widest());
    let width = kernel.width(chunk.number);
    let folds = phases.list.iter().map(|p| p.body.folds.len()).max().unwrap_or(0);
    let together = kernel.blockwise();
    let Scratch { args, tables, partial, trees, together: left, .. } = scratch;
    if partial.len() < folds * widest {
        partial.resize(folds * widest, 0);
    }
    if trees.len() < folds {
        trees.resize_with(folds, Tree::default);
    }
    let out = partial.as_mut_ptr();
    for (number, phase) in phases.list.iter().enumerate() {
        if let Some(t) = together.as_ref().filter(|t| t.phases.contains(&number)) {
            if number == t.phases.start {
                left.resize(layout.blocks() * t.words, 0);
                for b in 0..layout.blocks() {
                    // SAFETY: the caller's promise; there is space for the words of each block.
                    unsafe {
                        let out = left.as_mut_ptr().add(b * t.words);
                        kernel.run_fused_block(layout.block(b), chunk, (args, tables), out)?;
                    }
                }
                // SAFETY: all blocks have written their words.
                unsafe { kernel.resolve(chunk, left.as_ptr(), (args, tables))? };
            }
            continue;
        }
        // SAFETY: the caller's promise; there is space for `widest` results of each fold, and between clearings a tree
        // has one width and fold.
        unsafe {
            if phase.once {
                kernel.once(number, chunk, (args, tables))?;
                continue;
            }
            let folds = &phase.body.folds;
            trees.iter_mut().for_each(Tree::clear);
            for b in 0..layout.blocks() {
                kernel.block(number, layout.block(b), chunk, (args, tables), out)?;
                for (f, fold) in folds.iter().enumerate() {
                    let dtype = phase.body.dtype(fold.node);
                    trees[f].push(fold.op, dtype, out.add(f * widest).cast(), width);
                }
            }
            for (f, fold) in folds.iter().enumerate() {
                trees[f].take(fold.op, phase.body.dtype(fold.node), out.cast(), width);
                kernel.set(fold.slot, chunk, out.cast());
            }
            run_scans(kernel, number, chunk, width, None);
            run_combines(kernel, number, chunk, width);
        }
    }
    Ok(())
}

/// Runs the chunks one after the other; the blocks of each phase run on all threads.
unsafe fn split(kernel: &impl Kernel, threads: &Threads, estimate_ns: f64) -> Result<(), Error> {
    let (phases, layout, widest) = (kernel.phases(), kernel.layout(), kernel.widest());
    let folds = phases.list.iter().map(|p| p.body.folds.len()).max().unwrap_or(0);
    let passes = phases.list.iter().filter(|p| !p.once).count().max(1);
    let together = kernel.blockwise();
    let (blocks, words) = (layout.blocks(), (folds * widest).max(together.as_ref().map_or(0, |t| t.words)));
    let (mut memory, mut partial, mut tree) = (Arena::default(), vec![0u64; blocks * words], Tree::default());
    let [bytes, own_bytes] = kernel.memory();
    let memory = Shared(memory.bytes(bytes));
    let results = Shared(partial.as_mut_ptr());
    let failure = Failure::default();
    for number in 0..kernel.chunks() {
        let width = kernel.width(number);
        let on_this_thread = |work: &dyn Fn(Chunk, &mut Scratch)| {
            with_scratch(|scratch| {
                let own = scratch.own.bytes(own_bytes);
                work(Chunk { number, memory: memory.get(), own }, scratch);
            });
        };
        for (p, phase) in phases.list.iter().enumerate() {
            if failure.any() {
                return failure.result();
            }
            let joined = together.as_ref().filter(|t| t.phases.contains(&p));
            if joined.is_some_and(|t| t.phases.start != p) {
                continue;
            }
            if phase.once {
                on_this_thread(&|chunk, Scratch { args, tables, .. }| {
                    // SAFETY: the caller's promise; no other thread is running.
                    failure.note(unsafe { kernel.once(p, chunk, (args, tables)) });
                });
                continue;
            }
            let words = joined.map_or(words, |t| t.words);
            let grain = (CHUNK / (order::BLOCK.min(layout.n) * width)).max(1).next_multiple_of(layout.grain());
            let estimate = estimate_ns / (kernel.chunks() * passes) as f64;
            threads.run(blocks, grain, estimate, |range| {
                on_this_thread(&|chunk, Scratch { args, tables, .. }| {
                    for b in range.clone() {
                        // SAFETY: each block is run by one thread, with its own space for results; values, and the
                        // parts of buffers of other blocks, are not written meanwhile.
                        let done = unsafe {
                            let out = results.get().add(b * words);
                            match joined {
                                Some(_) => kernel.run_fused_block(layout.block(b), chunk, (args, tables), out),
                                None => kernel.block(p, layout.block(b), chunk, (args, tables), out),
                            }
                        };
                        failure.note(done);
                    }
                });
            });
            if joined.is_some() {
                if failure.any() {
                    return failure.result();
                }
                on_this_thread(&|chunk, Scratch { args, tables, .. }| {
                    // SAFETY: every block has written its words; no other thread is running.
                    failure.note(unsafe { kernel.resolve(chunk, results.get(), (args, tables)) });
                });
                continue;
            }
            on_this_thread(&|chunk, _| {
                // SAFETY: scans run over whole buffers of the chunk, and no other thread is running.
                unsafe {
                    run_scans(kernel, p, chunk, width, Some(threads));
                    run_combines(kernel, p, chunk, width);
                }
            });
            let chunk = Chunk { number, memory: memory.get(), own: std::ptr::null_mut() };
            // SAFETY: every block has written its results; no other thread is running.
            unsafe { take_results(kernel, p, chunk, &mut tree, (results.get(), words)) };
        }
    }
    failure.result()
}

/// Combines the results of a chunk's blocks for the folds of a phase, and sets them as values of the chunk. `words` is
/// the number of result words per block.
///
/// # Safety
/// Every block has written its results, and no other thread is running.
unsafe fn take_results(
    kernel: &impl Kernel,
    phase: usize,
    chunk: Chunk,
    tree: &mut Tree,
    (results, words): (*mut u64, usize),
) {
    let (body, width, widest) = (&kernel.phases().list[phase].body, kernel.width(chunk.number), kernel.widest());
    let mut row = vec![0u64; width];
    for (f, fold) in body.folds.iter().enumerate() {
        let dtype = body.dtype(fold.node);
        // SAFETY: the caller's promise.
        unsafe {
            for b in 0..kernel.layout().blocks() {
                tree.push(fold.op, dtype, results.add(b * words + f * widest).cast(), width);
            }
            tree.take(fold.op, dtype, row.as_mut_ptr().cast(), width);
            kernel.set(fold.slot, chunk, row.as_ptr().cast());
        }
    }
}

/// Runs the scans of the buffers that a phase has filled.
unsafe fn run_scans(kernel: &impl Kernel, phase: usize, chunk: Chunk, width: usize, threads: Option<&Threads>) {
    let phases = kernel.phases();
    for scan in &phases.list[phase].scans {
        // SAFETY: the buffers have the chunk's length and width.
        unsafe {
            let [from, to] = [scan.from, scan.to].map(|b| chunk.memory.add(kernel.buffer(b as usize)));
            let size = [kernel.layout().row, width];
            scans::run(&scan.scan, phases.buffers[scan.from as usize], from, to, size, threads);
        }
    }
}

/// Runs user-defined folds and scans of the buffers that a phase has filled, on the calling thread alone.
unsafe fn run_combines(kernel: &impl Kernel, phase: usize, chunk: Chunk, width: usize) {
    let (phases, n) = (kernel.phases(), kernel.layout().row);
    for c in &phases.list[phase].combined {
        let (combine, components) = (kernel.combines().of(c.of), c.of.region().args.len());
        let first = c.buffers as usize;
        let place = |b| chunk.memory.wrapping_add(kernel.buffer(b));
        let buffers: Vec<*mut u8> = (first..first + components).map(place).collect();
        // SAFETY: the buffers have the chunk's length and width, and do not overlap; no other thread is running.
        unsafe {
            match c.along {
                Along::Scan | Along::Reversed => combine.scan(&buffers, [n, width], c.along == Along::Reversed),
                Along::Fold => {
                    combine.fold(&buffers, [n, width]);
                    for (i, &folded) in buffers.iter().enumerate() {
                        let none = if n == 0 { combine.identity(i, width) } else { vec![] };
                        let from = if n == 0 { none.as_ptr().cast() } else { folded.cast_const() };
                        kernel.set(c.slot + i as u16, chunk, from);
                    }
                }
            }
        }
    }
}
