//! Export and import of all entries of a cache as one file.
//!
//! The file is a header line, then entries, each preceded by its length. It may come from any source: its entries
//! undergo the same checks as files of the folder, and their file names follow from kind and key, not from names in the
//! file.

use super::entry::{MAX, parse};
use super::{Cache, Ignored, Key, Kind};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};

const MAGIC: &[u8; 16] = b"thalweg cache 1\n";

/// Result of an import.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Imported {
    /// Number of stored entries.
    pub entries: usize,
    /// Number of ignored entries by reason.
    pub ignored: BTreeMap<Ignored, usize>,
}

impl Cache {
    /// Writes all valid entries to one file; returns their number.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn export(&self, to: &mut impl Write) -> io::Result<usize> {
        to.write_all(MAGIC)?;
        let mut entries = 0;
        for &kind in &Kind::ALL {
            let Some(folder) = self.folder(kind) else { continue };
            let mut names: Vec<String> = folder.files().into_iter().map(|f| f.name).collect();
            names.sort();
            for (name, key) in names.iter().filter_map(|name| Some((name, Key::parse(name)?))) {
                let Ok(bytes) = folder.read(name, MAX) else { continue };
                if parse(&bytes).is_ok_and(|(own, own_key, _)| (own, own_key) == (kind, key)) {
                    to.write_all(&(bytes.len() as u32).to_le_bytes())?;
                    to.write_all(&bytes)?;
                    entries += 1;
                }
            }
        }
        to.flush().map(|()| entries)
    }

    /// Stores the valid entries of an exported file, up to the cache's limit.
    ///
    /// # Errors
    /// When it cannot be read or is not such a file.
    pub fn import(&self, from: &mut impl Read) -> io::Result<Imported> {
        read(from, self.limit(), |kind, key, payload| self.put(kind, &key, payload))
    }
}

/// Passes each valid entry of an exported file to `keep`, up to `limit` bytes of entries.
///
/// # Errors
/// When it cannot be read or is not such a file.
pub(super) fn read(from: &mut impl Read, limit: u64, mut keep: impl FnMut(Kind, Key, &[u8])) -> io::Result<Imported> {
    let mut magic = [0; MAGIC.len()];
    let read = from.read_exact(&mut magic);
    if read.is_err() || &magic != MAGIC {
        return Err(read
            .err()
            .filter(|e| e.kind() != io::ErrorKind::UnexpectedEof)
            .unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not written by `thalweg cache export`")));
    }
    let mut imported = Imported::default();
    let mut left = limit;
    loop {
        match next(from)? {
            Next::End => return Ok(imported),
            Next::Broken(why) => {
                *imported.ignored.entry(why).or_default() += 1;
                return Ok(imported);
            }
            Next::Entry(bytes) => {
                // An endless file is read up to the size limit.
                let Some(rest) = left.checked_sub(bytes.len() as u64 + 4) else {
                    *imported.ignored.entry(Ignored::TooLarge).or_default() += 1;
                    return Ok(imported);
                };
                left = rest;
                match parse(&bytes) {
                    Ok((kind, key, payload)) => {
                        keep(kind, key, payload);
                        imported.entries += 1;
                    }
                    Err(why) => *imported.ignored.entry(why).or_default() += 1,
                }
            }
        }
    }
}

enum Next {
    Entry(Vec<u8>),
    Broken(Ignored),
    End,
}

/// Reads the next entry without checking it.
fn next(from: &mut impl Read) -> io::Result<Next> {
    let mut length = vec![];
    from.take(4).read_to_end(&mut length)?;
    let length = match length[..] {
        [] => return Ok(Next::End),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
        _ => return Ok(Next::Broken(Ignored::Length)),
    };
    if length > MAX {
        return Ok(Next::Broken(Ignored::TooLarge));
    }
    // Grows with the data, not by the stated length.
    let mut bytes = vec![];
    from.take(length as u64).read_to_end(&mut bytes)?;
    Ok(if bytes.len() == length { Next::Entry(bytes) } else { Next::Broken(Ignored::Length) })
}
