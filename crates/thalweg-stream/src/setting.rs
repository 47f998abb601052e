//! Settings of the calling thread: from the environment until somebody sets them.

use std::cell::Cell;
use std::sync::{PoisonError, RwLock};
use std::thread::LocalKey;

/// One setting. It only refers to where its values are, so that it is a constant, and asking for it on the way of every
/// operation reads one thread-local and no more. Made by [`setting!`].
pub(crate) struct Setting<T: 'static> {
    /// What threads begin with: what the environment says, read once, until somebody says otherwise.
    pub common: &'static RwLock<Option<T>>,
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
        let value = *self.common.write().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(self.read);
        self.own.set(Some(value));
        value
    }

    /// Sets the calling thread's, and returns what it was.
    pub fn set(&self, new: T) -> T {
        let old = self.get();
        self.own.set(Some(new));
        old
    }

    /// Changes what threads begin with that have not asked yet.
    pub fn change_common(&self, change: impl FnOnce(T) -> T) {
        let mut common = self.common.write().unwrap_or_else(PoisonError::into_inner);
        let old = *common.get_or_insert_with(self.read);
        *common = Some(change(old));
    }
}

/// A [`Setting`] of a type, read from the environment by a function.
macro_rules! setting {
    ($type:ty, $read:expr) => {{
        static COMMON: std::sync::RwLock<Option<$type>> = std::sync::RwLock::new(None);
        thread_local! {
            static OWN: std::cell::Cell<Option<$type>> = const { std::cell::Cell::new(None) };
        }
        $crate::setting::Setting { common: &COMMON, own: &OWN, read: $read }
    }};
}
pub(crate) use setting;
