//! NumPy archives (`.npz`): zip files of `.npy` files, stored or deflated.
//!
//! Of the zip format it reads only what NumPy writes: the central directory, stored and deflated members, and zip64
//! fields. Sizes and checksums are checked. A member that declares a size beyond the file, or inflates to more than its
//! declared size, is an error before that size is allocated.

use super::{atomic, npy, npy_complex, refused};
use crate::{Complex, Error, Tensor};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Opened archive of named arrays (`.npz`).
///
/// ```
/// use thalweg::{Npz, Tensor, write_npz};
/// let path = std::env::temp_dir().join(format!("thalweg-doc-{}.npz", std::process::id()));
/// write_npz(&path, [("x", &Tensor::arange(3)), ("y", &Tensor::new([true]))])?;
/// let file = Npz::open(&path)?;
/// assert_eq!(file.names().collect::<Vec<_>>(), ["x", "y"]);
/// assert_eq!(file.get("x")?.to_vec::<f32>()?, [0.0, 1.0, 2.0]);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), thalweg::Error>(())
/// ```
pub struct Npz {
    path: String,
    bytes: Vec<u8>,
    members: Vec<Member>,
    places: BTreeMap<String, usize>,
}

/// Entry of a zip file's central directory.
struct Member {
    name: String,
    method: u16,
    encrypted: bool,
    checksum: u32,
    packed: u64,
    size: u64,
    header: u64,
}

impl Npz {
    /// Reads an archive, as `numpy.load`; arrays are unpacked on request.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read, or is damaged or truncated.
    pub fn open(path: impl AsRef<Path>) -> Result<Npz, Error> {
        let shown = path.as_ref().display().to_string();
        let bytes = std::fs::read(path.as_ref()).map_err(|e| refused(&shown, e))?;
        Npz::of(shown, bytes)
    }

    /// Parses the content of a file.
    ///
    /// # Errors
    /// As [`open`](Npz::open); the path of the error is `<bytes>`.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Npz, Error> {
        Npz::of("<bytes>".to_string(), bytes)
    }

    fn of(path: String, bytes: Vec<u8>) -> Result<Npz, Error> {
        let members = table(&bytes).map_err(|message| refused(&path, message))?;
        let mut places = BTreeMap::new();
        for (at, member) in members.iter().enumerate() {
            if places.insert(member.name.clone(), at).is_some() {
                return Err(refused(&path, format!("holds {:?} twice", member.name)));
            }
        }
        Ok(Npz { path, bytes, members, places })
    }

    /// The names of the arrays, without `.npy`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|m| m.name.as_str())
    }

    /// Reads an array onto the default device.
    ///
    /// # Errors
    /// [`Error::File`] when there is none with that name, it is damaged, or its elements have another type; another
    /// error when the device has no memory for it.
    pub fn get(&self, name: &str) -> Result<Tensor, Error> {
        let (shown, bytes) = self.member(name)?;
        npy::parse(&bytes, &shown)
    }

    /// Reads an array of `complex64` or `complex128` onto the default device.
    ///
    /// # Errors
    /// As [`get`](Npz::get), and when the array has real numbers.
    pub fn get_complex(&self, name: &str) -> Result<Complex, Error> {
        let (shown, bytes) = self.member(name)?;
        npy_complex::parse(&bytes, &shown)
    }

    /// Display name of an array for errors, and its bytes.
    fn member(&self, name: &str) -> Result<(String, Cow<'_, [u8]>), Error> {
        let Some(&at) = self.places.get(name) else {
            return Err(refused(&self.path, format!("holds no array {name:?}")));
        };
        let shown = format!("{}: {name}.npy", self.path);
        let bytes = self.members[at].unpacked(&self.bytes).map_err(|message| refused(&shown, message))?;
        Ok((shown, bytes))
    }
}

impl Member {
    /// Uncompressed bytes of a member, checked against its size and checksum.
    fn unpacked<'a>(&self, file: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
        let cut = "truncated";
        if self.encrypted {
            return Err("is encrypted".to_string());
        }
        let at = usize::try_from(self.header).ok().and_then(|at| file.get(at..)).ok_or(cut)?;
        let mut fields = Fields(at);
        if fields.u32().ok_or(cut)? != 0x0403_4b50 {
            return Err("its header is damaged".to_string());
        }
        fields.skip(22).ok_or(cut)?;
        let (name, extra) = (fields.u16().ok_or(cut)?, fields.u16().ok_or(cut)?);
        fields.skip(name as usize + extra as usize).ok_or(cut)?;
        let packed = usize::try_from(self.packed).ok().and_then(|n| fields.0.get(..n)).ok_or(cut)?;
        let bytes = match self.method {
            0 => Cow::Borrowed(packed),
            8 => {
                let most = usize::try_from(self.size).map_err(|_| "is too large")?;
                let out = miniz_oxide::inflate::decompress_to_vec_with_limit(packed, most);
                Cow::Owned(out.map_err(|e| format!("cannot be inflated: {e}"))?)
            }
            other => return Err(format!("is packed by method {other}; read are 0 (stored) and 8 (deflated)")),
        };
        if bytes.len() as u64 != self.size {
            return Err(format!("has {} bytes, not {}", bytes.len(), self.size));
        }
        if checksum(&bytes) != self.checksum {
            return Err("its checksum is wrong: the file is damaged".to_string());
        }
        Ok(bytes)
    }
}

/// Reader of little-endian fields.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn skip(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
    fn number<const N: usize>(&mut self) -> Option<u64> {
        Some(self.skip(N)?.iter().rev().fold(0, |n, &b| n << 8 | b as u64))
    }
    fn u16(&mut self) -> Option<u16> {
        self.number::<2>().map(|n| n as u16)
    }
    fn u32(&mut self) -> Option<u32> {
        self.number::<4>().map(|n| n as u32)
    }
    fn u64(&mut self) -> Option<u64> {
        self.number::<8>()
    }
}

/// Parses the central directory at the end of a zip file.
fn table(file: &[u8]) -> Result<Vec<Member>, String> {
    // The end record has 22 bytes and a comment of up to 65535.
    let earliest = file.len().saturating_sub(22 + 65535);
    let found = file[earliest..].windows(4).rposition(|w| w == b"PK\x05\x06");
    let end = earliest + found.ok_or("not a .npz file: it has no table of a zip file at its end")?;
    let cut = "the table at its end is damaged";
    let mut fields = Fields(&file[end + 4..]);
    fields.skip(6).ok_or(cut)?;
    let mut count = fields.u16().ok_or(cut)? as u64;
    let (mut size, mut start) = (fields.u32().ok_or(cut)? as u64, fields.u32().ok_or(cut)? as u64);
    if count == 0xffff || size == 0xffff_ffff || start == 0xffff_ffff {
        // A locator of 20 bytes precedes the end record, with the offset of the zip64 record.
        let locator = end.checked_sub(20).and_then(|at| file.get(at..end)).ok_or(cut)?;
        let mut locator = Fields(locator);
        if locator.u32() == Some(0x0706_4b50) {
            locator.skip(4);
            let at = locator.u64().and_then(|at| usize::try_from(at).ok()).and_then(|at| file.get(at..)).ok_or(cut)?;
            let mut long = Fields(at);
            if long.u32() != Some(0x0606_4b50) {
                return Err(cut.to_string());
            }
            long.skip(28).ok_or(cut)?;
            count = long.u64().ok_or(cut)?;
            (size, start) = (long.u64().ok_or(cut)?, long.u64().ok_or(cut)?);
        }
    }
    let range = start.checked_add(size).and_then(|end| Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?));
    let mut fields = Fields(range.and_then(|range| file.get(range)).ok_or(cut)?);
    let mut members = Vec::new();
    for _ in 0..count {
        members.push(member(&mut fields).ok_or(cut)?.map_err(str::to_string)?);
    }
    Ok(members)
}

/// Parses one entry of the directory; `None` if it is truncated.
fn member(fields: &mut Fields<'_>) -> Option<Result<Member, &'static str>> {
    if fields.u32()? != 0x0201_4b50 {
        return None;
    }
    fields.skip(4)?;
    let (flags, method) = (fields.u16()?, fields.u16()?);
    fields.skip(4)?;
    let checksum = fields.u32()?;
    let (mut packed, mut size) = (fields.u32()? as u64, fields.u32()? as u64);
    let lengths = [fields.u16()?, fields.u16()?, fields.u16()?];
    fields.skip(8)?;
    let mut header = fields.u32()? as u64;
    let name = fields.skip(lengths[0] as usize)?;
    let mut extra = Fields(fields.skip(lengths[1] as usize)?);
    fields.skip(lengths[2] as usize)?;
    while let (Some(id), Some(length)) = (extra.u16(), extra.u16()) {
        let mut long = Fields(extra.skip(length as usize)?);
        // Zip64: only the fields that overflowed, in this order.
        if id == 1 {
            for field in [&mut size, &mut packed, &mut header] {
                if *field == 0xffff_ffff {
                    *field = long.u64()?;
                }
            }
        }
    }
    let Ok(name) = std::str::from_utf8(name) else { return Some(Err("the name of an array is not text")) };
    let name = name.strip_suffix(".npy").unwrap_or(name).to_string();
    Some(Ok(Member { name, method, encrypted: flags & 1 != 0, checksum, packed, size, header }))
}

/// CRC-32 as in zip files (polynomial 0xedb88320).
fn checksum(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut n = 0;
        while n < 256 {
            let (mut c, mut bit) = (n as u32, 0);
            while bit < 8 {
                c = if c & 1 != 0 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 };
                bit += 1;
            }
            table[n] = c;
            n += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |c, &b| TABLE[((c ^ b as u32) & 0xff) as usize] ^ (c >> 8))
}

/// Writes named arrays, as `numpy.savez`: stored, and atomically, so that a complete file or none exists.
///
/// # Errors
/// [`Error::File`] when it cannot be written or an array or the archive has 4 GiB or more, another error when a value
/// cannot be computed. A file that had the name before is then unchanged.
///
/// # Panics
/// When two arrays have the same name, or a name has more than 65,531 bytes.
#[track_caller]
pub fn write_npz<'a>(
    path: impl AsRef<Path>,
    arrays: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
) -> Result<(), Error> {
    let arrays: Vec<(&str, &Tensor)> = arrays.into_iter().collect();
    let mut names = std::collections::BTreeSet::new();
    for (name, _) in &arrays {
        assert!(names.insert(*name), "write_npz: {name:?} is there twice");
        assert!(name.len() <= 65_531, "write_npz: a name of {} bytes", name.len());
    }
    let shown = path.as_ref().display().to_string();
    let too_large = || refused(&shown, "an archive of 4 GiB or more is not written; .safetensors has no limit");
    if arrays.len() >= 0xffff {
        return Err(refused(&shown, format!("{} arrays do not fit an archive", arrays.len())));
    }
    atomic::replace(path.as_ref(), |file| {
        let (mut table, mut at) = (Vec::new(), 0u64);
        for (name, array) in &arrays {
            let bytes = array.to_npy_bytes()?;
            let name = format!("{name}.npy");
            let size = u32::try_from(bytes.len()).ok().filter(|&n| n != u32::MAX).ok_or_else(too_large)?;
            let header = u32::try_from(at).ok().filter(|&n| n != u32::MAX).ok_or_else(too_large)?;
            // Common fields of both headers of a member: version 2.0, UTF-8 names, stored, 1980-01-01, sizes.
            let mut common = Vec::new();
            for field in [20u16, 1 << 11, 0, 0, 33] {
                common.extend(field.to_le_bytes());
            }
            for field in [checksum(&bytes), size, size] {
                common.extend(field.to_le_bytes());
            }
            common.extend((name.len() as u16).to_le_bytes());
            common.extend([0, 0]);
            let member = [b"PK\x03\x04", &common[..], name.as_bytes()].concat();
            table.extend([b"PK\x01\x02\x14\0", &common[..], &[0; 10]].concat());
            table.extend(header.to_le_bytes());
            table.extend(name.as_bytes());
            at += (member.len() + bytes.len()) as u64;
            if let Err(e) = file.write_all(&member).and_then(|()| file.write_all(&bytes)) {
                return Ok(Err(e));
            }
        }
        let (start, size) = (u32::try_from(at).map_err(|_| too_large())?, table.len());
        let size = u32::try_from(size).map_err(|_| too_large())?;
        let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
        end.extend([(arrays.len() as u16).to_le_bytes(); 2].concat());
        end.extend([size.to_le_bytes(), start.to_le_bytes()].concat());
        end.extend([0, 0]);
        Ok(file.write_all(&table).and_then(|()| file.write_all(&end)))
    })
}
