//! The engines' own code for some monoids: what puts two partial results together, as their rows in
//! [`thalweg_ir::monoid`] say, to the bit. Folds, stores that combine and scans are made of it; the tests hold it
//! against the rows.

/// Elements that partial results are made of. Integers wrap; of floats -0 is below +0, and an extreme is the one NaN if
/// either is NaN.
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
