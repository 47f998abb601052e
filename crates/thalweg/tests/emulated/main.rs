//! GPU-specific behaviour on the emulated GPU: CUDA graphs, indices out of range that nobody waited for, groups as one
//! launch.

#![cfg(all(feature = "emulate", target_arch = "x86_64", target_os = "linux"))]

mod arrays;
mod boxes;
mod by_blocks;
mod captures;
mod cold_start;
mod contractions;
mod convolutions;
mod cuda_ops;
mod decompositions;
mod kernels;
mod online;
mod queues;
mod rows;
mod scans;
mod scatters;
#[path = "../selected/cases.rs"]
mod selected;
mod transforms;
#[path = "../unsigned/cases.rs"]
mod unsigned;

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use thalweg::prelude::*;
use thalweg::{Counters, Error, counters, with_fusion};

/// The emulated GPU.
fn emulated() -> Device {
    Device::from_name("cuda:emulated").expect("there is a C++ compiler")
}

fn tensor(values: &[f32]) -> Tensor {
    Tensor::new(values).to_device(emulated()).unwrap()
}

fn indices(values: &[i64]) -> Tensor {
    Tensor::new(values).to_device(emulated()).unwrap()
}

fn values(x: &Tensor) -> Vec<f32> {
    x.to_vec::<f32>().unwrap()
}

fn counted<T>(f: impl FnOnce() -> T) -> (T, Counters) {
    thalweg::synchronize().unwrap();
    let before = counters();
    let out = f();
    // The error of an intended failure is reported where the value is held.
    let _ = thalweg::synchronize();
    (out, counters() - before)
}

fn message(x: &Tensor) -> String {
    match x.to_vec::<f32>().unwrap_err() {
        Error::Index(message) => message,
        Error::Failed(cause) => format!("failed: {cause}"),
        other => panic!("{other}"),
    }
}

#[test]
fn unsigned_integers_are_those_of_rust() {
    let before = thalweg::set_default_device(Some(emulated()));
    unsigned::wide_operations().check("a GPU");
    unsigned::short_operations().check("a GPU");
    unsigned::wide_rows().check("a GPU");
    unsigned::short_rows().check("a GPU");
    unsigned::conversions().check("a GPU");
    unsigned::bits().check("a GPU");
    thalweg::set_default_device(before);
}

/// Other libraries pass views of their tensors. Kernels read several elements at a time only from addresses that allow
/// it, which they tell by the offset in a buffer. (`THALWEG_EMULATE_SANITIZE` stops at any other address.)
#[test]
fn memory_of_another_library_begins_anywhere() {
    let numbers: Vec<f32> = (0..80).map(|i| i as f32).collect();
    let owner = tensor(&numbers).memory().unwrap();
    owner.wait().unwrap();
    for first in [0, 1, 2, 3, 7] {
        let address = owner.address().cast_mut().wrapping_add(4 * first);
        let address = std::ptr::NonNull::new(address).unwrap();
        // SAFETY: 64 of the 80 numbers, which the owner keeps and nobody writes.
        let x = unsafe { Tensor::from_memory(address, [8, 8], &[8, 1], DType::F32, emulated(), owner.clone()) };
        let memory = x.memory().unwrap();
        assert_eq!(memory.address(), address.as_ptr().cast_const());
        let want = |f: &dyn Fn(f32) -> f32| numbers[first..first + 64].iter().map(|&v| f(v)).collect::<Vec<_>>();
        assert_eq!(values(&(&x * 2.0 + 1.0)), want(&|v| v * 2.0 + 1.0));
        let sums: Vec<f32> = numbers[first..first + 64].chunks(8).map(|row| row.iter().sum()).collect();
        assert_eq!(values(&x.sum(1)), sums);
        assert_eq!(values(&x.matmul(&Tensor::eye(8).to_device(emulated()).unwrap())), want(&|v| v));
        // The offset in an aligned buffer says how a view is aligned.
        assert_eq!(x.slice((1.., ..)).memory().unwrap().address(), address.as_ptr().cast_const().wrapping_add(32));
    }
}

#[test]
fn selections_are_those_of_one_kernel_an_operation() {
    let before = thalweg::set_default_device(Some(emulated()));
    selected::extremes_are_elements();
    selected::gradients_of_extremes_are_shared_out();
    selected::selections_do_not_depend_on_fusion();
    selected::equal_products_have_no_difference();
    thalweg::set_default_device(before);
}

#[test]
fn a_run_that_comes_often_is_one_launch() {
    let step = |x: &Tensor, k: f32| with_fusion(false, || ((x * 0.5 + k).sin() - x).abs());
    let mut x = tensor(&[0.5, 1.0, 2.0]);
    let mut want = vec![0.5f32, 1.0, 2.0];
    let mut made = 0;
    for turn in 0..20 {
        let k = turn as f32;
        let (y, c) = counted(|| step(&x, k));
        want = want.iter().map(|x| ((x * 0.5 + k).sin() - x).abs()).collect();
        x = y;
        assert_eq!(c.kernels, 5);
        made += c.graphs_made;
        let graph = turn >= 3;
        assert_eq!((c.device_launches, c.graph_runs), if graph { (1, 1) } else { (5, 0) }, "turn {turn}");
        for (a, b) in values(&x).iter().zip(&want) {
            assert!((a - b).abs() < 1e-4, "turn {turn}: {a} {b}");
        }
    }
    assert!((1..=4).contains(&made), "{made} graphs");
}

#[test]
fn threads_take_turns_and_memory_that_goes_round_is_nobodys_twice() {
    thread::scope(|scope| {
        for t in 0..4 {
            scope.spawn(move || {
                let x = tensor(&[t as f32; 300]);
                for turn in 0..12 {
                    let own = tensor(&[turn as f32; 300]);
                    let y = with_fusion(false, || ((&x + &own) * 2.0 - &x) + 1.0);
                    assert_eq!(values(&y), [(t + 2 * turn + 1) as f32; 300]);
                }
            });
        }
    });
}

#[test]
fn an_index_out_of_range_fails_what_is_read_of_its_segment_and_nothing_else() {
    let x = tensor(&[0.0, 1.0, 2.0, 3.0]);
    let bad = x.gather(0, &indices(&[1, 4]));
    thalweg::flush();
    let other = &x + 1.0;
    thalweg::flush();
    // Computed later, from a value that was not checked yet.
    let after = &bad * 2.0;
    thalweg::flush();
    let later = (&after + 1.0).exp();
    thalweg::flush();
    assert_eq!(values(&other), [1.0, 2.0, 3.0, 4.0]);
    let said = "gather: an index is out of range for axis 0 of size 4, at crates/thalweg/tests/emulated/main.rs:";
    let starts = |x: &Tensor, said: &str| {
        let told = message(x);
        assert!(told.starts_with(said), "{told} instead of {said}");
    };
    starts(&bad, said);
    starts(&after, &format!("failed: {said}"));
    starts(&later, &format!("failed: {said}"));
    starts(&(&later - 1.0), &format!("failed: {said}"));
    // The stream continues.
    assert_eq!(values(&x.gather(0, &indices(&[3, 0]))), [3.0, 0.0]);
    starts(&x.scatter_add(0, &indices(&[0, 9]), 1), "scatter_add: an index is out of range for axis 0 of size 4, at ");
}

#[test]
fn an_index_out_of_range_names_the_function_and_the_line() {
    let x = tensor(&[0.0, 1.0, 2.0, 3.0]);
    let far = indices(&[1, 4]);
    let says = |y: Tensor, what: &str, line: u32| {
        let told = message(&y);
        let want = format!("{what}, at crates/thalweg/tests/emulated/main.rs:{line}:");
        assert!(told.strip_prefix("failed: ").unwrap_or(&told).starts_with(&want), "{told} instead of {want}");
    };
    let axis = |name: &str, size: usize| format!("{name}: an index is out of range for axis 0 of size {size}");
    says(x.index_select(0, &far), &axis("index_select", 4), line!());
    says(x.index_select(0, &far).exp() + 1.0, &axis("index_select", 4), line!());
    says(x.scatter_add(0, &far, 1) * 2.0, &axis("scatter_add", 4), line!());
    says(x.index_copy(0, &far, 1), &axis("index_copy", 4), line!());
    says(x.take(&far), &axis("take", 4), line!());
    let table = x.reshape([2, 2]);
    says(table.embedding(&far), &axis("embedding", 2), line!());
    let classes = indices(&[0, 2]);
    let line = line!() + 1;
    let loss = table.cross_entropy(&classes, thalweg::Reduction::Mean);
    says(loss, "cross_entropy: an index is out of range for axis 1 of size 2", line);
    says(table.index(&[&indices(&[0]), &indices(&[2])]), "index: an index is out of range", line!());
}

#[test]
fn an_index_out_of_range_fails_only_what_depends_on_it() {
    for fused in [true, false] {
        with_fusion(fused, || {
            let x = tensor(&[0.0, 1.0, 2.0, 3.0]);
            let (good, bad) = (indices(&[3, 0]), indices(&[1, 9]));
            let own = tensor(&[5.0, 6.0]) * 2.0;
            let before = x.exp();
            let failed = x.index_select(0, &bad) + 1.0;
            let behind = &failed * 2.0;
            // In the kernel of a failing operation, but independent of it.
            let beside = &own + 1.0;
            let both = &beside + &failed;
            let placed = x.scatter_add(0, &good, 1);
            let misplaced = x.scatter_add(0, &bad, 1);
            let before_flush = counters();
            thalweg::flush();
            let c = counters() - before_flush;
            assert_eq!(c.bytes_to_host, 0, "nobody asks: {c:?}");
            assert_eq!(values(&own), [10.0, 12.0]);
            assert_eq!(values(&beside), [11.0, 13.0]);
            assert_eq!(values(&placed), [1.0, 1.0, 2.0, 4.0]);
            assert_eq!(values(&before)[0], 1.0);
            for y in [&failed, &behind, &both] {
                let told = message(y);
                assert!(told.contains("index_select: an index is out of range for axis 0 of size 4, at "), "{told}");
            }
            let told = message(&misplaced);
            assert!(told.contains("scatter_add: an index is out of range for axis 0 of size 4, at "), "{told}");
            // One that is computed later, together with a valid value.
            let (late, fine) = (&behind + 1.0, &placed + 1.0);
            thalweg::flush();
            assert_eq!(values(&fine), [2.0, 2.0, 3.0, 5.0]);
            assert!(message(&late).starts_with("failed: index_select: "));
        });
    }
}

/// Two gathers in one kernel: whichever failed, values that depend on neither are valid.
#[test]
fn two_gathers_of_one_kernel() {
    let (x, y) = (tensor(&[0.0, 1.0, 2.0, 3.0]), tensor(&[4.0, 5.0]));
    let (good, bad) = (indices(&[1, 0]), indices(&[1, 4]));
    let sum = x.index_select(0, &bad) + y.take(&good);
    let other = &y + 1.0;
    thalweg::flush();
    assert_eq!(values(&other), [5.0, 6.0]);
    let told = message(&sum);
    assert!(told.contains("index_select: an index is out of range for axis 0 of size 4, at "), "{told}");
    let fine = x.index_select(0, &good) + y.take(&good);
    assert_eq!(values(&fine), [6.0, 4.0]);
}

#[test]
fn words_for_indices_come_round() {
    let x = tensor(&[0.0, 1.0, 2.0, 3.0]);
    let (good, bad) = (indices(&[3, 0]), indices(&[4]));
    for turn in 0..30 {
        let a = x.gather(0, &good) + turn as f32;
        thalweg::flush();
        let b = x.gather(0, &bad);
        thalweg::flush();
        if turn % 3 == 0 {
            drop(b);
        } else {
            assert!(b.to_vec::<f32>().is_err());
        }
        assert_eq!(values(&a), [3.0 + turn as f32, turn as f32]);
    }
}

#[test]
fn a_loop_that_gathers_carries_few_deferred_checks() {
    let mut x = tensor(&[0.0, 1.0, 2.0, 3.0]);
    let at = indices(&[1, 2, 3, 0]);
    for _ in 0..600 {
        x = x.gather(0, &at);
        thalweg::flush();
    }
    assert_eq!(values(&x), [0.0, 1.0, 2.0, 3.0]);
}

/// Moments and parameters after a step of Adam.
fn adam(p: &Tensor, g: &Tensor, m: &Tensor, v: &Tensor, t: i32) -> [Tensor; 3] {
    let (m, v) = (m * 0.9 + g * 0.1, v * 0.999 + g.square() * 0.001);
    let (a, b) = (1.0 - 0.9f32.powi(t), 1.0 - 0.999f32.powi(t));
    let p = p - (&m / a) / ((&v / b).sqrt() + 1e-8) * 0.01;
    [p, m, v]
}

#[test]
fn a_step_over_two_hundred_parameters_is_three_launches() {
    let on = |x: Tensor| x.to_device(emulated()).unwrap();
    let shapes: Vec<usize> = (0..200).map(|i| 1 + (i * 37) % 300).collect();
    let start: Vec<[Tensor; 4]> = shapes
        .iter()
        .map(|&n| {
            let g = Tensor::from_slice(&(0..n).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>(), [n]);
            [Tensor::ones([n]), g, Tensor::zeros([n]), Tensor::zeros([n])]
        })
        .collect();
    let run = |start: &[[Tensor; 4]]| -> Vec<Vec<Vec<f32>>> {
        let mut state: Vec<[Tensor; 4]> = start.to_vec();
        let mut launches = vec![];
        for t in 1..7 {
            let (next, c) = counted(|| -> Vec<[Tensor; 4]> {
                let step = |[p, g, m, v]: &[Tensor; 4]| {
                    let [p, m, v] = adam(p, g, m, v, t);
                    [p, g.clone(), m, v]
                };
                state.iter().map(step).collect()
            });
            launches.push(c.device_launches);
            state = next;
        }
        assert!(launches.iter().all(|&n| n <= 3), "{launches:?}");
        state.iter().map(|s| s.iter().map(values).collect()).collect()
    };
    let emulated: Vec<[Tensor; 4]> = start.iter().map(|s| s.clone().map(on)).collect();
    for (a, b) in run(&emulated).iter().flatten().zip(run(&start).iter().flatten()) {
        assert_eq!(a.len(), b.len());
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4), "{a:?} {b:?}");
    }
}

#[test]
fn boxes_rows_and_maps_share_a_launch() {
    let on = |x: &Tensor| x.to_device(emulated()).unwrap();
    let inputs: Vec<Tensor> = [[3usize, 40], [17, 5], [1, 1], [8, 300], [2, 64]]
        .iter()
        .map(|&[a, b]| Tensor::from_slice(&(0..a * b).map(|i| (i % 11) as f32 * 0.25).collect::<Vec<_>>(), [a, b]))
        .collect();
    let run = |inputs: &[Tensor]| -> Vec<Tensor> {
        let each = |x: &Tensor| [x.softmax(1), x.t().exp(), x.sum(0), Tensor::cat(&[x, &(x * 2.0), &x.sin()], 0) + 1.0];
        inputs.iter().flat_map(each).collect()
    };
    let there: Vec<Tensor> = inputs.iter().map(on).collect();
    let (ours, c) = counted(|| run(&there));
    // One launch for each block size.
    assert!(c.device_launches <= c.kernels + 3, "{c:?}");
    for (a, b) in ours.iter().zip(run(&inputs)) {
        assert_eq!(a.dims(), b.dims());
        assert!(values(a).iter().zip(values(&b)).all(|(a, b)| (a - b).abs() < 1e-4));
    }
    let cat = |x: &[Tensor]| Tensor::cat(&[&x[0], &(&x[0] * 2.0), &x[0].exp()], 1);
    let (ours, c) = counted(|| cat(&there));
    assert_eq!((c.kernels, c.device_launches), (1, 1));
    assert_eq!(values(&ours).len(), values(&cat(&inputs)).len());
}

#[test]
fn explanations_say_what_a_kernel_takes_of_the_chip() {
    let x = tensor(&[1.0; 4096]);
    thalweg::synchronize().unwrap();
    let (_, why) = thalweg::explain(|| values(&(&x * 2.0).softmax(0)));
    let kernels: Vec<_> = why.segments.iter().flat_map(|s| &s.kernels).collect();
    assert!(!kernels.is_empty());
    for kernel in kernels {
        let r = kernel.residence.expect("it runs on a GPU, as it were");
        assert!(r.registers > 0 && r.blocks > 0 && r.threads >= r.blocks && r.occupancy > 0.0, "{r:?}");
    }
    assert!(why.to_string().contains("threads a multiprocessor"), "{why}");
    assert!(why.json().contains("\"occupancy\""));
    assert!(why.html("softmax").contains("threads a multiprocessor"));
}

#[test]
fn a_scalar_that_was_cast_divides_as_what_it_is() {
    let x = tensor(&[3.0, -6.0, 9.0]);
    let by = Tensor::full_with([3], 3.0, (DType::F64, emulated()));
    // Fused, the scalar is in the kernel as the original f64.
    assert_eq!(values(&(&x / by.cast(DType::F32))), [1.0, -2.0, 3.0]);
    let narrow = x.cast(DType::BF16) / 2.0;
    assert_eq!(values(&narrow.cast(DType::F32)), [1.5, -3.0, 4.5]);
}

#[test]
fn what_is_compiled_beside_counts_for_who_asked() {
    let x = tensor(&(0..64).map(|i| i as f32 / 8.0).collect::<Vec<_>>()).reshape([8, 8]);
    let (y, c) = counted(|| with_fusion(false, || [x.cumsum(0), x.amin(1), x.atan().hypot(&x)].map(|t| t.sum(..))));
    assert!(c.programs_compiled + c.programs_loaded >= 3, "{c:?}");
    assert!(y.iter().all(|y| values(y)[0].is_finite()));
}

#[test]
fn threads_without_a_row_tell_of_no_index() {
    // The result reuses the memory of the index: threads beyond the last row find numbers there that are no indices any
    // more.
    let table = Tensor::new(&[0.5f64, 1.0, 1.5, 2.0][..]).to_device(emulated()).unwrap();
    for (strict, shape) in [(true, [1, 600]), (false, [3, 12])] {
        for turn in 0..8 {
            let n: usize = shape.iter().product();
            let index = indices(&(0..n as i64).map(|i| i % 4).collect::<Vec<_>>());
            let (mean, c) = counted(|| {
                let y = thalweg::with_strict(strict, || {
                    let taken = table.index_select(0, &{ index }).reshape(shape);
                    &taken - taken.mean(1).unsqueeze(1)
                });
                y.to_vec::<f64>().map(|y| y.iter().sum::<f64>())
            });
            assert!(mean.is_ok_and(|m| m.abs() < 1e-9), "turn {turn}, strict: {strict}");
            assert_eq!((c.kernels, c.reused_in_place), (1, 1), "or this proves nothing");
        }
    }
}

#[test]
fn nothing_lies_over_what_threads_of_a_row_read_each_for_itself() {
    // In rows of one element an operand read once per row is as large as the result: the first thread of a row would
    // overwrite what the others read as an index.
    let table = Tensor::new(&[0.5f64, 1.0, 1.5, 2.0][..]).to_device(emulated()).unwrap();
    for turn in 0..8 {
        let x = Tensor::new(&[1.0f64; 18][..]).to_device(emulated()).unwrap().reshape([18, 1]);
        let index = indices(&(0..18).map(|i| i % 4).collect::<Vec<_>>());
        let (sums, c) = counted(|| {
            let y = thalweg::with_strict(true, || {
                let taken = table.index_select(0, &{ index }).reshape([18, 1]);
                x.cummin(1).exp() * 1e9 + taken
            });
            y.to_vec::<f64>()
        });
        assert!(sums.as_ref().is_ok_and(|y| y.iter().all(|&y| y > 2.7e9)), "turn {turn}: {sums:?}");
        assert_eq!((c.kernels, c.reused_in_place), (1, 0), "or this proves nothing");
    }
}

#[test]
fn plans_take_turns_by_the_clock_of_the_device() {
    let x = tensor(&(0..1200).map(|i| (i % 17) as f32 / 8.0 + 0.1).collect::<Vec<_>>()).reshape([40, 30]);
    thalweg::synchronize().unwrap();
    let hot = || {
        let h = x.tanh();
        values(&(&h / h.sum_keepdim(0) + &h * h.amax_keepdim(1)))
    };
    thalweg::with_strict(true, || {
        let before = thalweg::set_measuring(None);
        let want = hot();
        thalweg::set_measuring(Some(f64::INFINITY));
        let (runs, c) = counted(|| {
            let begin = counters();
            (1..200).find(|_| {
                assert!(hot() == want, "the same bits by every plan");
                counters().autotuned > begin.autotuned
            })
        });
        assert!(runs.is_some_and(|n| n > 9), "{runs:?}");
        assert_eq!(c.autotuned, 1);
        let (_, why) = thalweg::explain(|| drop(hot()));
        let plans = &why.segments[0].autotuning;
        assert!(plans.len() > 1 && plans.iter().filter(|p| p.chosen).count() == 1, "{why}");
        assert!(plans.iter().all(|p| p.measured_ns > 0 && p.runs >= 3), "{why}");
        assert_eq!(counted(hot).1.autotuned, 0, "decided once");
        thalweg::set_measuring(before);
    });
}

#[test]
fn the_device_tells_how_long_each_launch_takes() {
    let x = tensor(&[0.5; 600]).reshape([20, 30]);
    let run = || values(&(x.exp().sum(0).exp() + x.matmul(&x.t()).sum(1).sum(0)));
    run();
    let (_, why) = thalweg::explain(run);
    let kernels: Vec<_> = why.segments.iter().flat_map(|s| &s.kernels).collect();
    assert!(kernels.len() > 1 && kernels.iter().all(|k| k.launches == 1 && k.measured_ns > 0), "{why}");
    let (_, times) = thalweg::launch_times(run);
    assert!(times.len() == kernels.len() && times.iter().all(|&ns| ns > 0), "{times:?}");
}

#[test]
fn transposed_operands_are_read_in_tiles() {
    let shapes: [&[usize]; 4] = [&[131, 257], &[129, 128], &[3, 40, 200], &[24, 8, 100]];
    for dims in shapes {
        let n: usize = dims.iter().product();
        let x = Tensor::arange(n as f64).reshape(dims.to_vec()) / 64.0;
        let last = dims.len() - 1;
        let there = x.to_device(emulated()).unwrap();
        thalweg::synchronize().unwrap();
        // Each alone, or they would share a kernel.
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::U8] {
            let transposed = |x: &Tensor| {
                let x = x.cast(dtype);
                thalweg::synchronize().unwrap();
                (x.transpose(last - 1, last).cast(DType::F64) * 0.5).to_vec::<f64>().unwrap()
            };
            assert!(transposed(&there) == transposed(&x), "{dims:?} {dtype}");
            // For a long body a thread takes one vector.
            let long = |x: &Tensor| {
                let x = x.transpose(last - 1, last).cast(DType::I64);
                (0..60).fold(x.clone(), |y, k| y * 3 + &x + k).cast(DType::F64).to_vec::<f64>().unwrap()
            };
            assert!(dtype != DType::F32 || long(&there) == long(&x), "{dims:?}, long");
            // All dimensions permuted, beside a contiguous operand.
            let order: Vec<usize> = (0..dims.len()).rev().collect();
            let more = |x: &Tensor| {
                let x = x.cast(dtype);
                let z = x.permute(&order[..]) + 1;
                thalweg::synchronize().unwrap();
                (z.cast(DType::F32) - x.permute(&order[..]).cast(DType::F32)).to_vec::<f32>().unwrap()
            };
            assert!(more(&there) == more(&x), "{dims:?} {dtype}");
        }
    }
}

#[test]
fn strict_functions_of_constants_have_the_bits_that_the_chip_gives() {
    // An integer is not less than itself, so an optimizing compiler knows the function's argument.
    let x = indices(&[3, 4, 5]);
    let f = || {
        let one = x.le(&x).cast(DType::F32);
        let y = one.tan().expm1() + (&one * 0.7).erf() + (&one * 3.3).exp().log1p();
        values(&y).iter().map(|v| v.to_bits()).collect::<Vec<_>>()
    };
    let fused = thalweg::with_strict(true, f);
    assert_eq!(fused, thalweg::with_strict(true, || with_fusion(false, f)));
}

#[test]
fn many_folds_across_rows_take_turns_in_shared_memory() {
    let (rows, columns) = (2000, 64);
    let input: Vec<f32> = (0..rows * columns).map(|i: usize| (i % 7) as f32 - 3.0).collect();
    let x = tensor(&input).reshape([rows, columns]);
    let (all, c) = counted(|| (1..=20).map(|k| (&x * k as f32).abs().sum(0)).collect::<Vec<_>>());
    assert_eq!(c.kernels, 1, "one pass over what all of them read");
    for (k, sum) in all.iter().enumerate() {
        let want = |column: usize| (0..rows).map(|r| input[r * columns + column].abs() * (k + 1) as f32).sum::<f32>();
        assert_eq!(values(sum), (0..columns).map(want).collect::<Vec<f32>>(), "sum {k}");
    }
}

#[test]
fn readings_are_made_by_a_thread_of_their_own_in_order() {
    let x = tensor(&(0..500).map(|i| i as f32).collect::<Vec<_>>());
    let all: Vec<_> = (0..20).map(|n| (&x * n as f32).to_vec_async::<f32>()).collect();
    // The stream continues meanwhile, and the last reading is ready when all are.
    let sum = x.sum(..).item::<f32>().unwrap();
    let mut all: Vec<_> = all.into_iter().enumerate().collect();
    while let Some((n, reading)) = all.pop() {
        let got = reading.wait().unwrap();
        assert_eq!(got[3], 3.0 * n as f32);
        assert!(all.iter().all(|(_, earlier)| earlier.is_ready()), "they come in order");
    }
    assert_eq!(sum, 124_750.0);
    let wrong = x.index_select(0, &indices(&[7, 900])).to_vec_async::<f32>();
    assert!(matches!(wrong.wait(), Err(Error::Index(_) | Error::Failed(_))));
}

/// Blocks the reader thread in its wake-up until the other end is dropped.
struct Held(Mutex<Receiver<()>>);

impl Wake for Held {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().recv();
    }
}

#[test]
fn nobody_waits_for_a_reading_to_know_that_its_indices_are_in_range() {
    let x = tensor(&[1.0; 500]);
    let (good, bad) = (indices(&[7, 400]), indices(&[7, 900]));
    let (release, held) = channel();
    let waker = Waker::from(Arc::new(Held(Mutex::new(held))));
    // One that is ready before anybody polls blocks nobody.
    let mut first = x.exp().to_vec_async::<f32>();
    while Pin::new(&mut first).poll(&mut Context::from_waker(&waker)).is_ready() {
        first = x.exp().to_vec_async();
    }
    let readings = [&good, &bad].map(|index| x.index_select(0, index).to_vec_async::<f32>());
    let ready = readings.iter().filter(|r| r.is_ready()).count();
    drop::<Sender<()>>(release);
    assert_eq!(ready, 0, "nobody but that thread waits");
    let [right, wrong] = readings.map(|r| r.wait());
    assert_eq!(right.unwrap(), [1.0, 1.0]);
    assert!(matches!(wrong, Err(Error::Index(_))));
}

#[test]
fn of_results_that_were_not_written_only_those_fail_that_depend_on_it() {
    let (x, good, other, bad) = (tensor(&[1.0; 3]), indices(&[2, 1]), indices(&[0, 1]), indices(&[2, 3]));
    let line = line!() + 2;
    let turn = |index: &Tensor| {
        let failed = x.index_select(0, index);
        let (right, also) = (&x * 3.0, x.index_select(0, &good) + 1.0);
        assert_eq!((&right + also.sum(..)).sum(..).item::<f32>().unwrap(), 21.0);
        (failed, right, also)
    };
    // Dropped unread, so that they are deferred.
    (0..3).for_each(|_| drop(turn(&other)));
    let ((failed, right, also), c) = counted(|| turn(&bad));
    assert!(c.values_deferred >= 3, "{c:?}");
    assert_eq!((values(&right), values(&also)), (vec![3.0; 3], vec![2.0; 2]));
    let told = message(&failed);
    let want = "index_select: an index is out of range for axis 0 of size 3, at crates/thalweg/tests/emulated/main.rs:";
    assert!(told.starts_with(&format!("{want}{line}:")), "{told}");
}

#[test]
fn synchronize_asks_about_what_is_held_and_gives_an_error_once() {
    let x = tensor(&[1.0; 3]);
    let bad = x.index_select(0, &indices(&[2, 3]));
    let after = &bad + 1.0;
    let told = thalweg::synchronize().unwrap_err().to_string();
    assert!(told.contains("index_select: an index is out of range for axis 0 of size 3, at "), "{told}");
    thalweg::synchronize().unwrap();
    assert!(message(&bad).starts_with("index_select: ") && message(&after).contains("index_select: "));
    // The error of a dropped value is reported nowhere.
    drop(x.index_select(0, &indices(&[5, 3])));
    thalweg::synchronize().unwrap();
    // A read has reported the error.
    let bad = x.index_select(0, &indices(&[9, 3]));
    assert!(message(&bad).starts_with("index_select: "));
    thalweg::synchronize().unwrap();
}

#[test]
fn a_run_may_have_more_launches_with_indices_than_fault_words_are_allocated_at_a_time() {
    let device = Device::from_name("cuda:emulated:small").expect("there is a C++ compiler");
    let run = |index: &[i64]| {
        let table = Tensor::new([0.0f32, 1.0, 2.0, 3.0, 4.0]).to_device(device).unwrap();
        let mut index = Tensor::new(index).to_device(device).unwrap();
        // A cache that grows from empty, and a gather in each step.
        let mut all = Tensor::zeros_with([2, 0], (DType::F32, device));
        for step in 0..12 {
            all = Tensor::cat(&[&all, &table.index_select(0, &index).unsqueeze(1)], 1);
            index = (index.cumsum(0) * 3 + step) % 5;
        }
        all.sum(..).to_vec::<f32>()
    };
    let want = with_fusion(false, || run(&[1, 2]).unwrap());
    assert_eq!(run(&[1, 2]).unwrap(), want);
    // Whichever fault slot reports it.
    assert!(
        run(&[1, 7]).unwrap_err().to_string().contains("index_select: an index is out of range for axis 0 of size 5")
    );
    assert_eq!(run(&[1, 2]).unwrap(), want);
}
