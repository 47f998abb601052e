"""Programs of array work in PyTorch: simulation, statistics, images, graphs, finance, decoding, optimizers.

Each is a function that gets a `Sizes` and returns what is compiled and its arguments; those of `GRADIENTS` are run with a backward pass from the
sum of squares of their results.
"""

import math

import torch
import torch.nn.functional as F


class Sizes:
    """Random operands on a device, and sizes: the first of a pair on a CPU, the second on a GPU."""

    def __init__(self, device):
        self.device, self.on_gpu = device, device != "cpu"
        torch.manual_seed(7)

    def of(self, cpu, gpu):
        return gpu if self.on_gpu else cpu

    def normal(self, *shape, dtype=torch.float32, scale=1.0):
        return (torch.randn(*shape, device=self.device) * scale).to(dtype)

    def uniform(self, *shape, dtype=torch.float32):
        return torch.rand(*shape, device=self.device, dtype=dtype)

    def index(self, below, *shape):
        return torch.randint(0, below, shape, device=self.device)


def pagerank(s):
    places, edges = s.of(20_000, 1_000_000), s.of(200_000, 20_000_000)
    source, target = s.index(places, edges), s.index(places, edges)
    degree = torch.bincount(source, minlength=places).clamp(min=1).float()

    def step(rank):
        for _ in range(3):
            shares = (rank / degree).index_select(0, source)
            rank = 0.15 / places + 0.85 * torch.zeros_like(rank).index_add(0, target, shares)
        return rank

    return step, [torch.full((places,), 1.0 / places, device=s.device)]


def second_derivatives(s):
    points, width = s.of(1024, 65_536), 64
    weights = [s.normal(2, width, scale=0.7), s.normal(width, width, scale=0.1), s.normal(width, 1, scale=0.1)]

    def u(xy, a, b, c):
        return (torch.tanh(torch.tanh(xy @ a) @ b) @ c).squeeze(-1)

    def loss(xy, a, b, c):
        value = 0.0
        for axis in range(2):
            direction = torch.zeros_like(xy)
            direction[:, axis] = 1.0
            slope = lambda p: torch.func.jvp(lambda q: u(q, a, b, c), (p,), (direction,))[1]
            value = value + torch.func.jvp(slope, (xy,), (direction,))[1]
        return (value - xy.prod(1)).square().mean()

    def step(xy, *weights):
        gradients = torch.func.grad(loss, argnums=(1, 2, 3))(xy, *weights)
        return [w - 0.01 * g for w, g in zip(weights, gradients)]

    return step, [s.normal(points, 2), *weights]


def stencil(s):
    n = s.of(300, 2000)

    def step(x):
        for _ in range(20):
            inner = x[1:-1, 1:-1]
            around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
            x = F.pad(inner + 0.1 * (around - 4 * inner), (1, 1, 1, 1))
        return x

    return step, [s.normal(n, n)]


def lattice_boltzmann(s):
    h, w = s.of(100, 1000), s.of(150, 1500)
    ways = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
    share = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4

    def step(f):
        f = torch.stack([torch.roll(f[i], way, (0, 1)) for i, way in enumerate(ways)])
        rho = f.sum(0)
        ux = sum(way[0] * f[i] for i, way in enumerate(ways)) / rho
        uy = sum(way[1] * f[i] for i, way in enumerate(ways)) / rho
        square = 1.5 * (ux * ux + uy * uy)
        balance = []
        for i, way in enumerate(ways):
            along = 3 * (way[0] * ux + way[1] * uy)
            balance.append(share[i] * rho * (1 + along + along * along / 2 - square))
        return f + 0.6 * (torch.stack(balance) - f)

    return step, [s.uniform(9, h, w) + 0.5]


def n_body(s):
    n = s.of(400, 6000)

    def step(place, speed, mass):
        apart = place[None, :, :] - place[:, None, :]
        far = (apart.square().sum(-1) + 1e-2).rsqrt()
        pull = (apart * (mass[None, :] * far * far * far)[:, :, None]).sum(1)
        speed = speed + 0.01 * pull
        return place + 0.01 * speed, speed

    return step, [s.normal(n, 3), s.normal(n, 3), s.uniform(n)]


def mandelbrot(s):
    h, w = s.of(150, 1500), s.of(200, 2000)
    y, x = torch.meshgrid(torch.linspace(-1.3, 1.3, h), torch.linspace(-2, 0.6, w), indexing="ij")

    def step(cx, cy):
        zx, zy, count = torch.zeros_like(cx), torch.zeros_like(cy), torch.zeros_like(cx, dtype=torch.int32)
        for _ in range(12):
            inside = zx * zx + zy * zy < 4
            nx = zx * zx - zy * zy + cx
            zy = torch.where(inside, 2 * zx * zy + cy, zy)
            zx = torch.where(inside, nx, zx)
            count = count + inside.to(torch.int32)
        return count

    return step, [x.contiguous().to(s.device), y.contiguous().to(s.device)]


def frame(s):
    rows, columns = s.of(20_000, 1_000_000), 12
    data = s.normal(rows, columns)
    data[s.uniform(rows, columns) < 0.05] = float("nan")

    def step(x):
        known = ~x.isnan()
        count = known.sum(0)
        mean = torch.where(known, x, 0).sum(0) / count
        filled = torch.where(known, x, mean)
        sd = ((filled - mean).square().sum(0) / (count - 1)).sqrt()
        z = ((filled - mean) / sd).clamp(-3, 3)
        total = z.cumsum(0)
        rolling = (total[20:] - total[:-20]) / 20
        ratio = z[:, 0] / z[:, 1].abs().clamp(min=1e-3)
        best = z.argmax(1)
        score = torch.stack([z[:, 2] * z[:, 3], ratio.log1p().nan_to_num(0.0), z[:, 4].sigmoid()], 1)
        top = torch.where(score > score.mean(0), score, -score).amax(1)
        return rolling.std(0), torch.bincount(best, minlength=12), top, known.all(1).sum(), z.square().mean(1)

    return step, [data]


def group_by(s):
    rows, groups = s.of(100_000, 4_000_000), 1000
    def step(key, value):
        order = key.argsort(stable=True)
        sorted_key, sorted_value = key[order], value[order]
        total = torch.zeros(groups, device=value.device).index_add(0, sorted_key, sorted_value)
        ends = torch.searchsorted(sorted_key, torch.arange(groups, device=key.device), right=True)
        running = sorted_value.cumsum(0)
        return total, ends, running[(ends - 1).clamp(min=0)]

    return step, [s.index(groups, rows), s.normal(rows)]


def histogram(s):
    n = s.of(200_000, 10_000_000)

    def step(x):
        place = ((x + 4) * (256 / 8)).long().clamp(0, 255)
        counts = torch.zeros(256, device=x.device).scatter_add(0, place, torch.ones_like(x))
        share = counts.cumsum(0) / counts.sum()
        return counts, share[place]

    return step, [s.normal(n)]


def kmeans(s):
    n, k, width = s.of(10_000, 500_000), 32, 16

    def step(x, centers):
        far = x.square().sum(1, keepdim=True) - 2 * x @ centers.T + centers.square().sum(1)
        near = far.argmin(1)
        total = torch.zeros_like(centers).index_add(0, near, x)
        count = torch.bincount(near, minlength=k).clamp(min=1)
        return total / count[:, None], far.amin(1).sum()

    return step, [s.normal(n, width), s.normal(k, width)]


def conjugate_gradients(s):
    n = s.of(500, 4000)

    def step(points, b):
        apart = torch.cdist(points, points, compute_mode="use_mm_for_euclid_dist")
        kernel = (-0.5 * apart.square()).exp()
        x, r = torch.zeros_like(b), b
        p, rr = r, (r * r).sum()
        for _ in range(15):
            ap = kernel @ p + 0.1 * p
            a = rr / (p * ap).sum()
            x, r = x + a * p, r - a * ap
            new = (r * r).sum()
            p, rr = r + new / rr * p, new
        return x

    return step, [s.normal(n, 8), s.normal(n)]


def monte_carlo(s):
    paths, days = s.of(10_000, 500_000), 64

    def step(noise, strike):
        log = torch.cumsum(0.01 * noise - 0.5e-4, dim=1)
        price = 100 * log.exp()
        low, mean = price.amin(1), price.mean(1)
        gain = torch.where(low[:, None] > 80, (mean[:, None] - strike).clamp(min=0), 0)
        return gain.mean(0), gain.std(0)

    return step, [s.normal(paths, days), torch.linspace(90, 110, 8, device=s.device)]


def black_scholes(s):
    n = s.of(50_000, 4_000_000)

    def step(price, strike, time, sigma):
        root = sigma * time.sqrt()
        d1 = ((price / strike).log() + (0.02 + 0.5 * sigma * sigma) * time) / root
        cdf = lambda x: 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        discount = strike * (-0.02 * time).exp()
        call = price * cdf(d1) - discount * cdf(d1 - root)
        return call, call - price + discount, (-0.5 * d1 * d1).exp() * price * time.sqrt()

    u = lambda low, high: s.uniform(n, dtype=torch.float64) * (high - low) + low
    return step, [u(50, 150), u(50, 150), u(0.1, 2), u(0.1, 0.5)]


def bilateral(s):
    h, w = s.of(120, 1080), s.of(160, 1920)

    def step(image):
        padded = F.pad(image, (2, 2, 2, 2), mode="reflect")
        total, weight = 0.0, 0.0
        for dy in range(5):
            for dx in range(5):
                near = padded[:, :, dy:dy + image.shape[2], dx:dx + image.shape[3]]
                share = (-(near - image).square() * 50 - ((dy - 2) ** 2 + (dx - 2) ** 2) / 8).exp()
                total, weight = total + share * near, weight + share
        return total / weight

    return step, [s.uniform(1, 3, h, w)]


def image_pipeline(s):
    h, w = s.of(120, 1024), s.of(120, 1024)
    blur = torch.tensor([1.0, 4, 6, 4, 1], device=s.device) / 16
    sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], device=s.device)

    def step(image):
        x = image.permute(0, 3, 1, 2).float() / 255
        gray = (x * torch.tensor([0.3, 0.59, 0.11], device=x.device)[:, None, None]).sum(1, keepdim=True)
        smooth = F.conv2d(F.conv2d(gray, blur.view(1, 1, 1, 5), padding=(0, 2)), blur.view(1, 1, 5, 1), padding=(2, 0))
        gx, gy = F.conv2d(smooth, sobel[None, None], padding=1), F.conv2d(smooth, sobel.T[None, None], padding=1)
        size = (gx * gx + gy * gy).sqrt()
        peak = (size == F.max_pool2d(size, 3, 1, 1)) & (size > 0.1)
        small = F.interpolate(x, scale_factor=0.5, mode="bilinear", align_corners=False)
        return peak, (small * 255).round().clamp(0, 255).to(torch.uint8), torch.atan2(gy, gx)

    return step, [torch.randint(0, 256, (s.of(1, 4), h, w, 3), dtype=torch.uint8, device=s.device)]


def spectrogram(s):
    batch, n, window = s.of(2, 32), s.of(16_000, 160_000), 400
    t = torch.arange(window, device=s.device)[:, None] * torch.arange(201, device=s.device)[None, :] * (2 * math.pi / window)
    hann = 0.5 - 0.5 * torch.cos(torch.arange(window, device=s.device) * (2 * math.pi / window))
    basis = torch.cat([t.cos(), -t.sin()], 1) * hann[:, None]
    mel = s.uniform(201, 80)

    def step(wave, basis, mel):
        frames = wave.unfold(1, window, 160)
        both = frames @ basis
        power = both[..., :201].square() + both[..., 201:].square()
        log = (power @ mel).clamp(min=1e-10).log10()
        return (torch.maximum(log, log.amax((1, 2), keepdim=True) - 8) + 4) / 4

    return step, [s.normal(batch, n), basis, mel]


def wavelet(s):
    n = s.of(100_000, 8_000_000)

    def step(x):
        details = []
        for _ in range(5):
            even, odd = x[..., ::2], x[..., 1::2]
            detail = odd - 0.5 * (even + torch.roll(even, -1, -1))
            x = even + 0.25 * (detail + torch.roll(detail, 1, -1))
            details.append(detail.sign() * (detail.abs() - 0.1).clamp(min=0))
        return [x, *details]

    return step, [s.normal(2, n)]


def dequantized(s):
    rows, n = s.of(16, 64), s.of(512, 4096)
    weights = torch.randint(-127, 128, (n, n), dtype=torch.int8, device=s.device)
    dtype = s.of(torch.float32, torch.bfloat16)

    def step(x, weights, scale):
        wide = (weights.view(n, n // 64, 64).to(x.dtype) * scale[:, :, None]).view(n, n)
        return F.silu(x @ wide.T)

    return step, [s.normal(rows, n, dtype=dtype), weights, s.uniform(n, n // 64).to(dtype) * 0.01]


def dequantized_row(s):
    step, (x, *rest) = dequantized(s)
    return step, [x[:1].contiguous(), *rest]


def gru_decoder(s):
    beam, width, words = 10, s.of(128, 512), s.of(1000, 16_000)
    w, u = s.normal(width, 3 * width, scale=0.05), s.normal(width, 3 * width, scale=0.05)
    table, out = s.normal(words, width), s.normal(width, words, scale=0.05)

    def step(state, token, score, w, u, table, out):
        for _ in range(8):
            gi, gh = table[token] @ w, state @ u
            ir, iz, inn = gi.chunk(3, 1)
            hr, hz, hn = gh.chunk(3, 1)
            z = torch.sigmoid(iz + hz)
            state = (1 - z) * torch.tanh(inn + torch.sigmoid(ir + hr) * hn) + z * state
            total = score[:, None] + torch.log_softmax(state @ out, 1)
            score, best = total.flatten().topk(beam)
            state, token = state[best // words], best % words
        return state, token, score

    return step, [s.normal(beam, width), s.index(words, beam), torch.zeros(beam, device=s.device), w, u, table, out]


def rope_attention(s):
    batch, heads, kept, length, width = s.of(1, 4), s.of(4, 16), s.of(2, 4), s.of(128, 2048), 64
    dtype = s.of(torch.float32, torch.bfloat16)
    angle = torch.arange(length, device=s.device)[:, None] / 10_000 ** (torch.arange(0, width, 2, device=s.device) / width)
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)

    def turned(x, cos, sin):
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def step(q, k, v, cos, sin):
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        k, v = (t.repeat_interleave(heads // kept, 1) for t in (k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    make = lambda h: s.normal(batch, h, length, width, dtype=dtype)
    return step, [make(heads), make(kept), make(kept), cos, sin]


def window_attention(s):
    batch, heads, length, width, reach = s.of(1, 4), s.of(4, 8), s.of(128, 1024), 64, 32

    def step(q, k, v, slopes):
        i = torch.arange(length, device=q.device)
        apart = i[None, :] - i[:, None]
        bias = slopes[:, None, None] * apart.float()
        scores = q @ k.transpose(-1, -2) / 8 + bias
        scores = scores.masked_fill((apart > 0) | (apart < -reach), float("-inf"))
        return scores.softmax(-1) @ v

    make = lambda: s.normal(batch, heads, length, width)
    return step, [make(), make(), make(), 2.0 ** -torch.arange(1, heads + 1, device=s.device)]


def forward_algorithm(s):
    batch, length, tags = s.of(8, 64), s.of(20, 64), s.of(24, 64)

    def step(scores, moves):
        a = scores[:, 0]
        for t in range(1, length):
            a = torch.logsumexp(a[:, :, None] + moves[None], 1) + scores[:, t]
        return torch.logsumexp(a, 1)

    return step, [s.normal(batch, length, tags), s.normal(tags, tags)]


def adamw(s):
    shapes = [(s.of(128, 1024), s.of(128, 1024)), (s.of(128, 1024),), (s.of(512, 4096), s.of(128, 1024)), (s.of(512, 4096),)] * 6

    def step(*tensors):
        count = len(shapes)
        out = []
        gradients = tensors[count:2 * count]
        norm = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
        clip = (1.0 / (norm + 1e-6)).clamp(max=1.0)
        for p, g, m, v in zip(tensors[:count], gradients, tensors[2 * count:3 * count], tensors[3 * count:]):
            g = g * clip
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            out += [p * (1 - 1e-5) - 1e-3 * (m / 0.1) / ((v / 0.001).sqrt() + 1e-8), m, v]
        return out

    return step, [s.normal(*shape).abs() for _ in range(4) for shape in shapes]


def cross_entropy(s):
    rows, words, width = s.of(64, 4096), s.of(2000, 32_000), s.of(64, 512)

    def step(x, table, target):
        logits = (x @ table.T).float()
        logits = 30 * torch.tanh(logits / 30)
        loss = F.cross_entropy(logits, target, label_smoothing=0.1)
        return loss + 1e-4 * torch.logsumexp(logits, 1).square().mean()

    return step, [s.normal(rows, width, scale=0.2), s.normal(words, width, scale=0.2), s.index(words, rows)]


def block_of_unet(s):
    c, n = s.of(32, 64), s.of(32, 64)
    weights = [s.normal(c, c, 3, 3, scale=0.05), s.normal(2 * c, c, 3, 3, scale=0.05), s.normal(c, 3 * c, 3, 3, scale=0.05)]

    def step(x, a, b, d):
        y = F.silu(F.group_norm(F.conv2d(x, a, padding=1), 8))
        low = F.silu(F.group_norm(F.conv2d(y, b, stride=2, padding=1), 8))
        up = F.interpolate(low, scale_factor=2.0, mode="nearest")
        return F.conv2d(torch.cat([y, up], 1), d, padding=1)

    return step, [s.normal(2, c, n, n), *weights]


def conv_net(s):
    batch = s.of(4, 64)
    weights = [s.normal(32, 3, 5, 5, scale=0.1), s.normal(64, 32, 3, 3, scale=0.05), s.normal(128, 64, 3, 3, scale=0.05), s.normal(10, 128, scale=0.1)]

    def step(x, a, b, c, d):
        x = F.max_pool2d(F.relu(F.conv2d(x, a, padding=2)), 2)
        x = F.max_pool2d(F.relu(F.conv2d(x, b, padding=1)), 2)
        x = F.relu(F.conv2d(x, c, padding=1)).mean((2, 3))
        return F.log_softmax(x @ d.T, 1)

    return step, [s.uniform(batch, 3, 64, 64), *weights]


def shuffle_net(s):
    c = s.of(60, 240)
    weights = [s.normal(c, 1, 3, 3, scale=0.3), s.normal(c, c // 4, 1, 1, scale=0.1)]

    def step(x, a, b):
        x = F.conv2d(x, a, padding=1, groups=c)
        x = x.unflatten(1, (4, c // 4)).transpose(1, 2).flatten(1, 2)
        return F.relu(F.conv2d(x, b, groups=4))

    return step, [s.normal(s.of(2, 32), c, 28, 28), *weights]


def upsampler(s):
    c = s.of(32, 128)
    weights = [s.normal(c, c // 2, 4, 4, scale=0.05), s.normal(c // 2, 3, 4, 4, scale=0.05)]

    def step(x, a, b):
        x = F.leaky_relu(F.conv_transpose2d(x, a, stride=2, padding=1), 0.2)
        return torch.tanh(F.conv_transpose2d(x, b, stride=2, padding=1))

    return step, [s.normal(s.of(2, 16), c, 16, 16), *weights]


def audio_encoder(s):
    batch, length, width, heads = s.of(1, 8), s.of(200, 3000), s.of(64, 512), s.of(2, 8)
    dtype = s.of(torch.float32, torch.bfloat16)
    n = lambda *shape: s.normal(*shape, scale=1 / math.sqrt(shape[-1]), dtype=dtype)
    weights = [n(width, 80, 3), n(width, width, 3), n(3 * width, width), n(width, width), n(4 * width, width), n(width, 4 * width)]

    def step(x, a, b, qkv, out, up, down):
        x = F.gelu(F.conv1d(x, a, padding=1))
        x = F.gelu(F.conv1d(x, b, stride=2, padding=1)).transpose(1, 2)
        for _ in range(2):
            h = F.layer_norm(x, (width,))
            q, k, v = (h @ qkv.T).unflatten(2, (3, heads, width // heads)).permute(2, 0, 3, 1, 4)
            x = x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2) @ out.T
            x = x + F.gelu(F.layer_norm(x, (width,)) @ up.T) @ down.T
        return x

    return step, [s.normal(batch, 80, length, dtype=dtype), *weights]


def mixture(s):
    tokens, width, experts = s.of(256, 8192), s.of(64, 512), 8
    weights = [s.normal(width, experts), s.normal(experts, width, 2 * width, scale=0.05), s.normal(experts, 2 * width, width, scale=0.05)]

    def step(x, gate, up, down):
        share, chosen = (x @ gate).softmax(-1).topk(2)
        share = share / share.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for e in range(experts):
            weight = (share * (chosen == e)).sum(-1, keepdim=True)
            out = out + weight * (F.silu(x @ up[e]) @ down[e])
        return out

    return step, [s.normal(tokens, width), *weights]


def embedding_bag(s):
    rows, width, batch, bag = s.of(5000, 1_000_000), 32, s.of(256, 16_384), 20

    def step(table, index, weight):
        return (table[index] * weight[:, :, None]).sum(1).relu()

    return step, [s.normal(rows, width), s.index(rows, batch, bag), s.uniform(batch, bag)]


def message_passing(s):
    nodes, edges, width = s.of(1000, 100_000), s.of(5000, 1_000_000), 32

    def step(x, w, source, target):
        h = x @ w
        score = F.leaky_relu((h[source] * h[target]).sum(-1), 0.2)
        top = torch.full((nodes,), -1e30, device=x.device).scatter_reduce(0, target, score, "amax")
        share = (score - top[target]).exp()
        total = torch.zeros(nodes, device=x.device).index_add(0, target, share)
        return torch.zeros_like(h).index_add(0, target, h[source] * (share / total[target])[:, None])

    return step, [s.normal(nodes, width), s.normal(width, width, scale=0.1), s.index(nodes, edges), s.index(nodes, edges)]


def sample_tokens(s):
    rows, words = s.of(8, 64), s.of(5000, 50_000)

    def step(logits, noise):
        logits = logits / 0.8
        top, place = logits.topk(50)
        share = top.softmax(-1)
        kept = share.cumsum(-1) - share < 0.9
        score = torch.where(kept, top, float("-inf")) - (-noise.log()).log()
        return place.gather(1, score.argmax(-1, keepdim=True)), torch.log_softmax(logits, -1).amax(-1)

    return step, [s.normal(rows, words), s.uniform(rows, 50).clamp(min=1e-6)]


def iou_and_boxes(s):
    n, m = s.of(500, 8000), s.of(50, 400)

    def step(a, b):
        corner = lambda t: torch.cat([t[:, :2] - t[:, 2:].abs() / 2, t[:, :2] + t[:, 2:].abs() / 2], 1)
        a, b = corner(a), corner(b)
        low, high = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
        both = (high - low).clamp(min=0).prod(-1)
        area = lambda t: (t[:, 2:] - t[:, :2]).prod(-1)
        iou = both / (area(a)[:, None] + area(b)[None] - both)
        best, place = iou.max(1)
        return best, torch.where(best > 0.5, place, -1), iou.amax(0)

    return step, [s.normal(n, 4), s.normal(m, 4)]


PLAIN = [
    pagerank, second_derivatives, stencil, lattice_boltzmann, n_body, mandelbrot, frame, group_by, histogram, kmeans, conjugate_gradients, monte_carlo,
    black_scholes, bilateral, image_pipeline, spectrogram, wavelet, dequantized, dequantized_row, gru_decoder, adamw, sample_tokens, iou_and_boxes,
    audio_encoder, window_attention, rope_attention, embedding_bag,
]
GRADIENTS = [
    block_of_unet, conv_net, shuffle_net, upsampler, mixture, embedding_bag, message_passing, cross_entropy, forward_algorithm, window_attention,
    rope_attention, n_body, bilateral, spectrogram,
]
