//! Compilation of sources to shared objects by the system's C++ compiler.
//!
//! In: CUDA C++. Out: the bytes of a shared object that has its kernels as functions of one parameter, the address of
//! the argument words.
//!
//! Always true: a source is compiled once in a process, and once overall where `THALWEG_EMULATE_CACHE` names a folder.
//! That folder also holds the preludes as precompiled headers, one for each set of options.

use super::NAME;
use crate::prelude;
use rustc_hash::FxHashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use thalweg_runtime::{Error, environment};

const PRELUDE: &str = include_str!("../emulated.cpp");

/// Compiler options: statics of inline functions must be each object's own (`no-gnu-unique`); the rest is what device
/// code assumes, or saves time. -O1 takes no longer than -O0.
const OPTIONS: &str = "-x c++ -std=c++17 -O1 -fPIC -shared -nostdlib -pipe -w -ffp-contract=off -fno-builtin -fno-gnu-unique -fno-exceptions -fno-rtti \
                       -fno-strict-aliasing -fwrapv -fno-math-errno -fno-asynchronous-unwind-tables";

static COMPILED: LazyLock<Mutex<FxHashMap<String, Arc<Vec<u8>>>>> = LazyLock::new(Mutex::default);

fn failed(message: String) -> Error {
    Error::Compile { device: NAME.into(), message }
}

/// The compiler's name and version.
///
/// # Errors
/// [`Error::Compile`] when there is none.
pub(super) fn compiler() -> Result<&'static str, Error> {
    static VERSION: OnceLock<Result<String, String>> = OnceLock::new();
    let ask = || {
        let out = Command::new("g++").arg("-dumpfullversion").output();
        let out = out.map_err(|e| format!("the emulated driver needs g++, which cannot be run: {e}"))?;
        Ok(format!("g++ {}", String::from_utf8_lossy(&out.stdout).trim()))
    };
    VERSION.get_or_init(ask).as_deref().map_err(|e| failed(e.clone()))
}

/// Compiles a source, or returns the cached object.
///
/// # Errors
/// [`Error::Compile`] with the compiler's messages.
pub(super) fn compile(source: &str) -> Result<Vec<u8>, Error> {
    compile_in(environment::EMULATE_CACHE.path(), source)
}

fn compile_in(folder: Option<PathBuf>, source: &str) -> Result<Vec<u8>, Error> {
    let known = || COMPILED.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(image) = known().get(source) {
        return Ok(image.to_vec());
    }
    let kept = folder.as_ref().map(|folder| Ok::<_, Error>(folder.join(key(source)?))).transpose()?;
    let image = match kept.as_ref().and_then(|path| std::fs::read(path).ok()) {
        Some(image) => image,
        None => {
            let image = run(folder.as_deref(), source)?;
            if let Some(path) = &kept {
                keep(path, &image);
            }
            image
        }
    };
    known().insert(source.to_owned(), Arc::new(image.clone()));
    Ok(image)
}

/// Options that contract products with sums to FMA, as NVRTC does unless a source has `-fmad=false`.
const CONTRACTED: [&str; 3] = ["-ffp-contract=fast", "-fexpensive-optimizations", "-mfma"];

/// Conversions of f16 by instructions: libgcc's functions read and write the rounding mode, and take half the time of
/// products of f16. The values are the same.
const F16_CONVERSIONS: &str = "-mf16c";

/// Compiler options for a source: the common ones, FMA contraction unless the source forbids it, conversions of f16,
/// and a sanitizer on request.
fn options(source: &str) -> Vec<&'static str> {
    let mut options: Vec<_> = OPTIONS.split_whitespace().collect();
    let exact = source.lines().next().is_some_and(|first| first.contains("-fmad=false"));
    if !exact && std::arch::is_x86_feature_detected!("fma") {
        options.extend(CONTRACTED);
    }
    if std::arch::is_x86_feature_detected!("f16c") {
        options.push(F16_CONVERSIONS);
    }
    if environment::EMULATE_SANITIZE.get().is_some() {
        // Misaligned accesses stop a GPU. Here they do only on request, since compilation takes half as long again.
        options.extend(["-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"]);
    }
    options
}

/// File name, without an extension, for what depends on these values and the compiler.
fn hashed(of: impl Hash) -> Result<String, Error> {
    let part = |salt: u8| -> Result<u64, Error> {
        let mut hash = DefaultHasher::new();
        (salt, compiler()?, PRELUDE, &of).hash(&mut hash);
        Ok(hash.finish())
    };
    Ok(format!("{:016x}{:016x}", part(0)?, part(1)?))
}

/// File name for a source: a hash of all that the object depends on.
fn key(source: &str) -> Result<String, Error> {
    Ok(hashed((options(source), source))? + ".so")
}

/// Header with both preludes in a folder, compiled for these options if it is not yet there. With it, g++ takes 48
/// instead of 60 ms for a short kernel.
///
/// # Errors
/// Errors of files, and [`Error::Compile`] where there is no compiler.
fn header(folder: &Path, options: &[&str]) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let path = folder.join(hashed((options, prelude::PRELUDE))? + ".h");
    let compiled = path.with_extension("h.gch");
    if !compiled.exists() {
        std::fs::create_dir_all(folder)?;
        keep(&path, format!("{PRELUDE}\n{}", prelude::PRELUDE).as_bytes());
        let beside = path.with_extension(unique());
        let mut command = Command::new("g++");
        command.args(options).args(["-x", "c++-header"]).arg(&path).arg("-o").arg(&beside);
        if !command.stdin(Stdio::null()).stderr(Stdio::null()).status()?.success() {
            return Err("g++ refuses the preludes".into());
        }
        std::fs::rename(beside, compiled)?;
    }
    Ok(path)
}

/// Writes a file atomically. A cache that cannot be written is ignored.
fn keep(path: &Path, image: &[u8]) {
    let beside = path.with_extension(unique());
    let parent = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    if let Err(e) = parent.and_then(|()| std::fs::write(&beside, image)).and_then(|()| std::fs::rename(&beside, path)) {
        tracing::debug!(path = %path.display(), error = %e, "an emulated kernel could not be kept");
    }
}

/// File name suffix that no other process and no other call uses.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed))
}

/// A temporary file, removed when dropped.
pub(super) struct Temporary(pub(super) PathBuf);

impl Temporary {
    pub(super) fn new() -> Temporary {
        Temporary(std::env::temp_dir().join(format!("thalweg-emulated-{}.so", unique())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn run(folder: Option<&Path>, source: &str) -> Result<Vec<u8>, Error> {
    compiler()?;
    let object = Temporary::new();
    let options = options(source);
    let mut command = Command::new("g++");
    // Before the prelude, a generated source has a comment alone.
    let generated = folder.zip(source.split_once(prelude::PRELUDE));
    let text =
        match generated.map(|(folder, (options_of_nvrtc, own))| (header(folder, &options), options_of_nvrtc, own)) {
            Some((Ok(header), options_of_nvrtc, own)) => {
                command.arg("-include").arg(header);
                format!("#line 1 \"kernel\"\n{options_of_nvrtc}{own}\n")
            }
            _ => format!("{PRELUDE}\n#line 1 \"kernel\"\n{source}\n"),
        };
    command.args(options);
    command.args(["-", "-lm", "-lgcc", "-o"]).arg(&object.0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let io = |e: std::io::Error| failed(format!("g++ cannot be run: {e}"));
    let mut child = command.spawn().map_err(io)?;
    let mut input = child.stdin.take().expect("it was piped");
    // A compiler that gives up early closes its end; its messages say why.
    let _ = input.write_all(text.as_bytes());
    drop(input);
    let out = child.wait_with_output().map_err(io)?;
    if !out.status.success() {
        return Err(failed(format!("g++ on emulated CUDA C++:\n{}", String::from_utf8_lossy(&out.stderr).trim_end())));
    }
    std::fs::read(&object.0).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_code_is_cached() {
        let (folder, source) = (std::env::temp_dir().join(format!("thalweg-kept-{}", unique())), "int x;");
        let image = compile_in(Some(folder.clone()), source).unwrap();
        assert_eq!(compile_in(None, source).unwrap(), image);
        let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
        assert_eq!(files, [folder.join(key(source).unwrap())]);
        std::fs::write(&files[0], "as it was kept").unwrap();
        COMPILED.lock().unwrap().remove(source);
        assert_eq!(compile_in(Some(folder.clone()), source).unwrap(), b"as it was kept");
        COMPILED.lock().unwrap().remove(source);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_precompiled_header_changes_no_code() {
        let folder = std::env::temp_dir().join(format!("thalweg-header-{}", unique()));
        for options in ["// options:", "// options: -fmad=false"] {
            let own = r#"extern "C" __global__ void k(THALWEG_PARAMETER(1)) { begin(); *(float*)a.w[0] *= 3.0f; }"#;
            let source = format!("{options}\n{}\n{own}", prelude::PRELUDE);
            assert_eq!(run(Some(&folder), &source).unwrap(), run(None, &source).unwrap());
        }
        let names = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path());
        assert_eq!(names.filter(|n| n.extension().is_some_and(|e| e == "gch")).count(), 2);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
