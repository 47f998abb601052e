//! Traces in the Chrome format (chrome://tracing, <https://ui.perfetto.dev>): time and thread of events.
//!
//! Off by default; a span then costs one atomic load. A trace is delimited by [`start`] and [`finish`].

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

static ON: AtomicBool = AtomicBool::new(false);
static EVENTS: Mutex<Option<(Instant, Vec<Event>)>> = Mutex::new(None);
static NEXT_THREAD: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static THREAD: u64 = NEXT_THREAD.fetch_add(1, Relaxed);
}

struct Event {
    name: String,
    category: &'static str,
    thread: u64,
    start_ns: u64,
    duration_ns: u64,
}

/// Starts a trace; a running one is discarded.
pub fn start() {
    *EVENTS.lock().unwrap_or_else(|e| e.into_inner()) = Some((Instant::now(), Vec::new()));
    ON.store(true, Relaxed);
}

/// Whether a trace is running.
#[inline]
pub fn is_on() -> bool {
    ON.load(Relaxed)
}

/// Ends the trace and returns it as JSON, one event per span; empty if none was running.
pub fn finish() -> String {
    ON.store(false, Relaxed);
    let taken = EVENTS.lock().unwrap_or_else(|e| e.into_inner()).take();
    let mut out = String::from("{\"traceEvents\":[");
    for (i, e) in taken.iter().flat_map(|(_, events)| events).enumerate() {
        let comma = if i > 0 { ",\n" } else { "\n" };
        let name: String = e.name.chars().filter(|c| !c.is_control()).flat_map(escape).collect();
        write!(
            out,
            "{comma}{{\"name\":\"{name}\",\"cat\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3},\"dur\":{:.3}}}",
            e.category,
            e.thread,
            e.start_ns as f64 / 1e3,
            e.duration_ns as f64 / 1e3
        )
        .expect("writing to a string");
    }
    out.push_str("\n],\"displayTimeUnit\":\"ns\"}\n");
    out
}

fn escape(c: char) -> impl Iterator<Item = char> {
    let slash = matches!(c, '"' | '\\').then_some('\\');
    slash.into_iter().chain([c])
}

/// Runs `f` and, if a trace is running, records its duration by the name from `name`.
#[inline]
pub fn span<T>(category: &'static str, name: impl FnOnce() -> String, f: impl FnOnce() -> T) -> T {
    if !is_on() {
        return f();
    }
    let begin = Instant::now();
    let out = f();
    let duration_ns = begin.elapsed().as_nanos() as u64;
    if let Some((zero, events)) = &mut *EVENTS.lock().unwrap_or_else(|e| e.into_inner()) {
        let start_ns = begin.saturating_duration_since(*zero).as_nanos() as u64;
        events.push(Event { name: name(), category, thread: THREAD.with(|t| *t), start_ns, duration_ns });
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn spans_become_events() {
        super::start();
        let v = super::span("kernel", || "add \"x\"".into(), || 3);
        let json = super::finish();
        assert_eq!(v, 3);
        assert!(json.contains(r#""name":"add \"x\"","cat":"kernel","ph":"X""#), "{json}");
        assert!(!super::finish().contains("name\":"));
    }
}
