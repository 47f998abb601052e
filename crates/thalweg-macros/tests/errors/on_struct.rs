use thalweg_macros::Module;

#[derive(Module)]
#[module(skip)]
struct Net;

fn main() {}
