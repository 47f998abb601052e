//! Products on the emulated GPU, of small integers: exact, whatever the tile, the layout and the edges.

use crate::device::CudaDevice;
use std::sync::Arc;
use thalweg_ir::{DType, Shape};
use thalweg_kernel::reference::{Array, Data};
use thalweg_kernel::{Contraction, ContractionGeometry, Geometry, Kernel, MatmulGeometry, Precision};
use thalweg_runtime::Device;

/// A small integer at each place.
fn value(seed: usize, i: usize) -> f64 {
    ((i * 7 + seed * 13 + i / 11) % 9) as f64 - 4.0
}

fn array(dtype: DType, values: Vec<f64>) -> Array {
    let shape = Shape::new(&[values.len()]);
    let data = if dtype.is_float() { Data::Float(values) } else { Data::Int(values.iter().map(|&v| v as i64).collect()) };
    Array { shape, dtype, data }
}

/// How a factor lies: whether terms are neighbours, elements before it, elements between its lines that are not its own.
#[derive(Clone, Copy, Debug)]
struct Lies {
    along: bool,
    first: usize,
    between: usize,
}

fn check(device: &Arc<CudaDevice>, (dtype, precision): (DType, Precision), [count, m, n, k]: [usize; 4], lies: [Lies; 2]) {
    let lay = |n: usize, lines: usize| {
        let Lies { along, first, between } = lies[n];
        let (outer, inner) = if along { (lines, k) } else { (k, lines) };
        let pitch = inner + between;
        let steps = if along { (pitch as isize, 1) } else { (1, pitch as isize) };
        (first, outer * pitch, steps, first + count * outer * pitch)
    };
    let (a, b) = (lay(0, m), lay(1, n));
    let values = [a.3, b.3].map(|len| len.max(1));
    let values = [0, 1].map(|s| (0..values[s]).map(|i| value(s, i)).collect::<Vec<f64>>());
    let geometry = MatmulGeometry {
        batch: vec![(count, a.1 as isize, b.1 as isize)],
        m,
        n,
        k,
        a: (a.0 as isize, a.2.0, a.2.1),
        b: (b.0 as isize, b.2.1, b.2.0),
        reach: [0, 1].map(|s| (k > 0).then(|| (0, values[s].len() - 1))),
    };
    let mut want = vec![0.0; count * m * n];
    for (i, w) in want.iter_mut().enumerate() {
        let (p, r, c) = (i / (m * n), i / n % m, i % n);
        *w = (0..k)
            .map(|t| {
                let x = a.0 + p * a.1 + (r as isize * a.2.0 + t as isize * a.2.1) as usize;
                let y = b.0 + p * b.1 + (c as isize * b.2.0 + t as isize * b.2.1) as usize;
                values[0][x] * values[1][y]
            })
            .fold(0.0, |sum, x| sum + x);
    }
    let buffers = values.map(|v| {
        let bytes = array(dtype, v).to_bytes();
        let buffer = device.allocate(bytes.len()).unwrap();
        device.write(&buffer, &bytes).unwrap();
        buffer
    });
    let bytes = array(dtype, want.clone()).to_bytes();
    let result = device.allocate(bytes.len()).unwrap();
    let kernel = Kernel::Contraction(Contraction::bare(dtype, precision));
    let geometry = Geometry::Contraction(Box::new(ContractionGeometry::bare(geometry)));
    let program = device.prepare(&[(&kernel, &geometry)]).unwrap().remove(0);
    program.launch(&geometry, &[&buffers[0], &buffers[1], &result], &[]).unwrap();
    let mut got = vec![0; bytes.len()];
    device.read(&result, &mut got).unwrap();
    let at = (0..want.len()).find(|i| got[i * dtype.size()..][..dtype.size()] != bytes[i * dtype.size()..][..dtype.size()]);
    if let Some(at) = at {
        let values = Array::from_bytes(Shape::new(&[want.len()]), dtype, &got);
        eprintln!("{at}: {:?}", (at..want.len().min(at + 20)).map(|i| (values.get(i).to_f64(), want[i])).collect::<Vec<_>>());
    }
    assert!(got == bytes, "{dtype} {precision:?} {count}x{m}x{n}x{k}, {lies:?}");
}

/// Both ways that a factor can lie, alone and beside something, aligned and not.
fn ways(quick: bool) -> Vec<Lies> {
    let lies = |along, first, between| Lies { along, first, between };
    let all = vec![lies(true, 0, 0), lies(false, 0, 0), lies(true, 16, 16), lies(false, 3, 1)];
    if quick { all[..2].to_vec() } else { all }
}

fn check_all(kinds: &[(DType, Precision)], sizes: &[[usize; 4]], quick: bool) {
    let device = CudaDevice::open("cuda:emulated").unwrap();
    for &kind in kinds {
        for &size in sizes {
            for left in ways(quick) {
                for right in ways(quick) {
                    check(&device, kind, size, [left, right]);
                }
            }
        }
    }
}

#[test]
fn products_on_tensor_cores_are_exact_for_small_integers() {
    let kinds = [(DType::BF16, Precision::Full), (DType::F16, Precision::Full), (DType::F32, Precision::Tf32)];
    check_all(&kinds, &[[2, 65, 40, 33], [1, 3, 70, 72]], false);
}

#[test]
fn products_on_plain_cores_are_exact_for_small_integers() {
    let full = [DType::F32, DType::F64, DType::I64, DType::U8].map(|d| (d, Precision::Full));
    check_all(&full, &[[2, 65, 40, 17]], false);
    let ordered = [DType::BF16, DType::F32].map(|d| (d, Precision::Ordered));
    check_all(&ordered, &[[1, 33, 65, 48]], true);
}

#[test]
fn edges_of_tiles_of_every_size() {
    let kinds = [(DType::BF16, Precision::Full), (DType::F32, Precision::Full), (DType::F32, Precision::Tf32)];
    // Few terms and many; large tiles where there are many of them.
    let sizes = [[1, 64, 64, 1], [1, 63, 65, 31], [3, 2, 2, 0], [1, 64, 128, 64], [300, 2, 3, 5], [5, 300, 130, 40]];
    check_all(&kinds, &sizes, true);
}

#[test]
fn one_row_or_one_column_is_folded() {
    let kinds = [(DType::F32, Precision::Full), (DType::BF16, Precision::Full), (DType::I32, Precision::Full)];
    check_all(&kinds, &[[2, 1, 300, 37], [1, 200, 1, 64], [3, 1, 1, 50], [1, 1, 7, 3000]], true);
}
