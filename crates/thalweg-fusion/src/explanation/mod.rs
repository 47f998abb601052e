//! Explanations: which operations went together, what that moved, and why the rest did not.
//!
//! A [`SegmentReport`] is made from a segment, its plan and its instance, and completed with what the run did. It holds
//! plain data; [`Explanation`] renders all reports of a stretch of code as text, JSON or a self-contained HTML page.

mod html;
mod layout;
mod text;

use crate::cost::{CostFeatures, Costs, footprint};
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

/// What was done with the segments of a stretch of code.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Explanation {
    /// One a segment, in the order they ran.
    pub segments: Vec<SegmentReport>,
}

/// Kernels and bytes of one way to run something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Kernels launched.
    pub kernels: usize,
    /// Bytes of distinct elements that kernels read, as the plan says.
    pub bytes_read: usize,
    /// Bytes that they write, as the plan says.
    pub bytes_written: usize,
    /// Bytes that the launches read from memory, as the device says: scratch, second passes and repeated reads
    /// included. 0 of what has not run.
    pub bytes_read_measured: usize,
    /// Bytes that they wrote, as the device says.
    pub bytes_written_measured: usize,
    /// Bytes allocated for results and intermediates.
    pub bytes_allocated: usize,
    /// Bytes of the arenas in which intermediates shared memory.
    pub arena: usize,
    /// The most bytes in them that were alive at once: no arena could have been smaller.
    pub arena_live: usize,
    /// The most bytes in use at once beyond what was in use before, as planned; of several segments the largest.
    pub peak: usize,
    /// Launches of kernels that had run before, to stay below the memory limit.
    pub repeated: usize,
}

/// What was done with one segment.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentReport {
    /// The operations in the order of recording, after the rewrites.
    pub operations: Vec<OperationReport>,
    /// What is computed in another way than it was recorded in.
    pub rewrites: Vec<RewriteReport>,
    /// The place of each recorded operation among the operations, where that is another one.
    #[serde(skip)]
    places: Option<Vec<usize>>,
    /// Shapes and dtypes of the inputs.
    pub inputs: Vec<String>,
    /// The kernels in the order of running.
    pub kernels: Vec<KernelReport>,
    /// The kernel of each launch, in the order in which they ran.
    pub launched: Vec<usize>,
    /// Values that went from one kernel to another through memory.
    pub edges: Vec<EdgeReport>,
    /// Whether the plan was made now; otherwise it was there already.
    pub plan_made: bool,
    /// As it ran.
    pub totals: Totals,
    /// One kernel an operation, nothing reused in place.
    pub unfused: Totals,
    /// The plans that were measured against each other, the first one that the model preferred; empty where none were.
    pub autotuning: Vec<Candidate>,
    /// Operations whose results somebody holds but nobody ever read: not written, computed again if somebody asks.
    pub deferred: Vec<usize>,
    /// Results that a backward pass in another segment will read, or that those follow from: written or left.
    pub kept: Vec<KeptReport>,
    /// Operations recorded again, for results that an earlier segment left.
    pub again: Vec<usize>,
    /// Why the segment failed, if it did.
    pub error: Option<String>,
    /// Why it ran beside the stream, once more, if it did: for results that had been deferred, or after a failure.
    pub rerun: Option<&'static str>,
}

/// A rewrite.
#[derive(Clone, Debug, Serialize)]
pub struct RewriteReport {
    /// In words.
    pub what: String,
    /// The operations that it was made at.
    pub operations: Vec<usize>,
}

/// A result that a tape alone holds, or that such results are to be computed from again.
#[derive(Clone, Debug, Serialize)]
pub struct KeptReport {
    /// The operation.
    pub operation: usize,
    /// Its bytes.
    pub bytes: usize,
    /// Whether it is written; otherwise it is computed again.
    pub written: bool,
    /// Nanoseconds to write it and to read it once, by the model and at the price that bytes have.
    pub keeping_ns: u64,
    /// Nanoseconds to compute it again from what is there.
    pub again_ns: u64,
}

/// A plan that was measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Candidate {
    /// Launches it has.
    pub kernels: usize,
    /// Nanoseconds that the model says.
    pub predicted_ns: u64,
    /// Median nanoseconds of its runs; 0 if there was none.
    pub measured_ns: u64,
    /// Runs that count.
    pub runs: usize,
    /// Values spilled from registers, where the device says.
    pub spills: Option<usize>,
    /// Whether it runs from now on.
    pub chosen: bool,
}

/// One operation of a segment.
#[derive(Clone, Debug, Serialize)]
pub struct OperationReport {
    /// Its name.
    pub name: &'static str,
    /// Its result's dtype and shape, as `f32[2, 3]`.
    pub result: String,
    /// Its arguments: `%n` an operation, `inN` an input, else a scalar's value.
    pub arguments: Vec<String>,
    /// The kernels that compute it; empty for what nobody needed and for views that only re-label memory.
    pub kernels: Vec<usize>,
    /// Whether somebody can still ask for the result.
    pub live: bool,
    /// Whether the result is a view of memory that is there anyway.
    pub alias: bool,
}

/// Its fields beside those of the kernel: the kernel's crate knows no JSON.
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

/// Who runs a launch.
#[derive(Clone, Debug, Default)]
pub struct Runner {
    /// The instruction set, the chip.
    pub engine: String,
    /// What it takes of a GPU.
    pub residence: Option<Residence>,
}

/// One kernel.
#[derive(Clone, Debug, Serialize)]
pub struct KernelReport {
    /// What kind: `map`, `rows`, `contraction`, `group`, or the opaque operation.
    pub kind: &'static str,
    /// Kernels that it runs side by side: several of a group, else one.
    pub parts: usize,
    /// Operations computed in it.
    pub operations: Vec<usize>,
    /// Operations whose results it writes.
    pub writes: Vec<usize>,
    /// What it reads, as operations (`%n`) and inputs (`inN`).
    pub reads: Vec<String>,
    /// Its domain's shape; of a group how many there are and the first.
    pub domain: String,
    /// Who runs it; empty for a kernel without points, which is not launched.
    pub engine: String,
    /// What it takes of a GPU's multiprocessors, where it runs on one.
    #[serde(flatten, serialize_with = "residence", skip_serializing_if = "Option::is_none")]
    pub residence: Option<Residence>,
    /// Bytes of distinct elements read, as the plan says.
    pub bytes_read: usize,
    /// Bytes written, as the plan says.
    pub bytes_written: usize,
    /// Bytes read from memory, as the device says: see [`Totals`].
    pub bytes_read_measured: usize,
    /// Bytes written, as the device says.
    pub bytes_written_measured: usize,
    /// Bytes allocated for what it writes.
    pub bytes_allocated: usize,
    /// Outputs that took the place of a dying input.
    pub in_place: usize,
    /// How often it ran: more than once where that kept the segment below the memory limit. All its bytes and times but
    /// the prediction are sums.
    pub launches: usize,
    /// Nanoseconds that the launch was to take by the constants of the device.
    pub predicted_ns: u64,
    /// Nanoseconds that it took, this once; a program compiled or memory touched for the first time is in it.
    pub measured_ns: u64,
    /// What the prediction follows from.
    #[serde(skip)]
    pub features: CostFeatures,
}

/// A value that went through memory.
#[derive(Clone, Debug, Serialize)]
pub struct EdgeReport {
    /// The operation.
    pub operation: usize,
    /// The kernel that wrote it.
    pub from: usize,
    /// The kernel that read it.
    pub to: usize,
    /// Its bytes.
    pub bytes: usize,
    /// Why it was not computed where it was read.
    pub reason: String,
}

impl SegmentReport {
    /// The report of a segment that is about to run, on a device with these constants. `runners` says who runs each
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
            kept: vec![],
            again: vec![],
            error: None,
            rerun: None,
        }
    }

    /// Where a recorded operation stands among the operations.
    fn place(&self, recorded: usize) -> usize {
        self.places.as_ref().map_or(recorded, |places| places[recorded])
    }

    /// Adds the results that were not written, and the operations that were recorded again.
    pub fn leaves(&mut self, deferred: &BitSet, again: &[u32]) {
        self.deferred = deferred.iter().map(|i| self.place(i)).collect();
        self.again = again.iter().map(|&i| self.place(i as usize)).collect();
    }

    /// Adds what was decided about results that a tape alone holds.
    pub fn keeps(&mut self, keep: &Keep) {
        let report = |w: &Why| KeptReport {
            operation: self.place(w.operation),
            bytes: w.bytes,
            written: keep.written.has(w.operation),
            keeping_ns: w.keeping / 1000,
            again_ns: w.again / 1000,
        };
        self.kept = keep.why.iter().map(report).collect();
    }

    /// Adds what the run did: for each launch of the schedule the bytes allocated, the outputs that took an input's
    /// place, what it moved, and the time in nanoseconds.
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

    /// Notes that the run failed.
    pub fn failed(&mut self, why: String) {
        self.error = Some(why);
    }
}

/// A value's dtype and shape.
fn typed(ix: &Indexed<'_>, v: ValueId) -> String {
    format!("{}{}", ix.dtype(v), ix.shape(v))
}

/// The operations of a segment, of which some are views of memory that is there anyway; kernels are left out.
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

/// The kernels of a plan, before they have run.
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
            predicted_ns: features.as_ref().map_or(0, |f| costs.time(f, footprint) / 1000),
            measured_ns: 0,
            features: features.unwrap_or_default(),
        });
    }
    kernels
}

/// Shapes of a group's parts that are listed before the rest is counted.
const SHAPES: usize = 4;

/// What kind a kernel is, and its domain.
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

/// Without what came before.
fn distinct(mut all: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    all.retain(|s| seen.insert(s.clone()));
    all
}

/// The operations that a plan's kernels store, in the order of the instance's buffers.
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

/// What one kernel an operation would have cost: the same planner with fusion off.
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
            &Needs { own: &vec![0; segment.inputs.len()], rereads: &|_, _| false, granted: |b| b },
        )
        .peak,
        ..Totals::default()
    }
}

impl Explanation {
    /// Sums over all segments, as they ran.
    pub fn totals(&self) -> Totals {
        sum(self.segments.iter().map(|s| s.totals))
    }

    /// Sums over all segments, one kernel an operation.
    pub fn unfused(&self) -> Totals {
        sum(self.segments.iter().map(|s| s.unfused))
    }

    /// The reports as JSON.
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
    /// What it is, as the `n`th of an autotuning.
    fn name(&self, n: usize) -> String {
        let launches = format!("{} {}", self.kernels, if self.kernels == 1 { "launch" } else { "launches" });
        if n == 0 { format!("as planned, {launches}") } else { format!("plan {n}, {launches}") }
    }
}

/// A number of bytes for people: `4,096 B`, `16.0 MiB`.
pub fn bytes(n: usize) -> String {
    if n >= 1 << 30 {
        format!("{:.2} GiB", n as f64 / (1u64 << 30) as f64)
    } else if n >= 10 << 20 {
        format!("{:.1} MiB", n as f64 / (1u64 << 20) as f64)
    } else {
        format!("{} B", grouped(n))
    }
}

/// A time for people: `0.65 µs`, `12.3 µs`, `4.56 ms`.
pub fn time(ns: u64) -> String {
    let us = ns as f64 / 1e3;
    match us {
        us if us < 10.0 => format!("{us:.2} µs"),
        us if us < 1000.0 => format!("{us:.1} µs"),
        us if us < 10_000.0 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.1} ms", us / 1e3),
    }
}

/// A number with its thousands apart.
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
