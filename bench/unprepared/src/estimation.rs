//! Estimation and optimisation: filters, hidden states, Gaussian processes, transport, alignment, early exercise, fits, factorisations,
//! embeddings, clusters, sparse solvers, transformed statistics.

use crate::data::{Adam, Call, Inputs, track};
use thalweg::prelude::*;
use thalweg::{grad, jvp};

/// Programs by name.
pub const PROGRAMS: &[(&str, fn(&Inputs) -> Result<Call, Error>)] = &[
    ("kalman", kalman),
    ("baum_welch", baum_welch),
    ("gp_fit", gp_fit),
    ("sinkhorn", sinkhorn),
    ("soft_dtw", soft_dtw),
    ("lsm_option", lsm_option),
    ("levmar", levmar),
    ("als", als),
    ("tsne", tsne),
    ("kmeans_pp", kmeans_pp),
    ("csr_cg", csr_cg),
    ("boxcox", boxcox),
];

// Kalman filter and smoother of a batch of tracks, f64, and the gradient of the likelihood by the noise of both models
fn kalman(cx: &Inputs) -> Result<Call, Error> {
    let (b, steps) = cx.pick((64, 25), (2000, 50));
    let z = cx.n64(1, &[steps, b, 2], 1.0).cumsum(0);
    let dt = 0.1;
    let f = Tensor::new([[1.0, 0.0, dt, 0.0], [0.0, 1.0, 0.0, dt], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0f64]]);
    let h = Tensor::new([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0f64]]);
    let (eye4, eye2) = (Tensor::eye_with(4, 4, DType::F64), Tensor::eye_with(2, 2, DType::F64));
    Ok(Box::new(move || {
        let (q, r) = (Tensor::new(-1.0f64).tracked(), Tensor::new(-0.5f64).tracked());
        let (qm, rm) = (&eye4 * q.exp(), &eye2 * r.exp());
        let mut x = Tensor::zeros_with([b, 4, 1], DType::F64);
        let mut p = eye4.expand([b, 4, 4]) * 10.0;
        let mut likelihood = Tensor::zeros_with((), DType::F64);
        let (mut filtered, mut predicted) = (vec![], vec![]);
        for t in 0..steps {
            let xp = f.matmul(&x);
            let pp = f.matmul(&p).matmul(&f.t()) + &qm;
            let y = z.slice(t).unsqueeze(-1) - h.matmul(&xp);
            let s = h.matmul(&pp).matmul(&h.t()) + &rm;
            let inverse = s.inv();
            let gain = pp.matmul(&h.t()).matmul(&inverse);
            x = &xp + gain.matmul(&y);
            p = (&eye4 - gain.matmul(&h)).matmul(&pp);
            let distance = y.t().matmul(&inverse).matmul(&y).sum(..);
            likelihood = likelihood - 0.5 * (distance + s.slogdet().1.sum(..));
            filtered.push((x.clone(), p.clone()));
            predicted.push((xp, pp));
        }
        let g = grad(&likelihood, [&q, &r]);
        let (mut xs, mut ps) = filtered.pop().unwrap();
        let mut smooth = vec![xs.detach()];
        for (t, (x, p)) in filtered.iter().enumerate().rev() {
            let (xp, pp) = &predicted[t + 1];
            let c = pp.solve(&f.matmul(p)).t();
            xs = x + c.matmul(&(xs - xp));
            ps = p + c.matmul(&(ps - pp)).matmul(&c.t());
            smooth.push(xs.detach());
        }
        Ok(vec![
            ("likelihood", likelihood.detach()),
            ("gradient", Tensor::stack(&[&g[0], &g[1]], 0)),
            ("smooth", Tensor::stack(&smooth, 0)),
            ("cov", ps.detach()),
        ])
    }))
}

// Baum-Welch: scaled forward and backward recursions of a batch of sequences, f64, re-estimation by counts
fn baum_welch(cx: &Inputs) -> Result<Call, Error> {
    let (b, t, k, v) = cx.pick((20, 40, 6, 9), (200, 80, 16, 24));
    let seen = cx.ints(1, v, &[b, t]);
    let start0 = cx.n64(2, &[k], 0.5).softmax(-1);
    let move0 = cx.n64(3, &[k, k], 0.5).softmax(-1);
    let emit0 = cx.n64(4, &[k, v], 0.5).softmax(-1);
    let symbols = seen.one_hot(v).cast(DType::F64);
    Ok(Box::new(move || {
        let (mut start, mut moves, mut emit) = (start0.clone(), move0.clone(), emit0.clone());
        let mut likelihoods = vec![];
        for _ in 0..3 {
            let e = emit.t().index_select(0, &seen); // [b, t, k]
            let mut a = &start * e.slice((.., 0));
            let (mut alphas, mut scales) = (vec![], vec![]);
            for i in 0..t {
                if i > 0 {
                    a = a.matmul(&moves) * e.slice((.., i));
                }
                let c = a.sum_keepdim(1);
                a = a / &c;
                alphas.push(a.clone());
                scales.push(c);
            }
            let mut beta = Tensor::ones_with([b, k], DType::F64);
            let mut betas = vec![beta.clone()];
            for i in (1..t).rev() {
                beta = (e.slice((.., i)) * &beta).matmul(&moves.t()) / &scales[i];
                betas.push(beta.clone());
            }
            betas.reverse();
            let (alpha, beta, scale) = (Tensor::stack(&alphas, 1), Tensor::stack(&betas, 1), Tensor::cat(&scales, 1));
            let gamma = &alpha * &beta;
            let gamma = &gamma / gamma.sum_keepdim(-1);
            let next = e.slice((.., 1..)) * beta.slice((.., 1..)) / scale.slice((.., 1..)).unsqueeze(-1);
            let counts = Tensor::einsum("bti,btj->ij", &[&alpha.slice((.., ..-1)), &next]) * &moves;
            start = gamma.slice((.., 0)).mean(0);
            moves = &counts / counts.sum_keepdim(1);
            let emitted = Tensor::einsum("btk,btv->kv", &[&gamma, &symbols]);
            emit = &emitted / emitted.sum_keepdim(1);
            likelihoods.push(scale.log().sum(..));
        }
        Ok(vec![("likelihood", Tensor::stack(&likelihoods, 0)), ("start", start), ("moves", moves), ("emit", emit)])
    }))
}

// Gaussian process: marginal likelihood by Cholesky, Adam on length scales and noise, prediction, f64
fn gp_fit(cx: &Inputs) -> Result<Call, Error> {
    let (n, d, m) = cx.pick((120, 4, 50), (1000, 8, 400));
    let (x, at) = (cx.n64(1, &[n, d], 1.0), cx.n64(2, &[m, d], 1.0));
    let y = (x.slice((.., 0)) * 2.0).sin() + x.slice((.., 1)).square() * 0.3 + cx.n64(3, &[n], 0.1);
    let eye = Tensor::eye_with(n, n, DType::F64);
    Ok(Box::new(move || {
        let mut p = track(&[Tensor::zeros_with([d], DType::F64), Tensor::new(0.0f64), Tensor::new(-2.0f64)]);
        let mut opt = Adam::new(&p, 0.05);
        let kernel = |p: &[Tensor], a: &Tensor, b: &Tensor| {
            let (a, b) = (a * p[0].exp(), b * p[0].exp());
            (-0.5 * (a.unsqueeze(1) - b.unsqueeze(0)).square().sum(-1)).exp() * p[1].exp()
        };
        let mut losses = vec![];
        for _ in 0..5 {
            let l = (kernel(&p, &x, &x) + &eye * (p[2].exp() + 1e-6)).cholesky();
            let w = l.solve_triangular(&y.unsqueeze(-1), false);
            let loss = 0.5 * w.square().sum(..) + l.diagonal(0).log().sum(..);
            let g = grad(&loss, &p);
            opt.step(&mut p, &g);
            losses.push(loss.detach());
        }
        let l = (kernel(&p, &x, &x) + &eye * (p[2].exp() + 1e-6)).cholesky();
        let k = kernel(&p, &x, &at);
        let mean = k.t().matmul(&l.cholesky_solve(&y.unsqueeze(-1))).squeeze(-1);
        let var = p[1].exp() - l.solve_triangular(&k, false).square().sum(0);
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("mean", mean.detach()), ("var", var.detach())])
    }))
}

// Entropic optimal transport in the log domain, and descent of the points by its gradient
fn sinkhorn(cx: &Inputs) -> Result<Call, Error> {
    let (n, m, iterations) = cx.pick((150, 130, 20), (1500, 1300, 40));
    let (x0, y) = (cx.n(1, &[n, 2], 1.0), cx.n(2, &[m, 2], 0.5) + 1.0);
    let eps = 0.1;
    let (la, lb) = (-(n as f64).ln(), -(m as f64).ln());
    Ok(Box::new(move || {
        let mut x = x0.tracked();
        let mut costs = vec![];
        for _ in 0..2 {
            let c = (x.unsqueeze(1) - y.unsqueeze(0)).square().sum(-1);
            let (mut f, mut g) = (Tensor::zeros(n), Tensor::zeros(m));
            for _ in 0..iterations {
                f = (((&g - &c) / eps + lb).logsumexp(1)) * -eps;
                g = (((f.unsqueeze(1) - &c) / eps + la).logsumexp(0)) * -eps;
            }
            let plan = ((f.unsqueeze(1) + &g - &c) / eps + (la + lb)).exp();
            let cost = (plan * c).sum(..);
            let gradient = grad(&cost, &x);
            x = (x.detach() - gradient * (0.3 * n as f64)).tracked();
            costs.push(cost.detach());
        }
        Ok(vec![("cost", Tensor::stack(&costs, 0)), ("x", x.detach())])
    }))
}

// Soft dynamic time warping along anti-diagonals, and its gradient by one of the series
fn soft_dtw(cx: &Inputs) -> Result<Call, Error> {
    let (b, n, m, d) = cx.pick((12, 24, 20, 3), (64, 60, 50, 6));
    let (x0, y) = (cx.n(1, &[b, n, d], 0.3).cumsum(1), cx.n(2, &[b, m, d], 0.3).cumsum(1));
    let (gamma, far) = (0.5, 1e6);
    // Row i of the skewed costs is diagonal i: its elements are indexed by the row in the matrix.
    let at =
        Tensor::from_fn([n + m - 1, n], |i| if i[0] >= i[1] && i[0] - i[1] < m { (i[0] - i[1]) as i64 } else { -1 });
    Ok(Box::new(move || {
        let x = x0.tracked();
        let cost = (x.unsqueeze(2) - y.unsqueeze(1)).square().sum(-1); // [b, n, m]
        let valid = at.ge(0);
        let safe = valid.where_(&at, 0).t().unsqueeze(0).expand([b, n, n + m - 1]);
        let skewed = valid.t().where_(cost.gather(2, &safe), far); // [b, n, diagonals]
        let mut before = Tensor::full([b, n], far);
        let mut last = before.clone();
        for i in 0..n + m - 1 {
            let shifted = |r: &Tensor| r.slice((.., ..-1)).pad([(0, 0), (1, 0)], far);
            let least = if i == 0 {
                Tensor::full([b, n], far).slice_scatter((.., 0), 0.0)
            } else {
                let all = Tensor::stack(&[shifted(&before), shifted(&last), last.clone()], -1);
                (all / -gamma).logsumexp(-1) * -gamma
            };
            let next = skewed.slice((.., .., i)) + least;
            before = last;
            last = next;
        }
        let loss = last.slice((.., -1));
        let g = grad(&loss.sum(..), &x);
        Ok(vec![("loss", loss.detach()), ("gradient", g)])
    }))
}

// American put by least squares (Longstaff and Schwartz), f64: normal equations backwards in time
fn lsm_option(cx: &Inputs) -> Result<Call, Error> {
    let (paths, steps) = cx.pick((4000, 25), (200_000, 50));
    let (s0, strike, rate, sigma, years) = (36.0, 40.0, 0.06, 0.2, 1.0);
    let dt: f64 = years / steps as f64;
    let noise = cx.n64(1, &[steps, paths / 2], 1.0);
    Ok(Box::new(move || {
        let z = Tensor::cat(&[&noise, &-&noise], 1);
        let growth = (rate - 0.5 * sigma * sigma) * dt;
        let s = (z * (sigma * dt.sqrt()) + growth).cumsum(0).exp() * s0;
        let mut value = (strike - s.slice(-1)).relu();
        let mut coefficients = vec![];
        for t in (0..steps - 1).rev() {
            value = value * (-rate * dt).exp();
            let now = s.slice(t);
            let payoff = (strike - &now).relu();
            let inside = payoff.gt(0).cast(DType::F64);
            let x = &now / strike;
            let basis = Tensor::stack(&[x.ones_like(), x.clone(), x.square(), &x * x.square()], 1);
            let weighted = &basis * inside.unsqueeze(1);
            let normal = weighted.t().matmul(&basis) + Tensor::eye_with(4, 4, DType::F64) * 1e-8;
            let c = normal.cholesky().cholesky_solve(&weighted.t().matmul(&value.unsqueeze(1)));
            let hold = basis.matmul(&c).squeeze(1);
            let exercise = payoff.gt(0) & payoff.gt(&hold);
            value = exercise.where_(&payoff, &value);
            coefficients.push(hold.mean(..));
        }
        let price = (&value * (-rate * dt).exp()).mean(..);
        Ok(vec![("price", price), ("hold", Tensor::stack(&coefficients, 0))])
    }))
}

// Levenberg-Marquardt on a batch of curves: Jacobians by forward derivatives, damping of each curve, f64
fn levmar(cx: &Inputs) -> Result<Call, Error> {
    let (b, n) = cx.pick((200, 30), (20_000, 40));
    let t = Tensor::linspace_with(0.0, 4.0, n, DType::F64);
    let truth = cx.n64(1, &[b, 4], 0.2) + Tensor::new([2.0, 0.8, 0.5, 1.5f64]);
    let model = move |p: &Tensor| {
        let c = |i: usize| p.slice((.., i)).unsqueeze(1);
        c(0) * (-c(1) * &t).exp() * (&t * c(3)).cos() + c(2)
    };
    let y = model(&truth) + cx.n64(2, &[b, n], 0.01);
    let eye = Tensor::eye_with(4, 4, DType::F64);
    let p0 = Tensor::new([1.5, 0.5, 0.0, 1.4f64]).expand([b, 4]);
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let (mut p, mut damping) = (p0.clone(), Tensor::full_with([b, 1], 1e-2, DType::F64));
        let mut loss = (model(&p) - &y).square().sum_keepdim(1);
        for _ in 0..8 {
            let columns: Vec<Tensor> = (0..4).map(|i| jvp(|p| model(&p), &p, &eye.slice(i).expand([b, 4])).1).collect();
            let j = Tensor::stack(&columns, 2); // [b, n, 4]
            let r = model(&p) - &y;
            let jtj = j.t().matmul(&j);
            let scaled = &jtj + jtj.diagonal(0).unsqueeze(-1) * &eye * damping.unsqueeze(-1);
            let step = scaled.solve(&j.t().matmul(&r.unsqueeze(-1))).squeeze(-1);
            let tried = &p - step;
            let tried_loss = (model(&tried) - &y).square().sum_keepdim(1);
            let better = tried_loss.lt(&loss);
            p = better.where_(tried, &p);
            loss = better.where_(tried_loss, loss);
            damping = better.where_(&damping * 0.3, &damping * 5.0).clamp(1e-7, 1e7);
        }
        Ok(vec![("p", p), ("loss", loss)])
    }))
}

// Alternating least squares on ratings: normal equations summed by index, batches of solutions
fn als(cx: &Inputs) -> Result<Call, Error> {
    let (users, items, ratings, k) = cx.pick((120, 90, 3000, 8), (3000, 2000, 150_000, 16));
    let (user, item) = (cx.ints(1, users, &[ratings]), cx.ints(2, items, &[ratings]));
    let value = cx.n(3, &[ratings], 1.0) + 3.0;
    let (u0, v0) = (cx.n(4, &[users, k], 0.3), cx.n(5, &[items, k], 0.3));
    let eye = Tensor::eye(k);
    let solved = move |factors: &Tensor, of: &Tensor, at: &Tensor, count: usize, value: &Tensor| {
        let f = factors.index_select(0, of);
        let outer = f.unsqueeze(2) * f.unsqueeze(1);
        let a = Tensor::zeros([count, k, k]).index_add(0, at, &outer) + &eye * 0.5;
        let b = Tensor::zeros([count, k]).index_add(0, at, f * value.unsqueeze(1));
        a.cholesky().cholesky_solve(&b.unsqueeze(-1)).squeeze(-1)
    };
    Ok(Box::new(move || {
        let (mut u, mut v) = (u0.clone(), v0.clone());
        let mut errors = vec![];
        for _ in 0..3 {
            u = solved(&v, &item, &user, users, &value);
            v = solved(&u, &user, &item, items, &value);
            let guess = (u.index_select(0, &user) * v.index_select(0, &item)).sum(1);
            errors.push((guess - &value).square().mean(..).sqrt());
        }
        Ok(vec![("error", Tensor::stack(&errors, 0)), ("u", u), ("v", v)])
    }))
}

// t-SNE: bandwidths by bisection, then gradient descent with momentum and gains
fn tsne(cx: &Inputs) -> Result<Call, Error> {
    let (n, d, steps) = cx.pick((160, 10, 15), (1500, 30, 40));
    let centres = cx.n(1, &[5, d], 2.0);
    let x = cx.n(2, &[n, d], 0.7) + centres.index_select(0, &cx.ints(3, 5, &[n]));
    let y0 = cx.n(4, &[n, 2], 1e-2);
    let target = 20f64.ln();
    Ok(Box::new(move || {
        let apart = 1.0 - Tensor::eye(n);
        let d2 = x.cdist(&x, 2.0).square();
        let (mut low, mut high) = (Tensor::zeros([n, 1]), Tensor::full([n, 1], 100.0));
        let mut p = Tensor::zeros([n, n]);
        for _ in 0..20 {
            let beta = (&low + &high) * 0.5;
            let w = (-&d2 * &beta).exp() * &apart;
            let total = w.sum_keepdim(1) + 1e-12;
            p = &w / &total;
            let entropy = total.log() + beta * (&d2 * &p).sum_keepdim(1);
            let middle = (&low + &high) * 0.5;
            let wide = entropy.gt(target);
            low = wide.where_(&middle, &low);
            high = wide.where_(&high, &middle);
        }
        let p = ((&p + p.t()) / (2.0 * n as f64)).maximum(1e-12);
        let (mut y, mut v) = (y0.clone(), y0.zeros_like());
        let mut gains = y0.ones_like();
        for _ in 0..steps {
            let near = (1.0 + (y.unsqueeze(1) - y.unsqueeze(0)).square().sum(-1)).recip() * &apart;
            let q = (&near / near.sum(..)).maximum(1e-12);
            let w = (&p * 4.0 - q) * near;
            let g = 4.0 * (w.sum_keepdim(1) * &y - w.matmul(&y));
            let same = g.gt(0).eq(v.gt(0));
            gains = same.where_(&gains * 0.8, &gains + 0.2).maximum(0.01);
            v = &v * 0.5 - &gains * &g * 10.0;
            y = &y + &v;
            y = &y - y.mean_keepdim(0);
        }
        Ok(vec![("entropy", (&p * p.log()).sum(..)), ("y", y)])
    }))
}

// k-means++: seeds drawn by squared distance, then Lloyd's algorithm until the assignment rests, empty clusters kept
fn kmeans_pp(cx: &Inputs) -> Result<Call, Error> {
    let (n, d, k) = cx.pick((2000, 8, 16), (60_000, 16, 64));
    let centres = cx.n(1, &[k, d], 2.0);
    let x = cx.n(2, &[n, d], 0.4) + centres.index_select(0, &cx.ints(3, k, &[n]));
    let draws = cx.u(4, &[k, 1]);
    Ok(Box::new(move || {
        let mut seeds = vec![x.slice(0..1)];
        let mut least = (&x - &seeds[0]).square().sum(1);
        for i in 1..k {
            let running = least.cumsum(0);
            let at = running.searchsorted(&(draws.slice(i) * running.slice(-1)), false).clamp(0, n as i64 - 1);
            let seed = x.index_select(0, &at);
            least = least.minimum((&x - &seed).square().sum(1));
            seeds.push(seed);
        }
        let mut c = Tensor::cat(&seeds, 0);
        let mut label = Tensor::full_with([n], -1, DType::I64);
        let mut rounds = 0i64;
        for _ in 0..20 {
            let next = (c.square().sum(1) - x.matmul(&c.t()) * 2.0).argmin(1);
            let changed = next.ne(&label).any(..);
            label = next;
            rounds += 1;
            if !changed.item::<bool>()? {
                break;
            }
            let sums = Tensor::zeros([k, d]).index_add(0, &label, &x);
            let counts = Tensor::zeros(k).index_add(0, &label, 1.0).unsqueeze(1);
            c = counts.gt(0).where_(sums / counts.maximum(1.0), c);
        }
        let inertia = (&x - c.index_select(0, &label)).square().sum(..);
        Ok(vec![("inertia", inertia), ("c", c), ("rounds", Tensor::new(rounds))])
    }))
}

// A sparse matrix in CSR: PageRank by power iteration, conjugate gradients on its Laplacian, f64, residual read each fifth step
fn csr_cg(cx: &Inputs) -> Result<Call, Error> {
    let (n, degree) = cx.pick((2000, 8), (200_000, 12));
    let nnz = n * degree;
    let column = cx.ints(1, n, &[nnz]);
    let row = Tensor::arange(n as i64).cast(DType::I64).repeat(degree, 0);
    let weight = cx.u(2, &[nnz]).cast(DType::F64) + 0.1;
    let b = cx.n64(3, &[n], 1.0);
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let zeros = Tensor::zeros_with([n], DType::F64);
        let out = zeros.index_add(0, &column, &weight);
        let flow = &weight / out.index_select(0, &column);
        let mut rank = Tensor::full_with([n], 1.0 / n as f64, DType::F64);
        for _ in 0..20 {
            let gathered = zeros.index_add(0, &row, &flow * rank.index_select(0, &column));
            rank = gathered * 0.85 + (0.15 / n as f64);
            rank = &rank / rank.sum(..);
        }
        // A symmetric Laplacian plus the identity: each entry acts in both directions.
        let diagonal = zeros.index_add(0, &row, &weight).index_add(0, &column, &weight) + 1.0;
        let apply = |p: &Tensor| {
            let there = zeros.index_add(0, &row, &weight * p.index_select(0, &column));
            &diagonal * p - there.index_add(0, &column, &weight * p.index_select(0, &row))
        };
        let (mut x, mut r) = (zeros.clone(), b.clone());
        let mut z = &r / &diagonal;
        let mut p = z.clone();
        let mut rz = r.dot(&z);
        let mut steps = 0i64;
        for i in 0..60 {
            let ap = apply(&p);
            let alpha = &rz / p.dot(&ap);
            x = &x + &alpha * &p;
            r = &r - alpha * ap;
            steps += 1;
            if i % 5 == 4 && r.square().sum(..).sqrt().item::<f64>()? < 1e-9 {
                break;
            }
            z = &r / &diagonal;
            let next = r.dot(&z);
            p = &z + &next / &rz * &p;
            rz = next;
        }
        Ok(vec![("rank", rank), ("x", x), ("steps", Tensor::new(steps))])
    }))
}

// Box-Cox: the exponent of each column by golden section, then quantiles, ranks, Spearman's correlation, winsorised moments, f64
fn boxcox(cx: &Inputs) -> Result<Call, Error> {
    let (n, d) = cx.pick((1500, 10), (40_000, 32));
    let x = (cx.n64(1, &[n, d], 0.6) + cx.n64(2, &[n, 1], 0.4)).exp() + 0.05;
    Ok(Box::new(move || {
        let logs = x.log();
        let total = logs.sum(0);
        let transformed = |l: &Tensor| ((&logs * l).exp() - 1.0) / l;
        let score = |l: &Tensor| transformed(l).var(0).log() * (-0.5 * n as f64) + (l - 1.0) * &total;
        let golden = (5f64.sqrt() - 1.0) / 2.0;
        let (mut low, mut high) = (Tensor::full_with([d], -2.03, DType::F64), Tensor::full_with([d], 2.01, DType::F64));
        for _ in 0..30 {
            let (a, b) = (&high - (&high - &low) * golden, &low + (&high - &low) * golden);
            let left = score(&a).gt(score(&b));
            high = left.where_(&b, &high);
            low = left.where_(&low, &a);
        }
        let lambda = (&low + &high) * 0.5;
        let y = transformed(&lambda);
        let quantiles = y.quantile([0.01, 0.25, 0.5, 0.75, 0.99], 0);
        let clipped = y.clamp(quantiles.slice(0), quantiles.slice(4));
        let z = (&clipped - clipped.mean(0)) / clipped.std(0);
        let moments = Tensor::stack(&[&z * z.square(), z.square().square()], 0).mean(1);
        let ranks = y.argsort(0, false).argsort(0, false).cast(DType::F64);
        Ok(vec![("lambda", lambda), ("quantiles", quantiles), ("moments", moments), ("spearman", ranks.t().corrcoef())])
    }))
}
