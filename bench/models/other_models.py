"""Models that no library's list has: detection heads, audio, graph networks, diffusion, recurrent layers and others."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class MLP(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 256))


class CellLoop(nn.Module):
    """A recurrent classifier that calls a cell for each step."""

    def __init__(self, cell, width=64):
        super().__init__()
        self.cell, self.head, self.width = cell(width, width), nn.Linear(width, 10), width

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], self.width)
        for t in range(8):
            if isinstance(self.cell, nn.LSTMCell):
                h, c = self.cell(x[:, t], (h, c))
            else:
                h = self.cell(x[:, t], h)
        return self.head(h)


class Recurrent(nn.Module):
    """Layers of `nn.LSTM` or `nn.GRU`."""

    def __init__(self, kind, **options):
        super().__init__()
        self.layers = kind(32, 48, num_layers=2, batch_first=True, **options)
        self.head = nn.Linear(96 if options.get("bidirectional") else 48, 10)

    def forward(self, x):
        y, _ = self.layers(x)
        return self.head(y[:, -1])


class MessagePassing(nn.Module):
    """Messages along edges, added at their ends."""

    def __init__(self, width=64):
        super().__init__()
        self.message, self.update = nn.Linear(2 * width, width), nn.Linear(2 * width, width)

    def forward(self, x, edges):
        m = self.message(torch.cat([x[edges[0]], x[edges[1]]], 1)).relu()
        gathered = torch.zeros_like(x).index_add(0, edges[1], m)
        return self.update(torch.cat([x, gathered], 1)).relu()


class GCN(nn.Module):
    """Two graph convolutions with symmetric normalization."""

    def __init__(self, width=64):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, 8)

    def forward(self, x, edges):
        degree = torch.ones_like(x[:, 0]).index_add(0, edges[1], torch.ones_like(edges[1], dtype=x.dtype))
        scale = (degree[edges[0]] * degree[edges[1]]).rsqrt().unsqueeze(1)
        for layer in (self.first, self.second):
            y = layer(x)
            x = (y / degree.unsqueeze(1)).index_add(0, edges[1], y[edges[0]] * scale)
            x = x.relu() if layer is self.first else x
        return x.log_softmax(1)


class GAT(nn.Module):
    """Graph attention: a softmax over the edges that end at a node."""

    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads, self.map = heads, nn.Linear(width, width)
        self.source, self.target = (nn.Parameter(torch.randn(heads, width // heads) * 0.1) for _ in range(2))

    def forward(self, x, edges):
        y = self.map(x).view(x.shape[0], self.heads, -1)
        score = F.leaky_relu((y * self.source).sum(-1)[edges[0]] + (y * self.target).sum(-1)[edges[1]], 0.2)
        index = edges[1].unsqueeze(1).expand_as(score)
        top = torch.full_like(y[..., 0], -1e9).scatter_reduce(0, index, score, "amax")
        weight = (score - top[edges[1]]).exp()
        total = torch.zeros_like(y[..., 0]).index_add(0, edges[1], weight)
        message = y[edges[0]] * (weight / (total[edges[1]] + 1e-6)).unsqueeze(-1)
        return torch.zeros_like(y).index_add(0, edges[1], message).flatten(1)


class GIN(nn.Module):
    """Graph isomorphism network with a pooled result per graph."""

    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(3))
        self.head, self.eps = nn.Linear(width, 5), nn.Parameter(torch.zeros(3))

    def forward(self, x, edges, graph):
        for i, layer in enumerate(self.layers):
            x = layer((1 + self.eps[i]) * x + torch.zeros_like(x).index_add(0, edges[1], x[edges[0]]))
        pooled = x.new_zeros(4, x.shape[1]).scatter_reduce(0, graph.unsqueeze(1).expand_as(x), x, "mean", include_self=False)
        return self.head(pooled)


class UNet(nn.Module):
    """A small U-Net of diffusion models."""

    def __init__(self, width=32):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.norm, self.middle = nn.GroupNorm(8, 2 * width), nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.up, self.last = nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, x):
        a = F.silu(self.first(x))
        b = F.silu(self.norm(self.down(a)))
        b = b + self.middle(b)
        return self.last(torch.cat([a, self.up(b)], 1))


def timestep_embedding(t, width):
    rates = torch.exp(-math.log(10000) * torch.arange(width // 2, device=t.device) / (width // 2))
    angles = t[:, None].float() * rates
    return torch.cat([angles.cos(), angles.sin()], -1)


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs, width):
        super().__init__()
        self.first, self.second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norms = nn.ModuleList([nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)])
        self.time, self.skip = nn.Linear(width, outputs), nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, t):
        h = self.first(F.silu(self.norms[0](x))) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.second(F.silu(self.norms[1](h)))


class DiffusionUNet(nn.Module):
    """U-Net with timesteps, attention in the middle and nearest upsampling."""

    def __init__(self, width=32):
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down1, self.down2 = ResidualBlock(width, width, 4 * width), ResidualBlock(width, 2 * width, 4 * width)
        self.norm, self.attention = nn.GroupNorm(8, 2 * width), nn.MultiheadAttention(2 * width, 4, batch_first=True)
        self.up1, self.up2 = ResidualBlock(3 * width, width, 4 * width), ResidualBlock(2 * width, width, 4 * width)
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, t):
        t = self.time(timestep_embedding(t, self.width).to(x.dtype))
        a = self.down1(self.first(x), t)
        b = self.down2(F.avg_pool2d(a, 2), t)
        tokens = self.norm(b).flatten(2).transpose(1, 2)
        b = b + self.attention(tokens, tokens, tokens, need_weights=False)[0].transpose(1, 2).reshape(b.shape)
        c = self.up1(torch.cat([F.interpolate(b, scale_factor=2, mode="nearest"), a], 1), t)
        return self.last(self.up2(torch.cat([c, a], 1), t))


class DiT(nn.Module):
    """Diffusion transformer: layer norms modulated by the timestep."""

    def __init__(self, width=64, depth=2):
        super().__init__()
        self.width, self.patch = width, nn.Conv2d(3, width, 4, 4)
        self.time = nn.Linear(width, width)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(width, elementwise_affine=False), "qkv": nn.Linear(width, 3 * width),
                           "out": nn.Linear(width, width), "mlp": nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)),
                           "modulation": nn.Linear(width, 6 * width)}) for _ in range(depth))
        self.last = nn.Linear(width, 48)

    def forward(self, x, t):
        c = F.silu(self.time(timestep_embedding(t, self.width).to(x.dtype)))
        x = self.patch(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            s1, k1, g1, s2, k2, g2 = block["modulation"](c).unsqueeze(1).chunk(6, -1)
            q, k, v = block["qkv"](block["norm"](x) * (1 + k1) + s1).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
            x = x + g1 * block["out"](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
            x = x + g2 * block["mlp"](block["norm"](x) * (1 + k2) + s2)
        return F.pixel_shuffle(self.last(x).transpose(1, 2).unflatten(2, (8, 8)), 4)


class WaveNet(nn.Module):
    """Dilated causal convolutions with gates, on samples of audio."""

    def __init__(self, width=32):
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(6))
        self.skips = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(6))
        self.last = nn.Conv1d(width, 64, 1)

    def forward(self, x):
        x, total = self.first(x), 0
        for i, (gate, skip) in enumerate(zip(self.gates, self.skips)):
            a, b = gate(F.pad(x, (2**i, 0))).chunk(2, 1)
            y = skip(a.tanh() * b.sigmoid())
            x, total = x + y, total + y
        return self.last(total.relu())


class M5(nn.Sequential):
    """Convolutions over a raw waveform (speech commands)."""

    def __init__(self):
        super().__init__(
            nn.Conv1d(1, 32, 80, stride=16), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(4),
            nn.Conv1d(32, 64, 3), nn.BatchNorm1d(64), nn.ReLU(), nn.MaxPool1d(4), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 35))


class Conformer(nn.Module):
    """A conformer block: half feed-forward, attention, depthwise convolution, half feed-forward."""

    def __init__(self, width=64):
        super().__init__()
        mlp = lambda: nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
        self.first, self.second = mlp(), mlp()
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 4, batch_first=True)
        self.convolution = nn.Sequential(nn.Conv1d(width, 2 * width, 1), nn.GLU(1), nn.Conv1d(width, width, 15, padding=7, groups=width),
                                         nn.BatchNorm1d(width), nn.SiLU(), nn.Conv1d(width, width, 1))
        self.last = nn.LayerNorm(width)

    def forward(self, x):
        x = x + 0.5 * self.first(x)
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.convolution(x.transpose(1, 2)).transpose(1, 2)
        return self.last(x + 0.5 * self.second(x))


class DLRM(nn.Module):
    """Recommendation: embedding bags by offsets written out, products of pairs, an MLP."""

    def __init__(self, width=16):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(100, width) for _ in range(6))
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(width + 21, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())

    def forward(self, dense, indices):
        x = self.bottom(dense)
        rows = torch.stack([x] + [t(indices[:, i]).sum(1) for i, t in enumerate(self.tables)], 1)
        i, j = torch.tril_indices(7, 7, offset=-1)
        return self.top(torch.cat([x, torch.bmm(rows, rows.transpose(1, 2))[:, i, j]], 1))


class PointNet(nn.Module):
    """Points as a set: shared layers, then the maximum over points."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 128, 1), nn.BatchNorm1d(128), nn.ReLU())
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.layers(x).max(2)[0])


class NeRF(nn.Module):
    """Radiance field: positions by sines, then a weighted sum along rays."""

    def __init__(self, width=64):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(39, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, x):
        angles = x.unsqueeze(-1) * 2.0 ** torch.arange(6, device=x.device, dtype=x.dtype)
        y = self.layers(torch.cat([x, angles.sin().flatten(-2), angles.cos().flatten(-2)], -1))
        alpha = 1 - torch.exp(-F.softplus(y[..., 3]) * 0.1)
        kept = torch.cumprod(torch.cat([torch.ones_like(alpha[..., :1]), 1 - alpha + 1e-6], -1), -1)[..., :-1]
        return ((alpha * kept).unsqueeze(-1) * y[..., :3].sigmoid()).sum(-2)


class VAE(nn.Module):
    """Convolutional autoencoder; the noise of its code is an input."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 49, 32))
        self.decoder = nn.Sequential(nn.Linear(16, 32 * 49), nn.ReLU(), nn.Unflatten(1, (32, 7, 7)), nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(),
                                     nn.ConvTranspose2d(16, 1, 4, 2, 1))

    def forward(self, x, noise):
        mean, log = self.encoder(x).chunk(2, 1)
        y = self.decoder(mean + (0.5 * log).exp() * noise)
        kl = -0.5 * (1 + log - mean.square() - log.exp()).sum(1)
        return F.binary_cross_entropy_with_logits(y, x.sigmoid(), reduction="none").flatten(1).sum(1) + kl


class MixtureOfExperts(nn.Module):
    """Top-2 routing with weights of all experts in one tensor."""

    def __init__(self, width=32, experts=4):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.first = nn.Parameter(torch.randn(experts, width, 2 * width) * 0.1)
        self.second = nn.Parameter(torch.randn(experts, 2 * width, width) * 0.1)

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        weights = torch.zeros_like(self.gate(x)).scatter(-1, chosen, weights / weights.sum(-1, keepdim=True))
        y = torch.einsum("td,edh->teh", x, self.first).relu()
        return torch.einsum("teh,ehd,te->td", y, self.second, weights)


class SSDHead(nn.Module):
    """Class and box predictions of feature maps of three sizes, decoded to corners."""

    def __init__(self, width=32, anchors=4, classes=6):
        super().__init__()
        self.classes = classes
        self.levels = nn.ModuleList(nn.Conv2d(width, width, 3, stride=2, padding=1) for _ in range(2))
        self.scores = nn.ModuleList(nn.Conv2d(width, anchors * classes, 3, padding=1) for _ in range(3))
        self.boxes = nn.ModuleList(nn.Conv2d(width, anchors * 4, 3, padding=1) for _ in range(3))

    def forward(self, x):
        maps = [x]
        for level in self.levels:
            maps.append(level(maps[-1]).relu())
        scores = torch.cat([f(m).permute(0, 2, 3, 1).flatten(1).unflatten(1, (-1, self.classes)) for f, m in zip(self.scores, maps)], 1)
        boxes = torch.cat([f(m).permute(0, 2, 3, 1).flatten(1).unflatten(1, (-1, 4)) for f, m in zip(self.boxes, maps)], 1)
        centre, size = boxes[..., :2] * 0.1, (boxes[..., 2:] * 0.2).clamp(max=4).exp()
        return scores.softmax(-1), torch.cat([centre - size / 2, centre + size / 2], -1)


class FeaturePyramid(nn.Module):
    """Feature pyramid and RetinaNet's heads, with a focal loss against given classes."""

    def __init__(self, width=32, classes=5):
        super().__init__()
        from torchvision.models.detection.retinanet import RetinaNetHead
        from torchvision.ops import FeaturePyramidNetwork

        self.body = nn.ModuleList([nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 32, 3, 2, 1), nn.Conv2d(32, 64, 3, 2, 1)])
        self.pyramid, self.head = FeaturePyramidNetwork([16, 32, 64], width), RetinaNetHead(width, 3, classes)

    def forward(self, x):
        maps = {}
        for i, layer in enumerate(self.body):
            x = layer(x).relu()
            maps[str(i)] = x
        out = self.head(list(self.pyramid(maps).values()))
        return out["cls_logits"], out["bbox_regression"]


class YOLOHead(nn.Module):
    """Grid predictions decoded to boxes, and intersections over unions of all pairs."""

    def __init__(self, width=32):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.LeakyReLU(0.1), nn.Conv2d(width, 3 * 7, 1))
        self.register_buffer("anchors", torch.tensor([[10.0, 13], [16, 30], [33, 23]]))

    def forward(self, x):
        b, _, h, w = x.shape
        y = self.conv(x).view(b, 3, 7, h, w).permute(0, 1, 3, 4, 2)
        grid = torch.stack(torch.meshgrid(torch.arange(h, device=x.device), torch.arange(w, device=x.device), indexing="xy"), -1)
        centre = (y[..., :2].sigmoid() * 2 - 0.5 + grid) * 8
        size = (y[..., 2:4].sigmoid() * 2) ** 2 * self.anchors.to(x.dtype).view(1, 3, 1, 1, 2)
        low, high = (centre - size / 2).flatten(1, 3), (centre + size / 2).flatten(1, 3)
        low, high = low[:, :32], high[:, :32]
        overlap = (torch.minimum(high[:, :, None], high[:, None]) - torch.maximum(low[:, :, None], low[:, None])).clamp(min=0).prod(-1)
        area = (high - low).prod(-1)
        return y[..., 4:].sigmoid(), overlap / (area[:, :, None] + area[:, None] - overlap + 1e-6)


class TextCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(300, 32, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Conv1d(32, 24, k) for k in (3, 4, 5))
        self.head = nn.Linear(72, 4)

    def forward(self, x):
        y = self.table(x).transpose(1, 2)
        return self.head(torch.cat([f(y).relu().amax(2) for f in self.convolutions], 1))


class SpatialTransformer(nn.Module):
    """A network that samples its input at a predicted affine grid."""

    def __init__(self):
        super().__init__()
        self.locate = nn.Sequential(nn.Conv2d(1, 8, 7), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 11 * 11, 6))
        self.head = nn.Sequential(nn.Conv2d(1, 8, 5), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 10))

    def forward(self, x):
        theta = 0.1 * self.locate(x).view(-1, 2, 3) + torch.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=x.dtype, device=x.device)
        # Not `affine_grid`, whose gradient takes no symbolic batch in PyTorch 2.15.
        line = (2 * torch.arange(28, device=x.device, dtype=x.dtype) + 1) / 28 - 1
        points = torch.stack([line.expand(28, 28), line.unsqueeze(1).expand(28, 28), torch.ones_like(line).expand(28, 28)], -1)
        grid = (points.view(1, -1, 3) @ theta.transpose(1, 2)).view(-1, 28, 28, 2)
        return self.head(F.grid_sample(x, grid, align_corners=False))


class SelectiveScan(nn.Module):
    """A state-space layer: a linear recurrence by cumulative sums of logarithms."""

    def __init__(self, width=32, state=8):
        super().__init__()
        self.rate, self.inputs, self.outputs = nn.Linear(width, width), nn.Linear(width, state), nn.Linear(width, state)
        self.log = nn.Parameter(torch.randn(width, state) * 0.1)

    def forward(self, x):
        step = F.softplus(self.rate(x)).clamp(max=1.0)
        decay = torch.cumsum(-(step.unsqueeze(-1) * self.log.exp()), 1)
        weights = (decay.unsqueeze(2) - decay.unsqueeze(1)).exp()
        causal = torch.ones(x.shape[1], x.shape[1], device=x.device, dtype=torch.bool).tril()
        weights = weights.masked_fill(~causal[None, :, :, None, None], 0.0)
        return torch.einsum("btsdn,bsd,bsn,btn->btd", weights, step * x, self.inputs(x), self.outputs(x))


class Seq2Seq(nn.Module):
    """A GRU encoder and a decoder with additive attention."""

    def __init__(self, width=32):
        super().__init__()
        self.table, self.encoder, self.decoder = nn.Embedding(100, width), nn.GRUCell(width, width), nn.GRUCell(2 * width, width)
        self.key, self.query, self.score, self.head = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1), nn.Linear(width, 100)

    def forward(self, source, target):
        x, h, states, out = self.table(source), self.table.weight.new_zeros(source.shape[0], self.table.embedding_dim), [], []
        for t in range(6):
            h = self.encoder(x[:, t], h)
            states.append(h)
        memory = torch.stack(states, 1)
        keys, y = self.key(memory), self.table(target)
        for t in range(6):
            weights = self.score((keys + self.query(h).unsqueeze(1)).tanh()).softmax(1)
            h = self.decoder(torch.cat([y[:, t], (weights * memory).sum(1)], 1), h)
            out.append(self.head(h))
        return torch.stack(out, 1)


class Generator(nn.Sequential):
    """DCGAN's generator."""

    def __init__(self):
        super().__init__(
            nn.Unflatten(1, (64, 1, 1)), nn.ConvTranspose2d(64, 64, 4), nn.BatchNorm2d(64), nn.ReLU(), nn.ConvTranspose2d(64, 32, 4, 2, 1),
            nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh())


class VideoNet(nn.Sequential):
    """Convolutions over time and space."""

    def __init__(self):
        super().__init__(
            nn.Conv3d(3, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(8, 16, (3, 1, 1), padding=(1, 0, 0)),
            nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(16, 5))


def graph(width):
    return lambda batch=60: (torch.randn(batch, width), torch.randint(0, batch, (2, 4 * batch)))


def models():
    normal = lambda *shape: lambda batch=4: (torch.randn(batch, *shape),)
    yield "mlp", MLP, normal(256), {}
    yield "lstm_cell", lambda: CellLoop(nn.LSTMCell), normal(8, 64), {}
    yield "gru_cell", lambda: CellLoop(nn.GRUCell), normal(8, 64), {}
    yield "lstm", lambda: Recurrent(nn.LSTM), normal(7, 32), {}
    yield "gru_bidirectional", lambda: Recurrent(nn.GRU, bidirectional=True), normal(7, 32), {}
    yield "seq2seq", Seq2Seq, lambda batch=4: (torch.randint(1, 100, (batch, 6)), torch.randint(1, 100, (batch, 6))), {}
    yield "graph", MessagePassing, graph(64), {}
    yield "gcn", GCN, graph(64), {}
    yield "gat", GAT, graph(64), {}
    yield "gin", GIN, lambda batch=60: (*graph(32)(batch), torch.arange(batch) % 4), {}
    yield "unet", UNet, lambda batch=2: (torch.randn(batch, 3, 32, 32),), {}
    yield "diffusion_unet", DiffusionUNet, lambda batch=2: (torch.randn(batch, 3, 16, 16), torch.randint(0, 1000, (batch,))), {}
    yield "dit", DiT, lambda batch=2: (torch.randn(batch, 3, 32, 32), torch.randint(0, 1000, (batch,))), {}
    layer = lambda: nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
    sequence = lambda batch=4, length=32: (torch.randn(batch, length, 128),)
    yield "encoder_layer", layer, sequence, {"second_length": lambda: sequence(4, 45)}
    decoder = lambda: nn.TransformerDecoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    yield "decoder_layer", decoder, lambda batch=4: (torch.randn(batch, 12, 64), torch.randn(batch, 20, 64)), {}
    yield "wavenet", WaveNet, lambda batch=2, length=200: (torch.randn(batch, 1, length),), {"second_length": lambda: (torch.randn(2, 1, 260),)}
    yield "m5", M5, lambda batch=4: (torch.randn(batch, 1, 2000),), {}
    yield "conformer", Conformer, lambda batch=2, length=40: (torch.randn(batch, length, 64),), {"second_length": lambda: (torch.randn(2, 52, 64),)}
    yield "dlrm", DLRM, lambda batch=16: (torch.randn(batch, 13), torch.randint(0, 100, (batch, 6, 3))), {}
    yield "pointnet", PointNet, lambda batch=4, points=64: (torch.randn(batch, 3, points),), {"second_length": lambda: (torch.randn(4, 3, 80),)}
    yield "nerf", NeRF, lambda batch=8: (torch.randn(batch, 16, 3),), {}
    yield "vae", VAE, lambda batch=4: (torch.randn(batch, 1, 28, 28), torch.randn(batch, 16)), {}
    yield "mixture_of_experts", MixtureOfExperts, normal(32), {}
    yield "ssd_head", SSDHead, normal(32, 16, 16), {}
    yield "retinanet_head", FeaturePyramid, lambda batch=2: (torch.randn(batch, 3, 64, 64),), {}
    yield "yolo_head", YOLOHead, normal(32, 8, 8), {}
    yield "text_cnn", TextCNN, lambda batch=4, length=20: (torch.randint(0, 300, (batch, length)),), {"second_length": lambda: (torch.randint(0, 300, (4, 26)),)}
    yield "spatial_transformer", SpatialTransformer, lambda batch=3: (torch.randn(batch, 1, 28, 28),), {}
    yield "selective_scan", SelectiveScan, lambda batch=2, length=12: (torch.randn(batch, length, 32),), {"second_length": lambda: (torch.randn(2, 17, 32),)}
    yield "generator", Generator, normal(64), {}
    yield "video", VideoNet, lambda batch=2: (torch.randn(batch, 3, 8, 16, 16),), {}
