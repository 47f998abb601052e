//! Operands that are copied through registers: loads before the arithmetic of a step, stores to shared memory after it.
//! For chips without asynchronous copies ([`crate::Capabilities::async_copies`]).
//!
//! Neighbouring threads take neighbouring elements in memory. In shared memory lines are contiguous and terms a pitch
//! apart, as CUDA cores read them. Elements out of bounds are zeros.

use crate::dsl::Text;
use crate::ir::{Expr, Statement, Type};
use crate::kernels::gemm::emit::{element_of, lines, of};
use crate::kernels::gemm::params::CopyParams;
use crate::kernels::gemm::{GemmClass, Layout};
use thalweg_ir::DType;

/// Emitter of an operand that is copied through registers.
pub(super) struct Staged<'a> {
    pub(super) class: &'a GemmClass,
    /// Index of the operand, a suffix of names: A 0, B 1.
    pub(super) number: usize,
    /// Whether terms are neighbours in memory (K-major).
    pub(super) along: bool,
    /// Whether offsets in memory take 64 bits.
    pub(super) wide: bool,
    /// Kernel arguments of the copy.
    pub(super) params: &'a CopyParams,
}

/// Value of an element in its memory format.
pub(super) fn unpacked(dtype: DType, raw: Expr) -> Expr {
    if Type::Stored(dtype) == Type::Held(dtype) { raw } else { Expr::Unpack(dtype, Box::new(raw)) }
}

impl Staged<'_> {
    /// Number of elements that a thread copies in a step.
    fn each(&self) -> u32 {
        let (tall, ..) = lines(self.class, self.number);
        tall * self.class.tile.k / self.class.tile.threads()
    }

    /// Parses a DSL text; `#` in the text stands for the operand's index.
    fn text(&self, template: &str, extend: impl FnOnce(Text<'_>) -> Text<'_>) -> Vec<Statement> {
        let (tall, first, most) = lines(self.class, self.number);
        let Layout { pitch, all, .. } = self.class.layout(self.number);
        let (dtype, index, element) = (self.class.dtype, Type::index(self.wide), element_of(self.class));
        let names = ["s", "factor", "held", "pitch", "begin", "batch"].map(|name| of(name, self.number));
        let [s, factor, held, row, begin, batch] = names.each_ref().map(String::as_str);
        let text = Text::new()
            .ty("Index", index)
            .number("ALL", all)
            .number("PITCH", pitch)
            .number("TERMS", self.class.tile.k)
            .number("TALL", tall)
            .number("THREADS", self.class.tile.threads())
            .number("EACH", self.each())
            .holds("ALONG", self.along)
            .value("t", Expr::name("t", Type::U32))
            .value("k", Expr::name("k", Type::I64))
            .value("first", first)
            .value("most", most)
            .value("none", Expr::Constant(dtype, 0))
            .value(row, Expr::name(row, index))
            .value(begin, Expr::name(begin, index))
            .value(batch, Expr::name(batch, Type::I64))
            .elements(s, element)
            .elements(held, element)
            .operand(factor, Type::Stored(dtype))
            .function("unpacked", move |x| unpacked(dtype, x[0].clone()));
        extend(text).statements(&[COORDINATES, &template.replace('#', &self.number.to_string())])
    }

    /// Emits the declarations of the copy before the main loop.
    pub(super) fn declared(&self) -> Vec<Statement> {
        let (index, number) = (Type::index(self.wide), self.number);
        let (ty, param) = (Type::Stored(self.class.dtype), self.params.address.slot());
        vec![
            Statement::Operand { name: of("factor", number), ty, param },
            Statement::Let(of("pitch", number), self.params.pitch.read(index)),
            Statement::Let(of("begin", number), Expr::name(of("batch", number), Type::I64).to(index)),
            Statement::Registers { name: of("held", number), ty: element_of(self.class), shape: vec![self.each()] },
        ]
    }

    /// Emits the loads of a step.
    pub(super) fn fetch(&self, step: Expr) -> Vec<Statement> {
        self.text(FETCH, |text| text.value("step", step))
    }

    /// Emits the stores of a step's elements to shared memory.
    pub(super) fn put(&self, slot: Expr) -> Vec<Statement> {
        self.text(PUT, |text| text.value("slot", slot))
    }
}

/// DSL functions for the coordinates of a thread's element `u` in a step.
const COORDINATES: &str = r"
fn c(u) = t + u * THREADS;
fn line_of(u) = ALONG ? c(u) / TERMS : c(u) % TALL;
fn term_of(u) = ALONG ? c(u) % TERMS : c(u) / TALL;
";

/// Loads the first element of the matrix instead of elements out of bounds, so that there are no branches.
const FETCH: &str = r"
for u: u32 in 0..EACH unroll {
    let x = first + i32(line_of(u)), p = step * TERMS + i32(term_of(u));
    let inside = x < i32(most) && p < i32(k);
    let outer = ALONG ? x : p, inner = ALONG ? p : x;
    let raw = factor#[begin# + (inside ? Index(outer) * pitch# + Index(inner) : 0)];
    held#[u] = inside ? unpacked(raw) : none;
}
";

const PUT: &str = r"
for u: u32 in 0..EACH unroll { s#[u32(slot) * ALL + term_of(u) * PITCH + line_of(u)] = held#[u]; }
";
