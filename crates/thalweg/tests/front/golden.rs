//! Golden cases computed by NumPy; see golden.py.

use std::collections::BTreeMap;
use thalweg::{DType, Tensor};

/// Cases of one group, removed one by one as they are checked.
pub struct Golden(BTreeMap<&'static str, (Vec<usize>, Vec<f64>)>);

impl Golden {
    /// Parses the cases of a file, one per line.
    pub fn load(text: &'static str) -> Golden {
        let mut cases = BTreeMap::new();
        for line in text.lines() {
            let [name, dims, values] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let dims = dims.split(',').filter(|d| !d.is_empty()).map(|d| d.parse().unwrap()).collect();
            let values = values.split_whitespace().map(|v| v.parse().unwrap()).collect();
            cases.insert(name, (dims, values));
        }
        Golden(cases)
    }

    /// Compares a tensor with NumPy's result of that name.
    pub fn check(&mut self, name: &str, x: &Tensor) {
        let (dims, values) = self.0.remove(name).unwrap_or_else(|| panic!("no case {name}, or checked twice"));
        assert_eq!(x.dims(), dims, "{name}");
        assert_eq!(x.dtype(), DType::F64, "{name}");
        let got = x.to_vec::<f64>().unwrap_or_else(|e| panic!("{name}: {e}"));
        for (i, (g, w)) in got.iter().zip(&values).enumerate() {
            let close = (g - w).abs() <= 1e-12 * w.abs().max(1e-2) || g == w || (g.is_nan() && w.is_nan());
            assert!(close, "{name}[{i}]: {g} instead of {w}, in {got:?} instead of {values:?}");
        }
    }

    /// An argument of cases, as f64.
    #[allow(dead_code, reason = "not every test program takes arguments from the file")]
    pub fn take(&mut self, name: &str) -> Tensor {
        let (dims, values) = self.0.remove(name).unwrap_or_else(|| panic!("no argument {name}"));
        Tensor::from_slice(&values, dims)
    }

    /// Names of cases that were not checked.
    pub fn left(&self) -> Vec<&'static str> {
        self.0.keys().copied().collect()
    }
}
