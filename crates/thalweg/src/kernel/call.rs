//! A call of a kernel on tensors: operands are checked, the kernel is called once on traced numbers, and what it did is
//! recorded (`replay.rs`).
//!
//! Always true: every check is made before anything is recorded.

use super::field::Field;
use super::integer::{Int, Mask};
use super::prepared::{Prepared, Program, Signature};
use super::replay::Recording;
use super::row::Row;
use super::trace::Traced;
use super::trace::{Kind, Open, TracedField};
use crate::{Axis, DType, Device, Operand, Shape, Tensor};

/// A call of a kernel on tensors, in the making; what `#[kernel]` writes.
pub struct Call<'a> {
    name: &'static str,
    operands: Vec<(&'static str, Take, Operand<'a>)>,
    /// What the operands broadcast to.
    shape: Shape,
    /// The kernel's float dtype.
    float: DType,
    device: Device,
    open: Open,
}

/// What a kernel takes in a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// An `F`.
    Number,
    /// An `i32`.
    Int,
    /// A `bool`.
    Mask,
    /// A `Field` of so many dimensions.
    Field(usize),
    /// A `Row`.
    Row,
}

/// A number that a kernel gives.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    number: Traced,
    /// Whether it stands for a row.
    row: bool,
}

/// What a kernel can give: numbers, integers, truth values, tuples and arrays of them.
#[diagnostic::on_unimplemented(message = "a kernel cannot give `{Self}`")]
pub trait Outputs {
    /// The same with tensors in their places.
    type Tensors;
    /// The numbers in order.
    fn numbers(&self, list: &mut Vec<Output>);
    /// Takes their tensors.
    fn tensors(each: &mut dyn Iterator<Item = Tensor>) -> Self::Tensors;
}

impl<'a> Call<'a> {
    /// A call on these operands: the name of each in the kernel's signature, what that says of it, and what stands for
    /// it. An index kernel's result is of the shape `over`, else it is what the operands broadcast to.
    ///
    /// # Panics
    /// When none is a tensor (of an index kernel there may be none), dtypes or ranks are not what the signature says, or shapes do not broadcast.
    #[track_caller]
    pub fn new(name: &'static str, over: Option<Shape>, operands: &[(&'static str, Take, Operand<'a>)]) -> Call<'a> {
        Call::with(name, (over, None), operands)
    }

    /// A call of a row kernel along an axis of what its rows broadcast to.
    ///
    /// # Panics
    /// As [`Call::new`]; when no row is a tensor, or there is no such axis.
    #[track_caller]
    pub fn along(name: &'static str, axis: Axis, operands: &[(&'static str, Take, Operand<'a>)]) -> Call<'a> {
        Call::with(name, (None, Some(axis)), operands)
    }

    #[track_caller]
    fn with(
        name: &'static str,
        (over, rows): (Option<Shape>, Option<Axis>),
        operands: &[(&'static str, Take, Operand<'a>)],
    ) -> Call<'a> {
        let (shape, float, device) = check(name, (over, rows.is_some()), operands);
        let open = Open::new(name);
        if let Some(axis) = rows {
            open.along(check_rows(name, shape, axis, operands));
        }
        Call { name, operands: operands.to_vec(), shape, float, device, open }
    }

    /// The results of a map on these operands, which has no other data: what an earlier call of the same signature has
    /// recorded, without a trace.
    ///
    /// # Panics
    /// As [`Call::new`].
    #[track_caller]
    pub fn again<O: Outputs>(
        known: &Prepared,
        name: &'static str,
        operands: &[(&'static str, Take, Operand<'a>)],
        kernel: impl FnOnce(&Call<'a>) -> O,
    ) -> O::Tensors {
        let (shape, float, device) = check(name, (None, false), operands);
        let signature = Signature::of(float, operands.iter().map(|o| o.2));
        let found = signature.and_then(|signature| known.find(signature));
        if let Some(Some(program)) = &found {
            return O::tensors(&mut program.record(|i| operands[i].2, shape, device).into_iter());
        }
        let call = Call { name, operands: operands.to_vec(), shape, float, device, open: Open::new(name) };
        let results = kernel(&call);
        let new = signature.filter(|_| found.is_none());
        let (tensors, program) = call.recorded(results, new.is_some());
        if let Some(signature) = new {
            known.keep(signature, program);
        }
        O::tensors(&mut tensors.into_iter())
    }

    /// Operand `i`, an `F`.
    pub fn number(&self, i: usize) -> Traced {
        self.open.operand(i, Kind::Float)
    }

    /// Operand `i`, a row.
    pub fn row(&self, i: usize) -> Row<Traced> {
        Row::new([self.number(i)])
    }

    /// Operand `i`, an `i32`.
    pub fn int(&self, i: usize) -> Int<Traced> {
        Int(self.open.operand(i, Kind::Int))
    }

    /// Operand `i`, a `bool`.
    pub fn mask(&self, i: usize) -> Mask<Traced> {
        Mask(self.open.operand(i, Kind::Mask))
    }

    /// Operand `i`, a field.
    pub fn field<const N: usize>(&self, i: usize) -> Field<Traced, N> {
        let Operand::Tensor(t) = self.operands[i].2 else { unreachable!("a field is a tensor") };
        Field(TracedField { operand: i, sizes: t.dims().to_vec() })
    }

    /// The place of the result.
    ///
    /// # Panics
    /// When the result has another number of dimensions.
    #[track_caller]
    pub fn place<const N: usize>(&self) -> [Int<Traced>; N] {
        let (name, shape) = (self.name, self.shape);
        if shape.rank() != N {
            panic!("{name}: a place has {N} numbers, and {name}::over was given shape {shape}");
        }
        if shape.iter().any(|&d| d > i32::MAX as usize) {
            panic!("{name}: places in shape {shape} are beyond i32");
        }
        std::array::from_fn(|axis| Int(self.open.place(axis)))
    }

    /// Records what the results come from.
    #[track_caller]
    pub fn record<O: Outputs>(self, results: O) -> O::Tensors {
        O::tensors(&mut self.recorded(results, false).0.into_iter())
    }

    /// The results, and where that is asked for what a later call does.
    #[track_caller]
    fn recorded<O: Outputs>(self, results: O, keep: bool) -> (Vec<Tensor>, Option<Program>) {
        let Call { name, operands, shape, float, device, open } = self;
        let trace = open.close();
        trace.check();
        let mut numbers = vec![];
        results.numbers(&mut numbers);
        let rows: Vec<bool> = numbers.iter().map(|o| o.row).collect();
        let results: Vec<usize> = numbers.into_iter().map(|o| trace.place(o.number)).collect();
        let operands = operands.into_iter().map(|(name, take, given)| (name, take == Take::Row, given)).collect();
        let mut recording = Recording::new(name, operands, (float, device), shape, trace);
        recording.run(&results);
        let program = if keep { recording.program(&results) } else { None };
        (results.into_iter().zip(rows).map(|(i, row)| recording.result(i, row)).collect(), program)
    }
}

/// What the operands broadcast to (of an index kernel `over`), the kernel's float dtype, and their device.
#[track_caller]
fn check(
    name: &str,
    (over, rows): (Option<Shape>, bool),
    operands: &[(&'static str, Take, Operand<'_>)],
) -> (Shape, DType, Device) {
    let float = float_dtype(name, operands);
    let mut shape = over.unwrap_or(Shape::SCALAR);
    let mut first: Option<&Tensor> = None;
    for &(operand, take, given) in operands {
        let dtype = match take {
            Take::Number | Take::Field(_) | Take::Row => float,
            Take::Int => DType::I32,
            Take::Mask => DType::Bool,
        };
        let t = match given {
            Operand::Scalar(value) if !value.fits(dtype) => {
                panic!("{name}: operand `{operand}` is {value:?}, which does not fit {dtype}")
            }
            Operand::Scalar(_) => continue,
            Operand::Tensor(t) => t,
        };
        if t.dtype() != dtype {
            let own = t.dtype();
            panic!("{name}: operand `{operand}` is {own}, not {dtype}; .cast(DType::{dtype:?}) first");
        }
        if let Some(first) = first
            && first.device() != t.device()
        {
            panic!("{name}: tensors on {} and {}; move one with .to_device(..)", first.device(), t.device());
        }
        first = first.or(Some(t));
        if let Take::Field(rank) = take {
            if t.rank() != rank {
                panic!("{name}: operand `{operand}` has {rank} dimensions, not those of shape {}", t.shape());
            }
            continue;
        }
        // What has one element a row is looked at when it is known which rows there are.
        if rows && take != Take::Row {
            continue;
        }
        let both = shape.broadcast(t.shape()).filter(|both| over.is_none_or(|over| *both == over));
        let Some(both) = both else {
            panic!("{name}: operand `{operand}` of shape {} does not broadcast with {shape}", t.shape())
        };
        shape = both;
    }
    let device = match first {
        Some(first) => first.device(),
        // The place alone says what there is.
        None if over.is_some() => Device::default(),
        None => panic!("{name}: no operand is a tensor; on numbers, call {name}(..) itself"),
    };
    (shape, float, device)
}

/// The axis of a row kernel whose rows broadcast to a shape, where its operands fit that.
#[track_caller]
fn check_rows(name: &str, shape: Shape, axis: Axis, operands: &[(&str, Take, Operand<'_>)]) -> usize {
    if !operands.iter().any(|o| o.1 == Take::Row && matches!(o.2, Operand::Tensor(_))) {
        panic!("{name}: no row is a tensor; on numbers, call {name}(..) itself");
    }
    let axis = axis.of(name, shape.rank());
    if shape[axis] > i32::MAX as usize {
        panic!("{name}: rows of {} elements are beyond i32", shape[axis]);
    }
    let once = shape.remove(axis);
    for (operand, take, given) in operands {
        let Operand::Tensor(t) = given else { continue };
        if *take != Take::Row && once.broadcast(t.shape()) != Some(once) {
            panic!("{name}: operand `{operand}` of shape {} does not broadcast to an element a row, {once}", t.shape());
        }
    }
    axis
}

/// The float dtype of a call: that of its tensors, of which there may be none.
#[track_caller]
fn float_dtype(name: &str, operands: &[(&str, Take, Operand<'_>)]) -> DType {
    let mut found: Option<(&str, DType)> = None;
    for &(operand, take, given) in operands {
        let (Operand::Tensor(t), Take::Number | Take::Field(_) | Take::Row) = (given, take) else { continue };
        if !t.dtype().is_float() {
            panic!("{name}: operand `{operand}` takes a float dtype, not {}; .cast(DType::F32) first", t.dtype());
        }
        match found {
            Some((first, dtype)) if dtype != t.dtype() => panic!(
                "{name}: operands `{first}` and `{operand}` are {dtype} and {}; convert one with .cast(DType::{dtype:?})",
                t.dtype()
            ),
            _ => found = Some((operand, t.dtype())),
        }
    }
    found.map_or(DType::F32, |f| f.1)
}

macro_rules! numbers {
    ($($t:ty: $x:ident => $number:expr;)*) => {$(
        impl Outputs for $t {
            type Tensors = Tensor;
            fn numbers(&self, list: &mut Vec<Output>) {
                let $x = self;
                list.push(Output { number: $number, row: false });
            }
            fn tensors(each: &mut dyn Iterator<Item = Tensor>) -> Tensor {
                each.next().expect("there is one for each")
            }
        }
    )*};
}
numbers! {
    Traced: x => *x;
    Int<Traced>: x => x.0;
    Mask<Traced>: x => x.0;
}

/// A row of numbers.
impl<T: Outputs<Tensors = Tensor> + Copy> Outputs for Row<Traced, T> {
    type Tensors = Tensor;
    fn numbers(&self, list: &mut Vec<Output>) {
        let first = list.len();
        self.elements()[0].numbers(list);
        list[first..].iter_mut().for_each(|o| o.row = true);
    }
    fn tensors(each: &mut dyn Iterator<Item = Tensor>) -> Tensor {
        T::tensors(each)
    }
}

impl<T: Outputs, const N: usize> Outputs for [T; N] {
    type Tensors = [T::Tensors; N];
    fn numbers(&self, list: &mut Vec<Output>) {
        self.iter().for_each(|x| x.numbers(list));
    }
    fn tensors(each: &mut dyn Iterator<Item = Tensor>) -> [T::Tensors; N] {
        std::array::from_fn(|_| T::tensors(each))
    }
}

macro_rules! tuples {
    ($($($t:ident $n:tt)+;)*) => {$(
        impl<$($t: Outputs),+> Outputs for ($($t,)+) {
            type Tensors = ($($t::Tensors,)+);
            fn numbers(&self, list: &mut Vec<Output>) {
                $(self.$n.numbers(list);)+
            }
            fn tensors(each: &mut dyn Iterator<Item = Tensor>) -> Self::Tensors {
                ($($t::tensors(each),)+)
            }
        }
    )*};
}
tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
}
