//! Planning: from a segment to a plan (which operations share a kernel, in which order) and to its launches.
//!
//! * [`plan`] partitions a [`Segment`]'s operations into kernels. It looks at the whole graph with its sizes in bytes.
//! * [`instantiate`] turns a [`Plan`] into kernel bodies, geometry and buffers for concrete sizes.
//! * [`unfused`] assembles a segment from one kernel per operation, without a search.
//! * [`schedule`] finds the order of an [`Instance`]'s launches and the memory of each result.
//! * [`keep`] decides which values of a forward pass are saved for the backward pass, and which are recomputed.
//! * [`SegmentClass`] (size class) says which sizes and layouts share a plan.
//! * [`Explanation`] reports what was fused and why the rest was not, as text, JSON and HTML.

mod class;
mod cost;
mod exact;
mod explanation;
mod instance;
mod keep;
mod memory;
mod partition;
mod period;
mod plan;
mod rewrite;
mod scalars;
mod segment;
pub mod text;
#[doc(hidden)]
pub mod tunable;
mod unfused;
mod write;

pub use class::SegmentClass;
pub use cost::{
    AccessKind, Corrections, CostFeatures, Costs, KernelClass, Level, Product, RowFeatures, Traffic, Work, footprint,
};
pub use explanation::{
    Candidate, EdgeReport, Explanation, KernelReport, OperationReport, RewriteReport, Runner, SavedReport,
    SegmentReport, Totals, bytes, time,
};
pub use instance::{Instance, Output, instantiate, instantiate_like};
pub use keep::{Keep, MAX_RECOMPUTED_OPS, Question, Subgraph, Why, keep};
pub use memory::{Arena, CellLocation, Launch, Needs, Schedule, schedule, schedule_within};
pub use partition::{
    AvailablePlans, Effort, NoPlan, PLANNER, PartitionCache, PartsUsed, Planned, alternatives, class_question,
    is_of_turns, plan, plan_of_turns, plan_with, question,
};
pub use period::{independent_turns, period};
pub use plan::{Edge, KernelPlan, OutputPlan, Plan, Reason};
pub use scalars::ScalarClasses;
pub use segment::{BitSet, Mode, OwnedSegment, Segment, ValueId};
pub use unfused::{Single, SingleKey, Unfused, unfused, unfused_work};
pub use write::{BitRange, Form, Rule, ScalarArg, Slot, Step};
