//! Array computing: operations for which NumPy, PyTorch and SciPy have one call. Group `array` of the workloads.

use super::{Entry, Size};
use thalweg::{DType, Tensor};

/// Workloads of the group.
pub const ALL: &[Entry] = &[
    Entry {
        name: "topk_100",
        about: "the 100 largest of 10 million f32",
        make: |s| (vec![Tensor::randn([millions(s)])], |x| vec![x[0].topk(100, 0, true).0]),
    },
    Entry {
        name: "topk_5000",
        about: "the 5,000 largest",
        make: |s| (vec![Tensor::randn([millions(s)])], |x| vec![x[0].topk(5000, 0, true).0]),
    },
    Entry {
        name: "topk_rows",
        about: "the 50 largest of each row of [1024, 10000]",
        make: |_| (vec![Tensor::randn([1024, 10_000])], |x| vec![x[0].topk(50, 1, true).0]),
    },
    Entry {
        name: "unique_few",
        about: "the distinct of 10 million i64 below 1,000",
        make: |s| (integers(s), |x| vec![x[0].unique().expect("no failure")]),
    },
    Entry {
        name: "unique_many",
        about: "the distinct of a million f32",
        make: |_| (vec![Tensor::randn([1_000_000])], |x| vec![x[0].unique().expect("no failure")]),
    },
    Entry {
        name: "bincount",
        about: "of 10 million i64 below 1,000",
        make: |s| (integers(s), |x| vec![x[0].bincount(1000).expect("no failure")]),
    },
    Entry {
        name: "histogram",
        about: "of 10 million f32, 100 bins",
        make: |s| (vec![Tensor::randn([millions(s)])], |x| vec![x[0].histogram(100).0]),
    },
    Entry { name: "cumsum_i64", about: "of 10 million i64", make: |s| (integers(s), |x| vec![x[0].cumsum(0)]) },
    Entry {
        name: "cumsum_f32",
        about: "of 10 million f32",
        make: |s| (vec![Tensor::randn([millions(s)])], |x| vec![x[0].cumsum(0)]),
    },
    Entry {
        name: "cumsum_rows",
        about: "along the rows of [4096, 4096]",
        make: |_| (vec![Tensor::randn([4096, 4096])], |x| vec![x[0].cumsum(1)]),
    },
    Entry {
        name: "cumsum_columns",
        about: "along its columns",
        make: |_| (vec![Tensor::randn([4096, 4096])], |x| vec![x[0].cumsum(0)]),
    },
    Entry {
        name: "nearest",
        about: "the nearest of 64 points to each of 200,000, by distances: argmin",
        make: |_| {
            (vec![Tensor::randn([200_000, 16]), Tensor::randn([64, 16])], |x| {
                vec![(x[0].unsqueeze(1) - &x[1]).square().sum(-1).argmin(1)]
            })
        },
    },
    Entry {
        name: "cdist",
        about: "distances of 4,096 points from 4,096, in 64 dimensions",
        make: |_| (vec![Tensor::randn([4096, 64]), Tensor::randn([4096, 64])], |x| vec![x[0].cdist(&x[1], 2.0)]),
    },
    Entry {
        name: "cdist_by_products",
        about: "the same through products",
        make: |_| (vec![Tensor::randn([4096, 64]), Tensor::randn([4096, 64])], |x| vec![x[0].cdist_by_products(&x[1])]),
    },
    Entry { name: "erf_f64", about: "of 4 million f64", make: |_| (doubles(), |x| vec![x[0].erf()]) },
    Entry { name: "erfc_f64", about: "of 4 million f64", make: |_| (doubles(), |x| vec![x[0].erfc()]) },
    Entry { name: "pow_f64", about: "x ** y of 4 million f64", make: |_| (doubles(), |x| vec![x[0].abs().pow(&x[1])]) },
    Entry { name: "black_scholes", about: "prices of 4 million calls in f64", make: |_| (doubles(), black_scholes) },
    Entry {
        name: "divide_i64",
        about: "x // 7 + x // y of 4 million i64",
        make: |_| {
            let whole = |low: i64| Tensor::randint(low..100_000, [1 << 22]).cast(DType::I64);
            (vec![whole(-100_000), whole(1)], |x| vec![x[0].floor_div(7) + x[0].floor_div(&x[1])])
        },
    },
    Entry {
        name: "flip_rows",
        about: "x.flip(-1) * 2, [4096, 4096] f32",
        make: |_| (vec![Tensor::randn([4096, 4096])], |x| vec![x[0].flip(-1) * 2.0]),
    },
    Entry {
        name: "flip_bytes",
        about: "255 - x.flip(-1), [64, 512, 512] u8",
        make: |_| (vec![Tensor::randint(0..255, [64, 512, 512]).cast(DType::U8)], |x| vec![255 - x[0].flip(-1)]),
    },
    Entry {
        name: "narrow_broadcast",
        about: "x * s + b, [4 million, 3] and [3]",
        make: |_| {
            (vec![Tensor::randn([1 << 22, 3]), Tensor::randn([3]), Tensor::randn([3])], |x| vec![&x[0] * &x[1] + &x[2]])
        },
    },
    Entry {
        name: "narrow_images",
        about: "(images / 255 - mean) / std of [32, 256, 256, 3] u8",
        make: |_| {
            let images = Tensor::randint(0..255, [32, 256, 256, 3]).cast(DType::U8);
            (vec![images, Tensor::randn([3]), Tensor::rand([3]) + 0.5], |x| {
                vec![(x[0].cast(DType::F32) / 255.0 - &x[1]) / &x[2]]
            })
        },
    },
];

fn millions(size: Size) -> usize {
    if size == Size::Large { 40_000_000 } else { 10_000_000 }
}

fn integers(size: Size) -> Vec<Tensor> {
    vec![Tensor::randint(0..1000, [millions(size)]).cast(DType::I64)]
}

fn doubles() -> Vec<Tensor> {
    [0; 2].map(|_| Tensor::randn([1 << 22]).cast(DType::F64)).to_vec()
}

/// Black–Scholes prices of calls with strike 100, term one year, spot `100·e^x` and volatility `0.2 + |y|/10`.
fn black_scholes(x: &[Tensor]) -> Vec<Tensor> {
    let (price, volatility) = (x[0].exp() * 100.0, x[1].abs() * 0.1 + 0.2);
    let normal = |d: &Tensor| ((d * -std::f64::consts::FRAC_1_SQRT_2).erfc()) * 0.5;
    let first = ((&price / 100.0).log() + volatility.square() * 0.5 + 0.05) / &volatility;
    let second = &first - &volatility;
    vec![price * normal(&first) - normal(&second) * (100.0 * (-0.05f64).exp())]
}
