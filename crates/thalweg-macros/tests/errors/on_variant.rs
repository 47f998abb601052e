use thalweg_macros::Module;

#[derive(Module)]
enum Net {
    #[module(skip)]
    A,
}

fn main() {}
