//! The program finds the toolchain's LLVM where it was linked.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let rustc = std::env::var("RUSTC").expect("cargo sets it");
    let said = Command::new(rustc).args(["--print", "sysroot"]).output().expect("rustc runs");
    let sysroot = String::from_utf8(said.stdout).expect("a path in UTF-8");
    println!("cargo:rustc-link-arg-bins=-Wl,-rpath,{}/lib", sysroot.trim());
}
