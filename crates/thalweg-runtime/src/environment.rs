//! The environment variables that Thalweg reads: their names, what they mean, what they may be.
//!
//! In: the process's environment. Out: values of the right kind, or a [`Mistake`] that lists what is allowed. A
//! variable that is not set or empty has no value.
//!
//! Always true: nothing else in the workspace reads a variable whose name begins with `THALWEG_` while a program runs,
//! and no value that is not allowed is passed over. Devices check all of them when they are made ([`check`]), so that a
//! mistake is an error where there is a `Result` to give it through.

use crate::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

#[cfg(test)]
mod tests;

/// An environment variable that Thalweg reads.
#[derive(Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it says, in a few words.
    pub about: &'static str,
    allowed: Allowed,
    /// Whether only those who work on Thalweg set it.
    pub inner: bool,
}

/// What a variable may be.
#[derive(Clone, Copy, Debug)]
enum Allowed {
    /// One of these, in any case.
    Words(&'static [&'static str]),
    /// One of these, or a whole number from the first to the second of what is named.
    Number(&'static [&'static str], u64, u64, &'static str),
    /// `off`, or a share in percent.
    Percent,
    /// A number of bytes.
    Bytes,
    /// A device's name.
    Device,
    /// `off` where that is said, or a folder, which need not be there yet.
    Folder { off: bool },
    /// A library's file that is there, or a name that the loader knows; `off` where that is said.
    There { off: bool },
    /// Compute capabilities.
    Chips,
    /// Anything: what counts is whether it is set.
    Flag,
}

/// The value of a variable.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// One of the words that it may be.
    Word(&'static str),
    /// A number: bytes, threads, milliseconds …
    Number(u64),
    /// A share: 0.05 for 5 %.
    Share(f64),
    /// Compute capabilities.
    Numbers(Vec<u32>),
    /// A file or folder.
    Path(PathBuf),
    /// A text.
    Text(String),
}

/// A variable that is set to what it may not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// The variable.
    pub name: &'static str,
    /// What it is set to.
    pub value: String,
    /// What is wrong with that, or what it may be.
    pub why: String,
}

/// A variable whose name begins as ours do and that nothing reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unknown {
    /// Its name.
    pub name: String,
    /// The variable whose name is nearest.
    pub nearest: &'static str,
}

const fn variable(name: &'static str, allowed: Allowed, about: &'static str) -> Variable {
    Variable { name, about, allowed, inner: false }
}

const fn inner(name: &'static str, allowed: Allowed, about: &'static str) -> Variable {
    Variable { name, about, allowed, inner: true }
}

const ON_OFF: Allowed = Allowed::Words(&["on", "off"]);
/// More threads or milliseconds than anybody means.
const MANY: u64 = 1 << 20;

/// Which device is the default one.
pub static DEVICE: Variable = variable("THALWEG_DEVICE", Allowed::Device, "the default device");
/// Threads of the CPU device.
pub static THREADS: Variable =
    variable("THALWEG_THREADS", Allowed::Number(&[], 1, MANY, "threads"), "threads of the CPU device");
/// How many bytes a device may have in use.
pub static MEMORY_LIMIT: Variable =
    variable("THALWEG_MEMORY_LIMIT", Allowed::Bytes, "the most bytes in use on a device");
/// What compiles kernels for the CPU.
pub static ISA: Variable = variable(
    "THALWEG_ISA",
    Allowed::Words(&["avx512-narrow", "avx512", "avx2", "tile"]),
    "kernels' instructions, if not the best",
);
/// Whether operations share kernels.
pub static FUSION: Variable = variable("THALWEG_FUSION", ON_OFF, "whether operations share kernels");
/// Whether fused and unfused agree to the bit.
pub static STRICT: Variable = variable("THALWEG_STRICT", ON_OFF, "whether fused and unfused agree to the bit");
/// Whether runs are alike to the bit.
pub static REPRODUCIBLE: Variable = variable("THALWEG_REPRODUCIBLE", ON_OFF, "whether runs are alike to the bit");
/// How exactly matrix products of f32 are computed.
pub static MATMUL_PRECISION: Variable =
    variable("THALWEG_MATMUL_PRECISION", Allowed::Words(&["highest", "high"]), "f32 products on GPUs: high is TF32");
/// How long new patterns are planned for.
pub static SEARCH: Variable = variable(
    "THALWEG_SEARCH",
    Allowed::Number(&["none", "full"], 0, u64::MAX, "operations"),
    "how long the planner searches",
);
/// The share of run time that goes into measuring plans.
pub static MEASURE: Variable = variable("THALWEG_MEASURE", Allowed::Percent, "run time spent on measuring plans");
/// Whether results that nobody reads are left unwritten.
pub static DEFER: Variable = variable("THALWEG_DEFER", ON_OFF, "whether unread results are left unwritten");
/// Whether new segments run before a plan has been searched for.
pub static TIERS: Variable = variable("THALWEG_TIERS", ON_OFF, "whether new code runs before it is planned for");
/// Whether what a backward pass reads may be computed again.
pub static RECOMPUTE: Variable =
    variable("THALWEG_RECOMPUTE", ON_OFF, "whether what a backward pass reads may be computed again");
/// Where the disk cache is.
pub static CACHE: Variable = variable("THALWEG_CACHE", Allowed::Folder { off: true }, "the disk cache");
/// When a process measures its device.
pub static CALIBRATE: Variable = variable(
    "THALWEG_CALIBRATE",
    Allowed::Number(&["off"], 0, u64::MAX, "milliseconds of kernels"),
    "when devices are measured",
);
/// Whether a run on a GPU becomes a graph.
pub static CUDA_GRAPHS: Variable = variable("THALWEG_CUDA_GRAPHS", ON_OFF, "whether launches become CUDA graphs");
/// Whether launches on a GPU overlap.
pub static CUDA_OVERLAP: Variable = variable("THALWEG_CUDA_OVERLAP", ON_OFF, "whether launches overlap");
/// Whether a GPU has several queues.
pub static CUDA_QUEUES: Variable =
    variable("THALWEG_CUDA_QUEUES", ON_OFF, "whether threads and copies have queues of their own");
/// Where what devices compile is written to.
pub static DUMP: Variable = variable("THALWEG_DUMP", Allowed::Folder { off: false }, "where compiled code is shown");
/// NVIDIA's driver.
pub static CUDA_DRIVER: Variable =
    variable("THALWEG_CUDA_DRIVER", Allowed::There { off: false }, "the driver's library");
/// NVIDIA's compiler.
pub static NVRTC: Variable = variable("THALWEG_NVRTC", Allowed::There { off: false }, "NVRTC's library");
/// NVIDIA's matrix products.
pub static CUBLASLT: Variable = variable("THALWEG_CUBLASLT", Allowed::There { off: true }, "cuBLASLt's library");
/// From how many multiplications on products are cuBLASLt's.
pub static CUBLASLT_FROM: Variable = inner(
    "THALWEG_CUBLASLT_FROM",
    Allowed::Number(&[], 0, u64::MAX, "multiplications"),
    "least multiplications for cuBLASLt",
);
/// NVIDIA's Fourier transforms.
pub static CUFFT: Variable = variable("THALWEG_CUFFT", Allowed::There { off: true }, "cuFFT's library");
/// NVIDIA's decompositions of matrices.
pub static CUSOLVER: Variable = variable("THALWEG_CUSOLVER", Allowed::There { off: true }, "cuSOLVER's library");
/// Chips that the emulated GPU has NVRTC compile every source for.
pub static EMULATE_NVRTC: Variable =
    inner("THALWEG_EMULATE_NVRTC", Allowed::Chips, "chips that emulated sources are compiled for, too");
/// Where the emulated GPU keeps what it compiles.
pub static EMULATE_CACHE: Variable =
    inner("THALWEG_EMULATE_CACHE", Allowed::Folder { off: false }, "where emulated kernels are kept");
/// Whether the emulated GPU stops at misaligned accesses.
pub static EMULATE_SANITIZE: Variable =
    inner("THALWEG_EMULATE_SANITIZE", Allowed::Flag, "stops emulated kernels at misaligned accesses");
/// Where tests of the emitter's speed write its code.
pub static CODE: Variable = inner("THALWEG_CODE", Allowed::Folder { off: false }, "where speed tests write code");
/// Whether a test writes the golden files anew.
pub static BLESS: Variable = inner("THALWEG_BLESS", Allowed::Flag, "has a test write the golden files anew");
/// Where `bench/setup` puts the peers. (No Rust reads it.)
pub static BENCH_VENV: Variable =
    inner("THALWEG_BENCH_VENV", Allowed::Folder { off: false }, "where bench/setup puts the peers");

/// All variables, as `thalweg doctor` shows them.
pub static ALL: [&Variable; 31] = [
    &DEVICE,
    &THREADS,
    &MEMORY_LIMIT,
    &ISA,
    &FUSION,
    &STRICT,
    &REPRODUCIBLE,
    &MATMUL_PRECISION,
    &SEARCH,
    &MEASURE,
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
    &CUBLASLT_FROM,
    &CUFFT,
    &CUSOLVER,
    &EMULATE_NVRTC,
    &EMULATE_CACHE,
    &EMULATE_SANITIZE,
    &CODE,
    &BLESS,
    &BENCH_VENV,
];

impl Variable {
    /// What it is set to.
    ///
    /// # Errors
    /// Where that is not allowed.
    pub fn read(&self) -> Result<Option<Value>, Mistake> {
        self.parse(std::env::var_os(self.name).as_deref())
    }

    /// What it is set to.
    ///
    /// # Panics
    /// Where that is not allowed: for those who have no way to say so. Whoever made a device has been told before.
    pub fn get(&self) -> Option<Value> {
        self.read().unwrap_or_else(|mistake| panic!("{mistake}"))
    }

    /// The number that it is set to. Panics as [`Variable::get`] does.
    pub fn number(&self) -> Option<u64> {
        match self.get() {
            Some(Value::Number(n)) => Some(n),
            _ => None,
        }
    }

    /// The path that it is set to. Panics as [`Variable::get`] does.
    pub fn path(&self) -> Option<PathBuf> {
        match self.get() {
            Some(Value::Path(path)) => Some(path),
            _ => None,
        }
    }

    /// Whether it is set to that word. Panics as [`Variable::get`] does.
    pub fn is(&self, word: &str) -> bool {
        self.get() == Some(Value::Word(self.word(word)))
    }

    /// The word itself, which has to be one that it may be: a misspelt one in our own code would never be found.
    fn word(&self, word: &str) -> &'static str {
        let words = self.allowed.words();
        words.iter().find(|w| **w == word).unwrap_or_else(|| panic!("{} is never {word}", self.name))
    }

    /// What a text says as its value.
    ///
    /// # Errors
    /// Where it is not allowed.
    pub fn parse(&self, text: Option<&OsStr>) -> Result<Option<Value>, Mistake> {
        let Some(text) = text.filter(|t| !t.is_empty()) else { return Ok(None) };
        let mistake = |why: String| Mistake { name: self.name, value: text.to_string_lossy().into_owned(), why };
        match self.allowed.parse(text) {
            Ok(Some(value)) => Ok(Some(value)),
            Ok(None) => Err(mistake(format!("it may be {}", self.allowed))),
            Err(why) => Err(mistake(why)),
        }
    }

    /// What it may be, for people.
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

    /// What a text says; `None` where it is not allowed, an error where there is more to say about it.
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
            // A bare word is more likely a misspelt `off` than a folder that is to be made.
            Allowed::Folder { .. } => {
                let path = PathBuf::from(text);
                (path.components().count() > 1 || path.has_root() || path.is_dir()).then_some(Value::Path(path))
            }
            Allowed::There { .. } => match PathBuf::from(text) {
                // A bare name is the loader's to look for.
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

/// Whether a device may have that name.
fn is_device(name: &str) -> bool {
    let number = |n: &str| {
        matches!(n, "emulated" | "emulated:small" | "absent") || !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())
    };
    name == "cpu" || name == "cuda" || name.strip_prefix("cuda:").is_some_and(number)
}

/// A number of bytes: digits, with `K`, `M`, `G` or `T` behind them units of 1,024 of each other, and `B` or `iB`
/// behind that.
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
            Allowed::Device => f.write_str("cpu, cuda, or cuda:0 and so on"),
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

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is set, and nothing reads it: is {} meant?", self.name, self.nearest)
    }
}

/// All mistakes in the environment.
pub fn mistakes() -> Vec<Mistake> {
    ALL.iter().filter_map(|v| v.read().err()).collect()
}

/// Variables that are set, whose names begin with `THALWEG_` and that nothing reads.
pub fn unknown() -> Vec<Unknown> {
    unknown_of(std::env::vars_os().map(|(name, _)| name))
}

fn unknown_of(names: impl Iterator<Item = OsString>) -> Vec<Unknown> {
    let ours = names.filter_map(|n| n.into_string().ok()).filter(|n| n.starts_with("THALWEG_"));
    let unknown = ours.filter(|n| ALL.iter().all(|v| v.name != n));
    let nearest = |n: &str| ALL.iter().min_by_key(|v| edits(v.name, n)).expect("there are some").name;
    let mut all: Vec<Unknown> = unknown.map(|name| Unknown { nearest: nearest(&name), name }).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Letters put in, left out or changed that make one name of the other.
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

/// Checks the environment, and tells through `tracing` of variables that nothing reads; both once a process.
///
/// # Errors
/// [`Error::Environment`] with all mistakes there are.
pub fn check() -> Result<(), Error> {
    static CHECKED: OnceLock<Result<(), Error>> = OnceLock::new();
    CHECKED
        .get_or_init(|| {
            unknown().iter().for_each(|unknown| tracing::warn!("{unknown}"));
            let all: Vec<String> = mistakes().iter().map(Mistake::to_string).collect();
            if all.is_empty() { Ok(()) } else { Err(Error::Environment(all.join("; "))) }
        })
        .clone()
}
