//! Regression tests: programs that once gave wrong values, each an example of a kind that has its own tests.

use thalweg::prelude::*;
use thalweg::{Pool, Reduction, with_fusion, with_strict};

fn floats(x: &Tensor) -> Vec<f64> {
    x.to_f64_vec().unwrap()
}

/// Calls `f` fused, in strict mode, and unfused.
fn in_each_mode(f: impl Fn()) {
    f();
    with_strict(true, &f);
    with_fusion(false, &f);
}

#[test]
fn derivatives_at_points_where_formulas_have_kinks() {
    in_each_mode(|| {
        let z = Tensor::zeros([1]).tracked();
        let loss = z.bce_with_logits(&Tensor::zeros([1]), Reduction::Sum);
        assert_eq!(floats(&loss.backward()[&z]), [0.5]);
        assert_eq!(floats(&z.softplus().sum(..).backward()[&z]), [0.5]);
        assert_eq!(floats(&z.norm(0).sum(..).backward()[&z]), [0.0]);
        let equal = Tensor::ones([1, 3]).tracked();
        assert_eq!(floats(&equal.std(1).sum(..).backward()[&equal]), [0.0; 3]);
        let points = Tensor::new([[0f32, 1.], [2., 3.]]).tracked();
        let gradient = points.cdist(&points, 2.0).sum(..).backward()[&points].clone();
        assert!(floats(&gradient).iter().all(|g| g.is_finite()));
        let ones = Tensor::ones([2]).tracked();
        let of_nothing = ones.powf(0.0).sum(..) + ones.sum(..) * 0.0;
        assert_eq!(floats(&thalweg::grad(&of_nothing, &ones)), [0.0; 2]);
        assert_eq!(floats(&ones.powf(0.0).sum(..).backward()[&ones]), [0.0; 2]);
    });
}

#[test]
fn pools_sums_by_index_and_medians() {
    in_each_mode(|| {
        let x = Tensor::new([[[5f32, 1., 9., 2., 3., 4.]]]).tracked();
        let pooled = x.max_pool1d(Pool::new(2).dilation(2));
        assert_eq!(floats(&pooled.sum(..).backward()[&x]), [0.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
        let ones = Tensor::ones([4097]).cast(DType::BF16);
        let index = Tensor::zeros_with([4097], DType::I64);
        let sum = Tensor::zeros([1]).cast(DType::BF16).index_add(0, &index, &ones);
        assert_eq!(floats(&sum), [4096.0]);
        assert_eq!(floats(&Tensor::new([1f32, f32::INFINITY]).median(..)), [f64::INFINITY]);
    });
}
