use thalweg_macros::Module;

#[derive(Module)]
union Net {
    a: u32,
    b: f32,
}

fn main() {}
