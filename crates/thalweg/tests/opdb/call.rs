//! Arguments of one call, as tensors and numbers.

use crate::record::{Record, Value};
use thalweg::prelude::*;
use thalweg::{Axes, Complex, Operand};

/// One argument.
pub enum Argument {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Tensor(Tensor),
    Complex(Complex),
    List(Vec<Argument>),
}

/// The arguments of a sample in one dtype.
pub struct Call {
    arguments: Vec<(String, Argument)>,
    /// The dtype of floats.
    pub dtype: DType,
    /// Tensors whose gradients are wanted.
    pub leaves: Vec<Tensor>,
}

impl Call {
    /// The arguments of a sample, with floats in that dtype; `graded` says whether any is tracked.
    pub fn new(record: &Record, dtype: DType, graded: bool) -> Call {
        let mut call = Call { arguments: vec![], dtype, leaves: vec![] };
        for (name, value) in &record.arguments {
            let argument = call.argument(value, graded);
            call.arguments.push((name.clone(), argument));
        }
        call
    }

    fn argument(&mut self, value: &Value, graded: bool) -> Argument {
        match value {
            Value::None => Argument::None,
            Value::Bool(b) => Argument::Bool(*b),
            Value::Int(i) => Argument::Int(*i),
            Value::Float(f) => Argument::Float(*f),
            Value::Text(t) => Argument::Text(t.clone()),
            Value::List(list) => Argument::List(list.iter().map(|v| self.argument(v, graded)).collect()),
            Value::Array { array, complex: true, .. } => {
                Argument::Complex(Complex::view_as_complex(&array.tensor(self.dtype)))
            }
            Value::Array { array, graded: wanted, .. } => {
                let mut tensor = array.tensor(self.dtype);
                if graded && *wanted {
                    tensor = tensor.tracked();
                    self.leaves.push(tensor.clone());
                }
                Argument::Tensor(tensor)
            }
        }
    }

    fn get(&self, name: &str) -> &Argument {
        let found = self.arguments.iter().find(|(n, _)| n == name);
        &found.unwrap_or_else(|| panic!("no argument {name}")).1
    }

    /// Whether there is an argument of that name other than `None`.
    pub fn has(&self, name: &str) -> bool {
        self.arguments.iter().any(|(n, a)| n == name && !matches!(a, Argument::None))
    }

    pub fn t(&self, name: &str) -> &Tensor {
        self.maybe(name).unwrap_or_else(|| panic!("{name} is no tensor"))
    }

    pub fn x(&self) -> &Tensor {
        self.t("x")
    }

    /// A tensor, if there is one.
    pub fn maybe(&self, name: &str) -> Option<&Tensor> {
        match self.get(name) {
            Argument::Tensor(t) => Some(t),
            _ => None,
        }
    }

    pub fn z(&self, name: &str) -> Complex {
        match self.get(name) {
            Argument::Complex(z) => z.clone(),
            Argument::Tensor(t) => Complex::real(t),
            _ => panic!("{name} is no tensor"),
        }
    }

    pub fn tensors(&self, name: &str) -> Vec<Tensor> {
        match self.get(name) {
            Argument::Tensor(t) => vec![t.clone()],
            Argument::List(list) => list
                .iter()
                .map(|a| match a {
                    Argument::Tensor(t) => t.clone(),
                    _ => panic!("{name} holds something else than tensors"),
                })
                .collect(),
            _ => panic!("{name} is no list of tensors"),
        }
    }

    /// A tensor or a number.
    pub fn op(&self, name: &str) -> Operand<'_> {
        match self.get(name) {
            Argument::Tensor(t) => Operand::Tensor(t),
            _ => Operand::Scalar(self.scalar(name)),
        }
    }

    pub fn scalar(&self, name: &str) -> Scalar {
        match self.get(name) {
            Argument::Bool(b) => Scalar::Bool(*b),
            Argument::Int(i) => Scalar::Int(*i),
            Argument::Float(f) => Scalar::Float(*f),
            _ => panic!("{name} is no number"),
        }
    }

    pub fn int(&self, name: &str) -> i64 {
        self.opt_int(name).unwrap_or_else(|| panic!("{name} is no integer"))
    }

    pub fn opt_int(&self, name: &str) -> Option<i64> {
        match self.get(name) {
            Argument::Int(i) => Some(*i),
            Argument::Bool(b) => Some(i64::from(*b)),
            Argument::List(list) => match list[..] {
                [Argument::Int(i)] => Some(i),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn size(&self, name: &str) -> usize {
        usize::try_from(self.int(name)).expect("a size")
    }

    pub fn float(&self, name: &str) -> f64 {
        self.opt_float(name).unwrap_or_else(|| panic!("{name} is no number"))
    }

    pub fn opt_float(&self, name: &str) -> Option<f64> {
        match self.get(name) {
            Argument::Int(i) => Some(*i as f64),
            Argument::Float(f) => Some(*f),
            Argument::Bool(b) => Some(f64::from(u8::from(*b))),
            _ => None,
        }
    }

    pub fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Argument::Bool(true) | Argument::Int(1))
    }

    /// String argument; empty for any other argument.
    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Argument::Text(t) => t,
            _ => "",
        }
    }

    /// The dtype that a string names.
    pub fn dtype_of(&self, name: &str) -> DType {
        match self.text(name) {
            "float64" => DType::F64,
            "float32" => DType::F32,
            "bfloat16" => DType::BF16,
            "float16" => DType::F16,
            other => panic!("dtype {other}"),
        }
    }

    /// Integer argument, or list of integers.
    pub fn ints(&self, name: &str) -> Vec<i64> {
        match self.get(name) {
            Argument::Int(i) => vec![*i],
            Argument::None => vec![],
            Argument::List(list) => list
                .iter()
                .map(|a| match a {
                    Argument::Int(i) => *i,
                    _ => panic!("{name} holds something else than integers"),
                })
                .collect(),
            _ => panic!("{name} is no list of integers"),
        }
    }

    pub fn sizes(&self, name: &str) -> Vec<usize> {
        self.ints(name).iter().map(|&i| usize::try_from(i).expect("a size")).collect()
    }

    /// A size for each of `N` axes: one number for all of them, or a list.
    pub fn each<const N: usize>(&self, name: &str) -> [usize; N] {
        let sizes = self.sizes(name);
        if sizes.len() == 1 { [sizes[0]; N] } else { sizes.try_into().expect("a size for each axis") }
    }

    /// Axes: a number, a list, or all of them.
    pub fn axes(&self, name: &str) -> Axes {
        match self.get(name) {
            Argument::None => (..).into(),
            Argument::List(list) if list.is_empty() => (..).into(),
            _ => self.ints(name).into(),
        }
    }

    /// Numbers of a list.
    pub fn floats(&self, name: &str) -> Vec<f64> {
        match self.get(name) {
            Argument::Float(f) => vec![*f],
            Argument::Int(i) => vec![*i as f64],
            Argument::List(list) => list
                .iter()
                .map(|a| match a {
                    Argument::Float(f) => *f,
                    Argument::Int(i) => *i as f64,
                    _ => panic!("{name} holds something else than numbers"),
                })
                .collect(),
            Argument::Tensor(t) => t.to_f64_vec().expect("it was given"),
            _ => panic!("{name} is no list of numbers"),
        }
    }

    /// Whether the argument is an integer or a list of integers.
    pub fn are_ints(&self, name: &str) -> bool {
        match self.get(name) {
            Argument::List(list) => list.iter().all(|a| matches!(a, Argument::Int(_))),
            other => matches!(other, Argument::Int(_)),
        }
    }

    pub fn is_list(&self, name: &str) -> bool {
        matches!(self.get(name), Argument::List(_))
    }
}
