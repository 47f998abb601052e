//! The plans of one class of a pattern, which the plan store and all instances of the class share.
//!
//! In: plans that were found for the class, by a search or by measuring. Out: which of them sizes that are new take
//! first.

use crate::tunable::TUNABLES;
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_fusion::Plan;

/// The plans of one class of a pattern.
#[derive(Default)]
pub(crate) struct ClassPlans {
    /// The newest last. There is more than one only where sizes broke what an older one assumed, or where an autotuning
    /// found a faster one.
    plans: Mutex<Vec<Arc<Plan>>>,
}

impl ClassPlans {
    /// All of them, the newest last.
    pub fn all(&self) -> Vec<Arc<Plan>> {
        self.locked().clone()
    }

    /// Makes a plan the newest of the class: sizes that are met from now on take it first.
    pub fn prefer(&self, plan: &Arc<Plan>) {
        let mut plans = self.locked();
        plans.retain(|p| **p != **plan);
        if TUNABLES.max_class_plans.reached_by(plans.len()) {
            plans.remove(0);
        }
        plans.push(plan.clone());
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Arc<Plan>>> {
        // What a panic leaves is a list of plans.
        self.plans.lock().unwrap_or_else(|e| e.into_inner())
    }
}
