//! Kernel classes, one kind a file: what decides the code (lanes, tiles, how rows are divided among threads), and the
//! indices of sizes, addresses and scalars among the argument words.
//!
//! Always true: two launches of one class differ in argument words alone.

pub mod body;
pub mod combined;
pub mod contraction;
pub mod counted;
pub mod fed;
pub mod foreign;
pub mod generic;
pub mod map;
pub mod radix;
pub mod rows;
pub mod scan;
pub mod scatter;
pub mod sort;
pub mod sorted;
pub mod streamed;
