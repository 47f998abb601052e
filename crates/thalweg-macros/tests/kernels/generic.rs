use thalweg_macros::kernel;

#[kernel]
fn gelu(x: f32) -> f32 {
    x * 0.5
}

fn main() {}
