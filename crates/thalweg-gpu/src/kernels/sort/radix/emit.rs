//! Radix sorts of long rows in memory, from the lowest digit on.
//!
//! In: rows of elements. Out: the sorted rows, or the original indices of their elements. The sort is stable. The first
//! launch builds the histograms of all passes, and the last block of a row computes where each digit begins. Each pass
//! is one launch: a block sorts its tile by the digit in shared memory and moves it after the elements of earlier tiles
//! with the same digit, which it learns by decoupled look-back (Adinets and Merrill 2022). So a pass reads and writes
//! each element once. Elements are moved unchanged, and their keys are recomputed; indices are moved only if they are
//! the result.
//!
//! Always true: a pass in which all keys of a row have the same digit moves nothing.

use crate::ir::{Kernel, Routine};
use crate::kernels::sort::keys::keys;
use crate::kernels::sort::radix::params::RadixSortParams;
use crate::kernels::sort::radix::{DIGITS, passes, tile};
use crate::kernels::sort::{SortClass, SortPass};

/// Builds the kernel of the histogram, or of a pass.
pub fn kernel(class: &SortClass) -> Kernel {
    let (passes, tile) = (passes(class.dtype) as u32, tile(class.dtype) as u32);
    let digits = DIGITS as u32;
    let (_, params) = RadixSortParams::new();
    let text = keys(class)
        .params(&params)
        .number("SIZE", class.dtype.size() as u32)
        .number("DIGITS", digits)
        .number("WARPS", digits / 32)
        .number("TILE", tile)
        .number("EACH", tile / digits)
        .number("PASSES", passes)
        // With few passes each digit has several tables, so that fewer threads update the same word at once.
        .number("COPIES", 16 / passes)
        // With eight passes most digits are often the same: a thread counts repetitions before it updates the table.
        .holds("RUNS", passes == 8)
        .function("tiles_before", |x| Routine::TilesBefore.of(x.to_vec()));
    let body = text.statements(&[HEAD, if class.pass == SortPass::Histogram { COUNT } else { MOVE }]);
    Kernel { name: "scan", block: digits, blocks: None, params, definitions: vec![], body }
}

const HEAD: &str = r"
let n = param points, tiles = param tiles, t = thread, lane = t % 32, warp = t / 32;
shared sums: u32[WARPS];
scratch from: S = param from;
fn digit_of(key, pass) = pass < SIZE ? u32(key >> Key(8 * pass)) & DIGITS - 1 : 0;
// Source (lower half) and destination (upper half) of each pass of a row, 0 for a skipped one. They follow the offsets of
// digits.
let GIVEN = 1, FIRST = 2, SECOND = 3, RESULT = 4;
fn starts_of(row) = i64(row) * (PASSES * DIGITS + PASSES);
// The sum of what threads of the block up to this one have. `sums` is free again behind the next barrier.
proc sum_to(x) {
    for b: u32 in 0..5 unroll {
        let o = u32(1) << b, other = shuffle_up(x, o);
        if lane >= o { x += other; }
    }
    if lane == 31 { sums[warp] = x; }
    barrier;
    for w: u32 in 0..warp { x += sums[w]; }
}
";

/// DSL text that counts the digits of all passes, over every `shares`-th tile of a row.
const COUNT: &str = r"
let shares = param row_blocks_or_pass, row = block / shares, share = block % shares;
let begin = i64(row) * param row_stride;
shared counts: u32[PASSES * COPIES * DIGITS];
fn table(p, c, digit) = (p * COPIES + c) * DIGITS + digit;
for i: u32 in t..PASSES * COPIES * DIGITS by DIGITS { counts[i] = 0; }
barrier;
var latest: u32[PASSES];
var again: u32[PASSES];
for p: u32 in 0..PASSES unroll {
    latest[p] = 0;
    again[p] = 0;
}
for tile: u32 in share..tiles by shares {
    fn place(k) = tile * TILE + k * DIGITS + t;
    var raw: S[EACH];
    for k: u32 in 0..EACH unroll {
        if place(k) < n { raw[k] = from[begin + i64(place(k)) * param point_stride]; }
    }
    for k: u32 in 0..EACH unroll {
        if place(k) < n {
            let key = key_of(raw[k]);
            for p: u32 in 0..PASSES unroll {
                let digit = digit_of(key, p);
                when RUNS {
                    if digit == latest[p] {
                        again[p] += 1;
                    } else {
                        if again[p] > 0 { atomic_add(counts[table(p, t % COPIES, latest[p])], again[p]); }
                        latest[p] = digit;
                        again[p] = 1;
                    }
                } else {
                    atomic_add(counts[table(p, t % COPIES, digit)], 1);
                }
            }
        }
    }
}
when RUNS {
    for p: u32 in 0..PASSES unroll {
        if again[p] > 0 { atomic_add(counts[table(p, t % COPIES, latest[p])], again[p]); }
    }
}
barrier;
scratch counters: u32 = param counters_or_exchange;
fn counter(p) = row * (PASSES * DIGITS) + p * DIGITS + t;
for p: u32 in 0..PASSES unroll {
    var count = u32(0);
    for c: u32 in 0..COPIES unroll { count += counts[table(p, c, t)]; }
    if count > 0 { atomic_add(counters[counter(p)], count); }
}
fence;
barrier;
shared last: u32[1];
if t == 0 {
    let through = param rows * (PASSES * DIGITS) + row;
    let before = atomic_add(counters[through], 1);
    if before == shares - 1 { counters[through] = 0; }
    last[0] = before == shares - 1 ? u32(1) : 0;
    fence;
}
barrier;
if last[0] == 1 {
    // The last block of the row puts down where each digit of each pass begins, and which passes there are. Counters are
    // 0 again.
    scratch starts: u32 = param digit_offsets;
    var many = u32(0);
    for p: u32 in 0..PASSES unroll {
        let count = atomic_exchange(counters[counter(p)], 0);
        var up_to = count;
        sum_to(up_to);
        starts[starts_of(row) + i64(p * DIGITS + t)] = up_to - count;
        let same = any_of_block(count == n);
        if !same { many |= u32(1) << p; }
    }
    // Two at least, so that the last one reads from somewhere else than it writes to.
    var p = u32(0);
    while ones(many) < 2 {
        many |= u32(1) << p;
        p += 1;
    }
    if t < PASSES {
        let before = ones(many & (u32(1) << t) - 1), count = ones(many);
        let whence = before == 0 ? u32(GIVEN) : before % 2 == 1 ? u32(FIRST) : u32(SECOND);
        let whither = before + 1 == count ? u32(RESULT) : before % 2 == 1 ? u32(SECOND) : u32(FIRST);
        starts[starts_of(row) + i64(PASSES * DIGITS + t)] = (many >> t & 1) == 1 ? whence | whither << 16 : 0;
    }
}
";

/// DSL text of one pass: sorts the elements of a tile by the pass's digit, and scatters them to the destination buffer.
const MOVE: &str = r"
let pass = param row_blocks_or_pass;
shared elements: S[TILE];
when PLACES { shared numbers: u32[TILE]; }
shared counts: u32[WARPS][DIGITS];
shared local: u32[DIGITS];
shared begins: u32[DIGITS];
ticket own = param counters_or_exchange;
let row = own / tiles, tile = own % tiles;
constant starts: u32 = param digit_offsets;
let way = starts[starts_of(row) + i64(PASSES * DIGITS + pass)], whence = way & 0xffff, whither = way >> 16;
if way == 0 { return; }
scratch first_elements: S = param first_elements;
scratch second_elements: S = param second_elements;
scratch first_numbers: u32 = param first_indices;
scratch second_numbers: u32 = param second_indices;
let line = i64(row) * i64(n);
let first = tile * TILE, stretch = warp * (32 * EACH), count = min(n - first, TILE);
fn own_place(k) = stretch + 32 * k + lane;
var raw: S[EACH];
var number: u32[EACH];
var digit: u32[EACH];
var rank: u32[EACH];
proc bring(these, numbers_of_these) {
    for k: u32 in 0..EACH unroll {
        if own_place(k) < count {
            raw[k] = these[line + i64(first + own_place(k))];
            when PLACES { number[k] = numbers_of_these[line + i64(first + own_place(k))]; }
        }
    }
}
if whence == GIVEN {
    for k: u32 in 0..EACH unroll {
        if own_place(k) < count { raw[k] = from[i64(row) * param row_stride + i64(first + own_place(k)) * param point_stride]; }
        when PLACES { number[k] = first + own_place(k); }
    }
} else if whence == SECOND {
    bring(second_elements, second_numbers);
} else {
    bring(first_elements, first_numbers);
}
for w: u32 in 0..WARPS unroll { counts[w][t] = 0; }
barrier;
for k: u32 in 0..EACH unroll { digit[k] = own_place(k) < count ? digit_of(key_of(raw[k]), pass) : 0; }
// How many elements of the same digit stand before each of a thread's in its warp's stretch, of which it has every 32nd.
for k: u32 in 0..EACH unroll {
    let inside = own_place(k) < count;
    var same = ballot(inside);
    for bit: u32 in 0..8 unroll {
        let one = (digit[k] >> bit & 1) == 1, with_one = ballot(one);
        same &= one ? with_one : ~with_one;
    }
    let below = ones(same & (u32(1) << lane) - 1), before = counts[warp][digit[k]];
    warp_barrier;
    if inside && below == 0 { counts[warp][digit[k]] = before + ones(same); }
    warp_barrier;
    rank[k] = before + below;
}
barrier;
var total = u32(0);
for w: u32 in 0..WARPS unroll {
    let of_warp = counts[w][t];
    counts[w][t] = total;
    total += of_warp;
}
let before = tiles_before(own, u64(own) * DIGITS + u64(t), tile, total);
var here = total;
sum_to(here);
local[t] = here - total;
begins[t] = starts[starts_of(row) + i64(pass * DIGITS + t)] + before - (here - total);
barrier;
for k: u32 in 0..EACH unroll {
    if own_place(k) < count {
        let at = local[digit[k]] + counts[warp][digit[k]] + rank[k];
        elements[at] = raw[k];
        when PLACES { numbers[at] = number[k]; }
    }
}
barrier;
fn goes_to(s) = begins[digit_of(key_of(elements[s]), pass)] + s;
proc move(there, numbers_of_there) {
    for k: u32 in 0..EACH unroll {
        let s = k * DIGITS + t;
        if s < count {
            let at = line + i64(goes_to(s));
            there[at] = elements[s];
            when PLACES { numbers_of_there[at] = numbers[s]; }
        }
    }
}
if whither == RESULT {
    scratch to: Result = param to;
    for k: u32 in 0..EACH unroll {
        let s = k * DIGITS + t;
        if s < count {
            let at = i64(row) * param row_stride + i64(goes_to(s)) * param point_stride;
            when PLACES { to[at] = Result(i64(numbers[s])); } else { to[at] = elements[s]; }
        }
    }
} else if whither == SECOND {
    move(second_elements, second_numbers);
} else {
    move(first_elements, first_numbers);
}
";
