//! Changes of an indexed state compared with states made from nothing.

use super::graphs::{choices, random};
use crate::cost::Costs;
use crate::partition::facts::Facts;
use crate::partition::kernels::Kernels;
use crate::partition::search::State;
use crate::partition::search::indexed::IndexedState;
use crate::segment::BitSet;
use crate::write::rules::Rule;
use proptest::prelude::*;

/// Move without regard to its time: merges two kernels, or no longer stores a value.
#[derive(Clone, Copy, Debug)]
enum Step {
    Merge(usize, usize),
    ComputeAgain(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any = 0..1000usize;
    let step =
        prop_oneof![(any.clone(), any.clone()).prop_map(|(a, b)| Step::Merge(a, b)), any.prop_map(Step::ComputeAgain),];
    proptest::collection::vec(step, 1..24)
}

/// Time of the state with these stores, the rule that the whole breaks, or `None` if a kernel breaks one.
fn from_nothing(kernels: &mut Kernels<'_, '_>, stores: &[Vec<usize>], stored: &BitSet) -> Option<Result<u64, Rule>> {
    let state = kernels.state_of(stores, stored)?;
    Some(state.check(kernels.facts).map(|()| state.time))
}

fn stores_of(state: &State) -> Vec<Vec<usize>> {
    state.kernels.iter().map(|k| k.stores.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_change_is_what_its_state_is(c in choices(16), steps in steps()) {
        let g = random(&c);
        let (facts, costs) = (Facts::new(g.0.as_segment()), Costs::typical());
        let mut kernels = Kernels::new(&facts, &costs);
        let mut stored = facts.required.clone();
        facts.needed.iter().filter(|&i| facts.may_store(i)).for_each(|i| stored.insert(i));
        let each: Vec<Vec<usize>> = stored.iter().filter(|&i| facts.needed.has(i)).map(|i| vec![i]).collect();
        let Some(state) = kernels.legal_state_of(&each, &stored) else { return Ok(()) };
        prop_assume!(!each.is_empty());
        let mut state = IndexedState::new(&facts, state);
        for step in steps {
            let numbers = state.canonical();
            let mut stored = state.stored.clone();
            let (changed, removed, added) = match step {
                Step::Merge(a, b) => {
                    let (a, b) = (numbers[a % numbers.len()], numbers[b % numbers.len()]);
                    if a == b {
                        continue;
                    }
                    let mut both = [&state.kernel(a).stores[..], &state.kernel(b).stores].concat();
                    both.sort_unstable();
                    (vec![], vec![a, b], both)
                }
                Step::ComputeAgain(v) => {
                    let all: Vec<usize> = stored.iter().filter(|&i| !facts.required.has(i)).collect();
                    if all.is_empty() {
                        continue;
                    }
                    let v = all[v % all.len()];
                    stored.remove(v);
                    let home = state.home(v);
                    let rest = state.kernel(home).stores.iter().copied().filter(|&s| s != v).collect();
                    (vec![v], vec![home], rest)
                }
            };
            let change = kernels.changed(&state, (stored.clone(), &changed), &removed, std::slice::from_ref(&added));
            let kept = numbers.into_iter().filter(|k| !removed.contains(k));
            let mut all: Vec<Vec<usize>> = kept.map(|k| state.kernel(k).stores.clone()).collect();
            all.extend((!added.is_empty()).then_some(added));
            match from_nothing(&mut kernels, &all, &stored) {
                None => prop_assert!(change.is_err()),
                Some(expected) => prop_assert_eq!(change.as_ref().map(|c| c.time).map_err(|rule| *rule), expected),
            }
            if let Ok(change) = change {
                state.apply(change);
                let now = state.to_state();
                let again = kernels.state_of(&stores_of(&now), &now.stored).expect("legal kernels");
                prop_assert_eq!(stores_of(&again), stores_of(&now));
                all.sort_unstable();
                let mut stores = stores_of(&now);
                stores.sort_unstable();
                prop_assert_eq!(stores, all);
                prop_assert_eq!(again.time, state.time);
            }
        }
    }
}
