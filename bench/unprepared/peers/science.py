"""Physics, statistics and signals in PyTorch: the programs of src/science.rs.

Each function returns a call; `compiled` wraps what torch.compile is to compile, and is the identity for eager runs."""
import math

import numpy as np
import torch
import torch.nn.functional as functional

import data
from data import integers, normal, normal_f64, tensor, uniform, uniform_f64


def md(compiled):
    side, k, steps = (13, 80, 30) if data.large else (9, 80, 30)
    n, a = side**3, 1.08; size, cut = side*a, 2.2
    p = np.arange(n); base = np.stack([p//(side*side), p//side % side, p % side], 1)*a
    x0 = tensor(base.astype(np.float32) + np.float32(0.03)*normal(20, n*3).reshape(n, 3)); v0 = tensor(normal(21, n*3).reshape(n, 3))*0.7
    eye = torch.eye(n, device=data.device)*1e9
    image = lambda d: d - (d/size).round().detach()*size
    def neighbours(x):
        d2 = image(x[:, None]-x[None]).square().sum(-1) + eye
        far, at = d2.topk(k, 1, largest=False)
        return far < (cut+0.3)**2, at
    def force(x, near, at):
        x = x.detach().requires_grad_()
        d = image(x[:, None]-x[at]); r2 = d.square().sum(-1)
        inside = (r2 < cut*cut) & near
        i6 = torch.where(inside, r2, 1.0).reciprocal()**3
        e = torch.where(inside, (i6.square()-i6)*4, 0.0).sum()*0.5
        return -torch.autograd.grad(e, x)[0], e.detach()
    if compiled is not data.eager:
        def energy(x, near, at):
            d = image(x[:, None]-x[at]); r2 = d.square().sum(-1)
            inside = (r2 < cut*cut) & near
            i6 = torch.where(inside, r2, 1.0).reciprocal()**3
            return torch.where(inside, (i6.square()-i6)*4, 0.0).sum()*0.5
        energy = compiled(energy); neighbours = compiled(neighbours)
        def force(x, near, at):
            x = x.detach().requires_grad_(); e = energy(x, near, at)
            return -torch.autograd.grad(e, x)[0], e.detach()
    def call():
        x, v, dt = x0, v0, 0.004; lst = neighbours(x); es = []; f, _ = force(x, *lst)
        for s in range(steps):
            v = v+f*(0.5*dt); x = x+v*dt
            if s % 10 == 9: lst = neighbours(x)
            f, e = force(x, *lst); v = v+f*(0.5*dt); es.append(e+v.square().sum()*0.5)
        return [torch.stack(es), x]
    return call

def fdtd(compiled):
    ny, nx, steps = (301, 343, 50) if data.large else (101, 123, 50)
    theta0 = tensor(normal(22, ny*nx).reshape(ny, nx))*0.1
    mask = torch.zeros(ny, nx, device=data.device); mask[20:-20, 30:-30] = 1
    ed = lambda n: np.maximum(8-np.minimum(np.arange(n), n-1-np.arange(n)), 0).astype(np.float32)/8
    damp = tensor(1-np.float32(0.3)*np.maximum(ed(ny)[:, None], ed(nx)[None])**2)
    my, left, right = ny//2, 12, nx-14
    src = torch.zeros(ny, nx, device=data.device); src[my-5:my+6, left] = 1
    def power(theta):
        gain = 0.5/(theta.sigmoid()*mask*2+1)
        ez = torch.zeros(ny, nx, device=data.device); hx = torch.zeros(ny-1, nx, device=data.device); hy = torch.zeros(ny, nx-1, device=data.device)
        p = torch.zeros((), device=data.device)
        for k in range(steps):
            hx = hx-(ez[1:]-ez[:-1])*0.5; hy = hy+(ez[:, 1:]-ez[:, :-1])*0.5
            curl = (hy[1:-1, 1:]-hy[1:-1, :-1])-(hx[1:, 1:-1]-hx[:-1, 1:-1])
            ez = ez+functional.pad(gain[1:-1, 1:-1]*curl, (1, 1, 1, 1))+src*math.sin(k*0.35)
            ez = ez*damp
            p = p+ez[my-8:my+9, left+18].square().sum()+ez[my, right].square()
        return p
    power = compiled(power)
    def call():
        th, ps = theta0, []
        for _ in range(2):
            leaf = th.detach().requires_grad_(); p = power(leaf); g, = torch.autograd.grad(p, leaf)
            th = th+g/(g.abs().amax()+1e-12)*0.5; ps.append(p.detach())
        return [torch.stack(ps), th]
    return call

def raymarch(compiled):
    h, w = (1081, 1923) if data.large else (271, 483)
    def scene(x, y, z):
        ball = ((x+0.7)**2+y*y+z*z).sqrt()-0.8; ring = ((x-0.9)**2+z*z).sqrt()-0.7
        tor = (ring*ring+y*y).sqrt()-0.25; k = (0.5+0.5*(tor-ball)/0.3).clamp(0, 1)
        return torch.minimum(tor+(ball-tor)*k-0.3*k*(1-k), y+0.85)
    def march(far, near, n, o, r):
        for _ in range(8):
            on = (near > 0.001) & (far < 20) & (n < 96)
            d = scene(o[0]+far*r[0], o[1]+far*r[1], o[2]+far*r[2])
            near = torch.where(on, d, near); far = torch.where(on, far+d, far); n = n+on.int()
        return far, near, n
    march = compiled(march)
    def call():
        tot, ns = torch.zeros(h, w, device=data.device), []
        i, j = torch.arange(h, device=data.device, dtype=torch.float32)[:, None], torch.arange(w, device=data.device, dtype=torch.float32)
        for fr in range(4):
            turn = torch.tensor(0.1+0.2*fr, device=data.device)
            u, v = (j-0.5*w)/h, (0.5*h-i)/h; lg = (u*u+v*v+1.44).sqrt(); dx, dy, dz = u/lg, v/lg, 1.2/lg
            c, s = turn.cos(), turn.sin(); rx, rz = c*dx+s*dz, c*dz-s*dx; o = (-4*s, torch.tensor(0.4, device=data.device), -4*c); r = (rx, dy, rz)
            far, near, n = torch.zeros(h, w, device=data.device), torch.ones(h, w, device=data.device), torch.zeros(h, w, dtype=torch.int32, device=data.device)
            for _ in range(12):
                far, near, n = march(far, near, n, o, r)
                if not ((near > 0.001) & (far < 20)).any().item(): break
            x, y, z = o[0]+far*rx, o[1]+far*dy, o[2]+far*rz; e = 0.001
            hr = scene(x, y, z); gx, gy, gz = scene(x+e, y, z)-hr, scene(x, y+e, z)-hr, scene(x, y, z+e)-hr
            nm = (gx*gx+gy*gy+gz*gz).sqrt()+1e-9; lt = ((0.5*gx+0.8*gy-0.33*gz)/nm).clamp(min=0)
            tot = tot+torch.where(far < 20, 0.1+0.9*lt, 0.0)**(1/2.2); ns.append(n.sum())
        return [functional.interpolate((tot/4)[None, None], (h//3, w//3), mode="area")[0], torch.stack(ns)]
    return call

def irls(compiled):
    n, p = (200003, 17) if data.large else (20011, 17)
    x = normal_f64(23, n*p).reshape(n, p).copy(); x[:, 0] = 1; x = tensor(x)
    y = x@tensor(normal_f64(24, p)) + tensor(normal_f64(25, n))*0.3 + torch.where(tensor(uniform_f64(26, n)) < 0.1, 15.0, 0.0).double()
    med = lambda v: (v.kthvalue((len(v)+1)//2)[0] if len(v) % 2 else 0.5*(v.kthvalue(len(v)//2)[0]+v.kthvalue(len(v)//2+1)[0]))
    def step(b):
        r = y-x@b; scale = med((r-med(r)).abs())/0.6745; u = r/(scale*4.685)
        w = torch.where(u.abs() < 1, (1-u.square()).square(), 0.0); xw = x*w[:, None]
        nx = torch.linalg.solve(xw.T@x, xw.T@y)
        return nx, (nx-b).abs().amax()/b.abs().amax()
    step = compiled(step)
    def call():
        b = torch.linalg.solve(x.T@x, x.T@y); k = 0
        while True:
            b, moved = step(b); k += 1
            if moved.item() < 1e-8 or k == 30: break
        return [b, torch.tensor([k])]
    return call

def pdhg(compiled):
    h, w = (1023, 1001) if data.large else (253, 301)
    i, j = np.mgrid[:h, :w]
    f = tensor(np.where((i//40+j//60) % 2 == 0, np.float32(0.8), np.float32(0.2))+np.float32(0.1)*normal(27, h*w).reshape(h, w))
    lam, tau, sig = 8.0, 0.25, 0.5
    grad = lambda u: (functional.pad(u.diff(dim=0), (0, 0, 0, 1)), functional.pad(u.diff(dim=1), (0, 1)))
    def step(u, py, px, bar):
        gy, gx = grad(bar); qy, qx = py+gy*sig, px+gx*sig
        nm = (qy.square()+qx.square()).sqrt().clamp(min=1); py, px = qy/nm, qx/nm
        d = functional.pad(py[:-1], (0, 0, 0, 1))-functional.pad(py[:-1], (0, 0, 1, 0))+functional.pad(px[:, :-1], (0, 1))-functional.pad(px[:, :-1], (1, 0))
        nx = (u+d*tau+f*(tau*lam))/(1+tau*lam)
        return nx, py, px, nx*2-u
    def energy(u):
        gy, gx = grad(u); return (gy.square()+gx.square()).sqrt().sum()+(u-f).square().sum()*(0.5*lam)
    step, energy = compiled(step), compiled(energy)
    def call():
        u, py, px = f, torch.zeros_like(f), torch.zeros_like(f); bar = u; es, last = [], float("inf")
        for k in range(100):
            u, py, px, bar = step(u, py, px, bar)
            if k % 10 == 9:
                e = energy(u).item(); es.append(e)
                if abs(last-e) < 1e-7*e: break
                last = e
        return [u, torch.tensor(es, dtype=torch.float64)]
    return call

def asof(compiled):
    nq, nt, syms = (700001, 400009, 57) if data.large else (70001, 40009, 57)
    qt = tensor(np.sort(integers(28, nq, nq*3))); bid = tensor(100+np.cumsum(0.01*normal_f64(29, nq)))
    tt, symbol, volume = tensor(integers(30, nt, nq*3)), tensor(integers(31, nt, syms)), tensor(integers(32, nt, 900).astype(np.int32)+1)
    def call():
        at = torch.searchsorted(qt, tt, right=True)-1; there = at >= 0
        price = torch.where(there, bid[at.clamp(min=0)], float("nan")); age = torch.where(there, tt-qt[at.clamp(min=0)], -1)
        var, mean = torch.var_mean(bid.unfold(0, 50, 1), -1)
        z = (((bid[49:]-mean)/(var+1e-9).sqrt()).abs() > 2).sum()
        key = tt//60*syms+symbol; srt, order = key.sort(stable=True)
        kp = torch.cat([srt[1:] != srt[:-1], torch.tensor([True], device=data.device)]); rows = order[kp]
        turn = price[rows]*volume[rows].double()
        cl = symbol % 3; ch = torch.cat([torch.tensor([False], device=data.device), cl[1:] != cl[:-1]])
        lengths = torch.bincount(ch.long().cumsum(0))
        v = torch.where(there, volume.double(), 0.0)
        z0 = torch.zeros(syms, dtype=torch.float64, device=data.device)
        vwap = z0.index_add(0, symbol, torch.where(there, price, 0.0)*v)/z0.index_add(0, symbol, v)
        return [age, mean, z, turn.nansum(), lengths, vwap, rows]
    return compiled(call)

def labels(compiled):
    h, w = (803, 1007) if data.large else (203, 307)
    f = tensor(uniform(33, h*w).reshape(h, w))
    for _ in range(5): f = (f.roll(1, 0)+f.roll(-1, 0)+f.roll(1, 1)+f.roll(-1, 1)+f)/5
    mask = f > 0.503
    def step(l):
        b = l
        for _ in range(4):
            p = functional.pad(l, (1, 1, 1, 1)); mx = torch.maximum
            l = torch.where(mask, mx(mx(mx(mx(p[2:, 1:-1], p[:-2, 1:-1]), p[1:-1, 2:]), p[1:-1, :-2]), l), 0)
        l = functional.pad(l.flatten(), (1, 0))[l]
        return l, (l != b).any()
    step = compiled(step)
    def call():
        l = torch.where(mask, torch.arange(1, h*w+1, device=data.device, dtype=torch.int32).reshape(h, w), 0); k = 0
        while True:
            l, ch = step(l); k += 1
            if not ch.item(): break
        nm, ct = torch.unique(l, return_counts=True)
        return [l, nm, ct, torch.tensor([k])]
    return call

def gray_scott(compiled):
    h, w, steps = (301, 307, 40) if data.large else (101, 107, 40)
    v0 = tensor(uniform(34, h*w).reshape(h, w))*0.5
    lap = lambda u: u.roll(1, 0)+u.roll(-1, 0)+u.roll(1, 1)+u.roll(-1, 1)-u*4
    def run(v0, feed, kill):
        u, v = 1-v0, v0
        for _ in range(steps):
            uvv = u*v.square()
            u, v = u+lap(u)*0.16-uvv+feed*(1-u), v+lap(v)*0.08+uvv-(feed+kill)*v
        return v
    target = run(v0, 0.035, 0.065)
    loss = compiled(lambda s, f, k: (run(s, f, k)-target).square().mean())
    def call():
        f, k, s = torch.tensor(0.05, device=data.device), torch.tensor(0.06, device=data.device), v0*0.9; ls = []
        for _ in range(3):
            f, k, s = (z.detach().requires_grad_() for z in (f, k, s))
            l = loss(s, f, k); gf, gk, gs = torch.autograd.grad(l, (f, k, s))
            with torch.no_grad(): f, k, s = f-gf*0.002, k-gk*0.002, (s-gs*100).clamp(0, 1)
            ls.append(l.detach())
        return [torch.stack(ls), torch.stack([f, k]), s]
    return call

def nw_tile(compiled):
    n, m, d = (2003, 1501, 6) if data.large else (703, 501, 6)
    x, q = tensor(normal(35, n*d).reshape(n, d)), tensor(normal(36, m*d).reshape(m, d))
    y = torch.stack([(x[:, 0]*2).sin(), x[:, 1]*x[:, 2], tensor(normal(37, n))], 1)
    inv = torch.tensor([1/(np.float32(h)*np.float32(h)) for h in (0.2, 0.3, 0.45, 0.6, 0.8, 1.1, 1.5)], device=data.device)
    eye = torch.eye(n, device=data.device, dtype=torch.bool)
    def s(q): return q@x.T - q.square().sum(1)[:, None]*0.5 - x.square().sum(1)[None]*0.5
    def call():
        a = (s(x)[None]*inv[:, None, None]).masked_fill(eye, -1e30)
        score = (a.softmax(-1)@y - y).square().mean((1, 2))
        return [score, (s(q)*inv[score.argmin()]).softmax(-1)@y]
    return compiled(call)

def fir_bf16(compiled):
    c, n, bank, taps = (16, 60011, 33, 63) if data.large else (5, 20011, 33, 63)
    x = tensor(normal(38, c*n).reshape(c, 1, n)).bfloat16()
    k = torch.arange(taps, device=data.device)-float(taps//2)
    h = ((torch.linspace(0.01, 0.45, bank, device=data.device)[:, None]*k*2*math.pi).cos()*torch.hann_window(taps, periodic=False, device=data.device))[:, None].bfloat16()
    def call():
        y = functional.conv1d(x, h, stride=3)
        db = (y.unfold(2, 128, 41).float().square().mean(-1)+1e-6).log10()*10
        i = db[:, :, 1:-1]; pk = (i > db[:, :, :-2]) & (i > db[:, :, 2:])
        return [db, pk.sum((0, 2)), db.argmax(1)]
    return compiled(call)


PROGRAMS = [md, fdtd, raymarch, irls, pdhg, asof, labels, gray_scott, nw_tile, fir_bf16]
