//! Strided operands: read by strides of several dimensions, like the windows of a convolution, and copied element by
//! element without arithmetic.
//!
//! The offset of an element is that of its line plus that of its term (implicit GEMM). A thread has the same line in
//! every step, or as many lines as elements, and computes their offsets once. The offsets of a step's terms are a table
//! in shared memory, which the first threads fill one round of stages ahead. So copies need no division per element.

use crate::body::wanted;
use crate::dsl::Text;
use crate::emit::index::{decompose, offset};
use crate::ir::{Expr, Statement, Type};
use crate::kernels::gemm::emit::part::BodyEmitter;
use crate::kernels::gemm::emit::staged::unpacked;
use crate::kernels::gemm::emit::{IN_LINES, element_of, lines, of, shared_part};
use crate::kernels::gemm::{GemmClass, LINE_ELEMENTS, Layout, Math};
use std::ops::Range;
use thalweg_ir::DType;

/// Emitter of an operand that is loaded element by element, by strides.
pub(super) struct Strided<'a> {
    class: &'a GemmClass,
    number: usize,
    part: BodyEmitter<'a>,
    /// Whether elements that are near each other in memory are terms of a line, and not lines.
    along: bool,
    /// Number of neighbouring elements that a thread loads at once: with 2-byte elements two, a word of shared memory.
    side: u32,
    /// Number of threads along the inner dimension.
    across: u32,
    /// Number of iterations of all threads over a step, and distance between two iterations along the outer dimension.
    each: u32,
    apart: u32,
}

impl<'a> Strided<'a> {
    pub(super) fn new(class: &'a GemmClass, number: usize, part: BodyEmitter<'a>, along: bool) -> Strided<'a> {
        let (tall, ..) = lines(class, number);
        let (threads, terms) = (class.tile.threads(), class.tile.k);
        let side = if class.math.is_narrow() { 2 } else { 1 };
        let inner = if along { terms } else { tall };
        let across = (inner / side).min(threads);
        debug_assert!(inner / side <= threads && threads.is_multiple_of(across), "a thread's share lies at one place");
        let (each, apart) = (tall * terms / threads / side, threads / across);
        Strided { class, number, part, along, side, across, each, apart }
    }

    /// Index of the access that loads the operand.
    fn read(&self) -> usize {
        let wants = wanted(&self.part.class.body);
        wants.iter().position(|w| w.load).expect("a strided factor is loaded")
    }

    /// Emits the decomposition of an index into some dimensions; also returns the offset that these contribute.
    fn place(&self, dims: Range<usize>, index: Expr) -> (Vec<Statement>, Expr) {
        let (space, params) = (&self.part.class.space, &self.part.params.space);
        let place = offset(space, params, self.read(), dims.clone(), "i");
        let index = index.to(self.part.index());
        (decompose(space, params, dims, index, "i"), place.unwrap_or(Expr::Number(0, self.part.index())))
    }

    /// Offset that marks a line or term out of bounds.
    fn nowhere(&self) -> Expr {
        match self.part.index() {
            Type::I64 => Expr::Constant(DType::I64, 1 << 63),
            _ => Expr::Constant(DType::I32, 1 << 31),
        }
    }

    /// Parses a DSL text; `#` in the text stands for the operand's index, and `elements` for the operand in memory.
    fn text(&self, template: &str, extend: impl FnOnce(Text<'_>) -> Text<'_>) -> Vec<Statement> {
        let (tall, first, most) = lines(self.class, self.number);
        let Layout { along: kept, pitch, all } = self.class.layout(self.number);
        debug_assert!(!self.class.math.is_narrow() || kept == self.along, "neighbours stay neighbours");
        let (index, element) = (self.part.index(), element_of(self.class));
        let dtype = self.class.dtype;
        let names =
            ["s", "table", "lines", "place", "batch", "words", "in_words", "held"].map(|name| of(name, self.number));
        let [s, table, lines, place, batch, words, in_words, held] = names.each_ref().map(String::as_str);
        let from = format!("p{}{}", self.part.tag, self.read());
        let terms = self.class.tile.k;
        let text = Text::new()
            .number("ACROSS", self.across)
            .number("APART", self.apart)
            .number("SIDE", self.side)
            .number("EACH", self.each)
            .number("OWN", if self.along { self.each } else { self.side })
            .number("TERMS", terms)
            .number("SIZE", self.class.dtype.size() as u32)
            .number("ALL", all)
            .number("PITCH", pitch)
            .number("LINE", LINE_ELEMENTS)
            .number("OUTERS", if kept { tall } else { terms })
            .holds("ALONG", self.along)
            .holds("KEPT", kept)
            .holds("LINES", self.class.math == Math::Warpgroup)
            .value("t", Expr::name("t", Type::U32))
            .value("k", Expr::name("k", Type::I64))
            .value("first", first)
            .value("most", most)
            .value("nowhere", self.nowhere())
            .value(batch, Expr::name(batch, Type::I64))
            .value(place, Expr::name(place, index))
            .elements(s, element)
            .elements(table, index)
            .elements(lines, index)
            .elements(words, Type::U32)
            .elements(in_words, Type::U32)
            .elements(held, element)
            .value("none", Expr::Constant(self.class.dtype, 0))
            .function("unpacked", move |x| unpacked(dtype, x[0].clone()))
            .operand(&from, Type::Stored(dtype));
        let template = template.replace('#', &self.number.to_string()).replace("elements[", &format!("{from}["));
        extend(text).statements(&[IN_LINES, COORDINATES, &template])
    }

    /// Emits declarations and tables: the offsets of the thread's own lines, and the table of terms for all steps of
    /// the first round.
    pub(super) fn declared(&self) -> Vec<Statement> {
        let wants = wanted(&self.part.class.body);
        let [batch, rows] = self.part.class.groups.map(usize::from);
        let (columns, rank) = (batch + rows, self.part.class.space.rank());
        let of_lines = if self.number == 0 { batch..columns } else { columns..rank };
        let (line_apart, of_line) = self.place(of_lines, Expr::name("x", Type::I64));
        let (batch_apart, of_batch) = self.place(0..batch, Expr::name(of("batch", self.number), Type::I64));
        let (stages, number) = (self.class.tile.stages, self.number);
        let mut out = self.part.accesses().declare(&|k| wants[k] != Default::default());
        out.push(Statement::Variable(of("place", number), Expr::Number(0, self.part.index())));
        let own = Statement::Set(Expr::name(of("place", number), self.part.index()), of_batch);
        out.push(Statement::Scope([batch_apart, vec![own]].concat()));
        let shape = vec![if self.along { self.each } else { self.side }];
        out.push(Statement::Registers { name: of("lines", number), ty: self.part.index(), shape });
        let elements = stages * self.class.tile.k;
        out.push(shared_part(of("table", number), self.part.index(), elements, self.class.table_at(number)));
        out.extend(self.text(OWN_LINES, |text| text.given("apart", line_apart).value("of_line", of_line)));
        if self.class.math.is_narrow() {
            let at = if number == 0 { 0 } else { stages * self.class.layout(0).all * 2 };
            out.push(shared_part(of("in_words", number), Type::U32, stages * self.class.layout(number).all / 2, at));
            out.push(Statement::Registers { name: of("words", number), ty: Type::U32, shape: vec![self.each] });
        }
        if self.class.is_staged() {
            out.push(Statement::Registers {
                name: of("held", number),
                ty: element_of(self.class),
                shape: vec![self.each],
            });
        }
        let s = || Expr::name("s", Type::I32);
        let first = if self.class.split.is_some() { Expr::name("first_step", Type::I32) + s() } else { s() };
        out.push(Statement::count("s", stages as usize, crate::ir::Unroll::Free, self.terms(first, s())));
        out.push(Statement::Barrier);
        out
    }

    /// Emits the computation of a step's terms table, which has the offset of each term.
    pub(super) fn terms(&self, step: Expr, slot: Expr) -> Vec<Statement> {
        let [batch, rows] = self.part.class.groups.map(usize::from);
        let (columns, rank) = (batch + rows, self.part.class.space.rank());
        let of_terms = if self.number == 0 { columns..rank } else { batch..columns };
        let (apart, of_term) = self.place(of_terms, Expr::name("p", Type::I64));
        self.text(TABLE, |text| {
            text.value("step", step).value("slot", slot).given("apart", apart).value("of_term", of_term)
        })
    }

    /// Emits the loads (or copies) that a step begins with.
    pub(super) fn early(&self, step: Expr, slot: Expr) -> Vec<Statement> {
        let template = match self.class.math.is_narrow() {
            true => FETCH,
            false if self.class.is_staged() => HOLD,
            false => COPY,
        };
        let dtype = self.class.dtype;
        let raw =
            move |x: &[Expr]| Expr::Bitcast(dtype, DType::U16, Box::new(Expr::Unpack(dtype, Box::new(x[0].clone()))));
        self.text(template, |text| text.value("step", step).value("slot", slot).function("raw", raw))
    }

    /// Emits the stores of a step's elements to shared memory, after their loads have arrived.
    pub(super) fn late(&self, slot: Expr) -> Vec<Statement> {
        let template = match self.class.math.is_narrow() {
            true => PUT,
            false if self.class.is_staged() => PUT_HELD,
            false => return vec![],
        };
        self.text(template, |text| text.value("slot", slot))
    }
}

/// DSL functions for the coordinates of element `e` in a thread's iteration `u` of a step.
const COORDINATES: &str = r"
fn line_of(u, e) = ALONG ? t / ACROSS + u * APART : t % ACROSS * SIDE + e;
fn term_of(u, e) = ALONG ? t % ACROSS * SIDE + e : t / ACROSS + u * APART;
fn outer_of(u, e) = KEPT ? line_of(u, e) : term_of(u, e);
fn inner_of(u, e) = KEPT ? term_of(u, e) : line_of(u, e);
fn to_of(slot, u) = u32(slot) * ALL + (
    LINES ? in_lines(outer_of(u, 0), OUTERS, inner_of(u, 0)) + inner_of(u, 0) % 8 : outer_of(u, 0) * PITCH + inner_of(u, 0)
);
";

const OWN_LINES: &str = r"
for u: u32 in 0..OWN unroll {
    let own = i64(first) + i64(ALONG ? line_of(u, 0) : line_of(0, u)), x = own < most ? own : most - 1;
    apart;
    lines#[u] = place# + of_line;
}
";

const TABLE: &str = r"
if t < TERMS {
    let p = i64(step) * TERMS + i64(t);
    var place = nowhere;
    if p < k {
        apart;
        place = of_term;
    }
    table#[u32(slot) * TERMS + t] = place;
}
";

/// Copies single elements asynchronously, for element sizes that allow it. Lines out of bounds repeat the last line:
/// their accumulators are discarded. Terms out of bounds are zeros, in the last step only.
const COPY: &str = r"
fn line_at(u) = ALONG ? lines#[u] : lines#[0];
fn term_at(u) = table#[u32(slot) * TERMS + term_of(u, 0)];
if (step + 1) * TERMS <= i32(k) {
    for u: u32 in 0..EACH unroll { copy_ahead(s#[to_of(slot, u)], elements[line_at(u) + term_at(u)], SIZE); }
} else {
    for u: u32 in 0..EACH unroll {
        let term = term_at(u);
        copy_ahead(s#[to_of(slot, u)], elements[term != nowhere ? line_at(u) + term : 0], SIZE, term != nowhere);
    }
}
";

/// DSL text that copies pairs of 2-byte elements through registers.
const FETCH: &str = r"
fn line_at(u, e) = ALONG ? lines#[u] : lines#[e];
fn term_at(u, e) = table#[u32(slot) * TERMS + term_of(u, e)];
fn loaded(u, e) = u32(raw(elements[line_at(u, e) + term_at(u, e)]));
if (step + 1) * TERMS <= i32(k) {
    for u: u32 in 0..EACH unroll { words#[u] = loaded(u, 0) | loaded(u, 1) << 16; }
} else {
    for u: u32 in 0..EACH unroll {
        words#[u] = (term_at(u, 0) == nowhere ? 0 : loaded(u, 0)) | (term_at(u, 1) == nowhere ? 0 : loaded(u, 1) << 16);
    }
}
";

const PUT: &str = r"
for u: u32 in 0..EACH unroll { in_words#[to_of(slot, u) / 2] = words#[u]; }
";

/// DSL text that loads single elements to registers, where copies are not asynchronous.
const HOLD: &str = r"
fn line_at(u) = ALONG ? lines#[u] : lines#[0];
for u: u32 in 0..EACH unroll {
    let term = table#[u32(slot) * TERMS + term_of(u, 0)];
    let raw = elements[term != nowhere ? line_at(u) + term : 0];
    held#[u] = term != nowhere ? unpacked(raw) : none;
}
";

const PUT_HELD: &str = r"
for u: u32 in 0..EACH unroll { s#[to_of(slot, u)] = held#[u]; }
";
