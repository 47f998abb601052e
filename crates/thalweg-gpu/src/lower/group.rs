//! Horizontal fusion: independent launches merged into one.
//!
//! In: drafts of maps and row kernels. Out: fewer drafts. The argument of a merged launch is a table (for each
//! component its first block, its class, and the index of its words) followed by the words of all components. A block
//! looks its component up and does what a block of that component alone would do. The source has each class once,
//! whatever the number and sizes of components, so that groups of the same classes share machine code.
//!
//! Always true: components keep their number of threads per block; where these differ, there is a launch for each.

use crate::plan::Word;
use crate::plan::{Draft, Plan};
use crate::skeleton::{JoinedClass, Skeleton};
use crate::target::Target;
use crate::tunable::TUNABLES;
use std::sync::Arc;

/// Sizes of arguments, in words: few, so that sources are the same more often.
const SIZES: [usize; 5] = [128, 256, 512, 1536, 4095];

/// Whether a draft can be a component: it shares no counters with others, and its blocks depend only on their number.
fn can_be_part(draft: &Draft) -> bool {
    draft.kernel.is_simple()
        && draft.shared == 0
        && draft.grid[1..] == [1, 1]
        && !draft.patches.iter().any(|p| matches!(p.1, Word::Counters | Word::Told(_)))
}

/// Merges launches of the plan. Those of `which` are independent of each other and of the rest.
pub fn join(plan: &mut Plan, which: &[usize], target: &dyn Target) {
    if which.len() < 2 {
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

/// Merges drafts of one kind, as many in each launch as its argument holds.
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

/// Adds the launch of some drafts.
fn finish(plan: &mut Plan, drafts: Vec<Draft>, mut parts: Vec<Arc<Skeleton>>, most: usize) {
    if drafts.len() < 2 {
        plan.stages.extend(drafts);
        return;
    }
    parts.sort_by_cached_key(|part| part.rank());
    let block = drafts[0].block;
    let (mut words, mut patches) = (vec![drafts.len() as u64], vec![]);
    words.resize(1 + drafts.len(), 0);
    let mut first = 0;
    for (i, draft) in drafts.into_iter().enumerate() {
        let class = parts.iter().position(|part| *part == draft.kernel).expect("it is among them") as u64;
        let place = words.len();
        words[1 + i] = u64::from(first) | (place as u64) << 32 | class << 52;
        words.extend(draft.words);
        patches.extend(draft.patches.into_iter().map(|(at, word)| (place + at, word)));
        first += draft.grid[0];
    }
    let size = SIZES.into_iter().find(|&s| s >= words.len()).unwrap_or(most).min(most);
    words.resize(size, 0);
    let kernel = Arc::new(Skeleton::Joined(JoinedClass { parts, block, words: size }));
    plan.stages.push(Draft { kernel, grid: [first, 1, 1], block, shared: 0, words, patches });
}
