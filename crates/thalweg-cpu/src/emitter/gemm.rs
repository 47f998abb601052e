//! GEMM and GEMV micro-kernels as callable functions in executable memory.

use crate::gemm_call::{DotArgs, StreamArgs, TileArgs};
use crate::isa::gemm::{Arithmetic, Form};
use crate::isa::pages::Code;
use crate::isa::{GemmFunction, Isa};

/// Micro-kernel of a GEMM or GEMV in executable memory.
pub struct Micro(Code);

impl Micro {
    /// Emits a micro-kernel. `None` if the operating system provides no executable memory.
    pub fn new(isa: Isa, arithmetic: Arithmetic, form: Form) -> Option<Micro> {
        let bytes = isa.gemm(arithmetic, form);
        let name = format!("cpu-{isa:?}-product").to_lowercase();
        thalweg_runtime::dump(&name, || {
            vec![("txt", format!("{form:?} {arithmetic:?}").into_bytes()), ("bin", bytes.clone())]
        });
        Code::publish(&bytes).map(Micro)
    }

    /// Runs a tile kernel (a register tile of a GEMM).
    ///
    /// # Safety
    /// The micro-kernel was emitted as a tile kernel for an instruction set that the machine has, and the arguments
    /// describe memory that may be read and written as the kernel's form does.
    pub unsafe fn tile(&self, args: &TileArgs) {
        // SAFETY: the code was emitted with this signature and published whole; it lives as long as `self`.
        let f: GemmFunction<TileArgs> = unsafe { std::mem::transmute(self.0.start()) };
        f(args);
    }

    /// Loads the shapes of the tile registers.
    ///
    /// # Safety
    /// The micro-kernel was emitted for this, and this process may use tile registers.
    pub unsafe fn configure(&self, shapes: &[u8; 64]) {
        // SAFETY: as above.
        let f: GemmFunction<[u8; 64]> = unsafe { std::mem::transmute(self.0.start()) };
        f(shapes);
    }

    /// Releases the tile registers.
    ///
    /// # Safety
    /// As [`Micro::configure`].
    pub unsafe fn release(&self) {
        // SAFETY: as above; the code reads no argument.
        let f: GemmFunction<u8> = unsafe { std::mem::transmute(self.0.start()) };
        f(&0);
    }

    /// Runs a stream kernel (terms of a GEMV, added to sums in memory).
    ///
    /// # Safety
    /// As [`Micro::tile`].
    pub unsafe fn stream(&self, args: &StreamArgs) {
        // SAFETY: as above.
        let f: GemmFunction<StreamArgs> = unsafe { std::mem::transmute(self.0.start()) };
        f(args);
    }

    /// Runs a dots kernel (dot products of rows and columns with contiguous terms).
    ///
    /// # Safety
    /// As [`Micro::tile`].
    pub unsafe fn dots(&self, args: &DotArgs) {
        // SAFETY: as above.
        let f: GemmFunction<DotArgs> = unsafe { std::mem::transmute(self.0.start()) };
        f(args);
    }
}
