//! Einsum, tensordot, linear layers and attention against loops over their definitions.

use thalweg::prelude::*;
use thalweg::{Attention, Shape};

fn random(shape: &[usize], dtype: DType) -> Tensor {
    (Tensor::randn_with(Shape::new(shape), DType::F32) * 0.7).cast(dtype)
}

#[track_caller]
fn near(got: &Tensor, dims: &[usize], want: &[f64], tolerance: f64, of: &str) {
    assert_eq!(got.dims(), dims, "{of}");
    for (i, (g, w)) in got.to_f64_vec().unwrap().iter().zip(want).enumerate() {
        let same = (g - w).abs() <= tolerance * w.abs().max(1.0) || g.is_nan() && w.is_nan();
        assert!(same, "{of}: element {i} is {g}, not {w}");
    }
}

/// Evaluates an explicit specification without `...`, one assignment of all letters after the other.
fn einsum_loops(spec: &str, operands: &[&Tensor]) -> (Vec<usize>, Vec<f64>) {
    let (left, output) = spec.split_once("->").unwrap();
    let terms: Vec<Vec<char>> = left.split(',').map(|t| t.chars().collect()).collect();
    let values: Vec<Vec<f64>> = operands.iter().map(|t| t.to_f64_vec().unwrap()).collect();
    let mut letters: Vec<char> = output.chars().collect();
    let kept = letters.len();
    for &c in terms.iter().flatten() {
        if !letters.contains(&c) {
            letters.push(c);
        }
    }
    let size = |c: char| {
        let sizes = terms.iter().zip(operands).flat_map(|(t, o)| t.iter().zip(o.dims()));
        sizes.filter(|(l, _)| **l == c).map(|(_, &d)| d).max_by_key(|&d| if d == 1 { 0 } else { 1 + d }).unwrap()
    };
    let sizes: Vec<usize> = letters.iter().map(|&c| size(c)).collect();
    // Size 0 together with size 1 is 0.
    let sizes: Vec<usize> = letters
        .iter()
        .zip(sizes)
        .map(|(c, s)| {
            let zero = terms.iter().zip(operands).any(|(t, o)| t.iter().zip(o.dims()).any(|(l, &d)| l == c && d == 0));
            if zero { 0 } else { s }
        })
        .collect();
    let dims = sizes[..kept].to_vec();
    let mut out = vec![0.0; dims.iter().product()];
    for n in 0..sizes.iter().product::<usize>() {
        let (mut rest, mut at) = (n, vec![0; sizes.len()]);
        for i in (0..sizes.len()).rev() {
            (at[i], rest) = (rest % sizes[i], rest / sizes[i]);
        }
        let place = |term: &[char], dims: &[usize]| {
            term.iter().zip(dims).fold(0, |p, (c, &d)| {
                let i = at[letters.iter().position(|l| l == c).unwrap()];
                p * d + if d == 1 { 0 } else { i }
            })
        };
        let product: f64 = (0..terms.len()).map(|t| values[t][place(&terms[t], operands[t].dims())]).product();
        out[place(&output.chars().collect::<Vec<_>>(), &dims)] += product;
    }
    (dims, out)
}

#[track_caller]
fn einsum_agrees(spec: &str, written: &str, shapes: &[&[usize]]) {
    for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 1e-4), (DType::BF16, 0.1), (DType::I32, 0.0)] {
        let scale = if dtype == DType::I32 { 5.0 } else { 1.0 };
        let operands: Vec<Tensor> = shapes.iter().map(|s| (random(s, DType::F32) * scale).cast(dtype)).collect();
        let (dims, want) = einsum_loops(written, &operands.iter().collect::<Vec<_>>());
        let got = Tensor::einsum(spec, &operands);
        assert_eq!(got.dtype(), dtype);
        near(&got, &dims, &want, tolerance, spec);
    }
}

#[test]
fn einsum_of_one_and_two_operands() {
    let same = |spec: &str, shapes: &[&[usize]]| einsum_agrees(spec, spec, shapes);
    same("ij->ji", &[&[3, 4]]);
    same("ij->", &[&[3, 4]]);
    same("iij->j", &[&[3, 3, 4]]);
    same("iji->ij", &[&[3, 4, 3]]);
    same("iijj->ij", &[&[3, 3, 2, 2]]);
    same("ijk->ki", &[&[2, 3, 4]]);
    same("i,i->i", &[&[5], &[5]]);
    same("i,i->", &[&[5], &[5]]);
    same("i,j->ji", &[&[5], &[4]]);
    same("ij,jk->ik", &[&[5, 7], &[7, 3]]);
    same("ij,jk->ki", &[&[5, 7], &[7, 3]]);
    same("ij,kj->ik", &[&[5, 7], &[3, 7]]);
    same("bij,bjk->bik", &[&[4, 5, 7], &[4, 7, 3]]);
    same("bij,bjk->ikb", &[&[4, 5, 7], &[4, 7, 3]]);
    same("abij,jkab->bika", &[&[2, 3, 5, 4], &[4, 6, 2, 3]]);
    same("ijkl,kl->ij", &[&[2, 3, 4, 5], &[4, 5]]);
    same("ijkl,ljmn->ikmn", &[&[2, 3, 4, 5], &[5, 3, 2, 2]]);
    same("bi,bi->b", &[&[3, 9], &[3, 9]]);
    same("bi,i->b", &[&[3, 9], &[9]]);
    same("ii,ij->j", &[&[4, 4], &[4, 5]]);
    same("ij,k->i", &[&[3, 4], &[5]]);
    same("ij,jk->", &[&[3, 4], &[4, 5]]);
    // Sizes of 1 broadcast; with size 0 there are no elements.
    same("ij,jk->ik", &[&[5, 1], &[7, 3]]);
    same("ij,ij->ij", &[&[5, 1], &[1, 3]]);
    same("i,i->i", &[&[1], &[1]]);
    same("ij,jk->ik", &[&[5, 0], &[0, 3]]);
    same("ij,jk->ik", &[&[0, 4], &[4, 3]]);
    same("ij,jk->ik", &[&[5, 1], &[0, 3]]);
}

#[test]
fn einsum_of_many_operands_and_dots() {
    einsum_agrees("i,i,i->i", "i,i,i->i", &[&[5], &[5], &[5]]);
    einsum_agrees("ij,jk,kl->il", "ij,jk,kl->il", &[&[3, 4], &[4, 5], &[5, 2]]);
    einsum_agrees("ij,jk,kl,lm,mi->", "ij,jk,kl,lm,mi->", &[&[2, 3], &[3, 2], &[2, 4], &[4, 3], &[3, 2]]);
    let chain: Vec<String> = (0..10).map(|i| format!("{}{}", (b'a' + i) as char, (b'b' + i) as char)).collect();
    let chain = format!("{}->ak", chain.join(","));
    einsum_agrees(&chain, &chain, &[&[2, 2][..]; 10]);
    einsum_agrees("a b , b c -> a c", "ab,bc->ac", &[&[2, 3], &[3, 4]]);
    einsum_agrees("ij,jk", "ij,jk->ik", &[&[2, 3], &[3, 4]]);
    einsum_agrees("ba,cb", "ba,cb->ac", &[&[2, 3], &[4, 2]]);
    einsum_agrees("...ij,...jk->...ik", "abij,bjk->abik", &[&[2, 3, 4, 5], &[3, 5, 2]]);
    einsum_agrees("...ij,...jk", "abij,bjk->abik", &[&[2, 3, 4, 5], &[1, 5, 2]]);
    einsum_agrees("i...,i...->...", "iab,ib->ab", &[&[2, 3, 4], &[2, 4]]);
    einsum_agrees("b...->b", "bxy->b", &[&[2, 3, 4]]);
    einsum_agrees("...,...", "ab,b->ab", &[&[2, 3], &[3]]);
    einsum_agrees("i...i->...", "iai->a", &[&[3, 4, 3]]);
    assert_eq!(Tensor::einsum("", &[Tensor::new(3.0f32)]).item::<f32>().unwrap(), 3.0);
}

#[test]
fn einsum_multiplies_matrices_where_they_lie() {
    // Equal to matmul, to the bit.
    let (q, k) = (Tensor::randn([2, 4, 9, 8]), Tensor::randn([2, 4, 11, 8]));
    let same = |a: Tensor, b: Tensor| {
        let bits = |t: Tensor| t.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(a), bits(b));
    };
    same(Tensor::einsum("bhqd,bhkd->bhqk", &[&q, &k]), q.matmul(&k.transpose(-1, -2)));
    same(
        Tensor::einsum("ij,jk->ki", &[&q.slice((0, 0)), &k.slice((0, 0)).t()]),
        q.slice((0, 0)).matmul(&k.slice((0, 0)).t()).t(),
    );
}

#[test]
fn tensordot_and_linear() {
    let (a, b) = (random(&[2, 3, 4], DType::F64), random(&[4, 3, 5], DType::F64));
    let (dims, want) = einsum_loops("ijk,kjl->il", &[&a, &b]);
    near(&a.tensordot(&b, ([1, 2], [1, 0])), &dims, &want, 1e-12, "two axes");
    near(&a.tensordot(&b, (vec![-1, -2], [0, 1])), &dims, &want, 1e-12, "from the end");
    let (dims, want) = einsum_loops("ijk,klm->ijlm", &[&a, &b]);
    near(&a.tensordot(&b, 1), &dims, &want, 1e-12, "one axis");
    let (dims, want) = einsum_loops("ij,klm->ijklm", &[&a.slice(0), &b]);
    near(&a.slice(0).tensordot(&b, 0), &dims, &want, 1e-12, "none");
    let (w, bias) = (random(&[6, 4], DType::F64), random(&[6], DType::F64));
    let (dims, want) = einsum_loops("ijk,lk->ijl", &[&a, &w]);
    near(&a.linear(&w, None), &dims, &want, 1e-12, "linear");
    let with: Vec<f64> = want.iter().enumerate().map(|(i, v)| v + bias.to_f64_vec().unwrap()[i % 6]).collect();
    near(&a.linear(&w, Some(&bias)), &dims, &with, 1e-12, "linear with a bias");
    let row = a.slice((0, 0));
    near(&row.linear(&w, Some(&bias)), &[6], &with[..6], 1e-12, "a vector");
    assert_eq!(Tensor::zeros([0, 4]).linear(&Tensor::ones([3, 4]), None).dims(), [0, 3]);
}

/// One head's attention; `seen` gives the number added to a score, `None` if it is masked.
fn attention_loops(
    [q, k, v]: [&[f64]; 3],
    [rows, columns, d, width]: [usize; 4],
    scale: f64,
    seen: impl Fn(usize, usize) -> Option<f64>,
) -> Vec<f64> {
    let mut out = vec![];
    for i in 0..rows {
        let score = |j: usize| {
            let dot: f64 = (0..d).map(|c| q[i * d + c] * k[j * d + c]).sum();
            seen(i, j).map_or(f64::NEG_INFINITY, |bias| dot * scale + bias)
        };
        let scores: Vec<f64> = (0..columns).map(score).collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let e: Vec<f64> = scores.iter().map(|s| if largest.is_finite() { (s - largest).exp() } else { 0.0 }).collect();
        let sum = e.iter().sum::<f64>().max(1e-300);
        out.extend((0..width).map(|c| (0..columns).map(|j| e[j] / sum * v[j * width + c]).sum::<f64>()));
    }
    out
}

#[test]
fn attention_of_every_kind() {
    let (rows, columns, d, width) = (5, 7, 8, 6);
    for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 1e-5), (DType::BF16, 0.05)] {
        let (q, k, v) = (
            random(&[2, 4, rows, d], dtype),
            random(&[2, 2, columns, d], dtype),
            random(&[2, 2, columns, width], dtype),
        );
        let flags: Vec<bool> = (0..rows * columns).map(|i| i % 3 != 0 && i / columns != 2).collect();
        let flag_mask = Tensor::from_slice(&flags, [rows, columns]);
        let float_mask = random(&[4, rows, columns], dtype);
        let (qv, kv, vv) = (q.to_f64_vec().unwrap(), k.to_f64_vec().unwrap(), v.to_f64_vec().unwrap());
        let added = float_mask.to_f64_vec().unwrap();
        let expected = |scale: f64, seen: &dyn Fn(usize, usize, usize) -> Option<f64>| -> Vec<f64> {
            let head = |h: usize| {
                let (own, shared) = (h * rows * d, h / 2);
                let parts = [
                    &qv[own..own + rows * d],
                    &kv[shared * columns * d..][..columns * d],
                    &vv[shared * columns * width..][..columns * width],
                ];
                attention_loops(parts, [rows, columns, d, width], scale, |i, j| seen(h % 4, i, j))
            };
            (0..8).flat_map(head).collect()
        };
        let (dims, usual) = ([2, 4, rows, width], 1.0 / (d as f64).sqrt());
        let of = |options: Attention<'_>| q.scaled_dot_product_attention(&k, &v, options);
        let plain = Attention::default();
        near(&of(plain), &dims, &expected(usual, &|_, _, _| Some(0.0)), tolerance, "plain");
        near(&of(plain.scale(0.3)), &dims, &expected(0.3, &|_, _, _| Some(0.0)), tolerance, "scaled");
        let causal = expected(usual, &|_, i, j| (j <= i).then_some(0.0));
        near(&of(plain.causal(true)), &dims, &causal, tolerance, "causal");
        let masked = expected(usual, &|_, i, j| flags[i * columns + j].then_some(0.0));
        near(&of(plain.mask(&flag_mask)), &dims, &masked, tolerance, "masked");
        let biased = expected(usual, &|h, i, j| Some(added[(h * rows + i) * columns + j]));
        near(&of(plain.mask(&float_mask)), &dims, &biased, tolerance, "biased");
        let both = expected(usual, &|_, i, j| (flags[i * columns + j] && j <= i).then_some(0.0));
        near(&of(plain.mask(&flag_mask).causal(true)), &dims, &both, tolerance, "masked and causal");
    }
    // One head without a dimension for it, and no keys.
    let (q, kv) = (Tensor::randn([3, 4]), Tensor::randn([5, 4]));
    let usual = (q.matmul(&kv.t()) * 0.5).softmax(-1).matmul(&kv);
    let got = q.scaled_dot_product_attention(&kv, &kv, Attention::default());
    near(&got, &[3, 4], &usual.to_f64_vec().unwrap(), 1e-6, "no heads");
    let none = Tensor::zeros([0, 4]);
    near(&q.scaled_dot_product_attention(&none, &none, Attention::default()), &[3, 4], &[0.0; 12], 0.0, "no keys");
}

/// Dropout of weights: some of each query are dropped, the rest scaled; the same again from the same generator state,
/// and gradients flow through the rest.
#[test]
fn attention_drops_weights() {
    let [q, k] = [Tensor::randn([2, 4, 16, 8]), Tensor::randn([2, 4, 16, 8])];
    // The identity as values shows which weights remain.
    let eye = Tensor::eye(16).broadcast_to([2, 4, 16, 16]);
    let plain = q.scaled_dot_product_attention(&k, &eye, Attention::default());
    let drop = || {
        manual_seed(5);
        q.scaled_dot_product_attention(&k, &eye, Attention::default().dropout(0.25))
    };
    let (dropped, again) = (drop().to_vec::<f32>().unwrap(), drop().to_vec::<f32>().unwrap());
    for (a, b) in dropped.iter().zip(&again) {
        assert!((*a == 0.0) == (*b == 0.0) && (a - b).abs() < 1e-6, "{a} {b}");
    }
    let plain = plain.to_vec::<f32>().unwrap();
    let gone = dropped.iter().filter(|v| **v == 0.0).count() as f64 / dropped.len() as f64;
    assert!((gone - 0.25).abs() < 0.05, "{gone}");
    for (d, p) in dropped.iter().zip(&plain).filter(|(d, _)| **d != 0.0) {
        assert!((d * 0.75 - p).abs() < 1e-5, "{d} {p}");
    }
    let leaf = q.tracked();
    manual_seed(5);
    let y = leaf.scaled_dot_product_attention(&k, &eye, Attention::default().dropout(0.25)).square().sum(..);
    assert!(y.backward()[&leaf].abs().sum(..).item::<f32>().unwrap() > 0.0);
}
