//! u16 and u64 on every CPU engine, by the interpreter, fused and unfused, and in the public API.

mod cases;
#[path = "../counting/mod.rs"]
mod counting;
#[path = "../front/golden.rs"]
mod golden;

use counting::pinned;
use thalweg::prelude::*;
use thalweg::{CpuEngine, CpuOptions, Scalar, set_default_device, with_fusion};

fn everything(engine: &str) {
    cases::wide_operations().check(engine);
    cases::short_operations().check(engine);
    cases::wide_rows().check(engine);
    cases::short_rows().check(engine);
    cases::conversions().check(engine);
    cases::bits().check(engine);
}

/// The message of a panic.
fn refused<R>(f: impl Fn() -> R) -> String {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(f()))).unwrap_err();
    caught.downcast_ref::<String>().expect("a message").clone()
}

#[test]
fn bits_that_are_no_elements_are_refused() {
    let x = Tensor::new([[1u16, 2, 3], [4, 5, 6]]);
    assert_eq!(
        refused(|| x.bitcast(DType::F32)),
        "bitcast: u16 to f32: the last axis of shape [2, 3] has 3 elements, which are no multiple of the 2 that become one"
    );
    assert!(refused(|| x.bitcast(DType::Bool)).starts_with("bitcast: u16 to bool: a bool is a byte of 0 or 1"));
    assert!(refused(|| Tensor::new([true]).bitcast(DType::U8)).starts_with("bitcast: bool to u8"));
    assert_eq!(
        refused(|| Tensor::new(1.0f32).bitcast(DType::U8)),
        "bitcast: f32 to u8: another width takes a last axis, which shape [] has not"
    );
    let w = Tensor::new([1.0f32]).tracked();
    assert_eq!(
        refused(|| w.bitcast(DType::U32)),
        "bitcast: f32 to u32: bits have no derivative, and the tensor is tracked; .detach() it"
    );
    assert_eq!(w.detach().bitcast(DType::U32).to_vec::<u32>().unwrap(), [0x3f80_0000]);
    assert_eq!(Tensor::new(1.0f32).bitcast(DType::I32).item::<i32>().unwrap(), 0x3f80_0000);
    assert_eq!(Tensor::zeros_with([3, 0], DType::F32).bitcast(DType::F64).dims(), [3, 0]);
    assert_eq!(Tensor::zeros_with([0, 2], DType::F32).bitcast(DType::U8).dims(), [0, 8]);
}

/// A bitcast stores nothing: a computed value, its bits and functions of them are one kernel.
#[test]
fn bits_fuse() {
    let _pinned = pinned();
    let x = Tensor::new([[1.0f32, -2.0, 0.5, 3.0]; 8]);
    thalweg::synchronize().unwrap();
    let before = thalweg::counters();
    let y = ((&x * 2.0).bitcast(DType::U32) ^ (1u32 << 31)).bitcast(DType::F32) + 1.0;
    assert_eq!(y.to_vec::<f32>().unwrap()[..4], [-1.0, 5.0, 0.0, -5.0]);
    let c = thalweg::counters() - before;
    assert_eq!((c.kernels, c.bytes_read, c.bytes_written), (1, 128, 128));
}

#[test]
fn every_engine_computes_what_rust_does() {
    // A cold start would use the tile engine for all.
    let _pinned = pinned();
    for isa in CpuEngine::all() {
        let own = Device::new_cpu(CpuOptions { threads: 2, parallel_ns: 30_000.0, isa });
        let before = set_default_device(Some(own));
        everything(&format!("{isa:?}"));
        with_fusion(false, || everything(&format!("{isa:?}, one operation a kernel")));
        set_default_device(before);
    }
}

#[test]
fn the_interpreter_computes_what_rust_does() {
    let _pinned = pinned();
    thalweg_stream::set_mode(thalweg_stream::Mode { reference: true, ..thalweg_stream::mode() });
    everything("the interpreter");
}

#[test]
fn numbers_are_taken_whole_or_refused() {
    let x = Tensor::new([1u64, u64::MAX]);
    assert_eq!((&x + u64::MAX).to_vec::<u64>().unwrap(), [0, u64::MAX - 1]);
    assert_eq!((&x - Scalar::from(u64::MAX)).to_vec::<u64>().unwrap(), [2, 0]);
    assert_eq!(x.eq(u64::MAX).to_vec::<bool>().unwrap(), [false, true]);
    assert_eq!(x.eq(1).where_(u64::MAX, 0).to_vec::<u64>().unwrap(), [u64::MAX, 0]);
    assert_eq!(
        Tensor::arange_with(u64::MAX - 2..u64::MAX, DType::U64).to_vec::<u64>().unwrap(),
        [u64::MAX - 2, u64::MAX - 1]
    );
    let signed = Tensor::new([1i64]);
    assert_eq!(
        refused(|| &signed + u64::MAX),
        "add: 18446744073709551615 does not fit i64; .cast(..) the tensor first"
    );
    assert_eq!(refused(|| &x + -1), "add: -1 does not fit u64; .cast(..) the tensor first");
    assert_eq!(refused(|| Tensor::new([1u16]) + 65_536), "add: 65536 does not fit u16; .cast(..) the tensor first");
    assert_eq!(
        refused(|| &x + &signed),
        "add: dtypes u64 and i64 differ; convert one with .cast(DType::U64) or .cast(DType::I64)"
    );
}

#[test]
fn they_are_printed_stored_and_drawn() {
    let x = Tensor::new([[0u64, u64::MAX], [1 << 63, 7]]);
    assert_eq!(
        format!("{x}"),
        "[[                   0 18446744073709551615]\n [ 9223372036854775808                    7]]"
    );
    assert_eq!(format!("{:?}", Tensor::new([1u16, 65_535])), "[    1 65535] (u16 [2])");
    for x in [x, Tensor::new([[1u16, 65_535]])] {
        let bytes = x.to_npy_bytes().unwrap();
        let code = if x.dtype() == DType::U16 { "<u2" } else { "<u8" };
        assert!(String::from_utf8_lossy(&bytes[..64]).contains(code));
        let back = Tensor::from_npy_bytes(&bytes).unwrap();
        assert_eq!((back.dtype(), back.dims()), (x.dtype(), x.dims()));
        assert_eq!(back.to_f64_vec().unwrap(), x.to_f64_vec().unwrap());
    }
    assert_eq!(Tensor::new(u64::MAX).item::<u64>().unwrap(), u64::MAX);
    assert_eq!(Tensor::new([u64::MAX]).to_f64_vec().unwrap(), [18_446_744_073_709_551_616.0]);
    for dtype in [DType::U16, DType::U64] {
        let drawn = Tensor::randint_with(3..40_000, [1000], dtype);
        assert_eq!(drawn.dtype(), dtype);
        let values = drawn.to_f64_vec().unwrap();
        assert!(values.iter().all(|v| (3.0..40_000.0).contains(v)) && values.iter().any(|v| *v > 35_000.0));
        assert_eq!(dtype.int_range().0, 0);
    }
}

#[test]
fn bits_are_counted() {
    let x = Tensor::new([0u64, 1, 1 << 63, u64::MAX]);
    assert_eq!(x.bit_count().to_vec::<u64>().unwrap(), [0, 1, 1, 64]);
    assert_eq!(x.leading_zeros().to_vec::<u64>().unwrap(), [64, 63, 0, 0]);
    assert_eq!(x.trailing_zeros().to_vec::<u64>().unwrap(), [64, 0, 63, 0]);
    let x = Tensor::new([0u16, 1, 1 << 15, u16::MAX]);
    assert_eq!(x.bit_count().to_vec::<u16>().unwrap(), [0, 1, 1, 16]);
    assert_eq!(x.leading_zeros().to_vec::<u16>().unwrap(), [16, 15, 0, 0]);
}

#[test]
fn sets_and_places() {
    let x = Tensor::new([u64::MAX, 3, 1 << 63, 3]);
    let (values, counts) = x.unique_counts().unwrap();
    assert_eq!(
        (values.to_vec::<u64>().unwrap(), counts.to_vec::<i64>().unwrap()),
        (vec![3, 1 << 63, u64::MAX], vec![2, 1, 1])
    );
    assert_eq!(values.searchsorted(&x, false).to_vec::<i64>().unwrap(), [2, 0, 1, 0]);
    let far = Tensor::new([1u16, 2]).gather(0, &Tensor::new([u64::MAX]));
    let message = far.to_vec::<u16>().unwrap_err().to_string();
    assert!(message.contains("out of range"), "{message}");
}

/// The cases of `bench/golden_array.py`.
#[test]
fn numpy_computes_the_same() {
    let mut g = golden::Golden::load(include_str!("golden.txt"));
    let f = |x: &Tensor| x.cast(DType::F64);
    // NumPy's 64-bit results are stored in halves.
    let check = |g: &mut golden::Golden, name: &str, x: Tensor, halves: bool| {
        if !halves {
            return g.check(name, &f(&x));
        }
        let x = x.cast(DType::U64);
        g.check(&format!("{name}_high"), &f(&(&x >> 32)));
        g.check(&format!("{name}_low"), &f(&(x & 0xFFFF_FFFFu32)));
    };
    for (name, dtype) in [("uint16", DType::U16), ("uint64", DType::U64)] {
        let wide = dtype == DType::U64;
        let v = match wide {
            true => (g.take("uint64_at_high").cast(dtype) << 32) | g.take("uint64_at_low").cast(dtype),
            false => g.take("uint16_at").cast(dtype),
        };
        let (a, b) = (v.unsqueeze(1), v.unsqueeze(0));
        let rest = b.slice((.., 1..));
        let turned = v.roll(5, 0);
        let own = [
            ("add", &a + &b),
            ("subtract", &a - &b),
            ("multiply", &a * &b),
            ("power", a.pow(&b)),
            ("minimum", a.minimum(&b)),
            ("maximum", a.maximum(&b)),
            ("bitwise_and", &a & &b),
            ("bitwise_or", &a | &b),
            ("bitwise_xor", &a ^ &b),
            ("left_shift", &a << &b),
            ("right_shift", &a >> &b),
            ("floor_divide", a.floor_div(&rest)),
            ("remainder", &a % &rest),
            ("negative", -&turned),
            ("invert", !&turned),
            ("square", turned.square()),
            ("sign", turned.sign()),
            ("absolute", turned.abs()),
            ("sort", turned.sort(0, false)),
            ("max", turned.amax(..)),
            ("min", turned.amin(..)),
            ("matmul", (&a * &b).matmul(&(&a ^ &b))),
        ];
        own.into_iter().for_each(|(op, x)| check(&mut g, &format!("{name}_{op}"), x, wide));
        let small =
            [("less", a.lt(&b)), ("less_equal", a.le(&b)), ("equal", a.eq(&b)), ("bitwise_count", turned.bit_count())];
        small.into_iter().for_each(|(op, x)| check(&mut g, &format!("{name}_{op}"), x, false));
        let long = [
            ("argsort", turned.argsort(0, false)),
            ("argmax", turned.argmax(..)),
            ("argmin", turned.argmin(..)),
            ("sum", turned.sum(..)),
            ("prod", turned.prod(..)),
            ("cumsum", turned.cumsum(0)),
            ("cumprod", turned.cumprod(0)),
        ];
        long.into_iter().for_each(|(op, x)| check(&mut g, &format!("{name}_{op}"), x, true));
        let all = [
            ("int8", DType::I8),
            ("uint8", DType::U8),
            ("int16", DType::I16),
            ("uint16", DType::U16),
            ("int32", DType::I32),
            ("uint32", DType::U32),
            ("int64", DType::I64),
            ("uint64", DType::U64),
            ("float32", DType::F32),
            ("float64", DType::F64),
            ("bool", DType::Bool),
        ];
        for (of, to) in all {
            check(&mut g, &format!("{name}_to_{of}"), v.cast(to), matches!(to, DType::I64 | DType::U64));
        }
        for (of, from) in [("int8", DType::I8), ("int16", DType::I16), ("int32", DType::I32), ("int64", DType::I64)] {
            let (least, most) = Scalar::int_bounds(from);
            let ends = Tensor::cat(&[least, most].map(|v| Tensor::full_with([1], v, from)), 0);
            let some = Tensor::cat(&[Tensor::new([-1, -100, 0, 1]).cast(from), ends], 0);
            check(&mut g, &format!("{name}_of_{of}"), some.cast(dtype), wide);
        }
    }
    assert_eq!(g.left(), Vec::<&str>::new());
}
