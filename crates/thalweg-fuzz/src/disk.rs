//! Disk cache used while the fuzzer runs, and its corruption.
//!
//! The cache's own tests cover wrong checksums. Here the checksum is right and the plan is another one: a different
//! grouping and storage of the same operations, most of them illegal. Strict values must stay the same whatever the
//! plan becomes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use thalweg_runtime::Error;
use thalweg_runtime::disk::{self, Cache, Ignored, Kind};

/// Opens a cache in a folder that stores machine code only.
pub fn code(folder: &Path) -> Result<Cache, Error> {
    Ok(opened(folder)?.with_only(Kind::Code))
}

fn opened(folder: &Path) -> Result<Cache, Error> {
    let refused = |why: Ignored| Error::File { path: folder.display().to_string(), message: why.to_string() };
    Cache::open(folder).map_err(refused)
}

/// Disk cache that is active, with its folder.
pub struct Disk {
    cache: Arc<Cache>,
    folder: PathBuf,
    random: Mutex<fastrand::Rng>,
}

impl Disk {
    /// Activates a cache in a folder.
    pub fn open(folder: &Path) -> Result<Disk, Error> {
        disk::set(Some(opened(folder)?));
        let cache = disk::cache().expect("just set");
        Ok(Disk { cache, folder: folder.to_owned(), random: Mutex::new(fastrand::Rng::with_seed(1)) })
    }

    /// Removes all entries of the cache.
    pub fn clear(&self) {
        self.cache.clear();
    }

    /// Replaces each cached plan by another plan or, the first time, by bytes that are no plan.
    pub fn disturb(&self, turn: usize) {
        let names = std::fs::read_dir(self.folder.join(Kind::Plan.name())).into_iter().flatten().flatten();
        for name in names.filter_map(|e| e.file_name().into_string().ok()) {
            let Some(key) = disk::Key::parse(&name) else { continue };
            let Some(plan) = self.cache.get(Kind::Plan, &key) else { continue };
            self.cache.put(Kind::Plan, &key, &self.disturbed(&plan, turn));
        }
    }

    fn disturbed(&self, plan: &[u8], turn: usize) -> Vec<u8> {
        let random = &mut *self.random.lock().unwrap_or_else(|e| e.into_inner());
        let text = String::from_utf8_lossy(plan);
        let Some(lists) = text.split_once("[[").and_then(|(_, rest)| rest.split_once("]]")) else {
            return plan.to_vec();
        };
        let list = |l: &str| l.split(',').filter_map(|n| n.parse::<u32>().ok()).collect();
        let mut kernels: Vec<Vec<u32>> = lists.0.split("],[").map(list).collect();
        let most = kernels.iter().flatten().copied().max().unwrap_or(0);
        for _ in 0..=random.usize(..3) {
            let (a, b) = (random.usize(..kernels.len()), random.usize(..kernels.len()));
            match random.usize(..4) {
                // Merge two kernels.
                0 if a != b => {
                    let mut other = std::mem::take(&mut kernels[b]);
                    kernels[a].append(&mut other);
                }
                // Store one more result, in an existing kernel or in a new one.
                0 | 1 => kernels[a].push(random.u32(..=most)),
                2 => kernels.push(vec![random.u32(..=most)]),
                // Store one result less, or in another kernel.
                _ => {
                    let moved = kernels[a].pop();
                    if random.bool() {
                        kernels[b].extend(moved);
                    }
                }
            }
            kernels.retain(|k| !k.is_empty());
            kernels.iter_mut().for_each(|k| k.sort_unstable());
            if kernels.is_empty() {
                break;
            }
        }
        let mut text = format!("{{\"complete\":true,\"kernels\":{kernels:?}}}").into_bytes();
        if turn == 0 && !text.is_empty() {
            let at = random.usize(..text.len());
            text[at] = random.u8(..);
        }
        text
    }
}
