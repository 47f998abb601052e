//! Data loading: samples and order of batches, and errors of samples.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_nn::data::{DataLoader, Dataset, Epoch, Rows, SampleError, samples};
use thalweg_nn::prelude::*;

/// Dataset whose samples are their own indices.
fn numbers(len: usize) -> impl Dataset<Batch = Tensor> {
    samples(len, |i| Ok::<i64, std::io::Error>(i as i64))
}

fn taken<D: Dataset<Batch = Tensor>>(epoch: Epoch<D>) -> Vec<Vec<i64>> {
    epoch.map(|batch| batch.unwrap().to_vec::<i64>().unwrap()).collect()
}

#[test]
fn every_sample_once_an_epoch() {
    let plain = DataLoader::new(numbers(10), 4);
    assert_eq!(taken(plain.epoch(0)), [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]]);
    let whole = DataLoader::new(numbers(10), 4).drop_last();
    assert_eq!((whole.batches(), taken(whole.epoch(0)).len()), (2, 2));
    assert_eq!(taken(DataLoader::new(numbers(0), 4).epoch(0)).len(), 0);
    let mut orders = std::collections::BTreeSet::new();
    for epoch in 0..20 {
        let loader = DataLoader::new(numbers(50), 7).shuffled(3);
        let mut all = taken(loader.epoch(epoch)).concat();
        assert_eq!(taken(loader.epoch(epoch)).concat(), all);
        assert!(orders.insert(all.clone()), "epoch {epoch} has an order that was there before");
        all.sort_unstable();
        assert_eq!(all, (0..50).collect::<Vec<i64>>());
    }
    assert!(!orders.contains(&taken(DataLoader::new(numbers(50), 7).shuffled(4).epoch(0)).concat()));
}

/// Every sample is equally likely at every position: 1000 orders of 5, each count near 200.
#[test]
fn shuffling_is_uniform() {
    let loader = DataLoader::new(numbers(5), 5).shuffled(11);
    let mut counts = [[0; 5]; 5];
    for epoch in 0..1000 {
        for (place, &sample) in taken(loader.epoch(epoch))[0].iter().enumerate() {
            counts[place][sample as usize] += 1;
        }
    }
    // Five standard deviations of a binomial distribution.
    assert!(counts.iter().flatten().all(|&n: &i32| (n - 200).abs() < 64), "{counts:?}");
}

#[test]
fn threads_make_the_same_batches_in_the_same_order() {
    let wanted = taken(DataLoader::new(numbers(100), 3).shuffled(5).epoch(2));
    for threads in [1, 2, 5] {
        let loader = DataLoader::new(numbers(100), 3).shuffled(5).threads(threads);
        assert_eq!(taken(loader.epoch(2)), wanted);
        assert_eq!(taken(loader.epoch_from(2, 30)), wanted[30..]);
        assert_eq!(loader.epoch(2).len(), wanted.len());
    }
}

#[test]
fn no_more_is_made_ahead_than_was_asked_for() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let dataset = samples(100, move |i| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok::<i64, std::io::Error>(i as i64)
    });
    let loader = DataLoader::new(dataset, 1).threads(3).ahead(4);
    let mut epoch = loader.epoch(0);
    drop(epoch.next().unwrap().unwrap());
    drop(epoch.next().unwrap().unwrap());
    // However long the threads run: two batches were taken, four are ahead.
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert!(made.load(Ordering::SeqCst) <= 6);
    // Dropped before the end, the threads stop; nothing is made afterwards.
    drop(epoch);
    let last = made.load(Ordering::SeqCst);
    std::thread::sleep(std::time::Duration::from_millis(10));
    assert_eq!(made.load(Ordering::SeqCst), last);
}

#[test]
fn a_sample_that_fails_is_named() {
    for threads in [0, 2] {
        let dataset = samples(20, |i| if i == 13 { Err(format!("no file {i}.png")) } else { Ok(i as i64) });
        let loader = DataLoader::new(dataset, 5).threads(threads);
        let results: Vec<Result<Tensor, SampleError>> = loader.epoch(0).collect();
        let failed: Vec<usize> = (0..4).filter(|&i| results[i].is_err()).collect();
        assert_eq!(failed, [2]);
        let error = results[2].as_ref().err().unwrap();
        assert_eq!((error.index, error.to_string().as_str()), (13, "sample 13: no file 13.png"));
    }
    // A sample whose size differs from the others of its batch.
    let ragged = samples(8, |i| Ok::<_, String>((vec![0.0f32; if i == 6 { 2 } else { 3 }], i as i64)));
    let errors: Vec<SampleError> = DataLoader::new(ragged, 4).epoch(0).filter_map(Result::err).collect();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].to_string(), "sample 6: has 2 numbers, the first of its batch 3");
    let shapes = samples(3, |i| Ok::<_, String>(Tensor::zeros([i.min(1) + 1, 2])));
    let error = DataLoader::new(shapes, 3).epoch(0).next().unwrap().unwrap_err().to_string();
    assert_eq!(error, "sample 1: is f32 [2, 2], the first of its batch f32 [1, 2]");
}

#[test]
fn a_panic_of_the_dataset_comes_up_where_the_batch_is_asked_for() {
    let dataset = samples(4, |i| if i == 2 { panic!("broken sample {i}") } else { Ok::<i64, String>(i as i64) });
    let mut epoch = DataLoader::new(dataset, 1).threads(2).epoch(0);
    assert!(epoch.next().unwrap().is_ok() && epoch.next().unwrap().is_ok());
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| epoch.next())).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>().unwrap(), "broken sample 2");
    assert!(epoch.next().unwrap().is_ok());
}

#[test]
fn rows_of_tensors() {
    let x = Tensor::arange(12).reshape([6, 2]);
    let y = Tensor::arange_with(6, DType::I64);
    let loader = DataLoader::new(Rows::new([x, y]), 4).shuffled(1);
    for batch in loader.epoch(0) {
        let [x, y] = batch.unwrap();
        let (x, y) = (x.to_vec::<f32>().unwrap(), y.to_vec::<i64>().unwrap());
        assert!(
            y.iter().enumerate().all(|(at, &row)| x[2 * at..2 * at + 2] == [2.0 * row as f32, 2.0 * row as f32 + 1.0])
        );
    }
}

/// A batch made by a worker thread lives on the device of the consumer.
#[test]
fn batches_are_on_the_device_of_who_asks() {
    let own = Device::new_cpu(thalweg::CpuOptions { threads: 1, ..Default::default() });
    let before = thalweg::set_default_device(Some(own));
    let devices: Vec<Device> =
        DataLoader::new(numbers(4), 2).threads(1).epoch(0).map(|b| b.unwrap().device()).collect();
    thalweg::set_default_device(before);
    assert_eq!(devices, [own, own]);
}
