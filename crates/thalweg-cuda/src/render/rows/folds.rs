//! From the folds of threads to the values of a row.
//!
//! In: what each thread has folded of its points. Out: source that brings `value{slot}` to every thread of the row:
//! over lanes, threads of a group, threads that share the points of a row across, and in a split stage over blocks, by
//! partial results in scratch memory.

use super::{Sharing, Writer, constant, held, runs_behind};
use std::fmt::Write;
use thalweg_kernel::{Fold, Phase};

/// Bytes of shared memory for the folds of a pass across rows, of which there may be two: of points, and of what blocks
/// have left. Without asking for more a block has 48 KiB.
const ROOM: usize = 16 << 10;

impl Writer<'_> {
    /// Folds of a pass over lanes and threads of a group: `value{slot}` in all of them.
    pub(super) fn fold_along(&self, phase: &Phase, group: u16, from: &str) -> String {
        let mut out = String::new();
        let warps = group / 32;
        for f in &phase.body.folds {
            let (op, slot, h) = (self.op_name(f), f.slot, held(self.fold_dtype(f.slot)));
            let _ = writeln!(out, "  value{slot} = fold_warp<{op}, {group}>(fold_lanes<{op}>({from}{slot}));");
            if group > 32 {
                let _ = writeln!(
                    out,
                    "  __shared__ {h} {from}parts{slot}[{warps}];\n  if (threadIdx.x % 32 == 0) {from}parts{slot}[threadIdx.x / 32] = value{slot};"
                );
            }
        }
        if group > 32 && !phase.body.folds.is_empty() {
            out += "  __syncthreads();\n";
            for f in &phase.body.folds {
                let (op, slot) = (self.op_name(f), f.slot);
                let _ = writeln!(out, "  value{slot} = fold_parts<{op}, {group}>({from}parts{slot});");
            }
        }
        out
    }

    /// Folds of a pass over the threads that share the points of a row: `value{slot}[v]` in all of them. Those of a warp
    /// by shuffles, then warps through shared memory; more folds than there is room for take turns in it.
    pub(super) fn fold_across(&self, phase: &Phase, wide: u16, deep: u16, from: &str) -> String {
        let v = self.v;
        // Threads of a warp with the same rows.
        let near = if wide * deep < 32 { 1 } else { (32 / wide).max(1) };
        let parts = deep / near;
        let bytes = |f: &Fold| self.fold_dtype(f.slot).size().max(4) * wide as usize * parts as usize * v;
        let folds = &phase.body.folds;
        let all: usize = folds.iter().map(bytes).sum();
        let (mut out, first) = (String::new(), folds.first().map_or(0, |f| f.slot));
        for f in folds.iter().filter(|_| near > 1) {
            let _ = writeln!(out, "  fold_points<{}, {wide}>({from}{});", self.op_name(f), f.slot);
        }
        let (leads, part) = if near > 1 {
            (format!("if (threadIdx.x % 32 < {wide}) "), format!("t / {near}"))
        } else {
            (String::new(), "t".into())
        };
        if all > ROOM {
            let largest = folds.iter().map(bytes).max().unwrap_or(0).max(ROOM);
            let _ = writeln!(out, "  __shared__ __align__(16) unsigned char {from}room{first}[{largest}];");
        }
        let mut left = &folds[..];
        while !left.is_empty() {
            let mut end = 0;
            let mut fits = |f: &Fold| {
                end += bytes(f);
                end <= ROOM
            };
            let (round, rest) = left.split_at(left.iter().take_while(|f| fits(f)).count().max(1));
            let mut at = 0;
            for f in round {
                let (slot, h) = (f.slot, held(self.fold_dtype(f.slot)));
                let _ = match all > ROOM {
                    true => writeln!(
                        out,
                        "  auto &{from}parts{slot} = *({h} (*)[{parts}][{v}][{wide}])({from}room{first} + {at});"
                    ),
                    false => writeln!(out, "  __shared__ {h} {from}parts{slot}[{parts}][{v}][{wide}];"),
                };
                at += bytes(f);
                let _ = write!(
                    out,
                    "#pragma unroll\n  for (int v = 0; v < {v}; v++) {leads}{from}parts{slot}[{part}][v][tx] = {from}{slot}[v];\n"
                );
            }
            out += "  __syncthreads();\n";
            for f in round {
                let (slot, op) = (f.slot, self.op_name(f));
                let _ = write!(
                    out,
                    "#pragma unroll\n  for (int v = 0; v < {v}; v++) {{\n    value{slot}[v] = {from}parts{slot}[0][v][tx];\n    for (int d = 1; d < {parts}; d++) value{slot}[v] = {op}::of(value{slot}[v], {from}parts{slot}[d][v][tx]);\n  }}\n"
                );
            }
            if !rest.is_empty() {
                out += "  __syncthreads();\n";
            }
            left = rest;
        }
        out
    }

    pub(super) fn read_value(&self, slot: u16) -> String {
        let h = held(self.phases.values[slot as usize]);
        let w = self.slots.values + slot as usize;
        if self.across() {
            format!(
                "  for (int v = 0; v < {0}; v++) value{slot}[v] = load1(({h} *)a.w[{w}] + (i64)row * {0} + v);\n",
                self.v
            )
        } else {
            format!("  value{slot} = load1(({h} *)a.w[{w}] + row);\n")
        }
    }

    /// What the results of a stage's folds are for: partial results of a split row are put together by its last block,
    /// and later stages find them in memory.
    pub(super) fn finish(&self, phase: &Phase, number: usize) -> String {
        let mut out = String::new();
        if self.class.stage.is_some_and(|s| s.split) && !phase.body.folds.is_empty() {
            out += &self.leave_partials(&phase.body.folds, "");
            out += &self.gather_partials(phase);
        }
        out + &self.leave_values(&phase.body.folds, number)
    }

    /// Results of folds left for the stages behind phase `number`, if there are.
    pub(super) fn leave_values(&self, folds: &[Fold], number: usize) -> String {
        let list = &self.phases.list;
        let more = (number + 1..list.len()).any(|n| !list[n].once || runs_behind(self.phases, n));
        if self.class.stage.is_none() || folds.is_empty() || !more {
            return String::new();
        }
        let mut out = String::from("  if (t == 0 && live) {\n");
        for f in folds {
            let (slot, h) = (f.slot, held(self.fold_dtype(f.slot)));
            let w = self.slots.values + slot as usize;
            let _ = if self.across() {
                writeln!(
                    out,
                    "    for (int v = 0; v < {0}; v++) store1(({h} *)a.w[{w}] + (i64)row * {0} + v, value{slot}[v]);",
                    self.v
                )
            } else {
                writeln!(out, "    store1(({h} *)a.w[{w}] + row, value{slot});")
            };
        }
        out + "  }\n"
    }

    /// The place of a partial result, of chunk `chunk`; across, of the first lane.
    fn partial(&self, slot: u16, chunk: &str) -> String {
        let h = held(self.fold_dtype(slot));
        let w = self.slots.partials + slot as usize;
        if self.across() {
            format!("({h} *)a.w[{w}] + ((i64){chunk} * rows + row) * {}", self.v)
        } else {
            format!("({h} *)a.w[{w}] + (i64)row * chunks + {chunk}")
        }
    }

    /// Leaves partial results of folds, and what else there is to leave; all blocks but the last of a row end here.
    pub(super) fn leave_partials(&self, folds: &[Fold], more: &str) -> String {
        let mut out = String::from("  if (t == 0 && live) {\n");
        for f in folds {
            let (slot, place) = (f.slot, self.partial(f.slot, "chunk"));
            let _ = if self.across() {
                writeln!(out, "    storev({place}, value{slot});")
            } else {
                writeln!(out, "    store1({place}, value{slot});")
            };
        }
        out += more;
        out += "    __threadfence();\n  }\n  __shared__ u32 last;\n  __syncthreads();\n  if (threadIdx.x == 0) {\n";
        let _ = writeln!(
            out,
            "    u32 *const counter = (u32 *)a.w[{}] + tile;\n    last = atomicAdd(counter, 1u) == chunks - 1;\n    if (last) *counter = 0;\n    __threadfence();\n  }}\n  __syncthreads();\n  if (!last) return;",
            self.slots.counters
        );
        out
    }

    pub(super) fn gather_partials(&self, phase: &Phase) -> String {
        let (mut out, v) = (String::new(), self.v);
        let lanes = if self.across() { v } else { 1 };
        for f in &phase.body.folds {
            let dtype = self.fold_dtype(f.slot);
            let (slot, h, op) = (f.slot, held(dtype), self.op_name(f));
            let step = match self.class.sharing {
                Sharing::Across { deep, .. } => deep as u32,
                other => other.block() / other.rows(),
            };
            let place = self.partial(slot, "c");
            let _ = write!(
                out,
                "  {h} g{slot}[{lanes}];\n#pragma unroll\n  for (int v = 0; v < {lanes}; v++) g{slot}[v] = {};\n#pragma unroll 4\n  for (u32 c = t; c < chunks; c += {step}) {{\n    __align__(16) {h} x[{lanes}];\n    loadv_cold(x, {place});\n#pragma unroll\n    for (int v = 0; v < {lanes}; v++) g{slot}[v] = {op}::of(g{slot}[v], x[v]);\n  }}\n",
                constant(dtype, f.op.identity(dtype)),
            );
        }
        out + &match self.class.sharing {
            Sharing::Across { wide, deep } => self.fold_across(phase, wide, deep, "g"),
            other => self.fold_along(phase, (other.block() / other.rows()) as u16, "g"),
        }
    }
}
