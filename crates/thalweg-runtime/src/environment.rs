//! Environment variables of Thalweg: names, meanings, permitted values.
//!
//! In: the process's environment. Out: typed values, or a [`Mistake`] that lists the permitted values. Unset and empty
//! variables have no value.
//!
//! Always true: no other code of the workspace reads variables whose name starts with `THALWEG_` at run time, and no
//! invalid value is ignored. Devices check all variables when they are created ([`check`]), so mistakes are reported
//! where a `Result` is available.
//!
//! **Renaming a variable.** `renamed` declares the new name and the former one. For one version the former name is
//! read where the new one is not set, and [`outdated`] warns of it; then the row becomes a `variable` again.

use crate::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

#[cfg(test)]
mod tests;

/// Environment variable of Thalweg.
#[derive(Debug)]
pub struct Variable {
    /// Name of the variable.
    pub name: &'static str,
    /// Former name, which is read where `name` is not set.
    pub former: Option<&'static str>,
    /// Short description for users.
    pub about: &'static str,
    allowed: Allowed,
    /// Whether the variable is for developers of Thalweg only.
    pub inner: bool,
}

/// Values that a variable permits.
#[derive(Clone, Copy, Debug)]
enum Allowed {
    /// One of these words, ignoring case.
    Words(&'static [&'static str]),
    /// One of these words, or an integer between two bounds, in the named unit.
    Number(&'static [&'static str], u64, u64, &'static str),
    /// `off`, or a percentage.
    Percent,
    /// A number of bytes.
    Bytes,
    /// Name of a device.
    Device,
    /// Path of a folder, which need not exist; or `off` if permitted.
    Folder { off: bool },
    /// Path of an existing library file, or a name that the loader resolves; or `off` if permitted.
    There { off: bool },
    /// List of compute capabilities.
    Chips,
    /// Any value; only whether it is set matters.
    Flag,
}

/// Value of a variable.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// One of the permitted words.
    Word(&'static str),
    /// A number: bytes, threads, milliseconds …
    Number(u64),
    /// Fraction of a percentage: 0.05 for 5 %.
    Share(f64),
    /// List of compute capabilities.
    Numbers(Vec<u32>),
    /// Path of a file or folder.
    Path(PathBuf),
    /// Text whose meaning is left to the reader of the variable.
    Text(String),
}

/// Variable with an invalid value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// Name of the variable.
    pub name: &'static str,
    /// Invalid value.
    pub value: String,
    /// Explanation of the mistake, or the permitted values.
    pub why: String,
}

/// Unused variable whose name starts with `THALWEG_`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unknown {
    /// Name of the unused variable.
    pub name: String,
    /// Known variable with the most similar name.
    pub nearest: &'static str,
}

/// Variable whose former name is set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outdated {
    /// Former name of the variable, which is set.
    pub former: &'static str,
    /// Current name of the variable.
    pub name: &'static str,
    /// Whether both are set, so that the former name is ignored.
    pub ignored: bool,
}

const fn variable(name: &'static str, allowed: Allowed, about: &'static str) -> Variable {
    Variable { name, former: None, about, allowed, inner: false }
}

const fn inner(name: &'static str, allowed: Allowed, about: &'static str) -> Variable {
    Variable { name, former: None, about, allowed, inner: true }
}

/// Variable with a former name.
const fn renamed(former: &'static str, to: Variable) -> Variable {
    Variable { former: Some(former), ..to }
}

const ON_OFF: Allowed = Allowed::Words(&["on", "off"]);
/// Upper bound beyond any sensible number of threads or milliseconds.
const MAX_COUNT: u64 = 1 << 20;

/// The default device.
pub static DEVICE: Variable = variable("THALWEG_DEVICE", Allowed::Device, "the default device");
/// Number of threads of the CPU device.
pub static THREADS: Variable =
    variable("THALWEG_THREADS", Allowed::Number(&[], 1, MAX_COUNT, "threads"), "threads of the CPU device");
/// Maximum bytes in use on a device.
pub static MEMORY_LIMIT: Variable =
    variable("THALWEG_MEMORY_LIMIT", Allowed::Bytes, "the most bytes in use on a device");
/// Instruction set of kernels for the CPU.
pub static ISA: Variable = variable(
    "THALWEG_ISA",
    Allowed::Words(&["avx512-amx", "avx512-narrow", "avx512", "avx2", "tile"]),
    "instructions of kernels",
);
/// Whether to fuse operations into kernels.
pub static FUSION: Variable = variable("THALWEG_FUSION", ON_OFF, "whether operations share kernels");
/// Whether fused and unfused results agree to the bit.
pub static STRICT: Variable = variable("THALWEG_STRICT", ON_OFF, "whether fused and unfused agree to the bit");
/// Whether repeated runs agree to the bit.
pub static REPRODUCIBLE: Variable = variable("THALWEG_REPRODUCIBLE", ON_OFF, "whether runs are alike to the bit");
/// Precision of f32 matrix products.
pub static MATMUL_PRECISION: Variable =
    variable("THALWEG_MATMUL_PRECISION", Allowed::Words(&["highest", "high"]), "f32 products on GPUs: high is TF32");
/// Whether GPUs add floats by an index in any order.
pub static ATOMIC_SUMS: Variable = variable("THALWEG_ATOMIC_SUMS", ON_OFF, "whether sums by an index are in any order");
/// Search effort for new patterns.
pub static SEARCH: Variable = variable(
    "THALWEG_SEARCH",
    Allowed::Number(&["none", "full"], 0, u64::MAX, "operations"),
    "how long the planner searches",
);
/// Fraction of the run time spent on autotuning (measuring plans).
pub static AUTOTUNE: Variable =
    renamed("THALWEG_MEASURE", variable("THALWEG_AUTOTUNE", Allowed::Percent, "run time spent on autotuning"));
/// Whether to defer results that nobody reads.
pub static DEFER: Variable = variable("THALWEG_DEFER", ON_OFF, "whether unread results are left unwritten");
/// Whether new segments run before a plan has been searched for.
pub static TIERS: Variable = variable("THALWEG_TIERS", ON_OFF, "whether new code runs before it is planned for");
/// Whether values that a backward pass reads may be recomputed.
pub static RECOMPUTE: Variable =
    variable("THALWEG_RECOMPUTE", ON_OFF, "whether what a backward pass reads may be computed again");
/// Folder of the disk cache.
pub static CACHE: Variable = variable("THALWEG_CACHE", Allowed::Folder { off: true }, "the disk cache");
/// When a process calibrates its device.
pub static CALIBRATE: Variable = variable(
    "THALWEG_CALIBRATE",
    Allowed::Number(&["off"], 0, u64::MAX, "milliseconds of kernels"),
    "when devices are measured",
);
/// Whether launches on a GPU become graphs.
pub static CUDA_GRAPHS: Variable = variable("THALWEG_CUDA_GRAPHS", ON_OFF, "whether launches become CUDA graphs");
/// Whether launches on a GPU overlap.
pub static CUDA_OVERLAP: Variable = variable("THALWEG_CUDA_OVERLAP", ON_OFF, "whether launches overlap");
/// Whether a GPU has several queues.
pub static CUDA_QUEUES: Variable =
    variable("THALWEG_CUDA_QUEUES", ON_OFF, "whether threads and copies have queues of their own");
/// Folder for compiled code.
pub static DUMP: Variable = variable("THALWEG_DUMP", Allowed::Folder { off: false }, "where compiled code is shown");
/// Library of NVIDIA's driver.
pub static CUDA_DRIVER: Variable =
    variable("THALWEG_CUDA_DRIVER", Allowed::There { off: false }, "the driver's library");
/// Library of NVIDIA's compiler.
pub static NVRTC: Variable = variable("THALWEG_NVRTC", Allowed::There { off: false }, "NVRTC's library");
/// Library of NVIDIA's matrix products.
pub static CUBLASLT: Variable = variable("THALWEG_CUBLASLT", Allowed::There { off: true }, "cuBLASLt's library");
/// Minimum number of multiplications of a product by cuBLASLt.
pub static CUBLASLT_MIN_MULTIPLICATIONS: Variable = renamed(
    "THALWEG_CUBLASLT_FROM",
    inner(
        "THALWEG_CUBLASLT_MIN_MULTIPLICATIONS",
        Allowed::Number(&[], 0, u64::MAX, "multiplications"),
        "minimum multiplications of a product for cuBLASLt",
    ),
);
/// Library of NVIDIA's convolutions.
pub static CUDNN: Variable = variable("THALWEG_CUDNN", Allowed::There { off: true }, "cuDNN's library");
/// Library of NVIDIA's Fourier transforms.
pub static CUFFT: Variable = variable("THALWEG_CUFFT", Allowed::There { off: true }, "cuFFT's library");
/// Library of NVIDIA's matrix decompositions.
pub static CUSOLVER: Variable = variable("THALWEG_CUSOLVER", Allowed::There { off: true }, "cuSOLVER's library");
/// Library of NVIDIA's collectives.
pub static NCCL: Variable = variable("THALWEG_NCCL", Allowed::There { off: true }, "NCCL's library");
/// Chips for which the emulated GPU also compiles every source with NVRTC.
pub static EMULATE_NVRTC: Variable =
    inner("THALWEG_EMULATE_NVRTC", Allowed::Chips, "chips that emulated sources are compiled for, too");
/// Cache folder of the emulated GPU's compilations.
pub static EMULATE_CACHE: Variable =
    inner("THALWEG_EMULATE_CACHE", Allowed::Folder { off: false }, "where emulated kernels are kept");
/// Whether the emulated GPU stops at misaligned accesses.
pub static EMULATE_SANITIZE: Variable =
    inner("THALWEG_EMULATE_SANITIZE", Allowed::Flag, "stops emulated kernels at misaligned accesses");
/// Folder for code written by speed tests of the emitter.
pub static CODE: Variable = inner("THALWEG_CODE", Allowed::Folder { off: false }, "where speed tests write code");
/// Whether a test rewrites the golden files.
pub static BLESS: Variable = inner("THALWEG_BLESS", Allowed::Flag, "has a test write the golden files anew");
/// Folder of competing libraries, installed by `bench/setup`. (Not read by Rust code.)
pub static BENCH_VENV: Variable =
    inner("THALWEG_BENCH_VENV", Allowed::Folder { off: false }, "where bench/setup puts the peers");

/// All variables, as `thalweg doctor` shows them.
pub static ALL: [&Variable; 34] = [
    &DEVICE,
    &THREADS,
    &MEMORY_LIMIT,
    &ISA,
    &FUSION,
    &STRICT,
    &REPRODUCIBLE,
    &MATMUL_PRECISION,
    &ATOMIC_SUMS,
    &SEARCH,
    &AUTOTUNE,
    &DEFER,
    &TIERS,
    &RECOMPUTE,
    &CACHE,
    &CALIBRATE,
    &CUDA_GRAPHS,
    &CUDA_OVERLAP,
    &CUDA_QUEUES,
    &DUMP,
    &CUDA_DRIVER,
    &NVRTC,
    &CUBLASLT,
    &CUBLASLT_MIN_MULTIPLICATIONS,
    &CUDNN,
    &CUFFT,
    &CUSOLVER,
    &NCCL,
    &EMULATE_NVRTC,
    &EMULATE_CACHE,
    &EMULATE_SANITIZE,
    &CODE,
    &BLESS,
    &BENCH_VENV,
];

impl Variable {
    /// Value of the variable.
    ///
    /// # Errors
    /// When the value is invalid.
    pub fn read(&self) -> Result<Option<Value>, Mistake> {
        self.read_from(&|name| std::env::var_os(name))
    }

    fn read_from(&self, get: &dyn Fn(&str) -> Option<OsString>) -> Result<Option<Value>, Mistake> {
        let Some((name, text)) = self.raw(get) else { return Ok(None) };
        self.parse(Some(&text)).map_err(|mistake| Mistake { name, ..mistake })
    }

    /// Name that is set (current or former), with its text. Empty variables count as not set.
    fn raw(&self, get: &dyn Fn(&str) -> Option<OsString>) -> Option<(&'static str, OsString)> {
        let mut names = std::iter::once(self.name).chain(self.former);
        names.find_map(|name| get(name).filter(|text| !text.is_empty()).map(|text| (name, text)))
    }

    /// Text of the variable in the environment, valid or not.
    pub fn text(&self) -> Option<OsString> {
        self.raw(&|name| std::env::var_os(name)).map(|(_, text)| text)
    }

    /// Value of the variable.
    ///
    /// # Panics
    /// When the value is invalid, for callers without a way to report it. Creating a device has reported it before.
    pub fn get(&self) -> Option<Value> {
        self.read().unwrap_or_else(|mistake| panic!("{mistake}"))
    }

    /// Number that the variable is set to. Panics like [`Variable::get`].
    pub fn number(&self) -> Option<u64> {
        match self.get() {
            Some(Value::Number(n)) => Some(n),
            _ => None,
        }
    }

    /// Path that the variable is set to. Panics like [`Variable::get`].
    pub fn path(&self) -> Option<PathBuf> {
        match self.get() {
            Some(Value::Path(path)) => Some(path),
            _ => None,
        }
    }

    /// Whether the value is the word `word`. Panics like [`Variable::get`].
    pub fn is(&self, word: &str) -> bool {
        self.get() == Some(Value::Word(self.word(word)))
    }

    /// Permitted word equal to `word`. Panics if there is none, since a misspelt word in our own code would go
    /// unnoticed.
    fn word(&self, word: &str) -> &'static str {
        let words = self.allowed.words();
        words.iter().find(|w| **w == word).unwrap_or_else(|| panic!("{} is never {word}", self.name))
    }

    /// Parses a value.
    ///
    /// # Errors
    /// When it is invalid.
    pub fn parse(&self, text: Option<&OsStr>) -> Result<Option<Value>, Mistake> {
        let Some(text) = text.filter(|t| !t.is_empty()) else { return Ok(None) };
        let mistake = |why: String| Mistake { name: self.name, value: text.to_string_lossy().into_owned(), why };
        match self.allowed.parse(text) {
            Ok(Some(value)) => Ok(Some(value)),
            Ok(None) => Err(mistake(format!("it may be {}", self.allowed))),
            Err(why) => Err(mistake(why)),
        }
    }

    /// Description of the permitted values.
    pub fn allowed(&self) -> String {
        self.allowed.to_string()
    }
}

impl Allowed {
    fn words(self) -> &'static [&'static str] {
        match self {
            Allowed::Words(words) | Allowed::Number(words, ..) => words,
            Allowed::Percent | Allowed::Folder { off: true } | Allowed::There { off: true } => &["off"],
            _ => &[],
        }
    }

    /// Parses a value. `None` if it is invalid, an error if there is an explanation.
    fn parse(self, text: &OsStr) -> Result<Option<Value>, String> {
        let utf8 = text.to_str().map(str::trim);
        let word = self.words().iter().find(|w| utf8.is_some_and(|t| t.eq_ignore_ascii_case(w)));
        if let Some(word) = word {
            return Ok(Some(Value::Word(word)));
        }
        let path = || Value::Path(PathBuf::from(text));
        let Some(utf8) = utf8 else {
            let is_path = matches!(self, Allowed::Folder { .. } | Allowed::There { .. });
            return Ok(is_path.then(path));
        };
        Ok(match self {
            Allowed::Words(_) => None,
            Allowed::Number(_, from, to, _) => utf8.parse().ok().filter(|n| (from..=to).contains(n)).map(Value::Number),
            Allowed::Percent => {
                let percent = utf8.strip_suffix('%').unwrap_or(utf8).trim_end().parse::<f64>().ok();
                percent.filter(|p| (0.0..=100.0).contains(p)).map(|p| Value::Share(p / 100.0))
            }
            Allowed::Bytes => parse_bytes(utf8).map(|n| Value::Number(n as u64)),
            Allowed::Device => is_device(utf8).then(|| Value::Text(utf8.into())),
            // A bare word is more likely a misspelt `off` than a folder to be created.
            Allowed::Folder { .. } => {
                let path = PathBuf::from(text);
                (path.components().count() > 1 || path.has_root() || path.is_dir()).then_some(Value::Path(path))
            }
            Allowed::There { .. } => match PathBuf::from(text) {
                // A bare name is resolved by the loader.
                path if path.components().count() == 1 || path.exists() => Some(Value::Path(path)),
                _ => return Err("there is no such file".into()),
            },
            Allowed::Chips => {
                let numbers: Option<Vec<u32>> = utf8.split(',').map(|n| n.trim().parse().ok()).collect();
                numbers.map(Value::Numbers)
            }
            Allowed::Flag => Some(Value::Text(utf8.into())),
        })
    }
}

/// Whether a text is a valid device name.
fn is_device(name: &str) -> bool {
    let is_number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    let is_gpu = |n: &str| matches!(n, "emulated" | "emulated:small" | "absent") || is_number(n);
    matches!(name, "cpu" | "cuda" | "wgpu")
        || name.strip_prefix("cuda:").is_some_and(is_gpu)
        || name.strip_prefix("wgpu:").is_some_and(is_number)
}

/// Number of bytes: digits, optionally followed by the unit `K`, `M`, `G` or `T` (powers of 1,024) and `B` or `iB`.
fn parse_bytes(text: &str) -> Option<usize> {
    let text = text.to_ascii_lowercase();
    let text = text.strip_suffix("ib").or_else(|| text.strip_suffix('b')).unwrap_or(&text).trim_end();
    let (digits, unit) = match text.chars().last()? {
        c if c.is_ascii_digit() => (text, 0),
        c => (&text[..text.len() - c.len_utf8()], "kmgt".find(c)? + 1),
    };
    let number: usize = digits.trim_end().parse().ok()?;
    number.checked_mul(1usize.checked_shl(10 * unit as u32)?)
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::Words([all @ .., last]) => write!(f, "{} or {last}", all.join(", ")),
            Allowed::Words([]) => f.write_str("nothing"),
            Allowed::Number(words, from, to, of) => {
                for word in *words {
                    write!(f, "{word}, ")?;
                }
                f.write_str(if words.is_empty() { "a number of " } else { "or a number of " })?;
                match *to {
                    u64::MAX if *from == 0 => f.write_str(of),
                    u64::MAX => write!(f, "{of} from {from} on"),
                    to => write!(f, "{of}, {from} to {to}"),
                }
            }
            Allowed::Percent => f.write_str("off, or a percentage from 0 to 100"),
            Allowed::Bytes => f.write_str("a number of bytes such as 512M or 4G"),
            Allowed::Device => f.write_str("cpu, cuda, cuda:0 and so on, or wgpu:0 and so on"),
            Allowed::Folder { off: true } => f.write_str("off, or a folder (a new one has a slash in it)"),
            Allowed::Folder { off: false } => f.write_str("a folder (a new one has a slash in it)"),
            Allowed::There { off: true } => f.write_str("off, a file that is there, or a name the loader knows"),
            Allowed::There { off: false } => f.write_str("a file that is there, or a name the loader knows"),
            Allowed::Chips => f.write_str("compute capabilities such as 80,90"),
            Allowed::Flag => f.write_str("anything"),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}: {}", self.name, self.value, self.why)
    }
}

impl std::error::Error for Mistake {}

impl From<Mistake> for Error {
    fn from(mistake: Mistake) -> Error {
        Error::Environment(mistake.to_string())
    }
}

impl fmt::Display for Outdated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outdated { former, name, ignored } = self;
        match ignored {
            true => write!(f, "{former} is now called {name}, which is set: {former} is ignored"),
            false => write!(f, "{former} is now called {name}; the former name is read for one more version"),
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is set, and nothing reads it: is {} meant?", self.name, self.nearest)
    }
}

/// All variables in the environment with invalid values.
pub fn mistakes() -> Vec<Mistake> {
    ALL.iter().filter_map(|v| v.read().err()).collect()
}

/// Variables in the environment that are set by their former names.
pub fn outdated() -> Vec<Outdated> {
    outdated_of(&|name| std::env::var_os(name))
}

fn outdated_of(get: &dyn Fn(&str) -> Option<OsString>) -> Vec<Outdated> {
    let set = |name: &str| get(name).is_some_and(|text| !text.is_empty());
    let of = |v: &&Variable| {
        let former = v.former.filter(|f| set(f))?;
        Some(Outdated { former, name: v.name, ignored: set(v.name) })
    };
    ALL.iter().filter_map(of).collect()
}

/// Variables in the environment whose names start with `THALWEG_` and that nothing reads.
pub fn unknown() -> Vec<Unknown> {
    unknown_of(std::env::vars_os().map(|(name, _)| name))
}

fn unknown_of(names: impl Iterator<Item = OsString>) -> Vec<Unknown> {
    let ours = names.filter_map(|n| n.into_string().ok()).filter(|n| n.starts_with("THALWEG_"));
    let unknown = ours.filter(|n| ALL.iter().all(|v| v.name != n && v.former.is_none_or(|f| f != n)));
    let nearest = |n: &str| ALL.iter().min_by_key(|v| edits(v.name, n)).expect("there are some").name;
    let mut all: Vec<Unknown> = unknown.map(|name| Unknown { nearest: nearest(&name), name }).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Edit distance of two names.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let best = (diagonal + (x != y) as usize).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}

/// Checks the environment and logs unused variables and former names by `tracing`; all once per process.
///
/// # Errors
/// [`Error::Environment`] with all mistakes.
pub fn check() -> Result<(), Error> {
    static CHECKED: OnceLock<Result<(), Error>> = OnceLock::new();
    CHECKED
        .get_or_init(|| {
            unknown().iter().for_each(|unknown| tracing::warn!("{unknown}"));
            outdated().iter().for_each(|outdated| tracing::warn!("{outdated}"));
            let all: Vec<String> = mistakes().iter().map(Mistake::to_string).collect();
            if all.is_empty() { Ok(()) } else { Err(Error::Environment(all.join("; "))) }
        })
        .clone()
}
