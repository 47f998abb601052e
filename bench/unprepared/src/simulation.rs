//! Simulations and dynamic programming: implicit diffusion, multigrid, gas dynamics, option prices, spins, particle filters, filters of
//! images, hidden Markov models, edit distances.

use crate::data::{Call, integers, normal, normal_f64, numbered, tensor as t, uniform, uniform_f64};
use thalweg::prelude::*;

/// Programs by name; each takes whether its inputs are large.
pub const PROGRAMS: &[(&str, fn(bool) -> Call)] = &[
    ("adi", adi),
    ("multigrid", multigrid),
    ("euler_muscl", euler),
    ("heston", heston),
    ("ising", ising),
    ("particles", particles),
    ("median", median),
    ("viterbi", viterbi),
    ("edit", edit),
];

// Implicit diffusion (Peaceman-Rachford): tridiagonal solves along rows and along columns as linear recurrences.
#[kernel(row)]
fn tridiag<F: Real>(d: &Row<F>, inv: &Row<F>, low: &Row<F>, cp: &Row<F>) -> Row<F> {
    let y = d.zip(inv).zip(low).map(|((d, inv), low)| (low * inv, d * inv));
    let y = y.scan(|(a1, b1), (a2, b2)| (a1 * a2, a2 * b1 + b2)).map(|(_, y)| y);
    y.zip(cp).map(|(y, c)| (-c, y)).scan_reverse(|(a1, b1), (a2, b2)| (a1 * a2, a2 * b1 + b2)).map(|(_, x)| x)
}

fn factors(n: usize, r: f32) -> [Vec<f32>; 3] {
    // (1 + 2r) on the diagonal, -r beside it: c' and 1/m of Thomas' algorithm; low = r.
    let (mut inv, mut cp, mut low) = (vec![0.0; n], vec![0.0; n], vec![r; n]);
    low[0] = 0.0;
    let mut c = 0.0;
    for i in 0..n {
        let m = 1.0 + 2.0 * r + if i > 0 { r * c } else { 0.0 };
        inv[i] = 1.0 / m;
        c = if i + 1 < n { -r / m } else { 0.0 };
        cp[i] = c;
    }
    [inv, low, cp]
}

fn adi(large: bool) -> Call {
    let (ny, nx) = if large { (1201, 1101) } else { (301, 257) };
    let (u0, src, r) = (t(&uniform(1, ny * nx), (ny, nx)), t(&uniform(2, ny * nx), (ny, nx)) * 0.01, 0.8f32);
    let x: Vec<Tensor> = factors(nx, r).iter().map(|v| t(v, (1, nx))).collect();
    let y: Vec<Tensor> = factors(ny, r).iter().map(|v| t(v, (ny, 1))).collect();
    let explicit = move |u: &Tensor, axis: usize| {
        let w = if axis == 0 { [(1, 1), (0, 0)] } else { [(0, 0), (1, 1)] };
        let p = u.pad(w, 0.0);
        let n = u.size(axis);
        u + (p.narrow(axis, 0, n) + p.narrow(axis, 2, n) - u * 2.0) * r
    };
    Box::new(move || {
        let mut u = u0.clone();
        for _ in 0..20 {
            u = tridiag::along(1, explicit(&u, 0) + &src, &x[0], &x[1], &x[2]);
            u = tridiag::along(0, explicit(&u, 1) + &src, &y[0], &y[1], &y[2]);
        }
        Ok(numbered(vec![u.sum(..), u]))
    })
}

// Poisson's equation by V-cycles, f64, until the residual is small.
fn residual(u: &Tensor, f: &Tensor, h2: f64) -> Tensor {
    let i = u.slice((1..-1, 1..-1));
    let near = u.slice((2.., 1..-1)) + u.slice((..-2, 1..-1)) + u.slice((1..-1, 2..)) + u.slice((1..-1, ..-2));
    let mut r = u.zeros_like();
    r.set((1..-1, 1..-1), f.slice((1..-1, 1..-1)) - (&i * 4.0 - near) / h2);
    r
}

fn smooth(u: &mut Tensor, f: &Tensor, h2: f64, times: usize) {
    for _ in 0..times {
        let i = u.slice((1..-1, 1..-1));
        let near = u.slice((2.., 1..-1)) + u.slice((..-2, 1..-1)) + u.slice((1..-1, 2..)) + u.slice((1..-1, ..-2));
        u.set((1..-1, 1..-1), &i * 0.2 + (near + f.slice((1..-1, 1..-1)) * h2) * 0.2);
    }
}

fn restrict(r: &Tensor) -> Tensor {
    let n = r.size(0) as i64;
    let s = |dy: i64, dx: i64| r.slice(((2 + dy..n - 2 + dy).by(2), (2 + dx..n - 2 + dx).by(2)));
    let edges = s(-1, 0) + s(1, 0) + s(0, -1) + s(0, 1);
    let corners = s(-1, -1) + s(-1, 1) + s(1, -1) + s(1, 1);
    ((s(0, 0) * 4.0 + edges * 2.0 + corners) / 16.0).pad([(1, 1), (1, 1)], 0.0)
}

fn prolong(c: &Tensor) -> Tensor {
    let n = (c.size(0) - 1) * 2 + 1;
    let mut u = Tensor::zeros_with((n, n), c.dtype());
    let rows = (c.slice(..-1) + c.slice(1..)) * 0.5;
    let both = (rows.slice((.., ..-1)) + rows.slice((.., 1..))) * 0.5;
    u.set(((..).by(2), (..).by(2)), c);
    u.set(((1..).by(2), (..).by(2)), &rows);
    u.set(((..).by(2), (1..).by(2)), (c.slice((.., ..-1)) + c.slice((.., 1..))) * 0.5);
    u.set(((1..).by(2), (1..).by(2)), both);
    u
}

fn cycle(mut u: Tensor, f: &Tensor, h2: f64) -> Tensor {
    if u.size(0) <= 7 {
        smooth(&mut u, f, h2, 20);
        return u;
    }
    smooth(&mut u, f, h2, 2);
    let coarse = restrict(&residual(&u, f, h2));
    u += prolong(&cycle(coarse.zeros_like(), &coarse, h2 * 4.0));
    smooth(&mut u, f, h2, 2);
    u
}

fn multigrid(large: bool) -> Call {
    let n = if large { 769 } else { 193 };
    let f = Tensor::from_slice(&normal_f64(3, n * n), (n, n));
    let h2 = 1.0 / ((n - 1) * (n - 1)) as f64;
    Box::new(move || {
        let mut u = f.zeros_like();
        let norm = f.slice((1..-1, 1..-1)).square().sum(..).sqrt().item::<f64>()?;
        let mut history = vec![];
        for _ in 0..12 {
            u = cycle(u, &f, h2);
            let r = residual(&u, &f, h2).square().sum(..).sqrt().item::<f64>()? / norm;
            history.push(r);
            if r < 1e-6 {
                break;
            }
        }
        Ok(numbered(vec![Tensor::new(history), u]))
    })
}

// Euler's equations in one dimension: MUSCL with minmod, Rusanov's flux, time step from the fastest wave.
#[kernel]
fn minmod<F: Real>(a: F, b: F) -> F {
    if a * b <= 0.0 {
        0.0
    } else if a.abs() < b.abs() {
        a
    } else {
        b
    }
}

fn flux(w: &Tensor) -> (Tensor, Tensor, Tensor) {
    // w: [3, n] primitive (density, velocity, pressure): conserved, flux, |u| + c.
    let (r, u, p) = (w.slice(0), w.slice(1), w.slice(2));
    let e = &p / 0.4 + &r * u.square() * 0.5;
    let m = &r * &u;
    let f = Tensor::stack(&[&m, &(&m * &u + &p), &((&e + &p) * &u)], 0);
    let speed = u.abs() + (&p * 1.4 / &r).sqrt();
    (Tensor::stack(&[&r, &m, &e], 0), f, speed)
}

fn primitive(q: &Tensor) -> Tensor {
    let (r, m, e) = (q.slice(0), q.slice(1), q.slice(2));
    let u = &m / &r;
    let p = (e - &m * &u * 0.5) * 0.4;
    Tensor::stack(&[r, u, p], 0)
}

fn euler(large: bool) -> Call {
    let (n, steps) = if large { (200_003, 40) } else { (5_003, 40) };
    let noise = t(&uniform(4, n), n) * 0.01;
    let x = Tensor::arange(n) / n as f64;
    let left = x.lt(0.5);
    let r = left.where_(1.0, Tensor::full(n, 0.125)) + &noise;
    let p = left.where_(1.0, Tensor::full(n, 0.1));
    let q0 = Tensor::stack(&[&r, &r.zeros_like(), &(p / 0.4)], 0);
    let dx = 1.0 / n as f64;
    Box::new(move || {
        let (mut q, mut time) = (q0.clone(), Tensor::zeros(()));
        for step in 0..steps {
            let w = primitive(&q.pad([(0, 0), (2, 2)], Border::Edge));
            let d = w.slice((.., 1..)) - w.slice((.., ..-1));
            let slope = minmod::on(d.slice((.., ..-1)), d.slice((.., 1..)));
            let mid = w.slice((.., 1..-1));
            let l = (&mid + &slope * 0.5).slice((.., ..-1));
            let rt = (&mid - &slope * 0.5).slice((.., 1..));
            let ((ql, fl, sl), (qr, fr, sr)) = (flux(&l), flux(&rt));
            let s = sl.maximum(&sr);
            let f = (fl + fr) * 0.5 - (qr - ql) * &s * 0.5;
            let dt = s.amax(..).recip() * (0.4 * dx);
            q = q - (f.slice((.., 1..)) - f.slice((.., ..-1))) * (&dt / dx);
            time += dt;
            if step % 10 == 9 && time.item::<f32>()? > 0.2 {
                break;
            }
        }
        Ok(numbered(vec![time, q]))
    })
}

// Asian call under Heston's model, and its derivatives by six parameters, through the paths.
fn heston(large: bool) -> Call {
    let (paths, steps) = if large { (60_013, 64) } else { (8_011, 64) };
    let z1 = t(&normal(5, paths * steps), (steps, paths));
    let z2 = t(&normal(6, paths * steps), (steps, paths));
    Box::new(move || {
        let p: Vec<Tensor> =
            [100.0f32, 0.04, 1.5, 0.05, 0.4, -0.6].iter().map(|&v| Tensor::full((), v).tracked()).collect();
        let [s0, v0, kappa, theta, xi, rho] = &p[..] else { unreachable!() };
        let (dt, rate) = (1.0 / steps as f64, 0.02);
        let (mut s, mut v) = (s0.log().broadcast_to([paths]), v0.broadcast_to([paths]));
        let mut average = Tensor::zeros(paths);
        let other = (1.0 - rho.square()).sqrt();
        for i in 0..steps {
            let (a, b) = (z1.slice(i), z2.slice(i));
            let vp = v.clamp(1e-6, f64::INFINITY);
            let root = (&vp * dt).sqrt();
            s = s + (rate - &vp * 0.5) * dt + &root * &a;
            v = &v + kappa * (theta - &vp) * dt + xi * root * (rho * a + &other * b);
            average += s.exp() / steps as f64;
        }
        let price = ((average - 100.0).relu()).mean(..) * (-rate as f64).exp();
        let g = price.backward();
        let greeks = Tensor::stack(&p.iter().map(|x| g[x].clone()).collect::<Vec<_>>(), 0);
        Ok(numbered(vec![price.detach(), greeks]))
    })
}

// The Ising model, checkerboard updates, with numbers hashed from counters (u32).
fn hash(x: Tensor) -> Tensor {
    let x = (&x ^ (&x >> 16u32)) * 0x7feb352du32;
    let x = (&x ^ (&x >> 15u32)) * 0x846ca68bu32;
    &x ^ (&x >> 16u32)
}

fn ising(large: bool) -> Call {
    let (n, sweeps) = if large { (1026, 20) } else { (258, 20) };
    let start = Tensor::from_slice(
        &uniform(7, n * n).iter().map(|&u| if u < 0.5 { -1i8 } else { 1 }).collect::<Vec<_>>(),
        (n, n),
    );
    let (i, j) = (start.positions(0, DType::U32), start.positions(1, DType::U32));
    let colour = (&i + &j) & 1u32;
    let at = i * n as u32 + j;
    thalweg::synchronize().unwrap();
    Box::new(move || {
        let mut s = start.clone();
        let mut m = vec![];
        for sweep in 0..sweeps {
            for c in 0..2u32 {
                let near = s.roll(1, 0) + s.roll(-1, 0) + s.roll(1, 1) + s.roll(-1, 1);
                let cost = (&s * near).cast(DType::F32) * 2.0;
                let h = hash(&at + (sweep * 2 + c).wrapping_mul(0x9E3779B9));
                let u = (h >> 8u32).cast(DType::F32) / 16777216.0;
                let flip = u.lt((cost * -0.44).exp()) & colour.eq(c);
                s = flip.where_(-&s, &s);
            }
            m.push(s.mean_of());
        }
        Ok(numbered(vec![Tensor::stack(&m, 0), s]))
    })
}
trait MeanOf {
    fn mean_of(&self) -> Tensor;
}

impl MeanOf for Tensor {
    fn mean_of(&self) -> Tensor {
        self.sum(..).cast(DType::F64) / self.numel() as f64
    }
}

// A particle filter for stochastic volatility: resampled when the effective number of particles is small.
fn particles(large: bool) -> Call {
    let (n, steps) = if large { (60_013, 80) } else { (6_007, 80) };
    let noise = t(&normal(8, n * steps), (steps, n));
    let first = t(&normal(9, n), n);
    let (y, offset) = (normal(10, steps), uniform_f64(11, steps));
    Box::new(move || {
        let (mu, phi, sigma) = (-1.0, 0.95, 0.3);
        let mut x = &first * (sigma / (1.0f64 - phi * phi).sqrt()) + mu;
        let mut logw = Tensor::full(n, -(n as f64).ln());
        let (mut total, mut means, mut resampled) = (Tensor::zeros(()), vec![], 0);
        for k in 0..steps {
            x = (&x - mu) * phi + mu + noise.slice(k) * sigma;
            let y2 = f64::from(y[k] * y[k]);
            logw = logw - &x * 0.5 - (-&x).exp() * (0.5 * y2) - 0.9189385;
            let norm = logw.logsumexp(..);
            total += &norm;
            logw = logw - norm;
            let w = logw.exp();
            means.push((&w * &x).sum(..));
            if w.square().sum(..).recip().item::<f32>()? < 0.5 * n as f32 {
                let sums = w.cast(DType::F64).cumsum(0);
                let at = (Tensor::arange_with(n, DType::F64) + offset[k]) / n as f64;
                let pick = sums.searchsorted(&at, false).minimum(n as i64 - 1);
                x = x.index_select(0, &pick);
                logw = Tensor::full(n, -(n as f64).ln());
                resampled += 1;
            }
        }
        Ok(numbered(vec![total, Tensor::stack(&means, 0), Tensor::new([resampled as i64])]))
    })
}

// Noise of salt and pepper in a u8 image: median of 5x5 where a pixel is far from it, then the median of 3x3 by a network.
fn median(large: bool) -> Call {
    let (h, w) = if large { (601, 797) } else { (211, 293) };
    let (u, v) = (uniform(12, h * w), uniform(13, h * w));
    let pixels: Vec<u8> = (0..h * w)
        .map(|i| {
            let (y, x) = (i / w, i % w);
            if u[i] < 0.05 {
                0
            } else if u[i] > 0.95 {
                255
            } else {
                ((y * 3 + x * 2) % 200) as u8 + (v[i] * 40.0) as u8
            }
        })
        .collect();
    let image = Tensor::from_slice(&pixels, (h, w));
    Box::new(move || {
        let p = image.pad([(2, 2), (2, 2)], Border::Reflect);
        let windows = p.window(0, 5, 1).window(1, 5, 1).reshape((h, w, 25));
        let (mid, _) = windows.kthvalue(13, -1);
        let far = (image.cast(DType::I32) - mid.cast(DType::I32)).abs().gt(30);
        let clean = far.where_(&mid, &image);
        let q = clean.pad([(1, 1), (1, 1)], Border::Edge);
        let v: Vec<Tensor> = (0..3).map(|d| q.narrow(0, d, h)).collect();
        let low = v[0].minimum(&v[1]);
        let high = v[0].maximum(&v[1]);
        let (lo, mi, hi) = (low.minimum(&v[2]), low.maximum(&high.minimum(&v[2])), high.maximum(&v[2]));
        let n = |x: &Tensor, d: usize| x.narrow(1, d, w);
        let maxlo = n(&lo, 0).maximum(n(&lo, 1)).maximum(n(&lo, 2));
        let minhi = n(&hi, 0).minimum(n(&hi, 1)).minimum(n(&hi, 2));
        let (a, b, c) = (n(&mi, 0), n(&mi, 1), n(&mi, 2));
        let medmi = a.minimum(&b).maximum(a.maximum(&b).minimum(&c));
        let lm = maxlo.minimum(&minhi).maximum(maxlo.maximum(&minhi).minimum(&medmi));
        let (counts, _) = lm.cast(DType::F32).histogram_with(32, &Histogram::new().range(0.0, 256.0));
        Ok(numbered(vec![mid, lm, far.sum(..), counts]))
    })
}

// Viterbi's algorithm for a batch, with back pointers.
fn viterbi(large: bool) -> Call {
    let (b, steps, s) = if large { (67, 150, 91) } else { (21, 120, 37) };
    let scores = t(&uniform(14, s * s), (s, s)) * 4.0;
    let trans = scores.log_softmax(-1);
    let emit = t(&normal(15, b * steps * s), (b, steps, s));
    thalweg::synchronize().unwrap();
    Box::new(move || {
        let mut delta = emit.slice((.., 0));
        let mut back = vec![];
        for k in 1..steps {
            let all = delta.unsqueeze(2) + &trans;
            back.push(all.argmax(1));
            delta = all.amax(1) + emit.slice((.., k));
        }
        let mut state = delta.argmax(1).unsqueeze(1);
        let mut path = vec![state.clone()];
        for pointers in back.iter().rev() {
            state = pointers.gather(1, &state);
            path.push(state.clone());
        }
        path.reverse();
        Ok(numbered(vec![delta.amax(1), Tensor::cat(&path, 1)]))
    })
}

// Levenshtein distances of a batch of pairs of different lengths, by anti-diagonals (i32).
fn edit(large: bool) -> Call {
    let (b, m, n) = if large { (301, 233, 201) } else { (61, 133, 111) };
    let word = |seed, n: usize| Tensor::from_slice(&integers(seed, b * n, 5), (b, n)).cast(DType::I32);
    let (x, y) = (word(16, m), word(17, n));
    let (lx, ly) = (integers(18, b, m as u64 / 2), integers(19, b, n as u64 / 2));
    let lx = Tensor::from_slice(&lx, (b, 1)) + m as i64 / 2;
    let ly = Tensor::from_slice(&ly, (b, 1)) + n as i64 / 2;
    Box::new(move || {
        let big = 1_000_000;
        let a = x.pad([(0, 0), (1, 0)], -2);
        let rev = y.flip(1).pad([(0, 0), (m + 1, m + 1)], -1);
        let mut before = Tensor::full_with((b, m + 1), big, DType::I32);
        let mut last = before.clone();
        last.set((.., 0), 0);
        let total = &lx + &ly;
        let mut answer = Tensor::zeros_with((b, 1), DType::I32);
        let shift = |d: &Tensor| d.slice((.., ..-1)).pad([(0, 0), (1, 0)], big);
        for k in 1..=m + n {
            let differ = a.ne(rev.narrow(1, m + 1 + n - k, m + 1)).cast(DType::I32);
            let d = (&last + 1).minimum(shift(&last) + 1).minimum(shift(&before) + differ);
            answer = total.eq(k as i64).where_(d.gather(1, &lx), &answer);
            (before, last) = (last, d);
        }
        Ok(numbered(vec![answer]))
    })
}
