//! Files of weights, archives and tables: round trips, and damaged bytes are errors, never panics.
#![cfg(all(feature = "safetensors", feature = "npz", feature = "csv"))]

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use thalweg::prelude::*;
use thalweg::{Csv, CsvOptions, Npz, Safetensors, safetensors_bytes, write_npz, write_safetensors};

/// Temporary directory of a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("thalweg-files-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
    fn entries(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One tensor of each dtype, of odd shapes.
fn tensors() -> Vec<(String, Tensor)> {
    let shapes: [&[usize]; 4] = [&[], &[3], &[2, 3], &[0, 4]];
    let of = |(i, dtype): (usize, DType)| {
        let shape = Shape::new(shapes[i % 4]);
        let values = (Tensor::arange(shape.numel()) + 1.0).reshape(shape.dims());
        (format!("layer.{i}.\"{dtype}\"\u{e9}"), values.cast(dtype))
    };
    DType::ALL.into_iter().enumerate().map(of).collect()
}

fn borrowed(all: &[(String, Tensor)]) -> impl Iterator<Item = (&str, &Tensor)> {
    all.iter().map(|(name, tensor)| (name.as_str(), tensor))
}

fn same(a: &Tensor, b: &Tensor) {
    assert_eq!((a.shape(), a.dtype()), (b.shape(), b.dtype()));
    assert_eq!(a.to_npy_bytes().unwrap(), b.to_npy_bytes().unwrap());
}

#[test]
fn safetensors_are_read_as_written() {
    let folder = Folder::new("safetensors");
    let path = folder.0.join("all.safetensors");
    let all = tensors();
    let metadata: BTreeMap<String, String> = [("step".to_string(), "12 \"\n".to_string())].into();
    write_safetensors(&path, borrowed(&all), &metadata).unwrap();
    let file = Safetensors::open(&path).unwrap();
    assert_eq!((file.len(), file.metadata()), (all.len(), &metadata));
    for (name, tensor) in &all {
        same(&file.get(name).unwrap(), tensor);
        assert_eq!(file.dims(name), Some(tensor.dims()));
    }
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes, safetensors_bytes(borrowed(&all), &metadata).unwrap());
    // The format's reference implementation reads the same.
    let theirs = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    for (name, tensor) in &all {
        let found = theirs.tensor(name).unwrap();
        assert_eq!(found.shape(), tensor.dims());
        assert_eq!(Some(&*found.dtype().to_string()), file.dtype(name));
        assert!(tensor.to_npy_bytes().unwrap().ends_with(found.data()));
        // Wide elements come first, so that all are aligned.
        let place = found.data().as_ptr() as usize - bytes.as_ptr() as usize;
        assert!(place.is_multiple_of(tensor.dtype().size()));
    }
    assert_eq!(folder.entries(), ["all.safetensors"]);
    let message = file.get("nothing").unwrap_err().to_string();
    assert!(message.contains("all.safetensors") && message.contains("no tensor \"nothing\""), "{message}");
}

#[test]
fn a_file_that_cannot_be_written_whole_stays_as_it_was() {
    let folder = Folder::new("atomic");
    let path = folder.0.join("weights.safetensors");
    let none = BTreeMap::new();
    write_safetensors(&path, [("x", &Tensor::ones([3]))], &none).unwrap();
    let before = std::fs::read(&path).unwrap();
    // The second tensor has no value: its index is out of range.
    let bad = Tensor::zeros([2]).index_select(0, &Tensor::new([7i64]));
    let good = Tensor::zeros([5]);
    assert!(write_safetensors(&path, [("x", &good), ("y", &bad)], &none).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(write_npz(folder.0.join("a.npz"), [("x", &good), ("y", &bad)]).is_err());
    assert_eq!(folder.entries(), ["weights.safetensors"]);
    assert!(write_safetensors(folder.0.join("no/such/folder"), [("x", &Tensor::zeros([5]))], &none).is_err());
    // An open file is not changed by a new one with its name.
    let open = Safetensors::open(&path).unwrap();
    let good = Tensor::zeros([5]);
    write_safetensors(&path, [("x", &good)], &none).unwrap();
    assert_eq!(open.get("x").unwrap().to_vec::<f32>().unwrap(), [1.0; 3]);
    assert_eq!(Safetensors::open(&path).unwrap().get("x").unwrap().dims(), [5]);
}

fn file(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![1; data]].concat()
}

#[test]
fn hostile_headers_say_what_is_wrong() {
    let entry = |dtype: &str, shape: &str, at: &str| {
        format!("{{\"w\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":{at}}}}}")
    };
    let ok = entry("F32", "[2]", "[0,8]");
    assert!(Safetensors::from_bytes(file(&ok, 8)).is_ok());
    for (bytes, says) in [
        (vec![], "truncated: 0 bytes"),
        (b"PK\x03\x04....".to_vec(), "its header would have"),
        (u64::MAX.to_le_bytes().to_vec(), "its header would have 18446744073709551615 bytes"),
        (99u64.to_le_bytes().to_vec(), "truncated in the header"),
        (file("[1]", 0), "no JSON object"),
        (file("{\"w\":", 0), "the header is damaged"),
        (file("{\"\u{e9}\":1}", 0), "is no object"),
        (file(&ok, 7), "bytes 0 to 8 of 7"),
        (file(&ok, 9), "the tensors take 8 bytes, but 9 follow"),
        (file(&entry("F32", "[2]", "[4,12]"), 12), "leaves a gap"),
        (file(&entry("F32", "[2]", "[8,0]"), 8), "bytes 8 to 0"),
        (file(&entry("F32", "[2]", "[0]"), 8), "lacks a pair"),
        (file(&entry("F32", "[-2]", "[0,8]"), 8), "lacks a shape"),
        (file(&entry("F32", "[3]", "[0,8]"), 8), "takes 12 bytes, not 8"),
        (file(&entry("F32", "[4611686018427387904,4]", "[0,8]"), 8), "takes too many bytes"),
        (file(&entry("F99", "[2]", "[0,8]"), 8), "\"F99\", which is not known"),
        (file(&entry("F32", "[2]", "[0,8],\"more\":1"), 8), "unknown field \"more\""),
        (
            file(
                "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
                4,
            ),
            "\"a\" twice",
        ),
        (
            file(
                "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
                3,
            ),
            "overlaps",
        ),
        (file("{\"__metadata__\":{\"a\":1}}", 0), "metadata is not text"),
        (file(&format!("{{\"w\":{}", "[".repeat(100_000)), 0), "the header is damaged"),
    ] {
        let error = Safetensors::from_bytes(bytes).err().expect(says).to_string();
        assert!(error.contains(says) && error.len() < 400, "{says}: {error}");
    }
    // An unsupported dtype does not prevent reading the other tensors.
    let mixed = "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}";
    let mixed = Safetensors::from_bytes(file(mixed, 4)).unwrap();
    assert_eq!(mixed.get("b").unwrap().to_vec::<u8>().unwrap(), [1, 1]);
    assert!(mixed.get("a").unwrap_err().to_string().contains("type F8_E4M3; supported are"));
    let deep = Safetensors::from_bytes(file(&entry("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1)).unwrap();
    assert!(deep.get("w").unwrap_err().to_string().contains("9 dimensions"));
}

/// Byte changes: some overwritten, some removed, some inserted, the end truncated.
fn damaged(bytes: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let length = bytes.len();
    let change = (0..4u8, 0..length, any::<u8>(), 1..9usize);
    proptest::collection::vec(change, 1..5).prop_map(move |changes| {
        let mut bytes = bytes.clone();
        for (kind, at, byte, count) in changes {
            let at = at.min(bytes.len());
            let end = (at + count).min(bytes.len());
            match kind {
                0 => bytes.iter_mut().skip(at).take(1).for_each(|b| *b = byte),
                1 => drop(bytes.drain(at..end)),
                2 => drop(bytes.splice(at..at, std::iter::repeat_n(byte, count))),
                _ if byte < 64 => bytes.truncate(at),
                _ => bytes.iter_mut().skip(at).take(1).for_each(|b| *b = b"0123456789[]{},\":"[byte as usize % 17]),
            }
        }
        bytes
    })
}

fn a_safetensors_file() -> Vec<u8> {
    let all: Vec<(String, Tensor)> = tensors().into_iter().take(5).collect();
    safetensors_bytes(borrowed(&all), &[("a".to_string(), "b".to_string())].into()).unwrap()
}

fn an_npz_file() -> Vec<u8> {
    let folder = Folder::new(&format!("npz-{:?}", std::thread::current().id()));
    let path = folder.0.join("a.npz");
    write_npz(&path, [("x", &Tensor::arange(6)), ("y", &Tensor::new([true, false]))]).unwrap();
    std::fs::read(&path).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    /// Any bytes give a file or an error. Accepted ones are accepted by the format's reference implementation, with the
    /// same tensors.
    #[test]
    fn damaged_safetensors_are_errors(bytes in damaged(a_safetensors_file())) {
        match Safetensors::from_bytes(bytes.clone()) {
            Ok(file) => {
                let theirs = safetensors::SafeTensors::deserialize(&bytes).expect("taken by us");
                prop_assert_eq!(file.len(), theirs.len());
                for name in file.names() {
                    let found = theirs.tensor(name).expect("found by us");
                    prop_assert_eq!(Some(found.shape()), file.dims(name));
                    if let Ok(tensor) = file.get(name) {
                        let own = tensor.to_npy_bytes().unwrap();
                        prop_assert!(tensor.dtype() == DType::Bool || own.ends_with(found.data()));
                    }
                }
            }
            Err(e) => prop_assert!(e.to_string().starts_with("<bytes>: "), "{}", e),
        }
    }

    #[test]
    fn damaged_archives_are_errors(bytes in damaged(an_npz_file())) {
        if let Ok(file) = Npz::from_bytes(bytes) {
            for name in file.names() {
                if let Ok(tensor) = file.get(name) {
                    prop_assert!(tensor.numel() <= 6);
                }
            }
        }
    }

    #[test]
    fn damaged_tables_are_errors(bytes in damaged(b"a,b\n1,x\n2.5,y\n,\"z\"\n".to_vec())) {
        if let Ok(table) = Csv::from_bytes(&bytes, CsvOptions::default()) {
            let _ = table.all_numbers();
            for name in table.names() {
                let (classes, labels) = table.labels(name).unwrap();
                prop_assert!(classes.numel() == table.len() && labels.len() <= table.len());
            }
        }
    }
}

#[test]
fn archives_are_read_as_written() {
    let folder = Folder::new("npz");
    let path = folder.0.join("all.npz");
    let all = tensors();
    write_npz(&path, borrowed(&all)).unwrap();
    let file = Npz::open(&path).unwrap();
    assert!(file.names().eq(all.iter().map(|(name, _)| name.as_str())));
    for (name, tensor) in &all {
        same(&file.get(name).unwrap(), tensor);
    }
    assert!(file.get("nothing").unwrap_err().to_string().contains("no array \"nothing\""));
    // The checksum detects a flipped bit.
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(6).position(|w| w == b"\x93NUMPY").unwrap() + 60;
    bytes[at] ^= 4;
    let damaged = Npz::from_bytes(bytes).unwrap();
    assert!(damaged.get(&all[0].0).unwrap_err().to_string().contains("checksum"));
    same(&damaged.get(&all[1].0).unwrap(), &all[1].1);
}

/// `numpy.savez` and `numpy.savez_compressed` of `x = np.arange(6, dtype=np.float32).reshape(2, 3)` and
/// `mask = np.array([True, False])` (NumPy 2.4, zip64 in the headers of members).
#[test]
fn archives_of_numpy_are_read() {
    for name in ["stored", "compressed"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/files/{name}.npz"));
        let file = Npz::open(path).unwrap();
        assert!(file.names().eq(["x", "mask"]));
        let x = file.get("x").unwrap();
        assert_eq!((x.dims(), x.to_vec::<f32>().unwrap()), (&[2, 3][..], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
        assert_eq!(file.get("mask").unwrap().to_vec::<bool>().unwrap(), [true, false]);
    }
}

#[test]
fn tables() {
    let text = b"a; b ;\"c;d\"\n1;2.5;x\n-3;;y\n";
    let table = Csv::from_bytes(text, CsvOptions::default().delimiter(b';')).unwrap();
    assert_eq!((table.len(), table.names()), (2, ["a", "b", "c;d"].map(String::from).as_slice()));
    let numbers = table.numbers(&["b", "a"]).unwrap();
    let found = numbers.to_vec::<f32>().unwrap();
    assert_eq!((numbers.dims(), &found[..2], found[3]), (&[2, 2][..], &[2.5, 1.0][..], -3.0));
    assert!(found[2].is_nan());
    for (error, says) in [
        (table.all_numbers().unwrap_err(), "line 2, column \"c;d\": \"x\" is no number"),
        (table.numbers(&["z"]).unwrap_err(), "no column \"z\"; there are a, b, c;d"),
        (Csv::from_bytes(b"a,b\n1\n", CsvOptions::default()).unwrap_err(), "found record with 1 fields"),
        (Csv::open("/no/such/file.csv", CsvOptions::default()).unwrap_err(), "/no/such/file.csv"),
    ] {
        assert!(error.to_string().contains(says), "{error}");
    }
    let plain = Csv::from_bytes(b"1,2\n3,4\n", CsvOptions::default().header(false)).unwrap();
    assert_eq!(plain.names(), ["0", "1"]);
    assert_eq!(plain.all_numbers().unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
}
