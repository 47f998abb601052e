//! The sizes of a launch: everything about a kernel that its program does not contain.

pub mod contraction;
pub mod in_place;

use crate::IndexMap;
use contraction::{Contraction, ContractionGeometry};
use std::sync::Arc;
use thalweg_ir::{DType, Foreign, ForeignLaunch, MAX_RANK, ScatterOp};

/// Where one access of a [`crate::Body`] goes in one launch.
#[derive(Clone, Debug)]
pub struct AccessGeometry {
    /// Position (in elements) of the domain's first point.
    pub base: isize,
    /// Elements between neighbours along each domain dimension; the last one is 1, 0 or any according to the access's
    /// class. Meaningless where `map` is given.
    pub strides: [isize; MAX_RANK],
    /// The map from the row-major domain index to the position, for [`crate::AccessClass::Mapped`]. In a row kernel
    /// that runs along rows a load of class [`crate::AccessClass::Contiguous`] may have one too, without masks: its
    /// elements are brought together before they are read.
    pub map: Option<Arc<IndexMap>>,
    /// Lowest and highest position reached, both inside the operand; `None` if none is reached.
    pub reach: Option<(usize, usize)>,
    /// Distinct elements touched.
    pub distinct: usize,
}

/// The domain of one launch of a map kernel.
#[derive(Clone, Debug)]
pub struct MapGeometry {
    /// Sizes of the collapsed domain, outermost first, at least one; the product is the number of points, never 0.
    pub extents: Vec<usize>,
    /// One for each access of the body.
    pub accesses: Vec<AccessGeometry>,
}

impl MapGeometry {
    /// Number of points.
    pub fn points(&self) -> usize {
        self.extents.iter().product()
    }
}

/// The domain of one launch of a row kernel: the points of a row are those that differ in the last dimensions alone.
#[derive(Clone, Debug)]
pub struct RowGeometry {
    /// Sizes: first `kept` dimensions that number the rows, none of size 0, then those of the row, at least one,
    /// outermost first.
    pub extents: Vec<usize>,
    /// How many dimensions number the rows; at least one if the kernel runs across rows.
    pub kept: usize,
    /// One for each access of the body, strides over all of `extents`.
    pub accesses: Vec<AccessGeometry>,
}

impl RowGeometry {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.extents[..self.kept].iter().product()
    }

    /// Points of a row.
    pub fn row(&self) -> usize {
        self.extents[self.kept..].iter().product()
    }
}

/// Which points stand side by side in a vector, when a row kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Orientation {
    /// Neighbours in a row: the last dimension. Accesses have their class along it.
    Along,
    /// The same place in neighbouring rows: the last kept dimension. Accesses have their class along that.
    Across,
}

/// How exactly the sums of a matrix product are computed. What a device has only one way of is computed that way
/// whatever is said.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Precision {
    /// In an order that depends on the length of the sum alone: strict mode.
    Ordered,
    /// In the dtype's own precision (narrow floats in f32), in any order that is the same each time.
    Full,
    /// As [`Precision::Full`], of factors that may be rounded to TF32 first: f32 with 10 bits behind the point. Of f32
    /// only.
    Tf32,
}

/// A matrix product `c[b, i, j] = Σ a[b, i, k]·b[b, k, j]`, `c` row-major: the sizes of a
/// [`Contraction`](crate::Contraction)'s product.
#[derive(Clone, Debug)]
pub struct MatmulGeometry {
    /// Sizes of the batch dimensions with the strides of `a` and `b` (0 where broadcast).
    pub batch: Vec<(usize, isize, isize)>,
    /// Rows of `a` and `c`.
    pub m: usize,
    /// Columns of `b` and `c`.
    pub n: usize,
    /// Columns of `a` and rows of `b`.
    pub k: usize,
    /// Position of the first element, row stride and column stride of `a`.
    pub a: (isize, isize, isize),
    /// The same of `b`.
    pub b: (isize, isize, isize),
    /// Lowest and highest positions reached, of `a` and `b`.
    pub reach: [Option<(usize, usize)>; 2],
}

/// One launch of a scatter. Strides and positions are of tensor, index, values and result, in that order; where index
/// or values are computed, in what is computed.
#[derive(Clone, Debug)]
pub struct ScatterGeometry {
    /// Number of the axis among all dimensions, for messages.
    pub axis: usize,
    /// Sizes and strides of the dimensions before the axis, outermost first.
    pub outer: Vec<(usize, [isize; 4])>,
    /// Of those behind it.
    pub inner: Vec<(usize, [isize; 4])>,
    /// Indices along the axis.
    pub n: usize,
    /// Elements of the tensor along the axis, which an index chooses from.
    pub size: usize,
    /// Strides along the axis.
    pub steps: [isize; 4],
    /// Positions of the first elements.
    pub base: [isize; 4],
    /// The sizes of index and values that are [`Computed`].
    pub inputs: [Option<Box<Geometry>>; 2],
}

/// One launch of an operation that is written in another language.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignGeometry {
    /// Blocks, threads, and what arithmetic they are said to do.
    pub launch: ForeignLaunch,
    /// The sizes that it is given.
    pub sizes: Vec<i64>,
    /// Of each operand, the position of its first element, and its elements.
    pub operands: Vec<(isize, usize)>,
    /// Bytes of each result, whether wanted or not.
    pub results: Vec<usize>,
}

/// A device-independent program: what is computed, without sizes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Kernel {
    /// One result a point. Operands as the body's accesses say.
    Map(crate::Body),
    /// A map whose domain is cut into boxes, each with a body of its own; all have the same operands and scalars.
    Boxes(Vec<crate::Body>),
    /// A body with folds or scans over the rows of its domain. Operands as the body's accesses say.
    Rows {
        /// What is computed.
        body: crate::Body,
        /// How it runs.
        orientation: Orientation,
    },
    /// A matrix product with what is computed of its factors and of its sums.
    Contraction(Contraction),
    /// Values put in at given places along an axis. Operands: tensor, index (i64), values, result, which may be the
    /// tensor; in the place of an index or values that the kernel computes stand the operands that it computes them
    /// from. Where several values meet one element they do so in order, each result rounded to the dtype. An index out
    /// of range ends in an error.
    Scatter {
        /// How a value is put in.
        op: ScatterOp,
        /// The dtype of tensor, values and result.
        dtype: DType,
        /// How index and values are computed, where they are not in memory.
        inputs: [Option<Box<Computed>>; 2],
    },
    /// An operation that is written in another language. Operands: its own, row-major, then the results that are wanted.
    /// Scalars: its numbers.
    Foreign {
        /// What it is.
        of: Foreign,
        /// The numbers of the results that are operands; the others go to scratch memory.
        wanted: Vec<u16>,
    },
    /// Kernels that need nothing of each other, in one launch. Operands: what the first part reads, what the second
    /// reads and so on, then what the first part writes, what the second writes and so on. Scalars: the first part's,
    /// the second's and so on.
    ///
    /// What a part writes is no other part's operand, whether read or written, so the parts may run in any order and at
    /// the same time.
    Group {
        /// The kernels, each different: [`Kernel::Map`], [`Kernel::Boxes`] or [`Kernel::Rows`]; or all
        /// [`Kernel::Contraction`], of one shape.
        kernels: Vec<Kernel>,
        /// The parts, at least one.
        parts: Vec<GroupPart>,
    },
}

/// One part of a [`Kernel::Group`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GroupPart {
    /// Number of its kernel among those of the group.
    pub kernel: u32,
    /// How many operands it reads: the first ones of its kernel.
    pub reads: u32,
    /// How many it writes: those behind them.
    pub writes: u32,
    /// How many scalars it has.
    pub scalars: u32,
}

/// An input that a kernel computes before it uses it, and that nobody else sees.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Computed {
    /// A [`Kernel::Map`] or [`Kernel::Boxes`] with one output, row-major, whose operand and access are its last.
    pub kernel: Kernel,
    /// How many operands it reads.
    pub operands: usize,
    /// How many scalars it has.
    pub scalars: usize,
}

/// The sizes that go with a [`Kernel`] of the same kind.
#[derive(Clone, Debug)]
pub enum Geometry {
    /// For [`Kernel::Map`].
    Map(MapGeometry),
    /// For [`Kernel::Boxes`]: one a body. No two write the same element.
    Boxes(Vec<MapGeometry>),
    /// For [`Kernel::Rows`].
    Rows(RowGeometry),
    /// For [`Kernel::Contraction`].
    Contraction(Box<ContractionGeometry>),
    /// For [`Kernel::Scatter`].
    Scatter(ScatterGeometry),
    /// For [`Kernel::Foreign`].
    Foreign(ForeignGeometry),
    /// For [`Kernel::Group`]: one a part, of the kind of its kernel.
    Group(Vec<Geometry>),
}
