//! Binary format of an entry: header and payload.
//!
//! | bytes | |
//! |---|---|
//! | 0..8 | `thalweg` and a zero |
//! | 8..40 | BLAKE3 of all bytes after it |
//! | 40..44, 44..48 | format, kind |
//! | 48..64 | version of Thalweg, filled with zeros |
//! | 64..96 | key |
//! | 96..104 | bytes of the payload, which follows |
//!
//! Numbers are little-endian. All bytes are checked: an entry with any flipped bit is invalid.

use super::{Ignored, MAX_PAYLOAD};
use std::fmt;

const MAGIC: &[u8; 8] = b"thalweg\0";
const FORMAT: u32 = 1;
const HEADER: usize = 104;
/// Maximum bytes of an entry with its header.
pub(super) const MAX: usize = HEADER + MAX_PAYLOAD;

/// Kind of an entry, and the folder that contains it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Plan of a segment.
    Plan,
    /// Calibration of a device.
    Calibration,
    /// Measurements of plans.
    Measured,
    /// Machine code for a GPU.
    Code,
    /// Algorithm of a matrix product on a GPU.
    Product,
    /// Plan of a class of segments.
    Class,
}

impl Kind {
    /// All kinds, in order.
    pub const ALL: [Kind; 6] = [Kind::Plan, Kind::Calibration, Kind::Measured, Kind::Code, Kind::Product, Kind::Class];

    /// Name of the folder for entries of this kind.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Plan => "plan",
            Kind::Calibration => "calibration",
            Kind::Measured => "measured",
            Kind::Code => "code",
            Kind::Product => "product",
            Kind::Class => "class",
        }
    }
}

/// Key of an entry: a hash of everything on which it depends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key(pub(super) [u8; 32]);

impl Key {
    /// Hashes a list of parts. The same bytes in different parts give a different key.
    pub fn of(parts: &[&[u8]]) -> Key {
        let mut hash = blake3::Hasher::new();
        for part in parts {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Key(*hash.finalize().as_bytes())
    }

    /// Bytes of the key, to be hashed into another key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Parses the name of an entry's file.
    pub fn parse(name: &str) -> Option<Key> {
        let mut key = [0; 32];
        let (pairs, []) = name.as_bytes().as_chunks::<2>() else { return None };
        if pairs.len() != key.len() {
            return None;
        }
        for (byte, [high, low]) in key.iter_mut().zip(pairs) {
            let digit = |d: u8| match d {
                b'0'..=b'9' => Some(d - b'0'),
                b'a'..=b'f' => Some(d - b'a' + 10),
                _ => None,
            };
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Key(key))
    }
}

/// Displays the name of the entry's file.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// Version of Thalweg, as stored in entries.
fn version() -> [u8; 16] {
    let mut version = [0; 16];
    version.iter_mut().zip(env!("CARGO_PKG_VERSION").bytes()).for_each(|(to, b)| *to = b);
    version
}

/// Builds an entry with its header.
pub(super) fn to_bytes(kind: Kind, key: &Key, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend(MAGIC);
    bytes.extend([0; 32]);
    bytes.extend(FORMAT.to_le_bytes());
    bytes.extend((kind as u32).to_le_bytes());
    bytes.extend(version());
    bytes.extend(key.0);
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(payload);
    let checksum = blake3::hash(&bytes[40..]);
    bytes[8..40].copy_from_slice(checksum.as_bytes());
    bytes
}

/// Parses an entry into kind, key and payload.
pub(super) fn parse(bytes: &[u8]) -> Result<(Kind, Key, &[u8]), Ignored> {
    let (header, payload) = bytes.split_at_checked(HEADER).ok_or(Ignored::Length)?;
    let part = |at: usize, n: usize| &header[at..at + n];
    if part(0, 8) != MAGIC {
        return Err(Ignored::NotAnEntry);
    }
    if part(40, 4) != FORMAT.to_le_bytes() {
        return Err(Ignored::Format);
    }
    if part(48, 16) != version() {
        return Err(Ignored::Version);
    }
    if part(96, 8) != (payload.len() as u64).to_le_bytes() {
        return Err(Ignored::Length);
    }
    if blake3::hash(&bytes[40..]).as_bytes() != part(8, 32) {
        return Err(Ignored::Damaged);
    }
    let kind = Kind::ALL.into_iter().find(|&k| part(44, 4) == (k as u32).to_le_bytes()).ok_or(Ignored::Format)?;
    let mut key = [0; 32];
    key.copy_from_slice(part(64, 32));
    Ok((kind, Key(key), payload))
}

/// Payload of an entry that was read for a given kind and key.
pub(super) fn payload(mut bytes: Vec<u8>, kind: Kind, key: &Key) -> Result<Vec<u8>, Ignored> {
    let (own_kind, own_key, _) = parse(&bytes)?;
    if (own_kind, own_key) != (kind, *key) {
        return Err(Ignored::Name);
    }
    bytes.drain(..HEADER);
    Ok(bytes)
}
