"""Settings of the tests: no disk cache, the CPU, deterministic draws."""

import os

os.environ.setdefault("THALWEG_CACHE", "off")
os.environ.setdefault("THALWEG_DEVICE", "cpu")
