//! `thalweg cache`: inspects, clears and moves the disk cache.

use crate::failure::{During, Outcome, failure};
use crate::report;
use clap::Subcommand;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg::disk::{self, Cache, Contents, Ignored};
use thalweg::environment;

/// Arguments of `thalweg cache`.
#[derive(clap::Args, Debug)]
pub struct CacheCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show the folder, its contents, and ignored files
    Info,
    /// Remove all entries
    Clear,
    /// Write all entries to one file
    Export {
        /// Output file
        file: PathBuf,
    },
    /// Add the entries of an exported file
    Import {
        /// File to import
        file: PathBuf,
    },
    /// Run a program with all plans searched for at once, so that the cache holds them for later runs
    Warm {
        /// Write the entries to this file and none to the folder, for a program to ship (`thalweg::disk::ship`)
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,

        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
        program: Vec<OsString>,
    },
}

impl CacheCommand {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        if let Action::Warm { to: Some(file), program } = &self.action {
            return warm_file(file, program);
        }
        let cache = open()?;
        match self.action {
            Action::Warm { program, .. } => {
                let (before, _) = total(&cache.contents());
                warm(&program, &[])?;
                let (after, bytes) = total(&cache.contents());
                let added = counted(after.saturating_sub(before), "entry", "entries");
                crate::out!("{added} more in {}, {} in all", cache.path().display(), report::size(bytes));
            }
            Action::Info => info(&cache),
            Action::Clear => {
                let files = counted(cache.clear(), "file", "files");
                crate::out!("removed {files} from {}", cache.path().display());
            }
            Action::Export { file } => {
                written(&cache, &file)?;
            }
            Action::Import { file } => {
                let mut from = BufReader::new(File::open(&file).during(file.display())?);
                let imported = cache.import(&mut from).during(file.display())?;
                crate::out!("took {} from {}", counted(imported.entries, "entry", "entries"), file.display());
                for (why, n) in imported.ignored {
                    crate::out!("ignored {n}: {why}");
                }
            }
        }
        Ok(())
    }
}

/// Runs a program with tiers off, so that plans are searched for when they are first needed.
fn warm(program: &[OsString], environment: &[(&str, &OsStr)]) -> Outcome {
    let name = program[0].to_string_lossy();
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).env(environment::TIERS.name, "off").envs(environment.iter().copied());
    let status = command.status().during(&name)?;
    if status.success() { Ok(()) } else { Err(failure(format!("{name}: {status}"))) }
}

/// [`warm`] with a temporary folder as cache, whose entries are then written to a file. Calibration is off: plans are
/// made with the typical cost constants of the device, as processes look them up before anything has been measured.
fn warm_file(file: &Path, program: &[OsString]) -> Outcome {
    let place = std::env::temp_dir().join(format!("thalweg-warm-{}", std::process::id()));
    let cache = Cache::open(&place).map_err(|why| failure(format!("{} is not used: {why}", place.display())))?;
    let environment = [(environment::CACHE.name, place.as_os_str()), (environment::CALIBRATE.name, OsStr::new("off"))];
    let warmed = warm(program, &environment).and_then(|()| written(&cache, file));
    // Errors are ignored; a folder that remains is one of the user's temporary files.
    let _ = std::fs::remove_dir_all(&place);
    warmed
}

/// Writes all entries of a cache to one file.
fn written(cache: &Cache, file: &Path) -> Outcome {
    let mut to = BufWriter::new(File::create(file).during(file.display())?);
    let entries = cache.export(&mut to).during(file.display())?;
    crate::out!("wrote {} to {}", counted(entries, "entry", "entries"), file.display());
    Ok(())
}

/// Opens the cache that the environment selects.
fn open() -> Outcome<Cache> {
    let place = disk::place().ok_or_else(|| failure("the disk cache is off (THALWEG_CACHE, HOME)"))?;
    Cache::open(&place).map_err(|why| failure(format!("{} is not used: {why}", place.display())))
}

/// One line with the cache's folder and size.
pub fn summary() -> String {
    let Some(place) = disk::place() else { return "off".into() };
    match Cache::open(&place) {
        Err(why) => format!("off: {} - {why}", place.display()),
        Ok(cache) => {
            let contents = cache.contents();
            let (entries, bytes) = total(&contents);
            format!("{}: {}, {}", place.display(), counted(entries, "entry", "entries"), report::size(bytes))
        }
    }
}

fn total(contents: &[Contents]) -> (usize, u64) {
    (contents.iter().map(|c| c.entries).sum(), contents.iter().map(|c| c.bytes).sum())
}

fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn info(cache: &Cache) {
    crate::out!("folder        {}", cache.path().display());
    let contents = cache.contents();
    for c in &contents {
        crate::out!(
            "{:<13} {:<14} {:>12}",
            c.kind.name(),
            counted(c.entries, "entry", "entries"),
            report::size(c.bytes)
        );
    }
    for (device, counts) in thalweg::calibrated(cache) {
        // File contents are untrusted.
        let device: String = device.chars().filter(|c| !c.is_control()).take(120).collect();
        crate::out!("  calibrated  {device}{}", if counts { "" } else { " (by another version)" });
    }
    let (entries, bytes) = total(&contents);
    crate::out!("{:<13} {:<14} {:>12}", "all", counted(entries, "entry", "entries"), report::size(bytes));
    crate::out!("at most       {:>27}", report::size(cache.limit()));
    let ignored: Vec<(&Contents, &(String, Ignored))> =
        contents.iter().flat_map(|c| c.ignored.iter().map(move |i| (c, i))).collect();
    if ignored.is_empty() {
        return;
    }
    crate::out!("ignored       {}", counted(ignored.len(), "file", "files"));
    for (c, (name, why)) in ignored.iter().take(20) {
        // File names are untrusted.
        let name: String = name.chars().filter(|c| !c.is_control()).take(16).collect();
        crate::out!("  {}/{name}: {why}", c.kind.name());
    }
}
