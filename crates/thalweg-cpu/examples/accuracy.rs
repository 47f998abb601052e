//! Prints how accurate the f32 math functions are: `accuracy [EVERY [NAME]]`, over every EVERY-th bit pattern
//! (default 1009; 1 takes minutes a function).

use thalweg_cpu::math::accuracy::{BOUNDS_F32, measure};

fn main() {
    let mut args = std::env::args().skip(1);
    let every = args.next().map_or(1009, |s| s.parse().expect("EVERY is a number"));
    let only = args.next();
    println!("{:8} {:>5} {:>7} {:>15} {:>7} {:>8}", "function", "bound", "max ulp", "at", "mean", "guarded");
    for &(op, bound) in BOUNDS_F32.iter().filter(|(op, _)| only.as_deref().is_none_or(|n| n == op.name())) {
        let a = measure(op, every);
        println!("{:8} {bound:5} {:7.3} {:15e} {:7.4} {:8.3}", op.name(), a.max_ulp, a.at, a.mean_ulp, a.guarded);
    }
}
