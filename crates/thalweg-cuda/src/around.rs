//! Helper kernels around a library's call, which pack operands and unpack results.
//!
//! In: sources and argument words. Out: functions of a device, and launches of them with a thread for each element.
//!
//! Always true: a device compiles such a source once, when it is first needed.

use crate::driver::{Driver, Function, Launch};
use crate::prelude::PRELUDE;
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_ir::View;
use thalweg_runtime::{Buffer, Error};

/// Threads per block of every helper kernel.
pub(crate) const BLOCK: usize = 256;
/// Maximum number of dimensions of a view in a helper kernel.
pub(crate) const RANK: usize = 8;

/// Compiled functions of one source on one device. The source is compiled when a function is first requested.
#[derive(Debug, Default)]
pub(crate) struct Functions(Mutex<Option<Arc<[Function]>>>);

impl Functions {
    /// Returns the functions with these names; compiles the source at the first call.
    ///
    /// # Errors
    /// Errors of the compiler or the device.
    pub fn get(&self, driver: &dyn Driver, source: &str, names: &[&str]) -> Result<Arc<[Function]>, Error> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return Ok(known.clone());
        }
        let image = driver.compile(&(PRELUDE.to_string() + source))?;
        Ok(known.insert(driver.load(&image, names)?.into()).clone())
    }
}

/// Creates a launch of blocks of [`BLOCK`] threads, with at least `threads` threads in all.
pub(crate) fn launch(function: &Function, arguments: Vec<u64>, threads: usize) -> Launch {
    let grid = [threads.div_ceil(BLOCK) as u32, 1, 1];
    Launch { function: function.clone(), grid, block: BLOCK as u32, shared: 0, arguments, early: false }
}

/// Device address of a view's first element; `size` is the bytes of an element.
pub(crate) fn first_of((buffer, view): (&Buffer, &View), size: usize) -> u64 {
    (buffer.address() as u64).wrapping_add_signed(view.offset as i64 * size as i64)
}
