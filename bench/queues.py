#!/usr/bin/env python3
"""Copies by PyTorch, for beside `cargo run --release -p thalweg --features cuda --example queues`: pinned and pageable memory, both ways, and to another GPU."""

import statistics
import time

import torch


def middle(f, runs=9):
    times = []
    for _ in range(runs + 2):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        f()
        torch.cuda.synchronize()
        if torch.cuda.device_count() > 1:
            torch.cuda.synchronize(1)
        times.append(time.perf_counter() - begin)
    return statistics.median(times[2:])


for mib in (1, 16, 256):
    n = mib << 18
    host, there = torch.rand(n), torch.empty(n, device="cuda")
    pinned = host.pin_memory()
    rows = {
        "pinned, non_blocking": lambda: there.copy_(pinned, non_blocking=True),
        "pageable": lambda: there.copy_(host),
        "pin_memory(), then non_blocking": lambda: there.copy_(host.pin_memory(), non_blocking=True),
        "back, pinned": lambda: pinned.copy_(there, non_blocking=True),
        "back, .cpu()": lambda: there.cpu(),
    }
    if torch.cuda.device_count() > 1:
        rows["to the other GPU"] = lambda: there.to("cuda:1", non_blocking=True)
    for name, f in rows.items():
        seconds = middle(f)
        print(f"torch {mib:>4} MiB, {name}: {seconds * 1e3:.3f} ms ({(mib << 20) / seconds / 1e9:.1f} GB/s)")
