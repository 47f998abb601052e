//! Two passes over a row as one, by rescaling identities ([`thalweg_kernel::online_passes`]): sums of powers of what
//! differs from a mean.
//!
//! In: the phases that run together. Out: source that goes through the points of a row in tiles, which threads hold in
//! registers. Of every so manieth tile a thread finds the mean of its own elements, and what follows from that once a row;
//! its elements of that tile and of the next ones are shifted by it, which is near enough that little cancels. So the second pass's folds take
//! each element as it is loaded, beside the first's. What they give of some tiles goes into a *state*
//! (`online.cuh`), and states are put together over tiles, threads and blocks.
//!
//! Rows lie along, and are read again by what comes behind. What differs from an extreme, or is chosen by one, would have
//! to be passed again when a larger one comes, which took twice as long as two passes; it takes two passes.

use super::{Sharing, Writer, constant, held};
use std::fmt::Write;
use thalweg_gpu::class::body::{Wanted, wanted};
use thalweg_gpu::class::rows::power;
use thalweg_ir::{DType, Scalar};
use thalweg_kernel::{Fold, OnlineFold, OnlinePasses, Rescaling, Shift};

/// Vectors of a thread in a tile.
const TILE: u8 = 4;
/// Tiles that are shifted by the mean of the first of them. To put a state together with another costs as much as some tens of
/// elements; what cancels is at most as many times as large as what is left.
const TILES: u32 = 8;

fn name(l: usize) -> String {
    format!("State{l}")
}

/// The types of the states.
pub(super) fn definitions(online: &OnlinePasses) -> String {
    let mut out = String::from("\n");
    for (l, fold) in online.list.iter().enumerate() {
        let mean = matches!(fold.how, Rescaling::Shifted { weighted: false, power: 2.., .. });
        let _ = writeln!(out, "typedef Shifted<{}, {}, {mean}> {};", held(fold.dtype), power(fold), name(l));
    }
    out
}

impl Writer<'_> {
    /// The passes that run together, and what runs once a row between them.
    pub(super) fn online_pass(&self, online: &OnlinePasses) -> String {
        let (first, second) = (online.phases.start, online.phases.end - 1);
        let [one, two] = [first, second].map(|p| &self.phases.list[p]);
        let Sharing::Again { group } = self.class.sharing else {
            unreachable!("rows that are {:?} have no online passes", self.class.sharing)
        };
        let (t, v) = (self.t, self.v);
        let mut out = String::from("  {\n");
        out += &self.no_folds(&one.body.folds);
        out += &self.no_folds(&two.body.folds);
        for l in 0..online.list.len() {
            let _ = writeln!(out, "  {0} s{l} = {0}::none();", name(l));
        }
        // What is known of the tiles that have been shifted by one mean.
        let mut put = String::new();
        for f in &two.body.folds {
            let (op, slot) = (self.op_name(f), f.slot);
            let _ = writeln!(put, "      value{slot} = fold_lanes<{op}>(f{slot});");
        }
        for (l, fold) in online.list.iter().enumerate() {
            let _ = writeln!(put, "      s{l} = {0}::of(s{l}, {1});", name(l), self.state(l, fold));
        }
        let tile = TILE as usize * group as usize;
        let _ = writeln!(
            out,
            "  u32 many = 0;\n  int turn = 0;\n  for ({t} tile_of_row = begin; tile_of_row + ({t})t < stop; tile_of_row += {tile}, turn++) {{"
        );
        self.tile.set(Some(TILE));
        out += &self.loads(&[first, second], group);
        let _ =
            write!(out, "    if (turn % {TILES} == 0) {{\n      if (many > 0) {{\n{put}      }}\n      u32 few = 0;\n");
        out += &self.no_folds(&one.body.folds);
        out += &self.over_tile(&format!("few += {v}; "), &self.steps(one, first).2, group);
        for f in &one.body.folds {
            let _ = writeln!(out, "      value{0} = fold_lanes<{1}>(f{0});", f.slot, self.op_name(f));
        }
        out += &self.localised(online, &one.body.folds);
        self.tile.set(None);
        for phase in &self.phases.list[first + 1..second] {
            out += &self.once(phase, None);
        }
        out += "      many = 0;\n    }\n";
        // Folds of the second pass begin again with it.
        let _ = writeln!(out, "    if (many == 0) {{\n{}    }}", self.clear_folds(&two.body.folds));
        self.tile.set(Some(TILE));
        out += &self.over_tile("", &self.steps(one, first).2, group);
        out += &self.over_tile(&format!("many += {v}; "), &self.steps(two, second).2, group);
        self.tile.set(None);
        let _ = write!(out, "  }}\n  if (many > 0) {{\n{put}  }}\n");
        out += &self.fold_along(one, group, "f");
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
    fn own_folds(&self, online: &OnlinePasses) -> Vec<Fold> {
        let second = &self.phases.list[online.phases.end - 1].body;
        let is_own = |f: &Fold| online.list.iter().any(|l| l.second == f.slot);
        second.folds.iter().copied().filter(is_own).collect()
    }

    fn no_folds(&self, folds: &[Fold]) -> String {
        let declared = folds.iter().map(|f| format!("  {} f{}[{}];\n", held(self.fold_dtype(f.slot)), f.slot, self.v));
        declared.collect::<String>() + &self.clear_folds(folds)
    }

    fn clear_folds(&self, folds: &[Fold]) -> String {
        let mut out = String::new();
        for f in folds {
            let dtype = self.fold_dtype(f.slot);
            let identity = constant(dtype, f.op.identity(dtype));
            let _ =
                writeln!(out, "#pragma unroll\n  for (int v = 0; v < {}; v++) f{}[v] = {identity};", self.v, f.slot);
        }
        out
    }

    /// Something for each vector that a thread has of a tile.
    fn over_tile(&self, before: &str, inner: &str, group: u16) -> String {
        let (t, decomposed) = (self.t, self.row_point());
        format!(
            "#pragma unroll\n    for (int k = 0; k < {TILE}; k++) {{\n      const {t} q = tile_of_row + k * {group} + t;\n      if (q < stop) {{\n      {before}{decomposed}{inner}      }}\n    }}\n"
        )
    }

    /// All that these passes load of a tile.
    fn loads(&self, passes: &[usize], group: u16) -> String {
        let mut want = vec![Wanted::default(); self.first_buffer];
        for &number in passes {
            for (all, own) in want.iter_mut().zip(wanted(&self.phases.list[number].body)) {
                all.load |= own.load;
            }
        }
        let position = |k: usize| self.position(k, true);
        let (point, step) = self.point();
        let stand = super::Stand { position: &position, point, step: step.into(), lanes: self.v };
        let (mut arrays, mut fetched) = (String::new(), String::new());
        for (k, &want) in want.iter().enumerate().filter(|(_, w)| w.load) {
            let _ = writeln!(arrays, "    {}", self.accesses.elements(k, self.v, &format!("[{TILE}]")));
            let places = self.accesses.arrays(k, Wanted::default(), self.v, "");
            let _ = writeln!(fetched, "      {places}{}", self.accesses.fetch(k, want, &stand, ["[k]", ""]));
        }
        if fetched.is_empty() { String::new() } else { arrays + &self.over_tile("", &fetched, group) }
    }

    /// What stands for the first pass's folds where elements are shifted.
    fn localised(&self, online: &OnlinePasses, folds: &[Fold]) -> String {
        let mut out = String::new();
        for f in folds {
            let (slot, dtype) = (f.slot, self.fold_dtype(f.slot));
            let is_mean =
                |l: &OnlineFold| matches!(l.how, Rescaling::Shifted { from: Shift::Mean(s), .. } if s == slot);
            if online.list.iter().any(is_mean) {
                let h = held(dtype);
                let most = Scalar::Float(if dtype == DType::F64 { f64::MAX } else { f32::MAX as f64 });
                let (most, row) = (constant(dtype, most.to_bits(dtype)), self.points(h));
                let _ = writeln!(out, "      value{slot} = own_mean<{h}>(value{slot}, ({h})few, {row}, {most});");
            }
        }
        out
    }

    /// How many points a row has, as a float.
    fn points(&self, h: &str) -> String {
        format!("({h})n * {}", self.v)
    }

    /// The state of what was shifted by one mean.
    fn state(&self, l: usize, fold: &OnlineFold) -> String {
        let (h, shift, second) = (held(fold.dtype), fold.shift, fold.second);
        let Rescaling::Shifted { lower, .. } = &fold.how else { return String::new() };
        let lower: String =
            lower.iter().map(|slot| slot.map_or(format!("({h})many, "), |slot| format!("value{slot}, "))).collect();
        format!("{}{{({h})many, value{shift}, {{{lower}value{second}}}}}", name(l))
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
            let _ = writeln!(
                out,
                "  s{l} = states_of_warp<{group}>(s{l});\n  __shared__ {} {tag}states{l}[{}];\n  if (threadIdx.x % 32 == 0) {tag}states{l}[threadIdx.x / 32] = s{l};",
                name(l),
                group / 32
            );
        }
        out += "  __syncthreads();\n";
        for l in 0..online.list.len() {
            let _ = writeln!(out, "  s{l} = states_of_block<{group}>({tag}states{l});");
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
        for l in 0..online.list.len() {
            let _ = writeln!(
                out,
                "  s{l} = {0}::none();\n  for (u32 c = t; c < chunks; c += {group}) s{l} = {0}::of(s{l}, load_state({1}));",
                name(l),
                place(l, "c")
            );
        }
        out + &self.states_along(online, group, "g")
    }
}
