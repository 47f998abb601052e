//! The backend of wgpu against the CPU, on the first adapter (Mesa's lavapipe where there is no GPU).
#![cfg(feature = "wgpu")]

use thalweg::prelude::*;

/// The first adapter; `None` with a printed reason where there is none.
fn adapter() -> Option<Device> {
    Device::from_name("wgpu:0").inspect_err(|why| println!("left out: {why}")).ok()
}

#[test]
fn a_map_of_floats() {
    let Some(device) = adapter() else { return };
    let x = Tensor::from_slice(&[1.0f32, -2.0, 3.5, 0.25, 7.0], [5]);
    let y = x.to_device(device).unwrap();
    let z = (&y * 2.0 + 1.0).to_vec::<f32>().unwrap();
    assert_eq!(z, [3.0, -3.0, 8.0, 1.5, 15.0]);
    let e = y.exp().to_vec::<f32>().unwrap();
    println!("{e:?}");
}
