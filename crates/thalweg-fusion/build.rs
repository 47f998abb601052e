//! Build script: gives the planner a version, a hash of all sources it depends on. A plan on disk is used only by the
//! very planner that made it.

use std::path::{Path, PathBuf};

fn main() {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    // Crates that it depends on are in sibling folders; outside of the workspace they have versions.
    for folder in ["src", "../thalweg-ir/src", "../thalweg-kernel/src"] {
        println!("cargo::rerun-if-changed={folder}");
        let mut files = vec![];
        collect(Path::new(folder), &mut files);
        files.sort();
        for file in files {
            let text = std::fs::read(&file).unwrap_or_default();
            let name = file.to_string_lossy().replace('\\', "/");
            for &b in name.as_bytes().iter().chain(&text) {
                hash = (hash ^ b as u64).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    println!("cargo::rustc-env=THALWEG_PLANNER={hash:016x}");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}
