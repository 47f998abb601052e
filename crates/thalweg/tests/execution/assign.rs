//! Slice assignment: values against a loop over indices, and bytes moved: in place if nobody else holds the tensor, and
//! one kernel with its neighbours.
#![allow(clippy::reversed_empty_ranges, reason = "-1 counts from the end: clippy does not know")]

use crate::counting::{counted, pinned, randn};
use thalweg::prelude::*;

/// The indices that a range takes of an axis.
fn taken(arg: SliceArg, size: usize) -> Vec<usize> {
    let places = Tensor::arange_with(size, DType::I64).slice(arg);
    places.flatten().to_vec::<i64>().unwrap().iter().map(|&p| p as usize).collect()
}

#[test]
fn parts_are_replaced_as_a_loop_does_it() {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut nothing = 0;
    for case in 0..150 {
        let dims: Vec<usize> = (0..rng.usize(1..4)).map(|_| rng.usize(1..7)).collect();
        let args: Vec<SliceArg> = dims
            .iter()
            .map(|&d| match rng.u32(..8) {
                0 => SliceArg::At(rng.i64(-(d as i64)..d as i64)),
                1 => SliceArg::range(None, None, 1),
                _ => {
                    let mut end = || if rng.bool() { Some(rng.i64(-8..8)) } else { None };
                    let (start, end) = (end(), end());
                    let step = [1, 1, 2, 3, -1, -2, -3][rng.usize(..7)];
                    SliceArg::range(start, end, step)
                }
            })
            .collect();
        let n: usize = dims.iter().product();
        let x = Tensor::arange(n).reshape(dims.clone());
        let part = x.slice(args.clone());
        let v = Tensor::arange((1000, 1000 + part.numel())).reshape(*part.shape());
        let got = x.slice_scatter(args.clone(), &v);

        let places: Vec<Vec<usize>> = args.iter().zip(&dims).map(|(&a, &d)| taken(a, d)).collect();
        let mut want: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let mut at = vec![vec![]];
        for axis in &places {
            at = at.iter().flat_map(|p: &Vec<usize>| axis.iter().map(|&i| [p.as_slice(), &[i]].concat())).collect();
        }
        for (value, p) in at.iter().enumerate() {
            want[p.iter().zip(&dims).fold(0, |flat, (&i, &d)| flat * d + i)] = 1000.0 + value as f32;
        }
        nothing += at.is_empty() as u32;
        assert_eq!(got.dims(), dims);
        assert_eq!(got.to_vec::<f32>().unwrap(), want, "case {case}: {args:?} of {dims:?}");
        assert_eq!(got.slice(args).to_vec::<f32>().unwrap(), v.to_vec::<f32>().unwrap());
    }
    assert!(nothing > 5 && nothing < 100, "{nothing} of 150 parts are empty");
}

#[test]
fn values_broadcast_and_handles_to_the_old_value_keep_it() {
    let mut x = Tensor::zeros([2, 3, 2]);
    let old = x.clone();
    x.set((.., 1, ..), Tensor::new([1.0f32, 2.0]));
    x.slice_mut((0, .., 0)).assign(7);
    *x.slice_mut((1, ..)) -= Tensor::new([[1.0f32], [2.0], [3.0]]);
    *x.slice_mut(..) *= 2;
    x.slice_mut((1, 2)).update(|s| s.square());
    let want = [14.0, 0.0, 14.0, 4.0, 14.0, 0.0, -2.0, -2.0, -2.0, 0.0, 36.0, 36.0];
    assert_eq!(x.to_vec::<f32>().unwrap(), want);
    assert_eq!(old.to_vec::<f32>().unwrap(), [0.0; 12]);
    assert_eq!(x.select_scatter(-1, 0, 1).index_axis(2, 0).to_vec::<f32>().unwrap(), [1.0; 6]);
    let mut flags = Tensor::new([true, false, false]);
    flags.set(2, true);
    assert_eq!(flags.to_vec::<bool>().unwrap(), [true, false, true]);
}

#[test]
fn nobody_else_holds_it_so_only_the_part_is_written() {
    let _pinned = pinned();
    let mut x = randn([1024, 256]);
    let before = x.to_vec::<f32>().unwrap();
    let ((), c) = counted(|| x.slice_mut((100..104, ..)).assign(3));
    assert_eq!((c.kernels, c.reused_in_place, c.bytes_allocated), (1, 1, 0));
    assert_eq!((c.bytes_read, c.bytes_written), (0, 4 * 256 * 4));
    // Old elements are read in place.
    let ((), c) = counted(|| *x.slice_mut((1..-1, 1..-1)) += 1);
    assert_eq!((c.kernels, c.reused_in_place, c.bytes_allocated), (1, 1, 0));
    assert_eq!((c.bytes_read, c.bytes_written), (1022 * 254 * 4, 1022 * 254 * 4));
    let after = x.to_vec::<f32>().unwrap();
    let inner = |i: usize| (1..1023).contains(&(i / 256)) && (1..255).contains(&(i % 256));
    for (i, (b, a)) in before.iter().zip(&after).enumerate() {
        let set = if (100..104).contains(&(i / 256)) { 3.0 } else { *b };
        assert_eq!(*a, set + inner(i) as u8 as f32, "{i}");
    }
}

#[test]
fn somebody_holds_it_so_it_is_copied_once() {
    let _pinned = pinned();
    let mut x = randn([1024, 256]);
    let old = x.clone();
    let ((), c) = counted(|| x.set((100..104, ..), 3));
    assert_eq!((c.kernels, c.reused_in_place), (1, 0));
    assert_eq!((c.bytes_read, c.bytes_written), (1020 * 256 * 4, 1024 * 256 * 4));
    assert_ne!(old.to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
}

#[test]
fn a_stencil_step_is_one_kernel_and_reads_its_grid_once() {
    let _pinned = pinned();
    let mut u = randn([512, 512]);
    let step = |u: &mut Tensor| {
        let near = u.slice((2.., 1..-1)) + u.slice((..-2, 1..-1)) + u.slice((1..-1, 2..)) + u.slice((1..-1, ..-2));
        let inner = u.slice((1..-1, 1..-1));
        u.slice_mut((1..-1, 1..-1)).assign(&inner + (near - &inner * 4.0) * 0.1);
    };
    let ((), c) = counted(|| step(&mut u));
    // Neighbours are read at other points than are written: a new grid, without a copy.
    assert_eq!((c.kernels, c.bytes_written, c.bytes_allocated), (1, 4 << 18, 4 << 18));
    assert!(c.bytes_read <= (4 << 18) + 64 * 1024, "{}", c.bytes_read);
}

#[test]
fn what_is_computed_for_a_part_and_what_reads_the_result_are_in_its_kernel() {
    let _pinned = pinned();
    let (x, v) = (randn([256, 256]), randn([256]));
    let (y, c) = counted(|| {
        let mut y = x.exp();
        y.slice_mut((7, ..)).assign(v.sin() * 2.0);
        y.sqrt()
    });
    assert_eq!(c.kernels, 1);
    assert_eq!(c.bytes_read, (255 * 256 + 256) * 4);
    let want = x.exp().slice_scatter((7, ..), v.sin() * 2.0).sqrt();
    assert_eq!(thalweg::with_fusion(false, || want.to_vec::<f32>()).unwrap().len(), y.numel());
}

#[test]
fn rows_written_by_a_loop_are_few_plans() {
    let _pinned = pinned();
    let mut x = Tensor::zeros([2000, 64]);
    thalweg::synchronize().unwrap();
    let turns = |x: &mut Tensor, from: usize| {
        for i in from..from + 400 {
            let row = Tensor::arange(64) * i;
            x.set(i, row);
        }
        thalweg::synchronize().unwrap();
    };
    turns(&mut x, 1);
    turns(&mut x, 401);
    let ((), c) = counted(|| turns(&mut x, 801));
    assert_eq!(c.plans_made, 0, "a loop that was seen before is planned anew");
    let row = x.slice(900).to_vec::<f32>().unwrap();
    assert_eq!(row, (0..64).map(|j| 900.0 * j as f32).collect::<Vec<_>>());
    assert_eq!(x.slice(1999).sum(..).item::<f32>().unwrap(), 0.0);
}

/// A tensor updated in place is a buffer of its own: a broadcast has fewer elements in memory than in its shape.
#[test]
fn a_part_of_a_broadcast_is_written_beside_it() {
    for strict in [false, true] {
        for fused in [false, true] {
            thalweg::with_strict(strict, || {
                thalweg::with_fusion(fused, || {
                    // First the case of a tensor with all of its elements in memory, so that its plan is known.
                    for whole in [true, false] {
                        let y = Tensor::new([true]);
                        let x = Tensor::new(false);
                        let x = if whole { Tensor::new([false, false]) } else { (!!x).broadcast_to([2]) };
                        thalweg::synchronize().unwrap();
                        let y = y.reshape([1]) & true;
                        let z = { x }.slice_scatter((1..,), &y);
                        assert_eq!(z.to_vec::<bool>().unwrap(), [false, true], "{strict} {fused} {whole}");
                    }
                })
            });
        }
    }
}
