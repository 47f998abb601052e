//! What outlives a process: small entries in the user's cache folder. `docs/cache.md` has the rules.
//!
//! In: bytes with their [`Kind`] and [`Key`]. Out: the same bytes, in this process or a later one; or nothing, whenever
//! anything at all is not as it should be.
//!
//! Always true: nothing here panics or returns an error to whoever computes; a bad entry is as good as none, and the
//! next [`Cache::put`] takes its place. What comes out has the checksum that it went in with, but another program of
//! the same user may have written it: whoever reads an entry checks what it says.
//!
//! * `entry`: one entry as bytes, and what is checked of it.
//! * `folder`: files and folders that only the user can have written.
//! * `transfer`: all entries in one file, for another folder or for a program to bring with it ([`ship`]).

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

/// Bytes that all entries together may have, about: beyond, the oldest are dropped.
const LIMIT: u64 = 64 << 20;
/// The longest entry.
const MAX_PAYLOAD: usize = 8 << 20;
/// One in so many entries, by its key, brings a look at the size of the whole with it.
const SWEEP: u8 = 64;
/// A file that was begun so long ago was never finished.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Why a folder, a file or bytes are not looked at any further.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ignored {
    /// Cannot be made or read.
    Unreadable,
    /// A link, a folder, a device.
    NotAFile,
    /// Belongs to another user.
    Foreign,
    /// Others may write to it.
    Writable,
    /// Larger than an entry may be.
    TooLarge,
    /// Shorter than it says, or longer.
    Length,
    /// No entry.
    NotAnEntry,
    /// In another format.
    Format,
    /// By another version of Thalweg.
    Version,
    /// Has the name of another entry, or none that an entry has.
    Name,
    /// Its checksum is another.
    Damaged,
    /// On this system it cannot be told who owns a file.
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

/// A cache folder; and entries that a program brought with it, which are only read.
#[derive(Debug)]
pub struct Cache {
    path: PathBuf,
    /// None where there are only entries that came with the program.
    root: Option<Folder>,
    kinds: [OnceLock<Folder>; Kind::ALL.len()],
    limit: u64,
    shipped: Arc<Shipped>,
    /// The one kind that it keeps and finds, if not all.
    only: Option<Kind>,
}

/// Entries that came with the program.
type Shipped = HashMap<(Kind, Key), Box<[u8]>>;

/// What is in a cache, of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contents {
    /// The kind.
    pub kind: Kind,
    /// Good entries.
    pub entries: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Files that are ignored, and why.
    pub ignored: Vec<(String, Ignored)>,
}

impl Cache {
    /// The cache in that folder, which is made if it is not there.
    ///
    /// # Errors
    /// Why the folder is not used.
    pub fn open(path: &Path) -> Result<Cache, Ignored> {
        let root = Some(Folder::open(path)?);
        let path = path.to_owned();
        Ok(Cache { path, root, kinds: Default::default(), limit: LIMIT, shipped: Arc::default(), only: None })
    }

    /// The same folder with these entries beside it; without a folder they are all there is.
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

    /// The same with another limit of the size.
    pub fn with_limit(self, bytes: u64) -> Cache {
        Cache { limit: bytes, ..self }
    }

    /// The same for entries of one kind: others are neither kept nor found.
    pub fn with_only(self, kind: Kind) -> Cache {
        Cache { only: Some(kind), ..self }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that all entries together may have.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The folder of a kind, if it is there.
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

    /// The entry of that key, if there is a good one.
    pub fn get(&self, kind: Kind, key: &Key) -> Option<Vec<u8>> {
        self.in_folder(kind, key).or_else(|| self.shipped.get(&(kind, *key)).map(|bytes| bytes.to_vec()))
    }

    fn in_folder(&self, kind: Kind, key: &Key) -> Option<Vec<u8>> {
        let name = key.to_string();
        match self.folder(kind)?.read(&name, entry::MAX) {
            Ok(bytes) => entry::payload(bytes, kind, key).inspect_err(|why| ignore(&name, *why)).ok(),
            // Most often there is none.
            Err(_) => None,
        }
    }

    /// Keeps an entry, in the place of an older one. Whoever reads meanwhile finds one of the two whole.
    pub fn put(&self, kind: Kind, key: &Key, payload: &[u8]) {
        if payload.len() > MAX_PAYLOAD {
            return ignore(kind.name(), Ignored::TooLarge);
        }
        let Some(root) = &self.root else { return };
        if self.only.is_some_and(|only| only != kind) {
            return;
        }
        // Made when there is something to put in it: a process that only looks makes nothing.
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

    /// Drops the oldest entries where there are too many, and what was begun and never finished.
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
        // A quarter at once, so that it is seldom.
        for (folder, file) in files {
            if total <= self.limit / 4 * 3 {
                break;
            }
            folder.remove(&file.name);
            total -= file.bytes;
        }
    }

    /// What is there. Reads every entry.
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

    /// All good entries of a kind in the folder, in the order of their keys.
    pub fn all(&self, kind: Kind) -> Vec<Vec<u8>> {
        let Some(folder) = self.folder(kind) else { return vec![] };
        let mut keys: Vec<String> = folder.files().into_iter().map(|f| f.name).collect();
        keys.sort();
        keys.iter().filter_map(|name| self.in_folder(kind, &Key::parse(name)?)).collect()
    }

    /// Removes everything, good or not; how many files that were.
    pub fn clear(&self) -> usize {
        let folders = Kind::ALL.iter().filter_map(|&k| self.folder(k));
        folders.map(|folder| folder.files().iter().filter(|f| folder.remove(&f.name)).count()).sum()
    }
}

/// Says in the log that something was ignored.
fn ignore(what: &str, why: Ignored) {
    tracing::debug!(what, %why, "a file of the disk cache is not used");
}

/// Nothing before the environment was asked.
static IN_FORCE: RwLock<Option<Option<Arc<Cache>>>> = RwLock::new(None);

/// The cache in force: the one of the environment, until [`set`]. None where there is no usable folder, or
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

/// Puts another cache in force for the whole process, or none.
pub fn set(cache: Option<Cache>) {
    *IN_FORCE.write().unwrap_or_else(|e| e.into_inner()) = Some(cache.map(Arc::new));
}

/// Takes entries that a program brings with it, a file that `thalweg cache export` or `thalweg cache warm --to` has
/// written: found where the cache folder has none, and never written to. So a program runs its own plans from the first
/// call on, on whatever machine of that kind it is started. Also where there is no folder, or `THALWEG_CACHE=off`.
///
/// Entries are checked like those of any other file; what is not for this version, this planner or this device is not
/// found. Machine code for a GPU cannot be checked: it runs as the file says.
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
/// Where it cannot be read, or is no such file.
pub fn ship(from: &mut impl io::Read) -> io::Result<Imported> {
    // One after the other: each adds to what is there.
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

/// The folder that the environment asks for: `THALWEG_CACHE`, unless it is `off`; else `thalweg` in `XDG_CACHE_HOME` or
/// in `~/.cache`.
///
/// # Panics
/// Where `THALWEG_CACHE` is neither `off` nor a folder.
pub fn place() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    place_of(environment::CACHE.get(), variable)
}

fn place_of(asked: Option<Value>, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    match asked {
        Some(Value::Path(folder)) => Some(folder),
        // The one word that it may be is `off`.
        Some(_) => None,
        None => {
            // A path that is not absolute is to be ignored, says the standard.
            let absolute = |p: &PathBuf| p.is_absolute();
            let home = || variable("HOME").filter(absolute).map(|home| home.join(".cache"));
            Some(variable("XDG_CACHE_HOME").filter(absolute).or_else(home)?.join("thalweg"))
        }
    }
}
