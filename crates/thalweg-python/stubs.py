#!/usr/bin/env python3
"""Writes the type stubs of the package from the signatures and docstrings of the built module.

Usage: python stubs.py [--check]. With --check it writes nothing, and ends with 1 where a stub is out of date.
"""

import inspect
import pathlib
import re
import sys

import thalweg as tw

FOLDER = pathlib.Path(__file__).resolve().parent / "python" / "thalweg"

HEADER = """\
# Written by stubs.py from the signatures of the built module.
import builtins
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, Literal, NamedTuple, SupportsIndex

"""

ALIASES = """\
Scalar = builtins.bool | int | float | complex
ArrayLike = Array | Scalar
DTypeLike = DType | str | type
Shape = int | Sequence[int]
Axis = int | Sequence[int]
Index = int | slice | EllipsisType | None | Array | Sequence[int] | Sequence[builtins.bool]

"""

# Types of parameters by name; those of a function are `function.parameter`.
TYPES = {
    "x": "Array", "x1": "ArrayLike", "x2": "ArrayLike", "condition": "ArrayLike", "min": "ArrayLike | None",
    "max": "ArrayLike | None", "dtype": "DTypeLike | None", "device": "str | None", "copy": "bool | None",
    "shape": "Shape", "axis": "Axis | None", "axes": "Axis | None", "keepdims": "bool", "correction": "float",
    "arrays": "Array", "indices": "Array", "values": "Array", "repeats": "int | Array", "repetitions": "Axis",
    "shift": "Axis", "source": "Axis", "destination": "Axis", "fill_value": "Scalar", "k": "int", "n": "int | None",
    "num": "int", "start": "float", "stop": "float | None", "step": "float | None", "endpoint": "bool",
    "n_rows": "int", "n_cols": "int | None", "indexing": 'Literal["xy", "ij"]', "obj": "Any", "kind": "Any",
    "type": "Any", "from_": "Any", "to": "DTypeLike", "side": 'Literal["left", "right"]', "sorter": "Array | None",
    "descending": "bool", "stable": "bool", "prepend": "Array | None", "append": "Array | None", "invert": "bool",
    "rtol": "float", "atol": "float", "equal_nan": "bool", "largest": "bool", "minlength": "int",
    "include_initial": "bool", "subscripts": "str", "operands": "Array", "offset": "int", "upper": "bool",
    "mode": "str", "full_matrices": "bool", "ord": "float | str | None", "s": "Sequence[int] | None",
    "norm": 'Literal["backward", "ortho", "forward"]', "d": "float", "f": "Callable[..., Any]",
    "argnums": "int | Sequence[int] | None", "has_aux": "bool", "args": "Any", "kwargs": "Any",
    "primals": "tuple[Array, ...]", "tangents": "Sequence[Array]", "on": "bool", "precision": "Any",
    "bytes": "int | None", "seed": "int", "low": "float", "high": "float | None", "mean": "float", "std": "float",
    "p": "float", "weights": "Array", "replacement": "bool", "weight": "Array | None", "bias": "Array | None",
    "eps": "float", "groups": "int", "table": "Array", "classes": "int", "query": "Array", "key": "Array",
    "value": "Array", "mask": "Array | None", "causal": "bool", "scale": "float | None", "logits": "Array",
    "target": "Array", "reduction": 'Literal["mean", "sum", "none"]', "ignore": "int", "label_smoothing": "float",
    "stride": "Axis | None", "padding": "Axis | str | None", "output_padding": "Axis | None",
    "dilation": "Axis | None", "window": "Axis", "ceil_mode": "bool", "count_include_pad": "bool", "sizes": "Axis",
    "align_corners": "bool", "approximate": 'Literal["none", "tanh"]', "slope": "float", "alpha": "float",
    "pad_width": "Any", "constant_values": "float", "shapes": "Shape", "arrays_and_dtypes": "Any",
    "concat.arrays": "Sequence[Array]", "stack.arrays": "Sequence[Array]", "from_dlpack.x": "Any",
    "matrix_power.n": "int", "multinomial.n": "int", "fftfreq.n": "int", "rfftfreq.n": "int", "diff.n": "int",
    "permutation.x": "int | Array", "bernoulli.p": "ArrayLike", "bernoulli.shape": "Shape | None",
    "linear.weight": "Array", "bincount.weights": "Array | None", "set_default_device.device": "str | None", "title": "str", "pinv.rtol": "float | Array | None",
    "matrix_rank.rtol": "float | Array | None", "lstsq.rtol": "float | None", "broadcast_shapes.shapes": "Shape",
}
for _name in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
    TYPES[f"{_name}.weight"] = "Array"

# Types of results that are not `Array`.
RETURNS = {
    "broadcast_arrays": "tuple[Array, ...]", "meshgrid": "tuple[Array, ...]", "unstack": "tuple[Array, ...]",
    "nonzero": "tuple[Array, ...]", "broadcast_shapes": "tuple[int, ...]", "finfo": "finfo_object",
    "iinfo": "iinfo_object", "isdtype": "bool", "can_cast": "bool", "result_type": "DType", "topk": "tuple[Array, Array]",
    "grad": "Callable[..., Any]", "value_and_grad": "Callable[..., Any]", "vjp": "tuple[Array, Callable[[Array], tuple[Array, ...]]]",
    "jvp": "tuple[Array, Array]", "explain": "Explanation", "explain_once": "Explanation", "counters": "dict[str, int]", "synchronize": "None",
    "flush": "None", "devices": "list[str]", "default_device": "str", "set_default_device": "None",
    "memory": "dict[str, int | None]", "set_memory_limit": "None", "set_matmul_precision": "None",
    "set_reproducible": "bool", "set_default_dtype": "DType", "set_printoptions": "None", "seed": "None",
    "unique_all": "UniqueAllResult", "unique_counts": "UniqueCountsResult", "unique_inverse": "UniqueInverseResult",
    "eig": "EigResult", "eigh": "EighResult", "qr": "QRResult", "slogdet": "SlogdetResult", "svd": "SVDResult",
}


def built_in(table):
    """The name `bool` is a dtype in the namespace, so annotations name the built-in type by its module."""
    return {name: re.sub(r"\bbool\b", "builtins.bool", kind) for name, kind in table.items()}


def documented(doc, indent):
    lines = inspect.cleandoc(doc or "").splitlines()
    space = " " * indent
    if not lines:
        return f"{space}...\n"
    text = "\n".join((space + line).rstrip() for line in lines)
    end = f"\n{space}" if len(lines) > 1 else ""
    return f'{space}"""{text.strip()}{end}"""\n'


def parameter(function, p):
    if p.name in ("self", "cls"):
        return p.name
    kind = TYPES.get(f"{function}.{p.name}", TYPES.get(p.name, "Any"))
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    text = f"{star}{p.name}: {kind}"
    if p.default is not p.empty:
        simple = isinstance(p.default, (int, float, str, bool, type(None)))
        text += f" = {p.default!r}" if simple else " = ..."
    return text


def signature(name, value):
    parts, seen_positional, star = [], False, False
    parameters = list(inspect.signature(value).parameters.values())
    for i, p in enumerate(parameters):
        if p.kind is p.KEYWORD_ONLY and not star:
            if not any(q.kind is q.VAR_POSITIONAL for q in parameters):
                parts.append("*")
            star = True
        if seen_positional and p.kind is not p.POSITIONAL_ONLY:
            parts.append("/")
            seen_positional = False
        seen_positional |= p.kind is p.POSITIONAL_ONLY
        # The marker of positional parameters comes before that of keyword ones.
        if parts[-2:] == ["*", "/"]:
            parts[-2:] = ["/", "*"]
        parts.append(parameter(name, p))
    if seen_positional:
        parts.append("/")
    return ", ".join(parts)


def function(name, value, indent=0):
    space = " " * indent
    returns = RETURNS.get(name, "Array")
    return f"{space}def {name}({signature(name, value)}) -> {returns}:\n{documented(value.__doc__, indent + 4)}\n"


def named_tuple(name, value):
    fields = "".join(f"    {field}: Array\n" for field in value._fields)
    return f"class {name}(NamedTuple):\n{documented(value.__doc__, 4)}\n{fields}\n"


TYPES, RETURNS = built_in(TYPES), built_in(RETURNS)

BINARY = "add sub mul truediv floordiv mod pow and or xor lshift rshift matmul".split()
METHODS = {
    "item": "Scalar", "tolist": "Any", "astype": "Array", "copy": "Array", "reshape": "Array",
    "flatten": "Array", "to_device": "Array", "sum": "Array", "prod": "Array", "mean": "Array", "max": "Array",
    "min": "Array", "any": "Array", "all": "Array",
}
GETTERS = {
    "shape": "tuple[int, ...]", "ndim": "int", "size": "int", "dtype": "DType", "itemsize": "int", "nbytes": "int",
    "device": "str", "T": "Array", "mT": "Array", "real": "Array", "imag": "Array",
}


def array_class():
    out = [f"class Array:\n{documented(tw.Array.__doc__, 4)}\n"]
    for name, kind in GETTERS.items():
        doc = documented(getattr(tw.Array, name).__doc__, 8)
        out.append(f"    @property\n    def {name}(self) -> {kind}:\n{doc}\n")
    for name, kind in METHODS.items():
        value = getattr(tw.Array, name)
        parameters = ", ".join(filter(None, ["self", signature(f"Array.{name}", value).removeprefix("self").lstrip(", ")]))
        parameters = parameters.replace("self, /, /", "self, /")
        out.append(f"    def {name}({parameters}) -> {kind}:\n{documented(value.__doc__, 8)}\n")
    for op in BINARY:
        for prefix in ("", "r", "i"):
            out.append(f"    def __{prefix}{op}__(self, other: ArrayLike, /) -> Array: ...\n")
    for op in ("lt", "le", "gt", "ge"):
        out.append(f"    def __{op}__(self, other: ArrayLike, /) -> Array: ...\n")
    for op in ("eq", "ne"):
        out.append(f"    def __{op}__(self, other: ArrayLike, /) -> Array: ...  # type: ignore[override]\n")
    for op in ("neg", "pos", "abs", "invert"):
        out.append(f"    def __{op}__(self) -> Array: ...\n")
    out.append(
        "    def __getitem__(self, key: Index | tuple[Index, ...], /) -> Array: ...\n"
        "    def __setitem__(self, key: Index | tuple[Index, ...], value: Any, /) -> None: ...\n"
        "    def __bool__(self) -> builtins.bool: ...\n"
        "    def __int__(self) -> int: ...\n"
        "    def __float__(self) -> float: ...\n"
        "    def __complex__(self) -> complex: ...\n"
        "    def __index__(self) -> int: ...\n"
        "    def __len__(self) -> int: ...\n"
        "    def __iter__(self) -> Iterator[Array]: ...\n"
        "    def __contains__(self, value: Any, /) -> builtins.bool: ...\n"
        "    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType: ...\n"
        "    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, "
        "dl_device: tuple[int, int] | None = None, copy: builtins.bool | None = None) -> Any: ...\n"
        "    def __dlpack_device__(self) -> tuple[int, int]: ...\n"
        "    def __array__(self, dtype: Any = None, *, copy: builtins.bool | None = None) -> Any: ...\n"
        "    def __buffer__(self, flags: int, /) -> memoryview: ...\n\n"
    )
    return "".join(out)


def other_class(name, value, kinds):
    out = [f"class {name}:\n{documented(value.__doc__, 4)}\n"]
    for field, kind in kinds.items():
        member = getattr(value, field)
        if callable(member):
            out.append(f"    def {field}({signature(f'{name}.{field}', member)}) -> {kind}:\n{documented(member.__doc__, 8)}\n")
        else:
            out.append(f"    @property\n    def {field}(self) -> {kind}:\n{documented(member.__doc__, 8)}\n")
    return "".join(out)


def main_stub():
    out = [HEADER, "from thalweg import fft as fft, linalg as linalg, nn as nn, random as random\n\n", ALIASES]
    out.append(other_class("DType", tw.DType, {"name": "str", "itemsize": "int", "kind": "str"}))
    out.append(array_class())
    number = {"bits": "int", "eps": "float", "max": "float", "min": "float", "smallest_normal": "float", "tiny": "float", "dtype": "DType"}
    out.append(other_class("finfo_object", tw.finfo_object, number))
    out.append(other_class("iinfo_object", tw.iinfo_object, {"bits": "int", "max": "int", "min": "int", "dtype": "DType"}))
    report = {"kernels": "int", "kernels_unfused": "int", "json": "str", "html": "str"}
    out.append(other_class("Explanation", tw.Explanation, report))
    out.append("class AxisError(ValueError, IndexError):\n" + documented(tw.AxisError.__doc__, 4) + "\n")
    info = tw.__array_namespace_info__
    out.append(f"class __array_namespace_info__:\n{documented(info.__doc__, 4)}\n")
    for name, kind in dict(capabilities="dict[str, Any]", default_device="str", default_dtypes="dict[str, DType]", devices="tuple[str, ...]", dtypes="dict[str, DType]").items():
        out.append(f"    def {name}({signature(name, getattr(info, name))}) -> {kind}:\n{documented(getattr(info, name).__doc__, 8)}\n")
    aliases = []
    for name in tw.__all__:
        value = getattr(tw, name)
        if isinstance(value, tw.DType):
            out.append(f"{name}: DType\n")
        elif isinstance(value, float):
            out.append(f"{name}: float\n")
        elif isinstance(value, str):
            out.append(f"{name}: str\n")
        elif value is None:
            out.append(f"{name}: None\n")
        elif inspect.isclass(value) and issubclass(value, tuple):
            out.append(named_tuple(name, value))
        elif inspect.isbuiltin(value) and value.__name__ != name:
            aliases.append(f"{name} = {value.__name__}\n")
        elif inspect.isroutine(value):
            out.append(function(name, value))
    return "".join(out + aliases)


def module_stub(module):
    out = [HEADER, "from thalweg import Array, ArrayLike, Axis, DTypeLike, Shape\n\n"]
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value):
            out.append(named_tuple(name, value))
        else:
            out.append(function(name, value))
    return "".join(out)


def main():
    stubs = {"__init__.pyi": main_stub()}
    for name in ("linalg", "fft", "random", "nn"):
        stubs[f"{name}.pyi"] = module_stub(getattr(tw, name))
    stale = [name for name, text in stubs.items() if not (FOLDER / name).exists() or (FOLDER / name).read_text() != text]
    if "--check" in sys.argv[1:]:
        if stale:
            sys.exit(f"out of date: {', '.join(stale)}; python stubs.py writes them")
        return
    for name, text in stubs.items():
        compile(text, name, "exec")
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
