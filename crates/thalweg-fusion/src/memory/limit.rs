//! Memory limit: steps that run again instead of holding their results (rematerialization).
//!
//! In: an instance, and the bytes that may be in use. Out: a schedule whose peak is below, or the lowest peak that was
//! reached. Chen et al. (2016) do this for networks, this does it for any graph. Where too much memory is in use, a
//! result that is held but not needed there is released, and recomputed before its next use, together with released
//! results that it depends on. The choice that frees the most bytes over the most launches for the least time comes
//! first. The objective is the sum over all launches of the bytes above the limit; each change reduces it, so this
//! terminates.

use super::layout::{Curve, STAYS, curve, lay};
use super::{Needs, Schedule, order};
use crate::instance::Instance;
use crate::tunable::TUNABLES;
use crate::write::step::{Slot, Step};

/// Maximum number of launches of a schedule, per step of the instance.
const MAX_GROWTH: usize = 3;
/// Minimum ratio of a result's size to an operand's at which the operand is held instead of recomputed.
const HOLD_SIZE_RATIO: usize = 8;

pub(super) fn within(
    instance: &Instance,
    needs: &Needs<'_>,
    limit: usize,
    time: &dyn Fn(usize) -> u64,
) -> Result<Schedule, usize> {
    let given: Vec<usize> = (0..instance.steps.len()).collect();
    // A result that reuses a dead input takes no memory, so with such inputs there is no lower bound.
    let dying = needs.own.iter().any(|&own| own > 0);
    let floor = if dying {
        0
    } else {
        let alone = |(n, step)| alone(instance, step) + (needs.temporary)(n);
        instance.steps.iter().enumerate().map(alone).max().unwrap_or(0)
    };
    let mut least = usize::MAX;
    let mut best: Option<(u64, Schedule)> = None;
    for steps in [given, order::low(instance, needs.own)] {
        // An arena is a little larger than its live blocks, and exists as a whole while outputs are allocated.
        let mut ways = &[(8, true), (7, true), (6, true), (8, false)][..];
        // If the limit is unreachable, only the necessary amount is determined.
        let aim = limit.max(floor);
        if aim > limit {
            ways = &ways[..1];
        }
        for &(eighths, share) in ways {
            let target = aim / 8 * eighths + aim % 8;
            let share = share && instance.fused;
            let steps = Trade::new(instance, needs, (target, share), time).search(steps.clone());
            let s = lay(instance, needs, &steps, share);
            least = least.min(s.peak);
            if s.peak <= limit {
                let total = s.launches.iter().map(|l| time(l.step)).sum();
                if best.as_ref().is_none_or(|b| total < b.0) {
                    best = Some((total, s));
                }
                break;
            }
        }
    }
    best.map(|b| b.1).ok_or(least)
}

/// Minimum bytes in use during a launch: its reads or its writes, whichever is more, since one may reuse the memory of
/// the other.
fn alone(instance: &Instance, step: &Step) -> usize {
    let bytes = |slots: &[Slot]| -> usize {
        let of = |s: &Slot| if let Slot::Buffer(b) = *s { Some(b) } else { None };
        let mut buffers: Vec<usize> = slots.iter().filter_map(of).collect();
        buffers.sort_unstable();
        buffers.dedup();
        buffers.into_iter().map(|b| instance.buffers[b]).sum()
    };
    let (reads, writes) = step.operands.split_at(step.first_write);
    bytes(reads).max(bytes(writes))
}

struct Trade<'a> {
    instance: &'a Instance,
    needs: &'a Needs<'a>,
    limit: i64,
    /// Whether intermediates share an arena, so that they take exactly their own bytes.
    share: bool,
    time: &'a dyn Fn(usize) -> u64,
    /// Index of the step that writes each buffer.
    makers: Vec<Option<usize>>,
}

/// Sequence of launches with its memory curve.
struct State {
    steps: Vec<usize>,
    curve: Curve,
    /// Cells of each buffer in the order they are written.
    cells: Vec<Vec<usize>>,
    /// Bytes above the limit, summed over all launches: the objective that the search minimizes.
    excess: i64,
    /// Number of launches above the limit before each launch.
    above: Vec<usize>,
}

/// Result that could be released and recomputed later.
struct Candidate {
    /// Index of the launch before which the result is recomputed.
    before: usize,
    /// Steps that recompute the result, in order.
    again: Vec<usize>,
    /// Benefit: freed bytes times launches above the limit, per picosecond of recomputation.
    worth: f64,
}

impl<'a> Trade<'a> {
    fn new(
        instance: &'a Instance,
        needs: &'a Needs<'a>,
        (limit, share): (usize, bool),
        time: &'a dyn Fn(usize) -> u64,
    ) -> Trade<'a> {
        let mut makers = vec![None; instance.buffers.len()];
        for (n, step) in instance.steps.iter().enumerate() {
            for slot in &step.operands[step.first_write..] {
                if let Slot::Buffer(b) = *slot {
                    makers[b] = Some(n);
                }
            }
        }
        Trade { instance, needs, limit: limit.min(i64::MAX as usize) as i64, share, time, makers }
    }

    /// Changes the sequence until its peak is below the limit, or no candidate helps.
    fn search(&self, steps: Vec<usize>) -> Vec<usize> {
        let most = MAX_GROWTH * steps.len() + 8;
        let mut state = self.state(steps);
        while state.excess > 0 && state.steps.len() < most {
            let candidates = self.candidates(&state);
            // Many candidates at once for long programs, to avoid quadratic time.
            let batched = TUNABLES.min_batched_launches.reached_by(state.steps.len());
            let many = if batched { candidates.len() / 16 } else { 1 };
            let at_once =
                (many > 1).then(|| self.applied(&state, &candidates[..many])).filter(|s| s.excess < state.excess);
            let one = || {
                let each = candidates
                    .iter()
                    .take(TUNABLES.max_tried_candidates.size())
                    .map(|c| self.applied(&state, std::slice::from_ref(c)));
                each.into_iter().find(|s| s.excess < state.excess)
            };
            match at_once.or_else(one) {
                Some(next) => state = next,
                None => break,
            }
        }
        state.steps
    }

    fn state(&self, steps: Vec<usize>) -> State {
        let steps = self.without_dead(steps);
        let curve = curve(self.instance, self.needs, &steps, self.share);
        let mut cells = vec![vec![]; self.instance.buffers.len()];
        let mut written: Vec<usize> = (0..curve.buffers.len()).filter(|&c| curve.uses.first[c].is_some()).collect();
        written.sort_by_key(|&c| curve.uses.first[c]);
        written.into_iter().for_each(|c| cells[curve.buffers[c]].push(c));
        let excess = curve.in_use.iter().map(|&c| (c - self.limit).max(0)).sum();
        let mut above = vec![0];
        for &bytes in &curve.in_use {
            above.push(above[above.len() - 1] + (bytes > self.limit) as usize);
        }
        State { steps, curve, cells, excess, above }
    }

    /// The sequence `steps` without launches whose results are recomputed before anybody reads them.
    fn without_dead(&self, steps: Vec<usize>) -> Vec<usize> {
        let mut times = vec![0usize; self.instance.steps.len()];
        steps.iter().for_each(|&s| times[s] += 1);
        if steps.len() == self.instance.steps.len() {
            return steps;
        }
        let curve = curve(self.instance, self.needs, &steps, self.share);
        let mut readers: Vec<usize> = curve.readers.iter().map(Vec::len).collect();
        let mut stays = vec![false; steps.len()];
        for at in (0..steps.len()).rev() {
            let launch = &curve.launches[at];
            let wanted = launch.writes.iter().any(|&c| readers[c] > 0 || curve.uses.last[c] == STAYS);
            stays[at] = wanted || times[steps[at]] == 1;
            if !stays[at] {
                times[steps[at]] -= 1;
                launch.reads.iter().for_each(|&c| readers[c] -= 1);
            }
        }
        let mut stays = stays.into_iter();
        steps.into_iter().filter(|_| stays.next() == Some(true)).collect()
    }

    /// State after the candidates were released and recomputed.
    fn applied(&self, state: &State, candidates: &[Candidate]) -> State {
        let mut order: Vec<&Candidate> = candidates.iter().collect();
        order.sort_by_key(|c| c.before);
        let mut steps = Vec::with_capacity(state.steps.len() + 8);
        let mut from = 0;
        for c in order {
            steps.extend_from_slice(&state.steps[from..c.before]);
            steps.extend_from_slice(&c.again);
            from = c.before;
        }
        steps.extend_from_slice(&state.steps[from..]);
        self.state(steps)
    }

    /// Candidates that free memory at the launch with the peak, or at the first or last launch above the limit, by
    /// descending worth.
    fn candidates(&self, state: &State) -> Vec<Candidate> {
        let in_use = &state.curve.in_use;
        let over = |&t: &usize| in_use[t] > self.limit;
        let worst = (0..in_use.len()).max_by_key(|&t| (in_use[t], std::cmp::Reverse(t)));
        let mut moments: Vec<usize> =
            [worst, (0..in_use.len()).find(over), (0..in_use.len()).rfind(over)].into_iter().flatten().collect();
        moments.sort_unstable();
        moments.dedup();
        let mut all = Vec::new();
        for t in moments {
            all.extend((0..state.curve.buffers.len()).filter_map(|c| self.candidate(state, c, t)));
        }
        all.sort_by(|a, b| b.worth.total_cmp(&a.worth).then_with(|| a.again.cmp(&b.again)));
        all
    }

    /// Candidate that releases a cell while launch `t` runs, which does not need it, and recomputes it before its next
    /// use.
    fn candidate(&self, state: &State, cell: usize, t: usize) -> Option<Candidate> {
        let uses = &state.curve.uses;
        let first = uses.first[cell]?;
        if first >= t || uses.last[cell] <= t {
            return None;
        }
        let readers = &state.curve.readers[cell];
        let next = readers.partition_point(|&r| r < t);
        if readers.get(next) == Some(&t) {
            return None;
        }
        let before = readers.get(next).copied().unwrap_or(state.steps.len());
        let since = if next > 0 { readers[next - 1] } else { first };
        let mut again = Recomputation { trade: self, state, t, before, steps: vec![], held: 0 };
        again.need(state.curve.buffers[cell], true)?;
        let freed = state.curve.bytes(cell).saturating_sub(again.held);
        let launches = state.above[before] - state.above[since + 1];
        if freed == 0 || launches == 0 {
            return None;
        }
        // A result that nobody has read yet is moved to a later launch, not run twice.
        let again_from = if next == 0 { &again.steps[..again.steps.len() - 1] } else { &again.steps[..] };
        let cost: u64 = again_from.iter().map(|&s| (self.time)(s)).sum();
        let worth = freed as f64 * launches as f64 / (cost + 1) as f64;
        Some(Candidate { before, again: again.steps, worth })
    }
}

/// Recursive search for the steps that must run again to recompute one result.
struct Recomputation<'a> {
    trade: &'a Trade<'a>,
    state: &'a State,
    /// Index of the launch at which memory is to be freed.
    t: usize,
    /// Index of the launch before which the steps run.
    before: usize,
    steps: Vec<usize>,
    /// Additional bytes held at `t` for the recomputation.
    held: usize,
}

impl Recomputation<'_> {
    /// Adds the step that computes a buffer, after the steps of its operands. `None` if there would be too many steps.
    fn need(&mut self, buffer: usize, large: bool) -> Option<()> {
        let maker = self.trade.makers[buffer]?;
        if self.steps.contains(&maker) {
            return Some(());
        }
        if TUNABLES.max_repeated_launches.reached_by(self.steps.len()) {
            return None;
        }
        let bytes = self.trade.instance.buffers[buffer];
        let step = &self.trade.instance.steps[maker];
        for slot in &step.operands[..step.first_write] {
            match *slot {
                Slot::Input(i) => {
                    // An input held only by the segment would have to be kept alive.
                    if self.state.curve.uses.inputs[i] < self.t {
                        self.held += self.trade.needs.own[i];
                    }
                }
                Slot::Buffer(b) => {
                    let cells = &self.state.cells[b];
                    let uses = &self.state.curve.uses;
                    let now = cells[..cells.partition_point(|&c| uses.first[c] < Some(self.before))].last();
                    let Some(&now) = now else { continue };
                    if uses.last[now] >= self.t {
                        continue;
                    }
                    let small = large && self.trade.instance.buffers[b] * HOLD_SIZE_RATIO <= bytes;
                    if small || self.need(b, large).is_none() {
                        self.held += self.trade.instance.buffers[b];
                    }
                }
            }
        }
        self.steps.push(maker);
        Some(())
    }
}
