"""Models in PyTorch: the programs of src/models.rs.

Each function takes inputs and what wraps the parts to compile, and returns a call."""
import math

import numpy as np
import torch
import torch.nn.functional as functional

from data import clip, sgd, track


def rms(x): return functional.rms_norm(x, x.shape[-1:], eps=1e-5)


def trained(cx, C, p0, forward, steps, optimiser, most=None):
    """A call that trains and returns losses and parameters."""
    forward = C(forward)
    def call():
        p = track(p0); opt = optimiser(p); ls = []
        for _ in range(steps):
            loss = forward(p); opt.zero_grad(); loss.backward()
            if most: torch.nn.utils.clip_grad_norm_(p, most)
            opt.step(); ls.append(loss.detach())
        return torch.stack(ls), p
    return call


def mamba(cx, C):
    b, t, d, n, v = cx.pick((2, 48, 32, 8, 100), (8, 192, 192, 16, 1000)); e, rank = 2 * d, d // 16
    tokens = cx.ints(1, v, b, t + 1); p0 = [cx.n(2, (v, d), 0.5), cx.wt(3, v, d)]
    for l in range(2):
        s = 10 + 10 * l
        p0 += [cx.wt(s, 2 * e, d), cx.n(s + 1, (e, 1, 4), 0.4), cx.wt(s + 2, rank + 2 * n, e), cx.wt(s + 3, e, rank), cx.n(s + 4, (e,), 0.3) - 2,
               (torch.arange(n, device=cx.dev).float() + 1).log().expand(e, n).clone(), cx.n(s + 5, (e,), 0.1) + 1, cx.wt(s + 6, d, e)]
    def forward(*p):
        x = p[0][tokens[:, :t]]
        for l in range(2):
            q = p[2 + 8 * l:]
            u, z = functional.linear(rms(x), q[0]).split(e, -1)
            u = functional.silu(functional.conv1d(u.mT, q[1], padding=3, groups=e)[..., :t].mT)
            low, bb, cc = functional.linear(u, q[2]).split([rank, n, n], -1)
            delta = functional.softplus(functional.linear(low, q[3], q[4]))
            decay = (delta[..., None] * -q[5].exp()).exp(); inp = (delta * u)[..., None] * bb[:, :, None]
            h = torch.zeros(b, e, n, device=cx.dev); ys = []
            for i in range(t):
                h = decay[:, i] * h + inp[:, i]; ys.append((h * cc[:, i, None]).sum(-1))
            x = x + functional.linear((torch.stack(ys, 1) + u * q[6]) * functional.silu(z), q[7])
        return functional.cross_entropy(functional.linear(rms(x), p[1]).reshape(-1, v), tokens[:, 1:].reshape(-1))
    f = C(forward)
    def call():
        p = track(p0); ls = []
        for _ in range(2):
            loss = f(*p); g = clip(torch.autograd.grad(loss, p), 1.0); sgd(p, g, 0.3); ls.append(loss.detach())
        return {"loss": torch.stack(ls), "a": p[7].detach()}
    return call


def moe_top2(cx, C):
    tokens, d, h, experts = cx.pick((300, 32, 64, 8), (8000, 256, 512, 16)); capacity = tokens * 2 // experts * 5 // 4
    x, target = cx.n(1, (tokens, d), 1.0), cx.n(2, (tokens, d), 1.0)
    p0 = [cx.wt(3, experts, d), cx.n(4, (experts, d, h), d**-0.5), cx.n(5, (experts, h, d), h**-0.5)]
    source = torch.arange(tokens, device=cx.dev).repeat(2)
    def forward(p):
        gates = functional.linear(x, p[0]).softmax(-1); weights, chosen = gates.topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True); flat = chosen.T.reshape(-1)
        marks = functional.one_hot(flat, experts); slot = (marks.cumsum(0) * marks).sum(-1) - 1
        fits = slot < capacity; to = torch.where(fits, flat * capacity + slot, experts * capacity)
        queue = torch.zeros(experts * capacity + 1, d, device=cx.dev).index_add(0, to, x[source])
        out = (functional.gelu(queue[:-1].reshape(experts, capacity, d) @ p[1]) @ p[2]).reshape(experts * capacity, d)
        out = torch.cat([out, torch.zeros(1, d, device=cx.dev)])[to] * weights.T.reshape(-1, 1)
        y = torch.zeros(tokens, d, device=cx.dev).index_add(0, source, out)
        balance = (marks[:tokens].float().mean(0) * gates.mean(0)).sum() * experts
        return functional.mse_loss(y, target) + balance * 0.01, (~fits).sum()
    forward = C(forward)
    def call():
        p = track(p0); opt = torch.optim.Adam(p, 1e-3); ls, ds = [], []
        for _ in range(3):
            loss, dropped = forward(p); opt.zero_grad(); loss.backward(); opt.step(); ls.append(loss.detach()); ds.append(dropped)
        return {"loss": torch.stack(ls), "dropped": torch.stack(ds), "router": p[0].detach()}
    return call


def egnn(cx, C):
    graphs, atoms, degree, d = cx.pick((8, 12, 6, 24), (128, 20, 10, 64)); nodes = graphs * atoms
    position0, kind = cx.n(1, (nodes, 3), 1.0), cx.ints(2, 5, nodes)
    energy, force = cx.n(3, (graphs,), 1.0), cx.n(4, (nodes, 3), 0.3)
    offset = cx.ints(5, atoms - 1, nodes, degree) + 1; node = torch.arange(nodes, device=cx.dev)
    to, graph = node.repeat_interleave(degree), node // atoms
    source = ((node[:, None] % atoms + offset) % atoms + graph[:, None] * atoms).reshape(-1)
    p0 = [cx.n(6, (5, d), 0.5)]
    for l in range(2):
        s = 10 + 10 * l
        p0 += [cx.wt(s, d, 2 * d + 1), cx.wt(s + 1, d, d), cx.wt(s + 2, d, d), cx.wt(s + 3, 1, d) * 0.1, cx.wt(s + 4, d, 2 * d), cx.wt(s + 5, d, d)]
    p0.append(cx.wt(40, 1, d)); lin, silu = functional.linear, functional.silu
    def forward(p):
        start = position0.clone().requires_grad_(); x, h = start, p[0][kind]
        for l in range(2):
            q = p[1 + 6 * l:]
            apart = x[to] - x[source]; d2 = apart.square().sum(1, keepdim=True)
            m = silu(lin(silu(lin(torch.cat([h[to], h[source], d2], 1), q[0])), q[1]))
            moves = apart / (d2 + 1) * lin(silu(lin(m, q[2])), q[3])
            x = x + torch.zeros(nodes, 3, device=cx.dev).index_add(0, to, moves) / degree
            seen = torch.zeros(nodes, d, device=cx.dev).index_add(0, to, m)
            h = h + lin(silu(lin(torch.cat([h, seen], 1), q[4])), q[5])
        each = lin(h, p[13]).squeeze(1) + x.square().sum(1) * 0.1
        total = torch.zeros(graphs, device=cx.dev).index_add(0, graph, each)
        pull = -torch.autograd.grad(total.sum(), start, create_graph=True)[0]
        return functional.mse_loss(total, energy) + functional.mse_loss(pull, force) * 10
    run = trained(cx, lambda f: f, p0, forward, 2, lambda p: torch.optim.Adam(p, 1e-3), 10.0)
    def call():
        ls, p = run()
        return {"loss": ls, "w": p[3].detach()}
    return call


def unet_gn(cx, C):
    b, size, c, classes = cx.pick((2, 32, 8, 4), (8, 128, 32, 8))
    x, label = cx.n(1, (b, 3, size, size), 1.0), cx.ints(2, classes, b, size, size)
    conv = lambda s, o, i, k: cx.n(s, (o, i, k, k), (2 / (i * k * k))**0.5)
    p0 = []
    for l, (i, o) in enumerate(((3, c), (c, 2 * c), (2 * c, 4 * c), (4 * c, 2 * c), (2 * c, c))):
        s = 10 + 10 * l
        p0 += [conv(s, o, i, 3), cx.n(s + 1, (o,), 0.1) + 1, cx.n(s + 2, (o,), 0.1), conv(s + 3, o, o, 3)]
    p0 += [conv(70, 4 * c, 2 * c, 2), conv(71, 2 * c, c, 2), conv(72, classes, c, 1)]
    def block(x, q):
        h = functional.group_norm(functional.conv2d(x, q[0], padding=1), 4, q[1], q[2], 1e-5).relu()
        return functional.conv2d(h, q[3], padding=1).relu()
    def forward(p):
        h1 = block(x, p); h2 = block(functional.max_pool2d(h1, 2), p[4:]); h3 = block(functional.max_pool2d(h2, 2), p[8:])
        h4 = block(torch.cat([functional.conv_transpose2d(h3, p[20], stride=2), h2], 1), p[12:])
        h5 = block(torch.cat([functional.conv_transpose2d(h4, p[21], stride=2), h1], 1), p[16:])
        logits = functional.conv2d(h5, p[22]).permute(0, 2, 3, 1); prob = logits.softmax(-1)
        truth = functional.one_hot(label, classes).float()
        dice = ((prob * truth).sum((0, 1, 2)) * 2 + 1) / (prob.sum((0, 1, 2)) + truth.sum((0, 1, 2)) + 1)
        loss = functional.cross_entropy(logits.reshape(-1, classes), label.reshape(-1)) + 1 - dice.mean()
        return loss, (label * classes + logits.argmax(-1)).flatten()
    forward = C(forward)
    def call():
        p = track(p0); opt = torch.optim.Adam(p, 1e-3); ls = []; confusion = torch.zeros(classes * classes, dtype=torch.int64, device=cx.dev)
        for _ in range(2):
            loss, at = forward(p); confusion = confusion.index_add(0, at, torch.ones_like(at))
            opt.zero_grad(); loss.backward(); opt.step(); ls.append(loss.detach())
        return {"loss": torch.stack(ls), "confusion": confusion, "w": p[3].detach()}
    return call


def int4_decode(cx, C):
    d, hidden, heads, v, steps = cx.pick((128, 352, 4, 500, 6), (1024, 2816, 16, 8000, 12)); head = d // heads
    def packed(s, o, i):
        return (cx.ints(s, 256, o, i // 2).to(torch.uint8), cx.u(s + 1, o, i // 32) * (0.3 / i**0.5) + 0.1 / i**0.5, cx.ints(s + 2, 4, o, i // 32).to(torch.uint8) + 6)
    layers = []
    for l in range(2):
        s = 10 + 40 * l
        layers.append([packed(s, 3 * d, d), packed(s + 3, d, d), packed(s + 6, hidden, d), packed(s + 9, hidden, d), packed(s + 12, d, hidden)])
    embed, last = cx.n(1, (v, d), 1.0), packed(4, v, d)
    def matvec(x, w):
        o, half = w[0].shape
        codes = torch.stack([w[0] & 15, w[0] >> 4], -1).reshape(o, half // 16, 32).float()
        return ((codes - w[2].float()[..., None]) * w[1][..., None]).reshape(o, 2 * half) @ x
    def step(token, caches):
        x = embed[token].squeeze(0); grown = []
        for w, (keys, values) in zip(layers, caches):
            q, k, u = matvec(rms(x), w[0]).reshape(3, heads, head).unbind(0)
            keys, values = keys + [k], values + [u]; grown.append((keys, values))
            k, u = torch.stack(keys, 1), torch.stack(values, 1)
            weights = (q[:, None] @ k.mT / head**0.5).softmax(-1)
            x = x + matvec((weights @ u).reshape(d), w[1]); h = rms(x)
            x = x + matvec(functional.silu(matvec(h, w[2])) * matvec(h, w[3]), w[4])
        return matvec(rms(x), last), grown
    step = C(step)
    def call():
        token, tokens, top, caches = torch.tensor([7], device=cx.dev), [], [], [([], []) for _ in range(2)]
        for _ in range(steps):
            logits, caches = step(token, caches)
            token = logits.argmax(0).reshape(1); top.append(logits.amax(0)); tokens.append(token)
        return {"tokens": torch.cat(tokens), "top": torch.stack(top)}
    return call


def speculative(cx, C):
    v, wanted, sizes = cx.pick((200, 24, [(32, 1), (96, 2)]), (4000, 64, [(192, 2), (768, 6)]))
    embed = cx.n(1, (v, sizes[1][0]), 1.0)
    def make(size, s):
        d, depth = size; w = lambda l, k, o, i: cx.wt(s + 10 * l + k, o, i) * 0.5
        return d, [[w(l, 0, 3 * d, d), w(l, 1, d, d), w(l, 2, 4 * d, d), w(l, 3, d, 4 * d)] for l in range(depth)]
    draft, target = make(sizes[0], 100), make(sizes[1], 200)
    def forward(model, cache, tokens):
        d, layers = model; n, heads, seen = len(tokens), 4, cache[0][0].shape[1]; x = embed[tokens][:, :d]; grown = []
        mask = torch.arange(n, device=cx.dev)[:, None] + seen >= torch.arange(n + seen, device=cx.dev)
        for w, (k0, v0) in zip(layers, cache):
            q, k, u = functional.linear(rms(x), w[0]).reshape(n, 3, heads, d // heads).permute(1, 2, 0, 3).unbind(0)
            k, u = torch.cat([k0, k], 1), torch.cat([v0, u], 1); grown.append((k, u))
            weights = torch.where(mask, q @ k.mT / (d // heads)**0.5, -math.inf).softmax(-1)
            x = x + functional.linear((weights @ u).transpose(0, 1).reshape(n, d), w[1])
            x = x + functional.linear(functional.gelu(functional.linear(rms(x), w[2])), w[3])
        return rms(x) @ embed[:, :d].T, grown
    forward = C(forward)
    def call():
        caches = [[(torch.zeros(4, 0, m[0] // 4, device=cx.dev),) * 2 for _ in m[1]] for m in (draft, target)]
        tokens, rounds = [3, 14, 15, 92], 0; prompt = torch.tensor(tokens[:3], device=cx.dev)
        caches = [forward(m, c, prompt)[1] for m, c in zip((draft, target), caches)]
        cut = lambda cache, count: [(k[:, :count], u[:, :count]) for k, u in cache]
        while len(tokens) < wanted:
            guess = torch.tensor(tokens[-1:], device=cx.dev); guesses = [guess]
            for _ in range(4):
                logits, caches[0] = forward(draft, caches[0], guess)
                guess = logits[-1].argmax(0).reshape(1); guesses.append(guess)
            block = torch.cat(guesses); logits, caches[1] = forward(target, caches[1], block); best = logits.argmax(-1)
            agree = (best[:4] == block[1:]).long().cumprod(0).sum().item()
            tokens += best.tolist()[:agree + 1]; kept = len(tokens) - 1
            if kept > caches[0][0][0].shape[1]:
                caches[0] = forward(draft, caches[0], torch.tensor(tokens[kept - 1:kept], device=cx.dev))[1]
            caches = [cut(c, kept) for c in caches]; rounds += 1
        return {"tokens": torch.tensor(tokens[:wanted]), "rounds": torch.tensor(rounds)}
    return call


def td3(cx, C):
    b, o, a, h, buffer = cx.pick((64, 11, 3, 64, 2000), (512, 40, 8, 256, 50_000))
    s, act, s2 = cx.n(1, (buffer, o), 1.0), cx.u(2, buffer, a) * 2 - 1, cx.n(3, (buffer, o), 1.0)
    reward, done = cx.n(4, (buffer,), 1.0), (cx.u(5, buffer) < 0.05).float()
    batches, noise = cx.ints(6, buffer, 4, b), cx.n(7, (4, b, a), 0.2).clamp(-0.5, 0.5)
    net = lambda s, i, out: [cx.wt(s, h, i), cx.n(s + 1, (h,), 0.1), cx.wt(s + 2, h, h), cx.n(s + 3, (h,), 0.1), cx.wt(s + 4, out, h)]
    actor0, critics0 = net(20, o, a), net(30, o + a, 1) + net(40, o + a, 1)
    def run(p, x): return functional.linear(functional.linear(functional.linear(x, p[0], p[1]).relu(), p[2], p[3]).relu(), p[4])
    def target_of(actor_t, critics_t, r, dn, nx, noise):
        with torch.no_grad():
            sa = torch.cat([nx, (run(actor_t, nx).tanh() + noise).clamp(-1, 1)], 1)
            return r + (1 - dn) * torch.minimum(run(critics_t, sa), run(critics_t[5:], sa)).squeeze(1) * 0.99
    def critic_loss(critics, sa, target):
        return functional.mse_loss(run(critics, sa).squeeze(1), target) + functional.mse_loss(run(critics[5:], sa).squeeze(1), target)
    def actor_loss(actor, critics, s): return -run(critics, torch.cat([s, run(actor, s).tanh()], 1)).mean()
    target_of, critic_loss, actor_loss = C(target_of), C(critic_loss), C(actor_loss)
    def call():
        actor, critics = track(actor0), track(critics0); actor_t, critics_t = list(actor0), list(critics0)
        actor_opt, critic_opt = torch.optim.Adam(actor, 1e-3), torch.optim.Adam(critics, 1e-3); ls = []
        for i in range(4):
            at = batches[i]; st = s[at]
            target = target_of(actor_t, critics_t, reward[at], done[at], s2[at], noise[i])
            loss = critic_loss(critics, torch.cat([st, act[at]], 1), target)
            critic_opt.zero_grad(); loss.backward(); critic_opt.step(); ls.append(loss.detach())
            if i % 2 == 1:
                loss = actor_loss(actor, critics, st)
                actor_opt.zero_grad(); loss.backward(inputs=actor); actor_opt.step(); ls.append(loss.detach())
                actor_t = [torch.lerp(t, p.detach(), 0.005) for t, p in zip(actor_t, actor)]
                critics_t = [torch.lerp(t, p.detach(), 0.005) for t, p in zip(critics_t, critics)]
        return {"loss": torch.stack(ls), "actor": actor_t[2], "critic": critics[2].detach()}
    return call


def vae_gan(cx, C):
    b, size, c, z = cx.pick((8, 16, 8, 10), (64, 64, 32, 64)); q = size // 4
    x = cx.n(1, (b, 1, size, size), 0.5).tanh(); eps, prior = cx.n(2, (2, b, z), 1.0), cx.n(3, (2, b, z), 1.0)
    conv = lambda s, o, i, k: cx.n(s, (o, i, k, k), (i * k * k)**-0.5)
    e0 = [conv(10, c, 1, 4), conv(11, 2 * c, c, 4), cx.wt(12, 2 * z, 2 * c * q * q)]
    d0 = [cx.wt(20, 2 * c * q * q, z), conv(21, 2 * c, c, 4), conv(22, c, 1, 4)]
    c0 = [conv(30, c, 1, 4), conv(31, 2 * c, c, 4), cx.wt(32, 1, 2 * c * q * q)]
    leaky = lambda x: functional.leaky_relu(x, 0.2); down = lambda x, w: functional.conv2d(x, w, stride=2, padding=1)
    def decode(p, v):
        h = functional.linear(v, p[0]).relu().reshape(b, 2 * c, q, q)
        h = functional.conv_transpose2d(h, p[1], stride=2, padding=1).relu()
        return functional.conv_transpose2d(h, p[2], stride=2, padding=1).tanh()
    def judge(p, x):
        f = down(leaky(down(x, p[0])), p[1])
        return f, functional.linear(leaky(f).reshape(b, -1), p[2])
    real = lambda x: functional.binary_cross_entropy_with_logits(x, torch.ones_like(x))
    fake = lambda x: functional.binary_cross_entropy_with_logits(x, torch.zeros_like(x))
    def losses(e, d, c, eps, prior):
        mean, logvar = functional.linear(leaky(down(leaky(down(x, e[0])), e[1])).reshape(b, -1), e[2]).split(z, -1)
        v = mean + (logvar * 0.5).exp() * eps
        kl = (mean.square() + logvar.exp() - 1 - logvar).sum(1).mean() * 0.5
        (fx, rx), (fa, ra), (_, rm) = judge(c, x), judge(c, decode(d, v)), judge(c, decode(d, prior))
        likeness = (fx - fa).square().mean(); adversary = real(rx) + (fake(ra) + fake(rm)) * 0.5
        return kl * 1e-2 + likeness, likeness * 5 - adversary, adversary
    losses = C(losses)
    def call():
        nets = [track(e0), track(d0), track(c0)]; opts = [torch.optim.Adam(p, 1e-3) for p in nets]; out = []
        for i in range(2):
            ls = losses(*nets, eps[i], prior[i])
            for l, p in zip(ls, nets):
                for w, g in zip(p, torch.autograd.grad(l, p, retain_graph=True)): w.grad = g
            for opt in opts: opt.step()
            out.append(torch.stack([l.detach() for l in ls]))
        return {"loss": torch.stack(out), "e": nets[0][1].detach(), "d": nets[1][1].detach(), "c": nets[2][1].detach()}
    return call


def glow(cx, C):
    b, size, h = cx.pick((8, 12, 16), (32, 32, 96)); ch, s2 = 8, size // 2
    x = cx.u(1, b, 2, size, size) + cx.n(2, (b, 2, size, size), 0.1); p0 = []
    for l in range(3):
        s = 10 + 10 * l
        p0 += [cx.n(s, (ch, 1, 1), 0.1), cx.n(s + 1, (ch, 1, 1), 0.1), torch.eye(ch, device=cx.dev) + cx.n(s + 2, (ch, ch), 0.2),
               cx.n(s + 3, (h, ch, 3, 3), 0.1), cx.n(s + 4, (h, h, 1, 1), 0.2), cx.n(s + 5, (2 * ch, h, 3, 3), 0.02)]
    k = np.arange(s2); board = cx.t(((k[:, None] + k[None]) % 2).astype(np.float32)); conv = functional.conv2d
    def forward(p):
        z = x.reshape(b, 2, s2, 2, s2, 2).permute(0, 1, 3, 5, 2, 4).reshape(b, ch, s2, s2); logdet = torch.zeros(b, device=cx.dev)
        for l in range(3):
            q = p[6 * l:]
            z = (z + q[0]) * q[1].exp(); logdet = logdet + q[1].sum() * (s2 * s2)
            z = conv(z, q[2][:, :, None, None]); logdet = logdet + torch.linalg.slogdet(q[2])[1] * (s2 * s2)
            mask = board if l % 2 == 0 else 1 - board
            hidden = conv(conv(z * mask, q[3], padding=1).relu(), q[4]).relu()
            s, t = conv(hidden, q[5], padding=1).chunk(2, 1)
            scale = s.tanh() * (1 - mask); z = z * scale.exp() + t * (1 - mask); logdet = logdet + scale.sum((1, 2, 3))
        return ((z.square() * 0.5 + 0.919).sum((1, 2, 3)) - logdet).mean() / (ch * s2 * s2)
    run = trained(cx, C, p0, forward, 2, lambda p: torch.optim.Adam(p, 1e-3))
    def call():
        ls, p = run()
        return {"loss": ls, "w": p[2].detach(), "k": p[4].detach()}
    return call


def shampoo(cx, C):
    n, sizes = cx.pick((200, [40, 32, 10, 32, 40]), (4000, [300, 200, 50, 200, 300]))
    x = cx.n(1, (n, sizes[0]), 0.5).cumsum(1).tanh(); p0 = [cx.wt(2 + l, sizes[l + 1], sizes[l]) for l in range(4)]
    def forward(p):
        y = x
        for l, w in enumerate(p):
            y = functional.linear(y, w); y = y.tanh() if l < 3 else y
        return functional.mse_loss(y, x)
    forward = C(forward)
    def root(a):
        w, v = torch.linalg.eigh(a)
        return (v * w.clamp(min=1e-6).pow(-0.25)) @ v.T
    def call():
        p = track(p0); eye = lambda k: torch.eye(k, device=cx.dev) * 1e-2
        left, right = [eye(k) for k in sizes[1:]], [eye(k) for k in sizes[:-1]]; momenta, ls = [torch.zeros_like(w) for w in p0], []
        for _ in range(3):
            loss = forward(p); grads = torch.autograd.grad(loss, p)
            with torch.no_grad():
                for l in range(4):
                    g = grads[l] * 100
                    left[l] = left[l] + g @ g.T; right[l] = right[l] + g.T @ g
                    momenta[l] = momenta[l] * 0.9 + root(left[l]) @ g @ root(right[l])
                    update = momenta[l] + p[l] * 1e-2
                    trust = (p[l].norm() / (update.norm() + 1e-6)).clamp(0, 10)
                    p[l] -= update * (trust * 0.02)
            ls.append(loss.detach())
        return {"loss": torch.stack(ls), "w": p[1].detach()}
    return call


def window_rope(cx, C):
    b, t, d, heads, block, v = cx.pick((2, 64, 48, 4, 16, 120), (4, 1024, 256, 8, 128, 2000)); hd = d // heads
    tokens = cx.ints(1, v, b, t + 1); p0 = [cx.n(2, (v, d), 0.3)]
    for l in range(2):
        s = 10 + 10 * l
        p0 += [cx.wt(s, d, d), cx.wt(s + 1, d, d), cx.wt(s + 2, d, d), cx.wt(s + 3, 4 * d, d), cx.wt(s + 4, d, 2 * d)]
    angle = torch.arange(t, device=cx.dev).float()[:, None] * (torch.arange(hd // 2, device=cx.dev).float() * (-math.log(10000) / (hd // 2))).exp()
    cos, sin = angle.cos(), angle.sin()
    def rotate(x):
        a, c = x[..., :hd // 2], x[..., hd // 2:]
        return torch.cat([a * cos - c * sin, a * sin + c * cos], -1)
    blocks = t // block; i, j = np.arange(block)[:, None], np.arange(2 * block)[None]
    first = (np.arange(blocks)[:, None, None] > 0) | (np.arange(2 * block)[None, None] >= block)
    seen = cx.t(((j > i) & (j <= i + block))[None] & first); lin = functional.linear
    norm = lambda x: functional.layer_norm(x, (d,), eps=1e-5)
    def pairs(y): return functional.pad(y, (0, 0, block, 0)).unfold(2, 2 * block, block).transpose(3, 4)
    def forward(p):
        x = p[0][tokens[:, :t]]
        for l in range(2):
            q = p[1 + 5 * l:]; h = norm(x); heads_of = lambda y, n: y.reshape(b, t, n, hd).transpose(1, 2)
            query = rotate(heads_of(lin(h, q[0]), heads)); k, u = lin(h, q[1]).chunk(2, -1)
            key = rotate(heads_of(k, heads // 2)).repeat_interleave(2, 1); value = heads_of(u, heads // 2).repeat_interleave(2, 1)
            scores = query.reshape(b, heads, blocks, block, hd) @ pairs(key).mT / hd**0.5
            weights = torch.where(seen, scores, -1e9).softmax(-1)
            x = x + lin((weights @ pairs(value)).reshape(b, heads, t, hd).transpose(1, 2).reshape(b, t, d), q[2])
            g, u = lin(norm(x), q[3]).chunk(2, -1); x = x + lin(functional.gelu(g) * u, q[4])
        return functional.cross_entropy(lin(norm(x), p[0]).reshape(-1, v), tokens[:, 1:].reshape(-1))
    run = trained(cx, C, p0, forward, 2, lambda p: torch.optim.Adam(p, 1e-3))
    def call():
        ls, p = run()
        return {"loss": ls, "w": p[3].detach()}
    return call


PROGRAMS = {f.__name__: f for f in (mamba, moe_top2, egnn, unet_gn, int4_decode, speculative, td3, vae_gan, glow, shampoo, window_rope)}
