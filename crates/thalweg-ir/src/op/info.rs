//! Properties of each kind of operation, beside its meaning: a row ([`OpInfo`]) per [`Op`](crate::Op).
//!
//! The recorder, the planner, the interpreter, gradients and the fuzzer read the row. So an operation of a class that
//! exists needs code only where its elements are computed, lowered and differentiated. Properties of elementwise
//! operations, reductions and regions that differ within the kind are in their tables ([`crate::element::ROWS`],
//! [`crate::monoid::MONOIDS`]) or in the region.

/// Class of an operation: how its result's elements depend on those of its arguments. The class also decides the form
/// of its kernel, and the kind of its cost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpClass {
    /// Each element is computed from the elements at the same index of broadcast arguments.
    Elementwise,
    /// Elements that follow from scalars and the index, without work or memory.
    Constant,
    /// Random numbers, from a key and the index.
    Random,
    /// Pure index map of one argument: no arithmetic, no masked elements.
    View,
    /// Each element is an element of one of the arguments, or a constant, chosen by its position: index maps with
    /// masks.
    Merge,
    /// Reduction of each row to one element.
    Fold,
    /// Map from each row to a row of the same length.
    Scan,
    /// Matrix product.
    Matmul,
    /// Elements selected by index from an argument, which is in memory.
    Gather,
    /// Elements stored or combined by index. A kernel of its own: nothing fuses into it but index and values.
    Scatter,
    /// Source code of a user in another language. A kernel of its own, of unknown cost, with dense operands in memory.
    Foreign,
}

impl OpClass {
    /// Whether the operation needs whole rows of its operand.
    pub const fn takes_rows(self) -> bool {
        matches!(self, OpClass::Fold | OpClass::Scan)
    }

    /// Whether the operation is a kernel of its own kind wherever kernels do not contract: its operands are in memory.
    pub const fn has_own_kernel(self) -> bool {
        matches!(self, OpClass::Matmul | OpClass::Scatter | OpClass::Foreign)
    }
}

/// Number of integer arguments of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntArgs {
    /// This number.
    Count(usize),
    /// This number for each dimension of the result.
    PerAxis(usize),
    /// As the source of the foreign operation says.
    Foreign,
}

/// Rounding of a result's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rounding {
    /// None: each element is a constant or an element of an argument, whatever its value.
    Copies,
    /// None: each element is an extreme of elements of the arguments, or the index of one.
    Extreme,
    /// A fixed number of roundings per element.
    Rounds,
    /// One per term: sums and products of many elements, whose order may vary.
    Accumulates,
    /// Roundings of the region.
    Region,
    /// Unknown: code of the user.
    Unknown,
}

/// Whether a rounding error of the arguments may change a result by more than a rounding error, since the operation
/// makes a discrete choice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DiscreteChoice {
    /// No.
    Never,
    /// If the result is an integer or bool.
    NotFloat,
    /// Yes.
    Always,
    /// If an operation of the table or region makes one ([`crate::element::Row::selects`]).
    ByRegion,
}

/// Row of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpInfo {
    /// Name in explanations and errors; empty if the table of the operation's own kind has it
    /// ([`Op::name`](crate::Op::name)).
    pub name: &'static str,
    /// Class.
    pub class: OpClass,
    /// Integer arguments.
    pub ints: IntArgs,
    /// Rounding of the result.
    pub rounding: Rounding,
    /// Whether the operation makes a discrete choice by the values of its arguments.
    pub choice: DiscreteChoice,
    /// Argument that holds indices into the first one, along the axis in `attr`. An index out of range is an error of
    /// the run.
    pub index_arg: Option<u8>,
    /// Whether the result consists of windows, which overlap: an element of the argument is read at several points.
    pub windows: bool,
    /// Whether the layout of the result depends on the integer arguments, so that the layout is part of a plan's key.
    pub layout_by_ints: bool,
    /// Whether the planner limits the number of such operations in a kernel (`max_puts`), since each may cut the
    /// kernel's domain into more boxes.
    pub limited: bool,
    /// Bit mask of the arguments that gradients flow to. 0: no derivative, or one that is 0.
    pub grad_args: u8,
    /// For the gradient of each argument, bit mask of the values that it reads, which a tape saves: argument `i` is bit
    /// `i`, the result [`OpInfo::RESULT`].
    pub grad_reads: [u8; 3],
}

impl OpInfo {
    /// Bit of the result in a mask of values.
    pub const RESULT: u8 = 1 << 3;

    /// Row of an operation with the properties that are usual in its class, without integer arguments and derivative.
    pub(super) const fn of(class: OpClass) -> OpInfo {
        let rounding = match class {
            OpClass::Constant | OpClass::View | OpClass::Merge | OpClass::Gather => Rounding::Copies,
            OpClass::Elementwise | OpClass::Random => Rounding::Rounds,
            OpClass::Fold | OpClass::Scan | OpClass::Matmul | OpClass::Scatter => Rounding::Accumulates,
            OpClass::Foreign => Rounding::Unknown,
        };
        OpInfo {
            name: "",
            class,
            ints: IntArgs::Count(0),
            rounding,
            choice: DiscreteChoice::Never,
            index_arg: None,
            windows: false,
            layout_by_ints: false,
            limited: false,
            grad_args: 0,
            grad_reads: [0; 3],
        }
    }

    pub(super) const fn new(name: &'static str, class: OpClass) -> OpInfo {
        OpInfo { name, ..OpInfo::of(class) }
    }

    pub(super) const fn ints(mut self, ints: IntArgs) -> OpInfo {
        self.ints = ints;
        self
    }

    pub(super) const fn rounding(mut self, rounding: Rounding) -> OpInfo {
        self.rounding = rounding;
        self
    }

    pub(super) const fn choice(mut self, choice: DiscreteChoice) -> OpInfo {
        self.choice = choice;
        self
    }

    pub(super) const fn index_arg(mut self, arg: u8) -> OpInfo {
        self.index_arg = Some(arg);
        self
    }

    pub(super) const fn windows(mut self) -> OpInfo {
        self.windows = true;
        self
    }

    pub(super) const fn layout_by_ints(mut self) -> OpInfo {
        self.layout_by_ints = true;
        self
    }

    pub(super) const fn limited(mut self) -> OpInfo {
        self.limited = true;
        self
    }

    /// Sets the mask `args` of the arguments that gradients flow to; the gradient of argument `i` reads the values in
    /// the mask `reads[i]`.
    pub(super) const fn grad(mut self, args: u8, reads: [u8; 3]) -> OpInfo {
        (self.grad_args, self.grad_reads) = (args, reads);
        self
    }

    /// Whether a run of the operation may fail by itself, so that its caller's line is recorded: an index is out of
    /// range, or the user's code does not compile.
    pub const fn may_fail(&self) -> bool {
        self.index_arg.is_some() || matches!(self.class, OpClass::Foreign)
    }

    /// Whether recording the operation again with other operands is all that a new call of it takes: there is no
    /// caller's line, no random key, and no note of windows.
    pub const fn is_repeatable(&self) -> bool {
        !self.may_fail() && !matches!(self.class, OpClass::Random) && !self.windows
    }

    /// Number of leading arguments that are read from memory even where the operation fuses: the source of a gather.
    pub const fn args_in_memory(&self) -> usize {
        matches!(self.class, OpClass::Gather) as usize
    }

    /// Bit mask of the values that the gradients of the arguments in the mask `wanted` read.
    pub fn saved_for(&self, wanted: u8) -> u8 {
        let of_arg = self.grad_reads.iter().enumerate().filter(|(i, _)| wanted >> i & 1 == 1);
        of_arg.fold(0, |mask, (_, reads)| mask | reads)
    }
}
