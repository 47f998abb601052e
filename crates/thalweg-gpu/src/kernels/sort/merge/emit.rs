//! Merge sorts of rows in memory.
//!
//! In: rows of elements. Out: the sorted rows, or the original indices of their elements. A sort is of pairs: a key (an
//! unsigned integer with the element's order) and an index. It is stable.
//!
//! A block sorts 2,048 elements in shared memory: eight in the registers of each thread, then by merges. Rows that fit
//! are done then, and short ones share a block. Longer ones are merged by launches that combine pairs of sorted runs;
//! each block writes 2,048 elements of the merge. Each block, and then each thread, finds the start of its range in
//! both runs by a binary search (merge path; Green, McColl and Bader 2012).

use crate::ir::Kernel;
use crate::kernels::sort::keys::keys;
use crate::kernels::sort::merge::params::MergeSortParams;
use crate::kernels::sort::merge::{BLOCK, RUN};
use crate::kernels::sort::{SortClass, SortPass};

/// Builds the kernel that sorts runs of 2,048 elements, or the kernel that merges two runs.
pub fn kernel(class: &SortClass) -> Kernel {
    let first = class.pass == SortPass::Runs;
    let (_, params) = MergeSortParams::new();
    let text = keys(class).params(&params).number("STRETCH", RUN as u32).number("BLOCK", BLOCK).holds("FIRST", first);
    let body = text.statements(&[HEAD, if first { SORT } else { MERGE }, GIVE_OUT]);
    Kernel { name: "scan", block: BLOCK, blocks: None, params, definitions: vec![], body }
}

const HEAD: &str = r"
let rows = param rows, n = param points, width = param log_row;
let t = thread, parts = param row_blocks, part = block % parts, first = i64(part) * STRETCH;
scratch elements: S = param elements;
shared keys: Key[STRETCH + STRETCH / 16];
shared places: u32[STRETCH + STRETCH / 16];
var key: Key[8];
var place: u32[8];
// Padded index of element `s` of the block in shared memory: threads eight elements apart use different banks.
fn slot(s) = s + s / 16;
// Row and point of element `s` of the block.
fn row_of(s) = tile + i64(s >> width);
fn point_of(s) = first + i64(s & (u32(1) << width) - 1);
fn is_inside(s) = row_of(s) < rows && point_of(s) < n;
// Merge path: number of the first `d` merged elements that come from the left run. Equal elements of the left run come
// first.
proc given(d, left_count, right_count, left_at, right_at, low) {
    low = d > right_count ? d - right_count : 0;
    var high = min(d, left_count);
    while low < high {
        let m = low + (high - low) / 2;
        if left_at(m) <= right_at(d - 1 - m) { low = m + 1; } else { high = m; }
    }
}
// The eight elements from `wanted` on of what two runs give that lie side by side from `begin` on.
proc merge(begin, left_count, right_count, wanted) {
    let end = left_count + right_count, middle = begin + left_count, d = min(wanted, end);
    fn left_at(i) = keys[slot(begin + i)];
    fn right_at(i) = keys[slot(middle + i)];
    var l: u32;
    given(d, left_count, right_count, left_at, right_at, l);
    var r = d - l;
    for k: u32 in 0..8 unroll {
        key[k] = 0;
        place[k] = 0;
        if d + k < end {
            let left = r >= right_count || l < left_count && left_at(l) <= right_at(r);
            let at = slot(left ? begin + l : middle + r);
            if left { l += 1; } else { r += 1; }
            key[k] = keys[at];
            place[k] = places[at];
        }
    }
}
// Stores the elements of all threads to shared memory, between barriers.
proc put() {
    barrier;
    for k: u32 in 0..8 unroll {
        keys[slot(t * 8 + k)] = key[k];
        places[slot(t * 8 + k)] = place[k];
    }
    barrier;
}
";

/// Sort of a block's keys and indices in shared memory. A block has several short rows, or a part of one.
const SORT: &str = r"
let tile = i64(block / parts) * i64(STRETCH >> width);
scratch from: S = param from;
var loaded: S[8];
for k: u32 in 0..8 unroll {
    let s = t + k * BLOCK;
    if is_inside(s) { loaded[k] = from[row_of(s) * param row_stride + point_of(s) * param point_stride]; }
}
for k: u32 in 0..8 unroll {
    let s = t + k * BLOCK;
    // Padding sorts after all elements of the row: its key and its index are the largest.
    var found = largest();
    if is_inside(s) {
        found = key_of(loaded[k]);
        // The result will lie over it.
        if param elements != param from { elements[row_of(s) * n + point_of(s)] = loaded[k]; }
    }
    keys[slot(s)] = found;
    places[slot(s)] = u32(point_of(s));
}
barrier;
for k: u32 in 0..8 unroll {
    key[k] = keys[slot(t * 8 + k)];
    place[k] = places[slot(t * 8 + k)];
}
for turn: i32 in 0..8 unroll {
    for k: i32 in turn % 2..7 by 2 unroll {
        let swap = key[k] > key[k + 1];
        let low = swap ? key[k + 1] : key[k], low_place = swap ? place[k + 1] : place[k];
        key[k + 1] = swap ? key[k] : key[k + 1];
        place[k + 1] = swap ? place[k] : place[k + 1];
        key[k] = low;
        place[k] = low_place;
    }
}
put();
var run = u32(8);
while run < u32(1) << width {
    let pair = t * 8 & ~(2 * run - 1);
    merge(pair, run, run, t * 8 - pair);
    put();
    run += run;
}
";

/// DSL text that merges a block's range of the output from two sorted runs in memory.
const MERGE: &str = r"
let tile = i64(block / parts), run = param run;
let pair = first / (2 * run) * (2 * run), rest = n - pair;
let left_count = min(rest, run), right_count = min(rest - left_count, run);
scratch run_keys: Key = param run_keys;
scratch run_places: u32 = param run_indices;
let left = tile * n + pair, right = left + left_count;
let begins = first - pair, ends = min(begins + STRETCH, left_count + right_count);
fn left_at(i) = run_keys[left + i];
fn right_at(i) = run_keys[right + i];
shared bounds: i64[2];
if t % 32 == 0 && t < 64 {
    var bound: i64;
    given(t == 0 ? begins : ends, left_count, right_count, left_at, right_at, bound);
    bounds[t / 32] = bound;
}
barrier;
let from_left = left + bounds[0], from_right = right + begins - bounds[0];
let here = u32(bounds[1] - bounds[0]), count = u32(ends - begins);
fn source(s) = s < here ? from_left + i64(s) : from_right + i64(s - here);
for k: u32 in 0..8 unroll {
    let s = t + k * BLOCK;
    if s < count {
        key[k] = run_keys[source(s)];
        place[k] = run_places[source(s)];
    }
}
for k: u32 in 0..8 unroll {
    let s = t + k * BLOCK;
    if s < count {
        keys[slot(s)] = key[k];
        places[slot(s)] = place[k];
    }
}
barrier;
merge(0, here, count - here, t * 8);
put();
";

/// DSL text that stores the result, or keys and indices for the next merge.
const GIVE_OUT: &str = r"
if param last == 0 {
    when FIRST {
        scratch next_keys: Key = param run_keys;
        scratch next_places: u32 = param run_indices;
    } else {
        scratch next_keys: Key = param merged_keys;
        scratch next_places: u32 = param merged_indices;
    }
    for k: u32 in 0..8 unroll {
        let s = t + k * BLOCK;
        if is_inside(s) {
            next_keys[row_of(s) * n + point_of(s)] = keys[slot(s)];
            next_places[row_of(s) * n + point_of(s)] = places[slot(s)];
        }
    }
    return;
}
scratch to: Result = param to;
var out: Result[8];
for k: u32 in 0..8 unroll {
    let s = t + k * BLOCK;
    if is_inside(s) {
        when PLACES {
            out[k] = Result(i64(places[slot(s)]));
        } else {
            out[k] = elements[row_of(s) * param elements_row_stride + i64(places[slot(s)]) * param elements_point_stride];
        }
    }
}
// Elements that others give out, too, are where the result goes.
barrier;
for k: u32 in 0..8 unroll {
    let s = t + k * BLOCK;
    if is_inside(s) { to[row_of(s) * param row_stride + point_of(s) * param point_stride] = out[k]; }
}
";
