//! What is kept of a kernel from call to call: the programs of a map by its signatures, and the calls that are recorded in one go.

use super::known::Known;
use super::program::{Program, Signature};
use std::sync::{Arc, PoisonError, RwLock};

/// What is known of a kernel whose trace follows from its operands' dtypes, and from which of them are numbers: what
/// `#[kernel]` keeps for each.
#[derive(Debug)]
pub struct Prepared {
    programs: RwLock<Vec<(Signature, Option<Arc<Program>>)>>,
    pub(super) calls: Known,
}

impl Default for Prepared {
    fn default() -> Prepared {
        Prepared::new()
    }
}

impl Prepared {
    /// Nothing is known.
    pub const fn new() -> Prepared {
        Prepared { programs: RwLock::new(Vec::new()), calls: Known::new() }
    }

    /// What was found for a signature: a program, or that there is none.
    pub(super) fn find(&self, signature: Signature) -> Option<Option<Arc<Program>>> {
        let known = self.programs.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|k| k.0 == signature).map(|k| k.1.clone())
    }

    /// Keeps what was found.
    pub(super) fn keep(&self, signature: Signature, program: Option<Arc<Program>>) {
        let mut known = self.programs.write().unwrap_or_else(PoisonError::into_inner);
        if known.iter().all(|k| k.0 != signature) {
            known.push((signature, program));
        }
    }
}
