//! Creation of tensors, and reads.

use thalweg::prelude::*;
use thalweg::{bf16, f16};

fn round_trip<T: Element>(values: [T; 4]) {
    let x = Tensor::new([[values[0], values[1]], [values[2], values[3]]]);
    assert_eq!((x.dims(), x.dtype()), (&[2, 2][..], T::DTYPE));
    assert_eq!(x.to_vec::<T>().unwrap(), values);
    assert_eq!(x.slice((1, 0)).item::<T>().unwrap(), values[2]);
    assert_eq!(Tensor::from_slice(&values, [4]).to_vec::<T>().unwrap(), values);
}

#[test]
fn every_dtype_goes_in_and_comes_out() {
    round_trip([1.5f32, f32::MAX, f32::NEG_INFINITY, -0.0]);
    round_trip([1.5f64, f64::MIN_POSITIVE, f64::MAX, -0.0]);
    round_trip([1.5, -3.0, 65504.0, 6e-8].map(f16::from_f32));
    round_trip([1.5, -3.0, 1e38, 1e-40].map(bf16::from_f32));
    round_trip([i8::MIN, -1, 0, i8::MAX]);
    round_trip([i16::MIN, -1, 0, i16::MAX]);
    round_trip([i32::MIN, -1, 0, i32::MAX]);
    round_trip([i64::MIN, -1, 0, i64::MAX]);
    round_trip([0u8, 1, 127, u8::MAX]);
    round_trip([0u32, 1, 1 << 31, u32::MAX]);
    round_trip([true, false, false, true]);
}

#[test]
fn nested_data_of_every_kind() {
    assert_eq!(Tensor::new(7i32).dims(), [0usize; 0]);
    assert_eq!(Tensor::new(vec![vec![1.0f32, 2.0], vec![3.0, 4.0]]).dims(), [2, 2]);
    assert_eq!(Tensor::new(&[[1u8, 2, 3]][..]).dims(), [1, 3]);
    assert_eq!(Tensor::new([vec![[true; 3]; 2]]).dims(), [1, 2, 3]);
    assert_eq!(Tensor::new(Vec::<[f32; 3]>::new()).dims(), [0, 0]);
    assert_eq!(Tensor::from(vec![1i64, 2]).to_vec::<i64>().unwrap(), [1, 2]);
    let x: Tensor = 2.5f64.into();
    assert_eq!(x.item::<f64>().unwrap(), 2.5);
}

#[test]
fn constants_default_to_f32_and_take_options() {
    let device = Device::default();
    assert_eq!(Tensor::zeros([2]).to_vec::<f32>().unwrap(), [0.0; 2]);
    assert_eq!(Tensor::ones_with([2], DType::Bool).to_vec::<bool>().unwrap(), [true; 2]);
    assert_eq!(Tensor::full_with((), 7, (DType::I16, device)).item::<i16>().unwrap(), 7);
    assert_eq!(Tensor::full([1], 0.5).to_vec::<f32>().unwrap(), [0.5]);
    let x = Tensor::new([1u8, 2]);
    assert_eq!(x.zeros_like().to_vec::<u8>().unwrap(), [0, 0]);
    assert_eq!(x.full_like(9).to_vec::<u8>().unwrap(), [9, 9]);
    assert_eq!(x.to_device(device).unwrap().to_vec::<u8>().unwrap(), [1, 2]);
}

#[test]
fn ranges_have_numpys_lengths() {
    assert_eq!(Tensor::arange(3).to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
    assert_eq!(Tensor::arange_with(2..5, DType::I64).to_vec::<i64>().unwrap(), [2, 3, 4]);
    assert_eq!(Tensor::arange_with((10, 0, -3), DType::I8).to_vec::<i8>().unwrap(), [10, 7, 4, 1]);
    assert_eq!(Tensor::arange((5, 2)).numel(), 0);
    assert_eq!(Tensor::arange(-4).numel(), 0);
    assert_eq!(Tensor::arange((0.0, 0.35, 0.1)).numel(), 4);
    assert_eq!(Tensor::arange_with(300, DType::BF16).slice(257).item::<bf16>().unwrap().to_f32(), 256.0);
    let ends = Tensor::linspace(0.1, 0.7, 50);
    assert_eq!(ends.slice(0).item::<f32>().unwrap(), 0.1);
    assert_eq!(ends.slice(-1).item::<f32>().unwrap(), 0.7);
    assert_eq!(Tensor::linspace(0.0, 1.0, 0).numel(), 0);
}

#[test]
fn wrong_reads_are_errors_that_name_both_sides() {
    let x = Tensor::new([1i32, 2]);
    let e = x.to_vec::<f32>().unwrap_err().to_string();
    assert_eq!(e, "to_vec: the tensor is i32, not f32; .cast(DType::F32) converts");
    assert_eq!(x.item::<i32>().unwrap_err().to_string(), "item: shape [2] has 2 elements, not one");
    assert_eq!(x.to_vec::<i32>().unwrap(), [1, 2]);
}

#[test]
fn more_than_memory_is_an_error_at_the_read() {
    let huge = Tensor::zeros([1 << 40, 1 << 10]);
    let x = huge + 1.0;
    assert!(matches!(x.to_vec::<f32>(), Err(Error::OutOfMemory { .. } | Error::Failed(_))));
    // The stream continues.
    assert_eq!((Tensor::ones([2]) + 1.0).to_vec::<f32>().unwrap(), [2.0, 2.0]);
}

/// The list of devices in messages; more than one with GPUs.
fn there() -> String {
    let names = Device::names();
    format!("{}: {}", if names.len() == 1 { "is" } else { "are" }, names.join(", "))
}

#[test]
fn devices_are_found_by_name() {
    assert_eq!(Device::from_name("cpu").unwrap(), Device::cpu());
    let e = Device::from_name("abacus").unwrap_err().to_string();
    assert_eq!(e, format!("abacus: no such device; there {}", there()));
    assert!(Device::cuda(999).unwrap_err().to_string().starts_with("cuda:999: "));
    assert_eq!(Tensor::zeros([1]).device(), Device::default());
    assert!(!Device::cpu().describe().is_empty());
}

#[test]
fn modes_hold_inside_and_are_restored() {
    let mode = thalweg_stream::mode;
    let before = mode();
    thalweg::with_fusion(false, || assert!(!mode().fused));
    thalweg::with_strict(true, || assert!(mode().strict && mode().fused == before.fused));
    let _ = std::panic::catch_unwind(|| thalweg::with_fusion(!before.fused, || panic!("unwinds")));
    assert_eq!(mode(), before);
    thalweg::synchronize().unwrap();
}

#[test]
#[ignore = "run by the test below, in a process with another environment"]
fn default_device_of_the_environment() {
    let _ = Device::default();
}

#[test]
fn an_unknown_device_in_the_environment_is_named() {
    let exe = std::env::current_exe().unwrap();
    let run = |device: &str| {
        let args = ["creation::default_device_of_the_environment", "--exact", "--ignored", "--nocapture"];
        let out = std::process::Command::new(&exe).args(args).env("THALWEG_DEVICE", device).output().unwrap();
        (out.status.success(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    assert!(run("cpu").0);
    let (ok, text) = run("abacus");
    assert!(
        !ok && text.contains("THALWEG_DEVICE=abacus: it may be cpu, cuda, cuda:0 and so on, or wgpu:0 and so on"),
        "{text}"
    );
    let (ok, text) = run("cuda:999");
    assert!(!ok && text.contains("the default device: cuda:999: "), "{text}");
}

#[test]
fn indices_and_sizes_are_any_integers() {
    let x = Tensor::arange(12).reshape([3, 4]);
    let size = x.size(1i64);
    assert_eq!((size, x.size(-1isize), x.size(1usize), x.size(1i32)), (4, 4, 4, 4));
    let last = [11.0f32];
    for row in [x.select(0, 2usize), x.select(0usize, -1i32), x.select(0i32, 2i64), x.index_axis(-2, -1isize)] {
        for part in [row.narrow(0, size - 1, 1), row.narrow(0usize, -1, 1usize), row.narrow(-1i64, 3i64, 1isize)] {
            assert_eq!(part.to_vec::<f32>().unwrap(), last);
            assert_eq!(part.expand(size).numel(), 4);
            assert_eq!((part.expand([2i32, -1]).dims(), part.expand((size, 1i64)).dims()), (&[2, 1][..], &[4, 1][..]));
        }
    }
    assert_eq!(x.select_scatter(0, 2usize, 0).sum(..).item::<f32>().unwrap(), 28.0);
}
