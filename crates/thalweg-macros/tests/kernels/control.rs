use thalweg_macros::kernel;

#[kernel]
fn early<F: Real>(x: F) -> F {
    if x < 0.0 {
        return 0.0;
    }
    x
}

#[kernel]
fn until<F: Real>(x: F) -> F {
    let mut y = x;
    while y > 1.0 {
        y = y * 0.5;
    }
    loop {
        y = y * 0.5;
    }
    y
}

#[kernel]
fn turns<F: Real>(x: F) -> F {
    let mut y = x;
    for k in 0..8 {
        if y > 1.0 {
            break;
        }
        if k == 2 {
            continue;
        }
        y = y * 0.5;
    }
    y
}

#[kernel]
fn itself<F: Real>(x: F) -> F {
    if x > 1.0 { itself(x * 0.5) } else { x }
}

#[kernel]
fn result<F: Real>(x: F) -> F {
    let y = check(x)?;
    let Some(z) = y else { panic!() };
    unsafe { z }
}

fn main() {}
