"""Simulations and dynamic programming in PyTorch: the programs of src/simulation.rs.

Each function returns a call; `compiled` wraps what torch.compile is to compile, and is the identity for eager runs."""
import math

import numpy as np
import torch
import torch.nn.functional as functional

import data
from data import integers, normal, normal_f64, tensor, uniform, uniform_f64


def adi(compiled):
    ny, nx = (1201, 1101) if data.large else (301, 257)
    u0, src, r = tensor(uniform(1, ny*nx).reshape(ny, nx)), tensor(uniform(2, ny*nx).reshape(ny, nx))*0.01, 0.8
    def inverse(n):
        m = torch.diag(torch.full((n,), 1+2*r, dtype=torch.float64)) - r*torch.diag(torch.ones(n-1, dtype=torch.float64), 1) - r*torch.diag(torch.ones(n-1, dtype=torch.float64), -1)
        return torch.linalg.inv(m).float().to(data.device)
    ix, iy = inverse(nx), inverse(ny)
    def call():
        u = u0
        for _ in range(20):
            p = functional.pad(u, (0, 0, 1, 1)); e = u + (p[:-2] + p[2:] - 2*u)*r + src
            u = e @ ix.T
            p = functional.pad(u, (1, 1, 0, 0)); e = u + (p[:, :-2] + p[:, 2:] - 2*u)*r + src
            u = iy @ e
        return [u.sum(), u]
    return compiled(call)

def multigrid(compiled):
    n = 769 if data.large else 193
    f = tensor(normal_f64(3, n*n).reshape(n, n)); h2 = 1/((n-1)**2)
    def residual(u, f, h2):
        r = torch.zeros_like(u)
        r[1:-1, 1:-1] = f[1:-1, 1:-1] - (4*u[1:-1, 1:-1] - (u[2:, 1:-1]+u[:-2, 1:-1]+u[1:-1, 2:]+u[1:-1, :-2]))/h2
        return r
    def smooth(u, f, h2, times):
        for _ in range(times):
            near = u[2:, 1:-1]+u[:-2, 1:-1]+u[1:-1, 2:]+u[1:-1, :-2]
            u[1:-1, 1:-1] = u[1:-1, 1:-1]*0.2 + (near + f[1:-1, 1:-1]*h2)*0.2
    def restrict(r):
        n = r.shape[0]; s = lambda a, b: r[2+a:n-2+a:2, 2+b:n-2+b:2]
        return functional.pad((s(0, 0)*4 + (s(-1, 0)+s(1, 0)+s(0, -1)+s(0, 1))*2 + s(-1, -1)+s(-1, 1)+s(1, -1)+s(1, 1))/16, (1, 1, 1, 1))
    def prolong(c):
        n = (c.shape[0]-1)*2+1; u = torch.zeros(n, n, dtype=c.dtype, device=c.device)
        rows = (c[:-1]+c[1:])*0.5
        u[::2, ::2] = c; u[1::2, ::2] = rows; u[::2, 1::2] = (c[:, :-1]+c[:, 1:])*0.5; u[1::2, 1::2] = (rows[:, :-1]+rows[:, 1:])*0.5
        return u
    def cycle(u, f, h2):
        if u.shape[0] <= 7: smooth(u, f, h2, 20); return u
        smooth(u, f, h2, 2)
        c = restrict(residual(u, f, h2))
        u += prolong(cycle(torch.zeros_like(c), c, h2*4))
        smooth(u, f, h2, 2)
        return u
    def step(u):
        u = cycle(u, f, h2)
        return u, residual(u, f, h2).square().sum().sqrt()
    step = compiled(step)
    def call():
        u = torch.zeros_like(f); norm = f[1:-1, 1:-1].square().sum().sqrt().item(); hist = []
        for _ in range(12):
            u, r = step(u); hist.append(r.item()/norm)
            if hist[-1] < 1e-6: break
        return [torch.tensor(hist, dtype=torch.float64), u]
    return call

def euler_muscl(compiled):
    n, steps = (200003, 40) if data.large else (5003, 40)
    noise = tensor(uniform(4, n))*0.01; x = torch.arange(n, device=data.device, dtype=torch.float32)/n; left = x < 0.5
    r = torch.where(left, 1.0, 0.125) + noise; p = torch.where(left, 1.0, 0.1)
    q0 = torch.stack([r, torch.zeros_like(r), p/0.4]); dx = 1/n
    def flux(w):
        r, u, p = w; e = p/0.4 + r*u.square()*0.5; m = r*u
        return torch.stack([r, m, e]), torch.stack([m, m*u+p, (e+p)*u]), u.abs() + (p*1.4/r).sqrt()
    def step(q):
        q_ = functional.pad(q[None], (2, 2), mode="replicate")[0]
        r, m, e = q_; u = m/r; w = torch.stack([r, u, (e-m*u*0.5)*0.4])
        d = w[:, 1:]-w[:, :-1]; a, b = d[:, :-1], d[:, 1:]
        slope = torch.where(a*b <= 0, 0.0, torch.where(a.abs() < b.abs(), a, b)); mid = w[:, 1:-1]
        (ql, fl, sl), (qr, fr, sr) = flux((mid+slope*0.5)[:, :-1]), flux((mid-slope*0.5)[:, 1:])
        s = torch.maximum(sl, sr); f = (fl+fr)*0.5 - (qr-ql)*s*0.5
        dt = (0.4*dx)/s.amax()
        return q - (f[:, 1:]-f[:, :-1])*(dt/dx), dt
    step = compiled(step)
    def call():
        q, t = q0, torch.zeros((), device=data.device)
        for k in range(steps):
            q, dt = step(q); t = t + dt
            if k % 10 == 9 and t.item() > 0.2: break
        return [t, q]
    return call

def heston(compiled):
    paths, steps = (60013, 64) if data.large else (8011, 64)
    z1, z2 = tensor(normal(5, paths*steps).reshape(steps, paths)), tensor(normal(6, paths*steps).reshape(steps, paths))
    def step(s, v, avg, kappa, theta, xi, rho, other, a, b):
        dt, rate = 1/steps, 0.02
        vp = v.clamp(min=1e-6); root = (vp*dt).sqrt()
        s = s + (rate-vp*0.5)*dt + root*a
        v = v + kappa*(theta-vp)*dt + xi*root*(rho*a+other*b)
        return s, v, avg + s.exp()/steps
    step = compiled(step)
    def price(s0, v0, kappa, theta, xi, rho):
        dt, rate = 1/steps, 0.02
        s, v, avg = s0.log().expand(paths), v0.expand(paths), torch.zeros(paths, device=data.device)
        other = (1-rho.square()).sqrt()
        for i in range(steps): s, v, avg = step(s, v, avg, kappa, theta, xi, rho, other, z1[i], z2[i])
        return (avg-100).relu().mean()*math.exp(-rate)
    def call():
        p = [torch.tensor(v, device=data.device, requires_grad=True) for v in (100.0, 0.04, 1.5, 0.05, 0.4, -0.6)]
        y = price(*p); y.backward()
        return [y.detach(), torch.stack([x.grad for x in p])]
    return call

def ising(compiled):
    n, sweeps = (1026, 20) if data.large else (258, 20)
    s0 = tensor(np.where(uniform(7, n*n) < 0.5, -1, 1).astype(np.int8).reshape(n, n))
    i, j = torch.arange(n, device=data.device, dtype=torch.int32)[:, None], torch.arange(n, device=data.device, dtype=torch.int32)
    colour, at = (i+j) & 1, i*n+j
    def i32(v): v &= 0xffffffff; return v - (1 << 32) if v >> 31 else v
    def hash(x):
        x = (x ^ ((x >> 16) & 0xffff))*i32(0x7feb352d); x = (x ^ ((x >> 15) & 0x1ffff))*i32(0x846ca68b)
        return x ^ ((x >> 16) & 0xffff)
    def call():
        s, ms = s0, []
        for sweep in range(sweeps):
            for c in range(2):
                near = s.roll(1, 0)+s.roll(-1, 0)+s.roll(1, 1)+s.roll(-1, 1)
                cost = (s*near).float()*2
                h = hash(at + i32((sweep*2+c)*0x9E3779B9))
                u = ((h >> 8) & 0xffffff).float()/16777216.0
                flip = (u < (cost*-0.44).exp()) & (colour == c)
                s = torch.where(flip, -s, s)
            ms.append(s.sum().double()/s.numel())
        return [torch.stack(ms), s]
    return compiled(call)

def particles(compiled):
    n, steps = (60013, 80) if data.large else (6007, 80)
    noise, first = tensor(normal(8, n*steps).reshape(steps, n)), tensor(normal(9, n)); y, off = normal(10, steps), uniform_f64(11, steps)
    mu, phi, sigma = -1.0, 0.95, 0.3
    def step(x, logw, e, y2):
        x = (x-mu)*phi+mu+e*sigma
        logw = logw - x*0.5 - (-x).exp()*(0.5*y2) - 0.9189385
        norm = logw.logsumexp(0); logw = logw-norm; w = logw.exp()
        return x, logw, norm, w, (w*x).sum(), 1/w.square().sum()
    step = compiled(step)
    def resample(x, w, o):
        at = (torch.arange(n, device=data.device, dtype=torch.float64)+o)/n
        return x[torch.searchsorted(w.double().cumsum(0), at).clamp(max=n-1)]
    def call():
        x = first*(sigma/math.sqrt(1-phi*phi))+mu; logw = torch.full((n,), -math.log(n), device=data.device)
        total, means, count = torch.zeros((), device=data.device), [], 0
        for k in range(steps):
            x, logw, norm, w, mean, ess = step(x, logw, noise[k], torch.tensor(float(np.float32(y[k]*y[k])), device=data.device))
            total = total+norm; means.append(mean)
            if ess.item() < 0.5*n:
                x = resample(x, w, off[k]); logw = torch.full((n,), -math.log(n), device=data.device); count += 1
        return [total, torch.stack(means), torch.tensor([count])]
    return call

def median(compiled):
    h, w = (601, 797) if data.large else (211, 293)
    u, v = uniform(12, h*w).reshape(h, w), uniform(13, h*w).reshape(h, w)
    y, x = np.mgrid[:h, :w]
    img = tensor(np.where(u < np.float32(0.05), 0, np.where(u > np.float32(0.95), 255, (y*3+x*2) % 200 + (v*np.float32(40)).astype(np.uint8))).astype(np.uint8))
    def call():
        p = functional.pad(img[None, None].float(), (2, 2, 2, 2), mode="reflect")[0, 0].to(torch.uint8)
        mid = p.unfold(0, 5, 1).unfold(1, 5, 1).reshape(h, w, 25).kthvalue(13, -1)[0]
        far = (img.int()-mid.int()).abs() > 30
        clean = torch.where(far, mid, img)
        q = functional.pad(clean[None, None].float(), (1, 1, 1, 1), mode="replicate")[0, 0].to(torch.uint8)
        mn, mx = torch.minimum, torch.maximum
        v = [q[d:d+h] for d in range(3)]
        low, high = mn(v[0], v[1]), mx(v[0], v[1])
        lo, mi, hi = mn(low, v[2]), mx(low, mn(high, v[2])), mx(high, v[2])
        n = lambda x, d: x[:, d:d+w]
        maxlo = mx(mx(n(lo, 0), n(lo, 1)), n(lo, 2)); minhi = mn(mn(n(hi, 0), n(hi, 1)), n(hi, 2))
        a, b, c = n(mi, 0), n(mi, 1), n(mi, 2)
        med = mx(mn(a, b), mn(mx(a, b), c))
        lm = mx(mn(maxlo, minhi), mn(mx(maxlo, minhi), med))
        return [mid, lm, far.sum(), torch.histc(lm.float(), 32, 0, 256).long()]
    return compiled(call)

def viterbi(compiled):
    b, steps, s = (67, 150, 91) if data.large else (21, 120, 37)
    trans = (tensor(uniform(14, s*s).reshape(s, s))*4).log_softmax(-1); emit = tensor(normal(15, b*steps*s).reshape(b, steps, s))
    def step(delta, e):
        m, i = (delta[:, :, None]+trans).max(1)
        return m+e, i
    step = compiled(step)
    def call():
        d, back = emit[:, 0], []
        for k in range(1, steps):
            d, i = step(d, emit[:, k]); back.append(i)
        st = d.argmax(1, keepdim=True); path = [st]
        for p in reversed(back): st = p.gather(1, st); path.append(st)
        return [d.amax(1), torch.cat(path[::-1], 1)]
    return call

def edit(compiled):
    b, m, n = (301, 233, 201) if data.large else (61, 133, 111)
    x, y = tensor(integers(16, b*m, 5).reshape(b, m).astype(np.int32)), tensor(integers(17, b*n, 5).reshape(b, n).astype(np.int32))
    lx, ly = tensor(integers(18, b, m//2).reshape(b, 1)+m//2), tensor(integers(19, b, n//2).reshape(b, 1)+n//2)
    big = 1000000
    sh = lambda d: functional.pad(d[:, :-1], (1, 0), value=big)
    def step(last, before, a, r):
        return torch.minimum(torch.minimum(last+1, sh(last)+1), sh(before)+(a != r).int())
    step = compiled(step)
    def call():
        a = functional.pad(x, (1, 0), value=-2); rev = functional.pad(y.flip(1), (m+1, m+1), value=-1)
        before = torch.full((b, m+1), big, dtype=torch.int32, device=data.device); last = before.clone(); last[:, 0] = 0
        tot, ans = lx+ly, torch.zeros((b, 1), dtype=torch.int32, device=data.device)
        for k in range(1, m+n+1):
            d = step(last, before, a, rev[:, m+1+n-k:2*m+2+n-k])
            ans = torch.where(tot == k, d.gather(1, lx), ans); before, last = last, d
        return [ans]
    return call


PROGRAMS = [adi, multigrid, euler_muscl, heston, ising, particles, median, viterbi, edit]
