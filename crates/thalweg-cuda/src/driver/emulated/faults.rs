//! Faults of a block's threads, as errors of the launch instead of the process' end.
//!
//! In: signals. Out: for signals that a thread of a block caused, the end of the block. Always true: all other signals
//! reach their previous handlers.

use super::fibers::{Fault, end_thread};
use libc::{
    REG_RIP, REG_RSP, SA_ONSTACK, SA_SIGINFO, SIGBUS, SIGFPE, SIGILL, SIGSEGV, c_int, c_void, siginfo_t, ucontext_t,
};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

const SIGNALS: [c_int; 4] = [SIGSEGV, SIGBUS, SIGILL, SIGFPE];

/// Previous handlers of the four signals, to which unrelated signals are passed on.
static BEFORE: OnceLock<[libc::sigaction; 4]> = OnceLock::new();

/// Installs the signal handlers, at the first call.
pub(super) fn catch() {
    BEFORE.get_or_init(|| SIGNALS.map(install));
}

fn install(signal: c_int) -> libc::sigaction {
    // SAFETY: all fields may be zero: no flags, an empty mask.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = handle;
    new.sa_sigaction = handler as *const () as usize;
    // Runs on the signal stack of Rust's threads, since the thread's own stack may be full.
    new.sa_flags = SA_SIGINFO | SA_ONSTACK;
    // SAFETY: the handler has this type, and for faults outside of kernels it does only what a handler may do.
    let installed = unsafe { libc::sigaction(signal, &new, &mut old) };
    debug_assert_eq!(installed, 0);
    old
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes both, of these types.
    let (address, registers) =
        unsafe { ((*info).si_addr() as usize, &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs) };
    // SAFETY: these signals are caused by the current instruction.
    let on = unsafe { end_thread(registers[REG_RSP as usize] as usize, Fault::Signal(signal, address)) };
    if let Some((stack, instruction)) = on {
        // The thread is abandoned, and `run_block` continues as if it had been switched to.
        registers[REG_RSP as usize] = stack as i64;
        registers[REG_RIP as usize] = instruction as i64;
        return;
    }
    let which = SIGNALS.iter().position(|&s| s == signal);
    if let (Some(before), Some(which)) = (BEFORE.get(), which) {
        // SAFETY: the previous handler. The instruction runs again, and its signal reaches that handler.
        unsafe { libc::sigaction(signal, &before[which], std::ptr::null_mut()) };
    }
}
