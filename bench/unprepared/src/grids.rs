//! Grids, images, signals and bits: fluids, particles on meshes, cellular automata, wavelets, block transforms, hashes, vocoders, contours,
//! networks of differential equations.

use crate::data::{Adam, Call, Inputs, track};
use thalweg::prelude::*;
use thalweg::{Fft, grad, grad_graph};

/// Programs by name.
pub const PROGRAMS: &[(&str, fn(&Inputs) -> Result<Call, Error>)] = &[
    ("lattice_boltzmann", lattice_boltzmann),
    ("particle_mesh", particle_mesh),
    ("life", life),
    ("wavelet97", wavelet97),
    ("jpeg", jpeg),
    ("minhash", minhash),
    ("vocoder", vocoder),
    ("marching_squares", marching_squares),
    ("pinn", pinn),
];

// Lattice Boltzmann (D2Q9) past an obstacle: collision, streaming by rolls, bounce-back, an inflow
fn lattice_boltzmann(cx: &Inputs) -> Result<Call, Error> {
    let (h, w, steps) = cx.pick((48, 120, 20), (400, 1000, 40));
    const EX: [i64; 9] = [0, 1, 0, -1, 0, 1, -1, -1, 1];
    const EY: [i64; 9] = [0, 0, 1, 0, -1, 1, 1, -1, -1];
    const OPPOSITE: [usize; 9] = [0, 3, 4, 1, 2, 7, 8, 5, 6];
    const WEIGHTS: [f64; 9] = [4. / 9., 1. / 9., 1. / 9., 1. / 9., 1. / 9., 1. / 36., 1. / 36., 1. / 36., 1. / 36.];
    let wall = Tensor::from_fn([h, w], |i| {
        let (y, x) = (i[0] as f64 - h as f64 / 2.0, i[1] as f64 - w as f64 / 4.0);
        x * x + y * y < (h * h) as f64 / 81.0
    });
    let shear = Tensor::from_fn([h, 1], |i| (0.1 * (1.0 + 1e-3 * (i[0] as f64 / h as f64 * 6.2831853).sin())) as f32);
    let equilibrium = |rho: &Tensor, ux: &Tensor, uy: &Tensor| {
        let speed = (ux.square() + uy.square()) * 1.5;
        let of = |i: usize| {
            let along = ux * (3 * EX[i]) + uy * (3 * EY[i]);
            (1.0 + &along + along.square() * 0.5 - &speed) * rho * WEIGHTS[i]
        };
        Tensor::stack(&(0..9).map(of).collect::<Vec<_>>(), 0)
    };
    let start = equilibrium(&Tensor::ones([h, w]), &shear.expand([h, w]), &Tensor::zeros([h, w]));
    let inflow = equilibrium(&Tensor::ones([h, 1]), &shear, &Tensor::zeros([h, 1]));
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let mut f = start.clone();
        let moments = |f: &Tensor| {
            let rho = f.sum(0);
            let by =
                |e: &[i64; 9]| (0..9).filter(|&i| e[i] != 0).map(|i| f.slice(i) * e[i]).reduce(|a, b| a + b).unwrap();
            let (ux, uy) = (by(&EX) / &rho, by(&EY) / &rho);
            (rho, ux, uy)
        };
        for _ in 0..steps {
            let (rho, ux, uy) = moments(&f);
            let collided = &f + (equilibrium(&rho, &ux, &uy) - &f) * 1.7;
            let bounced = Tensor::stack(&OPPOSITE.map(|i| f.slice(i)), 0);
            let post = wall.where_(bounced, collided);
            let moved: Vec<Tensor> = (0..9).map(|i| post.slice(i).roll(EX[i], 1).roll(EY[i], 0)).collect();
            f = Tensor::stack(&moved, 0);
            f.set((.., .., 0..1), &inflow);
        }
        let (rho, ux, uy) = moments(&f);
        let curl = uy.gradient(1.0, 1) - ux.gradient(1.0, 0);
        Ok(vec![("rho", rho), ("curl", wall.where_(0.0, curl)), ("speed", (ux.square() + uy.square()).amax(..))])
    }))
}

// Particles on a mesh: masses to cells with bilinear weights, Poisson's equation by Fourier transforms, forces back, leapfrog
fn particle_mesh(cx: &Inputs) -> Result<Call, Error> {
    let (n, side, steps) = cx.pick((4000, 32usize, 6), (400_000, 256, 10));
    let (x0, v0) = (cx.u(1, &[n, 2]) * side as f64, cx.n(2, &[n, 2], 0.05));
    let k = Tensor::fftfreq(side, 1.0) * std::f64::consts::TAU;
    let half = Tensor::rfftfreq(side, 1.0) * std::f64::consts::TAU;
    let k2 = k.square().unsqueeze(1) + half.square().unsqueeze(0);
    let green = k2.gt(0).where_(-k2.maximum(1e-6).recip(), 0.0);
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let (mut x, mut v, dt) = (x0.clone(), v0.clone(), 0.1);
        let mut energies = vec![];
        for _ in 0..steps {
            let low = x.floor();
            let fraction = &x - &low;
            let cell = low.cast(DType::I64);
            let corners: Vec<(Tensor, Tensor)> = [(0, 0), (0, 1), (1, 0), (1, 1)]
                .into_iter()
                .map(|(a, b)| {
                    let along = |axis: i64, up: i64| {
                        let f = fraction.slice((.., axis));
                        if up == 1 { f } else { 1.0 - f }
                    };
                    let at = |axis: i64, up: i64| (cell.slice((.., axis)) + up) % side as i64;
                    (at(0, a) * side as i64 + at(1, b), along(0, a) * along(1, b))
                })
                .collect();
            let mut density = Tensor::zeros(side * side);
            for (at, weight) in &corners {
                density = density.index_add(0, at, weight);
            }
            let density = density.reshape((side, side)) / (n as f64 / (side * side) as f64) - 1.0;
            let potential = (density.rfft2() * &green).irfft2_with(&Fft::new().sizes([side, side]));
            let along = |axis: i64| (potential.roll(1, axis) - potential.roll(-1, axis)) * 0.5;
            let field = Tensor::stack(&[along(0), along(1)], -1).reshape((side * side, 2));
            let mut force = Tensor::zeros([n, 2]);
            for (at, weight) in &corners {
                force = force + field.index_select(0, at) * weight.unsqueeze(1);
            }
            v = v + force * dt;
            x = (x + &v * dt) % side as f64;
            energies.push(v.square().sum(..) * 0.5 + (density * potential).sum(..) * 0.5);
        }
        Ok(vec![("energy", Tensor::stack(&energies, 0)), ("x", x.mean(0)), ("v", v)])
    }))
}

// Conway's life on a torus of bool, its population, and a rule of several states in u8
fn life(cx: &Inputs) -> Result<Call, Error> {
    let (h, w, steps) = cx.pick((96, 130, 40), (1024, 1500, 80));
    let start = cx.u(1, &[h, w]).lt(0.35);
    let states = (cx.u(2, &[h, w]) * 4.0).cast(DType::U8);
    Ok(Box::new(move || {
        let around = |alive: &Tensor| {
            let a = alive.cast(DType::U8);
            let rows = &a + a.roll(1, 0) + a.roll(-1, 0);
            &rows + rows.roll(1, 1) + rows.roll(-1, 1) - a
        };
        let (mut alive, mut population) = (start.clone(), vec![]);
        for _ in 0..steps {
            let n = around(&alive);
            alive = n.eq(3) | (&alive & n.eq(2));
            population.push(alive.sum(..));
        }
        // Brian's brain with an extra dying state: 0 is dead, 1 alive, 2 and 3 dying.
        let mut s = states.clone();
        for _ in 0..steps {
            let born = s.eq(0) & around(&s.eq(1)).eq(2);
            s = born.where_(1u8, s.gt(0).where_((&s + 1) % 4, 0));
        }
        Ok(vec![("population", Tensor::stack(&population, 0)), ("alive", alive), ("states", s.one_hot(4).sum((0, 1)))])
    }))
}

// Wavelets 9/7 of Cohen, Daubechies and Feauveau by lifting: three levels, thresholds from the median, back
fn wavelet97(cx: &Inputs) -> Result<Call, Error> {
    let size = cx.pick(128usize, 1024);
    let image = cx.n(1, &[size, size], 0.1) + (Tensor::arange(size as i64) * 0.05).sin().unsqueeze(1);
    const STEPS: [f64; 4] = [-1.586134342, -0.05298011854, 0.8829110762, 0.4435068522];
    const SCALE: f64 = 1.149604398;
    // Lifting of the last axis. Odd elements are predicted from their even neighbours, mirrored at the ends.
    fn lift(odd: bool, target: &Tensor, other: &Tensor, by: f64) -> Tensor {
        let shifted = if odd {
            Tensor::cat(&[other.slice((.., 1..)), other.slice((.., -1..))], 1)
        } else {
            Tensor::cat(&[other.slice((.., ..1)), other.slice((.., ..-1))], 1)
        };
        target + (other + shifted) * by
    }
    fn forward(x: &Tensor) -> (Tensor, Tensor) {
        let (mut even, mut odd) = (x.slice((.., (..).by(2))), x.slice((.., (1..).by(2))));
        for (i, &by) in STEPS.iter().enumerate() {
            if i % 2 == 0 { odd = lift(true, &odd, &even, by) } else { even = lift(false, &even, &odd, by) }
        }
        (even * SCALE, odd / SCALE)
    }
    fn inverse(low: &Tensor, high: &Tensor) -> Tensor {
        let (mut even, mut odd) = (low / SCALE, high * SCALE);
        for (i, &by) in STEPS.iter().enumerate().rev() {
            if i % 2 == 0 { odd = lift(true, &odd, &even, -by) } else { even = lift(false, &even, &odd, -by) }
        }
        Tensor::stack(&[even, odd], 2).reshape((low.size(0), 2 * low.size(1)))
    }
    Ok(Box::new(move || {
        let (mut low, mut details) = (image.clone(), vec![]);
        for _ in 0..3 {
            let (l, h) = forward(&low);
            let ((ll, lh), (hl, hh)) = (forward(&l.t()), forward(&h.t()));
            details.push([lh, hl, hh]);
            low = ll.t();
        }
        let sigma = details[0][2].abs().median(..) / 0.6745;
        let threshold = sigma * (2.0 * ((size * size) as f64).ln()).sqrt();
        let soft = |x: &Tensor| x.sign() * (x.abs() - &threshold).relu();
        let mut kept = vec![];
        for [lh, hl, hh] in details.iter().rev() {
            let [lh, hl, hh] = [soft(lh), soft(hl), soft(hh)];
            kept.push(lh.ne(0).sum(..) + hl.ne(0).sum(..) + hh.ne(0).sum(..));
            low = inverse(&inverse(&low.t(), &lh).t(), &inverse(&hl, &hh).t());
        }
        Ok(vec![("threshold", threshold), ("kept", Tensor::stack(&kept, 0)), ("image", low)])
    }))
}

// Augmentation as a data loader does it: crops, flips, colours, and the artefacts of JPEG by transforms of 8x8 blocks, from u8 to u8
fn jpeg(cx: &Inputs) -> Result<Call, Error> {
    let (b, size) = cx.pick((6, 64), (64, 256));
    let images = (cx.u(1, &[b, size + 16, size + 16, 3]) * 64.0
        + (Tensor::arange((size + 16) as i64) * 0.1).sin().reshape((1, -1, 1, 1)) * 60.0
        + 110.0)
        .cast(DType::U8);
    let (offsets, flips) = (cx.ints_vec(2, 16, 2 * b), cx.ints(3, 2, &[b]).reshape((b, 1, 1, 1)).cast(DType::Bool));
    let (bright, contrast) = (cx.u(4, &[b, 1, 1, 1]) * 40.0 - 20.0, cx.u(5, &[b, 1, 1, 1]) * 0.6 + 0.7);
    let to_yuv = Tensor::new([[0.299f32, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]]);
    let to_rgb = Tensor::new([[1.0f32, 0.0, 1.402], [1.0, -0.344136, -0.714136], [1.0, 1.772, 0.0]]);
    let dct = Tensor::from_fn([8, 8], |i| {
        let scale = if i[0] == 0 { 0.125f64.sqrt() } else { 0.5 };
        (scale * ((2 * i[1] + 1) as f64 * i[0] as f64 * std::f64::consts::PI / 16.0).cos()) as f32
    });
    let table = Tensor::from_fn([8, 8], |i| (10 + 6 * (i[0] + i[1])) as f32);
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let crops: Vec<Tensor> = (0..b)
            .map(|i| {
                let (y, x) = (offsets[2 * i], offsets[2 * i + 1]);
                images.slice((i as i64, y..y + size as i64, x..x + size as i64))
            })
            .collect();
        let x = Tensor::stack(&crops, 0);
        let x = flips.where_(x.flip(2), &x).cast(DType::F32);
        let mean = x.mean_keepdim((1, 2, 3));
        let x = ((x - &mean) * &contrast + mean + &bright).clamp(0.0, 255.0);
        let yuv = x.matmul(&to_yuv.t()) - Tensor::new([128.0f32, 0.0, 0.0]);
        let blocks = yuv.reshape((b, size / 8, 8, size / 8, 8, 3)).permute((0, 5, 1, 3, 2, 4));
        let coefficients = dct.matmul(&blocks).matmul(&dct.t());
        let levels = (coefficients / &table).round();
        let bits =
            levels.abs().log2().maximum(-1.0).sum((2, 3, 4, 5)) + levels.ne(0).sum((2, 3, 4, 5)).cast(DType::F32) * 2.0;
        let back = dct.t().matmul(&(&levels * &table)).matmul(&dct);
        let back = back.permute((0, 2, 4, 3, 5, 1)).reshape((b, size, size, 3)) + Tensor::new([128.0f32, 0.0, 0.0]);
        let rgb = back.matmul(&to_rgb.t()).round().clamp(0.0, 255.0).cast(DType::U8);
        let error = (rgb.cast(DType::F32) - x).square().mean((1, 2, 3));
        Ok(vec![("rgb", rgb), ("bits", bits), ("error", error)])
    }))
}

// Near duplicates of strings: FNV hashes of windows (u32), signatures of minima, a Bloom filter in words of u64, bit counts
fn minhash(cx: &Inputs) -> Result<Call, Error> {
    let (docs, length, hashes) = cx.pick((60, 200, 16), (2000, 1000, 32));
    let text = cx.ints(1, 26, &[docs, length]).cast(DType::U8) + 97;
    let text = Tensor::cat(&[&text, &text.slice((.., ..length as i64 / 2))], 1); // half of each is repeated
    let seeds = cx.ints(2, 1 << 20, &[hashes]).cast(DType::U32) * 2 + 1;
    Ok(Box::new(move || {
        let windows = text.cast(DType::U32).window(1, 5, 1);
        let mut h = Tensor::full_with([docs, windows.size(1)], 2166136261u32, DType::U32);
        for i in 0..5 {
            h = (h ^ windows.slice((.., .., i))) * 16777619u32;
        }
        let mixed = |h: &Tensor| {
            let h = (h ^ (h >> 16)) * 0x85ebca6bu32;
            let h = (&h ^ (&h >> 13)) * 0xc2b2ae35u32;
            &h ^ (&h >> 16)
        };
        let signatures =
            Tensor::stack(&(0..hashes).map(|i| mixed(&(&h * seeds.slice(i))).amin(1)).collect::<Vec<_>>(), 1);
        let alike = signatures.unsqueeze(1).eq(signatures.unsqueeze(0)).cast(DType::F32).mean(-1);
        // 1,024 bits a document: 16 words of 64 bits, of which each window sets two.
        let m = mixed(&h);
        let mut set = Tensor::zeros_with([docs, 1024], DType::Bool);
        for shift in [0, 10] {
            let bit = ((&m >> shift) & 1023).cast(DType::I64);
            set = set.scatter(1, &bit, true);
        }
        let place = Tensor::arange(64).cast(DType::U64);
        let words = (set.reshape((docs, 16, 64)).cast(DType::U64) << place).sum(-1);
        let filled = words.bit_count().cast(DType::I64).sum(-1);
        let common = (words.unsqueeze(1) & words.unsqueeze(0)).bit_count().cast(DType::I64).sum(-1);
        let checksum = (&words ^ (&words >> 7)).cast(DType::U32).cast(DType::I64).sum(..);
        Ok(vec![
            ("alike", alike),
            ("filled", filled),
            ("common", common),
            ("checksum", checksum),
            ("signatures", signatures),
        ])
    }))
}

// Phase vocoder: short-time Fourier transform, stretched in time with phases carried on, overlap and add
fn vocoder(cx: &Inputs) -> Result<Call, Error> {
    let (b, n, size, hop) = cx.pick((2, 8000, 256usize, 64usize), (16, 200_000, 1024, 256));
    let t = Tensor::arange(n as i64);
    let x = (&t * 0.05 + (&t * 1e-3).sin() * 3.0).sin() * 0.5 + cx.n(1, &[b, n], 0.05);
    let window = Tensor::hann_window(size);
    let rate = 0.8;
    Ok(Box::new(move || {
        let frames = x.pad([(0, 0), (size / 2, size / 2)], Border::Reflect).window(1, size, hop) * &window;
        let z = frames.rfft(-1);
        let (count, bins) = (z.dims()[1], z.dims()[2]);
        let (abs, angle) = (z.abs(), z.angle());
        let steps = Tensor::arange(((count - 1) as f64 / rate) as i64) * rate;
        let low = steps.floor().cast(DType::I64);
        let fraction = (&steps - steps.floor()).unsqueeze(1);
        let (a, c) = (abs.index_select(1, &low), abs.index_select(1, &(&low + 1)));
        let magnitude = a.lerp(&c, &fraction);
        let advance = Tensor::arange(bins as i64) * (std::f64::consts::TAU * hop as f64 / size as f64);
        let turned = angle.index_select(1, &(&low + 1)) - angle.index_select(1, &low) - &advance;
        let turned = &turned - (&turned / std::f64::consts::TAU).round() * std::f64::consts::TAU + advance;
        let phase = angle.slice((.., 0..1)) + turned.cumsum(1).pad([(0, 0), (1, 0), (0, 0)], 0.0).slice((.., ..-1));
        let y = thalweg::Complex::from_polar(&magnitude, &phase).irfft_with(-1, &Fft::new().sizes([size])) * &window;
        let total = (y.size(1) - 1) * hop + size;
        let at = (Tensor::arange(y.size(1) as i64).cast(DType::I64) * hop as i64).unsqueeze(1)
            + Tensor::arange(size as i64).cast(DType::I64);
        let out = Tensor::zeros([b, total]).index_add(1, &at.flatten(), y.reshape((b, -1)));
        let norm = Tensor::zeros(total).index_add(0, &at.flatten(), window.square().expand(at.dims()).reshape(-1));
        let out = norm.gt(1e-3).where_(out / norm.maximum(1e-3), 0.0);
        let loudness = out.square().unfold_mean(hop);
        Ok(vec![("magnitude", magnitude), ("loudness", loudness)])
    }))
}

/// Means of successive windows.
trait UnfoldMean {
    fn unfold_mean(&self, size: usize) -> Tensor;
}

impl UnfoldMean for Tensor {
    fn unfold_mean(&self, size: usize) -> Tensor {
        self.window(-1, size, size).mean(-1)
    }
}

// Marching squares of a field: cases of cells from four corners, ends of segments by tables, length, area, contours of several levels
fn marching_squares(cx: &Inputs) -> Result<Call, Error> {
    let (h, w, levels) = cx.pick((90, 110, 5), (800, 1000, 9));
    let y = Tensor::linspace(-3.0, 3.0, h).unsqueeze(1);
    let x = Tensor::linspace(-3.0, 3.0, w);
    let field = (&x * 1.7).sin() * (&y * 1.3).cos() + (&x * &y * 0.6).sin() * 0.7 + cx.n(1, &[h, w], 0.01);
    // Edges (bottom, right, top, left) that the first segment of a case joins, and of the second one (-1: none).
    const TABLE: [[i64; 4]; 16] = [
        [-1, -1, -1, -1],
        [3, 0, -1, -1],
        [0, 1, -1, -1],
        [3, 1, -1, -1],
        [1, 2, -1, -1],
        [3, 0, 1, 2],
        [0, 2, -1, -1],
        [3, 2, -1, -1],
        [2, 3, -1, -1],
        [2, 0, -1, -1],
        [0, 1, 2, 3],
        [2, 1, -1, -1],
        [1, 3, -1, -1],
        [1, 0, -1, -1],
        [0, 3, -1, -1],
        [-1, -1, -1, -1],
    ];
    let table = Tensor::new(TABLE);
    Ok(Box::new(move || {
        let (mut lengths, mut segments, mut points) = (vec![], vec![], vec![]);
        for i in 0..levels {
            let level = -0.8 + 1.6 * i as f64 / (levels - 1) as f64;
            let f = &field - level;
            let corners = [f.slice((..-1, ..-1)), f.slice((..-1, 1..)), f.slice((1.., 1..)), f.slice((1.., ..-1))];
            let case = corners
                .iter()
                .enumerate()
                .map(|(k, c)| c.gt(0).cast(DType::I64) << k as i64)
                .reduce(|a, b| a | b)
                .unwrap();
            let between = |a: usize, b: usize| (&corners[a] / (&corners[a] - &corners[b])).clamp(0.0, 1.0);
            let (bottom, right, top, left) = (between(0, 1), between(1, 2), between(3, 2), between(0, 3));
            let (zero, one) = (bottom.zeros_like(), bottom.ones_like());
            let px = Tensor::stack(&[&bottom, &one, &top, &zero], -1);
            let py = Tensor::stack(&[&zero, &right, &one, &left], -1);
            let edges = table.index_select(0, &case);
            let valid = edges.ge(0);
            let at = edges.maximum(0);
            let (ex, ey) = (px.gather(-1, &at), py.gather(-1, &at));
            let length = |k: i64| {
                let d = (ex.slice((.., .., k + 1)) - ex.slice((.., .., k))).square()
                    + (ey.slice((.., .., k + 1)) - ey.slice((.., .., k))).square();
                valid.slice((.., .., k)).where_((d + 1e-12).sqrt(), 0.0)
            };
            lengths.push((length(0) + length(2)).sum(..));
            segments.push(valid.sum(..));
            let crossed = case.gt(0) & case.lt(15);
            let cells = crossed.nonzero()?;
            let first = ex.slice((.., .., 0)).index(&cells) + cells[1].cast(DType::F32);
            points.push(first.mean(0));
        }
        Ok(vec![
            ("length", Tensor::stack(&lengths, 0)),
            ("segments", Tensor::stack(&segments, 0)),
            ("points", Tensor::stack(&points, 0)),
        ])
    }))
}

// A physics-informed network for Burgers' equation: second derivatives in the loss, Adam
fn pinn(cx: &Inputs) -> Result<Call, Error> {
    let (n, m, h) = cx.pick((400, 60, 24), (20_000, 1000, 64));
    let (x, t) = (cx.u(1, &[n, 1]) * 2.0 - 1.0, cx.u(2, &[n, 1]));
    let (x0, edge) = (cx.u(3, &[m, 1]) * 2.0 - 1.0, cx.u(4, &[m, 1]));
    let p0 = vec![
        cx.weight(5, h, 2) * 2.0,
        cx.n(6, &[h], 0.3),
        cx.weight(7, h, h),
        cx.n(8, &[h], 0.1),
        cx.weight(9, h, h),
        cx.n(10, &[h], 0.1),
        cx.weight(11, 1, h),
    ];
    let net = |p: &[Tensor], x: &Tensor, t: &Tensor| {
        let mut y = Tensor::cat(&[x, t], 1);
        for l in 0..3 {
            y = y.linear(&p[2 * l], Some(&p[2 * l + 1])).tanh();
        }
        y.linear(&p[6], None)
    };
    thalweg::synchronize()?;
    Ok(Box::new(move || {
        let mut p = track(&p0);
        let mut opt = Adam::new(&p, 5e-3);
        let mut losses = vec![];
        for _ in 0..3 {
            let (x, t) = (x.tracked(), t.tracked());
            let u = net(&p, &x, &t);
            let [ux, ut] = grad_graph(&u.sum(..), [&x, &t]);
            let uxx = grad_graph(&ux.sum(..), &x);
            let residual = ut + &u * ux - uxx * (0.01 / std::f64::consts::PI);
            let initial = net(&p, &x0, &x0.zeros_like()) + (&x0 * std::f64::consts::PI).sin();
            let border = net(&p, &edge.ones_like(), &edge).square() + net(&p, &-edge.ones_like(), &edge).square();
            let loss = residual.square().mean(..) + initial.square().mean(..) + border.mean(..);
            let g = grad(&loss, &p);
            opt.step(&mut p, &g);
            losses.push(loss.detach());
        }
        Ok(vec![("loss", Tensor::stack(&losses, 0)), ("w", p[2].detach())])
    }))
}
