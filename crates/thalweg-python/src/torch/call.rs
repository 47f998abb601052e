//! Arguments of an operation's rule, converted to what methods of tensors take.

use super::value::{Arg, Value};
use crate::dtype::ArrayDType;
use std::borrow::Cow;
use thalweg::{DType, Scalar, Shape, Tensor};

/// Why a rule does not apply to its arguments; PyTorch's own kernel runs instead.
#[derive(Debug)]
pub struct Reject(pub Cow<'static, str>);

impl From<&'static str> for Reject {
    fn from(text: &'static str) -> Reject {
        Reject(text.into())
    }
}

impl From<thalweg::Error> for Reject {
    fn from(error: thalweg::Error) -> Reject {
        Reject(error.to_string().into())
    }
}

/// Results of a rule.
pub enum Out {
    /// One result.
    One(Value),
    /// Several, or a list.
    Many(Vec<Value>),
}

impl From<Tensor> for Out {
    fn from(x: Tensor) -> Out {
        Out::One(Value::Tensor(x))
    }
}
impl From<Value> for Out {
    fn from(x: Value) -> Out {
        Out::One(x)
    }
}
impl From<(Tensor, Tensor)> for Out {
    fn from((a, b): (Tensor, Tensor)) -> Out {
        Out::Many(vec![a.into(), b.into()])
    }
}
impl From<(Tensor, Tensor, Tensor)> for Out {
    fn from((a, b, c): (Tensor, Tensor, Tensor)) -> Out {
        Out::Many(vec![a.into(), b.into(), c.into()])
    }
}
impl From<Vec<Tensor>> for Out {
    fn from(list: Vec<Tensor>) -> Out {
        Out::Many(list.into_iter().map(Value::Tensor).collect())
    }
}

/// Result of a rule.
pub type Outcome = Result<Out, Reject>;

/// Rule of an operation.
pub type Rule = fn(&Call<'_>) -> Outcome;

/// Name of an operation (`aten.add.Tensor`) and its rule.
pub type Row = (&'static str, Rule);

/// An operation's arguments, in the order of its schema.
pub struct Call<'a> {
    pub(super) registers: &'a [Value],
    pub(super) args: &'a [Arg],
    pub(super) dtypes: &'a [Option<ArrayDType>],
    /// Results that something reads.
    pub(super) read: &'a [bool],
}

/// Operand of a binary operation.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A number.
    Number(Scalar),
}

impl<'a> Call<'a> {
    fn get(&self, i: usize) -> &'a Arg {
        self.args.get(i).unwrap_or(&Arg::None)
    }

    fn register(&self, i: usize) -> &'a Value {
        &self.registers[i]
    }

    /// Whether argument `i` is absent or `None`.
    pub fn is_none(&self, i: usize) -> bool {
        match self.get(i) {
            Arg::None => true,
            Arg::Register(r) => matches!(self.register(*r), Value::None),
            _ => false,
        }
    }

    /// Argument `i` as a tensor.
    pub fn tensor(&self, i: usize) -> Result<&'a Tensor, Reject> {
        self.as_tensor(self.get(i))
    }

    fn as_tensor(&self, arg: &'a Arg) -> Result<&'a Tensor, Reject> {
        match arg {
            Arg::Register(r) => match self.register(*r) {
                Value::Tensor(x) => Ok(x),
                Value::Foreign(_) => Err("a dtype or rank that Thalweg has not".into()),
                _ => Err("no tensor".into()),
            },
            _ => Err("no tensor".into()),
        }
    }

    /// Argument `i` as a tensor, if there is one.
    pub fn tensor_or_none(&self, i: usize) -> Result<Option<&'a Tensor>, Reject> {
        if self.is_none(i) { Ok(None) } else { self.tensor(i).map(Some) }
    }

    /// Argument `i` as a list of tensors.
    pub fn tensors(&self, i: usize) -> Result<Vec<&'a Tensor>, Reject> {
        match self.get(i) {
            Arg::List(list) => list.iter().map(|a| self.as_tensor(a)).collect(),
            _ => Err("no list of tensors".into()),
        }
    }

    /// Argument `i` as a list of tensors, some of them absent.
    pub fn tensors_or_none(&self, i: usize) -> Result<Vec<Option<&'a Tensor>>, Reject> {
        match self.get(i) {
            Arg::List(list) => list
                .iter()
                .map(|a| match a {
                    Arg::None => Ok(None),
                    a => self.as_tensor(a).map(Some),
                })
                .collect(),
            _ => Err("no list of tensors".into()),
        }
    }

    fn as_number(&self, arg: &Arg) -> Result<Scalar, Reject> {
        Ok(match arg {
            Arg::Int(v) => Scalar::Int(*v),
            Arg::Float(v) => Scalar::Float(*v),
            Arg::Bool(v) => Scalar::Bool(*v),
            Arg::Register(r) => match self.register(*r) {
                Value::Int(v) => Scalar::Int(*v),
                Value::Float(v) => Scalar::Float(*v),
                Value::Bool(v) => Scalar::Bool(*v),
                _ => return Err("no number".into()),
            },
            _ => return Err("no number".into()),
        })
    }

    /// Argument `i` as a number.
    pub fn number(&self, i: usize) -> Result<Scalar, Reject> {
        self.as_number(self.get(i))
    }

    /// Argument `i` as a number, if there is one.
    pub fn number_or_none(&self, i: usize) -> Result<Option<Scalar>, Reject> {
        if self.is_none(i) { Ok(None) } else { self.number(i).map(Some) }
    }

    /// Argument `i` as a float.
    pub fn float(&self, i: usize) -> Result<f64, Reject> {
        self.number(i).map(Scalar::to_f64)
    }

    /// Argument `i` as a float, `default` if it is absent.
    pub fn float_or(&self, i: usize, default: f64) -> Result<f64, Reject> {
        if self.is_none(i) { Ok(default) } else { self.float(i) }
    }

    fn as_int(&self, arg: &Arg) -> Result<i64, Reject> {
        match self.as_number(arg)? {
            Scalar::Int(v) => Ok(v),
            Scalar::Bool(v) => Ok(i64::from(v)),
            Scalar::Float(v) if v.fract() == 0.0 => Ok(v as i64),
            _ => Err("no integer".into()),
        }
    }

    /// Argument `i` as an integer.
    pub fn int(&self, i: usize) -> Result<i64, Reject> {
        self.as_int(self.get(i))
    }

    /// Argument `i` as an integer, `default` if it is absent.
    pub fn int_or(&self, i: usize, default: i64) -> Result<i64, Reject> {
        if self.is_none(i) { Ok(default) } else { self.int(i) }
    }

    /// Argument `i` as a size.
    pub fn size(&self, i: usize) -> Result<usize, Reject> {
        usize::try_from(self.int(i)?).map_err(|_| "a negative size".into())
    }

    /// Argument `i` as a bool; absent is false.
    pub fn flag(&self, i: usize) -> Result<bool, Reject> {
        if self.is_none(i) { Ok(false) } else { Ok(self.int(i)? != 0) }
    }

    /// Argument `i` as a list of integers; one integer is a list of one.
    pub fn ints(&self, i: usize) -> Result<Vec<i64>, Reject> {
        match self.get(i) {
            Arg::List(list) => list.iter().map(|a| self.as_int(a)).collect(),
            Arg::None => Err("no list".into()),
            one => Ok(vec![self.as_int(one)?]),
        }
    }

    /// Argument `i` as a list of integers, if there is one.
    pub fn ints_or_none(&self, i: usize) -> Result<Option<Vec<i64>>, Reject> {
        if self.is_none(i) { Ok(None) } else { self.ints(i).map(Some) }
    }

    /// Argument `i` as a list of flags.
    pub fn flags(&self, i: usize) -> Result<Vec<bool>, Reject> {
        Ok(self.ints(i)?.into_iter().map(|v| v != 0).collect())
    }

    /// Argument `i` as sizes.
    pub fn shape(&self, i: usize) -> Result<Shape, Reject> {
        let dims = self.ints(i)?;
        if dims.len() > thalweg::MAX_RANK {
            return Err("a rank over the limit".into());
        }
        let dims: Result<Vec<usize>, _> = dims.iter().map(|&d| usize::try_from(d)).collect();
        dims.map(|d| Shape::new(&d)).map_err(|_| "a negative size".into())
    }

    /// Argument `i` as a word.
    pub fn word(&self, i: usize) -> Option<&'a str> {
        match self.get(i) {
            Arg::Word(w) => Some(w),
            _ => None,
        }
    }

    /// Argument `i` as a dtype, if there is one.
    pub fn dtype(&self, i: usize) -> Result<Option<DType>, Reject> {
        match self.get(i) {
            Arg::None => Ok(None),
            Arg::DType(ArrayDType::Real(d)) => Ok(Some(*d)),
            _ => Err("a complex dtype".into()),
        }
    }

    /// Dtype of result `k`, as PyTorch says.
    pub fn out(&self, k: usize) -> Result<DType, Reject> {
        match self.dtypes.get(k) {
            Some(Some(ArrayDType::Real(d))) => Ok(*d),
            _ => Err("a result of a dtype that Thalweg has not".into()),
        }
    }

    /// Whether a later operation or the program's user reads result `k`. One that nobody reads may be `Value::None`.
    pub fn is_read(&self, k: usize) -> bool {
        self.read.get(k).copied().unwrap_or(true)
    }

    /// Argument `i` as an operand.
    pub fn operand(&self, i: usize) -> Result<Operand<'a>, Reject> {
        match self.get(i) {
            Arg::Register(r) if matches!(self.register(*r), Value::Tensor(_) | Value::Foreign(_)) => {
                self.tensor(i).map(Operand::Tensor)
            }
            arg => self.as_number(arg).map(Operand::Number),
        }
    }

    /// Argument `i`, a tensor or a number, as a tensor of a dtype.
    pub fn tensor_of(&self, i: usize, dtype: DType) -> Result<Tensor, Reject> {
        Ok(match self.operand(i)? {
            Operand::Tensor(x) => x.cast(dtype),
            Operand::Number(v) => Tensor::full_with((), number_as(v, dtype)?, dtype),
        })
    }

    /// Dtype that arguments `i` and `j` promote to, by PyTorch's rule.
    pub fn promoted(&self, i: usize, j: usize) -> Result<DType, Reject> {
        match (self.operand(i)?, self.operand(j)?) {
            (Operand::Tensor(a), Operand::Tensor(b)) => {
                let (da, db) = (a.dtype(), b.dtype());
                if da == db {
                    return Ok(da);
                }
                // A tensor of rank 0 changes the dtype only if its kind is higher.
                match (a.rank() == 0, b.rank() == 0) {
                    (false, true) if kind(db) <= kind(da) => Ok(da),
                    (true, false) if kind(da) <= kind(db) => Ok(db),
                    _ => promote(da, db).ok_or("dtypes without a common one".into()),
                }
            }
            (Operand::Tensor(a), Operand::Number(v)) | (Operand::Number(v), Operand::Tensor(a)) => {
                Ok(with_number(a.dtype(), v))
            }
            _ => Err("no tensor".into()),
        }
    }

    /// Axis in argument `i` of a tensor of a rank; `None` if the rank is 0.
    pub fn axis(&self, i: usize, rank: usize) -> Result<Option<usize>, Reject> {
        axis(self.int(i)?, rank)
    }

    /// Axes in argument `i`; absent or empty: all.
    pub fn axes(&self, i: usize, rank: usize) -> Result<Vec<usize>, Reject> {
        let list = self.ints_or_none(i)?.unwrap_or_default();
        if list.is_empty() {
            return Ok((0..rank).collect());
        }
        let mut out = vec![];
        for a in list {
            if let Some(a) = axis(a, rank)? {
                out.push(a);
            }
        }
        Ok(out)
    }
}

/// Index of an axis that may count from the end; `None` in a tensor of rank 0.
pub fn axis(at: i64, rank: usize) -> Result<Option<usize>, Reject> {
    if rank == 0 {
        return if at == 0 || at == -1 { Ok(None) } else { Err("an axis out of range".into()) };
    }
    let at = if at < 0 { at + rank as i64 } else { at };
    if (0..rank as i64).contains(&at) { Ok(Some(at as usize)) } else { Err("an axis out of range".into()) }
}

/// A number as one that the dtype has.
pub fn number_as(v: Scalar, dtype: DType) -> Result<Scalar, Reject> {
    let v = if dtype == DType::Bool {
        Scalar::Bool(v.to_f64() != 0.0)
    } else if dtype.is_float() {
        Scalar::Float(v.to_f64())
    } else {
        match v {
            Scalar::Float(f) => Scalar::Int(f as i64),
            Scalar::Bool(b) => Scalar::Int(i64::from(b)),
            v => v,
        }
    };
    if dtype.is_int() && !v.fits(dtype) { Err("a number out of the dtype's range".into()) } else { Ok(v) }
}

/// Bool, integer, float: the order of PyTorch's categories.
fn kind(d: DType) -> u8 {
    if d == DType::Bool { 0 } else { 1 + u8::from(d.is_float()) }
}

fn with_number(d: DType, v: Scalar) -> DType {
    match v {
        Scalar::Float(_) if kind(d) < 2 => DType::F32,
        Scalar::Bool(_) | Scalar::Float(_) => d,
        _ if d == DType::Bool => DType::I64,
        _ => d,
    }
}

fn promote(a: DType, b: DType) -> Option<DType> {
    if kind(a) != kind(b) {
        return Some(if kind(a) > kind(b) { a } else { b });
    }
    if kind(a) == 2 {
        return Some(if a.size() == b.size() {
            DType::F32
        } else if a.size() > b.size() {
            a
        } else {
            b
        });
    }
    if a.is_signed() == b.is_signed() {
        return Some(if a.size() > b.size() { a } else { b });
    }
    let (signed, unsigned) = if a.is_signed() { (a, b) } else { (b, a) };
    match (signed.size() > unsigned.size(), unsigned) {
        (true, _) => Some(signed),
        (_, DType::U8) => Some(DType::I16),
        _ => None,
    }
}

impl Call<'_> {
    /// Argument `i` as a list of sizes of any length.
    pub fn shape_list(&self, i: usize) -> Result<Vec<usize>, Reject> {
        let list: Result<Vec<usize>, _> = self.ints(i)?.into_iter().map(usize::try_from).collect();
        list.map_err(|_| "a negative size".into())
    }
}
