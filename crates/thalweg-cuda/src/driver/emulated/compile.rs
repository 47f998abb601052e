//! Compilation of sources to shared objects by the system's C++ compiler.
//!
//! In: CUDA C++. Out: the bytes of a shared object that has its kernels as functions of one parameter, the address of
//! the argument words.
//!
//! Always true: a source is compiled once in a process, and once overall where `THALWEG_EMULATE_CACHE` names a folder.

use super::NAME;
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
/// code assumes, or saves time. -O1 takes no longer than -O0, and a precompiled header saves 6 of 45 ms.
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
    let kept = folder.map(|folder| Ok::<_, Error>(folder.join(key(source)?))).transpose()?;
    let image = match kept.as_ref().and_then(|path| std::fs::read(path).ok()) {
        Some(image) => image,
        None => {
            let image = run(source)?;
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

/// File name for a source: a hash of all that the object depends on.
fn key(source: &str) -> Result<String, Error> {
    let part = |salt: u8| -> Result<u64, Error> {
        let mut hash = DefaultHasher::new();
        (salt, compiler()?, options(source), PRELUDE, source).hash(&mut hash);
        Ok(hash.finish())
    };
    Ok(format!("{:016x}{:016x}.so", part(0)?, part(1)?))
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

fn run(source: &str) -> Result<Vec<u8>, Error> {
    compiler()?;
    let object = Temporary::new();
    let mut command = Command::new("g++");
    command.args(options(source));
    command.args(["-", "-lm", "-lgcc", "-o"]).arg(&object.0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let io = |e: std::io::Error| failed(format!("g++ cannot be run: {e}"));
    let mut child = command.spawn().map_err(io)?;
    let mut input = child.stdin.take().expect("it was piped");
    // A compiler that gives up early closes its end; its messages say why.
    let _ = write!(input, "{PRELUDE}\n#line 1 \"kernel\"\n{source}\n");
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
}
