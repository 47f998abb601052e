//! Geometry of a launch: all sizes, strides and offsets, which a kernel's program does not contain.

pub mod contraction;
pub mod in_place;

use crate::IndexMap;
use contraction::{Contraction, ContractionGeometry};
use std::sync::Arc;
use thalweg_ir::{DType, Foreign, ForeignLaunch, MAX_RANK, ScatterOp};

/// Geometry of one access of a [`crate::Body`] in one launch.
#[derive(Clone, Debug)]
pub struct AccessGeometry {
    /// Position (in elements) of the domain's first point.
    pub base: isize,
    /// Strides in elements along each domain dimension. The class of the access restricts the last one: 1 if
    /// contiguous, 0 if uniform, -1 if reversed, any if strided. Unused if `map` is given.
    pub strides: [isize; MAX_RANK],
    /// Map from the row-major domain index to the position, for [`crate::AccessClass::Mapped`]. In an inner-axis row
    /// kernel, a load of class [`crate::AccessClass::Contiguous`] may have one too, without masks: its elements are
    /// staged before they are read.
    pub map: Option<Arc<IndexMap>>,
    /// Lowest and highest position reached, both inside the operand; `None` if none is reached.
    pub reach: Option<(usize, usize)>,
    /// Number of distinct elements touched.
    pub distinct: usize,
}

/// Domain of one launch of a map kernel.
#[derive(Clone, Debug)]
pub struct MapGeometry {
    /// Sizes of the merged dimensions, outermost first, at least one; the product is the number of points, never 0.
    pub extents: Vec<usize>,
    /// Geometry of each access of the body.
    pub accesses: Vec<AccessGeometry>,
}

impl MapGeometry {
    /// Number of points.
    pub fn points(&self) -> usize {
        self.extents.iter().product()
    }
}

/// Domain of one launch of a row kernel: the points of a row differ only in the last dimensions.
#[derive(Clone, Debug)]
pub struct RowGeometry {
    /// Sizes of all dimensions, outermost first. The first `kept` dimensions enumerate the rows and are never 0; the
    /// others are those of a row, at least one. Example: `[4, 8, 128]` with `kept = 2` has 32 rows of 128 points.
    pub extents: Vec<usize>,
    /// Number of leading dimensions that enumerate the rows; at least one in an outer-axis kernel.
    pub kept: usize,
    /// Geometry of each access of the body, with strides over all of `extents`.
    pub accesses: Vec<AccessGeometry>,
}

impl RowGeometry {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.extents[..self.kept].iter().product()
    }

    /// Number of points of a row.
    pub fn row(&self) -> usize {
        self.extents[self.kept..].iter().product()
    }
}

/// Orientation of a row kernel: whether the lanes of a vector are points of one row or of neighbouring rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Orientation {
    /// Inner-axis: lanes are neighbours in one row, along the last dimension. Access classes refer to that dimension.
    InnerAxis,
    /// Outer-axis: lanes are points with the same index in neighbouring rows, along the last kept dimension. Access
    /// classes refer to that dimension.
    OuterAxis,
}

/// Precision of a matrix product's accumulation. A device with only one implementation uses that one regardless.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Precision {
    /// Strict mode: accumulates in an order that depends only on the length of the sum.
    Ordered,
    /// Accumulates in the dtype's own precision (narrow floats in f32), in any deterministic order.
    Full,
    /// Like [`Precision::Full`], but operands may be rounded to TF32 first: f32 with 10 mantissa bits. For f32 only.
    Tf32,
}

/// A matrix product `c[b, i, j] = Σ a[b, i, k]·b[b, k, j]`, `c` row-major: the sizes of a
/// [`Contraction`](crate::Contraction)'s product.
#[derive(Clone, Debug)]
pub struct MatmulGeometry {
    /// Sizes of the batch dimensions with the strides of `a` and `b` (0 where broadcast).
    pub batch: Vec<(usize, isize, isize)>,
    /// Number of rows of `a` and `c`.
    pub m: usize,
    /// Number of columns of `b` and `c`.
    pub n: usize,
    /// Number of columns of `a` and rows of `b`.
    pub k: usize,
    /// Position of the first element, row stride and column stride of `a`.
    pub a: (isize, isize, isize),
    /// Position of the first element, row stride and column stride of `b`.
    pub b: (isize, isize, isize),
    /// Lowest and highest position reached in `a`, and in `b`; `None` if none is reached.
    pub reach: [Option<(usize, usize)>; 2],
}

/// Geometry of a scatter. Strides and positions are those of tensor, index, values and result, in that order; for a
/// computed index or values, within the computed array.
#[derive(Clone, Debug)]
pub struct ScatterGeometry {
    /// Index of the axis among all dimensions, for messages.
    pub axis: usize,
    /// Sizes and strides of the dimensions before the axis, outermost first.
    pub outer: Vec<(usize, [isize; 4])>,
    /// Sizes and strides of the dimensions after the axis.
    pub inner: Vec<(usize, [isize; 4])>,
    /// Number of indices along the axis.
    pub n: usize,
    /// Size of the tensor along the axis: the bound of an index.
    pub size: usize,
    /// Strides along the axis.
    pub steps: [isize; 4],
    /// Positions of the first elements.
    pub base: [isize; 4],
    /// Geometry of index and values that are [`Computed`].
    pub inputs: [Option<Box<Geometry>>; 2],
}

/// Geometry of a launch of a foreign operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignGeometry {
    /// Grid and block size, and the arithmetic that the operation declares.
    pub launch: ForeignLaunch,
    /// Sizes passed to the operation.
    pub sizes: Vec<i64>,
    /// Position of each operand's first element, and its number of elements.
    pub operands: Vec<(isize, usize)>,
    /// Bytes of each result, including results that nobody uses.
    pub results: Vec<usize>,
}

/// Order in which a scatter combines the values for one element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScatterOrder {
    /// Order of their indices, one by one, as in strict modes.
    Indices,
    /// Order and association that depend on the indices alone, so that results are the same each time.
    Fixed,
    /// Any order, by atomic operations: last bits of sums of floats may differ from run to run.
    Any,
}

/// Device-independent program, without sizes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Kernel {
    /// Elementwise kernel: one result per point. Operands are numbered by the body's accesses.
    Map(crate::Body),
    /// Elementwise kernel on a domain cut into boxes, each with a body of its own; all have the same operands and
    /// scalars.
    Boxes(Vec<crate::Body>),
    /// Row kernel: a body with folds or scans over the rows of its domain. Operands are numbered by the body's
    /// accesses.
    Rows {
        /// Computation at each point, with folds or scans over its row.
        body: crate::Body,
        /// Whether the lanes of a vector are points of one row or of neighbouring rows.
        orientation: Orientation,
    },
    /// Matrix product with optional prologues and epilogue.
    Contraction(Contraction),
    /// Scatter: values written at indices along an axis. Operands: tensor, index (i64), values, result, which may be
    /// the tensor. Instead of a computed index or values, the operands that it is computed from come in its place.
    /// Several values for one element are combined one by one, each result rounded to the dtype. An index out of range
    /// is an error.
    Scatter {
        /// Operation that combines a value with the existing element.
        op: ScatterOp,
        /// Dtype of tensor, values and result.
        dtype: DType,
        /// Order in which the values for one element are combined.
        order: ScatterOrder,
        /// Computation of index and values that are not in memory.
        inputs: [Option<Box<Computed>>; 2],
    },
    /// Foreign operation. Operands: its own, row-major, then the wanted results. Scalars: its numbers.
    Foreign {
        /// The foreign operation.
        of: Foreign,
        /// Indices of the results that are operands; the others are written to scratch memory.
        wanted: Vec<u16>,
    },
    /// Group: independent kernels in one launch. Operands: the reads of the first member, of the second and so on, then
    /// the writes of the first member, of the second and so on. Scalars: those of the first member, of the second and
    /// so on.
    ///
    /// No member writes an operand of another member, read or written, so members may run in any order and at the same
    /// time.
    Group {
        /// Distinct kernels: [`Kernel::Map`], [`Kernel::Boxes`] or [`Kernel::Rows`]; or all [`Kernel::Contraction`], of
        /// one shape.
        kernels: Vec<Kernel>,
        /// Members, at least one.
        parts: Vec<GroupPart>,
    },
}

/// Member of a [`Kernel::Group`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GroupPart {
    /// Index of the member's kernel in `kernels` of the group.
    pub kernel: u32,
    /// Number of operands that the member reads: the first ones of its kernel.
    pub reads: u32,
    /// Number of operands that the member writes: those after the reads.
    pub writes: u32,
    /// Number of scalars of the member's kernel.
    pub scalars: u32,
}

/// Input that a kernel computes before it uses it, private to that kernel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Computed {
    /// A [`Kernel::Map`] or [`Kernel::Boxes`] with one row-major output, which is its last operand and access.
    pub kernel: Kernel,
    /// Number of operands that the computation reads.
    pub operands: usize,
    /// Number of scalars of the kernel.
    pub scalars: usize,
}

/// Geometry for a [`Kernel`] of the same kind.
#[derive(Clone, Debug)]
pub enum Geometry {
    /// Domain of a [`Kernel::Map`].
    Map(MapGeometry),
    /// Domains of a [`Kernel::Boxes`], one per body. No two write the same element.
    Boxes(Vec<MapGeometry>),
    /// Domain of a [`Kernel::Rows`].
    Rows(RowGeometry),
    /// Sizes of a [`Kernel::Contraction`].
    Contraction(Box<ContractionGeometry>),
    /// Sizes of a [`Kernel::Scatter`].
    Scatter(ScatterGeometry),
    /// Launch parameters of a [`Kernel::Foreign`].
    Foreign(ForeignGeometry),
    /// Geometries of a [`Kernel::Group`], one per member, of the kind of its kernel.
    Group(Vec<Geometry>),
}
