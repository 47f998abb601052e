use thalweg_macros::Module;

#[derive(Module)]
struct Net {
    weight: (),
    #[module(name = "weight")]
    other: (),
}

fn main() {}
