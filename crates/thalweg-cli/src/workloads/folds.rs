//! Reductions over axes that are not contiguous in memory: sliced, transposed, broadcast and windowed operands, one
//! workload each, along with plain ones that read as many bytes. Group `folds` of the workloads.

#![allow(clippy::reversed_empty_ranges, reason = "a negative end counts from the end")]

use super::{Entry, Size};
use thalweg::{DType, SliceArg, Tensor};

/// Workloads of the group; the first is the baseline of the others.
pub const ALL: &[Entry] = &[
    Entry {
        name: "fold_plain",
        about: "x.square().mean(..), [4096, 4096] f32 (large: 8192)",
        make: |s| (matrix(s), |x| vec![x[0].square().mean(..)]),
    },
    Entry { name: "fold_rows", about: "x.sum(1)", make: |s| (matrix(s), |x| vec![x[0].sum(1)]) },
    Entry { name: "fold_columns", about: "x.sum(0)", make: |s| (matrix(s), |x| vec![x[0].sum(0)]) },
    Entry {
        name: "fold_weighted",
        about: "(x.square() * w[:, None]).mean(..)",
        make: |s| (weighted(s), |x| vec![(x[0].square() * x[1].unsqueeze(1)).mean(..)]),
    },
    Entry {
        name: "fold_weighted_rows",
        about: "(x.square() * w).mean(..)",
        make: |s| (weighted(s), |x| vec![(x[0].square() * &x[1]).mean(..)]),
    },
    Entry {
        name: "fold_transposed",
        about: "x.t().square().sum(..)",
        make: |s| (matrix(s), |x| vec![x[0].t().square().sum(..)]),
    },
    Entry {
        name: "fold_inner_slice",
        about: "x[1:-1, 1:-1].square().sum(..)",
        make: |s| (matrix(s), |x| vec![x[0].slice((1..-1, 1..-1)).square().sum(..)]),
    },
    Entry {
        name: "fold_half_columns",
        about: "x[:, :half].square().sum(..)",
        make: |s| (matrix(s), |x| vec![x[0].narrow(1, 0, x[0].size(1) / 2).square().sum(..)]),
    },
    Entry {
        name: "fold_every_second",
        about: "x[::2].square().sum(..)",
        make: |s| (matrix(s), |x| vec![x[0].slice(SliceArg::range(None, None, 2)).square().sum(..)]),
    },
    Entry {
        name: "fold_both_ways",
        about: "(x * x.t()).sum(..)",
        make: |s| (matrix(s), |x| vec![(&x[0] * x[0].t()).sum(..)]),
    },
    Entry {
        name: "fold_middle",
        about: "x.reshape([64, n / 64, n]).sum([0, 2])",
        make: |s| {
            (matrix(s), |x| {
                let n = x[0].size(0);
                vec![x[0].reshape([64, n / 64, n]).sum([0, 2])]
            })
        },
    },
    Entry {
        name: "fold_outer",
        about: "outer(a, a).exp().sum(..), 6,000 elements (large: 24,000)",
        make: |s| {
            let n = if s == Size::Large { 24_000 } else { 6_000 };
            (vec![Tensor::randn([n]).cast(DType::F32)], |x| vec![x[0].outer(&x[0]).exp().sum(..)])
        },
    },
    Entry {
        name: "fold_images",
        about: "images.sum([1, 2, 3]), [16, 64, 128, 128] (large: 64 images)",
        make: |s| (images(s), |x| vec![x[0].sum([1, 2, 3])]),
    },
    Entry {
        name: "fold_channels",
        about: "images.sum([0, 2, 3])",
        make: |s| (images(s), |x| vec![x[0].sum([0, 2, 3])]),
    },
    Entry {
        name: "fold_scaled",
        about: "(images * c).sum([1, 2, 3]), a factor a channel",
        make: |s| (images(s), |x| vec![(&x[0] * &x[1]).sum([1, 2, 3])]),
    },
    Entry {
        name: "fold_scaled_channels",
        about: "(images * c).square().sum([0, 2, 3])",
        make: |s| (images(s), |x| vec![(&x[0] * &x[1]).square().sum([0, 2, 3])]),
    },
    Entry {
        name: "fold_borderless",
        about: "images[.., 1:-1, 1:-1].sum(..)",
        make: |s| (images(s), |x| vec![x[0].slice((.., .., 1..-1, 1..-1)).sum(..)]),
    },
    Entry {
        name: "fold_permuted",
        about: "images.permute([0, 2, 3, 1]).sum([1, 2, 3])",
        make: |s| (images(s), |x| vec![x[0].permute([0, 2, 3, 1]).sum([1, 2, 3])]),
    },
    Entry {
        name: "fold_short",
        about: "(x + b).square().sum(..), [4 million, 3] and [3] (large: 16 million)",
        make: |s| {
            let n = if s == Size::Large { 1 << 24 } else { 1 << 22 };
            (vec![Tensor::randn([n, 3]), Tensor::randn([3])], |x| vec![(&x[0] + &x[1]).square().sum(..)])
        },
    },
    Entry {
        name: "fold_windows",
        about: "the mean of each 3×3 window of x",
        make: |s| (matrix(s), |x| vec![x[0].window(0, 3, 1).window(1, 3, 1).mean([2, 3])]),
    },
    Entry {
        name: "fold_long_windows",
        about: "the mean of each 64 neighbours of a row of x",
        make: |s| (matrix(s), |x| vec![x[0].window(1, 64, 1).mean(2)]),
    },
    Entry {
        name: "fold_wide_windows",
        about: "the mean of each 15×15 window of x",
        make: |s| (matrix(s), |x| vec![x[0].window(0, 15, 1).window(1, 15, 1).mean([2, 3])]),
    },
    Entry {
        name: "fold_largest",
        about: "the largest of each 64 neighbours of a row of x",
        make: |s| (matrix(s), |x| vec![x[0].window(1, 64, 1).amax(2)]),
    },
    Entry {
        name: "fold_spread",
        about: "the variance of each 64 neighbours of a row of x",
        make: |s| (matrix(s), |x| vec![x[0].window(1, 64, 1).var(2)]),
    },
];

fn side(size: Size) -> usize {
    if size == Size::Large { 8192 } else { 4096 }
}

fn matrix(size: Size) -> Vec<Tensor> {
    vec![Tensor::randn([side(size), side(size)])]
}

fn weighted(size: Size) -> Vec<Tensor> {
    vec![Tensor::randn([side(size), side(size)]), Tensor::randn([side(size)])]
}

fn images(size: Size) -> Vec<Tensor> {
    let n = if size == Size::Large { 64 } else { 16 };
    vec![Tensor::randn([n, 64, 128, 128]), Tensor::randn([64, 1, 1])]
}
