//! Hyperbolic functions, and the trigonometric ones through them: `sin z = swap(sinh(swap z))`, where `swap` exchanges
//! the parts.

use super::exponential::by_sign;
use super::{Complex, limits, odd, sign_of};

/// Hyperbolic and trigonometric functions.
impl Complex {
    /// The hyperbolic sine, as `numpy.sinh`: `sinh x·cos y + i·cosh x·sin y`, without overflow before the result
    /// overflows.
    ///
    /// It is odd. For `∞ + 0i` it is `∞ + 0i`, for `∞ ± ∞i` it is `∞ + NaN·i`; the imaginary part is 0 for `NaN + 0i`,
    /// and the real part is 0 for `0 + iy`, whatever `y` is.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(0.0, 1.0)], [1]).sinh().to_string(), "[0.+0.8415j]");
    /// ```
    #[track_caller]
    pub fn sinh(&self) -> Complex {
        let z = self.wide();
        let (x, y) = (&z.re, &z.im);
        let limit = limits(x.dtype()).exponent;
        let (near, more) = (x.clamp(-limit, limit), (x.abs() - limit).maximum(0).exp());
        let re = odd(x, near.sinh()) * y.cos() * &more;
        let im = near.cosh() * y.sin() * more;
        let still = (x.eq(0) | x.is_inf()) & !y.is_finite();
        let level = y.eq(0) & !x.is_finite();
        Complex { re: still.where_(x, re), im: level.where_(y, im) }.cast(self.dtype())
    }

    /// The hyperbolic cosine, as `numpy.cosh`: `cosh x·cos y + i·sinh x·sin y`, without overflow before the result
    /// overflows.
    ///
    /// It is even. For `∞ + 0i` it is `∞ + 0i`, for `±∞ ± ∞i` it is `∞ + NaN·i`; the imaginary part is 0 if `x` or `y`
    /// is 0, even if the other is NaN or infinite.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(0.0, 1.0)], [1]).cosh().to_string(), "[0.5403+0.j]");
    /// ```
    #[track_caller]
    pub fn cosh(&self) -> Complex {
        let z = self.wide();
        let (x, y) = (&z.re, &z.im);
        let limit = limits(x.dtype()).exponent;
        let (near, more) = (x.clamp(-limit, limit), (x.abs() - limit).maximum(0).exp());
        let re = near.cosh() * y.cos() * &more;
        let im = odd(x, near.sinh()) * y.sin() * more;
        let (still, flat) = (x.is_inf() & !y.is_finite(), x.eq(0) & !y.is_finite());
        let level = y.eq(0) & !x.is_finite();
        let im = flat.where_(x.zeros_like(), level.where_(by_sign(x, &-y, y), im));
        Complex { re: still.where_(x.abs(), re), im }.cast(self.dtype())
    }

    /// The hyperbolic tangent, as `numpy.tanh`. It is odd, and has poles at `i·(π/2 + kπ)`. For `±∞ + iy` it is
    /// `±1 + 0i`, whatever `y` is; the imaginary part is 0 for `NaN + 0i`, and the real part is 0 for `0 + iy` with `y`
    /// not finite. It neither overflows nor loses digits for large `x`.
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(0.0, 1.0)], [1]).tanh().to_string(), "[0.+1.5574j]");
    /// ```
    #[track_caller]
    pub fn tanh(&self) -> Complex {
        let z = self.wide();
        let (x, y) = (&z.re, &z.im);
        // With q = e^(-2|x|), numerator and denominator are multiplied by 4q, which makes them sums of non-negative
        // terms: tanh z = (sinh x·cosh x + i·sin y·cos y) / (sinh² x + cos² y).
        let sign = sign_of(x);
        let twice = x * &sign * -2.0;
        let (q, p) = (twice.exp(), -twice.expm1());
        let (sin, cos) = (y.sin(), y.cos());
        let below = p.square() + &q * cos.square() * 4.0;
        let re = &p * (&q + 1.0) * &sign / &below;
        let im = q * sin * cos * 4.0 / below;
        let (still, flat) = (x.is_inf() & !y.is_finite(), x.eq(0) & !y.is_finite());
        let level = y.eq(0) & !x.is_finite();
        let re = still.where_(sign, flat.where_(x, re));
        let im = still.where_(sign_of(y) * 0.0, level.where_(y, im));
        Complex { re, im }.cast(self.dtype())
    }

    /// The sine, as `numpy.sin`: `sin x·cosh y + i·cos x·sinh y`. Special values are those of `-i·sinh(iz)`, see
    /// [`sinh`](Complex::sinh).
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(1.0, 1.0)], [1]).sin().to_string(), "[1.2985+0.635j]");
    /// ```
    #[track_caller]
    pub fn sin(&self) -> Complex {
        self.swapped().sinh().swapped()
    }

    /// The cosine, as `numpy.cos`: `cos x·cosh y - i·sin x·sinh y`. Special values are those of `cosh(iz)`, see
    /// [`cosh`](Complex::cosh).
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(1.0, 1.0)], [1]).cos().to_string(), "[0.8337-0.9889j]");
    /// ```
    #[track_caller]
    pub fn cos(&self) -> Complex {
        self.times_i().cosh()
    }

    /// The tangent, as `numpy.tan`. Special values are those of `-i·tanh(iz)`, see [`tanh`](Complex::tanh).
    ///
    /// ```
    /// # use thalweg::Complex;
    /// assert_eq!(Complex::from_pairs(&[(1.0, 1.0)], [1]).tan().to_string(), "[0.2718+1.0839j]");
    /// ```
    #[track_caller]
    pub fn tan(&self) -> Complex {
        self.swapped().tanh().swapped()
    }
}
