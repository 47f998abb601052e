use thalweg_macros::kernel;

#[kernel]
fn nothing<F: Real>(x: F) {}

#[kernel]
fn plain<F: Real>(n: usize) -> F {
    1.0
}

#[kernel]
fn string<F: Real>(x: F) -> String {
    x
}

#[kernel]
fn list<F: Real>(x: Vec<F>) -> F {
    x[0]
}

#[kernel]
fn reference<F: Real>(x: F, weights: &[f64]) -> F {
    x
}

#[kernel]
fn parts<F: Real>((x, y): (F, F)) -> F {
    x + y
}

#[kernel]
async unsafe fn other<'a, F: Real, T: Clone>(x: F) -> F {
    x
}

#[kernel(block)]
fn shape<F: Real>(x: F) -> F {
    x
}

#[kernel(index)]
fn no_place<F: Real>(x: &Field<F, 2>) -> F {
    x.get([0, 0], Edge::Zero)
}

#[kernel(index)]
fn written<F: Real>(at: [i32; 2], x: &mut Field<F, 2>) -> F {
    x.get(at, Edge::Zero)
}

#[kernel]
fn no_index<F: Real>(x: F, field: &Field<F, 2>) -> F {
    x
}

#[kernel]
struct NoFunction;

struct Type;
impl Type {
    #[kernel]
    fn method<F: Real>(&self, x: F) -> F {
        x
    }
}

fn main() {}
