//! In place of the crate of this name, for build scripts: what cubecl-llvm needs of LLVM comes from the Rust toolchain.
//!
//! The original downloads an archive of LLVM 23.1 from GitHub. The toolchain has LLVM as a shared library (Rust 1.95: 22.1),
//! with all of the C functions that cubecl calls. Its headers are not needed: what the original's wrappers take from them is
//! declared here.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The functions of `llvm_sys::target`, which LLVM has in a header only: each is one initializer for each target. Only the
/// processor's own target is wanted.
const WRAPPERS: &str = r#"
#if defined(__x86_64__)
#define OWN(kind) LLVMInitializeX86##kind
#elif defined(__aarch64__)
#define OWN(kind) LLVMInitializeAArch64##kind
#endif
#define WRAPPER(name, kind) void OWN(kind)(void); void LLVM_InitializeAll##name(void) { OWN(kind)(); }
WRAPPER(TargetInfos, TargetInfo)
WRAPPER(Targets, Target)
WRAPPER(TargetMCs, TargetMC)
WRAPPER(AsmPrinters, AsmPrinter)
WRAPPER(AsmParsers, AsmParser)
WRAPPER(Disassemblers, Disassembler)
int LLVM_InitializeNativeTarget(void) { OWN(TargetInfo)(); OWN(Target)(); OWN(TargetMC)(); return 0; }
int LLVM_InitializeNativeAsmPrinter(void) { OWN(AsmPrinter)(); return 0; }
int LLVM_InitializeNativeAsmParser(void) { OWN(AsmParser)(); return 0; }
int LLVM_InitializeNativeDisassembler(void) { OWN(Disassembler)(); return 0; }
"#;

/// What cubecl-llvm's build script calls.
pub mod llvm_sys {
    /// Says to cargo what is linked.
    pub fn link() -> super::Outcome<()> {
        let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
        let source = out.join("target_wrappers.c");
        std::fs::write(&source, super::WRAPPERS)?;
        cc::Build::new().file(&source).opt_level(2).compile("target_wrappers");
        let folder = super::folder()?;
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-lib=dylib:+verbatim={}", super::library(&folder)?);
        Ok(())
    }
}

/// The folder of the toolchain's shared libraries.
pub fn folder() -> Outcome<PathBuf> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_string());
    let said = Command::new(rustc).args(["--print", "sysroot"]).output()?;
    Ok(Path::new(String::from_utf8(said.stdout)?.trim()).join("lib"))
}

/// The name of its LLVM: the file, not the linker script beside it.
fn library(folder: &Path) -> Outcome<String> {
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with("libLLVM.so.") {
            return Ok(name);
        }
    }
    Err(format!("no shared LLVM in {}", folder.display()).into())
}
