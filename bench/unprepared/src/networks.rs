//! Networks: adapters, quantisation, flows, differential equations, contrastive queues, penalties of gradients, tables, optimisers by
//! matrices, decoding in 8 bits, detections.

use crate::data::{Adam, Call, Inputs, clip, sgd, track};
use thalweg::prelude::*;
use thalweg::{grad, grad_graph, no_grad};
use thalweg_nn::Rotary;

/// Programs by name.
pub const PROGRAMS: &[(&str, fn(&Inputs) -> Result<Call, Error>)] = &[
    ("lora_bf16", lora),
    ("qat_depthwise", qat),
    ("spline_flow", flow),
    ("node_dopri5", node),
    ("moco_queue", moco),
    ("wgan_gp", wgan),
    ("dlrm_bags", dlrm),
    ("muon_bf16", muon),
    ("int8_decode", decode),
    ("focal_nms", nms),
];

fn half(t: Tensor) -> Tensor {
    t.cast(DType::BF16)
}

// LoRA fine-tuning of a frozen bf16 transformer (grouped queries, rotary, SwiGLU), f32 adapters, AdamW
fn lora(cx: &Inputs) -> Result<Call, Error> {
    let (b, t, d, hq, hk, v, rank) = cx.pick((2, 45, 96, 4, 2, 501, 4), (6, 93, 256, 8, 2, 2003, 8));
    let hd = d / hq;
    let kv = hk * hd;
    let tok = cx.ints(1, v, &[b, t + 1]);
    let lens = Tensor::from_slice(&cx.ints_vec(2, t / 2, b).iter().map(|x| t as i64 - x).collect::<Vec<_>>(), b);
    let emb = half(cx.n(3, &[v, d], 0.5));
    let w: Vec<Vec<Tensor>> = (0..2)
        .map(|l| {
            let s = 10 + 10 * l;
            vec![
                half(cx.weight(s, d, d)),
                half(cx.weight(s + 1, kv, d)),
                half(cx.weight(s + 2, kv, d)),
                half(cx.weight(s + 3, d, d)),
                half(cx.weight(s + 4, 3 * d, d)),
                half(cx.weight(s + 5, 3 * d, d)),
                half(cx.weight(s + 6, d, 3 * d)),
            ]
        })
        .collect();
    let mut p0 = vec![];
    for l in 0..2u64 {
        for k in 0..2u64 {
            // adapters of q and v
            let s = 50 + l * 10 + k * 3;
            p0.push(cx.n(s, &[rank, d], 0.1));
            p0.push(cx.n(s + 1, &[if k == 0 { d } else { kv }, rank], 0.02));
        }
    }
    let rot = Rotary::new(hd);
    let pos = Tensor::arange_with(t, DType::I64);
    let seen = pos.lt(lens.unsqueeze(1)); // [b, t]
    let mask = (pos.unsqueeze(1).ge(&pos) & seen.unsqueeze(1)).unsqueeze(1); // [b, 1, t, t]
    thalweg::synchronize()?;
    let adapted = |x: &Tensor, w: &Tensor, a: &Tensor, bb: &Tensor| {
        x.linear(w, None) + x.linear(&half(a.clone()), None).linear(&half(bb.clone()), None) * 2.0
    };
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut opt = Adam::new(&p, 2e-3);
        let mut losses = vec![];
        for _ in 0..2 {
            let mut x = emb.embedding(&tok.slice((.., ..t)));
            for (l, w) in w.iter().enumerate() {
                let q = &p[l * 4..];
                let h = x.rms_norm(-1, 1e-5);
                let heads = |y: Tensor, n: usize| y.reshape((b, t, n, hd)).transpose(1, 2);
                let qq = rot.forward(&heads(adapted(&h, &w[0], &q[0], &q[1]), hq), 0);
                let kk = rot.forward(&heads(h.linear(&w[1], None), hk), 0);
                let vv = heads(adapted(&h, &w[2], &q[2], &q[3]), hk);
                let a = qq.scaled_dot_product_attention(&kk, &vv, Attention::default().mask(&mask));
                x = x + a.transpose(1, 2).reshape((b, t, d)).linear(&w[3], None);
                let h = x.rms_norm(-1, 1e-5);
                x = x + (h.linear(&w[4], None).silu() * h.linear(&w[5], None)).linear(&w[6], None);
            }
            let logits = x.rms_norm(-1, 1e-5).linear(&emb, None).cast(DType::F32);
            let ce = logits
                .reshape((-1, v))
                .cross_entropy(&tok.slice((.., 1..)).reshape(-1), Reduction::None)
                .reshape((b, t));
            let loss = seen.where_(ce, 0.0).sum(..) / seen.sum(..).cast(DType::F32);
            let g = grad(&loss, &p);
            opt.step(&mut p, &g);
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("b", p[1].detach())])
    }))
}

// Quantisation-aware training: depthwise-separable net, fake quantisation with straight-through gradients
fn qat(cx: &Inputs) -> Result<Call, Error> {
    let (b, hw, c, classes) = cx.pick((5, 21, 16, 10), (16, 33, 32, 10));
    let x = cx.n(1, &[b, 3, hw, hw], 1.0);
    let y = cx.ints(2, classes, &[b]);
    let cw = |s: u64, o: usize, i: usize, k: usize| cx.n(s, &[o, i, k, k], 1.4 / ((i * k * k) as f64).sqrt());
    let mut p0 = vec![cw(3, c, 3, 3), Tensor::ones(c), Tensor::zeros(c), cx.weight(4, classes, 4 * c)];
    for l in 0..2u64 {
        let i = c << l;
        p0.extend([
            cw(10 + l, i, 1, 3),
            Tensor::ones(i),
            Tensor::zeros(i),
            cw(20 + l, 2 * i, i, 1),
            Tensor::ones(2 * i),
            Tensor::zeros(2 * i),
        ]);
    }
    thalweg::synchronize()?;
    let ste = |x: &Tensor, q: Tensor| x + (q - x).detach();
    let wq = move |w: &Tensor| {
        // per output channel, symmetric
        let s = w.detach().abs().amax_keepdim((1, 2, 3)) / 127.0 + 1e-9;
        ste(w, (w / &s).round().clamp(-127.0, 127.0) * &s)
    };
    let aq = move |x: &Tensor, range: &mut Tensor| {
        // per tensor, affine, EMA of the maximum
        *range = &*range * 0.9 + x.detach().amax(..) * 0.1;
        let s = &*range / 255.0 + 1e-9;
        let q = (x / &s).round().clamp(0.0, 255.0) * &s;
        let inside = x.le(&*range).cast(DType::F32);
        x * &inside + (q - x * inside).detach()
    };
    let bn = |x: &Tensor, g: &Tensor, b: &Tensor| {
        let (v, m) = (x.var_keepdim((0, 2, 3)), x.mean_keepdim((0, 2, 3)));
        (x - m) * (v + 1e-5).rsqrt() * g.reshape((1, -1, 1, 1)) + b.reshape((1, -1, 1, 1))
    };
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut mom: Vec<Tensor> = p0.iter().map(|t| t.zeros_like()).collect();
        let mut ranges = vec![Tensor::full((), 2.0); 5];
        let mut losses = vec![];
        for _ in 0..2 {
            let h = bn(&x.conv2d(&wq(&p[0]), None, Conv::default().stride(2).padding(1)), &p[1], &p[2]).relu();
            let mut h = aq(&h, &mut ranges[0]);
            for l in 0..2 {
                let q = &p[4 + 6 * l..];
                let ch = c << l;
                let dw = h.conv2d(&wq(&q[0]), None, Conv::default().padding(1).groups(ch).stride(1 + l));
                let z = bn(&dw, &q[1], &q[2]).clamp(0.0, 6.0);
                let z = aq(&z, &mut ranges[1 + 2 * l]);
                let z = bn(&z.conv2d(&wq(&q[3]), None, Conv::default()), &q[4], &q[5]).clamp(0.0, 6.0);
                h = aq(&z, &mut ranges[2 + 2 * l]);
            }
            let loss = h.mean((2, 3)).linear(&p[3], None).cross_entropy_with(&y, &ClassLoss::default().smoothing(0.1));
            let g = grad(&loss, &p);
            for i in 0..p.len() {
                mom[i] = &mom[i] * 0.9 + &g[i];
                p[i] = (p[i].detach() - &mom[i] * 0.05).tracked();
            }
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("ranges", Tensor::stack(&ranges, 0)), ("w", p[0].detach())])
    }))
}

// Coupling flow with rational-quadratic splines, maximum likelihood
fn flow(cx: &Inputs) -> Result<Call, Error> {
    let (n, d, h, k) = cx.pick((700, 6, 48, 7), (4000, 10, 96, 9));
    let x = cx.n(1, &[n, d], 1.0).tanh() * 2.0 + cx.n(2, &[n, d], 0.3);
    let m = d / 2;
    let out = m * (3 * k - 1);
    let p0: Vec<Tensor> = (0..3)
        .flat_map(|l| {
            let s = 10 + 10 * l;
            [cx.weight(s, h, m), cx.n(s + 1, &[h], 0.1), cx.weight(s + 2, h, h), cx.weight(s + 3, out, h) * 0.3]
        })
        .collect();
    let edge = 3.0;
    thalweg::synchronize()?;
    let spline = move |x: &Tensor, q: &Tensor| {
        // x [n, m], q [n, m, 3k-1]
        let parts = q.split_sizes(&[k, k, k - 1], -1);
        let widths = parts[0].softmax(-1) * (1.0 - 1e-3 * k as f64) + 1e-3;
        let heights = parts[1].softmax(-1) * (1.0 - 1e-3 * k as f64) + 1e-3;
        let knots = |w: &Tensor| w.cumsum(-1).pad([(0, 0), (0, 0), (1, 0)], 0.0) * (2.0 * edge) - edge;
        let (cw, ch) = (knots(&widths), knots(&heights));
        let der = (parts[2].softplus() + 1e-3).pad([(0, 0), (0, 0), (1, 1)], 1.0);
        let inside = x.abs().lt(edge);
        let xi = inside.where_(x, 0.0);
        let bin = (cw.slice((.., .., ..-1)).le(xi.unsqueeze(-1)).sum(-1) - 1).unsqueeze(-1);
        let at = |t: &Tensor| t.gather(-1, &bin).squeeze(-1);
        let (w, x0, y0, hgt) =
            (at(&cw.diff(1, -1)), at(&cw.slice((.., .., ..-1))), at(&ch.slice((.., .., ..-1))), at(&ch.diff(1, -1)));
        let (d0, d1) = (at(&der.slice((.., .., ..-1))), at(&der.slice((.., .., 1..))));
        let s = &hgt / &w;
        let t = (xi - x0) / &w;
        let tt = &t * (1.0 - &t);
        let den = &s + (&d0 + &d1 - &s * 2.0) * &tt;
        let y = y0 + hgt * (&s * t.square() + &d0 * &tt) / &den;
        let num = s.square() * (&d1 * t.square() + &s * &tt * 2.0 + &d0 * (1.0 - &t).square());
        (inside.where_(y, x), inside.where_(num.log() - den.log() * 2.0, 0.0))
    };
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut opt = Adam::new(&p, 3e-3);
        let mut losses = vec![];
        for _ in 0..3 {
            let mut z = x.clone();
            let mut ld = Tensor::zeros(n);
            for l in 0..3 {
                let q = &p[l * 4..];
                let (a, b) = (z.slice((.., ..m)), z.slice((.., m..)));
                let c = a.linear(&q[0], Some(&q[1])).relu().linear(&q[2], None).relu().linear(&q[3], None).reshape((
                    n,
                    m,
                    3 * k - 1,
                ));
                let (b, l) = spline(&b, &c);
                ld = ld + l.sum(1);
                z = Tensor::cat(&[b, a], 1);
            }
            let loss = (z.square().sum(1) * 0.5 + 0.5 * d as f64 * (2.0 * std::f64::consts::PI).ln() - ld).mean(..);
            let mut g = grad(&loss, &p);
            clip(&mut g, 5.0);
            opt.step(&mut p, &g);
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("w", p[2].detach())])
    }))
}

// Neural ODE, Dormand–Prince with adaptive steps, f64; the error is read each step
fn node(cx: &Inputs) -> Result<Call, Error> {
    let (n, d, h, tol) = cx.pick((150, 6, 40, 1e-6), (1200, 10, 80, 1e-7));
    let y0 = cx.n64(1, &[n, d], 1.0);
    let (w1, b1, w2) = (cx.n64(2, &[d + 1, h], 0.8), cx.n64(3, &[h], 0.3), cx.n64(4, &[h, d], 0.5));
    let f = move |t: f64, y: &Tensor| {
        let tt = Tensor::full_with([n, 1], t, DType::F64);
        (Tensor::cat(&[y.clone(), tt], 1).matmul(&w1) + &b1).tanh().matmul(&w2) - y * 0.3
    };
    const A: [&[f64]; 6] = [
        &[0.2],
        &[3. / 40., 9. / 40.],
        &[44. / 45., -56. / 15., 32. / 9.],
        &[19372. / 6561., -25360. / 2187., 64448. / 6561., -212. / 729.],
        &[9017. / 3168., -355. / 33., 46732. / 5247., 49. / 176., -5103. / 18656.],
        &[35. / 384., 0., 500. / 1113., 125. / 192., -2187. / 6784., 11. / 84.],
    ];
    const C: [f64; 6] = [0.2, 0.3, 0.8, 8. / 9., 1., 1.];
    const E: [f64; 7] = [71. / 57600., 0., -71. / 16695., 71. / 1920., -17253. / 339200., 22. / 525., -1. / 40.];
    Ok(Box::new(move || {
        let (mut t, mut dt, mut y) = (0.0, 0.05, y0.clone());
        let mut k1 = f(t, &y);
        let (mut taken, mut rejected) = (0i64, 0i64);
        while t < 3.0 {
            dt = f64::min(dt, 3.0 - t);
            let mut k = vec![k1.clone()];
            let mut yn = y.clone();
            for i in 0..6 {
                let mut s = y.clone();
                for (a, kk) in A[i].iter().zip(&k) {
                    if *a != 0.0 {
                        s = s + kk * (a * dt);
                    }
                }
                k.push(f(t + C[i] * dt, &s));
                yn = s;
            }
            let err =
                E.iter().zip(&k).filter(|(e, _)| **e != 0.0).map(|(e, kk)| kk * (e * dt)).reduce(|a, b| a + b).unwrap();
            let scale = y.abs().maximum(yn.abs()) * tol + tol;
            let norm = (err / scale).square().mean(..).sqrt().item::<f64>()?;
            if norm <= 1.0 {
                t += dt;
                y = yn;
                k1 = k.pop().unwrap();
                taken += 1;
            } else {
                rejected += 1;
            }
            dt *= (0.9 * norm.max(1e-10).powf(-0.2)).clamp(0.2, 5.0);
        }
        Ok(vec![("y", y), ("steps", Tensor::new([taken, rejected]))])
    }))
}

// MoCo: momentum encoder, queue of keys written as a ring, InfoNCE
fn moco(cx: &Inputs) -> Result<Call, Error> {
    let (b, f, h, e, q) = cx.pick((60, 150, 128, 40, 1000), (200, 300, 384, 96, 6000));
    let (xa, xb) = (cx.n(1, &[4, b, f], 1.0), cx.n(2, &[4, b, f], 1.0));
    let p0 = vec![cx.weight(3, h, f), cx.n(4, &[h], 0.1), cx.weight(5, h, h), cx.weight(6, e, h)];
    let queue0 = cx.n(7, &[q, e], 1.0).normalize(2.0, 1, 1e-12);
    thalweg::synchronize()?;
    let encode = |x: &Tensor, p: &[Tensor]| {
        let z = x.linear(&p[0], Some(&p[1]));
        let z = (&z - z.mean_keepdim(0)) / (z.var_keepdim(0) + 1e-5).sqrt();
        z.relu().linear(&p[2], None).relu().linear(&p[3], None).normalize(2.0, 1, 1e-12)
    };
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut slow = p0.clone();
        let mut queue = queue0.clone();
        let mut mom: Vec<Tensor> = p0.iter().map(|t| t.zeros_like()).collect();
        let mut at = 0;
        let mut losses = vec![];
        let mut right = vec![];
        for s in 0..4 {
            let (a, c) = (&xa.slice(s), xa.slice(s) + xb.slice(s) * 0.4);
            slow = slow.iter().zip(&p).map(|(s, p)| s * 0.99 + p.detach() * 0.01).collect();
            let qv = encode(a, &p);
            let kv = no_grad(|| encode(&c, &slow));
            let pos = (&qv * &kv).sum_keepdim(1);
            let logits = Tensor::cat(&[pos, qv.matmul(&queue.t())], 1) / 0.2;
            let loss = logits.cross_entropy(&Tensor::zeros_with(b, DType::I64), Reduction::Mean);
            right.push(logits.argmax(1).eq(0).sum(..));
            let g = grad(&loss, &p);
            for i in 0..p.len() {
                mom[i] = &mom[i] * 0.9 + (&g[i] + p[i].detach() * 1e-4);
                p[i] = (p[i].detach() - &mom[i] * 0.1).tracked();
            }
            let end = (at + b).min(q);
            queue.slice_mut((at..end, ..)).assign(kv.slice(..end - at));
            if end < at + b {
                queue.slice_mut((..at + b - end, ..)).assign(kv.slice(end - at..));
            }
            at = (at + b) % q;
            losses.push(loss.detach());
        }
        Ok(vec![
            ("loss", Tensor::stack(&losses, 0)),
            ("right", Tensor::stack(&right, 0)),
            ("queue", queue.slice(..300)),
        ])
    }))
}

// WGAN-GP on sequences: critic with a gradient penalty (second derivatives of convolutions)
fn wgan(cx: &Inputs) -> Result<Call, Error> {
    let (b, t, c, z) = cx.pick((7, 50, 20, 12), (24, 90, 48, 24));
    let real = cx.n(1, &[3, b, 3, t], 1.0).cumsum(-1) * 0.1;
    let (noise, mixu) = (cx.n(2, &[4, b, z], 1.0), cx.u(3, &[3, b, 1, 1]));
    let cw = |s: u64, o: usize, i: usize, k: usize| cx.n(s, &[o, i, k], 1.2 / ((i * k) as f64).sqrt());
    let d0 =
        vec![cw(4, c, 3, 5), cx.n(5, &[c], 0.1), cw(6, 2 * c, c, 5), cx.n(7, &[2 * c], 0.1), cx.weight(8, 1, 2 * c)];
    let g0 = vec![cx.weight(9, c * t / 2, z), cw(10, c, c, 3), cw(11, 3, c, 5)];
    thalweg::synchronize()?;
    let critic = move |x: &Tensor, p: &[Tensor]| {
        let h = x.conv1d(&p[0], Some(&p[1]), Conv::default().stride(2).padding(2)).leaky_relu(0.2);
        let h = h.conv1d(&p[2], Some(&p[3]), Conv::default().stride(2).padding(2)).leaky_relu(0.2);
        h.square().mean(-1).linear(&p[4], None).squeeze(-1)
    };
    let gen_ = move |x: &Tensor, p: &[Tensor]| {
        let h = x.linear(&p[0], None).reshape((b, c, t / 2)).repeat(2, -1).silu();
        h.conv1d(&p[1], None, Conv::default().padding(1)).silu().conv1d(&p[2], None, Conv::default().padding(2)).tanh()
    };
    Ok(Box::new(move || {
        let (mut d, mut gp) = (track(&d0), track(&g0));
        let (mut od, mut og) = (Adam::new(&d, 1e-3), Adam::new(&gp, 1e-3));
        let mut losses = vec![];
        for s in 0..3 {
            let fake = no_grad(|| gen_(&noise.slice(s), &gp));
            let r = real.slice(s);
            let m = mixu.slice(s);
            let mid = (&r * &m + &fake * (1.0 - &m)).tracked();
            let slope = grad_graph(&critic(&mid, &d).sum(..), &mid);
            let norm = (slope.square().sum((1, 2)) + 1e-12).sqrt();
            let loss = critic(&fake, &d).mean(..) - critic(&r, &d).mean(..) + (norm - 1.0).square().mean(..) * 10.0;
            let g = grad(&loss, &d);
            od.step(&mut d, &g);
            losses.push(loss.detach());
        }
        let loss = -critic(&gen_(&noise.slice(3), &gp), &d).mean(..);
        let g = grad(&loss, &gp);
        og.step(&mut gp, &g);
        losses.push(loss.detach());
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("w", d[0].detach()), ("g", gp[2].detach())])
    }))
}

// DLRM: ragged bags of embeddings, dot interactions, row-wise Adagrad
fn dlrm(cx: &Inputs) -> Result<Call, Error> {
    let (b, rows, d, dense, tables) = cx.pick((300, 3000, 18, 13, 7), (2000, 30000, 32, 13, 12));
    let x = cx.u(1, &[b, dense]);
    let y = cx.u(2, &[b]).lt(0.3).cast(DType::F32);
    let mut bags = vec![];
    for t in 0..tables as u64 {
        let counts = cx.ints_vec(10 + t, 6, b); // 0 to 5 in each bag
        let ids: Vec<i64> =
            counts.iter().enumerate().flat_map(|(i, c)| std::iter::repeat_n(i as i64, *c as usize)).collect();
        let n = ids.len();
        bags.push((cx.ints(30 + t, rows, &[n]), Tensor::from_slice(&ids, n)));
    }
    let mut p0: Vec<Tensor> = (0..tables as u64).map(|t| cx.n(50 + t, &[rows, d], 0.2)).collect();
    let pairs = tables * (tables + 1) / 2;
    p0.extend([cx.weight(3, 64, dense), cx.weight(4, d, 64), cx.weight(5, 80, d + pairs), cx.weight(6, 1, 80)]);
    let (i, j): (Vec<i64>, Vec<i64>) = (0..=tables as i64).flat_map(|i| (0..i).map(move |j| (i, j))).unzip();
    let tril =
        Tensor::from_slice(&i.iter().zip(&j).map(|(i, j)| i * (tables as i64 + 1) + j).collect::<Vec<_>>(), pairs);
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut acc: Vec<Tensor> = p0
            .iter()
            .enumerate()
            .map(|(i, t)| if i < tables { Tensor::zeros([rows, 1]) } else { t.zeros_like() })
            .collect();
        let mut losses = vec![];
        for _ in 0..2 {
            let bottom = x.log1p().linear(&p[tables], None).relu().linear(&p[tables + 1], None).relu();
            let mut feats = vec![bottom.clone()];
            for (t, (idx, seg)) in bags.iter().enumerate() {
                feats.push(Tensor::zeros([b, d]).index_add(0, seg, p[t].embedding(idx)));
            }
            let z = Tensor::stack(&feats, 1); // [b, tables + 1, d]
            let dots = z.matmul(&z.t()).reshape((b, -1)).index_select(1, &tril);
            let h = Tensor::cat(&[bottom, dots], 1)
                .linear(&p[tables + 2], None)
                .relu()
                .linear(&p[tables + 3], None)
                .squeeze(-1);
            let loss = h.bce_with_logits(&y, Reduction::Mean);
            let g = grad(&loss, &p);
            for i in 0..p.len() {
                let sq = if i < tables { g[i].square().mean_keepdim(1) } else { g[i].square() };
                acc[i] = &acc[i] + sq;
                p[i] = (p[i].detach() - &g[i] / (acc[i].sqrt() + 1e-8) * 0.02).tracked();
            }
            losses.push(loss.detach());
        }
        Ok(vec![
            ("loss", Tensor::stack(&losses, 0)),
            ("table", p[0].detach().slice(..200)),
            ("w", p[tables + 2].detach()),
        ])
    }))
}

// Muon: momentum orthogonalised by Newton–Schulz in bf16, residual MLP with RMS norms in bf16
fn muon(cx: &Inputs) -> Result<Call, Error> {
    let (n, f, h, classes) = cx.pick((190, 60, 110, 13), (900, 150, 330, 40));
    let x = half(cx.n(1, &[n, f], 1.0));
    let y = cx.ints(2, classes, &[n]);
    let mut p0 = vec![cx.weight(3, h, f), cx.weight(4, classes, h)];
    for l in 0..3 {
        p0.extend([cx.weight(10 + l, 2 * h, h), cx.weight(20 + l, h, 2 * h)]);
    }
    let zeropower = |g: &Tensor| {
        let tall = g.size(0) > g.size(1);
        let mut x = half(if tall { g.t() } else { g.clone() });
        x = &x / (x.square().sum(..).sqrt() + 1e-7);
        for _ in 0..5 {
            let a = x.matmul(&x.t());
            let b = &a * -4.775 + a.matmul(&a) * 2.0315;
            x = &x * 3.4445 + b.matmul(&x);
        }
        if tall { x.t() } else { x }.cast(DType::F32) * (g.size(0) as f64 / g.size(1) as f64).max(1.0).sqrt()
    };
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut buf: Vec<Tensor> = p0.iter().map(|t| t.zeros_like()).collect();
        let mut losses = vec![];
        for _ in 0..2 {
            let w: Vec<Tensor> = p.iter().map(|t| half(t.clone())).collect();
            let mut h = x.linear(&w[0], None);
            for l in 0..3 {
                h = &h + h.rms_norm(-1, 1e-6).linear(&w[2 + 2 * l], None).relu().square().linear(&w[3 + 2 * l], None);
            }
            let logits = h.rms_norm(-1, 1e-6).linear(&w[1], None).cast(DType::F32);
            let loss = (logits / 15.0).tanh().mul(15.0).cross_entropy(&y, Reduction::Mean);
            let g = grad(&loss, &p);
            for i in 0..p.len() {
                buf[i] = &buf[i] * 0.95 + &g[i] * 0.05;
                let u = &g[i] * 0.05 + &buf[i] * 0.95;
                p[i] = (p[i].detach() * (1.0 - 0.02 * 0.01) - zeropower(&u) * 0.02).tracked();
            }
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("w", p[0].detach())])
    }))
}

// Weight-only int8 decoding at batch 1: sliding window, grouped queries, rotary, top-k sampling
fn decode(cx: &Inputs) -> Result<Call, Error> {
    let (d, hq, hk, v, steps, window, most) = cx.pick((160, 5, 1, 1003, 24, 16, 40), (768, 12, 4, 8009, 40, 24, 64));
    let hd = d / hq;
    let kv = hk * hd;
    let quant = |w: Tensor| {
        // [out, in] in groups of 32
        let (o, i) = (w.size(0), w.size(1));
        let g = w.reshape((o, i / 32, 32));
        let s = g.abs().amax_keepdim(-1) / 127.0;
        ((g / &s).round().cast(DType::I8), half(s))
    };
    let emb = half(cx.n(1, &[v, d], 0.6));
    let head = quant(cx.n(2, &[v, d], 1.0 / (d as f64).sqrt() * 3.0));
    let layers: Vec<Vec<(Tensor, Tensor)>> = (0..3)
        .map(|l| {
            let s = 10 + 10 * l;
            vec![
                quant(cx.weight(s, d + 2 * kv, d)),
                quant(cx.weight(s + 1, d, d)),
                quant(cx.weight(s + 2, 4 * d, d)),
                quant(cx.weight(s + 3, d, 2 * d)),
            ]
        })
        .collect();
    let dice = cx.u(3, &[steps]);
    let start = cx.ints(4, v, &[1]);
    thalweg::synchronize()?;
    let q8 = |x: &Tensor, (w, s): &(Tensor, Tensor)| {
        let o = w.size(0);
        x.linear(&(w.cast(DType::BF16) * s).reshape((o, -1)), None)
    };
    let rot = Rotary::new(hd);
    Ok(Box::new(move || {
        let mut ks: Vec<Tensor> = (0..3).map(|_| Tensor::zeros_with([hk, most, hd], DType::BF16)).collect();
        let mut vs = ks.clone();
        let mut tok = start.clone();
        let mut out = vec![];
        for i in 0..steps {
            let mut x = emb.embedding(&tok); // [1, d]
            for (l, w) in layers.iter().enumerate() {
                let qkv = q8(&x.rms_norm(-1, 1e-5), &w[0]).reshape((1, hq + 2 * hk, hd)).transpose(0, 1);
                let q = rot.forward(&qkv.slice(..hq), i);
                ks[l].set((.., i..i + 1), rot.forward(&qkv.slice(hq..hq + hk), i));
                vs[l].set((.., i..i + 1), qkv.slice(hq + hk..));
                let from = (i + 1).saturating_sub(window);
                let a = q.scaled_dot_product_attention(
                    &ks[l].slice((.., from..i + 1)),
                    &vs[l].slice((.., from..i + 1)),
                    Attention::default(),
                );
                x = x + q8(&a.transpose(0, 1).reshape((1, d)), &w[1]);
                let u = q8(&x.rms_norm(-1, 1e-5), &w[2]).chunk(2, -1);
                x = x + q8(&(u[0].silu() * &u[1]), &w[3]);
            }
            let logits = q8(&x.rms_norm(-1, 1e-5), &head).cast(DType::F32).squeeze(0);
            let (top, idx) = (logits / 0.8).topk(20, 0, true);
            let pick = top.softmax(0).cumsum(0).lt(dice.slice(i)).sum(..).minimum(19);
            tok = idx.index_select(0, &pick.reshape(1));
            out.push(tok.clone());
        }
        Ok(vec![("tokens", Tensor::cat(&out, 0))])
    }))
}

// Detector: matching by IoU, focal and GIoU losses with a step of training, then NMS per class
fn nms(cx: &Inputs) -> Result<Call, Error> {
    let (a, c, f, gts) = cx.pick((900, 5, 32, 14), (5000, 9, 64, 30));
    let feat = cx.n(1, &[a, f], 1.0);
    let centre = cx.u(2, &[a, 2]) * 100.0;
    let gt = {
        let (m, s) = (cx.u(3, &[gts, 2]) * 100.0, cx.u(4, &[gts, 2]) * 12.0 + 6.0);
        Tensor::cat(&[&m - &s, m + s], 1)
    };
    let gt_class = cx.ints(5, c, &[gts]);
    let p0 = vec![cx.weight(6, 64, f), cx.weight(7, c, 64), cx.n(8, &[c], 0.1) - 2.0, cx.weight(9, 4, 64)];
    thalweg::synchronize()?;
    let area = |b: &Tensor| (b.slice((.., 2)) - b.slice((.., 0))) * (b.slice((.., 3)) - b.slice((.., 1)));
    let iou = move |a: &Tensor, b: &Tensor| {
        // [n, m]
        let low = a.slice((.., ..2)).unsqueeze(1).maximum(b.slice((.., ..2)));
        let high = a.slice((.., 2..)).unsqueeze(1).minimum(b.slice((.., 2..)));
        let inter = (high - low).clamp(0.0, 1e9).prod(-1);
        &inter / (area(a).unsqueeze(1) + area(b) - &inter)
    };
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let heads = |p: &[Tensor]| {
            let h = feat.linear(&p[0], None).silu();
            let o = h.linear(&p[3], None).clamp(-2.0, 2.0).exp() * 8.0;
            let boxes = Tensor::cat(&[&centre - o.slice((.., ..2)), &centre + o.slice((.., 2..))], 1);
            (h.linear(&p[1], Some(&p[2])), boxes)
        };
        let mut losses = vec![];
        for _ in 0..2 {
            let (logits, boxes) = heads(&p);
            let over = iou(&boxes.detach(), &gt); // [a, gts]
            let (best, who) = (over.amax(1), over.argmax(1));
            let forced = Tensor::zeros_with(a, DType::Bool).index_fill(0, &over.argmax(0), true);
            let pos = best.gt(0.3) | forced;
            let posf = pos.cast(DType::F32);
            let n = posf.sum(..).maximum(1.0);
            let t = gt_class.index_select(0, &who).one_hot(c).cast(DType::F32) * posf.unsqueeze(1);
            let pr = logits.sigmoid();
            let pt = &pr * &t + (1.0 - &pr) * (1.0 - &t);
            let focal =
                (logits.bce_with_logits(&t, Reduction::None) * (1.0 - pt).square() * (&t * 0.25 + (1.0 - &t) * 0.75))
                    .sum(..);
            let g = gt.index_select(0, &who);
            let lt = boxes.slice((.., ..2)).maximum(g.slice((.., ..2)));
            let rb = boxes.slice((.., 2..)).minimum(g.slice((.., 2..)));
            let inter = (rb - lt).clamp(0.0, 1e9).prod(1);
            let union = area(&boxes) + area(&g) - &inter;
            let hull = (boxes.slice((.., 2..)).maximum(g.slice((.., 2..)))
                - boxes.slice((.., ..2)).minimum(g.slice((.., ..2))))
            .prod(1);
            let giou = inter / &union - (&hull - &union) / &hull;
            let loss = focal / &n + ((1.0 - giou) * &posf).sum(..) / &n;
            let mut gr = grad(&loss, &p);
            clip(&mut gr, 1.0);
            sgd(&mut p, &gr, 0.1);
            losses.push(loss.detach());
        }
        let (keep, boxes, score) = no_grad(|| -> Result<_, Error> {
            let (logits, boxes) = heads(&p);
            let pr = logits.sigmoid();
            let (s, class) = (pr.amax(1), pr.argmax(1));
            let (s, idx) = s.topk(200, 0, true);
            let class = class.index_select(0, &idx).cast(DType::F32);
            let bx = boxes.index_select(0, &idx);
            let shifted = &bx + class.unsqueeze(1) * 1000.0; // classes do not meet
            let over = iou(&shifted, &shifted).gt(0.5).to_vec::<bool>()?;
            let mut keep: Vec<i64> = vec![];
            for i in 0..200 {
                if keep.iter().all(|&j| !over[j as usize * 200 + i]) {
                    keep.push(i as i64);
                }
            }
            Ok((Tensor::from_slice(&keep, keep.len()), bx, s))
        })?;
        Ok(vec![
            ("loss", Tensor::stack(&losses, 0)),
            ("boxes", boxes.index_select(0, &keep)),
            ("score", score.index_select(0, &keep)),
        ])
    }))
}
