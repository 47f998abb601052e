//! Counters of what collectives have moved.

use std::collections::BTreeMap;
use std::fmt;

/// Calls of an operation and the bytes that they moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Calls that ran, including those that failed.
    pub calls: u64,
    /// Bytes sent to other ranks.
    pub sent: u64,
    /// Bytes received from other ranks.
    pub received: u64,
}

/// Traffic of a rank by operation, such as `all_reduce(sum)`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrafficTable(BTreeMap<String, Traffic>);

impl TrafficTable {
    /// Traffic of an operation; zero if it has not run.
    pub fn of(&self, operation: &str) -> Traffic {
        self.0.get(operation).copied().unwrap_or_default()
    }

    /// Traffic of all operations.
    pub fn total(&self) -> Traffic {
        self.0.values().fold(Traffic::default(), |a, b| Traffic {
            calls: a.calls + b.calls,
            sent: a.sent + b.sent,
            received: a.received + b.received,
        })
    }

    /// Operations and their traffic, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Traffic)> {
        self.0.iter().map(|(operation, traffic)| (operation.as_str(), *traffic))
    }

    /// Adds a call.
    pub(crate) fn add(&mut self, operation: &str, moved: Traffic) {
        if !self.0.contains_key(operation) {
            self.0.insert(operation.to_string(), Traffic::default());
        }
        let own = self.0.get_mut(operation).expect("inserted");
        own.calls += moved.calls;
        own.sent += moved.sent;
        own.received += moved.received;
    }
}

impl fmt::Display for TrafficTable {
    /// A line per operation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<28} {:>8} {:>16} {:>16}", "collective", "calls", "bytes sent", "bytes received")?;
        for (operation, Traffic { calls, sent, received }) in self.iter() {
            writeln!(f, "{operation:<28} {calls:>8} {sent:>16} {received:>16}")?;
        }
        Ok(())
    }
}
