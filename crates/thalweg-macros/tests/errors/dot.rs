use thalweg_macros::Module;

#[derive(Module)]
struct Net {
    #[module(name = "a.b")]
    weight: (),
}

fn main() {}
