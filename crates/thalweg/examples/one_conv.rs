use std::time::Instant;
use thalweg::{Conv, Tensor};
fn main() {
    let a: Vec<usize> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let [n, ci, size, co, k, s, secs] = a[..] else { panic!() };
    let x = Tensor::randn([n, ci, size, size]);
    let w = Tensor::randn([co, ci, k, k]);
    let b = Tensor::randn([co]);
    thalweg::synchronize().unwrap();
    let mut best = f64::MAX;
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < secs as f64 {
        let t = Instant::now();
        let y = x.conv2d(&w, Some(&b), Conv::default().stride(s).padding(k / 2)).relu();
        thalweg::synchronize().unwrap();
        drop(y);
        best = best.min(t.elapsed().as_secs_f64());
    }
    let out = size.div_ceil(s);
    println!("{:.3} ms {:.0} GFLOP/s", best * 1e3, 2.0 * (n * ci * co * k * k * out * out) as f64 / best / 1e9);
}
