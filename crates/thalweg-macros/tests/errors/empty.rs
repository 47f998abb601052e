use thalweg_macros::Module;

#[derive(Module)]
enum Net {}

fn main() {}
