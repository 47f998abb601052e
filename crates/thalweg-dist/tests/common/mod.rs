//! Worlds of each engine, and plain arrays to compare with.
#![allow(dead_code, reason = "each test file uses a part")]

use std::net::TcpListener;
use std::time::Duration;
use thalweg::{DType, Device, Error, Tensor, bf16, f16, set_default_device};
use thalweg_dist::{ReduceOp, World, WorldOptions};

/// Carrier of messages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Engine {
    Threads,
    Tcp,
}

pub const ENGINES: [Engine; 2] = [Engine::Threads, Engine::Tcp];

/// Timeout of tests in which nothing is missing: the failure of a test, not its result.
pub const LONG: Duration = Duration::from_secs(120);

/// Devices of the ranks: the default one, which `THALWEG_DEVICE` names; four emulated GPUs for `cuda:emulated`.
pub fn devices() -> Vec<Device> {
    let first = Device::default();
    let further = (1..4).filter_map(|n| Device::from_name(&format!("cuda:emulated:{n}")).ok());
    let further = further.filter(|_| first.name() == "cuda:emulated");
    std::iter::once(first).chain(further).collect()
}

/// Options of tests in which nothing is missing.
pub fn options() -> WorldOptions {
    WorldOptions::default().timeout(LONG).devices(devices())
}

/// Runs a function as each rank, as `World::local` does, over an engine, on [`devices`].
pub fn run<R: Send>(
    engine: Engine,
    size: usize,
    f: impl Fn(World) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let options = options();
    match engine {
        Engine::Threads => options.local(size, f),
        Engine::Tcp => tcp(&options, size, |world| f(world?)).into_iter().collect(),
    }
}

/// Runs a function as each rank of a world of threads that are connected as processes are.
pub fn tcp<R: Send>(
    options: &WorldOptions,
    size: usize,
    f: impl Fn(Result<World, Error>) -> Result<R, Error> + Sync,
) -> Vec<Result<R, Error>> {
    tcp_on(&devices(), options, size, f)
}

/// As [`tcp`], on these devices.
pub fn tcp_on<R: Send>(
    devices: &[Device],
    options: &WorldOptions,
    size: usize,
    f: impl Fn(Result<World, Error>) -> Result<R, Error> + Sync,
) -> Vec<Result<R, Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (f, listener, address) = (&f, &listener, &address);
    std::thread::scope(|scope| {
        let body = |rank: usize| {
            move || {
                let device = devices[rank % devices.len()];
                let options = options.clone().devices([device]);
                set_default_device(Some(device));
                f(if rank == 0 { options.host(listener, size) } else { options.join(address, rank, size) })
            }
        };
        let threads: Vec<_> = (0..size).map(|rank| scope.spawn(body(rank))).collect();
        let join = |(rank, thread): (usize, std::thread::ScopedJoinHandle<'_, _>)| {
            thread.join().unwrap_or_else(|_| Err(Error::Value(format!("rank {rank} panicked"))))
        };
        threads.into_iter().enumerate().map(join).collect()
    })
}

/// Dense row-major array.
#[derive(Clone, PartialEq, Debug)]
pub struct Plain {
    pub dims: Vec<usize>,
    pub elements: Vec<f64>,
}

impl Plain {
    /// Small integers that every dtype holds, and of which sums and products of five are exact.
    pub fn random(dims: &[usize], dtype: DType, seed: u64) -> Plain {
        let low =
            if dtype.is_float() || matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64) { -2 } else { 0 };
        let high = if dtype == DType::Bool { 1 } else { 2 };
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (low + ((state >> 33) % (high - low + 1) as u64) as i64) as f64
        };
        Plain { dims: dims.to_vec(), elements: (0..dims.iter().product()).map(|_| next()).collect() }
    }

    pub fn of(t: &Tensor) -> Result<Plain, Error> {
        Ok(Plain { dims: t.dims().to_vec(), elements: t.to_f64_vec()? })
    }

    pub fn tensor(&self, dtype: DType) -> Tensor {
        Tensor::new(self.elements.clone()).reshape(&self.dims).cast(dtype)
    }

    /// The array as a tensor: the result of operations, as a view, or in memory of its own.
    pub fn laid_out(&self, dtype: DType, layout: usize) -> Tensor {
        let dense = self.tensor(dtype);
        if self.dims.is_empty() {
            return dense;
        }
        match layout {
            0 => dense,
            1 => Tensor::cat(&[&dense, &dense], 0).narrow(0, 0, self.dims[0]),
            2 => dense.flip(0).deep_copy().unwrap().flip(0),
            _ => {
                let order: Vec<usize> = (0..self.dims.len()).rev().collect();
                dense.permute(&order).deep_copy().unwrap().permute(&order)
            }
        }
    }

    fn sizes(&self, axis: usize) -> [usize; 3] {
        let of = |dims: &[usize]| dims.iter().product();
        [of(&self.dims[..axis]), self.dims[axis], of(&self.dims[axis + 1..])]
    }

    /// Entries `start..end` along an axis.
    pub fn narrow(&self, axis: usize, start: usize, end: usize) -> Plain {
        let [before, own, after] = self.sizes(axis);
        let mut dims = self.dims.clone();
        dims[axis] = end - start;
        let row = |b: usize| &self.elements[(b * own + start) * after..(b * own + end) * after];
        Plain { dims, elements: (0..before).flat_map(|b| row(b).to_vec()).collect() }
    }

    pub fn cat(all: &[Plain], axis: usize) -> Plain {
        let before = all[0].sizes(axis)[0];
        let mut dims = all[0].dims.clone();
        dims[axis] = all.iter().map(|x| x.dims[axis]).sum();
        let mut elements = vec![];
        for b in 0..before {
            for x in all {
                let [_, own, after] = x.sizes(axis);
                elements.extend(&x.elements[b * own * after..(b + 1) * own * after]);
            }
        }
        Plain { dims, elements }
    }

    pub fn reduced(all: &[Plain], op: ReduceOp, dtype: DType) -> Plain {
        let of = |at: usize| {
            let elements = all.iter().map(|x| x.elements[at]);
            match op {
                ReduceOp::Sum => elements.sum(),
                ReduceOp::Mean => rounded(elements.sum::<f64>(), all.len(), dtype),
                ReduceOp::Max => elements.fold(f64::NEG_INFINITY, f64::max),
                ReduceOp::Min => elements.fold(f64::INFINITY, f64::min),
                ReduceOp::Product => elements.product(),
            }
        };
        Plain { dims: all[0].dims.clone(), elements: (0..all[0].elements.len()).map(of).collect() }
    }
}

/// An exact sum divided by a count, as the dtype rounds it.
fn rounded(sum: f64, count: usize, dtype: DType) -> f64 {
    let narrow = sum as f32 / count as f32;
    match dtype {
        DType::F32 => narrow as f64,
        DType::BF16 => bf16::from_f32(narrow).to_f64(),
        DType::F16 => f16::from_f32(narrow).to_f64(),
        _ => sum / count as f64,
    }
}
