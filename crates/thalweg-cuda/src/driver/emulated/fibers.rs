//! Fibers: the threads of a block on one host thread.
//!
//! In: a kernel, its arguments, and the number of threads. Out: the memory that the kernel wrote. A thread runs until
//! it synchronizes with others (a barrier, a shuffle, a ballot); then others run until all that it waits for have
//! arrived. Each waiting thread has a stack of its own; threads that never wait run one after the other on one stack,
//! as a loop would.
//!
//! Always true: one block runs at a time in the process ([`SCHEDULER`] is locked), on the thread that launched it. A
//! block that waits for values of other blocks, which may not have begun, is suspended ([`SuspendedBlock`]) and resumed later.
//! Threads run forwards or backwards, and so do blocks, by a number drawn for each launch. In half of the blocks the
//! threads of one warp are late when they poll for other threads' progress. So code that relies on an unenforced order
//! fails sooner or later.

use super::memory::{self, Guarded};
use std::collections::VecDeque;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

const STACK: usize = 128 << 10;
const BARRIER: u32 = 0;
const BALLOT: u32 = 2;
/// Wait kind: the thread polls for progress of other threads, which run first.
const LOOK: u32 = 3;
/// Wait kind: the thread polls for values of other blocks, which run first when no thread of its own block can.
const ABROAD: u32 = 4;
/// Maximum number of polls of one wait. A launch with more polls fails.
const MAX_POLLS: u64 = 1 << 16;
/// Interval, in polls, at which a thread of the late warp is not passed over.
const PATIENCE: u64 = 1 << 10;
/// Result of a shuffle from a thread that did not take part.
const NOBODY: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// Data that a kernel shares with the scheduler: indices, shared memory, and the callback for barriers. Same layout as
/// in emulated.cpp.
#[repr(C)]
pub(super) struct Runtime {
    pub(super) thread: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) block_size: [u32; 3],
    pub(super) grid_size: [u32; 3],
    pub(super) shared: *mut u8,
    /// Static shared memory, up to `fixed_end`.
    pub(super) fixed: *mut u8,
    pub(super) fixed_end: *mut u8,
    pub(super) meet: unsafe extern "C" fn(u32, u32, u64, u32) -> u64,
    /// Bytes of global memory that kernels have loaded and stored since it was set to 0.
    pub(super) moved: [u64; 2],
}

/// A kernel of a shared object.
pub(super) type Kernel = unsafe extern "C" fn(*const u64);

/// Scheduler of the process, locked by one launch at a time.
pub(super) static SCHEDULER: Mutex<Scheduler> = Mutex::new(Scheduler::new());
/// Pointer to the scheduler for callbacks from kernels, which have no other access to it. Set while a block runs.
static RUNNING: AtomicPtr<Scheduler> = AtomicPtr::new(null_mut());

/// Thread of the running block.
#[derive(Clone, Copy)]
struct Thread {
    /// Stack pointer while the thread waits.
    stack: *mut u8,
    /// Kind of the wait, and mask of the lanes that the thread waits for.
    kind: u32,
    mask: u32,
    /// Value that the thread passed to a shuffle or vote, then its result.
    value: u64,
    source: u32,
}

#[derive(Clone, Copy)]
struct Warp {
    /// Mask of the lanes that have not returned.
    live: u32,
    /// Mask of the lanes that wait for other lanes of the warp.
    waiting: u32,
}

/// Reason why a block cannot continue.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    /// A thread synchronizes under a mask without its own bit.
    NotInMask(u32),
    /// Two threads synchronize by different kinds, a shuffle and a vote.
    Kinds(usize, usize),
    /// A thread has polled more often than allowed: the awaited value never comes.
    Looks,
    /// There is no memory for another stack.
    Stacks,
    /// A signal, and the address whose access caused it.
    Signal(i32, usize),
}

/// Threads of a block, and their wait queues.
struct Block {
    backwards: bool,
    threads: Vec<Thread>,
    warps: Vec<Warp>,
    started: usize,
    live: usize,
    /// Number of threads at the block's barrier, and number of those that passed a non-zero value to it.
    at_barrier: usize,
    counted: u64,
    ready: VecDeque<usize>,
    /// Threads that poll their own block for a value, and do so again when no other thread can run.
    looking: VecDeque<usize>,
    /// Threads that poll other blocks for a value, and do so again when other blocks have run.
    abroad: Vec<usize>,
    /// Number of waits since the block was started or resumed.
    met: usize,
    /// Index of the late warp.
    late: Option<usize>,
}

/// Suspended block: all of its live threads wait, some of them for other blocks.
pub(super) struct SuspendedBlock(Box<Block>);

/// Result of running a block until no thread can continue.
pub(super) enum Outcome {
    Done,
    /// Waits for other blocks. The flag tells whether a thread of the block has made progress.
    Waits(SuspendedBlock, bool),
}

/// Scheduler of a block's threads.
pub(super) struct Scheduler {
    runtime: *mut Runtime,
    kernel: Option<Kernel>,
    arguments: *const u64,
    launches: u64,
    block: Block,
    /// Index of the running thread.
    now: usize,
    /// Number of blocks run so far, and number of polls so far.
    blocks: u64,
    looks: u64,
    fault: Option<Fault>,
    /// Stack pointer of the scheduler itself while a thread runs.
    main: *mut u8,
    /// Stack pointer of the stack that has just become idle.
    parked: *mut u8,
    idle: Vec<*mut u8>,
    stacks: Vec<Guarded>,
}

// SAFETY: the pointers are to stacks that it owns, and to a kernel's data while `run_block` borrows it exclusively.
unsafe impl Send for Scheduler {}

/// Saves this stack's pointer in `from` and continues on stack `to`.
///
/// # Safety
/// `to` was saved by this function, or is a new stack of [`Scheduler::new_stack`], and is not used again.
#[unsafe(naked)]
unsafe extern "C" fn switch(from: *mut *mut u8, to: *mut u8) {
    // Only callee-saved registers are saved: the others are dead at a call.
    std::arch::naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "jmp {go_on}",
        go_on = sym go_on,
    )
}

/// Second half of [`switch`]: continues on the current stack.
///
/// # Safety
/// Only jumped to, on a stack that `switch` saved.
#[unsafe(naked)]
unsafe extern "C" fn go_on() {
    std::arch::naked_asm!("pop r15", "pop r14", "pop r13", "pop r12", "pop rbx", "pop rbp", "ret",)
}

/// Ends the thread that runs on a stack, and its block. Returns a stack pointer and an instruction pointer: a signal
/// handler that continues there makes [`Scheduler::run_block`] continue. `None` when no thread of a block runs on that
/// stack.
///
/// # Safety
/// Called by the handler of a signal that the thread's own instruction caused.
pub(super) unsafe fn end_thread(stack: usize, why: Fault) -> Option<(usize, usize)> {
    let s = RUNNING.load(Relaxed);
    // SAFETY: a scheduler is never moved; its list of stacks changes only between threads of a block.
    if s.is_null() || !unsafe { &(*s).stacks }.iter().any(|area| area.has(stack)) {
        return None;
    }
    // SAFETY: a thread of the block runs, so `run_block` waits in `switch` and no reference is live.
    unsafe { (*s).fault = Some(why) };
    // SAFETY: as above.
    Some((unsafe { (*s).main } as usize, go_on as *const () as usize))
}

/// Entry of every stack: runs threads that have not begun, one after the other, forever.
extern "C" fn worker() -> ! {
    loop {
        let s = RUNNING.load(Relaxed);
        // SAFETY: the scheduler is borrowed by `run_block`, which waits in `switch`; no reference is live across a
        // switch or a kernel.
        while let Some(kernel) = unsafe { (*s).start() } {
            // SAFETY: the caller of `run_block` vouches for kernel and arguments.
            unsafe { kernel((*s).arguments) };
            // SAFETY: as above.
            unsafe { (*s).leave() };
        }
        // SAFETY: `main` was saved when `run_block` switched here; this stack continues in the next block.
        unsafe { switch(&raw mut (*s).parked, (*s).main) };
    }
}

/// Called by kernels: waits for other threads.
unsafe extern "C" fn wait_at_barrier(kind: u32, mask: u32, value: u64, source: u32) -> u64 {
    let s = RUNNING.load(Relaxed);
    // SAFETY: as in `worker`.
    let mine = unsafe { (*s).arrive(kind, mask, value, source) };
    // SAFETY: `main` was saved when `run_block` switched to this thread.
    unsafe { switch(mine, (*s).main) };
    // SAFETY: `run_block` switches back only with `now` set to this thread.
    unsafe { (&(*s).block.threads)[(*s).now].value }
}

/// Callback of kernels for barriers and other waits: the value of `Runtime::meet`.
pub(super) const WAIT_AT_BARRIER: unsafe extern "C" fn(u32, u32, u64, u32) -> u64 = wait_at_barrier;

impl Block {
    const fn new() -> Block {
        Block {
            backwards: false,
            threads: Vec::new(),
            warps: Vec::new(),
            started: 0,
            live: 0,
            at_barrier: 0,
            counted: 0,
            ready: VecDeque::new(),
            looking: VecDeque::new(),
            abroad: Vec::new(),
            met: 0,
            late: None,
        }
    }
}

impl Scheduler {
    const fn new() -> Scheduler {
        Scheduler {
            runtime: null_mut(),
            kernel: None,
            arguments: null_mut(),
            launches: 0,
            block: Block::new(),
            now: 0,
            blocks: 0,
            looks: 0,
            fault: None,
            main: null_mut(),
            parked: null_mut(),
            idle: Vec::new(),
            stacks: Vec::new(),
        }
    }

    /// Draws the directions of the next launch: whether threads of even blocks run backwards, and whether blocks do.
    pub(super) fn directions(&mut self) -> (bool, bool) {
        self.launches += 1;
        // Not alternating, since launches come in patterns themselves.
        let drawn = self.launches.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62;
        (drawn & 1 != 0, drawn & 2 != 0)
    }

    /// Runs a block, until it ends or waits for other blocks.
    ///
    /// # Errors
    /// When threads wait for others that never arrive.
    ///
    /// # Safety
    /// The kernel belongs to `runtime`'s shared object, and is valid for these arguments and this number of threads.
    pub(super) unsafe fn run_block(
        &mut self,
        runtime: *mut Runtime,
        kernel: Kernel,
        arguments: *const u64,
        threads: usize,
        backwards: bool,
    ) -> Result<Outcome, String> {
        const IDLE: Thread = Thread { stack: null_mut(), kind: BARRIER, mask: 0, value: 0, source: 0 };
        (self.runtime, self.kernel, self.arguments) = (runtime, Some(kernel), arguments);
        let live = |warp: usize| u32::MAX >> (32 - (threads - 32 * warp).min(32));
        let mut block = std::mem::replace(&mut self.block, Block::new());
        block.threads.clear();
        block.threads.resize(threads, IDLE);
        block.warps.clear();
        block.warps.extend((0..threads.div_ceil(32)).map(|w| Warp { live: live(w), waiting: 0 }));
        self.blocks += 1;
        let drawn = self.blocks.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let late = (drawn & 1 != 0).then_some((drawn >> 1) as usize % block.warps.len());
        self.block =
            Block { backwards, threads: block.threads, warps: block.warps, live: threads, late, ..Block::new() };
        // SAFETY: as promised.
        unsafe { self.go_on() }
    }

    /// Resumes a suspended block; shared memory and the launch's data are as they were when it was suspended.
    ///
    /// # Errors
    /// Errors of [`Scheduler::run_block`].
    ///
    /// # Safety
    /// As for [`Scheduler::run_block`], which suspended it in the same launch.
    pub(super) unsafe fn take_up(&mut self, SuspendedBlock(mut block): SuspendedBlock) -> Result<Outcome, String> {
        block.ready.extend(std::mem::take(&mut block.abroad));
        // Threads whose poll fails again wait once each.
        block.met = 0;
        self.block = *block;
        // SAFETY: as promised.
        unsafe { self.go_on() }
    }

    /// Runs threads of the block until none can continue.
    ///
    /// # Safety
    /// As for [`Scheduler::run_block`].
    unsafe fn go_on(&mut self) -> Result<Outcome, String> {
        let s: *mut Scheduler = self;
        RUNNING.store(s, Relaxed);
        // SAFETY: the stacks that are switched to use `s` only while this waits in `switch`.
        while let Some(to) = unsafe { (*s).next() } {
            // SAFETY: `to` was saved or is new, and `next` dropped it.
            unsafe { switch(&raw mut (*s).main, to) };
            // SAFETY: as above.
            let parked = unsafe { std::mem::replace(&mut (*s).parked, null_mut()) };
            if !parked.is_null() {
                // SAFETY: as above.
                unsafe { (*s).idle.push(parked) };
            }
        }
        if self.fault.is_none() && !self.block.abroad.is_empty() {
            let block = std::mem::replace(&mut self.block, Block::new());
            let further = block.met > block.abroad.len();
            return Ok(Outcome::Waits(SuspendedBlock(Box::new(block)), further));
        }
        let stuck = self.block.live > 0;
        if stuck || self.fault.is_some() {
            let why = self.fault.take().map_or_else(|| self.who_waits(), |fault| self.describe(fault));
            self.forget();
            return Err(why);
        }
        Ok(Outcome::Done)
    }

    /// Drops all waiting threads, those of suspended blocks too. Kernels have nothing to drop, so their stacks may be
    /// freed at once.
    pub(super) fn forget(&mut self) {
        (self.idle, self.stacks) = (vec![], vec![]);
        self.block = Block::new();
    }

    /// Stack to switch to: of a ready thread, else an idle stack for threads that have not begun, else of the next polling
    /// thread. `None` after a fault, or where no stack can be allocated.
    fn next(&mut self) -> Option<*mut u8> {
        if self.fault.is_some() {
            return None;
        }
        if let Some(thread) = self.block.ready.pop_front() {
            self.now = thread;
            self.show(thread);
            return Some(self.block.threads[thread].stack);
        }
        if self.block.started == self.block.threads.len() {
            self.now = self.next_poller()?;
            self.show(self.now);
            return Some(self.block.threads[self.now].stack);
        }
        self.idle.pop().or_else(|| self.new_stack())
    }

    /// Removes and returns the thread that polls next: the first one in the queue that is not of the late warp. Every
    /// [`PATIENCE`]-th poll, or where only the late warp polls, it is the first one of all.
    fn next_poller(&mut self) -> Option<usize> {
        self.looks += 1;
        let in_time = |&t: &usize| Some(t / 32) != self.block.late;
        let at = if self.looks.is_multiple_of(PATIENCE) { None } else { self.block.looking.iter().position(in_time) };
        self.block.looking.remove(at.unwrap_or(0))
    }

    /// Allocates a stack that begins with [`worker`].
    fn new_stack(&mut self) -> Option<*mut u8> {
        let Some(stack) = Guarded::new(STACK) else {
            self.fault = Some(Fault::Stacks);
            return None;
        };
        // Stacks whose tops have the same offset in a page would conflict in the cache.
        let stagger = self.stacks.len() % 32 * 64;
        let entry: extern "C" fn() -> ! = worker;
        // SAFETY: within the stack: six registers for `switch` to restore, then its return address. At the start of
        // `worker` the stack is aligned as after a call, 8 beside a multiple of 16.
        let top = unsafe {
            let top = stack.end().sub(stagger + 64).cast::<usize>();
            top.write_bytes(0, 8);
            top.add(6).write(entry as usize);
            top.cast::<u8>()
        };
        self.stacks.push(stack);
        Some(top)
    }

    /// Sets the thread index that kernels read in the next running thread.
    fn show(&mut self, thread: usize) {
        // SAFETY: the caller of `run_block` vouches for the runtime; kernels read it, and none runs now.
        unsafe { (*self.runtime).thread[0] = thread as u32 };
    }

    /// Starts the next thread of the block; returns the kernel, or `None` if no thread may start now.
    fn start(&mut self) -> Option<Kernel> {
        let n = self.block.threads.len();
        // Ready threads run first, so that few wait at a time.
        if self.block.started == n || !self.block.ready.is_empty() || self.fault.is_some() {
            return None;
        }
        self.now = if self.block.backwards { n - 1 - self.block.started } else { self.block.started };
        self.block.started += 1;
        self.show(self.now);
        self.kernel
    }

    /// Ends the current thread, which has returned: no other thread waits for it any more.
    fn leave(&mut self) {
        let (warp, lane) = (self.now / 32, self.now % 32);
        self.block.live -= 1;
        self.block.warps[warp].live &= !(1 << lane);
        self.block.threads[self.now].value = NOBODY;
        self.open_barrier();
        let mut waiting = self.block.warps[warp].waiting;
        while waiting != 0 {
            let mask = self.block.threads[32 * warp + waiting.trailing_zeros() as usize].mask;
            self.open_warp(warp, mask);
            waiting &= !mask;
        }
    }

    /// The current thread reached a barrier or another wait; returns where to save its stack pointer.
    fn arrive(&mut self, kind: u32, mask: u32, value: u64, source: u32) -> *mut *mut u8 {
        let (now, warp, lane) = (self.now, self.now / 32, self.now % 32);
        self.block.met += 1;
        let thread = &mut self.block.threads[now];
        (thread.kind, thread.mask, thread.value, thread.source) = (kind, mask, value, source);
        if kind == BARRIER {
            self.block.at_barrier += 1;
            self.block.counted += value;
            self.open_barrier();
        } else if kind == LOOK {
            if value > MAX_POLLS {
                self.fault = Some(Fault::Looks);
            }
            self.block.looking.push_back(now);
        } else if kind == ABROAD {
            self.block.abroad.push(now);
        } else if mask & (1 << lane) == 0 {
            self.fault = Some(Fault::NotInMask(mask));
        } else {
            self.block.warps[warp].waiting |= 1 << lane;
            self.open_warp(warp, mask);
        }
        &raw mut self.block.threads[now].stack
    }

    /// Releases the block's barrier when all live threads have reached it.
    fn open_barrier(&mut self) {
        if self.block.at_barrier == 0 || self.block.at_barrier < self.block.live {
            return;
        }
        let mut woken: Vec<usize> = (0..self.block.threads.len()).filter(|&t| self.lives(t)).collect();
        for &t in &woken {
            self.block.threads[t].value = self.block.counted;
        }
        if self.block.backwards {
            woken.reverse();
        }
        self.block.ready.extend(woken);
        (self.block.at_barrier, self.block.counted) = (0, 0);
    }

    fn lives(&self, thread: usize) -> bool {
        self.block.warps[thread / 32].live >> (thread % 32) & 1 == 1
    }

    /// Releases the lanes of a mask when all live ones have arrived, each with its result.
    fn open_warp(&mut self, warp: usize, mask: u32) {
        let Warp { live, waiting } = self.block.warps[warp];
        let group = mask & live;
        let lanes: Vec<usize> = (0..32).filter(|&l| group >> l & 1 == 1).map(|l| 32 * warp + l).collect();
        let of = |t: usize| (self.block.threads[t].kind, self.block.threads[t].mask);
        // Lanes under another mask wait for others first.
        if group & !waiting != 0 || lanes.iter().any(|&t| of(t).1 != mask) {
            return;
        }
        let Some(&first) = lanes.first() else { return };
        if let Some(&other) = lanes.iter().find(|&&t| of(t).0 != of(first).0) {
            self.fault = Some(Fault::Kinds(first, other));
            return;
        }
        let brought: Vec<u64> = lanes.iter().map(|&t| self.block.threads[t].value).collect();
        let ballot = lanes.iter().zip(&brought).fold(0, |b, (&t, &v)| b | (v & 1) << (t % 32));
        for &t in &lanes {
            let source = 32 * warp + self.block.threads[t].source as usize;
            let taken = lanes.iter().position(|&l| l == source).map_or(NOBODY, |at| brought[at]);
            self.block.threads[t].value = if self.block.threads[t].kind == BALLOT { ballot } else { taken };
        }
        self.block.warps[warp].waiting &= !group;
        if self.block.backwards {
            self.block.ready.extend(lanes.into_iter().rev());
        } else {
            self.block.ready.extend(lanes);
        }
    }

    fn describe(&self, fault: Fault) -> String {
        let now = self.now;
        match fault {
            Fault::NotInMask(mask) => format!("thread {now} is not in the mask {mask:#x} that it meets others with"),
            Fault::Kinds(a, b) => format!("thread {a} and thread {b} meet, one to shuffle and one to vote"),
            Fault::Looks => format!("thread {now} waits at a barrier in shared memory that nobody comes to"),
            Fault::Stacks => "no memory for the stacks of a block".into(),
            Fault::Signal(libc::SIGFPE, _) => format!("thread {now} divides by zero, or the least integer by -1"),
            Fault::Signal(libc::SIGILL, _) => format!("thread {now} stops itself (__trap, __builtin_unreachable)"),
            Fault::Signal(_, address) => {
                let on_stack = self.stacks.iter().any(|area| area.has(address));
                let place = if on_stack { "behind its stack".into() } else { memory::describe(address as u64) };
                format!("thread {now} touches {address:#x}: {place}")
            }
        }
    }

    /// Describes which threads wait for what, where no thread can continue.
    fn who_waits(&self) -> String {
        let say = |t: usize| {
            let Thread { kind, mask, .. } = self.block.threads[t];
            if kind == BARRIER { "the block's barrier".into() } else { format!("lanes {mask:#x} of its warp") }
        };
        let mut waits: Vec<(String, usize, usize)> = vec![];
        for t in (0..self.block.threads.len()).filter(|&t| self.lives(t)) {
            let what = say(t);
            match waits.iter_mut().find(|w| w.0 == what) {
                Some(w) => w.2 += 1,
                None => waits.push((what, t, 1)),
            }
        }
        let said = waits.iter().map(|(what, first, n)| format!("{n} wait for {what} (the first is thread {first})"));
        format!("threads wait for others that do not come: {}", said.collect::<Vec<_>>().join(", "))
    }
}
