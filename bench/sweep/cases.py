"""Points of the sweep: an operation × a layout × a dtype × a shape × forward or gradients, by stable names.

In: entries of `operations` and `pairs`. Out: `points()`, a list of `Point` without tensors. `Point.build(device)` makes the
function and its inputs from a seed that is a checksum of the name, so a point is the same in every process.

Of all combinations of an entry these are points: all shapes in the first dtype, contiguous, forward, and a third of them with
gradients; each layout and each dtype on one shape, forward or gradients; and a few others that a checksum of the name chooses.
"""

import math
import random
import zlib
from dataclasses import dataclass, field
from typing import Callable

import torch

DTYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f64": torch.float64,
    "i64": torch.int64,
    "i32": torch.int32,
    "u8": torch.uint8,
    "bool": torch.bool,
}
FLOATS = ("f32", "bf16", "f16", "f64")
INTEGERS = ("i64", "i32", "u8")
NUMBERS = FLOATS + INTEGERS
LAYOUTS = ("contiguous", "transposed", "sliced", "broadcast", "strided", "offset")
IMAGE_LAYOUTS = ("contiguous", "channels_last", "sliced", "offset", "transposed")
MATRIX_LAYOUTS = ("contiguous", "transposed", "sliced", "strided", "offset")
# Combinations of an entry beyond the systematic ones.
EXTRA_POINTS = 4


class Maker:
    """Makes the inputs of a point: random values of its dtype, the main inputs in its layout."""

    def __init__(self, seed, dtype, layout, device):
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype, self.layout, self.device = DTYPES[dtype], layout, device

    def values(self, shape, kind, dtype=None):
        dtype = dtype or self.dtype
        if dtype == torch.bool:
            return torch.rand(shape, generator=self.generator) < 0.5
        if not dtype.is_floating_point:
            low, high = (1, 100) if kind in ("positive", "unit") or dtype == torch.uint8 else (-100, 100)
            return torch.randint(low, high, shape, generator=self.generator).to(dtype)
        if kind == "positive":
            return (torch.rand(shape, generator=self.generator) * 2 + 0.1).to(dtype)
        if kind == "unit":
            return (torch.rand(shape, generator=self.generator) * 0.98 + 0.01).to(dtype)
        if kind == "distinct" and dtype in (torch.float32, torch.float64):
            # Gradients of a selection do not depend on the order of equal elements.
            n = math.prod(shape)
            return (torch.randperm(n, generator=self.generator).view(shape) * (4 / n) - 2).to(dtype)
        if kind == "near_one":
            return (torch.randn(shape, generator=self.generator) * 0.02 + 1).to(dtype)
        return torch.randn(shape, generator=self.generator).to(dtype)

    def x(self, *shape, kind="normal", dtype=None):
        """A main input: it has the layout of the point."""
        # Moved first: a copy to another device would be contiguous.
        return arranged(lambda s: self.values(s, kind, dtype).to(self.device), shape, self.layout)

    def w(self, *shape, kind="normal", scale=1.0, dtype=None):
        """A contiguous input, such as a weight."""
        out = self.values(shape, kind, dtype)
        return (out * scale if scale != 1.0 else out).to(self.device)

    def index(self, high, *shape):
        return torch.randint(0, high, shape, generator=self.generator).to(self.device)

    def permutation(self, n):
        return torch.randperm(n, generator=self.generator).to(self.device)

    def mask(self, *shape):
        return (torch.rand(shape, generator=self.generator) < 0.5).to(self.device)


def arranged(make, shape, layout):
    """A tensor of a shape whose memory is arranged as `layout` says."""
    shape = tuple(shape)
    if layout == "transposed":
        return make((*shape[:-2], shape[-1], shape[-2])).transpose(-1, -2)
    if layout == "sliced":
        return make((*shape[:-1], shape[-1] + 16))[..., 8 : 8 + shape[-1]]
    if layout == "broadcast":
        return make((1, *shape[1:])).expand(shape)
    if layout == "strided":
        return make((*shape[:-1], 2 * shape[-1]))[..., ::2]
    if layout == "offset":
        return make((math.prod(shape) + 1,))[1:].view(shape)
    if layout == "channels_last":
        format = {4: torch.channels_last, 5: torch.channels_last_3d}[len(shape)]
        return make(shape).contiguous(memory_format=format)
    return make(shape)


@dataclass(frozen=True)
class Entry:
    """An operation of the sweep. `inputs(maker, *dims)` gives its inputs, `shapes` dims by class of shape."""

    family: str
    name: str
    function: Callable
    inputs: Callable
    shapes: dict
    dtypes: tuple = FLOATS
    layouts: tuple = LAYOUTS
    grad: bool = True
    extra: int = EXTRA_POINTS
    # The first shape, with which layouts and dtypes are combined.
    main: str = ""
    # Whether gradients go to selected elements. Of equal elements, many in narrow floats, it is not specified which.
    selects: bool = False


@dataclass(frozen=True)
class Point:
    name: str
    family: str
    operation: str
    layout: str
    dtype: str
    shape: str
    shape_class: str
    grad: bool
    entry: Entry = field(repr=False)

    @property
    def seed(self):
        return zlib.crc32(self.name.encode())

    def build(self, device="cpu"):
        """Returns the function and its inputs."""
        maker = Maker(self.seed, self.dtype, self.layout, device)
        return self.entry.function, list(self.entry.inputs(maker, *self.entry.shapes[self.shape_class]))


def dims_text(dims):
    return "x".join("-".join(map(str, d)) if isinstance(d, (tuple, list)) else str(d) for d in dims)


def point(entry, layout, dtype, shape_class, grad):
    shape = dims_text(entry.shapes[shape_class])
    name = f"{entry.name}/{layout}/{dtype}/{shape}/{'grad' if grad else 'forward'}"
    return Point(name, entry.family, entry.name, layout, dtype, shape, shape_class, grad, entry)


def points_of(entry):
    """The points of an entry, systematic ones first."""
    first_dtype, first_layout = entry.dtypes[0], entry.layouts[0]
    main = entry.main or next(iter(entry.shapes))
    shapes = list(entry.shapes)
    # Layouts and dtypes are combined with shapes in turn, from an offset that depends on the name: another shape for each entry.
    turn = zlib.crc32(entry.name.encode())
    found = {}

    def add(layout, dtype, shape_class, grad):
        if grad and not (entry.grad and dtype in FLOATS):
            return
        if grad and entry.selects and dtype in ("bf16", "f16"):
            return
        found.setdefault((layout, dtype, shape_class, grad))

    for i, shape_class in enumerate(shapes):
        add(first_layout, first_dtype, shape_class, False)
        if shape_class == main or (turn + i) % 3 == 0:
            add(first_layout, first_dtype, shape_class, True)
    for i, layout in enumerate(entry.layouts[1:]):
        grad = entry.grad and (turn + i) % 3 == 0
        add(layout, first_dtype, shapes[(turn + i) % len(shapes)], grad)
    for i, dtype in enumerate(entry.dtypes[1:]):
        add(first_layout, dtype, main if i % 2 == 0 else shapes[(turn + i) % len(shapes)], False)
        if (turn + i) % 3 == 0:
            add(first_layout, dtype, shapes[(turn + i) % len(shapes)], True)
    rest = [
        (layout, dtype, shape_class, grad)
        for layout in entry.layouts[1:]
        for dtype in entry.dtypes[1:]
        for shape_class in shapes
        for grad in (False, True)
    ]
    random.Random(turn).shuffle(rest)
    for combination in rest[: (entry.extra + 1) // 2]:
        add(*combination)
    return [point(entry, *combination) for combination in found]


def entries():
    from operations import ENTRIES
    from pairs import PAIRS

    return ENTRIES + PAIRS


def points():
    """All points, in the order of the entries."""
    out = [p for entry in entries() for p in points_of(entry)]
    names = {p.name for p in out}
    assert len(names) == len(out), "names of points are unique"
    return out


def stratified(chosen, seed=41):
    """The points in an order of which each prefix holds all families in proportion; within a family at random."""
    strata = {}
    for p in chosen:
        strata.setdefault((p.family, p.dtype, p.grad), []).append(p)
    order = random.Random(seed)
    keyed = []
    for key in sorted(strata):
        members = strata[key]
        order.shuffle(members)
        start = order.random()
        keyed += [((i + start) / len(members), p.name, p) for i, p in enumerate(members)]
    return [p for _, _, p in sorted(keyed, key=lambda k: k[:2])]
