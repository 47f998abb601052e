//! Row kernels: bodies that fold over the rows of their domain.
//!
//! Three ways to run one, each with all of its phases in one kernel or a kernel for each pass (a *stage*):
//!
//! * along: a group of threads a row, lanes along the row. The row is *held* in registers from its first pass on where
//!   it fits, else it is read *again*;
//! * across: lanes are neighbouring rows (columns of memory), threads of a block share the points of a row;
//! * in order: a warp a row, in the order that [`thalweg_kernel::order`] says, for strict kernels.
//!
//! A stage may be *split*: several blocks share a row, leave partial results in scratch memory, and the last one of
//! them to finish puts these together, in a fixed order. Later stages read the results of folds from scratch memory,
//! and compute what follows from them again.

mod folds;
mod online;
mod scans;

pub use scans::{SCANNED, TOLD};

use super::access::{Accesses, Stand};
use super::body::{Names, name, statements};
use super::monoid;
use super::place::{decompose, index_type, offset};
use super::types::{constant, held, pack_rounded, stored};
use std::cell::Cell;
use std::fmt::Write;
use thalweg_gpu::class::body::{Wanted, divisors, gathers, wanted};
use thalweg_gpu::class::rows::{RowsClass, RowsSlots, Sharing, left, runs_behind};
use thalweg_gpu::space::Way;
use thalweg_ir::DType;
use thalweg_kernel::order::BLOCK as ORDERED;
use thalweg_kernel::{Access, AccessClass, Body, Fold, OnlinePasses, Phase, Phases, Store};

/// The source of a kernel with one function, `rows`.
pub fn source(body: &Body, class: &RowsClass) -> String {
    let mut out = monoid::definitions(body.folds.iter().map(|f| (f.op, body.dtype(f.node))));
    let phases = class.phases(body);
    let slots = RowsSlots::new(class, body, &phases);
    if class.has_scans(body) {
        out += &scans::definitions(&phases);
    }
    let list = all_accesses(body, &phases);
    let online = class.passes(body, &phases);
    if let Some(online) = &online {
        out += &online::definitions(online);
    }
    let w = Writer {
        body,
        class,
        online,
        tile: Cell::new(None),
        phases: &phases,
        slots: &slots,
        accesses: Accesses { list: &list, class: &class.space, slots: &slots.space, tag: "" },
        t: index_type(class.space.wide),
        v: class.space.lanes as usize,
        first_buffer: body.accesses.len(),
    };
    let _ = write!(
        out,
        "\nextern \"C\" __global__ void __launch_bounds__({}) {}(THALWEG_PARAMETER({})) {{\n  begin();\n{}}}\n",
        class.sharing.block(),
        class.name(body),
        slots.end,
        w.function()
    );
    out
}

/// The accesses of a body with those of its buffers behind.
fn all_accesses(body: &Body, phases: &Phases) -> Vec<Access> {
    let buffer = |&dtype: &DType| Access { operand: None, dtype, class: AccessClass::Contiguous, per_row: false };
    body.accesses.iter().copied().chain(phases.buffers.iter().map(buffer)).collect()
}

struct Writer<'a> {
    body: &'a Body,
    class: &'a RowsClass,
    online: Option<OnlinePasses>,
    /// Whether what is written goes over a tile that is in registers: vectors of a thread.
    tile: Cell<Option<u8>>,
    phases: &'a Phases,
    slots: &'a RowsSlots,
    accesses: Accesses<'a>,
    /// The type of a position.
    t: &'static str,
    /// Lanes.
    v: usize,
    /// Accesses from here on are buffers.
    first_buffer: usize,
}

impl Writer<'_> {
    fn across(&self) -> bool {
        self.class.space.across
    }

    fn kept(&self) -> usize {
        self.class.space.kept as usize
    }

    fn fold_dtype(&self, slot: u16) -> DType {
        self.body.dtype(self.body.folds[slot as usize].node)
    }

    /// The name of what puts partial results of a fold together.
    fn op_name(&self, f: &Fold) -> String {
        monoid::name(f.op, self.fold_dtype(f.slot))
    }

    /// The value of a row in a pass or in what runs once, at lane `v`.
    fn value(&self, slot: u16) -> String {
        if self.across() { format!("value{slot}[v]") } else { format!("value{slot}") }
    }

    fn held_row(&self) -> Option<(u16, u8, bool)> {
        match self.class.sharing {
            Sharing::Held { group, steps, exact } if self.class.stage.is_none() || self.class.is_linked() => {
                Some((group, steps, exact))
            }
            Sharing::Again { group } => self.tile.get().map(|steps| (group, steps, false)),
            _ => None,
        }
    }

    /// Whether an access is loaded once and kept in registers.
    fn cached(&self, k: usize) -> bool {
        self.held_row().is_some()
            && k < self.first_buffer
            && !self.body.accesses[k].per_row
            && self.loading(k).nth(1).is_some()
    }

    /// The passes of this kernel that load through an access, by number.
    fn loading(&self, k: usize) -> impl Iterator<Item = usize> + '_ {
        let first = self.class.stage.map_or(0, |s| s.phase as usize);
        let own = self.phases.list.iter().enumerate().skip(first);
        own.filter(move |(_, p)| !p.once && wanted(&p.body)[k].load).map(|(number, _)| number)
    }

    fn function(&self) -> String {
        let mut out = self.prologue();
        let list = &self.phases.list;
        let stage = self.class.stage;
        let current = stage.map(|s| s.phase as usize);
        // Results of folds of earlier stages.
        let together = self.online.as_ref().map(|o| o.phases.clone()).unwrap_or(0..0);
        let inside = |number: usize| together.contains(&number) && current.is_none_or(|c| c + 1 == together.end);
        if let Some(current) = current {
            let own = self.class.online.unwrap_or(u16::MAX);
            for (_, phase) in list[..current].iter().enumerate().filter(|(number, _)| !inside(*number)) {
                let folds = phase.body.folds.iter().map(|f| f.slot).filter(|&slot| slot < own);
                folds.chain(left(phase)).for_each(|slot| out += &self.read_value(slot));
            }
        }
        for (number, phase) in list.iter().enumerate() {
            if inside(number) {
                if number == together.start {
                    out += &self.online_pass(self.online.as_ref().expect("passes that run together"));
                }
                continue;
            }
            match current {
                // What runs once is computed again by every stage behind it, and stored by the first.
                Some(c) if phase.once && number <= c => {
                    let stores = !list[number..c].iter().any(|p| !p.once);
                    out += &self.once(phase, stores.then(|| self.first_chunk()));
                }
                Some(c) if number == c => out += &self.pass(phase, number),
                Some(c) if self.class.is_linked() && number > c => {
                    let behind =
                        if phase.once { self.once(phase, Some(self.first_chunk())) } else { self.pass(phase, number) };
                    out += &behind;
                }
                // Behind the last pass, its last block does the rest.
                Some(_) if runs_behind(self.phases, number) => {}
                Some(c) if phase.once && !list[c + 1..].iter().any(|p| !p.once) => {
                    out += &self.once(phase, Some(String::new()));
                }
                Some(_) => {}
                None if phase.once => out += &self.once(phase, Some(String::new())),
                None => out += &self.pass(phase, number),
            }
        }
        out
    }

    fn first_chunk(&self) -> String {
        if self.class.stage.is_some_and(|s| s.split || s.linked) { "chunk == 0".into() } else { String::new() }
    }

    /// Where the threads stand, and what is kept all along.
    fn prologue(&self) -> String {
        let (t, v) = (self.t, self.v);
        let mut out = String::new();
        let used: Vec<bool> = {
            let mut used = vec![false; self.accesses.list.len()];
            for p in &self.phases.list {
                for (u, w) in used.iter_mut().zip(wanted(&p.body)) {
                    *u |= w != Wanted::default();
                }
                p.body.stores.iter().for_each(|s| used[s.access as usize] = true);
            }
            used
        };
        out += &self.accesses.declare(&|k| k < self.first_buffer && used[k]);
        let _ = writeln!(out, "  const {t} rows = ({t})a.w[0], n = ({t})a.w[1];");
        let split = self.class.stage.is_some_and(|s| s.split || s.linked);
        let tile = if split {
            let (block, chunk) = if self.class.is_linked() { self.ticket(&mut out) } else { ("blockIdx.x", "chunk") };
            let _ = writeln!(
                out,
                "  const u32 chunks = (u32)a.w[2], tile = {block} / chunks, chunk = {block} % chunks;\n  const {t} begin = ({t})({chunk} * a.w[3]), stop = n - begin < ({t})a.w[3] ? n : begin + ({t})a.w[3];"
            );
            "tile"
        } else {
            let _ = writeln!(out, "  const {t} begin = 0, stop = n;");
            "blockIdx.x"
        };
        match self.class.sharing {
            Sharing::Held { group, .. } | Sharing::Again { group } => {
                let rows = self.class.sharing.rows();
                let _ = writeln!(
                    out,
                    "  const u32 t = threadIdx.x % {group};\n  {t} row = ({t}){tile} * {rows} + threadIdx.x / {group};"
                );
            }
            Sharing::Across { wide, .. } => {
                let _ = writeln!(
                    out,
                    "  const u32 tx = threadIdx.x % {wide}, t = threadIdx.x / {wide};\n  {t} row = ({t}){tile} * {wide} + tx;"
                );
            }
            Sharing::Ordered => {
                let _ =
                    writeln!(out, "  const u32 t = threadIdx.x % 32;\n  {t} row = ({t}){tile} * 8 + threadIdx.x / 32;");
            }
        }
        // Threads beyond the last row come along where others wait for them, on what is that row's: perhaps written
        // over already, so what they find in it is nothing to tell of.
        out += match self.class.sharing {
            Sharing::Ordered => "  if (row >= rows) return;\n  const bool live = true;\n",
            _ => "  const bool live = row < rows;\n  if (!live) row = rows - 1;\n",
        };
        if gathers(self.body) {
            let _ = writeln!(out, "  u32 *const fault = live ? (u32 *)a.w[{}] : nullptr;", self.slots.fault);
        }
        out += "  ";
        out += &decompose(&self.class.space, &self.slots.space, 0..self.kept(), "row", "i");
        if let Some((_, steps, _)) = self.held_row() {
            for k in (0..self.first_buffer).filter(|&k| self.cached(k)) {
                let _ = writeln!(out, "  {}", self.accesses.elements(k, v, &format!("[{steps}]")));
            }
            for (n, &dtype) in self.phases.buffers.iter().enumerate() {
                let _ = writeln!(out, "  {} b{n}[{steps}][{v}];", held(dtype));
            }
        } else if self.class.stage.is_some() {
            for (n, &dtype) in self.phases.buffers.iter().enumerate() {
                let _ = writeln!(out, "  {0} *const b{n} = ({0} *)a.w[{1}];", stored(dtype), self.slots.buffers + n);
            }
        }
        for (slot, &dtype) in self.phases.values.iter().enumerate() {
            let lanes = if self.across() { format!("[{v}]") } else { String::new() };
            let align = if self.across() { "__align__(16) " } else { "" };
            let _ = writeln!(out, "  {align}{} value{slot}{lanes};", held(dtype));
        }
        out
    }

    /// The position of an access for the row alone, or for a point of it.
    fn position(&self, k: usize, point: bool) -> String {
        let space = &self.class.space;
        let mut all = offset(space, &self.slots.space, k, 0..self.kept(), "i");
        if point {
            let more = offset(space, &self.slots.space, k, self.kept()..space.rank(), "j");
            if !more.is_empty() {
                all = if all.is_empty() { more } else { format!("{all} + {more}") };
            }
        }
        if all.is_empty() { "0".into() } else { all }
    }

    /// The row-major point of the domain, and the step from lane to lane.
    fn point(&self) -> (String, &'static str) {
        if self.across() {
            (format!("(i64)row * {} * n + q", self.v), "(i64)n")
        } else {
            (format!("((i64)row * n + q) * {}", self.v), "1")
        }
    }

    /// The place in a buffer in memory.
    fn buffer_place(&self) -> String {
        if self.across() {
            format!("((i64)q * rows + row) * {} + v", self.v)
        } else {
            format!("((i64)row * n + q) * {} + v", self.v)
        }
    }

    /// A phase that runs once a row. It stores what it has to store on that condition, or nothing.
    fn once(&self, phase: &Phase, stores: Option<String>) -> String {
        let body = &phase.body;
        let stores = stores.filter(|_| !body.stores.is_empty());
        if stores.is_none() && body.sets.is_empty() {
            return String::new();
        }
        let lanes = if self.across() { self.v } else { 1 };
        let position = |k: usize| self.position(k, false);
        // A map is over the whole domain: the first point of the row.
        let (point, step) = match self.across() {
            true => (format!("(i64)row * {} * n", self.v), "(i64)n"),
            false => (format!("(i64)row * n * {}", self.v), "0"),
        };
        let stand = Stand { position: &position, point, step: step.into(), lanes };
        let mut out = String::from("  {\n");
        let wants = wanted(body);
        for (k, &want) in wants.iter().enumerate().filter(|(_, w)| w.load || w.position) {
            let _ = writeln!(
                out,
                "    {}{}",
                self.accesses.arrays(k, want, lanes, ""),
                self.accesses.fetch(k, want, &stand, ["", ""])
            );
        }
        if stores.is_some() {
            for s in &body.stores {
                let _ = writeln!(out, "    {}", self.accesses.result(s.access as usize, lanes));
            }
        }
        let _ = writeln!(out, "#pragma unroll\n    for (int v = 0; v < {lanes}; v++) {{");
        let names = Names {
            load: &|k| self.accesses.element(k as usize, ""),
            index: &|k, dtype| self.accesses.index(k as usize, dtype, ""),
            valid: &|k| self.accesses.valid(k as usize, ""),
            gather: &|k, offset, inside| self.accesses.gathered(k as usize, &stand, offset, inside),
            value: &|slot| self.value(slot),
            scalar: &|s| self.scalar(s),
            reciprocal: &|s| self.reciprocal(s),
        };
        out += &statements(body, &names);
        for set in &body.sets {
            let _ = writeln!(out, "      {} = {};", self.value(set.slot), name(set.node));
        }
        if stores.is_some() {
            for s in &body.stores {
                let _ = writeln!(out, "      {}", self.accesses.set(s.access as usize, &name(s.node)));
            }
        }
        out += "    }\n";
        if let Some(when) = stores {
            let and = if when.is_empty() { String::new() } else { format!(" && {when}") };
            let _ = writeln!(out, "    if (t == 0 && live{and}) {{");
            for s in &body.stores {
                let _ = writeln!(out, "      {}", self.accesses.store(s.access as usize, &stand));
            }
            out += "    }\n";
        }
        out + "  }\n"
    }

    fn scalar(&self, slot: u16) -> usize {
        self.slots.scalars + slot as usize
    }

    fn reciprocal(&self, slot: u16) -> Option<usize> {
        let at = divisors(self.body).iter().position(|d| d.0 == slot)?;
        Some(self.slots.reciprocals + at)
    }

    /// A pass over the points of the row, and what its folds give.
    fn pass(&self, phase: &Phase, number: usize) -> String {
        let (t, v) = (self.t, self.v);
        let folds = &phase.body.folds;
        let mut out = String::from("  {\n");
        for f in folds {
            let dtype = self.fold_dtype(f.slot);
            let identity = constant(dtype, f.op.identity(dtype));
            let (h, slot) = (held(dtype), f.slot);
            let _ = match self.class.sharing {
                Sharing::Ordered => {
                    writeln!(out, "  Tree<{}, {h}> tree{slot}; tree{slot}.count = 0;", self.op_name(f))
                }
                _ => writeln!(
                    out,
                    "  {h} f{slot}[{v}];\n#pragma unroll\n  for (int v = 0; v < {v}; v++) f{slot}[v] = {identity};"
                ),
            };
        }
        let (first, fetched, inner) = self.steps(phase, number);
        out += &first;
        let decomposed = self.row_point();
        match self.class.sharing {
            Sharing::Held { group, steps, exact } if self.held_row().is_some() => {
                // All of the row is on its way before the first of it is used.
                let guard = if exact { String::new() } else { "if (q < stop) ".into() };
                let begin = if self.class.is_linked() { "begin + " } else { "" };
                out += &self.row_arrays(phase, steps);
                for part in [fetched, inner].iter().filter(|p| !p.is_empty()) {
                    let _ = write!(
                        out,
                        "#pragma unroll\n  for (int k = 0; k < {steps}; k++) {{\n    const {t} q = {begin}k * {group} + t;\n    {guard}{{\n    {decomposed}{part}    }}\n  }}\n"
                    );
                }
            }
            Sharing::Held { group, .. } | Sharing::Again { group } => {
                let _ = write!(
                    out,
                    "#pragma unroll 4\n  for ({t} q = begin + t; q < stop; q += {group}) {{\n    {decomposed}{fetched}{inner}  }}\n"
                );
            }
            Sharing::Across { deep, .. } => {
                let _ = write!(
                    out,
                    "#pragma unroll 4\n  for ({t} q = begin + t; q < stop; q += {deep}) {{\n    {decomposed}{fetched}{inner}  }}\n"
                );
            }
            Sharing::Ordered => out += &self.ordered(phase, &decomposed, &(fetched + &inner)),
        }
        match self.class.sharing {
            Sharing::Ordered => {}
            Sharing::Across { wide, deep } => out += &self.fold_across(phase, wide, deep, "f"),
            Sharing::Held { group, .. } | Sharing::Again { group } => out += &self.fold_along(phase, group, "f"),
        }
        out + &self.finish(phase, number) + &self.scans(phase) + "  }\n"
    }

    /// The places along the row's dimensions of point `q`.
    fn row_point(&self) -> String {
        let row_dims = self.kept()..self.class.space.rank();
        decompose(&self.class.space, &self.slots.space, row_dims, "q", "j")
    }

    /// A strict pass: block by block of each run, lane by lane.
    fn ordered(&self, phase: &Phase, decomposed: &str, inner: &str) -> String {
        let t = self.t;
        let mut out = format!(
            "  for ({t} run = 0; run < ({t})a.w[4]; run++) for ({t} block = 0; block < ({t})a.w[5]; block += {ORDERED}) {{\n"
        );
        for f in &phase.body.folds {
            let dtype = self.fold_dtype(f.slot);
            let identity = constant(dtype, f.op.identity(dtype));
            let _ = writeln!(out, "    {} f{}[1] = {{{identity}}};", held(dtype), f.slot);
        }
        let _ = write!(
            out,
            "    const {t} end = ({t})a.w[5] - block < {ORDERED} ? ({t})a.w[5] : block + {ORDERED};\n    for ({t} e = block + t; e < end; e += 32) {{\n      const {t} q = run * ({t})a.w[5] + e;\n      {decomposed}{inner}    }}\n"
        );
        for f in &phase.body.folds {
            let (op, slot) = (self.op_name(f), f.slot);
            let _ = writeln!(out, "    tree{slot}.push(__shfl_sync(0xffffffffu, fold_warp<{op}, 32>(f{slot}[0]), 0));");
        }
        out += "  }\n";
        for f in &phase.body.folds {
            let dtype = self.fold_dtype(f.slot);
            let identity = constant(dtype, f.op.identity(dtype));
            let _ = writeln!(out, "  value{0} = tree{0}.take({identity});", f.slot);
        }
        out
    }

    /// What a pass alone loads of a row that is held.
    fn row_arrays(&self, phase: &Phase, steps: u8) -> String {
        let wants = wanted(&phase.body);
        let own = (0..self.first_buffer).filter(|&k| wants[k].load && !self.cached(k) && !self.is_ahead(k));
        own.map(|k| format!("  {}\n", self.accesses.elements(k, self.v, &format!("[{steps}]")))).collect()
    }

    /// Whether what an access loads is loaded before the points of a pass, which are not cut into tiles: it is the same for all
    /// of them.
    fn is_ahead(&self, k: usize) -> bool {
        self.tile.get().is_none()
            && k < self.first_buffer
            && self.body.accesses[k].per_row
            && self.body.accesses[k].operand.is_some()
            && matches!(self.class.space.ways[k], Way::Strided { .. })
    }

    /// What is loaded before the points of a pass, then for a vector of points, and what is done with it: `q` is its
    /// number.
    fn steps(&self, phase: &Phase, number: usize) -> (String, String, String) {
        let body = &phase.body;
        let position = |k: usize| self.position(k, true);
        let (point, step) = self.point();
        let stand = Stand { position: &position, point, step: step.into(), lanes: self.v };
        let held_row = self.held_row().is_some();
        let (ahead, fetched, mut out) = self.fetches(body, number, &stand);
        let point_stores: Vec<_> = body.stores.iter().filter(|s| (s.access as usize) < self.first_buffer).collect();
        for s in &point_stores {
            let _ = writeln!(out, "      {}", self.accesses.result(s.access as usize, self.v));
        }
        let _ = writeln!(out, "#pragma unroll\n      for (int v = 0; v < {}; v++) {{", self.v);
        let names = Names {
            load: &|k| match (k as usize).checked_sub(self.first_buffer) {
                Some(b) if held_row => format!("b{b}[k][v]"),
                Some(b) => {
                    super::types::unpack(self.phases.buffers[b], &format!("element_at(b{b}, {})", self.buffer_place()))
                }
                None => {
                    self.accesses.element(k as usize, if held_row && !self.is_ahead(k as usize) { "[k]" } else { "" })
                }
            },
            index: &|k, dtype| self.accesses.index(k as usize, dtype, ""),
            valid: &|k| self.accesses.valid(k as usize, ""),
            gather: &|k, offset, inside| self.accesses.gathered(k as usize, &stand, offset, inside),
            value: &|slot| self.value(slot),
            scalar: &|s| self.scalar(s),
            reciprocal: &|s| self.reciprocal(s),
        };
        out += &statements(body, &names);
        for f in &body.folds {
            let lane = if matches!(self.class.sharing, Sharing::Ordered) { "0" } else { "v" };
            let _ = writeln!(
                out,
                "        f{0}[{lane}] = {1}::of(f{0}[{lane}], {2});",
                f.slot,
                self.op_name(f),
                name(f.node)
            );
        }
        for s in &body.stores {
            let _ = writeln!(out, "        {}", self.set(s));
        }
        out += "      }\n";
        if !point_stores.is_empty() {
            out += "      if (live) {\n";
            for s in point_stores {
                let _ = writeln!(out, "        {}", self.accesses.store(s.access as usize, &stand));
            }
            out += "      }\n";
        }
        (ahead, fetched, out)
    }

    /// What is loaded before the points, what is loaded for a vector of points before anything is computed, and the
    /// positions that are found as it is.
    fn fetches(&self, body: &Body, number: usize, stand: &Stand<'_>) -> (String, String, String) {
        let wants = wanted(body);
        let held_row = self.held_row().is_some();
        let first_pass = |k: usize| self.loading(k).next() == Some(number);
        let (mut ahead, mut fetched, mut out) = (String::new(), String::new(), String::new());
        let of_row = |k: usize| self.position(k, false);
        let (point, step) = (stand.point.clone(), stand.step.clone());
        let row = Stand { position: &of_row, point, step, lanes: stand.lanes };
        for (k, &want) in wants.iter().enumerate().take(self.first_buffer).filter(|(_, w)| w.load || w.position) {
            if self.is_ahead(k) {
                let arrays = self.accesses.arrays(k, want, self.v, "");
                let _ = writeln!(ahead, "  {arrays}{}", self.accesses.fetch(k, want, &row, ["", ""]));
            } else if held_row {
                // Loads first; positions are found again where they are used, which takes fewer registers than to hold
                // them.
                let (load, place) = (Wanted { position: false, ..want }, Wanted { load: false, ..want });
                if want.load && (!self.cached(k) || first_pass(k)) {
                    let places = self.accesses.arrays(k, Wanted::default(), self.v, "");
                    let _ = writeln!(fetched, "      {places}{}", self.accesses.fetch(k, load, stand, ["[k]", ""]));
                }
                if want.position {
                    let places = self.accesses.arrays(k, place, self.v, "");
                    let _ = writeln!(out, "      {places}{}", self.accesses.fetch(k, place, stand, ["", ""]));
                }
            } else {
                let arrays = self.accesses.arrays(k, want, self.v, "");
                let _ = writeln!(fetched, "      {arrays}{}", self.accesses.fetch(k, want, stand, ["", ""]));
            }
        }
        (ahead, fetched, out)
    }

    /// Keeps what is stored of a point: in a buffer of the row, or for the store of its vector.
    fn set(&self, s: &Store) -> String {
        match (s.access as usize).checked_sub(self.first_buffer) {
            Some(b) if self.held_row().is_some() => format!("b{b}[k][v] = {};", name(s.node)),
            Some(b) => {
                let (dtype, place) = (self.phases.buffers[b], self.buffer_place());
                format!("if (live) set_at(b{b}, {place}, ({}){});", stored(dtype), pack_rounded(dtype, &name(s.node)))
            }
            None => self.accesses.set(s.access as usize, &name(s.node)),
        }
    }
}
