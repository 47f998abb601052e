//! Formatting of numbers, and progress bars.

use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Arguments;
use std::io::Write;
use std::time::Duration;

/// `println!` that ends the program without a panic if the reader closes the pipe, as `head` does.
#[macro_export]
macro_rules! out {
    ($($arg:tt)*) => { $crate::report::line(format_args!($($arg)*)) };
}

/// Prints a line.
pub fn line(text: Arguments<'_>) {
    if writeln!(std::io::stdout(), "{text}").is_err() {
        std::process::exit(1);
    }
}

/// Formats a number of bytes with about three digits: `16.8 MB` (decimal, as rates are).
pub fn size(bytes: u64) -> String {
    scaled(bytes as f64, &["B", "kB", "MB", "GB", "TB"])
}

/// Formats a rate in bytes per second.
pub fn rate(bytes_per_second: f64) -> String {
    format!("{:.1} GB/s", bytes_per_second / 1e9)
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < units.len() {
        value /= 1e3;
        unit += 1;
    }
    if unit == 0 { format!("{value} {}", units[0]) } else { format!("{value:.1} {}", units[unit]) }
}

/// Formats milliseconds with about three significant digits.
pub fn ms(value: f64) -> String {
    match value {
        v if v.is_nan() => "-".into(),
        v if v < 1.0 => format!("{v:.4}"),
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 1000.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// Formats a number with thousands separators.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Progress bar over `steps` steps on standard error; hidden if that is not a terminal.
pub fn progress(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}").expect("the template is well formed");
    bar.set_style(style.progress_chars("=> "));
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        assert_eq!([size(0), size(999), size(12_288), size(16_777_216)], ["0 B", "999 B", "12.3 kB", "16.8 MB"]);
        assert_eq!([ms(0.0754), ms(2.314), ms(45.67), ms(1234.5)], ["0.0754", "2.31", "45.7", "1234"]);
        assert_eq!([grouped(12), grouped(1_234_567)], ["12", "1,234,567"]);
    }
}
