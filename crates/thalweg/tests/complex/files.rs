//! Files and text.

use std::collections::BTreeMap;
use thalweg::Complex;
use thalweg::prelude::*;

fn some() -> Complex {
    Complex::from_pairs(&[(1.0f32, 2.0), (-3.5, -40.0), (0.0, 1.0), (0.5, -0.25), (7.0, 0.0), (2.0, 3.0)], [2, 3])
}

#[test]
fn they_are_printed_as_numpy_prints_them() {
    let blocks = include_str!("display.txt").strip_prefix("--- ").unwrap().split("\n--- ");
    let mut texts: BTreeMap<_, _> =
        blocks.map(|b| b.split_once('\n').unwrap()).map(|(name, text)| (name, text.trim_end())).collect();
    let z = |pairs: &[(f64, f64)]| Complex::from_pairs(pairs, [pairs.len()]);
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let count = |n: i32| Tensor::arange_with(n, DType::F64);
    let cases = [
        ("whole", z(&[(1.0, 2.0), (-3.5, -40.0)])),
        ("zeros", z(&[(0.0, 1.0), (-0.0, -0.0)])),
        ("specials", z(&[(nan, 1.0), (inf, -inf), (1.0, 2.0)])),
        ("scientific", z(&[(1.25, 0.0), (1e-3, -2.0), (3.0, -1.0), (0.0, 1.0)]).reshape([2, 2])),
        ("both_scientific", z(&[(1e-5, 1e5), (2.0, 3e-7)])),
        ("thirds", (Complex::new(count(6), count(6).flip(0)) / 3.0).reshape([2, 3])),
        ("single", Complex::from_pairs(&[(0.1f32, 0.2), (-1.0, 0.0)], [2])),
        ("wrapped", Complex::new(count(14) * 1.5, count(14) * -1.0 + 0.0)),
        ("abridged", Complex::new(count(1001), 0.0 - count(1001) * 2.0)),
        ("one", z(&[(1.0, -2.25)]).reshape([1, 1])),
        ("nan_only", z(&[(nan, nan)])),
        ("negative_nan", z(&[(nan, -inf), (1.0, nan)])),
    ];
    for (name, z) in cases {
        let wanted = texts.remove(name).unwrap();
        assert_eq!(z.to_string(), wanted, "{name}: got\n{z}\ninstead of\n{wanted}");
    }
    assert!(texts.is_empty(), "{texts:?}");
    assert_eq!(format!("{:?}", z(&[(1.0, -1.0)])), "[1.-1.j] (complex f64 [1])");
    assert_eq!(format!("{:.1}", z(&[(1.25, -1.0)])), "[1.2-1.j]");
    assert_eq!(z(&[(1.25, -10.0)]).index_axis(0, 0).to_string(), "1.25-10.j");
    assert_eq!(Complex::zeros([0, 3]).to_string(), "[]");
    let held = Tensor::zeros([1 << 40, 1 << 10]);
    let late = Complex::real(&(&held + 1.0).sum(0)).to_string();
    assert!(late.starts_with("<complex f32 [1024]: "), "{late}");
}

/// A file in NumPy's format: header and data.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = b"\x93NUMPY\x02\x00".to_vec();
    out.extend((header.len() as u32).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(data);
    out
}

#[test]
fn files_of_numpy_are_read_and_written() {
    let z = some();
    for z in [z.clone(), z.cast(DType::F64), z.slice((0, 0)), z.slice(..0), z.reshape([1, 1, 1, 1, 1, 2, 3])] {
        let bytes = z.to_npy_bytes().unwrap();
        let code = if z.dtype() == DType::F32 { "'<c8'" } else { "'<c16'" };
        let size = z.numel() * 2 * z.dtype().size();
        let header = String::from_utf8_lossy(&bytes[10..bytes.len() - size]).to_string();
        assert!(header.contains(code) && (bytes.len() - size).is_multiple_of(64), "{header}");
        let back = Complex::from_npy_bytes(&bytes).unwrap();
        assert_eq!((back.dims(), back.dtype()), (z.dims(), z.dtype()));
        assert_eq!(back.cast(DType::F64).to_vec::<f64>().unwrap(), z.cast(DType::F64).to_vec().unwrap());
    }
    let path = std::env::temp_dir().join(format!("thalweg-complex-{}.npy", std::process::id()));
    z.write_npy(&path).unwrap();
    assert_eq!(Complex::read_npy(&path).unwrap().to_vec::<f32>().unwrap(), z.to_vec().unwrap());
    std::fs::remove_file(path).unwrap();
    // numpy.asfortranarray([[1+2j, 3+4j]]).astype(">c8"), and a vector, for which the order has no meaning.
    let data: Vec<u8> = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0].iter().flat_map(|v| v.to_be_bytes()).collect();
    let turned = Complex::from_npy_bytes(&file("{'descr': '>c8', 'fortran_order': True, 'shape': (2, 2), }", &data));
    assert_eq!(turned.unwrap().to_vec::<f32>().unwrap(), [(1.0, 2.0), (5.0, 6.0), (3.0, 4.0), (7.0, 8.0)]);
    let vector = Complex::from_npy_bytes(&file("{'descr': '>c8', 'fortran_order': True, 'shape': (4,), }", &data));
    assert_eq!(vector.unwrap().to_vec::<f32>().unwrap(), [(1.0, 2.0), (3.0, 4.0), (5.0, 6.0), (7.0, 8.0)]);
}

#[test]
fn damage_is_an_error_that_says_what() {
    let says = |bytes: &[u8]| Complex::from_npy_bytes(bytes).unwrap_err().to_string();
    let real = Tensor::zeros([2]).to_npy_bytes().unwrap();
    assert!(says(&real).contains("real numbers of f32, which are read as `Tensor`"), "{}", says(&real));
    let good = some().to_npy_bytes().unwrap();
    let other = Tensor::from_npy_bytes(&good).unwrap_err().to_string();
    assert!(other.contains("complex numbers, which are read as `Complex`"), "{other}");
    assert!(says(&good[..good.len() - 1]).contains("takes 48 bytes of data, but there are 47"), "{}", says(&good));
    assert!(says(&good[..20]).contains("truncated in the header"));
    let huge = file("{'descr': '<c16', 'fortran_order': False, 'shape': (99999999999, 99999999999)}", &[0; 16]);
    assert!(says(&huge).contains("takes too many bytes of data"), "{}", says(&huge));
    let deep = file("{'descr': '<c8', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1)}", &[0; 8]);
    assert!(says(&deep).contains("at most 7 dimensions"), "{}", says(&deep));
    let long = file("{'descr': '<c32', 'fortran_order': False, 'shape': ()}", &[0; 32]);
    assert!(says(&long).contains("elements of type \"<c32\" are not supported"), "{}", says(&long));
    let deep = Complex::zeros([1; 8]).to_npy_bytes().unwrap_err().to_string();
    assert!(deep.contains("at most 7 dimensions"), "{deep}");
    let half = some().cast(DType::F16).to_npy_bytes().unwrap_err().to_string();
    assert!(half.contains("no complex numbers of f16"), "{half}");
    // With any byte or length changed, the result is an error or numbers, but never a panic.
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x15;
        drop(Complex::from_npy_bytes(&bad));
        drop(Complex::from_npy_bytes(&good[..at]));
    }
}
