//! Compilation of CUDA C++ to machine code by NVRTC.
//!
//! In: a source, and a compute capability. Out: a cubin (PTX where this NVRTC does not know the chip), or the
//! compiler's messages.
//!
//! Always true: no GPU is needed, any number of threads may compile at once, and no headers are read: a source is
//! self-contained. A first line `// options: -fmad=false` passes further options to the compiler. Where many are
//! compiled at once, there are several copies of the library (`copies`).
//!
//! NVRTC is called directly and not through cudarc, which asks the loader for `libnvrtc.so` by name before the one that
//! [`crate::find`] chose, knows no majors newer than itself, and panics where one is missing.

mod copies;

use crate::find::{self, Sought};
use copies::Copies;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null;
use std::sync::OnceLock;
use thalweg_runtime::Error;

type Program = *mut c_void;

/// Functions of nvrtc.h that are used, with their types there. They all return 0 for success.
struct Nvrtc {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    log: Output,
    cubin: Output,
    ptx: Output,
    describe: unsafe extern "C" fn(c_int) -> *const c_char,
    version: (u32, u32),
    sms: Vec<u32>,
}

/// Output of a compilation (code or log): functions for its size and its contents.
struct Output {
    size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    get: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
}

fn failed(message: impl Into<String>) -> Error {
    Error::Compile { device: "cuda".into(), message: message.into() }
}

/// Returns the copies of NVRTC, of which the first is opened at the first call, then with a major version of at most
/// `at_most`.
fn copies(at_most: Option<u32>) -> Result<&'static Copies, Error> {
    static COPIES: OnceLock<Result<Copies, String>> = OnceLock::new();
    let open = || {
        let opened = find::open(Sought::Nvrtc, at_most)?;
        let first = Nvrtc::new(&opened.library).map_err(|why| format!("{}: {why}", opened.path.display()))?;
        Ok(Copies::new(first, opened.path.clone()))
    };
    COPIES.get_or_init(open).as_ref().map_err(|why: &String| failed(why.clone()))
}

/// Returns NVRTC, opened at the first call.
fn nvrtc(at_most: Option<u32>) -> Result<&'static Nvrtc, Error> {
    copies(at_most).map(Copies::first)
}

/// Opens NVRTC, of a major version of at most `at_most` if none was opened before, and returns its version. Newer
/// majors generate code that an older driver refuses.
///
/// # Errors
/// [`Error::Compile`] with what to install when there is none.
pub(super) fn open(at_most: u32) -> Result<(u32, u32), Error> {
    nvrtc(Some(at_most)).map(|n| n.version)
}

/// Returns the version of NVRTC.
///
/// # Errors
/// [`Error::Compile`] with what to install when there is none.
pub fn version() -> Result<(u32, u32), Error> {
    nvrtc(None).map(|n| n.version)
}

/// Compute capabilities that NVRTC compiles for, 90 for 9.0, ascending.
///
/// # Errors
/// [`Error::Compile`] with what to install when there is none.
pub fn supported_sms() -> Result<Vec<u32>, Error> {
    nvrtc(None).map(|n| n.sms.clone())
}

/// Compiles a source for a compute capability, 90 for 9.0.
///
/// # Errors
/// [`Error::Compile`] with the compiler's messages, or with what to install when there is none.
pub fn compile_for(sm: u32, source: &str) -> Result<Vec<u8>, Error> {
    copies(None)?.least_busy().nvrtc.run(sm, source).map(|compiled| compiled.0)
}

/// Like [`compile_for`], with the assembler's remarks: registers, spilled bytes, serialized instructions.
///
/// # Errors
/// Errors of [`compile_for`].
#[cfg(test)]
pub fn remarks_for(sm: u32, source: &str) -> Result<(Vec<u8>, String), Error> {
    nvrtc(None)?.run(sm, &source.replacen('\n', " --ptxas-options=-v\n", 1))
}

/// Options in the first line of a source.
fn options_of(source: &str) -> impl Iterator<Item = &str> {
    let first = source.lines().next().and_then(|line| line.strip_prefix("// options:"));
    first.unwrap_or_default().split_whitespace()
}

impl Nvrtc {
    fn new(library: &libloading::Library) -> Result<Nvrtc, String> {
        fn symbol<T: Copy>(library: &libloading::Library, name: &str) -> Result<T, String> {
            // SAFETY: every use below has the type that nvrtc.h gives that name, and the library is never closed.
            unsafe { library.get::<T>(name.as_bytes()) }.map(|s| *s).map_err(|e| e.to_string())
        }
        let output = |kind: &str| -> Result<Output, String> {
            let size = symbol(library, &format!("nvrtcGet{kind}Size"))?;
            Ok(Output { size, get: symbol(library, &format!("nvrtcGet{kind}"))? })
        };
        let ask: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int = symbol(library, "nvrtcVersion")?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: out-pointers to numbers.
        if unsafe { ask(&mut major, &mut minor) } != 0 {
            return Err("nvrtcVersion fails".into());
        }
        let count: unsafe extern "C" fn(*mut c_int) -> c_int = symbol(library, "nvrtcGetNumSupportedArchs")?;
        let list: unsafe extern "C" fn(*mut c_int) -> c_int = symbol(library, "nvrtcGetSupportedArchs")?;
        let mut n = 0;
        // SAFETY: an out-pointer to a number.
        let counted = unsafe { count(&mut n) };
        let mut sms = vec![0; n.max(0) as usize];
        // SAFETY: space for as many as there are.
        if counted != 0 || unsafe { list(sms.as_mut_ptr()) } != 0 {
            return Err("nvrtcGetSupportedArchs fails".into());
        }
        let mut sms: Vec<u32> = sms.into_iter().map(|sm| sm as u32).collect();
        sms.sort_unstable();
        Ok(Nvrtc {
            create: symbol(library, "nvrtcCreateProgram")?,
            compile: symbol(library, "nvrtcCompileProgram")?,
            destroy: symbol(library, "nvrtcDestroyProgram")?,
            log: output("ProgramLog")?,
            cubin: output("CUBIN")?,
            ptx: output("PTX")?,
            describe: symbol(library, "nvrtcGetErrorString")?,
            version: (major as u32, minor as u32),
            sms,
        })
    }

    /// Compiler option for a chip, and whether the output is machine code. For a chip that this NVRTC does not know, it
    /// is code of the newest known chip of the same generation, which the chip can run, or PTX, which the driver
    /// compiles.
    fn target(&self, sm: u32) -> Result<(String, bool), Error> {
        if self.sms.contains(&sm) {
            return Ok((format!("--gpu-architecture=sm_{sm}"), true));
        }
        let older = self.sms.iter().rev().find(|&&s| s < sm);
        match older {
            Some(&s) if s / 10 == sm / 10 => Ok((format!("--gpu-architecture=sm_{s}"), true)),
            Some(s) => Ok((format!("--gpu-architecture=compute_{s}"), false)),
            None => {
                let ((major, minor), sms) = (self.version, &self.sms);
                Err(failed(format!("NVRTC {major}.{minor} compiles for sm_{} and newer, not for sm_{sm}", sms[0])))
            }
        }
    }

    /// Compiles a source for compute capability `sm`; returns code and log.
    fn run(&self, sm: u32, source: &str) -> Result<(Vec<u8>, String), Error> {
        let (target, mut machine_code) = self.target(sm)?;
        let mut options = vec!["-default-device", "--std=c++17"];
        if self.version >= (12, 4) {
            // Omits declarations of textures, `new` and the like: a tenth to a fifth of the time of a small kernel.
            options.push("-minimal");
        }
        options.extend(options_of(source));
        match options.iter().find(|o| o.starts_with("--gpu-architecture=") || o.starts_with("-arch=")) {
            // A source may name its own target, as "sm_90a" for features that only one chip has.
            Some(own) => machine_code = own.contains("=sm_"),
            None => options.push(&target),
        }
        let text = |s: &str| CString::new(s).map_err(|_| failed("a source or an option has a zero in it"));
        let options = options.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
        let options: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let (source, name) = (text(source)?, c"kernel");
        let mut program = ProgramHandle { nvrtc: self, program: std::ptr::null_mut() };
        // SAFETY: all texts are zero-terminated and live until the call returns; there are no headers.
        let made = unsafe { (self.create)(&mut program.program, source.as_ptr(), name.as_ptr(), 0, null(), null()) };
        self.check(made)?;
        // SAFETY: as many options as stated, which live until the call returns.
        let compiled = unsafe { (self.compile)(program.program, options.len() as c_int, options.as_ptr()) };
        let log = program.output(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(log.strip_suffix(b"\0").unwrap_or(&log)).trim().to_owned();
        if compiled != 0 {
            return Err(self
                .check(compiled)
                .map_or_else(|e| if log.is_empty() { e } else { failed(log) }, |()| unreachable!()));
        }
        Ok((program.output(if machine_code { &self.cubin } else { &self.ptx })?, log))
    }

    fn check(&self, result: c_int) -> Result<(), Error> {
        if result == 0 {
            return Ok(());
        }
        // SAFETY: it returns a text for every number.
        let text = unsafe { CStr::from_ptr((self.describe)(result)) };
        Err(failed(text.to_string_lossy()))
    }
}

/// Program object of NVRTC, destroyed when dropped.
struct ProgramHandle<'a> {
    nvrtc: &'a Nvrtc,
    program: Program,
}

impl ProgramHandle<'_> {
    fn output(&self, output: &Output) -> Result<Vec<u8>, Error> {
        let mut size = 0;
        // SAFETY: a valid program, and an out-pointer to a size.
        self.nvrtc.check(unsafe { (output.size)(self.program, &mut size) })?;
        let mut bytes = vec![0; size];
        // SAFETY: as above, and there is space for as many bytes as it returned.
        self.nvrtc.check(unsafe { (output.get)(self.program, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

impl Drop for ProgramHandle<'_> {
    fn drop(&mut self) {
        if !self.program.is_null() {
            // SAFETY: created by `create`, and destroyed only here.
            unsafe { (self.nvrtc.destroy)(&mut self.program) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRELUDE: &str = include_str!("../../render/prelude.cuh");
    const KERNEL: &str = r#"extern "C" __global__ void __launch_bounds__(256) k(THALWEG_PARAMETER(3)) {
        __shared__ float of_warp[8];
        unsigned long long i = blockIdx.x * 256ull + threadIdx.x;
        float x = i < a.w[2] ? expf(((const float*)a.w[0])[i]) : 0;
        for (int o = 16; o > 0; o /= 2) x += __shfl_xor_sync(~0u, x, o);
        if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
        __syncthreads();
        ((float4*)a.w[1])[i] = make_float4(x, of_warp[0], of_warp[7], fmaxf(x, 1));
    }"#;

    /// Whether there is an NVRTC; prints a message where there is none, so that CI shows the test as skipped.
    fn there_is() -> bool {
        let there = version().is_ok();
        if !there {
            eprintln!("SKIPPED: {}", version().unwrap_err());
        }
        there
    }

    #[test]
    fn compiles_for_every_chip() {
        if !there_is() {
            return;
        }
        let sms = supported_sms().unwrap();
        for sm in [80, 90, 100, 120].into_iter().filter(|sm| sms.contains(sm)) {
            let image = compile_for(sm, &format!("{PRELUDE}{KERNEL}")).unwrap();
            assert_eq!(&image[..4], b"\x7fELF", "sm_{sm}");
        }
        let newest = *sms.last().unwrap();
        let ptx = compile_for(newest + 100, KERNEL_ALONE).unwrap();
        assert!(String::from_utf8(ptx).unwrap().contains(&format!(".target sm_{newest}")));
        assert!(compile_for(10, KERNEL_ALONE).unwrap_err().to_string().contains("not for sm_10"));
    }

    const KERNEL_ALONE: &str = "extern \"C\" __global__ void k(float* x) { x[0] = x[1] * x[2] + x[3]; }";

    #[test]
    fn the_first_line_gives_options() {
        if !there_is() {
            return;
        }
        let ptx = |first: &str| {
            let source = format!("// options: -arch=compute_90 {first}\n{KERNEL_ALONE}");
            String::from_utf8(compile_for(90, &source).unwrap()).unwrap()
        };
        assert!(ptx("").contains("fma.rn.f32"));
        assert!(!ptx("-fmad=false").contains("fma.rn.f32"));
        let wrong = compile_for(90, &format!("// options: -nothing\n{KERNEL_ALONE}")).unwrap_err();
        assert!(wrong.to_string().contains("-nothing"), "{wrong}");
    }

    #[test]
    fn errors_have_the_line() {
        if !there_is() {
            return;
        }
        let error = compile_for(90, "extern \"C\" __global__ void k(int* x) {\n  x[0] = nothing + 1;\n}").unwrap_err();
        let error = error.to_string();
        assert!(error.contains("kernel(2): error") && error.contains("x[0] = nothing + 1;"), "{error}");
        assert!(compile_for(90, "\0").is_err());
    }

    #[test]
    fn threads_compile_at_once() {
        if !there_is() {
            return;
        }
        let images: Vec<_> = std::thread::scope(|scope| {
            let compile = |i: u32| {
                move || compile_for(90, &format!("{PRELUDE}{}", KERNEL.replace("256", &format!("{}", 32 * i))))
            };
            let threads: Vec<_> = (1..5).map(|i| scope.spawn(compile(i))).collect();
            threads.into_iter().map(|t| t.join().unwrap().unwrap()).collect()
        });
        assert!(images.iter().all(|image| image.starts_with(b"\x7fELF")));
    }
}
