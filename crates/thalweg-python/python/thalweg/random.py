"""Random numbers. Each thread has a generator of its own, which ``seed`` sets; devices draw the same numbers.

>>> import thalweg as tw
>>> tw.random.seed(0)
>>> tw.random.normal((2, 3), dtype=tw.float32).shape
(2, 3)
"""

from thalweg._thalweg import _random

__all__ = sorted(name for name in vars(_random) if not name.startswith("_"))
globals().update({name: getattr(_random, name) for name in __all__})
