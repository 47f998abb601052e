//! u16 and u64 at the ends of their range, through every kind of operation, against Rust's own integers.
//!
//! In: the default device. Everything is recorded before anything is read, so that the results are those of fused
//! kernels.

use thalweg::prelude::*;

/// Expected elements of a result.
pub enum Want {
    U16(Vec<u16>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    Bool(Vec<bool>),
    F64(Vec<f64>),
    Bytes(Vec<u8>),
}

/// Recorded results, with their expected values.
#[derive(Default)]
pub struct Results(Vec<(String, Tensor, Want)>);

macro_rules! wants {
    ($($t:ty => $variant:ident),*) => {$(
        impl From<Vec<$t>> for Want {
            fn from(v: Vec<$t>) -> Want { Want::$variant(v) }
        }
    )*};
}
wants!(u16 => U16, u64 => U64, i64 => I64, bool => Bool, f64 => F64, u8 => Bytes);

impl Results {
    fn put(&mut self, name: impl Into<String>, x: Tensor, want: impl Into<Want>) {
        self.0.push((name.into(), x, want.into()));
    }

    /// Reads and compares all recorded results.
    pub fn check(self, engine: &str) {
        for (name, x, want) in self.0 {
            let name = format!("{name} on {engine}");
            match want {
                Want::U16(v) => assert_eq!(x.to_vec::<u16>().unwrap(), v, "{name}"),
                Want::U64(v) => assert_eq!(x.to_vec::<u64>().unwrap(), v, "{name}"),
                Want::I64(v) => assert_eq!(x.to_vec::<i64>().unwrap(), v, "{name}"),
                Want::Bool(v) => assert_eq!(x.to_vec::<bool>().unwrap(), v, "{name}"),
                Want::F64(v) => assert_eq!(x.to_vec::<f64>().unwrap(), v, "{name}"),
                Want::Bytes(v) => assert_eq!(x.to_npy_bytes().unwrap()[128..], v, "{name}"),
            }
        }
    }
}

/// 0, 1, the ends and the middle, valid shifts and ones just too large, numbers that a float cannot represent.
const WIDE: [u64; 26] = [
    0,
    1,
    2,
    3,
    7,
    10,
    31,
    32,
    63,
    64,
    65,
    255,
    65_535,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 53) + 1,
    i64::MAX as u64 - 1,
    i64::MAX as u64,
    1 << 63,
    (1 << 63) + 1,
    (1 << 63) + 1025,
    u64::MAX - 1024,
    u64::MAX - 1,
    u64::MAX,
];
const SHORT: [u16; 18] = [0, 1, 2, 3, 7, 10, 15, 16, 17, 31, 32, 255, 256, 32_767, 32_768, 32_769, 65_534, 65_535];

macro_rules! operations {
    ($name:ident, $t:ident, $edges:ident) => {
        /// Elementwise operations on all pairs of edge values, and on each with a number.
        pub fn $name() -> Results {
            let mut r = Results::default();
            let n = $edges.len();
            let all: Vec<($t, $t)> = $edges.iter().flat_map(|&a| $edges.iter().map(move |&b| (a, b))).collect();
            // A column and a row, and whole matrices: broadcast, and of equal shape.
            let (x, y) = (Tensor::new($edges).unsqueeze(1), Tensor::new($edges));
            let (a, b): (Vec<$t>, Vec<$t>) = all.iter().copied().unzip();
            let (a, b) = (Tensor::from_slice(&a, [n, n]), Tensor::from_slice(&b, [n, n]));
            for (how, x, y) in [("broadcast", &x, &y), ("dense", &a, &b)] {
                let mut each = |name: &str, z: Tensor, f: fn($t, $t) -> $t| {
                    r.put(format!("{name} {how}"), z, all.iter().map(|&(a, b)| f(a, b)).collect::<Vec<_>>());
                };
                each("add", x + y, |a, b| a.wrapping_add(b));
                each("sub", x - y, |a, b| a.wrapping_sub(b));
                each("mul", x * y, |a, b| a.wrapping_mul(b));
                each("div", x / y, |a, b| a.checked_div(b).unwrap_or(0));
                each("floor_div", x.floor_div(y), |a, b| a.checked_div(b).unwrap_or(0));
                each("rem", x % y, |a, b| a.checked_rem(b).unwrap_or(0));
                each("pow", x.pow(y), |a, b| {
                    let (mut out, mut base, mut e) = (1 as $t, a, b);
                    while e > 0 {
                        if e & 1 == 1 {
                            out = out.wrapping_mul(base);
                        }
                        base = base.wrapping_mul(base);
                        e >>= 1;
                    }
                    out
                });
                each("minimum", x.minimum(y), |a, b| a.min(b));
                each("maximum", x.maximum(y), |a, b| a.max(b));
                each("and", x & y, |a, b| a & b);
                each("or", x | y, |a, b| a | b);
                each("xor", x ^ y, |a, b| a ^ b);
                each("shl", x << y, |a, b| if (b as u64) < $t::BITS as u64 { a << b } else { 0 });
                each("shr", x >> y, |a, b| if (b as u64) < $t::BITS as u64 { a >> b } else { 0 });
                each("where", x.lt(y).where_(x, y), |a, b| if a < b { a } else { b });
                each("clamp", x.clamp(y, $t::MAX / 2 + 1), |a, b| a.max(b).min($t::MAX / 2 + 1));
                each("square", x.square() + y - y, |a, _| a.wrapping_mul(a));
                each("neg", (-x) + y - y, |a, _| a.wrapping_neg());
                each("not", !x ^ y ^ y, |a, _| !a);
                each("abs", x.abs() + y - y, |a, _| a);
                each("sign", x.sign() + y - y, |a, _| a.min(1));
                each("relu", x.relu() + y - y, |a, _| a);
                let mut which = |name: &str, z: Tensor, f: fn($t, $t) -> bool| {
                    r.put(format!("{name} {how}"), z, all.iter().map(|&(a, b)| f(a, b)).collect::<Vec<_>>());
                };
                which("eq", x.eq(y), |a, b| a == b);
                which("ne", x.ne(y), |a, b| a != b);
                which("lt", x.lt(y), |a, b| a < b);
                which("le", x.le(y), |a, b| a <= b);
                which("gt", x.gt(y), |a, b| a > b);
                which("ge", x.ge(y), |a, b| a >= b);
            }
            for s in [1, $t::MAX / 2, $t::MAX / 2 + 1, $t::MAX - 1, $t::MAX] {
                let x = Tensor::new($edges);
                let each = |f: &dyn Fn($t) -> $t| $edges.map(f).to_vec();
                r.put(format!("add {s}"), &x + s, each(&|a| a.wrapping_add(s)));
                r.put(format!("mul {s}"), &x * s, each(&|a| a.wrapping_mul(s)));
                r.put(format!("div {s}"), &x / s, each(&|a| a / s));
                r.put(format!("rem {s}"), &x % s, each(&|a| a % s));
                r.put(format!("minimum {s}"), x.minimum(s), each(&|a| a.min(s)));
                r.put(format!("gt {s}"), x.gt(s), $edges.map(|a| a > s).to_vec());
                r.put(format!("full {s}"), Tensor::full_with([3], s, <$t as thalweg::Element>::DTYPE), vec![s; 3]);
                r.put(format!("pad {s}"), Tensor::new([s, 0]).pad([(1, 0)], s), vec![s, s, 0]);
            }
            r
        }
    };
}
operations!(wide_operations, u64, WIDE);
operations!(short_operations, u16, SHORT);

macro_rules! rows {
    ($name:ident, $t:ident, $edges:ident, $wide:ty) => {
        /// Operations along an axis: folds, scans, sorts, gathers, scatters, products.
        pub fn $name() -> Results {
            let mut r = Results::default();
            let dtype = <$t as thalweg::Element>::DTYPE;
            // Rows of the edge values, rotated, longer than a vector and no multiple of one.
            let (rows, n) = (5usize, 41usize);
            let at = |i: usize, j: usize| $edges[(7 * i + 5 * j) % $edges.len()];
            let data: Vec<$t> = (0..rows * n).map(|p| at(p / n, p % n)).collect();
            let x = Tensor::from_slice(&data, [rows, n]);
            let lines: Vec<Vec<$t>> = (0..rows).map(|i| (0..n).map(|j| at(i, j)).collect()).collect();
            let columns: Vec<Vec<$t>> = (0..n).map(|j| (0..rows).map(|i| at(i, j)).collect()).collect();
            for (axis, of) in [(1usize, &lines), (0, &columns)] {
                let wide = |f: fn($wide, $wide) -> $wide, one: $wide| {
                    of.iter().map(|l| l.iter().fold(one, |a, &b| f(a, b as $wide))).collect::<Vec<$wide>>()
                };
                r.put(format!("sum {axis}"), x.sum(axis), wide(<$wide>::wrapping_add, 0));
                r.put(format!("prod {axis}"), x.prod(axis), wide(<$wide>::wrapping_mul, 1));
                let own = |f: fn(&[$t]) -> $t| of.iter().map(|l| f(l)).collect::<Vec<$t>>();
                r.put(format!("amax {axis}"), x.amax(axis), own(|l| *l.iter().max().unwrap()));
                r.put(format!("amin {axis}"), x.amin(axis), own(|l| *l.iter().min().unwrap()));
                let place = |best: fn(&[$t]) -> $t| {
                    of.iter().map(|l| l.iter().position(|v| *v == best(l)).unwrap() as i64).collect::<Vec<i64>>()
                };
                r.put(format!("argmax {axis}"), x.argmax(axis), place(|l| *l.iter().max().unwrap()));
                r.put(format!("argmin {axis}"), x.argmin(axis), place(|l| *l.iter().min().unwrap()));
            }
            let along = |f: &dyn Fn(&[$t]) -> Vec<$t>| lines.iter().flat_map(|l| f(l)).collect::<Vec<$t>>();
            let scan = |f: fn($wide, $wide) -> $wide, one: $wide| {
                lines
                    .iter()
                    .flat_map(|l| {
                        l.iter().scan(one, |s, &v| {
                            *s = f(*s, v as $wide);
                            Some(*s)
                        })
                    })
                    .collect::<Vec<$wide>>()
            };
            r.put("cumsum", x.cumsum(1), scan(<$wide>::wrapping_add, 0));
            r.put("cumprod", x.cumprod(1), scan(<$wide>::wrapping_mul, 1));
            let running = |f: fn($t, $t) -> $t| {
                along(&|l: &[$t]| (0..l.len()).map(|i| l[..=i].iter().copied().reduce(f).unwrap()).collect())
            };
            r.put("cummax", x.cummax(1), running(|a, b| a.max(b)));
            r.put("cummin", x.cummin(1), running(|a, b| a.min(b)));
            let sorted = |descending: bool| {
                along(&|l: &[$t]| {
                    let mut l = l.to_vec();
                    l.sort_unstable();
                    if descending {
                        l.reverse();
                    }
                    l
                })
            };
            r.put("sort", x.sort(1, false), sorted(false));
            r.put("sort descending", x.sort(1, true), sorted(true));
            let order: Vec<i64> = lines
                .iter()
                .flat_map(|l| {
                    let mut places: Vec<usize> = (0..l.len()).collect();
                    places.sort_by_key(|&i| l[i]);
                    places.into_iter().map(|p| p as i64)
                })
                .collect();
            r.put("argsort", x.argsort(1, false), order);
            let (most, _) = x.topk(2, 1, true);
            r.put(
                "topk",
                most,
                along(&|l: &[$t]| {
                    let mut l = l.to_vec();
                    l.sort_unstable();
                    vec![l[l.len() - 1], l[l.len() - 2]]
                }),
            );
            // The index has the tested dtype, too.
            let index: Vec<$t> = (0..rows * n).map(|p| (p * 13 % n) as $t).collect();
            let index = Tensor::from_slice(&index, [rows, n]);
            let gathered: Vec<$t> = (0..rows * n).map(|p| at(p / n, p * 13 % n)).collect();
            r.put("gather", x.gather(1, &index), gathered);
            let few: Vec<i64> = (0..rows * n).map(|p| (p % 3) as i64).collect();
            let few = Tensor::from_slice(&few, [rows, n]);
            let start = Tensor::zeros_with([rows, n], dtype);
            let scattered = |f: fn($t, $t) -> $t| {
                let mut out = vec![0 as $t; rows * n];
                for p in 0..rows * n {
                    let to = p / n * n + p % 3;
                    out[to] = f(out[to], at(p / n, p % n));
                }
                out
            };
            r.put("scatter_add", start.scatter_add(1, &few, &x), scattered(<$t>::wrapping_add));
            r.put(
                "scatter_max",
                start.scatter_reduce(1, &few, &x, thalweg::ScatterOp::Max),
                scattered(|a, b| a.max(b)),
            );
            let ones = Tensor::full_with([rows, n], <$t>::MAX, dtype);
            let mut least = vec![<$t>::MAX; rows * n];
            for p in 0..rows * n {
                let to = p / n * n + p % 3;
                least[to] = least[to].min(at(p / n, p % n));
            }
            r.put("scatter_min", ones.scatter_reduce(1, &few, &x, thalweg::ScatterOp::Min), least);
            let product: Vec<$t> = (0..rows * rows)
                .map(|p| (0..n).fold(0 as $t, |s, q| s.wrapping_add(at(p / rows, q).wrapping_mul(at(p % rows, q)))))
                .collect();
            r.put("matmul", x.matmul(&x.transpose(0, 1)), product);
            r.put("softened", (x.amax_keepdim(1) - &x).amin(1), vec![0 as $t; rows]);
            r
        }
    };
}
rows!(wide_rows, u64, WIDE, u64);
rows!(short_rows, u16, SHORT, i64);

macro_rules! to_each {
    ($r:ident, $from:literal, $x:ident, $values:expr; $($to:ident $t:ty),*) => {$(
        let bytes: Vec<u8> = $values.iter().flat_map(|&v| (v as $t).to_le_bytes()).collect();
        $r.put(concat!($from, " to ", stringify!($to)), $x.cast(DType::$to), bytes);
    )*};
}

macro_rules! from_each {
    ($r:ident, $to:ident $own:ident, $wanted:ident; $($from:ident $t:ty: $values:expr),*) => {$(
        let values: Vec<$t> = $values.to_vec();
        let x = Tensor::from_slice(&values, [values.len()]);
        $r.put(concat!(stringify!($from), " to ", stringify!($own)), x.cast(DType::$to), values.iter().map(|&v| v as $own).collect::<Vec<$own>>());
    )*};
}

/// Conversions to and from every dtype, as Rust's `as`.
pub fn conversions() -> Results {
    let mut r = Results::default();
    let (x, y) = (Tensor::new(WIDE), Tensor::new(SHORT));
    to_each!(r, "u64", x, WIDE; F32 f32, F64 f64, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64);
    to_each!(r, "u16", y, SHORT; F32 f32, F64 f64, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64);
    r.put("u64 to bool", x.cast(DType::Bool), WIDE.map(|v| v != 0).to_vec());
    r.put("u16 to bool", y.cast(DType::Bool), SHORT.map(|v| v != 0).to_vec());
    for narrow in [DType::BF16, DType::F16] {
        // Rounded through f64, as every integer is.
        let rounded = |v: f64| narrow.round(v);
        r.put(format!("u64 to {narrow}"), x.cast(narrow).cast(DType::F64), WIDE.map(|v| rounded(v as f64)).to_vec());
        r.put(format!("u16 to {narrow}"), y.cast(narrow).cast(DType::F64), SHORT.map(|v| rounded(v as f64)).to_vec());
    }
    let floats = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        -1.0,
        1.5,
        65_535.0,
        65_535.5,
        65_536.0,
        4_294_967_296.0,
        9_223_372_036_854_775_808.0,
        18_446_744_073_709_549_568.0,
        18_446_744_073_709_551_616.0,
        1e30,
        -1e30,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let single = floats.map(|v| v as f32);
    from_each!(r, U64 u64, WIDE; F64 f64: floats, F32 f32: single, I8 i8: [-128, -1, 0, 127], I16 i16: [i16::MIN, -1, 5],
        I32 i32: [i32::MIN, -1, 0, i32::MAX], I64 i64: [i64::MIN, -1, 0, i64::MAX], U8 u8: [0, 255], U16 u16: SHORT,
        U32 u32: [0, 1 << 31, u32::MAX], U64 u64: WIDE);
    from_each!(r, U16 u16, SHORT; F64 f64: floats, F32 f32: single, I8 i8: [-128, -1, 0, 127], I16 i16: [i16::MIN, -1, 5],
        I32 i32: [i32::MIN, -1, 0, 65_536, i32::MAX], I64 i64: [i64::MIN, -1, 0, i64::MAX], U8 u8: [0, 255],
        U16 u16: SHORT, U32 u32: [0, 1 << 31, u32::MAX], U64 u64: WIDE);
    let truths = Tensor::new([true, false]);
    r.put("bool to u64", truths.cast(DType::U64), vec![1u64, 0]);
    r.put("bool to u16", truths.cast(DType::U16), vec![1u16, 0]);
    r
}

macro_rules! bits_of {
    ($r:ident, $from:ident $t:ty: $values:expr; $($to:ident $u:ty),*) => {$(
        let values: Vec<$t> = $values.clone();
        let (x, bytes): (Tensor, Vec<u8>) =
            (Tensor::from_slice(&values, [values.len()]), values.iter().flat_map(|v| v.to_le_bytes()).collect());
        $r.put(concat!("bits of ", stringify!($from), " as ", stringify!($to)), x.bitcast(DType::$to), bytes.clone());
        // There and back, with an operation in between that keeps the bits.
        let back = x.bitcast(DType::$to).reshape([-1]).bitcast(DType::$from);
        $r.put(concat!(stringify!($from), " through ", stringify!($to)), back, bytes);
        let _: Option<$u> = None;
    )*};
}

/// Bits as every dtype of every width that divides the elements, including all kinds of NaN where every bit is kept.
pub fn bits() -> Results {
    let mut r = Results::default();
    let u16s: Vec<u16> = (0..64)
        .map(|i| (i * 1021) as u16)
        .chain([0x7f80, 0xff80, 0x7c00, 0xfc00, 0x8000, 0x3c01, 0x7fc1, 0xffff])
        .collect();
    let u32s: Vec<u32> = (0..64u32)
        .map(|i| i.wrapping_mul(0x9e37_79b9))
        .chain([0x7f80_0001, 0xffc0_0001, 1 << 31, 0x7f80_0000, 1, 2, 3, 4])
        .collect();
    let u64s: Vec<u64> = (0..64u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .chain([0x7ff0_0000_0000_0001, u64::MAX, 1 << 63, 0, 1, 2, 3, 4])
        .collect();
    // The NaN of narrow floats are quiet.
    let quiet = |v: &u16| if v & 0x7f80 == 0x7f80 || v & 0x7c00 == 0x7c00 { v & 0x3bff } else { *v };
    let plain: Vec<u16> = u16s.iter().map(quiet).collect();
    let halves: Vec<u32> = plain.chunks(2).map(|p| p[0] as u32 | (p[1] as u32) << 16).collect();
    let bytes: Vec<u8> = (0..=255).collect();
    bits_of!(r, U8 u8: bytes; I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, U64 u64, I64 i64, F32 f32, F64 f64);
    bits_of!(r, U16 u16: u16s; U8 u8, I8 i8, I16 i16, U32 u32, I32 i32, U64 u64, I64 i64, F32 f32, F64 f64);
    bits_of!(r, U16 u16: plain; BF16 u16, F16 u16);
    bits_of!(r, I16 u16: plain; BF16 u16, F16 u16, U16 u16);
    bits_of!(r, U32 u32: u32s; U8 u8, I8 i8, I16 i16, U16 u16, I32 i32, U64 u64, I64 i64, F32 f32, F64 f64);
    bits_of!(r, U32 u32: halves; BF16 u16, F16 u16);
    bits_of!(r, U64 u64: u64s; U8 u8, I8 i8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, F32 f32, F64 f64);
    bits_of!(r, I8 u8: bytes; U8 u8, I16 u16, F32 u32, F64 u64);
    let floats: Vec<f32> = u32s.iter().map(|b| f32::from_bits(*b)).collect();
    bits_of!(r, F32 f32: floats; U8 u8, U16 u16, I32 i32, U32 u32, I64 i64, F64 f64);
    let floats: Vec<f64> = u64s.iter().map(|b| f64::from_bits(*b)).collect();
    bits_of!(r, F64 f64: floats; U8 u8, U16 u16, I32 i32, U64 u64, I64 i64, F32 f32);
    // Of views and of computed values, in more dimensions.
    let x = Tensor::from_slice(&u32s, [9, 8]);
    let turned: Vec<u16> =
        (0..8).flat_map(|c| u32s.chunks(8).map(move |l| l[c])).flat_map(|v| [v as u16, (v >> 16) as u16]).collect();
    r.put("bits of a transpose", x.transpose(0, 1).bitcast(DType::U16), turned);
    let pairs: Vec<u64> = u32s.chunks(2).map(|p| p[1] as u64 | (p[0] as u64) << 32).collect();
    r.put(
        "bits of a flip",
        x.flip(1).bitcast(DType::U64),
        pairs.chunks(4).flat_map(|l| l.iter().rev().copied()).collect::<Vec<_>>(),
    );
    let y = Tensor::new([[1.5f32, -2.0], [0.25, 8.0]]);
    let exponent = ((&y * 2.0).bitcast(DType::I32) >> 23 & 0xff) - 127;
    r.put("an exponent", exponent.cast(DType::I64), vec![1i64, 2, -1, 4]);
    r
}
