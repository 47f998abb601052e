//! A GPU that does not exist, for tools that only need sources.
//!
//! In: sources. Out: the sources, each once, for inspection or compilation ([`super::nvrtc::compile_for`]). Memory is
//! addresses only, launches do not run, and reads return zeros.
//!
//! Always true: it always succeeds, depends on nothing that a machine may lack, and takes negligible time.

use super::{Chip, Driver, Event, Function, FunctionInfo, Graph, Launch, MAP_WORDS, Module, TensorMap, capabilities};
use crate::prelude::PRELUDE;
use rustc_hash::FxHashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_runtime::Error;

/// The absent GPU: an H100 to the planner and the printer.
#[derive(Clone, Debug)]
pub struct Absent(Arc<AbsentState>);

#[derive(Debug)]
struct AbsentState {
    chip: Chip,
    /// Next address to allocate; addresses are not reused.
    next: AtomicU64,
    sources: Mutex<Sources>,
}

#[derive(Debug, Default)]
struct Sources {
    seen: FxHashSet<String>,
    new: Vec<String>,
}

impl Absent {
    /// Creates an absent GPU that has seen no sources.
    pub fn new() -> Absent {
        let chip = Chip {
            name: "absent GPU".into(),
            sm: 90,
            capabilities: capabilities(90),
            multiprocessors: 132,
            threads: 2048,
            registers: 65536,
            shared: 227 << 10,
            arguments: 32_764,
            faults: 4096,
            l2: 50 << 20,
            memory: 80 << 30,
            bandwidth: 3352.0,
            clock: 1.98,
            compiler: "none".into(),
        };
        Absent(Arc::new(AbsentState { chip, next: AtomicU64::new(1 << 32), sources: Mutex::default() }))
    }

    /// Returns the sources that were first compiled since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.sources.lock().unwrap_or_else(PoisonError::into_inner).new)
    }
}

impl Default for Absent {
    fn default() -> Absent {
        Absent::new()
    }
}

/// Concatenates sources with equal compiler options into units of at most `most` sources each. The compiler then reads
/// the prelude once a unit; reading it is half of the compile time. Keeps the order within a unit.
pub fn joined(sources: &[&str], most: usize) -> Vec<String> {
    // Grouped by their options, which apply to a whole source.
    let mut groups: Vec<(&str, Vec<&str>)> = vec![];
    for source in sources {
        let (options, own) = source.split_once(PRELUDE).expect("every source has the prelude");
        match groups.iter_mut().find(|g| g.0 == options && g.1.len() < most) {
            Some(group) => group.1.push(own),
            None => groups.push((options, vec![own])),
        }
    }
    let one = |(options, all): &(&str, Vec<&str>)| {
        let mut text = format!("{options}{PRELUDE}");
        for (i, own) in all.iter().enumerate() {
            // Helpers with the same name differ by namespace, `extern "C"` functions by a number.
            let own = own.replacen("(THALWEG_PARAMETER", &format!("{i}(THALWEG_PARAMETER"), 1);
            text += &format!("namespace k{i} {{\n{own}}}\n");
        }
        text
    };
    groups.iter().map(one).collect()
}

/// Returns a source without the prelude, for people to read.
pub fn readable(source: &str) -> String {
    source.replacen(PRELUDE, "", 1)
}

/// Module, graph and event of the absent GPU, which do nothing.
#[derive(Debug)]
struct Nothing;

impl Module for Nothing {}

impl Graph for Nothing {
    fn run(&mut self, _: &[Launch]) -> Result<(), Error> {
        Ok(())
    }
}

impl Event for Nothing {
    fn wait(&self) -> Result<(), Error> {
        Ok(())
    }

    fn has_happened(&self) -> Result<bool, Error> {
        Ok(true)
    }

    fn since(&self, _: &dyn Event) -> Result<f64, Error> {
        Ok(0.0)
    }

    fn handle(&self) -> usize {
        0
    }
}

impl Driver for Absent {
    fn on(&self, _: usize) -> Arc<dyn Driver> {
        Arc::new(self.clone())
    }

    fn after(&self, _: &dyn Event) -> Result<(), Error> {
        Ok(())
    }

    fn chip(&self) -> &Chip {
        &self.0.chip
    }

    fn version(&self) -> Option<String> {
        None
    }

    fn obtain(&self, bytes: usize) -> Option<u64> {
        Some(self.0.next.fetch_add(bytes.max(1).next_multiple_of(256) as u64, Relaxed))
    }

    fn release(&self, _: u64) {}

    fn compile(&self, source: &str) -> Result<Vec<u8>, Error> {
        let mut sources = self.0.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.seen.insert(source.to_owned()) {
            sources.new.push(source.to_owned());
        }
        Ok(vec![])
    }

    fn map(&self, map: &TensorMap) -> Option<[u64; MAP_WORDS]> {
        (self.0.chip.capabilities.tensor_maps && map.is_possible()).then_some([0; MAP_WORDS])
    }

    fn load(&self, _: &[u8], functions: &[&str]) -> Result<Vec<Function>, Error> {
        let module: Arc<dyn Module> = Arc::new(Nothing);
        let info = FunctionInfo { registers: 32, local: 0, shared: 0, workspace: None };
        Ok(functions.iter().map(|_| Function { handle: 0, module: module.clone(), info }).collect())
    }

    fn occupancy(&self, _: &Function, block: u32, _: u32) -> u32 {
        self.0.chip.threads / block.max(1)
    }

    fn launch(&self, _: &Launch) -> Result<(), Error> {
        Ok(())
    }

    fn graph(&self, _: &[Launch]) -> Result<Box<dyn Graph>, Error> {
        Ok(Box::new(Nothing))
    }

    fn fill(&self, _: u64, _: u8, _: usize) -> Result<(), Error> {
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn read(&self, _: u64, bytes: &mut [u8]) -> Result<(), Error> {
        bytes.fill(0);
        Ok(())
    }

    fn copy(&self, _: u64, _: u64, _: usize) -> Result<(), Error> {
        Ok(())
    }

    fn event(&self) -> Result<Box<dyn Event>, Error> {
        Ok(Box::new(Nothing))
    }

    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
}
