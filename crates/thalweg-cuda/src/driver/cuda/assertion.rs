//! Assertions on the device: a kernel that ends the context unless words are 0.
//!
//! In: the address of fault slots. Out: a launch. PyTorch's kernels assert their indices in the same way, so a program
//! that uses both sees one kind of error.

use super::{Cuda, Driver, Function, Launch};
use std::sync::OnceLock;

/// Threads of the launch's only block.
const BLOCK: u32 = 128;

const SOURCE: &str = r#"
struct Words { unsigned long long w[2]; };
extern "C" __global__ void assert_zero(const __grid_constant__ Words a) {
  const unsigned long long *const words = (const unsigned long long *)a.w[0];
  for (unsigned long long i = threadIdx.x; i < a.w[1]; i += blockDim.x)
    if (words[i])
      __assertfail("an index is in range (CUDA_LAUNCH_BLOCKING=1 names the operation)", "thalweg", 0, "gather or scatter", 1);
}
"#;

/// Returns the function that asserts, compiled at the first call; `None` if the compiler refuses.
pub(super) fn function<'a>(known: &'a OnceLock<Option<Function>>, driver: &Cuda) -> Option<&'a Function> {
    let compiled = || {
        let loaded = driver.compile(SOURCE).and_then(|image| driver.load(&image, &["assert_zero"]));
        let refused = |error| tracing::warn!(%error, "no assertions on this GPU: indices are waited for");
        loaded.map_err(refused).ok().and_then(|mut functions| functions.pop())
    };
    known.get_or_init(compiled).as_ref()
}

/// Returns the launch that asserts that `words` words from an address on are 0.
pub(super) fn launch(function: &Function, address: u64, words: usize) -> Launch {
    Launch {
        function: function.clone(),
        grid: [1; 3],
        block: BLOCK,
        shared: 0,
        arguments: vec![address, words as u64],
        early: false,
    }
}
