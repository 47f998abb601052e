//! `thalweg cache`: what is kept on disk for later processes, and moving it.

use crate::failure::{During, Outcome, failure};
use crate::report;
use clap::Subcommand;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use thalweg::disk::{self, Cache, Contents, Ignored};

/// Arguments of `thalweg cache`.
#[derive(clap::Args, Debug)]
pub struct CacheCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show the folder, what is in it, and what is ignored
    Info,
    /// Remove everything in it
    Clear,
    /// Write all of it to one file
    Export {
        /// The file
        file: PathBuf,
    },
    /// Add what such a file holds
    Import {
        /// The file
        file: PathBuf,
    },
}

impl CacheCommand {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let cache = open()?;
        match self.action {
            Action::Info => info(&cache),
            Action::Clear => {
                let files = counted(cache.clear(), "file", "files");
                crate::out!("removed {files} from {}", cache.path().display());
            }
            Action::Export { file } => {
                let mut to = BufWriter::new(File::create(&file).during(file.display())?);
                let entries = cache.export(&mut to).during(file.display())?;
                crate::out!("wrote {} to {}", counted(entries, "entry", "entries"), file.display());
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

/// The cache of the environment.
fn open() -> Outcome<Cache> {
    let place = disk::place().ok_or_else(|| failure("the disk cache is off (THALWEG_CACHE, HOME)"))?;
    Cache::open(&place).map_err(|why| failure(format!("{} is not used: {why}", place.display())))
}

/// One line on where the cache is and how much is in it.
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
        // What a file is called may be anything.
        let name: String = name.chars().filter(|c| !c.is_control()).take(16).collect();
        crate::out!("  {}/{name}: {why}", c.kind.name());
    }
}
