//! Compares contractions with the defining sums, to the bit.

use super::{Block, Factor, Finish, Gemm, Grid, Numbers, Packing, Signs, TERMS, Tile, run, typed, with_factors};
use crate::engine::Choice;
use crate::number::{Bf16, F16, Number, PairTiles, Pairs, Scheme, Wide};
use crate::tests::Lcg;
use crate::threads::Threads;
use std::cell::OnceCell;
use std::fmt::Debug;
use std::sync::Mutex;
use thalweg_ir::DType;
use thalweg_kernel::accumulator;

/// Element type of test factors.
trait Element: Number<Wide: PartialEq + Debug> {
    const DTYPE: DType;
    /// Generates a random element.
    fn any(rng: &mut Lcg) -> Self;
    /// Expected sums if a free order of this type takes groups of terms.
    fn in_groups(_order: Order, _sizes: [usize; 4], _factors: [&[Self]; 2]) -> Vec<Self::Wide> {
        unreachable!("{} has no groups", Self::DTYPE)
    }
}

/// Order of a sum.
#[derive(Clone, Copy)]
enum Order {
    /// The order that the module documents.
    Default,
    /// The order that `gemv_dots` documents.
    Lanes,
    /// The order of tile registers.
    Steps,
}

macro_rules! element {
    ($($t:ty, $dtype:ident, |$rng:ident| $any:expr;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            fn any($rng: &mut Lcg) -> $t { $any }
        }
    )*};
}
element! {
    f32, F32, |r| (r.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0) * 1.7;
    f64, F64, |r| (r.below(1 << 30) as f64 / (1 << 29) as f64 - 1.0) * 1.7;
    F16, F16, |r| F16::narrow(r.value() as f32);
    u8, U8, |r| r.below(256) as u8;
    i16, I16, |r| r.below(1 << 16) as i16;
    i32, I32, |r| (r.below(1 << 31) as i32).wrapping_mul(3);
    i64, I64, |r| (r.below(1 << 31) as i64).wrapping_mul(0x1234_5678_9abc);
}

impl Element for Bf16 {
    const DTYPE: DType = DType::BF16;
    fn any(rng: &mut Lcg) -> Bf16 {
        match rng.below(40) {
            // Subnormals, and numbers whose products are subnormal.
            0 => Bf16(rng.below(0x80) as u16),
            1 => Bf16::narrow(rng.value() as f32 * 1e-20),
            _ => Bf16::narrow(rng.value() as f32),
        }
    }
    fn in_groups(order: Order, sizes: [usize; 4], [left, right]: [&[Bf16]; 2]) -> Vec<f32> {
        match order {
            Order::Default => defined::<Pairs>(sizes, left, right),
            Order::Lanes => in_lanes::<Pairs>(sizes, left, right),
            Order::Steps => in_steps::<PairTiles>(sizes, left, right),
        }
    }
}

/// Packs a line of terms into slots of a scheme.
fn slots<S: Scheme>(line: &[S::Element]) -> Vec<S::Slot> {
    let zero = S::Element::narrow(Wide::ZERO);
    line.chunks(S::GROUP).map(|group| S::slot(|term| group.get(term).copied().unwrap_or(zero))).collect()
}

/// Sums in the order that the module documents; factors are dense, `[batch][line][term]`.
fn defined<S: Scheme>([batches, m, n, k]: [usize; 4], left: &[S::Element], right: &[S::Element]) -> Vec<S::Sum> {
    let lines = |of: &[S::Element]| of.chunks(k.max(1)).map(slots::<S>).collect::<Vec<_>>();
    let (left, right) = (lines(left), lines(right));
    let mut sums = Vec::with_capacity(batches * m * n);
    for (b, i, j) in (0..batches).flat_map(|b| (0..m).flat_map(move |i| (0..n).map(move |j| (b, i, j)))) {
        if k == 0 {
            sums.push(S::Sum::ZERO);
            continue;
        }
        let blocks = left[b * m + i]
            .chunks(TERMS)
            .zip(right[b * n + j].chunks(TERMS))
            .map(|(l, r)| l.iter().zip(r).fold(S::Sum::ZERO, |sum, (x, y)| S::dot(*x, *y, sum)));
        sums.push(blocks.reduce(S::Sum::plus).expect("a block"));
    }
    sums
}

/// Sums in the order of tile registers: blocks of 32 terms, the last one padded with zeros.
fn in_steps<S: Scheme>([batches, m, n, k]: [usize; 4], left: &[S::Element], right: &[S::Element]) -> Vec<S::Sum> {
    let padded = |line: &[S::Element]| {
        let mut slots = slots::<S>(line);
        slots.resize(slots.len().next_multiple_of(S::STEP), S::Slot::default());
        slots
    };
    let lines = |of: &[S::Element]| of.chunks(k.max(1)).map(padded).collect::<Vec<_>>();
    let (left, right) = (lines(left), lines(right));
    let mut sums = Vec::with_capacity(batches * m * n);
    for (b, i, j) in (0..batches).flat_map(|b| (0..m).flat_map(move |i| (0..n).map(move |j| (b, i, j)))) {
        let steps = if k == 0 { 0 } else { left[b * m + i].len() / S::STEP };
        sums.push((0..steps).fold(S::Sum::ZERO, |sum, step| {
            let slot = |of: &[Vec<S::Slot>], line: usize, slot: usize| of[line][step * S::STEP + slot];
            S::step(|s| slot(&left, b * m + i, s), |s| slot(&right, b * n + j, s), sum)
        }));
    }
    sums
}

/// Sums in the order that `gemv_dots` documents.
fn in_lanes<S: Scheme>([batches, m, n, k]: [usize; 4], left: &[S::Element], right: &[S::Element]) -> Vec<S::Sum> {
    let lanes = 64 / size_of::<S::Sum>();
    let lines = |of: &[S::Element]| of.chunks(k.max(1)).map(slots::<S>).collect::<Vec<_>>();
    let (left, right) = (lines(left), lines(right));
    let mut sums = Vec::with_capacity(batches * m * n);
    for (b, i, j) in (0..batches).flat_map(|b| (0..m).flat_map(move |i| (0..n).map(move |j| (b, i, j)))) {
        if k == 0 {
            sums.push(S::Sum::ZERO);
            continue;
        }
        let (left, right) = (&left[b * m + i], &right[b * n + j]);
        let whole = k / S::GROUP;
        let whole = whole - whole % lanes;
        let blocks = left[..whole].chunks(4096).zip(right[..whole].chunks(4096)).map(|(l, r)| {
            let mut sums = vec![S::Sum::ZERO; lanes];
            for (p, (x, y)) in l.iter().zip(r).enumerate() {
                sums[p % lanes] = S::dot(*x, *y, sums[p % lanes]);
            }
            while sums.len() > 1 {
                let upper = sums.split_off(sums.len() / 2);
                sums.iter_mut().zip(upper).for_each(|(low, high)| *low = low.plus(high));
            }
            sums[0]
        });
        let chain = |sum, (x, y): (&S::Slot, &S::Slot)| S::dot(*x, *y, sum);
        let rest = (whole < left.len()).then(|| left[whole..].iter().zip(&right[whole..]).fold(S::Sum::ZERO, chain));
        let blocks = blocks.chain(rest);
        sums.push(blocks.reduce(S::Sum::plus).unwrap_or(S::Sum::ZERO));
    }
    sums
}

/// Memory layout of a factor.
#[derive(Clone, Copy, Debug)]
enum Lies {
    /// The terms of a line are contiguous.
    ByLines,
    /// The lines of a term are contiguous.
    ByTerms,
    /// Strided: every third element, from the last one backwards.
    Backwards,
    /// Computed by a closure, in rows of lines or of terms.
    Computed { terms_last: bool },
}
const WAYS: [Lies; 5] = [
    Lies::ByLines,
    Lies::ByTerms,
    Lies::Backwards,
    Lies::Computed { terms_last: false },
    Lies::Computed { terms_last: true },
];

/// Memory that holds an operand in some layout; all other elements are `hole`.
struct Laid<T> {
    memory: Vec<T>,
    first: usize,
    strides: [isize; 3],
}

fn lay<T: Element>(dense: &[T], [batches, lines, terms]: [usize; 3], lies: Lies, hole: T) -> Laid<T> {
    let (line, term, step) = match lies {
        Lies::ByLines | Lies::Computed { .. } => (terms, 1, 1),
        Lies::ByTerms => (1, lines, 1),
        Lies::Backwards => (terms, 1, 3),
    };
    let length = batches * lines * terms;
    let mut memory = vec![hole; length * step + 8];
    let sign = if step == 3 { -3 } else { 1 };
    let first = if step == 3 { 3 * length.saturating_sub(1) } else { 5 };
    let strides = [lines * terms, line, term].map(|s| s as isize * sign);
    for (i, x) in dense.iter().enumerate() {
        let at = [i / (lines * terms).max(1), i / terms % lines.max(1), i % terms];
        let place = at.iter().zip(strides).map(|(a, s)| *a as isize * s).sum::<isize>();
        memory[(first as isize + place) as usize] = *x;
    }
    Laid { memory, first, strides }
}

/// Configuration of one run of a contraction.
#[derive(Clone, Copy, Debug)]
struct Way {
    left: Lies,
    right: Lies,
    isa: Choice,
    threads: usize,
    tiles: bool,
    /// Whether the order of sums is free.
    free: bool,
    /// Whether the scheme of tile registers runs whatever the engine has, where the order is free: emitted or portable.
    portable_tiles: bool,
}

impl Way {
    /// Whether float sums are expected in lanes (`gemv_dots`): few rows (or columns) times lines with contiguous terms.
    fn in_lanes<T: Element>(&self, [_, m, n, k]: [usize; 4]) -> bool {
        let group = if self.in_groups::<T>() { 2 } else { 1 };
        let takes = |rows: usize, lines: usize, lies: Lies| {
            let neighbours = matches!(lies, Lies::ByLines) || (matches!(lies, Lies::ByTerms) && lines == 1);
            let few = rows <= 4 || !self.has_tiles::<T>() && rows <= 32 && k.div_ceil(group) >= 16 * rows;
            self.free && T::Wide::FLOAT && few && neighbours && k >= 64 / size_of::<T::Wide>() * group
        };
        if m > n && (n == 1 || takes(n, m, self.left)) { takes(n, m, self.left) } else { takes(m, n, self.right) }
    }

    /// Whether sums are expected in steps of tile registers: several rows and columns, and not in lanes.
    fn in_steps<T: Element>(&self, sizes: [usize; 4]) -> bool {
        let [_, m, n, _] = sizes;
        self.has_tiles::<T>() && m > 1 && n > 1 && !self.in_lanes::<T>(sizes)
    }

    /// Whether the engine has tile registers for the product, or is made to behave as if.
    fn has_tiles<T: Element>(&self) -> bool {
        self.in_groups::<T>() && (self.isa.tiles() || self.portable_tiles)
    }

    /// Whether sums are expected in pairs of bf16 terms.
    fn in_groups<T: Element>(&self) -> bool {
        self.free && T::DTYPE == DType::BF16 && (self.isa.pairs() || self.portable_tiles)
    }
}

/// Sums of one configuration, or the stored results, widened.
fn sums<T: Element>(sizes: [usize; 4], left: &[T], right: &[T], hole: T, way: Way) -> Vec<T::Wide> {
    let [batches, m, n, k] = sizes;
    let (l, r) = (lay(left, [batches, m, k], way.left, hole), lay(right, [batches, n, k], way.right, hole));
    // Row `i`, element `p` of a computed block: a line and a term, or a term and a line.
    let computed = |of: &[T], lines: usize, terms_last: bool, block: Block, to: *mut u8, lead: usize| {
        for (i, line) in block.lines.enumerate() {
            for (p, term) in block.terms.clone().enumerate() {
                let at = if terms_last { i * lead + p } else { p * lead + i };
                // SAFETY: the block has space for its lines and terms.
                unsafe { to.cast::<T>().add(at).write(of[(block.batch * lines + line) * k + term]) };
            }
        }
    };
    let of_left = |block: Block, to: *mut u8, lead: usize| computed(left, m, true, block, to, lead);
    let of_left_turned = |block: Block, to: *mut u8, lead: usize| computed(left, m, false, block, to, lead);
    let of_right = |block: Block, to: *mut u8, lead: usize| computed(right, n, false, block, to, lead);
    let of_right_turned = |block: Block, to: *mut u8, lead: usize| computed(right, n, true, block, to, lead);
    let strided = |laid: &Laid<T>| Factor::Strided {
        first: laid.memory[laid.first.min(laid.memory.len() - 1)..].as_ptr().cast(),
        batch: vec![laid.strides[0]],
        line: laid.strides[1],
        term: laid.strides[2],
    };
    let mut stored = vec![T::narrow(T::Wide::ZERO); batches * m * n];
    let handed = Mutex::new(vec![None; batches * m * n]);
    let take = |tile: Tile| {
        let mut handed = handed.lock().unwrap();
        for (i, row) in tile.rows.enumerate() {
            for (j, column) in tile.columns.clone().enumerate() {
                // SAFETY: the tile holds its sums.
                let sum = unsafe { tile.sums.cast::<T::Wide>().add(i * tile.lead + j).read() };
                let place = &mut handed[(tile.batch * m + row) * n + column];
                assert_eq!(*place, None, "a sum is handed over once");
                *place = Some(sum);
            }
        }
    };
    let contraction = Gemm {
        numbers: Numbers { dtype: T::DTYPE, free: way.free, bytes: None },
        batch: vec![batches],
        products: 0..batches,
        m,
        n,
        k,
        whole_m: m,
        left: match way.left {
            Lies::Computed { terms_last } => {
                Factor::Computed { write: if terms_last { &of_left } else { &of_left_turned }, terms_last, grid: None }
            }
            _ => strided(&l),
        },
        right: match way.right {
            Lies::Computed { terms_last } => Factor::Computed {
                write: if terms_last { &of_right_turned } else { &of_right },
                terms_last,
                grid: None,
            },
            _ => strided(&r),
        },
        finish: if way.tiles { Finish::Tiles(&take) } else { Finish::Store(stored.as_mut_ptr().cast()) },
    };
    let threads = Threads::new(way.threads, 0.0);
    match way.portable_tiles && way.free && T::DTYPE == DType::BF16 {
        // SAFETY: the factors and the result are those of the contraction.
        true => unsafe { typed::<PairTiles>(&contraction, way.isa, &threads) },
        false => run(&contraction, way.isa, &threads),
    }
    match way.tiles {
        true => handed.into_inner().unwrap().into_iter().map(|s| s.expect("every sum is handed over")).collect(),
        false => stored.into_iter().map(T::widen).collect(),
    }
}

fn engines() -> impl Iterator<Item = Choice> {
    Choice::all()
}

/// Runs one product in `ways` random configurations, and compares bits.
fn agree<T: Element>(rng: &mut Lcg, sizes: [usize; 4], hole: T, ways: usize)
where
    T::Wide: Into<Bits>,
{
    let [batches, m, n, k] = sizes;
    let left: Vec<T> = (0..batches * m * k).map(|_| T::any(rng)).collect();
    let right: Vec<T> = (0..batches * n * k).map(|_| T::any(rng)).collect();
    // Expected sums in each order, of single terms and of groups, computed if a configuration has them.
    let expected = [const { OnceCell::new() }; 6];
    let engines: Vec<Choice> = engines().collect();
    for _ in 0..ways {
        let way = Way {
            left: WAYS[rng.below(WAYS.len())],
            right: WAYS[rng.below(WAYS.len())],
            isa: engines[rng.below(engines.len())],
            threads: [1, 2, 8][rng.below(3)],
            tiles: rng.below(2) == 0,
            free: rng.below(2) == 0,
            portable_tiles: rng.below(4) == 0,
        };
        let got = sums(sizes, &left, &right, hole, way);
        let grouped = way.in_groups::<T>();
        let order = match way.in_lanes::<T>(sizes) {
            _ if way.in_steps::<T>(sizes) => Order::Steps,
            true => Order::Lanes,
            false => Order::Default,
        };
        let want = expected[3 * grouped as usize + order as usize].get_or_init(|| match order {
            _ if grouped => T::in_groups(order, sizes, [&left, &right]),
            Order::Lanes => in_lanes::<T>(sizes, &left, &right),
            _ => defined::<T>(sizes, &left, &right),
        });
        for (i, (got, want)) in got.into_iter().zip(want).enumerate() {
            let want = if way.tiles { *want } else { T::narrow(*want).widen() };
            let (got, want): (Bits, Bits) = (got.into(), want.into());
            assert_eq!(got.0, want.0, "element {i} of {sizes:?} of {}, {way:?}", T::DTYPE);
        }
    }
}

/// Bits of a sum, compared instead of its value.
struct Bits(u64);
macro_rules! bits {
    ($($t:ty, |$x:ident| $bits:expr;)*) => {$(
        impl From<$t> for Bits { fn from($x: $t) -> Bits { Bits($bits) } }
    )*};
}
bits! {
    f32, |x| x.to_bits() as u64; f64, |x| x.to_bits(); u8, |x| x as u64; i16, |x| x as u64; i32, |x| x as u64;
    i64, |x| x as u64;
}

/// Random size near the edges of tiles and blocks.
fn size(rng: &mut Lcg) -> usize {
    const EDGES: [usize; 24] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 17, 29, 31, 32, 33, 47, 64, 65, 96, 97, 131];
    EDGES[rng.below(EDGES.len())]
}

fn random<T: Element>(seed: u64, rounds: usize, hole: T)
where
    T::Wide: Into<Bits>,
{
    let mut rng = Lcg(seed);
    for _ in 0..rounds {
        let k = [0, 1, 2, 7, 8, 9, 63, 255, 256, 257, 300, 513, 770][rng.below(13)];
        let (batches, m, n) = ([1, 1, 2, 5][rng.below(4)], size(&mut rng), size(&mut rng));
        agree(&mut rng, [batches, m, n, k], hole, 6);
    }
}

#[test]
fn single_sums_have_the_same_bits_whatever_the_way() {
    random::<f32>(1, 120, f32::NAN);
}

#[test]
fn double_sums_have_the_same_bits_whatever_the_way() {
    random::<f64>(2, 120, f64::NAN);
}

#[test]
fn narrow_floats_are_added_in_single_and_rounded_once() {
    random::<Bf16>(3, 40, Bf16::narrow(f32::NAN));
    random::<F16>(4, 40, F16::narrow(f32::NAN));
    assert_eq!(
        [accumulator(DType::BF16), accumulator(DType::F64), accumulator(DType::I8)],
        [DType::F32, DType::F64, DType::I8]
    );
}

#[test]
fn integers_wrap() {
    random::<u8>(5, 30, 77);
    random::<i16>(6, 30, 77);
    random::<i32>(7, 30, 77);
    random::<i64>(8, 30, 77);
}

#[test]
fn large_products_keep_their_bits_through_shared_panels() {
    let mut rng = Lcg(9);
    for sizes in [[1, 203, 611, 300], [1, 130, 260, 1100], [2, 100, 140, 257], [1, 1, 5000, 300], [1, 4100, 1, 700]] {
        agree::<f32>(&mut rng, sizes, f32::NAN, 2);
    }
    for sizes in [[1, 203, 311, 601], [1, 130, 260, 1100]] {
        agree::<Bf16>(&mut rng, sizes, Bf16::narrow(f32::NAN), 3);
        agree::<u8>(&mut rng, sizes, 77, 3);
    }
    for sizes in [[1, 150, 300, 520], [1, 2300, 2, 600]] {
        agree::<f64>(&mut rng, sizes, f64::NAN, 3);
    }
    // One row and a few, and columns with contiguous terms: partial blocks of lanes, columns and terms.
    for rows in 1..=5 {
        agree::<f32>(&mut rng, [1, rows, 37, 9_411], f32::NAN, 3);
        agree::<F16>(&mut rng, [1, rows, 17, 4_113], F16::narrow(f32::NAN), 3);
        agree::<Bf16>(&mut rng, [1, rows, 17, 8_237], Bf16::narrow(f32::NAN), 3);
    }
    // Products of two vectors, and of one row with few columns: blocks of terms side by side.
    for sizes in [[1, 1, 1, 20_000], [1, 1, 3, 9_001], [1, 2, 1, 4_097]] {
        agree::<f32>(&mut rng, sizes, f32::NAN, 6);
        agree::<Bf16>(&mut rng, sizes, Bf16::narrow(f32::NAN), 3);
    }
}

#[test]
fn shared_factors_and_repeated_lines_are_read_in_place() {
    let (m, n, k) = (7, 19, 40);
    let mut rng = Lcg(10);
    let left: Vec<f32> = (0..k).map(|_| f32::any(&mut rng)).collect();
    let right: Vec<f32> = (0..n * k).map(|_| f32::any(&mut rng)).collect();
    let dense_left: Vec<f32> = (0..3 * m).flat_map(|_| left.iter().copied()).collect();
    let dense_right: Vec<f32> = (0..3).flat_map(|_| right.iter().copied()).collect();
    let want = defined::<f32>([3, m, n, k], &dense_left, &dense_right);
    for isa in engines() {
        let mut got = vec![f32::NAN; 3 * m * n];
        let contraction = Gemm {
            numbers: Numbers { dtype: DType::F32, free: false, bytes: None },
            batch: vec![3],
            products: 0..3,
            m,
            n,
            k,
            whole_m: m,
            left: Factor::Strided { first: left.as_ptr().cast(), batch: vec![0], line: 0, term: 1 },
            right: Factor::Strided { first: right.as_ptr().cast(), batch: vec![0], line: k as isize, term: 1 },
            finish: Finish::Store(got.as_mut_ptr().cast()),
        };
        run(&contraction, isa, &Threads::new(1, 0.0));
        assert_eq!(got, want, "{isa:?}");
    }
}

/// Blocks of the rows of a product, as fused products run them, the last one of few rows, with B in place or packed
/// before: the bits are those of the whole product.
#[test]
fn blocks_of_rows_have_the_bits_of_the_whole() {
    let mut rng = Lcg(14);
    for isa in engines() {
        for round in 0..40 {
            let (m, n) = ([33, 34, 65, 69][rng.below(4)], [2, 17, 70][rng.below(3)]);
            let k = [31, 64, 129, 600, 640][rng.below(5)];
            let left: Vec<Bf16> = (0..m * k).map(|_| Bf16::any(&mut rng)).collect();
            let right: Vec<Bf16> = (0..n * k).map(|_| Bf16::any(&mut rng)).collect();
            let (line, term) = [(k as isize, 1), (1, n as isize)][rng.below(2)];
            let numbers = Numbers { dtype: DType::BF16, free: true, bytes: None };
            let rows = |first: usize, count: usize, packed: Option<*const u8>| {
                let mut got = vec![Bf16(0); count * n];
                let product = Gemm {
                    numbers,
                    batch: vec![],
                    products: 0..1,
                    m: count,
                    n,
                    k,
                    whole_m: m,
                    left: Factor::Strided {
                        first: left[first * k..].as_ptr().cast(),
                        batch: vec![],
                        line: k as isize,
                        term: 1,
                    },
                    right: match packed {
                        Some(first) => Factor::Packed { first, n, k },
                        None => Factor::Strided { first: right.as_ptr().cast(), batch: vec![], line, term },
                    },
                    finish: Finish::Store(got.as_mut_ptr().cast()),
                };
                run(&product, isa, &Threads::new(1, 0.0));
                got.into_iter().map(|x| x.0).collect::<Vec<u16>>()
            };
            let whole = rows(0, m, None);
            let packing = Packing { numbers, n, k, isa };
            with_factors(packing.bytes(), |room| {
                let factor = Factor::Strided { first: right.as_ptr().cast(), batch: vec![], line, term };
                // SAFETY: there is space for the packed operand, which this thread writes.
                (0..packing.parts()).for_each(|part| unsafe { packing.pack(&factor, part, room) });
                for first in (0..m).step_by(32) {
                    let count = 32.min(m - first);
                    let want = &whole[first * n..][..count * n];
                    assert_eq!(rows(first, count, None), want, "{isa:?} {m} {n} {k}, rows from {first}, round {round}");
                    if count > 1 || packing.serves_rows() {
                        let got = rows(first, count, Some(room));
                        assert_eq!(got, want, "{isa:?} {m} {n} {k}, packed, rows from {first}, round {round}");
                    }
                }
            });
        }
    }
}

/// Bytes converted to i32, in any layout, with all signs and at both ends of their range.
#[test]
fn bytes_are_multiplied_as_they_lie_and_added_up_in_i32() {
    let mut rng = Lcg(12);
    for isa in engines().filter(|isa| isa.quads()) {
        for round in 0..300 {
            let large = round % 20 == 0;
            let k = [0, 1, 3, 4, 5, 63, 64, 67, 260, 1023, 1024, 1025, 2100][rng.below(13)];
            let (m, n) = if large { (130 + size(&mut rng), 260) } else { (size(&mut rng), size(&mut rng)) };
            let signs = [Signs::Signed, Signs::Unsigned][rng.below(2)];
            let mut bytes =
                |count: usize| (0..count).map(|_| [0u8, 0x80, 0x7f, 0xff][rng.below(4)] ^ rng.below(3) as u8).collect();
            let (left, right): (Vec<u8>, Vec<u8>) = (bytes(m * k), bytes(n * k));
            let lies = [0, 1].map(|_| [Lies::ByLines, Lies::ByTerms, Lies::Backwards][rng.below(3)]);
            let (l, r) = (lay(&left, [1, m, k], lies[0], 77), lay(&right, [1, n, k], lies[1], 77));
            let grid = |laid: &Laid<u8>, lines: usize, dtype: DType| Grid {
                dtype,
                first: vec![laid.memory[laid.first.min(laid.memory.len() - 1)..].as_ptr()],
                // Two dimensions that merge into one.
                lines: vec![(1, 0), (lines, laid.strides[1])],
                terms: vec![(k, laid.strides[2])],
                limits: vec![],
                outside: 0,
            };
            let right_dtype = if signs == Signs::Signed { DType::I8 } else { DType::U8 };
            let (left_grid, right_grid) = (grid(&l, m, DType::I8), grid(&r, n, right_dtype));
            let write = |_: Block, _: *mut u8, _: usize| unreachable!("bytes are packed from where they lie");
            let factor = |grid, terms_last| Factor::Computed { write: &write, terms_last, grid: Some(grid) };
            let mut got = vec![-1i32; m * n];
            let contraction = Gemm {
                numbers: Numbers { dtype: DType::I32, free: false, bytes: Some(signs) },
                batch: vec![],
                products: 0..1,
                m,
                n,
                k,
                whole_m: m,
                left: factor(&left_grid, true),
                right: factor(&right_grid, false),
                finish: Finish::Store(got.as_mut_ptr().cast()),
            };
            run(&contraction, isa, &Threads::new([1, 2][rng.below(2)], 0.0));
            let value = |byte: u8| if signs == Signs::Signed { byte as i8 as i32 } else { byte as i32 };
            for (at, got) in got.iter().enumerate() {
                let (x, y) = (&left[at / n * k..][..k], &right[at % n * k..][..k]);
                let want: i32 = x.iter().zip(y).map(|(x, y)| *x as i8 as i32 * value(*y)).sum();
                assert_eq!(*got, want, "element {at} of {m} {n} {k}, {signs:?}, {lies:?}");
            }
        }
    }
}

/// Factors and results that begin or end at a guard page.
#[cfg(all(unix, target_arch = "x86_64"))]
#[test]
fn nothing_outside_the_factors_is_touched() {
    fenced::<f32>(11);
    fenced::<Bf16>(12);
    fenced::<u8>(13);
}

#[cfg(all(unix, target_arch = "x86_64"))]
fn fenced<T: Element>(seed: u64) {
    use crate::emitter::tests::memory::Fenced;
    let mut rng = Lcg(seed);
    let size = size_of::<T>();
    for round in 0..400 {
        let (m, n, k) = (1 + rng.below(20), 1 + rng.below(40), [1, 3, 8, 33, 257][rng.below(5)]);
        let at_end = round % 2 == 0;
        let mut of = |elements: usize| {
            let mut fenced = Fenced::new(elements * size, at_end);
            for element in fenced.bytes().chunks_exact_mut(size) {
                // SAFETY: the chunk has space for one element.
                unsafe { element.as_mut_ptr().cast::<T>().write_unaligned(T::any(&mut rng)) };
            }
            fenced
        };
        let (mut left, mut right, mut to) = (of(m * k), of(n * k), of(m * n));
        let turned = [rng.below(2) == 0, rng.below(2) == 0];
        let factor = |fenced: &Fenced, lines: usize, by_lines: bool| {
            let (line, term) = if by_lines { (k as isize, 1) } else { (1, lines as isize) };
            Factor::Strided { first: fenced.address() as *const u8, batch: vec![], line, term }
        };
        for isa in engines() {
            let contraction = Gemm {
                numbers: Numbers { dtype: T::DTYPE, free: round % 4 < 2, bytes: None },
                batch: vec![],
                products: 0..1,
                m,
                n,
                k,
                whole_m: m,
                left: factor(&left, m, turned[0]),
                right: factor(&right, n, turned[1]),
                finish: Finish::Store(to.address() as *mut u8),
            };
            run(&contraction, isa, &Threads::new(1, 0.0));
            assert!(left.clean() && right.clean() && to.clean(), "{m} {n} {k} {turned:?} {isa:?}");
        }
    }
}
