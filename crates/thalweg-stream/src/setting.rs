//! Per-thread settings: from the environment until they are set.

use std::cell::Cell;
use std::sync::{PoisonError, RwLock};
use std::thread::LocalKey;

/// Setting of each thread. It only refers to its storage, so it can be a constant. Reading it on the hot path of every
/// operation costs one thread-local access. Made by [`setting!`].
pub(crate) struct Setting<T: 'static> {
    /// Initial value for threads, read from the environment once, until [`Setting::change_common`] replaces it.
    pub common: &'static RwLock<Option<T>>,
    /// Value of the calling thread, once it has read the setting.
    pub own: &'static LocalKey<Cell<Option<T>>>,
    /// Function that reads the value from the environment.
    pub read: fn() -> T,
}

impl<T: Copy> Setting<T> {
    /// Value for the calling thread.
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

    /// Sets the value for the calling thread and returns the old one.
    pub fn set(&self, new: T) -> T {
        let old = self.get();
        self.own.set(Some(new));
        old
    }

    /// Changes the initial value for threads that have not read the setting yet.
    pub fn change_common(&self, change: impl FnOnce(T) -> T) {
        let mut common = self.common.write().unwrap_or_else(PoisonError::into_inner);
        let old = *common.get_or_insert_with(self.read);
        *common = Some(change(old));
    }
}

/// Makes a [`Setting`] of a type, read from the environment by a function.
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
