use thalweg::kernel::{Real, Tile};
use thalweg_macros::kernel;

#[kernel(tile)]
fn compared<F: Real>(x: &Tile<F>) -> Tile<F> {
    if x > 0.0 { x.clone() } else { -x }
}

#[kernel(tile)]
fn from_the_left<F: Real>(x: &Tile<F>) -> Tile<F> {
    1.0 - x
}

#[kernel(tile)]
fn function<F: Real>(x: &Tile<F>) -> Tile<F> {
    x.exp()
}

fn main() {}
