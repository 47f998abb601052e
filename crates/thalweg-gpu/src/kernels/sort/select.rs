//! Selection among the sorts of rows of scratch memory.

use crate::kernels::plan::Plan;
use crate::kernels::scan::RowScan;
use crate::kernels::sort::{merge, radix};
use crate::target::Target;

/// Adds the launches of a sort to a plan, by the faster algorithm.
pub fn add(sort: RowScan, plan: &mut Plan, target: &dyn Target) {
    if sort.rows * sort.points == 0 {
        return;
    }
    if target.chip().capabilities.exchange && radix::select::fits(&sort) {
        radix::select::add(sort, plan, target)
    } else {
        merge::select::add(sort, plan)
    }
}
