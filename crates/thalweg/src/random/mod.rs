//! Random tensors. Every draw records one operation with a new key. The numbers depend only on key and index (a
//! counter-based generator), so they are the same on every device, fused or not, read in whole or in part.

/// Draws from the thread's generator. Not a closure, so that a panic in `draw` has the caller's line.
macro_rules! draw {
    ($generator:ident => $draw:expr) => {{
        let mut $generator = DEFAULT.get().unwrap_or_else(from_system);
        let tensor = $draw;
        DEFAULT.set(Some($generator));
        tensor
    }};
}

mod distributions;
mod orders;
mod sobol;

use crate::record::{record0, wrong_dtype};
use crate::{DType, Device, Options, Shape, Tensor};
use std::cell::Cell;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use thalweg_ir::{Op, RandomKind};

/// Random number generator: a seed and a count of draws, as `torch.Generator`. Equal seeds and equal draws give equal
/// numbers.
///
/// ```
/// # use thalweg::Generator;
/// let mut g = Generator::seed(7);
/// let (x, noise) = (g.rand([2, 3]), g.randn([2, 3]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Generator {
    seed: u64,
    draws: u64,
}

impl Generator {
    /// A generator with a seed.
    pub fn seed(seed: u64) -> Generator {
        Generator { seed, draws: 0 }
    }

    /// The state of the generator, to be saved: its seed and the number of draws.
    pub fn parts(self) -> (u64, u64) {
        (self.seed, self.draws)
    }

    /// The generator with a state from [`parts`](Generator::parts); it continues where that one was.
    pub fn from_parts(seed: u64, draws: u64) -> Generator {
        Generator { seed, draws }
    }

    /// Returns a key that no other draw of this generator has, and that differs from every other in about half of its
    /// bits; counts the draw.
    fn key(&mut self) -> u64 {
        let key = mix(mix(self.seed) ^ self.draws);
        self.draws += 1;
        key
    }

    /// Keys of the draws `draws` after this state.
    pub(crate) fn keys_after(self, draws: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
        draws.map(move |n| Generator { draws: self.draws + n, ..self }.key())
    }

    /// Number of draws from an earlier state to this one; `None` if the generator was seeded between.
    pub(crate) fn draws_since(self, earlier: Generator) -> Option<u64> {
        (self.seed == earlier.seed).then(|| self.draws.checked_sub(earlier.draws))?
    }

    /// The generator after so many more draws.
    pub(crate) fn advanced(self, draws: u64) -> Generator {
        Generator { draws: self.draws + draws, ..self }
    }

    #[track_caller]
    fn draw(&mut self, kind: RandomKind, dtype: DType, shape: Shape, device: Device) -> Tensor {
        record0(device.0, Op::Random(kind), dtype, shape, Some(self.key()))
    }

    /// Draws uniform numbers on [0, 1), as f32; see [`Tensor::rand`].
    #[track_caller]
    pub fn rand(&mut self, shape: impl Into<Shape>) -> Tensor {
        self.rand_with(shape, Options::default())
    }

    /// [`rand`](Generator::rand) with a float dtype, a device or both.
    ///
    /// # Panics
    /// When the dtype is not a float.
    #[track_caller]
    pub fn rand_with(&mut self, shape: impl Into<Shape>, options: impl Into<Options>) -> Tensor {
        self.float("rand", RandomKind::Uniform, shape.into(), options.into())
    }

    /// Draws standard normal numbers, as f32; see [`Tensor::randn`].
    #[track_caller]
    pub fn randn(&mut self, shape: impl Into<Shape>) -> Tensor {
        self.randn_with(shape, Options::default())
    }

    /// [`randn`](Generator::randn) with a float dtype, a device or both.
    ///
    /// # Panics
    /// When the dtype is not a float.
    #[track_caller]
    pub fn randn_with(&mut self, shape: impl Into<Shape>, options: impl Into<Options>) -> Tensor {
        self.float("randn", RandomKind::Normal, shape.into(), options.into())
    }

    #[track_caller]
    fn float(&mut self, name: &str, kind: RandomKind, shape: Shape, options: Options) -> Tensor {
        if !options.dtype().is_float() {
            wrong_dtype(name, "a float dtype", options.dtype());
        }
        self.draw(kind, options.dtype(), shape, options.device)
    }

    /// Applies dropout; see [`Tensor::dropout`].
    ///
    /// # Panics
    /// On a dtype that is not a float, or when `p` is not in [0, 1].
    #[track_caller]
    pub fn dropout(&mut self, x: &Tensor, p: f64) -> Tensor {
        crate::record::check_float("dropout", x);
        assert!((0.0..=1.0).contains(&p), "dropout: {p} is no probability");
        if p == 0.0 {
            return x.clone();
        }
        let kept = self.draw(RandomKind::Uniform, DType::F32, *x.shape(), x.device()).ge(p);
        let scale = if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) };
        kept.where_(crate::record::widened(x) * scale, 0.0).cast(x.dtype())
    }

    /// Integers of a half-open range, as i64; see [`Tensor::randint`].
    ///
    /// # Panics
    /// When the range is empty.
    #[track_caller]
    pub fn randint(&mut self, range: Range<i64>, shape: impl Into<Shape>) -> Tensor {
        self.randint_with(range, shape, Options::default())
    }

    /// [`randint`](Generator::randint) with a number dtype (default i64), a device or both. For u64, too, the range is
    /// one of i64, i.e. below 2⁶³.
    ///
    /// # Panics
    /// When the range is empty or the dtype cannot represent it.
    #[track_caller]
    pub fn randint_with(&mut self, range: Range<i64>, shape: impl Into<Shape>, options: impl Into<Options>) -> Tensor {
        let (shape, options) = (shape.into(), options.into());
        let dtype = options.dtype.unwrap_or(DType::I64);
        let (low, high) = (range.start, range.end);
        assert!(low < high, "randint: the range {low}..{high} is empty");
        if dtype == DType::Bool {
            wrong_dtype("randint", "a float or integer dtype", dtype);
        }
        if dtype.is_int() {
            let (least, most) = dtype.int_range();
            assert!(
                low as i128 >= least && high as i128 - 1 <= most,
                "randint: the range {low}..{high} does not fit {dtype}"
            );
        }
        let size = high.checked_sub(low);
        let mut bits = || self.draw(RandomKind::Bits, DType::U32, shape, options.device).cast(DType::I64);
        let offset = match size {
            // Multiply and shift: the top 31 bits of a 63-bit product. The deviation from uniform is below size·2⁻³².
            Some(size) if size <= 1 << 31 => (bits() * size) >> 32,
            // 63 bits, then the remainder. The deviation from uniform is below size·2⁻⁶³.
            Some(size) => ((bits() & 0x7fff_ffffi64) << 32 | bits()).rem(size),
            None => panic!("randint: the range {low}..{high} has more than 2^63 numbers"),
        };
        (offset + low).cast(dtype)
    }
}

/// The finalizer of splitmix64 (Steele, Lea and Flood 2014): a bijection of 64 bits in which every input bit affects
/// every output bit.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

thread_local! {
    static DEFAULT: Cell<Option<Generator>> = const { Cell::new(None) };
}

/// Seeds the calling thread's generator, which the functions on [`Tensor`] draw from, as `torch.manual_seed`. Each
/// thread has its own; an unseeded one starts with a seed from the operating system.
pub fn manual_seed(seed: u64) {
    DEFAULT.set(Some(Generator::seed(seed)));
}

/// The state of the calling thread's generator, as `torch.get_rng_state`.
///
/// ```
/// use thalweg::{Tensor, manual_seed, random_state, set_random_state};
/// manual_seed(3);
/// let state = random_state();
/// let x = Tensor::rand([4]).to_vec::<f32>()?;
/// set_random_state(state);
/// assert_eq!(Tensor::rand([4]).to_vec::<f32>()?, x);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn random_state() -> Generator {
    let generator = DEFAULT.get().unwrap_or_else(from_system);
    DEFAULT.set(Some(generator));
    generator
}

/// Sets the state of the calling thread's generator, as `torch.set_rng_state`.
pub fn set_random_state(generator: Generator) {
    DEFAULT.set(Some(generator));
}

/// The state of the thread's generator, to draw the same numbers again.
pub(crate) fn state() -> Generator {
    let generator = DEFAULT.get().unwrap_or_else(from_system);
    DEFAULT.set(Some(generator));
    generator
}

/// Guard that sets the thread's generator to a state, and restores it when dropped.
pub(crate) struct Restored(Option<Generator>);

impl Restored {
    pub(crate) fn new(state: Generator) -> Restored {
        Restored(DEFAULT.replace(Some(state)))
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        DEFAULT.set(self.0);
    }
}

fn from_system() -> Generator {
    Generator::seed(std::collections::hash_map::RandomState::new().build_hasher().finish())
}

/// # Random numbers
///
/// From the calling thread's generator, which [`manual_seed`] seeds. They do not depend on fusion or on what is read.
impl Tensor {
    /// Uniform numbers on [0, 1), as f32: every multiple of 2⁻²⁴ is equally likely.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::rand([100]);
    /// assert!((x.ge(0.0) & x.lt(1.0)).all(..).item::<bool>()?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn rand(shape: impl Into<Shape>) -> Tensor {
        draw!(g => g.rand(shape))
    }

    /// [`rand`](Tensor::rand) with a float dtype (f64: multiples of 2⁻⁵³), a device or both.
    ///
    /// # Panics
    /// When the dtype is not a float.
    #[track_caller]
    pub fn rand_with(shape: impl Into<Shape>, options: impl Into<Options>) -> Tensor {
        draw!(g => g.rand_with(shape, options))
    }

    /// Uniform numbers on [0, 1) in this tensor's shape, dtype and device.
    ///
    /// ```
    /// # use thalweg::{DType, Tensor};
    /// assert_eq!(Tensor::zeros_with([2, 3], DType::F64).rand_like().dtype(), DType::F64);
    /// ```
    ///
    /// # Panics
    /// When the dtype is not a float.
    #[track_caller]
    pub fn rand_like(&self) -> Tensor {
        draw!(g => g.rand_with(*self.shape(), Options::of(self)))
    }

    /// Standard normal numbers (mean 0, variance 1), as f32.
    ///
    /// ```
    /// # use thalweg::{Tensor, manual_seed};
    /// manual_seed(7);
    /// let first = Tensor::randn([3]).to_vec::<f32>()?;
    /// manual_seed(7);
    /// assert_eq!(Tensor::randn([3]).to_vec::<f32>()?, first);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn randn(shape: impl Into<Shape>) -> Tensor {
        draw!(g => g.randn(shape))
    }

    /// [`randn`](Tensor::randn) with a float dtype, a device or both.
    ///
    /// ```
    /// # use thalweg::{DType, Tensor};
    /// assert_eq!(Tensor::randn_with([3], DType::F64).dtype(), DType::F64);
    /// ```
    ///
    /// # Panics
    /// When the dtype is not a float.
    #[track_caller]
    pub fn randn_with(shape: impl Into<Shape>, options: impl Into<Options>) -> Tensor {
        draw!(g => g.randn_with(shape, options))
    }

    /// Standard normal numbers in this tensor's shape, dtype and device.
    ///
    /// # Panics
    /// When the dtype is not a float.
    #[track_caller]
    pub fn randn_like(&self) -> Tensor {
        draw!(g => g.randn_with(*self.shape(), Options::of(self)))
    }

    /// Dropout: each element is 0 with probability `p`, else divided by `1 - p`, so that the mean stays (Srivastava et
    /// al. 2014). For training only; omit it in inference.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::ones([100]).dropout(0.5);
    /// assert!((x.eq(0.0) | x.eq(2.0)).all(..).item::<bool>()?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// On a dtype that is not a float, or when `p` is not in [0, 1].
    #[track_caller]
    pub fn dropout(&self, p: f64) -> Tensor {
        draw!(g => g.dropout(self, p))
    }

    /// Integers of a half-open range, as i64. They are equally likely up to a deviation of less than 2⁻³² of the
    /// range's size.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// let x = Tensor::randint(0..6, [100]);
    /// assert!((x.ge(0) & x.lt(6)).all(..).item::<bool>()?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Panics
    /// When the range is empty.
    #[track_caller]
    pub fn randint(range: Range<i64>, shape: impl Into<Shape>) -> Tensor {
        draw!(g => g.randint(range, shape))
    }

    /// [`randint`](Tensor::randint) with a number dtype, a device or both.
    ///
    /// # Panics
    /// When the range is empty or the dtype cannot represent it.
    #[track_caller]
    pub fn randint_with(range: Range<i64>, shape: impl Into<Shape>, options: impl Into<Options>) -> Tensor {
        draw!(g => g.randint_with(range, shape, options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_draws_and_of_neighbouring_seeds_differ() {
        let mut keys: Vec<u64> = (0..100)
            .flat_map(|seed| {
                let mut g = Generator::seed(seed);
                (0..100).map(move |_| g.key())
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 10_000);
    }
}
