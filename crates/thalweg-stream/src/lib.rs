//! Streams: record eager operations, recognize repeated sequences, cut them into segments, and run the segments.
//!
//! In: operations, one at a time, from [`record`]. Out: [`Value`]s, computed when somebody asks. Each thread has one
//! stream per device. A stream holds what was recorded since its last cut and steps a recognizer (`recognizer.rs`) as
//! it records. So at a cut the plan of a sequence seen before has been found already. Cuts are caused by reads, by
//! [`synchronize`], by repeating loops, and by the amount of waiting operations and memory. Always true: a pending
//! value belongs to the segment that its stream is recording. After a cut, every value of the segment that is still
//! reachable has its storage, the error that prevented it, or a recipe to compute it.

mod autotune;
mod calibration;
mod capture;
mod class_plans;
mod cold_start;
mod corrections;
mod data_reads;
mod defect;
mod deferred;
mod deferred_check;
mod device;
mod explain;
mod hash;
mod history;
mod host;
mod index_error;
mod mode;
mod outside;
mod pending_error;
mod reach;
mod ready;
mod recognizer;
mod recorder;
mod rematerialization;
mod report;
mod run;
mod run_checks;
mod saved;
mod setting;
mod site;
mod store;
mod stream;
mod strided;
mod template;
#[cfg(test)]
mod tests;
mod tier;
#[doc(hidden)]
pub mod tunable;
mod value;

pub use calibration::{
    calibrate, calibrate_as_if, calibrated, compile_samples, costs, save_costs, set_costs, typical_costs,
};
pub use capture::{CaptureBegin, CapturedSegment};
pub use cold_start::{finish_further_searches, finish_searches, set_tiers, set_tiers_of_new_threads, tiers};
pub use deferred::{deferring, set_deferring};
pub use deferred_check::FailureToError;
pub use device::DeviceRef;
pub use explain::{explain, explain_steady, launch_times, segments, tier_runs};
pub use host::{Caller, OnDevice, Queued, RunOnDevice, host_call};
pub use mode::{
    MatmulPrecision, Mode, convolution_precision, effort, measuring, mode, set_atomic_sums, set_convolution_precision,
    set_effort, set_matmul_precision, set_measuring, set_mode, set_reproducible,
};
pub use recorder::{RecordedArg, RecordedOp};
pub use rematerialization::{recomputing, set_recomputing};
pub use site::{Counted, Site, site};
pub use store::{PlanStoreStats, clear_plans, plan_store};
pub use stream::{
    begin_capture, end_capture, flush, is_among_windows, made, mark, record, record_batch, submit, synchronize,
    template,
};
pub use template::{MAX_OPERANDS, Mark, Template};
pub use tier::{Tier, TierRun};
pub use value::{Operand, Storage, TapeHandle, Value};
