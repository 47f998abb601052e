"""Programs of points and small matrices in PyTorch: rotations, meshes, filters, transport. Each element has a few components, mostly last in memory.

Functions as in `array_programs`. What keeps lengths has weights behind it: the sum of its squares would have no slope.
"""

import torch


def quaternion_product(s):
    count = s.of(20_000, 4_000_000)

    def product(a, b):
        aw, ax, ay, az = a.unbind(-1)
        bw, bx, by, bz = b.unbind(-1)
        w = aw * bw - ax * bx - ay * by - az * bz
        x = aw * bx + ax * bw + ay * bz - az * by
        y = aw * by - ax * bz + ay * bw + az * bx
        return torch.stack([w, x, y, aw * bz + ax * by - ay * bx + az * bw], -1)

    return product, [s.normal(count, 4), s.normal(count, 4)]


def quaternion_rotation(s):
    count = s.of(20_000, 4_000_000)
    weights = s.normal(3)

    def rotate(q, v):
        q = q / q.norm(dim=-1, keepdim=True)
        u, w = q[:, 1:], q[:, :1]
        t = 2 * torch.linalg.cross(u, v)
        return (v + w * t + torch.linalg.cross(u, t)) * weights

    return rotate, [s.normal(count, 4), s.normal(count, 3)]


def vertex_normals(s):
    vertices, faces = s.of(5_000, 500_000), s.of(9_000, 1_000_000)
    corners, weights = s.index(vertices, faces, 3), s.normal(3)

    def normals(v):
        a, b, c = v[corners[:, 0]], v[corners[:, 1]], v[corners[:, 2]]
        n = torch.linalg.cross(b - a, c - a)
        total = torch.zeros_like(v).index_add(0, corners.reshape(-1), n.repeat_interleave(3, 0))
        return total / (total.norm(dim=-1, keepdim=True) + 1e-6) * weights

    return normals, [s.normal(vertices, 3)]


def kalman(s):
    count = s.of(500, 200_000)
    motion = torch.eye(4, device=s.device) + torch.diag(torch.full((2,), 0.1, device=s.device), 2)
    observed = torch.eye(2, 4, device=s.device)

    def steps(p):
        p = p @ p.mT + torch.eye(4, device=s.device)
        for _ in range(4):
            p = motion @ p @ motion.T + 0.01 * torch.eye(4, device=s.device)
            r = observed @ p @ observed.T + 0.1 * torch.eye(2, device=s.device)
            a, b, c, d = r[:, 0, 0], r[:, 0, 1], r[:, 1, 0], r[:, 1, 1]
            inverse = torch.stack([torch.stack([d, -b], -1), torch.stack([-c, a], -1)], -2) / (a * d - b * c)[:, None, None]
            gain = p @ observed.T @ inverse
            p = (torch.eye(4, device=s.device) - gain @ observed) @ p
        return p

    return steps, [s.normal(count, 4, 4)]


def rodrigues(s):
    count = s.of(2_000, 500_000)
    weights = s.normal(3, 3)

    def matrices(r):
        angle = r.norm(dim=-1, keepdim=True) + 1e-6
        x, y, z = (r / angle).unbind(-1)
        zero = torch.zeros_like(x)
        k = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).reshape(-1, 3, 3)
        sine, cosine = angle.sin()[:, :, None], angle.cos()[:, :, None]
        return (torch.eye(3, device=s.device) + sine * k + (1 - cosine) * (k @ k)) * weights

    return matrices, [s.normal(count, 3)]


def interleaved_rotation(s):
    length = s.of(128, 4096)
    weights = s.normal(64)

    def rotate(x, angle):
        cosine, sine = angle.cos()[:, None], angle.sin()[:, None]
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2) * weights

    return rotate, [s.normal(8, length, 8, 64), s.normal(length, 32)]


def covariance_update(s):
    count = s.of(300, 100_000)

    def update(c, a, v):
        return a @ (c @ c.mT) @ a.mT + 0.1 * torch.eye(6, device=s.device) + v[:, :, None] * v[:, None, :]

    return update, [s.normal(count, 6, 6), s.normal(count, 6, 6), s.normal(count, 6)]


def skinning(s):
    count = s.of(4_000, 400_000)

    def skin(v, m, t, w):
        return (w.softmax(-1)[..., None] * (torch.einsum("jab,nb->nja", m, v) + t)).sum(1)

    return skin, [s.normal(count, 3), s.normal(24, 3, 3), s.normal(24, 3), s.normal(count, 24)]


def small_layers(s):
    count = s.of(400, 40_000)
    return lambda x, w, b: torch.tanh(x @ w + b), [s.normal(count, 12, 10), s.normal(count, 10, 12), s.normal(12)]


def colour_matrix(s):
    side = s.of(64, 4096)
    return lambda x, m: (x.clamp(0, 1).pow(2.2) @ m).clamp(0, 1), [s.uniform(side, side, 3), s.normal(3, 3)]


def transport(s):
    count = s.of(200, 20_000)

    def plan(cost):
        u, v = torch.zeros_like(cost[:, :, 0]), torch.zeros_like(cost[:, 0])
        for _ in range(10):
            u = -torch.logsumexp(v[:, None] - cost, 2)
            v = -torch.logsumexp(u[:, :, None] - cost, 1)
        return (u[:, :, None] + v[:, None] - cost).exp()

    return plan, [s.normal(count, 16, 16)]


def barycentric(s):
    count = s.of(10_000, 4_000_000)

    def coordinates(a, b, c):
        p, q, r = b - a, c - a, 0.3 - a
        area = p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0]
        area = torch.where(area.abs() < 0.1, 1.0, area)
        u = (r[:, 0] * q[:, 1] - r[:, 1] * q[:, 0]) / area
        w = (p[:, 0] * r[:, 1] - p[:, 1] * r[:, 0]) / area
        return torch.stack([1 - u - w, u, w], -1)

    return coordinates, [s.normal(count, 2), s.normal(count, 2), s.normal(count, 2)]


def haar(s):
    count, side = s.of(32, 256), s.of(60, 500)

    def both(x):
        a, b, c, d = x[:, ::2, ::2], x[:, ::2, 1::2], x[:, 1::2, ::2], x[:, 1::2, 1::2]
        parts = torch.stack([a + b + c + d, a - b + c - d, a + b - c - d, a - b - c + d], 1) / 2
        a, b, c, d = (parts * parts.abs().sqrt()).unbind(1)
        even = torch.stack([a + b + c + d, a - b + c - d], -1).flatten(-2)
        odd = torch.stack([a + b - c - d, a - b - c + d], -1).flatten(-2)
        return torch.stack([even, odd], -2).flatten(-3, -2) / 2

    return both, [s.normal(count, side, side)]


PLAIN = [
    quaternion_product, quaternion_rotation, vertex_normals, kalman, rodrigues, interleaved_rotation, covariance_update, skinning, small_layers,
    colour_matrix, transport, barycentric, haar,
]
GRADIENTS = PLAIN
