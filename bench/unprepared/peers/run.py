"""Times the programs in PyTorch, eager or compiled, and compares their results with those that the Rust programs wrote.

python3 run.py [--device cuda] [--size large] [--mode eager,compile] [--only A,B] [--seconds S] [--results FOLDER]"""
import argparse
import json
import os
import signal
import statistics
import time

import numpy as np
import torch
import torch._dynamo

import data
import estimation
import grids
import learning
import models
import networks
import science
import simulation


class TooSlow(Exception):
    """A program that took longer than it may."""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", default="small", choices=["small", "large"])
    parser.add_argument("--mode", default="eager")
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--limit", type=int, default=60, help="seconds until a program has run twice")
    parser.add_argument("--results", help="folder with results of the Rust programs")
    arguments = parser.parse_args()
    data.device, data.large = arguments.device, arguments.size == "large"
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch._dynamo.config.recompile_limit = 64
    signal.signal(signal.SIGALRM, on_alarm)
    for name, make in programs().items():
        if arguments.only and name not in arguments.only.split(","):
            continue
        for mode in arguments.mode.split(","):
            line = {"program": name, "mode": mode}
            try:
                line |= measure(name, make, mode, arguments)
            except Exception as error:
                line["error"] = f"{type(error).__name__}: {error}"[:200]
            finally:
                signal.alarm(0)
            print(json.dumps(line), flush=True)


def programs():
    """Functions from what wraps a part to compile to a call, which returns tensors by name."""
    numbered = {f.__name__: f for f in simulation.PROGRAMS + science.PROGRAMS}
    named = learning.PROGRAMS | networks.PROGRAMS | estimation.PROGRAMS | grids.PROGRAMS | models.PROGRAMS
    by_number = {name: lambda wrap, f=f: call_by_number(f(wrap)) for name, f in numbered.items()}
    by_name = {name: lambda wrap, f=f: f(data.Inputs(data.large, data.device), wrap) for name, f in named.items()}
    return by_number | by_name


def call_by_number(call):
    return lambda: {str(number): result for number, result in enumerate(call())}


def on_alarm(*_):
    raise TooSlow


def synchronize():
    if data.device != "cpu":
        torch.cuda.synchronize()


def measure(name, make, mode, arguments):
    torch._dynamo.reset()
    call = make(torch.compile if mode == "compile" else data.eager)
    times, begin = [], time.perf_counter()
    signal.alarm(arguments.limit)
    while len(times) < 6 or time.perf_counter() - begin < arguments.seconds:
        start = time.perf_counter()
        results = call()
        synchronize()
        times.append((time.perf_counter() - start) * 1e3)
        if len(times) == 2:
            signal.alarm(0)
            begin = time.perf_counter()
    later = times[len(times) // 2 :]
    measured = {
        "first_ms": round(times[0], 2),
        "steady_ms": round(statistics.median(later), 3),
        "best_ms": round(min(later), 3),
        "calls": len(times),
        "sums": [float(r.detach().double().sum()) for r in results.values()],
    }
    if arguments.results:
        measured["differs"] = {key: difference(arguments.results, name, key, r) for key, r in results.items()}
    return measured


def difference(folder, name, key, result):
    """Largest difference of a result, relative to its largest value."""
    path = f"{folder}/{name}.{key}.npy"
    if not os.path.exists(path):
        return "no file"
    ours, theirs = np.load(path), result.detach().double().cpu().numpy()
    if ours.shape != theirs.shape:
        return f"shapes {ours.shape} and {theirs.shape}"
    if ours.size == 0:
        return 0.0
    return float(f"{np.nanmax(np.abs(ours - theirs)) / (np.nanmax(np.abs(theirs)) + 1e-30):.1e}")


if __name__ == "__main__":
    main()
