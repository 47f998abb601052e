//! Decompositions by the device's library, emulated on the host.
#![cfg(feature = "linalg")]

use super::{counted, emulated};
use held::Case;
use thalweg::prelude::*;
use thalweg::{Counters, grad};

#[path = "../../examples/decompositions/held.rs"]
mod held;

fn there(x: &Tensor) -> Result<Tensor, Error> {
    x.to_device(emulated())
}

/// The result, and the counters while it was computed and read.
fn read(f: impl FnOnce() -> Tensor) -> (Vec<f64>, Counters) {
    counted(|| f().to_f64_vec().unwrap())
}

#[test]
fn they_are_what_they_should_be() {
    manual_seed(5);
    for dtype in [DType::F32, DType::F64] {
        for (lead, m, n) in
            [(&[][..], 1, 1), (&[], 5, 5), (&[2, 3], 4, 4), (&[3], 6, 2), (&[], 2, 5), (&[2], 3, 7), (&[2], 36, 34)]
        {
            let case = Case { dtype, lead: lead.to_vec(), m, n };
            let held = std::cell::Cell::new(0);
            let told = |name: &str, off: &Result<f64, Error>| {
                held.set(held.get() + 1);
                assert!(matches!(off, Ok(off) if *off <= 1.0), "{name} of {dtype}{lead:?} [{m}, {n}]: {off:?}");
            };
            let (_, c) = counted(|| case.all(&there, &|_| true, &told));
            // The CPU's reference results are host calls.
            assert!(held.get() >= 9 && c.library_calls >= held.get(), "{} operations, {c:?}", held.get());
        }
    }
}

/// Operation, and its number of library calls.
type Counting<'a> = (&'static str, u64, &'a dyn Fn() -> Tensor);

#[test]
fn nothing_is_put_on_the_host_and_nobody_waits() {
    let a = there(&(Tensor::randn_with([5, 4, 4], DType::F64) + Tensor::eye(4).cast(DType::F64) * 4.0)).unwrap();
    let spd = a.matmul(&a.t());
    spd.to_f64_vec().unwrap();
    let all: [Counting<'_>; 9] = [
        ("cholesky", 1, &|| spd.cholesky()),
        ("lu", 1, &|| a.lu().2),
        ("solve", 1, &|| a.solve(&a.t())),
        ("inv", 1, &|| a.inv()),
        ("det", 1, &|| a.det()),
        ("qr", 1, &|| a.qr().1),
        ("svd", 1, &|| a.svd().1),
        ("eigh", 1, &|| spd.eigh().0),
        // Each needs the one before it, and none waits for it.
        ("cholesky_solve", 3, &|| spd.cholesky().cholesky_solve(&a)),
    ];
    for (name, calls, f) in all {
        let (_, c) = read(f);
        assert_eq!((c.library_calls, c.host_calls), (calls, 0), "{name}: {c:?}");
        assert_eq!(c.bytes_to_device, 0, "{name}: {c:?}");
    }
    // The result, and the fault slots of its dependencies.
    let (_, c) = read(|| spd.cholesky());
    assert_eq!(c.bytes_to_host, 5 * 16 * 8, "{c:?}");
}

#[test]
fn errors_are_those_of_the_host() {
    for dtype in [DType::F32, DType::F64] {
        for (name, got, want) in held::errors(&there, dtype) {
            assert_eq!(got, want, "{name} of {dtype}");
            assert!(want.contains("held.rs:"), "{want}");
        }
    }
    // Results that depend on a failed one fail with it, all others do not.
    let bad = there(&Tensor::new([[1.0f32, 2.0], [2.0, 4.0]])).unwrap();
    let (a, b) = (bad.inv() + 1.0, &bad + 1.0);
    let told = a.to_vec::<f32>().unwrap_err().to_string();
    assert!(
        told.starts_with("a value this depends on could not be computed: inv: singular: pivot 1 is 0, at "),
        "{told}"
    );
    assert_eq!(b.to_vec::<f32>().unwrap(), [2.0, 3.0, 3.0, 5.0]);
    let told = bad.inv().cholesky().to_vec::<f32>().unwrap_err().to_string();
    assert!(told.contains("inv: singular: pivot 1 is 0"), "{told}");
}

#[test]
fn singular_matrices_and_nan_have_values_where_they_can() {
    let bad = there(&Tensor::new([[1.0f64, 2.0], [2.0, 4.0]])).unwrap();
    let value = |x: Tensor| x.item::<f64>().unwrap();
    assert_eq!(value(bad.det()), 0.0);
    let (sign, log) = bad.slogdet();
    assert_eq!((value(sign), value(log)), (0.0, f64::NEG_INFINITY));
    assert_eq!(value(bad.cond(thalweg::MatrixNorm::One)), f64::INFINITY);
    assert_eq!(bad.matrix_rank(None).item::<i64>().unwrap(), 1);
    let nan = there(&Tensor::new([[1.0f32, f32::NAN], [2.0, 3.0]])).unwrap();
    let some = |x: Tensor| x.to_vec::<f32>().unwrap().iter().any(|v| v.is_nan());
    assert!(some(nan.det()) && some(nan.slogdet().0) && some(nan.qr().1) && some(nan.lu().2) && some(nan.inv()));
    // A triangle that is not read may hold anything.
    assert_eq!(nan.eigvalsh().to_vec::<f32>().unwrap().len(), 2);
}

#[test]
fn gradients_and_nothing() {
    let a = Tensor::randn_with([2, 4, 4], DType::F64) + Tensor::eye(4).cast(DType::F64) * 4.0;
    let slope = |x: &Tensor| {
        let x = x.tracked();
        let spd = x.matmul(&x.t());
        let y =
            spd.cholesky().square().sum(..) + x.slogdet().1.sum(..) + spd.eigvalsh().sqrt().sum(..) + x.inv().sum(..);
        grad(&y, &x)
    };
    let (got, want) = (slope(&there(&a).unwrap()).to_device(Device::cpu()).unwrap(), slope(&a));
    assert!((got - &want).abs().amax(..).item::<f64>().unwrap() < 1e-9 * want.abs().amax(..).item::<f64>().unwrap());
    for shape in [[0, 3, 3], [2, 0, 0]] {
        let none = there(&Tensor::zeros(shape)).unwrap();
        assert!(none.inv().to_vec::<f32>().unwrap().is_empty());
        assert_eq!(none.det().to_vec::<f32>().unwrap().len(), shape[0]);
    }
    assert_eq!(there(&Tensor::zeros([0, 3])).unwrap().svd().2.dims(), [0, 3]);
}

/// Results of a decomposition die, and their memory is reused before it is known whether it succeeded.
#[test]
fn long_chains() {
    let a = there(&(Tensor::randn_with([6, 6], DType::F64) * 0.1 + Tensor::eye(6).cast(DType::F64))).unwrap();
    let (mut x, mut want) = (a.clone(), a.to_device(Device::cpu()).unwrap());
    for _ in 0..300 {
        x = x.inv() * 0.5 + &a;
        want = want.inv() * 0.5 + a.to_device(Device::cpu()).unwrap();
    }
    assert!((x.to_device(Device::cpu()).unwrap() - want).abs().amax(..).item::<f64>().unwrap() < 1e-9);
}
