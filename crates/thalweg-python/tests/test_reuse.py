"""The short form of ``reuse.py``."""

import reuse


def test_calls_leak_nothing():
    reuse.reuse(2_000, reuse.array_call)
