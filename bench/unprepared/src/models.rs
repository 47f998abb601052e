//! Models: selective scans, routed experts, equivariant graphs, segmentation, four-bit weights, speculative decoding, actors and critics,
//! adversaries, invertible convolutions, preconditioned optimisers, windows of attention.

use crate::data::{Adam, Call, Inputs, clip, sgd, track};
use thalweg::prelude::*;
use thalweg::{grad, no_grad, retain_graph};

/// Programs by name.
pub const PROGRAMS: &[(&str, fn(&Inputs) -> Result<Call, Error>)] = &[
    ("mamba", mamba),
    ("moe_top2", moe_top2),
    ("egnn", egnn),
    ("unet_gn", unet_gn),
    ("int4_decode", int4_decode),
    ("speculative", speculative),
    ("td3", td3),
    ("vae_gan", vae_gan),
    ("glow", glow),
    ("shampoo", shampoo),
    ("window_rope", window_rope),
];

// Mamba: gated block with a causal depthwise convolution and a selective scan over time, a step of training
fn mamba(cx: &Inputs) -> Result<Call, Error> {
    let (b, t, d, n, v) = cx.pick((2, 48, 32, 8, 100), (8, 192, 192, 16, 1000));
    let (e, rank) = (2 * d, d / 16);
    let tokens = cx.ints(1, v, &[b, t + 1]);
    let mut p0 = vec![cx.n(2, &[v, d], 0.5), cx.weight(3, v, d)];
    for l in 0..2 {
        let s = 10 + 10 * l;
        p0.extend([
            cx.weight(s, 2 * e, d),
            cx.n(s + 1, &[e, 1, 4], 0.4),
            cx.weight(s + 2, rank + 2 * n, e),
            cx.weight(s + 3, e, rank),
            cx.n(s + 4, &[e], 0.3) - 2.0,
            (Tensor::arange(n as i64) + 1.0).log().expand([e, n]) + 0.0,
            cx.n(s + 5, &[e], 0.1) + 1.0,
            cx.weight(s + 6, d, e),
        ]);
    }
    let forward = move |p: &[Tensor]| {
        let mut x = p[0].embedding(&tokens.slice((.., ..t)));
        for l in 0..2 {
            let q = &p[2 + 8 * l..];
            let xz = x.rms_norm(-1, 1e-5).linear(&q[0], None).split(e, -1);
            let u = xz[0].t().conv1d(&q[1], None, Conv::default().padding(3).groups(e)).slice((.., .., ..t)).t().silu();
            let parts = u.linear(&q[2], None).split_sizes(&[rank, n, n], -1);
            let delta = parts[0].linear(&q[3], Some(&q[4])).softplus();
            let decay = (delta.unsqueeze(-1) * -q[5].exp()).exp(); // [b, t, e, n]
            let input = (&delta * &u).unsqueeze(-1) * parts[1].unsqueeze(2);
            let mut h = Tensor::zeros([b, e, n]);
            let mut ys = vec![];
            for i in 0..t {
                h = decay.slice((.., i)) * h + input.slice((.., i));
                ys.push((&h * parts[2].slice((.., i)).unsqueeze(1)).sum(-1));
            }
            let y = (Tensor::stack(&ys, 1) + u * &q[6]) * xz[1].silu();
            x = x + y.linear(&q[7], None);
        }
        let logits = x.rms_norm(-1, 1e-5).linear(&p[1], None);
        logits.reshape((-1, v)).cross_entropy(&tokens.slice((.., 1..)).reshape(-1), Reduction::Mean)
    };
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut losses = vec![];
        for _ in 0..2 {
            let loss = forward(&p);
            let mut g = grad(&loss, &p);
            clip(&mut g, 1.0);
            sgd(&mut p, &g, 0.3);
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("a", p[7].detach())])
    }))
}

// Mixture of experts: the best two of eight with a capacity, dispatch by running counts, balance loss, a step of training
fn moe_top2(cx: &Inputs) -> Result<Call, Error> {
    let (tokens, d, h, experts) = cx.pick((300, 32, 64, 8), (8000, 256, 512, 16));
    let capacity = tokens * 2 / experts * 5 / 4;
    let (x, target) = (cx.n(1, &[tokens, d], 1.0), cx.n(2, &[tokens, d], 1.0));
    let p0 = vec![
        cx.weight(3, experts, d),
        cx.n(4, &[experts, d, h], 1.0 / (d as f64).sqrt()),
        cx.n(5, &[experts, h, d], 1.0 / (h as f64).sqrt()),
    ];
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut opt = Adam::new(&p, 1e-3);
        let (mut losses, mut dropped) = (vec![], vec![]);
        for _ in 0..3 {
            let gates = x.linear(&p[0], None).softmax(-1);
            let (weights, chosen) = gates.topk(2, -1, true);
            let weights = &weights / weights.sum_keepdim(-1);
            // Slot of each choice in its expert's queue: first choices first.
            let flat = chosen.t().reshape(-1);
            let marks = flat.one_hot(experts);
            let slot = (marks.cumsum(0) * &marks).sum(-1) - 1;
            let fits = slot.lt(capacity as i64);
            let to = fits.where_(&flat * capacity as i64 + slot, (experts * capacity) as i64);
            let from = Tensor::arange(tokens as i64).cast(DType::I64).tile(2);
            let queue = Tensor::zeros([experts * capacity + 1, d]).index_add(0, &to, x.index_select(0, &from));
            let inside = queue.slice(..-1).reshape((experts, capacity, d));
            let out = inside.matmul(&p[1]).gelu().matmul(&p[2]).reshape((experts * capacity, d));
            let out = Tensor::cat(&[out, Tensor::zeros([1, d])], 0).index_select(0, &to) * weights.t().reshape((-1, 1));
            let y = Tensor::zeros([tokens, d]).index_add(0, &from, out);
            let share = marks.slice(..tokens as i64).cast(DType::F32).mean(0);
            let balance = (share * gates.mean(0)).sum(..) * experts as f64;
            let loss = y.mse_loss(&target, Reduction::Mean) + balance * 0.01;
            let g = grad(&loss, &p);
            opt.step(&mut p, &g);
            losses.push(loss.detach());
            dropped.push((!fits).sum(..));
        }
        Ok(vec![
            ("loss", Tensor::stack(&losses, 0)),
            ("dropped", Tensor::stack(&dropped, 0)),
            ("router", p[0].detach()),
        ])
    }))
}

// E(n)-equivariant graph network: messages along edges, coordinates moved by them, forces as the gradient of the energy, a step on both
fn egnn(cx: &Inputs) -> Result<Call, Error> {
    let (graphs, atoms, degree, d) = cx.pick((8, 12, 6, 24), (128, 20, 10, 64));
    let nodes = graphs * atoms;
    let position0 = cx.n(1, &[nodes, 3], 1.0);
    let kind = cx.ints(2, 5, &[nodes]);
    let (energy, force) = (cx.n(3, &[graphs], 1.0), cx.n(4, &[nodes, 3], 0.3));
    let offset = cx.ints(5, atoms - 1, &[nodes, degree]) + 1;
    let node = Tensor::arange(nodes as i64).cast(DType::I64);
    let to = node.repeat(degree, 0);
    let graph = &node / atoms as i64;
    let from =
        ((node.unsqueeze(1) % atoms as i64 + offset) % atoms as i64 + (&graph * atoms as i64).unsqueeze(1)).reshape(-1);
    let mut p0 = vec![cx.n(6, &[5, d], 0.5)];
    for l in 0..2 {
        let s = 10 + 10 * l;
        let layers =
            [cx.weight(s, d, 2 * d + 1), cx.weight(s + 1, d, d), cx.weight(s + 2, d, d), cx.weight(s + 3, 1, d) * 0.1];
        p0.extend(layers);
        p0.extend([cx.weight(s + 4, d, 2 * d), cx.weight(s + 5, d, d)]);
    }
    p0.push(cx.weight(40, 1, d));
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut opt = Adam::new(&p, 1e-3);
        let mut losses = vec![];
        for _ in 0..2 {
            let start = position0.tracked();
            let (mut x, mut h) = (start.clone(), p[0].index_select(0, &kind));
            for l in 0..2 {
                let q = &p[1 + 6 * l..];
                let apart = x.index_select(0, &to) - x.index_select(0, &from);
                let d2 = apart.square().sum_keepdim(1);
                let pair = Tensor::cat(&[h.index_select(0, &to), h.index_select(0, &from), d2.clone()], 1);
                let m = pair.linear(&q[0], None).silu().linear(&q[1], None).silu();
                let moves = apart / (d2 + 1.0) * m.linear(&q[2], None).silu().linear(&q[3], None);
                x = x + Tensor::zeros([nodes, 3]).index_add(0, &to, moves) / degree as f64;
                let seen = Tensor::zeros([nodes, d]).index_add(0, &to, m);
                h = &h + Tensor::cat(&[h.clone(), seen], 1).linear(&q[4], None).silu().linear(&q[5], None);
            }
            let each = h.linear(&p[13], None).squeeze(1) + x.square().sum(1) * 0.1;
            let total = Tensor::zeros(graphs).index_add(0, &graph, each);
            let pull = -thalweg::grad_graph(&total.sum(..), &start);
            let loss = total.mse_loss(&energy, Reduction::Mean) + pull.mse_loss(&force, Reduction::Mean) * 10.0;
            let mut g = grad(&loss, &p);
            clip(&mut g, 10.0);
            opt.step(&mut p, &g);
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("w", p[3].detach())])
    }))
}

// Segmentation: a U-Net with group norm, max pooling and transposed convolutions, Dice and cross-entropy, confusion matrix
fn unet_gn(cx: &Inputs) -> Result<Call, Error> {
    let (b, size, c, classes) = cx.pick((2, 32, 8, 4), (8, 128, 32, 8));
    let x = cx.n(1, &[b, 3, size, size], 1.0);
    let label = cx.ints(2, classes, &[b, size, size]);
    let conv = |s: u64, o: usize, i: usize, k: usize| cx.n(s, &[o, i, k, k], (2.0 / (i * k * k) as f64).sqrt());
    let mut p0 = vec![];
    for (l, (i, o)) in [(3, c), (c, 2 * c), (2 * c, 4 * c), (4 * c, 2 * c), (2 * c, c)].into_iter().enumerate() {
        let s = 10 + 10 * l as u64;
        p0.extend([conv(s, o, i, 3), cx.n(s + 1, &[o], 0.1) + 1.0, cx.n(s + 2, &[o], 0.1), conv(s + 3, o, o, 3)]);
    }
    p0.extend([conv(70, 4 * c, 2 * c, 2), conv(71, 2 * c, c, 2), conv(72, classes, c, 1)]);
    let same = Conv::default().padding(1);
    let block = move |x: &Tensor, q: &[Tensor]| {
        x.conv2d(&q[0], None, same)
            .group_norm(4, Some(&q[1]), Some(&q[2]), 1e-5)
            .relu()
            .conv2d(&q[3], None, same)
            .relu()
    };
    let half = Pool::new(2);
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut opt = Adam::new(&p, 1e-3);
        let mut losses = vec![];
        let mut confusion = Tensor::zeros_with([classes * classes], DType::I64);
        for _ in 0..2 {
            let h1 = block(&x, &p);
            let h2 = block(&h1.max_pool2d(half), &p[4..]);
            let h3 = block(&h2.max_pool2d(half), &p[8..]);
            let up = h3.conv_transpose2d(&p[20], None, ConvTranspose::default().stride(2));
            let h4 = block(&Tensor::cat(&[up, h2], 1), &p[12..]);
            let up = h4.conv_transpose2d(&p[21], None, ConvTranspose::default().stride(2));
            let h5 = block(&Tensor::cat(&[up, h1], 1), &p[16..]);
            let logits = h5.conv2d(&p[22], None, Conv::default()).permute((0, 2, 3, 1));
            let prob = logits.softmax(-1);
            let truth = label.one_hot(classes).cast(DType::F32);
            let dice =
                ((&prob * &truth).sum((0, 1, 2)) * 2.0 + 1.0) / (prob.sum((0, 1, 2)) + truth.sum((0, 1, 2)) + 1.0);
            let loss =
                logits.reshape((-1, classes)).cross_entropy(&label.reshape(-1), Reduction::Mean) + 1.0 - dice.mean(..);
            let at = &label * classes as i64 + logits.argmax(-1);
            confusion = confusion.index_add(0, &at.flatten(), 1);
            let g = grad(&loss, &p);
            opt.step(&mut p, &g);
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("confusion", confusion), ("w", p[3].detach())])
    }))
}

// Decoding at batch 1 with weights of four bits in groups of 32, scales and zeros, unpacked by shifts at each use; softmax over a cache
fn int4_decode(cx: &Inputs) -> Result<Call, Error> {
    let (d, hidden, heads, v, steps) = cx.pick((128, 352, 4, 500, 6), (1024, 2816, 16, 8000, 12));
    let head = d / heads;
    // Codes of two weights in a byte, [out, in / 2]; scales and zeros [out, in / 32].
    let packed = |s: u64, o: usize, i: usize| {
        let codes = cx.ints(s, 256, &[o, i / 2]).cast(DType::U8);
        let scale = cx.u(s + 1, &[o, i / 32]) * (0.3 / (i as f64).sqrt()) + 0.1 / (i as f64).sqrt();
        (codes, scale, cx.ints(s + 2, 4, &[o, i / 32]).cast(DType::U8) + 6)
    };
    let layers: Vec<_> = (0..2)
        .map(|l| {
            let s = 10 + 40 * l;
            let more = packed(s + 9, hidden, d);
            [packed(s, 3 * d, d), packed(s + 3, d, d), packed(s + 6, hidden, d), more, packed(s + 12, d, hidden)]
        })
        .collect();
    let (embed, last) = (cx.n(1, &[v, d], 1.0), packed(4, v, d));
    let matvec = |x: &Tensor, w: &(Tensor, Tensor, Tensor)| {
        let (o, half) = (w.0.size(0), w.0.size(1));
        let codes = Tensor::stack(&[&w.0 & 15, &w.0 >> 4], -1).reshape((o, half / 16, 32)).cast(DType::F32);
        let full = (codes - w.2.cast(DType::F32).unsqueeze(-1)) * w.1.unsqueeze(-1);
        full.reshape((o, 2 * half)).matmul(x)
    };
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let mut token = Tensor::new([7i64]);
        let (mut tokens, mut top) = (vec![], vec![]);
        let mut caches: Vec<(Vec<Tensor>, Vec<Tensor>)> = vec![(vec![], vec![]); 2];
        for _ in 0..steps {
            let mut x = embed.index_select(0, &token).squeeze(0);
            for (w, (keys, values)) in layers.iter().zip(&mut caches) {
                let qkv = matvec(&x.rms_norm(-1, 1e-5), &w[0]).reshape((3, heads, head));
                keys.push(qkv.slice(1));
                values.push(qkv.slice(2));
                let (k, v) = (Tensor::stack(keys, 1), Tensor::stack(values, 1));
                let weights = (qkv.slice(0).unsqueeze(1).matmul(&k.t()) / (head as f64).sqrt()).softmax(-1);
                x = x + matvec(&weights.matmul(&v).reshape(d), &w[1]);
                let h = x.rms_norm(-1, 1e-5);
                x = x + matvec(&(matvec(&h, &w[2]).silu() * matvec(&h, &w[3])), &w[4]);
            }
            let logits = matvec(&x.rms_norm(-1, 1e-5), &last);
            token = logits.argmax(0).reshape(1);
            top.push(logits.amax(0));
            tokens.push(token.clone());
        }
        Ok(vec![("tokens", Tensor::cat(&tokens, 0)), ("top", Tensor::stack(&top, 0))])
    }))
}

// Speculative decoding: a small model drafts four tokens, a larger one checks them at once; caches are cut back where they disagree
fn speculative(cx: &Inputs) -> Result<Call, Error> {
    let (v, wanted, sizes) = cx.pick((200, 24, [(32, 1), (96, 2)]), (4000, 64, [(192, 2), (768, 6)]));
    struct Model {
        layers: Vec<[Tensor; 4]>,
        embed: Tensor,
        d: usize,
        cache: Vec<(Tensor, Tensor)>,
    }
    impl Model {
        /// Logits after each of some tokens that come after those in the cache.
        fn forward(&mut self, tokens: &Tensor) -> Tensor {
            let (n, heads, d) = (tokens.size(0), 4, self.d);
            let seen = self.cache[0].0.size(1);
            let mut x = self.embed.index_select(0, tokens).slice((.., ..d));
            let mask = (Tensor::arange(n as i64).unsqueeze(1) + seen as f64).ge(Tensor::arange((n + seen) as i64));
            for (w, cache) in self.layers.iter().zip(&mut self.cache) {
                let qkv =
                    x.rms_norm(-1, 1e-5).linear(&w[0], None).reshape((n, 3, heads, d / heads)).permute((1, 2, 0, 3));
                let k = Tensor::cat(&[&cache.0, &qkv.slice(1)], 1);
                let v = Tensor::cat(&[&cache.1, &qkv.slice(2)], 1);
                let scores = qkv.slice(0).matmul(&k.t()) / ((d / heads) as f64).sqrt();
                let weights = mask.where_(scores, f64::NEG_INFINITY).softmax(-1);
                x = x + weights.matmul(&v).transpose(0, 1).reshape((n, d)).linear(&w[1], None);
                x = &x + x.rms_norm(-1, 1e-5).linear(&w[2], None).gelu().linear(&w[3], None);
                *cache = (k, v);
            }
            x.rms_norm(-1, 1e-5).matmul(&self.embed.slice((.., ..d)).t())
        }
        fn cut(&mut self, count: usize) {
            for (k, v) in &mut self.cache {
                (*k, *v) = (k.slice((.., ..count as i64)), v.slice((.., ..count as i64)));
            }
        }
    }
    let embed = cx.n(1, &[v, sizes[1].0], 1.0);
    let make = |(d, depth): (usize, usize), s: u64| Model {
        layers: (0..depth as u64)
            .map(|l| {
                let w = |k: u64, o: usize, i: usize| cx.weight(s + 10 * l + k, o, i) * 0.5;
                [w(0, 3 * d, d), w(1, d, d), w(2, 4 * d, d), w(3, d, 4 * d)]
            })
            .collect(),
        embed: embed.clone(),
        d,
        cache: vec![],
    };
    let (mut draft, mut target) = (make(sizes[0], 100), make(sizes[1], 200));
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        for model in [&mut draft, &mut target] {
            let empty = Tensor::zeros([4, 0, model.d / 4]);
            model.cache = vec![(empty.clone(), empty); model.layers.len()];
        }
        let mut tokens = vec![3i64, 14, 15, 92];
        let mut rounds = 0i64;
        let prompt = Tensor::from_slice(&tokens[..3], 3);
        let _ = draft.forward(&prompt);
        let _ = target.forward(&prompt);
        while tokens.len() < wanted {
            let start = tokens.len();
            let mut guess = Tensor::from_slice(&tokens[start - 1..], 1);
            let mut guesses = vec![guess.clone()];
            for _ in 0..4 {
                guess = draft.forward(&guess).slice(-1).argmax(0).reshape(1);
                guesses.push(guess.clone());
            }
            let block = Tensor::cat(&guesses, 0);
            let best = target.forward(&block).argmax(-1);
            let agree = best.slice(..4).eq(block.slice(1..)).cast(DType::I64).cumprod(0).sum(0).item::<i64>()? as usize;
            tokens.extend(&best.to_vec::<i64>()?[..agree + 1]);
            // All that is in the caches is what was kept, but for the last token.
            let kept = tokens.len() - 1;
            if kept > draft.cache[0].0.size(1) {
                let _ = draft.forward(&Tensor::from_slice(&tokens[kept - 1..kept], 1));
            }
            draft.cut(kept);
            target.cut(kept);
            rounds += 1;
        }
        Ok(vec![("tokens", Tensor::from_slice(&tokens[..wanted], wanted)), ("rounds", Tensor::new(rounds))])
    }))
}

// TD3: a buffer sampled by index, twin critics, smoothed targets, delayed actor, moving averages of all networks
fn td3(cx: &Inputs) -> Result<Call, Error> {
    let (b, o, a, h, buffer) = cx.pick((64, 11, 3, 64, 2000), (512, 40, 8, 256, 50_000));
    let (s, act, s2) = (cx.n(1, &[buffer, o], 1.0), cx.u(2, &[buffer, a]) * 2.0 - 1.0, cx.n(3, &[buffer, o], 1.0));
    let (reward, done) = (cx.n(4, &[buffer], 1.0), cx.u(5, &[buffer]).lt(0.05).cast(DType::F32));
    let batches = cx.ints(6, buffer, &[4, b]);
    let noise = cx.n(7, &[4, b, a], 0.2).clamp(-0.5, 0.5);
    let net = |s: u64, i: usize, out: usize| {
        vec![
            cx.weight(s, h, i),
            cx.n(s + 1, &[h], 0.1),
            cx.weight(s + 2, h, h),
            cx.n(s + 3, &[h], 0.1),
            cx.weight(s + 4, out, h),
        ]
    };
    let (actor0, critics0) = (net(20, o, a), [net(30, o + a, 1), net(40, o + a, 1)].concat());
    let run = |p: &[Tensor], x: &Tensor| {
        x.linear(&p[0], Some(&p[1])).relu().linear(&p[2], Some(&p[3])).relu().linear(&p[4], None)
    };
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let (mut actor, mut critics) = (track(&actor0), track(&critics0));
        let (mut actor_t, mut critics_t) = (actor0.clone(), critics0.clone());
        let (mut actor_opt, mut critic_opt) = (Adam::new(&actor, 1e-3), Adam::new(&critics, 1e-3));
        let mut losses = vec![];
        for i in 0..4 {
            let at = batches.slice(i);
            let of = |t: &Tensor| t.index_select(0, &at);
            let (s, act, s2, reward, done) = (of(&s), of(&act), of(&s2), of(&reward), of(&done));
            let target = no_grad(|| {
                let next = (run(&actor_t, &s2).tanh() + noise.slice(i)).clamp(-1.0, 1.0);
                let sa = Tensor::cat(&[&s2, &next], 1);
                let q = run(&critics_t, &sa).minimum(run(&critics_t[5..], &sa)).squeeze(1);
                reward + (1.0 - done) * q * 0.99
            });
            let sa = Tensor::cat(&[&s, &act], 1);
            let loss = run(&critics, &sa).squeeze(1).mse_loss(&target, Reduction::Mean)
                + run(&critics[5..], &sa).squeeze(1).mse_loss(&target, Reduction::Mean);
            let g = grad(&loss, &critics);
            critic_opt.step(&mut critics, &g);
            losses.push(loss.detach());
            if i % 2 == 1 {
                let loss = -run(&critics, &Tensor::cat(&[s.clone(), run(&actor, &s).tanh()], 1)).mean(..);
                let g = grad(&loss, &actor);
                actor_opt.step(&mut actor, &g);
                losses.push(loss.detach());
                let ema = |t: &mut Vec<Tensor>, p: &[Tensor]| {
                    t.iter_mut().zip(p).for_each(|(t, p)| *t = t.lerp(p.detach(), 0.005))
                };
                ema(&mut actor_t, &actor);
                ema(&mut critics_t, &critics);
            }
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("actor", actor_t[2].clone()), ("critic", critics[2].detach())])
    }))
}

// VAE-GAN: a convolutional encoder and decoder, a discriminator whose features are compared, three losses, three optimisers
fn vae_gan(cx: &Inputs) -> Result<Call, Error> {
    let (b, size, c, z) = cx.pick((8, 16, 8, 10), (64, 64, 32, 64));
    let q = size / 4;
    let x = cx.n(1, &[b, 1, size, size], 0.5).tanh();
    let (eps, prior) = (cx.n(2, &[2, b, z], 1.0), cx.n(3, &[2, b, z], 1.0));
    let conv = |s: u64, o: usize, i: usize, k: usize| cx.n(s, &[o, i, k, k], 1.0 / ((i * k * k) as f64).sqrt());
    let e0 = vec![conv(10, c, 1, 4), conv(11, 2 * c, c, 4), cx.weight(12, 2 * z, 2 * c * q * q)];
    let d0 = vec![cx.weight(20, 2 * c * q * q, z), conv(21, 2 * c, c, 4), conv(22, c, 1, 4)];
    let c0 = vec![conv(30, c, 1, 4), conv(31, 2 * c, c, 4), cx.weight(32, 1, 2 * c * q * q)];
    let down = Conv::default().stride(2).padding(1);
    let up = ConvTranspose::default().stride(2).padding(1);
    let decode = move |p: &[Tensor], v: &Tensor| {
        let h = v.linear(&p[0], None).relu().reshape((b, 2 * c, q, q));
        h.conv_transpose2d(&p[1], None, up).relu().conv_transpose2d(&p[2], None, up).tanh()
    };
    let judge = move |p: &[Tensor], x: &Tensor| {
        let f = x.conv2d(&p[0], None, down).leaky_relu(0.2).conv2d(&p[1], None, down);
        let last = f.leaky_relu(0.2).reshape((b, -1)).linear(&p[2], None);
        (f, last)
    };
    let real = |x: &Tensor| x.bce_with_logits(&x.ones_like(), Reduction::Mean);
    let fake = |x: &Tensor| x.bce_with_logits(&x.zeros_like(), Reduction::Mean);
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let (mut e, mut d, mut c) = (track(&e0), track(&d0), track(&c0));
        let mut opts = [Adam::new(&e, 1e-3), Adam::new(&d, 1e-3), Adam::new(&c, 1e-3)];
        let mut losses = vec![];
        for i in 0..2 {
            let h = x.conv2d(&e[0], None, down).leaky_relu(0.2).conv2d(&e[1], None, down).leaky_relu(0.2);
            let code = h.reshape((b, -1)).linear(&e[2], None).split(z, -1);
            let v = &code[0] + (&code[1] * 0.5).exp() * eps.slice(i);
            let kl = (code[0].square() + code[1].exp() - 1.0 - &code[1]).sum(1).mean(..) * 0.5;
            let (again, made) = (decode(&d, &v), decode(&d, &prior.slice(i)));
            let (fx, rx) = judge(&c, &x);
            let (fa, ra) = judge(&c, &again);
            let (_, rm) = judge(&c, &made);
            let likeness = (fx - fa).square().mean(..);
            let adversary = real(&rx) + (fake(&ra) + fake(&rm)) * 0.5;
            let (le, ld) = (kl * 1e-2 + &likeness, &likeness * 5.0 - &adversary);
            let (ge, gd) = retain_graph(|| (grad(&le, &e), grad(&ld, &d)));
            let gc = grad(&adversary, &c);
            opts[0].step(&mut e, &ge);
            opts[1].step(&mut d, &gd);
            opts[2].step(&mut c, &gc);
            losses.push(Tensor::stack(&[le.detach(), ld.detach(), adversary.detach()], 0));
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("e", e[1].detach()), ("d", d[1].detach()), ("c", c[1].detach())])
    }))
}

// Glow: actnorm, invertible 1x1 convolutions with log-determinants, couplings by masked (checkerboard) convolutions, squeezes
fn glow(cx: &Inputs) -> Result<Call, Error> {
    let (b, size, h) = cx.pick((8, 12, 16), (32, 32, 96));
    let x = cx.u(1, &[b, 2, size, size]) + cx.n(2, &[b, 2, size, size], 0.1);
    let ch = 8;
    let s2 = size / 2;
    let mut p0 = vec![];
    for l in 0..3u64 {
        let s = 10 + 10 * l;
        p0.extend([
            cx.n(s, &[ch, 1, 1], 0.1),
            cx.n(s + 1, &[ch, 1, 1], 0.1),
            Tensor::eye(ch) + cx.n(s + 2, &[ch, ch], 0.2),
            cx.n(s + 3, &[h, ch, 3, 3], 0.1),
            cx.n(s + 4, &[h, h, 1, 1], 0.2),
            cx.n(s + 5, &[2 * ch, h, 3, 3], 0.02),
        ]);
    }
    let board = Tensor::from_fn([s2, s2], |i| ((i[0] + i[1]) % 2) as f32);
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut opt = Adam::new(&p, 1e-3);
        let mut losses = vec![];
        for _ in 0..2 {
            let mut z = x.reshape((b, 2, s2, 2, s2, 2)).permute((0, 1, 3, 5, 2, 4)).reshape((b, ch, s2, s2));
            let mut logdet = Tensor::zeros([b]);
            for l in 0..3 {
                let q = &p[6 * l..];
                z = (z + &q[0]) * q[1].exp();
                logdet = logdet + q[1].sum(..) * (s2 * s2) as f64;
                z = z.conv2d(&q[2].reshape((ch, ch, 1, 1)), None, Conv::default());
                logdet = logdet + q[2].slogdet().1 * (s2 * s2) as f64;
                let mask = if l % 2 == 0 { board.clone() } else { 1.0 - &board };
                let same = Conv::default().padding(1);
                let hidden = (&z * &mask).conv2d(&q[3], None, same).relu().conv2d(&q[4], None, Conv::default()).relu();
                let st = hidden.conv2d(&q[5], None, same).chunk(2, 1);
                let scale = st[0].tanh() * (1.0 - &mask);
                z = &z * scale.exp() + &st[1] * (1.0 - &mask);
                logdet = logdet + scale.sum((1, 2, 3));
            }
            let loss = ((z.square() * 0.5 + 0.919).sum((1, 2, 3)) - logdet).mean(..) / (ch * s2 * s2) as f64;
            let g = grad(&loss, &p);
            opt.step(&mut p, &g);
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("w", p[2].detach()), ("k", p[4].detach())])
    }))
}

// Shampoo with LAMB's trust ratios: preconditioners of both sides, inverse fourth roots by eigenvalues, an autoencoder
fn shampoo(cx: &Inputs) -> Result<Call, Error> {
    let (n, sizes) = cx.pick((200, [40, 32, 10, 32, 40]), (4000, [300, 200, 50, 200, 300]));
    let x = cx.n(1, &[n, sizes[0]], 0.5).cumsum(1).tanh();
    let p0: Vec<Tensor> = (0..4).map(|l| cx.weight(2 + l as u64, sizes[l + 1], sizes[l])).collect();
    let root = |a: &Tensor| {
        let (w, v) = a.eigh();
        (&v * w.maximum(1e-6).pow(-0.25)).matmul(&v.t())
    };
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut left: Vec<Tensor> = (0..4).map(|l| Tensor::eye(sizes[l + 1]) * 1e-2).collect();
        let mut right: Vec<Tensor> = (0..4).map(|l| Tensor::eye(sizes[l]) * 1e-2).collect();
        let mut momenta: Vec<Tensor> = p0.iter().map(|t| t.zeros_like()).collect();
        let mut losses = vec![];
        for _ in 0..3 {
            let mut y = x.clone();
            for (l, w) in p.iter().enumerate() {
                y = y.linear(w, None);
                if l < 3 {
                    y = y.tanh();
                }
            }
            let loss = y.mse_loss(&x, Reduction::Mean);
            let g = grad(&loss, &p);
            no_grad(|| {
                for l in 0..4 {
                    let g = &g[l] * 100.0;
                    left[l] = &left[l] + g.matmul(&g.t());
                    right[l] = &right[l] + g.t().matmul(&g);
                    let step = root(&left[l]).matmul(&g).matmul(&root(&right[l]));
                    momenta[l] = &momenta[l] * 0.9 + step;
                    let update = &momenta[l] + &p[l] * 1e-2;
                    let norm = |t: &Tensor| t.square().sum(..).sqrt();
                    let trust = (norm(&p[l]) / (norm(&update) + 1e-6)).clamp(0.0, 10.0);
                    p[l] = (p[l].detach() - update * (trust * 0.02)).tracked();
                }
            });
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("w", p[1].detach())])
    }))
}

// Transformer layers with rotary positions, attention in a window by blocks, grouped queries, a tied head, Adam
fn window_rope(cx: &Inputs) -> Result<Call, Error> {
    let (b, t, d, heads, block, v) = cx.pick((2, 64, 48, 4, 16, 120), (4, 1024, 256, 8, 128, 2000));
    let hd = d / heads;
    let tokens = cx.ints(1, v, &[b, t + 1]);
    let mut p0 = vec![cx.n(2, &[v, d], 0.3)];
    for l in 0..2 {
        let s = 10 + 10 * l;
        p0.extend([
            cx.weight(s, d, d),
            cx.weight(s + 1, d, d),
            cx.weight(s + 2, d, d),
            cx.weight(s + 3, 4 * d, d),
            cx.weight(s + 4, d, 2 * d),
        ]);
    }
    let angle = Tensor::arange(t as i64).unsqueeze(1)
        * (Tensor::arange((hd / 2) as i64) * (-(10000f64.ln()) / (hd / 2) as f64)).exp();
    let (cos, sin) = (angle.cos(), angle.sin());
    let rotate = move |x: &Tensor| {
        let (a, b) = (x.slice((.., .., .., ..(hd / 2) as i64)), x.slice((.., .., .., (hd / 2) as i64..)));
        Tensor::cat(&[&a * &cos - &b * &sin, a * &sin + b * &cos], -1)
    };
    let blocks = t / block;
    // A query sees its own block up to itself, and the one before from its own place on.
    let mask = Tensor::from_fn([block, 2 * block], |i| i[1] > i[0] && i[1] <= i[0] + block);
    let first = Tensor::from_fn([blocks, 1, 2 * block], |i| i[0] > 0 || i[2] >= block);
    let seen = &mask & &first;
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut opt = Adam::new(&p, 1e-3);
        let mut losses = vec![];
        for _ in 0..2 {
            let mut x = p[0].embedding(&tokens.slice((.., ..t as i64)));
            for l in 0..2 {
                let q = &p[1 + 5 * l..];
                let h = x.layer_norm(-1, 1e-5);
                let heads_of = |y: Tensor, n: usize| y.reshape((b, t, n, hd)).transpose(1, 2);
                let query = rotate(&heads_of(h.linear(&q[0], None), heads));
                let kv = h.linear(&q[1], None).chunk(2, -1);
                let key = rotate(&heads_of(kv[0].clone(), heads / 2)).repeat(2, 1);
                let value = heads_of(kv[1].clone(), heads / 2).repeat(2, 1);
                let pairs = |y: &Tensor| {
                    let y = y.pad([(0, 0), (0, 0), (block, 0), (0, 0)], 0.0);
                    y.window(2, 2 * block, block).transpose(3, 4) // [b, heads, blocks, 2 * block, hd]
                };
                let (key, value) = (pairs(&key), pairs(&value));
                let query = query.reshape((b, heads, blocks, block, hd));
                let scores = query.matmul(&key.t()) / (hd as f64).sqrt();
                let weights = seen.where_(scores, -1e9).softmax(-1);
                let y = weights.matmul(&value).reshape((b, heads, t, hd)).transpose(1, 2).reshape((b, t, d));
                x = x + y.linear(&q[2], None);
                let gate = x.layer_norm(-1, 1e-5).linear(&q[3], None).chunk(2, -1);
                x = x + (gate[0].gelu() * &gate[1]).linear(&q[4], None);
            }
            let logits = x.layer_norm(-1, 1e-5).linear(&p[0], None);
            let loss = logits.reshape((-1, v)).cross_entropy(&tokens.slice((.., 1..)).reshape(-1), Reduction::Mean);
            let g = grad(&loss, &p);
            opt.step(&mut p, &g);
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("w", p[3].detach())])
    }))
}
