"""Arrays by the array API standard, recorded lazily and run as fused kernels on CPUs and NVIDIA GPUs."""

from thalweg._thalweg import *  # noqa: F403
from thalweg._thalweg import __version__, _dtype, _from_bytes  # noqa: F401
