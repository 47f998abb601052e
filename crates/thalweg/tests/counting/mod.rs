//! What tests that count share.
#![allow(dead_code, reason = "each test program uses a part of it")]

use thalweg::prelude::*;
use thalweg::{Counters, counters};

/// What the calling thread counted while `f` ran, everything waiting included.
pub fn counted<T>(f: impl FnOnce() -> T) -> (T, Counters) {
    thalweg::synchronize().unwrap();
    counted_alone(|| {
        let out = f();
        thalweg::synchronize().unwrap();
        out
    })
}

/// What it counted while `f` ran, and no more: to synchronise is to ask for everything.
pub fn counted_alone<T>(f: impl FnOnce() -> T) -> (T, Counters) {
    let before = counters();
    let out = f();
    (out, counters() - before)
}

/// Normal numbers, in memory.
pub fn randn(shape: impl Into<thalweg::Shape>) -> Tensor {
    let x = Tensor::randn(shape.into());
    thalweg::synchronize().unwrap();
    x
}
