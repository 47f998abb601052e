//! Invalid input of the macros is one error, at its token.
//!
//! Each case `NAME.rs` is compiled by rustc with the macros that cargo has just built, and fails with the messages in
//! `NAME.stderr`. `BLESS=1` writes these files. (Not by `trybuild`, which builds syn again in a target
//! directory of its own: 27 s.)

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The newest build of the macros beside this test: cargo has built it for the test, unless it was up to date.
fn macros() -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    let prefix = format!("{}thalweg_macros-", env::consts::DLL_PREFIX);
    let is_build = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&prefix) && name.ends_with(env::consts::DLL_SUFFIX)
    };
    let files = fs::read_dir(test.parent().expect("a folder")).expect("cargo's folder of builds");
    let builds = files.map(|file| file.expect("an entry of the folder").path()).filter(is_build);
    let age = |path: &PathBuf| fs::metadata(path).and_then(|file| file.modified()).expect("the time of a build");
    builds.max_by_key(age).expect("a build of thalweg-macros")
}

/// Compiles a case, and returns its errors.
fn compile(case: &Path, macros: &Path) -> String {
    let mut extern_macros = std::ffi::OsString::from("thalweg_macros=");
    extern_macros.push(macros);
    let done = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--emit=metadata", "--out-dir", env!("CARGO_TARGET_TMPDIR"), "--color=never"])
        .arg("--extern")
        .arg(extern_macros)
        .arg(case)
        .output()
        .expect("rustc runs");
    assert!(!done.status.success(), "{}: compiles", case.display());
    let errors = String::from_utf8(done.stderr).expect("messages in UTF-8");
    // The last one counts the others.
    let (errors, _) = errors.split_once("error: aborting due to").expect("an end of the errors");
    format!("{}\n", errors.trim_end())
}

#[test]
fn errors_of_macros() {
    let (macros, mut wrong) = (macros(), vec![]);
    let files = ["tests/errors", "tests/kernels"].map(|folder| fs::read_dir(folder).expect("a folder of cases"));
    let cases = files.into_iter().flatten().map(|file| file.expect("a case").path());
    let cases: Vec<_> = cases.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect();
    assert!(cases.len() >= 15, "only {} cases", cases.len());
    for case in cases {
        let (got, expected) = (compile(&case, &macros), case.with_extension("stderr"));
        if env::var_os("BLESS").is_some() {
            fs::write(&expected, &got).expect("the messages are written");
        }
        let wanted = fs::read_to_string(&expected).unwrap_or_default();
        if got != wanted {
            wrong.push(format!("{}:\n{got}\n--- and not\n{wanted}", case.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
