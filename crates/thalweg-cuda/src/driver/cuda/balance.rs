//! Order between driver calls that may wait for a GPU, and collectives between GPUs of one process.
//!
//! Loading code and mapping memory may wait until a context is idle, and the driver holds locks of the whole process
//! meanwhile. A collective ends only once all of its ranks have enqueued it. So if a rank that is ahead of another one
//! in the same process loads code, the other one may wait for the driver's lock, and both wait forever.
//!
//! In: the collectives that each GPU enqueues, and guards around such calls. Always true: a guarded call begins while
//! the GPU is ahead of no other GPU of the process in any group, and the GPU enqueues no collective until it ends. Ranks
//! in other processes have other locks. A wait is bounded, in case a rank never comes.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait of a guarded call for other ranks.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Id of a group with the number of collectives that each of its GPUs in this process has enqueued.
type Group = (Vec<u8>, HashMap<usize, u64>);

#[derive(Default)]
struct State {
    groups: Vec<Group>,
    /// Number of guarded calls of each GPU, and of threads that enqueue a collective on it.
    guarded: HashMap<usize, usize>,
    enqueuing: HashMap<usize, usize>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// Number of guards that the thread holds.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

fn state() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Whether a GPU has enqueued a collective that another GPU of the process has not.
    fn is_ahead(&self, gpu: usize) -> bool {
        let counts = self.groups.iter().filter_map(|(_, counts)| Some((*counts.get(&gpu)?, counts.values().min()?)));
        counts.into_iter().any(|(own, least)| own > *least)
    }

    fn count(list: &HashMap<usize, usize>, gpu: usize) -> usize {
        list.get(&gpu).copied().unwrap_or(0)
    }
}

/// Waits until `is_free`, at most until a deadline.
fn wait<'a>(
    mut state: MutexGuard<'a, Option<State>>,
    most: Duration,
    is_free: impl Fn(&State) -> bool,
) -> MutexGuard<'a, Option<State>> {
    let start = Instant::now();
    while state.as_ref().is_some_and(|s| !is_free(s)) {
        let Some(left) = most.checked_sub(start.elapsed()) else { break };
        state = CHANGED.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    state
}

/// Guard of a call that may wait for the GPU.
pub(super) struct Guard(Option<usize>);

/// Begins a call that may wait for a GPU, by the address of its context.
pub(super) fn guard(gpu: usize) -> Guard {
    let held = HELD.get();
    HELD.set(held + 1);
    let state = state();
    if held > 0 || state.is_none() {
        return Guard(None);
    }
    let is_free = |s: &State| !s.is_ahead(gpu) && State::count(&s.enqueuing, gpu) == 0;
    let mut state = wait(state, MAX_WAIT, is_free);
    let Some(state) = state.as_mut() else { return Guard(None) };
    *state.guarded.entry(gpu).or_default() += 1;
    Guard(Some(gpu))
}

impl Drop for Guard {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
        let Some(gpu) = self.0 else { return };
        if let Some(guarded) = state().as_mut().and_then(|s| s.guarded.get_mut(&gpu)) {
            *guarded = guarded.saturating_sub(1);
        }
        CHANGED.notify_all();
    }
}

/// Adds a GPU to a group of ranks.
pub(super) fn join(group: &[u8], gpu: usize) {
    let mut state = state();
    let state = state.get_or_insert_default();
    let at = state.groups.iter().position(|(id, _)| id == group).unwrap_or_else(|| {
        state.groups.push((group.to_vec(), HashMap::new()));
        state.groups.len() - 1
    });
    state.groups[at].1.insert(gpu, 0);
}

/// Removes a GPU from a group.
pub(super) fn leave(group: &[u8], gpu: usize) {
    if let Some(state) = state().as_mut() {
        for (_, counts) in state.groups.iter_mut().filter(|(id, _)| id == group) {
            counts.remove(&gpu);
        }
        state.groups.retain(|(_, counts)| !counts.is_empty());
    }
    CHANGED.notify_all();
}

/// Calls `f`, which enqueues the next collective of a GPU in a group.
pub(super) fn enqueue<R>(group: &[u8], gpu: usize, f: impl FnOnce() -> R) -> R {
    let mut waited = wait(state(), MAX_WAIT, |s| State::count(&s.guarded, gpu) == 0);
    if let Some(state) = waited.as_mut() {
        *state.enqueuing.entry(gpu).or_default() += 1;
    }
    drop(waited);
    let result = f();
    if let Some(state) = state().as_mut() {
        if let Some(enqueuing) = state.enqueuing.get_mut(&gpu) {
            *enqueuing = enqueuing.saturating_sub(1);
        }
        let own = state.groups.iter_mut().find(|(id, _)| id == group).and_then(|(_, counts)| counts.get_mut(&gpu));
        own.into_iter().for_each(|count| *count += 1);
    }
    CHANGED.notify_all();
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_guarded_call_waits_for_slower_ranks_and_delays_its_own_collectives() {
        let (group, [a, b]) = (b"a group of a test", [usize::MAX - 1, usize::MAX - 2]);
        join(group, a);
        join(group, b);
        enqueue(group, a, || ());
        let (send, events) = channel();
        std::thread::scope(|scope| {
            // The slower rank does not wait.
            drop(guard(b));
            let ahead = send.clone();
            scope.spawn(move || {
                let _guard = guard(a);
                ahead.send("guarded").unwrap();
                std::thread::sleep(Duration::from_millis(50));
                // Nested guards do not wait.
                drop(guard(a));
                ahead.send("over").unwrap();
            });
            std::thread::sleep(Duration::from_millis(50));
            send.send("caught up").unwrap();
            enqueue(group, b, || ());
            assert_eq!(events.recv().unwrap(), "caught up");
            assert_eq!(events.recv().unwrap(), "guarded");
            enqueue(group, a, || send.send("enqueued").unwrap());
            assert_eq!(events.recv().unwrap(), "over");
            assert_eq!(events.recv().unwrap(), "enqueued");
        });
        // A rank that has left is not waited for.
        leave(group, b);
        drop(guard(a));
        leave(group, a);
    }
}
