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
    while x > 1.0 {
        let z = x * 0.5;
    }
    loop {
        y = y * 0.5;
    }
    break;
    y
}

#[kernel]
fn turns<F: Real>(x: F, n: i32) -> F {
    let mut y = x;
    'outer: for k in 0..8 {
        y = y * 0.5;
    }
    for k in 0..=n {
        y = y * 0.5;
        let z = [if y > 1.0 { break }; 1];
    }
    let found = loop {
        y = y * 0.5;
        if y < 1.0 {
            break y;
        }
    };
    y
}

#[kernel(max_turns = 0)]
fn never<F: Real>(x: F) -> F {
    x
}

#[kernel(turns = 8)]
fn other<F: Real>(x: F) -> F {
    x
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
