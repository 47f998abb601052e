//! Whether a workload computes here what it computes in Thalweg: from inputs and results that `thalweg results` wrote.

use crate::workloads::Workload;
use burn_tensor::Device;
use std::path::Path;

/// The largest difference by the largest value, of all results of a workload.
pub fn difference(folder: &Path, name: &str, large: bool, device: &Device) -> Result<f64, String> {
    let inputs = arrays(folder, name, "input")?;
    let inputs =
        inputs.into_iter().map(|(shape, values)| (shape, values.iter().map(|v| *v as f32).collect())).collect();
    let out = Workload::new(name, large, device, inputs)?.record();
    let expected = arrays(folder, name, "output")?;
    if out.len() != expected.len() || out.is_empty() {
        return Err(format!("{} results in place of {}", out.len(), expected.len()));
    }
    let mut worst = 0f64;
    for (own, (_, theirs)) in out.into_iter().zip(expected) {
        let own = own.values()?;
        if own.len() != theirs.len() {
            return Err(format!("{} values in place of {}", own.len(), theirs.len()));
        }
        let largest = theirs.iter().fold(0f64, |all, v| all.max(v.abs()));
        for (a, b) in own.iter().zip(&theirs) {
            let apart = (a - b).abs() / largest;
            // What is no number on one side alone is as far off as can be.
            worst = if apart.is_nan() { f64::INFINITY } else { worst.max(apart) };
        }
    }
    Ok(worst)
}

/// What a difference may be: a dozen roundings of the dtype. Products of f32 may go through TF32 on a GPU, which shows.
pub fn allowed(name: &str) -> f64 {
    match name {
        name if name.ends_with("_bf16") => 2e-2,
        name if name.ends_with("_f64") => 1e-10,
        name if name.starts_with("mat") || name == "attention" => 5e-3,
        _ => 2e-5,
    }
}

/// The files NAME.KIND0.npy, NAME.KIND1.npy, …
fn arrays(folder: &Path, name: &str, kind: &str) -> Result<Vec<(Vec<usize>, Vec<f64>)>, String> {
    let files = (0..).map(|n| folder.join(format!("{name}.{kind}{n}.npy"))).take_while(|path| path.exists());
    files.map(|path| npy(&path).map_err(|why| format!("{}: {why}", path.display()))).collect()
}

/// A .npy file of f32 or f64, in C order.
fn npy(path: &Path) -> Result<(Vec<usize>, Vec<f64>), String> {
    let bytes = std::fs::read(path).map_err(|why| why.to_string())?;
    let length = bytes.get(8..10).ok_or("too short")?;
    let begin = 10 + usize::from(u16::from_le_bytes([length[0], length[1]]));
    let header = String::from_utf8_lossy(bytes.get(10..begin).ok_or("too short")?).into_owned();
    let (_, rest) = header.split_once("'shape': (").ok_or("no shape")?;
    let (shape, _) = rest.split_once(')').ok_or("no shape")?;
    let shape =
        shape.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::parse).collect::<Result<Vec<usize>, _>>();
    let data = &bytes[begin..];
    let values = if header.contains("'<f4'") {
        data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]).into()).collect()
    } else if header.contains("'<f8'") {
        data.chunks_exact(8).map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])).collect()
    } else {
        return Err(format!("neither f32 nor f64: {header}"));
    };
    Ok((shape.map_err(|why| why.to_string())?, values))
}
