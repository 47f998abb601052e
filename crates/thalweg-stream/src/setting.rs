//! Settings of the calling thread: from the environment until somebody sets them.

use std::cell::Cell;
use std::sync::OnceLock;
use std::thread::LocalKey;

/// One setting. It only refers to where its values are, so that it is a constant, and asking for it on the way of every operation reads one thread-local
/// and no more. Made by [`setting!`].
pub(crate) struct Setting<T: 'static> {
    /// What the environment says, read once.
    pub environment: &'static OnceLock<T>,
    /// What holds for the calling thread, once it asked.
    pub own: &'static LocalKey<Cell<Option<T>>>,
    /// Reads the environment.
    pub read: fn() -> T,
}

impl<T: Copy> Setting<T> {
    /// The calling thread's.
    #[inline]
    pub fn get(&self) -> T {
        match self.own.get() {
            Some(own) => own,
            None => self.begin(),
        }
    }

    #[cold]
    fn begin(&self) -> T {
        let value = *self.environment.get_or_init(self.read);
        self.own.set(Some(value));
        value
    }

    /// Sets the calling thread's, and returns what it was.
    pub fn set(&self, new: T) -> T {
        let old = self.get();
        self.own.set(Some(new));
        old
    }
}

/// A [`Setting`] of a type, read from the environment by a function.
macro_rules! setting {
    ($type:ty, $read:expr) => {{
        static ENVIRONMENT: std::sync::OnceLock<$type> = std::sync::OnceLock::new();
        thread_local! {
            static OWN: std::cell::Cell<Option<$type>> = const { std::cell::Cell::new(None) };
        }
        $crate::setting::Setting { environment: &ENVIRONMENT, own: &OWN, read: $read }
    }};
}
pub(crate) use setting;
