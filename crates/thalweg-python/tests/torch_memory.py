"""Peak memory of a training step beside eager PyTorch's, each in a process of its own.

    python tests/torch_memory.py [--backend eager|thalweg|inductor] [--model block|conv] [--steps N]

Without `--backend`, both models run in eager PyTorch and through the backend, and the ratios are printed. The peak is that of resident
memory during five steps after three, less what was resident before the model was built; glibc returns freed memory at once
(`MALLOC_TRIM_THRESHOLD_`, `MALLOC_MMAP_THRESHOLD_`), so that a step's peak is what it needs.
"""

import argparse
import os
import subprocess
import sys


def resident_peak():
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["VmHWM"].split()[0]) * 1024


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def forget_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def models(torch):
    from torch import nn
    from torch_common import Block

    def conv():
        layers, width = [], 3
        for out, stride in ((32, 1), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
            layers += [nn.Conv2d(width, out, 3, stride, 1), nn.BatchNorm2d(out), nn.ReLU()]
            width = out
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))

    return {"block": (lambda: nn.Sequential(Block(512, 8), Block(512, 8)), (8, 256, 512)), "conv": (conv, (32, 3, 64, 64))}


def measure(backend, name, steps):
    import torch

    torch.set_num_threads(1)
    make, shape = models(torch)[name]
    compiler = backend
    if backend == "thalweg":
        import thalweg.torch

        compiler = thalweg.torch.backend
    # Code and state of the libraries, which a first small program loads.
    small = torch.nn.Linear(4, 4)
    run = small if backend == "eager" else torch.compile(small, backend=compiler)
    run(torch.ones(2, 4)).sum().backward()
    before = resident()
    torch.manual_seed(0)
    model = make()
    step = model if backend == "eager" else torch.compile(model, backend=compiler)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def train():
        optimizer.zero_grad()
        loss = step(torch.randn(shape)).square().mean()
        loss.backward()
        optimizer.step()

    for _ in range(3):
        train()
    if backend == "thalweg":
        import thalweg

        thalweg._thalweg.torch.finish_searches()
        train()
    forget_peak()
    for _ in range(steps):
        train()
    parameters = sum(p.numel() * 4 for p in model.parameters())
    print(f"{name} {backend}: peak {(resident_peak() - before) / 2**20:.1f} MiB over the start, parameters {parameters / 2**20:.1f} MiB")
    return resident_peak() - before


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend")
    parser.add_argument("--model")
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    names = [options.model] if options.model else ["block", "conv"]
    if options.backend:
        for name in names:
            measure(options.backend, name, options.steps)
        return
    environment = dict(os.environ, MALLOC_TRIM_THRESHOLD_="65536", MALLOC_MMAP_THRESHOLD_="65536", THALWEG_CACHE="off")
    for name in names:
        peaks = {}
        for backend in ("eager", "thalweg"):
            command = [sys.executable, __file__, "--backend", backend, "--model", name, "--steps", str(options.steps)]
            text = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
            print(text, end="", flush=True)
            peaks[backend] = float(text.split("peak ")[1].split()[0])
        print(f"{name}: thalweg / eager {peaks['thalweg'] / peaks['eager']:.3f}")


if __name__ == "__main__":
    sys.exit(main())
