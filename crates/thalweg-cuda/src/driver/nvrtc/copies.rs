//! Copies of NVRTC in one process. Threads that compile by one copy take turns in its C++ front end, which takes a sixth
//! of the time of a source: more than six processors have nothing to do. A copy of the library has a front end of its own.
//!
//! In: the library's file, and requests for a copy to compile with. Out: the copy with the fewest compilations in
//! progress. Further ones are opened on a thread of their own, once many sources are being compiled.
//!
//! Always true: without space for a copy, what is open does all the work.

use super::Nvrtc;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Maximum number of copies, the library itself included: with four, H200 hosts of 16 processors compile no faster.
const MAX_COPIES: usize = 3;
/// Number of processors that one copy keeps busy.
const PROCESSORS: usize = 6;
/// Number of compilations in progress by each copy at which a further one is opened, and of compilations before it: its
/// file has 110 MB, and its first source takes half a second longer.
const CROWDED: usize = 4;
const MIN_COMPILED: usize = 24;

/// Open copies of a library, the library itself first.
pub(super) struct Copies {
    path: PathBuf,
    open: [OnceLock<Nvrtc>; MAX_COPIES],
    /// Number of compilations in progress by each copy.
    compiling: [AtomicUsize; MAX_COPIES],
    /// Number of compilations that have begun.
    begun: AtomicUsize,
    /// Number of copies that are open or being opened.
    asked: AtomicUsize,
}

/// Copy that compiles a source.
pub(super) struct InUse {
    pub nvrtc: &'static Nvrtc,
    compiling: &'static AtomicUsize,
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.compiling.fetch_sub(1, Relaxed);
    }
}

impl Copies {
    pub fn new(first: Nvrtc, path: PathBuf) -> Copies {
        let open = [const { OnceLock::new() }; MAX_COPIES];
        let _ = open[0].set(first);
        let (begun, asked) = (AtomicUsize::new(0), AtomicUsize::new(1));
        Copies { path, open, compiling: [const { AtomicUsize::new(0) }; MAX_COPIES], begun, asked }
    }

    pub fn first(&self) -> &Nvrtc {
        self.open[0].get().expect("it was opened first")
    }

    /// Copy with the fewest compilations in progress.
    pub fn least_busy(&'static self) -> InUse {
        let open = self.open.iter().zip(&self.compiling).filter_map(|(copy, compiling)| Some((copy.get()?, compiling)));
        let (nvrtc, compiling) = open.min_by_key(|(_, compiling)| compiling.load(Relaxed)).expect("the first is open");
        let now = compiling.fetch_add(1, Relaxed);
        if self.begun.fetch_add(1, Relaxed) >= MIN_COMPILED && now >= CROWDED {
            self.open_another();
        }
        InUse { nvrtc, compiling }
    }

    /// Opens a further copy in the background if none is being opened and more processors have nothing to do.
    fn open_another(&'static self) {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        let asked = self.asked.load(Relaxed);
        let is_open = self.open[asked - 1].get().is_some();
        let wanted = is_open && asked < MAX_COPIES && processors >= PROCESSORS * (asked + 1);
        if !wanted || self.asked.compare_exchange(asked, asked + 1, Relaxed, Relaxed).is_err() {
            return;
        }
        // Where no thread can be created, no further copy is asked for.
        let open = move || match copy(&self.path) {
            Ok(copy) => {
                let _ = self.open[asked].set(copy);
                tracing::debug!(copies = asked + 1, "opened a copy of NVRTC");
            }
            Err(why) => tracing::debug!(why, "no further copy of NVRTC"),
        };
        let _ = std::thread::Builder::new().name("thalweg-nvrtc".into()).spawn(open);
    }
}

/// Opens a copy of the library. The loader knows libraries by their files, so that this one gets data of its own; it is
/// linked such that its functions call each other (`-Bsymbolic`).
#[cfg(target_os = "linux")]
fn copy(path: &std::path::Path) -> Result<Nvrtc, String> {
    use std::os::fd::AsRawFd;
    let file = rustix::fs::memfd_create("thalweg-nvrtc", rustix::fs::MemfdFlags::CLOEXEC);
    let mut file = std::fs::File::from(file.map_err(|e| e.to_string())?);
    let mut original = std::fs::File::open(path).map_err(|e| e.to_string())?;
    std::io::copy(&mut original, &mut file).map_err(|e| e.to_string())?;
    // SAFETY: NVRTC's initialisation has run in this process before, and needs nothing of the program.
    let library = unsafe { libloading::Library::new(format!("/proc/self/fd/{}", file.as_raw_fd())) };
    let library = library.map_err(|e| e.to_string())?;
    let nvrtc = Nvrtc::new(&library)?;
    // Neither is ever closed: the functions are called until the process ends, and the loader knows the copy by the
    // number of its file.
    std::mem::forget((library, file));
    Ok(nvrtc)
}

#[cfg(not(target_os = "linux"))]
fn copy(_: &std::path::Path) -> Result<Nvrtc, String> {
    Err("files in memory are of Linux".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::{self, Sought};

    #[test]
    fn a_copy_compiles_like_the_library() {
        let Ok(opened) = find::open(Sought::Nvrtc, None) else {
            eprintln!("SKIPPED: there is no NVRTC");
            return;
        };
        let (first, second) = (Nvrtc::new(&opened.library).unwrap(), copy(&opened.path).unwrap());
        assert_ne!(first.compile as usize, second.compile as usize, "the loader returned the library itself");
        let source = "extern \"C\" __global__ void k(float* x) { x[0] = x[1] * x[2] + x[3]; }";
        assert_eq!(first.run(90, source).unwrap().0, second.run(90, source).unwrap().0);
    }

    #[test]
    fn compilations_are_spread_over_open_copies() {
        let Ok(opened) = find::open(Sought::Nvrtc, None) else {
            eprintln!("SKIPPED: there is no NVRTC");
            return;
        };
        let new = || Nvrtc::new(&opened.library).unwrap();
        let copies: &'static Copies = Box::leak(Box::new(Copies::new(new(), opened.path.clone())));
        assert!(copies.open[1].set(new()).is_ok());
        let in_use: Vec<InUse> = (0..4).map(|_| copies.least_busy()).collect();
        assert_eq!(copies.compiling.each_ref().map(|n| n.load(Relaxed)), [2, 2, 0]);
        drop(in_use);
        assert_eq!(copies.compiling.each_ref().map(|n| n.load(Relaxed)), [0; 3]);
    }
}
