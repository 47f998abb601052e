//! dbg
use thalweg::prelude::*;
use thalweg_stream::explain;
fn main() {
    let x = Tensor::arange(0..12).reshape([3, 4]).cast(DType::F32);
    let index = Tensor::new([[2i64, -1], [0, 1]]);
    thalweg::synchronize().unwrap();
    let (o, e) = explain(|| ((&x + 1.0).index_select(1, &(&index * 1)) * 2.0).sum(0));
    println!("{e}\n{o}");
}
