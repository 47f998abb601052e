//! Sources of several grouped launches: the groups of a program's recurrence combine the same few classes in hundreds of
//! ways, and each source takes a compiler a tenth of a second and more.
//!
//! In: the plans of the kernels of a segment. Out: the same launches, where groups with classes in common have one
//! source, with the classes of all of them. It depends on these plans alone, so the disk cache has it for the next
//! process. Among several sources with classes in common, a group takes the one that has most of its operations.
//!
//! Always true: a launch has the registers of the largest class of its source, and the shared memory of all. So groups
//! that have a source together have the same row kernels, and largest classes of about the same size.

use crate::kernels::plan::{Draft, Plan};
use crate::kernels::{GroupClass, Skeleton, reduce};
use crate::tunable::TUNABLES;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of classes of a source. A component's class has 12 bits of a word.
const MAX_CLASSES: usize = 1024;

/// Properties in which groups agree that have a source together.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Kind {
    /// Threads per block.
    block: u32,
    /// Number of argument words.
    words: usize,
    is_exact: bool,
    /// Ranks of the classes that may have shared memory.
    rows: BTreeSet<u64>,
    /// Binary logarithm of the number of operations of the largest class.
    size: u32,
}

/// Source of several groups.
struct MergedSource {
    parts: Vec<Arc<Skeleton>>,
    operations: usize,
}

impl MergedSource {
    fn operations_in_common(&self, parts: &[Arc<Skeleton>]) -> usize {
        parts.iter().filter(|part| self.parts.contains(part)).map(|part| operations(part)).sum()
    }

    fn has_space_for(&self, operations: usize, classes: usize) -> bool {
        TUNABLES.max_merged_operations.admits(self.operations + operations) && self.parts.len() + classes <= MAX_CLASSES
    }

    fn add(&mut self, parts: &[Arc<Skeleton>]) {
        for part in parts {
            if !self.parts.contains(part) {
                self.parts.push(part.clone());
                self.operations += operations(part);
            }
        }
    }
}

/// Number of operations of a thread of a component, unrolled.
fn operations(part: &Skeleton) -> usize {
    match part {
        Skeleton::Map(body, class) => {
            reduce::operations(body, &class.space) * usize::from(class.vectors) * usize::from(class.space.lanes)
        }
        Skeleton::Rows(body, class) => reduce::operations(body, &class.space) * usize::from(class.space.lanes),
        _ => unreachable!("it is no component of a group"),
    }
}

fn kind(group: &GroupClass) -> Kind {
    let largest = group.parts.iter().map(|part| operations(part)).max().unwrap_or(0);
    Kind {
        block: group.block,
        words: group.words,
        is_exact: group.parts.iter().any(|part| part.is_exact()),
        rows: group.parts.iter().filter(|part| matches!(***part, Skeleton::Rows(..))).map(|part| part.rank()).collect(),
        size: largest.max(1).ilog2(),
    }
}

/// Replaces the sources of groups that have classes in common by one, in these plans.
pub fn merge_sources(plans: &mut [Plan]) {
    let mut groups: Vec<Arc<Skeleton>> = vec![];
    for draft in plans.iter().flat_map(|plan| &plan.stages) {
        if matches!(&*draft.kernel, Skeleton::Group(_)) && !groups.contains(&draft.kernel) {
            groups.push(draft.kernel.clone());
        }
    }
    if groups.len() < 2 {
        return;
    }
    // The largest first, so that groups of some of its classes find it.
    groups.sort_by_cached_key(|kernel| {
        Reverse(class_of(kernel).parts.iter().map(|part| operations(part)).sum::<usize>())
    });
    let mut sources: FxHashMap<Kind, Vec<MergedSource>> = FxHashMap::default();
    let mut chosen: FxHashMap<Arc<Skeleton>, (Kind, usize)> = FxHashMap::default();
    for kernel in groups {
        let (parts, kind) = (&class_of(&kernel).parts, kind(class_of(&kernel)));
        let of_kind = sources.entry(kind.clone()).or_default();
        let all: usize = parts.iter().map(|part| operations(part)).sum();
        let fit = |at: usize| {
            let common = of_kind[at].operations_in_common(parts);
            let fits = common > 0 && of_kind[at].has_space_for(all - common, parts.len());
            fits.then_some((common, at))
        };
        let best = (0..of_kind.len()).filter_map(fit).max().map(|(_, at)| at);
        let at = best.unwrap_or_else(|| {
            of_kind.push(MergedSource { parts: vec![], operations: 0 });
            of_kind.len() - 1
        });
        of_kind[at].add(parts);
        chosen.insert(kernel, (kind, at));
    }
    let class = |kind: &Kind, merged: MergedSource| {
        let mut parts = merged.parts;
        parts.sort_by_cached_key(|part| part.rank());
        Arc::new(Skeleton::Group(GroupClass { parts, block: kind.block, words: kind.words }))
    };
    let of_kind = |(kind, all): (Kind, Vec<MergedSource>)| {
        let all = all.into_iter().map(|merged| class(&kind, merged)).collect();
        (kind, all)
    };
    let sources: FxHashMap<Kind, Vec<Arc<Skeleton>>> = sources.into_iter().map(of_kind).collect();
    for draft in plans.iter_mut().flat_map(|plan| &mut plan.stages) {
        if let Some((kind, at)) = chosen.get(&draft.kernel) {
            take_source(draft, &sources[kind][*at]);
        }
    }
}

fn class_of(kernel: &Skeleton) -> &GroupClass {
    match kernel {
        Skeleton::Group(class) => class,
        _ => unreachable!("it is a group"),
    }
}

/// Replaces the source of a grouped launch by one that has its classes and others.
fn take_source(draft: &mut Draft, source: &Arc<Skeleton>) {
    let (own, all) = (&class_of(&draft.kernel).parts, &class_of(source).parts);
    let place = |part: &Arc<Skeleton>| all.iter().position(|p| p == part).expect("the source has it");
    let places: Vec<usize> = own.iter().map(place).collect();
    super::renumber_classes(&mut draft.words, |class| places[class]);
    draft.kernel = source.clone();
}
