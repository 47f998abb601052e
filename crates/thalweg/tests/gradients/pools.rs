//! Pools with all combinations of options, against loops over windows.

use thalweg::prelude::*;
use thalweg::{Pool, with_fusion};

/// Options along one axis.
#[derive(Clone, Copy, Debug)]
struct Axis {
    size: usize,
    window: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    ceil: bool,
}

impl Axis {
    /// The number of windows, as PyTorch counts them; `None` if no window fits or the padding is too long.
    fn count(self) -> Option<usize> {
        let span = (self.window - 1) * self.dilation + 1;
        let room = (self.size + 2 * self.padding).checked_sub(span).filter(|_| self.padding * 2 <= self.window)?;
        let mut count = room / self.stride + 1;
        if self.ceil && room % self.stride > 0 && count * self.stride < self.size + self.padding {
            count += 1;
        }
        (self.padding < span).then_some(count)
    }

    /// The elements inside a window.
    fn inside(self, window: usize) -> impl Iterator<Item = usize> {
        let start = (window * self.stride) as i64 - self.padding as i64;
        (0..self.window)
            .map(move |k| start + (k * self.dilation) as i64)
            .filter(move |&at| at >= 0 && at < self.size as i64)
            .map(|at| at as usize)
    }
}

/// All options for an axis of that size.
fn options(size: usize, windows: &[usize]) -> Vec<Axis> {
    let mut all = vec![];
    for &window in windows {
        for stride in [1, 2, window] {
            for (padding, dilation, ceil) in [
                (0, 1, false),
                (0, 2, false),
                (1, 1, false),
                (1, 2, false),
                (0, 1, true),
                (1, 1, true),
                (1, 2, true),
                (0, 3, true),
            ] {
                all.push(Axis { size, window, stride, padding, dilation, ceil });
            }
        }
    }
    all.into_iter().filter(|a| a.count().is_some()).collect()
}

/// Numbers with many ties.
fn numbers(count: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 7919 + 31) % 11 % 5) as f64 - 2.0).collect()
}

/// The maximum of each window, and the gradient of each element: it flows to the first maximum of a window.
fn reference(x: &[f64], [rows, columns]: [Axis; 2], dy: impl Fn(usize) -> f64) -> (Vec<f64>, Vec<f64>) {
    let (mut y, mut dx) = (vec![], vec![0.0; x.len()]);
    for i in 0..rows.count().unwrap() {
        for j in 0..columns.count().unwrap() {
            let mut best: Option<usize> = None;
            for r in rows.inside(i) {
                for c in columns.inside(j) {
                    let at = r * columns.size + c;
                    if best.is_none_or(|b| x[at] > x[b]) {
                        best = Some(at);
                    }
                }
            }
            let best = best.expect("a window has an element");
            dx[best] += dy(y.len());
            y.push(x[best]);
        }
    }
    (y, dx)
}

fn check(name: &str, x: &Tensor, pooled: impl Fn(&Tensor) -> Tensor, expected: (Vec<f64>, Vec<f64>)) {
    for fused in [true, false] {
        with_fusion(fused, || {
            let x = x.tracked();
            assert_eq!(pooled(&x.detach()).to_f64_vec().unwrap(), expected.0, "{name}, fused {fused}, untracked");
            let y = pooled(&x);
            let dy = Tensor::arange_with(y.numel(), DType::F64).reshape(y.dims().to_vec()) + 1.0;
            let dx = (&y * dy).sum(..).backward()[&x].to_f64_vec().unwrap();
            assert_eq!((y.to_f64_vec().unwrap(), dx), expected, "{name}, fused {fused}");
        });
    }
}

#[test]
fn max_pools_with_every_option_along_one_axis() {
    let one = Axis { size: 1, window: 1, stride: 1, padding: 0, dilation: 1, ceil: false };
    let all = options(13, &[1, 2, 3, 5]);
    assert!(all.len() > 60);
    for axis in all {
        let x = Tensor::from_slice(&numbers(13), [1, 1, 13]);
        let pool = Pool::new(axis.window).stride(axis.stride).padding(axis.padding).dilation(axis.dilation);
        let pool = pool.ceil(axis.ceil);
        let expected = reference(&numbers(13), [one, axis], |i| i as f64 + 1.0);
        check(&format!("{axis:?}"), &x, |x| x.max_pool1d(pool), expected);
    }
}

#[test]
fn max_pools_with_every_option_along_two_axes() {
    let (rows, columns) = (options(6, &[2, 3]), options(7, &[2, 3]));
    for (i, &row) in rows.iter().enumerate() {
        // Each option of one axis with every seventh of the other, starting at another one each time.
        for &column in columns.iter().skip(i % 7).step_by(7).filter(|c| c.ceil == row.ceil) {
            let x = Tensor::from_slice(&numbers(42), [1, 1, 6, 7]);
            let pool = Pool::new([row.window, column.window])
                .stride([row.stride, column.stride])
                .padding([row.padding, column.padding])
                .dilation([row.dilation, column.dilation])
                .ceil(row.ceil);
            let expected = reference(&numbers(42), [row, column], |i| i as f64 + 1.0);
            check(&format!("{row:?} {column:?}"), &x, |x| x.max_pool2d(pool), expected);
        }
    }
}
