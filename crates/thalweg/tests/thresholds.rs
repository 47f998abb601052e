//! Algorithms that small sizes use only with another size threshold. A process of its own, because thresholds are
//! process-wide.

use thalweg::prelude::*;
use thalweg::{CpuEngine, CpuOptions};

#[test]
fn a_scatter_whose_result_is_shared_by_more_threads_than_it_has_elements_puts_each_value_in_once() {
    thalweg_cpu::tunable::TUNABLES.max_cached_result.set(0);
    let device = Device::new_cpu(CpuOptions { threads: 8, parallel_ns: 0.0, isa: CpuEngine::Tile });
    for (size, n) in [(10, 40), (3, 50), (9, 17), (1, 30)] {
        let index: Vec<i64> = (0..n).map(|i| (i * 7 + i / 3) % size).collect();
        let mut want = vec![0.5f32; size as usize];
        index.iter().enumerate().for_each(|(i, &at)| want[at as usize] += i as f32);
        let to = Tensor::full_with([size as usize], 0.5, (DType::F32, device));
        let index = Tensor::from_slice(&index, [n as usize]).to_device(device).unwrap();
        let values = Tensor::arange_with(n as usize, (DType::F32, device));
        let got = to.scatter_add(0, &index, &values).to_vec::<f32>().unwrap();
        assert_eq!(got, want, "{n} values in {size} places");
    }
}
