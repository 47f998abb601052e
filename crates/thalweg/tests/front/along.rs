//! Operations along an axis or by an index: scans, sorts, gathers, scatters, and compositions of them, against simple
//! loops.

use thalweg::prelude::*;

fn f32s(x: &Tensor) -> Vec<f32> {
    x.to_vec().unwrap()
}

fn i64s(x: &Tensor) -> Vec<i64> {
    x.to_vec().unwrap()
}

/// Asserts equal bits, with all NaN equal.
#[track_caller]
fn same(got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{got:?}, not {want:?}");
    for (g, w) in got.iter().zip(want) {
        assert!(g.to_bits() == w.to_bits() || g.is_nan() && w.is_nan(), "{got:?}, not {want:?}");
    }
}

/// Random elements of a shape, many of them equal.
fn some(shape: [usize; 3]) -> (Tensor, Vec<f32>) {
    let x = (Tensor::randint(-40..40, shape).cast(DType::F32)) * 0.25;
    let v = f32s(&x);
    (x, v)
}

/// Flat indices of the rows along an axis of a tensor of rank 3.
fn rows(shape: [usize; 3], axis: usize) -> Vec<Vec<usize>> {
    let strides = [shape[1] * shape[2], shape[2], 1];
    (0..shape.iter().product::<usize>())
        .filter(|p| (p / strides[axis]).is_multiple_of(shape[axis]))
        .map(|p| (0..shape[axis]).map(|i| p + i * strides[axis]).collect())
        .collect()
}

#[test]
fn scans_are_loops() {
    let shape = [5, 7, 6];
    let (x, v) = some(shape);
    for axis in 0..3 {
        let scan = |f: fn(f64, f64) -> f64, start: f64, reverse: bool| {
            let mut out = vec![0f32; v.len()];
            for mut row in rows(shape, axis) {
                if reverse {
                    row.reverse();
                }
                let mut state = start;
                for p in row {
                    state = f(state, v[p] as f64);
                    out[p] = state as f32;
                }
            }
            out
        };
        same(&f32s(&x.cumsum(axis)), &scan(|a, b| a + b, -0.0, false));
        same(&f32s(&x.cumsum_reverse(axis)), &scan(|a, b| a + b, -0.0, true));
        same(&f32s(&x.cumprod(axis)), &scan(|a, b| a * b, 1.0, false));
        same(&f32s(&x.cummax_reverse(axis)), &scan(f64::max, f64::NEG_INFINITY, true));
        same(&f32s(&x.cummin(axis)), &scan(f64::min, f64::INFINITY, false));
        let sums = f32s(&x.logcumsumexp(axis));
        for (got, want) in sums.iter().zip(scan(|a, b| a.max(b) + (-(a - b).abs()).exp().ln_1p(), -1e300, false)) {
            assert!((got - want).abs() <= 1e-5, "{got}, not {want}");
        }
        // A scan of a view.
        let back = x.flip(axis).cumsum(axis).flip(axis);
        same(&f32s(&back), &f32s(&x.cumsum_reverse(axis)));
        same(&f32s(&x.t().cumsum(axis).t()), &f32s(&x.cumsum([0, 2, 1][axis])));
    }
}

#[test]
fn scans_of_special_values_and_dtypes() {
    let x = Tensor::new([1.0f32, f32::NAN, 3.0]);
    same(&f32s(&x.cummax(0)), &[1.0, f32::NAN, f32::NAN]);
    same(&f32s(&x.cummin_reverse(0)), &[f32::NAN, f32::NAN, 3.0]);
    let inf = f32::INFINITY;
    same(&f32s(&Tensor::new([-inf, -inf, 1e30, inf, 0.0]).logcumsumexp(0)), &[-inf, -inf, 1e30, inf, inf]);
    assert_eq!(i64s(&Tensor::new([200u8, 200]).cumsum(0)), [200, 400]);
    assert_eq!(i64s(&Tensor::new([true, false, true]).cumsum_reverse(0)), [2, 1, 1]);
    assert_eq!(Tensor::new([3i8, -4]).cummin(0).to_vec::<i8>().unwrap(), [3, -4]);
    assert_eq!(f32s(&Tensor::zeros([0]).cumsum(0)), [0.0; 0]);
    assert_eq!(Tensor::zeros([2, 0]).cumprod(1).dims(), [2, 0]);
    let wide = Tensor::full_with([3], 1, DType::BF16) * 256.0;
    assert_eq!(wide.cumsum(0).to_f64_vec().unwrap(), [256.0, 512.0, 768.0]);
}

#[test]
fn sums_of_integers_and_bools_are_i64() {
    assert_eq!(Tensor::new([100i8, 100]).sum(0).item::<i64>().unwrap(), 200);
    assert_eq!(Tensor::new([1000i32, 4_000_000]).prod(0).item::<i64>().unwrap(), 4_000_000_000);
    assert_eq!(i64s(&Tensor::new([[true, true], [false, true]]).sum_keepdim(0)), [1, 2]);
    let x = Tensor::new([[0.0f32, 2.0], [3.0, -1.0]]);
    assert_eq!(i64s(&x.count_nonzero(1)), [1, 2]);
    assert_eq!(x.count_nonzero_keepdim(..).dims(), [1, 1]);
    assert_eq!(x.var_keepdim(0).dims(), [1, 2]);
    assert_eq!(f32s(&(x.std_with(0, 1.0).square() * 2.0).round()), [9.0, 9.0]);
    assert_eq!(f32s(&x.norm_p_keepdim(1.0, 1)), [2.0, 4.0]);
    assert_eq!(x.logsumexp_keepdim(1).dims(), [2, 1]);
}

#[test]
fn sorts_are_stable_and_put_nan_last() {
    let shape = [4, 33, 3];
    let (x, v) = some(shape);
    for (axis, descending) in [(0, false), (1, true), (1, false), (2, true)] {
        let (sorted, places) = x.sort_with_indices(axis, descending);
        let (sorted, places) = (f32s(&sorted), i64s(&places));
        same(&f32s(&x.sort(axis, descending)), &sorted);
        assert_eq!(i64s(&x.argsort(axis, descending)), places);
        for row in rows(shape, axis) {
            let mut order: Vec<usize> = (0..row.len()).collect();
            order.sort_by(|&a, &b| {
                let (a, b) = (v[row[a]], v[row[b]]);
                if descending { b.total_cmp(&a) } else { a.total_cmp(&b) }
            });
            for (i, &from) in order.iter().enumerate() {
                assert_eq!((sorted[row[i]], places[row[i]]), (v[row[from]], from as i64));
            }
        }
    }
    let x = Tensor::new([f32::NAN, 0.0, -0.0, f32::INFINITY, -1.0]);
    same(&f32s(&x.sort(0, false)), &[-1.0, 0.0, -0.0, f32::INFINITY, f32::NAN]);
    same(&f32s(&x.sort(0, true)), &[f32::NAN, f32::INFINITY, 0.0, -0.0, -1.0]);
    assert_eq!(Tensor::new([3u8, 250, 7]).sort(0, true).to_vec::<u8>().unwrap(), [250, 7, 3]);
    let (values, places) = Tensor::new([[1i32, 9, 5], [4, 4, 8]]).topk(2, 1, true);
    assert_eq!((values.to_vec::<i32>().unwrap(), i64s(&places)), (vec![9, 5, 8, 4], vec![1, 2, 2, 0]));
    let (values, _) = Tensor::new([1i32, 9, 5]).topk(1, 0, false);
    assert_eq!(values.to_vec::<i32>().unwrap(), [1]);
    assert_eq!(Tensor::zeros([0, 2]).sort(0, false).dims(), [0, 2]);
}

#[test]
fn the_first_of_many_are_those_that_a_sort_finds() {
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0];
    let floats: Vec<f32> = (0..600).map(|i| if i % 7 < 5 { special[i * i % 5] } else { (i % 11) as f32 }).collect();
    let floats = Tensor::new(floats).reshape([3, 200]);
    let few_nan = floats.is_nan().where_(Tensor::arange(200), &floats);
    let ints = Tensor::randint(-3..3, [3, 200]);
    let bytes = ints.cast(DType::I8) * 50;
    for x in [floats.clone(), few_nan, floats.cast(DType::BF16), ints, bytes, (floats.t() * 1.0).t()] {
        for (k, largest) in [(1, true), (1, false), (8, true), (8, false), (3, true), (12, false), (13, true)] {
            let (values, places) = x.topk(k, 1, largest);
            let order = x.argsort(1, largest).slice((.., ..k as i64));
            assert_eq!(i64s(&places), i64s(&order), "{k} {largest} {}", x.dtype());
            same(&f32s(&values.cast(DType::F32)), &f32s(&x.sort(1, largest).slice((.., ..k as i64)).cast(DType::F32)));
        }
        let (_, down) = x.t().topk(2, 0, true);
        assert_eq!(i64s(&down.t()), i64s(&x.argsort(1, true).slice((.., ..2))));
    }
}

/// Blocked selection in long rows: ties, NaN and infinities in many blocks, and an incomplete last one.
#[test]
fn the_first_of_long_rows_are_those_that_a_sort_finds() {
    let n = 5003;
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0];
    let value = |i: usize| match i % 7 < 4 {
        true => special[i * i % 5],
        false => (i * 7919 % 13) as f32,
    };
    let floats = Tensor::new((0..2 * n).map(value).collect::<Vec<f32>>()).reshape([2, n]);
    // Whole blocks of NaN before few other elements.
    let late = Tensor::arange(n).lt(4900).where_(f64::NAN, floats.is_nan().where_(f64::INFINITY, &floats));
    let ints = Tensor::randint(-3..3, [2, n]);
    for x in [floats.clone(), late, floats.cast(DType::F64), ints.clone(), ints.cast(DType::U8), Tensor::randn([2, n])]
    {
        for (k, largest) in [(3, true), (3, false), (20, true), (20, false), (150, true), (150, false), (156, true)] {
            let (values, places) = x.topk(k, 1, largest);
            let order = x.argsort(1, largest).slice((.., ..k as i64));
            assert_eq!(i64s(&places), i64s(&order), "{k} {largest} {}", x.dtype());
            let first = x.sort(1, largest).slice((.., ..k as i64));
            same(&f32s(&values.cast(DType::F32)), &f32s(&first.cast(DType::F32)));
        }
    }
    let x = Tensor::randn([3, n, 2]);
    let (_, places) = x.topk(40, 1, true);
    assert_eq!(i64s(&places), i64s(&x.argsort(1, true).slice((.., ..40))));
    let leaf = x.tracked();
    let slopes = leaf.topk(40, 1, false).0.sum(..).backward()[&leaf].sum(..).item::<f32>().unwrap();
    assert_eq!(slopes, 240.0);
}

#[test]
fn gathers_are_loops() {
    let shape = [4, 5, 3];
    let (x, v) = some(shape);
    let sizes = [4i64, 5, 3];
    for axis in 0..3 {
        let mut with = shape;
        with[axis] = 6;
        let index = Tensor::randint(-sizes[axis]..sizes[axis], with);
        let (got, places) = (f32s(&x.gather(axis, &index)), i64s(&index));
        let own = rows(shape, axis);
        for (n, row) in rows(with, axis).into_iter().enumerate() {
            for p in row {
                let at = places[p].rem_euclid(sizes[axis]) as usize;
                assert_eq!(got[p], v[own[n][at]]);
            }
        }
        let few = index.cast(DType::I8);
        assert_eq!(f32s(&x.take_along_axis(axis, &few)), got);
    }
    // Other dimensions broadcast, of the index and of the tensor.
    let x = Tensor::arange(6).reshape([2, 3]);
    let column = Tensor::new([[2u8], [0]]);
    assert_eq!(f32s(&x.gather(1, &column)), [2.0, 3.0]);
    assert_eq!(f32s(&x.gather(1, &Tensor::new([[1i32, 1]]))), [1.0, 1.0, 4.0, 4.0]);
    assert_eq!(f32s(&x.slice((..1, ..)).gather(1, &column)), [2.0, 0.0]);
}

#[test]
fn selections() {
    let x = Tensor::arange(12).reshape([3, 4]);
    let index = Tensor::new([[2i64, -1], [0, 1]]);
    assert_eq!(x.index_select(1, &index).dims(), [3, 2, 2]);
    assert_eq!(f32s(&x.index_select(1, &index).slice(1)), [6.0, 7.0, 4.0, 5.0]);
    assert_eq!(f32s(&x.index_select(0, &Tensor::new(-1i32))), [8.0, 9.0, 10.0, 11.0]);
    assert_eq!(f32s(&x.t().index_select(0, &Tensor::new([3i32]))), [3.0, 7.0, 11.0]);
    assert_eq!(f32s(&x.take(&index)), [2.0, 11.0, 0.0, 1.0]);
    assert_eq!(x.embedding(&index.abs()).dims(), [2, 2, 4]);
    assert_eq!(f32s(&x.embedding(&Tensor::new([2u8, 0])).slice((.., 0))), [8.0, 0.0]);
    assert_eq!(x.index_select(0, &Tensor::zeros_with([0], DType::I64)).dims(), [0, 4]);
    let (i, j) = (Tensor::new([[0i64], [-1]]), Tensor::new([1i32, 3]));
    assert_eq!(f32s(&x.index(&[&i, &j])), [1.0, 3.0, 9.0, 11.0]);
    assert_eq!(f32s(&x.index(&[&Tensor::new([1u8])])), [4.0, 5.0, 6.0, 7.0]);
    assert_eq!(i64s(&Tensor::new([2i32, 0, 7]).one_hot(3)), [0, 0, 1, 1, 0, 0, 0, 0, 0]);
    // Results are equal whether fused with neighbours or not.
    let y = || f32s(&(((&x + 1.0).index_select(1, &(&index * 1)) * 2.0).sum(0)));
    assert_eq!(y(), thalweg::with_fusion(false, y));
    assert_eq!(y(), thalweg::with_reference(y));
}

#[test]
fn scatters_are_loops() {
    let shape = [4, 5, 3];
    let sizes = [4i64, 5, 3];
    for axis in 0..3 {
        for op in [ScatterOp::Set, ScatterOp::Add, ScatterOp::Prod, ScatterOp::Max, ScatterOp::Min] {
            let (x, mut want) = some(shape);
            let mut with = shape;
            with[axis] = 9;
            let (values, new) = some(with);
            let index = Tensor::randint(-sizes[axis]..sizes[axis], with);
            let places = i64s(&index);
            let own = rows(shape, axis);
            for (n, row) in rows(with, axis).into_iter().enumerate() {
                for p in row {
                    let to = &mut want[own[n][places[p].rem_euclid(sizes[axis]) as usize]];
                    *to = match op {
                        ScatterOp::Set => new[p],
                        ScatterOp::Add => *to + new[p],
                        ScatterOp::Prod => *to * new[p],
                        ScatterOp::Max => to.max(new[p]),
                        ScatterOp::Min => to.min(new[p]),
                    };
                }
            }
            assert_eq!(f32s(&x.scatter_reduce(axis, &index, &values, op)), want, "{op:?} along {axis}");
            // In place if nobody holds the tensor, and by the reference interpreter.
            assert_eq!(f32s(&(&x + 0.0).scatter_reduce(axis, &index, &values, op)), want);
            assert_eq!(thalweg::with_reference(|| f32s(&x.scatter_reduce(axis, &index, &values, op))), want);
        }
    }
}

#[test]
fn scatters_of_every_kind() {
    let x = Tensor::arange(6).reshape([3, 2]);
    let index = Tensor::new([2u8, 0, 2]);
    let values = Tensor::new([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    assert_eq!(f32s(&x.index_add(0, &index, &values)), [3.0, 5.0, 2.0, 3.0, 10.0, 13.0]);
    assert_eq!(f32s(&x.index_copy(0, &index, &values)), [3.0, 4.0, 2.0, 3.0, 5.0, 6.0]);
    assert_eq!(f32s(&x.index_add(1, &Tensor::new([-1i8]), 1)), [0.0, 2.0, 2.0, 4.0, 4.0, 6.0]);
    let (i, j) = (Tensor::new([0i64, -1, 0]), Tensor::new([1i64, 0, 1]));
    assert_eq!(f32s(&x.index_put(&[&i, &j], 10, false)), [0.0, 10.0, 2.0, 3.0, 10.0, 5.0]);
    assert_eq!(f32s(&x.index_put(&[&i, &j], 10, true)), [0.0, 21.0, 2.0, 3.0, 14.0, 5.0]);
    assert_eq!(f32s(&x.index_put(&[&i], Tensor::new([7.0f32, 8.0]), false)), [7.0, 8.0, 2.0, 3.0, 7.0, 8.0]);
    // The target is a view, and the values share its memory.
    let transposed = x.t().scatter_add(1, &Tensor::new([[0i64, 1, 2], [0, 0, 0]]), x.t());
    assert_eq!(f32s(&transposed), [0.0, 4.0, 8.0, 10.0, 3.0, 5.0]);
    assert_eq!(f32s(&x.scatter(0, &Tensor::zeros_with([0, 2], DType::I64), 1)), f32s(&x));
    // Sums of narrow floats are accumulated in f32 and rounded once, also in the gradients of gathers: rounded at each
    // addition, 4096 ones in bf16 would give 256, in f16 2048.
    for dtype in [DType::BF16, DType::F16] {
        let (ones, zeros) = (Tensor::ones_with([4096], dtype), Tensor::zeros_with([4096], DType::I64));
        let none = Tensor::zeros_with([1], dtype);
        let sums = [
            none.scatter_add(0, &zeros, &ones),
            none.index_add(0, &zeros, &ones),
            none.index_put(&[&zeros], &ones, true),
        ];
        for sum in &sums {
            assert_eq!((sum.dtype(), sum.to_f64_vec().unwrap()), (dtype, vec![4096.0]));
        }
        let x = Tensor::zeros_with([2, 1], dtype).tracked();
        let reads = [
            x.embedding(&zeros),
            x.index_select(0, &zeros),
            x.gather(0, &zeros.unsqueeze(1)),
            x.take(&zeros),
            x.index(&[&zeros]),
        ];
        for read in &reads {
            assert_eq!(read.sum(..).backward()[&x].to_f64_vec().unwrap(), [4096.0, 0.0]);
        }
    }
    assert_eq!(i64s(&Tensor::new([1i64, 3, 1]).bincount(2).unwrap()), [0, 2, 0, 1]);
    assert_eq!(i64s(&Tensor::zeros_with([0], DType::U8).bincount(2).unwrap()), [0, 0]);
    assert!(matches!(Tensor::new([-1i32]).bincount(0), Err(Error::Index(_))));
}

#[test]
fn long_scatters_are_the_same_on_any_threads() {
    // One column of many elements: beyond the cache size, threads own ranges of it.
    let n = 300_000;
    let values = Tensor::randn([n]);
    let new = f32s(&values);
    for size in [400_000, 1000] {
        let index = Tensor::randint(0..size, [n]);
        let places = i64s(&index);
        let mut want = vec![0f32; size as usize];
        for (&i, v) in places.iter().zip(&new) {
            want[i as usize] += v;
        }
        assert_eq!(f32s(&Tensor::zeros([size as usize]).scatter_add(0, &index, &values)), want);
    }
    let index = Tensor::randint(0..1000, [n]);
    assert_eq!(i64s(&index.bincount(0).unwrap()).iter().sum::<i64>(), n as i64);
}

#[test]
fn scatters_compute_index_and_values_part_by_part() {
    // Longer than a chunk; each case again with fusion off, when both come from memory.
    let (rows, columns) = (3001, 67);
    let x = Tensor::rand([rows, columns]);
    let at = Tensor::randint(-500..500, [rows, columns]);
    let by_row = Tensor::randint(0..70, [rows]);
    thalweg::synchronize().unwrap();
    let cases: [fn(&Tensor, &Tensor, &Tensor) -> Tensor; 8] = [
        |x, at, _| Tensor::zeros([40, 67]).scatter_add(0, &at.rem(40), x * 3.0 - 1.0),
        |x, at, _| Tensor::zeros([3001, 40]).scatter_add(1, &at.rem(40), x.square()),
        |x, at, _| x.scatter(1, &(at / 8), x + 1.0),
        |x, _, by_row| (x * 1.0).index_add(0, &(by_row * 2), x.sqrt()),
        |x, at, _| Tensor::zeros([5000]).scatter_add(0, &(at.flatten() * 3), x.flatten() * 2.0),
        |x, at, _| Tensor::zeros([40, 67]).scatter_reduce(0, &at.flip(0).rem(40), -x, thalweg::ScatterOp::Max),
        |x, at, _| Tensor::ones([67, 40]).scatter_add(1, &at.t().rem(40), (x + 0.5).t()),
        |x, at, by_row| {
            let wide = Tensor::cat(&[x, &x.exp()], 0);
            let index = Tensor::cat(&[at, &at.gather(0, &by_row.unsqueeze(1).expand([3001, 67]))], 0);
            Tensor::zeros([40, 67]).scatter_add(0, &index.rem(40), wide - x.mean(0))
        },
    ];
    for (i, case) in cases.into_iter().enumerate() {
        let [fused, unfused] = [true, false]
            .map(|on| thalweg::with_strict(true, || thalweg::with_fusion(on, || f32s(&case(&x, &at, &by_row)))));
        assert!(fused == unfused, "case {i}");
    }
}

#[test]
fn an_index_out_of_range_is_an_error_at_the_read() {
    let x = Tensor::new([0.0f32, 1.0, 2.0, 3.0]);
    let message = |y: Tensor| match y.to_f64_vec().unwrap_err() {
        Error::Index(m) => m,
        Error::Failed(cause) => cause.to_string(),
        other => panic!("{other}"),
    };
    let far = Tensor::new([1i64, 4]);
    // The called function, the given index, and the line.
    let at = |line: u32| format!(", at crates/thalweg/tests/front/along.rs:{line}:");
    let says = |y: Tensor, what: &str, line: u32| {
        let m = message(y);
        assert!(m.starts_with(&format!("{what}{}", at(line))), "{m} instead of {what}{}", at(line));
    };
    says(x.gather(0, &far), "gather: index 4 is out of range for axis 0 of size 4", line!());
    says(
        x.index_select(0, &Tensor::new([-5i64])),
        "index_select: index -5 is out of range for axis 0 of size 4",
        line!() - 2,
    );
    says(x.scatter_add(0, &far, 1) * 2.0, "scatter_add: index 4 is out of range for axis 0 of size 4", line!());
    says(x.index_copy(0, &far, 1), "index_copy: index 4 is out of range for axis 0 of size 4", line!());
    says(x.take(&far), "take: index 4 is out of range for axis 0 of size 4", line!());
    assert_eq!(
        thalweg::with_reference(|| message(x.scatter(0, &far, 1))),
        "scatter: index 4 is out of range for axis 0 of size 4"
    );
    let table = Tensor::new([[1.0f32, 1.0]; 3]);
    says(table.embedding(&Tensor::new([-1i64])), "embedding: index -1 is out of range for axis 0 of size 3", line!());
    let classes = Tensor::new([0i64, 2, 1]);
    says(
        table.cross_entropy(&classes, Reduction::Mean),
        "cross_entropy: index 2 is out of range for axis 1 of size 2",
        line!() - 2,
    );
    says(table.index(&[&Tensor::new([0i64]), &Tensor::new([2i64])]), "index: an index is out of range", line!());
    // Independent values are unaffected.
    assert_eq!(f32s(&(x + 1.0)), [1.0, 2.0, 3.0, 4.0]);
    let none = Tensor::zeros([0]);
    assert!(none.gather(0, &Tensor::new([0i64])).to_f64_vec().is_err());
    assert_eq!(f32s(&none.scatter(0, &Tensor::zeros_with([0], DType::I64), 1)), [0.0; 0]);
    says(none.scatter(0, &Tensor::new([0i64]), 1), "scatter: index 0 is out of range for axis 0 of size 0", line!());
}

#[test]
fn an_index_out_of_range_fails_only_what_depends_on_it() {
    let x = Tensor::new([0.0f32, 1.0, 2.0, 3.0]);
    let (good, bad) = (Tensor::new([3i64, 0]), Tensor::new([1i64, 9]));
    // One segment: before it, beside it in the same kernel, after it, and from a value that nobody else holds.
    let own = Tensor::new([5.0f32, 6.0]) * 2.0;
    let before = x.exp();
    let beside = x.index_select(0, &good) + 1.0;
    let failed = x.index_select(0, &bad) + 1.0;
    let behind = &failed * 2.0;
    let both = &beside + &failed;
    let sum = before.sum(..) + own.sum(..);
    let placed = x.scatter_add(0, &good, 1);
    let misplaced = x.scatter_add(0, &bad, 1);
    assert!(failed.to_vec::<f32>().is_err());
    assert_eq!(f32s(&beside), [4.0, 1.0]);
    assert_eq!(f32s(&own), [10.0, 12.0]);
    assert_eq!(f32s(&placed), [1.0, 1.0, 2.0, 4.0]);
    assert!((sum.item::<f32>().unwrap() - (1.0 + 1f32.exp() + 2f32.exp() + 3f32.exp() + 22.0)).abs() < 1e-4);
    for y in [&behind, &both] {
        let e = y.to_vec::<f32>().unwrap_err().to_string();
        assert!(e.contains("index_select: index 9"), "{e}");
    }
    let e = misplaced.to_vec::<f32>().unwrap_err().to_string();
    assert!(e.contains("scatter_add: index 9"), "{e}");
    // A value computed from it later reports the reason.
    let e = (behind + 1.0).to_vec::<f32>().unwrap_err().to_string();
    assert!(e.contains("index_select: index 9"), "{e}");
    assert_eq!(f32s(&before)[0], 1.0);
}

#[test]
fn what_a_mask_holds() {
    let x = Tensor::new([[3.0f32, 0.0, -1.0], [0.0, 2.0, 0.0]]);
    assert_eq!(i64s(&x.flat_nonzero().unwrap()), [0, 2, 4]);
    let places = x.nonzero().unwrap();
    assert_eq!((i64s(&places[0]), i64s(&places[1])), (vec![0, 0, 1], vec![0, 2, 1]));
    let rows = x.argwhere().unwrap();
    assert_eq!((rows.dims(), i64s(&rows)), (&[3, 2][..], vec![0, 0, 0, 2, 1, 1]));
    assert_eq!(f32s(&x.masked_select(&x.ne(0)).unwrap()), [3.0, -1.0, 2.0]);
    assert_eq!(f32s(&x.masked_select(&Tensor::new([true, false, false])).unwrap()), [3.0, 0.0]);
    assert_eq!(f32s(&x.masked_fill(&x.lt(0), 9)), [3.0, 0.0, 9.0, 0.0, 2.0, 0.0]);
    let nothing = x.gt(5);
    assert_eq!(nothing.argwhere().unwrap().dims(), [0, 2]);
    assert_eq!(x.masked_select(&nothing).unwrap().dims(), [0]);
    assert_eq!(Tensor::zeros([0, 2]).argwhere().unwrap().dims(), [0, 2]);
    assert_eq!(Tensor::new(1.0f32).argwhere().unwrap().dims(), [1, 0]);
    let (x, v) = some([9, 30, 20]);
    assert_eq!(f32s(&x.masked_select(&x.gt(2)).unwrap()), v.into_iter().filter(|v| *v > 2.0).collect::<Vec<_>>());
}

#[test]
fn distinct_elements() {
    let x = Tensor::new([[3i32, 1], [3, 2], [1, 3]]);
    assert_eq!(x.unique().unwrap().to_vec::<i32>().unwrap(), [1, 2, 3]);
    let (values, inverse) = x.unique_inverse().unwrap();
    assert_eq!((values.to_vec::<i32>().unwrap(), i64s(&inverse)), (vec![1, 2, 3], vec![2, 0, 2, 1, 0, 2]));
    assert_eq!(inverse.dims(), [3, 2]);
    let (_, counts) = x.unique_counts().unwrap();
    assert_eq!(i64s(&counts), [2, 1, 3]);
    let nans = Tensor::new([f32::NAN, 1.0, f32::NAN]);
    let (values, counts) = nans.unique_counts().unwrap();
    same(&f32s(&values), &[1.0, f32::NAN]);
    assert_eq!(i64s(&counts), [1, 2]);
    let none = Tensor::zeros([0]);
    assert_eq!(none.unique().unwrap().dims(), [0]);
    assert_eq!(none.unique_inverse().unwrap().1.dims(), [0]);
    assert_eq!(none.unique_counts().unwrap().1.dims(), [0]);
    assert_eq!(i64s(&Tensor::new([5.0f32]).unique_counts().unwrap().1), [1]);
}

#[test]
fn places_in_sorted_rows() {
    for n in [1usize, 2, 3, 4, 7, 8, 9, 100] {
        let row = Tensor::randint(0..20, [n]).sort(0, false);
        let values = Tensor::arange_with((-1, 22, 1), DType::I64);
        let (r, v) = (i64s(&row), i64s(&values));
        let count = |f: fn(&i64, &i64) -> bool| -> Vec<i64> {
            v.iter().map(|v| r.iter().filter(|r| f(r, v)).count() as i64).collect()
        };
        assert_eq!(i64s(&row.searchsorted(&values, false)), count(|r, v| r < v), "{r:?}");
        assert_eq!(i64s(&row.searchsorted(&values, true)), count(|r, v| r <= v), "{r:?}");
    }
    let row = Tensor::new([1.0f32, 2.0, f32::NAN]);
    let values = Tensor::new([[f32::NAN], [5.0]]);
    assert_eq!(i64s(&row.searchsorted(&values, false)), [2, 2]);
    assert_eq!(i64s(&row.searchsorted(&values, true)), [3, 2]);
    let rows = Tensor::new([[1i32, 2], [5, 6]]);
    assert_eq!(i64s(&rows.searchsorted(&Tensor::new([[2i32], [7]]), true)), [2, 2]);
    assert_eq!(i64s(&Tensor::zeros([0]).searchsorted(&Tensor::new([1.0f32]), true)), [0]);
}

#[test]
fn single_elements_are_scattered_into_in_place() {
    // A row of windows: strides over a single element may be anything.
    let x = Tensor::new([1.0f32]).exp().window(0, 1, 2);
    let y = (x + 0.0).window(0, 1, 2).squeeze(2).scatter_add(0, &Tensor::zeros_with([3, 1], DType::I64), 1);
    assert_eq!(f32s(&(y - std::f64::consts::E)), [3.0]);
}
