//! Bodies of a contraction, over `[batch…, rows…, columns…]`.

use crate::emit::access::{Accesses, Stand};
use crate::emit::index::{decompose, offset};
use crate::emit::loops::Native;
use crate::emit::nodes::{Names, statements};
use crate::ir::{Expr, Statement, Type};
use crate::kernels::gemm::BodyClass;
use crate::operands::BodyParams;
use crate::params::FaultAddress;
use thalweg_ir::DType;
use thalweg_kernel::Body;

/// Emitter of a contraction's body (prologue or epilogue): class, kernel arguments, and tag in names.
#[derive(Clone, Copy)]
pub(crate) struct BodyEmitter<'a> {
    pub(crate) class: &'a BodyClass,
    pub(crate) params: &'a BodyParams,
    /// Kernel argument of the fault slot.
    pub(crate) fault: &'a FaultAddress,
    /// Tag in the names of the body's accesses: `a` in `pa0`.
    pub(crate) tag: &'static str,
    pub(crate) native: Native<'a>,
}

impl<'a> BodyEmitter<'a> {
    pub(crate) fn accesses(&self) -> Accesses<'a> {
        Accesses {
            list: &self.class.body.accesses,
            class: &self.class.space,
            params: &self.params.space,
            tag: self.tag,
        }
    }

    /// Type of indices in the body's domain.
    pub(crate) fn index(&self) -> Type {
        Type::index(self.class.space.wide)
    }

    /// Emits the coordinates of a point, from the indices of its product, row and column.
    pub(crate) fn decomposed(&self, [product, row, column]: [Expr; 3]) -> Vec<Statement> {
        let (space, params) = (&self.class.space, &self.params.space);
        let [batch, rows] = self.class.groups.map(usize::from);
        [(0..batch, product), (batch..batch + rows, row), (batch + rows..space.rank(), column)]
            .into_iter()
            .flat_map(|(dims, index)| decompose(space, params, dims, index.to(self.index()), "i"))
            .collect()
    }

    /// Offset in elements of an access, from the coordinates that [`BodyEmitter::decomposed`] defines.
    pub(crate) fn position(&self, access: usize) -> Expr {
        let space = &self.class.space;
        let all = offset(space, &self.params.space, access, 0..space.rank(), "i");
        all.unwrap_or(Expr::Number(0, self.index()))
    }

    /// Value that an access reads from the accumulator `own`: not rounded to the access's dtype.
    pub(crate) fn sum(&self, own: &Expr, access: u16) -> Expr {
        held(own.clone(), self.class.body.accesses[access as usize].dtype)
    }

    /// Emits the statements of a body's nodes for one lane. The body is the part's own, or another with the same
    /// accesses. `load` returns the element of an access; `at` are the indices before the lane in the arrays of fetched
    /// elements.
    pub(crate) fn compute(
        &self,
        body: &Body,
        stand: &Stand,
        load: &dyn Fn(u16) -> Expr,
        at: &[Expr],
    ) -> Vec<Statement> {
        let accesses = self.accesses();
        let names = Names {
            load,
            index: &|k, dtype| accesses.position(k as usize, dtype, at),
            valid: &|k| accesses.valid(k as usize, at),
            gather: &|k, offset, inside| {
                accesses.gathered(k as usize, stand, [offset, inside, self.fault.read(Type::U64)])
            },
            value: &|_, _| unreachable!("a map has no values of rows"),
            scalar: &|s| self.params.scalar(s),
            reciprocal: &|s| self.params.reciprocal(body, s),
            native: self.native,
        };
        statements(body, &names)
    }
}

/// Float register reinterpreted as another dtype, without rounding.
pub(crate) fn held(x: Expr, dtype: DType) -> Expr {
    if x.ty() == Type::Held(dtype) { x } else { Expr::Unrounded(dtype, Box::new(x)) }
}
