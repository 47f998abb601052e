//! Kernel arguments, declared once for each kernel family.
//!
//! `params!` declares the arguments of a launch: names, kinds, order, repeated groups. It makes two structs: *params*,
//! with the slot of each argument, and *arguments*, with its value. The host fills all words from a literal of the second
//! struct, so that none is missing and none is written twice; programs read slots by the name of the field, kernels in
//! the DSL by `param name`; the verifier and the dump of programs know names and kinds.
//!
//! ```text
//! params! {
//!     /// Kernel arguments of a copy.
//!     pub struct CopyParams(dims: usize) filled by CopyArguments {
//!         from: Address,
//!         count: I64,
//!         strides: Vec<Stride> = each(dims, Stride::declare),
//!     }
//! }
//! ```
//!
//! A field is an argument, a group that another declaration makes, or a `Vec`, `Option` or array of these. What its count
//! depends on is given by a closure after `=`.

use crate::ir::{Expr, Kind, Layout, Name, Slot, Statement, Type};
use crate::maps::MAP_WORDS;

/// Kernel argument whose value is known only at each run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RuntimeArgument {
    /// Address of an operand, plus an offset in bytes.
    Operand(u16, i64),
    /// Value of a scalar.
    Scalar(u16),
    /// Reciprocal of a scalar, as f64 (`true`) or f32.
    Reciprocal(u16, bool),
    /// Address of a region of scratch memory, plus an offset in bytes.
    Scratch(u16, i64),
    /// Tensor map (TMA descriptor) of an operand, [`crate::maps::MAP_WORDS`] words. Its first element is at this offset
    /// in bytes from the operand's address.
    TensorMap(u16, i64),
    /// Tensor map of a region of scratch memory, with an offset in bytes.
    ScratchTensorMap(u16, i64),
    /// Address of the fault slot that an out-of-range index is reported to.
    Fault,
    /// Address of counters that are 0 between launches.
    Counters,
    /// Address of a buffer of this many bytes through which blocks of a launch exchange values. Each word of it also
    /// holds the tag of the launch that wrote it.
    Exchange(usize),
}

/// Values of a launch's arguments.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// Words that are the same in every run.
    pub words: Vec<u64>,
    /// Words that are patched at each run, by index.
    pub patches: Vec<(usize, RuntimeArgument)>,
}

impl Arguments {
    /// Words of a layout's arguments, all of them zero.
    pub fn new(layout: &Layout) -> Arguments {
        Arguments { words: vec![0; layout.words()], patches: vec![] }
    }
}

/// Kernel argument or group of kernel arguments, with the type of its values.
pub trait Params {
    /// Type of the values: a number, a runtime argument, or a struct for a group.
    type Values;

    /// Writes the values to the argument words, or to the list of words that are patched at each run.
    ///
    /// # Panics
    /// When lists of values are not as long as those of arguments.
    fn fill(&self, values: Self::Values, out: &mut Arguments);
}

impl<P: Params> Params for Vec<P> {
    type Values = Vec<P::Values>;

    fn fill(&self, values: Self::Values, out: &mut Arguments) {
        assert_eq!(self.len(), values.len(), "one value for each of a list of arguments");
        self.iter().zip(values).for_each(|(param, value)| param.fill(value, out));
    }
}

impl<P: Params, const N: usize> Params for [P; N] {
    type Values = [P::Values; N];

    fn fill(&self, values: Self::Values, out: &mut Arguments) {
        self.iter().zip(values).for_each(|(param, value)| param.fill(value, out));
    }
}

impl<P: Params> Params for Option<P> {
    type Values = Option<P::Values>;

    fn fill(&self, values: Self::Values, out: &mut Arguments) {
        assert_eq!(self.is_some(), values.is_some(), "a value for an argument that is declared");
        if let (Some(param), Some(values)) = (self, values) {
            param.fill(values, out);
        }
    }
}

/// Declares `count` arguments or groups.
pub fn each<P>(count: usize, declare: impl Fn(&mut Layout) -> P) -> impl FnOnce(&mut Layout) -> Vec<P> {
    move |layout| layout.each(count, |layout, _| declare(layout))
}

/// Declares an argument or a group if the launch has it.
pub fn optional<P>(has: bool, declare: impl FnOnce(&mut Layout) -> P) -> impl FnOnce(&mut Layout) -> Option<P> {
    move |layout| has.then(|| declare(layout))
}

/// Declares a group whose arguments are named without the group's name.
pub fn flat<P>(declare: impl FnOnce(&mut Layout) -> P) -> impl FnOnce(&mut Layout) -> P {
    move |layout| layout.flat(declare)
}

/// Defines the types of kernel arguments: name, kind, type of the value, and how it is written to words.
macro_rules! arguments {
    ($($(#[$meta:meta])* $name:ident: $kind:ident, $Values:ty, |$value:ident, $word:ident, $out:ident| $fill:expr;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name(Slot);

        impl $name {
            /// Declares the argument.
            pub fn declare(layout: &mut Layout) -> $name {
                $name(layout.add(Kind::$kind))
            }

            /// Slot of the argument.
            pub fn slot(&self) -> Slot {
                self.0.clone()
            }

            /// Reads the argument's value, converted to an integer type.
            pub fn read(&self, ty: Type) -> Expr {
                self.0.read(ty)
            }
        }

        impl Params for $name {
            type Values = $Values;

            fn fill(&self, $value: $Values, $out: &mut Arguments) {
                let $word = self.0.word();
                $fill
            }
        }
    )*};
}

arguments! {
    /// Address in global memory.
    Address: Address, RuntimeArgument, |value, word, out| out.patches.push((word, value));
    /// Address in global memory that some launches of a class do not use.
    OptionalAddress: Address, Option<RuntimeArgument>, |value, word, out| out.patches.extend(value.map(|value| (word, value)));
    /// Address of the fault slot; the value is whether a fault may be reported.
    FaultAddress: Fault, bool, |value, word, out| out.patches.extend(value.then_some((word, RuntimeArgument::Fault)));
    /// Base of an access: an address or an offset.
    Base: Base, AccessBase, |value, word, out| match value {
        AccessBase::Address(address) => out.patches.push((word, address)),
        AccessBase::Offset(offset) => out.words[word] = offset as u64,
    };
    /// Unsigned 32-bit count.
    U32: U32, usize, |value, word, out| out.words[word] = value as u64;
    /// 64-bit size, read as a signed number.
    I64: I64, usize, |value, word, out| out.words[word] = value as u64;
    /// 64-bit size, read as an unsigned number.
    U64: U64, usize, |value, word, out| out.words[word] = value as u64;
    /// Stride or offset in elements.
    Stride: I64, isize, |value, word, out| out.words[word] = value as u64;
    /// Condition, 0 or 1.
    Flag: Flag, bool, |value, word, out| out.words[word] = u64::from(value);
    /// Precomputed divisor of an index ([`crate::space::divisor`]).
    Divisor: Divisor, [u64; 2], |value, word, out| out.words[word..][..2].copy_from_slice(&value);
    /// Scalar, or the reciprocal of one.
    Scalar: Scalar, RuntimeArgument, |value, word, out| out.patches.push((word, value));
    /// Tensor map as the driver has encoded it, and the address in it that is patched at each run.
    TensorMap: TensorMap, ([u64; MAP_WORDS], RuntimeArgument), |value, word, out| {
        out.words[word..][..MAP_WORDS].copy_from_slice(&value.0);
        out.patches.push((word, value.1));
    };
}

/// Padding to a multiple of a tensor map's words, where the arguments of several problems follow each other.
#[derive(Clone, Debug)]
pub struct Padding;

impl Padding {
    /// Adds the padding to a layout.
    pub fn declare(layout: &mut Layout) -> Padding {
        layout.align();
        Padding
    }
}

impl Params for Padding {
    type Values = ();

    fn fill(&self, (): (), _: &mut Arguments) {}
}

/// Base of an access: address of its operand, or offset of its first element where it has none.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AccessBase {
    /// Address of the access's first element, known at each run.
    Address(RuntimeArgument),
    /// Offset of the first element, for an access without an operand.
    Offset(isize),
}

/// Declares an operand whose address is in kernel argument `param`.
pub fn operand(name: impl Into<Name>, ty: Type, param: Slot) -> Statement {
    Statement::Operand { name: name.into(), ty, param }
}

/// Declares a group of kernel arguments ([`crate::params`]).
macro_rules! params {
    (
        $(#[$meta:meta])*
        pub struct $Params:ident($($shape:ident: $Shape:ty),*) filled by $Arguments:ident {
            $($(#[$field_meta:meta])* $field:ident: $Kind:ty $(= $declare:expr)?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $Params {
            $($(#[$field_meta])* pub $field: $Kind,)*
        }

        #[doc = concat!("Values of [`", stringify!($Params), "`].")]
        pub struct $Arguments {
            $($(#[$field_meta])* pub $field: <$Kind as $crate::params::Params>::Values,)*
        }

        impl $Params {
            /// Declares the arguments of the group in their order.
            pub fn declare(layout: &mut $crate::ir::Layout, $($shape: $Shape),*) -> $Params {
                $(let $field = $crate::params::params!(@declare layout, $field, $Kind $(, $declare)?);)*
                $Params { $($field),* }
            }

            /// Kernel arguments for a program, with their layout and names.
            #[allow(dead_code, reason = "unused by a group, which the params of its kernel declare")]
            pub fn new($($shape: $Shape),*) -> ($Params, $crate::ir::Layout) {
                let mut layout = $crate::ir::Layout::named();
                let params = $Params::declare(&mut layout, $($shape),*);
                (params, layout)
            }
        }

        impl $Arguments {
            /// Words of a launch with these values.
            #[allow(dead_code, reason = "unused by a group, which the arguments of its kernel fill")]
            pub fn fill(self, $($shape: $Shape),*) -> $crate::params::Arguments {
                let mut layout = $crate::ir::Layout::unnamed();
                let params = $Params::declare(&mut layout, $($shape),*);
                let mut out = $crate::params::Arguments::new(&layout);
                $crate::params::Params::fill(&params, self, &mut out);
                out
            }
        }

        impl $crate::params::Params for $Params {
            type Values = $Arguments;

            fn fill(&self, values: $Arguments, out: &mut $crate::params::Arguments) {
                $($crate::params::Params::fill(&self.$field, values.$field, out);)*
            }
        }
    };
    (@declare $layout:ident, $field:ident, $Kind:ty) => {
        $layout.field(stringify!($field), <$Kind>::declare)
    };
    (@declare $layout:ident, $field:ident, $Kind:ty, $declare:expr) => {
        $layout.field(stringify!($field), $declare)
    };
}

pub(crate) use params;
