//! Search for NVIDIA's libraries.
//!
//! In: a library's kind. Out: the library, opened by its path with global symbols, so that whoever asks the loader for
//! it by name later gets the same one; or a report of what was searched for, and what to install.
//!
//! Always true: a library is opened only when it is requested, at most once in a process, and nothing panics when
//! something is missing.

use libloading::Library;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use thalweg_runtime::environment::{self, Value, Variable};

/// A library that is searched for at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// Library of the driver (`libcuda`), installed with the GPU's kernel module.
    Driver,
    /// NVRTC, the compiler of CUDA C++.
    Nvrtc,
    /// cuBLASLt, for matrix products.
    CublasLt,
    /// cuDNN, for convolutions.
    Cudnn,
    /// cuFFT, for Fourier transforms.
    Cufft,
    /// cuSOLVER, for matrix decompositions. It is linked with cuBLAS, so opening it also provides cuBLAS's functions.
    Cusolver,
    /// NCCL, for transfers between GPUs.
    Nccl,
}

/// Result of a search for a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibrarySearch {
    /// Kind of the library.
    pub sought: Sought,
    /// Path of the library; `None` when there is none.
    pub library: Option<PathBuf>,
    /// Version, such as "13.0", if there is one.
    pub version: Option<String>,
    /// Advice when it is missing, or cannot be used.
    pub advice: Option<String>,
}

/// Opened library, with its path.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) library: Library,
    pub(crate) path: PathBuf,
}

/// CUDA major versions whose libraries are searched for, the newest first.
const MAJORS: [u32; 2] = [13, 12];

impl Sought {
    /// All kinds of libraries.
    pub const ALL: [Sought; 7] =
        [Sought::Driver, Sought::Nvrtc, Sought::CublasLt, Sought::Cudnn, Sought::Cufft, Sought::Cusolver, Sought::Nccl];

    /// Name of the library for people.
    pub fn name(self) -> &'static str {
        match self {
            Sought::Driver => "NVIDIA driver",
            Sought::Nvrtc => "NVRTC",
            Sought::CublasLt => "cuBLASLt",
            Sought::Cudnn => "cuDNN",
            Sought::Cufft => "cuFFT",
            Sought::Cusolver => "cuSOLVER",
            Sought::Nccl => "NCCL",
        }
    }

    /// Environment variable that names the library's file.
    fn variable(self) -> &'static Variable {
        match self {
            Sought::Driver => &environment::CUDA_DRIVER,
            Sought::Nvrtc => &environment::NVRTC,
            Sought::CublasLt => &environment::CUBLASLT,
            Sought::Cudnn => &environment::CUDNN,
            Sought::Cufft => &environment::CUFFT,
            Sought::Cusolver => &environment::CUSOLVER,
            Sought::Nccl => &environment::NCCL,
        }
    }

    /// File names by which the loader knows the library.
    fn files(self) -> Vec<String> {
        match self {
            Sought::Driver => vec!["libcuda.so.1".into()],
            Sought::Nvrtc => MAJORS.map(|m| format!("libnvrtc.so.{m}")).into(),
            Sought::CublasLt => MAJORS.map(|m| format!("libcublasLt.so.{m}")).into(),
            // Its version is its own; the packages of both CUDA versions name it so.
            Sought::Cudnn => vec!["libcudnn.so.9".into()],
            Sought::Nccl => vec!["libnccl.so.2".into()],
            Sought::Cufft => MAJORS.map(|m| format!("libcufft.so.{}", m - self.major_version_lag())).into(),
            Sought::Cusolver => MAJORS.map(|m| format!("libcusolver.so.{}", m - self.major_version_lag())).into(),
        }
    }

    /// Difference between CUDA's major version and the library's.
    fn major_version_lag(self) -> u32 {
        u32::from(matches!(self, Sought::Cufft | Sought::Cusolver))
    }

    /// Advice on which package to install.
    fn advice(self) -> String {
        let (variable, [newest, ..]) = (self.variable().name, MAJORS);
        match self {
            Sought::Driver => {
                "there is no libcuda.so.1: install NVIDIA's driver, or start the container with its GPUs (--gpus all)"
                    .into()
            }
            Sought::Nvrtc => format!(
                "there is no libnvrtc.so.{newest}: `pip install nvidia-cuda-nvrtc`, or install the CUDA toolkit, or name the file in {variable}"
            ),
            Sought::CublasLt => format!(
                "there is no libcublasLt.so.{newest}: `pip install nvidia-cublas`, or install the CUDA toolkit, or name the file in {variable}"
            ),
            Sought::Cudnn => format!(
                "there is no libcudnn.so.9: `pip install nvidia-cudnn-cu{newest}`, or name the file in {variable}"
            ),
            Sought::Cufft => format!(
                "there is no libcufft.so.{}: `pip install nvidia-cufft`, or install the CUDA toolkit, or name the file in {variable}",
                newest - self.major_version_lag()
            ),
            Sought::Cusolver => format!(
                "there is no libcusolver.so.{}: `pip install nvidia-cusolver`, or install the CUDA toolkit, or name the file in {variable}",
                newest - self.major_version_lag()
            ),
            Sought::Nccl => format!(
                "there is no libnccl.so.2: `pip install nvidia-nccl-cu{newest}`, or name the file in {variable}"
            ),
        }
    }

    /// Folders of pip packages that contain the library.
    fn in_packages(self) -> &'static [&'static str] {
        match self {
            Sought::Driver => &[],
            Sought::Nvrtc => &["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"],
            Sought::CublasLt => &["nvidia/cu13/lib", "nvidia/cublas/lib"],
            Sought::Cudnn => &["nvidia/cudnn/lib"],
            Sought::Cufft => &["nvidia/cu13/lib", "nvidia/cufft/lib"],
            Sought::Cusolver => &["nvidia/cu13/lib", "nvidia/cusolver/lib"],
            Sought::Nccl => &["nvidia/nccl/lib"],
        }
    }
}

/// Subfolders of `folder` whose names begin with `prefix`, the highest version first.
fn inside(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|e| e.file_name().to_str().is_some_and(|n| n.starts_with(prefix)));
    let mut folders: Vec<PathBuf> = named.map(|e| e.path()).filter(|p| p.is_dir()).collect();
    folders.sort_by_cached_key(|p| (std::cmp::Reverse(numbers(p)), p.clone()));
    folders
}

/// Numbers in a file's name, which order "cuda-12.10" after "cuda-12.9".
fn numbers(path: &Path) -> Vec<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// Folders of Python packages, those of the active environment first.
fn packages() -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|v| variable(v)).collect();
    roots.extend(variable("HOME").map(|home| home.join(".local")));
    roots.extend(inside(Path::new("/opt"), "").into_iter().flat_map(|p| [p.join(".venv"), p]));
    roots.extend(["/usr/local", "/usr"].map(PathBuf::from));
    let pythons = roots.iter().flat_map(|root| inside(&root.join("lib"), "python3"));
    pythons.flat_map(|p| ["site-packages", "dist-packages"].map(|kind| p.join(kind))).filter(|p| p.is_dir()).collect()
}

/// Folders that the loader may not know, in search order: those that the user points to; then installed ones, and those
/// of pip packages.
fn folders(sought: Sought) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let within = |root: PathBuf| [root.join("lib64"), root.join("lib")];
    let pointed = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(|v| variable(v)).flat_map(within);
    let mut known: Vec<PathBuf> = match sought {
        Sought::Driver => {
            ["/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/run/opengl-driver/lib"].map(PathBuf::from).into()
        }
        _ => inside(Path::new("/usr/local"), "cuda").into_iter().flat_map(within).collect(),
    };
    if !sought.in_packages().is_empty() {
        known.extend(packages().iter().flat_map(|p| sought.in_packages().iter().map(|at| p.join(at))));
    }
    known.extend(variable("CONDA_PREFIX").map(|root| root.join("lib")));
    // The toolkit contains a stub of the driver, which does not work.
    let pointed = if sought == Sought::Driver { vec![] } else { pointed.collect() };
    (pointed, known)
}

#[cfg(unix)]
fn load(file: &Path) -> Result<Library, libloading::Error> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY};
    // SAFETY: NVIDIA's libraries may be opened by anybody at any time; that the file is one of them follows from its
    // name.
    Ok(unsafe { Library::open(Some(file), RTLD_LAZY | RTLD_GLOBAL) }?.into())
}

#[cfg(not(unix))]
fn load(file: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: as above.
    unsafe { Library::new(file) }
}

/// Path of a library that the loader opened by name.
fn place(file: &str) -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let path = maps.lines().filter_map(|line| line.split_whitespace().last()).map(Path::new).find(|path| {
        // The mapping has the file's own name, "libcuda.so.580.65", not the link's.
        let stem = file.split(".so").next().unwrap_or(file);
        path.file_name()
            .and_then(|n| n.to_str())
            .is_some_and(|n| n.strip_prefix(stem).is_some_and(|n| n.starts_with(".so")))
    });
    path.map_or_else(|| PathBuf::from(file), Path::to_owned)
}

/// Opens the first library that exists; major versions above `at_most` are skipped.
fn search(sought: Sought, at_most: Option<u32>) -> Result<Opened, String> {
    let named = sought.variable().read().map_err(|mistake| mistake.to_string())?;
    if named == Some(Value::Word("off")) {
        return Err(format!("{} is off", sought.variable().name));
    }
    if let Some(Value::Path(path)) = named {
        let why = |e| format!("{} names {}, which cannot be used: {e}", sought.variable().name, path.display());
        return load(&path).map(|library| Opened { library, path: path.clone() }).map_err(why);
    }
    let major = |file: &str| file.rsplit('.').next().and_then(|m| m.parse::<u32>().ok());
    let mut files = sought.files();
    if !matches!(sought, Sought::Driver | Sought::Cudnn | Sought::Nccl) {
        files.retain(|f| at_most.is_none_or(|most| major(f).is_some_and(|m| m + sought.major_version_lag() <= most)));
    }
    let (pointed, known) = folders(sought);
    let mut refused = None;
    let mut attempt = |path: PathBuf| match load(&path) {
        Ok(library) => Some(Opened { library, path }),
        Err(e) => {
            refused = Some(format!("{} is there and cannot be opened: {e}", path.display()));
            None
        }
    };
    let mut first = |folders: &[PathBuf]| {
        let paths = folders.iter().flat_map(|folder| files.iter().map(|f| folder.join(f)));
        paths.filter(|p| p.exists()).find_map(&mut attempt)
    };
    if let Some(opened) = first(&pointed) {
        return Ok(opened);
    }
    for file in &files {
        if let Ok(library) = load(Path::new(file)) {
            return Ok(Opened { library, path: place(file) });
        }
    }
    first(&known).ok_or_else(|| refused.unwrap_or_else(|| sought.advice()))
}

/// Returns the library, opened at the first call; the error is advice. `at_most` matters at the first call only.
pub(crate) fn open(sought: Sought, at_most: Option<u32>) -> Result<&'static Opened, &'static str> {
    static OPENED: [OnceLock<Result<Opened, String>>; Sought::ALL.len()] =
        [const { OnceLock::new() }; Sought::ALL.len()];
    let search = || {
        search(sought, at_most)
            .inspect(|o| tracing::debug!(library = sought.name(), path = %o.path.display(), "opened"))
            .inspect_err(|advice| tracing::debug!(library = sought.name(), advice, "not found"))
    };
    OPENED[sought as usize].get_or_init(search).as_ref().map_err(|advice| advice.as_str())
}

/// Searches for a library, and opens it. Libraries that work with the driver must have a major version that the driver
/// supports.
pub fn find(sought: Sought) -> LibrarySearch {
    let known = match sought {
        Sought::Driver => None,
        _ => open(Sought::Driver, None).ok().and_then(|driver| version(Sought::Driver, &driver.library)),
    };
    let major = known.and_then(|version| version.split('.').next()?.parse().ok());
    match open(sought, major) {
        Ok(o) => {
            LibrarySearch { sought, library: Some(o.path.clone()), version: version(sought, &o.library), advice: None }
        }
        Err(advice) => LibrarySearch { sought, library: None, version: None, advice: Some(advice.into()) },
    }
}

/// Version of NCCL, from the number that it reports.
pub(crate) fn nccl_version(number: i32) -> String {
    format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100)
}

/// Version that a library reports.
fn version(sought: Sought, library: &Library) -> Option<String> {
    let (mut major, mut minor) = (0i32, 0i32);
    match sought {
        Sought::Driver => {
            type Ask = unsafe extern "C" fn(*mut i32) -> i32;
            // SAFETY: its type in cuda.h. It may be called before cuInit.
            let failed = unsafe { library.get::<Ask>(b"cuDriverGetVersion\0").ok()?(&mut major) };
            (major, minor) = (major / 1000, major % 1000 / 10);
            (failed == 0).then(|| format!("{major}.{minor}"))
        }
        Sought::Nvrtc => {
            type Ask = unsafe extern "C" fn(*mut i32, *mut i32) -> i32;
            // SAFETY: its type in nvrtc.h.
            let failed = unsafe { library.get::<Ask>(b"nvrtcVersion\0").ok()?(&mut major, &mut minor) };
            (failed == 0).then(|| format!("{major}.{minor}"))
        }
        Sought::CublasLt => {
            type Ask = unsafe extern "C" fn() -> usize;
            // SAFETY: its type in cublasLt.h.
            let number = unsafe { library.get::<Ask>(b"cublasLtGetVersion\0").ok()?() };
            // 130400 since version 12; version 11 counted in hundreds.
            Some(format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100))
        }
        Sought::Cudnn => {
            type Ask = unsafe extern "C" fn() -> usize;
            // SAFETY: its type in cudnn.h.
            let number = unsafe { library.get::<Ask>(b"cudnnGetVersion\0").ok()?() };
            Some(format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100))
        }
        Sought::Nccl => {
            type Ask = unsafe extern "C" fn(*mut i32) -> i32;
            let mut number = 0;
            // SAFETY: its type in nccl.h.
            let failed = unsafe { library.get::<Ask>(b"ncclGetVersion\0").ok()?(&mut number) };
            (failed == 0).then(|| nccl_version(number))
        }
        Sought::Cufft | Sought::Cusolver => {
            type Ask = unsafe extern "C" fn(i32, *mut i32) -> i32;
            let name: &[u8] = if sought == Sought::Cufft { b"cufftGetProperty\0" } else { b"cusolverGetProperty\0" };
            // SAFETY: its type in cufft.h and cusolver_common.h: 0 asks for the major version, 1 for the minor one.
            let ask = unsafe { library.get::<Ask>(name).ok()? };
            // SAFETY: as above.
            let failed = unsafe { ask(0, &mut major) | ask(1, &mut minor) };
            (failed == 0).then(|| format!("{major}.{minor}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_folders_come_first() {
        let mut names = ["cuda-12.9", "cuda-13.0", "cuda-12.10"].map(PathBuf::from);
        names.sort_by_key(|p| std::cmp::Reverse(numbers(p)));
        assert_eq!(names, ["cuda-13.0", "cuda-12.10", "cuda-12.9"].map(PathBuf::from));
    }

    #[test]
    fn transforms_count_their_own_majors() {
        assert_eq!(Sought::Cufft.files(), ["libcufft.so.12", "libcufft.so.11"]);
        assert!(Sought::Cufft.advice().contains("libcufft.so.12"));
        assert_eq!(Sought::Cusolver.files(), ["libcusolver.so.12", "libcusolver.so.11"]);
        assert!(Sought::Cusolver.advice().contains("libcusolver.so.12"));
    }

    #[test]
    fn what_is_missing_comes_with_advice() {
        for sought in [Sought::Driver, Sought::Nvrtc, Sought::Cufft, Sought::Cusolver] {
            let found = find(sought);
            assert_eq!(found.library.is_some(), found.advice.is_none(), "{found:?}");
            assert_eq!(found.library.is_some(), found.version.is_some(), "{found:?}");
            assert!(sought.advice().contains("install"));
        }
    }
}
