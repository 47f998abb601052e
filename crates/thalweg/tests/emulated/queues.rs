//! Concurrent threads, devices and copies on the emulated GPU, whose queues run only as far as somebody waits for them.

use super::*;
use thalweg::set_default_device;

/// Number of elements of a tensor, large enough for copies to use their own queues.
const N: usize = 40_000;

fn numbers(from: usize) -> Vec<f32> {
    (from..from + N).map(|i| (i % 1000) as f32).collect()
}

fn on(device: Device, data: &[f32]) -> Tensor {
    Tensor::try_from_slice(data, [data.len()], device).unwrap()
}

#[test]
fn inputs_of_a_loop_arrive_before_they_are_used() {
    let device = emulated();
    let mut results = vec![];
    for step in 0..12 {
        let x = on(device, &numbers(step));
        results.push((&x * 2.0 + 1.0, x.sum(..)));
        thalweg::flush();
    }
    for (step, (y, sum)) in results.iter().enumerate() {
        let x = numbers(step);
        assert_eq!(y.to_vec::<f32>().unwrap(), x.iter().map(|x| 2.0 * x + 1.0).collect::<Vec<_>>());
        assert_eq!(f64::from(sum.item::<f32>().unwrap()), x.iter().map(|&x| f64::from(x)).sum::<f64>());
    }
}

#[test]
fn threads_share_inputs_and_hand_results_to_each_other() {
    let device = emulated();
    let weights = on(device, &numbers(0)) + 1.0;
    thalweg::flush();
    let parts: Vec<Tensor> = std::thread::scope(|scope| {
        let work = |t: usize| {
            let weights = &weights;
            scope.spawn(move || {
                let mut y = on(device, &numbers(t));
                for _ in 0..6 {
                    y = (&y + weights) * 0.5;
                    thalweg::flush();
                }
                y
            })
        };
        let all: Vec<_> = (0..6).map(work).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let sum = parts.iter().skip(1).fold(parts[0].clone(), |sum, y| sum + y);
    let weights: Vec<f32> = numbers(0).iter().map(|x| x + 1.0).collect();
    let one = |t: usize, i: usize| (0..6).fold(numbers(t)[i], |y, _| (y + weights[i]) * 0.5);
    let got = sum.to_vec::<f32>().unwrap();
    for i in [0, 1, 500, N - 1] {
        let want = (1..6).fold(one(0, i), |sum, t| sum + one(t, i));
        assert!((got[i] - want).abs() <= 1e-3, "{i}: {} for {want}", got[i]);
    }
}

#[test]
fn tensors_go_from_gpu_to_emulated() {
    let (a, b) = (emulated(), Device::from_name("cuda:emulated:1").unwrap());
    let sevens = numbers(7);
    for step in 0..6 {
        let own = numbers(step);
        let x = on(a, &own) + 1.0;
        let (there, c) = counted(|| x.to_device(b).unwrap());
        assert_eq!((c.bytes_between_devices, c.bytes_to_host), (4 * N as u64, 0));
        drop(x);
        let back = (there * 2.0).to_device(a).unwrap() + on(a, &sevens);
        let want: Vec<f32> = own.iter().zip(&sevens).map(|(x, y)| 2.0 * (x + 1.0) + y).collect();
        assert_eq!(back.to_vec::<f32>().unwrap(), want);
    }
    // A value that is not row-major is copied through the host.
    let x = on(a, &numbers(0)).reshape([200, 200]).transpose(0, 1);
    let want = x.to_vec::<f32>().unwrap();
    assert_eq!(x.to_device(b).unwrap().to_vec::<f32>().unwrap(), want);
    let empty = on(a, &[]).to_device(b).unwrap();
    assert!(empty.to_vec::<f32>().unwrap().is_empty());
}

#[test]
fn gradients_come_back_from_another_emulated() {
    let (a, b) = (emulated(), Device::from_name("cuda:emulated:1").unwrap());
    let x = on(a, &numbers(3)).tracked();
    let y = (x.to_device(b).unwrap().square()).sum(..);
    let dx = y.backward().get(&x).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(dx, numbers(3).iter().map(|x| 2.0 * x).collect::<Vec<_>>());
}

#[test]
fn an_index_out_of_range_is_the_error_of_the_thread_that_made_it() {
    set_default_device(Some(emulated()));
    let table = Tensor::from_slice(&numbers(0), [N]);
    let fine = std::thread::scope(|scope| {
        let bad = scope.spawn(|| {
            let index = Tensor::from_slice(&[1i64, 50_000], [2]);
            let index = index.to_device(emulated()).unwrap();
            table.gather(0, &index).to_vec::<f32>()
        });
        let good = scope.spawn(|| {
            let index = Tensor::from_slice(&[3i64, 7], [2]).to_device(emulated()).unwrap();
            table.gather(0, &index).to_vec::<f32>()
        });
        assert!(matches!(bad.join().unwrap(), Err(Error::Index(_))));
        good.join().unwrap()
    });
    assert_eq!(fine.unwrap(), [3.0, 7.0]);
}
