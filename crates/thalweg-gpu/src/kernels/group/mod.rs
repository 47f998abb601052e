//! Horizontal fusion: independent launches merged into one.
//!
//! In: drafts of maps and row kernels. Out: fewer drafts. The argument of a merged launch is a table (for each
//! component its first block, its class, and the index of its first argument word) followed by the arguments of all
//! components. A block finds its component in the table, and runs like a block of that component alone. The source has
//! each class once, whatever the number and sizes of components, so that groups of the same classes share machine code.
//!
//! Always true: components keep their number of threads per block; where these differ, there is a launch for each.
//!
//! `sources`: sources that several groups of a segment share.

mod sources;

pub use sources::merge_sources;

use crate::ir::Layout;
use crate::kernels::plan::{Draft, Plan};
use crate::kernels::{GroupClass, Skeleton};
use crate::params::{I64, RuntimeArgument, U32, each, params};
use crate::target::Target;
use crate::tunable::TUNABLES;
use std::sync::Arc;

/// Sizes, in 64-bit words, that the arguments of a group are padded to. With only these few sizes, more groups share a
/// source.
const SIZES: [usize; 5] = [128, 256, 512, 1536, 4095];

/// Whether a launch can be a component of a group: its blocks depend only on the arguments and the block's index, and
/// it uses neither counters, an exchange buffer nor dynamic shared memory.
fn can_be_part(draft: &Draft) -> bool {
    draft.kernel.is_simple()
        && draft.shared == 0
        && draft.grid[1..] == [1, 1]
        && !draft.patches.iter().any(|p| matches!(p.1, RuntimeArgument::Counters | RuntimeArgument::Exchange(_)))
}

/// Merges the launches `which` of the plan into grouped launches. They must be independent of each other and of the
/// others.
pub fn join(plan: &mut Plan, which: &[usize], target: &dyn Target) {
    if which.len() < 2 || !target.chip().capabilities.groups {
        return;
    }
    let mut chosen = vec![false; plan.stages.len()];
    which.iter().filter(|&&i| can_be_part(&plan.stages[i])).for_each(|&i| chosen[i] = true);
    let (mut parts, mut rest) = (vec![], vec![]);
    for (draft, is_part) in std::mem::take(&mut plan.stages).into_iter().zip(chosen) {
        if is_part { parts.push(draft) } else { rest.push(draft) }
    }
    plan.stages = rest;
    let blocks: usize = parts.iter().map(|d| d.grid[0] as usize).sum();
    let many = !TUNABLES.max_joined_blocks.admits(blocks.div_ceil(target.chip().multiprocessors as usize));
    let group = |d: &Draft| (d.block, d.kernel.is_exact(), many.then(|| d.kernel.name()));
    while let Some(first) = parts.first().map(group) {
        let (own, others) = parts.into_iter().partition(|d| group(d) == first);
        parts = others;
        pack(plan, own, target);
    }
}

/// Merges drafts that have the same block size and kind, as many in each launch as its arguments have space for.
fn pack(plan: &mut Plan, drafts: Vec<Draft>, target: &dyn Target) {
    let most = (target.chip().arguments / 8).min(SIZES[SIZES.len() - 1]);
    let (mut now, mut words, mut classes, mut blocks): (Vec<Draft>, usize, Vec<Arc<Skeleton>>, u64) =
        (vec![], 1, vec![], 0);
    for draft in drafts {
        let need = 1 + draft.words.len();
        let new = !classes.contains(&draft.kernel);
        let more = blocks + u64::from(draft.grid[0]);
        if words + need > most || new && TUNABLES.max_joined_classes.reached_by(classes.len()) || more >= 1 << 31 {
            finish(plan, std::mem::take(&mut now), std::mem::take(&mut classes), most);
            (words, blocks) = (1, 0);
        }
        if !classes.contains(&draft.kernel) {
            classes.push(draft.kernel.clone());
        }
        words += need;
        blocks += u64::from(draft.grid[0]);
        now.push(draft);
    }
    finish(plan, now, classes, most);
}

params! {
    /// Table of a grouped launch, followed by the arguments of its components. Device code reads the table by word
    /// index.
    pub struct GroupParams(parts: usize) filled by GroupArguments {
        /// Number of components of the group.
        count: U32,
        /// First block, index of the first argument word, and class of each component, packed.
        heads: Vec<I64> = each(parts, I64::declare),
    }
}

/// Lowest bit of a component's class in its head.
const CLASS_BIT: u32 = 52;

/// Replaces the class of each component in the arguments of a grouped launch, as [`finish`] makes them.
fn renumber_classes(words: &mut [u64], number: impl Fn(usize) -> usize) {
    let count = words[0] as u32 as usize;
    for head in &mut words[1..][..count] {
        let class = (*head >> CLASS_BIT) as usize;
        *head = *head & ((1 << CLASS_BIT) - 1) | (number(class) as u64) << CLASS_BIT;
    }
}

/// Adds one launch for all of these drafts; a single draft is added unchanged.
fn finish(plan: &mut Plan, mut drafts: Vec<Draft>, mut parts: Vec<Arc<Skeleton>>, most: usize) {
    if drafts.len() < 2 {
        plan.stages.extend(drafts);
        return;
    }
    // The largest component first: its blocks find it at once, and the small ones run beside its last blocks.
    drafts.sort_by_key(|draft| std::cmp::Reverse(draft.grid[0]));
    parts.sort_by_cached_key(|part| part.rank());
    let block = drafts[0].block;
    let count = drafts.len();
    let mut table = Layout::unnamed();
    GroupParams::declare(&mut table, count);
    let (mut words, mut patches, mut heads) = (vec![], vec![], vec![]);
    let mut first = 0;
    for draft in drafts {
        let class = parts.iter().position(|part| *part == draft.kernel).expect("it is among them");
        let place = table.words() + words.len();
        heads.push(first as usize | place << 32 | class << CLASS_BIT);
        words.extend(draft.words);
        patches.extend(draft.patches.into_iter().map(|(at, word)| (place + at, word)));
        first += draft.grid[0];
    }
    let mut arguments = GroupArguments { count, heads }.fill(count);
    arguments.words.extend(words);
    arguments.patches = patches;
    let size = SIZES.into_iter().find(|&s| s >= arguments.words.len()).unwrap_or(most).min(most);
    arguments.words.resize(size, 0);
    let kernel = Skeleton::Group(GroupClass { parts, block, words: size });
    plan.stages.push(Draft::new(kernel, [first, 1, 1], block, 0, arguments));
}
