#!/usr/bin/env bash
# Fourier transforms by cuFFT beside the CPU's: results to stdout. Runs from the repository root.
here=$(cd "$(dirname "$0")" && pwd)
export THALWEG_CACHE=off THALWEG_TIERS=off
echo "== which cuFFT"
ls /usr/local/cuda/lib64/libcufft.so.1? 2>/dev/null
"$here"/transforms cuda:0
echo "rc $?"
echo "== without it"
THALWEG_CUFFT=off "$here"/transforms cuda:0 2>&1 | head -5
