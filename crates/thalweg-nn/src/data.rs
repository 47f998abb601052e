//! Data loading: datasets, batches and worker threads.
//!
//! A [`Dataset`] makes a batch from sample indices. A [`DataLoader`] chooses the indices: shuffled by a seed, so that
//! an epoch has the same order each time, and made by worker threads ahead of the training thread.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use thalweg::{Device, Element, Tensor, bf16, f16, set_default_device};

/// Error of a sample that the dataset could not make.
#[derive(Debug)]
pub struct SampleError {
    /// Index of the sample.
    pub index: usize,
    /// Cause of the error.
    pub source: Box<dyn StdError + Send + Sync>,
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sample {}: {}", self.index, self.source)
    }
}

impl StdError for SampleError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}

/// Samples by index, returned as batches; a map-style `torch.utils.data.Dataset`.
pub trait Dataset: Send + Sync + 'static {
    /// Type of a batch, for example a tuple of tensors.
    type Batch: Send + 'static;

    /// Number of samples.
    fn len(&self) -> usize;

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Batch of these samples.
    ///
    /// # Errors
    /// The error of the first sample that cannot be made.
    fn batch(&self, indices: &[usize]) -> Result<Self::Batch, SampleError>;
}

/// Samples that can be collated into a batch, as `torch.utils.data.default_collate`: numbers, vectors of numbers and
/// tensors become tensors whose dimension 0 counts samples; tuples become tuples.
pub trait Collate: Send + Sized + 'static {
    /// Type of the batch.
    type Batch: Send + 'static;

    /// Collates samples. An error carries the position of the offending sample and the cause.
    ///
    /// # Errors
    /// If a sample does not match the shape or dtype of the first one, or the device fails.
    fn collate(samples: Vec<Self>) -> Result<Self::Batch, (usize, Box<dyn StdError + Send + Sync>)>;
}

/// Rows of numbers as one tensor. They are copied once on the host; for a GPU into page-locked memory, from which it
/// reads by DMA.
fn tensor<T: Element>(rows: &[&[T]], sizes: &[usize]) -> Result<Tensor, (usize, Box<dyn StdError + Send + Sync>)> {
    let device = Device::try_default().map_err(|e| (0, e.into()))?;
    Tensor::try_from_slices(rows, sizes.to_vec(), device).map_err(|e| (0, e.into()))
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl Collate for $t {
            type Batch = Tensor;
            fn collate(samples: Vec<$t>) -> Result<Tensor, (usize, Box<dyn StdError + Send + Sync>)> {
                tensor(&[&samples], &[samples.len()])
            }
        }
        impl Collate for Vec<$t> {
            type Batch = Tensor;
            fn collate(samples: Vec<Vec<$t>>) -> Result<Tensor, (usize, Box<dyn StdError + Send + Sync>)> {
                let length = samples.first().map_or(0, Vec::len);
                if let Some(at) = samples.iter().position(|s| s.len() != length) {
                    let message = format!("has {} numbers, the first of its batch {length}", samples[at].len());
                    return Err((at, message.into()));
                }
                let rows: Vec<&[$t]> = samples.iter().map(Vec::as_slice).collect();
                tensor(&rows, &[samples.len(), length])
            }
        }
    )*};
}
numbers!(f32, f64, bf16, f16, i8, i16, i32, i64, u8, u16, u32, u64, bool);

impl Collate for Tensor {
    type Batch = Tensor;
    fn collate(samples: Vec<Tensor>) -> Result<Tensor, (usize, Box<dyn StdError + Send + Sync>)> {
        let kind = |t: &Tensor| (*t.shape(), t.dtype());
        if let Some(at) = samples.iter().position(|t| kind(t) != kind(&samples[0])) {
            let ((shape, dtype), (first, of)) = (kind(&samples[at]), kind(&samples[0]));
            return Err((at, format!("is {dtype} {shape}, the first of its batch {of} {first}").into()));
        }
        Ok(Tensor::stack(&samples, 0))
    }
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),+)),*) => {$(
        impl<$($name: Collate),+> Collate for ($($name,)+) {
            type Batch = ($($name::Batch,)+);
            #[allow(non_snake_case, reason = "each list has the name of its type")]
            fn collate(samples: Vec<Self>) -> Result<Self::Batch, (usize, Box<dyn StdError + Send + Sync>)> {
                let count = samples.len();
                $(let mut $name = Vec::with_capacity(count);)+
                for sample in samples {
                    $($name.push(sample.$at);)+
                }
                Ok(($($name::collate($name)?,)+))
            }
        }
    )*};
}
tuples!((A 0, B 1), (A 0, B 1, C 2), (A 0, B 1, C 2, D 3));

/// Dataset that makes its samples by a function; see [`samples`].
pub struct Samples<F> {
    len: usize,
    f: F,
}

/// Dataset of `len` samples, each made by a function of its index: read from a file, drawn, computed.
///
/// ```
/// use thalweg_nn::data::{DataLoader, samples};
/// let squares = samples(10, |i| Ok::<_, std::io::Error>((vec![i as f32, 1.0], i as i64 * i as i64)));
/// let loader = DataLoader::new(squares, 4).shuffled(7);
/// for batch in loader.epoch(0) {
///     let (x, y) = batch?;
///     assert_eq!(x.dims()[0], y.dims()[0]);
/// }
/// # Ok::<(), thalweg_nn::data::SampleError>(())
/// ```
pub fn samples<S, E, F>(len: usize, f: F) -> Samples<F>
where
    S: Collate,
    E: Into<Box<dyn StdError + Send + Sync>>,
    F: Fn(usize) -> Result<S, E> + Send + Sync + 'static,
{
    Samples { len, f }
}

impl<S, E, F> Dataset for Samples<F>
where
    S: Collate,
    E: Into<Box<dyn StdError + Send + Sync>>,
    F: Fn(usize) -> Result<S, E> + Send + Sync + 'static,
{
    type Batch = S::Batch;

    fn len(&self) -> usize {
        self.len
    }

    fn batch(&self, indices: &[usize]) -> Result<S::Batch, SampleError> {
        let sample = |&index: &usize| (self.f)(index).map_err(|e| SampleError { index, source: e.into() });
        let samples = indices.iter().map(sample).collect::<Result<Vec<S>, _>>()?;
        S::collate(samples).map_err(|(at, source)| SampleError { index: indices[at], source })
    }
}

/// Dataset of tensors with one sample per row, as `torch.utils.data.TensorDataset`; a batch selects rows of each
/// tensor. The selection is recorded and fuses with the operations on the batch, so such batches are best made by the
/// training thread (no worker threads).
pub struct Rows<const N: usize>([Tensor; N]);

impl<const N: usize> Rows<N> {
    /// Makes a dataset of tensors with equal numbers of rows.
    ///
    /// # Panics
    /// If the numbers of rows differ, or a tensor has rank 0.
    #[track_caller]
    pub fn new(tensors: [Tensor; N]) -> Rows<N> {
        let rows = |t: &Tensor| t.dims().first().copied();
        if let Some(other) = tensors.iter().find(|t| rows(t).is_none() || rows(t) != rows(&tensors[0])) {
            panic!("Rows: shapes {} and {} have not as many rows", tensors[0].shape(), other.shape());
        }
        Rows(tensors)
    }
}

impl<const N: usize> Dataset for Rows<N> {
    type Batch = [Tensor; N];

    fn len(&self) -> usize {
        self.0.first().map_or(0, |t| t.dims()[0])
    }

    fn batch(&self, indices: &[usize]) -> Result<[Tensor; N], SampleError> {
        let Some(first) = self.0.first() else { return Ok(std::array::from_fn(|_| unreachable!("no tensors"))) };
        let numbers: Vec<i64> = indices.iter().map(|&i| i as i64).collect();
        let index = Tensor::try_from_slice(&numbers, [numbers.len()], first.device());
        let index =
            index.map_err(|e| SampleError { index: indices.first().copied().unwrap_or(0), source: e.into() })?;
        Ok(std::array::from_fn(|i| self.0[i].index_select(0, &index)))
    }
}

/// Iterates over the batches of a dataset, epoch by epoch, as `torch.utils.data.DataLoader`.
pub struct DataLoader<D> {
    dataset: Arc<D>,
    size: usize,
    seed: Option<u64>,
    whole: bool,
    /// Number of parts that batches are divided into, and the part that this loader makes.
    split: (usize, usize),
    threads: usize,
    ahead: usize,
}

impl<D: Dataset> DataLoader<D> {
    /// Makes a loader of batches of `size` samples in order, which are made when they are requested; the last batch
    /// holds the rest.
    ///
    /// # Panics
    /// If the size is 0.
    #[track_caller]
    pub fn new(dataset: D, size: usize) -> DataLoader<D> {
        assert!(size > 0, "DataLoader: batches of 0 samples");
        let dataset = Arc::new(dataset);
        DataLoader { dataset, size, seed: None, whole: false, split: (1, 0), threads: 0, ahead: 2 }
    }

    /// Shuffles the samples, in an order that depends on the seed and the number of the epoch alone.
    #[must_use]
    pub fn shuffled(self, seed: u64) -> DataLoader<D> {
        DataLoader { seed: Some(seed), ..self }
    }

    /// Leaves out an incomplete last batch.
    #[must_use]
    pub fn drop_last(self) -> DataLoader<D> {
        DataLoader { whole: true, ..self }
    }

    /// Makes part `part` of each batch only, of `parts` parts: for training by several processes, which together see the
    /// batches that one would, if they shuffle by the same seed. Parts differ by at most one sample, the first ones are
    /// the larger; those of a last batch may have no sample.
    ///
    /// ```
    /// use thalweg_nn::data::{DataLoader, samples};
    /// let loader = |part| DataLoader::new(samples(5, |i| Ok::<_, std::io::Error>(i as i32)), 4).split(2, part);
    /// let parts = [0, 1].map(|part| loader(part).epoch(0).map(|batch| batch.unwrap().dims()[0]).collect::<Vec<_>>());
    /// assert_eq!(parts, [[2, 1], [2, 0]]);
    /// ```
    ///
    /// # Panics
    /// If there is no such part.
    #[must_use]
    #[track_caller]
    pub fn split(self, parts: usize, part: usize) -> DataLoader<D> {
        assert!(part < parts, "DataLoader: part {part} of {parts}");
        DataLoader { split: (parts, part), ..self }
    }

    /// Makes batches on `threads` worker threads, ahead of the consumer: two batches per thread unless
    /// [`ahead`](DataLoader::ahead) is set afterwards. The order of batches does not change. On a GPU they are copied
    /// from page-locked memory while it computes.
    #[must_use]
    pub fn threads(self, threads: usize) -> DataLoader<D> {
        DataLoader { threads, ahead: 2 * threads.max(1), ..self }
    }

    /// Sets the maximum number of batches made ahead by worker threads.
    #[must_use]
    pub fn ahead(self, batches: usize) -> DataLoader<D> {
        DataLoader { ahead: batches.max(1), ..self }
    }

    /// Dataset of the loader.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }

    /// Number of batches in an epoch.
    pub fn batches(&self) -> usize {
        if self.whole { self.dataset.len() / self.size } else { self.dataset.len().div_ceil(self.size) }
    }

    /// Iterates over the batches of an epoch.
    pub fn epoch(&self, epoch: u64) -> Epoch<D> {
        self.epoch_from(epoch, 0)
    }

    /// Iterates over the batches of an epoch from batch `batch` on, to resume where another process stopped; earlier
    /// batches are not made.
    pub fn epoch_from(&self, epoch: u64, batch: usize) -> Epoch<D> {
        let mut order: Vec<usize> = (0..self.dataset.len()).collect();
        if let Some(seed) = self.seed {
            shuffle(&mut order, mix(seed) ^ mix(!epoch));
        }
        let (dataset, batches) = (self.dataset.clone(), self.batches());
        let work = Work { dataset, order, size: self.size, split: self.split, batches };
        if self.threads == 0 {
            return Epoch { work: Arc::new(work), next: batch, crew: None };
        }
        let crew = Crew::start(&Arc::new(work), batch, self.threads, self.ahead);
        Epoch { work: crew.work.clone(), next: batch, crew: Some(crew) }
    }
}

/// Shuffles the indices by a seed (Fisher–Yates; Durstenfeld 1964).
fn shuffle(order: &mut [usize], seed: u64) {
    let mut state = seed;
    for i in (1..order.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // Multiply and shift: the bias from uniform is less than the length divided by 2⁶⁴.
        let j = (mix(state) as u128 * (i as u128 + 1)) >> 64;
        order.swap(i, j as usize);
    }
}

/// Finalizer of splitmix64 (Steele, Lea and Flood 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Sample order and batch size of an epoch, with its dataset.
struct Work<D> {
    dataset: Arc<D>,
    order: Vec<usize>,
    size: usize,
    split: (usize, usize),
    batches: usize,
}

impl<D: Dataset> Work<D> {
    fn batch(&self, number: usize) -> Result<D::Batch, SampleError> {
        let start = number * self.size;
        let batch = &self.order[start..(start + self.size).min(self.order.len())];
        let (parts, part) = self.split;
        let start = |part: usize| part * (batch.len() / parts) + part.min(batch.len() % parts);
        self.dataset.batch(&batch[start(part)..start(part + 1)])
    }
}

/// Iterator over the batches of an epoch. A batch that fails yields its error, and iteration continues.
pub struct Epoch<D: Dataset> {
    work: Arc<Work<D>>,
    next: usize,
    crew: Option<Crew<D>>,
}

impl<D: Dataset> Iterator for Epoch<D> {
    type Item = Result<D::Batch, SampleError>;

    /// Returns the next batch of the epoch, waiting for it if worker threads make it; `None` after the last one.
    ///
    /// # Panics
    /// Repeats the panic of the dataset, if it panicked while making this batch.
    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.work.batches {
            return None;
        }
        let number = self.next;
        self.next += 1;
        match &self.crew {
            None => Some(self.work.batch(number)),
            Some(crew) => Some(crew.take(number).unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.work.batches.saturating_sub(self.next);
        (left, Some(left))
    }
}

impl<D: Dataset> ExactSizeIterator for Epoch<D> {}

/// A finished batch, or the panic that occurred instead.
type BatchResult<B> = std::thread::Result<Result<B, SampleError>>;

/// Queue shared by the worker threads of an epoch and its consumer.
struct Desk<B> {
    /// Number of the next batch that no worker has claimed.
    next: usize,
    /// Number below which workers may make batches.
    limit: usize,
    made: BTreeMap<usize, BatchResult<B>>,
    stopped: bool,
}

/// Worker threads of an epoch, with the queue that they share.
struct Crew<D: Dataset> {
    work: Arc<Work<D>>,
    desk: Arc<(Mutex<Desk<D::Batch>>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
    ahead: usize,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Dataset> Crew<D> {
    fn start(work: &Arc<Work<D>>, first: usize, threads: usize, ahead: usize) -> Crew<D> {
        let desk = Desk { next: first, limit: first + ahead, made: BTreeMap::new(), stopped: false };
        let desk = Arc::new((Mutex::new(desk), Condvar::new()));
        // Workers make batches for the device of the consumer.
        let device = Device::try_default().ok();
        let threads = (0..threads).map(|number| {
            let (work, desk) = (work.clone(), desk.clone());
            let body = move || {
                set_default_device(device);
                while let Some(number) = claim(&desk, work.batches) {
                    let made = std::panic::catch_unwind(AssertUnwindSafe(|| {
                        let batch = work.batch(number);
                        // Run the recorded operations here, not where the batch is used; on a GPU they overlap with
                        // other work and nothing waits for them. An error is reported where the batch is read.
                        thalweg::flush();
                        batch
                    }));
                    locked(&desk.0).made.insert(number, made);
                    desk.1.notify_all();
                }
            };
            let named = std::thread::Builder::new().name(format!("thalweg-data-{number}"));
            named.spawn(body).expect("the system has a thread more")
        });
        let threads = threads.collect();
        Crew { work: work.clone(), desk, threads, ahead }
    }

    /// Waits for a batch.
    fn take(&self, number: usize) -> BatchResult<D::Batch> {
        let mut desk = locked(&self.desk.0);
        desk.limit = number + 1 + self.ahead;
        self.desk.1.notify_all();
        loop {
            if let Some(made) = desk.made.remove(&number) {
                return made;
            }
            desk = self.desk.1.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Waits until a batch may be made and claims it; `None` at the end.
fn claim<B>(desk: &(Mutex<Desk<B>>, Condvar), batches: usize) -> Option<usize> {
    let mut state = locked(&desk.0);
    loop {
        if state.stopped || state.next >= batches {
            return None;
        }
        if state.next < state.limit {
            state.next += 1;
            return Some(state.next - 1);
        }
        state = desk.1.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

impl<D: Dataset> Drop for Crew<D> {
    fn drop(&mut self) {
        locked(&self.desk.0).stopped = true;
        self.desk.1.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
