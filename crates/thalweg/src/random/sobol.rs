//! Sobol sequences, which fill a cube more evenly than random points.

use crate::{DType, Options, Tensor};

/// Number of bits of a coordinate.
const BITS: usize = 32;

/// Primitive polynomial and initial direction numbers of each dimension but the first, by Joe and Kuo (2008),
/// "new-joe-kuo-6", as in SciPy and PyTorch.
const DIRECTIONS: &[(u32, &[u32])] = &[
    (3, &[1]),
    (7, &[1, 3]),
    (11, &[1, 3, 1]),
    (13, &[1, 1, 1]),
    (19, &[1, 1, 3, 3]),
    (25, &[1, 3, 5, 13]),
    (37, &[1, 1, 5, 5, 17]),
    (41, &[1, 1, 5, 5, 5]),
    (47, &[1, 1, 7, 11, 19]),
    (55, &[1, 1, 5, 1, 1]),
    (59, &[1, 1, 1, 3, 11]),
    (61, &[1, 3, 5, 5, 31]),
    (67, &[1, 3, 3, 9, 7, 49]),
    (91, &[1, 1, 1, 15, 21, 21]),
    (97, &[1, 3, 1, 13, 27, 49]),
    (103, &[1, 1, 1, 15, 7, 5]),
    (109, &[1, 3, 1, 15, 13, 25]),
    (115, &[1, 1, 5, 5, 19, 61]),
    (131, &[1, 3, 7, 11, 23, 15, 103]),
    (137, &[1, 3, 7, 13, 13, 15, 69]),
    (143, &[1, 1, 3, 13, 7, 35, 63]),
    (145, &[1, 3, 5, 9, 1, 25, 53]),
    (157, &[1, 3, 1, 13, 9, 35, 107]),
    (167, &[1, 3, 1, 5, 27, 61, 31]),
    (171, &[1, 1, 5, 11, 19, 41, 61]),
    (185, &[1, 3, 5, 3, 3, 13, 69]),
    (191, &[1, 1, 7, 13, 1, 19, 1]),
    (193, &[1, 3, 7, 5, 13, 19, 59]),
    (203, &[1, 1, 3, 9, 25, 29, 41]),
    (211, &[1, 3, 5, 13, 23, 1, 55]),
    (213, &[1, 3, 7, 3, 13, 59, 17]),
    (229, &[1, 3, 1, 3, 5, 53, 69]),
    (239, &[1, 1, 5, 5, 23, 33, 13]),
    (241, &[1, 1, 7, 7, 1, 61, 123]),
    (247, &[1, 1, 7, 9, 13, 61, 49]),
    (253, &[1, 3, 3, 5, 3, 55, 33]),
    (285, &[1, 3, 1, 15, 31, 13, 49, 245]),
    (299, &[1, 3, 5, 15, 31, 59, 63, 97]),
    (301, &[1, 3, 1, 11, 11, 11, 77, 249]),
];

/// Maximum number of dimensions.
const MAX_DIMENSIONS: usize = DIRECTIONS.len() + 1;

/// The direction numbers of one dimension, as fractions of 2³².
fn directions(dimension: usize) -> [u32; BITS] {
    let mut v = [0; BITS];
    let Some(&(polynomial, first)) = dimension.checked_sub(1).map(|d| &DIRECTIONS[d]) else {
        return std::array::from_fn(|bit| 1 << (BITS - 1 - bit));
    };
    let degree = first.len();
    for bit in 0..BITS {
        if bit < degree {
            v[bit] = first[bit] << (BITS - 1 - bit);
            continue;
        }
        v[bit] = v[bit - degree] ^ (v[bit - degree] >> degree);
        for k in 1..degree {
            if polynomial >> (degree - k) & 1 == 1 {
                v[bit] ^= v[bit - k];
            }
        }
    }
    v
}

/// # Quasi-random numbers
impl Tensor {
    /// `count` points of the Sobol sequence in [0, 1), as rows of `dimensions` coordinates, from point `skip` on. They
    /// equal those of `scipy.stats.qmc.Sobol(scramble=False)` and `torch.quasirandom.SobolEngine`, which begin with the
    /// point 0. As f32. Best with a power of two as `count`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert_eq!(Tensor::sobol(4, 2, 0).to_vec::<f32>()?, [0.0, 0.0, 0.5, 0.5, 0.75, 0.25, 0.25, 0.75]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the number of dimensions is 0 or above 39, or a point is beyond 2³².
    #[track_caller]
    pub fn sobol(count: usize, dimensions: usize, skip: usize) -> Tensor {
        Tensor::sobol_with(count, dimensions, skip, Options::default())
    }

    /// [`sobol`](Tensor::sobol) as f32 or f64, with a device or not.
    ///
    /// # Panics
    /// As [`sobol`](Tensor::sobol), and with another dtype.
    #[track_caller]
    pub fn sobol_with(count: usize, dimensions: usize, skip: usize, options: impl Into<Options>) -> Tensor {
        let options = options.into();
        if !matches!(options.dtype(), DType::F32 | DType::F64) {
            crate::record::wrong_dtype("sobol", "f32 or f64", options.dtype());
        }
        assert!(
            (1..=MAX_DIMENSIONS).contains(&dimensions),
            "sobol: {dimensions} dimensions; there are 1 to {MAX_DIMENSIONS}"
        );
        let end = count.checked_add(skip).filter(|&end| end as u64 <= 1 << BITS);
        let Some(end) = end else { panic!("sobol: {count} points from {skip} on go beyond 2^{BITS}") };
        let all: Vec<[u32; BITS]> = (0..dimensions).map(directions).collect();
        // In Gray code each set bit contributes its direction, without carries.
        let i = Tensor::arange_with(count, (DType::I64, options.device)) + skip;
        let gray = (&i ^ (&i >> 1)).unsqueeze(1);
        let bits = usize::BITS - end.leading_zeros();
        let mut x = Tensor::zeros_with([count, dimensions], (DType::I64, options.device));
        for bit in 0..bits as usize {
            let own: Vec<i64> = all.iter().map(|v| v[bit.min(BITS - 1)] as i64).collect();
            let own = match Tensor::try_from_slice(&own, [dimensions], options.device) {
                Ok(own) => own,
                Err(e) => panic!("sobol: {e}"),
            };
            x ^= ((&gray >> bit as i64) & 1) * own;
        }
        if options.dtype() == DType::F32 {
            // Truncated rather than rounded, so that no coordinate is 1.
            return (x >> 8).cast(DType::F32) * 2f64.powi(-24);
        }
        x.cast(DType::F64) * 2f64.powi(-(BITS as i32))
    }
}
