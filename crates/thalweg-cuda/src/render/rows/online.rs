//! Two passes over a row as one, by rescaling identities ([`thalweg_kernel::online_passes`]).
//!
//! In: the phases that run together. Out: source that goes through the points of a row in tiles. Each thread folds its
//! points of a tile, finds what follows from that once a row, and passes them again while they are in the nearest
//! cache; what the second pass folds goes into a *state* (`online.cuh`), and states are put together over tiles,
//! threads and blocks. The first pass's folds are those of any pass.
//!
//! Rows lie along, and are read again by what comes behind.

use super::{Sharing, Writer, constant, held};
use crate::render::monoid;
use std::fmt::Write;
use thalweg_ir::{DType, Monoid, Scalar};
use thalweg_kernel::{Body, Fold, OnlineFold, OnlinePasses, Phases, Rescaling, Shift, online_passes};

/// Vectors of a thread in a tile. What is put together once a tile costs as much as a few elements.
const TILE: usize = 8;

/// The online passes of a class whose body's own folds are so many.
pub(super) fn passes(body: &Body, phases: &Phases, own: Option<u16>) -> Option<OnlinePasses> {
    online_passes(body, phases, own? as usize)
}

/// Bytes of the state of each online fold.
pub fn state_bytes(online: &OnlinePasses) -> Vec<usize> {
    let bytes = |l: &OnlineFold| match l.how {
        Rescaling::Shifted { power, .. } => (power as usize + 4) * l.dtype.size(),
        Rescaling::Chosen { .. } => 16,
    };
    online.list.iter().map(bytes).collect()
}

fn name(l: usize) -> String {
    format!("State{l}")
}

fn largest(dtype: DType) -> Scalar {
    Scalar::Float(if dtype == DType::F64 { f64::MAX } else { f32::MAX as f64 })
}

/// The types of the states, for the source of a body with these folds.
pub(super) fn definitions(body: &Body, online: &OnlinePasses) -> String {
    let mut out = String::from("\n");
    for (l, fold) in online.list.iter().enumerate() {
        let (name, h) = (name(l), held(fold.dtype));
        let _ = match &fold.how {
            Rescaling::Shifted { power, rate, weighted, from, .. } => {
                let center = match from {
                    Shift::Mean(_) if !weighted && *power > 1 => "MEAN",
                    Shift::Extreme(slot) if body.folds[*slot as usize].op == Monoid::Max => "LARGEST",
                    Shift::Extreme(_) => "SMALLEST",
                    _ => "NEAREST",
                };
                writeln!(out, "typedef Shifted<{h}, {power}, {}, {center}> {name};", !rate.is_none())
            }
            Rescaling::Chosen { first, op } => {
                let of = &body.folds[*first as usize];
                let first = monoid::name(of.op, body.dtype(of.node));
                let (m, put) = (held(fold.shift_dtype), monoid::name(*op, fold.dtype));
                let none = constant(fold.dtype, op.identity(fold.dtype));
                let same = if fold.shift_dtype.is_float() { "x == y || x != x && y != y" } else { "x == y" };
                writeln!(
                    out,
                    "// What is chosen where elements are the extreme.\nstruct __align__(8) {name} {{\n  {m} m;\n  {h} v;\n  FN static bool same({m} x, {m} y) {{ return {same}; }}\n  FN static {name} of({name} a, {name} b) {{\n    const {m} m = {first}::of(a.m, b.m);\n    return {{m, {put}::of(same(a.m, m) ? a.v : {none}, same(b.m, m) ? b.v : {none})}};\n  }}\n  FN {h} result({m} to) const {{ return same(m, to) ? v : {none}; }}\n}};"
                )
            }
        };
    }
    out
}

impl Writer<'_> {
    /// The passes that run together, and what runs once a row between them.
    pub(super) fn online_pass(&self, online: &OnlinePasses) -> String {
        let (first, second) = (online.phases.start, online.phases.end - 1);
        let [one, two] = [first, second].map(|p| &self.phases.list[p]);
        let group = match self.class.sharing {
            Sharing::Again { group } => group,
            other => unreachable!("rows that are {other:?} have no online passes"),
        };
        let mut out = String::from("  {\n");
        for f in &one.body.folds {
            let dtype = self.fold_dtype(f.slot);
            let identity = constant(dtype, f.op.identity(dtype));
            let _ = writeln!(out, "  {} t{}[1] = {{{identity}}};", held(dtype), f.slot);
        }
        for (l, fold) in online.list.iter().enumerate() {
            let _ = writeln!(out, "  {} s{l} = {};", name(l), self.no_state(l, fold));
        }
        let t = self.t;
        let tile = TILE * group as usize;
        let _ = writeln!(
            out,
            "  for ({t} tile_of_row = begin; tile_of_row < stop; tile_of_row += {tile}) {{\n    const {t} end = stop - tile_of_row < {tile} ? stop : tile_of_row + {tile};\n    u32 many = 0;"
        );
        out += &self.tile_pass(first, group, true);
        out += "    if (many == 0) break;\n";
        for f in &one.body.folds {
            let (op, slot) = (self.op_name(f), f.slot);
            let _ = writeln!(
                out,
                "    value{slot} = fold_lanes<{op}>(f{slot});\n    t{slot}[0] = {op}::of(t{slot}[0], value{slot});"
            );
        }
        out += &self.localised(online, &one.body.folds);
        for phase in &self.phases.list[first + 1..second] {
            out += &self.once(phase, None);
        }
        out += &self.tile_pass(second, group, false);
        for f in &two.body.folds {
            let (op, slot) = (self.op_name(f), f.slot);
            let _ = writeln!(out, "    value{slot} = fold_lanes<{op}>(f{slot});");
        }
        for (l, fold) in online.list.iter().enumerate() {
            let _ = writeln!(out, "    {{ const {0} x = {1}; s{l} = {0}::of(s{l}, x); }}", name(l), self.state(fold));
        }
        out += "  }\n";
        out += &self.fold_along(one, group, "t");
        out += &self.states_along(online, group, "s");
        out += &self.online_partials(online, group);
        for phase in &self.phases.list[first + 1..second] {
            out += &self.once(phase, Some(String::new()));
        }
        for (l, fold) in online.list.iter().enumerate() {
            let _ = writeln!(out, "  value{} = {};", fold.second, self.result(l, fold));
        }
        let folds: Vec<Fold> = one.body.folds.iter().copied().chain(self.own_folds(online)).collect();
        out + &self.leave_values(&folds, second) + "  }\n"
    }

    /// The folds of the second pass that the body had.
    fn own_folds(&self, online: &OnlinePasses) -> impl Iterator<Item = Fold> {
        let second = &self.phases.list[online.phases.end - 1].body;
        let is_own = |f: &Fold| online.list.iter().any(|l| l.second == f.slot);
        second.folds.iter().copied().filter(is_own).collect::<Vec<_>>().into_iter()
    }

    /// A pass over the points that a thread has of a tile: `f{slot}` by lane. `counts`: `many` is how many they are.
    fn tile_pass(&self, number: usize, group: u16, counts: bool) -> String {
        let (t, v) = (self.t, self.v);
        let phase = &self.phases.list[number];
        let mut out = String::new();
        for f in &phase.body.folds {
            let dtype = self.fold_dtype(f.slot);
            let identity = constant(dtype, f.op.identity(dtype));
            let (h, slot) = (held(dtype), f.slot);
            let _ = writeln!(
                out,
                "    {h} f{slot}[{v}];\n#pragma unroll\n    for (int v = 0; v < {v}; v++) f{slot}[v] = {identity};"
            );
        }
        let (fetched, inner) = self.steps(phase, number);
        let decomposed = self.row_point();
        let count = if counts { format!("many += {v}; ") } else { String::new() };
        let _ = write!(
            out,
            "#pragma unroll\n    for ({t} q = tile_of_row + t; q < end; q += {group}) {{\n      {count}{decomposed}{fetched}{inner}    }}\n"
        );
        out
    }

    /// What stands for the first pass's folds in a tile.
    fn localised(&self, online: &OnlinePasses, folds: &[Fold]) -> String {
        let mut out = String::new();
        for f in folds {
            let (slot, dtype) = (f.slot, self.fold_dtype(f.slot));
            let of = |from: &dyn Fn(Shift) -> bool| {
                online.list.iter().any(|l| matches!(&l.how, Rescaling::Shifted { from: s, .. } if from(*s)))
            };
            let (h, most) = (held(dtype), largest(dtype).to_bits(dtype));
            if of(&|s| s == Shift::Mean(slot)) {
                let most = constant(dtype, most);
                let row = self.points(h);
                let _ = writeln!(out, "    value{slot} = own_mean<{h}>(value{slot}, ({h})many, {row}, {most});");
            } else if of(&|s| s == Shift::Extreme(slot)) {
                let sign = if f.op == Monoid::Max { "" } else { "-" };
                let _ = writeln!(out, "    value{slot} = bounded(value{slot}, {sign}{});", constant(dtype, most));
            }
        }
        out
    }

    /// How many points a row has, as a float.
    fn points(&self, h: &str) -> String {
        format!("({h})n * {}", self.v)
    }

    /// The state of no elements.
    fn no_state(&self, l: usize, fold: &OnlineFold) -> String {
        match &fold.how {
            Rescaling::Shifted { .. } => format!("{}::none({})", name(l), self.rate(fold)),
            Rescaling::Chosen { first, op } => {
                let of = self.fold_dtype(*first);
                let m = self.body.folds[*first as usize].op.identity(of);
                format!("{{{}, {}}}", constant(of, m), constant(fold.dtype, op.identity(fold.dtype)))
            }
        }
    }

    fn rate(&self, fold: &OnlineFold) -> String {
        let Rescaling::Shifted { rate, .. } = &fold.how else { return String::new() };
        let mut text = constant(fold.dtype, Scalar::Float(rate.constant).to_bits(fold.dtype));
        for &(slot, dtype, below) in &rate.scalars {
            let scalar = crate::render::types::scalar(dtype, &self.scalar(slot));
            text += &format!(" {} {scalar}", if below { "/" } else { "*" });
        }
        text
    }

    /// The state of what a thread has of a tile.
    fn state(&self, fold: &OnlineFold) -> String {
        let (h, shift, second) = (held(fold.dtype), fold.shift, fold.second);
        match &fold.how {
            Rescaling::Shifted { lower, .. } => {
                let lower: String = lower
                    .iter()
                    .map(|slot| slot.map_or(format!("({h})many, "), |slot| format!("value{slot}, ")))
                    .collect();
                format!("{{({h})many, value{shift}, {}, {{{lower}value{second}}}}}", self.rate(fold))
            }
            Rescaling::Chosen { .. } => format!("{{value{shift}, value{second}}}"),
        }
    }

    /// What a row's state means, for what its values are.
    fn result(&self, l: usize, fold: &OnlineFold) -> String {
        let (h, shift) = (held(fold.dtype), fold.shift);
        match fold.how {
            Rescaling::Shifted { exact: true, from: Shift::Mean(first), .. } => {
                let digits = if fold.dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
                let digits = constant(fold.dtype, Scalar::Float(digits).to_bits(fold.dtype));
                format!("s{l}.result_about_mean(value{shift}, value{first} / ({}), {digits})", self.points(h))
            }
            _ => format!("s{l}.result(value{shift})"),
        }
    }

    /// States of threads put together over a group: all of its threads have them.
    fn states_along(&self, online: &OnlinePasses, group: u16, tag: &str) -> String {
        let mut out = String::new();
        for l in 0..online.list.len() {
            let _ = writeln!(out, "  s{l} = states_of_warp<{group}>(s{l});");
            if group > 32 {
                let _ = writeln!(
                    out,
                    "  __shared__ {} {tag}states{l}[{}];\n  if (threadIdx.x % 32 == 0) {tag}states{l}[threadIdx.x / 32] = s{l};",
                    name(l),
                    group / 32
                );
            }
        }
        if group > 32 {
            out += "  __syncthreads();\n";
            for l in 0..online.list.len() {
                let _ = writeln!(out, "  s{l} = states_of_block<{group}>({tag}states{l});");
            }
        }
        out
    }

    /// In a split stage: what blocks leave, and what the last one makes of it.
    fn online_partials(&self, online: &OnlinePasses, group: u16) -> String {
        if !self.class.stage.is_some_and(|s| s.split) {
            return String::new();
        }
        let one = &self.phases.list[online.phases.start];
        let place = |l: usize, chunk: &str| {
            format!("({} *)a.w[{}] + (i64)row * chunks + {chunk}", name(l), self.slots.states + l)
        };
        let mut left = String::new();
        for l in 0..online.list.len() {
            let _ = writeln!(left, "    store_state({}, s{l});", place(l, "chunk"));
        }
        let mut out = self.leave_partials(&one.body.folds, &left) + &self.gather_partials(one);
        for (l, fold) in online.list.iter().enumerate() {
            let _ = writeln!(
                out,
                "  s{l} = {};\n  for (u32 c = t; c < chunks; c += {group}) s{l} = {}::of(s{l}, load_state({}));",
                self.no_state(l, fold),
                name(l),
                place(l, "c")
            );
        }
        out + &self.states_along(online, group, "g")
    }
}
