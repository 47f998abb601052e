//! Structures that an operation carries and that are too large to be recorded with it: equal ones are one number.
//!
//! In: a structure. Out: its number in a table. Always true: equal structures have one number; what is interned stays, as
//! many as a program has; the hash is that of the content, so that it is the same in another process.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError, RwLock};

/// The structures of one kind, with what is known of each.
pub(crate) struct Table<K: 'static, V: 'static> {
    numbers: Mutex<Option<HashMap<&'static K, u32>>>,
    all: RwLock<Vec<&'static Interned<K, V>>>,
}

/// A structure that is interned.
pub(crate) struct Interned<K, V> {
    /// The structure.
    pub key: K,
    /// What is known of it.
    pub known: V,
    /// Of the structure.
    pub hash: [u64; 2],
}

impl<K: Hash + Eq, V> Table<K, V> {
    /// An empty one.
    pub const fn new() -> Table<K, V> {
        Table { numbers: Mutex::new(None), all: RwLock::new(Vec::new()) }
    }

    /// The number of a structure, of which `know` finds out what there is to know where it is new.
    pub fn intern(&self, key: K, know: impl FnOnce(&K) -> V) -> u32 {
        // What panics while it is held leaves it as it was.
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = numbers.get_or_insert_with(HashMap::new);
        if let Some(&number) = numbers.get(&key) {
            return number;
        }
        let hash = [0u8, 1].map(|salt| {
            let mut h = DefaultHasher::new();
            (salt, &key).hash(&mut h);
            h.finish()
        });
        let known = know(&key);
        let interned: &'static Interned<K, V> = Box::leak(Box::new(Interned { key, known, hash }));
        // Nothing else is done under this lock: to hash a structure may ask for others that it holds.
        let number = {
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            all.push(interned);
            all.len() as u32 - 1
        };
        numbers.insert(&interned.key, number);
        number
    }

    /// The structure of a number.
    pub fn get(&self, number: u32) -> &'static Interned<K, V> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)[number as usize]
    }
}

/// Hash and order of a number are those of its content.
macro_rules! by_content {
    ($id:ty) => {
        impl std::hash::Hash for $id {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.interned().hash.hash(state);
            }
        }

        impl PartialOrd for $id {
            fn partial_cmp(&self, other: &$id) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $id {
            fn cmp(&self, other: &$id) -> std::cmp::Ordering {
                self.interned().hash.cmp(&other.interned().hash)
            }
        }
    };
}
pub(crate) use by_content;
