//! Values that the derivative of an operation reads, and operations without a derivative.
//!
//! Elementwise operations are looked up in the derivative column of their table: the expression of each row is built
//! once, as a list of terms, and the values that it reaches are those to save. All others say it in their row
//! ([`OpInfo`]).

use std::sync::OnceLock;
use thalweg_ir::element::{Build, Expr};
use thalweg_ir::{ElementOp, Op, OpInfo};

/// Bit of the result, in a mask of values that are read; argument `i` is bit `i`.
pub(crate) const RESULT: u8 = OpInfo::RESULT;

/// Term of a derivative's expression.
#[derive(Clone, Debug)]
pub(crate) enum Term {
    /// An argument of the operation.
    Argument(usize),
    /// The result of the operation.
    Result,
    /// A number.
    Constant(f64),
    /// An operation on earlier terms.
    Op(ElementOp, Vec<Expr>),
}

/// Partial derivatives of an elementwise operation by its arguments.
pub(crate) struct Partials {
    /// The terms, each built from earlier ones.
    pub(crate) terms: Vec<Term>,
    /// The derivative by each argument; `None` if no gradient flows to it (a condition).
    pub(crate) by: Vec<Option<Expr>>,
    /// Bit masks of the values that each derivative reads.
    reads: [u8; 3],
    /// Bit mask of the arguments that gradients flow to.
    carried: u8,
}

/// List of terms under construction.
struct Writer(Vec<Term>);

impl Build for Writer {
    fn op(&mut self, op: ElementOp, args: &[Expr]) -> Expr {
        self.0.push(Term::Op(op, args.to_vec()));
        Expr(self.0.len() as u32 - 1)
    }

    fn constant(&mut self, _: Expr, value: f64) -> Expr {
        self.0.push(Term::Constant(value));
        Expr(self.0.len() as u32 - 1)
    }
}

impl Partials {
    /// The derivatives of an operation; `None` if the table has none.
    pub(crate) fn of(op: ElementOp) -> Option<&'static Partials> {
        static ALL: OnceLock<Vec<Option<Partials>>> = OnceLock::new();
        ALL.get_or_init(|| ElementOp::ALL.iter().map(|&op| Partials::new(op)).collect())[op as usize].as_ref()
    }

    fn new(op: ElementOp) -> Option<Partials> {
        let row = op.row();
        let derivative = row.derivative?;
        let mut writer = Writer((0..row.arity).map(Term::Argument).chain([Term::Result]).collect());
        let args: Vec<Expr> = (0..row.arity as u32).map(Expr).collect();
        let by = derivative(&mut writer, &args, Expr(row.arity as u32));
        let terms = writer.0;
        let mut reached: Vec<u8> = Vec::with_capacity(terms.len());
        for term in &terms {
            let reads = match term {
                Term::Argument(i) => 1 << i,
                Term::Result => RESULT,
                Term::Constant(_) => 0,
                Term::Op(_, args) => args.iter().fold(0, |all, a| all | reached[a.0 as usize]),
            };
            reached.push(reads);
        }
        let reads = std::array::from_fn(|i| by.get(i).copied().flatten().map_or(0, |d| reached[d.0 as usize]));
        let carried = by.iter().enumerate().fold(0, |mask, (i, d)| mask | (d.is_some() as u8) << i);
        Some(Partials { terms, by, reads, carried })
    }
}

/// Bit mask of the arguments that gradients flow to; 0 for an operation without a derivative or with a derivative of
/// zero.
pub(crate) fn carried(op: Op) -> u8 {
    match op {
        Op::Element(e) => Partials::of(e).map_or(0, |p| p.carried),
        // Kernel calls and bitcasts have already refused tracked arguments that would need a gradient.
        _ => op.info().grad_args,
    }
}

/// Bit mask of the values that the rule reads for the gradients of these arguments: arguments and [`RESULT`].
pub(crate) fn reads(op: Op, wanted: u8) -> u8 {
    let wants = |i: u8| wanted >> i & 1 == 1;
    match op {
        Op::Element(e) => {
            Partials::of(e).map_or(0, |p| (0..3).filter(|&i| wants(i)).fold(0, |mask, i| mask | p.reads[i as usize]))
        }
        _ => op.info().saved_for(wanted),
    }
}
