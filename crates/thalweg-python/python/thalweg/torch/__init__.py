"""The backend of ``torch.compile``: ``torch.compile(model, backend="thalweg")``.

Each graph that Dynamo finds is lowered to a program of recorded operations, forward and backward, and runs with few
kernels. Operations without a rule run by PyTorch's own kernels between; ``report`` counts them.
"""

import time

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from ._layers import encoder_layer, lstm_as_cells
from ._lower import lower

__all__ = ["backend", "compile_function", "decompositions", "report", "reset", "statistics"]

# Operations with a rule of their own: they are not decomposed.
_KEPT = (
    "_scaled_dot_product_flash_attention_for_cpu.default",
    "silu.default",
    "sinc.default",
    "var.default",
    "erfinv.default",
    "sum.default",
    "arange.default",
    "arange.start",
    "all.default",
    "all.dim",
    "all.dims",
    "logaddexp.default",
    "logaddexp2.default",
    "xlogy.Tensor",
    "special_xlog1py.default",
    "heaviside.default",
    "split.Tensor",
    "stack.default",
    "masked_fill.Scalar",
    "masked_fill.Tensor",
    "transpose.int",
    "t.default",
    "squeeze.dim",
    "squeeze.default",
    "roll.default",
    "linalg_cross.default",
    "index_add.default",
    "select_scatter.default",
    "tril.default",
    "triu.default",
    "eye.default",
    "eye.m",
    "take.default",
    "mv.default",
    "dot.default",
    "baddbmm.default",
    "linalg_vector_norm.default",
    "fill.Scalar",
    "new_empty.default",
    "new_full.default",
    "new_ones.default",
    "new_zeros.default",
    "ones.default",
    "zeros.default",
    "zeros_like.default",
    "ones_like.default",
    "empty_like.default",
    "unbind.int",
    "lerp.Scalar",
    "lerp.Tensor",
    "native_batch_norm_backward.default",
    "native_layer_norm_backward.default",
    "native_group_norm_backward.default",
    "_softmax_backward_data.default",
    "_log_softmax_backward_data.default",
    "gelu_backward.default",
    "sigmoid_backward.default",
    "tanh_backward.default",
    "silu_backward.default",
    "threshold_backward.default",
    "hardtanh_backward.default",
    "hardsigmoid_backward.default",
    "leaky_relu_backward.default",
    "hardswish_backward.default",
    "hardsigmoid.default",
    "hardswish.default",
    "embedding_dense_backward.default",
    "replication_pad1d.default",
    "replication_pad2d.default",
    "replication_pad3d.default",
    "reflection_pad1d.default",
    "reflection_pad2d.default",
    "reflection_pad3d.default",
    "reflection_pad1d_backward.default",
    "reflection_pad2d_backward.default",
    "reflection_pad3d_backward.default",
)

# Operations that core ATen keeps, and that PyTorch can decompose.
_DECOMPOSED = (
    "adaptive_max_pool2d", "adaptive_max_pool3d", "_addmm_activation", "batch_norm_backward", "bucketize.Scalar", "elu",
    "grid_sampler_2d", "ldexp", "lift", "normal", "rrelu_with_noise_backward",
    "upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d", "upsample_trilinear3d", "upsample_nearest1d",
    "upsample_nearest2d", "upsample_nearest3d", "view_copy.dtype", "bitwise_left_shift.Scalar_Tensor",
    "bitwise_right_shift.Scalar_Tensor", "addmm.dtype", "_batch_norm_no_update", "native_batch_norm",
    "special_spherical_bessel_j0", "special_ndtri", "special_erfcx", "_trilinear", "masked_scatter_backward", "frexp",
)

_decompositions = None
_graphs = []


def decompositions():
    """The table of decompositions: core ATen's, less the operations that have a rule."""
    global _decompositions
    if _decompositions is None:
        kept = {"aten." + name for name in _KEPT}
        table = {op: f for op, f in core_aten_decompositions().items() if str(op) not in kept}
        for op, f in decomposition_table.items():
            name = str(op).removeprefix("aten.")
            if op not in table and (name in _DECOMPOSED or name.split(".")[0] in _DECOMPOSED) and "out" not in name:
                table[op] = f
        table[torch.ops.aten._transformer_encoder_layer_fwd.default] = encoder_layer
        _decompositions = table
    return _decompositions


class _Graph:
    """A compiled graph, and what its runs counted."""

    def __init__(self, kind, program, compile_ms):
        self.kind = kind
        self.program = program
        self.compile_ms = compile_ms


def _compiler(kind):
    def compile(gm, example_inputs):
        start = time.perf_counter()
        program, run = lower(gm, kind)
        _graphs.append(_Graph(kind, program, (time.perf_counter() - start) * 1e3))
        return run

    return compile


def compile_function(f):
    """Compiles a function of tensors by AOTAutograd alone, without Dynamo: one graph for the first call's shapes."""
    from torch._functorch.aot_autograd import aot_function

    return aot_function(
        f,
        fw_compiler=_compiler("forward"),
        bw_compiler=_compiler("backward"),
        inference_compiler=_compiler("inference"),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
    )


def backend(gm, example_inputs, **options):
    """Compiles a graph of Dynamo; what ``torch.compile(model, backend="thalweg")`` calls."""
    if options:
        raise ValueError(f"thalweg: unknown options {sorted(options)}")
    compile = aot_autograd(
        fw_compiler=_compiler("forward"),
        bw_compiler=_compiler("backward"),
        inference_compiler=_compiler("inference"),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
    )
    with lstm_as_cells():
        return compile(gm, example_inputs)


def statistics():
    """Counts as a dictionary: graphs, operations, runs, and PyTorch's kernels by operation with the reason."""
    out = {"graphs": [], "eager": {}}
    for graph in _graphs:
        counts = graph.program.counts()
        out["graphs"].append({"kind": graph.kind, "compile_ms": graph.compile_ms, **counts})
        for name, (n, why) in counts["eager"].items():
            before, reason = out["eager"].get(name, (0, why))
            out["eager"][name] = (before + n, reason)
    return out


def report():
    """Returns a text: graphs, operations, times, kernels and bytes, and what ran by PyTorch's own kernels."""
    import thalweg

    found = statistics()
    lines = ["graph      operations   runs   compile ms   first ms   later ms   eager"]
    for graph in found["graphs"]:
        eager = sum(n for n, _ in graph["eager"].values())
        lines.append(
            f"{graph['kind']:<10} {graph['operations']:>10} {graph['runs']:>6} {graph['compile_ms']:>12.1f} "
            f"{graph['first_ms']:>10.2f} {graph['later_ms']:>10.3f} {eager:>7}"
        )
    if found["eager"]:
        lines.append("operations by PyTorch's kernels: runs, reason")
        for name, (n, why) in sorted(found["eager"].items(), key=lambda x: -x[1][0]):
            lines.append(f"  {name}: {n}, {why}")
    counters = getattr(thalweg, "counters", None)
    if counters is not None:
        lines.append(f"counters of the process: {counters()}")
    return "\n".join(lines)


def reset():
    """Forgets all counts. Compiled graphs stay usable."""
    _graphs.clear()
