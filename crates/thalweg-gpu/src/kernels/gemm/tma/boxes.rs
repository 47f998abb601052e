//! TMA copies of boxes of an operand by its tensor map, in slices of 64 neighbours.

use crate::ir::{Action, Expr, Name, Slot, Statement, Type};
use crate::kernels::gemm::LINE_ELEMENTS;
use crate::kernels::gemm::emit::of;
use crate::kernels::gemm::tma::TmaFactor;
use crate::kernels::gemm::tma::params::FactorDimsParams;
use crate::params::Divisor;

/// Emitter of the TMA copies of one operand and step, each of a box.
pub(crate) struct Boxes<'a> {
    pub(crate) factor: TmaFactor,
    /// Index of the operand, a suffix of names. The variable `batch` with that suffix is the index of the product among
    /// the operand's matrices, of the type below, a u32 or an i64.
    pub(crate) number: usize,
    pub(crate) batch: Type,
    /// Sizes of the operand's dimensions, and its tensor map.
    pub(crate) dims: &'a FactorDimsParams,
    pub(crate) map: Slot,
    /// Number of lines and terms of a step, and the first line and term.
    pub(crate) counts: [u32; 2],
    pub(crate) first: [Expr; 2],
    /// Index in the shared array of the operand, an i32 or a u32, and the mbarrier of the copy.
    pub(crate) to: Expr,
    pub(crate) barrier: (Name, Expr),
}

/// Emits the decomposition of a linear index into coordinates of `dims` dimensions; `sizes` are the sizes of all
/// dimensions but the outermost. Also returns the coordinates, the innermost first.
fn decomposed(number: Expr, name: &str, dims: u8, sizes: &[Divisor]) -> (Vec<Statement>, Vec<Expr>) {
    let (mut out, mut parts, mut rest) = (vec![], vec![], number);
    for (d, size) in (1..).zip(sizes.iter().rev()) {
        let split = format!("{name}{d}");
        out.push(Statement::Split { name: split.clone(), of: rest.to(Type::U32), param: size.slot() });
        parts.push(Expr::Remainder(split.clone()).to(Type::I32));
        rest = Expr::Quotient(split);
    }
    if dims > 0 {
        parts.push(rest.to(Type::I32));
    }
    (out, parts)
}

impl Boxes<'_> {
    /// Emits the statements that issue the copies of all boxes.
    pub(crate) fn statements(&self) -> Vec<Statement> {
        let Boxes { factor, number, dims, counts: [lines, terms], .. } = *self;
        let (mut out, batch) = decomposed(Expr::name(of("batch", number), self.batch), "b", factor.batch, &dims.batch);
        let (near, next) = if factor.along { (terms, lines) } else { (lines, terms) };
        for c in 0..near / LINE_ELEMENTS {
            let at = |n: usize, near: bool| {
                let first = self.first[n].clone();
                let far = if near { c * LINE_ELEMENTS } else { 0 };
                if far == 0 { first } else { first.clone() + Expr::Number(far.into(), first.ty()) }
            };
            let (of_lines, lines) = decomposed(at(0, !factor.along), &format!("x{c}_"), factor.lines, &dims.lines);
            let (of_terms, terms) = decomposed(at(1, factor.along), &format!("p{c}_"), factor.terms, &dims.terms);
            out.extend(of_lines);
            out.extend(of_terms);
            if factor.interleaved > 0 {
                // The inner dimensions of an interleaved operand (pairs, their positions in vectors, neighbouring
                // vectors) are copied whole.
                let zero = || Expr::Number(0, Type::I32);
                let block = Expr::Number(4 * i64::from(factor.interleaved), Type::I32);
                let at = vec![terms[0].clone(), zero(), zero(), zero(), lines[0].clone() / block];
                let to = (of("s", number), self.to.clone());
                out.push(Statement::Do(Action::TensorMapCopy {
                    to,
                    map: self.map.clone(),
                    barrier: self.barrier.clone(),
                    at,
                }));
                continue;
            }
            let two = if factor.along { [&terms[0], &lines[0]] } else { [&lines[0], &terms[0]] };
            let at = two.into_iter().chain(&terms[1..]).chain(&lines[1..]).chain(&batch).cloned().collect();
            let far = Expr::Number((c * next * LINE_ELEMENTS).into(), self.to.ty());
            let to = (of("s", number), if c == 0 { self.to.clone() } else { self.to.clone() + far });
            out.push(Statement::Do(Action::TensorMapCopy {
                to,
                map: self.map.clone(),
                barrier: self.barrier.clone(),
                at,
            }));
        }
        vec![Statement::Scope(out)]
    }
}
