use thalweg_macros::kernel;

#[kernel(tile)]
fn no_tile<F: Real>(x: F) -> Tile<F> {
    x
}

#[kernel]
fn in_a_map<F: Real>(x: &Tile<F>) -> F {
    x.sum(0)
}

#[kernel(row)]
fn in_rows<F: Real>(x: &Row<F>, w: &Tile<F>) -> Row<F> {
    x.clone()
}

#[kernel(tile)]
fn number<F: Real>(x: &Tile<F>) -> F {
    x.sum(0).sum(1)
}

#[kernel(tile)]
fn changed<F: Real>(x: &mut Tile<F>, y: Tile<F, u8>, z: &Row<F>) -> Tile<F> {
    x.clone()
}

#[kernel(tile)]
fn blocks<F: Real>(q: &Tile<F>, k: &Tile<F>) -> Tile<F> {
    let mut best = q.max(1);
    for block in k.blocks(64) {
        best = best.zip(&q.dot(&block.t()).max(1)).map(|(a, b)| a.max(b));
    }
    best
}

#[kernel(tile)]
fn loads<F: Real>(x: &Tile<F>, n: i32) -> Tile<F> {
    let x = x.load(n);
    let p = x.matmul(&x.transpose()).softmax(1);
    p.store(n);
    p.mean(0)
}

#[kernel(tile)]
fn until<F: Real>(x: &Tile<F>, n: i32) -> Tile<F> {
    let mut y = x.clone();
    for _ in 0..n {
        y = y.dot(x);
    }
    while n < 3 {
        y = y.dot(x);
    }
    loop {
        y = y.map(|y| {
            let mut y = y;
            while y > 1.0 {
                y *= 0.5;
            }
            y
        });
        break;
    }
    y
}

fn main() {}
