//! Compares row kernels with their definition, bit for bit: in both orientations, on every engine, with 1, 2 and 8
//! threads.

mod measure;
mod online;
mod oracle;

use super::{Lcg, download, upload, write};
use crate::{Choice, CpuDevice, CpuOptions, memory};
use std::sync::Arc;
use thalweg_ir::{DType, ElementOp, MAX_RANK, Monoid, Scalar, ScanOp, Shape, View};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, Body, BodyBuilder, Geometry, IndexMap, Kernel, Node, NodeId, Orientation,
    RowGeometry,
};
use thalweg_runtime::{Device, Error};

/// Domain of a test kernel: the sizes of a tensor, and the axes that are folded.
#[derive(Clone, Debug)]
struct Domain {
    shape: Vec<usize>,
    folded: Vec<usize>,
}

impl Domain {
    /// Whether the domain has so few points that all combinations are tested; of larger ones each has one.
    fn is_small(&self) -> bool {
        self.shape.iter().product::<usize>() < 4096
    }
}

/// Memory layout of an input.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Lies {
    Dense,
    /// Strided: every other element, from the last to the first.
    Flipped,
    /// With gaps along every axis.
    Padded,
    /// With the axes in reverse order in memory.
    Transposed,
    /// One element per row, of a tensor without the folded axes.
    PerRow,
}

/// Test case under construction: body, geometry and operands.
struct Case {
    b: BodyBuilder,
    orientation: Orientation,
    extents: Vec<usize>,
    kept: usize,
    /// Axis of the tensor for each domain dimension; `None` for an added dimension of size 1.
    axes: Vec<Option<usize>>,
    shape: Vec<usize>,
    accesses: Vec<AccessGeometry>,
    /// Contents of the operands; outputs are filled with a pattern.
    operands: Vec<Vec<u8>>,
}

impl Case {
    fn new(domain: &Domain, orientation: Orientation) -> Case {
        let folded = |a: &usize| domain.folded.contains(a);
        let mut axes: Vec<Option<usize>> = (0..domain.shape.len()).filter(|a| !folded(a)).map(Some).collect();
        if axes.is_empty() && orientation == Orientation::OuterAxis {
            axes.push(None);
        }
        let kept = axes.len();
        axes.extend((0..domain.shape.len()).filter(folded).map(Some));
        let extents = axes.iter().map(|a| a.map_or(1, |a| domain.shape[a])).collect();
        let shape = domain.shape.clone();
        Case { b: BodyBuilder::new(true), orientation, extents, kept, axes, shape, accesses: vec![], operands: vec![] }
    }

    /// Adds an access with these strides over the tensor's axes.
    fn add(&mut self, operand: Option<u16>, dtype: DType, base: isize, strides: &[isize], per_row: bool) -> u16 {
        let mut at = AccessGeometry { base, strides: [0; MAX_RANK], map: None, reach: None, distinct: 1 };
        for (to, axis) in at.strides.iter_mut().zip(&self.axes) {
            // A single element may have any stride; outputs must be contiguous.
            *to = axis.map_or(1, |a| strides[a]);
        }
        let step = match self.orientation {
            Orientation::OuterAxis => at.strides[self.kept - 1],
            Orientation::InnerAxis => at.strides[self.extents.len() - 1],
        };
        let class = match step {
            1 => AccessClass::Contiguous,
            0 => AccessClass::Uniform,
            _ => AccessClass::Strided,
        };
        self.accesses.push(at);
        self.b.access(Access { operand, dtype, class, per_row })
    }

    fn strides_of(sizes: &[usize]) -> Vec<isize> {
        let mut strides = vec![0; sizes.len()];
        let mut step = 1;
        for (s, &size) in strides.iter_mut().zip(sizes).rev() {
            *s = step;
            step *= size.max(1) as isize;
        }
        strides
    }

    /// Sizes of the tensor with folded axes reduced to 1.
    fn row_sizes(&self) -> Vec<usize> {
        let kept = &self.axes[..self.kept];
        (0..self.shape.len()).map(|a| if kept.contains(&Some(a)) { self.shape[a] } else { 1 }).collect()
    }

    fn row_strides(&self) -> Vec<isize> {
        let sizes = self.row_sizes();
        let strides = Case::strides_of(&sizes);
        let kept = &self.axes[..self.kept];
        strides.iter().enumerate().map(|(a, &s)| if kept.contains(&Some(a)) { s } else { 0 }).collect()
    }

    fn fill(&mut self, rng: &mut Lcg, dtype: DType, elements: usize, special: bool) -> u16 {
        let mut bytes = vec![0u8; elements.max(1) * dtype.size()];
        for chunk in bytes.chunks_mut(dtype.size()) {
            let value = match dtype {
                DType::Bool => Scalar::Bool(rng.below(5) > 0),
                d if d.is_float() && special && rng.below(300) == 0 => {
                    Scalar::Float([f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::NAN][rng.below(4)])
                }
                d if d.is_float() => Scalar::Float(rng.value() / 3.0 + 0.01),
                d => Scalar::Int(d.wrap(rng.below(1 << 30) as i64 * 3)),
            };
            // SAFETY: the chunk has space for an element.
            unsafe { write(chunk.as_mut_ptr(), dtype, value) };
        }
        self.operands.push(bytes);
        self.operands.len() as u16 - 1
    }

    /// Adds an input, and loads its element at a point.
    fn input(&mut self, rng: &mut Lcg, dtype: DType, lies: Lies, special: bool) -> NodeId {
        let sizes = self.shape.clone();
        let access = match lies {
            Lies::Dense => {
                let operand = self.fill(rng, dtype, sizes.iter().product(), special);
                self.add(Some(operand), dtype, 0, &Case::strides_of(&sizes), false)
            }
            Lies::Flipped => {
                let doubled: Vec<usize> = sizes.iter().map(|s| 2 * s.max(&1)).collect();
                let operand = self.fill(rng, dtype, doubled.iter().product(), special);
                let strides: Vec<isize> = Case::strides_of(&doubled).iter().map(|s| -2 * s).collect();
                let base = strides.iter().zip(&sizes).map(|(s, &d)| -s * (d.max(1) as isize - 1)).sum();
                self.add(Some(operand), dtype, base, &strides, false)
            }
            Lies::Transposed => {
                let operand = self.fill(rng, dtype, sizes.iter().product(), special);
                let turned: Vec<usize> = sizes.iter().rev().copied().collect();
                let strides: Vec<isize> = Case::strides_of(&turned).into_iter().rev().collect();
                self.add(Some(operand), dtype, 0, &strides, false)
            }
            Lies::PerRow => {
                let operand = self.fill(rng, dtype, self.row_sizes().iter().product(), special);
                let strides = self.row_strides();
                self.add(Some(operand), dtype, 0, &strides, true)
            }
            Lies::Padded => {
                let domain = &self.extents;
                let parts: Vec<(usize, usize)> = domain.iter().map(|&d| (d / 5, d / 7)).collect();
                let inner: Vec<usize> = domain.iter().zip(&parts).map(|(d, p)| d - p.0 - p.1).collect();
                let map = IndexMap::new(View::contiguous(Shape::new(&inner))).pad(&parts);
                let operand = self.fill(rng, dtype, inner.iter().product(), special);
                let reach = map.reach();
                let map = Some(Arc::new(map));
                self.accesses.push(AccessGeometry { base: 0, strides: [0; MAX_RANK], map, reach, distinct: 1 });
                self.b.access(Access { operand: Some(operand), dtype, class: AccessClass::Mapped, per_row: false })
            }
        };
        self.b.node(Node::Load { access })
    }

    /// Adds an output that stores a value, one element per point or one per row.
    fn output(&mut self, node: NodeId, per_row: bool) {
        let dtype = self.b.body().dtype(node);
        let sizes = if per_row { self.row_sizes() } else { self.shape.clone() };
        let elements: usize = sizes.iter().product();
        self.operands.push(vec![7; (elements * dtype.size()).max(8)]);
        let operand = self.operands.len() as u16 - 1;
        let strides = if per_row { self.row_strides() } else { Case::strides_of(&sizes) };
        let access = self.add(Some(operand), dtype, 0, &strides, per_row);
        self.b.store(node, access);
    }

    /// Adds a node with the index of a point in its row, as f32 or i64.
    fn place(&mut self, dtype: DType) -> NodeId {
        let row = Case::strides_of(&self.extents[self.kept..]);
        let mut strides = vec![0; self.shape.len()];
        for (axis, step) in self.axes[self.kept..].iter().zip(row) {
            strides[axis.unwrap()] = step;
        }
        let access = self.add(None, DType::U32, 0, &strides, false);
        let index = self.b.node(Node::Index { access, dtype: DType::I64 });
        self.b.cast(index, dtype)
    }

    fn finish(self) -> (Body, RowGeometry, Vec<Vec<u8>>) {
        let geometry = RowGeometry { extents: self.extents, kept: self.kept, accesses: self.accesses };
        (self.b.finish(), geometry, self.operands)
    }
}

fn op(case: &mut Case, op: ElementOp, args: &[NodeId]) -> NodeId {
    case.b.element(op, args)
}

/// Builds a kernel like softmax from exact operations: `e/Σe`, where `e = d²/√d²` and `d = x - max`. It has two folds
/// and three passes.
fn softmax_like(case: &mut Case, rng: &mut Lcg, lies: Lies) {
    let x = case.input(rng, DType::F32, lies, false);
    let m = case.b.fold(Monoid::Max, x);
    let d = op(case, ElementOp::Sub, &[x, m]);
    let q = op(case, ElementOp::Mul, &[d, d]);
    let r = op(case, ElementOp::Sqrt, &[q]);
    let e = op(case, ElementOp::Div, &[q, r]);
    let s = case.b.fold(Monoid::Sum, e);
    let y = op(case, ElementOp::Div, &[e, s]);
    case.output(y, false);
}

/// Builds a layer norm that also stores mean and variance, and multiplies by one factor per row.
fn layer_norm(case: &mut Case, rng: &mut Lcg, lies: Lies) {
    let x = case.input(rng, DType::F32, lies, true);
    let w = case.input(rng, DType::F32, Lies::PerRow, false);
    let n = case.b.scalar(0, DType::F32);
    let s = case.b.fold(Monoid::Sum, x);
    let mean = op(case, ElementOp::Div, &[s, n]);
    let d = op(case, ElementOp::Sub, &[x, mean]);
    let q = op(case, ElementOp::Mul, &[d, d]);
    let s = case.b.fold(Monoid::Sum, q);
    let variance = op(case, ElementOp::Div, &[s, n]);
    let eps = case.b.constant(Scalar::Float(1e-5), DType::F32);
    let v = op(case, ElementOp::Add, &[variance, eps]);
    let root = op(case, ElementOp::Sqrt, &[v]);
    let y = op(case, ElementOp::Div, &[d, root]);
    let y = op(case, ElementOp::Mul, &[y, w]);
    case.output(mean, true);
    case.output(y, false);
    case.output(variance, true);
}

/// Builds an argmax: the index of the largest element, where the first NaN counts as the largest.
fn argmax(case: &mut Case, rng: &mut Lcg, lies: Lies, dtype: DType) {
    let x = case.input(rng, dtype, lies, true);
    let acc = if dtype.is_float() && dtype != DType::F64 { DType::F32 } else { dtype };
    let x = case.b.cast(x, acc);
    let m = case.b.fold(Monoid::Max, x);
    let mut here = op(case, ElementOp::Eq, &[x, m]);
    if acc.is_float() {
        let nan = op(case, ElementOp::Ne, &[x, x]);
        here = op(case, ElementOp::Or, &[here, nan]);
    }
    let place = case.place(DType::I64);
    let far = case.b.constant(Scalar::Int(i64::MAX), DType::I64);
    let at = op(case, ElementOp::Where, &[here, place, far]);
    let first = case.b.fold(Monoid::Min, at);
    case.output(first, true);
}

/// Builds a plain fold, with a wider accumulator for narrow dtypes.
fn plain(case: &mut Case, rng: &mut Lcg, lies: Lies, fold: Monoid, dtype: DType) {
    let x = case.input(rng, dtype, lies, !matches!(fold, Monoid::Sum | Monoid::Prod));
    let acc = match dtype {
        DType::BF16 | DType::F16 => DType::F32,
        DType::I8 | DType::I16 | DType::U8 | DType::U16 | DType::Bool => DType::I32,
        d => d,
    };
    let x = case.b.cast(x, acc);
    let s = case.b.fold(fold, x);
    let y = case.b.cast(s, dtype);
    case.output(y, true);
}

/// Builds a kernel with a per-point output, and a fold that only a later fold uses.
fn two_outputs(case: &mut Case, rng: &mut Lcg, lies: Lies) {
    let x = case.input(rng, DType::F64, lies, false);
    let z = case.input(rng, DType::F32, Lies::Dense, false);
    let m = case.b.fold(Monoid::Min, x);
    let d = op(case, ElementOp::Sub, &[x, m]);
    let i = case.b.cast(d, DType::I64);
    let s = case.b.fold(Monoid::Sum, i);
    let p = case.b.fold(Monoid::Prod, z);
    let f = case.b.cast(s, DType::F32);
    let y = op(case, ElementOp::Add, &[z, f]);
    case.output(y, false);
    case.output(p, true);
    case.output(s, true);
}

/// Builds running sums, a fold of their results, and an argsort: scans between passes.
fn scans(case: &mut Case, rng: &mut Lcg, lies: Lies) {
    let x = case.input(rng, DType::F32, lies, false);
    let sums = case.b.scan(ScanOp::Sum, false, x);
    let m = case.b.fold(Monoid::Max, sums);
    let d = op(case, ElementOp::Sub, &[sums, m]);
    let order = case.b.scan(ScanOp::Argsort, true, d);
    let last = case.b.fold(Monoid::Sum, d);
    case.output(d, false);
    case.output(order, false);
    case.output(last, true);
}

/// Builds the product of each element with an element gathered by an index that is computed from its position.
fn gathers(case: &mut Case, rng: &mut Lcg) {
    let x = case.input(rng, DType::F32, Lies::Dense, false);
    let table: Vec<u8> = (0..50).flat_map(|i| (i as f32 * 1.25 - 9.0).to_le_bytes()).collect();
    case.operands.push(table);
    let operand = case.operands.len() as u16 - 1;
    let at = case.add(Some(operand), DType::F32, 3, &vec![0; case.shape.len()], false);
    // The class of a single element does not matter, but it must not appear to be a row of them.
    let place = case.place(DType::I64);
    let m = case.b.constant(Scalar::Int(46), DType::I64);
    let offset = op(case, ElementOp::Rem, &[place, m]);
    let inside = op(case, ElementOp::Lt, &[offset, m]);
    let y = case.b.node(Node::Gather { access: at, offset, inside });
    let p = op(case, ElementOp::Mul, &[x, y]);
    let s = case.b.fold(Monoid::Sum, p);
    case.output(s, true);
    case.output(y, false);
}

/// Launches a kernel; returns the bytes of the operands afterwards.
fn launch(
    device: &CpuDevice,
    orientation: Orientation,
    (body, geometry, operands): &(Body, RowGeometry, Vec<Vec<u8>>),
    scalars: &[u64],
) -> Vec<Vec<u8>> {
    let buffers: Vec<_> = operands.iter().map(|o| upload(device, o)).collect();
    let program = device.program(&Kernel::Rows { body: body.clone(), orientation }).unwrap();
    let refs: Vec<_> = buffers.iter().collect();
    program.launch(&Geometry::Rows(geometry.clone()), &refs, scalars).unwrap();
    buffers.iter().zip(operands).map(|(b, o)| download(device, b, o.len())).collect()
}

/// Compares two results bit for bit, except that all NaN are equal: which NaN propagates depends on the processor.
pub fn same(dtype: DType, a: &[u8], b: &[u8]) -> Result<(), String> {
    if a == b {
        return Ok(());
    }
    for (i, (a, b)) in a.chunks_exact(dtype.size()).zip(b.chunks_exact(dtype.size())).enumerate() {
        // SAFETY: a chunk is an element; vectors of bytes are aligned enough for these reads on the machines that run
        // tests.
        let (x, y) = unsafe { (super::read(a.as_ptr(), dtype), super::read(b.as_ptr(), dtype)) };
        if a != b && !(x.to_f64().is_nan() && y.to_f64().is_nan()) {
            return Err(format!("element {i}: {x:?}, not {y:?}"));
        }
    }
    Ok(())
}

fn devices() -> Vec<(String, Arc<CpuDevice>)> {
    let mut devices = vec![];
    for isa in Choice::all() {
        for threads in if isa == Choice::Tile { vec![1, 2, 8] } else { vec![1, 2] } {
            let options = CpuOptions { threads, parallel_ns: 0.0, isa };
            devices.push((format!("{isa:?} {threads}"), CpuDevice::with(options)));
        }
    }
    devices
}

/// Runs a body over a domain in both orientations on all devices, and compares the results.
fn check(
    devices: &[(String, Arc<CpuDevice>)],
    domain: &Domain,
    exact: bool,
    what: &str,
    build: impl Fn(&mut Case, &mut Lcg),
) {
    let scalars =
        [Scalar::Float(domain.folded.iter().map(|&a| domain.shape[a]).product::<usize>() as f64).to_bits(DType::F32)];
    let mut wanted: Option<Vec<Vec<u8>>> = None;
    for orientation in [Orientation::InnerAxis, Orientation::OuterAxis] {
        let mut case = Case::new(domain, orientation);
        build(&mut case, &mut Lcg(domain.shape.iter().sum::<usize>() as u64));
        let case = case.finish();
        if exact && wanted.is_none() {
            let mut operands = case.2.clone();
            oracle::run(&case.0, &case.1, &mut operands, &scalars);
            wanted = Some(operands);
        }
        for (name, device) in devices {
            let got = launch(device, orientation, &case, &scalars);
            let wanted = wanted.get_or_insert_with(|| got.clone());
            for access in &case.0.accesses {
                let Some(operand) = access.operand else { continue };
                let operand = operand as usize;
                if let Err(why) = same(access.dtype, &got[operand], &wanted[operand]) {
                    panic!("{what}, {domain:?}, {orientation:?}, {name}, operand {operand}: {why}");
                }
            }
        }
    }
}

fn softmax(case: &mut Case, rng: &mut Lcg) {
    let x = case.input(rng, DType::F32, Lies::Dense, false);
    let m = case.b.fold(Monoid::Max, x);
    let d = op(case, ElementOp::Sub, &[x, m]);
    let e = op(case, ElementOp::Exp, &[d]);
    let s = case.b.fold(Monoid::Sum, e);
    let y = op(case, ElementOp::Div, &[e, s]);
    case.output(y, false);
}

fn domain(shape: &[usize], folded: &[usize]) -> Domain {
    Domain { shape: shape.to_vec(), folded: folded.to_vec() }
}

fn domains(large: bool) -> Vec<Domain> {
    let mut all = vec![];
    for n in [0, 1, 2, 31, 32, 33, 95] {
        all.push(domain(&[n], &[0]));
        all.push(domain(&[7, n], &[1]));
        all.push(domain(&[n, 70], &[0]));
        all.push(domain(&[3, n, 5], &[1]));
        all.push(domain(&[n, 5, 3], &[0, 2]));
        all.push(domain(&[2, n, 3, 2, 3], &[1, 3]));
    }
    if large {
        for n in [4096, 4097, 9000] {
            all.push(domain(&[n], &[0]));
            all.push(domain(&[3, n], &[1]));
            all.push(domain(&[n, 3], &[0]));
            all.push(domain(&[3, 2, n], &[0, 2]));
            all.push(domain(&[n, 2, 3], &[0, 2]));
        }
        all.push(domain(&[2, 4097, 20], &[1]));
        all.push(domain(&[40_000], &[0]));
        all.push(domain(&[40_000, 2], &[0]));
        all.push(domain(&[2, 40_000], &[1]));
        all.push(domain(&[20, 3000], &[0]));
        all.push(domain(&[30, 40, 50], &[1]));
        all.push(domain(&[3000, 3], &[1]));
    }
    all
}

const LAYOUTS: [Lies; 3] = [Lies::Dense, Lies::Flipped, Lies::Padded];

#[test]
fn row_folds_of_every_kind() {
    let devices = devices();
    let dtypes = DType::ALL;
    for (i, domain) in domains(true).iter().enumerate() {
        let folds = [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min].into_iter().enumerate();
        for (j, fold) in folds.filter(|(j, _)| domain.is_small() || j % 4 == i % 4) {
            let (dtype, lies) = (dtypes[(3 * i + j) % dtypes.len()], LAYOUTS[(i + j) % 3]);
            check(&devices, domain, true, &format!("{fold:?} {dtype} {lies:?}"), |case, rng| {
                plain(case, rng, lies, fold, dtype)
            });
        }
    }
}

/// Builds sum and maximum of products with a transposed operand, and the squared differences of that operand from the
/// maximum.
fn products_across(case: &mut Case, rng: &mut Lcg, dtype: DType) {
    let [x, z] = [Lies::Dense, Lies::Transposed].map(|lies| case.input(rng, dtype, lies, false));
    let carried = Monoid::carried(dtype);
    let [x, z] = [x, z].map(|v| case.b.cast(v, carried));
    let product = op(case, ElementOp::Mul, &[x, z]);
    let (sum, most) = (case.b.fold(Monoid::Sum, product), case.b.fold(Monoid::Max, product));
    let differs = op(case, ElementOp::Sub, &[z, most]);
    let square = op(case, ElementOp::Mul, &[differs, differs]);
    let squares = case.b.fold(Monoid::Sum, square);
    [sum, most, squares].into_iter().for_each(|v| case.output(v, true));
}

#[test]
fn row_folds_of_what_lies_across_the_rows() {
    let devices = devices();
    let dtypes = [DType::F32, DType::F64, DType::BF16, DType::I32, DType::U8];
    let domains = [
        domain(&[40, 70], &[0, 1]),
        domain(&[33, 5000], &[0, 1]),
        domain(&[3, 50, 200], &[1, 2]),
        domain(&[2, 3, 65, 64], &[2, 3]),
        domain(&[100, 2, 130], &[0, 2]),
        domain(&[17, 20_000], &[0, 1]),
    ];
    for (i, domain) in domains.iter().enumerate() {
        for dtype in if i == 0 { &dtypes[..] } else { &dtypes[i % 5..][..1] } {
            check(&devices, domain, true, &format!("products across {dtype}"), |case, rng| {
                products_across(case, rng, *dtype)
            });
        }
    }
}

#[test]
fn row_bodies_of_several_passes() {
    let devices = devices();
    for (i, domain) in domains(true).iter().enumerate() {
        type Build = fn(&mut Case, &mut Lcg, Lies);
        let bodies: [(&str, Build); 3] =
            [("softmax", softmax_like), ("layer norm", layer_norm), ("two outputs", two_outputs)];
        for (k, (name, build)) in bodies.into_iter().enumerate().filter(|(k, _)| domain.is_small() || k % 3 == i % 3) {
            let lies = LAYOUTS[(i + k) % 3];
            check(&devices, domain, true, &format!("{name} {lies:?}"), |c, rng| build(c, rng, lies));
        }
    }
}

#[test]
fn row_maxima_are_found_where_they_stand() {
    let devices = devices();
    for (i, domain) in domains(true).iter().enumerate().filter(|(i, d)| d.is_small() || i % 2 == 0) {
        let dtype = [DType::F32, DType::I64, DType::F64, DType::BF16, DType::I32][i % 5];
        let lies = LAYOUTS[i % 3];
        check(&devices, domain, true, &format!("argmax {dtype} {lies:?}"), |c, rng| argmax(c, rng, lies, dtype));
    }
}

#[test]
fn row_scans_run_between_passes() {
    let devices = devices();
    for (i, domain) in domains(true).iter().enumerate().filter(|(i, d)| d.is_small() || i % 3 == 0) {
        let lies = LAYOUTS[i % 3];
        check(&devices, domain, true, &format!("scans {lies:?}"), |c, rng| scans(c, rng, lies));
    }
}

#[test]
fn row_gathers_go_where_their_indices_lead() {
    let devices = devices();
    for domain in domains(false) {
        check(&devices, &domain, true, "gathers", gathers);
    }
}

#[test]
fn an_index_out_of_range_ends_a_launch_of_rows() {
    for (shape, orientation) in
        [(&[3, 40], Orientation::InnerAxis), (&[3, 9000], Orientation::InnerAxis), (&[40, 3], Orientation::OuterAxis)]
    {
        let folded = if orientation == Orientation::InnerAxis { 1 } else { 0 };
        let mut case = Case::new(&domain(shape, &[folded]), orientation);
        gathers(&mut case, &mut Lcg(1));
        let mut case = case.finish();
        // The table is shorter than its indices require.
        case.2[1].truncate(4 * 20);
        for (name, device) in devices() {
            let buffers: Vec<_> = case.2.iter().map(|o| upload(&*device, o)).collect();
            let program = device.program(&Kernel::Rows { body: case.0.clone(), orientation }).unwrap();
            let refs: Vec<_> = buffers.iter().collect();
            let done = program.launch(&Geometry::Rows(case.1.clone()), &refs, &[]);
            assert!(matches!(done, Err(Error::Index(_))), "{shape:?} {orientation:?} {name}: {done:?}");
        }
    }
}

/// Tests that results of math functions, which depend on the engine, depend neither on orientation nor on threads.
#[test]
fn row_softmax_is_the_same_in_both_orientations() {
    for isa in Choice::all() {
        let device = |threads| CpuDevice::with(CpuOptions { threads, parallel_ns: 0.0, isa });
        let devices = [1, 2, 8].map(|t| (format!("{isa:?} {t}"), device(t)));
        for domain in domains(true) {
            check(&devices, &domain, false, "softmax", softmax);
        }
    }
}

/// Tests outputs in the buffer of an input that is read at the same points.
#[test]
fn row_outputs_may_lie_over_inputs() {
    for domain in
        [domain(&[50, 300], &[1]), domain(&[300, 50], &[0]), domain(&[9000, 3], &[0]), domain(&[3, 9000], &[1])]
    {
        for orientation in [Orientation::InnerAxis, Orientation::OuterAxis] {
            let mut case = Case::new(&domain, orientation);
            softmax_like(&mut case, &mut Lcg(4), Lies::Dense);
            let case = case.finish();
            for (name, device) in devices() {
                let wanted = launch(&device, orientation, &case, &[]).pop().unwrap();
                let buffer = upload(&*device, &case.2[0]);
                let program = device.program(&Kernel::Rows { body: case.0.clone(), orientation }).unwrap();
                program.launch(&Geometry::Rows(case.1.clone()), &[&buffer, &buffer], &[]).unwrap();
                let got: Vec<u8> = download(&*device, &buffer, wanted.len());
                assert_eq!(got, wanted, "{domain:?} {orientation:?} {name}");
            }
        }
    }
}

/// Tests rows so long that no values are saved in buffers, and outputs with non-temporal stores.
#[test]
fn row_bodies_over_long_rows() {
    let devices = [1, 2].map(|threads| {
        let options = CpuOptions { threads, parallel_ns: 0.0, ..CpuOptions::default() };
        (format!("{threads}"), CpuDevice::with(options))
    });
    for domain in [domain(&[2, (1 << 20) + 77], &[1]), domain(&[(1 << 20) + 77, 3], &[0])] {
        check(&devices, &domain, false, "softmax", |c, rng| softmax_like(c, rng, Lies::Dense));
    }
    if memory::last_level_cache() <= 64 << 20 {
        let domain = domain(&[memory::last_level_cache() / 4 / 1024 + 3, 1024], &[1]);
        check(&devices, &domain, false, "softmax", |c, rng| softmax_like(c, rng, Lies::Dense));
    }
}

#[test]
#[should_panic(expected = "writes one element from two points")]
fn rows_that_overlap_panic() {
    let mut case = Case::new(&domain(&[4, 5], &[1]), Orientation::InnerAxis);
    plain(&mut case, &mut Lcg(1), Lies::Dense, Monoid::Sum, DType::F32);
    let mut case = case.finish();
    case.1.accesses[1].strides[0] = 0;
    launch(&super::device(1), Orientation::InnerAxis, &case, &[]);
}

#[test]
#[should_panic(expected = "access 0 reaches elements 0 to 19 of operand 0, which has 19")]
fn rows_that_reach_outside_panic() {
    let mut case = Case::new(&domain(&[4, 5], &[0]), Orientation::OuterAxis);
    plain(&mut case, &mut Lcg(1), Lies::Dense, Monoid::Sum, DType::F64);
    let mut case = case.finish();
    // Buffers have whole cache lines, so only a smaller operand makes 19 elements too few.
    case.2[0].truncate(19 * 8);
    launch(&super::device(1), Orientation::OuterAxis, &case, &[]);
}

/// Tests neighbouring points of a block whose positions are so far apart that no i32 table can hold them.
#[test]
fn row_maps_over_more_than_an_i32_reaches() {
    let device = super::device(2);
    let apart = (1usize << 31) + 8;
    // Most of it is never touched, so it takes little memory; if even its address space is unavailable, there is
    // nothing to test.
    let Ok(input) = device.allocate(apart + 5) else { return };
    let map = IndexMap::new(View::contiguous(Shape::new(&[2, apart]))).slice(&[(0, 1, 2), (0, 1, 5)]).permute(&[1, 0]);
    for orientation in [Orientation::InnerAxis, Orientation::OuterAxis] {
        let mut case = Case::new(&domain(&[5, 2], &[1]), orientation);
        let reach = map.reach();
        let (strides, shared) = ([0; MAX_RANK], Some(Arc::new(map.clone())));
        case.accesses.push(AccessGeometry { base: 0, strides, map: shared, reach, distinct: 10 });
        let (class, dtype) = (AccessClass::Mapped, DType::U8);
        let access = case.b.access(Access { operand: Some(0), dtype, class, per_row: false });
        case.operands.push(vec![]);
        let x = case.b.node(Node::Load { access });
        let x = case.b.cast(x, DType::U32);
        let s = case.b.fold(Monoid::Sum, x);
        case.output(s, true);
        for i in 0..5 {
            // SAFETY: the indices are inside the buffer, and nobody else has it.
            unsafe {
                input.address().add(i).write(i as u8 + 1);
                input.address().add(apart + i).write(10 * i as u8);
            }
        }
        let (body, geometry, operands) = case.finish();
        let output = upload(&*device, &operands[1]);
        let program = device.program(&Kernel::Rows { body, orientation }).unwrap();
        program.launch(&Geometry::Rows(geometry), &[&input, &output], &[]).unwrap();
        assert_eq!(download::<u32>(&*device, &output, 5), [1, 12, 23, 34, 45], "{orientation:?}");
    }
}
