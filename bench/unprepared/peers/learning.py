"""Training and search in PyTorch: the programs of src/learning.rs.

Each function takes inputs and what wraps the parts to compile, and returns a call."""
import math

import numpy as np
import torch
import torch.nn.functional as functional

from data import clip, sgd, track

def rwkv(cx, C):
    b, t, d, v = cx.pick((3, 29, 72, 203), (8, 61, 160, 1003))
    tok = cx.ints(1, v, b, t + 1)
    p0 = [cx.n(2, (v, d), 0.5), cx.wt(3, v, d)]
    for l in range(2):
        s = 10 + l * 20
        p0 += [cx.u(s + k, d) for k in range(4)] + [cx.n(s + 4, (d,), .5), cx.n(s + 5, (d,), .5)]
        p0 += [cx.wt(s + 6 + k, d, d) for k in range(4)] + [cx.wt(s + 10, 2 * d, d), cx.wt(s + 11, d, 2 * d), cx.wt(s + 12, d, d)]
    norm = lambda x: functional.rms_norm(x, (d,), eps=1e-5)
    def forward(*p):
        x = p[0][tok[:, :t]]
        for l in range(2):
            q = p[2 + l * 13:]
            h = norm(x); prev = functional.pad(h, (0, 0, 1, 0))[:, :t]
            mx = lambda m: h * m + prev * (1 - m)
            k, vv, r = functional.linear(mx(q[0]), q[6]), functional.linear(mx(q[1]), q[7]), torch.sigmoid(functional.linear(mx(q[2]), q[8]))
            w, u = -q[4].exp(), q[5]
            aa = torch.zeros(b, d, device=cx.dev); bb = torch.zeros_like(aa); pp = torch.full_like(aa, -1e30)
            out = []
            for i in range(t):
                kt, vt = k[:, i], vv[:, i]
                ww = u + kt; m = torch.maximum(pp, ww); e1, e2 = (pp - m).exp(), (ww - m).exp()
                out.append((e1 * aa + e2 * vt) / (e1 * bb + e2))
                ww = pp + w; m = torch.maximum(ww, kt); e1, e2 = (ww - m).exp(), (kt - m).exp()
                aa, bb, pp = e1 * aa + e2 * vt, e1 * bb + e2, m
            x = x + functional.linear(r * torch.stack(out, 1), q[9])
            h = norm(x); prev = functional.pad(h, (0, 0, 1, 0))[:, :t]
            m = h * q[3] + prev * (1 - q[3])
            x = x + torch.sigmoid(functional.linear(m, q[12])) * functional.linear(functional.linear(m, q[10]).relu().square(), q[11])
        return functional.cross_entropy(functional.linear(norm(x), p[1]).reshape(-1, v), tok[:, 1:].reshape(-1))
    f = C(forward)
    def call():
        p = track(p0); ls = []
        for _ in range(2):
            loss = f(*p); g = clip(torch.autograd.grad(loss, p), 1.0); sgd(p, g, 0.5); ls.append(loss.detach())
        return {"loss": torch.stack(ls), "decay": p[6].detach()}
    return call

def rvq(cx, C):
    n, f, d, k = cx.pick((1100, 40, 24, 150), (6000, 80, 48, 500))
    x = cx.n(1, (n, f), 1.0)
    p0 = [cx.wt(2, 128, f), cx.wt(3, d, 128), cx.wt(4, 128, d), cx.wt(5, f, 128)]
    books0 = [cx.n(10 + i, (k, d), 0.7 / (i + 1)) for i in range(3)]
    spare = cx.ints(20, n, k)
    def forward(p, books, size, mean):
        z = functional.linear(functional.gelu(functional.linear(x, p[0])), p[1])
        r, total, commit, used = z, torch.zeros_like(z), 0.0, []
        books, size, mean = list(books), list(size), list(mean)
        for b in range(3):
            c = books[b]; rd = r.detach()
            idx = (rd.square().sum(1, keepdim=True) - 2 * rd @ c.T + c.square().sum(1)).argmin(1)
            q = c[idx]; commit = commit + (r - q).square().mean()
            counts = torch.zeros(k, device=cx.dev).index_add(0, idx, torch.ones(n, device=cx.dev))
            sums = torch.zeros(k, d, device=cx.dev).index_add(0, idx, rd)
            size[b] = size[b] * .95 + counts * .05; mean[b] = mean[b] * .95 + sums * .05
            nn = size[b].sum(); smooth = (size[b] + 1e-5) / (nn + k * 1e-5) * nn
            books[b] = torch.where(size[b].lt(.9)[:, None], rd[spare], mean[b] / smooth[:, None])
            used.append((counts > 0).sum()); total = total + q; r = r - q
        zq = z + (total - z).detach()
        y = functional.linear(functional.gelu(functional.linear(zq, p[2])), p[3])
        return functional.mse_loss(y, x) + commit * .25, books, size, mean, used
    fw = C(forward)
    def call():
        p = track(p0); books = books0; size = [torch.ones(k, device=cx.dev)] * 3; mean = books0
        opt = torch.optim.Adam(p, 2e-3); ls, used = [], []
        for _ in range(4):
            loss, books, size, mean, u = fw(p, books, size, mean); used += u
            opt.zero_grad(); loss.backward(); opt.step(); ls.append(loss.detach())
        return {"loss": torch.stack(ls), "used": torch.stack(used), "book": books[2]}
    return call

def ppo(cx, C):
    t, n = cx.pick((40, 37), (96, 150)); o, a, h = 11, 5, 64
    s0 = cx.n(1, (n, o), 1.); ea, eb = cx.n(2, (o, o), .35), cx.n(3, (a, o), .5)
    gum = -torch.log(-torch.log(cx.u(4, t, n, a) * 0.999 + 5e-4)); done = cx.u(5, t, n) < .04; keys = cx.u(6, 3, t * n)
    p0 = [cx.wt(7, h, o), cx.n(8, (h,), .1), cx.wt(9, a, h), cx.wt(10, h, o), cx.n(11, (h,), .1), cx.wt(12, 1, h)]
    def policy(p, s): return functional.linear(torch.tanh(functional.linear(s, p[0], p[1])), p[2]), functional.linear(torch.tanh(functional.linear(s, p[3], p[4])), p[5]).squeeze(-1)
    def act_env(p, s, g, dn):
        logits, v = policy(p, s); act = (logits + g).argmax(-1)
        lp = logits.log_softmax(-1).gather(-1, act[:, None]).squeeze(-1)
        nx = torch.tanh(s @ ea + functional.one_hot(act, a).float() @ eb)
        return act, lp, v, 1 - nx.square().mean(-1) - nx[:, 0].abs(), torch.where(dn[:, None], s0, nx)
    def loss_fn(p, ob, ac, lo, ad, re):
        ad = (ad - ad.mean()) / (ad.std() + 1e-8)
        logits, v = policy(p, ob); al = logits.log_softmax(-1)
        ratio = (al.gather(-1, ac[:, None]).squeeze(-1) - lo).exp()
        pg = torch.minimum(ratio * ad, ratio.clamp(.8, 1.2) * ad).mean()
        return -pg + (v - re).square().mean() * .5 + (al.exp() * al).sum(-1).mean() * .01
    fe, fl = C(act_env), C(loss_fn)
    def call():
        p = track(p0); opt = torch.optim.Adam(p, 3e-3); ls = []
        with torch.no_grad():
            s = s0; R = []; obs = []
            for i in range(t):
                obs.append(s); *r, s = fe(p, s, gum[i], done[i]); R.append(r)
            acts, logps, vals, rews = (torch.stack([r[j] for r in R]) for j in range(4))
            obs = torch.stack(obs); vals = torch.cat([vals, policy(p, s)[1][None]])
            adv = torch.zeros(t, n, device=cx.dev); last = torch.zeros(n, device=cx.dev)
            for i in reversed(range(t)):
                live = (~done[i]).float()
                last = rews[i] + vals[i + 1] * .99 * live - vals[i] + live * .99 * .95 * last; adv[i] = last
        ret = (adv + vals[:t]).reshape(-1)
        obs, acts, logps, adv = obs.reshape(-1, o), acts.reshape(-1), logps.reshape(-1), adv.reshape(-1)
        size = t * n // 4
        for e in range(3):
            perm = keys[e].argsort(stable=True)
            for m in range(4):
                ix = perm[m * size:(m + 1) * size]
                loss = fl(p, obs[ix], acts[ix], logps[ix], adv[ix], ret[ix])
                opt.zero_grad(); loss.backward(); torch.nn.utils.clip_grad_norm_(p, .5); opt.step(); ls.append(loss.detach())
        return {"loss": torch.stack(ls), "adv": adv, "w": p[2].detach()}
    return call

def ddim(cx, C):
    b, hw, c, steps = cx.pick((1, 22, 18, 6), (3, 30, 36, 10))
    cw = lambda s, o, i, k: cx.n(s, (o, i, k, k), 1 / math.sqrt(i * k * k))
    x0 = cx.n(1, (b, 3, hw, hw), 1.); label = cx.n(2, (b, 4 * c), 1.)
    temb = [cx.wt(3, 4 * c, 32), cx.wt(4, 4 * c, 4 * c)]
    res = lambda s, i, o: [cw(s, o, i, 3), cw(s + 1, o, o, 3), cx.wt(s + 2, o, 4 * c), cw(s + 3, o, i, 1), cx.n(s + 4, (o,), .1)]
    w_in, w_down, w_up, w_out = cw(5, c, 3, 3), cw(6, 2 * c, c, 3), cw(7, c, 2 * c, 3), cw(8, 3, c, 3)
    r1, r2, r3, r4 = res(20, c, c), res(30, 2 * c, 2 * c), res(40, 2 * c, 2 * c), res(50, 2 * c, c)
    wq, wo = cx.wt(60, 6 * c, 2 * c), cx.wt(61, 2 * c, 2 * c)
    gn = lambda x: functional.group_norm(x, 6)
    def block(x, e, w):
        h = functional.conv2d(functional.silu(gn(x)), w[0], w[4], padding=1) + functional.linear(e, w[2])[:, :, None, None]
        return functional.conv2d(functional.silu(gn(h)), w[1], padding=1) + functional.conv2d(x, w[3])
    freq = (torch.arange(16, device=cx.dev).float() * (-math.log(10000) / 16)).exp()
    def unet(x, t, y):
        a = freq * t
        e = functional.linear(functional.silu(functional.linear(torch.cat([a.sin(), a.cos()])[None], temb[0])), temb[1]); e = functional.silu(e + y)
        h1 = block(functional.conv2d(x, w_in, padding=1), e, r1)
        h2 = block(functional.conv2d(h1, w_down, padding=1, stride=2), e, r2)
        n, ch, s, _ = h2.shape
        tokens = gn(h2).reshape(n, ch, s * s).transpose(1, 2)
        q, k, v = functional.linear(tokens, wq).reshape(n, s * s, 3, 2, ch // 2).permute(2, 0, 3, 1, 4)
        att = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, s * s, ch)
        h2 = h2 + functional.linear(att, wo).transpose(1, 2).reshape(n, ch, s, s)
        h3 = block(h2, e, r3)
        up = functional.conv2d(functional.interpolate(h3, (hw, hw), mode="nearest"), w_up, padding=1)
        return functional.conv2d(functional.silu(gn(block(torch.cat([up, h1], 1), e, r4))), w_out, padding=1)
    f = C(unet)
    bar = lambda t: math.cos((t / 1000 + .008) / 1.008 * math.pi / 2) ** 2
    def call():
        with torch.no_grad():
            x = x0; both = torch.cat([label, torch.zeros_like(label)])
            for i in range(steps, 0, -1):
                t, s = 950. * i / steps, 950. * (i - 1) / steps; at, as_ = bar(t), bar(s)
                eps = f(torch.cat([x, x]), torch.tensor(t, device=cx.dev), both); eps = eps[b:] + (eps[:b] - eps[b:]) * 2.5
                clean = ((x - eps * math.sqrt(1 - at)) / math.sqrt(at)).clamp(-3, 3)
                x = clean * math.sqrt(as_) + eps * math.sqrt(1 - as_)
        return {"x": x}
    return call

def nerf(cx, C):
    rays, samples, levels, bits = cx.pick((230, 21, 6, 12), (1500, 30, 8, 15))
    orig, dr = cx.u(1, rays, 1, 3) * .3 + .1, functional.normalize(cx.u(2, rays, 1, 3) - .2, dim=-1)
    target, jitter = cx.u(3, rays, 3), cx.u(4, rays, samples, 1)
    p0 = [cx.n(5, (levels << bits, 2), .1), cx.wt(6, 48, levels * 2), cx.wt(7, 16, 48), cx.wt(8, 48, 25), cx.wt(9, 3, 48)]
    sa = torch.arange(samples, device=cx.dev).float().reshape(1, -1, 1)
    corners = torch.tensor([[i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(8)], device=cx.dev); primes = torch.tensor([1, 2654435761, 805459861], device=cx.dev)
    def render(*p):
        depth = (sa + jitter) / samples
        x = (orig + dr * depth).clamp(0, 1)
        dx, dy, dz = dr.split(1, -1)
        sh = torch.cat([torch.ones_like(dx), dx, dy, dz, dx * dy, dy * dz, dx * dz, dx ** 2 - dy ** 2, dz ** 2 * 3 - 1], -1).expand(rays, samples, 9).reshape(-1, 9)
        flat = x.reshape(-1, 3); feats = []
        for l in range(levels):
            res = math.floor(8 * 1.6 ** l); pos = flat * res; low = pos.floor(); fr = (pos - low)[:, None]
            h = (low.long()[:, None] + corners) * primes
            h = (h[..., 0] ^ h[..., 1] ^ h[..., 2]) & ((1 << bits) - 1)
            e = functional.embedding(h + (l << bits), p[0]); c = corners.float()
            feats.append((e * (c * fr + (1 - c) * (1 - fr)).prod(-1)[..., None]).sum(1))
        h = functional.linear(functional.linear(torch.cat(feats, -1), p[1]).relu(), p[2])
        sigma = functional.softplus(h[:, 0]).reshape(rays, samples)
        rgb = torch.sigmoid(functional.linear(functional.linear(torch.cat([h, sh], -1), p[3]).relu(), p[4])).reshape(rays, samples, 3)
        tt = depth.squeeze(-1); delta = torch.cat([tt.diff(dim=-1), torch.full((rays, 1), .05, device=cx.dev)], -1)
        alpha = 1 - torch.exp(-sigma * 20 * delta); trans = (1 - alpha + 1e-10).cumprod(-1)
        trans = torch.cat([torch.ones(rays, 1, device=cx.dev), trans[:, :-1]], -1)
        return functional.mse_loss(((alpha * trans)[..., None] * rgb).sum(1), target)
    f = C(render)
    def call():
        p = track(p0); opt = torch.optim.Adam(p, 1e-2); ls = []
        for _ in range(3):
            loss = f(*p); opt.zero_grad(); loss.backward(); opt.step(); ls.append(loss.detach())
        return {"loss": torch.stack(ls), "table": p[0].detach()[:500], "w": p[4].detach()}
    return call

def gat(cx, C):
    n, e, f, heads, hid, classes = cx.pick((1700, 9000, 50, 3, 8, 7), (9000, 70000, 96, 4, 16, 11))
    loops = np.arange(n); src = cx.t(np.concatenate([cx.intsv(1, n, e), loops])); dst = cx.t(np.concatenate([cx.intsv(2, n, e), loops]))
    x, y, tr = cx.n(3, (n, f), 1.), cx.ints(4, classes, n), cx.u(5, n) < .3
    p0 = [cx.wt(6, heads * hid, f), cx.n(7, (heads, hid), .3), cx.n(8, (heads, hid), .3), cx.wt(9, heads * classes, heads * hid), cx.n(10, (heads, classes), .3), cx.n(11, (heads, classes), .3)]
    def layer(x, w, al, ar):
        h = functional.linear(x, w).reshape(n, heads, -1); l, r = (h * al).sum(-1), (h * ar).sum(-1)
        s = functional.leaky_relu(l[src] + r[dst], .2)
        top = torch.full((n, heads), -math.inf, device=cx.dev).scatter_reduce(0, dst[:, None].expand(-1, heads), s.detach(), "amax")
        w = (s - top[dst]).exp(); z = torch.zeros(n, heads, device=cx.dev).index_add(0, dst, w)
        return torch.zeros(n, heads, h.shape[2], device=cx.dev).index_add(0, dst, (w / z[dst])[..., None] * h[src])
    def forward(*p):
        h = functional.elu(layer(x, *p[:3]).reshape(n, -1)); logits = layer(h, *p[3:]).mean(1)
        ce = functional.cross_entropy(logits, y, reduction="none")
        return torch.where(tr, ce, 0.).sum() / tr.sum()
    fw = C(forward)
    def call():
        p = track(p0); opt = torch.optim.Adam(p, 5e-3); ls = []
        for _ in range(3):
            loss = fw(*p); opt.zero_grad(); loss.backward(); opt.step(); ls.append(loss.detach())
        return {"loss": torch.stack(ls), "w": p[3].detach()}
    return call

def ctc(cx, C):
    b, t, f, c, l, v = cx.pick((5, 125, 40, 48, 17, 29), (12, 301, 80, 96, 41, 29))
    x = cx.n(1, (b, f, t), 1.); t2 = (t - 5) // 2 + 1
    lens = cx.t(t2 - cx.intsv(2, t2 // 3, b)); tl = cx.t(l - cx.intsv(3, l // 2, b)); lab = cx.ints(4, v - 1, b, l) + 1
    cw = lambda s, o, i, k: cx.n(s, (o, i, k), 1 / math.sqrt(i * k))
    p0 = [cw(5, c, f, 5), cw(6, 2 * c, c, 3), cw(7, 2 * c, c, 3), cx.wt(8, v, c), cx.n(9, (v,), .1)]
    def forward(*p):
        h = functional.conv1d(x, p[0], stride=2).relu()
        for k, dil in ((1, 2), (2, 4)):
            a, g = functional.conv1d(h, p[k], dilation=dil, padding=dil).chunk(2, 1); h = h + torch.tanh(a) * torch.sigmoid(g)
        logp = functional.linear(h.transpose(1, 2), p[3], p[4]).log_softmax(-1)
        return functional.ctc_loss(logp.transpose(0, 1), lab, lens, tl)
    fw = C(forward)
    def call():
        p = track(p0); ls = []
        for _ in range(2):
            loss = fw(*p); sgd(p, clip(torch.autograd.grad(loss, p), 1.), .3); ls.append(loss.detach())
        return {"loss": torch.stack(ls), "w": p[3].detach()}
    return call

def crf(cx, C):
    b, t, v, d, h, k = cx.pick((14, 27, 500, 36, 30, 13), (32, 51, 2000, 96, 100, 17))
    tok, tags = cx.ints(1, v, b, t), cx.ints(2, k, b, t); lens = cx.t(t - cx.intsv(3, t - 8, b))
    class M(torch.nn.Module):
        def __init__(s):
            super().__init__(); s.emb = torch.nn.Embedding(v, d); s.lstm = torch.nn.LSTM(d, h, batch_first=True, bidirectional=True); s.head = torch.nn.Linear(2 * h, k); s.trans = torch.nn.Parameter(torch.zeros(k, k))
    m = M().to(cx.dev)
    order = ["emb.weight"] + ["lstm." + x for x in [f"{w}_l0{r}" for r in ("", "_reverse") for w in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]] + ["head.weight", "head.bias", "trans"]
    st0 = {nm: cx.n(50 + i, tuple(m.state_dict()[nm].shape), 1 / math.sqrt(m.state_dict()[nm].shape[-1])) for i, nm in enumerate(order)}
    mask = torch.arange(t, device=cx.dev) < lens[:, None]; fm = mask.float()
    def forward(e, trans):
        alpha = e[:, 0]
        for i in range(1, t): alpha = torch.where(mask[:, i:i + 1], (alpha[:, :, None] + trans).logsumexp(1) + e[:, i], alpha)
        unary = (e.gather(2, tags[..., None]).squeeze(2) * fm).sum(1); pair = (trans[tags[:, :-1], tags[:, 1:]] * fm[:, 1:]).sum(1)
        return (alpha.logsumexp(1) - unary - pair).mean()
    def viterbi(e, trans):
        sc, back, ar = e[:, 0], [], torch.arange(k, device=cx.dev)
        for i in range(1, t):
            top, ix = (sc[:, :, None] + trans).max(1); live = mask[:, i:i + 1]
            back.append(torch.where(live, ix, ar)); sc = torch.where(live, top + e[:, i], sc)
        at = sc.argmax(1)[:, None]; path = [at]
        for q in reversed(back): at = q.gather(1, at); path.append(at)
        return torch.where(mask, torch.cat(path[::-1], 1), -1)
    fw, fv = C(forward), C(viterbi)
    def call():
        m.load_state_dict(st0); opt = torch.optim.AdamW(m.parameters(), 1e-2, weight_decay=0.01); ls = []
        em = lambda: m.head(m.lstm(m.emb(tok))[0])
        for _ in range(2):
            loss = fw(em(), m.trans); opt.zero_grad(); loss.backward(); opt.step(); ls.append(loss.detach())
        with torch.no_grad(): path = fv(em(), m.trans)
        return {"loss": torch.stack(ls), "path": path, "trans": m.trans.detach().clone()}
    return call

def beam(cx, C):
    b, k, d, heads, v, steps = cx.pick((2, 4, 96, 4, 611, 18), (4, 5, 256, 8, 3001, 40))
    emb = cx.n(1, (v, d), .6); L = [[cx.wt(s, 3 * d, d), cx.wt(s + 1, d, d), cx.wt(s + 2, 4 * d, d), cx.wt(s + 3, d, 4 * d)] for s in (10, 20)]
    pos = cx.n(3, (steps, d), .3); start = cx.ints(4, v, b, 1).expand(b, k).reshape(-1); hd = d // heads
    ln = lambda x: functional.layer_norm(x, (d,))
    only = torch.full((v,), -1e9, device=cx.dev); only[0] = 0.
    base = (torch.arange(b, device=cx.dev) * k)[:, None]
    def step(tok, ps, caches, score, done):
        x = emb[tok] + ps; new = []
        for w, (pk, pv) in zip(L, caches):
            q, kk, vv = functional.linear(ln(x), w[0]).reshape(b * k, 1, 3, heads, hd).permute(2, 0, 3, 1, 4)
            kk, vv = torch.cat([pk, kk], 2), torch.cat([pv, vv], 2); new.append((kk, vv))
            x = x + functional.linear(functional.scaled_dot_product_attention(q, kk, vv).reshape(b * k, d), w[1])
            x = x + functional.linear(functional.gelu(functional.linear(ln(x), w[2])), w[3])
        lp = functional.linear(ln(x), emb).log_softmax(-1).reshape(b, k, v); lp = torch.where(done[..., None], only, lp)
        score, idx = (score[..., None] + lp).reshape(b, k * v).topk(k, -1)
        fr = idx // v; tok = (idx % v).reshape(-1); done = done.gather(1, fr) | (tok.reshape(b, k) == 0)
        rows = (fr + base).reshape(-1)
        return tok, [(a[rows], c[rows]) for a, c in new], score, done, rows
    f = C(step, dynamic=True)
    def call():
        with torch.no_grad():
            e = torch.empty(b * k, heads, 0, hd, device=cx.dev); caches = [(e, e), (e, e)]; tok = start
            score = torch.full((b, k), -1e9, device=cx.dev); score[:, 0] = 0.; done = torch.zeros(b, k, dtype=torch.bool, device=cx.dev); seq = torch.empty(b * k, 0, dtype=torch.long, device=cx.dev)
            for i in range(steps):
                tok, caches, score, done, rows = f(tok, pos[i], caches, score, done); seq = torch.cat([seq[rows], tok[:, None]], 1)
        return {"seq": seq, "score": score}
    return call
PROGRAMS = {"rwkv_train": rwkv, "rvq_ema": rvq, "ppo_gae": ppo, "ddim_unet": ddim, "hashgrid_nerf": nerf, "gat_edges": gat, "ctc_audio": ctc, "crf_lstm": crf, "beam_kv": beam}
