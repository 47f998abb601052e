//! Launches that need nothing of each other, as one.
//!
//! In: drafts of maps and row kernels. Out: fewer drafts. The argument of such a launch is a table (of each part its
//! first block, its class, and where its words are) with the words of all parts behind; a block looks its part up, and
//! does what a block of that part alone would do. The source has each class of parts once, whatever their number and
//! sizes, so that groups of the same classes share machine code.
//!
//! Always true: parts keep the threads of a block that they have alone; where these differ, there is a launch for each.

use crate::compiler::{Compiler, Unit};
use crate::launch::Word;
use crate::plan::{Draft, Plan};
use crate::render::Source;
use std::fmt::Write;
use std::sync::Arc;

/// Classes of a launch: more, and the compiler takes long over one source while others wait for work.
const CLASSES: usize = 16;
/// Blocks for each multiprocessor above which row kernels are not put together with maps: what runs long is to have the
/// registers that it needs, and no more.
const FEW: usize = 8;
/// Sizes of arguments, in words: few, so that sources are the same more often.
const SIZES: [usize; 5] = [128, 256, 512, 1536, 4095];

/// Whether a draft can be a part: it does not share counters with others, and knows its blocks by their first number
/// alone.
fn can_be_part(draft: &Draft) -> bool {
    draft.unit.is_simple()
        && draft.shared == 0
        && draft.grid[1..] == [1, 1]
        && !draft.patches.iter().any(|p| matches!(p.1, Word::Counters | Word::Told(_)))
}

/// Puts launches of the plan together; `which` of them need nothing of each other, and nothing of the rest.
pub fn join(plan: &mut Plan, which: &[usize], compiler: &Compiler) {
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
    let many = blocks > FEW * compiler.chip().multiprocessors as usize;
    let group = |d: &Draft| (d.block, d.unit.source().options, many.then(|| d.unit.name()));
    while let Some(first) = parts.first().map(group) {
        let (own, others) = parts.into_iter().partition(|d| group(d) == first);
        parts = others;
        pack(plan, own, compiler);
    }
}

/// Puts drafts of the same kind together, as many in each launch as its argument holds.
fn pack(plan: &mut Plan, drafts: Vec<Draft>, compiler: &Compiler) {
    let most = (compiler.chip().arguments / 8).min(SIZES[SIZES.len() - 1]);
    let (mut now, mut words, mut units, mut blocks): (Vec<Draft>, usize, Vec<Arc<Unit>>, u64) = (vec![], 1, vec![], 0);
    for draft in drafts {
        let need = 1 + draft.words.len();
        let new = !units.iter().any(|u| Arc::ptr_eq(u, &draft.unit));
        let more = blocks + u64::from(draft.grid[0]);
        if words + need > most || new && units.len() == CLASSES || more >= 1 << 31 {
            finish(plan, std::mem::take(&mut now), std::mem::take(&mut units), most, compiler);
            (words, blocks) = (1, 0);
        }
        if !units.iter().any(|u| Arc::ptr_eq(u, &draft.unit)) {
            units.push(draft.unit.clone());
        }
        words += need;
        blocks += u64::from(draft.grid[0]);
        now.push(draft);
    }
    finish(plan, now, units, most, compiler);
}

/// The launch of some drafts.
fn finish(plan: &mut Plan, drafts: Vec<Draft>, mut units: Vec<Arc<Unit>>, most: usize, compiler: &Compiler) {
    if drafts.len() < 2 {
        plan.stages.extend(drafts);
        return;
    }
    units.sort_by(|a, b| a.source().cmp(b.source()));
    let block = drafts[0].block;
    let (mut words, mut patches) = (vec![drafts.len() as u64], vec![]);
    words.resize(1 + drafts.len(), 0);
    let mut first = 0;
    for (i, draft) in drafts.into_iter().enumerate() {
        let class = units.iter().position(|u| Arc::ptr_eq(u, &draft.unit)).expect("it is among them") as u64;
        let place = words.len();
        words[1 + i] = u64::from(first) | (place as u64) << 32 | class << 52;
        words.extend(draft.words);
        patches.extend(draft.patches.into_iter().map(|(at, word)| (place + at, word)));
        first += draft.grid[0];
    }
    let size = SIZES.into_iter().find(|&s| s >= words.len()).unwrap_or(most).min(most);
    words.resize(size, 0);
    let unit = compiler.written("group", source(&units, block, size));
    plan.stages.push(Draft { unit, grid: [first, 1, 1], block, shared: 0, words, patches });
}

/// The source of a launch of parts of these classes, with one function, `group`.
fn source(units: &[Arc<Unit>], block: u32, words: usize) -> Source {
    let mut definitions: Vec<&str> = units.iter().flat_map(|u| u.definitions()).collect();
    definitions.sort_unstable();
    definitions.dedup();
    let mut out: String = definitions.iter().map(|line| format!("\n{line}")).collect();
    let _ = write!(
        out,
        r#"
extern "C" __global__ void __launch_bounds__({block}) group(THALWEG_PARAMETER({words})) {{
  begin();
  u32 part = 0;
  for (u32 end = (u32)a.w[0]; end - part > 1;) {{
    const u32 middle = (part + end) / 2;
    if ((u32)a.w[1 + middle] <= blockIdx.x) part = middle; else end = middle;
  }}
  const u64 part_head = a.w[1 + part];
  const u32 part_block = blockIdx.x - (u32)part_head, part_words = (u32)(part_head >> 32) & 0xfffff;
  switch ((u32)(part_head >> 52)) {{
"#
    );
    for (class, unit) in units.iter().enumerate() {
        let statements = unit.statements().replace("a.w[", "a.w[part_words + ").replace("blockIdx.x", "part_block");
        let _ = write!(out, "  case {class}: {{\n{statements}  break; }}\n");
    }
    Source { options: units[0].source().options, own: out + "  }\n}\n" }
}
