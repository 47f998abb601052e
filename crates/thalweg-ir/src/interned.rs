//! Interning of structures that are too large to be recorded with an operation.
//!
//! In: a structure. Out: its index in a table. Always true: equal structures have the same index; interned structures
//! are never freed (a program has a bounded number of them); the hash of an id is that of the content, hence the same
//! in other processes.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError, RwLock};

/// Table of the interned structures of type `K`, with derived data `V` of each.
pub(crate) struct Table<K: 'static, V: 'static> {
    numbers: Mutex<Option<HashMap<&'static K, u32>>>,
    all: RwLock<Vec<&'static Interned<K, V>>>,
}

/// An interned structure, with derived data and its hash.
pub(crate) struct Interned<K, V> {
    /// The structure.
    pub key: K,
    /// Data derived from the structure.
    pub known: V,
    /// 128-bit hash of the structure.
    pub hash: [u64; 2],
}

impl<K: Hash + Eq, V> Table<K, V> {
    /// Creates an empty table.
    pub const fn new() -> Table<K, V> {
        Table { numbers: Mutex::new(None), all: RwLock::new(Vec::new()) }
    }

    /// Returns the index of a structure, which is added if it is new; `know` then computes the derived data.
    pub fn intern(&self, key: K, know: impl FnOnce(&K) -> V) -> u32 {
        // A panic while the lock is held leaves the table unchanged.
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
        // Nothing else happens under this lock: hashing a structure may look up others that it contains.
        let number = {
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            all.push(interned);
            all.len() as u32 - 1
        };
        numbers.insert(&interned.key, number);
        number
    }

    /// Returns the structure with index `number`.
    pub fn get(&self, number: u32) -> &'static Interned<K, V> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)[number as usize]
    }
}

/// Implements `Hash` and `Ord` of an id type by the hash of the interned content.
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
