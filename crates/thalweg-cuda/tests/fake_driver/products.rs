//! Matrix products through a fake cuBLASLt (fake.cpp): layouts, batches, alignment, the check of algorithms, cached
//! choices, graphs, and fallbacks to our own tiles.

use super::{Bench, bench};
use half::{bf16, f16};
use std::process::Command;
use std::sync::Arc;
use thalweg_cuda::CudaDevice;
use thalweg_cuda::driver::{Cuda, Driver};
use thalweg_gpu::product::{Launches, Product, launches};
use thalweg_ir::DType;
use thalweg_kernel::{Contraction, ContractionGeometry, Geometry, Kernel, MatmulGeometry, Precision};
use thalweg_runtime::{Buffer, Device, Error, Program, counters};

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::BF16, DType::F16];

fn device(b: &Bench) -> Arc<CudaDevice> {
    b.tell("fakeOffer", 1);
    CudaDevice::with(b.gpu.clone(), "cuda:0").unwrap()
}

/// Layout of a tensor: extents with strides, and the index of the first element.
#[derive(Clone)]
struct Lies {
    dims: Vec<(usize, isize)>,
    base: isize,
}

fn lies(dims: &[(usize, isize)], base: isize) -> Lies {
    Lies { dims: dims.to_vec(), base }
}

impl Lies {
    fn reach(&self) -> (usize, usize) {
        let ends = self.dims.iter().map(|d| (d.0 as isize - 1) * d.1);
        let (low, high) = ends.fold((self.base, self.base), |(l, h), e| (l + e.min(0), h + e.max(0)));
        (low as usize, high as usize)
    }
}

fn geometry(a: &Lies, b: &Lies) -> MatmulGeometry {
    let batch = a.dims.len() - 2;
    let (of_a, of_b) = (&a.dims[batch..], &b.dims[batch..]);
    assert_eq!(of_a[1].0, of_b[0].0);
    MatmulGeometry {
        batch: (0..batch).map(|i| (a.dims[i].0, a.dims[i].1, b.dims[i].1)).collect(),
        m: of_a[0].0,
        n: of_b[1].0,
        k: of_a[1].0,
        a: (a.base, of_a[0].1, of_a[1].1),
        b: (b.base, of_b[0].1, of_b[1].1),
        reach: [Some(a.reach()), Some(b.reach())],
    }
}

/// Bytes of numbers in a dtype, and the reverse.
fn bytes_of(values: &[f64], dtype: DType) -> Vec<u8> {
    let bytes = |&v: &f64| match dtype {
        DType::F64 => v.to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f64(v).to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(v).to_le_bytes().to_vec(),
        _ => (v as f32).to_le_bytes().to_vec(),
    };
    values.iter().flat_map(bytes).collect()
}

fn values_of(bytes: &[u8], dtype: DType) -> Vec<f64> {
    let value = |b: &[u8]| match *b {
        [x, y] if dtype == DType::BF16 => bf16::from_le_bytes([x, y]).to_f64(),
        [x, y] => f16::from_le_bytes([x, y]).to_f64(),
        [x, y, z, w] => f64::from(f32::from_le_bytes([x, y, z, w])),
        _ => f64::from_le_bytes(b.try_into().unwrap()),
    };
    bytes.chunks_exact(dtype.size()).map(value).collect()
}

/// Integers, so that every order of a sum gives the same result.
fn number(i: usize) -> f64 {
    ((i * i + 3 * i) % 7) as f64 - 3.0
}

fn expected(g: &MatmulGeometry, [a, b]: [&[f64]; 2], dtype: DType) -> Vec<f64> {
    let mut out = vec![];
    for turn in 0..g.batch.iter().map(|d| d.0).product() {
        let (mut at_a, mut at_b, mut rest) = (g.a.0, g.b.0, turn);
        for &(size, x, y) in g.batch.iter().rev() {
            at_a += (rest % size) as isize * x;
            at_b += (rest % size) as isize * y;
            rest /= size;
        }
        for i in 0..g.m as isize {
            for j in 0..g.n as isize {
                let term = |p| a[(at_a + i * g.a.1 + p * g.a.2) as usize] * b[(at_b + p * g.b.1 + j * g.b.2) as usize];
                out.push(dtype.round((0..g.k as isize).map(term).sum()));
            }
        }
    }
    out
}

/// A product with its operands on the device.
struct Work {
    program: Arc<dyn Program>,
    geometry: Geometry,
    buffers: [Buffer; 3],
    expected: Vec<f64>,
    dtype: DType,
}

fn bound(
    device: &CudaDevice,
    dtype: DType,
    precision: Precision,
    g: &MatmulGeometry,
) -> Result<Arc<dyn Program>, Error> {
    let (kernel, geometry) = (
        Kernel::Contraction(Contraction::unfused(dtype, precision)),
        Geometry::Contraction(Box::new(ContractionGeometry::unfused(g.clone()))),
    );
    device.prepare(&[(&kernel, &geometry)]).map(|mut all| all.remove(0))
}

impl Work {
    fn new(device: &CudaDevice, dtype: DType, a: &Lies, b: &Lies) -> Work {
        let g = geometry(a, b);
        let values: Vec<Vec<f64>> =
            [a, b].iter().enumerate().map(|(n, l)| (0..=l.reach().1).map(|i| number(i + n)).collect()).collect();
        let program = bound(device, dtype, Precision::Full, &g).unwrap();
        let expected = expected(&g, [&values[0], &values[1]], dtype);
        let buffer = |bytes: &[u8]| {
            let buffer = device.allocate(bytes.len()).unwrap();
            device.write(&buffer, bytes).unwrap();
            buffer
        };
        let rubbish = vec![0xa5; expected.len() * dtype.size()];
        let buffers = [buffer(&bytes_of(&values[0], dtype)), buffer(&bytes_of(&values[1], dtype)), buffer(&rubbish)];
        Work {
            program,
            geometry: Geometry::Contraction(Box::new(ContractionGeometry::unfused(g))),
            buffers,
            expected,
            dtype,
        }
    }

    fn run(&self) -> Result<(), Error> {
        self.program.launch(&self.geometry, &[&self.buffers[0], &self.buffers[1], &self.buffers[2]], &[])
    }

    fn is_right(&self, device: &CudaDevice) {
        let mut bytes = vec![0; self.expected.len() * self.dtype.size()];
        device.read(&self.buffers[2], &mut bytes).unwrap();
        assert_eq!(values_of(&bytes, self.dtype), self.expected, "{} {:?}", self.dtype, self.geometry);
    }
}

/// Layouts of operands [m, k] and [k, n] that programs have.
fn layouts() -> Vec<(Lies, Lies)> {
    let (m, n, k) = (5, 6, 9);
    let (a, b) = ((lies(&[(m, 9), (k, 1)], 0)), lies(&[(k, 6), (n, 1)], 0));
    let batched = |l: &Lies, dims: &[(usize, isize)], base| lies(&[dims, &l.dims].concat(), base);
    vec![
        (a.clone(), b.clone()),
        (lies(&[(m, 1), (k, 5)], 0), b.clone()),
        (a.clone(), lies(&[(k, 1), (n, 9)], 0)),
        (lies(&[(m, 1), (k, 5)], 0), lies(&[(k, 1), (n, 9)], 0)),
        // Slices: gaps between rows, and a start that is aligned to one element only.
        (lies(&[(m, 13), (k, 1)], 3), lies(&[(k, 11), (n, 1)], 1)),
        // One row, one column, one term, with any stride.
        (lies(&[(1, 77), (k, 2)], 0), b.clone()),
        (a.clone(), lies(&[(k, 3), (1, 77)], 0)),
        (lies(&[(m, 2), (1, 77)], 0), lies(&[(1, 77), (n, 1)], 0)),
        (lies(&[(1, 0), (1, 0)], 0), lies(&[(1, 0), (1, 0)], 2)),
        // Batches: contiguous, one side broadcast, two dimensions that merge, interleaved heads, reversed, and two that
        // are looped over.
        (batched(&a, &[(3, 45)], 0), batched(&b, &[(3, 54)], 0)),
        (batched(&a, &[(3, 45)], 0), batched(&b, &[(3, 0)], 0)),
        (batched(&a, &[(3, 0)], 0), batched(&b, &[(3, 54)], 0)),
        (batched(&a, &[(2, 90), (2, 45)], 0), batched(&b, &[(2, 108), (2, 54)], 0)),
        (lies(&[(3, 9), (m, 27), (k, 1)], 0), lies(&[(3, 6), (k, 18), (n, 1)], 0)),
        (batched(&a, &[(3, -45)], 90), batched(&b, &[(3, 54)], 0)),
        (batched(&a, &[(2, 135), (3, 45)], 0), batched(&b, &[(2, 54), (3, 0)], 0)),
        (batched(&a, &[(2, 45), (3, 90)], 0), batched(&b, &[(2, 54), (3, 108)], 0)),
        // Overlapping windows: the products share elements.
        (lies(&[(4, 9), (3, 9), (k, 1)], 0), batched(&b, &[(4, 54)], 0)),
    ]
}

#[test]
fn every_layout_gives_the_product() {
    let b = bench();
    let device = device(&b);
    for dtype in FLOATS {
        for (x, y) in layouts() {
            let work = Work::new(&device, dtype, &x, &y);
            assert_eq!(work.program.info().engine, "cuda sm_90, cuBLASLt");
            work.run().unwrap();
            work.is_right(&device);
        }
    }
}

/// Whether a product falls back to our own tiles: the fake has no compiler, so binding fails.
fn is_on_plain_cores(device: &CudaDevice, dtype: DType, precision: Precision, g: &MatmulGeometry) -> bool {
    bound(device, dtype, precision, g).is_err()
}

#[test]
fn what_is_not_the_library_s_runs_on_plain_cores() {
    let b = bench();
    let device = device(&b);
    let plain = geometry(&lies(&[(4, 8), (8, 1)], 0), &lies(&[(8, 4), (4, 1)], 0));
    assert!(!is_on_plain_cores(&device, DType::F32, Precision::Full, &plain));
    assert!(!is_on_plain_cores(&device, DType::F32, Precision::Tf32, &plain));
    for dtype in FLOATS {
        assert!(is_on_plain_cores(&device, dtype, Precision::Ordered, &plain));
    }
    for dtype in [DType::I8, DType::I32, DType::I64, DType::U8] {
        assert!(is_on_plain_cores(&device, dtype, Precision::Full, &plain));
    }
    // Without a unit stride, reversed, broadcast along the sum, overlapping rows.
    for a in [[16, 2], [8, -1], [8, 0], [3, 1]] {
        let a = Lies { base: if a[1] < 0 { 7 } else { 0 }, ..lies(&[(4, a[0]), (8, a[1])], 0) };
        let g = geometry(&a, &lies(&[(8, 4), (4, 1)], 0));
        assert!(is_on_plain_cores(&device, DType::F32, Precision::Full, &g), "{g:?}");
    }
}

/// Product of [m, k] and [k, n], both row-major.
fn square(dtype: DType, [m, n, k]: [usize; 3]) -> Launches {
    let g = geometry(&lies(&[(m, k as isize), (k, 1)], 0), &lies(&[(k, n as isize), (n, 1)], 0));
    launches(dtype, Precision::Full, &g).unwrap()
}

fn product(dtype: DType, sizes: [usize; 3]) -> Product {
    square(dtype, sizes).product
}

#[test]
fn algorithms_that_give_wrong_sums_are_passed_over() {
    let b = bench();
    for (n, dtype) in FLOATS.into_iter().enumerate() {
        for (k, sizes) in [4, 1000, 3001].into_iter().enumerate() {
            // Sizes of no other test, since choices are cached on disk.
            let p = product(dtype, [40 + n, 50 + k, sizes]);
            b.tell("fakeOffer", 2);
            assert!(b.gpu.product(&p).is_none(), "{p:?}");
            let p = product(dtype, [60 + n, 50 + k, sizes]);
            b.tell("fakeOffer", 2561);
            let heard = b.ask("fakeHeuristics");
            assert!(b.gpu.product(&p).is_some(), "{p:?}");
            assert_eq!(b.ask("fakeHeuristics"), heard + 1);
            // NaN is stored after the last row.
            let g = geometry(&lies(&[(4, sizes as isize + 5), (sizes, 1)], 0), &lies(&[(sizes, 12), (7 + n, 1)], 0));
            let p = launches(dtype, Precision::Full, &g).unwrap().product;
            b.tell("fakeOffer", 3);
            assert!(b.gpu.product(&p).is_none(), "{p:?}");
        }
    }
    // Algorithms that round the parts of split sums to the result's dtype, against the request.
    b.tell("fakeOffer", 6);
    assert!(b.gpu.product(&product(DType::F32, [41, 43, 47])).is_none());
    b.tell("fakeOffer", 67);
    assert!(b.gpu.product(&product(DType::F32, [41, 43, 48])).is_some());
    b.tell("fakeOffer", 1);
}

#[test]
fn a_choice_is_made_once_for_all_processes() {
    let b = bench();
    let p = product(DType::F16, [31, 33, 35]);
    b.tell("fakeOffer", 21);
    let before = (b.ask("fakeHeuristics"), b.ask("fakeProducts"));
    let first = b.gpu.product(&p).unwrap();
    let after = (before.0 + 1, before.1 + 2);
    assert_eq!((b.ask("fakeHeuristics"), b.ask("fakeProducts")), after, "two algorithms, each checked once");
    assert_eq!(b.gpu.product(&p).unwrap().info, first.info);
    // Like another process: a choice on disk is neither requested nor checked again.
    let other = Cuda::open(0).unwrap();
    assert!(other.product(&p).is_some());
    assert_eq!((b.ask("fakeHeuristics"), b.ask("fakeProducts")), after);
    // Another layout or precision is another product.
    assert!(other.product(&Product { tf32: true, dtype: DType::F32, ..p }).is_some());
    assert_eq!(b.ask("fakeHeuristics"), after.0 + 1);
    // The lack of an algorithm is cached, too.
    let none = product(DType::F32, [31, 33, 36]);
    b.tell("fakeOffer", 5);
    assert!(b.gpu.product(&none).is_none());
    b.tell("fakeOffer", 1);
    assert!(b.gpu.product(&none).is_none() && other.product(&none).is_none());
    assert_eq!(b.ask("fakeHeuristics"), after.0 + 2);
}

#[test]
fn tf32_is_used_where_it_is_asked_for() {
    let b = bench();
    let device = device(&b);
    let (x, y) = (lies(&[(3, 4), (4, 1)], 0), lies(&[(4, 5), (5, 1)], 0));
    let g = geometry(&x, &y);
    let factor = 1.0 + 2f64.powi(-12);
    for (precision, want) in [(Precision::Full, 4.0 * factor), (Precision::Tf32, 4.0)] {
        let program = bound(&device, DType::F32, precision, &g).unwrap();
        let filled = |n: usize, value: f64| {
            let buffer = device.allocate(4 * n).unwrap();
            device.write(&buffer, &bytes_of(&vec![value; n], DType::F32)).unwrap();
            buffer
        };
        let (a, b, c) = (filled(12, factor), filled(20, 1.0), filled(15, 0.0));
        program
            .launch(&Geometry::Contraction(Box::new(ContractionGeometry::unfused(g.clone()))), &[&a, &b, &c], &[])
            .unwrap();
        let mut bytes = vec![0; 60];
        device.read(&c, &mut bytes).unwrap();
        assert_eq!(values_of(&bytes, DType::F32), [want; 15], "{precision:?}");
    }
}

#[test]
fn workspace_comes_from_the_pool() {
    let b = bench();
    let device = device(&b);
    b.tell("fakeOffer", 4);
    let work = Work::new(&device, DType::F32, &lies(&[(21, 22), (22, 1)], 0), &lies(&[(22, 23), (23, 1)], 0));
    b.tell("fakeOffer", 1);
    device.reset_peak();
    let (before, memory) = (counters(), device.memory());
    work.run().unwrap();
    let counted = counters() - before;
    assert_eq!((counted.device_launches, counted.scratch_bytes), (1, 1024));
    assert_eq!(device.memory().peak, memory.in_use + 1024);
    assert_eq!(device.memory().in_use, memory.in_use);
    work.is_right(&device);
}

#[test]
fn a_failure_is_an_error_with_words() {
    let b = bench();
    let device = device(&b);
    let work = Work::new(&device, DType::F64, &lies(&[(21, 25), (25, 1)], 0), &lies(&[(25, 23), (23, 1)], 0));
    b.tell("fakeFailing", 1);
    let error = work.run().unwrap_err();
    b.tell("fakeFailing", 0);
    assert!(matches!(error, Error::Device { .. }));
    assert_eq!(error.to_string(), "cuda:0: cublasLtMatmul: it does not run (status 13)");
    work.run().unwrap();
    work.is_right(&device);
}

#[test]
fn products_are_part_of_graphs() {
    let b = bench();
    let device = device(&b);
    let sizes = |n: isize| (lies(&[(4, n), (n as usize, 1)], 0), lies(&[(n as usize, 6), (6, 1)], 0));
    let all: Vec<Vec<Work>> =
        (0..6).map(|_| [8, 9, 10].map(|n| Work::new(&device, DType::F32, &sizes(n).0, &sizes(n).1)).into()).collect();
    let run = |works: &[Work]| {
        let before = counters();
        device.batch(Some(77), false, &mut || works.iter().try_for_each(Work::run)).unwrap();
        let counted = counters() - before;
        works.iter().for_each(|w| w.is_right(&device));
        (counted.device_launches, counted.graph_runs, counted.graphs_made)
    };
    let updates = b.ask("fakeChildUpdates");
    for _ in 0..3 {
        assert_eq!(run(&all[0]), (3, 0, 0));
    }
    assert_eq!(run(&all[0]), (1, 1, 1));
    assert_eq!(run(&all[0]), (1, 1, 0));
    // Four sets of addresses have a graph each; a fifth one reuses another's graph.
    for works in &all[1..4] {
        assert_eq!(run(works), (1, 1, 1));
    }
    assert_eq!(b.ask("fakeChildUpdates"), updates);
    assert_eq!(run(&all[4]), (1, 1, 0));
    assert_eq!(b.ask("fakeChildUpdates"), updates + 3);
    // Where the driver refuses, launches run one by one.
    b.tell("fakeRefuse", 1);
    run(&all[5]);
    b.tell("fakeRefuse", 0);
}

/// Runs in a process of its own: a failed search is not repeated.
#[test]
fn without_the_library_everything_runs_on_plain_cores() {
    const NAME: &str = "products::without_the_library_everything_runs_on_plain_cores";
    if std::env::var_os("TEST_FAKE_WITHOUT").is_none() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args([NAME, "--exact"]).env("TEST_FAKE_WITHOUT", "1").env("THALWEG_CUBLASLT", "off");
        let again = again.output().unwrap();
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
        assert!(String::from_utf8_lossy(&again.stdout).contains("1 passed"));
        return;
    }
    let b = bench();
    assert!(b.gpu.product(&product(DType::F32, [3, 4, 5])).is_none());
    let found = thalweg_cuda::find::find(thalweg_cuda::find::Sought::CublasLt);
    assert_eq!(found.library, None);
    assert!(found.advice.unwrap().contains("THALWEG_CUBLASLT"));
}
