"""Functions of neural networks: activations, norms, attention, convolutions, pooling, losses.

Names, layouts and defaults are those of ``torch.nn.functional``; an axis is ``axis``, and what follows the arrays is
given by name. All have gradients and share kernels with what surrounds them.
"""

from thalweg._thalweg import _nn

__all__ = sorted(name for name in vars(_nn) if not name.startswith("_"))
globals().update({name: getattr(_nn, name) for name in __all__})
