//! Safetensors: weight files of the Hugging Face Hub.
//!
//! A file is the length of a header (eight bytes), the header (JSON: for each name a dtype, a shape, and the begin and
//! end of its bytes), and the bytes of all tensors, without gaps. Files are read through a memory map: opening one
//! reads the header, and getting a tensor copies only its bytes to the device. The header is not trusted: every size is
//! checked against the length of the file before anything is allocated.
//!
//! Files are written tensor by tensor, under a temporary name that is renamed at the end.

use super::{atomic, little_endian, refused};
use crate::{DType, Device, Error, MAX_RANK, Shape, Tensor};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use thalweg_runtime::FileBytes;

/// Maximum length of a header in bytes, as in the format's reference implementation.
const MAX_HEADER_BYTES: usize = 100_000_000;

/// Opened file of named tensors (`.safetensors`).
///
/// ```
/// use std::collections::BTreeMap;
/// use thalweg::{Safetensors, Tensor, write_safetensors};
/// let path = std::env::temp_dir().join(format!("thalweg-doc-{}.safetensors", std::process::id()));
/// let weight = Tensor::new([[1.0f32, 2.0]]);
/// write_safetensors(&path, [("fc.weight", &weight)], &BTreeMap::new())?;
/// let file = Safetensors::open(&path)?;
/// assert_eq!(file.names().collect::<Vec<_>>(), ["fc.weight"]);
/// assert_eq!(file.get("fc.weight")?.to_vec::<f32>()?, [1.0, 2.0]);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), thalweg::Error>(())
/// ```
pub struct Safetensors {
    path: String,
    content: Content,
    data: usize,
    entries: Vec<Entry>,
    places: BTreeMap<String, usize>,
    metadata: BTreeMap<String, String>,
}

enum Content {
    File(FileBytes),
    Bytes(Vec<u8>),
}

/// Entry of a header, checked.
#[derive(Debug)]
struct Entry {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    /// Range of the tensor's bytes, counted from the end of the header.
    bytes: Range<usize>,
}

impl Safetensors {
    /// Opens a file. Tensors are read on request; the file must not be written meanwhile.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read, or is damaged or truncated.
    pub fn open(path: impl AsRef<Path>) -> Result<Safetensors, Error> {
        let shown = path.as_ref().display().to_string();
        let bytes = FileBytes::open(path.as_ref()).map_err(|e| refused(&shown, e))?;
        Safetensors::of(shown, Content::File(bytes))
    }

    /// Parses the content of a file.
    ///
    /// # Errors
    /// As [`open`](Safetensors::open); the path of the error is `<bytes>`.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Safetensors, Error> {
        Safetensors::of("<bytes>".to_string(), Content::Bytes(bytes))
    }

    fn of(path: String, content: Content) -> Result<Safetensors, Error> {
        let bytes = content.bytes();
        let parsed = split(bytes).and_then(|(header, data)| Ok((entries(header, data.len())?, data.len())));
        let ((entries, metadata), length) = parsed.map_err(|message| refused(&path, message))?;
        let data = bytes.len() - length;
        let places = entries.iter().enumerate().map(|(i, e)| (e.name.clone(), i)).collect();
        Ok(Safetensors { path, content, data, entries, places, metadata })
    }

    /// The names of the tensors, in the order of the header.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|e| e.name.as_str())
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The metadata of the file: strings by name.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The sizes of a tensor, if there is one with that name.
    pub fn dims(&self, name: &str) -> Option<&[usize]> {
        Some(&self.entry(name)?.shape)
    }

    /// The dtype of a tensor as the file names it (`"F32"`, `"BF16"`, `"F8_E4M3"`), if there is one with that name.
    pub fn dtype(&self, name: &str) -> Option<&str> {
        Some(&self.entry(name)?.dtype)
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        Some(&self.entries[*self.places.get(name)?])
    }

    /// Reads a tensor onto the default device.
    ///
    /// # Errors
    /// [`Error::File`] when there is none with that name or this crate has no such dtype, another error when the device
    /// has no memory for it.
    pub fn get(&self, name: &str) -> Result<Tensor, Error> {
        self.get_on(name, Device::try_default()?)
    }

    /// Reads a tensor onto a device.
    ///
    /// # Errors
    /// As [`get`](Safetensors::get).
    pub fn get_on(&self, name: &str, device: Device) -> Result<Tensor, Error> {
        let Some(entry) = self.entry(name) else {
            return Err(refused(&self.path, format!("holds no tensor {name:?}")));
        };
        let dtype = DType::ALL.into_iter().find(|&d| code(d) == entry.dtype);
        let Some(dtype) = dtype else {
            let known = DType::ALL.map(code).join(", ");
            let message = format!("{name:?} has elements of type {}; supported are {known}", entry.dtype);
            return Err(refused(&self.path, message));
        };
        if entry.shape.len() > MAX_RANK {
            let rank = entry.shape.len();
            return Err(refused(&self.path, format!("{name:?} has {rank} dimensions, more than {MAX_RANK}")));
        }
        let bytes = &self.content.bytes()[self.data..][entry.bytes.clone()];
        let mut bytes = little_endian(bytes, dtype);
        // Device memory holds 0 and 1 for bool; files may have other values.
        if dtype == DType::Bool && bytes.iter().any(|&b| b > 1) {
            bytes.to_mut().iter_mut().for_each(|b| *b = (*b != 0) as u8);
        }
        Tensor::from_bytes(&bytes, Shape::new(&entry.shape), dtype, device)
    }
}

impl Content {
    fn bytes(&self) -> &[u8] {
        match self {
            Content::File(bytes) => bytes,
            Content::Bytes(bytes) => bytes,
        }
    }
}

/// Name of a dtype in the safetensors format.
fn code(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "F32",
        DType::F64 => "F64",
        DType::BF16 => "BF16",
        DType::F16 => "F16",
        DType::I8 => "I8",
        DType::I16 => "I16",
        DType::I32 => "I32",
        DType::I64 => "I64",
        DType::U8 => "U8",
        DType::U16 => "U16",
        DType::U32 => "U32",
        DType::U64 => "U64",
        DType::Bool => "BOOL",
    }
}

/// Bits of an element, also of dtypes that this crate does not have; `None` for unknown ones.
fn bits(dtype: &str) -> Option<usize> {
    let own = DType::ALL.into_iter().find(|&d| code(d) == dtype).map(|d| 8 * d.size());
    own.or(match dtype {
        "F4" => Some(4),
        "F6_E2M3" | "F6_E3M2" => Some(6),
        "F8_E4M3" | "F8_E5M2" | "F8_E8M0" | "F8_E4M3FNUZ" | "F8_E5M2FNUZ" => Some(8),
        "C64" => Some(64),
        _ => None,
    })
}

/// Splits a file into its header and the bytes after it.
fn split(bytes: &[u8]) -> Result<(&str, &[u8]), String> {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(format!("truncated: {} bytes are no safetensors file", bytes.len()));
    };
    let length = u64::from_le_bytes(*length);
    let known = usize::try_from(length).ok().filter(|&n| n <= MAX_HEADER_BYTES);
    let Some(length) = known else {
        return Err(format!("not a safetensors file: its header would have {length} bytes"));
    };
    let Some((header, data)) = rest.split_at_checked(length) else {
        return Err(format!("truncated in the header: {length} bytes long, but {} follow", rest.len()));
    };
    if header.first() != Some(&b'{') {
        return Err("not a safetensors file: its header is no JSON object".to_string());
    }
    let header = std::str::from_utf8(header).map_err(|e| format!("the header is not text: {e}"))?;
    Ok((header, data))
}

/// Parsed header: entries in order, including duplicate names.
struct Header(Vec<(String, serde_json::Value)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Header, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Header;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Header(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

type Checked = (Vec<Entry>, BTreeMap<String, String>);

/// Entries of a header, checked against the number of bytes after it.
fn entries(header: &str, length: usize) -> Result<Checked, String> {
    let Header(all) = serde_json::from_str(header).map_err(|e| format!("the header is damaged: {e}"))?;
    let (mut entries, mut metadata) = (Vec::new(), None);
    let mut seen = std::collections::BTreeSet::new();
    for (name, value) in all {
        if !seen.insert(name.clone()) {
            return Err(format!("the header has {name:?} twice"));
        }
        if name == "__metadata__" {
            let text = serde_json::from_value(value).map_err(|e| format!("the metadata is not text by name: {e}"))?;
            metadata = Some(text);
            continue;
        }
        entries.push(entry(name, value, length)?);
    }
    // The bytes of all tensors are adjacent and cover the file.
    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_by_key(|e| (e.bytes.start, e.bytes.end));
    let mut end = 0;
    for entry in order {
        let Range { start, end: next } = entry.bytes;
        if start != end {
            let what = if start < end { "overlaps another" } else { "leaves a gap before it" };
            return Err(format!("{:?} {what}: its bytes begin at {start}, those before end at {end}", entry.name));
        }
        end = next;
    }
    if end != length {
        return Err(format!("the tensors take {end} bytes, but {length} follow the header"));
    }
    Ok((entries, metadata.unwrap_or_default()))
}

/// Parses and checks one entry of the header.
fn entry(name: String, value: serde_json::Value, length: usize) -> Result<Entry, String> {
    let damaged = |what: &str| format!("the entry of {name:?} {what}");
    let serde_json::Value::Object(fields) = value else { return Err(damaged("is no object")) };
    if let Some(other) = fields.keys().find(|k| !["dtype", "shape", "data_offsets"].contains(&k.as_str())) {
        return Err(damaged(&format!("has an unknown field {other:?}")));
    }
    let dtype = fields.get("dtype").and_then(|d| d.as_str()).ok_or_else(|| damaged("lacks a dtype"))?;
    let sizes = |field: &str| -> Option<Vec<usize>> {
        let list = fields.get(field)?.as_array()?;
        list.iter().map(|v| usize::try_from(v.as_u64()?).ok()).collect()
    };
    let shape = sizes("shape").ok_or_else(|| damaged("lacks a shape"))?;
    let Some(&[start, end]) = sizes("data_offsets").as_deref() else {
        return Err(damaged("lacks a pair of data_offsets"));
    };
    if start > end || end > length {
        return Err(damaged(&format!("has bytes {start} to {end} of {length}: the file is truncated or damaged")));
    }
    let Some(bits) = bits(dtype) else { return Err(damaged(&format!("has a dtype {dtype:?}, which is not known"))) };
    let wanted = shape.iter().try_fold(bits, |n, &size| n.checked_mul(size));
    if wanted.is_none_or(|n| !n.is_multiple_of(8) || n / 8 != end - start) {
        let wanted = wanted.map_or("too many".to_string(), |n| n.div_ceil(8).to_string());
        let there = end - start;
        return Err(damaged(&format!("has shape {shape:?} of {dtype}, which takes {wanted} bytes, not {there}")));
    }
    let dtype = dtype.to_string();
    Ok(Entry { name, dtype, shape, bytes: start..end })
}

/// Writes named tensors and metadata atomically, so that a complete file or none exists. Tensors are computed and
/// written one after the other.
///
/// # Errors
/// [`Error::File`] when it cannot be written, another error when a value cannot be computed. A file that had the name
/// before is then unchanged.
///
/// # Panics
/// When two tensors have the same name, or one is called `__metadata__`.
#[track_caller]
pub fn write_safetensors<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    metadata: &BTreeMap<String, String>,
) -> Result<(), Error> {
    let (header, tensors) = plan(tensors.into_iter().collect(), metadata);
    atomic::replace(path.as_ref(), |file| {
        if let Err(e) = file.write_all(&header) {
            return Ok(Err(e));
        }
        for tensor in tensors {
            let written = tensor.with_bytes(|bytes| file.write_all(&little_endian(bytes, tensor.dtype())))?;
            if written.is_err() {
                return Ok(written);
            }
        }
        Ok(Ok(()))
    })
}

/// The bytes that [`write_safetensors`] writes.
///
/// # Errors
/// When a value cannot be computed.
///
/// # Panics
/// As [`write_safetensors`].
#[track_caller]
pub fn safetensors_bytes<'a>(
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, Error> {
    let (mut out, tensors) = plan(tensors.into_iter().collect(), metadata);
    for tensor in tensors {
        tensor.with_bytes(|bytes| out.extend_from_slice(&little_endian(bytes, tensor.dtype())))?;
    }
    Ok(out)
}

/// The header with its length, and the tensors in the order of their bytes.
#[track_caller]
fn plan<'a>(
    mut tensors: Vec<(&'a str, &'a Tensor)>,
    metadata: &BTreeMap<String, String>,
) -> (Vec<u8>, Vec<&'a Tensor>) {
    let mut names = std::collections::BTreeSet::new();
    for (name, _) in &tensors {
        assert!(*name != "__metadata__", "write_safetensors: the format reserves the name {name:?}");
        assert!(names.insert(*name), "write_safetensors: {name:?} is there twice");
    }
    // Wide elements first, so that all of them are aligned.
    tensors.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.dtype().size()));
    let mut entries = Vec::new();
    if !metadata.is_empty() {
        entries.push(format!("\"__metadata__\":{}", serde_json::json!(metadata)));
    }
    let mut at = 0;
    for (name, tensor) in &tensors {
        let end = at + tensor.numel() * tensor.dtype().size();
        let fields = serde_json::json!({
            "dtype": code(tensor.dtype()), "shape": tensor.dims(), "data_offsets": [at, end],
        });
        entries.push(format!("{}:{fields}", serde_json::json!(name)));
        at = end;
    }
    let mut header = format!("{{{}}}", entries.join(","));
    // The bytes start at a multiple of eight.
    let padded = header.len().next_multiple_of(8);
    header.push_str(&" ".repeat(padded - header.len()));
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.into_bytes());
    (out, tensors.into_iter().map(|(_, tensor)| tensor).collect())
}
