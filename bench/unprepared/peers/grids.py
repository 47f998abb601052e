"""Grids, images, signals and bits in PyTorch: the programs of src/grids.rs.

Each function takes inputs and what wraps the parts to compile, and returns a call."""
import math

import numpy as np
import torch
import torch.nn.functional as functional

from data import track


def lattice_boltzmann(cx, C):
    h, w, steps = cx.pick((48, 120, 20), (400, 1000, 40))
    ex, ey = [0, 1, 0, -1, 0, 1, -1, -1, 1], [0, 0, 1, 0, -1, 1, 1, -1, -1]
    opposite = [0, 3, 4, 1, 2, 7, 8, 5, 6]; weights = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4
    y, x = np.arange(h)[:, None] - h / 2, np.arange(w)[None] - w / 4
    wall = cx.t(x * x + y * y < h * h / 81)
    shear = cx.t((0.1 * (1 + 1e-3 * np.sin(np.arange(h) / h * 6.2831853))).astype(np.float32))[:, None]
    def equilibrium(rho, ux, uy):
        speed = (ux.square() + uy.square()) * 1.5; out = []
        for i in range(9):
            along = ux * (3 * ex[i]) + uy * (3 * ey[i])
            out.append((1 + along + along.square() * 0.5 - speed) * rho * weights[i])
        return torch.stack(out)
    ones, zeros = torch.ones(h, w, device=cx.dev), torch.zeros(h, w, device=cx.dev)
    start, inflow = equilibrium(ones, shear.expand(h, w), zeros), equilibrium(ones[:, :1], shear, zeros[:, :1])
    def moments(f):
        rho = f.sum(0)
        by = lambda e: sum(f[i] * e[i] for i in range(9) if e[i])
        return rho, by(ex) / rho, by(ey) / rho
    def step(f):
        rho, ux, uy = moments(f)
        collided = f + (equilibrium(rho, ux, uy) - f) * 1.7
        post = torch.where(wall, torch.stack([f[i] for i in opposite]), collided)
        f = torch.stack([post[i].roll(ex[i], 1).roll(ey[i], 0) for i in range(9)])
        f[:, :, :1] = inflow
        return f
    step = C(step)
    def call():
        f = start
        for _ in range(steps):
            f = step(f)
        rho, ux, uy = moments(f)
        curl = torch.gradient(uy, dim=1)[0] - torch.gradient(ux, dim=0)[0]
        return {"rho": rho, "curl": torch.where(wall, 0.0, curl), "speed": (ux.square() + uy.square()).amax()}
    return call


def particle_mesh(cx, C):
    n, side, steps = cx.pick((4000, 32, 6), (400_000, 256, 10))
    x0, v0 = cx.u(1, n, 2) * side, cx.n(2, (n, 2), 0.05)
    k, half = torch.fft.fftfreq(side, device=cx.dev) * math.tau, torch.fft.rfftfreq(side, device=cx.dev) * math.tau
    k2 = k.square()[:, None] + half.square()[None]
    green = torch.where(k2 > 0, -k2.clamp(min=1e-6).reciprocal(), 0.0)
    def step(x, v):
        low = x.floor(); fraction = x - low; cell = low.long(); corners = []
        for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
            along = lambda axis, up: fraction[:, axis] if up else 1 - fraction[:, axis]
            at = lambda axis, up: (cell[:, axis] + up) % side
            corners.append((at(0, a) * side + at(1, b), along(0, a) * along(1, b)))
        density = torch.zeros(side * side, device=cx.dev)
        for at, weight in corners:
            density = density.index_add(0, at, weight)
        density = density.reshape(side, side) / (n / (side * side)) - 1
        potential = torch.fft.irfft2(torch.fft.rfft2(density) * green, s=(side, side))
        along = lambda axis: (potential.roll(1, axis) - potential.roll(-1, axis)) * 0.5
        field = torch.stack([along(0), along(1)], -1).reshape(side * side, 2)
        force = torch.zeros(n, 2, device=cx.dev)
        for at, weight in corners:
            force = force + field[at] * weight[:, None]
        v = v + force * 0.1; x = (x + v * 0.1) % side
        return x, v, v.square().sum() * 0.5 + (density * potential).sum() * 0.5
    step = C(step)
    def call():
        x, v, energies = x0, v0, []
        for _ in range(steps):
            x, v, e = step(x, v); energies.append(e)
        return {"energy": torch.stack(energies), "x": x.mean(0), "v": v}
    return call


def life(cx, C):
    h, w, steps = cx.pick((96, 130, 40), (1024, 1500, 80))
    start, states = cx.u(1, h, w) < 0.35, (cx.u(2, h, w) * 4).to(torch.uint8)
    def around(alive):
        a = alive.to(torch.uint8); rows = a + a.roll(1, 0) + a.roll(-1, 0)
        return rows + rows.roll(1, 1) + rows.roll(-1, 1) - a
    def live(alive):
        n = around(alive); alive = (n == 3) | (alive & (n == 2))
        return alive, alive.sum()
    def brain(s):
        born = (s == 0) & (around(s == 1) == 2)
        return torch.where(born, 1, torch.where(s > 0, (s + 1) % 4, 0)).to(torch.uint8)
    live, brain = C(live), C(brain)
    def call():
        alive, population, s = start, [], states
        for _ in range(steps):
            alive, n = live(alive); population.append(n)
        for _ in range(steps):
            s = brain(s)
        return {"population": torch.stack(population), "alive": alive, "states": functional.one_hot(s.long(), 4).sum((0, 1))}
    return call


def wavelet97(cx, C):
    size = cx.pick(128, 1024)
    image = cx.n(1, (size, size), 0.1) + (torch.arange(size, device=cx.dev).float() * 0.05).sin()[:, None]
    steps, scale = [-1.586134342, -0.05298011854, 0.8829110762, 0.4435068522], 1.149604398
    def lift(odd, target, other, by):
        shifted = torch.cat([other[:, 1:], other[:, -1:]], 1) if odd else torch.cat([other[:, :1], other[:, :-1]], 1)
        return target + (other + shifted) * by
    def forward(x):
        even, odd = x[:, ::2], x[:, 1::2]
        for i, by in enumerate(steps):
            if i % 2 == 0: odd = lift(True, odd, even, by)
            else: even = lift(False, even, odd, by)
        return even * scale, odd / scale
    def inverse(low, high):
        even, odd = low / scale, high * scale
        for i, by in reversed(list(enumerate(steps))):
            if i % 2 == 0: odd = lift(True, odd, even, -by)
            else: even = lift(False, even, odd, -by)
        return torch.stack([even, odd], 2).reshape(low.shape[0], 2 * low.shape[1])
    def run(low):
        details = []
        for _ in range(3):
            l, h = forward(low)
            (ll, lh), (hl, hh) = forward(l.T), forward(h.T)
            details.append((lh, hl, hh)); low = ll.T
        a = details[0][2].abs().flatten().sort()[0]; half = a.numel() // 2
        threshold = (a[half - 1] + a[half]) * 0.5 / 0.6745 * math.sqrt(2 * math.log(size * size))
        soft = lambda x: x.sign() * (x.abs() - threshold).relu(); kept = []
        for d in reversed(details):
            lh, hl, hh = map(soft, d)
            kept.append((lh != 0).sum() + (hl != 0).sum() + (hh != 0).sum())
            low = inverse(inverse(low.T, lh).T, inverse(hl, hh).T)
        return {"threshold": threshold, "kept": torch.stack(kept), "image": low}
    run = C(run)
    return lambda: run(image)


def jpeg(cx, C):
    b, size = cx.pick((6, 64), (64, 256))
    images = (cx.u(1, b, size + 16, size + 16, 3) * 64 + (torch.arange(size + 16, device=cx.dev).float() * 0.1).sin().reshape(1, -1, 1, 1) * 60 + 110).to(torch.uint8)
    offsets, flips = cx.intsv(2, 16, 2 * b), cx.ints(3, 2, b).reshape(b, 1, 1, 1).bool()
    bright, contrast = cx.u(4, b, 1, 1, 1) * 40 - 20, cx.u(5, b, 1, 1, 1) * 0.6 + 0.7
    f32 = dict(dtype=torch.float32, device=cx.dev)
    to_yuv = torch.tensor([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]], **f32)
    to_rgb = torch.tensor([[1.0, 0.0, 1.402], [1.0, -0.344136, -0.714136], [1.0, 1.772, 0.0]], **f32)
    k = np.arange(8)
    dct = cx.t((np.where(k[:, None] == 0, 0.125**0.5, 0.5) * np.cos((2 * k[None] + 1) * k[:, None] * np.pi / 16)).astype(np.float32))
    table = cx.t((10 + 6 * (k[:, None] + k[None])).astype(np.float32)); middle = torch.tensor([128.0, 0, 0], **f32)
    def run(x):
        x = torch.where(flips, x.flip(2), x).float()
        mean = x.mean((1, 2, 3), keepdim=True)
        x = ((x - mean) * contrast + mean + bright).clamp(0, 255)
        yuv = x @ to_yuv.T - middle
        blocks = yuv.reshape(b, size // 8, 8, size // 8, 8, 3).permute(0, 5, 1, 3, 2, 4)
        levels = (dct @ blocks @ dct.T / table).round()
        bits = levels.abs().log2().clamp(min=-1).sum((2, 3, 4, 5)) + (levels != 0).sum((2, 3, 4, 5)).float() * 2
        back = (dct.T @ (levels * table) @ dct).permute(0, 2, 4, 3, 5, 1).reshape(b, size, size, 3) + middle
        rgb = (back @ to_rgb.T).round().clamp(0, 255).to(torch.uint8)
        return {"rgb": rgb, "bits": bits, "error": (rgb.float() - x).square().mean((1, 2, 3))}
    run = C(run)
    def call():
        return run(torch.stack([images[i, y:y + size, x:x + size] for i, (y, x) in enumerate(offsets.reshape(b, 2).tolist())]))
    return call


def minhash(cx, C):
    docs, length, hashes = cx.pick((60, 200, 16), (2000, 1000, 32))
    # Words of u32 in i64, since PyTorch computes few operations with unsigned numbers.
    text = cx.ints(1, 26, docs, length) + 97; text = torch.cat([text, text[:, :length // 2]], 1)
    seeds = cx.ints(2, 1 << 20, hashes) * 2 + 1; low = 0xFFFFFFFF
    place = torch.arange(64, device=cx.dev)
    def mixed(h):
        h = ((h ^ (h >> 16)) * 0x85ebca6b) & low
        h = ((h ^ (h >> 13)) * 0xc2b2ae35) & low
        return h ^ (h >> 16)
    def bit_count(w):
        count = torch.zeros_like(w)
        for shift in range(0, 64, 8):
            v = (w >> shift) & 255
            v = v - ((v >> 1) & 0x55); v = (v & 0x33) + ((v >> 2) & 0x33); count = count + ((v + (v >> 4)) & 0x0f)
        return count
    def run():
        windows = text.unfold(1, 5, 1)
        h = torch.full((docs, windows.shape[1]), 2166136261, device=cx.dev)
        for i in range(5):
            h = ((h ^ windows[:, :, i]) * 16777619) & low
        signatures = torch.stack([mixed((h * seeds[i]) & low).amin(1) for i in range(hashes)], 1)
        alike = (signatures[:, None] == signatures[None]).float().mean(-1)
        m = mixed(h); bits = torch.zeros(docs, 1024, dtype=torch.bool, device=cx.dev)
        for shift in (0, 10):
            bits = bits.scatter(1, (m >> shift) & 1023, True)
        words = (bits.reshape(docs, 16, 64).long() << place).sum(-1)
        filled = bit_count(words).sum(-1); common = bit_count(words[:, None] & words[None]).sum(-1)
        logical = (words >> 7) & ((1 << 57) - 1)
        checksum = ((words ^ logical) & low).sum()
        return {"alike": alike, "filled": filled, "common": common, "checksum": checksum, "signatures": signatures}
    return C(run)


def vocoder(cx, C):
    b, n, size, hop = cx.pick((2, 8000, 256, 64), (16, 200_000, 1024, 256))
    t = torch.arange(n, device=cx.dev).float()
    x = (t * 0.05 + (t * 1e-3).sin() * 3).sin() * 0.5 + cx.n(1, (b, n), 0.05)
    window = torch.hann_window(size, device=cx.dev); rate = 0.8
    def run(x):
        z = torch.fft.rfft(functional.pad(x[:, None], (size // 2, size // 2), mode="reflect")[:, 0].unfold(1, size, hop) * window)
        count, bins = z.shape[1:]
        size_, angle = z.abs(), z.angle()
        steps = torch.arange(int((count - 1) / rate), device=cx.dev).float() * rate
        low = steps.floor().long(); fraction = (steps - steps.floor())[:, None]
        magnitude = torch.lerp(size_[:, low], size_[:, low + 1], fraction)
        advance = torch.arange(bins, device=cx.dev).float() * (math.tau * hop / size)
        turned = angle[:, low + 1] - angle[:, low] - advance
        turned = turned - (turned / math.tau).round() * math.tau + advance
        phase = angle[:, :1] + functional.pad(turned.cumsum(1), (0, 0, 1, 0))[:, :-1]
        y = torch.fft.irfft(torch.polar(magnitude, phase), n=size) * window
        total = (y.shape[1] - 1) * hop + size
        at = (torch.arange(y.shape[1], device=cx.dev) * hop)[:, None] + torch.arange(size, device=cx.dev)
        out = torch.zeros(b, total, device=cx.dev).index_add(1, at.flatten(), y.reshape(b, -1))
        norm = torch.zeros(total, device=cx.dev).index_add(0, at.flatten(), window.square().expand(at.shape).reshape(-1))
        out = torch.where(norm > 1e-3, out / norm.clamp(min=1e-3), 0.0)
        return {"magnitude": magnitude, "loudness": out.square().unfold(-1, hop, hop).mean(-1)}
    run = C(run)
    return lambda: run(x)


def marching_squares(cx, C):
    h, w, levels = cx.pick((90, 110, 5), (800, 1000, 9))
    y, x = torch.linspace(-3, 3, h, device=cx.dev)[:, None], torch.linspace(-3, 3, w, device=cx.dev)
    field = (x * 1.7).sin() * (y * 1.3).cos() + (x * y * 0.6).sin() * 0.7 + cx.n(1, (h, w), 0.01)
    n = [-1, -1]
    table = torch.tensor([n + n, [3, 0] + n, [0, 1] + n, [3, 1] + n, [1, 2] + n, [3, 0, 1, 2], [0, 2] + n, [3, 2] + n, [2, 3] + n,
                          [2, 0] + n, [0, 1, 2, 3], [2, 1] + n, [1, 3] + n, [1, 0] + n, [0, 3] + n, n + n], device=cx.dev)
    def cells(level):
        f = field - level; c = [f[:-1, :-1], f[:-1, 1:], f[1:, 1:], f[1:, :-1]]
        case = sum((v > 0).long() << k for k, v in enumerate(c))
        between = lambda a, b: (c[a] / (c[a] - c[b])).clamp(0, 1)
        bottom, right, top, left = between(0, 1), between(1, 2), between(3, 2), between(0, 3)
        zero, one = torch.zeros_like(bottom), torch.ones_like(bottom)
        edges = table[case]; valid = edges >= 0; at = edges.clamp(min=0)
        ex, ey = torch.stack([bottom, one, top, zero], -1).gather(-1, at), torch.stack([zero, right, one, left], -1).gather(-1, at)
        def length(k):
            d = (ex[..., k + 1] - ex[..., k]).square() + (ey[..., k + 1] - ey[..., k]).square()
            return torch.where(valid[..., k], (d + 1e-12).sqrt(), 0.0)
        return (length(0) + length(2)).sum(), valid.sum(), (case > 0) & (case < 15), ex[..., 0]
    cells = C(cells)
    def call():
        lengths, segments, points = [], [], []
        for i in range(levels):
            l, s, crossed, ex = cells(torch.tensor(-0.8 + 1.6 * i / (levels - 1), device=cx.dev)); lengths.append(l); segments.append(s)
            at = crossed.nonzero(as_tuple=True)
            points.append((ex[at] + at[1].float()).mean(0))
        return {"length": torch.stack(lengths), "segments": torch.stack(segments), "points": torch.stack(points)}
    return call


def pinn(cx, C):
    n, m, h = cx.pick((400, 60, 24), (20_000, 1000, 64))
    x, t = cx.u(1, n, 1) * 2 - 1, cx.u(2, n, 1); x0, edge = cx.u(3, m, 1) * 2 - 1, cx.u(4, m, 1)
    p0 = [cx.wt(5, h, 2) * 2, cx.n(6, (h,), 0.3), cx.wt(7, h, h), cx.n(8, (h,), 0.1), cx.wt(9, h, h), cx.n(10, (h,), 0.1), cx.wt(11, 1, h)]
    def net(p, x, t):
        y = torch.cat([x, t], 1)
        for l in range(3):
            y = torch.tanh(functional.linear(y, p[2 * l], p[2 * l + 1]))
        return functional.linear(y, p[6])
    def call():
        p = track(p0); opt = torch.optim.Adam(p, 5e-3); ls = []
        for _ in range(3):
            a, b = x.clone().requires_grad_(), t.clone().requires_grad_(); u = net(p, a, b)
            ux, ut = torch.autograd.grad(u.sum(), (a, b), create_graph=True)
            uxx = torch.autograd.grad(ux.sum(), a, create_graph=True)[0]
            residual = ut + u * ux - uxx * (0.01 / math.pi)
            initial = net(p, x0, torch.zeros_like(x0)) + (x0 * math.pi).sin()
            border = net(p, torch.ones_like(edge), edge).square() + net(p, -torch.ones_like(edge), edge).square()
            loss = residual.square().mean() + initial.square().mean() + border.mean()
            opt.zero_grad(); loss.backward(); opt.step(); ls.append(loss.detach())
        return {"loss": torch.stack(ls), "w": p[2].detach()}
    return call


PROGRAMS = {f.__name__: f for f in (lattice_boltzmann, particle_mesh, life, wavelet97, jpeg, minhash, vocoder, marching_squares, pinn)}
