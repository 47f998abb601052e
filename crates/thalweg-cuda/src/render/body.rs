//! The nodes of a body as text, for kernels that are written as text ([`thalweg_gpu::write::body`] has the statements).

use super::elements::is_native;
use super::print::{self, expr};
use thalweg_gpu::ir::{Expr, Type};
use thalweg_gpu::write::body;
use thalweg_ir::DType;
use thalweg_kernel::Body;

pub use thalweg_gpu::write::body::name;

/// What a body cannot say by itself, as text.
pub struct Names<'a> {
    /// The element of an access.
    pub load: &'a dyn Fn(u16) -> String,
    /// Its position.
    pub index: &'a dyn Fn(u16, DType) -> String,
    /// Whether it is inside.
    pub valid: &'a dyn Fn(u16) -> String,
    /// A gathered element: access, offset, inside.
    pub gather: &'a dyn Fn(u16, &str, &str) -> String,
    /// A value of the row.
    pub value: &'a dyn Fn(u16) -> String,
    /// The number of the word of a scalar.
    pub scalar: &'a dyn Fn(u16) -> usize,
    /// That of its reciprocal, if it is one of [`thalweg_gpu::class::body::divisors`].
    pub reciprocal: &'a dyn Fn(u16) -> Option<usize>,
}

/// Statements that compute every node of the body, each in a variable of its [`name`].
pub fn statements(of: &Body, names: &Names) -> String {
    let dtype = |access: u16| Type::Held(of.accesses[access as usize].dtype);
    let all = body::statements(
        of,
        &body::Names {
            load: &|k| Expr::name((names.load)(k), dtype(k)),
            index: &|k, dtype| Expr::name((names.index)(k, dtype), Type::Held(dtype)),
            valid: &|k| Expr::name((names.valid)(k), Type::BOOL),
            gather: &|k, offset, inside| Expr::name((names.gather)(k, &expr(&offset), &expr(&inside)), dtype(k)),
            value: &|slot, dtype| Expr::name((names.value)(slot), Type::Held(dtype)),
            scalar: names.scalar,
            reciprocal: names.reciprocal,
            native: &is_native,
        },
    );
    print::statements(&all)
}
