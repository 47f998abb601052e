//! Image filters: a noisy disc is blurred by a separable Gaussian filter, and its edges are detected by Sobel filters;
//! printed as characters. The whole chain is planned as one segment.
//!
//!     cargo run --release -p thalweg --example picture

use thalweg::prelude::*;

/// An image filtered along an axis, with its border repeated.
fn filter_axis(x: &Tensor, weights: &[f64], axis: usize) -> Tensor {
    let (n, half) = (x.size(axis), weights.len() / 2);
    let mut widths = [(0, 0); 2];
    widths[axis] = (half, half);
    let padded = x.pad(widths, Border::Edge);
    let parts = weights.iter().enumerate().filter(|(_, w)| **w != 0.0);
    parts.map(|(i, &w)| padded.narrow(axis, i, n) * w).reduce(|a, b| a + b).expect("a filter has weights")
}

fn show(x: &Tensor) -> Result<(), Error> {
    let shades: Vec<char> = " .:-=+*#%@".chars().collect();
    let (low, high) = x.aminmax(..);
    let levels = ((x - &low) / (high - low) * 9.0).round().cast(DType::I32);
    // Characters are twice as high as wide.
    for row in &levels.slice(((..).by(2), ..)) {
        println!("{}", row.to_vec::<i32>()?.iter().map(|&v| shades[v as usize]).collect::<String>());
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    thalweg::manual_seed(5);
    let n = 64;
    let at = Tensor::linspace(-1.0, 1.0, n);
    let radius = at.unsqueeze(1).hypot(&at);
    let picture = radius.lt(0.7).cast(DType::F32) + Tensor::randn((n, n)) * 0.3;
    let gauss = Tensor::arange_with((-4, 5), DType::F64);
    let gauss = (gauss.square() / -4.0).exp();
    let gauss = (&gauss / gauss.sum(..)).to_vec::<f64>()?;
    let (edges, explained) = thalweg::explain(|| {
        let smooth = filter_axis(&filter_axis(&picture, &gauss, 0), &gauss, 1);
        let dx = filter_axis(&filter_axis(&smooth, &[-1.0, 0.0, 1.0], 1), &[1.0, 2.0, 1.0], 0);
        let dy = filter_axis(&filter_axis(&smooth, &[-1.0, 0.0, 1.0], 0), &[1.0, 2.0, 1.0], 1);
        let edges = dx.hypot(&dy);
        thalweg::synchronize().map(|()| edges)
    });
    let edges = edges?;
    show(&edges)?;
    let strong = edges.gt(edges.quantile(0.9, ..));
    let found = radius.masked_select(&strong)?;
    let (std, mean) = found.std_mean(0, 0.0);
    println!("strongest tenth at radius {:.3} ± {:.3}, where the disc ends at 0.7", mean.item_f64()?, std.item_f64()?);
    let (fused, single) = (explained.totals().kernels, explained.unfused().kernels);
    println!("{fused} kernels for the picture, where one an operation would be {single}");
    Ok(())
}
