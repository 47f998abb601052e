//! TMA copies of boxes of a factor by its tensor map, in slices of 64 neighbours.

use crate::ir::{Action, Expr, Name, Statement, Type};
use crate::kernels::gemm::LINE_ELEMENTS;
use crate::kernels::gemm::emit::of;
use crate::kernels::gemm::tma::{FedFactor, inner};

/// A box of a factor to copy.
pub(crate) struct Boxes {
    pub(crate) factor: FedFactor,
    /// Number of the factor, for names. The variable `batch` with that number is the index of the product among the
    /// factor's matrices, of the type below, a u32 or an i64.
    pub(crate) number: usize,
    pub(crate) batch: Type,
    /// First divisor word, and first word of the tensor map.
    pub(crate) words: usize,
    pub(crate) map: usize,
    /// Number of lines and terms of a step, and the first line and term.
    pub(crate) counts: [u32; 2],
    pub(crate) first: [Expr; 2],
    /// Index in the shared array of the factor, an i32 or a u32, and the mbarrier of the copy.
    pub(crate) to: Expr,
    pub(crate) barrier: (Name, Expr),
}

/// Statements that decompose a number along `dims` dimensions, whose divisors begin at word `words`. Returns the
/// coordinates, the innermost first.
fn apart(number: Expr, name: &str, dims: u8, mut words: usize) -> (Vec<Statement>, Vec<Expr>) {
    let (mut out, mut parts, mut rest) = (vec![], vec![], number);
    // Divisors exist for the inner dimensions, outermost first.
    words += 2 * (dims as usize).saturating_sub(1);
    for d in 1..dims {
        words -= 2;
        let split = format!("{name}{d}");
        out.push(Statement::Split { name: split.clone(), of: rest.to(Type::U32), param: (words).into() });
        parts.push(Expr::Remainder(split.clone()).to(Type::I32));
        rest = Expr::Quotient(split);
    }
    if dims > 0 {
        parts.push(rest.to(Type::I32));
    }
    (out, parts)
}

impl Boxes {
    /// Statements that issue the copies.
    pub(crate) fn statements(&self) -> Vec<Statement> {
        let Boxes { factor, number, words, map, counts: [lines, terms], .. } = *self;
        let behind_terms = words + inner(factor.terms);
        let behind_lines = behind_terms + inner(factor.lines);
        let (mut out, batch) = apart(Expr::name(of("batch", number), self.batch), "b", factor.batch, behind_lines);
        let (near, next) = if factor.along { (terms, lines) } else { (lines, terms) };
        for c in 0..near / LINE_ELEMENTS {
            let at = |n: usize, near: bool| {
                let first = self.first[n].clone();
                let far = if near { c * LINE_ELEMENTS } else { 0 };
                if far == 0 { first } else { first.clone() + Expr::Number(far.into(), first.ty()) }
            };
            let (of_lines, lines) = apart(at(0, !factor.along), &format!("x{c}_"), factor.lines, behind_terms);
            let (of_terms, terms) = apart(at(1, factor.along), &format!("p{c}_"), factor.terms, words);
            out.extend(of_lines);
            out.extend(of_terms);
            if factor.dealt > 0 {
                // The inner dimensions of an interleaved factor (pairs, their positions in vectors, neighbouring
                // vectors) are copied whole.
                let zero = || Expr::Number(0, Type::I32);
                let block = Expr::Number(4 * i64::from(factor.dealt), Type::I32);
                let at = vec![terms[0].clone(), zero(), zero(), zero(), lines[0].clone() / block];
                let to = (of("s", number), self.to.clone());
                out.push(Statement::Do(Action::MapCopy { to, map: map.into(), barrier: self.barrier.clone(), at }));
                continue;
            }
            let two = if factor.along { [&terms[0], &lines[0]] } else { [&lines[0], &terms[0]] };
            let at = two.into_iter().chain(&terms[1..]).chain(&lines[1..]).chain(&batch).cloned().collect();
            let far = Expr::Number((c * next * LINE_ELEMENTS).into(), self.to.ty());
            let to = (of("s", number), if c == 0 { self.to.clone() } else { self.to.clone() + far });
            out.push(Statement::Do(Action::MapCopy { to, map: map.into(), barrier: self.barrier.clone(), at }));
        }
        vec![Statement::Scope(out)]
    }
}
