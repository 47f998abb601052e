//! Persistent cache of small entries in the user's cache folder. `docs/cache.md` has the rules.
//!
//! In: bytes with their [`Kind`] and [`Key`]. Out: the same bytes, in this or a later process; or nothing, if anything
//! is wrong with the entry.
//!
//! Always true: nothing here panics or returns an error to computations; an invalid entry is treated as missing, and
//! the next [`Cache::put`] replaces it. Returned bytes have the checksum with which they were stored, but another
//! program of the same user may have written them: readers must validate the content.
//!
//! * `entry`: binary format of an entry, with its checks.
//! * `folder`: files and folders that only the user can have written.
//! * `transfer`: all entries in one file, to move to another folder or to ship with a program ([`ship`]).

mod entry;
#[cfg_attr(not(unix), path = "nowhere.rs")]
mod folder;
#[cfg(all(test, unix))]
mod tests;
mod transfer;

pub use entry::{Key, Kind};
pub use transfer::Imported;

use crate::environment::{self, Value};
use folder::{File, Folder};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::{Duration, SystemTime};

/// Approximate limit of the bytes of all entries together; beyond it the oldest are dropped.
const LIMIT: u64 = 64 << 20;
/// Maximum payload of an entry.
const MAX_PAYLOAD: usize = 8 << 20;
/// Period, by key, of entries whose writing also checks the total size: one entry in `SWEEP`.
const SWEEP: u8 = 64;
/// Age after which an unfinished file counts as abandoned.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Reason why a folder, a file or bytes are ignored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ignored {
    /// A folder or file that cannot be created or read.
    Unreadable,
    /// A link, a folder or a device in place of a file.
    NotAFile,
    /// A folder or file that another user owns.
    Foreign,
    /// A folder or file that other users may write to.
    Writable,
    /// A file or entry that is larger than the maximum.
    TooLarge,
    /// An entry that is shorter or longer than its header states.
    Length,
    /// Bytes that are not an entry of a cache.
    NotAnEntry,
    /// An entry of a different format version.
    Format,
    /// An entry that a different version of Thalweg has written.
    Version,
    /// A file with the name of another entry, or with a name that no entry has.
    Name,
    /// An entry with a wrong checksum.
    Damaged,
    /// The system cannot report the owner of a file.
    System,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ignored::Unreadable => "cannot be made or read",
            Ignored::NotAFile => "a link or something else that is not expected",
            Ignored::Foreign => "belongs to another user",
            Ignored::Writable => "others may write to it",
            Ignored::TooLarge => "too large",
            Ignored::Length => "cut off, or with something behind it",
            Ignored::NotAnEntry => "no entry",
            Ignored::Format => "in another format",
            Ignored::Version => "by another version",
            Ignored::Name => "under a name that is not its own",
            Ignored::Damaged => "damaged",
            Ignored::System => "this system does not say who owns a file",
        })
    }
}

/// Cache folder, and read-only entries shipped with a program.
#[derive(Debug)]
pub struct Cache {
    path: PathBuf,
    /// Cache folder; `None` if there are only shipped entries.
    root: Option<Folder>,
    kinds: [OnceLock<Folder>; Kind::ALL.len()],
    limit: u64,
    shipped: Arc<Shipped>,
    /// Only kind of entries that the cache stores and finds; `None` if it is not restricted.
    only: Option<Kind>,
}

/// Entries shipped with the program.
type Shipped = HashMap<(Kind, Key), Box<[u8]>>;

/// Contents of a cache, for one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contents {
    /// Kind of the entries.
    pub kind: Kind,
    /// Number of valid entries.
    pub entries: usize,
    /// Total size of the valid entries in bytes.
    pub bytes: u64,
    /// Ignored files, with reasons.
    pub ignored: Vec<(String, Ignored)>,
}

impl Cache {
    /// Opens the cache in a folder; creates the folder if missing.
    ///
    /// # Errors
    /// Reason why the folder is not usable.
    pub fn open(path: &Path) -> Result<Cache, Ignored> {
        let root = Some(Folder::open(path)?);
        let path = path.to_owned();
        Ok(Cache { path, root, kinds: Default::default(), limit: LIMIT, shipped: Arc::default(), only: None })
    }

    /// Cache in the same folder as `before`, with these shipped entries. Without a folder, the cache has only these.
    fn with_shipped(before: Option<&Cache>, shipped: Shipped) -> Cache {
        let opened = before.filter(|c| c.root.is_some()).and_then(|c| Cache::open(&c.path).ok());
        let alone = Cache {
            path: PathBuf::new(),
            root: None,
            kinds: Default::default(),
            limit: LIMIT,
            shipped: Arc::default(),
            only: None,
        };
        let limit = before.map_or(LIMIT, Cache::limit);
        Cache { shipped: Arc::new(shipped), limit, ..opened.unwrap_or(alone) }
    }

    /// This cache with another size limit.
    pub fn with_limit(self, bytes: u64) -> Cache {
        Cache { limit: bytes, ..self }
    }

    /// This cache restricted to entries of one kind: others are neither stored nor found.
    pub fn with_only(self, kind: Kind) -> Cache {
        Cache { only: Some(kind), ..self }
    }

    /// Path of the cache folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size limit of all entries together, in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Folder of a kind, if it exists and the cache is not restricted to another kind.
    fn folder(&self, kind: Kind) -> Option<&Folder> {
        if self.only.is_some_and(|only| only != kind) {
            return None;
        }
        let place = &self.kinds[kind as usize];
        if place.get().is_none() {
            let folder = self.root.as_ref()?.inner(kind.name()).inspect_err(|why| ignore(kind.name(), *why)).ok()?;
            let _ = place.set(folder);
        }
        place.get()
    }

    /// Payload of the entry with a key, if there is a valid one.
    pub fn get(&self, kind: Kind, key: &Key) -> Option<Vec<u8>> {
        self.in_folder(kind, key).or_else(|| self.shipped.get(&(kind, *key)).map(|bytes| bytes.to_vec()))
    }

    fn in_folder(&self, kind: Kind, key: &Key) -> Option<Vec<u8>> {
        let name = key.to_string();
        match self.folder(kind)?.read(&name, entry::MAX) {
            Ok(bytes) => entry::payload(bytes, kind, key).inspect_err(|why| ignore(&name, *why)).ok(),
            // The usual reason is that there is none.
            Err(_) => None,
        }
    }

    /// Stores an entry, replacing an older one. Concurrent readers find either one complete.
    pub fn put(&self, kind: Kind, key: &Key, payload: &[u8]) {
        if payload.len() > MAX_PAYLOAD {
            return ignore(kind.name(), Ignored::TooLarge);
        }
        let Some(root) = &self.root else { return };
        if self.only.is_some_and(|only| only != kind) {
            return;
        }
        // The folder is created at the first write, so that a process that only reads creates nothing.
        if self.kinds[kind as usize].get().is_none() {
            root.make(kind.name());
        }
        let Some(folder) = self.folder(kind) else { return };
        if let Err(why) = folder.write(&key.to_string(), &entry::to_bytes(kind, key, payload)) {
            ignore(kind.name(), why);
        }
        if key.0[0].is_multiple_of(SWEEP) {
            self.sweep();
        }
    }

    /// Drops the oldest entries if the limit is exceeded, and abandoned unfinished files.
    fn sweep(&self) {
        let mut files: Vec<(&Folder, File)> = vec![];
        for folder in Kind::ALL.iter().filter_map(|&k| self.folder(k)) {
            for file in folder.files() {
                let age = SystemTime::now().duration_since(file.written).unwrap_or_default();
                if Key::parse(&file.name).is_none() && age > ABANDONED {
                    folder.remove(&file.name);
                } else {
                    files.push((folder, file));
                }
            }
        }
        let mut total: u64 = files.iter().map(|f| f.1.bytes).sum();
        if total <= self.limit {
            return;
        }
        files.sort_by(|a, b| (a.1.written, &a.1.name).cmp(&(b.1.written, &b.1.name)));
        // A quarter of the limit is freed at once, so that sweeps are rare.
        for (folder, file) in files {
            if total <= self.limit / 4 * 3 {
                break;
            }
            folder.remove(&file.name);
            total -= file.bytes;
        }
    }

    /// Contents of the folder. Reads every entry.
    pub fn contents(&self) -> Vec<Contents> {
        let of = |kind: Kind| {
            let mut contents = Contents { kind, entries: 0, bytes: 0, ignored: vec![] };
            let Some(folder) = self.folder(kind) else { return contents };
            for file in folder.files() {
                let checked = Key::parse(&file.name).ok_or(Ignored::Name).and_then(|key| {
                    folder.read(&file.name, entry::MAX).and_then(|bytes| entry::payload(bytes, kind, &key))
                });
                match checked {
                    Ok(_) => (contents.entries, contents.bytes) = (contents.entries + 1, contents.bytes + file.bytes),
                    Err(why) => contents.ignored.push((file.name, why)),
                }
            }
            contents.ignored.sort();
            contents
        };
        Kind::ALL.iter().map(|&k| of(k)).collect()
    }

    /// All valid entries of a kind in the folder, ordered by key.
    pub fn all(&self, kind: Kind) -> Vec<Vec<u8>> {
        let Some(folder) = self.folder(kind) else { return vec![] };
        let mut keys: Vec<String> = folder.files().into_iter().map(|f| f.name).collect();
        keys.sort();
        keys.iter().filter_map(|name| self.in_folder(kind, &Key::parse(name)?)).collect()
    }

    /// Removes all files, valid or not; returns their number.
    pub fn clear(&self) -> usize {
        let folders = Kind::ALL.iter().filter_map(|&k| self.folder(k));
        folders.map(|folder| folder.files().iter().filter(|f| folder.remove(&f.name)).count()).sum()
    }
}

/// Logs that a folder, file or entry was ignored.
fn ignore(what: &str, why: Ignored) {
    tracing::debug!(what, %why, "a file of the disk cache is not used");
}

/// Current cache; outer `None` until the environment has been read.
static IN_FORCE: RwLock<Option<Option<Arc<Cache>>>> = RwLock::new(None);

/// The current cache: that of the environment, unless replaced by [`set`]. `None` if there is no usable folder or
/// `THALWEG_CACHE=off`.
pub fn cache() -> Option<Arc<Cache>> {
    if let Some(known) = &*IN_FORCE.read().unwrap_or_else(|e| e.into_inner()) {
        return known.clone();
    }
    let mut in_force = IN_FORCE.write().unwrap_or_else(|e| e.into_inner());
    let from_environment = || {
        let path = place()?;
        let opened = Cache::open(&path).inspect_err(|why| ignore(&path.display().to_string(), *why));
        opened.ok().map(Arc::new)
    };
    in_force.get_or_insert_with(from_environment).clone()
}

/// Replaces the cache of the whole process, or disables it.
pub fn set(cache: Option<Cache>) {
    *IN_FORCE.write().unwrap_or_else(|e| e.into_inner()) = Some(cache.map(Arc::new));
}

/// Adds read-only entries shipped with a program, from a file written by `thalweg cache export` or `thalweg cache warm
/// --to`. They are used if the cache folder does not have an entry. A program thus runs its own plans from the first
/// call, on any machine of that kind. Works without a folder and with `THALWEG_CACHE=off`, too.
///
/// Entries are checked like those of other files; those for other versions, planners or devices are never found.
/// Machine code for a GPU cannot be checked and runs as stored.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// thalweg_runtime::disk::ship(&mut std::fs::File::open("plans.cache")?)?;
/// // or, inside of the program itself: disk::ship(&mut &include_bytes!("plans.cache")[..])
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When it cannot be read or is not such a file.
pub fn ship(from: &mut impl io::Read) -> io::Result<Imported> {
    // Serialized: each call adds to the shipped entries so far.
    static SHIPPING: Mutex<()> = Mutex::new(());
    let _one = SHIPPING.lock().unwrap_or_else(|e| e.into_inner());
    let before = cache();
    let mut shipped = before.as_ref().map_or_else(Shipped::default, |c| (*c.shipped).clone());
    let imported = transfer::read(from, LIMIT, |kind, key, payload| {
        shipped.insert((kind, key), payload.into());
    })?;
    set(Some(Cache::with_shipped(before.as_deref(), shipped)));
    Ok(imported)
}

/// Folder of the cache by the environment: `THALWEG_CACHE`, unless it is `off`; by default `thalweg` in
/// `XDG_CACHE_HOME` or in `~/.cache`.
///
/// # Panics
/// When `THALWEG_CACHE` is neither `off` nor a folder.
pub fn place() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    place_of(environment::CACHE.get(), variable)
}

fn place_of(asked: Option<Value>, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    match asked {
        Some(Value::Path(folder)) => Some(folder),
        // The only permitted word is `off`.
        Some(_) => None,
        None => {
            // The XDG specification requires relative paths to be ignored.
            let absolute = |p: &PathBuf| p.is_absolute();
            let home = || variable("HOME").filter(absolute).map(|home| home.join(".cache"));
            Some(variable("XDG_CACHE_HOME").filter(absolute).or_else(home)?.join("thalweg"))
        }
    }
}
