use thalweg_macros::Module;

#[derive(Module)]
struct Net {
    #[module(skip, name = "words")]
    words: Vec<String>,
}

fn main() {}
