//! Each kind of variable, with permitted and similar invalid values.

use super::*;
use std::path::Path;

fn read(variable: &Variable, text: &str) -> Result<Option<Value>, String> {
    variable.parse(Some(OsStr::new(text))).map_err(|m| m.to_string())
}

#[test]
fn what_is_not_set_or_empty_has_no_value() {
    for variable in ALL {
        assert_eq!(variable.parse(None), Ok(None));
        assert_eq!(read(variable, ""), Ok(None));
    }
}

#[test]
fn words_are_taken_in_any_case_and_others_are_mistakes() {
    assert_eq!(read(&ISA, "avx2"), Ok(Some(Value::Word("avx2"))));
    assert_eq!(read(&ISA, " TILE "), Ok(Some(Value::Word("tile"))));
    assert_eq!(
        read(&ISA, "avx3").unwrap_err(),
        "THALWEG_ISA=avx3: it may be avx512-amx, avx512-narrow, avx512, avx2 or tile"
    );
    for (variable, wrong) in [(&FUSION, "of"), (&STRICT, "true"), (&DEFER, "0"), (&CUDA_GRAPHS, "no")] {
        let why = read(variable, wrong).unwrap_err();
        assert_eq!(why, format!("{}={wrong}: it may be on or off", variable.name));
    }
}

#[test]
fn numbers_are_in_their_range() {
    assert_eq!(read(&THREADS, "8"), Ok(Some(Value::Number(8))));
    for wrong in ["0", "-1", "two", "8 threads", "99999999"] {
        let why = read(&THREADS, wrong).unwrap_err();
        assert!(why.ends_with("it may be a number of threads, 1 to 1048576"), "{why}");
    }
    assert_eq!(read(&SEARCH, "full"), Ok(Some(Value::Word("full"))));
    assert_eq!(read(&SEARCH, "0"), Ok(Some(Value::Number(0))));
    let why = read(&SEARCH, "ful").unwrap_err();
    assert!(why.ends_with("it may be none, full, or a number of operations"), "{why}");
    assert_eq!(read(&CALIBRATE, "Off"), Ok(Some(Value::Word("off"))));
    assert!(read(&CALIBRATE, "1s").is_err());
}

#[test]
fn shares_are_percentages() {
    let percent = ["5", "5%", "2.5 %", "0", "100"].map(|t| read(&AUTOTUNE, t).unwrap());
    assert_eq!(percent, [0.05, 0.05, 0.025, 0.0, 1.0].map(|s| Some(Value::Share(s))));
    assert!(["101", "-1", "on", "NaN", "%"].iter().all(|t| read(&AUTOTUNE, t).is_err()));
}

#[test]
fn bytes_have_units() {
    let bytes = ["4096", "512M", "4G", "1 KiB", "2tb"].map(|t| read(&MEMORY_LIMIT, t).unwrap());
    assert_eq!(bytes, [4096, 512 << 20, 4 << 30, 1024, 2 << 40].map(|n| Some(Value::Number(n))));
    for wrong in ["many", "99999999999G", "4Q", "G", "1.5G", "-1"] {
        let why = read(&MEMORY_LIMIT, wrong).unwrap_err();
        assert!(why.ends_with("it may be a number of bytes such as 512M or 4G"), "{why}");
    }
}

#[test]
fn devices_have_names() {
    for right in ["cpu", "cuda", "cuda:0", "cuda:17", "cuda:emulated"] {
        assert_eq!(read(&DEVICE, right), Ok(Some(Value::Text(right.into()))));
    }
    assert!(["gpu", "cuda:", "cuda0", "cuda:x", "cpu:0"].iter().all(|t| read(&DEVICE, t).is_err()));
}

#[test]
fn a_bare_word_is_no_folder_that_is_to_be_made() {
    let path = |p: &str| Ok(Some(Value::Path(p.into())));
    assert_eq!(read(&CACHE, "OFF"), Ok(Some(Value::Word("off"))));
    assert_eq!(read(&CACHE, "/a/b"), path("/a/b"));
    assert_eq!(read(&CACHE, "./of"), path("./of"));
    // Tests run in the folder of their package.
    assert_eq!(read(&CACHE, "src"), path("src"));
    assert!(read(&CACHE, "of").unwrap_err().starts_with("THALWEG_CACHE=of: it may be off, or a folder"));
    // Only the cache may be off.
    assert!(read(&DUMP, "off").is_err());
}

#[test]
fn libraries_are_there_or_the_loaders_to_find() {
    let this = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    assert_eq!(read(&NVRTC, this.to_str().unwrap()), Ok(Some(Value::Path(this))));
    assert_eq!(read(&NVRTC, "libnvrtc.so.13"), Ok(Some(Value::Path("libnvrtc.so.13".into()))));
    assert_eq!(read(&NVRTC, "/there/is/none").unwrap_err(), "THALWEG_NVRTC=/there/is/none: there is no such file");
    assert_eq!(read(&EMULATE_NVRTC, "80, 90"), Ok(Some(Value::Numbers(vec![80, 90]))));
    assert!(read(&EMULATE_NVRTC, "80;90").is_err());
}

#[cfg(unix)]
#[test]
fn what_is_no_text_is_a_path_or_a_mistake() {
    use std::os::unix::ffi::OsStrExt;
    let text = OsStr::from_bytes(b"/tmp/\xff");
    assert_eq!(CACHE.parse(Some(text)), Ok(Some(Value::Path(text.into()))));
    assert!(ISA.parse(Some(text)).is_err());
}

#[test]
fn unknown_variables_are_reported_with_the_nearest_name() {
    let names = ["THALWEG_THREAD", "PATH", "THALWEG_ISA", "THALWEG_CUDA_GRAPH", "thalweg_isa"].map(OsString::from);
    let unknown = unknown_of(names.into_iter());
    let reported: Vec<String> = unknown.iter().map(Unknown::to_string).collect();
    assert_eq!(
        reported,
        [
            "THALWEG_CUDA_GRAPH is set, and nothing reads it: is THALWEG_CUDA_GRAPHS meant?",
            "THALWEG_THREAD is set, and nothing reads it: is THALWEG_THREADS meant?",
        ]
    );
}

#[test]
fn former_names_are_read_with_a_warning() {
    let environment = |set: &'static [(&str, &str)]| {
        move |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, text)| OsString::from(text))
    };
    let read = |set| AUTOTUNE.read_from(&environment(set)).map_err(|m| m.to_string());
    let warnings = |set| outdated_of(&environment(set)).iter().map(Outdated::to_string).collect::<Vec<_>>();

    assert_eq!(read(&[("THALWEG_MEASURE", "5")]), Ok(Some(Value::Share(0.05))));
    assert_eq!(
        warnings(&[("THALWEG_MEASURE", "5")]),
        ["THALWEG_MEASURE is now called THALWEG_AUTOTUNE; the former name is read for one more version"]
    );
    let wrong = read(&[("THALWEG_MEASURE", "on")]).unwrap_err();
    assert_eq!(wrong, "THALWEG_MEASURE=on: it may be off, or a percentage from 0 to 100");
    assert_eq!(unknown_of(["THALWEG_MEASURE".into()].into_iter()), []);

    // The new name takes precedence; an empty one counts as not set.
    let both = &[("THALWEG_MEASURE", "5"), ("THALWEG_AUTOTUNE", "off")];
    assert_eq!(read(both), Ok(Some(Value::Word("off"))));
    assert_eq!(
        warnings(both),
        ["THALWEG_MEASURE is now called THALWEG_AUTOTUNE, which is set: THALWEG_MEASURE is ignored"]
    );
    let empty = &[("THALWEG_MEASURE", "5"), ("THALWEG_AUTOTUNE", "")];
    assert_eq!(read(empty), Ok(Some(Value::Share(0.05))));

    assert_eq!(read(&[("THALWEG_AUTOTUNE", "off")]), Ok(Some(Value::Word("off"))));
    assert!(warnings(&[("THALWEG_AUTOTUNE", "off")]).is_empty());
}

/// All sources of the workspace, with their paths.
fn sources() -> Vec<(String, String)> {
    let mut left = vec![Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()];
    let mut all = vec![];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                all.push((path.display().to_string(), std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    all
}

/// Checks the module's invariant that no other code reads variables whose name starts with `THALWEG_`.
#[test]
fn nothing_else_reads_our_variables() {
    let sources = sources();
    assert!(sources.len() > 100, "these are not the sources of the workspace");
    for (path, text) in sources {
        let here = path.contains("thalweg-runtime/src/environment");
        for reader in ["env::var(\"THALWEG_", "env::var_os(\"THALWEG_"] {
            assert!(here || !text.contains(reader), "{path} reads a variable by itself");
        }
    }
}

#[test]
fn every_variable_is_listed_once_and_read_by_somebody() {
    let sources = sources();
    for (n, variable) in ALL.iter().enumerate() {
        assert!(ALL[..n].iter().all(|v| v.name != variable.name), "{} is listed twice", variable.name);
        let name = format!("environment::{}", &variable.name["THALWEG_".len()..]);
        // This one is read by a shell script.
        let elsewhere = variable.name == BENCH_VENV.name;
        assert!(elsewhere || sources.iter().any(|(_, text)| text.contains(&name)), "nothing reads {}", variable.name);
    }
}
