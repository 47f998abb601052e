//! GPUs in `thalweg doctor`: NVIDIA's libraries, those to be installed, and the devices.
//!
//! Lines have at most 80 columns, except for long paths. Without a driver there is one line: most machines have none.

use crate::report;
use thalweg::cuda::{Chip, LibrarySearch, Sought, chips, find};

/// Maximum number of columns of a line.
const WIDTH: usize = 80;

/// Prints the GPU section.
pub fn show() {
    lines().iter().for_each(|line| crate::out!("{line}"));
}

fn lines() -> Vec<String> {
    let driver = find(Sought::Driver);
    if driver.library.is_none() {
        // If the user named a driver file that does not work, that is an error to report.
        let named = thalweg::environment::CUDA_DRIVER.get().and(driver.advice);
        return match named {
            Some(advice) => described("GPUs          none: ", &advice),
            None => vec!["GPUs          none: there is no NVIDIA driver (libcuda.so.1)".into()],
        };
    }
    let mut out = vec!["GPUs".to_string()];
    let others = [Sought::Nvrtc, Sought::CublasLt, Sought::Cudnn, Sought::Cufft, Sought::Cusolver, Sought::Nccl];
    for found in std::iter::once(driver).chain(others.map(find)) {
        out.extend(library(&found));
    }
    match chips() {
        Ok(chips) if chips.is_empty() => out.push("  the driver shows no GPU to this process".into()),
        Ok(chips) => out.extend(chips.iter().enumerate().flat_map(|(n, chip)| gpu(n, chip))),
        Err(why) => out.extend(described("  ", &why.to_string())),
    }
    out
}

fn library(found: &LibrarySearch) -> Vec<String> {
    let Some(path) = &found.library else {
        let what = match found.sought {
            Sought::CublasLt => "missing: large matrix products take 20 to 30 times as long without it;",
            Sought::Cudnn => "missing: convolutions take up to 5 times as long without it;",
            Sought::Cufft => "missing: Fourier transforms run on the host without it;",
            Sought::Cusolver => "missing: decompositions of matrices run on the host without it;",
            Sought::Nccl => "missing: several GPUs exchange data by way of the host without it;",
            _ => "missing, needed:",
        };
        let text = format!("{what} {}", found.advice.as_deref().unwrap_or_default());
        return described(&format!("  {:<13} ", found.sought.name()), &text);
    };
    let head = format!("  {:<13} {:<9} ", found.sought.name(), found.version.as_deref().unwrap_or("?"));
    let path = path.display().to_string();
    if head.len() + path.len() <= WIDTH {
        vec![head + &path]
    } else {
        vec![head.trim_end().into(), format!("    {path}")]
    }
}

fn gpu(number: usize, chip: &Chip) -> [String; 2] {
    let memory = report::size(chip.memory as u64);
    [
        format!("  cuda:{number:<8} {}, sm_{}, {} multiprocessors, {memory}", chip.name, chip.sm, chip.multiprocessors),
        format!("{:16}THALWEG_DEVICE=cuda:{number} chooses it", ""),
    ]
}

/// Lines of a heading and a text, wrapped between words; continuation lines are indented by four columns.
fn described(head: &str, text: &str) -> Vec<String> {
    let mut lines = vec![];
    let mut line = head.trim_end().to_string();
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(std::mem::replace(&mut line, "   ".into()));
        }
        line += " ";
        line += word;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_fits_the_terminal() {
        for sought in Sought::ALL.into_iter().filter(|&sought| sought != Sought::Driver) {
            let advice = "there is no libnvrtc.so.13: `pip install nvidia-cuda-nvrtc`, or install the CUDA toolkit, or name the file in THALWEG_NVRTC";
            let found = LibrarySearch { sought, library: None, version: None, advice: Some(advice.into()) };
            let lines = library(&found);
            assert!(lines.iter().all(|l| l.len() <= WIDTH), "{lines:?}");
            assert!(lines.len() > 1 && lines[0].contains("missing") && lines[1].starts_with("    "), "{lines:?}");
        }
    }
}
