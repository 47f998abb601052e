//! Messages that have arrived at a rank and have not been received yet, in one queue per sender.

use super::{Message, Payload, Signature};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Mailbox of a rank.
pub(crate) struct Inbox {
    state: Mutex<InboxState>,
    arrived: Condvar,
}

struct InboxState {
    senders: Vec<Sender>,
    /// Failure that arrived first, from any rank.
    failure: Option<Arc<str>>,
}

#[derive(Default)]
struct Sender {
    data: VecDeque<(Arc<Signature>, Payload)>,
    /// Collectives that it has enqueued on its device.
    announced: VecDeque<Arc<Signature>>,
    ended: bool,
}

/// Reason why a message does not arrive.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Absence {
    /// A rank has failed.
    Failed(Arc<str>),
    /// The sender has ended.
    Ended,
    /// Nothing arrived in time.
    TimedOut,
}

impl Inbox {
    /// Empty inbox in a world of `size` ranks.
    pub fn new(size: usize) -> Inbox {
        let senders = (0..size).map(|_| Sender::default()).collect();
        Inbox { state: Mutex::new(InboxState { senders, failure: None }), arrived: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, InboxState> {
        // No code that can panic runs while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message from a rank.
    pub fn put(&self, from: usize, message: Message) {
        let mut state = self.state();
        match message {
            Message::Data(signature, payload) => state.senders[from].data.push_back((signature, payload)),
            Message::Announced(signature) => state.senders[from].announced.push_back(signature),
            Message::Ended => state.senders[from].ended = true,
            Message::Failed(cause) => {
                state.senders[from].ended = true;
                state.failure.get_or_insert(cause);
            }
        }
        self.arrived.notify_all();
    }

    /// Adds the failure of a rank whose connection was lost, unless it has ended before.
    pub fn lose(&self, from: usize, cause: impl FnOnce() -> String) {
        if !self.state().senders[from].ended {
            self.put(from, Message::Failed(cause().into()));
        }
    }

    /// Failure that has arrived first.
    pub fn failure(&self) -> Option<Arc<str>> {
        self.state().failure.clone()
    }

    /// The next collective that a rank has announced, if any has arrived, where `own` is expected. If the rank has sent
    /// data instead that comes after `own`, the signature of that.
    pub fn announcement(&self, from: usize, own: &Signature) -> Result<Option<Arc<Signature>>, Absence> {
        let mut state = self.state();
        if let Some(signature) = state.senders[from].announced.pop_front() {
            // A receiver may wait for the next one to arrive.
            self.arrived.notify_all();
            return Ok(Some(signature));
        }
        match state.senders[from].data.front() {
            Some((theirs, _)) if own.is_passed_by(theirs) => Ok(Some(theirs.clone())),
            _ if state.failure.is_some() => Err(Absence::Failed(state.failure.clone().expect("checked"))),
            _ if state.senders[from].ended => Err(Absence::Ended),
            _ => Ok(None),
        }
    }

    /// Waits for the next message of a rank, where `own` is expected. What has arrived from it comes before failures of
    /// any rank. If the rank has announced a collective instead that comes after `own`, the signature of that, without
    /// data.
    pub fn receive(
        &self,
        from: usize,
        own: Option<&Signature>,
        timeout: Duration,
    ) -> Result<(Arc<Signature>, Payload), Absence> {
        let start = Instant::now();
        let mut state = self.state();
        loop {
            if let Some(data) = state.senders[from].data.pop_front() {
                return Ok(data);
            }
            if let (Some(own), Some(theirs)) = (own, state.senders[from].announced.front())
                && own.is_passed_by(theirs)
            {
                return Ok((theirs.clone(), Payload::default()));
            }
            if let Some(cause) = &state.failure {
                return Err(Absence::Failed(cause.clone()));
            }
            if state.senders[from].ended {
                return Err(Absence::Ended);
            }
            let Some(left) = timeout.checked_sub(start.elapsed()) else { return Err(Absence::TimedOut) };
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(number: u64) -> (Arc<Signature>, Payload) {
        let (operation, operand, at) = (String::new(), String::new(), String::new());
        (Arc::new(Signature { world: 0, number, operation, operand, at }), Arc::default())
    }

    #[test]
    fn messages_of_a_sender_come_in_order_and_before_its_end() {
        let inbox = Inbox::new(2);
        for number in 0..3 {
            let (signature, payload) = data(number);
            inbox.put(1, Message::Data(signature, payload));
        }
        inbox.put(1, Message::Ended);
        for number in 0..3 {
            assert_eq!(inbox.receive(1, None, Duration::ZERO), Ok(data(number)));
        }
        assert_eq!(inbox.receive(1, None, Duration::ZERO), Err(Absence::Ended));
        assert_eq!(inbox.receive(0, None, Duration::ZERO), Err(Absence::TimedOut));
    }

    #[test]
    fn a_rank_that_takes_the_other_path_is_noticed() {
        let inbox = Inbox::new(2);
        let of = |number| data(number).0;
        assert_eq!(inbox.announcement(1, &of(1)), Ok(None));
        inbox.put(1, Message::Announced(of(1)));
        assert_eq!(inbox.receive(1, Some(&of(2)), Duration::ZERO), Err(Absence::TimedOut));
        assert_eq!(inbox.receive(1, Some(&of(1)), Duration::ZERO), Ok((of(1), Payload::default())));
        assert_eq!(inbox.announcement(1, &of(1)), Ok(Some(of(1))));
        let (signature, payload) = data(2);
        inbox.put(1, Message::Data(signature, payload));
        assert_eq!(inbox.announcement(1, &of(3)), Ok(None));
        assert_eq!(inbox.announcement(1, &of(2)), Ok(Some(of(2))));
        assert_eq!(inbox.receive(1, Some(&of(2)), Duration::ZERO), Ok(data(2)));
    }

    #[test]
    fn a_failure_ends_the_wait_for_another_rank() {
        let inbox = Inbox::new(3);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| inbox.receive(1, None, Duration::MAX));
            inbox.put(2, Message::Failed("no memory".into()));
            assert_eq!(waiting.join().unwrap(), Err(Absence::Failed("no memory".into())));
        });
        inbox.lose(2, || unreachable!("the rank has ended"));
    }
}
