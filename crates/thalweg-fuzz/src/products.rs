//! Guarantees for products whose elements are multiplied in another order; docs/numerics.md has the rule.
//!
//! Input: the elements of a tensor, and the axes of the product. Output: the results that may overflow or underflow in
//! some order of their elements, and their values in the two most extreme orders.
//!
//! Invariant: a result for which [`Product::depends`] is false is the same in every order except for rounding.

use thalweg_ir::{DType, Shape};
use thalweg_kernel::reference::{Array, Data};

/// Elements that one result of a product reduction multiplies.
pub struct Product {
    dtype: DType,
    /// Elements other than 0 and NaN, sorted by magnitude, so that infinities are last.
    factors: Vec<f64>,
    zeros: usize,
    /// Whether an element is NaN, so that the result is NaN.
    nan: bool,
}

/// Elements of each result of a product over the axes of `attr`, in row-major order of the results.
pub fn products(attr: u32, a: &Array, dtype: DType) -> Vec<Product> {
    let (shape, reduced) = (a.shape, |axis: usize| attr >> axis & 1 == 1);
    let kept: usize = (0..shape.rank()).filter(|&i| !reduced(i)).map(|i| shape[i]).product();
    let one = || Product { dtype, factors: vec![], zeros: 0, nan: false };
    let mut all: Vec<Product> = (0..kept).map(|_| one()).collect();
    for p in 0..shape.numel() {
        let product = &mut all[place(p, &shape, &reduced)];
        match a.get(p).to_f64() {
            0.0 => product.zeros += 1,
            v if v.is_nan() => product.nan = true,
            v => product.factors.push(v),
        }
    }
    all.iter_mut().for_each(|p| p.factors.sort_by(|a, b| a.abs().total_cmp(&b.abs())));
    all
}

/// Row-major index of the result to which element `p` contributes.
fn place(p: usize, shape: &Shape, reduced: &dyn Fn(usize) -> bool) -> usize {
    let (mut rest, mut at, mut step) = (p, 0, 1);
    for axis in (0..shape.rank()).rev() {
        let index = rest % shape[axis];
        rest /= shape[axis];
        if !reduced(axis) {
            at += index * step;
            step *= shape[axis];
        }
    }
    at
}

impl Product {
    /// Whether a partial product overflows or underflows in some order of the elements.
    pub fn depends(&self) -> bool {
        let (high, low) = match self.dtype {
            DType::F64 => (f64::MAX, f64::MIN_POSITIVE),
            // Narrow floats are accumulated in f32.
            _ => (f32::MAX as f64, f32::MIN_POSITIVE as f64),
        };
        let logs = || self.factors.iter().map(|v| v.abs().log2());
        // Every partial product lies between the product of all factors below 1 and that of all factors above 1.
        let (up, down) = (logs().filter(|l| *l > 0.0).sum::<f64>(), logs().filter(|l| *l < 0.0).sum::<f64>());
        // Margin for accumulated roundings, in bits.
        let margin = 1.0;
        let (overflows, vanishes) = (up + margin > high.log2(), down - margin < low.log2());
        // An infinity stays one, unless the other factors underflow to 0 before they meet it.
        let infinite = self.factors.last().is_some_and(|v| v.is_infinite());
        !self.nan && if infinite { self.zeros == 0 && vanishes } else { overflows || vanishes }
    }

    /// Product with the largest factors first and zeros last, which overflows if any order does; and product with the
    /// smallest factors first.
    fn furthest(&self) -> [f64; 2] {
        let zeros = std::iter::repeat_n(0.0, self.zeros);
        let falling = self.factors.iter().rev().copied().chain(zeros.clone());
        let rising = self.factors.iter().copied().chain(zeros);
        [self.of(falling), self.of(rising)]
    }

    fn of(&self, factors: impl Iterator<Item = f64>) -> f64 {
        match self.dtype {
            DType::F64 => factors.product(),
            _ => factors.map(|v| v as f32).product::<f32>() as f64,
        }
    }
}

/// Results of a product reduction in the two most extreme orders. Results that do not depend on the order are
/// unchanged.
pub fn in_other_orders(attr: u32, a: &Array, result: &Array) -> [Array; 2] {
    let products = products(attr, a, result.dtype);
    [0, 1].map(|way| {
        let mut other = result.clone();
        if let Data::Float(values) = &mut other.data {
            for (value, product) in values.iter_mut().zip(&products).filter(|(_, p)| p.depends()) {
                *value = result.dtype.round(product.furthest()[way]);
            }
        }
        other
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(dtype: DType, values: &[f64]) -> Product {
        let a = Array { shape: Shape::new(&[values.len()]), dtype, data: Data::Float(values.to_vec()) };
        products(1, &a, dtype).remove(0)
    }

    #[test]
    fn what_stays_in_range_has_one_result() {
        assert!(!product(DType::F32, &[1e20, 1e10, 1e-20, 0.0, -3.0]).depends());
        assert!(!product(DType::F64, &[1e60, 1e60, 0.0]).depends());
        assert!(!product(DType::F32, &[]).depends());
        // In every order, infinity times 0 is NaN.
        assert!(!product(DType::F32, &[f64::INFINITY, 0.0, 1e30, 1e30]).depends());
    }

    #[test]
    fn an_overflow_times_zero_is_a_nan_in_some_order() {
        let p = product(DType::F32, &[0.0, 1e20, 1e20, 2.0]);
        assert!(p.depends() && p.furthest().iter().all(|v| v.is_nan()), "the zeros come last");
        let p = product(DType::F32, &[1e20, 1e20, 1e-20, 1e-20]);
        assert!(p.depends());
        assert_eq!(p.furthest()[0], f64::INFINITY);
        assert_eq!(p.furthest()[1], f64::from(1e-20f32 * 1e-20 * 1e20 * 1e20));
        let p = product(DType::F32, &[1e-30, 1e30, 1e-30, 1e30]);
        assert_eq!(p.furthest(), [f64::INFINITY, 0.0]);
    }

    #[test]
    fn an_infinity_times_an_underflow_is_a_nan_in_some_order() {
        let p = product(DType::F32, &[1e-30, f64::INFINITY, 1e-30]);
        assert!(p.depends() && p.furthest()[0] == f64::INFINITY && p.furthest()[1].is_nan());
        assert!(!product(DType::F32, &[1e-30, f64::NEG_INFINITY, 1e30, 1e30]).depends(), "nothing vanishes");
        assert!(!product(DType::F32, &[1e-30, f64::INFINITY, 1e-30, f64::NAN]).depends(), "NaN in every order");
    }

    #[test]
    fn results_are_distinguished_by_the_axes_that_stay() {
        let values = vec![1.0, 2.0, 3.0, 1e30, 5.0, 1e30];
        let a = Array { shape: Shape::new(&[2, 3]), dtype: DType::F32, data: Data::Float(values) };
        let depends = |attr| products(attr, &a, DType::F32).iter().map(Product::depends).collect::<Vec<_>>();
        assert_eq!(depends(0b10), [false, true]);
        assert_eq!(depends(0b01), [false, false, false]);
        assert_eq!(depends(0b11), [true]);
    }
}
