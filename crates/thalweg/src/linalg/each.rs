//! Batched matrix functions as operations.
//!
//! In: a function of one matrix ([`EachMatrix`]), over the types of `faer`. Out: a [`HostOp`], batched over the leading
//! dimensions, for f32 and f64. Always true: matrices of a batch are independent, so the distribution over threads
//! changes nothing; the error is that of the first matrix in the batch that has one.

use crate::host::{LibraryOp, of_matrix};
use crate::host_threads::{has_host_threads, on_host_threads};
use crate::{DType, Element, HostInput, HostOp, HostOutput, Shape, Tensor};
use faer::{MatMut, MatRef, Par};
use rayon::prelude::*;
use std::array::from_fn;
use thalweg_runtime::{Decomposition, DecompositionKind};

/// Element types with decompositions.
pub(super) trait Real: Element + faer::traits::RealField {
    /// Converts to f64.
    fn wide(self) -> f64;
    /// Converts from f64, rounded.
    fn narrow(x: f64) -> Self;
}

impl Real for f32 {
    fn wide(self) -> f64 {
        self as f64
    }
    fn narrow(x: f64) -> f32 {
        x as f32
    }
}

impl Real for f64 {
    fn wide(self) -> f64 {
        self
    }
    fn narrow(x: f64) -> f64 {
        x
    }
}

/// Shape of one result of the function, for each matrix.
#[derive(Clone, Copy)]
pub(super) enum ResultShape {
    Matrix(usize, usize),
    /// A vector, which is a column for the function.
    Vector(usize),
    /// A single number, which is a 1×1 matrix for the function.
    Number,
}

impl ResultShape {
    fn sizes(self) -> (usize, usize) {
        match self {
            ResultShape::Matrix(rows, columns) => (rows, columns),
            ResultShape::Vector(n) => (n, 1),
            ResultShape::Number => (1, 1),
        }
    }
}

/// Function of one matrix, or of several.
pub(super) trait EachMatrix<const I: usize, const O: usize>: Copy + Send + Sync + 'static {
    /// The operation's name.
    const NAME: &'static str;
    /// The shapes of the results for operands of these sizes.
    fn parts(&self, x: [(usize, usize); I]) -> [ResultShape; O];
    /// The operation that a device may have a library for, if any.
    fn kind(&self) -> Option<DecompositionKind> {
        None
    }
    /// Computes the results, which are row-major and initially zero, or returns an error message.
    fn run<T: Real>(&self, x: [MatRef<'_, T>; I], y: [MatMut<'_, T>; O], par: Par) -> Result<(), String>;
}

/// Sizes of the matrices: the last two dimensions.
pub(super) fn sizes(x: &Shape) -> (usize, usize) {
    (x[x.rank() - 2], x[x.rank() - 1])
}

/// Leading (batch) dimensions of a tensor of matrices.
pub(super) fn batch(x: &Tensor) -> &[usize] {
    &x.dims()[..x.rank() - 2]
}

/// The batched operation. Its operands have equal leading dimensions and one dtype, f32 or f64.
pub(super) fn host_op<const I: usize, const O: usize, F: EachMatrix<I, O>>(f: F) -> HostOp {
    let outputs = move |x: &[Tensor]| {
        let parts = f.parts(from_fn(|i| sizes(x[i].shape())));
        let shape = |part| {
            let lead = Shape::new(batch(&x[0]));
            match part {
                ResultShape::Matrix(rows, columns) => lead.insert(lead.rank(), rows).insert(lead.rank() + 1, columns),
                ResultShape::Vector(n) => lead.insert(lead.rank(), n),
                ResultShape::Number => lead,
            }
        };
        parts.map(|part| (shape(part), x[0].dtype()))
    };
    HostOp::new(F::NAME, outputs, move |x, y| {
        let done = match x[0].dtype() {
            DType::F32 => run_all::<f32, I, O, F>(f, x, y),
            _ => run_all::<f64, I, O, F>(f, x, y),
        };
        done.map_err(Into::into)
    })
    .known(move |x| {
        let (m, n) = sizes(x[0].shape());
        let lead = batch(&x[0]).to_vec();
        let (double, count) = (x[0].dtype() == DType::F64, lead.iter().product());
        let columns = x.last().map_or(0, |b| sizes(b.shape()).1);
        Some(LibraryOp::Decomposition(Decomposition { kind: f.kind()?, double, count, m, n, columns }, lead))
    })
}

/// Minimum number of floating-point operations for which several threads are woken.
const PARALLEL: f64 = 1e6;

fn run_all<T: Real, const I: usize, const O: usize, F: EachMatrix<I, O>>(
    f: F,
    x: &[HostInput<'_>],
    y: &mut [HostOutput<'_>],
) -> Result<(), String> {
    let from: [(usize, usize); I] = from_fn(|i| sizes(x[i].shape()));
    let to = f.parts(from).map(ResultShape::sizes);
    let lead = &x[0].shape().dims()[..x[0].shape().rank() - 2];
    let count: usize = lead.iter().product();
    let operands: [&[T]; I] = from_fn(|i| x[i].slice::<T>());
    let mut left: Vec<&mut [T]> = y.iter_mut().map(HostOutput::slice_mut::<T>).collect();
    // Ranges of the results that belong to each matrix, in order.
    let results: Vec<[&mut [T]; O]> = (0..count)
        .map(|_| {
            from_fn(|i| {
                let (own, rest) = std::mem::take(&mut left[i]).split_at_mut(to[i].0 * to[i].1);
                left[i] = rest;
                own
            })
        })
        .collect();
    let one = |(at, own): (usize, [&mut [T]; O]), par: Par| {
        let matrix = |i: usize| {
            let ((rows, columns), size) = (from[i], from[i].0 * from[i].1);
            MatRef::from_row_major_slice(&operands[i][at * size..][..size], rows, columns)
        };
        let mut own = own.into_iter();
        let result = |i: usize| {
            let elements = own.next().expect("one for each");
            MatMut::from_row_major_slice_mut(elements, to[i].0, to[i].1)
        };
        let (x, y) = (from_fn(matrix), from_fn(result));
        f.run(x, y, par).map_err(|why| of_matrix(at, lead, why))
    };
    let operations = from.iter().map(|&(m, n)| 10.0 * (m * n) as f64 * m.min(n) as f64).fold(0.0, f64::max);
    let mut all = results.into_iter().enumerate();
    if !has_host_threads() || operations * (count as f64) < PARALLEL {
        return all.try_for_each(|job| one(job, Par::Seq));
    }
    on_host_threads(|| match count {
        1 => all.try_for_each(|job| one(job, Par::rayon(0))),
        _ => {
            let all: Vec<_> = all.collect();
            let failed = all.into_par_iter().map(|job| one(job, Par::Seq)).find_first(Result::is_err);
            failed.unwrap_or(Ok(()))
        }
    })
}
