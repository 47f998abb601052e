//! Explanations: which operations were fused, the memory traffic of that, and why the rest was not fused.
//!
//! A [`SegmentReport`] is made from a segment, its plan and its instance, and completed with the results of the run. It
//! holds plain data; [`Explanation`] renders all reports of a closure as text, JSON or a self-contained HTML
//! page.

mod html;
mod layout;
mod text;

use crate::cost::{CostFeatures, Costs, KernelClass, footprint};
use crate::instance::{Instance, instantiate};
use crate::keep::{Keep, Why};
use crate::memory::{Needs, Schedule, schedule};
use crate::partition::{Effort, why};
use crate::plan::{KernelPlan, OutputPlan, Plan};
use crate::scalars::ScalarClasses;
use crate::segment::{BitSet, Indexed, Mode, Segment, ValueId};
use crate::write::step::Slot;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::HashSet;
use thalweg_ir::{Arg, Scalar};
use thalweg_kernel::{Moved, Residence};

/// Reports of the segments that a closure ran.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Explanation {
    /// One report per segment, in the order they ran.
    pub segments: Vec<SegmentReport>,
    /// Number of runs that each kernel's time is the median of: 1 for a single run, whose times include first-time
    /// compilation and first-touch of memory.
    pub runs: usize,
}

/// Totals of kernels and bytes for one mode of running segments, fused or unfused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Number of kernels launched.
    pub kernels: usize,
    /// Bytes of distinct elements that kernels read, according to the plan.
    pub bytes_read: usize,
    /// Bytes of the results that kernels write, according to the plan.
    pub bytes_written: usize,
    /// Bytes that the launches read from memory, as reported by the device: including scratch, second passes and
    /// repeated reads. 0 if nothing has run.
    pub bytes_read_measured: usize,
    /// Bytes that the launches wrote to memory, as reported by the device.
    pub bytes_written_measured: usize,
    /// Bytes allocated for results and intermediates.
    pub bytes_allocated: usize,
    /// Bytes of the arenas in which intermediates shared memory.
    pub arena: usize,
    /// Maximum bytes of the arenas that are live at once: a lower bound of their size.
    pub arena_live: usize,
    /// Planned peak of memory in use, relative to the start; for several segments their maximum.
    pub peak: usize,
    /// Number of launches repeated to stay below the memory limit.
    pub repeated: usize,
}

/// Report of one segment.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentReport {
    /// Operations, in the order of recording, after rewrites.
    pub operations: Vec<OperationReport>,
    /// Rewrites that were applied.
    pub rewrites: Vec<RewriteReport>,
    /// Index in `operations` of each recorded operation; `None` if no rewrite changed them.
    #[serde(skip)]
    places: Option<Vec<usize>>,
    /// Shapes and dtypes of the inputs.
    pub inputs: Vec<String>,
    /// Kernels, in the order of running.
    pub kernels: Vec<KernelReport>,
    /// Index of the kernel of each launch, in the order in which they ran.
    pub launched: Vec<usize>,
    /// Values passed between kernels through memory.
    pub edges: Vec<EdgeReport>,
    /// Whether the plan was made for this run; `false` if it existed already.
    pub plan_made: bool,
    /// Totals of this run.
    pub totals: Totals,
    /// Totals of the same segment with one kernel per operation, without in-place reuse.
    pub unfused: Totals,
    /// Plans that competed in autotuning, the model's preferred one first; empty without autotuning.
    pub autotuning: Vec<Candidate>,
    /// Deferred operations: somebody holds their results, but nobody ever read them. They are computed on demand.
    pub deferred: Vec<usize>,
    /// Decision for each result that only a backward pass in another segment will read, or that such results depend on:
    /// saved or dropped.
    pub saved: Vec<SavedReport>,
    /// Operations that recompute results which an earlier segment dropped (rematerialization).
    pub recomputed: Vec<usize>,
    /// Error of the segment, if it failed.
    pub error: Option<String>,
    /// Reason for a run outside of the stream, if this was one: results that had been deferred, or a failure.
    pub rerun: Option<&'static str>,
}

/// Rewrite applied to a segment.
#[derive(Clone, Debug, Serialize)]
pub struct RewriteReport {
    /// Description of the rewrite.
    pub what: String,
    /// Operations that the rewrite was applied to.
    pub operations: Vec<usize>,
}

/// Decision about a result that only a gradient tape holds, or that such results are recomputed from.
#[derive(Clone, Debug, Serialize)]
pub struct SavedReport {
    /// Index of the operation.
    pub operation: usize,
    /// Size of the result in bytes.
    pub bytes: usize,
    /// Whether the result is written; otherwise it is recomputed.
    pub written: bool,
    /// Predicted nanoseconds to write the result and read it once, at the price of its bytes.
    pub saving_ns: u64,
    /// Predicted nanoseconds to recompute the result from available values.
    pub recompute_ns: u64,
}

/// Plan that competed in autotuning, with its predicted and measured time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Candidate {
    /// Number of launches.
    pub kernels: usize,
    /// Predicted nanoseconds.
    pub predicted_ns: u64,
    /// Median nanoseconds of the plan's timed runs; 0 without runs.
    pub measured_ns: u64,
    /// Number of timed runs.
    pub runs: usize,
    /// Number of values spilled from registers, if the device reports it.
    pub spills: Option<usize>,
    /// Whether the plan was chosen.
    pub chosen: bool,
}

/// Report of one operation of a segment.
#[derive(Clone, Debug, Serialize)]
pub struct OperationReport {
    /// Name of the operation.
    pub name: &'static str,
    /// Dtype and shape of the result, as `f32[2, 3]`.
    pub result: String,
    /// Arguments as text: `%n` for an operation, `inN` for an input, else a scalar's value.
    pub arguments: Vec<String>,
    /// Indices of the kernels that compute it; empty for unused results and for views, which only relabel memory.
    pub kernels: Vec<usize>,
    /// Whether the result is live at the end of the segment.
    pub live: bool,
    /// Whether the result is a view of existing memory.
    pub alias: bool,
}

/// Serializes the fields of a residence beside those of the kernel: the kernel's crate knows no JSON.
fn residence<S: Serializer>(of: &Option<Residence>, s: S) -> Result<S::Ok, S::Error> {
    let mut map = s.serialize_map(None)?;
    if let Some(Residence { registers, spilled_bytes, shared_bytes, blocks, threads, occupancy }) = of {
        map.serialize_entry("registers", registers)?;
        map.serialize_entry("spilled_bytes", spilled_bytes)?;
        map.serialize_entry("shared_bytes", shared_bytes)?;
        map.serialize_entry("blocks", blocks)?;
        map.serialize_entry("threads", threads)?;
        map.serialize_entry("occupancy", occupancy)?;
    }
    map.end()
}

/// Engine that runs a launch, and the resources that it uses.
#[derive(Clone, Debug, Default)]
pub struct Runner {
    /// Instruction set of a CPU, or chip of a GPU.
    pub engine: String,
    /// GPU resources that the launch uses.
    pub residence: Option<Residence>,
}

/// Report of one kernel of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct KernelReport {
    /// Kind: `map`, `rows`, `contraction`, `group`, or the opaque operation.
    pub kind: &'static str,
    /// Number of kernels that run side by side: several in a group, else one.
    pub parts: usize,
    /// Operations computed in the kernel.
    pub operations: Vec<usize>,
    /// Operations whose results the kernel writes.
    pub writes: Vec<usize>,
    /// Operands that the kernel reads, as operations (`%n`) and inputs (`inN`).
    pub reads: Vec<String>,
    /// Shape of the kernel's domain; for a group the number of domains and the first shapes.
    pub domain: String,
    /// Engine that runs the kernel; empty for a kernel without points, which is not launched.
    pub engine: String,
    /// Resources that the kernel uses on a GPU, if it runs on one.
    #[serde(flatten, serialize_with = "residence", skip_serializing_if = "Option::is_none")]
    pub residence: Option<Residence>,
    /// Bytes of distinct elements read, according to the plan.
    pub bytes_read: usize,
    /// Bytes written, according to the plan.
    pub bytes_written: usize,
    /// Bytes read from memory, as reported by the device: see [`Totals`].
    pub bytes_read_measured: usize,
    /// Bytes written, as reported by the device.
    pub bytes_written_measured: usize,
    /// Bytes allocated for the kernel's results.
    pub bytes_allocated: usize,
    /// Number of outputs that reuse the memory of a dead input.
    pub in_place: usize,
    /// Number of times the kernel ran: more than once to keep the segment below the memory limit. Bytes and times are
    /// sums, except the prediction.
    pub launches: usize,
    /// Class of the kernel in the cost model, with its sizes rounded down to powers of four.
    pub class: String,
    /// Factor by which kernels of the class took longer than the constants say, learned from earlier runs; else 1.
    pub correction: f64,
    /// Nanoseconds of the launch predicted with the device's constants and the correction.
    pub predicted_ns: u64,
    /// Nanoseconds that the launches took: see [`Explanation::runs`].
    pub measured_ns: u64,
    /// Cost features that the prediction is computed from.
    #[serde(skip)]
    pub features: CostFeatures,
}

/// Value passed from one kernel to another through memory.
#[derive(Clone, Debug, Serialize)]
pub struct EdgeReport {
    /// Index of the operation.
    pub operation: usize,
    /// Index of the kernel that writes the value.
    pub from: usize,
    /// Index of the kernel that reads the value.
    pub to: usize,
    /// Size in bytes.
    pub bytes: usize,
    /// Reason why the reading kernel does not recompute the value.
    pub reason: String,
}

impl SegmentReport {
    /// Report of a segment that is about to run, on a device with these constants. `runners` gives the engine of each
    /// launch of the instance.
    pub fn new(
        segment: &Segment<'_>,
        costs: &Costs,
        (plan, plan_made): (&Plan, bool),
        instance: &Instance,
        runners: Vec<Runner>,
    ) -> Self {
        let original = segment;
        let rewritten = plan.rewrite.apply(original);
        let segment = &rewritten.as_ref().map_or(*original, |r| r.segment(original));
        let ix = Indexed::new(*segment);
        let mut aliases = BitSet::new(segment.ops.len());
        plan.outputs.iter().filter(|o| o.1 == OutputPlan::Alias).for_each(|o| aliases.insert(o.0));
        let mut operations = operations(&ix, &aliases);
        for (k, kernel) in plan.kernels.iter().enumerate() {
            kernel.ops().for_each(|o| operations[o].kernels.push(k));
        }
        let kernels = kernels(&ix, costs, plan, instance, runners);
        let edges = why(plan, *segment, costs)
            .into_iter()
            .map(|e| EdgeReport {
                operation: e.op,
                from: e.from,
                to: e.to,
                bytes: ix.bytes(ValueId::Op(e.op)),
                reason: e.reason.to_string(),
            })
            .collect();
        let inputs = (0..segment.inputs.len()).map(|i| typed(&ix, ValueId::Input(i))).collect();
        let totals = Totals {
            kernels: instance.steps.len(),
            bytes_read: instance.bytes_read(),
            bytes_written: instance.bytes_written(),
            ..Totals::default()
        };
        let unfused = unfused_totals(original);
        let place = |i: usize| rewritten.as_ref().map_or(i, |r| r.place(i));
        let said = plan.rewrite.described(original.ops.len()).into_iter();
        let rewrites = said.map(|(what, at)| RewriteReport { what, operations: at.into_iter().map(place).collect() });
        SegmentReport {
            rewrites: rewrites.collect(),
            places: rewritten.as_ref().map(|r| (0..original.ops.len()).map(|i| r.place(i)).collect()),
            operations,
            inputs,
            kernels,
            launched: vec![],
            edges,
            plan_made,
            totals,
            unfused,
            autotuning: vec![],
            deferred: vec![],
            saved: vec![],
            recomputed: vec![],
            error: None,
            rerun: None,
        }
    }

    /// Index of a recorded operation among `operations`.
    fn place(&self, recorded: usize) -> usize {
        self.places.as_ref().map_or(recorded, |places| places[recorded])
    }

    /// Adds the deferred results, and the operations that recompute results of earlier segments.
    pub fn leaves(&mut self, deferred: &BitSet, again: &[u32]) {
        self.deferred = deferred.iter().map(|i| self.place(i)).collect();
        self.recomputed = again.iter().map(|&i| self.place(i as usize)).collect();
    }

    /// Sets the reports of the decision about results that only a tape holds.
    pub fn keeps(&mut self, keep: &Keep) {
        let report = |w: &Why| SavedReport {
            operation: self.place(w.operation),
            bytes: w.bytes,
            written: keep.written.has(w.operation),
            saving_ns: w.keeping / 1000,
            recompute_ns: w.again / 1000,
        };
        self.saved = keep.why.iter().map(report).collect();
    }

    /// Adds the results of the run: for each launch of the schedule the bytes allocated, the outputs in place, the
    /// traffic, and the time in nanoseconds.
    pub fn ran(
        &mut self,
        (instance, schedule): (&Instance, &Schedule),
        allocated: &[usize],
        in_place: &[usize],
        moved: &[Moved],
        ns: &[u64],
    ) {
        let steps = schedule.launches.iter().map(|l| &instance.steps[l.step]);
        let t = &mut self.totals;
        (t.kernels, t.bytes_read, t.bytes_written) = (0, 0, 0);
        (t.arena, t.arena_live) = (schedule.arena.bytes, schedule.arena.live);
        (t.peak, t.repeated) = (schedule.peak, schedule.repeated);
        for ((((step, &bytes), &reused), moved), &ns) in steps.zip(allocated).zip(in_place).zip(moved).zip(ns) {
            self.launched.push(step.kernel_index);
            let kernel = &mut self.kernels[step.kernel_index];
            kernel.launches += 1;
            kernel.measured_ns += ns;
            kernel.bytes_allocated += bytes;
            kernel.in_place += reused;
            let (read, written) = (moved.read as usize, moved.written as usize);
            kernel.bytes_read_measured += read;
            kernel.bytes_written_measured += written;
            t.bytes_read_measured += read;
            t.bytes_written_measured += written;
            t.kernels += 1;
            t.bytes_read += step.bytes_read;
            t.bytes_written += step.bytes_written;
            t.bytes_allocated += bytes;
        }
    }

    /// Stores the error of a failed run.
    pub fn failed(&mut self, why: String) {
        self.error = Some(why);
    }
}

/// Dtype and shape of a value.
fn typed(ix: &Indexed<'_>, v: ValueId) -> String {
    format!("{}{}", ix.dtype(v), ix.shape(v))
}

/// Reports of a segment's operations, without their kernels; `aliases` are views of existing memory.
fn operations(ix: &Indexed<'_>, aliases: &BitSet) -> Vec<OperationReport> {
    let report = |i: usize| OperationReport {
        name: ix.seg.ops[i].op.name(),
        result: typed(ix, ValueId::Op(i)),
        arguments: arguments(ix, i),
        kernels: vec![],
        live: ix.seg.live.has(i),
        alias: aliases.has(i),
    };
    (0..ix.seg.ops.len()).map(report).collect()
}

/// Reports of a plan's kernels, before they have run.
fn kernels(
    ix: &Indexed<'_>,
    costs: &Costs,
    plan: &Plan,
    instance: &Instance,
    runners: Vec<Runner>,
) -> Vec<KernelReport> {
    let footprint = footprint(&ix.seg);
    let stored = stored_order(plan);
    let name = |slot: &Slot| match *slot {
        Slot::Input(n) => format!("in{n}"),
        Slot::Buffer(b) => format!("%{}", stored[b]),
    };
    // A kernel without points has no launch.
    let mut steps = instance.steps.iter().zip(runners).peekable();
    let mut kernels = Vec::new();
    for (k, kernel) in plan.kernels.iter().enumerate() {
        let (kind, domain) = described(ix, kernel);
        let (step, runner) = steps.next_if(|s| s.0.kernel_index == k).unzip();
        let Runner { engine, residence } = runner.unwrap_or_default();
        let features = step.map(|s| instance.features(s, costs));
        let reads: Option<Vec<String>> = step.map(|s| s.operands[..s.first_write].iter().map(name).collect());
        kernels.push(KernelReport {
            kind,
            parts: kernel.parts().len(),
            operations: kernel.ops().collect(),
            reads: reads.map(distinct).unwrap_or_default(),
            writes: sorted(kernel.writes().collect()),
            domain,
            engine,
            residence,
            bytes_read: step.map_or(0, |s| s.bytes_read),
            bytes_written: step.map_or(0, |s| s.bytes_written),
            bytes_read_measured: 0,
            bytes_written_measured: 0,
            bytes_allocated: 0,
            in_place: 0,
            launches: 0,
            class: features.as_ref().map_or(String::new(), |f| KernelClass::of(f).to_string()),
            correction: features.as_ref().map_or(1.0, |f| costs.corrections.factor(KernelClass::of(f))),
            predicted_ns: features.as_ref().map_or(0, |f| costs.time(f, footprint) / 1000),
            measured_ns: 0,
            features: features.unwrap_or_default(),
        });
    }
    kernels
}

/// Maximum number of member shapes listed for a group; the rest is counted.
const SHAPES: usize = 4;

/// Kind of a kernel, and a description of its domain.
fn described(ix: &Indexed<'_>, kernel: &KernelPlan) -> (&'static str, String) {
    match kernel {
        KernelPlan::Map { domain, rows, .. } => {
            (if rows.is_some() { "rows" } else { "map" }, ix.shape(*domain).to_string())
        }
        KernelPlan::Contraction { products, .. } => ("contraction", ix.seg.shapes[products.product].to_string()),
        KernelPlan::Opaque { stores, .. } => (ix.seg.ops[stores[0]].op.name(), ix.seg.shapes[stores[0]].to_string()),
        KernelPlan::Group { parts } => {
            let all: Vec<String> = distinct(parts.iter().map(|p| described(ix, p).1).collect());
            let more = all.len().saturating_sub(SHAPES);
            let shown = all[..all.len() - more].join(", ");
            let more = if more > 0 { format!(", … {more} more") } else { String::new() };
            let over = if all.len() == 1 { "shape" } else { "different shapes" };
            ("group", format!("{} parts over {over} {shown}{more}", parts.len()))
        }
    }
}

fn sorted(mut all: Vec<usize>) -> Vec<usize> {
    all.sort_unstable();
    all
}

/// Removes duplicates, keeping the first of equal strings.
fn distinct(mut all: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    all.retain(|s| seen.insert(s.clone()));
    all
}

/// Operations that a plan's kernels store, in the order of the instance's buffers.
fn stored_order(plan: &Plan) -> Vec<usize> {
    plan.kernels.iter().flat_map(KernelPlan::writes).collect()
}

fn arguments(ix: &Indexed<'_>, i: usize) -> Vec<String> {
    let rel = &ix.seg.ops[i];
    let dtype = ix.operand_dtype(i);
    let scalar = |n: usize| match Scalar::from_bits(ix.seg.scalars[ix.scalar(i, n)], dtype) {
        Scalar::Float(v) => format!("{v:.6}").trim_end_matches('0').trim_end_matches('.').to_string(),
        Scalar::Int(v) => v.to_string(),
        Scalar::Unsigned(v) => v.to_string(),
        Scalar::Bool(v) => v.to_string(),
    };
    let named = |(n, a): (usize, Arg)| match a {
        Arg::Op(o) => format!("%{o}"),
        Arg::Input(o) => format!("in{o}"),
        Arg::Scalar if matches!(rel.op, thalweg_ir::Op::Random(_)) => "key".to_string(),
        Arg::Scalar => scalar(n),
        Arg::None => String::new(),
    };
    rel.args().enumerate().map(named).collect()
}

/// Totals of the segment with one kernel per operation, from the same planner without fusion.
fn unfused_totals(segment: &Segment<'_>) -> Totals {
    let off = Segment { mode: Mode { fused: false, ..segment.mode }, ..*segment };
    let classes = ScalarClasses::new(segment.scalars);
    let planned = crate::plan(off, &Costs::typical(), Effort::None).ok();
    let Some(instance) = planned.and_then(|p| instantiate(&p.plan, off, &classes)) else {
        return Totals::default();
    };
    Totals {
        kernels: instance.steps.len(),
        bytes_read: instance.bytes_read(),
        bytes_written: instance.bytes_written(),
        bytes_allocated: instance.buffers.iter().sum(),
        peak: schedule(
            &instance,
            &Needs { own: &vec![0; segment.inputs.len()], rereads: &|_, _| false, temporary: &|_| 0, granted: |b| b },
        )
        .peak,
        ..Totals::default()
    }
}

/// Factor between prediction and measurement from which a kernel is listed as mispredicted.
const MISPREDICTED: f64 = 1.5;
/// Minimum fraction of the time of all kernels at which a kernel is listed.
const LISTED_FRACTION: f64 = 0.05;

impl KernelReport {
    /// Measured nanoseconds beyond the prediction; negative where it took less.
    pub fn regret_ns(&self) -> i64 {
        self.measured_ns as i64 - (self.predicted_ns * self.launches as u64) as i64
    }
}

impl Explanation {
    /// Kernels that took at least 5 % of the time, and more than 1.5 times as long as predicted or less than two thirds
    /// of that, as indices of segment and kernel, largest difference first. Empty for a single run, whose times say little.
    pub fn mispredicted(&self) -> Vec<(usize, usize)> {
        let all = || self.segments.iter().flat_map(|s| &s.kernels);
        let total: u64 = all().map(|k| k.measured_ns).sum();
        let off = |k: &KernelReport| {
            let ratio = k.measured_ns as f64 / (k.predicted_ns * k.launches as u64).max(1) as f64;
            k.launches > 0
                && k.measured_ns as f64 >= total as f64 * LISTED_FRACTION
                && !(1.0 / MISPREDICTED..=MISPREDICTED).contains(&ratio)
        };
        let mut found = vec![];
        for (s, segment) in self.segments.iter().enumerate().filter(|_| self.runs > 1) {
            found.extend((0..segment.kernels.len()).filter(|&k| off(&segment.kernels[k])).map(|k| (s, k)));
        }
        found.sort_by_key(|&(s, k)| std::cmp::Reverse(self.segments[s].kernels[k].regret_ns().abs()));
        found
    }

    /// Sums of the totals of all segments, as they ran.
    pub fn totals(&self) -> Totals {
        sum(self.segments.iter().map(|s| s.totals))
    }

    /// Sums of the totals of all segments with one kernel per operation.
    pub fn unfused(&self) -> Totals {
        sum(self.segments.iter().map(|s| s.unfused))
    }

    /// Reports as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data becomes JSON")
    }
}

fn sum(totals: impl Iterator<Item = Totals>) -> Totals {
    totals.fold(Totals::default(), |a, b| Totals {
        kernels: a.kernels + b.kernels,
        bytes_read: a.bytes_read + b.bytes_read,
        bytes_written: a.bytes_written + b.bytes_written,
        bytes_read_measured: a.bytes_read_measured + b.bytes_read_measured,
        bytes_written_measured: a.bytes_written_measured + b.bytes_written_measured,
        bytes_allocated: a.bytes_allocated + b.bytes_allocated,
        arena: a.arena + b.arena,
        arena_live: a.arena_live + b.arena_live,
        peak: a.peak.max(b.peak),
        repeated: a.repeated + b.repeated,
    })
}

impl Candidate {
    /// Name of the `n`th candidate of an autotuning, for display.
    fn name(&self, n: usize) -> String {
        let launches = format!("{} {}", self.kernels, if self.kernels == 1 { "launch" } else { "launches" });
        if n == 0 { format!("as planned, {launches}") } else { format!("plan {n}, {launches}") }
    }
}

/// Formats a number of bytes: `4,096 B`, `16.0 MiB`.
pub fn bytes(n: usize) -> String {
    if n >= 1 << 30 {
        format!("{:.2} GiB", n as f64 / (1u64 << 30) as f64)
    } else if n >= 10 << 20 {
        format!("{:.1} MiB", n as f64 / (1u64 << 20) as f64)
    } else {
        format!("{} B", grouped(n))
    }
}

/// Formats a time: `0.65 µs`, `12.3 µs`, `4.56 ms`.
pub fn time(ns: u64) -> String {
    let us = ns as f64 / 1e3;
    match us {
        us if us < 10.0 => format!("{us:.2} µs"),
        us if us < 1000.0 => format!("{us:.1} µs"),
        us if us < 10_000.0 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.1} ms", us / 1e3),
    }
}

/// Formats a number with thousands separators.
pub(crate) fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}
