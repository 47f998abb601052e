//! Contractions: matrix products with prologues and epilogue. docs/contractions.md has the idea.
//!
//! In: a product, the map bodies of operands that are not in memory (prologues), and the body that follows the
//! accumulators (epilogue). Out: a [`Contraction`] with its [`ContractionGeometry`], and the launches of these bodies
//! for each rectangle of rows and columns that a device works on ([`TileGeometry::launches`]).
//!
//! Always true: the rectangles of a [`TileGeometry`]'s launches are disjoint and cover the requested one; the [`Local`]
//! access of each goes to `(row - first row)·pitch + column - first column`.

use crate::geometry::{AccessGeometry, Kernel, MapGeometry, MatmulGeometry, Precision, RowGeometry};
use crate::{Body, IndexMap};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use thalweg_ir::{DType, MAX_RANK};

/// Support of a device for fusing operations with matrix products.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Contracts {
    /// None: products are unfused GEMMs.
    Bare,
    /// Elementwise prologues and epilogues. Where tensor cores compute both products, also flash attention: a product
    /// whose left operand is computed from another one's accumulators by one-pass weights ([`crate::weights()`]).
    Tiles,
    /// Also row operations, with any folds, on the left operand and on the accumulators.
    Rows,
}

/// Matrix product (GEMM) with optional prologues and epilogue. Operands: those of the left operand (one if it is in
/// memory), of the right one, the epilogue's reads except the accumulators, then the writes: the result, or the
/// epilogue's outputs.
/// Scalars: of the left operand, the right one, the epilogue. If an operand is computed from a producer GEMM
/// ([`Inner`]), that product's operands and scalars come first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Contraction {
    /// Dtype of the operands. Floats narrower than f32 accumulate in f32; integers wrap.
    pub dtype: DType,
    /// Precision of the accumulation.
    pub precision: Precision,
    /// Prologues of the left and the right operand; `None` for one that is in memory.
    pub factors: [Option<Box<Prologue>>; 2],
    /// Epilogue; `None` if the accumulators are the result.
    pub epilogue: Option<Box<Epilogue>>,
}

/// Prologue: the computation of a matrix operand that is not in memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Prologue {
    /// A [`Kernel::Map`] or [`Kernel::Boxes`] over the points of the operand, or, for the left operand, a
    /// [`Kernel::Rows`] along its rows. Its last operand and access is its output, row-major, or the transpose of that.
    pub kernel: Kernel,
    /// Order in which the kernel traverses the operand's points.
    pub order: FactorOrder,
    /// Number of operands that the prologue reads, except the accumulators of `inner`.
    pub operands: usize,
    /// Number of scalars of the kernel.
    pub scalars: usize,
    /// Producer GEMM that the operand is computed from, as in attention; for the left operand only.
    pub inner: Option<Box<Inner>>,
}

/// Order in which a prologue traverses the points of its operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FactorOrder {
    /// Row-major over the operand: `[batch…, m, k]` or `[batch…, k, n]`.
    Own,
    /// Row-major over the operand's transpose, in which its sources are stored. Only for map bodies.
    Turned,
}

/// Producer GEMM: a product whose accumulators the left operand of another product is computed from. In `softmax(q·kᵀ +
/// mask)·v` it is `q·kᵀ`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Inner {
    /// The producer GEMM; its result has the shape of the operand. Its own operands are in memory or map bodies. Its
    /// epilogue is the elementwise chain after its accumulators, if there is one: a map with one result, whose other
    /// inputs depend on no product or fold (scale and mask of attention).
    pub product: Contraction,
    /// Index of the prologue's operand that receives the result: the accumulators, in the accumulator's dtype, or the
    /// output of the producer's epilogue.
    pub sums: u16,
    /// Dtype of that operand.
    pub dtype: DType,
}

/// Epilogue: the computation from a product's accumulators, elementwise or along its rows.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Epilogue {
    /// A [`Kernel::Map`], [`Kernel::Boxes`] or [`Kernel::Rows`] over the points of the result.
    pub kernel: Kernel,
    /// Index of the operand of `kernel` that receives the accumulators, in the accumulator's dtype.
    pub sums: u16,
    /// Number of operands that the epilogue reads, including the accumulators; the later ones are written.
    pub reads: u16,
    /// Number of operands that the epilogue writes.
    pub writes: u16,
    /// Number of scalars of the epilogue's kernel.
    pub scalars: u16,
}

/// Geometry of a launch of a contraction.
#[derive(Clone, Debug)]
pub struct ContractionGeometry {
    /// Sizes of the product. Positions and strides of a computed operand refer to its own row-major elements.
    pub product: MatmulGeometry,
    /// Tiles of the prologues of the left and the right operand.
    pub factors: [Option<Box<TileGeometry>>; 2],
    /// Geometry of the producer GEMM, if there is one.
    pub inner: Option<Box<ContractionGeometry>>,
    /// Tiles of the epilogue.
    pub epilogue: Option<Box<TileGeometry>>,
}

/// Domain of a map or row body that runs rectangle by rectangle: `[batch…, rows…, columns…]`. A row body has one box
/// and one dimension of columns, its rows; its rectangles contain all columns.
#[derive(Clone, Debug)]
pub struct TileGeometry {
    /// Sizes of all dimensions, outermost first, at most eight, in three groups: batch, rows, columns.
    pub extents: Vec<usize>,
    /// Index of the first dimension of the rows group.
    pub rows: usize,
    /// Index of the first dimension of the columns group.
    pub columns: usize,
    /// Boxes that the domain is cut into, one per body.
    pub boxes: Vec<TileBox>,
}

/// Box of a [`TileGeometry`].
#[derive(Clone, Debug)]
pub struct TileBox {
    /// First index of the box along each dimension.
    pub origin: Vec<usize>,
    /// Sizes and accesses of the box. Its dimensions are not merged; the base of each access is at the box's origin.
    pub geometry: MapGeometry,
}

/// Rectangle of a [`TileGeometry`], in one of its batches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rectangle {
    /// Linear index of the batch, row-major over the batch dimensions.
    pub batch: usize,
    /// Range of linear row indices, row-major over the rows group.
    pub rows: Range<usize>,
    /// Range of linear column indices, row-major over the columns group.
    pub columns: Range<usize>,
}

/// Access to a local rectangle instead of a whole tensor: its operand, and the stride between the rectangle's rows.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// Index of the operand.
    pub operand: u16,
    /// Stride in elements from row to row.
    pub pitch: usize,
}

impl Contraction {
    /// Unfused product of operands in memory.
    pub fn unfused(dtype: DType, precision: Precision) -> Contraction {
        Contraction { dtype, precision, factors: [None, None], epilogue: None }
    }

    /// Whether the contraction is an unfused product.
    pub fn is_unfused(&self) -> bool {
        self.factors.iter().all(Option::is_none) && self.epilogue.is_none()
    }

    /// Dtype of the accumulators.
    pub fn accumulator(&self) -> DType {
        accumulator(self.dtype)
    }

    /// Whether the kernel needs whole rows at a time: of the left operand, or of the accumulators.
    pub fn takes_rows(&self) -> bool {
        let rows = |kernel: &Kernel| matches!(kernel, Kernel::Rows { .. });
        self.factors[0].as_ref().is_some_and(|f| rows(&f.kernel) || f.inner.is_some())
            || self.epilogue.as_ref().is_some_and(|e| rows(&e.kernel))
    }

    /// Number of kernel operands that the left and right matrix operands are read or computed from.
    pub fn factor_operands(&self) -> usize {
        self.factors.iter().map(|f| f.as_ref().map_or(1, |p| p.reads())).sum()
    }

    /// Number of scalars of the prologues.
    pub fn factor_scalars(&self) -> usize {
        self.factors.iter().flatten().map(|p| p.scalars + p.inner_scalars()).sum()
    }

    /// Number of operands that the kernel reads.
    pub fn reads(&self) -> usize {
        self.factor_operands() + self.epilogue.as_ref().map_or(0, |e| e.reads as usize - 1)
    }

    /// Number of scalars of the kernel.
    pub fn scalars(&self) -> usize {
        self.factor_scalars() + self.epilogue.as_ref().map_or(0, |e| e.scalars as usize)
    }

    /// Number of operands that the kernel writes: its last ones.
    pub fn results(&self) -> usize {
        self.epilogue.as_ref().map_or(1, |e| e.writes as usize)
    }
}

impl Prologue {
    /// Number of kernel operands that the matrix operand is computed from: those of the producer GEMM, then the
    /// prologue's own.
    pub fn reads(&self) -> usize {
        self.inner_operands() + self.operands
    }

    /// Number of operands of the producer GEMM; 0 without one.
    pub fn inner_operands(&self) -> usize {
        self.inner.as_ref().map_or(0, |i| i.product.reads())
    }

    /// Number of scalars of the producer GEMM that the matrix operand is computed from (`q·kᵀ` in attention); 0 without
    /// one.
    pub fn inner_scalars(&self) -> usize {
        self.inner.as_ref().map_or(0, |i| i.product.scalars())
    }
}

/// Accumulator dtype of a product whose operands have that dtype: f32 for bf16 and f16.
pub fn accumulator(dtype: DType) -> DType {
    match dtype {
        DType::BF16 | DType::F16 => DType::F32,
        other => other,
    }
}

impl ContractionGeometry {
    /// Geometry of an unfused product.
    pub fn unfused(product: MatmulGeometry) -> ContractionGeometry {
        ContractionGeometry { product, factors: [None, None], inner: None, epilogue: None }
    }

    /// Number of rows processed at a time by a contraction that needs whole rows: their data stays in a second-level
    /// cache.
    pub fn rows_at_a_time(&self, c: &Contraction) -> usize {
        let sums = c.epilogue.as_ref().is_some_and(|e| matches!(e.kernel, Kernel::Rows { .. }));
        (ROWS_BYTES / self.row_bytes(c, sums)).clamp(MIN_ROWS, MAX_ROWS).min(self.product.m.max(1))
    }

    /// Number of products whose rows are processed at a time by such a contraction: several if each has no more rows
    /// than a block.
    pub fn products_at_a_time(&self, c: &Contraction) -> usize {
        let m = self.product.m.max(1);
        if self.rows_at_a_time(c) < m { 1 } else { (ROWS_BYTES / (m * self.row_bytes(c, c.epilogue.is_some()))).max(1) }
    }

    /// Bytes of a row that is processed at a time: of operand A, twice, and of the accumulators, if they are held.
    fn row_bytes(&self, c: &Contraction, sums: bool) -> usize {
        let p = &self.product;
        let factor = if c.factors[0].is_some() { 2 * p.k } else { 0 };
        let sums = if sums { p.n } else { 0 };
        ((factor + sums) * c.accumulator().size()).max(1)
    }

    /// Number of row blocks of [`Self::rows_at_a_time`] rows, over all batches.
    pub fn row_blocks(&self, c: &Contraction) -> usize {
        self.batches() * self.product.m.div_ceil(self.rows_at_a_time(c))
    }

    /// Number of products in the batch.
    pub fn batches(&self) -> usize {
        self.product.batch.iter().map(|d| d.0).product()
    }
}

/// Bodies of a map or row kernel: one, or one per box.
pub fn bodies(kernel: &Kernel) -> &[Body] {
    match kernel {
        Kernel::Map(body) | Kernel::Rows { body, .. } => std::slice::from_ref(body),
        Kernel::Boxes(bodies) => bodies,
        other => panic!("no map and no rows: {other:?}"),
    }
}

/// Target bytes of the rows processed at a time (`ROWS_BYTES`), and the minimum and maximum number of these rows.
const ROWS_BYTES: usize = 512 << 10;
const MIN_ROWS: usize = 16;
const MAX_ROWS: usize = 64;

/// Box of a domain: start and length along each dimension.
type Cut = SmallVec<[(usize, usize); MAX_RANK]>;

impl TileGeometry {
    /// Number of points of the domain, over all batches.
    pub fn points(&self) -> usize {
        self.extents.iter().product()
    }

    /// Domain of one batch, whose rows are those of all batches.
    pub fn over_batches(&self) -> TileGeometry {
        TileGeometry { rows: 0, ..self.clone() }
    }

    /// Number of columns of a row: the product of the sizes in the columns group.
    fn width(&self) -> usize {
        self.extents[self.columns..].iter().product()
    }

    /// Geometries of the launches of a row body that compute the rows of a rectangle.
    pub fn row_launches(&self, of: &Rectangle, body: &Body, locals: &[Local]) -> Vec<RowGeometry> {
        let all = self.launches(of, std::slice::from_ref(body), locals);
        let rows = |(_, map): (usize, MapGeometry)| RowGeometry {
            kept: map.extents.len() - 1,
            extents: map.extents,
            accesses: map.accesses,
        };
        all.into_iter().map(rows).collect()
    }

    /// Launches that compute a rectangle: the index of each one's body, and its geometry.
    pub fn launches(&self, of: &Rectangle, bodies: &[Body], locals: &[Local]) -> Vec<(usize, MapGeometry)> {
        let batch = cuts(&self.extents[..self.rows], of.batch..of.batch + 1);
        let rows = cuts(&self.extents[self.rows..self.columns], of.rows.clone());
        let columns = cuts(&self.extents[self.columns..], of.columns.clone());
        let mut all = Vec::new();
        for b in &batch {
            for r in &rows {
                for c in &columns {
                    let cut: Cut = b.iter().chain(r).chain(c).copied().collect();
                    for (n, part) in self.boxes.iter().enumerate() {
                        if let Some(inside) = part.intersection(&cut) {
                            all.push((n, self.on(part, &inside, of, &bodies[n], locals)));
                        }
                    }
                }
            }
        }
        all
    }

    /// Geometry of a launch on the cut `cut`, which is inside one box.
    fn on(&self, part: &TileBox, cut: &Cut, of: &Rectangle, body: &Body, locals: &[Local]) -> MapGeometry {
        let extents: Vec<usize> = cut.iter().map(|c| c.1).collect();
        let width = self.width() as isize;
        let accesses = part.geometry.accesses.iter().zip(&body.accesses).map(|(at, access)| {
            match locals.iter().find(|l| access.operand == Some(l.operand)) {
                Some(&local) => self.local(cut, of, local, width),
                None => part.moved(at, cut, &extents),
            }
        });
        MapGeometry { accesses: accesses.collect(), extents }
    }

    /// Geometry of an access to the local rectangle.
    fn local(&self, cut: &Cut, of: &Rectangle, local: Local, width: isize) -> AccessGeometry {
        let (mut base, mut step) = (0isize, 1isize);
        let mut strides = [0isize; MAX_RANK];
        for d in (self.rows..self.extents.len()).rev() {
            let stride = if d >= self.columns { step } else { step / width * local.pitch as isize };
            strides[d] = stride;
            base += stride * cut[d].0 as isize;
            step *= self.extents[d] as isize;
        }
        base -= (of.rows.start * local.pitch + of.columns.start) as isize;
        let points: usize = cut.iter().map(|c| c.1).product();
        let last: isize = strides.iter().zip(cut).map(|(s, c)| s * (c.1 as isize - 1)).sum();
        AccessGeometry {
            base,
            strides,
            map: None,
            reach: Some((base as usize, (base + last) as usize)),
            distinct: points,
        }
    }
}

impl TileBox {
    /// Intersection of a cut with the box; `None` if it is empty.
    fn intersection(&self, cut: &Cut) -> Option<Cut> {
        let sizes = self.origin.iter().zip(&self.geometry.extents);
        cut.iter()
            .zip(sizes)
            .map(|(&(start, len), (&origin, &extent))| {
                let (low, high) = (start.max(origin), (start + len).min(origin + extent));
                (low < high).then(|| (low, high - low))
            })
            .collect()
    }

    /// Access of the box, restricted to a cut of it.
    fn moved(&self, at: &AccessGeometry, cut: &Cut, extents: &[usize]) -> AccessGeometry {
        let from = |d: usize| cut[d].0 - self.origin[d];
        if let Some(map) = &at.map {
            if cut.iter().zip(&self.origin).zip(&self.geometry.extents).all(|((c, &o), &n)| *c == (o, n)) {
                // All of the box, as in a small product.
                return at.clone();
            }
            let parts: Vec<(i64, i64, usize)> = cut.iter().enumerate().map(|(d, c)| (from(d) as i64, 1, c.1)).collect();
            let map: IndexMap = (**map).clone().slice(&parts);
            let (reach, distinct) = (at.reach.and_then(|_| map.reach()), map.distinct());
            return AccessGeometry { base: at.base, strides: at.strides, map: Some(Arc::new(map)), reach, distinct };
        }
        let mut moved = at.clone();
        let (mut low, mut high, mut distinct) = (0, 0, 1);
        for (d, &n) in extents.iter().enumerate() {
            moved.base += at.strides[d] * from(d) as isize;
            let span = at.strides[d] * (n as isize - 1);
            (low, high) = (low + span.min(0), high + span.max(0));
            distinct *= if at.strides[d] == 0 { 1 } else { n };
        }
        moved.reach = at.reach.map(|_| ((moved.base + low) as usize, (moved.base + high) as usize));
        moved.distinct = distinct.min(at.distinct);
        moved
    }
}

/// Splits a range of linear indices, row-major over `dims`, into boxes: at most two per dimension, plus one. Example:
/// `2..9` of `[3, 4]` is half a row, a row, and one element.
fn cuts(dims: &[usize], range: Range<usize>) -> Vec<Cut> {
    let Some((&outer, inner)) = dims.split_first() else {
        // Zero dimensions have one point.
        return if range.is_empty() { vec![] } else { vec![Cut::new()] };
    };
    if range.is_empty() {
        return vec![];
    }
    let step: usize = inner.iter().product();
    let (first, last) = (range.start / step, (range.end - 1) / step);
    debug_assert!(last < outer, "{range:?} is no range of {dims:?}");
    let whole: Cut = inner.iter().map(|&d| (0, d)).collect();
    let mut all = Vec::new();
    let mut add = |start: usize, len: usize, inner: Vec<Cut>| {
        all.extend(inner.into_iter().map(|mut cut| {
            cut.insert(0, (start, len));
            cut
        }));
    };
    if first == last {
        add(first, 1, cuts(inner, range.start - first * step..range.end - first * step));
        return all;
    }
    let (mut from, mut to) = (first, last + 1);
    if !range.start.is_multiple_of(step) {
        add(first, 1, cuts(inner, range.start - first * step..step));
        from += 1;
    }
    let tail = range.end % step;
    if tail != 0 {
        to -= 1;
    }
    if from < to {
        add(from, to - from, vec![whole]);
    }
    if tail != 0 {
        add(last, 1, cuts(inner, 0..tail));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, AccessClass, BodyBuilder, Node};
    use thalweg_ir::{Shape, View};

    #[test]
    fn a_range_of_numbers_is_a_few_boxes() {
        let cuts = |dims: &[usize], range| -> Vec<Vec<(usize, usize)>> {
            super::cuts(dims, range).into_iter().map(|cut| cut.to_vec()).collect()
        };
        assert_eq!(cuts(&[10], 3..7), [[(3, 4)]]);
        assert_eq!(cuts(&[4, 5], 0..20), [[(0, 4), (0, 5)]]);
        assert_eq!(cuts(&[4, 5], 3..17), [[(0, 1), (3, 2)], [(1, 2), (0, 5)], [(3, 1), (0, 2)]]);
        assert_eq!(cuts(&[], 0..1), [vec![]]);
        assert!(cuts(&[2, 3], 6..6).is_empty());
        for (start, end) in (0..24).flat_map(|s| (s..=24).map(move |e| (s, e))) {
            let mut seen = vec![0; 24];
            for cut in cuts(&[2, 3, 4], start..end) {
                for i in cut[0].0..cut[0].0 + cut[0].1 {
                    for j in cut[1].0..cut[1].0 + cut[1].1 {
                        (cut[2].0..cut[2].0 + cut[2].1).for_each(|k| seen[i * 12 + j * 4 + k] += 1);
                    }
                }
            }
            assert!((0..24).all(|n| seen[n] == (start..end).contains(&n) as i32), "{start}..{end}: {seen:?}");
        }
    }

    /// Map body that copies elements through an index map over the domain.
    fn copy(map: &IndexMap) -> (Body, AccessGeometry) {
        let mut b = BodyBuilder::new(false);
        let class = if map.as_view().is_some() { AccessClass::Strided } else { AccessClass::Mapped };
        let from = b.access(Access { operand: Some(0), dtype: DType::F32, class, per_row: false });
        let node = b.node(Node::Load { access: from });
        let contiguous = AccessClass::Contiguous;
        let to = b.access(Access { operand: Some(1), dtype: DType::F32, class: contiguous, per_row: false });
        b.store(node, to);
        let (base, strides, given) = match map.as_view() {
            Some(v) => {
                let mut strides = [0; MAX_RANK];
                strides[..v.shape.rank()].copy_from_slice(v.strides());
                (v.offset, strides, None)
            }
            None => (0, [0; MAX_RANK], Some(Arc::new(map.clone()))),
        };
        let at = AccessGeometry { base, strides, map: given, reach: map.reach(), distinct: map.distinct() };
        (b.finish(), at)
    }

    /// Checks every rectangle of a copy against the map of the whole domain.
    fn check(map: IndexMap, rows: usize, columns: usize) {
        let shape = map.shape();
        let (body, at) = copy(&map);
        let whole = MapGeometry { extents: shape.dims().to_vec(), accesses: vec![at.clone(), at] };
        let boxes = vec![TileBox { origin: vec![0; shape.rank()], geometry: whole }];
        let tiles = TileGeometry { extents: shape.dims().to_vec(), rows, columns, boxes };
        let grouped = tiles.over_batches();
        let n = |range: Range<usize>| shape[range].iter().product::<usize>();
        let (batches, m, k) = (n(0..rows), n(rows..columns), n(columns..shape.rank()));
        let rectangles = [
            (&tiles, (0, 0..m, 0..k)),
            (&tiles, (batches - 1, 1..m - 1, 2..k - 1)),
            (&tiles, (0, m / 2..m / 2 + 1, k / 3..k)),
            (&grouped, (0, 0..batches * m, 0..k)),
            (&grouped, (0, m / 2..batches * m, 1..k - 1)),
        ];
        for (tiles, (batch, r, c)) in rectangles {
            let pitch = c.len() + 3;
            let of = Rectangle { batch, rows: r.clone(), columns: c.clone() };
            let mut got = vec![None; r.len() * pitch];
            for (_, g) in tiles.launches(&of, std::slice::from_ref(&body), &[Local { operand: 1, pitch }]) {
                for p in 0..g.points() {
                    let place = |at: &AccessGeometry| {
                        let (mut rest, mut place) = (p, at.base);
                        for d in (0..g.extents.len()).rev() {
                            place += at.strides[d] * (rest % g.extents[d]) as isize;
                            rest /= g.extents[d];
                        }
                        place as usize
                    };
                    let from = match &g.accesses[0].map {
                        Some(map) => map.position(p),
                        None => Some(place(&g.accesses[0])),
                    };
                    let to = place(&g.accesses[1]);
                    assert!(got[to].is_none() && g.accesses[1].reach.is_some_and(|(a, b)| (a..=b).contains(&to)));
                    got[to] = Some(from);
                }
            }
            for (i, row) in r.clone().enumerate() {
                for (j, column) in c.clone().enumerate() {
                    let want = map.position((batch * m + row) * k + column);
                    assert_eq!(got[i * pitch + j], Some(want), "row {row}, column {column} of batch {batch}");
                }
            }
        }
    }

    #[test]
    fn rectangles_of_any_domain_read_what_the_whole_does() {
        let plain = IndexMap::new(View::contiguous(Shape::new(&[2, 6, 7])));
        check(plain.clone(), 1, 2);
        check(plain.permute(&[0, 2, 1]), 1, 2);
        // Rows of two dimensions, columns of three, as in a convolution.
        let image = IndexMap::new(View::contiguous(Shape::new(&[2, 3, 8, 9])));
        let windows = image.window(2, 3, 1).window(3, 2, 1).permute(&[0, 2, 3, 1, 4, 5]);
        assert_eq!(windows.shape().dims(), [2, 6, 8, 3, 3, 2]);
        check(windows, 1, 3);
        // Not strided: through a table.
        let mapped = IndexMap::new(View::contiguous(Shape::new(&[5, 6])));
        check(mapped.permute(&[1, 0]).reshape(Shape::new(&[5, 6])), 0, 1);
    }
}
