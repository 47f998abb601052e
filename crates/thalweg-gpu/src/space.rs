//! The domain of a launch, as a class that decides source and as kernel arguments.
//!
//! In: extents and accesses of a geometry. Out: a [`SpaceClass`], which decides the source, and the sizes, which become
//! kernel arguments ([`SpaceParams`]). Dimensions are merged where all accesses allow it. Indices have 32 bits where
//! every offset fits, else 64.
//!
//! Always true: the layout of the arguments depends on the class alone.

use crate::params::{AccessBase, Base, Divisor, RuntimeArgument, Stride, each, optional, params};
use thalweg_ir::View;
use thalweg_kernel::{Access, AccessGeometry, IndexMap, dims};

/// Stride of an access along the lane dimension, whose neighbouring points a thread takes as a vector.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Inner {
    /// Stride 1: the lanes of a thread read neighbouring elements.
    Unit,
    /// Stride 0: all lanes of a thread read one element.
    Zero,
    /// Any other stride: the lanes of a thread read elements that are apart.
    Any,
}

/// Addressing mode of an access.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Addressing {
    /// Access by strides.
    Strided {
        /// Stride along the dimension of lanes.
        inner: Inner,
        /// Whether the lanes of a thread are one aligned vector.
        vector: bool,
    },
    /// Through an index map. For each of its views, that of the domain first: its rank, and whether it has a mask.
    Mapped(Vec<(u8, bool)>),
}

/// Class key of a kernel over a domain: the properties that decide its source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SpaceClass {
    /// Whether indices take 64 bits.
    pub wide: bool,
    /// Number of dimensions that enumerate rows.
    pub kept: u8,
    /// Number of dimensions that enumerate the points of a row.
    pub row: u8,
    /// Number of neighbouring points that a thread takes as a vector.
    pub lanes: u8,
    /// Whether lanes are neighbours in the last kept dimension rather than in the last one of the row.
    pub across: bool,
    /// Addressing mode of each access.
    pub addressing: Vec<Addressing>,
}

/// Domain of a launch: its class key, with sizes and strides.
#[derive(Clone, Debug)]
pub struct Space {
    /// Class key of the domain: the properties that decide the source.
    pub class: SpaceClass,
    /// Extents of the dimensions: those that enumerate rows, then those of a row.
    pub extents: Vec<usize>,
    /// For each access: offset of the first element, and stride of each dimension, in elements.
    pub steps: Vec<(isize, Vec<isize>)>,
    maps: Vec<Option<std::sync::Arc<IndexMap>>>,
}

/// Headroom below 2³¹ for 32-bit indices: a thread's loop counter ends one step of all threads that share the loop
/// beyond the last point.
const STEP: usize = 1 << 16;

impl Space {
    /// Returns the domain with `kept` dimensions of rows (none for a map), and the body's accesses. `lanes` is the
    /// maximum number of points in a thread's vector.
    pub fn new(
        extents: &[usize],
        kept: usize,
        across: bool,
        accesses: (&[Access], &[AccessGeometry]),
        lanes: usize,
    ) -> Space {
        let at = accesses.1;
        let runs_on =
            |o: usize, i: usize, n: usize| at.iter().all(|a| a.map.is_some() || dims::runs_on(&a.strides, o, i, n));
        let mut dims = dims::merge(extents, 0..kept, false, runs_on);
        // A row of one point keeps its dimension: its length is not part of the class.
        let of_rows = dims::merge(extents, kept..extents.len(), kept > 0, runs_on);
        let kept = dims.len();
        dims.extend(of_rows);
        Space::of(&dims, kept, across, accesses, lanes)
    }

    /// Returns the domain `[batch…, rows…, columns…]` of a contraction's body. Dimensions are merged only within these
    /// three groups, of which the second begins at `rows` and the third at `columns`. Also returns the number of batch
    /// and of row dimensions after merging.
    pub fn grouped(
        extents: &[usize],
        [rows, columns]: [usize; 2],
        accesses: (&[Access], &[AccessGeometry]),
        lanes: usize,
    ) -> (Space, [usize; 2]) {
        let at = accesses.1;
        let runs_on =
            |o: usize, i: usize, n: usize| at.iter().all(|a| a.map.is_some() || dims::runs_on(&a.strides, o, i, n));
        let mut dims = dims::merge(extents, 0..rows, false, runs_on);
        let batch = dims.len();
        dims.extend(dims::merge(extents, rows..columns, true, runs_on));
        let kept = dims.len();
        dims.extend(dims::merge(extents, columns..extents.len(), true, runs_on));
        (Space::of(&dims, kept, false, accesses, lanes), [batch, kept - batch])
    }

    /// Returns the space over merged dimensions, of which the first `kept` number rows.
    fn of(
        dims: &[dims::Merged],
        kept: usize,
        across: bool,
        (own, at): (&[Access], &[AccessGeometry]),
        lanes: usize,
    ) -> Space {
        let extents: Vec<usize> = dims.iter().map(|d| d.extent).collect();
        let steps: Vec<(isize, Vec<isize>)> =
            at.iter().map(|a| (a.base, dims.iter().map(|d| a.strides[d.inner]).collect())).collect();
        let lane = if across { kept.checked_sub(1) } else { (extents.len() > kept).then(|| extents.len() - 1) };
        let lanes = lane.map_or(1, |l| widest(extents[l], lanes, own, at, &steps, l));
        let addressing = (0..own.len()).map(|i| addressing(&own[i], &at[i], &steps[i], lane, lanes)).collect();
        let points: usize = extents.iter().product();
        let wide = points >= (1 << 31) - STEP || at.iter().zip(&steps).any(|(a, s)| spans(a, s, &extents) >= 1 << 31);
        let row = (extents.len() - kept) as u8;
        let class = SpaceClass { wide, kept: kept as u8, row, lanes: lanes as u8, across, addressing };
        let maps = at.iter().map(|a| a.map.clone()).collect();
        Space { class, extents, steps, maps }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.extents[..self.class.kept as usize].iter().product()
    }

    /// Number of points in a row.
    pub fn row(&self) -> usize {
        self.extents[self.class.kept as usize..].iter().product()
    }

    /// Offset of an access's first element; 0 where an index map gives it.
    pub fn base(&self, access: usize) -> isize {
        if self.maps[access].is_some() { 0 } else { self.steps[access].0 }
    }

    /// Dimension whose neighbouring points are the lanes of a vector, if any.
    fn lane(&self) -> Option<usize> {
        self.class.lane()
    }

    /// Values of the domain's arguments. `address` gives the address at an offset in bytes of an operand, or `None` for one
    /// that is not in memory.
    pub fn arguments(
        &self,
        accesses: &[Access],
        address: &dyn Fn(u16, i64) -> Option<RuntimeArgument>,
    ) -> SpaceArguments {
        let lanes = self.class.lanes as usize;
        let size = |(d, &extent): (usize, &usize)| {
            self.class.divisor(if Some(d) == self.lane() { extent / lanes } else { extent })
        };
        let access = |(i, (offset, strides)): (usize, &(isize, Vec<isize>))| {
            let Access { operand, dtype, .. } = accesses[i];
            let word = operand.and_then(|o| address(o, self.base(i) as i64 * dtype.size() as i64));
            let base = word.map_or(AccessBase::Offset(*offset), AccessBase::Address);
            match &self.maps[i] {
                None => AccessArguments { base, strides: strides.clone(), views: vec![] },
                Some(map) => AccessArguments { base, strides: vec![], views: self.class.views(map) },
            }
        };
        SpaceArguments {
            dims: self.extents.iter().enumerate().map(size).collect(),
            accesses: self.steps.iter().enumerate().map(access).collect(),
        }
    }
}

impl SpaceClass {
    /// Dimension whose neighbouring points are the lanes of a vector, if any.
    pub fn lane(&self) -> Option<usize> {
        if self.across { (self.kept as usize).checked_sub(1) } else { (self.row > 0).then(|| self.rank() - 1) }
    }

    /// Total number of dimensions.
    pub fn rank(&self) -> usize {
        (self.kept + self.row) as usize
    }

    /// Divisor of an index by `size`. With 64-bit indices kernels divide by the size itself.
    fn divisor(&self, size: usize) -> [u64; 2] {
        let size = size.max(1);
        if self.wide { [size as u64, 0] } else { divisor(size) }
    }

    /// Values of the arguments of an index map's views.
    fn views(&self, map: &IndexMap) -> Vec<ViewArguments> {
        let view = |(view, mask): (&View, Option<&[(i64, i64)]>)| {
            let dim = |d: usize| ViewDimArguments {
                size: self.divisor(view.shape[d]),
                stride: view.strides()[d],
                bounds: mask.map(|mask| BoundsArguments { low: mask[d].0 as isize, high: mask[d].1 as isize }),
            };
            ViewArguments { offset: view.offset, dims: (0..view.shape.rank()).map(dim).collect() }
        };
        map.levels().map(view).collect()
    }

    /// Views of an access's index map, each with its rank and whether it has a mask; none for one by strides.
    fn levels(&self, access: usize) -> &[(u8, bool)] {
        match &self.addressing[access] {
            Addressing::Strided { .. } => &[],
            Addressing::Mapped(levels) => levels,
        }
    }
}

/// Maximum lane count that divides the dimension and fills a vector of 16 bytes of the narrowest dtype.
fn widest(
    extent: usize,
    most: usize,
    accesses: &[Access],
    at: &[AccessGeometry],
    steps: &[(isize, Vec<isize>)],
    lane: usize,
) -> usize {
    let runs = |i: &usize| accesses[*i].operand.is_some() && at[*i].map.is_none() && steps[*i].1[lane] == 1;
    let sizes: Vec<usize> = (0..accesses.len()).filter(runs).map(|i| accesses[i].dtype.size()).collect();
    let (Some(small), Some(large)) = (sizes.iter().min(), sizes.iter().max()) else { return 1 };
    let wanted = (16 / small).min(32 / large).clamp(1, most.max(1));
    // No lane counts between four and one: each would be another source, and lengths change.
    [wanted, 4].into_iter().find(|&v| v <= wanted && extent.is_multiple_of(v)).unwrap_or(1)
}

fn addressing(
    access: &Access,
    at: &AccessGeometry,
    steps: &(isize, Vec<isize>),
    lane: Option<usize>,
    lanes: usize,
) -> Addressing {
    if let Some(map) = &at.map {
        return Addressing::Mapped(map.levels().map(|(v, m)| (v.shape.rank() as u8, m.is_some())).collect());
    }
    let step = lane.map_or(0, |l| steps.1[l]);
    let inner = match step {
        1 => Inner::Unit,
        0 => Inner::Zero,
        _ => Inner::Any,
    };
    let bytes = lanes * access.dtype.size();
    // Alignment of a vector, in elements.
    let unit = (bytes.min(16) / access.dtype.size()).max(1) as isize;
    let others = steps.1.iter().enumerate().filter(|(d, _)| Some(*d) != lane).all(|(_, s)| s % unit == 0);
    let vector = inner == Inner::Unit && lanes > 1 && steps.0 % unit == 0 && others && access.operand.is_some();
    Addressing::Strided { inner, vector }
}

fn spans(at: &AccessGeometry, steps: &(isize, Vec<isize>), extents: &[usize]) -> u64 {
    if let Some(map) = &at.map {
        let shape = map.shape().numel() as u64;
        let levels = map.levels().flat_map(|(v, _)| {
            let span = v.shape.iter().zip(v.strides()).map(|(d, s)| *d as u64 * s.unsigned_abs() as u64).sum::<u64>();
            [v.offset.unsigned_abs() as u64 + span, v.shape.numel() as u64]
        });
        return levels.fold(shape, u64::max);
    }
    let moved = extents.iter().zip(&steps.1).map(|(e, s)| (*e as u64 - (*e > 0) as u64) * s.unsigned_abs() as u64);
    steps.0.unsigned_abs() as u64 + moved.sum::<u64>()
}

/// Divisor in two words by which `split` in the prelude divides by `d` (Granlund and Montgomery 1994, with a 33-bit multiplier).
pub fn divisor(d: usize) -> [u64; 2] {
    if d >= 1 << 31 {
        return [d as u64, 0];
    }
    let shift = (d as u64).next_power_of_two().trailing_zeros() as u64;
    let multiplier = ((1u64 << 32) * ((1u64 << shift) - d as u64)) / d as u64 + 1;
    // A divisor of 1 needs no multiplier; the quotient is the number itself.
    [d as u64 | (multiplier & 0xFFFF_FFFF) << 32, shift]
}

params! {
    /// Kernel arguments of a domain and of the accesses in it.
    pub struct SpaceParams(class: &SpaceClass) filled by SpaceArguments {
        /// Size of each dimension; that of lanes is counted in vectors.
        dims: Vec<Divisor> = each(class.rank(), Divisor::declare),
        /// Kernel arguments of each access.
        accesses: Vec<AccessParams> =
            |layout| layout.each(class.addressing.len(), |layout, k| AccessParams::declare(layout, class, k)),
    }
}

params! {
    /// Kernel arguments of an access.
    pub struct AccessParams(class: &SpaceClass, access: usize) filled by AccessArguments {
        /// Address of the first element. For an access without an operand: offset of the first element.
        base: Base,
        /// Stride along each dimension; none for an access through an index map.
        strides: Vec<Stride> = each(if class.levels(access).is_empty() { class.rank() } else { 0 }, Stride::declare),
        /// Views of the index map, that of the domain first; none for a strided access.
        views: Vec<ViewParams> = |layout| {
            let levels = class.levels(access);
            layout.each(levels.len(), |layout, n| ViewParams::declare(layout, levels[n].0, levels[n].1))
        },
    }
}

params! {
    /// Kernel arguments of a view of an index map.
    pub struct ViewParams(rank: u8, masked: bool) filled by ViewArguments {
        /// Offset of the view's first element.
        offset: Stride,
        /// Kernel arguments of the view's dimensions.
        dims: Vec<ViewDimParams> = each(rank.into(), |layout| ViewDimParams::declare(layout, masked)),
    }
}

params! {
    /// Kernel arguments of a dimension of a view.
    pub struct ViewDimParams(masked: bool) filled by ViewDimArguments {
        /// Size of the dimension of the view.
        size: Divisor,
        /// Stride of the dimension, in elements of the next view or of memory.
        stride: Stride,
        /// Bounds of the mask along the dimension.
        bounds: Option<BoundsParams> = optional(masked, BoundsParams::declare),
    }
}

params! {
    /// Range of indices along a dimension that a mask admits.
    pub struct BoundsParams() filled by BoundsArguments {
        /// First admitted index.
        low: Stride,
        /// Index after the last admitted one.
        high: Stride,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use thalweg_ir::{DType, MAX_RANK, Shape, View};
    use thalweg_kernel::AccessClass;

    /// A source of `5 * columns` elements, every (`columns / 3`)-th of which is read, by strides or by an index map.
    fn space(columns: usize, mapped: bool) -> Space {
        let shape = Shape::new(&[5, 3]);
        let map =
            IndexMap::new(View::contiguous(Shape::new(&[5, columns]))).slice(&[(0, 1, 5), (0, columns as i64 / 3, 3)]);
        let mut strides = [0; MAX_RANK];
        strides[..2].copy_from_slice(&[columns as isize, columns as isize / 3]);
        let (class, map) =
            if mapped { (AccessClass::Mapped, Some(Arc::new(map))) } else { (AccessClass::Strided, None) };
        let at = AccessGeometry { base: 0, strides, map, reach: None, distinct: 15 };
        let own = Access { operand: Some(0), dtype: DType::U8, class, per_row: false };
        Space::new(shape.dims(), 0, false, (&[own], &[at]), 1)
    }

    /// Kernels with 64-bit indices divide by the size itself (`decompose`, `map_function`), others by a multiplier.
    #[test]
    fn wide_domains_divide_by_the_size_itself() {
        for mapped in [false, true] {
            for (columns, wide) in [(30, false), (3 << 30, true)] {
                let space = space(columns, mapped);
                assert_eq!(space.class.wide, wide);
                let own = Access { operand: None, dtype: DType::U8, class: AccessClass::Strided, per_row: false };
                let arguments = space.arguments(&[own], &|_, _| None);
                let first: Vec<_> = arguments.dims.iter().map(|d| d[0]).zip(space.extents.iter().copied()).collect();
                let of_map = arguments.accesses[0].views.iter().flat_map(|v| v.dims.iter().map(|d| d.size[0]));
                let of_map = of_map.zip([5, 3]).filter(|_| mapped);
                for (word, size) in first.into_iter().chain(of_map) {
                    let want = if wide { size as u64 } else { divisor(size)[0] };
                    assert_eq!(word, want, "{mapped} {columns}");
                }
            }
        }
    }

    /// A loop over a row's points ends at an index beyond the last one, by up to a block's threads.
    #[test]
    fn an_iteration_beyond_the_last_point_fits_the_index() {
        let wide = |points: usize| {
            let mut strides = [0; MAX_RANK];
            strides[0] = 1;
            let at = AccessGeometry { base: 0, strides, map: None, reach: Some((0, points - 1)), distinct: points };
            let own = Access { operand: Some(0), dtype: DType::U8, class: AccessClass::Contiguous, per_row: false };
            Space::new(&[points], 0, false, (&[own], &[at]), 16).class.wide
        };
        assert_eq!([(1 << 31) - 1, (1 << 31) - 1023].map(wide), [true; 2]);
        assert_eq!([1 << 30, (1 << 31) - (1 << 20)].map(wide), [false; 2]);
    }

    #[test]
    fn multipliers_divide() {
        let split = |n: u32, [d, s]: [u64; 2]| (((n as u64 * (d >> 32)) >> 32) + n as u64) as u32 >> s;
        for d in (1..2000).chain([4095, 65_537, (1 << 20) + 1, (1 << 30) - 1, (1 << 31) - 1]) {
            for n in [0, 1, d - 1, d, d + 1, 7 * (d % 1000), (1 << 31) - 1] {
                let n = (n as u32).min((1 << 31) - 1);
                assert_eq!(split(n, divisor(d)), n / d as u32, "{n} by {d}");
            }
        }
    }
}
