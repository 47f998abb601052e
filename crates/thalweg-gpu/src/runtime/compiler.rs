//! Compilation of sources, once: results are cached in the process and on disk.
//!
//! In: a key of a source ([`Skeleton`]; text is only printed for new ones). Out: functions. Machine code is cached on
//! disk by a hash of source, chip and compiler. Code from disk is loaded by the driver, which refuses code that is not
//! for the chip.

use super::driver::{Driver, Function};
use super::ending;
use super::printer::{Printer, Source};
use crate::maps::{MAP_WORDS, TensorMap};
use crate::product::Product;
use crate::tunable::TUNABLES;
use crate::{Chip, Skeleton, Target};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Instant;
use thalweg_ir::{Convolution, DType, ElementOp};
use thalweg_runtime::disk::{self, Key, Kind};
use thalweg_runtime::{Counters, Error, count, counters};

/// Compilation unit: a source with one function.
#[derive(Debug)]
pub struct Unit {
    /// Name of the function.
    name: &'static str,
    source: Source,
    /// Kernel (class key and bodies) that the source was printed from, one of those with this source.
    kernel: Arc<Skeleton>,
    function: OnceLock<Function>,
    /// Nanoseconds that compilation took; 0 where the code came from disk.
    compile_ns: AtomicU64,
    /// Lock that a thread holds while it compiles the unit.
    work: Mutex<()>,
}

impl Unit {
    /// Nanoseconds that compilation took; 0 where it was not compiled.
    pub fn compile_ns(&self) -> u64 {
        self.compile_ns.load(Relaxed)
    }
}

/// Stack bytes of a compiling thread: as many as the compiler has on a main thread.
const STACK: usize = 8 << 20;

/// Compiler of a device, with its cache of compilation units.
#[derive(Debug)]
pub struct Compiler {
    driver: Arc<dyn Driver>,
    printer: Box<dyn Printer>,
    /// Hash of the printer's prelude, which all sources share.
    prelude: Key,
    device: String,
    /// Compilation units by kernel.
    units: RwLock<FxHashMap<Arc<Skeleton>, Arc<Unit>>>,
    /// Compilation units by source, since several kernels may have the same one.
    sources: Mutex<FxHashMap<Source, Arc<Unit>>>,
}

impl Compiler {
    /// Creates a compiler that uses the given driver and printer.
    pub fn new(driver: Arc<dyn Driver>, printer: Box<dyn Printer>, device: String) -> Compiler {
        let prelude = Key::of(&[printer.prelude().as_bytes()]);
        Compiler { driver, printer, prelude, device, units: RwLock::default(), sources: Mutex::default() }
    }

    /// Whole source text of a unit.
    pub fn text(&self, unit: &Unit) -> String {
        self.printer.text(&unit.source)
    }

    /// Returns the unit of a kernel. Its source is printed if the kernel is new.
    pub fn unit(&self, of: &Arc<Skeleton>) -> Arc<Unit> {
        if let Some(unit) = self.units.read().unwrap_or_else(PoisonError::into_inner).get(of) {
            return unit.clone();
        }
        let unit = match &**of {
            Skeleton::Library(product) => self.library(of, self.driver.product(product)),
            Skeleton::Convolution(convolution) => self.library(of, self.driver.convolution(convolution)),
            _ => self.written(of),
        };
        let mut units = self.units.write().unwrap_or_else(PoisonError::into_inner);
        if TUNABLES.max_sources.reached_by(units.len()) {
            units.clear();
        }
        units.entry(of.clone()).or_insert(unit).clone()
    }

    /// Returns the unit of a kernel that has a source.
    fn written(&self, of: &Arc<Skeleton>) -> Arc<Unit> {
        let source = self.printer.source(of);
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if TUNABLES.max_sources.reached_by(sources.len()) {
            sources.clear();
        }
        let new = |source: &Source| {
            let (function, compile_ns, work) = (OnceLock::new(), AtomicU64::new(0), Mutex::new(()));
            Arc::new(Unit { name: of.name(), source: source.clone(), kernel: of.clone(), function, compile_ns, work })
        };
        sources.entry(source).or_insert_with_key(new).clone()
    }

    /// Returns the unit of a library's function.
    fn library(&self, of: &Arc<Skeleton>, function: Option<Function>) -> Arc<Unit> {
        let function = function.map_or_else(OnceLock::new, OnceLock::from);
        let source = Source { options: "", own: String::new() };
        let (compile_ns, work) = (AtomicU64::new(0), Mutex::new(()));
        Arc::new(Unit { name: of.name(), source, kernel: of.clone(), function, compile_ns, work })
    }

    /// Function of a unit: from memory, from disk, or compiled now.
    ///
    /// # Errors
    /// [`Error::Compile`].
    pub fn function(&self, unit: &Unit) -> Result<Function, Error> {
        if let Some(done) = unit.function.get() {
            return Ok(done.clone());
        }
        let _working = ending::work(&self.device)?;
        let _work = unit.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = unit.function.get() {
            return Ok(done.clone());
        }
        // A failed compilation is retried the next time: there may be memory then.
        let function = self.make(unit)?;
        Ok(unit.function.get_or_init(|| function).clone())
    }

    /// Number of units that must be compiled. Those on disk are loaded now.
    pub fn missing<'a>(&self, units: impl Iterator<Item = &'a Arc<Unit>>) -> usize {
        let mut missing: Vec<&Arc<Unit>> = vec![];
        for unit in units {
            let known = unit.function.get().is_some() || missing.iter().any(|m| Arc::ptr_eq(m, unit));
            if !known && !self.loaded(unit) {
                missing.push(unit);
            }
        }
        missing.len()
    }

    /// Whether a unit's code is in memory; loads it from disk if it is there.
    fn loaded(&self, unit: &Unit) -> bool {
        let Ok(_working) = ending::work(&self.device) else { return false };
        let _work = unit.work.lock().unwrap_or_else(PoisonError::into_inner);
        unit.function.get().is_some()
            || self.load_cached(unit, &self.key(unit)).is_some_and(|function| unit.function.set(function).is_ok())
    }

    /// Disk-cache key of a unit's code.
    fn key(&self, unit: &Unit) -> Key {
        let chip = self.driver.chip();
        let Source { options, own } = &unit.source;
        let prelude = self.prelude.as_bytes();
        let sm = chip.sm.to_string();
        Key::of(&[sm.as_bytes(), chip.compiler.as_bytes(), options.as_bytes(), prelude, own.as_bytes()])
    }

    /// Loads a unit's function from disk.
    fn load_cached(&self, unit: &Unit, key: &Key) -> Option<Function> {
        let image = disk::cache()?.get(Kind::Code, key)?;
        let function = self.load(unit, &image).ok()?;
        count(|c| c.programs_loaded += 1);
        Some(function)
    }

    /// Loads a unit's function from machine code.
    fn load(&self, unit: &Unit, image: &[u8]) -> Result<Function, Error> {
        let functions = self.driver.load(image, &[unit.name])?;
        functions.into_iter().next().ok_or_else(|| Error::Compile {
            device: self.device.clone(),
            message: format!("no function {} in its code", unit.name),
        })
    }

    /// Compiles several units in parallel, by up to as many threads as there are processors. Failures are reported by
    /// [`Compiler::function`].
    ///
    /// This does not use rayon: a worker of the program's own pool, waiting here with its stream locked, would take up
    /// other work of the program that needs the same stream.
    pub fn compile<'a>(&self, units: impl Iterator<Item = &'a Arc<Unit>>) {
        let mut new: Vec<&Arc<Unit>> = vec![];
        for unit in units.filter(|u| u.function.get().is_none()) {
            if !new.iter().any(|n| Arc::ptr_eq(n, unit)) {
                new.push(unit);
            }
        }
        // There is mostly nothing to compile; asking for the number of processors takes 10 µs.
        if new.len() < 2 {
            return;
        }
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(new.len());
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(unit) = new.get(next.fetch_add(1, Relaxed)) {
                if let Err(error) = self.function(unit) {
                    tracing::debug!(%error, "not compiled ahead");
                }
            }
            counters()
        };
        // Counters are per thread; the counts of these threads are added to the caller's.
        let done: Vec<Counters> = std::thread::scope(|s| {
            let thread = |_| std::thread::Builder::new().stack_size(STACK).spawn_scoped(s, work);
            // Where no threads can be created the units are compiled one after the other.
            let threads: Vec<_> = (0..threads).filter_map(|n| thread(n).ok()).collect();
            threads.into_iter().filter_map(|t| t.join().ok()).collect()
        });
        count(|c| {
            for d in done {
                c.programs_compiled += d.programs_compiled;
                c.programs_loaded += d.programs_loaded;
                c.compile_ns += d.compile_ns;
            }
        });
    }

    fn make(&self, unit: &Unit) -> Result<Function, Error> {
        self.dump(unit);
        let key = self.key(unit);
        if let Some(function) = self.load_cached(unit, &key) {
            return Ok(function);
        }
        let start = Instant::now();
        let image = self.driver.compile(&self.text(unit))?;
        ending::register();
        let function = self.load(unit, &image)?;
        let ns = start.elapsed().as_nanos() as u64;
        unit.compile_ns.store(ns, Relaxed);
        tracing::debug!(us = ns / 1000, registers = function.info.registers, "compiled");
        count(|c| {
            c.programs_compiled += 1;
            c.compile_ns += ns;
        });
        if let Some(cache) = disk::cache() {
            cache.put(Kind::Code, &key, &image);
        }
        Ok(function)
    }
}

impl Compiler {
    /// Writes a source to the dump folder, to be read or compiled by hand, with the program that it was printed from.
    fn dump(&self, unit: &Unit) {
        thalweg_runtime::dump(unit.name, || {
            let mut all = vec![(self.printer.extension(), self.text(unit).into_bytes())];
            all.extend(self.printer.program(&unit.kernel).map(|kernel| ("ir", kernel.to_string().into_bytes())));
            all
        });
    }
}

impl Target for Compiler {
    fn device(&self) -> &str {
        &self.device
    }

    fn chip(&self) -> &Chip {
        self.driver.chip()
    }

    fn is_native(&self, op: ElementOp, dtype: DType) -> bool {
        self.printer.is_native(op, dtype)
    }

    fn map(&self, map: &TensorMap) -> Option<[u64; MAP_WORDS]> {
        let _working = ending::work(&self.device).ok()?;
        self.driver.map(map)
    }

    fn product(&self, product: &Product) -> Option<usize> {
        let _working = ending::work(&self.device).ok()?;
        self.driver.product(product).map(|function| function.info.workspace.unwrap_or(0))
    }

    fn convolution(&self, convolution: &Convolution) -> Option<usize> {
        let _working = ending::work(&self.device).ok()?;
        self.driver.convolution(convolution).map(|function| function.info.workspace.unwrap_or(0))
    }
}
