//! Writes compiled code to a folder for inspection: `THALWEG_DUMP`.

use crate::disk::Key;
use crate::environment;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Writes the results of `content` to the folder in `THALWEG_DUMP`, if set, as `NAME-HASH.ENDING` for each ending; the
/// hash is that of the first one. Write errors are logged by `tracing`.
pub fn dump(name: &str, content: impl FnOnce() -> Vec<(&'static str, Vec<u8>)>) {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let Some(folder) = FOLDER.get_or_init(|| environment::DUMP.path()) else { return };
    let content = content();
    let key = Key::of(&[&content[0].1]).to_string();
    for (ending, bytes) in content {
        let path = folder.join(format!("{name}-{}.{ending}", &key[..12]));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, bytes));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "a dump is not written");
        }
    }
}
