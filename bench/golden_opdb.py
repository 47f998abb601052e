"""Writes crates/thalweg/tests/opdb/golden.bin: samples of PyTorch's operator database with values, gradients and second
derivatives, and special points. bench/opdb_table.txt says which entry is what in Thalweg; crates/thalweg/tests/opdb reads the file.

    python3 bench/golden_opdb.py [ENTRY ...]        (needs torch 2.15, numpy, scipy, expecttest; entries: prints them, writes nothing)

Format: "OPDB1\\n", the number of streams (u32), then of each stream dtype and role (u8 each), raw and compressed length (u32
each), and its bytes by zlib. Stream (255, 0) is the structure, the others hold elements of one dtype, byte plane by byte
plane: first byte of all elements, second byte of all, and so on. `Writer` is the structure's grammar.
"""
import collections
import itertools
import os
import struct
import sys
import warnings
import zlib
import numpy as np
import torch
import torch.testing._internal.common_methods_invocations as database
import torch.testing._internal.opinfo.core as core
from torch.testing._internal import common_utils
import torch.testing._internal.opinfo.definitions as definitions

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
here = os.path.dirname(os.path.abspath(__file__))


def set_sizes(**sizes):
    """Sizes of the database's samples."""
    for module in [database, core, *(getattr(definitions, m) for m in ("linalg", "fft", "special", "_masked", "signal"))]:
        for name, size in sizes.items():
            if hasattr(module, name):
                setattr(module, name, size)


MAX_ELEMENTS = 250  # of a sample's arguments; of its results 640
MAX_ELEMENTS_OF_LARGE = 900  # where there are no smaller samples
SAMPLES = {"f": 12, "i": 4, "b": 2, "c": 4}
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.int16, torch.int32, torch.int64,
          torch.uint8, torch.bool]
FLOATS = DTYPES[:3]
KINDS = {"f": torch.float64, "i": torch.int64, "b": torch.bool, "c": torch.complex128}
inf, nan = float("inf"), float("nan")


def table():
    """Entry to (Thalweg's name or None, kinds, parameters, what is compared)."""
    rows = {}
    for line in open(os.path.join(here, "opdb_table.txt")):
        if line.startswith("#") or not line.strip():
            continue
        cells = [c.strip() for c in line.rstrip("\n").split(" | ")]
        assert cells[0] not in rows, cells[0]
        result = compile(cells[4], cells[0], "eval") if len(cells) > 4 else None
        rows[cells[0]] = (None,) * 4 if cells[1] == "-" else (cells[1], cells[2].split(), parameters(cells[3]), result)
    return rows


def parameters(text):
    """Parameters of an entry: (name, how, default), how one of "must", "may", "equal", "drop", "rest"."""
    out = []
    for word in text.split():
        if word.endswith("~"):
            out.append((word[:-1], "drop", None))
        elif "==" in word:
            name, value = word.split("==")
            out.append((name, "equal", literal(value)))
        elif "=" in word:
            name, value = word.split("=")
            out.append((name, "may", literal(value)))
        elif word.startswith("*"):
            out.append((word[1:], "rest", None))
        else:
            out.append((word, "must", None))
    return out


def literal(text):
    try:
        return eval(text, {"__builtins__": {}}, {"inf": inf})
    except NameError:
        return text


class Skip(Exception):
    pass


# Names that samples use for what the table calls otherwise.
ALIASES = {"input": "x", "stdim": "dim", "axis": "dim", "lambd": "lambda", "min_val": "min", "max_val": "max", "negative_slope": "slope",
           "kernel_size": "kernel", "output_size": "size", "normalized_shape": "shape", "num_groups": "groups",
           "num_classes": "classes"}


def bound(shape, sample):
    """The sample's arguments by the table's names."""
    given = [sample.input, *sample.args]
    named = dict(sample.kwargs)
    names = {n for n, _, _ in shape}
    for name in list(named):
        if name not in names and ALIASES.get(name) in names:
            named[ALIASES[name]] = named.pop(name)
    # A flag in the place of the axes is `unbiased`.
    if "unbiased" in names and len(given) > 1 and isinstance(given[1], bool):
        named["unbiased"] = given.pop(1)
    out = []
    for name, how, default in shape:
        if how == "rest":
            rest, given = given, []
            if len(rest) == 1 and isinstance(rest[0], (tuple, list, torch.Size)):
                rest = list(rest[0])
            out.append((name, list(rest)))
            continue
        if name in named:
            value, there = named.pop(name), True
        elif given:
            value, there = given.pop(0), True
        else:
            value, there = default, how != "must"
        if not there:
            raise Skip(f"no {name}")
        if how == "equal" and value != default and not (isinstance(value, float) and value == default):
            raise Skip(f"{name} is {value}")
        if how in ("must", "may"):
            out.append((name, value))
    if given or named:
        raise Skip(f"more arguments: {len(given)} {list(named)}")
    check(dict(out))
    return out


def check(values):
    """Leaves out what Thalweg has by its rules: axes of a rank without any, promotion between tensors."""
    x = values.get("x")
    if not isinstance(x, torch.Tensor):
        return
    axes = values.get("dim")
    if x.dim() == 0 and axes is not None and axes != []:
        raise Skip("an axis of a number")
    for name in ("other", "min", "max", "end", "weight", "value", "a", "b"):
        if isinstance(values.get(name), torch.Tensor) and values[name].dtype != x.dtype:
            raise Skip(f"{name} is of another dtype")


def mapped(value, f):
    if isinstance(value, torch.Tensor):
        return f(value)
    if isinstance(value, (list, tuple, torch.Size)):
        return type(value)(mapped(v, f) for v in value) if not isinstance(value, torch.Size) else value
    if isinstance(value, dict):
        return {k: mapped(v, f) for k, v in value.items()}
    return value


def tensors(value, out):
    mapped(value, out.append)
    return out


def narrowed(t):
    """Floats as numbers that bf16 has, too, so that one record serves three dtypes."""
    if t.dtype == torch.float64:
        kept = t.detach().to(torch.bfloat16).to(torch.float64)
    else:
        kept = t.detach().clone()
    return kept.contiguous().requires_grad_(t.requires_grad and t.is_floating_point())


def cotangent(y, k, by):
    """Fixed odd numbers over 64, which every float dtype has."""
    i = torch.arange(y.numel(), dtype=torch.int64)
    step, first = by
    return (((i * step + first + 5 * k) % 64).to(torch.float64) / 32 - 63 / 64).to(y.dtype).reshape(y.shape)


def real(y):
    return torch.view_as_real(y.resolve_conj()) if y.is_complex() else y


class Result:
    """Outputs in one dtype, which of them count in the loss, gradients and second derivatives or None."""

    def __init__(self, op, sample, orders, result):
        leaves = tensors((sample.input, sample.args, sample.kwargs), [])
        leaves = [t for t in leaves if t.is_floating_point() and t.requires_grad]
        y = op(sample.input, *sample.args, **sample.kwargs)
        if result is not None:
            y = eval(result, {"torch": torch, "first": lambda y: y[0] if isinstance(y, tuple) else y}, {"y": y})
        if isinstance(y, (bool, int, float)):
            y = torch.tensor(y)
        self.outputs = [real(t) for t in tensors(y, [])]
        assert self.outputs, "no output"
        self.counts = [t.is_floating_point() and t.requires_grad for t in self.outputs]
        self.first = self.second = None
        if orders == 0 or not any(self.counts) or not leaves:
            return
        pairs = [(t, cotangent(t, k, (37, 11))) for k, t in enumerate(self.outputs) if self.counts[k]]
        zeros = lambda found: [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found)]
        loss = sum((t * c).sum() for t, c in pairs if t.dtype == pairs[0][0].dtype)
        self.counts = [c and t.dtype == pairs[0][0].dtype for c, t in zip(self.counts, self.outputs)]
        found = torch.autograd.grad(loss, leaves, create_graph=orders == 2, allow_unused=True)
        self.first = zeros(found)
        if orders == 2:
            slopes = [g for g in self.first if g.requires_grad]
            if slopes:
                total = sum((g * cotangent(g, k, (41, 7))).sum() for k, g in enumerate(self.first) if g.requires_grad)
                self.second = zeros(torch.autograd.grad(total, leaves, allow_unused=True))
            else:
                self.second = zeros([None] * len(leaves))

    def numel(self):
        return sum(t.numel() for t in self.outputs)


class Writer:
    """record: entry, special (u8), arguments, results. str: u8 length, bytes. arguments: u8 count, each str name, value.
    value: u8 tag 0 None, 1 bool u8, 2 i64, 3 f64, 4 str, 5 tensor with u8 (1 gradient wanted, 2 complex), 6 list u16.
    tensor: u8 dtype, u8 rank, u16 dims; its elements in the stream of dtype and role 0. results: u8 count, each u8 dtype,
    u8 outputs (tensor, u8 whether it counts in the loss), then first and second order: u8 255 or count, tensors; role 1."""

    def __init__(self):
        self.structure, self.streams = bytearray(), collections.defaultdict(list)

    def u8(self, v):
        self.structure.append(v)

    def text(self, s):
        raw = s.encode()
        self.u8(len(raw))
        self.structure += raw

    def tensor(self, t, role):
        code = DTYPES.index(t.dtype)
        self.u8(code)
        self.u8(t.dim())
        for d in t.shape:
            self.structure += struct.pack("<H", d)
        t = t.detach().contiguous() if not t._is_zerotensor() else torch.zeros(t.shape, dtype=t.dtype)
        if t.dtype == torch.bfloat16 or t.dtype == torch.float16:
            flat = t.view(torch.int16).numpy().ravel()
        else:
            flat = t.numpy().ravel()
        if flat.dtype == np.float64:
            bits = np.where(np.isnan(flat), np.nan, flat).view(np.uint64)
            if role == 1:
                # 34 bits of a result are enough: 6e-11 of it.
                bits = np.where(np.abs(flat) > 1e-290, (bits + (1 << 17)) & ~np.uint64((1 << 18) - 1), bits)
            flat = bits
        if flat.dtype == np.float32:
            flat = np.where(np.isnan(flat), np.float32(np.nan), flat).view(np.uint32)
        self.streams[code, role].append(flat)

    def value(self, v):
        if v is None:
            self.u8(0)
        elif isinstance(v, bool):
            self.structure += struct.pack("<BB", 1, v)
        elif isinstance(v, int):
            self.structure += struct.pack("<Bq", 2, v)
        elif isinstance(v, float):
            self.structure += struct.pack("<Bd", 3, v)
        elif isinstance(v, (str, torch.dtype)):
            self.u8(4)
            self.text(str(v).removeprefix("torch."))
        elif isinstance(v, torch.Tensor):
            self.structure += struct.pack("<BB", 5, 2 if v.is_complex() else int(v.requires_grad))
            self.tensor(real(v), 0)
        elif isinstance(v, (list, tuple)):
            self.structure += struct.pack("<BH", 6, len(v))
            for e in v:
                self.value(e)
        else:
            raise Skip(f"argument {type(v)}")

    def results(self, results):
        self.u8(len(results))
        for dtype, r in results:
            self.u8(DTYPES.index(dtype))
            self.u8(len(r.outputs))
            for t, counts in zip(r.outputs, r.counts):
                self.tensor(t, 1)
                self.u8(counts)
            for order in (r.first, r.second):
                self.u8(255 if order is None else len(order))
                for t in order or []:
                    self.tensor(t, 1)

    def bytes(self):
        streams = [((255, 0), bytes(self.structure))]
        for key, parts in sorted(self.streams.items()):
            flat = np.concatenate(parts)
            streams.append((key, np.ascontiguousarray(flat.view(np.uint8).reshape(len(flat), flat.itemsize).T).tobytes()))
        out = bytearray(b"OPDB1\n" + struct.pack("<I", len(streams)))
        for (dtype, role), raw in streams:
            packed = zlib.compress(raw, 9)
            out += struct.pack("<BBII", dtype, role, len(raw), len(packed)) + packed
        return bytes(out)


def specials(kinds, dtype):
    """Arguments at special points, in a dtype."""
    big, tiny, least = torch.finfo(dtype).max, torch.finfo(dtype).tiny, torch.finfo(dtype).smallest_normal / 4
    t = lambda v: torch.tensor(v, dtype=dtype, requires_grad=True)
    line = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, -6.0, 0.25, -20.0, 20.0, 30.0, 100.0, -100.0, big, -big,
            tiny, -tiny, least, -least, inf, -inf, nan]
    short = [0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, big, least, inf, -inf, nan]
    out = []
    if "u" in kinds:
        out.append((t(line), []))
    if "p" in kinds:
        n = len(short)
        out.append((t([a for a in short for _ in range(n)]), [t(short * n)]))
    if "r" in kinds:
        rows = [[1.0, 2.0, 2.0, 0.0], [inf, 1.0, -inf, 2.0], [inf, inf, 0.0, 1.0], [nan, 1.0, 2.0, 3.0], [1.0, nan, nan, 2.0], [-inf] * 4,
                [0.0, -0.0, 0.0, 0.0], [3.0] * 4, [0.0, 2.0, 0.0, 3.0]]
        # Variances square their elements as written: extreme numbers overflow by design.
        extreme = [[big, 1.0, 0.5, 2.0], [least, -least, 0.0, least]] if "squares" not in kinds else []
        out.append((t(rows + extreme), []))
    return out


def special_arguments(shape, x, rest, names):
    """The sample of a special point."""
    kwargs = {}
    if "dim" in names and not rest:
        kwargs["dim"] = 1
    if "q" in names:
        kwargs["q"] = 0.5
    return core.SampleInput(x, args=tuple(rest), kwargs=kwargs)


def grid(**options):
    """Every option with every other."""
    names = list(options)
    return [dict(zip(names, values)) for values in itertools.product(*options.values())]


def numbers(*shape, seed=1):
    """Numbers with ties."""
    n = int(np.prod(shape))
    values = [((i * 7919 + seed * 104729) % 23 - 11) / 4 for i in range(n)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape).requires_grad_()


def option_grids():
    """Entry to samples beyond the database's: options of structural operations, each with every other."""
    out = collections.defaultdict(list)

    def add(entry, x, args, kwargs):
        out[f"nn.functional.{entry}" if entry[:6] not in ("histog", "quanti", "nanqua", "unfold", "histc") else entry].append(
            core.SampleInput(x, args=tuple(args), kwargs=kwargs))

    one = dict(kernel_size=(2, 3), stride=(None, 1, 2, 3), padding=(0, 1), ceil_mode=(False, True))
    for o in grid(**one, dilation=(1, 2)):
        add("max_pool1d", numbers(1, 2, 8), [], o)
    for o in grid(**one, count_include_pad=(True, False)):
        add("avg_pool1d", numbers(1, 2, 8), [], o)
    two = dict(kernel_size=((2, 3), 2), stride=(None, 1, (3, 2)), padding=(0, 1), ceil_mode=(False, True))
    for o in grid(**two, dilation=(1, (1, 2), 2)):
        add("max_pool2d", numbers(1, 1, 6, 7), [], o)
    for o in grid(**two, count_include_pad=(True, False)):
        add("avg_pool2d", numbers(1, 1, 5, 6), [], o)
    for o in grid(stride=(1, 2), padding=(0, 1, 2, "same", "valid"), dilation=(1, 2), groups=(1, 2)):
        if (o["padding"], o["stride"]) != ("same", 2):
            add("conv1d", numbers(2, 2, 7), [numbers(4, 2 // o["groups"], 3, seed=2), numbers(4, seed=3)], o)
    for o in grid(stride=(1, (2, 1)), padding=(0, (1, 2)), dilation=(1, (1, 2)), groups=(1, 2)):
        add("conv2d", numbers(1, 2, 5, 6), [numbers(2, 2 // o["groups"], 2, 3, seed=2)], o)
    for o in grid(stride=(1, 2, 3), padding=(0, 1), output_padding=(0, 1), dilation=(1, 2), groups=(1, 2)):
        if o["output_padding"] < max(o["stride"], o["dilation"]):
            add("conv_transpose1d", numbers(1, 2, 4), [numbers(2, 2, 3, seed=2), numbers(2 * o["groups"], seed=3)], o)
    for o in grid(stride=((2, 1), 2), padding=(0, 1), dilation=(1, (2, 1)), groups=(1, 2)):
        add("conv_transpose2d", numbers(1, 2, 3, 3), [numbers(2, 1, 2, 3, seed=2)], o)
    for n in (1, 3, 5, 8):
        for mode, corners in (("nearest", None), ("nearest-exact", None), ("linear", False), ("linear", True), ("area", None)):
            add(f"interpolate:{mode}", numbers(1, 2, 5), [n], dict(mode=mode, align_corners=corners))
        for mode, corners in (("bilinear", False), ("bilinear", True), ("bicubic", False), ("bicubic", True)):
            add(f"interpolate:{mode}", numbers(1, 1, 4, 5), [(n, 9 - n)], dict(mode=mode, align_corners=corners))
    for mode in ("constant", "reflect", "replicate", "circular"):
        for widths in ((0, 2), (2, 0), (1, 2), (3, 3)):
            add(f"pad:{mode}", numbers(1, 2, 4), [widths], dict(mode=mode))
            add(f"pad:{mode}", numbers(1, 1, 4, 4), [(*widths, *widths[::-1])], dict(mode=mode))
    for entry in ("quantile", "nanquantile"):
        for o in grid(q=(0.0, 0.3, 0.5, 1.0), keepdim=(False, True), interpolation=("linear", "lower", "higher", "nearest", "midpoint")):
            add(entry, torch.tensor([[3.0, -1.0, 7.0, 0.5], [2.0, 8.0, -4.0, 1.0]], dtype=torch.float64).requires_grad_(), [], dict(o, dim=1))
    for o in grid(bins=(1, 4), range=((-2.0, 2.0), (0.0, 1.0)), density=(False, True)):
        add("histogram", numbers(3, 5).detach(), [], dict(o))
        add("histogram", numbers(15).detach(), [], dict(o, weight=torch.arange(15, dtype=torch.float64)))
    for o in grid(dimension=(0, 1), size=(1, 2, 3), step=(1, 2, 3)):
        add("unfold", numbers(4, 5), list(o.values()), {})
    return out


def orders_of(op, kinds):
    if "f0" in kinds or not op.supports_autograd:
        return 0
    return 2 if "f" in kinds and op.supports_gradgrad else 1


def in_dtype(sample, dtype, shape=()):
    """The sample with floats of another dtype; so is what a dropped `dtype` names."""
    def cast(t):
        return t.detach().to(dtype).requires_grad_(t.requires_grad) if t.is_floating_point() else t
    kwargs = mapped(sample.kwargs, cast)
    if ("dtype", "drop", None) in shape:
        kwargs["dtype"] = dtype
    return core.SampleInput(mapped(sample.input, cast), args=mapped(tuple(sample.args), cast), kwargs=kwargs)


def chosen(samples, count):
    """Evenly over the list, the first and last among them."""
    if len(samples) <= count:
        return samples
    return [samples[round(i * (len(samples) - 1) / (count - 1))] for i in range(count)]


def numel(sample):
    return sum(t.numel() for t in tensors((sample.input, sample.args, sample.kwargs), []))


def samples_of(op, dtype, graded, shape, limit, verbose):
    """The samples of an entry that the table takes, with numbers that bf16 has."""
    out = []
    for s in op.sample_inputs("cpu", dtype, requires_grad=graded):
        if numel(s) > limit:
            continue
        s = core.SampleInput(mapped(s.input, narrowed), args=mapped(tuple(s.args), narrowed), kwargs=mapped(s.kwargs, narrowed))
        try:
            bound(shape, s)
            out.append(s)
        except Skip as why:
            if verbose:
                print(op.name, "skips:", why)
    return out


def write(writer, entry, row, op, sample, dtypes, orders, special=False):
    _, _, shape, result = row
    arguments = bound(shape, sample)
    results = []
    for dtype in dtypes:
        try:
            at = in_dtype(sample, dtype, shape) if dtype in FLOATS else sample
            # Second derivatives in f64 alone: narrower ones would compare roundings.
            r = Result(op, at, min(orders, 2 if dtype == torch.float64 and dtypes[0] == dtype else 1), result)
        except Exception as e:
            if os.environ.get("OPDB_VERBOSE"):
                print(entry, dtype, "fails:", str(e)[:200], file=sys.stderr)
            continue
        if r.numel() <= 640 or special:
            results.append((dtype, r))
    if not results:
        raise Skip("no result")
    # Records are written whole or not at all.
    part = Writer()
    part.text(entry)
    part.u8(int(special))
    part.u8(len(arguments))
    for name, value in arguments:
        part.text(name)
        part.value(value)
    part.results(results)
    writer.structure += part.structure
    for key, parts in part.streams.items():
        writer.streams[key] += parts


def main():
    rows, only = table(), sys.argv[1:]
    names = {o.name + (f":{o.variant_test_name}" if o.variant_test_name else ""): o for o in database.op_db}
    assert set(rows) == set(names), (set(rows) ^ set(names))
    writer, counts, missing = Writer(), collections.Counter(), []
    grids = option_grids()
    assert set(grids) <= set(rows), set(grids) - set(rows)
    for entry, op in sorted(names.items()):
        name, kinds, shape, _ = rows[entry]
        if name is None or only and entry not in only:
            continue
        before = counts["records"]
        for letter, dtype in KINDS.items():
            wanted = [k for k in kinds if k[0] == letter and k not in ("fft",)]
            if not wanted or dtype not in op.supported_dtypes("cpu") :
                continue
            torch.manual_seed(sum(entry.encode()))
            common_utils.set_rng_seed(7)
            orders = orders_of(op, kinds) if letter == "f" else 0
            graded = letter == "f" and op.supports_autograd
            set_sizes(XS=2, S=3, M=4, L=5)
            try:
                found = samples_of(op, dtype, graded, shape, MAX_ELEMENTS, only)
            except Exception:
                # Some samples have indices that need the database's own sizes.
                found = []
            count = SAMPLES[letter]
            if not found:
                set_sizes(XS=3, S=5, M=10, L=20)
                found = sorted(samples_of(op, dtype, graded, shape, MAX_ELEMENTS_OF_LARGE, only), key=numel)[:12]
                count = 4
            for s in chosen(found, count) + (grids[entry] if letter == "f" else []):
                try:
                    dtypes = FLOATS if letter == "f" else [torch.float64 if letter == "c" else dtype]
                    write(writer, entry, rows[entry], op, s, dtypes, orders)
                except Skip as why:
                    assert not any(s is g for g in grids[entry]), (entry, why, s)
                    if only:
                        print(entry, "skips:", why)
                    continue
                counts["records"] += 1
        if {"u", "p", "r"} & set(kinds):
            for dtype in FLOATS:
                for x, rest in specials(kinds, dtype):
                    try:
                        s = special_arguments(shape, x, rest, [n for n, _, _ in shape])
                        # Beside them what f64 makes of the same points, but where the dtype's range is the point.
                        both = [dtype] if entry in ("nextafter", "nan_to_num") or dtype == torch.float64 else [dtype, torch.float64]
                        write(writer, entry, rows[entry], op, s, both, orders_of(op, kinds), True)
                    except Skip as why:
                        print(entry, "special point skips:", why, file=sys.stderr)
                        continue
                    counts["records"] += 1
        if counts["records"] == before:
            missing.append(entry)
        else:
            counts["entries"] += 1
            if only:
                print(entry, counts["records"] - before, "records")
    raw = writer.bytes()
    print(f"{counts['entries']} entries, {counts['records']} records, {len(raw)} bytes; mapped without a sample: {missing}")
    for key, parts in sorted(writer.streams.items()):
        n = np.concatenate(parts)
        print(key, n.nbytes, len(zlib.compress(np.ascontiguousarray(n.view(np.uint8).reshape(len(n), n.itemsize).T).tobytes(), 9)))
    print("structure", len(writer.structure), len(zlib.compress(bytes(writer.structure), 9)))
    if not only:
        with open(os.path.join(here, "../crates/thalweg/tests/opdb/golden.bin"), "wb") as f:
            f.write(raw)


main()
