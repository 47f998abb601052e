//! Calling convention: roles of general registers, function entry and exit, types of functions.
//!
//! Functions have the System V convention on every operating system. The encoding of a line may overwrite rax, rcx, rsi
//! and rdi; the frame is aligned to 64 bytes at rsp.

use super::asm::{Asm, Cond, Gpr, Label, R12, R13, R14, R15, RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP, Rm, at};
use crate::vector::linear::{self, FRAME_END, FRAME_ROWS, FRAME_STACK, FRAME_START};

/// Type of the function of a map body. Arguments: argument block, number of points, number of rows. Returns 0, or
/// another value if some lanes need the slow path.
#[cfg(target_arch = "x86_64")]
pub type MapFunction = extern "sysv64" fn(*const u64, usize, usize) -> u64;
/// Type of the function of a row body. Arguments: those of [`MapFunction`], the first phase to run, and the end
/// (exclusive) of the range of phases.
#[cfg(target_arch = "x86_64")]
pub type RowFunction = extern "sysv64" fn(*const u64, usize, usize, usize, usize) -> u64;
/// Type of a GEMM micro-kernel, whose only argument is its argument block.
#[cfg(target_arch = "x86_64")]
pub type GemmFunction<T> = extern "sysv64" fn(*const T);

/// Callee-saved registers, which every function saves and restores.
pub const SAVED: [Gpr; 6] = [RBX, RBP, R12, R13, R14, R15];
/// Registers for pointers of accesses; the first one holds the address of the row's values in functions of row bodies.
pub const POINTERS: [Gpr; 7] = [RBX, RBP, RDX, 8, 9, 10, 11];

/// Machine register that has a role of linear code.
pub fn gpr(role: linear::Gpr) -> Gpr {
    match role {
        linear::Gpr::Stack => RSP,
        linear::Gpr::Args => R13,
        linear::Gpr::Position => R14,
        linear::Gpr::Count => R15,
        linear::Gpr::Faults => R12,
        linear::Gpr::Values => RBX,
        linear::Gpr::A => RAX,
        linear::Gpr::B => RCX,
        linear::Gpr::Pointer(k) => POINTERS[k as usize],
    }
}

impl Asm {
    /// Emits the function's entry: saves registers, allocates the frame, moves the arguments to their registers or
    /// frame words, and jumps to `leave` if there are no rows.
    pub fn enter(&mut self, frame: i32, phases: bool, leave: Label) {
        SAVED.iter().for_each(|r| self.push(*r));
        self.scalar(true, &[0x89], RSP, Rm::Reg(RAX), 0); // mov rax, rsp
        // Touch every page on the way down, as compilers do: the guard page must not be skipped.
        for page in 1..=frame / 4096 {
            self.scalar(true, &[0x85], RSP, at(RSP, -page * 4096), 0); // test
        }
        self.arith_imm(5, Rm::Reg(RSP), frame);
        self.arith_imm(4, Rm::Reg(RSP), -64);
        self.store(at(RSP, FRAME_STACK), RAX);
        self.store(at(RSP, FRAME_ROWS), RDX);
        self.scalar(true, &[0x89], RDI, Rm::Reg(R13), 0);
        self.scalar(true, &[0x89], RSI, Rm::Reg(R15), 0);
        self.scalar(false, &[0x31], R12, Rm::Reg(R12), 0);
        self.scalar(true, &[0x85], RDX, Rm::Reg(RDX), 0);
        self.jump_if(Cond::Equal, leave);
        if phases {
            self.store(at(RSP, FRAME_START), RCX);
            self.store(at(RSP, FRAME_END), 8);
        }
    }

    /// Emits the function's exit, which returns the guards' result; with `fence`, after a store fence.
    pub fn leave(&mut self, fence: bool) {
        if fence {
            self.raw(&[0x0F, 0xAE, 0xF8]); // sfence: earlier stores become visible before later ones
        }
        self.scalar(true, &[0x89], R12, Rm::Reg(RAX), 0); // mov rax, r12
        self.raw(&[0xC5, 0xF8, 0x77]); // vzeroupper
        self.load(RSP, at(RSP, FRAME_STACK));
        SAVED.iter().rev().for_each(|r| self.pop(*r));
        self.raw(&[0xC3]);
    }
}
