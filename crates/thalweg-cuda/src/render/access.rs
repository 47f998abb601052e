//! How source reads and writes through the accesses of a body.
//!
//! In: where a thread stands (a position for each access). Out: statements. What is loaded for access `k` is in
//! `r{k}[v]`, lane by lane as it is in memory; the position that a map gives is in `m{k}[v]`; what is to be stored
//! through it in `y{k}[v]`.

use super::place::{index_type, map_function};
use super::types::{held, pack_rounded, stored, unpack};
use thalweg_gpu::class::body::Wanted;
use thalweg_gpu::space::{Inner, Slots, SpaceClass, Way};
use thalweg_ir::DType;
use thalweg_kernel::Access;

/// The accesses of a kernel.
#[derive(Clone, Copy)]
pub struct Accesses<'a> {
    /// Those of the body, with buffers behind where there are some.
    pub list: &'a [Access],
    /// How they move.
    pub class: &'a SpaceClass,
    /// Where their words are.
    pub slots: &'a Slots,
    /// What stands in its names before the number, where a kernel has several bodies.
    pub tag: &'static str,
}

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

impl Accesses<'_> {
    fn index_type(&self) -> &'static str {
        index_type(self.class.wide)
    }

    /// The pointers, and the maps as functions.
    pub fn declare(&self, used: &dyn Fn(usize) -> bool) -> String {
        let tag = self.tag;
        let mut out = String::new();
        for (k, access) in self.list.iter().enumerate().filter(|(k, _)| used(*k)) {
            let w = self.slots.accesses[k];
            if access.operand.is_some() {
                let t = stored(access.dtype);
                out += &format!("  {t} *const p{tag}{k} = ({t} *)a.w[{w}];\n");
            }
            if let Way::Mapped(_) = self.class.ways[k] {
                out += &format!(
                    "  auto map{tag}{k} = [&](i64 point) -> i64 {{\n{}  }};\n",
                    map_function(self.class, self.slots, k)
                );
            }
        }
        out
    }

    /// The step from lane to lane of a strided access.
    fn lane_step(&self, k: usize) -> String {
        match (&self.class.ways[k], self.class.lane()) {
            (Way::Strided { inner: Inner::Unit, .. }, _) => "1".into(),
            (Way::Strided { inner: Inner::Any, .. }, Some(l)) => {
                format!("({})a.w[{}]", self.index_type(), self.slots.accesses[k] + 1 + l)
            }
            _ => "0".into(),
        }
    }

    /// Whether all lanes have the same element.
    pub fn single(&self, k: usize) -> bool {
        matches!(self.class.ways[k], Way::Strided { inner: Inner::Zero, .. })
    }

    /// Declares the elements of an access, with `before` in front of the lanes: `[4]` for several vectors.
    pub fn elements(&self, k: usize, lanes: usize, before: &str) -> String {
        let tag = self.tag;
        let n = if self.single(k) { 1 } else { lanes };
        format!("__align__(16) {} r{tag}{k}{before}[{n}]; ", stored(self.list[k].dtype))
    }

    /// Declares what [`Accesses::fetch`] fills.
    pub fn arrays(&self, k: usize, wanted: Wanted, lanes: usize, before: &str) -> String {
        let tag = self.tag;
        let n = if self.single(k) { 1 } else { lanes };
        let mut out = if wanted.load { self.elements(k, lanes, before) } else { String::new() };
        if wanted.position || matches!(self.class.ways[k], Way::Mapped(_)) {
            out += &format!("i64 m{tag}{k}{before}[{n}]; ");
        }
        out
    }

    /// Fills the arrays of an access; `at` and `place` are the indices before the lanes, of elements and of positions:
    /// `[u]`.
    pub fn fetch(&self, k: usize, wanted: Wanted, stand: &Stand, [at, place]: [&str; 2]) -> String {
        let tag = self.tag;
        let (v, mut out) = (stand.lanes, String::new());
        if wanted == Wanted::default() {
            return out;
        }
        let t = stored(self.list[k].dtype);
        if let Way::Mapped(_) = self.class.ways[k] {
            out += &format!(
                "for (int v = 0; v < {v}; v++) m{tag}{k}{place}[v] = map{tag}{k}({} + v * {}); ",
                stand.point, stand.step
            );
            if wanted.load {
                out += &format!(
                    "for (int v = 0; v < {v}; v++) r{tag}{k}{at}[v] = m{tag}{k}{place}[v] < 0 ? ({t})0 : load1(p{tag}{k} + m{tag}{k}{place}[v]); "
                );
            }
            return out;
        }
        let position = (stand.position)(k);
        let step = self.lane_step(k);
        if wanted.load {
            out += &match &self.class.ways[k] {
                Way::Strided { vector: true, .. } if v > 1 => {
                    format!("loadv(r{tag}{k}{at}, p{tag}{k} + ({position})); ")
                }
                Way::Strided { inner: Inner::Zero, .. } => {
                    format!("r{tag}{k}{at}[0] = load1(p{tag}{k} + ({position})); ")
                }
                _ if v == 1 => format!("r{tag}{k}{at}[0] = load1(p{tag}{k} + ({position})); "),
                _ => format!(
                    "{{ const i64 at = {position}; for (int v = 0; v < {v}; v++) r{tag}{k}{at}[v] = load1(p{tag}{k} + at + v * (i64){step}); }} "
                ),
            };
        }
        if wanted.position {
            // The word holds an address where there is an operand: positions are asked of accesses without one.
            let base = format!("(i64)a.w[{}]", self.slots.accesses[k]);
            let n = if self.single(k) { 1 } else { v };
            out += &format!(
                "for (int v = 0; v < {n}; v++) m{tag}{k}{place}[v] = {base} + ({position}) + v * (i64){step}; "
            );
        }
        out
    }

    /// Fills the elements of a strided access that `h` has of a dimension: `count` times eight of them, of which a
    /// thread has `halves` vectors of `v`, the first of all at `position`. Their number is that of the eight, of `h`, and
    /// within the two that a thread has.
    pub fn fetch_apart(&self, k: usize, position: &str, [count, halves, v]: [u32; 3]) -> String {
        let tag = self.tag;
        let vector = matches!(self.class.ways[k], Way::Strided { vector: true, .. }) && v > 1;
        let (step, single) = (self.lane_step(k), self.single(k));
        let load = match () {
            () if vector => format!("loadv(r{tag}{k}[u], first + (j * 8 + g * {v}));"),
            () if single => format!("r{tag}{k}[u][0] = load1(first);"),
            () => {
                format!(
                    "for (i32 v = 0; v < {v}; v++) r{tag}{k}[u][v] = load1(first + (i64)(j * 8 + g * {v} + v) * {step});"
                )
            }
        };
        format!(
            "      {{ const {} *const first = p{tag}{k} + ({position});\n#pragma unroll\n      for (i32 j = 0; j < {count}; j++)\n#pragma unroll\n        for (i32 g = 0; g < {halves}; g++) {{ const i32 u = (j * 2 + h) * {halves} + g; {load} }} }}\n",
            stored(self.list[k].dtype)
        )
    }

    fn lane(&self, k: usize) -> &'static str {
        if self.single(k) { "0" } else { "v" }
    }

    /// The element of lane `v`.
    pub fn element(&self, k: usize, at: &str) -> String {
        let tag = self.tag;
        let vector = matches!(self.class.ways[k], Way::Strided { vector: true, .. });
        if vector && self.list[k].dtype == DType::BF16 {
            return format!("bf16_of_pair(r{tag}{k}{at}, v)");
        }
        unpack(self.list[k].dtype, &format!("r{tag}{k}{at}[{}]", self.lane(k)))
    }

    /// The position of lane `v` as a value.
    pub fn index(&self, k: usize, dtype: DType, at: &str) -> String {
        let tag = self.tag;
        format!("({})m{tag}{k}{at}[{}]", held(dtype), self.lane(k))
    }

    /// Whether lane `v` is inside.
    pub fn valid(&self, k: usize, at: &str) -> String {
        let tag = self.tag;
        if matches!(self.class.ways[k], Way::Mapped(_)) { format!("m{tag}{k}{at}[v] >= 0") } else { "true".into() }
    }

    /// The element `offset` elements from where lane `v` is.
    pub fn gathered(&self, k: usize, stand: &Stand, offset: &str, inside: &str) -> String {
        let tag = self.tag;
        let dtype = self.list[k].dtype;
        let position = format!("({}) + v * (i64){}", (stand.position)(k), self.lane_step(k));
        let raw = format!("gather(p{tag}{k}, {position} + {offset}, {inside}, fault)");
        unpack(dtype, &raw)
    }

    /// Declares what is to be stored through an access.
    pub fn result(&self, k: usize, lanes: usize) -> String {
        let tag = self.tag;
        format!("__align__(16) {} y{tag}{k}[{lanes}]; ", stored(self.list[k].dtype))
    }

    /// Sets lane `v` of it.
    pub fn set(&self, k: usize, value: &str) -> String {
        let tag = self.tag;
        format!("y{tag}{k}[v] = {}; ", pack_rounded(self.list[k].dtype, value))
    }

    /// Stores it.
    pub fn store(&self, k: usize, stand: &Stand) -> String {
        let tag = self.tag;
        let (v, position, step) = (stand.lanes, (stand.position)(k), self.lane_step(k));
        match &self.class.ways[k] {
            Way::Strided { vector: true, .. } if v > 1 => format!("storev(p{tag}{k} + ({position}), y{tag}{k}); "),
            Way::Strided { .. } if v == 1 => format!("store1(p{tag}{k} + ({position}), y{tag}{k}[0]); "),
            Way::Strided { .. } => format!(
                "{{ const i64 at = {position}; for (int v = 0; v < {v}; v++) store1(p{tag}{k} + at + v * (i64){step}, y{tag}{k}[v]); }} "
            ),
            Way::Mapped(_) => unreachable!("nothing is stored through a map"),
        }
    }
}
