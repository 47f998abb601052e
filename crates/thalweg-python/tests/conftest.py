"""Settings of the tests: no disk cache, the CPU, the array API in SciPy."""

import os

os.environ.setdefault("THALWEG_CACHE", "off")
os.environ.setdefault("THALWEG_DEVICE", "cpu")
# Read when SciPy is imported.
os.environ["SCIPY_ARRAY_API"] = "1"
