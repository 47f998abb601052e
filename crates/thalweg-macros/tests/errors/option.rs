use thalweg_macros::Module;

#[derive(Module)]
struct Net {
    #[module(skipp)]
    words: Vec<String>,
}

fn main() {}
