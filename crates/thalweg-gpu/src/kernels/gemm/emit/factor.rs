//! Operand loads of a tiled GEMM: copies and prologues that bring A and B (the *factors*) into shared memory, step by
//! step.
//!
//! An operand in memory that is contiguous along one of its dimensions is copied asynchronously (`cp.async`), with
//! several steps in flight. One with strides of more dimensions is copied element by element. Any other is loaded to
//! registers before the arithmetic of a step and computed after it. Chips without asynchronous copies copy through
//! registers (`staged`).

use crate::body::wanted;
use crate::dsl::Text;
use crate::emit::access::Stand;
use crate::emit::loops::Native;
use crate::emit::nodes::value;
use crate::ir::{Expr, Routine, Statement, Type};
use crate::kernels::gemm::emit::part::BodyEmitter;
use crate::kernels::gemm::emit::staged::Staged;
use crate::kernels::gemm::emit::strided::Strided;
use crate::kernels::gemm::emit::{IN_LINES, element_of, lines, of};
use crate::kernels::gemm::params::{CopyParams, FactorParams, GemmParams};
use crate::kernels::gemm::{Copies, FactorClass, GemmClass, LINE_ELEMENTS, Layout, Math};

/// Emitter of an operand (A or B) of a tile.
pub(super) enum Factor<'a> {
    Copied(Box<Copy>),
    Staged(Box<Staged<'a>>),
    Strided(Strided<'a>),
    Computed(Computed<'a>),
}

/// Tags of A and B in the names of their accesses (`pa0`, `pb0`).
const TAGS: [&str; 2] = ["a", "b"];

impl<'a> Factor<'a> {
    /// Creates the emitter of operand A (`number` 0) or B (1) of a class.
    pub(super) fn new(class: &'a GemmClass, params: &'a GemmParams, number: usize, native: Native<'a>) -> Factor<'a> {
        let fault = &params.problem.fault;
        let part = |class, params| BodyEmitter { class, params, fault, tag: TAGS[number], native };
        match (&class.factors[number], &params.factors[number]) {
            (FactorClass::Copied { along }, FactorParams::Copied(own)) => {
                if let Copies::Registers { wide } = class.copies {
                    return Factor::Staged(Box::new(Staged { class, number, along: *along, wide, params: own }));
                }
                Factor::Copied(Box::new(copied(class, number, *along, own.clone())))
            }
            (FactorClass::Strided { part: of, along }, FactorParams::Body(own)) => {
                Factor::Strided(Strided::new(class, number, part(of, own), *along))
            }
            (FactorClass::Computed(of), FactorParams::Body(own)) => {
                Factor::Computed(Computed { tile: class, number, part: part(of, own) })
            }
            _ => unreachable!("arguments are of their class"),
        }
    }

    /// Emits the declarations of the operand before the main loop.
    pub(super) fn declared(&self) -> Vec<Statement> {
        match self {
            Factor::Copied(copy) => copy.declared(),
            Factor::Staged(staged) => staged.declared(),
            Factor::Strided(strided) => strided.declared(),
            Factor::Computed(computed) => computed.declared(),
        }
    }

    /// Emits the start of a step's copies or loads; arguments: index of the step, and its pipeline stage.
    pub(super) fn early(&self, step: Expr, slot: Expr) -> Vec<Statement> {
        vec![Statement::Scope(match self {
            Factor::Copied(copy) => copy.step(step, slot),
            Factor::Staged(staged) => staged.fetch(step),
            Factor::Strided(strided) => strided.early(step, slot),
            Factor::Computed(computed) => computed.fetch(step),
        })]
    }

    /// Emits the rest of a step's work for pipeline stage `slot`, after its loads have arrived.
    pub(super) fn late(&self, slot: Expr) -> Vec<Statement> {
        let all = match self {
            Factor::Copied(_) => vec![],
            Factor::Staged(staged) => staged.put(slot),
            Factor::Strided(strided) => strided.late(slot),
            Factor::Computed(computed) => computed.put(slot),
        };
        if all.is_empty() { all } else { vec![Statement::Scope(all)] }
    }

    /// Emits the preparation of a step, one round of all pipeline stages ahead: the table of a strided operand's terms.
    pub(super) fn prepare(&self, step: Expr, slot: Expr) -> Vec<Statement> {
        match self {
            Factor::Strided(strided) => vec![Statement::Scope(strided.terms(step, slot))],
            Factor::Copied(_) | Factor::Staged(_) | Factor::Computed(_) => vec![],
        }
    }
}

/// Layout of copied elements in shared memory, relative to global memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placing {
    /// Unchanged: neighbours in memory are neighbours in shared memory.
    Kept,
    /// Transposed: neighbours in memory are a pitch apart.
    Transposed,
    /// Lines of 128 bytes with 128-byte swizzle, as `wgmma` reads them.
    Lines,
}

/// Dimension of an operand that is copied: its lines or its terms.
#[derive(Clone)]
pub struct Side {
    /// Number of elements per step.
    pub count: u32,
    /// Index of the first element in step 0, an i32.
    pub first: Expr,
    /// Increment of the first element per step.
    pub step: u32,
    /// Extent of the whole dimension, an i64.
    pub most: Expr,
}

/// Operand that is copied to shared memory asynchronously (`cp.async`).
pub struct Copy {
    /// Index of the operand, a suffix of names. GEMM: A 0, B 1; attention: rows 0, keys 1, values 2.
    pub number: usize,
    /// Type of an element in memory.
    pub element: Type,
    /// Bytes of an element in memory.
    pub size: u32,
    /// Lines: the rows of A (M), or columns of B (N).
    pub lines: Side,
    /// Terms: the dimension K of the product.
    pub terms: Side,
    /// Number of threads that copy.
    pub threads: u32,
    /// Whether terms are neighbours in memory (K-major).
    pub along: bool,
    /// Layout of the copied elements in shared memory.
    pub placing: Placing,
    /// Pitch in shared memory in elements, from line to line or from term to term.
    pub pitch: u32,
    /// Elements of shared memory per pipeline stage.
    pub all: u32,
    /// Kernel arguments of the copy.
    pub params: CopyParams,
}

impl Copy {
    /// Outer and inner (contiguous) dimension in memory.
    fn sides(&self) -> (&Side, &Side) {
        if self.along { (&self.lines, &self.terms) } else { (&self.terms, &self.lines) }
    }

    /// Parses a DSL text with the names of this copy; `#` in the text stands for the operand's index.
    fn text(&self, template: &str, extend: impl FnOnce(Text<'_>) -> Text<'_>) -> Vec<Statement> {
        let Copy { number, threads, pitch, all, size, .. } = *self;
        let (outer, inner) = self.sides();
        let vector = 16 / size;
        let width = (inner.count / vector).max(1);
        let names = ["s", "factor", "pitch", "batch", "outer", "inner", "from"].map(|name| of(name, number));
        let [s, factor, row, batch, outer_own, inner_own, from] = names.each_ref().map(String::as_str);
        let i32 = |name: &str| Expr::name(name, Type::I32);
        let text = Text::new()
            .number("THREADS", threads)
            .number("SIZE", size)
            .number("VECTOR", vector)
            .number("WIDTH", width)
            .number("EACH", inner.count * outer.count / vector / threads)
            .number("APART", threads / width)
            .number("FAR", threads / width * pitch)
            .number("PITCH", pitch)
            .number("ALL", all)
            .number("LINE", LINE_ELEMENTS)
            .number("OUTERS", outer.count)
            .number("INNERS", inner.count)
            .number("OUTER_STEP", outer.step)
            .number("INNER_STEP", inner.step)
            .holds("LINES", self.placing == Placing::Lines)
            .value("outer_first", outer.first.clone())
            .value("inner_first", inner.first.clone())
            .value("outer_most", outer.most.clone())
            .value("inner_most", inner.most.clone())
            .value("t", Expr::name("t", Type::U32))
            .value(batch, Expr::name(batch, Type::I64))
            .value(row, i32(row))
            .value(outer_own, i32(outer_own))
            .value(inner_own, i32(inner_own))
            .value(from, Expr::name(from, Type::I64))
            .elements(s, self.element)
            .operand(factor, self.element);
        extend(text).statements(&[IN_LINES, &template.replace('#', &number.to_string())])
    }

    /// Emits the declarations of the copy before the main loop.
    pub fn declared(&self) -> Vec<Statement> {
        let mut out = vec![
            Statement::Operand { name: of("factor", self.number), ty: self.element, param: self.params.address.slot() },
            Statement::Let(of("pitch", self.number), self.params.pitch.read(Type::I32)),
        ];
        if self.placing != Placing::Transposed {
            out.extend(self.text(VECTORS_BEGIN, |text| text));
        }
        out
    }

    /// Emits the copies of a step; arguments: index of the step, and its pipeline stage, each an i32.
    pub fn step(&self, step: Expr, slot: Expr) -> Vec<Statement> {
        let transposed = self.placing == Placing::Transposed;
        let (_, inner) = self.sides();
        let apart = self.threads / (inner.count / (16 / self.size)).max(1);
        debug_assert!(transposed || self.placing != Placing::Lines || apart.is_multiple_of(8) || self.outer_once());
        let template = if transposed { ELEMENTS } else { VECTORS };
        self.text(template, |text| text.value("step", step).value("slot", slot))
    }

    /// Emits the rounding from f32 to TF32 of the elements that a thread has copied in a step: once, instead of at
    /// every multiplication.
    pub fn round(&self, slot: Expr) -> Vec<Statement> {
        self.text(ROUND, |text| text.value("slot", slot).function("tf32", |x| Routine::Tf32.of(x.to_vec())))
    }

    /// Emits code that rounds the rows of a block to TF32, and stores them in fragment order
    /// ([`crate::kernels::attention::AttentionClass::scores_by_fours`]). All threads of the block must run this code.
    pub fn round_to_fragments(&self) -> Vec<Statement> {
        self.text(ROUND_TO_FRAGMENTS, |text| text.function("tf32", |x| Routine::Tf32.of(x.to_vec())))
    }

    /// Whether a thread copies along a single line per step, so that the stride between its lines does not matter.
    fn outer_once(&self) -> bool {
        let (outer, inner) = self.sides();
        inner.count / (16 / self.size) * outer.count == self.threads
    }
}

/// Copies element by element: terms are neighbours in memory, lines are neighbours in shared memory. Neighbouring
/// threads have neighbouring terms of a line.
const ELEMENTS: &str = r"
let DEEP = INNERS, COUNT = INNERS * OUTERS / THREADS;
for u: u32 in 0..COUNT unroll {
    let c = t + u * THREADS, line = c / DEEP, term = c % DEEP;
    let x = outer_first + step * OUTER_STEP + i32(line), p = inner_first + step * INNER_STEP + i32(term);
    let inside = x < i32(outer_most) && p < i32(inner_most);
    copy_ahead(
        s#[u32(slot) * ALL + term * PITCH + line], factor#[batch# + (inside ? i64(x) * i64(pitch#) + i64(p) : 0)], SIZE, inside
    );
}
";

/// Copies vectors of 16 bytes. All vectors of a thread have the same position along the inner dimension; along the
/// outer dimension they have a constant stride.
const VECTORS_BEGIN: &str = r"
let outer# = i32(t) / WIDTH, inner# = i32(t) % WIDTH * VECTOR;
let from# = batch# + i64(outer_first + outer#) * i64(pitch#) + i64(inner_first + inner#);
";

const VECTORS: &str = r"
let begin = slot * ALL + (LINES ? in_lines(outer#, OUTERS, inner#) : outer# * PITCH + inner#);
let whence = from# + i64(step * OUTER_STEP) * i64(pitch#) + i64(step * INNER_STEP);
let outers = i32(outer_most) - (outer_first + step * OUTER_STEP);
let inners = i32(inner_most) - (inner_first + step * INNER_STEP);
if outers >= OUTERS && inners >= INNERS {
    for u: i32 in 0..EACH unroll { copy_ahead(s#[begin + u * FAR], factor#[whence + i64(u * APART) * i64(pitch#)], 16); }
} else {
    for u: i32 in 0..EACH unroll {
        let left = outer# + u * APART < outers ? inners - inner# : 0;
        let inside = left < 0 ? 0 : left < VECTOR ? left : VECTOR;
        let there = inside != 0 ? whence + i64(u * APART) * i64(pitch#) : batch#;
        copy_ahead(s#[begin + u * FAR], factor#[there], 16, inside * SIZE);
    }
}
";

const ROUND: &str = r"
let own = slot * ALL + outer# * PITCH + inner#;
for u: i32 in 0..EACH unroll {
    var x: f32[VECTOR];
    for e: i32 in 0..VECTOR unroll { x[e] = s#[own + (u * FAR + e)]; }
    for e: i32 in 0..VECTOR unroll { s#[own + (u * FAR + e)] = tf32(x[e]); }
}
";

/// DSL text that stores in fragment order: 16 rows by 16 terms become two blocks of 128 elements, one for each
/// multiplication of a warp. In a block, each thread has four neighbouring elements: two terms of two rows.
const ROUND_TO_FRAGMENTS: &str = r"
var x: f32[EACH][VECTOR];
for u: i32 in 0..EACH unroll {
    for e: i32 in 0..VECTOR unroll { x[u][e] = tf32(s#[outer# * PITCH + inner# + (u * FAR + e)]); }
}
barrier;
for u: i32 in 0..EACH unroll {
    let row = outer# + u * APART;
    let begin = (row / 16 * (INNERS / 16) + inner# / 16) * 256 + (row % 8 * 4 + inner# % 16 / 4) * 4 + row % 16 / 8;
    for e: i32 in 0..VECTOR unroll { s#[begin + e / 2 * 128 + e % 2 * 2] = x[u][e]; }
}
";

/// Returns the asynchronous copy of operand A (`number` 0) or B (1) of a tiled GEMM: its dimensions, and its layout in
/// shared memory.
fn copied(class: &GemmClass, number: usize, along: bool, params: CopyParams) -> Copy {
    let (tall, first, most) = lines(class, number);
    let Layout { along: kept, pitch, all } = class.layout(number);
    let none = Expr::Number(0, Type::I32);
    let terms = class.tile.k;
    Copy {
        number,
        element: element_of(class),
        size: class.dtype.size() as u32,
        lines: Side { count: tall, first, step: 0, most },
        terms: Side { count: terms, first: none, step: terms, most: Expr::name("k", Type::I64) },
        threads: class.tile.threads(),
        along,
        placing: match class.math {
            Math::Warpgroup => Placing::Lines,
            // On CUDA cores terms are a pitch apart in shared memory.
            _ if kept != along => Placing::Transposed,
            _ => Placing::Kept,
        },
        pitch,
        all,
        params,
    }
}

/// Emitter of an operand that is computed by its body (prologue).
pub(super) struct Computed<'a> {
    tile: &'a GemmClass,
    number: usize,
    part: BodyEmitter<'a>,
}

impl Computed<'_> {
    fn lanes(&self) -> u32 {
        self.part.class.space.lanes as u32
    }

    /// Number of vectors that a thread computes in a step.
    fn each(&self) -> u32 {
        let (tall, ..) = lines(self.tile, self.number);
        tall * self.tile.tile.k / self.tile.tile.threads() / self.lanes()
    }

    /// Accesses whose elements or indices are loaded before the arithmetic of a step.
    fn fetched(&self) -> Vec<usize> {
        let wants = wanted(&self.part.class.body);
        (0..wants.len()).filter(|&k| wants[k].load || wants[k].position).collect()
    }

    fn declared(&self) -> Vec<Statement> {
        let (accesses, wants) = (self.part.accesses(), wanted(&self.part.class.body));
        let mut out = accesses.declare(&|k| wants[k] != Default::default());
        for k in self.fetched() {
            out.extend(accesses.arrays(k, wants[k], self.lanes() as usize, &[self.each()]));
        }
        out.push(Statement::Variable(of("fetched", self.number), Expr::Number(0, Type::I32)));
        out
    }

    /// Environment of the DSL texts. Rows of A's domain are lines and its columns terms; for B it is the reverse.
    fn text(&self, step: Expr) -> Text<'static> {
        let (tall, first, most) = lines(self.tile, self.number);
        let (terms, v) = (self.tile.tile.k, self.lanes());
        let names = ["x", "p"].map(|name| Expr::name(name, Type::I64));
        let [x, p] = names.clone();
        let [row, column] = if self.number == 0 { [x, p] } else { [p, x] };
        let stand = Statement::Let("row".into(), row.to(self.part.index()));
        let vector = column / Expr::Number(v.into(), Type::I64);
        let mut at = vec![stand, Statement::Let("column".into(), vector.to(self.part.index()))];
        let place = ["row", "column"].map(|name| Expr::name(name, self.part.index()));
        let [row, column] = place;
        let batch = Expr::name(of("batch", self.number), Type::I64);
        at.extend(self.part.decomposed([batch, row, column]));
        Text::new()
            .holds("LEFT", self.number == 0)
            .number("LANES", v)
            .number("EACH", self.each())
            .number("THREADS", self.tile.tile.threads())
            .number("TERMS", terms)
            .number("TALL", tall)
            .value("t", Expr::name("t", Type::U32))
            .value("k", Expr::name("k", Type::I64))
            .value("most", most)
            .value("first", first)
            .value("step", step)
            .given("stand_at", at)
    }

    /// Calls `then` with the position of a thread's vector in the domain of the body.
    fn with_stand<T>(&self, then: impl FnOnce(&Stand) -> T) -> T {
        let position = |k: usize| self.part.position(k);
        let name = |name: &str| Expr::name(name, Type::I64);
        let batch = name(&of("batch", self.number));
        let point = match self.number {
            0 => (batch * name("m") + name("x")) * name("k") + name("p"),
            _ => (batch * name("k") + name("p")) * name("n") + name("x"),
        };
        let step = Expr::Number(1, Type::I64);
        then(&Stand { position: &position, point, step, lanes: self.lanes() as usize })
    }

    /// Emits the loads of the body for step `step`.
    fn fetch(&self, step: Expr) -> Vec<Statement> {
        let (accesses, wants) = (self.part.accesses(), wanted(&self.part.class.body));
        let u = [Expr::name("u", Type::U32)];
        let all = |stand: &Stand| {
            self.fetched().into_iter().flat_map(|k| accesses.fetch(k, wants[k], stand, [&u, &u])).collect()
        };
        let loads: Vec<Statement> = self.with_stand(all);
        let mut out = vec![Statement::Set(Expr::name(of("fetched", self.number), Type::I32), step.clone())];
        out.extend(self.text(step).given("loads", loads).statements(&[PLACE, FETCH]));
        out
    }

    /// Emits the computation of a step's elements, and their stores to shared memory.
    fn put(&self, slot: Expr) -> Vec<Statement> {
        let (accesses, body) = (self.part.accesses(), &self.part.class.body);
        let u = [Expr::name("u", Type::U32)];
        let load = |k: u16| accesses.element(k as usize, &u);
        let nodes = self.with_stand(|stand| self.part.compute(body, stand, &load, &u));
        let found = value(body, body.stores[0].node);
        let (element, dtype) = (element_of(self.tile), self.tile.dtype);
        let stored = |x: Expr| if element == Type::Stored(dtype) { Expr::Pack(dtype, Box::new(x)) } else { x };
        let none = stored(Expr::Constant(dtype, 0));
        let name = of("s", self.number);
        let (tall, ..) = lines(self.tile, self.number);
        let Layout { along, pitch, all } = self.tile.layout(self.number);
        let step = Expr::name(of("fetched", self.number), Type::I32);
        self.text(step)
            .ty("Element", element)
            .elements(&name, element)
            .number("LINE", LINE_ELEMENTS)
            .number("ALL", all)
            .number("PITCH", pitch)
            .number("OUTERS", if along { tall } else { self.tile.tile.k })
            .holds("LINES", self.tile.math == Math::Warpgroup)
            .holds("ALONG", along)
            .value("none", none)
            .value("found", stored(found))
            .value("slot", slot)
            .given("compute", nodes)
            .statements(&[PLACE, IN_LINES, &PUT.replace("s#", &name)])
    }
}

/// DSL functions for the coordinates of a thread's vector `u`.
const PLACE: &str = r"
fn c(u) = t + u * THREADS;
fn line_of(u) = LEFT ? c(u) / (TERMS / LANES) : c(u) % (TALL / LANES) * LANES;
fn term_of(u) = LEFT ? c(u) % (TERMS / LANES) * LANES : c(u) / (TALL / LANES);
";

const FETCH: &str = r"
for u: u32 in 0..EACH unroll {
    let x = i64(first) + i64(line_of(u)), p = i64(step) * TERMS + i64(term_of(u));
    if x < most && p < k {
        stand_at;
        loads;
    }
}
";

const PUT: &str = r"
for u: u32 in 0..EACH unroll {
    let line = line_of(u), term = term_of(u);
    let x = i64(first) + i64(line), p = i64(step) * TERMS + i64(term);
    var made: Element[LANES];
    for v: i32 in 0..LANES unroll { made[v] = none; }
    if x < most && p < k {
        stand_at;
        for v: i32 in 0..LANES unroll {
            compute;
            made[v] = found;
        }
    }
    for v: u32 in 0..LANES unroll {
        let own_line = LEFT ? line : line + v, own_term = LEFT ? term + v : term;
        let outer = ALONG ? own_line : own_term, inner = ALONG ? own_term : own_line;
        s#[u32(slot) * ALL + (LINES ? in_lines(outer, OUTERS, inner) + inner % 8 : outer * PITCH + inner)] = made[v];
    }
}
";
