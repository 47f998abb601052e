use thalweg_macros::kernel;

#[kernel(row)]
fn no_row<F: Real>(x: F) -> F {
    x
}

#[kernel]
fn in_a_map<F: Real>(x: Row<F>) -> F {
    x.fold(0.0, |a, b| a + b)
}

#[kernel(row)]
fn list<F: Real>(x: &Row<F>) -> Vec<F> {
    x.elements().to_vec()
}

#[kernel(row)]
fn pairs<F: Real>(x: &[F], y: Row<F>) -> Row<F> {
    y
}

#[kernel(row)]
fn changed<F: Real>(x: &mut Row<F>) -> Row<F> {
    x.clone()
}

fn main() {}
