//! All entries of a cache in one file, to be carried to another machine.
//!
//! The file is a line that says what it is, and entry after entry with its length before it. It may come from anywhere:
//! what is taken from it goes through the same checks as a file of the folder, and the name under which it is kept
//! follows from its kind and key, not from anything that the file says of names.

use super::entry::{MAX, parse};
use super::{Cache, Ignored, Key, Kind};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};

const MAGIC: &[u8; 16] = b"thalweg cache 1\n";

/// What became of the entries of an imported file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Imported {
    /// Entries that were kept.
    pub entries: usize,
    /// How many were not, and why.
    pub ignored: BTreeMap<Ignored, usize>,
}

impl Cache {
    /// Writes all good entries to one file; how many those are.
    ///
    /// # Errors
    /// Where they cannot be written.
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

    /// Keeps the good entries of an exported file, as many as the cache may hold.
    ///
    /// # Errors
    /// Where it cannot be read, or is no such file.
    pub fn import(&self, from: &mut impl Read) -> io::Result<Imported> {
        read(from, self.limit(), |kind, key, payload| self.put(kind, &key, payload))
    }
}

/// Gives each good entry of an exported file to `keep`, up to so many bytes of entries.
///
/// # Errors
/// Where it cannot be read, or is no such file.
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
                // A file that never ends is left where the cache would be full.
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

/// The next entry, whatever is in it.
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
    // Grows with what is there, not with what the length says.
    let mut bytes = vec![];
    from.take(length as u64).read_to_end(&mut bytes)?;
    Ok(if bytes.len() == length { Next::Entry(bytes) } else { Next::Broken(Ignored::Length) })
}
