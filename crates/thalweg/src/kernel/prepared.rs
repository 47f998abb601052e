//! State of a kernel between calls: programs of a map by signature, and cached calls.

use super::call_cache::CallCache;
use super::program::{Program, Signature};
use std::sync::{Arc, PoisonError, RwLock};

/// Cache of a kernel whose trace depends only on the dtypes of its operands and on which of them are numbers.
/// `#[kernel]` stores one per kernel.
#[derive(Debug)]
pub struct Prepared {
    programs: RwLock<Vec<(Signature, Option<Arc<Program>>)>>,
    pub(super) calls: CallCache,
}

impl Default for Prepared {
    fn default() -> Prepared {
        Prepared::new()
    }
}

impl Prepared {
    /// An empty cache.
    pub const fn new() -> Prepared {
        Prepared { programs: RwLock::new(Vec::new()), calls: CallCache::new() }
    }

    /// Looks up the entry of a signature: `Some(None)` if the signature is known to have no program.
    pub(super) fn find(&self, signature: Signature) -> Option<Option<Arc<Program>>> {
        let known = self.programs.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|k| k.0 == signature).map(|k| k.1.clone())
    }

    /// Caches the entry of a signature.
    pub(super) fn keep(&self, signature: Signature, program: Option<Arc<Program>>) {
        let mut known = self.programs.write().unwrap_or_else(PoisonError::into_inner);
        if known.iter().all(|k| k.0 != signature) {
            known.push((signature, program));
        }
    }
}
