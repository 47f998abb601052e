//! Physics, statistics and signals: molecular dynamics, waves, rays, regressions, primal-dual methods, joins by time, labels of regions,
//! reaction and diffusion, kernel regression, banks of filters.

use crate::data::{Call, integers, normal, normal_f64, numbered, tensor as t, uniform, uniform_f64};
use thalweg::kernel::Tile;
use thalweg::prelude::*;

/// Programs by name; each takes whether its inputs are large.
pub const PROGRAMS: &[(&str, fn(bool) -> Call)] = &[
    ("md", md),
    ("fdtd", fdtd),
    ("raymarch", raymarch),
    ("irls", irls),
    ("pdhg", pdhg),
    ("asof", asof),
    ("labels", labels),
    ("gray_scott", gray_scott),
    ("nw_tile", nw_tile),
    ("fir_bf16", fir_bf16),
];

// Lennard-Jones in a periodic box: neighbour list by topk every ten steps, forces as the gradient of the energy.
fn md(large: bool) -> Call {
    let (side, k, steps) = if large { (13usize, 80, 30) } else { (9, 80, 30) };
    let (n, a) = (side * side * side, 1.08f64);
    let (size, cut) = (side as f64 * a, 2.2);
    let jitter = normal(20, n * 3);
    let x0: Vec<f32> = (0..n * 3)
        .map(|i| {
            let (p, axis) = (i / 3, i % 3);
            ([p / (side * side), p / side % side, p % side][axis] as f64 * a) as f32 + 0.03 * jitter[i]
        })
        .collect();
    let (x0, v0) = (t(&x0, (n, 3)), t(&normal(21, n * 3), (n, 3)) * 0.7);
    thalweg::synchronize().unwrap();
    let image = move |d: Tensor| {
        let s = (&d / size).round().detach() * size;
        d - s
    };
    let neighbours = move |x: &Tensor| {
        let d2 = image(x.unsqueeze(1) - x.unsqueeze(0)).square().sum(-1) + Tensor::eye(n) * 1e9;
        let (far, at) = d2.topk(k, 1, false);
        (far.lt((cut + 0.3) * (cut + 0.3)), at)
    };
    let energy = move |x: &Tensor, list: &(Tensor, Tensor)| {
        let d = image(x.unsqueeze(1) - x.index_select(0, &list.1));
        let r2 = d.square().sum(-1);
        let inside = r2.lt(cut * cut) & &list.0;
        let i6 = inside.where_(&r2, 1.0).recip().powi(3);
        inside.where_((i6.square() - &i6) * 4.0, 0.0).sum(..) * 0.5
    };
    Box::new(move || {
        let (mut x, mut v, dt) = (x0.clone(), v0.clone(), 0.004);
        let mut list = neighbours(&x);
        let force = |x: &Tensor, list: &(Tensor, Tensor)| {
            let x = x.tracked();
            let e = energy(&x, list);
            let g = e.backward();
            (-&g[&x], e.detach())
        };
        let mut energies = vec![];
        let (mut f, _) = force(&x, &list);
        for step in 0..steps {
            v = v + &f * (0.5 * dt);
            x = x + &v * dt;
            if step % 10 == 9 {
                list = neighbours(&x);
            }
            let (next, e) = force(&x, &list);
            f = next;
            v = v + &f * (0.5 * dt);
            energies.push(e + v.square().sum(..) * 0.5);
        }
        Ok(numbered(vec![Tensor::stack(&energies, 0), x]))
    })
}

// Maxwell's equations in the plane (FDTD), and two steps of gradient ascent on the permittivity through 50 time steps.
fn fdtd(large: bool) -> Call {
    let (ny, nx, steps) = if large { (301, 343, 50) } else { (101, 123, 50) };
    let theta0 = t(&normal(22, ny * nx), (ny, nx)) * 0.1;
    let mut mask = Tensor::zeros((ny, nx));
    mask.set((20..-20, 30..-30), 1.0);
    let damp = Tensor::from_fn((ny, nx), |p| {
        let edge = |i: usize, n: usize| 8usize.saturating_sub(i.min(n - 1 - i)) as f32 / 8.0;
        1.0 - 0.3 * edge(p[0], ny).max(edge(p[1], nx)).powi(2)
    });
    let (my, left, right) = (ny / 2, 12, nx - 14);
    Box::new(move || {
        let mut theta = theta0.clone();
        let mut powers = vec![];
        for _ in 0..2 {
            let leaf = theta.tracked();
            let eps = leaf.sigmoid() * &mask * 2.0 + 1.0;
            let gain = 0.5 / eps;
            let mut ez = Tensor::zeros((ny, nx));
            let (mut hx, mut hy) = (Tensor::zeros((ny - 1, nx)), Tensor::zeros((ny, nx - 1)));
            let mut power = Tensor::zeros(());
            for k in 0..steps {
                hx = hx - (ez.slice((1.., ..)) - ez.slice((..-1, ..))) * 0.5;
                hy = hy + (ez.slice((.., 1..)) - ez.slice((.., ..-1))) * 0.5;
                let curl = (hy.slice((1..-1, 1..)) - hy.slice((1..-1, ..-1)))
                    - (hx.slice((1.., 1..-1)) - hx.slice((..-1, 1..-1)));
                *ez.slice_mut((1..-1, 1..-1)) += gain.slice((1..-1, 1..-1)) * curl;
                *ez.slice_mut((my - 5..my + 6, left)) += (k as f64 * 0.35).sin();
                ez *= &damp;
                power = power + ez.slice((my - 8..my + 9, left + 18)).square().sum(..) + ez.slice((my, right)).square();
            }
            let g = power.backward();
            let g = &g[&leaf];
            theta = theta + g / (g.abs().amax(..) + 1e-12) * 0.5;
            powers.push(power.detach());
        }
        Ok(numbered(vec![Tensor::stack(&powers, 0), theta]))
    })
}

// Sphere tracing of a small scene, each pixel with its own number of steps.
#[kernel]
fn scene<F: Real>(x: F, y: F, z: F) -> F {
    let ball = ((x + 0.7) * (x + 0.7) + y * y + z * z).sqrt() - 0.8;
    let ring = ((x - 0.9) * (x - 0.9) + z * z).sqrt() - 0.7;
    let torus = (ring * ring + y * y).sqrt() - 0.25;
    let h = (0.5 + 0.5 * (torus - ball) / 0.3).clamp(0.0, 1.0);
    let both = torus + (ball - torus) * h - 0.3 * h * (1.0 - h);
    both.min(y + 0.85)
}

#[kernel(index)]
fn render<F: Real>(at: [i32; 2], h: F, w: F, turn: F) -> (F, i32) {
    let (u, v) = ((at[1] as F - 0.5 * w) / h, (0.5 * h - at[0] as F) / h);
    let long = (u * u + v * v + 1.44).sqrt();
    let (dx, dy, dz) = (u / long, v / long, 1.2 / long);
    let (c, s) = (turn.cos(), turn.sin());
    let (rx, rz) = (c * dx + s * dz, c * dz - s * dx);
    let (ox, oy, oz) = (-4.0 * s, 0.4, -4.0 * c);
    let (mut far, mut n, mut near) = (0.0, 0, 1.0);
    while near > 0.001 && far < 20.0 && n < 96 {
        near = scene(ox + far * rx, oy + far * dy, oz + far * rz);
        far += near;
        n += 1;
    }
    let (x, y, z) = (ox + far * rx, oy + far * dy, oz + far * rz);
    let e = 0.001;
    let here = scene(x, y, z);
    let (gx, gy, gz) = (scene(x + e, y, z) - here, scene(x, y + e, z) - here, scene(x, y, z + e) - here);
    let norm = (gx * gx + gy * gy + gz * gz).sqrt() + 1e-9;
    let light = ((0.5 * gx + 0.8 * gy - 0.33 * gz) / norm).max(0.0);
    (if far < 20.0 { 0.1 + 0.9 * light } else { 0.0 }, n)
}

fn raymarch(large: bool) -> Call {
    let (h, w) = if large { (1081, 1923) } else { (271, 483) };
    Box::new(move || {
        let mut sum = Tensor::zeros((h, w));
        let mut steps = vec![];
        for frame in 0..4 {
            let (image, n) = render::over((h, w)).on(h as f64, w as f64, 0.1 + 0.2 * frame as f64);
            sum = sum + image.powf(1.0 / 2.2);
            steps.push(n.sum(..));
        }
        let small = (sum / 4.0).unsqueeze(0).adaptive_avg_pool2d([h / 3, w / 3]);
        Ok(numbered(vec![small, Tensor::stack(&steps, 0)]))
    })
}

// Robust regression: IRLS with Tukey's weights and the MAD as scale, f64, until the coefficients rest.
fn irls(large: bool) -> Call {
    let (n, p) = if large { (200_003, 17) } else { (20_011, 17) };
    let mut xs = normal_f64(23, n * p);
    (0..n).for_each(|i| xs[i * p] = 1.0);
    let x = Tensor::from_slice(&xs, (n, p));
    let beta = Tensor::from_slice(&normal_f64(24, p), p);
    let out = Tensor::from_slice(&uniform_f64(26, n), n).lt(0.1);
    let y = x.matmul(&beta)
        + Tensor::from_slice(&normal_f64(25, n), n) * 0.3
        + out.where_(Tensor::full_with(n, 15.0, DType::F64), 0.0);
    thalweg::synchronize().unwrap();
    Box::new(move || {
        let mut b = x.t().matmul(&x).solve(&x.t().matmul(&y));
        let mut turns = 0i64;
        loop {
            let r = &y - x.matmul(&b);
            let scale = (&r - r.median(..)).abs().median(..) / 0.6745;
            let u = &r / (scale * 4.685);
            let w = u.abs().lt(1.0).where_((1.0 - u.square()).square(), 0.0);
            let xw = &x * w.unsqueeze(1);
            let next = xw.t().matmul(&x).solve(&xw.t().matmul(&y));
            let moved = (&next - &b).abs().amax(..) / b.abs().amax(..);
            b = next;
            turns += 1;
            if moved.item::<f64>()? < 1e-8 || turns == 30 {
                break;
            }
        }
        Ok(numbered(vec![b, Tensor::new([turns])]))
    })
}

// Denoising by total variation: PDHG with overrelaxation, energy looked at every tenth step.
fn pdhg(large: bool) -> Call {
    let (h, w) = if large { (1023, 1001) } else { (253, 301) };
    let noise = normal(27, h * w);
    let f = Tensor::from_fn((h, w), |p| {
        (if (p[0] / 40 + p[1] / 60) % 2 == 0 { 0.8 } else { 0.2 }) + 0.1 * noise[p[0] * w + p[1]]
    });
    thalweg::synchronize().unwrap();
    let grad = move |u: &Tensor| {
        let gy = u.diff(1, 0).pad([(0, 1), (0, 0)], 0.0);
        let gx = u.diff(1, 1).pad([(0, 0), (0, 1)], 0.0);
        (gy, gx)
    };
    let div = move |py: &Tensor, px: &Tensor| {
        let y = py.slice(..-1).pad([(0, 1), (0, 0)], 0.0) - py.slice(..-1).pad([(1, 0), (0, 0)], 0.0);
        let x = px.slice((.., ..-1)).pad([(0, 0), (0, 1)], 0.0) - px.slice((.., ..-1)).pad([(0, 0), (1, 0)], 0.0);
        y + x
    };
    Box::new(move || {
        let (lambda, tau, sigma) = (8.0, 0.25, 0.5);
        let (mut u, mut py, mut px) = (f.clone(), f.zeros_like(), f.zeros_like());
        let mut bar = u.clone();
        let (mut energies, mut last) = (vec![], f64::INFINITY);
        for k in 0..100 {
            let (gy, gx) = grad(&bar);
            let (qy, qx) = (&py + gy * sigma, &px + gx * sigma);
            let norm = (qy.square() + qx.square()).sqrt().maximum(1.0);
            (py, px) = (qy / &norm, qx / norm);
            let next = (&u + div(&py, &px) * tau + &f * (tau * lambda)) / (1.0 + tau * lambda);
            bar = &next * 2.0 - &u;
            u = next;
            if k % 10 == 9 {
                let (gy, gx) = grad(&u);
                let e = (gy.square() + gx.square()).sqrt().sum(..) + (&u - &f).square().sum(..) * (0.5 * lambda);
                let e = e.item::<f32>()? as f64;
                energies.push(e);
                if (last - e).abs() < 1e-7 * e {
                    break;
                }
                last = e;
            }
        }
        Ok(numbered(vec![u, Tensor::new(energies)]))
    })
}

// A table of trades and quotes: as-of join, rolling statistics, last row of each key, runs, averages by symbol.
fn asof(large: bool) -> Call {
    let (nq, nt, syms) = if large { (700_001, 400_009, 57u64) } else { (70_001, 40_009, 57) };
    let mut qt = integers(28, nq, nq as u64 * 3);
    qt.sort();
    let bid: Vec<f64> = normal_f64(29, nq)
        .iter()
        .scan(100.0, |s, e| {
            *s += 0.01 * e;
            Some(*s)
        })
        .collect();
    let (qt, bid) = (Tensor::from_slice(&qt, nq), Tensor::from_slice(&bid, nq));
    let tt = Tensor::from_slice(&integers(30, nt, nq as u64 * 3), nt);
    let symbol = Tensor::from_slice(&integers(31, nt, syms), nt);
    let volume = Tensor::from_slice(&integers(32, nt, 900), nt).cast(DType::I32) + 1;
    thalweg::synchronize().unwrap();
    Box::new(move || {
        // As-of: the last quote not after the trade.
        let at = qt.searchsorted(&tt, true) - 1;
        let there = at.ge(0);
        let price = there.where_(bid.index_select(0, &at.maximum(0)), f64::NAN);
        let age = there.where_(&tt - qt.index_select(0, &at.maximum(0)), -1);
        // Rolling mean and deviation of 50 quotes.
        let w = bid.window(0, 50, 1);
        let (var, mean) = w.var_mean(-1, 1.0);
        let z = ((bid.slice(49..) - &mean) / (var + 1e-9).sqrt()).abs().gt(2.0).sum(..);
        // The last row of each (minute, symbol).
        let key = tt.floor_div(60) * syms as i64 + &symbol;
        let (sorted, order) = key.sort_with_indices(0, false);
        let keep = Tensor::cat(&[&sorted.slice(1..).ne(sorted.slice(..-1)), &Tensor::new([true])], 0);
        let rows = order.masked_select(&keep)?;
        let turnover = price.index_select(0, &rows) * volume.index_select(0, &rows).cast(DType::F64);
        // Runs of equal symbol classes.
        let class = &symbol % 3;
        let change = Tensor::cat(&[&Tensor::new([false]), &class.slice(1..).ne(class.slice(..-1))], 0);
        let run = change.cast(DType::I64).cumsum(0);
        let lengths = run.bincount(0)?;
        // Volume-weighted price by symbol, trades without a quote left out.
        let v = there.where_(volume.cast(DType::F64), 0.0);
        let money = Tensor::zeros_with(syms as usize, DType::F64).index_add(0, &symbol, there.where_(&price, 0.0) * &v);
        let vwap = money / Tensor::zeros_with(syms as usize, DType::F64).index_add(0, &symbol, &v);
        Ok(numbered(vec![age, mean, z, turnover.nansum(..), lengths, vwap, rows]))
    })
}

// Connected components of a mask by label propagation with pointer jumping, until nothing changes; sizes of them.
fn labels(large: bool) -> Call {
    let (h, w) = if large { (803, 1007) } else { (203, 307) };
    let field = t(&uniform(33, h * w), (h, w));
    let smooth = (0..5).fold(field, |f, _| (f.roll(1, 0) + f.roll(-1, 0) + f.roll(1, 1) + f.roll(-1, 1) + &f) / 5.0);
    let mask = smooth.gt(0.503);
    thalweg::synchronize().unwrap();
    Box::new(move || {
        let own = Tensor::arange_with((h * w) as i64, DType::I32).reshape((h, w)) + 1;
        let mut l = mask.where_(own, 0);
        let mut turns = 0i64;
        loop {
            let before = l.clone();
            for _ in 0..4 {
                let p = l.pad([(1, 1), (1, 1)], 0);
                let near = p
                    .slice((2.., 1..-1))
                    .maximum(p.slice((..-2, 1..-1)))
                    .maximum(p.slice((1..-1, 2..)))
                    .maximum(p.slice((1..-1, ..-2)));
                l = mask.where_(near.maximum(&l), 0);
            }
            let table = Tensor::cat(&[&Tensor::zeros_with(1, DType::I32), &l.flatten()], 0);
            l = table.index_select(0, &l);
            turns += 1;
            if !l.ne(&before).any(..).item::<bool>()? {
                break;
            }
        }
        let (names, counts) = l.unique_counts()?;
        Ok(numbered(vec![l, names, counts, Tensor::new([turns])]))
    })
}

// Gray-Scott: feed, kill and the start fitted to a target by gradients through 40 steps.
fn gray_scott(large: bool) -> Call {
    let (h, w, steps) = if large { (301, 307, 40) } else { (101, 107, 40) };
    let v0 = t(&uniform(34, h * w), (h, w)) * 0.5;
    let laplace = |u: &Tensor| u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1) - u * 4.0;
    let run = move |v0: &Tensor, feed: &Tensor, kill: &Tensor| {
        let (mut u, mut v) = (1.0 - v0, v0.clone());
        for _ in 0..steps {
            let uvv = &u * v.square();
            let (nu, nv) = (
                &u + laplace(&u) * 0.16 - &uvv + feed * (1.0 - &u),
                &v + laplace(&v) * 0.08 + &uvv - (feed + kill) * &v,
            );
            (u, v) = (nu, nv);
        }
        v
    };
    let target = run(&v0, &Tensor::new(0.035f32), &Tensor::new(0.065f32));
    thalweg::synchronize().unwrap();
    Box::new(move || {
        let (mut feed, mut kill, mut start) = (Tensor::new(0.05f32), Tensor::new(0.06f32), &v0 * 0.9);
        let mut losses = vec![];
        for _ in 0..3 {
            let (f, k, s) = (feed.tracked(), kill.tracked(), start.tracked());
            let loss = (run(&s, &f, &k) - &target).square().mean(..);
            let g = loss.backward();
            feed = feed - &g[&f] * 0.002;
            kill = kill - &g[&k] * 0.002;
            start = (start - &g[&s] * 100.0).clamp(0.0, 1.0);
            losses.push(loss.detach());
        }
        Ok(numbered(vec![Tensor::stack(&losses, 0), Tensor::stack(&[feed, kill], 0), start]))
    })
}

// Kernel regression (Nadaraya and Watson), bandwidth by leaving one out, as a tile kernel.
#[kernel(tile)]
fn regress<F: Real>(q: &Tile<F>, x: &Tile<F>, y: &Tile<F>, inv: F, alone: F) -> Tile<F> {
    let qq = q.map(|q| q * q).sum(1);
    let xx = x.map(|x| x * x).sum(1);
    let s = (q.dot(&x.t()) - &qq * 0.5 - &xx.t() * 0.5) * inv;
    let s = s.zip(&s.places()).map(|(s, (i, j))| if i == j && alone > 0.5 { F::lit(-1e30) } else { s });
    let e = (&s - s.max(1)).map(|s| s.exp());
    (&e / e.sum(1)).dot(y)
}

fn nw_tile(large: bool) -> Call {
    let (n, m, d) = if large { (2003, 1501, 6) } else { (703, 501, 6) };
    let x = t(&normal(35, n * d), (n, d));
    let q = t(&normal(36, m * d), (m, d));
    let y =
        Tensor::stack(&[(x.slice((.., 0)) * 2.0).sin(), x.slice((.., 1)) * x.slice((.., 2)), t(&normal(37, n), n)], 1);
    let widths = [0.2f32, 0.3, 0.45, 0.6, 0.8, 1.1, 1.5];
    let inv = Tensor::new(widths.map(|h| 1.0 / (h * h)));
    thalweg::synchronize().unwrap();
    Box::new(move || {
        let b = widths.len();
        let all = |x: &Tensor| x.unsqueeze(0).broadcast_to((b, x.size(0), x.size(1)));
        let fit = regress::on(all(&x), all(&x), all(&y), &inv, 1.0);
        let score = (fit - &y).square().mean((1, 2));
        let best = inv.index_select(0, &score.argmin(0));
        let out = regress::on(&q, &x, &y, best, 0.0);
        Ok(numbered(vec![score, out]))
    })
}

// A bank of FIR filters in bf16 with decimation, energy in frames, log, and peaks.
fn fir_bf16(large: bool) -> Call {
    let (c, n, bank, taps) = if large { (16, 60_011, 33, 63) } else { (5, 20_011, 33, 63) };
    let x = t(&normal(38, c * n), (c, 1, n)).cast(DType::BF16);
    let window = Tensor::hann_window_with(taps, false, DType::F32);
    let f = Tensor::linspace(0.01, 0.45, bank).unsqueeze(1);
    let k = Tensor::arange(taps) - (taps / 2) as f64;
    let h = ((f * &k * std::f64::consts::TAU).cos() * window).unsqueeze(1).cast(DType::BF16);
    thalweg::synchronize().unwrap();
    Box::new(move || {
        let y = x.conv1d(&h, None, Conv::default().stride(3));
        let frames = y.window(2, 128, 41);
        let e = frames.cast(DType::F32).square().mean(-1);
        let db = (e + 1e-6).log10() * 10.0;
        let inner = db.slice((.., .., 1..-1));
        let peak = inner.gt(db.slice((.., .., ..-2))) & inner.gt(db.slice((.., .., 2..)));
        let strongest = db.argmax(1);
        Ok(numbered(vec![db, peak.sum((0, 2)), strongest]))
    })
}
