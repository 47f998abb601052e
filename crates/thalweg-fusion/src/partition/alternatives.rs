//! Alternative plans that may be faster than the one the cost model prefers: candidates for autotuning.
//!
//! The model is wrong where a constant is. So the search is repeated with constants scaled, one group at a time, by
//! typical errors of such a model. In addition every single move from the plan is considered, even if the model
//! predicts a loss. Of all these, the ones with the least predicted time are tried.
//!
//! The model also leaves things out. What kernels of the plan have shown of that is in [`Costs::corrections`]; with
//! any, the segment is searched again. And whatever the model says, two plans that a program can have without a search
//! compete: that of a quick one, and one kernel for each operation.

use super::facts::Facts;
use super::horizontal;
use super::kernels::Kernels;
use super::search::{Effort, State, stores_of};
use super::{Planned, Planner};
use crate::cost::Costs;
use crate::plan::Plan;
use crate::segment::{Mode, Segment};

/// Budget of the search in visits (candidates looked up, and operations written into them): a few tens of milliseconds,
/// between two runs of the program.
const VISITS: u64 = 40_000;
/// Maximum predicted slowdown, as a factor, at which a plan is still tried.
const HOPELESS: u64 = 2;
/// Maximum number of operations at which one kernel for each is a candidate.
const MAX_UNFUSED_OPS: usize = 4096;

/// Returns up to `most` other plans, most promising first; none without fusion, where there is only one plan.
pub fn alternatives(segment: Segment<'_>, costs: &Costs, plan: &Plan, most: usize) -> Vec<Plan> {
    if !segment.mode.fused {
        return vec![];
    }
    let rewritten = plan.rewrite.apply(&segment);
    let of = rewritten.as_ref().map_or(segment, |r| r.segment(&segment));
    let planner = Planner { segment, costs, effort: Effort::default(), at_hand: None };
    // The other form of the segment: rewritten if this plan is not, as recorded if it is. Also its own form again, if
    // kernels have corrected the model since.
    let corrected = !costs.corrections.is_empty();
    let forms = [
        (rewritten.is_none() || corrected).then(|| planner.rewritten()).flatten(),
        (rewritten.is_some() || corrected).then(|| planner.as_written().ok()).flatten(),
    ];
    let mut forms: Vec<Planned> = forms.into_iter().flatten().collect();
    forms.sort_by_key(|planned| planned.time);
    let mut plans: Vec<Plan> = vec![];
    let mut add = |candidate: Plan| {
        if plans.len() < most && candidate != *plan && !plans.contains(&candidate) {
            plans.push(candidate);
        }
        plans.len() < most
    };
    let room = forms.into_iter().map(|planned| planned.plan).chain(without_search(&planner)).all(&mut add);
    if room {
        let own_form = |other: Plan| Plan { rewrite: plan.rewrite.clone(), ..other };
        of_written(of, costs, plan, most).into_iter().map(own_form).all(add);
    }
    plans
}

/// Plans that a program can have without a search: the one of a quick search, and one kernel for each operation.
fn without_search(planner: &Planner<'_>) -> impl Iterator<Item = Plan> {
    let quick = Planner { effort: Effort::Quick, ..*planner }.plan().ok();
    let apart = Segment { mode: Mode { fused: false, ..planner.segment.mode }, ..planner.segment };
    let few = planner.segment.ops.len() <= MAX_UNFUSED_OPS;
    let unfused = few.then(|| Planner { segment: apart, effort: Effort::None, ..*planner }.as_written().ok()).flatten();
    quick.into_iter().chain(unfused).map(|planned| planned.plan)
}

/// Alternative plans of a segment without rewriting it.
fn of_written(segment: Segment<'_>, costs: &Costs, plan: &Plan, most: usize) -> Vec<Plan> {
    let facts = Facts::new(segment);
    let mut kernels = Kernels::new(&facts, costs);
    let (stores, stored) = stores_of(plan, segment.ops.len());
    let Some(own) = kernels.state_of(&stores, &stored) else { return vec![] };
    let mut found: Vec<State> = kernels.neighbours(&own, VISITS / 2);
    let mut visits = kernels.visits;
    for other in put_off(costs) {
        if visits >= VISITS {
            break;
        }
        let mut kernels_then = Kernels::new(&facts, &other);
        let searched = kernels_then.search_all(Effort::default());
        visits += kernels_then.visits;
        let Ok((state, _)) = searched else { continue };
        let (stores, stored) = state.stores();
        found.extend(kernels.state_of(&stores, &stored));
    }
    found.retain(|s| s.time <= own.time.saturating_mul(HOPELESS));
    let places = |s: &State| -> Vec<Vec<usize>> {
        s.kernels.iter().map(|k| facts.ranked(&k.stores).iter().map(|&i| facts.rank[i]).collect()).collect()
    };
    found.sort_by_cached_key(|s| (s.time, places(s)));
    // If the plan has groups, one alternative launches their kernels separately.
    let apart = horizontal::ungrouped(plan);
    let mut plans: Vec<Plan> = vec![];
    for candidate in apart.into_iter().chain(found.iter().map(|s| facts.finish(s))) {
        if plans.len() < most && candidate != *plan && !plans.contains(&candidate) {
            plans.push(candidate);
        }
    }
    plans
}

/// Variants of the cost constants, each with one group of them scaled up or down by a typical model error.
fn put_off(costs: &Costs) -> Vec<Costs> {
    let memory = |by: f64| {
        let mut c = costs.clone();
        for l in &mut c.levels {
            (l.read, l.write, l.read_all, l.write_all) = (l.read * by, l.write * by, l.read_all * by, l.write_all * by);
        }
        c
    };
    let functions = |by: f64| Costs { special: costs.special * by, divide: costs.divide * by, ..costs.clone() };
    let positions = |by: f64| Costs {
        mapped: costs.mapped * by,
        close: costs.close * by,
        strided: costs.strided * by,
        transposed: costs.transposed * by,
        ..costs.clone()
    };
    let rows =
        |by: f64| Costs { fold: costs.fold * by, row: costs.row * by, row_fold: costs.row_fold * by, ..costs.clone() };
    vec![
        memory(2.5),
        memory(0.4),
        functions(2.5),
        functions(0.4),
        positions(4.0),
        positions(0.25),
        rows(3.0),
        rows(0.3),
        Costs { launch: costs.launch * 20.0, ..costs.clone() },
    ]
}
