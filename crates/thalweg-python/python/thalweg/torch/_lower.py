"""Lowering of an FX graph of ATen operations to a program of ``thalweg._thalweg.torch``."""

import math
import operator

import torch

from thalweg._thalweg import torch as _torch

MAX_RANK = 8

# Functions of sizes, by their name in the table.
_SYMBOLIC = {
    operator.add: "operator.add",
    operator.sub: "operator.sub",
    operator.mul: "operator.mul",
    operator.pow: "operator.pow",
    operator.floordiv: "operator.floordiv",
    operator.mod: "operator.mod",
    operator.truediv: "operator.truediv",
    operator.neg: "operator.neg",
    operator.eq: "operator.eq",
    operator.ne: "operator.ne",
    operator.lt: "operator.lt",
    operator.le: "operator.le",
    operator.gt: "operator.gt",
    operator.ge: "operator.ge",
    operator.and_: "operator.and",
    operator.or_: "operator.or",
    operator.not_: "operator.not",
    torch.sym_max: "sym.max",
    torch.sym_min: "sym.min",
    torch.sym_sum: "sym.sum",
    torch.sym_float: "sym.float",
    torch.sym_int: "sym.int",
    torch.sym_not: "operator.not",
    math.floor: "sym.floor",
    math.ceil: "sym.ceil",
    math.trunc: "sym.int",
}
if hasattr(torch, "_sym_sqrt"):
    _SYMBOLIC[torch._sym_sqrt] = "sym.sqrt"

# Operations that draw random numbers.
_RANDOM = (
    "rand.", "randn.", "rand_like.", "randn_like.", "randint", "randperm.", "uniform.", "normal_functional.", "normal.",
    "exponential.", "cauchy.", "log_normal.", "geometric.", "bernoulli.", "native_dropout.", "rrelu_with_noise",
)

# Arguments that say how memory is laid out, which is decided at the results.
_LAYOUT = {"memory_format", "layout", "pin_memory", "non_blocking", "requires_grad"}

# Operations whose rules take one argument more: whether results have their channels last in memory.
_CONVOLUTIONS = {"aten.convolution.default", "aten.convolution_backward.default"}

# Operations whose elements depend on the strides of their first argument.
_STRIDED = {"aten.as_strided.default", "aten.as_strided_copy.default", "aten.as_strided_scatter.default", "aten.resize.default"}


class _Unsupported(Exception):
    """An argument that no rule takes."""


def _dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def _stride_order(value):
    """Dimensions from the largest stride to the smallest; ``None`` if row-major."""
    if not isinstance(value, torch.Tensor) or value.dim() < 2 or value.layout != torch.strided:
        return None
    try:
        strides = [_hint(s) for s in value.stride()]
        sizes = [_hint(s) for s in value.shape]
    except Exception:
        return None
    order = sorted(range(len(strides)), key=lambda i: (-strides[i], -sizes[i] if strides[i] else 0, i))
    # Dimensions of one element can be anywhere: they stay where they are among their neighbours.
    kept = [i for i in order if sizes[i] != 1]
    if kept == sorted(kept):
        return None
    return order


def _hint(size):
    if isinstance(size, torch.SymInt):
        node = size.node
        if node.hint is not None:
            return int(node.hint)
        return int(size)
    return int(size)


def _is_channels_last(value):
    """Whether a tensor of samples, channels and axes has its channels last in memory."""
    order = _stride_order(value)
    return order is not None and order == [0, *range(2, len(order)), 1]


def _is_contiguous(value):
    return isinstance(value, torch.Tensor) and _stride_order(value) is None and value.is_contiguous()


def _gpu_of(device):
    """Number of a GPU; ``None`` for the CPU."""
    if device.type == "cuda":
        return torch.cuda.current_device() if device.index is None else device.index
    return None


def _gpu_of_graph(gm):
    """Number of the GPU that the graph's tensors are on; ``None`` if all are on the CPU."""
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        for v in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(v, torch.Tensor) and v.device.type == "cuda":
                return _gpu_of(v.device)
    return None


class _Lowering:
    def __init__(self, gm, kind):
        self.gm = gm
        self.kind = kind
        self.registers = {}
        self.lists = {}
        self.count = 0
        self.constants = []
        self.random = False
        self.gpu = _gpu_of_graph(gm)

    def new(self):
        self.count += 1
        return self.count - 1

    def arg(self, value, schema_type=None):
        """An argument in the form that ``Program.append`` takes."""
        if isinstance(value, torch.fx.Node):
            if value not in self.registers:
                raise _Unsupported("a list as an argument")
            return ("r", self.registers[value])
        if value is None or isinstance(value, (bool, float, str)):
            return value
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                raise _Unsupported("an integer beyond 64 bits")
            return value
        if isinstance(value, torch.dtype):
            name = _dtype_name(value)
            if name not in _DTYPES:
                raise _Unsupported(f"dtype {name}")
            return ("d", name)
        if isinstance(value, (list, tuple, torch.Size)):
            return [self.arg(v) for v in value]
        if isinstance(value, torch.device):
            if _gpu_of(value) != self.gpu:
                raise _Unsupported(f"device {value}")
            return None
        raise _Unsupported(f"an argument of type {type(value).__name__}")

    def args(self, node):
        """Arguments in the order of the schema, defaults included."""
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            if node.kwargs:
                raise _Unsupported("keywords")
            return [self.arg(a) for a in node.args]
        out = []
        for i, parameter in enumerate(schema.arguments):
            if i < len(node.args) and not parameter.kwarg_only:
                value = node.args[i]
            elif parameter.name in node.kwargs:
                value = node.kwargs[parameter.name]
            else:
                value = parameter.default_value if parameter.has_default_value() else None
                if parameter.name in ("dtype", "layout", "device", "generator"):
                    value = None
            if parameter.name == "layout" and value not in (None, torch.strided, 0):
                raise _Unsupported(f"layout {value}")
            if parameter.name == "generator" and value is not None:
                raise _Unsupported("a generator")
            if parameter.name in _LAYOUT:
                out.append(None)
                continue
            out.append(self.arg(value))
        if str(node.target) in _CONVOLUTIONS:
            made = node.meta.get("val")
            made = made if isinstance(made, (list, tuple)) else [made]
            out.append(any(_is_channels_last(value) for value in made))
        return out

    def results(self, node):
        """Registers of a node's results, and their dtypes."""
        value = node.meta.get("val")
        if isinstance(value, (list, tuple)):
            registers = [self.new() for _ in value]
            self.lists[node] = registers
            return registers, [_dtype_of(v) for v in value]
        self.registers[node] = self.new()
        return [self.registers[node]], [_dtype_of(value)]

    def eager(self, node):
        """PyTorch's kernel as a function of the registers that the node reads."""
        nodes = []

        def note(value):
            if isinstance(value, torch.fx.Node) and value not in nodes:
                nodes.append(value)

        torch.fx.map_arg((node.args, node.kwargs), note)
        reads, orders, spans = [], [], []
        for n in nodes:
            registers = [self.registers[n]] if n in self.registers else self.lists[n]
            value = n.meta.get("val")
            values = [value] if n in self.registers else list(value)
            spans.append((n in self.registers, len(registers)))
            reads += registers
            orders += [_stride_order(v) for v in values]
        target, template = node.target, (node.args, node.kwargs)
        listed = isinstance(node.meta.get("val"), (list, tuple))
        aliases = _may_alias(target)

        def function(*values):
            found, at = {}, 0
            for n, (single, count) in zip(nodes, spans):
                found[n] = values[at] if single else list(values[at : at + count])
                at += count
            args, kwargs = torch.fx.map_arg(template, lambda n: found[n])
            with torch.no_grad():
                out = target(*args, **kwargs)
            out = list(out) if listed else [out]
            return [_plain(v, aliases) for v in out]

        return function, reads, orders

    def call(self, node):
        target = node.target
        if target is operator.getitem:
            of, index = node.args
            if of in self.lists:
                self.registers[node] = self.lists[of][index]
                return
        name = _SYMBOLIC.get(target)
        if name is None:
            name = str(target) if isinstance(target, torch._ops.OpOverload) else f"python.{_name_of(target)}"
        ruled = True
        try:
            args = self.args(node)
        except _Unsupported:
            args, ruled = [], False
        if ruled and name in _STRIDED and not _is_contiguous(_value(node.args[0])):
            args, ruled = [], False
        if ruled and any(part in name for part in _RANDOM):
            self.random = True
        function, reads, orders = self.eager(node)
        registers, dtypes = self.results(node)
        sizes = _empty_sizes(node.meta.get("val"))
        if sizes is not None and all(dtypes):
            # Without elements there is nothing to compute, whatever the operation is.
            for register, dtype, size in zip(registers, dtypes, sizes):
                self.program.append("aten.full.default", True, [size, 0], [register], [dtype], None, [], [])
            return
        self.program.append(name, ruled, args if ruled else [], registers, dtypes, function, reads, orders)

    def lower(self):
        placeholders = [n for n in self.gm.graph.nodes if n.op == "placeholder"]
        attributes = [n for n in self.gm.graph.nodes if n.op == "get_attr"]
        for node in placeholders:
            self.registers[node] = self.new()
        for node in attributes:
            self.registers[node] = self.new()
            self.constants.append(_attribute(self.gm, node.target))
        self.program = _torch.Program(self.count, self.gpu)
        output = None
        for node in self.gm.graph.nodes:
            if node.op == "call_function":
                self.call(node)
            elif node.op == "output":
                output = node
            elif node.op not in ("placeholder", "get_attr"):
                raise NotImplementedError(f"thalweg: a node of kind {node.op} in a graph of ATen operations")
        fixed, views = {}, {}
        listed = output.args[0]
        single = not isinstance(listed, (list, tuple))
        listed = [listed] if single else list(listed)
        saved_from = _results_of_user(self.kind, len(listed))
        places = {}
        for i, value in enumerate(listed):
            if isinstance(value, torch.fx.Node) and str(value.target) not in _VIEWS:
                places.setdefault(value, i)
        for i, value in enumerate(listed):
            if not isinstance(value, torch.fx.Node):
                fixed[i] = value
                continue
            if i < saved_from:
                chain = _view_chain(value, places)
                if chain is not None and places[chain[0]] < saved_from and places[chain[0]] not in views:
                    views[i] = (places[chain[0]], chain[1])
                    continue
            self.program.result(self.registers[value], _stride_order(value.meta.get("val")), i >= saved_from)
        self.program.finish()
        return self.program, _runner(self.program, self.constants, self.random, fixed, views, len(listed), single)


# Operations whose result is a view of their first argument.
_VIEWS = {
    "aten.view.default", "aten.permute.default", "aten.t.default", "aten.transpose.int", "aten.expand.default",
    "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.unsqueeze.default", "aten.slice.Tensor",
    "aten.select.int", "aten.diagonal.default", "aten.unfold.default", "aten.alias.default", "aten.detach.default",
}


def _view_chain(node, places):
    """The result that a result is a view of, and the views; ``None`` if there is none with constant arguments."""
    chain, at = [], node
    while at.op == "call_function" and str(at.target) in _VIEWS:
        if any(isinstance(n, torch.fx.Node) for n in _leaves((at.args[1:], at.kwargs))):
            return None
        chain.append((at.target, at.args[1:], at.kwargs))
        at = at.args[0]
        if at in places and at.op == "call_function":
            return at, chain[::-1]
    return None


def _leaves(value):
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in _leaves(v)]
    if isinstance(value, dict):
        return _leaves(list(value.values()))
    return [value]


def _value(arg):
    return arg.meta.get("val") if isinstance(arg, torch.fx.Node) else arg


def _name_of(target):
    return getattr(target, "__name__", None) or str(target)


def _dtype_of(value):
    if isinstance(value, torch.Tensor):
        name = _dtype_name(value.dtype)
        return name if name in _DTYPES else None
    return None


_DTYPES = {
    "float32", "float64", "bfloat16", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "bool", "complex64", "complex128",
}


def _empty_sizes(value):
    """Sizes of the results if all are tensors of known sizes without elements; else ``None``."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    sizes = []
    for v in values:
        if not isinstance(v, torch.Tensor) or any(isinstance(s, torch.SymInt) for s in v.shape) or v.numel() or v.dim() > MAX_RANK:
            return None
        sizes.append([int(s) for s in v.shape])
    return sizes or None


def _may_alias(target):
    schema = getattr(target, "_schema", None)
    return schema is None or any(r.alias_info is not None for r in schema.returns)


def _plain(value, aliases):
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    if value.is_conj() or value.is_neg():
        value = value.resolve_conj().resolve_neg()
    return value.clone() if aliases else value


def _attribute(gm, name):
    value = gm
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _results_of_user(kind, count):
    """Number of results before those that only the backward program reads."""
    if kind != "forward":
        return count
    try:
        metadata = torch._guards.TracingContext.get().fw_metadata
        return metadata.num_forward
    except Exception:
        return count


def _seed():
    """A seed from PyTorch's generator, which advances."""
    return int(torch.randint(0, 2**63 - 1, (), dtype=torch.int64))


def _tf32():
    """Whether PyTorch's settings let f32 products, and convolutions on a GPU, round to TF32."""
    # Settings of PyTorch's newer interface cannot be read by the older one.
    try:
        product = torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:
        product = torch.backends.cuda.matmul.fp32_precision == "tf32"
    try:
        convolution = torch.backends.cudnn.allow_tf32
    except RuntimeError:
        convolution = torch.backends.cudnn.conv.fp32_precision == "tf32"
    return product, convolution


def _runner(program, constants, random, fixed, views, count, single):
    def run(args):
        inputs = list(args) + constants if constants else list(args)
        if isinstance(args, list):
            args.clear()
        out = program.run(inputs, _seed() if random else None, torch.are_deterministic_algorithms_enabled(), _tf32())
        if fixed or views:
            rest = iter(out)
            out = [fixed[i] if i in fixed else None if i in views else next(rest) for i in range(count)]
        for i, (of, chain) in views.items():
            value = out[of]
            for target, rest, kwargs in chain:
                value = target(value, *rest, **kwargs)
            out[i] = value
        return out[0] if single else out

    run._boxed_call = True
    return run


def lower(gm, kind):
    """A program of the graph, and the function that AOTAutograd calls with a list of inputs."""
    return _Lowering(gm, kind).lower()


__all__ = ["lower"]
