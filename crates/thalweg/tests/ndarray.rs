//! Conversion from and to `ndarray` arrays.

use ndarray::{Array2, ArrayD, arr2, s};
use thalweg::prelude::*;

#[test]
fn arrays_of_any_layout_go_in() {
    let a = arr2(&[[1i64, 2, 3], [4, 5, 6]]);
    for (array, wanted) in [(a.view(), vec![1, 2, 3, 4, 5, 6]), (a.slice(s![.., ..;-2]), vec![3, 1, 6, 4])] {
        let x = Tensor::from(&array);
        assert_eq!((x.dims(), x.to_vec::<i64>().unwrap()), (array.shape(), wanted));
    }
    assert_eq!(Tensor::from(a.t()).to_vec::<i64>().unwrap(), [1, 4, 2, 5, 3, 6]);
    assert_eq!(Tensor::from(a).dims(), [2, 3]);
}

#[test]
fn tensors_come_out_as_arrays() {
    let x = Tensor::arange(6).reshape([2, 3]).t();
    let array = ArrayD::<f32>::try_from(&x).unwrap();
    let fixed: Array2<f32> = array.into_dimensionality().unwrap();
    assert_eq!(fixed, arr2(&[[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]));
    assert!(ArrayD::<i32>::try_from(x).unwrap_err().to_string().contains("f32, not i32"));
}
