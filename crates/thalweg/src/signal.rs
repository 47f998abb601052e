//! Window functions of signal processing: sums of cosines over the window. Floats; bf16 and f16 are computed in f32.

use crate::create::{iota, wide};
use crate::{Options, Tensor};
use std::f64::consts::TAU;

/// `a - b·cos(2πi/n) + c·cos(4πi/n)`, where `n` is `count` for a periodic window and `count - 1` for a symmetric one.
#[track_caller]
fn cosine_window(name: &str, count: usize, periodic: bool, options: Options, [a, b, c]: [f64; 3]) -> Tensor {
    if !options.dtype().is_float() {
        crate::record::wrong_dtype(name, "a float dtype", options.dtype());
    }
    if count < 2 {
        return Tensor::ones_with([count], options);
    }
    let period = if periodic { count } else { count - 1 } as f64;
    let i = iota(count, wide(options.dtype()), options.device);
    let window = (&i * (TAU / period)).cos() * -b + a;
    let window = if c == 0.0 { window } else { window + (&i * (2.0 * TAU / period)).cos() * c };
    window.cast(options.dtype())
}

macro_rules! windows {
    ($($(#[$doc:meta])* $name:ident $with:ident $about:literal $weights:expr;)*) => {
        /// # Window functions
        ///
        /// Factors of a segment of a signal before its Fourier transform. A periodic window of `count` elements is a
        /// symmetric one of `count + 1` without its last element: the one for spectra, PyTorch's default.
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(count: usize) -> Tensor {
                Tensor::$with(count, true, Options::default())
            }

            #[doc = $about]
            ///
            /// # Panics
            /// When the dtype is not a float.
            #[track_caller]
            pub fn $with(count: usize, periodic: bool, options: impl Into<Options>) -> Tensor {
                cosine_window(stringify!($name), count, periodic, options.into(), $weights)
            }
        )*}
    };
}

windows! {
    /// The periodic Hann window, `0.5 - 0.5·cos(2πi/count)`, `[count]` as f32; as `torch.hann_window`. Two of them that
    /// overlap by half add up to 1.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::hann_window(4).allclose(Tensor::new([0.0f32, 0.5, 1.0, 0.5]), 0.0, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    hann_window hann_window_with
        "[`hann_window`](Tensor::hann_window), periodic or symmetric (`numpy.hanning`), with a dtype, a device or both."
        [0.5, 0.5, 0.0];
    /// The periodic Hamming window, `0.54 - 0.46·cos(2πi/count)`, `[count]` as f32; as `torch.hamming_window`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::hamming_window(4).allclose(Tensor::new([0.08f32, 0.54, 1.0, 0.54]), 0.0, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    hamming_window hamming_window_with
        "[`hamming_window`](Tensor::hamming_window), periodic or symmetric (`numpy.hamming`), with a dtype, a device or \
         both."
        [0.54, 0.46, 0.0];
    /// The periodic Blackman window, `0.42 - 0.5·cos(2πi/count) + 0.08·cos(4πi/count)`, `[count]` as f32; as
    /// `torch.blackman_window`.
    ///
    /// ```
    /// # use thalweg::Tensor;
    /// assert!(Tensor::blackman_window(4).allclose(Tensor::new([0.0f32, 0.34, 1.0, 0.34]), 0.0, 1e-6)?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    blackman_window blackman_window_with
        "[`blackman_window`](Tensor::blackman_window), periodic or symmetric (`numpy.blackman`), with a dtype, a device \
         or both."
        [0.42, 0.5, 0.08];
}
