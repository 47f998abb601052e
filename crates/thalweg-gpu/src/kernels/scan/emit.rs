//! Scans of rows in memory: running sums, products, maxima and minima, and logarithms of sums of exponentials. Sorts
//! are in [`crate::kernels::sort::merge::emit`].
//!
//! In: the class of a scan. Out: its program. Floats are accumulated in f64 and each result is rounded once, as on
//! every device.
//!
//! Each thread takes eight neighbouring points: it reduces them, the block scans its threads' totals (an *iteration*,
//! `turn` in the program), and each thread writes its points. A row is cut into *chunks* of iterations, which are
//! combined in order. Where rows are too few to keep the chip busy, several blocks divide one: the first launch reduces
//! each chunk, and in the second one each block begins with the total of the chunks before its own.
//!
//! Always true: where rows are contiguous, results have the same bits whatever the number of rows and blocks, since
//! chunks follow from the length of a row alone.

use crate::dsl::Text;
use crate::ir::{Definition, Expr, Kernel, Routine, Type};
use crate::kernels::scan::params::ScanParams;
use crate::kernels::scan::{BLOCK, POINTS, ScanClass, ScanStrategy, WARP};

/// Threads per block of a scan in which each thread scans a row of its own.
const ROWS: u32 = 32;

/// Builds the kernel of a class key.
pub fn kernel(class: &ScanClass) -> Kernel {
    let dtype = class.dtype;
    let (_, params) = ScanParams::new();
    let text = Text::new()
        .params(&params)
        .ty("S", Type::Stored(dtype))
        .ty("Wide", Type::Wide(0))
        .holds("REVERSED", class.reverse)
        .number("ROWS", ROWS)
        .number("POINTS", POINTS as u32)
        .number("WARP", WARP as u32)
        .number("WARPS", BLOCK as u32 / 32)
        .number("BLOCK", BLOCK as u32)
        .function("nothing", |_| Routine::Nothing(0).of([]))
        .function("wide", |x| Routine::Widened(0).of([Expr::Unpack(dtype, Box::new(x[0].clone()))]))
        .function("both", |x| Routine::Accumulated(0).of(x.to_vec()))
        .function("narrow", |x| Expr::Pack(dtype, Box::new(Routine::Narrowed(0, dtype).of(x.to_vec()))));
    let body = match class.strategy {
        ScanStrategy::InOrder => text.statements(&[HEAD, IN_ORDER]),
        ScanStrategy::WithinWarp => text.statements(&[HEAD, WITHIN_WARP]),
        ScanStrategy::Blocks => text.statements(&[HEAD, INNER_AXIS, CHUNKED]),
        ScanStrategy::Columns => text.statements(&[HEAD, OUTER_AXIS, CHUNKED]),
    };
    let block = if class.strategy == ScanStrategy::InOrder { ROWS } else { BLOCK as u32 };
    let definitions = vec![Definition::Scan { number: 0, op: class.op, dtype }];
    Kernel { name: "scan", block, blocks: None, params, definitions, body }
}

/// Prologue of every kernel.
const HEAD: &str = r"
scratch from: S = param from;
scratch to: S = param to;
let rows = param rows, n = param points, row_step = param row_stride, step = param point_stride;
let t = thread, lane = t % 32, warp = t / 32;
// Padded index of a warp's point in shared memory: threads eight points apart use different banks.
fn slot(s) = s + s / 32;
fn place(i) = REVERSED ? n - 1 - i : i;
";

/// One thread per row. It loads several points at a time, so that several loads are in flight.
const IN_ORDER: &str = r"
let row = i64(block) * ROWS + i64(t), start = row * row_step;
if row >= rows { return; }
var y = nothing();
for first: i64 in 0..n by POINTS {
    var loaded: S[POINTS];
    for k: i64 in 0..POINTS unroll {
        let i = first + k;
        if i < n { loaded[k] = from[start + place(i) * step]; }
    }
    for k: i64 in 0..POINTS unroll {
        let i = first + k;
        y = both(y, wide(loaded[k]));
        if i < n { to[start + place(i) * step] = narrow(y); }
    }
}
";

/// Rows of at most 256 points: several threads of a warp scan a row, and a warp scans as many rows as its 32 threads
/// allow.
const WITHIN_WARP: &str = r"
let threads_of_row = u32(param row_threads_or_chunk), own = 32 / threads_of_row, part = lane % threads_of_row, points = u32(n);
let first = (i64(block) * WARPS + i64(warp)) * i64(own), live = min(rows - first, i64(own));
let count = live > 0 ? u32(live) * points : 0;
// A quotient of two numbers up to 256 by a product.
let reciprocal = (65535 + points) / points;
fn row_of(p) = p * reciprocal >> 16;
fn point_of(p) = p - row_of(p) * points;
fn at(p) = (first + i64(row_of(p))) * row_step + place(i64(point_of(p))) * step;
fn spread(p) = slot(row_of(p) * threads_of_row * POINTS + point_of(p));
shared all: S[WARPS][WARP + WARP / 32];
var loaded: S[POINTS];
for k: u32 in 0..POINTS unroll {
    let p = lane + 32 * k;
    if p < count { loaded[k] = from[at(p)]; }
}
for k: u32 in 0..POINTS unroll {
    let p = lane + 32 * k;
    if p < count { all[warp][spread(p)] = loaded[k]; }
}
warp_barrier;
var x: Wide[POINTS];
for k: u32 in 0..POINTS unroll {
    x[k] = part * POINTS + k < points ? wide(all[warp][slot(lane * POINTS + k)]) : nothing();
    if k > 0 { x[k] = both(x[k - 1], x[k]); }
}
var before = x[POINTS - 1];
var o = u32(1);
while o < threads_of_row {
    let other = shuffle_up(before, o);
    if part >= o { before = both(other, before); }
    o += o;
}
before = shuffle_up(before, 1);
if part == 0 { before = nothing(); }
for k: u32 in 0..POINTS unroll { all[warp][slot(lane * POINTS + k)] = narrow(both(before, x[k])); }
warp_barrier;
for k: u32 in 0..POINTS unroll {
    let p = lane + 32 * k;
    if p < count { to[at(p)] = all[warp][spread(p)]; }
}
";

/// Contiguous rows. A block's points go through shared memory, so that a warp accesses neighbours and each thread has
/// eight consecutive points.
const INNER_AXIS: &str = r"
let shares = param row_blocks;
let row = i64(block / shares), start = row * row_step;
let turn_points = i64(threads) * POINTS;
shared all: S[WARPS][WARP + WARP / 32];
// Two of them, so that a barrier a turn is enough.
shared totals: Wide[2][WARPS];
shared carried: Wide[1];
fn folds() = warp == 0;
fn keeps() = t == 0;
fn column() = 0;
fn partial(c) = row * chunks + c;
fn head(first) = first + i64(warp * WARP);
proc load(first, stop, x) {
    var loaded: S[POINTS];
    for k: u32 in 0..POINTS unroll {
        let i = head(first) + i64(lane + 32 * k);
        if i < stop { loaded[k] = from[start + place(i) * step]; }
    }
    for k: u32 in 0..POINTS unroll { all[warp][slot(lane + 32 * k)] = loaded[k]; }
    warp_barrier;
    for k: u32 in 0..POINTS unroll {
        let i = head(first) + i64(lane * POINTS + k);
        x[k] = i < stop ? wide(all[warp][slot(lane * POINTS + k)]) : nothing();
        if k > 0 { x[k] = both(x[k - 1], x[k]); }
    }
}
proc scan(x, turn, before, sum) {
    before = x[POINTS - 1];
    for b: u32 in 0..5 unroll {
        let o = u32(1) << b, other = shuffle_up(before, o);
        if lane >= o { before = both(other, before); }
    }
    if lane == 31 { totals[turn][warp] = before; }
    before = shuffle_up(before, 1);
    if lane == 0 { before = nothing(); }
    barrier;
    for w: u32 in 0..WARPS unroll {
        if w * 32 < threads {
            if w == warp { before = both(sum, before); }
            sum = both(sum, totals[turn][w]);
        }
    }
}
proc store(first, stop, carry, x) {
    for k: u32 in 0..POINTS unroll { all[warp][slot(lane * POINTS + k)] = narrow(both(carry, x[k])); }
    warp_barrier;
    for k: u32 in 0..POINTS unroll {
        let i = head(first) + i64(lane + 32 * k);
        if i < stop { to[start + place(i) * step] = all[warp][slot(lane + 32 * k)]; }
    }
}
";

/// DSL text for outer-axis rows: neighbouring threads have neighbouring rows.
const OUTER_AXIS: &str = r"
let shares = param row_blocks;
let width = param block_rows, own_column = t % width, depth = t / width, deep = threads / width;
let row = i64(block / shares) * i64(width) + i64(own_column), start = row * row_step;
let live = row < rows;
let turn_points = i64(deep) * POINTS;
shared totals: Wide[2][BLOCK];
shared carried: Wide[BLOCK];
fn folds() = depth == 0 && live;
fn keeps() = depth == 0 && live;
fn column() = own_column;
fn partial(c) = c * rows + row;
fn point(first, k) = first + i64(depth) * POINTS + k;
proc load(first, stop, x) {
    var loaded: S[POINTS];
    for k: i64 in 0..POINTS unroll {
        if point(first, k) < stop && live { loaded[k] = from[start + place(point(first, k)) * step]; }
    }
    for k: i64 in 0..POINTS unroll {
        x[k] = point(first, k) < stop ? wide(loaded[k]) : nothing();
        if k > 0 { x[k] = both(x[k - 1], x[k]); }
    }
}
proc scan(x, turn, before, sum) {
    totals[turn][t] = x[POINTS - 1];
    barrier;
    for d: u32 in 0..deep {
        if d == depth { before = sum; }
        sum = both(sum, totals[turn][d * width + own_column]);
    }
}
proc store(first, stop, carry, x) {
    for k: i64 in 0..POINTS unroll {
        if point(first, k) < stop && live { to[start + place(point(first, k)) * step] = narrow(both(carry, x[k])); }
    }
}
";

/// DSL text of the main loop: all threads of a block scan chunk by chunk.
const CHUNKED: &str = r"
let chunk = param row_threads_or_chunk, own = param block_chunks, chunks = param row_chunks, share = i64(block % shares);
let folded = param only_reduce != 0;
scratch partials: Wide = param partials;
var base = nothing();
if share > 0 && !folded {
    if folds() {
        for c: i64 in 0..share * own unroll(8) { base = both(base, partials[partial(c)]); }
        carried[column()] = base;
    }
    barrier;
    base = carried[column()];
}
var turn = u32(0);
for c: i64 in share * own..min((share + 1) * own, chunks) {
    var part = nothing();
    let stop = min((c + 1) * chunk, n);
    for first: i64 in c * chunk..stop by turn_points {
        var x: Wide[POINTS];
        load(first, stop, x);
        var before = nothing(), sum = nothing();
        scan(x, turn, before, sum);
        turn ^= 1;
        if !folded {
            let carry = both(both(base, part), before);
            store(first, stop, carry, x);
        }
        part = both(part, sum);
    }
    if folded && keeps() { partials[partial(c)] = part; }
    base = both(base, part);
}
";
