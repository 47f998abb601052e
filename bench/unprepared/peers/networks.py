"""Networks in PyTorch: the programs of src/networks.rs.

Each function takes inputs and what wraps the parts to compile, and returns a call."""
import math

import numpy as np
import torch
import torch.nn.functional as functional

from data import clip, sgd, track

bf = torch.bfloat16
def rotary(x, first):                                      # x [.., t, hd], halves
    hd = x.shape[-1]; t = x.shape[-2]
    inv = 1.0 / 10000 ** (torch.arange(0, hd, 2, device=x.device).float() / hd)
    a = torch.arange(first, first + t, device=x.device).float()[:, None] * inv
    c, s = a.cos(), a.sin(); x1, x2 = x.float().chunk(2, -1)
    return torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], -1).to(x.dtype)

def lora(cx, C):
    b, t, d, hq, hk, v, rank = cx.pick((2, 45, 96, 4, 2, 501, 4), (6, 93, 256, 8, 2, 2003, 8)); hd = d // hq; kv = hk * hd
    tok = cx.ints(1, v, b, t + 1); lens = cx.t(t - cx.intsv(2, t // 2, b)); emb = cx.n(3, (v, d), .5).to(bf)
    W = [[w.to(bf) for w in (cx.wt(s, d, d), cx.wt(s + 1, kv, d), cx.wt(s + 2, kv, d), cx.wt(s + 3, d, d), cx.wt(s + 4, 3 * d, d), cx.wt(s + 5, 3 * d, d), cx.wt(s + 6, d, 3 * d))] for s in (10, 20)]
    p0 = []
    for l in range(2):
        for k in range(2):
            s = 50 + l * 10 + k * 3; p0 += [cx.n(s, (rank, d), .1), cx.n(s + 1, (kv if k else d, rank), .02)]
    pos = torch.arange(t, device=cx.dev); seen = pos < lens[:, None]
    mask = ((pos[:, None] >= pos) & seen[:, None])[:, None]
    ad = lambda x, w, a, bb: functional.linear(x, w) + functional.linear(functional.linear(x, a.to(bf)), bb.to(bf)) * 2
    norm = lambda x: functional.rms_norm(x, (d,), eps=1e-5)
    def forward(*p):
        x = emb[tok[:, :t]]
        for l, w in enumerate(W):
            q = p[l * 4:]; h = norm(x); heads = lambda y, n: y.reshape(b, t, n, hd).transpose(1, 2)
            qq = rotary(heads(ad(h, w[0], q[0], q[1]), hq), 0); kk = rotary(heads(functional.linear(h, w[1]), hk), 0); vv = heads(ad(h, w[2], q[2], q[3]), hk)
            a = functional.scaled_dot_product_attention(qq, kk, vv, attn_mask=mask, enable_gqa=True)
            x = x + functional.linear(a.transpose(1, 2).reshape(b, t, d), w[3]); h = norm(x)
            x = x + functional.linear(functional.silu(functional.linear(h, w[4])) * functional.linear(h, w[5]), w[6])
        lg = functional.linear(norm(x), emb).float()
        ce = functional.cross_entropy(lg.reshape(-1, v), tok[:, 1:].reshape(-1), reduction="none").reshape(b, t)
        return torch.where(seen, ce, 0.).sum() / seen.sum()
    f = C(forward)
    def call():
        p = track(p0); opt = torch.optim.Adam(p, 2e-3); ls = []
        for _ in range(2):
            loss = f(*p); opt.zero_grad(); loss.backward(); opt.step(); ls.append(loss.detach())
        return {"loss": torch.stack(ls), "b": p[1].detach()}
    return call

def qat(cx, C):
    b, hw, c, classes = cx.pick((5, 21, 16, 10), (16, 33, 32, 10)); x = cx.n(1, (b, 3, hw, hw), 1.); y = cx.ints(2, classes, b)
    cw = lambda s, o, i, k: cx.n(s, (o, i, k, k), 1.4 / math.sqrt(i * k * k)); one = lambda n: torch.ones(n, device=cx.dev); zero = lambda n: torch.zeros(n, device=cx.dev)
    p0 = [cw(3, c, 3, 3), one(c), zero(c), cx.wt(4, classes, 4 * c)]
    for l in range(2):
        i = c << l; p0 += [cw(10 + l, i, 1, 3), one(i), zero(i), cw(20 + l, 2 * i, i, 1), one(2 * i), zero(2 * i)]
    def wq(w):
        s = w.detach().abs().amax((1, 2, 3), keepdim=True) / 127 + 1e-9; return w + ((w / s).round().clamp(-127, 127) * s - w).detach()
    def aq(x, r):
        r = r * .9 + x.detach().amax() * .1; s = r / 255 + 1e-9; q = (x / s).round().clamp(0, 255) * s; ins = (x <= r).float()
        return x * ins + (q - x * ins).detach(), r
    bn = lambda x, g, bb: functional.batch_norm(x, None, None, g, bb, training=True)
    def forward(p, ranges):
        R = list(ranges)
        h = bn(functional.conv2d(x, wq(p[0]), stride=2, padding=1), p[1], p[2]).relu(); h, R[0] = aq(h, R[0])
        for l in range(2):
            q = p[4 + 6 * l:]; z = bn(functional.conv2d(h, wq(q[0]), padding=1, groups=c << l, stride=1 + l), q[1], q[2]).clamp(0, 6)
            z, R[1 + 2 * l] = aq(z, R[1 + 2 * l]); z = bn(functional.conv2d(z, wq(q[3])), q[4], q[5]).clamp(0, 6); h, R[2 + 2 * l] = aq(z, R[2 + 2 * l])
        return functional.cross_entropy(functional.linear(h.mean((2, 3)), p[3]), y, label_smoothing=.1), R
    f = C(forward)
    def call():
        p = track(p0); R = [torch.tensor(2., device=cx.dev)] * 5; opt = torch.optim.SGD(p, .05, momentum=.9); ls = []
        for _ in range(2):
            loss, R = f(p, R); opt.zero_grad(); loss.backward(); opt.step(); ls.append(loss.detach())
        return {"loss": torch.stack(ls), "ranges": torch.stack(R), "w": p[0].detach()}
    return call

def flow(cx, C):
    n, d, h, k = cx.pick((700, 6, 48, 7), (4000, 10, 96, 9)); x = torch.tanh(cx.n(1, (n, d), 1.)) * 2 + cx.n(2, (n, d), .3); m = d // 2; out = m * (3 * k - 1)
    p0 = []
    for l in range(3): s = 10 + 10 * l; p0 += [cx.wt(s, h, m), cx.n(s + 1, (h,), .1), cx.wt(s + 2, h, h), cx.wt(s + 3, out, h) * .3]
    edge = 3.
    def spline(x, q):
        a, bq, c = q.split([k, k, k - 1], -1); ws = a.softmax(-1) * (1 - 1e-3 * k) + 1e-3; hs = bq.softmax(-1) * (1 - 1e-3 * k) + 1e-3
        kn = lambda w: functional.pad(w.cumsum(-1), (1, 0)) * (2 * edge) - edge
        cw, ch = kn(ws), kn(hs); der = functional.pad(functional.softplus(c) + 1e-3, (1, 1), value=1.)
        ins = x.abs() < edge; xi = torch.where(ins, x, 0.); bin = ((cw[..., :-1] <= xi[..., None]).sum(-1) - 1)[..., None]
        at = lambda t: t.gather(-1, bin).squeeze(-1)
        w, x0, y0, hg, d0, d1 = at(cw.diff(dim=-1)), at(cw[..., :-1]), at(ch[..., :-1]), at(ch.diff(dim=-1)), at(der[..., :-1]), at(der[..., 1:])
        s = hg / w; t = (xi - x0) / w; tt = t * (1 - t); den = s + (d0 + d1 - 2 * s) * tt
        y = y0 + hg * (s * t ** 2 + d0 * tt) / den; num = s ** 2 * (d1 * t ** 2 + 2 * s * tt + d0 * (1 - t) ** 2)
        return torch.where(ins, y, x), torch.where(ins, num.log() - 2 * den.log(), 0.)
    def forward(*p):
        z = x; ld = torch.zeros(n, device=cx.dev)
        for l in range(3):
            q = p[l * 4:]; a, bb = z[:, :m], z[:, m:]
            cc = functional.linear(functional.linear(functional.linear(a, q[0], q[1]).relu(), q[2]).relu(), q[3]).reshape(n, m, 3 * k - 1)
            bb, ll = spline(bb, cc); ld = ld + ll.sum(1); z = torch.cat([bb, a], 1)
        return (z.square().sum(1) * .5 + .5 * d * math.log(2 * math.pi) - ld).mean()
    f = C(forward)
    def call():
        p = track(p0); opt = torch.optim.Adam(p, 3e-3); ls = []
        for _ in range(3):
            loss = f(*p); opt.zero_grad(); loss.backward(); torch.nn.utils.clip_grad_norm_(p, 5.); opt.step(); ls.append(loss.detach())
        return {"loss": torch.stack(ls), "w": p[2].detach()}
    return call

A_ = [[.2], [3/40, 9/40], [44/45, -56/15, 32/9], [19372/6561, -25360/2187, 64448/6561, -212/729], [9017/3168, -355/33, 46732/5247, 49/176, -5103/18656], [35/384, 0, 500/1113, 125/192, -2187/6784, 11/84]]
C_ = [.2, .3, .8, 8/9, 1., 1.]; E_ = [71/57600, 0, -71/16695, 71/1920, -17253/339200, 22/525, -1/40]
def node(cx, C):
    n, d, h, tol = cx.pick((150, 6, 40, 1e-6), (1200, 10, 80, 1e-7)); y0 = cx.n64(1, (n, d), 1.)
    w1, b1, w2 = cx.n64(2, (d + 1, h), .8), cx.n64(3, (h,), .3), cx.n64(4, (h, d), .5)
    def f(t, y): return torch.tanh(torch.cat([y, t.expand(n, 1)], 1) @ w1 + b1) @ w2 - y * .3
    def step(t, dt, y, k1):
        k = [k1]
        for i in range(6):
            s = y
            for a, kk in zip(A_[i], k):
                if a: s = s + kk * (a * dt)
            k.append(f(t + C_[i] * dt, s))
        err = sum(kk * (e * dt) for e, kk in zip(E_, k) if e)
        return s, k[-1], (err / (torch.maximum(y.abs(), s.abs()) * tol + tol)).square().mean().sqrt()
    fs = C(step); T = lambda v: torch.tensor(v, dtype=torch.float64, device=cx.dev)
    def call():
        with torch.no_grad():
            t, dt, y, taken, rej = 0., .05, y0, 0, 0; k1 = f(T(t), y)
            while t < 3.:
                dt = min(dt, 3. - t); s, kl, nm = fs(T(t), T(dt), y, k1); nm = nm.item()
                if nm <= 1: t += dt; y, k1 = s, kl; taken += 1
                else: rej += 1
                dt *= min(max(.9 * max(nm, 1e-10) ** -.2, .2), 5.)
        return {"y": y, "steps": torch.tensor([taken, rej])}
    return call

def moco(cx, C):
    b, f, h, e, q = cx.pick((60, 150, 128, 40, 1000), (200, 300, 384, 96, 6000)); xa, xb = cx.n(1, (4, b, f), 1.), cx.n(2, (4, b, f), 1.)
    p0 = [cx.wt(3, h, f), cx.n(4, (h,), .1), cx.wt(5, h, h), cx.wt(6, e, h)]; queue0 = functional.normalize(cx.n(7, (q, e), 1.), dim=1)
    def enc(x, p):
        z = functional.linear(x, p[0], p[1]); z = (z - z.mean(0, keepdim=True)) / (z.var(0, keepdim=True, correction=0) + 1e-5).sqrt()
        return functional.normalize(functional.linear(functional.linear(z.relu(), p[2]).relu(), p[3]), dim=1)
    def forward(a, c, p, slow, queue):
        qv = enc(a, p)
        with torch.no_grad(): kv = enc(c, slow)
        lg = torch.cat([(qv * kv).sum(1, keepdim=True), qv @ queue.T], 1) / .2
        return functional.cross_entropy(lg, torch.zeros(b, dtype=torch.long, device=cx.dev)), kv, lg.argmax(1).eq(0).sum()
    fw = C(forward)
    def call():
        p = track(p0); slow = [t.clone() for t in p0]; queue = queue0.clone(); opt = torch.optim.SGD(p, .1, momentum=.9, weight_decay=1e-4); at = 0; ls, rt = [], []
        for s in range(4):
            with torch.no_grad(): torch._foreach_mul_(slow, .99); torch._foreach_add_(slow, [t.detach() for t in p], alpha=.01)
            loss, kv, r = fw(xa[s], xa[s] + xb[s] * .4, p, slow, queue.clone()); rt.append(r)
            opt.zero_grad(); loss.backward(); opt.step()
            end = min(at + b, q); queue[at:end] = kv[:end - at]
            if end < at + b: queue[:at + b - end] = kv[end - at:]
            at = (at + b) % q; ls.append(loss.detach())
        return {"loss": torch.stack(ls), "right": torch.stack(rt), "queue": queue[:300]}
    return call

def wgan(cx, C):
    b, t, c, z = cx.pick((7, 50, 20, 12), (24, 90, 48, 24)); real = cx.n(1, (3, b, 3, t), 1.).cumsum(-1) * .1; noise, mixu = cx.n(2, (4, b, z), 1.), cx.u(3, 3, b, 1, 1)
    cw = lambda s, o, i, k: cx.n(s, (o, i, k), 1.2 / math.sqrt(i * k))
    d0 = [cw(4, c, 3, 5), cx.n(5, (c,), .1), cw(6, 2 * c, c, 5), cx.n(7, (2 * c,), .1), cx.wt(8, 1, 2 * c)]; g0 = [cx.wt(9, c * t // 2, z), cw(10, c, c, 3), cw(11, 3, c, 5)]
    def critic(x, p):
        h = functional.leaky_relu(functional.conv1d(x, p[0], p[1], stride=2, padding=2), .2); h = functional.leaky_relu(functional.conv1d(h, p[2], p[3], stride=2, padding=2), .2)
        return functional.linear(h.square().mean(-1), p[4]).squeeze(-1)
    def gen(x, p):
        h = functional.silu(functional.linear(x, p[0]).reshape(b, c, t // 2).repeat_interleave(2, -1)); return torch.tanh(functional.conv1d(functional.silu(functional.conv1d(h, p[1], padding=1)), p[2], padding=2))
    cr, ge = C(critic), C(gen)
    def call():
        d, g = track(d0), track(g0); od, og = torch.optim.Adam(d, 1e-3), torch.optim.Adam(g, 1e-3); ls = []
        for s in range(3):
            with torch.no_grad(): fake = ge(noise[s], g)
            r, m = real[s], mixu[s]; mid = (r * m + fake * (1 - m)).requires_grad_()
            slope, = torch.autograd.grad(cr(mid, d).sum(), mid, create_graph=True); nm = (slope.square().sum((1, 2)) + 1e-12).sqrt()
            loss = cr(fake, d).mean() - cr(r, d).mean() + (nm - 1).square().mean() * 10
            od.zero_grad(); loss.backward(); od.step(); ls.append(loss.detach())
        loss = -cr(ge(noise[3], g), d).mean(); og.zero_grad(); loss.backward(); og.step(); ls.append(loss.detach())
        return {"loss": torch.stack(ls), "w": d[0].detach(), "g": g[2].detach()}
    return call

def dlrm(cx, C):
    b, rows, d, dense, tables = cx.pick((300, 3000, 18, 13, 7), (2000, 30000, 32, 13, 12)); x = cx.u(1, b, dense); y = (cx.u(2, b) < .3).float(); bags = []
    for t in range(tables):
        cnt = cx.intsv(10 + t, 6, b); bags.append((cx.ints(30 + t, rows, int(cnt.sum())), cx.t(np.concatenate([[0], cnt.cumsum()[:-1]]))))
    p0 = [cx.n(50 + t, (rows, d), .2) for t in range(tables)]; pairs = tables * (tables + 1) // 2
    p0 += [cx.wt(3, 64, dense), cx.wt(4, d, 64), cx.wt(5, 80, d + pairs), cx.wt(6, 1, 80)]; li, lj = torch.tril_indices(tables + 1, tables + 1, -1, device=cx.dev)
    def forward(p):
        bt = functional.linear(functional.linear(x.log1p(), p[tables]).relu(), p[tables + 1]).relu()
        z = torch.stack([bt] + [functional.embedding_bag(i, p[t], o, mode="sum") for t, (i, o) in enumerate(bags)], 1)
        dots = (z @ z.transpose(1, 2))[:, li, lj]
        return functional.binary_cross_entropy_with_logits(functional.linear(functional.linear(torch.cat([bt, dots], 1), p[tables + 2]).relu(), p[tables + 3]).squeeze(-1), y)
    f = C(forward)
    def call():
        p = track(p0); acc = [torch.zeros(rows, 1, device=cx.dev) if i < tables else torch.zeros_like(t) for i, t in enumerate(p0)]; ls = []
        for _ in range(2):
            loss = f(p); g = torch.autograd.grad(loss, p)
            with torch.no_grad():
                for i in range(len(p)):
                    acc[i] += g[i].square().mean(1, keepdim=True) if i < tables else g[i].square(); p[i] -= g[i] / (acc[i].sqrt() + 1e-8) * .02
            ls.append(loss.detach())
        return {"loss": torch.stack(ls), "table": p[0].detach()[:200], "w": p[tables + 2].detach()}
    return call

def muon(cx, C):
    n, f, h, classes = cx.pick((190, 60, 110, 13), (900, 150, 330, 40)); x = cx.n(1, (n, f), 1.).to(bf); y = cx.ints(2, classes, n); p0 = [cx.wt(3, h, f), cx.wt(4, classes, h)]
    for l in range(3): p0 += [cx.wt(10 + l, 2 * h, h), cx.wt(20 + l, h, 2 * h)]
    def zp(g):
        tall = g.shape[0] > g.shape[1]; a = (g.T if tall else g).to(bf); a = a / (a.square().sum().sqrt() + 1e-7)
        for _ in range(5): s = a @ a.T; bb = s * -4.775 + s @ s * 2.0315; a = a * 3.4445 + bb @ a
        return (a.T if tall else a).float() * math.sqrt(max(1., g.shape[0] / g.shape[1]))
    norm = lambda t: functional.rms_norm(t, (h,), eps=1e-6)
    def forward(*p):
        w = [t.to(bf) for t in p]; a = functional.linear(x, w[0])
        for l in range(3): a = a + functional.linear(functional.linear(norm(a), w[2 + 2 * l]).relu().square(), w[3 + 2 * l])
        return functional.cross_entropy(torch.tanh(functional.linear(norm(a), w[1]).float() / 15) * 15, y)
    fw, fz = C(forward), C(zp)
    def call():
        p = track(p0); buf = [torch.zeros_like(t) for t in p0]; ls = []
        for _ in range(2):
            loss = fw(*p); g = torch.autograd.grad(loss, p)
            with torch.no_grad():
                for i in range(len(p)):
                    buf[i].lerp_(g[i], .05); u = g[i] * .05 + buf[i] * .95; p[i].mul_(1 - .02 * .01).sub_(fz(u), alpha=.02)
            ls.append(loss.detach())
        return {"loss": torch.stack(ls), "w": p[0].detach()}
    return call

def decode(cx, C):
    d, hq, hk, v, steps, window, most = cx.pick((160, 5, 1, 1003, 24, 16, 40), (768, 12, 4, 8009, 40, 24, 64)); hd = d // hq; kv = hk * hd
    def quant(w):
        o, i = w.shape; g = w.reshape(o, i // 32, 32); s = g.abs().amax(-1, keepdim=True) / 127; return (g / s).round().to(torch.int8), s.to(bf)
    emb = cx.n(1, (v, d), .6).to(bf); head = quant(cx.n(2, (v, d), 1 / math.sqrt(d) * 3))
    L = [[quant(cx.wt(s, d + 2 * kv, d)), quant(cx.wt(s + 1, d, d)), quant(cx.wt(s + 2, 4 * d, d)), quant(cx.wt(s + 3, d, 2 * d))] for s in (10, 20, 30)]
    dice, start = cx.u(3, steps), cx.ints(4, v, 1)
    q8 = lambda x, ws: functional.linear(x, (ws[0].to(bf) * ws[1]).reshape(ws[0].shape[0], -1)); norm = lambda x: functional.rms_norm(x, (d,), eps=1e-5)
    inv = 1.0 / 10000 ** (torch.arange(0, hd, 2, device=cx.dev).float() / hd)
    def rot(x, pos):
        a = pos.float() * inv; c, s = a.cos(), a.sin(); x1, x2 = x.float().chunk(2, -1); return torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], -1).to(x.dtype)
    ar = torch.arange(most, device=cx.dev)
    def step(tok, pos, ks, vs, di):
        x = emb[tok]; mask = (ar <= pos) & (ar > pos - window)
        for l, w in enumerate(L):
            qkv = functional.linear(norm(x), (w[0][0].to(bf) * w[0][1]).reshape(w[0][0].shape[0], -1)).reshape(1, hq + 2 * hk, hd).transpose(0, 1)
            q = rot(qkv[:hq], pos); ks[l].index_copy_(1, pos, rot(qkv[hq:hq + hk], pos)); vs[l].index_copy_(1, pos, qkv[hq + hk:])
            a = functional.scaled_dot_product_attention(q[None], ks[l][None], vs[l][None], attn_mask=mask[None, None, None], enable_gqa=True)[0]
            x = x + q8(a.transpose(0, 1).reshape(1, d), w[1]); u, g = q8(norm(x), w[2]).chunk(2, -1); x = x + q8(functional.silu(u) * g, w[3])
        lg = q8(norm(x), head).float()[0]; top, idx = (lg / .8).topk(20)
        pick = (top.softmax(0).cumsum(0) < di).sum().clamp(max=19); return idx[pick][None]
    f = C(step)
    def call():
        with torch.no_grad():
            ks = [torch.zeros(hk, most, hd, dtype=bf, device=cx.dev) for _ in range(3)]; vs = [torch.zeros_like(k) for k in ks]; tok, out = start, []
            for i in range(steps): tok = f(tok, ar[i:i + 1], ks, vs, dice[i]).clone(); out.append(tok)
        return {"tokens": torch.cat(out)}
    return call

def nms(cx, C):
    a, c, f, gts = cx.pick((900, 5, 32, 14), (5000, 9, 64, 30)); feat = cx.n(1, (a, f), 1.); ce = cx.u(2, a, 2) * 100
    m, s = cx.u(3, gts, 2) * 100, cx.u(4, gts, 2) * 12 + 6; gt = torch.cat([m - s, m + s], 1); gc = cx.ints(5, c, gts)
    p0 = [cx.wt(6, 64, f), cx.wt(7, c, 64), cx.n(8, (c,), .1) - 2, cx.wt(9, 4, 64)]
    area = lambda b: (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    def iou(a, b):
        lo = torch.maximum(a[:, None, :2], b[:, :2]); hi = torch.minimum(a[:, None, 2:], b[:, 2:]); it = (hi - lo).clamp(0, 1e9).prod(-1); return it / (area(a)[:, None] + area(b) - it)
    def heads(p):
        h = functional.silu(functional.linear(feat, p[0])); o = functional.linear(h, p[3]).clamp(-2, 2).exp() * 8; return functional.linear(h, p[1], p[2]), torch.cat([ce - o[:, :2], ce + o[:, 2:]], 1)
    def forward(*p):
        lg, bx = heads(p); ov = iou(bx.detach(), gt); best, who = ov.max(1)
        forced = torch.zeros(a, dtype=torch.bool, device=cx.dev).index_fill(0, ov.argmax(0), True); pos = ((best > .3) | forced).float(); n = pos.sum().clamp(min=1.)
        t = functional.one_hot(gc[who], c).float() * pos[:, None]; pr = torch.sigmoid(lg); pt = pr * t + (1 - pr) * (1 - t)
        fo = (functional.binary_cross_entropy_with_logits(lg, t, reduction="none") * (1 - pt).square() * (t * .25 + (1 - t) * .75)).sum()
        g = gt[who]; it = (torch.minimum(bx[:, 2:], g[:, 2:]) - torch.maximum(bx[:, :2], g[:, :2])).clamp(0, 1e9).prod(1); un = area(bx) + area(g) - it
        hull = (torch.maximum(bx[:, 2:], g[:, 2:]) - torch.minimum(bx[:, :2], g[:, :2])).prod(1); gi = it / un - (hull - un) / hull
        return fo / n + ((1 - gi) * pos).sum() / n
    fw, fi = C(forward), C(iou)
    def call():
        p = track(p0); ls = []
        for _ in range(2):
            loss = fw(*p); sgd(p, clip(torch.autograd.grad(loss, p), 1.), .1); ls.append(loss.detach())
        with torch.no_grad():
            lg, bx = heads(p); s, cl = torch.sigmoid(lg).max(1); s, ix = s.topk(200); bx = bx[ix]; sh = bx + cl[ix].float()[:, None] * 1000
            ov = (fi(sh, sh) > .5).cpu().numpy(); keep = []
            for i in range(200):
                if not ov[keep, i].any(): keep.append(i)
            k = torch.tensor(keep, device=cx.dev)
        return {"loss": torch.stack(ls), "boxes": bx[k], "score": s[k]}
    return call
PROGRAMS = {"lora_bf16": lora, "qat_depthwise": qat, "spline_flow": flow, "node_dopri5": node, "moco_queue": moco, "wgan_gp": wgan, "dlrm_bags": dlrm, "muon_bf16": muon, "int8_decode": decode, "focal_nms": nms}
