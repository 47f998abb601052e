//! What a thread of a block does that would end the process, as an error of the launch.
//!
//! In: signals. Out: of those that a thread of a block brought about, the end of the block. Always true: all others go
//! to whom they would have gone to.

use super::fibers::{Fault, end_thread};
use libc::{
    REG_RIP, REG_RSP, SA_ONSTACK, SA_SIGINFO, SIGBUS, SIGFPE, SIGILL, SIGSEGV, c_int, c_void, siginfo_t, ucontext_t,
};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

const SIGNALS: [c_int; 4] = [SIGSEGV, SIGBUS, SIGILL, SIGFPE];

/// Who had the signals before.
static BEFORE: OnceLock<[libc::sigaction; 4]> = OnceLock::new();

/// Sees to it that faults of kernels are caught, from now on.
pub(super) fn catch() {
    BEFORE.get_or_init(|| SIGNALS.map(install));
}

fn install(signal: c_int) -> libc::sigaction {
    // SAFETY: all of it may be zero: no flags, an empty mask.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = handle;
    new.sa_sigaction = handler as *const () as usize;
    // On the stack that Rust's threads have for it, since the thread's own may be full.
    new.sa_flags = SA_SIGINFO | SA_ONSTACK;
    // SAFETY: the handler is one of this kind, and does nothing that a handler must not where the fault is not a
    // kernel's.
    let installed = unsafe { libc::sigaction(signal, &new, &mut old) };
    debug_assert_eq!(installed, 0);
    old
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system hands over both, of these types.
    let (address, registers) =
        unsafe { ((*info).si_addr() as usize, &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs) };
    // SAFETY: these signals are brought about by the instruction at hand.
    let on = unsafe { end_thread(registers[REG_RSP as usize] as usize, Fault::Signal(signal, address)) };
    if let Some((stack, instruction)) = on {
        // The thread is left where it is, and `run_block` goes on as if it had been switched to.
        registers[REG_RSP as usize] = stack as i64;
        registers[REG_RIP as usize] = instruction as i64;
        return;
    }
    let which = SIGNALS.iter().position(|&s| s == signal);
    if let (Some(before), Some(which)) = (BEFORE.get(), which) {
        // SAFETY: as it was. When the instruction is run again, it goes to whom it would have gone to.
        unsafe { libc::sigaction(signal, &before[which], std::ptr::null_mut()) };
    }
}
