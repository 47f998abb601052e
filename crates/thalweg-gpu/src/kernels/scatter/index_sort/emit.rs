//! Radix sort of a scatter's indices by their destination element.
//!
//! In: rows of indices. Out: rows of pairs (destination element in the upper half, position of the index in the lower),
//! sorted by element and then by position. Out-of-range indices count as one beyond the last element, and come last.
//! From the lowest digit on, each pass counts digits in tiles, computes the offset of each digit in each tile, and
//! moves the pairs there. For rows of one tile a pass is one launch.
//!
//! Always true: a pass is stable.

use crate::dsl::Text;
use crate::ir::{Kernel, Type};
use crate::kernels::scatter::index_sort::params::IndexSortParams;
use crate::kernels::scatter::index_sort::{BITS, DIGITS, EACH, IndexSortClass, SortStep};
use std::fmt::Write;
use thalweg_ir::DType;

/// Builds the kernel of a step of a pass.
pub fn kernel(class: &IndexSortClass) -> Kernel {
    let (_, params) = IndexSortParams::new(class);
    let text = Text::new()
        .params(&params)
        .ty("Index", Type::Stored(DType::I64))
        .number("BITS", BITS)
        .number("DIGITS", DIGITS)
        .number("WARPS", DIGITS / 32)
        .number("EACH", EACH)
        .number("TILE", EACH * DIGITS);
    let pairs = pairs(class);
    let body = match class.step {
        SortStep::Count => text.statements(&[BEGIN, ROWS, &pairs, COUNT]),
        SortStep::Offsets => text.statements(&[BEGIN, OFFSETS]),
        SortStep::Move => text.statements(&[BEGIN, ROWS, &pairs, MOVE]),
    };
    Kernel { name: "scatter", block: DIGITS, blocks: None, params, definitions: vec![], body }
}

/// DSL text that defines `pair(i, x)`, which sets `x` to pair `i` of the row.
fn pairs(class: &IndexSortClass) -> String {
    let Some(dims) = class.dims else { return PAIRS.into() };
    let mut begin = String::from("i64(0)");
    let mut text = String::new();
    let mut rest = String::from("row");
    for d in (0..dims as usize).rev() {
        let _ = writeln!(text, "let i{d} = {rest} % param dims[{d}].size, rest{d} = {rest} / param dims[{d}].size;");
        let _ = write!(begin, " + i64(i{d}) * param dims[{d}].stride");
        rest = format!("rest{d}");
    }
    text + "let begin = " + &begin + ";" + INDICES
}

const BEGIN: &str = r"
let n = param indices, tiles = param tiles, t = thread, lane = t % 32, warp = t / 32;
// The sum of what lanes up to this one have.
proc sum_to(x) {
    for b: u32 in 0..5 unroll {
        let o = u32(1) << b, other = shuffle_up(x, o);
        if lane >= o { x += other; }
    }
}
";

const ROWS: &str = r"
let row = block / tiles, tile = block % tiles;
fn digit_of(pair, shift) = u32(pair >> 32) >> shift & DIGITS - 1;
";

const PAIRS: &str = r"
operand given: u64 = param from;
proc pair(i, x) { x = given[i64(row) * i64(n) + i64(i)]; }
";

const INDICES: &str = r"
operand indices: Index = param from;
proc pair(i, x) {
    var place = u64(value(indices[begin + i64(i) * param index_stride]));
    if place >= param size {
        fault(param fault);
        place = param size;
    }
    x = place << 32 | u64(i);
}
";

/// DSL text that computes the histogram of a tile's digits.
const COUNT: &str = r"
shared counts: u32[DIGITS];
counts[t] = 0;
barrier;
for k: u32 in 0..EACH unroll {
    let i = tile * TILE + k * DIGITS + t;
    if i < n {
        var own: u64;
        pair(i, own);
        atomic_add(counts[digit_of(own, param bit)], 1);
    }
}
barrier;
operand in_tiles: u32 = param counts;
in_tiles[(i64(row) * DIGITS + i64(t)) * i64(tiles) + i64(tile)] = counts[t];
";

/// Prefix sums over tiles, for each digit: the offset of each tile's pairs among all pairs with this digit, and the
/// total number of these pairs.
const OFFSETS: &str = r"
let which = i64(block) * WARPS + i64(warp), begin = which * i64(tiles);
operand in_tiles: u32 = param counts;
operand totals: u32 = param totals;
var before = u32(0);
for first: u32 in 0..tiles by 128 {
    var own: u32[4];
    for k: u32 in 0..4 unroll {
        let i = first + 32 * k + lane;
        own[k] = i < tiles ? in_tiles[begin + i64(i)] : 0;
    }
    for k: u32 in 0..4 unroll {
        let i = first + 32 * k + lane;
        var x = own[k];
        sum_to(x);
        if i < tiles { in_tiles[begin + i64(i)] = before + x - own[k]; }
        before += shuffle(x, 31);
    }
}
if lane == 0 { totals[which] = before; }
";

/// DSL text that moves each pair of a tile to the range of its digit, in stable order.
const MOVE: &str = r"
shared counts: u32[WARPS][DIGITS];
shared starts: u32[DIGITS];
shared sums: u32[WARPS];
operand to: u64 = param to;
let shift = param bit, first = tile * TILE + warp * (32 * EACH) + lane;
var pairs: u64[EACH];
for k: u32 in 0..EACH unroll {
    var own = u64(0);
    if first + 32 * k < n { pair(first + 32 * k, own); }
    pairs[k] = own;
}
// Of digit t: how many the row has, and how many of them the tiles before.
var total = u32(0), offset = u32(0);
if tiles > 1 {
    operand in_tiles: u32 = param counts;
    operand totals: u32 = param totals;
    total = totals[i64(row) * DIGITS + i64(t)];
    offset = in_tiles[(i64(row) * DIGITS + i64(t)) * i64(tiles) + i64(tile)];
}
for w: u32 in 0..WARPS { counts[w][t] = 0; }
barrier;
// Rank of each pair among the warp's pairs with the same digit, in their order.
var ranks: u32[EACH];
for k: u32 in 0..EACH unroll {
    let inside = first + 32 * k < n, digit = digit_of(pairs[k], shift);
    var same = ballot(inside);
    for bit: u32 in 0..BITS unroll {
        let one = (digit >> bit & 1) == 1, with_one = ballot(one);
        same &= one ? with_one : ~with_one;
    }
    let below = ones(same & (u32(1) << lane) - 1), before = counts[warp][digit];
    warp_barrier;
    if inside && below == 0 { counts[warp][digit] = before + ones(same); }
    warp_barrier;
    ranks[k] = before + below;
}
barrier;
// Offset of digit t in each warp: pairs of the warps before it.
var before = u32(0);
for w: u32 in 0..WARPS {
    let own = counts[w][t];
    counts[w][t] = before;
    before += own;
}
if tiles == 1 { total = before; }
// Where the tile's pairs with digit t go: behind those with smaller digits, and behind those of tiles before.
var start = total;
sum_to(start);
if lane == 31 { sums[warp] = start; }
barrier;
for w: u32 in 0..warp { start += sums[w]; }
starts[t] = start - total + offset;
barrier;
for k: u32 in 0..EACH unroll {
    let digit = digit_of(pairs[k], shift);
    if first + 32 * k < n { to[i64(row) * i64(n) + i64(starts[digit] + counts[warp][digit] + ranks[k])] = pairs[k]; }
}
";
