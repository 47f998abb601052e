"""All-reduces and data-parallel training of GPT-2 small by PyTorch and NCCL, as `examples/gpus.rs` of thalweg-dist measures them.

    python3 bench/distributed.py bandwidth
    python3 bench/distributed.py train 8 1024 [compile]

A process is a rank, one for each GPU. Training uses torch's DistributedDataParallel, with parameters in f32, the rest in bf16 by autocast, AdamW in one
kernel, and random tokens; with `compile` the model by torch.compile.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn


def bandwidth(rank, size):
    for mib in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]:
        x = torch.ones(mib << 18, device="cuda")
        times = 100 if mib < 64 else 20
        best = float("inf")
        for _ in range(4):
            dist.barrier()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(times):
                dist.all_reduce(x)
            torch.cuda.synchronize()
            best = min(best, (time.perf_counter() - start) / times)
            x.fill_(1)
        if rank == 0:
            bus = (mib << 20) / best * 2 * (size - 1) / size
            print(f"torch all_reduce {mib:>5} MiB f32: {best * 1e6:>9.1f} us, bus {bus / 1e9:>7.1f} GB/s", flush=True)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = (t.view(n, length, self.heads, -1).transpose(1, 2) for t in self.c_attn(self.ln_1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(n, length, width))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, tokens=50304, context=1024, width=768, heads=12, layers=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens):
        x = self.wte(tokens[:, :-1]) + self.wpe(torch.arange(tokens.shape[1] - 1, device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def train(rank, size, batch, length, compiled):
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(1)
    model = Gpt2().cuda()
    if size > 1:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[rank], gradient_as_bucket_view=True)
    run = torch.compile(model) if compiled else model
    torch.manual_seed(7 + rank)
    tokens = torch.randint(0, 50257, (batch, length + 1), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    start = time.perf_counter()
    first = step().item()
    for _ in range(10):
        step().item()
    prepared = time.perf_counter() - start
    times = []
    for _ in range(5):
        if size > 1:
            dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(5):
            loss = step()
        loss.item()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / 5)
    times.sort()
    if rank == 0:
        name = "torch.compile" if compiled else "torch"
        print(
            f"{name} train {size} ranks, {batch} x {length}: {times[2] * 1e3:.2f} ms a step ({times[0] * 1e3:.2f} to {times[-1] * 1e3:.2f}), "
            f"{size * batch * length / times[2]:.0f} tokens/s, loss {first:.4f} to {loss.item():.4f}, prepared in {prepared:.0f} s",
            flush=True,
        )


def rank_of(rank, size, arguments):
    torch.cuda.set_device(rank)
    if size > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
        dist.init_process_group("nccl", rank=rank, world_size=size, device_id=torch.device("cuda", rank))
    if arguments[0] == "bandwidth":
        bandwidth(rank, size)
    else:
        batch, length = int(arguments[1]), int(arguments[2])
        train(rank, size, batch, length, "compile" in arguments)
    if size > 1:
        dist.destroy_process_group()


def main():
    arguments, count = sys.argv[1:], torch.cuda.device_count()
    print(f"torch {torch.__version__}, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}, {count} GPUs", flush=True)
    if arguments[0] == "train":
        rank_of(0, 1, arguments)
    mp.spawn(rank_of, (count, arguments), nprocs=count)


if __name__ == "__main__":
    main()
