//! A call of a kernel on tensors: operands are checked, the kernel is called once on traced numbers, and what it did is
//! recorded (`replay.rs`).
//!
//! Always true: every check is made before anything is recorded.

use super::field::Field;
use super::integer::{Int, Mask};
use super::known::{Over, Plain, Question};
use super::prepared::Prepared;
use super::program::{Program, Signature};
use super::replay::{Extent, Recording};
use super::row::Row;
use super::tile::Tile;
use super::trace::{Kind, Open, Take, Traced, TracedField};
use crate::{Axis, DType, Device, Operand, Shape, Tensor};
use std::sync::Arc;

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

/// A number that a kernel gives.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    number: Traced,
    /// What it stands for.
    extent: Extent,
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
        Call::with(name, over.map_or(Over::Elements, Over::Places), operands)
    }

    /// A call of a row kernel along an axis of what its rows broadcast to.
    ///
    /// # Panics
    /// As [`Call::new`]; when no row is a tensor, or there is no such axis.
    #[track_caller]
    pub fn along(name: &'static str, axis: Axis, operands: &[(&'static str, Take, Operand<'a>)]) -> Call<'a> {
        Call::with(name, Over::Rows(axis), operands)
    }

    /// A call of a tile kernel on the last two dimensions of its tiles, for each batch of those before.
    ///
    /// # Panics
    /// As [`Call::new`]; when a tile is a number, or batches do not broadcast.
    #[track_caller]
    pub fn tiles(name: &'static str, operands: &[(&'static str, Take, Operand<'a>)]) -> Call<'a> {
        Call::with(name, Over::Tiles, operands)
    }

    #[track_caller]
    fn with(name: &'static str, over: Over, operands: &[(&'static str, Take, Operand<'a>)]) -> Call<'a> {
        let (shape, float, device) = check(name, over, operands);
        let open = Open::new(name);
        if let Over::Rows(axis) = over {
            open.along(check_rows(name, shape, axis, operands));
        }
        Call { name, operands: operands.to_vec(), shape, float, device, open }
    }

    /// The results of a kernel on these operands with this plain data (none where it cannot be compared): what an earlier call
    /// of the same has recorded, in one go; of a map on operands of other sizes what its trace came to.
    ///
    /// # Panics
    /// As [`Call::new`], [`Call::along`], [`Call::tiles`].
    #[track_caller]
    pub fn again<O: Outputs>(
        known: &Prepared,
        over: Over,
        plain: Option<&Plain>,
        name: &'static str,
        operands: &[(&'static str, Take, Operand<'a>)],
        kernel: impl FnOnce(&Call<'a>) -> O,
    ) -> O::Tensors {
        let question = plain.map(|plain| Question { over: &over, operands, plain });
        if let Some(results) = question.as_ref().and_then(|q| known.calls.record(q, |each| O::tensors(each))) {
            return results;
        }
        let mark = question.as_ref().and_then(|q| known.calls.mark(q));
        let (float, results, program) = match plain.is_some_and(|p| p.is_none()) && over == Over::Elements {
            true => Call::prepared(known, name, operands, kernel),
            false => {
                let call = Call::with(name, over, operands);
                let results = kernel(&call);
                (call.float, call.recorded(results, false).0, None)
            }
        };
        if let (Some(mark), Some(question)) = (mark, &question) {
            known.calls.keep(mark, question, float, &results, program.as_deref());
        }
        O::tensors(&mut results.into_iter())
    }

    /// The results of a map that has no other data, with its float dtype, and what its trace came to.
    #[track_caller]
    fn prepared<O: Outputs>(
        known: &Prepared,
        name: &'static str,
        operands: &[(&'static str, Take, Operand<'a>)],
        kernel: impl FnOnce(&Call<'a>) -> O,
    ) -> (DType, Vec<Tensor>, Option<Arc<Program>>) {
        let (shape, float, device) = check(name, Over::Elements, operands);
        let signature = Signature::of(float, operands.iter().map(|o| o.2));
        let found = signature.and_then(|signature| known.find(signature));
        if let Some(Some(program)) = found {
            return (float, program.record(|i| operands[i].2, shape, device), Some(program));
        }
        let call = Call { name, operands: operands.to_vec(), shape, float, device, open: Open::new(name) };
        let results = kernel(&call);
        let new = signature.filter(|_| found.is_none());
        let (tensors, program) = call.recorded(results, new.is_some());
        let program = program.map(Arc::new);
        if let Some(signature) = new {
            known.keep(signature, program.clone());
        }
        (float, tensors, program)
    }

    /// Operand `i`, an `F`.
    pub fn number(&self, i: usize) -> Traced {
        self.open.operand(i, Kind::Float)
    }

    /// Operand `i`, a row.
    pub fn row(&self, i: usize) -> Row<Traced> {
        Row::new([self.number(i)])
    }

    /// Operand `i`, a tile of floats.
    pub fn tile(&self, i: usize) -> Tile<Traced> {
        Tile::traced(self.number(i), self.sizes(i))
    }

    /// Operand `i`, a tile of `i32`.
    pub fn int_tile(&self, i: usize) -> Tile<Traced, Int<Traced>> {
        Tile::traced(self.int(i), self.sizes(i))
    }

    /// Operand `i`, a tile of `bool`.
    pub fn mask_tile(&self, i: usize) -> Tile<Traced, Mask<Traced>> {
        Tile::traced(self.mask(i), self.sizes(i))
    }

    /// The rows and columns of operand `i`, a tile; what has one dimension is a row.
    fn sizes(&self, i: usize) -> [usize; 2] {
        match self.operands[i].2 {
            Operand::Tensor(t) => match *t.dims() {
                [.., n, m] => [n, m],
                [m] => [1, m],
                [] => unreachable!("a tile has a dimension"),
            },
            Operand::Scalar(_) => unreachable!("a tile is a tensor"),
        }
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
        let extents: Vec<Extent> = numbers.iter().map(|o| o.extent).collect();
        let results: Vec<usize> = numbers.into_iter().map(|o| trace.place(o.number)).collect();
        let mut recording = Recording::new(name, operands, (float, device), shape, trace);
        recording.run(&results);
        let program = if keep { recording.program(&results) } else { None };
        (results.into_iter().zip(extents).map(|(i, extent)| recording.result(i, extent)).collect(), program)
    }
}

/// What the operands broadcast to (of an index kernel what it is called over, of a tile kernel the batches), the kernel's
/// float dtype, and their device.
#[track_caller]
fn check(name: &str, over: Over, operands: &[(&'static str, Take, Operand<'_>)]) -> (Shape, DType, Device) {
    let float = float_dtype(name, operands);
    let places = if let Over::Places(shape) = over { Some(shape) } else { None };
    let mut shape = places.unwrap_or(Shape::SCALAR);
    let mut first: Option<&Tensor> = None;
    for &(operand, take, given) in operands {
        let dtype = take.dtype(float);
        let t = match given {
            Operand::Scalar(_) if take.is_tile() => no_tile(name, operand, "a number"),
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
        if matches!(over, Over::Rows(_)) && take != Take::Row {
            continue;
        }
        let own = match take.is_tile() {
            true if t.rank() == 0 => no_tile(name, operand, "of no dimensions"),
            true => Shape::new(&t.dims()[..t.rank().saturating_sub(2)]),
            false => *t.shape(),
        };
        let both = shape.broadcast(&own).filter(|both| places.is_none_or(|places| *both == places));
        let Some(both) = both else {
            let batches = if matches!(over, Over::Tiles) { " batches of" } else { "" };
            panic!("{name}: operand `{operand}` of shape {} does not broadcast with{batches} {shape}", t.shape())
        };
        shape = both;
    }
    let device = match first {
        Some(first) => first.device(),
        // The place alone says what there is.
        None if places.is_some() => Device::default(),
        None => panic!("{name}: no operand is a tensor; on numbers, call {name}(..) itself"),
    };
    (shape, float, device)
}

/// Refuses what is no tile.
#[track_caller]
fn no_tile(name: &str, operand: &str, is: &str) -> ! {
    panic!("{name}: operand `{operand}` is {is}, and a tile has two dimensions; a number is an `F` of the kernel")
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
        let (Operand::Tensor(t), true) = (given, take.is_float()) else { continue };
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
                list.push(Output { number: $number, extent: Extent::Once });
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
        list[first..].iter_mut().for_each(|o| o.extent = Extent::Row);
    }
    fn tensors(each: &mut dyn Iterator<Item = Tensor>) -> Tensor {
        T::tensors(each)
    }
}

/// A tile of numbers.
impl<T: Outputs<Tensors = Tensor> + Copy> Outputs for Tile<Traced, T> {
    type Tensors = Tensor;
    fn numbers(&self, list: &mut Vec<Output>) {
        let first = list.len();
        self.elements()[0].numbers(list);
        list[first..].iter_mut().for_each(|o| o.extent = Extent::Tile(self.sizes()));
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
