//! What decides the code of a kernel, a kind a file: its class (lanes, tiles, who has a row), and where sizes, addresses
//! and scalars are among the words of its argument.
//!
//! Always true: two launches of one class differ in words alone.

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
