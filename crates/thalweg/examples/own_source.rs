//! A CUDA C++ operation between operations of the library. It costs its own launch, its neighbours fuse among
//! themselves, and a source that does not compile is an error of the read. Without CUDA C++ its reference is used.
//!
//! ```sh
//! THALWEG_DEVICE=cuda:0 cargo run --release --example own_source
//! ```

use thalweg::prelude::*;
use thalweg::{Backward, CudaLaunch, CudaOp, counters, grad};

/// Prefix sums of each row, with one warp per row: 32 elements at a time, by shuffles.
const ROW_SUMS: &str = r#"
extern "C" __global__ void sums(const float *x, float *y, int rows, int columns) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
  if (row >= rows) return;
  float before = 0;
  for (int first = 0; first < columns; first += 32) {
    const long long at = (long long)row * columns + first + lane;
    float sum = first + lane < columns ? x[at] : 0;
    for (int step = 1; step < 32; step *= 2) {
      const float other = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum += other;
    }
    if (first + lane < columns) y[at] = before + sum;
    before += __shfl_sync(0xffffffffu, sum, 31);
  }
}"#;

fn row_sums(text: &str) -> CudaOp {
    CudaOp::new(
        "row_sums",
        text,
        "sums",
        |x: &[Tensor]| [(*x[0].shape(), x[0].dtype())],
        |x| {
            let [rows, columns] = [x[0].dims()[0], x[0].dims()[1]];
            CudaLaunch::new([rows.div_ceil(8), 1, 1], [32, 8, 1]).size(rows).size(columns)
        },
    )
    .reference(|x| x[0].cumsum(1))
    .backward(|Backward { gradients: dy, .. }| [dy[0].flip(1).cumsum(1).flip(1)])
}

fn main() -> Result<(), Error> {
    let x = Tensor::randn([4096, 1000]);
    thalweg::synchronize()?;
    let around = |x: &Tensor, sums: &dyn Fn(&Tensor) -> Tensor| (sums(&(x.tanh() * 0.5 + 0.25)) * 0.125).exp().mean(1);
    let (own, library) = (row_sums(ROW_SUMS), |x: &Tensor| x.cumsum(1));
    let before = counters();
    let y = around(&x, &|x| own.on(x)).to_vec::<f32>()?;
    let counted = counters() - before;
    println!("{}: {} kernels in {} launches", x.device().name(), counted.kernels, counted.device_launches);
    let difference = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| ((a - b) / b).abs()).fold(0f32, f32::max);
    println!("off by {:.1e} of the library's", difference(&y, &around(&x, &library).to_vec::<f32>()?));
    let gradient = |sums: &dyn Fn(&Tensor) -> Tensor| -> Result<Vec<f32>, Error> {
        let leaf = x.tracked();
        grad(&around(&leaf, sums).sum(..), &leaf).to_vec::<f32>()
    };
    let (own, library) = (gradient(&|x| own.on(x))?, gradient(&library)?);
    let largest = library.iter().fold(0f32, |m, v| m.max(v.abs()));
    let off = own.iter().zip(&library).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    println!("its gradient off by {:.1e} of the largest", off / largest);
    let broken = row_sums(&ROW_SUMS.replace("float before = 0;", "")).on(&x).to_vec::<f32>();
    println!("without a declaration: {}", broken.map_or_else(|e| e.to_string(), |_| "the reference ran".into()));
    Ok(())
}
