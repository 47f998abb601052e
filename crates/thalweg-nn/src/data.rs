//! Data: what is learned from, batch by batch.
//!
//! A [`Dataset`] makes a batch of samples by number. A [`DataLoader`] says which: shuffled by a seed, so that an epoch
//! is the same every time it is asked for, and made by threads ahead of the one that trains.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use thalweg::{Device, Element, Tensor, bf16, f16, set_default_device};

/// A sample that could not be had.
#[derive(Debug)]
pub struct SampleError {
    /// Its number.
    pub index: usize,
    /// Why.
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

/// Samples by number, as batches.
pub trait Dataset: Send + Sync + 'static {
    /// What a batch is.
    type Batch: Send + 'static;

    /// How many samples there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The batch of these samples.
    ///
    /// # Errors
    /// The first sample that cannot be had.
    fn batch(&self, indices: &[usize]) -> Result<Self::Batch, SampleError>;
}

/// A sample that becomes a batch with others of its kind: numbers and rows of numbers become tensors with the samples
/// in dimension 0, pairs become pairs.
pub trait Collate: Send + Sized + 'static {
    /// What they become.
    type Batch: Send + 'static;

    /// Puts samples together; on failure the place of the sample that does not fit, and why.
    ///
    /// # Errors
    /// A sample that does not fit the first one, or the device's.
    fn collate(samples: Vec<Self>) -> Result<Self::Batch, (usize, Box<dyn StdError + Send + Sync>)>;
}

/// Rows of numbers as one tensor: copied once on the host, on a GPU to where the chip fetches them by itself.
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

/// Samples that a function makes; see [`samples`].
pub struct Samples<F> {
    len: usize,
    f: F,
}

/// So many samples, each made by a function of its number: read from a file, drawn, computed.
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

/// Tensors that hold all samples, one a row; a batch is the rows of each. What takes the rows is recorded with what is
/// computed of them, so it is best made by the thread that trains.
pub struct Rows<const N: usize>([Tensor; N]);

impl<const N: usize> Rows<N> {
    /// Tensors with as many rows each.
    ///
    /// # Panics
    /// When they have not.
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

/// Batches of a dataset, epoch by epoch.
pub struct DataLoader<D> {
    dataset: Arc<D>,
    size: usize,
    seed: Option<u64>,
    whole: bool,
    threads: usize,
    ahead: usize,
}

impl<D: Dataset> DataLoader<D> {
    /// Batches of so many samples, in order, made when they are asked for; the last one has what is left.
    ///
    /// # Panics
    /// When the size is 0.
    #[track_caller]
    pub fn new(dataset: D, size: usize) -> DataLoader<D> {
        assert!(size > 0, "DataLoader: batches of 0 samples");
        DataLoader { dataset: Arc::new(dataset), size, seed: None, whole: false, threads: 0, ahead: 2 }
    }

    /// In an order of the seed and the number of the epoch.
    #[must_use]
    pub fn shuffled(self, seed: u64) -> DataLoader<D> {
        DataLoader { seed: Some(seed), ..self }
    }

    /// Without a last batch that is not full.
    #[must_use]
    pub fn drop_last(self) -> DataLoader<D> {
        DataLoader { whole: true, ..self }
    }

    /// Made by so many threads, ahead of who asks: two batches a thread unless [`ahead`](DataLoader::ahead) says
    /// otherwise. They come in the same order. On a GPU they are copied from page-locked memory while it computes.
    #[must_use]
    pub fn threads(self, threads: usize) -> DataLoader<D> {
        DataLoader { threads, ahead: 2 * threads.max(1), ..self }
    }

    /// So many batches are made ahead, at most.
    #[must_use]
    pub fn ahead(self, batches: usize) -> DataLoader<D> {
        DataLoader { ahead: batches.max(1), ..self }
    }

    /// The dataset.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }

    /// How many batches an epoch has.
    pub fn batches(&self) -> usize {
        if self.whole { self.dataset.len() / self.size } else { self.dataset.len().div_ceil(self.size) }
    }

    /// The batches of an epoch.
    pub fn epoch(&self, epoch: u64) -> Epoch<D> {
        self.epoch_from(epoch, 0)
    }

    /// The batches of an epoch from one on, to go on where another process ended: those before are not made.
    pub fn epoch_from(&self, epoch: u64, batch: usize) -> Epoch<D> {
        let mut order: Vec<usize> = (0..self.dataset.len()).collect();
        if let Some(seed) = self.seed {
            shuffle(&mut order, mix(seed) ^ mix(!epoch));
        }
        let work = Work { dataset: self.dataset.clone(), order, size: self.size, batches: self.batches() };
        if self.threads == 0 {
            return Epoch { work: Arc::new(work), next: batch, crew: None };
        }
        let crew = Crew::start(&Arc::new(work), batch, self.threads, self.ahead);
        Epoch { work: crew.work.clone(), next: batch, crew: Some(crew) }
    }
}

/// Shuffles by Fisher and Yates (Durstenfeld 1964).
fn shuffle(order: &mut [usize], seed: u64) {
    let mut state = seed;
    for i in (1..order.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // Multiply and shift: off from uniform by less than the length in 2⁶⁴.
        let j = (mix(state) as u128 * (i as u128 + 1)) >> 64;
        order.swap(i, j as usize);
    }
}

/// The finishing steps of splitmix64 (Steele, Lea and Flood 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What the batches of an epoch are.
struct Work<D> {
    dataset: Arc<D>,
    order: Vec<usize>,
    size: usize,
    batches: usize,
}

impl<D: Dataset> Work<D> {
    fn batch(&self, number: usize) -> Result<D::Batch, SampleError> {
        let start = number * self.size;
        self.dataset.batch(&self.order[start..(start + self.size).min(self.order.len())])
    }
}

/// The batches of an epoch: an iterator. What fails is told in its place; the batches behind it still come.
pub struct Epoch<D: Dataset> {
    work: Arc<Work<D>>,
    next: usize,
    crew: Option<Crew<D>>,
}

impl<D: Dataset> Iterator for Epoch<D> {
    type Item = Result<D::Batch, SampleError>;

    /// # Panics
    /// With the panic of the dataset, if it panicked over this batch.
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

/// A batch that was made, or the panic that came instead.
type Made<B> = std::thread::Result<Result<B, SampleError>>;

/// What the threads of an epoch share.
struct Desk<B> {
    /// The next batch that somebody may make.
    next: usize,
    /// Batches below this may be made.
    limit: usize,
    made: BTreeMap<usize, Made<B>>,
    stopped: bool,
}

/// Threads that make batches.
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
        // What a worker makes is for the device of who asks.
        let device = Device::try_default().ok();
        let threads = (0..threads).map(|number| {
            let (work, desk) = (work.clone(), desk.clone());
            let body = move || {
                set_default_device(device);
                while let Some(number) = claim(&desk, work.batches) {
                    let made = std::panic::catch_unwind(AssertUnwindSafe(|| {
                        let batch = work.batch(number);
                        // What it recorded runs here, not where the batch is used, and on a GPU beside what runs there:
                        // nobody waits for that. What fails is told where it is read.
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
    fn take(&self, number: usize) -> Made<D::Batch> {
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

/// Waits for a batch to make; `None` at the end.
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
