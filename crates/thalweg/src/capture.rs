//! Captures: operations that are recorded once, and submitted with other tensors any number of times.

use crate::{Device, Generator, Tensor, random_state, set_random_state};
use thalweg_stream as stream;

/// Capture in progress of what the calling thread records on a device, from [`Capture::begin`].
#[derive(Debug)]
pub struct Capture {
    begin: stream::CaptureBegin,
    random: Generator,
}

/// Operations that were captured, to be submitted with other tensors at a cost that does not grow with their number, as
/// a CUDA graph is launched. From [`Capture::end`].
///
/// ```
/// # use thalweg::{Capture, Tensor, synchronize};
/// let f = |x: &Tensor, w: &Tensor| (x.matmul(w) + 1.0).tanh();
/// let (x, w) = (Tensor::ones([2, 3]), Tensor::ones([3, 4]));
/// synchronize()?;
/// let capture = Capture::begin(x.device()).expect("nothing waits");
/// let y = f(&x, &w);
/// let captured = capture.end(&[&x, &w], &[&y]).expect("`f` reads no data");
/// let (x, w) = (Tensor::zeros([2, 3]), Tensor::zeros([3, 4]));
/// synchronize()?;
/// let y = captured.submit(&[&x, &w]).expect("dtypes and layouts are equal");
/// assert_eq!(y[0].to_vec::<f32>()?, f(&x, &w).to_vec::<f32>()?);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Debug)]
pub struct CapturedSegment {
    segment: stream::CapturedSegment,
    /// Number of the draw of each key of random numbers.
    keys: Vec<u64>,
    /// Number of draws.
    draws: u64,
}

impl Capture {
    /// Begins a capture of what the calling thread records on a device. `None` while operations wait there
    /// ([`flush`](crate::flush()) runs them).
    pub fn begin(device: Device) -> Option<Capture> {
        Some(Capture { begin: stream::begin_capture(device.0)?, random: random_state() })
    }

    /// Ends the capture of a function of `operands`, which are computed, with these results. Nothing else may determine
    /// which operations the function records; other computed tensors that it reads are constants. The operations stay
    /// recorded, as without a capture.
    ///
    /// `None` if they cannot be submitted as a whole: the function looked at the data of a tensor, recorded enough to
    /// start a run in between, drew random numbers that are not on the device, or tracks gradients.
    pub fn end(self, operands: &[&Tensor], results: &[&Tensor]) -> Option<CapturedSegment> {
        if operands.iter().chain(results).any(|t| t.is_tracked()) {
            return None;
        }
        let draws = random_state().draws_since(self.random)?;
        let values = |all: &[&Tensor]| all.iter().map(|t| t.value.clone()).collect::<Vec<_>>();
        let (operands, results) = (values(operands), values(results));
        let (operands, results): (Vec<_>, Vec<_>) = (operands.iter().collect(), results.iter().collect());
        let segment = stream::end_capture(&self.begin, &operands, &results)?;
        // Keys follow from the state of the generator and the number of the draw.
        let drawn: Vec<u64> = self.random.keys_after(0..draws).collect();
        let keys = segment.keys().map(|key| drawn.iter().position(|k| *k == key).map(|n| n as u64));
        let keys = keys.collect::<Option<Vec<u64>>>()?;
        (keys.len() as u64 == draws).then_some(CapturedSegment { segment, keys, draws })
    }
}

impl CapturedSegment {
    /// Number of operations.
    pub fn operations(&self) -> usize {
        self.segment.operations()
    }

    /// Whether a result is stored in memory of a constant that the captured function read, so that nobody may write it.
    pub fn holds(&self, result: &Tensor) -> bool {
        self.segment.holds(&result.value)
    }

    /// Runs the operations on other operands and returns the results, computed, or failed as their reads say. Random
    /// numbers are new, from the thread's generator, as if the operations were recorded. Operands are not overwritten,
    /// even if they are dropped.
    ///
    /// `None`, with nothing run, if an operand is not computed or has another dtype or layout than the captured one, if
    /// the thread's mode is another one, or while operations wait in its stream: record them one by one then.
    ///
    /// # Panics
    /// When an operand is tracked.
    #[track_caller]
    pub fn submit(&self, operands: &[&Tensor]) -> Option<Vec<Tensor>> {
        assert!(!operands.iter().any(|t| t.is_tracked()), "submit: an operand is tracked; .detach() it");
        let values: Vec<_> = operands.iter().map(|t| &t.value).collect();
        if self.draws == 0 {
            let results = stream::submit(&self.segment, &values, std::iter::empty())?;
            return Some(results.into_iter().map(Tensor::of).collect());
        }
        let random = random_state();
        let keys = random.keys_after(self.keys.iter().copied());
        let results = stream::submit(&self.segment, &values, keys)?;
        set_random_state(random.advanced(self.draws));
        Some(results.into_iter().map(Tensor::of).collect())
    }
}
