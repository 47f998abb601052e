//! `.npy` files: round trips, foreign layouts, damage.

use proptest::prelude::*;
use thalweg::prelude::*;

fn every_dtype() -> impl Iterator<Item = Tensor> {
    DType::ALL.into_iter().map(|d| Tensor::new([[0.0f32, 1.0, 2.5], [-3.0, 100.0, 1e6]]).cast(d))
}

#[test]
fn every_dtype_survives_the_file() {
    let folder = std::env::temp_dir().join(format!("thalweg-npy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for x in every_dtype() {
        let path = folder.join(format!("{}.npy", x.dtype()));
        x.write_npy(&path).unwrap();
        let y = Tensor::read_npy(&path).unwrap();
        assert_eq!((y.dtype(), y.dims()), (x.dtype(), x.dims()));
        assert_eq!(y.to_f64_vec().unwrap(), x.to_f64_vec().unwrap(), "{}", x.dtype());
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn every_rank_survives() {
    for shape in [&[][..], &[5], &[0], &[2, 0, 3], &[1, 2, 1, 2, 1, 2, 1, 2]] {
        let x = Tensor::arange(shape.iter().product::<usize>()).reshape(shape);
        let bytes = x.to_npy_bytes().unwrap();
        assert_eq!((bytes.len() - 4 * x.numel()) % 64, 0);
        let y = Tensor::from_npy_bytes(&bytes).unwrap();
        assert_eq!((y.dims(), y.to_vec::<f32>().unwrap()), (x.dims(), x.to_vec::<f32>().unwrap()));
    }
}

fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = b"\x93NUMPY\x02\x00".to_vec();
    out.extend((header.len() as u32).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(data);
    out
}

#[test]
fn foreign_layouts_are_read() {
    // numpy.asfortranarray(numpy.arange(6, dtype=">i2").reshape(2, 3))
    let data = [0u8, 0, 0, 3, 0, 1, 0, 4, 0, 2, 0, 5];
    let x = Tensor::from_npy_bytes(&file("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }", &data)).unwrap();
    assert_eq!((x.dims(), x.to_vec::<i16>().unwrap()), (&[2, 3][..], vec![0, 1, 2, 3, 4, 5]));
    let x =
        Tensor::from_npy_bytes(&file("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", &[0, 1, 7])).unwrap();
    assert_eq!(x.cast(DType::I64).sum(..).item::<i64>().unwrap(), 2);
}

#[test]
fn damage_is_an_error_that_says_what() {
    let good = Tensor::arange(6).reshape([2, 3]).to_npy_bytes().unwrap();
    let says = |bytes: &[u8]| match Tensor::from_npy_bytes(bytes) {
        Err(Error::File { message, .. }) => message,
        other => panic!("{other:?}"),
    };
    assert_eq!(says(&good[..good.len() - 1]), "shape [2, 3] of f32 takes 24 bytes of data, but there are 23");
    assert_eq!(says(b""), "not a .npy file: it does not start with \\x93NUMPY");
    assert_eq!(says(&good[..9]), "truncated in the header");
    let huge = file("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999)}", &[0; 4]);
    assert_eq!(says(&huge), "shape [99999999999, 99999999999] of f32 takes too many bytes of data, but there are 4");
    let complex = file("{'descr': '<c16', 'fortran_order': False, 'shape': ()}", &[0; 16]);
    assert_eq!(says(&complex), "complex numbers, which are read as `Complex`");
    let text = file("{'descr': '<U4', 'fortran_order': False, 'shape': ()}", &[0; 16]);
    assert!(says(&text).starts_with("elements of type \"<U4\" are not supported; supported are f4 (f32), f8 (f64)"));
    let e = Tensor::read_npy("/nowhere/x.npy").unwrap_err().to_string();
    assert!(e.starts_with("/nowhere/x.npy: "), "{e}");
    let e = Tensor::zeros([1]).write_npy("/nowhere/x.npy").unwrap_err().to_string();
    assert!(e.starts_with("/nowhere/x.npy: "), "{e}");
}

proptest! {
    #[test]
    fn mutated_files_never_panic(
        changes in prop::collection::vec((0usize..200, any::<u8>()), 0..6),
        cut in 0usize..250,
        rank in 0usize..4,
    ) {
        let x = Tensor::arange(1 << rank).reshape(vec![2usize; rank]);
        let mut bytes = x.to_npy_bytes().unwrap();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if cut < bytes.len() {
            bytes.truncate(cut);
        }
        if let Ok(x) = Tensor::from_npy_bytes(&bytes) {
            prop_assert_eq!(x.to_f64_vec().unwrap().len(), x.numel());
        }
    }

    #[test]
    fn any_header_text_never_panics(header in "[{}()\\[\\]',:<>|=0-9a-zA-Z_ \u{e9}]{0,80}") {
        let _ = Tensor::from_npy_bytes(&file(&header, &[0; 16]));
    }
}
