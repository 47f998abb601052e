//! Native code of the engines for some monoids: combines two partial results exactly as the rows in
//! [`thalweg_ir::monoid`] say. Folds, stores that combine, and scans use it; tests compare it with the rows.

/// Element types of partial results. Integers wrap. For float extremes, -0 is below +0, and the result is the canonical
/// NaN if either argument is NaN.
pub trait Combine: Copy {
    fn sum(a: Self, b: Self) -> Self;
    fn prod(a: Self, b: Self) -> Self;
    fn max(a: Self, b: Self) -> Self;
    fn min(a: Self, b: Self) -> Self;
}

macro_rules! float {
    ($($t:ident),*) => {$(
        impl Combine for $t {
            #[inline(always)]
            fn sum(a: $t, b: $t) -> $t {
                a + b
            }
            #[inline(always)]
            fn prod(a: $t, b: $t) -> $t {
                a * b
            }
            #[inline(always)]
            fn max(a: $t, b: $t) -> $t {
                let larger = if a > b || (a == b && b.is_sign_negative()) { a } else { b };
                if a.is_nan() | b.is_nan() { $t::NAN } else { larger }
            }
            #[inline(always)]
            fn min(a: $t, b: $t) -> $t {
                let smaller = if a < b || (a == b && a.is_sign_negative()) { a } else { b };
                if a.is_nan() | b.is_nan() { $t::NAN } else { smaller }
            }
        }
    )*};
}
float!(f32, f64);

macro_rules! integer {
    ($($t:ident),*) => {$(
        impl Combine for $t {
            #[inline(always)]
            fn sum(a: $t, b: $t) -> $t {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn prod(a: $t, b: $t) -> $t {
                a.wrapping_mul(b)
            }
            #[inline(always)]
            fn max(a: $t, b: $t) -> $t {
                Ord::max(a, b)
            }
            #[inline(always)]
            fn min(a: $t, b: $t) -> $t {
                Ord::min(a, b)
            }
        }
    )*};
}
integer!(i8, i16, i32, i64, u8, u16, u32, u64);
