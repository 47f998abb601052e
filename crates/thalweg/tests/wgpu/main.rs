//! The backend of wgpu against the CPU, on the first adapter (Mesa's lavapipe where there is no GPU). Tests are left out,
//! with a printed reason, where there is none.
#![cfg(feature = "wgpu")]

mod contractions;
mod families;

use thalweg::prelude::*;
use thalweg::{Error, set_default_device};

/// The first adapter; `None` with a printed reason where there is none.
fn adapter() -> Option<Device> {
    Device::from_name("wgpu:0").inspect_err(|why| println!("left out: {why}")).ok()
}

/// Runs `f` with an adapter as the thread's default device, and again with the CPU; returns both results.
fn both<T>(f: impl Fn() -> T) -> Option<[T; 2]> {
    let device = adapter()?;
    let on = |device: Device| {
        let before = set_default_device(Some(device));
        let out = f();
        set_default_device(before);
        out
    };
    Some([on(device), on(Device::cpu())])
}

/// Numbers of a fixed sequence in -2..2.
fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + 13) % 4001) as f32 / 1000.0 - 2.0).collect()
}

/// Compares the floats of a computation on both devices.
fn agrees(tolerance: f32, f: impl Fn() -> Tensor) {
    let Some([got, want]) = both(|| f().cast(DType::F32).to_vec::<f32>().unwrap()) else { return };
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        let near = (g - w).abs() <= tolerance * w.abs().max(1.0) || g.is_nan() && w.is_nan() || g == w;
        assert!(near, "element {i}: {g} on wgpu, {w} on the CPU");
    }
}

/// Compares the integers of a computation on both devices.
fn equals(f: impl Fn() -> Tensor) {
    let Some([got, want]) = both(|| f().cast(DType::I64).to_vec::<i64>().unwrap()) else { return };
    assert_eq!(got, want);
}

#[test]
fn f64_is_refused_with_a_reason() {
    let Some(device) = adapter() else { return };
    let x = Tensor::from_slice(&[1.0f64, 2.0], [2]).to_device(device).unwrap();
    let why = (&x + &x).to_vec::<f64>().unwrap_err();
    assert!(why.to_string().contains("there is no f64"), "{why}");
}

#[test]
fn an_adapter_without_a_number_is_named_in_the_error() {
    if adapter().is_none() {
        let why = Device::from_name("wgpu:0").unwrap_err().to_string();
        assert!(why.contains("install"), "{why}");
        return;
    }
    let why = Device::from_name("wgpu:99").unwrap_err().to_string();
    assert!(why.contains("numbered from 0"), "{why}");
}

#[test]
fn an_index_out_of_range_is_reported() {
    let Some(device) = adapter() else { return };
    let x = Tensor::from_slice(&numbers(12), [4, 3]).to_device(device).unwrap();
    let index = Tensor::from_slice(&[0i64, 4], [2]).to_device(device).unwrap();
    match x.index_select(0, &index).to_vec::<f32>() {
        Err(Error::Index(_)) => {}
        other => panic!("{other:?}"),
    }
    // The device goes on.
    assert_eq!((&x * 2.0).to_vec::<f32>().unwrap()[1], 2.0 * numbers(2)[1]);
}

#[test]
fn strict_mode_is_refused_with_a_reason() {
    let Some(device) = adapter() else { return };
    let x = Tensor::from_slice(&numbers(6), [6]).to_device(device).unwrap();
    let why = thalweg::with_strict(true, || (&x * 2.0 + 1.0).to_vec::<f32>()).unwrap_err();
    assert!(why.to_string().contains("strict mode on wgpu"), "{why}");
}
