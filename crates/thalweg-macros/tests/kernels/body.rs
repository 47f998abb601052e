use thalweg_macros::kernel;

#[kernel]
fn printed<F: Real>(x: F) -> F {
    println!("{x:?}");
    let all = vec![x, x];
    all[0]
}

#[kernel]
fn open_match<F: Real>(x: F, n: i32) -> F {
    match n {
        0 => x,
        1 => x * 2.0,
    }
}

#[kernel]
fn chained<F: Real>(x: F, n: Option<usize>) -> F {
    if let Some(n) = n { x * F::lit(n as f64) } else { x }
}

#[kernel]
fn both<F: Real>(x: F, n: Option<usize>) -> F {
    if x > 0.0 && let Some(n) = n { x * F::lit(n as f64) } else { x }
}

fn main() {}
