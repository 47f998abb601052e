//! A library's GEMM with its chosen algorithm.

use super::code::LibraryCall;
use crate::driver::cublaslt::{Algorithm, CublasLt, Problem};
use std::sync::Arc;

/// cuBLASLt GEMM with its chosen algorithm: the entry of a function that is not a kernel.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) library: Arc<CublasLt>,
    pub(super) problem: Problem,
    pub(super) algorithm: Algorithm,
    /// Bytes of workspace that the algorithm needs.
    pub(super) workspace: usize,
    pub(super) alignments: [usize; 3],
}

impl LibraryCall for Chosen {
    fn launch(&self, words: &[u64], stream: usize) -> Result<(), String> {
        let &[left, right, result, work] = words else {
            return Err(format!("a product has 4 words, not {}", words.len()));
        };
        for (address, alignment) in [left, right, result].into_iter().zip(self.alignments) {
            if !address.is_multiple_of(alignment as u64) {
                return Err(format!(
                    "a matrix at {address:#x} is not aligned to {alignment} bytes, as its algorithm needs"
                ));
            }
        }
        let chosen = (&self.algorithm, self.workspace);
        // SAFETY: the words are addresses of the matrices and of a workspace of that size, as the caller has bound
        // them.
        unsafe { self.library.multiply(&self.problem, chosen, [left, right, result, work], stream) }
    }
}
