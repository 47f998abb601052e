//! Tensors that grow from empty ones, with computed indices: an empty tensor is never an operand of a kernel.

use thalweg::prelude::*;
use thalweg::{set_tiers, with_fusion, with_strict};

/// A beam search: selected indices become rows and tokens by integer arithmetic, and these index the grown tensors.
fn decoded(steps: usize, deep: usize, beams: usize, words: usize) -> Vec<i64> {
    let number = |n: usize, by: f64| (Tensor::arange(n as f64) * by).sin();
    let embedding = number(words * 4, 1.3).reshape([words, 4]);
    let weights = number(4 * words, 0.7).reshape([4, words]);
    let mut token = Tensor::zeros_with([beams], DType::I64);
    let mut text = Tensor::zeros_with([beams, 0], DType::I64);
    for _ in 0..steps {
        let mut x = embedding.index_select(0, &token);
        for _ in 0..deep {
            x = (&x * 1.1 + 0.1).tanh();
            x = &x - x.mean_keepdim(-1);
        }
        let (_, at) = (x.unsqueeze(2) * &weights).sum(1).flatten().topk(beams, 0, true);
        let from = at.floor_div(words as i64);
        token = at % words as i64;
        text = Tensor::cat(&[text.index_select(0, &from), token.unsqueeze(1)], 1);
    }
    text.to_vec::<i64>().unwrap()
}

#[test]
fn a_text_that_grows_from_empty_is_the_unfused_one() {
    set_tiers(false);
    for (steps, deep, beams, words) in [(1, 0, 1, 4), (2, 1, 3, 5), (3, 2, 2, 4), (5, 1, 4, 12), (3, 10, 8, 400)] {
        let want = with_fusion(false, || decoded(steps, deep, beams, words));
        assert_eq!(want.len(), beams * steps);
        let what = format!("{steps} steps of depth {deep}, {beams} beams of {words} words");
        assert_eq!(decoded(steps, deep, beams, words), want, "{what}");
        assert_eq!(with_strict(true, || decoded(steps, deep, beams, words)), want, "strictly, {what}");
    }
}

#[test]
fn what_has_no_elements_is_read_by_no_kernel() {
    set_tiers(false);
    for dtype in [DType::F32, DType::BF16, DType::I64, DType::U8, DType::Bool] {
        let x = Tensor::arange(6).reshape([2, 3]).gt(2).cast(dtype);
        thalweg::synchronize().unwrap();
        let wide = |x: &Tensor| x.cast(DType::I64).to_vec::<i64>().unwrap();
        let none = Tensor::zeros_with([2, 0], dtype);
        let own = wide(&x);
        assert_eq!(wide(&Tensor::cat(&[&none, &x], 1)), own, "{dtype}");
        assert_eq!(wide(&Tensor::cat(&[&x, &none], 1)), own, "{dtype}");
        assert_eq!(wide(&Tensor::cat(&[&none, &x, &none, &none], 1)), own, "{dtype}");
        // A gather from an empty tensor beside another one, by an index that is out of range for it.
        let index = x.cast(DType::I64).argmax(1) + 7;
        let gathered = none.index_select(0, &(index.slice(..0) * 5));
        assert_eq!(wide(&Tensor::cat(&[gathered.reshape([2, 0]), x.clone()], 1)), own, "{dtype}");
        // Assigned into another tensor, and padded on all sides.
        let edge = none.pad([(0, 0), (2, 1)], true);
        assert_eq!(wide(&edge), vec![1; 6], "{dtype}");
        // Rows of the grown tensor are folded.
        let all = Tensor::cat(&[&none, &x], 1).cast(DType::F32);
        assert_eq!(all.sum(1).to_vec::<f32>().unwrap(), x.cast(DType::F32).sum(1).to_vec::<f32>().unwrap(), "{dtype}");
    }
}
