//! Reductions and scans by user-defined combines.

use super::Generator;
use crate::program::{Argument, Step};
use thalweg_ir::{COMPONENT, DType, ElementOp, Loop, Op, REVERSE, Scalar, Shape};

/// Combine of elements of this float or integer dtype. Some are not associative; their reductions and scans run in one
/// order.
fn combine(which: usize, dtype: DType) -> Option<Loop> {
    use ElementOp::*;
    let k = |value: f64, dtype: DType| {
        let value = if dtype.is_float() { Scalar::Float(value) } else { Scalar::Int(value as i64) };
        format!("k{:x}:{}", value.to_bits(dtype), dtype.name())
    };
    let d = dtype.name();
    let (one, zero, i32_zero) = (k(1.0, dtype), k(0.0, dtype), k(0.0, DType::I32));
    let op = |op: ElementOp, args: &[usize]| args.iter().fold(op.name().to_string(), |text, a| format!("{text}:{a}"));
    let two = "k1:bool,c0,c1,a0,a1";
    let least = if dtype.is_float() { k(f64::NEG_INFINITY, dtype) } else { k(f64::from(i32::MIN), dtype) };
    let nodes = |first: &str, ops: &[String]| format!("{first},{}", ops.join(","));
    let text = match which {
        // Linear recurrence.
        0 => {
            let ops = [op(Mul, &[1, 3]), op(Mul, &[3, 2]), op(Add, &[6, 4])];
            format!("loop{{1;{d},{d};{one},{zero};{};0;5,7}}", nodes(two, &ops))
        }
        // Online log-sum-exp: the maximum, and the sum of exponentials relative to it.
        1 if dtype.is_float() => {
            let taken = |x, m| [op(Sub, &[x, 5]), op(Exp, &[m]), op(Mul, &[x + 1, m + 1])];
            let mut ops = vec![op(Maximum, &[1, 3])];
            ops.extend(taken(1, 6));
            ops.extend(taken(3, 9));
            ops.push(op(Add, &[8, 11]));
            format!("loop{{1;{d},{d};{least},{zero};{};0;5,12}}", nodes(two, &ops))
        }
        // Last nonzero element.
        2 => {
            let first = format!("k1:bool,c0,a0,{zero}");
            let ops = [op(Ne, &[2, 3]), op(Where, &[4, 2, 1])];
            format!("loop{{1;{d};{zero};{};0;5}}", nodes(&first, &ops))
        }
        // Maximum and its index.
        3 => {
            let ops = [
                op(Gt, &[3, 1]),
                op(Eq, &[3, 1]),
                op(Lt, &[4, 2]),
                op(And, &[6, 7]),
                op(Or, &[5, 8]),
                op(Where, &[9, 3, 1]),
                op(Where, &[9, 4, 2]),
            ];
            format!("loop{{1;{d},i32;{least},{i32_zero};{};0;10,11}}", nodes(two, &ops))
        }
        // Product of complex numbers.
        4 => {
            let crossed = [op(Mul, &[1, 3]), op(Mul, &[2, 4]), op(Sub, &[5, 6])];
            let ops = [&crossed[..], &[op(Mul, &[1, 4]), op(Mul, &[2, 3]), op(Add, &[8, 9])]].concat();
            format!("loop{{1;{d},{d};{one},{zero};{};0;7,10}}", nodes(two, &ops))
        }
        // Four sums.
        _ => {
            let ops: Vec<String> = (1..5).map(|i| op(Add, &[i, i + 4])).collect();
            let first = "k1:bool,c0,c1,c2,c3,a0,a1,a2,a3";
            format!("loop{{1;{d},{d},{d},{d};{zero},{zero},{zero},{zero};{};0;9,10,11,12}}", nodes(first, &ops))
        }
    };
    (which != 1 || dtype.is_float()).then(|| Loop::parse(&text).expect("it is a combine"))
}

impl Generator {
    /// Step with one component of a reduction or scan by a user-defined combine.
    pub(super) fn combined(&mut self) -> Option<Step> {
        let held = |d: DType| matches!(d, DType::F32 | DType::F64 | DType::I32);
        let first = self.tensor(|p, t| held(p.dtype(t)) && p.shape(t).rank() > 0)?;
        let (shape, dtype) = (self.program.shape(first), self.program.dtype(first));
        let which = self.rng.usize(..6);
        let of = combine(which, dtype)?;
        let mut args = vec![Argument::Tensor(first)];
        for &own in &of.region().args[1..] {
            args.push(Argument::Tensor(self.tensor(|p, t| p.dtype(t) == own && p.shape(t) == shape)?));
        }
        let component = self.rng.usize(..args.len());
        let axis = self.rng.usize(..shape.rank());
        let dtype = of.carried(component);
        let attr = (component as u32) << COMPONENT;
        if self.rng.bool() {
            let keep = self.rng.bool();
            let dims = (0..shape.rank()).filter(|&i| i != axis || keep).map(|i| if i == axis { 1 } else { shape[i] });
            let shape = Shape::new(&dims.collect::<Vec<_>>());
            let attr = attr | 1 << axis | (keep as u32) << 8;
            return Some(Step { op: Op::FoldBy(of), dtype, shape, attr, args, ints: vec![], kept: false });
        }
        let attr = attr | axis as u32 | if self.rng.bool() { REVERSE } else { 0 };
        Some(Step { op: Op::ScanBy(of), dtype, shape, attr, args, ints: vec![], kept: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_combines() {
        for dtype in [DType::F32, DType::F64, DType::I32] {
            let all = (0..6).filter_map(|which| combine(which, dtype));
            assert_eq!(all.filter(|c| c.is_combine()).count(), if dtype.is_float() { 6 } else { 5 });
        }
    }
}
