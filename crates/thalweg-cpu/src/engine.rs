//! Which engine runs a body.
//!
//! In: a body, and a [`Choice`] by `THALWEG_ISA` or by what the machine has. Out: something that runs rectangles of it,
//! whatever lanes they hold: the emitted code where there is some, and the tile engine for bodies that the emitter
//! refuses and for rectangles that it hands back. The tile program of a body is made when first needed.
//!
//! What the tile engine cannot run, nothing can: an index out of range is the one way in which a run fails, and ends
//! its launch.

use crate::prepare::prepare;
use crate::row_call::{ACCESS_WORDS, Along, RowArgs, Rows};
use crate::tile;
#[cfg(all(unix, target_arch = "x86_64"))]
use crate::x64;
use std::ops::Range;
use std::sync::OnceLock;
use thalweg_kernel::{Body, Phases, phases};
use thalweg_runtime::environment::{self, Value};
use thalweg_runtime::{Error, ProgramInfo};

/// Who compiles map bodies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The x86-64 emitter with AVX-512, and in matrix products with what the machine has of AVX512_BF16 and AVX512_VNNI:
    /// instructions that add up several products of narrow numbers.
    Avx512Narrow,
    /// The x86-64 emitter with AVX-512.
    Avx512,
    /// The x86-64 emitter with AVX2 and FMA.
    Avx2,
    /// The portable tile engine.
    Tile,
}

impl Choice {
    /// What `THALWEG_ISA` asks for, else the best that this machine has.
    ///
    /// # Errors
    /// Where `THALWEG_ISA` is no engine, or one that this machine does not have.
    pub fn from_environment() -> Result<Choice, Error> {
        let there: Vec<Choice> = Choice::all().collect();
        let Some(Value::Word(asked)) = environment::ISA.read()? else { return Ok(there[0]) };
        there.iter().copied().find(|c| c.name() == asked).ok_or_else(|| {
            let names: Vec<&str> = there.iter().map(|c| c.name()).collect();
            Error::Environment(format!("THALWEG_ISA={asked}: this machine runs {}", names.join(", ")))
        })
    }

    /// Those that this machine runs, the best first.
    pub fn all() -> impl Iterator<Item = Choice> {
        [Choice::Avx512Narrow, Choice::Avx512, Choice::Avx2, Choice::Tile].into_iter().filter(|c| c.available())
    }

    /// The name that `THALWEG_ISA` takes.
    pub fn name(self) -> &'static str {
        match self {
            Choice::Avx512Narrow => "avx512-narrow",
            Choice::Avx512 => "avx512",
            Choice::Avx2 => "avx2",
            Choice::Tile => "tile",
        }
    }

    /// Whether this machine runs it.
    pub fn available(self) -> bool {
        #[cfg(all(unix, target_arch = "x86_64"))]
        if let Some(isa) = self.isa() {
            return isa.available() && (self != Choice::Avx512Narrow || self.pairs() || self.quads());
        }
        self == Choice::Tile
    }

    /// Whether products of bf16 go in pairs of terms.
    pub(crate) fn pairs(self) -> bool {
        #[cfg(all(unix, target_arch = "x86_64"))]
        return self == Choice::Avx512Narrow && is_x86_feature_detected!("avx512bf16");
        #[cfg(not(all(unix, target_arch = "x86_64")))]
        false
    }

    /// Whether products of bytes go in fours of terms.
    pub(crate) fn quads(self) -> bool {
        #[cfg(all(unix, target_arch = "x86_64"))]
        return self == Choice::Avx512Narrow && is_x86_feature_detected!("avx512vnni");
        #[cfg(not(all(unix, target_arch = "x86_64")))]
        false
    }

    #[cfg(all(unix, target_arch = "x86_64"))]
    pub(crate) fn isa(self) -> Option<x64::Isa> {
        match self {
            Choice::Avx512Narrow | Choice::Avx512 => Some(x64::Isa::Avx512),
            Choice::Avx2 => Some(x64::Isa::Avx2),
            Choice::Tile => None,
        }
    }

    /// Emitted code for a body, where this is an emitter that takes it.
    fn emit(self, body: &Body) -> Option<(Box<dyn Rows>, ProgramInfo)> {
        #[cfg(all(unix, target_arch = "x86_64"))]
        if let Some(isa) = self.isa().filter(|i| i.available()) {
            match x64::compile(body, isa) {
                Ok(code) => {
                    let info = self.told(&code.report);
                    return Some((Box::new(code), info));
                }
                Err(reason) => tracing::debug!(?reason, "a body is left to the tile engine"),
            }
        }
        let _ = body;
        None
    }

    /// Emitted code that stores past the caches.
    fn emit_streaming(self, body: &Body) -> Option<Box<dyn Rows>> {
        #[cfg(all(unix, target_arch = "x86_64"))]
        if let Some(isa) = self.isa().filter(|i| i.available()) {
            return x64::compile_streaming(body, isa).ok().map(|code| Box::new(code) as Box<dyn Rows>);
        }
        let _ = body;
        None
    }

    /// Emitted code for a row body, where this is an emitter that takes it; its phases are those of
    /// [`thalweg_kernel::phases`] of the prepared body. With `streaming` it stores past the caches.
    fn emit_along(self, body: &Body, keep: bool, streaming: bool) -> Option<(Box<dyn Along>, ProgramInfo)> {
        #[cfg(all(unix, target_arch = "x86_64"))]
        if let Some(isa) = self.isa().filter(|i| i.available()) {
            let compile = if streaming { x64::compile_along_streaming } else { x64::compile_along };
            match compile(body, isa, keep) {
                Ok(code) => {
                    let info = self.told(&code.report);
                    return Some((Box::new(code), info));
                }
                Err(reason) => tracing::debug!(?reason, "a row body is left to the tile engine"),
            }
        }
        let _ = (body, keep, streaming);
        None
    }

    /// What the emitter tells of its code.
    #[cfg(all(unix, target_arch = "x86_64"))]
    fn told(self, report: &x64::Report) -> ProgramInfo {
        ProgramInfo {
            engine: self.name().into(),
            code_bytes: report.bytes,
            compile_ns: report.time.as_nanos() as u64,
            spills: Some(report.spills),
            rereads_inputs: report.rereads_inputs,
        }
    }
}

/// Whether running a body twice is not the same as running it once.
fn accumulates(body: &Body) -> bool {
    body.stores.iter().any(|s| s.combine.is_some())
}

/// An index is out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfRange;

impl From<OutOfRange> for Error {
    fn from(_: OutOfRange) -> Error {
        Error::Index("gather: an index is outside the axis it selects from".into())
    }
}

fn in_range(done: bool) -> Result<(), OutOfRange> {
    if done { Ok(()) } else { Err(OutOfRange) }
}

/// Whose program it is when nothing was emitted.
fn tile_info() -> ProgramInfo {
    ProgramInfo { engine: Choice::Tile.name().into(), ..ProgramInfo::default() }
}

/// Alignment of the rows of outputs that are stored past the caches.
pub const STREAM_ALIGN: usize = 64;

/// A compiled body.
pub struct Engine {
    body: Body,
    /// Operands of the launch, before those that are its driver's own.
    operands: u16,
    fast: Option<Box<dyn Rows>>,
    /// The same with stores past the caches, made when first needed.
    streaming: OnceLock<Option<Box<dyn Rows>>>,
    choice: Choice,
    slow: OnceLock<Box<dyn Rows>>,
    info: ProgramInfo,
}

impl Engine {
    /// Compiles a body.
    pub fn new(body: &Body, choice: Choice) -> Engine {
        // What accumulates cannot be run again, so it takes code that never asks for that.
        Engine::with((body, body.operands), choice, |info| !(info.rereads_inputs && accumulates(body)))
    }

    /// Compiles a body that is run by [`Engine::run_restoring`], whose first operands are those of the launch.
    pub fn restored(body: &Body, operands: u16, choice: Choice) -> Engine {
        Engine::with((body, operands), choice, |_| true)
    }

    fn with((body, operands): (&Body, u16), choice: Choice, takes: impl Fn(&ProgramInfo) -> bool) -> Engine {
        let emitted = choice.emit(body).filter(|(_, info)| takes(info));
        let (fast, info) = emitted.map_or_else(|| (None, tile_info()), |(code, info)| (Some(code), info));
        Engine { body: body.clone(), operands, fast, streaming: OnceLock::new(), choice, slow: OnceLock::new(), info }
    }

    /// What was compiled.
    pub fn info(&self) -> &ProgramInfo {
        &self.info
    }

    /// Whether a rectangle may be run again after its outputs were written.
    pub fn rereads_inputs(&self) -> bool {
        self.info.rereads_inputs
    }

    /// As [`Engine::run`] with nothing in place, for outputs larger than the caches. Rows of outputs begin at multiples
    /// of [`STREAM_ALIGN`].
    ///
    /// # Safety
    /// As [`Rows::run`].
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub unsafe fn run_streaming(&self, args: &RowArgs, n: usize, rows: usize) -> Result<(), OutOfRange> {
        let make = || self.fast.as_ref().and_then(|_| self.choice.emit_streaming(&self.body));
        if let Some(streaming) = self.streaming.get_or_init(make) {
            // SAFETY: the caller's promise.
            if unsafe { streaming.run(args, n, rows) } {
                return Ok(());
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.run(args, n, rows, false) }
    }

    /// Whether a run may have to be made again although it accumulates: then what it accumulates into has to be
    /// restored.
    pub fn restores(&self) -> bool {
        self.info.rereads_inputs && self.fast.is_some() && accumulates(&self.body)
    }

    /// As [`Engine::run`]; `restore` is called before a run that is made again, and puts back what the first one
    /// accumulated into.
    ///
    /// # Safety
    /// As [`Rows::run`].
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub unsafe fn run_restoring(
        &self,
        args: &RowArgs,
        n: usize,
        rows: usize,
        in_place: bool,
        restore: impl FnOnce(),
    ) -> Result<(), OutOfRange> {
        if let Some(fast) = self.fast.as_deref().filter(|_| !in_place) {
            // SAFETY: the caller's promise.
            if unsafe { fast.run(args, n, rows) } {
                return Ok(());
            }
            restore();
        }
        // SAFETY: the caller's promise; the fast engine, if it ran, left no trace but in outputs that are stored again.
        unsafe { self.run(args, n, rows, true) }
    }

    /// Computes `rows × n` points; `in_place` where outputs may lie over inputs that would be read again.
    ///
    /// # Safety
    /// As [`Rows::run`].
    ///
    /// # Errors
    /// When an index is out of range; outputs are then unspecified.
    pub unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize, in_place: bool) -> Result<(), OutOfRange> {
        if let Some(fast) = self.fast.as_deref().filter(|_| !in_place) {
            // SAFETY: the caller's promise.
            if unsafe { fast.run(args, n, rows) } {
                return Ok(());
            }
        }
        let slow = self.slow.get_or_init(|| Box::new(tile::compile_with(&self.body, self.operands)));
        // SAFETY: the caller's promise; where the fast engine ran before, the inputs are as they were.
        in_range(unsafe { slow.run(args, n, rows) })
    }
}

/// A compiled row body, run along its rows.
pub struct AlongEngine {
    body: Body,
    keep: bool,
    phases: Phases,
    fast: Option<Box<dyn Along>>,
    /// The same with stores past the caches, made when first needed.
    streaming: OnceLock<Option<Box<dyn Along>>>,
    choice: Choice,
    slow: OnceLock<Box<dyn Along>>,
    info: ProgramInfo,
}

impl AlongEngine {
    /// Compiles a row body; with `keep`, dear values are kept in buffers (see [`thalweg_kernel::phases`]).
    pub fn new(body: &Body, choice: Choice, keep: bool) -> AlongEngine {
        let emitted = choice.emit_along(body, keep, false);
        let emitted = emitted.filter(|(_, info)| !(info.rereads_inputs && accumulates(body)));
        let (fast, info) = emitted.map_or_else(|| (None, tile_info()), |(code, info)| (Some(code), info));
        let (streaming, slow) = (OnceLock::new(), OnceLock::new());
        AlongEngine {
            body: body.clone(),
            keep,
            phases: phases(&prepare(body), keep),
            fast,
            streaming,
            choice,
            slow,
            info,
        }
    }

    /// The parts that it runs in.
    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    /// What was compiled.
    pub fn info(&self) -> &ProgramInfo {
        &self.info
    }

    /// Whether phases may be run again after their outputs were written.
    pub fn rereads_inputs(&self) -> bool {
        self.info.rereads_inputs
    }

    /// As [`AlongEngine::run`] with nothing in place, for outputs larger than the caches. Rows of outputs begin at
    /// multiples of [`STREAM_ALIGN`].
    ///
    /// # Safety
    /// As [`Along::run`].
    ///
    /// # Errors
    /// As [`AlongEngine::run`].
    pub unsafe fn run_streaming(
        &self,
        args: &RowArgs,
        n: usize,
        rows: usize,
        phases: Range<usize>,
    ) -> Result<(), OutOfRange> {
        let make = || {
            let made = self.fast.as_ref().and_then(|_| self.choice.emit_along(&self.body, self.keep, true));
            made.map(|(code, _)| code)
        };
        if let Some(streaming) = self.streaming.get_or_init(make) {
            // SAFETY: the caller's promise.
            if unsafe { streaming.run(args, n, rows, phases.clone()) } {
                return Ok(());
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.run(args, n, rows, phases, false) }
    }

    /// Runs these phases for each row; `in_place` where outputs may lie over inputs that would be read again.
    ///
    /// # Safety
    /// As [`Along::run`].
    ///
    /// # Errors
    /// When an index is out of range; outputs, and the buffers and values that these phases give, are then unspecified.
    pub unsafe fn run(
        &self,
        args: &RowArgs,
        n: usize,
        rows: usize,
        phases: Range<usize>,
        in_place: bool,
    ) -> Result<(), OutOfRange> {
        if let Some(fast) = self.fast.as_deref().filter(|_| !in_place) {
            // SAFETY: the caller's promise.
            if unsafe { fast.run(args, n, rows, phases.clone()) } {
                return Ok(());
            }
        }
        let slow = self.slow.get_or_init(|| Box::new(tile::compile_along(&self.body, self.keep)));
        // It takes one row after the other, in the first one's buffers.
        let mut args = args.to_vec();
        for buffer in 0..self.phases.buffers.len() {
            args[(self.body.accesses.len() + buffer) * ACCESS_WORDS + 1] = 0;
        }
        // SAFETY: the caller's promise; where the fast engine ran before, inputs and what earlier phases gave are as
        // they were.
        in_range(unsafe { slow.run(&args, n, rows, phases) })
    }
}

impl std::fmt::Debug for AlongEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.info)
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_ir::{DType, ElementOp, Monoid, Scalar};
    use thalweg_kernel::{Access, AccessClass, BodyBuilder, Node};

    #[repr(align(64))]
    struct Aligned<T>([T; 256]);

    #[test]
    fn stores_past_the_caches_store_the_same_and_no_more() {
        for dtype in [DType::F32, DType::F64, DType::U8] {
            let mut b = BodyBuilder::new(false);
            let [x, y] = [0, 1].map(|o| b.access(Access::contiguous(o, dtype)));
            let (x, one) = (b.node(Node::Load { access: x }), b.constant(Scalar::Int(1), dtype));
            let sum = b.element(ElementOp::Add, &[x, one]);
            b.store(sum, y);
            let body = b.finish();
            for choice in [Choice::Avx512, Choice::Avx2, Choice::Tile].into_iter().filter(|c| c.available()) {
                let engine = Engine::new(&body, choice);
                let from = Aligned(std::array::from_fn::<u64, 256, _>(|i| (i as f64).to_bits()));
                for n in 0..130 {
                    let (mut a, mut b) = (Aligned([7u64; 256]), Aligned([7u64; 256]));
                    let words =
                        |to: &mut Aligned<u64>| [from.0.as_ptr() as u64, 0, 0, 0, to.0.as_mut_ptr() as u64, 0, 0, 0];
                    // SAFETY: 130 elements of at most 8 bytes lie inside both; outputs are aligned.
                    unsafe {
                        engine.run(&words(&mut a), n, 1, false).unwrap();
                        engine.run_streaming(&words(&mut b), n, 1).unwrap();
                    }
                    assert_eq!(a.0, b.0, "{dtype} {choice:?} {n}");
                }
            }
        }
    }

    #[test]
    fn stores_that_combine_do_so_whoever_compiles_them() {
        let mut b = BodyBuilder::new(false);
        let [x, y] = [0, 1].map(|o| b.access(Access::contiguous(o, DType::F32)));
        let x = b.node(Node::Load { access: x });
        // What guards its lanes, and may so be run twice.
        let sine = b.element(ElementOp::Sin, &[x]);
        b.store(sine, y);
        let mut body = b.finish();
        body.stores[0].combine = Some(Monoid::Sum);
        let from: Vec<f32> = (0..100).map(|i| if i == 50 { 1e9 } else { 0.0 }).collect();
        for choice in [Choice::Avx512, Choice::Avx2, Choice::Tile].into_iter().filter(|c| c.available()) {
            let mut to: Vec<f32> = (0..100).map(|i| i as f32).collect();
            let args = [from.as_ptr() as u64, 0, 0, 0, to.as_mut_ptr() as u64, 0, 0, 0];
            let engine = Engine::new(&body, choice);
            // SAFETY: the words describe the vectors; rows fall on each other.
            unsafe { engine.run(&args, 100, 3, false) }.unwrap();
            for (i, &v) in to.iter().enumerate() {
                let sine = if i == 50 { 1e9f64.sin() as f32 } else { 0.0 };
                assert!((v - (i as f32 + 3.0 * sine)).abs() < 1e-4, "{choice:?}: {v} at {i}");
            }
        }
    }

    #[test]
    fn sums_take_in_products_alike_in_every_engine() {
        for (dtype, how) in [DType::F32, DType::F64].into_iter().flat_map(|d| (0..3).map(move |h| (d, h))) {
            let mut b = BodyBuilder::new(false);
            let class = AccessClass::Contiguous;
            let [x, y, z, to] =
                [0, 1, 2, 3].map(|o| b.access(Access { operand: Some(o), dtype, class, per_row: false }));
            let [x, y, z] = [x, y, z].map(|access| b.node(Node::Load { access }));
            let xy = b.element(ElementOp::Mul, &[x, y]);
            let sum = match how {
                0 => b.element(ElementOp::Add, &[xy, z]),
                1 => b.element(ElementOp::Sub, &[xy, z]),
                _ => b.element(ElementOp::Sub, &[z, xy]),
            };
            b.store(sum, to);
            let body = b.finish();
            let number = |i: usize| (i as f64 * 0.618_033_98).fract() + 0.5;
            let from: [Aligned<u64>; 3] = std::array::from_fn(|k| {
                Aligned(std::array::from_fn(|i| match dtype {
                    DType::F64 => number(i * 3 + k).to_bits(),
                    _ => {
                        let half = |j| (number(j) as f32).to_bits() as u64;
                        half(i * 6 + k) | half(i * 6 + k + 3) << 32
                    }
                }))
            });
            let mut results = vec![];
            for choice in [Choice::Avx512, Choice::Avx2, Choice::Tile].into_iter().filter(|c| c.available()) {
                let mut to = Aligned([0u64; 256]);
                let mut words: Vec<u64> = from.iter().flat_map(|f| [f.0.as_ptr() as u64, 0, 0, 0]).collect();
                words.extend([to.0.as_mut_ptr() as u64, 0, 0, 0]);
                // SAFETY: 200 elements of at most 8 bytes lie inside all of them.
                unsafe { Engine::new(&body, choice).run(&words, 200, 1, false).unwrap() };
                results.push(to.0);
            }
            assert!(results.windows(2).all(|r| r[0] == r[1]), "{dtype} {how}");
        }
    }
}
