//! Asynchronous reads.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use thalweg::prelude::*;

/// Waker of a parked thread.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, as an executor does.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(out) => return out,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn readings_give_what_reads_give() {
    let x = Tensor::arange(1000).reshape([10, 100]).cast(DType::F32);
    let (all, part) = ((&x * 2.0).to_vec_async::<f32>(), x.t().slice(3..5).to_vec_async::<f32>());
    assert!(all.is_ready(), "the CPU has done it when it is asked");
    assert_eq!(block_on(all).unwrap(), (&x * 2.0).to_vec::<f32>().unwrap());
    assert_eq!(part.wait().unwrap(), x.t().slice(3..5).to_vec::<f32>().unwrap());
    assert!(block_on(async { Tensor::zeros([0]).to_vec_async::<f32>().await }).unwrap().is_empty());
}

#[test]
fn what_a_reading_cannot_give_is_its_error() {
    let x = Tensor::new([1.0f32, 2.0]);
    let wrong = x.to_vec_async::<i64>().wait().unwrap_err();
    assert!(wrong.to_string().contains("f32, not i64"), "{wrong}");
    let taken = x.index_select(0, &Tensor::new([5i64])).to_vec_async::<f32>();
    assert!(matches!(taken.wait(), Err(Error::Index(_))));
    assert_eq!((&x + 1.0).to_vec_async::<f32>().wait().unwrap(), [2.0, 3.0], "the stream goes on");
}

#[test]
fn readings_go_to_other_threads_and_may_be_dropped() {
    let x = Tensor::new([1.5f32, 2.5]);
    drop((&x * 2.0).to_vec_async::<f32>());
    let reading = (&x * 3.0).to_vec_async::<f32>();
    assert_eq!(thread::spawn(move || reading.wait().unwrap()).join().unwrap(), [4.5, 7.5]);
}
