use thalweg_macros::Module;

#[derive(Module)]
struct Net {
    #[module(name)]
    weight: (),
}

fn main() {}
