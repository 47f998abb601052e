//! Plans of one size class of a pattern, shared by the plan store and all instances of the class.
//!
//! In: plans found for the class, by a search or by measuring. Out: the order in which new sizes try them.

use crate::tunable::TUNABLES;
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_fusion::Plan;

/// Plans for one size class of a pattern, the preferred one last.
#[derive(Default)]
pub(crate) struct ClassPlans {
    /// Plans, the newest last. There are several only where sizes broke an assumption of an older plan, or where
    /// autotuning found a faster one.
    plans: Mutex<Vec<Arc<Plan>>>,
}

impl ClassPlans {
    /// All plans, the newest last.
    pub fn all(&self) -> Vec<Arc<Plan>> {
        self.locked().clone()
    }

    /// Makes a plan the preferred one of the class, which sizes seen later try first.
    pub fn prefer(&self, plan: &Arc<Plan>) {
        let mut plans = self.locked();
        plans.retain(|p| **p != **plan);
        if TUNABLES.max_class_plans.reached_by(plans.len()) {
            plans.remove(0);
        }
        plans.push(plan.clone());
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Arc<Plan>>> {
        // A panic leaves a valid list of plans.
        self.plans.lock().unwrap_or_else(|e| e.into_inner())
    }
}
