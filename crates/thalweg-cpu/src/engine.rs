//! Selection of the engine that runs a body.
//!
//! In: a body, and a [`Choice`] by `THALWEG_ISA` or by the machine's instruction sets. Out: an [`Engine`] that runs any
//! rectangle of the body's domain. The engine runs emitted machine code where that exists. The tile engine runs bodies
//! that the emitter refuses, and rectangles that emitted code rejects (its fast path does not cover some lane). The
//! tile program of a body is compiled when first needed.
//!
//! The tile engine accepts every rectangle. A run fails for one reason only, an index out of range, and fails its
//! launch.

#[cfg(unix)]
use crate::emitter;
use crate::prepare::prepare;
use crate::row_call::{ACCESS_WORDS, InnerReduction, RowArgs, Rows};
use crate::tile;
use std::ops::Range;
use std::sync::OnceLock;
use thalweg_kernel::{Body, Phases, phases};
use thalweg_runtime::environment::{self, Value};
use thalweg_runtime::{Error, ProgramInfo};

/// Engine of the CPU: the emitter for one instruction set, or the portable tile engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Like [`Choice::Avx512Narrow`]; matrix products of bf16 also use tile registers (AMX), which hold 16 × 16 sums and
    /// add 16 products of pairs to each.
    Avx512Amx,
    /// The x86-64 emitter with AVX-512. Matrix products also use the dot-product instructions of AVX512_BF16 and
    /// AVX512_VNNI where the machine has them: each lane adds 2 products of bf16 or 4 of bytes to its sum.
    Avx512Narrow,
    /// The x86-64 emitter with AVX-512.
    Avx512,
    /// The x86-64 emitter with AVX2 and FMA.
    Avx2,
    /// The portable tile engine.
    Tile,
}

impl Choice {
    /// Returns the engine that `THALWEG_ISA` names, else the best one that this machine can run.
    ///
    /// # Errors
    /// If `THALWEG_ISA` names no engine, or one that this machine does not have.
    pub fn from_environment() -> Result<Choice, Error> {
        let there: Vec<Choice> = Choice::all().collect();
        let Some(Value::Word(asked)) = environment::ISA.read()? else { return Ok(there[0]) };
        there.iter().copied().find(|c| c.name() == asked).ok_or_else(|| {
            let names: Vec<&str> = there.iter().map(|c| c.name()).collect();
            Error::Environment(format!("THALWEG_ISA={asked}: this machine runs {}", names.join(", ")))
        })
    }

    /// Engines that this machine can run, best first.
    pub fn all() -> impl Iterator<Item = Choice> {
        [Choice::Avx512Amx, Choice::Avx512Narrow, Choice::Avx512, Choice::Avx2, Choice::Tile]
            .into_iter()
            .filter(|c| c.available())
    }

    /// Name of the choice in `THALWEG_ISA`.
    pub fn name(self) -> &'static str {
        match self {
            Choice::Avx512Amx => "avx512-amx",
            Choice::Avx512Narrow => "avx512-narrow",
            Choice::Avx512 => "avx512",
            Choice::Avx2 => "avx2",
            Choice::Tile => "tile",
        }
    }

    /// Whether this machine can run the engine.
    pub fn available(self) -> bool {
        #[cfg(unix)]
        if let Some(isa) = self.isa() {
            let narrow = self.pairs() || self.quads();
            return isa.available()
                && match self {
                    Choice::Avx512Amx => narrow && self.tiles(),
                    Choice::Avx512Narrow => narrow,
                    _ => true,
                };
        }
        self == Choice::Tile
    }

    /// Whether emitted code reads elements through a table of positions by permutations of cache lines, where those of a
    /// vector are close to each other; other engines gather them.
    pub fn permutes_lines(self) -> bool {
        matches!(self, Choice::Avx512Amx | Choice::Avx512Narrow | Choice::Avx512)
    }

    /// Whether the engine includes the dot-product instructions for narrow elements.
    #[cfg(unix)]
    fn narrow(self) -> bool {
        matches!(self, Choice::Avx512Amx | Choice::Avx512Narrow)
    }

    /// Whether GEMMs of several rows and columns of bf16 use tile registers (`tdpbf16ps` of AMX).
    pub(crate) fn tiles(self) -> bool {
        #[cfg(unix)]
        return self == Choice::Avx512Amx && self.isa().is_some_and(emitter::Isa::tiles);
        #[cfg(not(unix))]
        false
    }

    /// Whether GEMMs of bf16 use `vdpbf16ps` (AVX512_BF16), which adds two products to each f32 sum.
    pub(crate) fn pairs(self) -> bool {
        #[cfg(unix)]
        return self.narrow() && self.isa().is_some_and(emitter::Isa::pairs);
        #[cfg(not(unix))]
        false
    }

    /// Whether GEMMs of i8 and u8 use `vpdpbusd` (AVX512_VNNI), which adds four products to each i32 sum.
    pub(crate) fn quads(self) -> bool {
        #[cfg(unix)]
        return self.narrow() && self.isa().is_some_and(emitter::Isa::quads);
        #[cfg(not(unix))]
        false
    }

    /// Instruction set that the engine emits code for; `None` for the tile engine. The machine may lack it.
    #[cfg(unix)]
    pub(crate) fn isa(self) -> Option<emitter::Isa> {
        match self {
            Choice::Avx512Amx | Choice::Avx512Narrow | Choice::Avx512 => Some(emitter::Isa::Avx512),
            Choice::Avx2 => Some(emitter::Isa::Avx2),
            Choice::Tile => None,
        }
    }

    /// Emits code for a map body; `None` if the engine is the tile engine, or the emitter refuses the body.
    fn emit(self, body: &Body) -> Option<(Box<dyn Rows>, ProgramInfo)> {
        #[cfg(unix)]
        if let Some(isa) = self.isa().filter(|i| i.available()) {
            match emitter::compile(body, isa) {
                Ok(code) => {
                    let info = self.program_info(&code.report);
                    return Some((Box::new(code), info));
                }
                Err(reason) => tracing::debug!(?reason, "a body is left to the tile engine"),
            }
        }
        let _ = body;
        None
    }

    /// Emits code for a map body that writes its outputs with non-temporal stores; `None` as for [`Choice::emit`].
    fn emit_streaming(self, body: &Body) -> Option<Box<dyn Rows>> {
        #[cfg(unix)]
        if let Some(isa) = self.isa().filter(|i| i.available()) {
            return emitter::compile_streaming(body, isa).ok().map(|code| Box::new(code) as Box<dyn Rows>);
        }
        let _ = body;
        None
    }

    /// Emits code for a row body; `None` as for [`Choice::emit`]. The phases are those of [`thalweg_kernel::phases`] of
    /// the prepared body; with `keep`, they save expensive values in buffers. With `streaming`, stores are
    /// non-temporal.
    fn emit_inner_reduction(
        self,
        body: &Body,
        keep: bool,
        streaming: bool,
    ) -> Option<(Box<dyn InnerReduction>, ProgramInfo)> {
        #[cfg(unix)]
        if let Some(isa) = self.isa().filter(|i| i.available()) {
            let compile =
                if streaming { emitter::compile_inner_reduction_streaming } else { emitter::compile_inner_reduction };
            match compile(body, isa, keep) {
                Ok(code) => {
                    let info = self.program_info(&code.report);
                    return Some((Box::new(code), info));
                }
                Err(reason) => tracing::debug!(?reason, "a row body is left to the tile engine"),
            }
        }
        let _ = (body, keep, streaming);
        None
    }

    /// Converts the emitter's report (code size, time, spills) to program information.
    #[cfg(unix)]
    fn program_info(self, report: &emitter::Report) -> ProgramInfo {
        ProgramInfo {
            engine: self.name().into(),
            code_bytes: report.bytes,
            compile_ns: report.time.as_nanos() as u64,
            spills: Some(report.spills),
            rereads_inputs: report.rereads_inputs,
        }
    }
}

/// Whether the body reads its outputs, so that running it twice differs from running it once.
fn accumulates(body: &Body) -> bool {
    body.stores.iter().any(|s| s.combine.is_some())
}

/// Error of a run: an index of a gather is outside its axis.
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

/// Program information of a body that the tile engine runs.
fn tile_info() -> ProgramInfo {
    ProgramInfo { engine: Choice::Tile.name().into(), ..ProgramInfo::default() }
}

/// Alignment in bytes of output rows that non-temporal stores write.
pub const STREAM_ALIGN: usize = 64;

/// A compiled map body: emitted code, if the emitter accepts the body, and the tile engine as slow path.
pub struct Engine {
    body: Body,
    /// Number of operands of the launch. Operands with higher indices are scratch tables that the driver adds.
    operands: u16,
    fast: Option<Box<dyn Rows>>,
    /// Variant with non-temporal stores, compiled when first needed.
    streaming: OnceLock<Option<Box<dyn Rows>>>,
    choice: Choice,
    slow: OnceLock<Box<dyn Rows>>,
    info: ProgramInfo,
}

impl Engine {
    /// Compiles a map body for an engine.
    pub fn new(body: &Body, choice: Choice) -> Engine {
        // A body that accumulates cannot run twice, so code that may ask for a second run is refused.
        Engine::with((body, body.operands), choice, |info| !(info.rereads_inputs && accumulates(body)))
    }

    /// Compiles a body for [`Engine::run_restoring`]. The first `operands` operands are those of the launch.
    pub fn restored(body: &Body, operands: u16, choice: Choice) -> Engine {
        Engine::with((body, operands), choice, |_| true)
    }

    fn with((body, operands): (&Body, u16), choice: Choice, takes: impl Fn(&ProgramInfo) -> bool) -> Engine {
        let emitted = choice.emit(body).filter(|(_, info)| takes(info));
        let (fast, info) = emitted.map_or_else(|| (None, tile_info()), |(code, info)| (Some(code), info));
        Engine { body: body.clone(), operands, fast, streaming: OnceLock::new(), choice, slow: OnceLock::new(), info }
    }

    /// Information about the compiled program.
    pub fn info(&self) -> &ProgramInfo {
        &self.info
    }

    /// Whether a rectangle may run a second time (on the tile engine) after emitted code wrote its outputs. Its inputs
    /// must then be unchanged, so outputs must not overlap them.
    pub fn rereads_inputs(&self) -> bool {
        self.info.rereads_inputs
    }

    /// Like [`Engine::run`] with `in_place` false, but writes outputs with non-temporal stores; for outputs larger than
    /// the caches. Rows of outputs begin at multiples of [`STREAM_ALIGN`] bytes.
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

    /// Whether a run may have to be repeated although the body accumulates. The caller must then be able to restore the
    /// outputs.
    pub fn restores(&self) -> bool {
        self.info.rereads_inputs && self.fast.is_some() && accumulates(&self.body)
    }

    /// Like [`Engine::run`]; calls `restore` before a run is repeated. `restore` resets the outputs that the first run
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
        // SAFETY: the caller's promise; a run of the emitted code changed nothing but outputs, which are stored again.
        unsafe { self.run(args, n, rows, true) }
    }

    /// Computes `rows × n` points. `in_place`: outputs may overlap inputs that a second run would read again.
    ///
    /// # Safety
    /// As [`Rows::run`].
    ///
    /// # Errors
    /// If an index is out of range; outputs are then unspecified.
    pub unsafe fn run(&self, args: &RowArgs, n: usize, rows: usize, in_place: bool) -> Result<(), OutOfRange> {
        if let Some(fast) = self.fast.as_deref().filter(|_| !in_place) {
            // SAFETY: the caller's promise.
            if unsafe { fast.run(args, n, rows) } {
                return Ok(());
            }
        }
        let slow = self.slow.get_or_init(|| Box::new(tile::compile_with(&self.body, self.operands)));
        // SAFETY: the caller's promise; the inputs are unchanged even if emitted code ran before.
        in_range(unsafe { slow.run(args, n, rows) })
    }
}

/// A compiled row body whose rows run along the innermost dimension.
pub struct InnerReductionEngine {
    body: Body,
    keep: bool,
    phases: Phases,
    fast: Option<Box<dyn InnerReduction>>,
    /// Variant with non-temporal stores, compiled when first needed.
    streaming: OnceLock<Option<Box<dyn InnerReduction>>>,
    choice: Choice,
    slow: OnceLock<Box<dyn InnerReduction>>,
    info: ProgramInfo,
}

impl InnerReductionEngine {
    /// Compiles a row body. With `keep`, expensive values are saved in buffers between phases (see
    /// [`thalweg_kernel::phases`]).
    pub fn new(body: &Body, choice: Choice, keep: bool) -> InnerReductionEngine {
        let emitted = choice.emit_inner_reduction(body, keep, false);
        let emitted = emitted.filter(|(_, info)| !(info.rereads_inputs && accumulates(body)));
        let (fast, info) = emitted.map_or_else(|| (None, tile_info()), |(code, info)| (Some(code), info));
        let (streaming, slow) = (OnceLock::new(), OnceLock::new());
        InnerReductionEngine {
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

    /// Phases of the body: passes over a row that its reductions and scans separate.
    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    /// Information about the compiled program.
    pub fn info(&self) -> &ProgramInfo {
        &self.info
    }

    /// Whether phases may run a second time (on the tile engine) after emitted code wrote outputs. Inputs must then be
    /// unchanged, so outputs must not overlap them.
    pub fn rereads_inputs(&self) -> bool {
        self.info.rereads_inputs
    }

    /// Like [`InnerReductionEngine::run`] with `in_place` false, but writes outputs with non-temporal stores; for
    /// outputs larger than the caches. Rows of outputs begin at multiples of [`STREAM_ALIGN`] bytes.
    ///
    /// # Safety
    /// As [`InnerReduction::run`].
    ///
    /// # Errors
    /// As [`InnerReductionEngine::run`].
    pub unsafe fn run_streaming(
        &self,
        args: &RowArgs,
        n: usize,
        rows: usize,
        phases: Range<usize>,
    ) -> Result<(), OutOfRange> {
        let make = || {
            let made = self.fast.as_ref().and_then(|_| self.choice.emit_inner_reduction(&self.body, self.keep, true));
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

    /// Runs these phases for each row. `in_place`: outputs may overlap inputs that a second run would read again.
    ///
    /// # Safety
    /// As [`InnerReduction::run`].
    ///
    /// # Errors
    /// If an index is out of range; outputs, and the buffers and values that these phases produce, are then
    /// unspecified.
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
        let slow = self.slow.get_or_init(|| Box::new(tile::compile_inner_reduction(&self.body, self.keep)));
        // The tile engine takes one row after the other and reuses the buffers of the first row.
        let mut args = args.to_vec();
        for buffer in 0..self.phases.buffers.len() {
            args[(self.body.accesses.len() + buffer) * ACCESS_WORDS + 1] = 0;
        }
        // SAFETY: the caller's promise; even if emitted code ran before, inputs and results of earlier phases are
        // unchanged.
        in_range(unsafe { slow.run(&args, n, rows, phases) })
    }
}

impl std::fmt::Debug for InnerReductionEngine {
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
                    // SAFETY: both hold 130 elements of at most 8 bytes; outputs are aligned.
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
        // Emitted code guards the lanes of a sine, so it may have to run twice.
        let sine = b.element(ElementOp::Sin, &[x]);
        b.store(sine, y);
        let mut body = b.finish();
        body.stores[0].combine = Some(Monoid::Sum);
        let from: Vec<f32> = (0..100).map(|i| if i == 50 { 1e9 } else { 0.0 }).collect();
        for choice in [Choice::Avx512, Choice::Avx2, Choice::Tile].into_iter().filter(|c| c.available()) {
            let mut to: Vec<f32> = (0..100).map(|i| i as f32).collect();
            let args = [from.as_ptr() as u64, 0, 0, 0, to.as_mut_ptr() as u64, 0, 0, 0];
            let engine = Engine::new(&body, choice);
            // SAFETY: the words describe the vectors; all rows have the same address.
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
                // SAFETY: all of them hold 200 elements of at most 8 bytes.
                unsafe { Engine::new(&body, choice).run(&words, 200, 1, false).unwrap() };
                results.push(to.0);
            }
            assert!(results.windows(2).all(|r| r[0] == r[1]), "{dtype} {how}");
        }
    }
}
