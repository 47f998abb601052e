//! Size thresholds that choose an algorithm, as parameters.
//!
//! Each crate declares its thresholds once, as a struct of [`Tunable`]s, with [`tunables!`](crate::tunables!). Programs
//! run with the defaults, which were measured. The fuzzer sets other values for each random program, so that a program
//! of ten elements takes algorithms that otherwise need millions, and counts how often each side of each threshold was
//! taken.
//!
//! Every value in a tunable's range gives the same results. Constants that are part of the documented meaning of a
//! result, such as the order of a fold, are not tunables.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Whether comparisons with thresholds are counted.
static COUNTING: AtomicBool = AtomicBool::new(false);

/// Starts counting how often each side of each threshold is taken.
pub fn count_sides() {
    COUNTING.store(true, Relaxed);
}

/// A size threshold that chooses between algorithms. A read is one relaxed load.
#[derive(Debug)]
pub struct Tunable {
    name: &'static str,
    default: usize,
    range: RangeInclusive<usize>,
    value: AtomicUsize,
    sides: [AtomicU64; 2],
}

impl Tunable {
    /// Creates a threshold with a measured default and the range from which tests draw.
    pub const fn new(name: &'static str, default: usize, range: RangeInclusive<usize>) -> Tunable {
        let sides = [const { AtomicU64::new(0) }; 2];
        Tunable { name, default, range, value: AtomicUsize::new(default), sides }
    }

    /// Name of the threshold: the crate, then the field (`thalweg-cpu.min_radix`).
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Default value, which was measured.
    pub fn default(&self) -> usize {
        self.default
    }

    /// Smallest and largest value that a test may set.
    pub fn range(&self) -> RangeInclusive<usize> {
        self.range.clone()
    }

    /// Current value of the threshold.
    pub fn get(&self) -> usize {
        self.value.load(Relaxed)
    }

    /// Current value, for a size that is used directly instead of compared with. The use counts as within the threshold
    /// if the value is the default, and as beyond it if a test has set another one.
    pub fn size(&self) -> usize {
        let value = self.get();
        self.side(value == self.default);
        value
    }

    /// Sets the value for the whole process. Only for tests in a process of their own.
    ///
    /// # Panics
    /// When the value is neither the default nor in the range.
    pub fn set(&self, value: usize) {
        assert!(value == self.default || self.range.contains(&value), "{} cannot be {value}", self.name);
        self.value.store(value, Relaxed);
    }

    /// Whether `n` is at most the value (within the threshold).
    pub fn admits(&self, n: usize) -> bool {
        self.side(n <= self.get())
    }

    /// Whether `n` is at least the value (beyond the threshold).
    pub fn reached_by(&self, n: usize) -> bool {
        !self.side(n < self.get())
    }

    /// Counts a decision by the threshold, if counting is enabled, and returns `within`.
    pub fn side(&self, within: bool) -> bool {
        if COUNTING.load(Relaxed) {
            self.sides[!within as usize].fetch_add(1, Relaxed);
        }
        within
    }

    /// Number of decisions within the threshold, and beyond it, since [`count_sides`].
    pub fn sides(&self) -> [u64; 2] {
        self.sides.each_ref().map(|n| n.load(Relaxed))
    }
}

/// Declares a crate's thresholds: a struct of [`Tunable`](crate::tunable::Tunable)s and the static `TUNABLES`. A row is
/// `name: default, in range`; the default need not be in the range.
///
/// ```
/// thalweg_ir::tunables! {
///     /// Thresholds of an example.
///     pub struct Example of "example" {
///         /// Rows up to which one thread sorts.
///         max_rows: 4096, in 1..=8,
///     }
/// }
/// assert!(TUNABLES.max_rows.admits(4000));
/// TUNABLES.max_rows.set(2);
/// assert!(!TUNABLES.max_rows.admits(3));
/// assert_eq!(TUNABLES.all()[0].name(), "example.max_rows");
/// ```
#[macro_export]
macro_rules! tunables {
    (
        $(#[$about:meta])*
        pub struct $name:ident of $of:literal {
            $($(#[$doc:meta])* $field:ident: $default:expr, in $range:expr,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $name {
            $($(#[$doc])* pub $field: $crate::tunable::Tunable,)*
        }

        /// The crate's thresholds, with their current values.
        pub static TUNABLES: $name = $name {
            $($field: $crate::tunable::Tunable::new(concat!($of, ".", stringify!($field)), $default, $range),)*
        };

        impl $name {
            /// All thresholds, in the order of declaration.
            pub fn all(&'static self) -> Vec<&'static $crate::tunable::Tunable> {
                vec![$(&self.$field),*]
            }
        }
    };
}
