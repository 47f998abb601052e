//! Training and search: recurrences over time, vector quantisation, policy gradients, diffusion, hash grids, graphs, alignments,
//! random fields, beam search.

use crate::data::{Adam, Call, Inputs, clip, sgd, track};
use thalweg::Interpolation;
use thalweg::prelude::*;
use thalweg::{grad, no_grad};
use thalweg_nn::optim::{AdamW, Optimizer};
use thalweg_nn::{Embedding, Linear, Lstm, Module, StateDict};

/// Programs by name.
pub const PROGRAMS: &[(&str, fn(&Inputs) -> Result<Call, Error>)] = &[
    ("rwkv_train", rwkv),
    ("rvq_ema", rvq),
    ("ppo_gae", ppo),
    ("ddim_unet", ddim),
    ("hashgrid_nerf", nerf),
    ("gat_edges", gat),
    ("ctc_audio", ctc),
    ("crf_lstm", crf),
    ("beam_kv", beam),
];

// RWKV-4-like language model, a recurrence over time, SGD with clipping
fn rwkv(cx: &Inputs) -> Result<Call, Error> {
    let (b, t, d, v) = cx.pick((3, 29, 72, 203), (8, 61, 160, 1003));
    let tok = cx.ints(1, v, &[b, t + 1]);
    let mut p0 = vec![cx.n(2, &[v, d], 0.5), cx.weight(3, v, d)];
    for l in 0..2u64 {
        let s = 10 + l * 20;
        for k in 0..4 {
            p0.push(cx.u(s + k, &[d]));
        } // mixes k, v, r, channel
        p0.push(cx.n(s + 4, &[d], 0.5));
        p0.push(cx.n(s + 5, &[d], 0.5)); // decay, bonus
        for k in 0..4 {
            p0.push(cx.weight(s + 6 + k, d, d));
        } // k v r o
        p0.push(cx.weight(s + 10, 2 * d, d));
        p0.push(cx.weight(s + 11, d, 2 * d));
        p0.push(cx.weight(s + 12, d, d));
    }
    let forward = move |p: &[Tensor]| {
        let x_in = tok.slice((.., ..t));
        let mut x = p[0].embedding(&x_in);
        for l in 0..2 {
            let q = &p[2 + l * 13..];
            let h = x.rms_norm(-1, 1e-5);
            let prev = h.pad([(0, 0), (1, 0), (0, 0)], 0.0).slice((.., ..t));
            let mixed = |m: &Tensor| &h * m + &prev * (1.0 - m);
            let (k, vv, r) = (
                mixed(&q[0]).linear(&q[6], None),
                mixed(&q[1]).linear(&q[7], None),
                mixed(&q[2]).linear(&q[8], None).sigmoid(),
            );
            let (w, u) = (-q[4].exp(), &q[5]);
            let (mut aa, mut bb, mut pp) = (Tensor::zeros([b, d]), Tensor::zeros([b, d]), Tensor::full([b, d], -1e30));
            let mut out = vec![];
            for i in 0..t {
                let (kt, vt) = (k.slice((.., i)), vv.slice((.., i)));
                let ww = u + &kt;
                let m = pp.maximum(&ww);
                let (e1, e2) = ((&pp - &m).exp(), (ww - m).exp());
                out.push((&e1 * &aa + &e2 * &vt) / (e1 * &bb + e2));
                let ww = &pp + &w;
                let m = ww.maximum(&kt);
                let (e1, e2) = ((ww - &m).exp(), (&kt - &m).exp());
                aa = &e1 * aa + &e2 * vt;
                bb = e1 * bb + e2;
                pp = m;
            }
            x = x + (r * Tensor::stack(&out, 1)).linear(&q[9], None);
            let h = x.rms_norm(-1, 1e-5);
            let prev = h.pad([(0, 0), (1, 0), (0, 0)], 0.0).slice((.., ..t));
            let m = &h * &q[3] + prev * (1.0 - &q[3]);
            x = x + m.linear(&q[12], None).sigmoid() * m.linear(&q[10], None).relu().square().linear(&q[11], None);
        }
        let logits = x.rms_norm(-1, 1e-5).linear(&p[1], None);
        logits.reshape((-1, v)).cross_entropy(&tok.slice((.., 1..)).reshape(-1), Reduction::Mean)
    };
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut losses = vec![];
        for _ in 0..2 {
            let loss = forward(&p);
            let mut g = grad(&loss, &p);
            clip(&mut g, 1.0);
            sgd(&mut p, &g, 0.5);
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("decay", p[6].detach())])
    }))
}

// Residual vector quantisation with EMA codebooks and revival of dead codes
fn rvq(cx: &Inputs) -> Result<Call, Error> {
    let (n, f, d, k) = cx.pick((1100, 40, 24, 150), (6000, 80, 48, 500));
    let x = cx.n(1, &[n, f], 1.0);
    let p0 = vec![cx.weight(2, 128, f), cx.weight(3, d, 128), cx.weight(4, 128, d), cx.weight(5, f, 128)];
    let books0: Vec<Tensor> = (0..3).map(|i| cx.n(10 + i, &[k, d], 0.7 / (i + 1) as f64)).collect();
    let spare = cx.ints(20, n, &[k]);
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut books = books0.clone();
        let mut size: Vec<Tensor> = books.iter().map(|_| Tensor::ones(k)).collect();
        let mut mean: Vec<Tensor> = books.clone();
        let mut opt = Adam::new(&p, 2e-3);
        let mut losses = vec![];
        let mut used = vec![];
        for _ in 0..4 {
            let z = x.linear(&p[0], None).gelu().linear(&p[1], None);
            let (mut r, mut total, mut commit) = (z.clone(), Tensor::zeros([n, d]), Tensor::zeros(()));
            for b in 0..3 {
                let c = books[b].clone();
                let rd = r.detach();
                let dist = rd.square().sum_keepdim(1) - 2.0 * rd.matmul(&c.t()) + c.square().sum(1);
                let idx = dist.argmin(1);
                let q = c.index_select(0, &idx);
                commit = commit + (&r - &q).square().mean(..);
                // EMA update of the codebook
                let counts = Tensor::zeros(k).index_add(0, &idx, Tensor::ones(n));
                let sums = Tensor::zeros([k, d]).index_add(0, &idx, &rd);
                size[b] = &size[b] * 0.95 + &counts * 0.05;
                mean[b] = &mean[b] * 0.95 + sums * 0.05;
                let nn = size[b].sum(..);
                let smooth = (&size[b] + 1e-5) / (&nn + k as f64 * 1e-5) * &nn;
                let fresh = &mean[b] / smooth.unsqueeze(1);
                let dead = size[b].lt(0.9).unsqueeze(1);
                books[b] = dead.where_(rd.index_select(0, &spare), fresh);
                used.push(counts.gt(0).sum(..));
                total = total + &q;
                r = r - q;
            }
            let zq = &z + (total - &z).detach();
            let y = zq.linear(&p[2], None).gelu().linear(&p[3], None);
            let loss = y.mse_loss(&x, Reduction::Mean) + commit * 0.25;
            let g = grad(&loss, &p);
            opt.step(&mut p, &g);
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("used", Tensor::stack(&used, 0)), ("book", books[2].clone())])
    }))
}

// PPO: a rollout in a toy environment, GAE, epochs of minibatches
fn ppo(cx: &Inputs) -> Result<Call, Error> {
    let (t, n) = cx.pick((40, 37), (96, 150));
    let (o, a, h) = (11, 5, 64);
    let s0 = cx.n(1, &[n, o], 1.0);
    let (ea, eb) = (cx.n(2, &[o, o], 0.35), cx.n(3, &[a, o], 0.5));
    let gum = -(-(cx.u(4, &[t, n, a]) * 0.999 + 5e-4).log()).log();
    let done = cx.u(5, &[t, n]).lt(0.04);
    let keys = cx.u(6, &[3, t * n]);
    let p0 = vec![
        cx.weight(7, h, o),
        cx.n(8, &[h], 0.1),
        cx.weight(9, a, h),
        cx.weight(10, h, o),
        cx.n(11, &[h], 0.1),
        cx.weight(12, 1, h),
    ];
    let gum = {
        thalweg::synchronize()?;
        gum
    };
    let policy = |p: &[Tensor], s: &Tensor| {
        (
            s.linear(&p[0], Some(&p[1])).tanh().linear(&p[2], None),
            s.linear(&p[3], Some(&p[4])).tanh().linear(&p[5], None).squeeze(-1),
        )
    };
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut opt = Adam::new(&p, 3e-3);
        let (obs, acts, logps, vals, rews) = no_grad(|| {
            let mut s = s0.clone();
            let (mut obs, mut acts, mut logps, mut vals, mut rews) = (vec![], vec![], vec![], vec![], vec![]);
            for i in 0..t {
                let (logits, v) = policy(&p, &s);
                let act = (&logits + gum.slice(i)).argmax(-1);
                let lp = logits.log_softmax(-1).gather(-1, &act.unsqueeze(-1)).squeeze(-1);
                let next = (s.matmul(&ea) + act.one_hot(a).cast(DType::F32).matmul(&eb)).tanh();
                rews.push(1.0 - next.square().mean(-1) - next.slice((.., 0)).abs());
                obs.push(s);
                acts.push(act);
                logps.push(lp);
                vals.push(v);
                s = done.slice(i).unsqueeze(-1).where_(&s0, next);
            }
            vals.push(policy(&p, &s).1);
            (
                Tensor::stack(&obs, 0),
                Tensor::stack(&acts, 0),
                Tensor::stack(&logps, 0),
                Tensor::stack(&vals, 0),
                Tensor::stack(&rews, 0),
            )
        });
        let mut adv = vec![];
        let mut last = Tensor::zeros(n);
        for i in (0..t).rev() {
            let live = done.slice(i).not().cast(DType::F32);
            let delta = rews.slice(i) + vals.slice(i + 1) * 0.99 * &live - vals.slice(i);
            last = delta + live * 0.99 * 0.95 * last;
            adv.push(last.clone());
        }
        adv.reverse();
        let adv = Tensor::stack(&adv, 0);
        let ret = (&adv + vals.slice(..t)).reshape(-1);
        let (obs, acts, logps, adv) = (obs.reshape((-1, o)), acts.reshape(-1), logps.reshape(-1), adv.reshape(-1));
        let mut losses = vec![];
        let size = t * n / 4;
        for e in 0..3 {
            let perm = keys.slice(e).argsort(0, false);
            for m in 0..4 {
                let idx = perm.slice(m * size..(m + 1) * size);
                let (ob, ac, lo, ad, re) = (
                    obs.index_select(0, &idx),
                    acts.index_select(0, &idx),
                    logps.index_select(0, &idx),
                    adv.index_select(0, &idx),
                    ret.index_select(0, &idx),
                );
                let ad = (&ad - ad.mean(..)) / (ad.std_with(.., 1.0) + 1e-8);
                let (logits, v) = policy(&p, &ob);
                let all = logits.log_softmax(-1);
                let ratio = (all.gather(-1, &ac.unsqueeze(-1)).squeeze(-1) - lo).exp();
                let pg = (&ratio * &ad).minimum(ratio.clamp(0.8, 1.2) * &ad).mean(..);
                let ent = -(all.exp() * &all).sum(-1).mean(..);
                let loss = -pg + (v - re).square().mean(..) * 0.5 - ent * 0.01;
                let mut g = grad(&loss, &p);
                clip(&mut g, 0.5);
                opt.step(&mut p, &g);
                losses.push(loss.detach());
            }
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("adv", adv), ("w", p[2].detach())])
    }))
}

// DDIM sampling with classifier-free guidance and a small U-Net
fn ddim(cx: &Inputs) -> Result<Call, Error> {
    let (b, hw, c, steps) = cx.pick((1, 22, 18, 6), (3, 30, 36, 10));
    let cw = |s: u64, o: usize, i: usize, k: usize| cx.n(s, &[o, i, k, k], 1.0 / ((i * k * k) as f64).sqrt());
    let x0 = cx.n(1, &[b, 3, hw, hw], 1.0);
    let label = cx.n(2, &[b, 4 * c], 1.0);
    let temb = [cx.weight(3, 4 * c, 32), cx.weight(4, 4 * c, 4 * c)];
    let res = |s: u64, i: usize, o: usize| {
        vec![cw(s, o, i, 3), cw(s + 1, o, o, 3), cx.weight(s + 2, o, 4 * c), cw(s + 3, o, i, 1), cx.n(s + 4, &[o], 0.1)]
    };
    let (w_in, w_down, w_up, w_out) = (cw(5, c, 3, 3), cw(6, 2 * c, c, 3), cw(7, c, 2 * c, 3), cw(8, 3, c, 3));
    let (r1, r2, r3, r4) = (res(20, c, c), res(30, 2 * c, 2 * c), res(40, 2 * c, 2 * c), res(50, 2 * c, c));
    let (wq, wo) = (cx.weight(60, 6 * c, 2 * c), cx.weight(61, 2 * c, 2 * c));
    let same = Conv::default().padding(1);
    let block = move |x: &Tensor, e: &Tensor, w: &[Tensor]| {
        let h = x.group_norm(6, None, None, 1e-5).silu().conv2d(&w[0], Some(&w[4]), same)
            + e.linear(&w[2], None).unsqueeze(-1).unsqueeze(-1);
        h.group_norm(6, None, None, 1e-5).silu().conv2d(&w[1], None, same) + x.conv2d(&w[3], None, Conv::default())
    };
    let freq = (Tensor::arange(16) * (-(10000f64.ln()) / 16.0)).exp();
    let unet = move |x: &Tensor, t: f64, y: &Tensor| {
        let a = &freq * t;
        let e = Tensor::cat(&[a.sin(), a.cos()], 0).unsqueeze(0).linear(&temb[0], None).silu().linear(&temb[1], None);
        let e = (e + y).silu();
        let h1 = block(&x.conv2d(&w_in, None, same), &e, &r1);
        let h2 = block(&h1.conv2d(&w_down, None, Conv::default().padding(1).stride(2)), &e, &r2);
        let (n, ch, s) = (h2.size(0), h2.size(1), h2.size(2));
        let tokens = h2.group_norm(6, None, None, 1e-5).reshape((n, ch, s * s)).t();
        let qkv = tokens.linear(&wq, None).reshape((n, s * s, 3, 2, ch / 2)).permute((2, 0, 3, 1, 4));
        let att = qkv.slice(0).scaled_dot_product_attention(&qkv.slice(1), &qkv.slice(2), Attention::default());
        let h2 = &h2 + att.transpose(1, 2).reshape((n, s * s, ch)).linear(&wo, None).t().reshape((n, ch, s, s));
        let h3 = block(&h2, &e, &r3);
        let up = h3.interpolate([hw, hw], Interpolation::Nearest).conv2d(&w_up, None, same);
        block(&Tensor::cat(&[up, h1], 1), &e, &r4).group_norm(6, None, None, 1e-5).silu().conv2d(&w_out, None, same)
    };
    let bar = |t: f64| (((t / 1000.0 + 0.008) / 1.008) * std::f64::consts::FRAC_PI_2).cos().powi(2);
    Ok(Box::new(move || {
        let mut x = x0.clone();
        let both = Tensor::cat(&[label.clone(), label.zeros_like()], 0);
        for i in (1..=steps).rev() {
            let (t, s) = (950.0 * i as f64 / steps as f64, 950.0 * (i - 1) as f64 / steps as f64);
            let (at, as_) = (bar(t), bar(s));
            let eps = unet(&Tensor::cat(&[x.clone(), x.clone()], 0), t, &both);
            let eps = eps.slice(b..) + (eps.slice(..b) - eps.slice(b..)) * 2.5;
            let clean = ((&x - &eps * (1.0 - at).sqrt()) / at.sqrt()).clamp(-3.0, 3.0);
            x = clean * as_.sqrt() + eps * (1.0 - as_).sqrt();
        }
        Ok(vec![("x", x)])
    }))
}

// Hash grid + small MLPs + volume rendering, Adam on tables
fn nerf(cx: &Inputs) -> Result<Call, Error> {
    let (rays, samples, levels, bits) = cx.pick((230, 21, 6, 12), (1500, 30, 8, 15));
    let (orig, dir) = (cx.u(1, &[rays, 1, 3]) * 0.3 + 0.1, cx.u(2, &[rays, 1, 3]) - 0.2);
    let dir = dir.normalize(2.0, -1, 1e-9);
    let target = cx.u(3, &[rays, 3]);
    let jitter = cx.u(4, &[rays, samples, 1]);
    let f = levels * 2;
    let p0 = vec![
        cx.n(5, &[levels << bits, 2], 0.1),
        cx.weight(6, 48, f),
        cx.weight(7, 16, 48),
        cx.weight(8, 48, 16 + 9),
        cx.weight(9, 3, 48),
    ];
    let steps_at = Tensor::arange(samples).reshape((1, samples, 1));
    let corners =
        Tensor::new([[0i64, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]]);
    let primes = Tensor::new([1i64, 2654435761, 805459861]);
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut opt = Adam::new(&p, 1e-2);
        let mut losses = vec![];
        let depth = (&steps_at + &jitter) / samples as f64; // [rays, samples, 1]
        let x = (&orig + &dir * &depth).clamp(0.0, 1.0);
        let (dx, dy, dz) = (dir.slice((.., .., 0..1)), dir.slice((.., .., 1..2)), dir.slice((.., .., 2..3)));
        let sh = Tensor::cat(
            &[
                dx.ones_like(),
                dx.clone(),
                dy.clone(),
                dz.clone(),
                &dx * &dy,
                &dy * &dz,
                &dx * &dz,
                dx.square() - dy.square(),
                dz.square() * 3.0 - 1.0,
            ],
            -1,
        );
        let sh = sh.expand((rays, samples, 9)).reshape((-1, 9));
        for _ in 0..3 {
            let flat = x.reshape((-1, 3));
            let mut feats = vec![];
            for l in 0..levels {
                let res = (8.0 * 1.6f64.powi(l as i32)).floor();
                let pos = &flat * res;
                let low = pos.floor();
                let frac = pos - &low;
                let cell = low.cast(DType::I64).unsqueeze(1) + &corners; // [n, 8, 3]
                let h = cell * &primes;
                let h = (h.slice((.., .., 0)) ^ h.slice((.., .., 1)) ^ h.slice((.., .., 2))) & ((1i64 << bits) - 1);
                let e = p[0].embedding(&(h + ((l as i64) << bits))); // [n, 8, 2]
                let c = corners.cast(DType::F32);
                let fr = frac.unsqueeze(1);
                let w = (&c * &fr + (1.0 - &c) * (1.0 - &fr)).prod(-1);
                feats.push((e * w.unsqueeze(-1)).sum(1));
            }
            let h = Tensor::cat(&feats, -1).linear(&p[1], None).relu().linear(&p[2], None);
            let sigma = h.slice((.., 0)).softplus().reshape((rays, samples));
            let rgb = Tensor::cat(&[h, sh.clone()], -1)
                .linear(&p[3], None)
                .relu()
                .linear(&p[4], None)
                .sigmoid()
                .reshape((rays, samples, 3));
            let tt = depth.squeeze(-1);
            let delta = Tensor::cat(&[tt.diff(1, -1), Tensor::full([rays, 1], 0.05)], -1);
            let alpha = 1.0 - (-sigma * 20.0 * delta).exp();
            let trans = (1.0 - &alpha + 1e-10).cumprod(-1);
            let trans = Tensor::cat(&[Tensor::ones([rays, 1]), trans.slice((.., ..-1))], -1);
            let color = ((alpha * trans).unsqueeze(-1) * rgb).sum(1);
            let loss = color.mse_loss(&target, Reduction::Mean);
            let g = grad(&loss, &p);
            opt.step(&mut p, &g);
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("table", p[0].detach().slice(..500)), ("w", p[4].detach())])
    }))
}

// Graph attention with a softmax over edges, two layers, Adam
fn gat(cx: &Inputs) -> Result<Call, Error> {
    let (n, e, f, heads, hid, classes) = cx.pick((1700, 9000, 50, 3, 8, 7), (9000, 70000, 96, 4, 16, 11));
    let loops: Vec<i64> = (0..n as i64).collect();
    let src = Tensor::from_slice(&[cx.ints_vec(1, n, e), loops.clone()].concat(), e + n);
    let dst = Tensor::from_slice(&[cx.ints_vec(2, n, e), loops].concat(), e + n);
    let x = cx.n(3, &[n, f], 1.0);
    let y = cx.ints(4, classes, &[n]);
    let train = cx.u(5, &[n]).lt(0.3);
    let p0 = vec![
        cx.weight(6, heads * hid, f),
        cx.n(7, &[heads, hid], 0.3),
        cx.n(8, &[heads, hid], 0.3),
        cx.weight(9, heads * classes, heads * hid),
        cx.n(10, &[heads, classes], 0.3),
        cx.n(11, &[heads, classes], 0.3),
    ];
    let layer = move |x: &Tensor, w: &Tensor, al: &Tensor, ar: &Tensor| {
        let h = x.linear(w, None).reshape((n, heads, -1));
        let (l, r) = ((&h * al).sum(-1), (&h * ar).sum(-1)); // [n, heads]
        let s = (l.index_select(0, &src) + r.index_select(0, &dst)).leaky_relu(0.2); // [e, heads]
        let at = dst.unsqueeze(1).expand((e + n, heads));
        let top = Tensor::full([n, heads], f64::NEG_INFINITY).scatter_reduce(0, &at, s.detach(), ScatterOp::Max);
        let w = (s - top.index_select(0, &dst)).exp();
        let z = Tensor::zeros([n, heads]).index_add(0, &dst, &w);
        let a = w / z.index_select(0, &dst);
        Tensor::zeros([n, heads, h.size(2)]).index_add(0, &dst, a.unsqueeze(-1) * h.index_select(0, &src))
    };
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut opt = Adam::new(&p, 5e-3);
        let mut losses = vec![];
        for _ in 0..3 {
            let h = layer(&x, &p[0], &p[1], &p[2]).reshape((n, -1)).elu(1.0);
            let logits = layer(&h, &p[3], &p[4], &p[5]).mean(1);
            let ce = logits.cross_entropy(&y, Reduction::None);
            let loss = train.where_(ce, 0.0).sum(..) / train.sum(..).cast(DType::F32);
            let g = grad(&loss, &p);
            opt.step(&mut p, &g);
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("w", p[3].detach())])
    }))
}

// Dilated gated convolutions on audio features with CTC loss, ragged lengths
fn ctc(cx: &Inputs) -> Result<Call, Error> {
    let (b, t, f, c, l, v) = cx.pick((5, 125, 40, 48, 17, 29), (12, 301, 80, 96, 41, 29));
    let x = cx.n(1, &[b, f, t], 1.0);
    let t2 = (t - 5) / 2 + 1;
    let len_v: Vec<i64> = cx.ints_vec(2, t2 / 3, b).iter().map(|k| t2 as i64 - k).collect();
    let tl_v: Vec<i64> = cx.ints_vec(3, l / 2, b).iter().map(|k| l as i64 - k).collect();
    let lab = cx.ints(4, v - 1, &[b, l]) + 1;
    let (lens, tlens) = (Tensor::from_slice(&len_v, b), Tensor::from_slice(&tl_v, b));
    let cw = |s: u64, o: usize, i: usize, k: usize| cx.n(s, &[o, i, k], 1.0 / ((i * k) as f64).sqrt());
    let p0 = vec![cw(5, c, f, 5), cw(6, 2 * c, c, 3), cw(7, 2 * c, c, 3), cx.weight(8, v, c), cx.n(9, &[v], 0.1)];
    thalweg::synchronize()?;
    // blank, l1, blank, l2, ... blank
    let s = 2 * l + 1;
    let ext = Tensor::stack(&[lab.zeros_like(), lab.clone()], -1).reshape((b, 2 * l)).pad([(0, 0), (0, 1)], 0);
    let skip = ext.slice((.., 2..)).ne(ext.slice((.., ..-2))) & ext.slice((.., 2..)).ne(0);
    let skip = Tensor::cat(&[Tensor::zeros_with([b, 2], DType::Bool), skip], 1);
    thalweg::synchronize()?;
    const LOW: f64 = -1e30;
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut losses = vec![];
        for _ in 0..2 {
            let mut h = x.conv1d(&p[0], None, Conv::default().stride(2)).relu();
            for (k, dil) in [(1, 2), (2, 4)] {
                let y = h.conv1d(&p[k], None, Conv::default().dilation(dil).padding(dil));
                let parts = y.chunk(2, 1);
                h = h + parts[0].tanh() * parts[1].sigmoid();
            }
            let logp = h.t().linear(&p[3], Some(&p[4])).log_softmax(-1); // [b, t2, v]
            let lp = logp.gather(2, &ext.unsqueeze(1).expand((b, t2, s)));
            let first = Tensor::arange_with(s, DType::I64).lt(2);
            let mut alpha = first.where_(lp.slice((.., 0)), LOW);
            for i in 1..t2 {
                let one = alpha.pad([(0, 0), (1, 0)], LOW).slice((.., ..-1));
                let two = skip.where_(alpha.pad([(0, 0), (2, 0)], LOW).slice((.., ..-2)), LOW);
                let next = alpha.logaddexp(one).logaddexp(two) + lp.slice((.., i));
                alpha = lens.gt(i as i64).unsqueeze(1).where_(next, alpha);
            }
            let end = (&tlens * 2).unsqueeze(1);
            let nll = -alpha.gather(1, &end).logaddexp(alpha.gather(1, &(end - 1))).squeeze(1);
            let loss = (nll / tlens.cast(DType::F32)).mean(..);
            let mut g = grad(&loss, &p);
            clip(&mut g, 1.0);
            sgd(&mut p, &g, 0.3);
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("w", p[3].detach())])
    }))
}

// BiLSTM-CRF: training with AdamW of thalweg-nn, then Viterbi
#[derive(Module, Clone)]
struct Tagger {
    emb: Embedding,
    lstm: Lstm,
    head: Linear,
    trans: Tensor,
}

fn crf(cx: &Inputs) -> Result<Call, Error> {
    let (b, t, v, d, h, k) = cx.pick((14, 27, 500, 36, 30, 13), (32, 51, 2000, 96, 100, 17));
    let tok = cx.ints(1, v, &[b, t]);
    let tags = cx.ints(2, k, &[b, t]);
    let lens_v: Vec<i64> = cx.ints_vec(3, t - 8, b).iter().map(|x| t as i64 - x).collect();
    let lens = Tensor::from_slice(&lens_v, b);
    let mut m0 = Tagger {
        emb: Embedding::new(v, d),
        lstm: Lstm::new(d, h).bidirectional(),
        head: Linear::new(2 * h, k),
        trans: cx.n(4, &[k, k], 0.3).tracked(),
    };
    let mut state = StateDict::new();
    for (i, (name, p)) in m0.named_parameters().into_iter().enumerate() {
        let s = p.dims().to_vec();
        state.insert(name, cx.n(50 + i as u64, &s, 1.0 / (*s.last().unwrap() as f64).sqrt()));
    }
    m0.load_state_dict(&state)?;
    let mask = Tensor::arange_with(t, DType::I64).lt(lens.unsqueeze(1)); // [b, t]
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let mut m = m0.clone();
        let mut opt = AdamW::new(1e-2);
        let mut losses = vec![];
        let emissions = |m: &Tagger| m.head.forward(&m.lstm.forward(&m.emb.forward(&tok), None).0);
        let fm = mask.cast(DType::F32);
        for _ in 0..2 {
            let e = emissions(&m);
            let mut alpha = e.slice((.., 0));
            for i in 1..t {
                let next = (alpha.unsqueeze(2) + &m.trans).logsumexp(1) + e.slice((.., i));
                alpha = mask.slice((.., i..i + 1)).where_(next, alpha);
            }
            let unary = (e.gather(2, &tags.unsqueeze(2)).squeeze(2) * &fm).sum(1);
            let pair = (m.trans.index(&[tags.slice((.., ..-1)), tags.slice((.., 1..))]) * fm.slice((.., 1..))).sum(1);
            let loss = (alpha.logsumexp(1) - unary - pair).mean(..);
            opt.step(&mut m, &loss.backward());
            losses.push(loss.detach());
        }
        let best = no_grad(|| {
            let e = emissions(&m);
            let mut score = e.slice((.., 0));
            let mut back = vec![];
            for i in 1..t {
                let s = score.unsqueeze(2) + &m.trans;
                let live = mask.slice((.., i..i + 1));
                back.push(live.where_(s.argmax(1), Tensor::arange_with(k, DType::I64)));
                score = live.where_(s.amax(1) + e.slice((.., i)), score);
            }
            let mut at = score.argmax(1).unsqueeze(1);
            let mut path = vec![at.clone()];
            for p in back.iter().rev() {
                at = p.gather(1, &at);
                path.push(at.clone());
            }
            path.reverse();
            mask.where_(Tensor::cat(&path, 1), -1)
        });
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("path", best), ("trans", m.trans.detach())])
    }))
}

// Beam search with a growing key/value cache that beams reorder
fn beam(cx: &Inputs) -> Result<Call, Error> {
    let (b, k, d, heads, v, steps) = cx.pick((2, 4, 96, 4, 611, 18), (4, 5, 256, 8, 3001, 40));
    let emb = cx.n(1, &[v, d], 0.6);
    let layers: Vec<[Tensor; 4]> = (0..2)
        .map(|l| {
            let s = 10 + 10 * l;
            [cx.weight(s, 3 * d, d), cx.weight(s + 1, d, d), cx.weight(s + 2, 4 * d, d), cx.weight(s + 3, d, 4 * d)]
        })
        .collect();
    let pos = cx.n(3, &[steps, d], 0.3);
    let start = cx.ints(4, v, &[b, 1]).expand((b, k)).reshape(-1);
    let hd = d / heads;
    Ok(Box::new(move || {
        let mut caches: Vec<Option<(Tensor, Tensor)>> = vec![None; 2];
        let mut tok = start.clone();
        let mut score = Tensor::full([b, k], -1e9).slice_scatter((.., 0), 0.0);
        let mut done = Tensor::zeros_with([b, k], DType::Bool);
        let mut seq: Option<Tensor> = None;
        let only_eos = Tensor::full([v], -1e9).slice_scatter(0, 0.0);
        for i in 0..steps {
            let mut x = emb.embedding(&tok) + pos.slice(i); // [b·k, d]
            for (w, cache) in layers.iter().zip(&mut caches) {
                let qkv = x
                    .layer_norm(-1, 1e-5)
                    .linear(&w[0], None)
                    .reshape((b * k, 1, 3, heads, hd))
                    .permute((2, 0, 3, 1, 4));
                let (mut kk, mut vv) = (qkv.slice(1), qkv.slice(2));
                if let Some((pk, pv)) = cache.take() {
                    kk = Tensor::cat(&[pk, kk], 2);
                    vv = Tensor::cat(&[pv, vv], 2);
                }
                let a = qkv.slice(0).scaled_dot_product_attention(&kk, &vv, Attention::default());
                x = x + a.reshape((b * k, d)).linear(&w[1], None);
                x = &x + x.layer_norm(-1, 1e-5).linear(&w[2], None).gelu().linear(&w[3], None);
                *cache = Some((kk, vv));
            }
            let lp = x.layer_norm(-1, 1e-5).linear(&emb, None).log_softmax(-1).reshape((b, k, v));
            let lp = done.unsqueeze(-1).where_(&only_eos, lp);
            let (s, idx) = (score.unsqueeze(-1) + lp).reshape((b, k * v)).topk(k, -1, true);
            let from = idx.floor_div(v as i64);
            tok = (idx % v as i64).reshape(-1);
            score = s;
            done = done.gather(1, &from) | tok.reshape((b, k)).eq(0);
            let rows = (from + Tensor::arange_with(b, DType::I64).unsqueeze(1) * k as i64).reshape(-1);
            for c in caches.iter_mut() {
                *c = c.take().map(|(kk, vv)| (kk.index_select(0, &rows), vv.index_select(0, &rows)));
            }
            let t = tok.unsqueeze(1);
            seq = Some(match seq {
                None => t,
                Some(s) => Tensor::cat(&[s.index_select(0, &rows), t], 1),
            });
        }
        Ok(vec![("seq", seq.unwrap()), ("score", score)])
    }))
}
