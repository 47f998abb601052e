//! Scans along rows in memory: running sums, products, extremes and logarithms of sums of exponentials. Sorts are in
//! `sort`.
//!
//! In: the class of a scan. Out: source. Floats are accumulated in f64 and each result is rounded once, as on every
//! device.
//!
//! Each thread takes eight neighbouring points: it folds them, the block scans the totals of its threads (a *turn*),
//! and each thread gives out its points. A row is cut into *chunks* of turns, which are put together in order; so where
//! rows are too few to keep the chip busy, several blocks share one: a launch folds each chunk, and in a second one
//! each block begins with what the chunks before its own give.
//!
//! * `text`: what all kernels have, and those whose threads or warps have rows of their own.
//! * `chunked`: the kernels of blocks.
//!
//! Always true: where rows lie along memory, results have the same bits whatever the number of rows and blocks, since
//! chunks follow from the length of a row alone.

mod chunked;
mod text;

pub use text::Running;
use text::Text;
use thalweg_gpu::class::scan::{BLOCK, POINTS, ScanClass, WARP, WORDS, Way};

/// The source of a scan with one function, `scan`.
pub fn source(class: &ScanClass) -> String {
    let text = Text::new(class);
    match class.way {
        Way::InOrder => text.in_order(),
        Way::Short => text.short(),
        Way::Long => text.long(),
        Way::Across => text.across(),
        Way::Stretch | Way::Merge | Way::Count | Way::Pass => unreachable!("a sort has a source of its own"),
    }
}
