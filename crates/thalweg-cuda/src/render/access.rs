//! How kernels that are written as text read and write through the accesses of a body ([`thalweg_gpu::write::access`] has
//! the statements).
//!
//! In: where a thread stands (a position for each access). Out: statements. What is loaded for access `k` is in
//! `r{k}[v]`, lane by lane as it is in memory; the position that a map gives is in `m{k}[v]`; what is to be stored
//! through it in `y{k}[v]`.

use super::place::bracketed;
use super::print::{self, expr};
use super::types::stored;
use thalweg_gpu::class::body::Wanted;
use thalweg_gpu::ir::{Expr, Type};
use thalweg_gpu::space::Way;
use thalweg_gpu::write::access;
use thalweg_ir::DType;

/// The accesses of a kernel.
#[derive(Clone, Copy)]
pub struct Accesses<'a>(pub access::Accesses<'a>);

/// Where a thread stands: its first lane.
pub struct Stand<'a> {
    /// The position of an access that is strided, as an expression.
    pub position: &'a dyn Fn(usize) -> String,
    /// The row-major point of the whole domain.
    pub point: String,
    /// From lane to lane.
    pub step: String,
    /// Lanes.
    pub lanes: usize,
}

/// Indices in brackets as expressions: none, or `[u]`, or `[u][2]`.
fn indices(text: &str) -> Vec<Expr> {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    inner.map_or(vec![], |t| t.split("][").map(|i| Expr::name(i, Type::I32)).collect())
}

/// Sizes in brackets.
fn sizes(text: &str) -> Vec<u32> {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    inner.map_or(vec![], |t| t.split("][").map(|n| n.parse().expect("a size is a number")).collect())
}

impl Accesses<'_> {
    /// Does something with where a thread stands.
    fn with<T>(&self, stand: &Stand, f: impl FnOnce(&access::Stand) -> T) -> T {
        let ty = Type::index(self.0.class.wide);
        let position = |k: usize| bracketed(&(stand.position)(k), ty);
        let (point, step) = (bracketed(&stand.point, Type::I64), bracketed(&stand.step, Type::I64));
        f(&access::Stand { position: &position, point, step, lanes: stand.lanes })
    }

    /// The pointers, and the maps as functions.
    pub fn declare(&self, used: &dyn Fn(usize) -> bool) -> String {
        print::statements(&self.0.declare(used))
    }

    /// Whether all lanes have the same element.
    pub fn single(&self, k: usize) -> bool {
        self.0.single(k)
    }

    /// Declares what [`Accesses::fetch`] fills.
    pub fn arrays(&self, k: usize, wanted: Wanted, lanes: usize, before: &str) -> String {
        print::statements(&self.0.arrays(k, wanted, lanes, &sizes(before)))
    }

    /// Fills the arrays of an access; `at` and `place` are the indices before the lanes, of elements and of positions:
    /// `[u]`.
    pub fn fetch(&self, k: usize, wanted: Wanted, stand: &Stand, [at, place]: [&str; 2]) -> String {
        let (at, place) = (indices(at), indices(place));
        print::statements(&self.with(stand, |stand| self.0.fetch(k, wanted, stand, [&at, &place])))
    }

    /// Fills the elements of a strided access that `h` has of a dimension: `count` times eight of them, of which a
    /// thread has `halves` vectors of `v`, the first of all at `position`. Their number is that of the eight, of `h`, and
    /// within the two that a thread has.
    pub fn fetch_apart(&self, k: usize, position: &str, [count, halves, v]: [u32; 3]) -> String {
        let tag = self.0.tag;
        let vector = matches!(self.0.class.ways[k], Way::Strided { vector: true, .. }) && v > 1;
        let load = match () {
            () if vector => format!("loadv(r{tag}{k}[u], first + (j * 8 + g * {v}));"),
            () if self.single(k) => format!("r{tag}{k}[u][0] = load1(first);"),
            () => {
                let step = expr(&self.0.lane_step(k));
                format!(
                    "for (i32 v = 0; v < {v}; v++) r{tag}{k}[u][v] = load1(first + (i64)(j * 8 + g * {v} + v) * ({step}));"
                )
            }
        };
        format!(
            "      {{ const {} *const first = p{tag}{k} + ({position});\n#pragma unroll\n      for (i32 j = 0; j < {count}; j++)\n#pragma unroll\n        for (i32 g = 0; g < {halves}; g++) {{ const i32 u = (j * 2 + h) * {halves} + g; {load} }} }}\n",
            stored(self.0.list[k].dtype)
        )
    }

    /// The element of lane `v`.
    pub fn element(&self, k: usize, at: &str) -> String {
        expr(&self.0.element(k, &indices(at)))
    }

    /// The position of lane `v` as a value.
    pub fn index(&self, k: usize, dtype: DType, at: &str) -> String {
        expr(&self.0.position(k, dtype, &indices(at)))
    }

    /// Whether lane `v` is inside.
    pub fn valid(&self, k: usize, at: &str) -> String {
        expr(&self.0.valid(k, &indices(at)))
    }

    /// The element `offset` elements from where lane `v` is.
    pub fn gathered(&self, k: usize, stand: &Stand, offset: &str, inside: &str) -> String {
        let (offset, inside) = (bracketed(offset, Type::I64), bracketed(inside, Type::BOOL));
        let fault = Expr::name("fault", Type::U64);
        self.with(stand, |stand| expr(&self.0.gathered(k, stand, [offset, inside, fault])))
    }
}
