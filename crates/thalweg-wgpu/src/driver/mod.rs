//! Driver of an adapter: memory, shaders, and submissions to its one queue.
//!
//! In: WGSL and argument words. Out: work in the queue. Launches and copies are recorded in a command encoder, which is
//! submitted before the host writes or reads memory, at events, and after [`MAX_RECORDED`] launches.
//!
//! * `heap`: memory. `shader`: pipelines. `event`: events. `queue`: the recorded work. `subgroups`:
//!   the size of subgroups.
//!
//! Always true: work runs in the order of the calls. A failure of the device is reported by the next call that returns
//! a [`Result`], and by every one after it.

mod event;
mod heap;
mod queue;
mod shader;
mod subgroups;

pub use shader::{MEMORY, REFUSED, VECTORS};

use crate::adapters::{self, ready};
use event::SubmissionEvent;
use heap::Heap;
use queue::Recorded;
use rustc_hash::FxHashMap;
use shader::{Shader, Shaders};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;
use thalweg_gpu::Chip;
use thalweg_gpu::runtime::{Driver, Event, Function, FunctionInfo, Graph, Launch};
use thalweg_runtime::Error;
use wgpu::{Adapter, BindGroupLayout, DeviceDescriptor, DeviceType, PollError, PollType, SubmissionIndex};

/// Maximum number of launches that are recorded before they are submitted.
const MAX_RECORDED: usize = 64;

/// An adapter that is opened, with its queue.
#[derive(Clone, Debug)]
pub struct WgpuDriver(Arc<WgpuState>);

/// State of an opened adapter.
#[derive(Debug)]
pub struct WgpuState {
    /// Name of the device: "wgpu:0".
    pub name: String,
    chip: Chip,
    version: String,
    /// Handle of the opened adapter.
    pub device: wgpu::Device,
    recorded: Mutex<Recorded>,
    shaders: RwLock<Shaders>,
    /// Shaders that are compiled but not loaded yet, by source.
    compiled: Mutex<FxHashMap<String, Arc<Shader>>>,
    next: AtomicUsize,
    layouts: Mutex<FxHashMap<usize, BindGroupLayout>>,
    /// Maximum number of chunks that a launch binds.
    max_bindings: usize,
    /// Threads of a subgroup; 1 where subgroups are not used.
    subgroup: u32,
    /// Whether arguments are in a storage buffer, and not in a uniform one: lavapipe compiles a kernel again for each
    /// value of a uniform that a branch or loop depends on.
    pub arguments_in_storage: bool,
    /// First failure of the device.
    failure: Arc<Mutex<Option<String>>>,
    opened: Instant,
}

impl WgpuState {
    /// Layout of the bindings of a launch with this many chunks.
    ///
    /// # Errors
    /// When the adapter allows fewer.
    pub fn layout(&self, chunks: usize) -> Result<BindGroupLayout, Error> {
        if chunks > self.max_bindings {
            let most = self.max_bindings;
            let message = format!("the operands of a kernel are in {chunks} buffers, and the adapter binds {most}");
            return Err(Error::Device { device: self.name.clone(), message });
        }
        let mut layouts = self.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(layouts
            .entry(chunks)
            .or_insert_with(|| shader::layout(&self.device, chunks, self.arguments_in_storage))
            .clone())
    }
}

impl WgpuDriver {
    /// Opens an adapter; `name` is the device's name in errors.
    ///
    /// # Errors
    /// When the adapter lacks something that kernels need, or refuses.
    pub fn open(adapter: &Adapter, name: &str) -> Result<WgpuDriver, Error> {
        let refused = |message: String| Error::Device { device: name.into(), message };
        if let Some(what) = adapters::lacks(adapter) {
            return Err(refused(format!("{} cannot be used: {what}", adapters::about(adapter))));
        }
        let limits = adapters::limits(adapter);
        let descriptor = DeviceDescriptor {
            label: Some("thalweg"),
            required_features: adapters::REQUIRED | (adapters::OPTIONAL & adapter.features()),
            required_limits: limits.clone(),
            ..DeviceDescriptor::default()
        };
        let opened = ready(adapter.request_device(&descriptor)).ok_or_else(|| refused("it does not open".into()))?;
        let (device, queue) = opened.map_err(|error| refused(format!("{error}")))?;
        let failure: Arc<Mutex<Option<String>>> = Arc::default();
        let (of_errors, of_loss) = (failure.clone(), failure.clone());
        let note = |failure: &Mutex<Option<String>>, message: String| {
            tracing::debug!(message, "the device failed");
            failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(message);
        };
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| note(&of_errors, error.to_string())));
        device.set_device_lost_callback(move |reason, message| {
            note(&of_loss, format!("the device is lost ({reason:?}): {message}"));
        });
        let arguments_in_storage = adapter.get_info().device_type == DeviceType::Cpu;
        let subgroup = subgroups::size(adapter, &device, &queue);
        let heap = Heap::new(adapters::max_binding(&limits));
        let state = WgpuState {
            name: name.into(),
            chip: adapters::chip(adapter),
            version: adapters::about(adapter),
            recorded: Mutex::new(Recorded::new(&device, queue, heap)),
            device,
            shaders: RwLock::default(),
            compiled: Mutex::default(),
            next: AtomicUsize::new(1),
            layouts: Mutex::default(),
            max_bindings: limits.max_storage_buffers_per_shader_stage as usize - usize::from(arguments_in_storage),
            subgroup,
            arguments_in_storage,
            failure,
            opened: Instant::now(),
        };
        Ok(WgpuDriver(Arc::new(state)))
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.0.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, message: impl Into<String>) -> Error {
        Error::Device { device: self.0.name.clone(), message: message.into() }
    }

    /// Returns the first failure of the device as an error, if it has failed.
    ///
    /// # Errors
    /// When the device has failed.
    pub fn healthy(&self) -> Result<(), Error> {
        match &*self.0.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(message) => Err(self.error(message.clone())),
            None => Ok(()),
        }
    }

    /// Waits for a submission; for all of them without one.
    ///
    /// # Errors
    /// When the device has failed.
    pub fn wait(&self, submission: Option<SubmissionIndex>) -> Result<(), Error> {
        let done = self.0.device.poll(PollType::Wait { submission_index: submission, timeout: None });
        self.polled(done.map(|_| ()))
    }

    /// Runs callbacks of completed work, without waiting.
    ///
    /// # Errors
    /// When the device has failed.
    pub fn poll(&self) -> Result<(), Error> {
        let done = self.0.device.poll(PollType::Poll);
        self.polled(done.map(|_| ()))
    }

    fn polled(&self, done: Result<(), PollError>) -> Result<(), Error> {
        done.map_err(|error| self.error(format!("waiting for it failed: {error}")))?;
        self.healthy()
    }

    /// Nanoseconds from the driver's opening to a time.
    pub fn nanoseconds(&self, time: Instant) -> usize {
        time.duration_since(self.0.opened).as_nanos() as usize
    }

    /// Threads of a subgroup; 1 where subgroups are not used.
    pub fn subgroup(&self) -> u32 {
        self.0.subgroup
    }

    /// Maximum bytes of a buffer.
    pub fn max_buffer(&self) -> usize {
        adapters::max_binding(&self.0.device.limits())
    }

    fn new_event(&self, timed: bool) -> Result<Box<dyn Event>, Error> {
        let happened = Arc::new(AtomicBool::new(false));
        let submission = self.recorded().mark(&happened);
        let mut event = SubmissionEvent { driver: self.clone(), submission, happened, time: None };
        if timed {
            // Launches have no timestamps: the host's clock, when the queue is empty.
            self.wait(None)?;
            event.time = Some(Instant::now());
        }
        self.healthy()?;
        Ok(Box::new(event))
    }
}

impl Driver for WgpuDriver {
    fn on(&self, _: usize) -> Arc<dyn Driver> {
        Arc::new(self.clone())
    }

    fn chip(&self) -> &Chip {
        &self.0.chip
    }

    fn has_queues(&self) -> bool {
        false
    }

    fn has_graphs(&self) -> bool {
        false
    }

    fn version(&self) -> Option<String> {
        Some(self.0.version.clone())
    }

    fn obtain(&self, bytes: usize) -> Option<u64> {
        self.recorded().heap.obtain(&self.0.device, bytes)
    }

    fn release(&self, address: u64) {
        self.recorded().release(address);
    }

    fn compile(&self, source: &str) -> Result<Vec<u8>, Error> {
        if let Some(why) = source.strip_prefix(REFUSED) {
            let message = why.lines().next().unwrap_or_default().into();
            return Err(Error::Compile { device: self.0.name.clone(), message });
        }
        let name = shader::entry(source).ok_or_else(|| self.error("a shader has no entry point"))?;
        let shader = Arc::new(Shader::new(source.into(), name, shader::cache(&self.0.device, &[])));
        shader.check(&self.0)?;
        let image = shader.image();
        self.0.compiled.lock().unwrap_or_else(PoisonError::into_inner).insert(source.into(), shader);
        Ok(image)
    }

    fn load(&self, image: &[u8], functions: &[&str]) -> Result<Vec<Function>, Error> {
        let (source, own) = shader::parts(image).ok_or_else(|| self.error("a shader is not text"))?;
        let load = |name: &&str| {
            // A shader that this process has compiled keeps its pipeline.
            let known = self.0.compiled.lock().unwrap_or_else(PoisonError::into_inner).remove(&source);
            let shader = match known {
                Some(shader) => shader,
                None => Arc::new(Shader::new(source.clone(), name, shader::cache(&self.0.device, own))),
            };
            shader.check(&self.0)?;
            let handle = self.0.next.fetch_add(1, Relaxed);
            let mut shaders = self.0.shaders.write().unwrap_or_else(PoisonError::into_inner);
            // Shaders that only this table knows belong to no function any more.
            shaders.retain(|_, shader| Arc::strong_count(shader) > 1);
            shaders.insert(handle, shader.clone());
            Ok(Function { handle, module: shader, info: FunctionInfo::default() })
        };
        functions.iter().map(load).collect()
    }

    fn occupancy(&self, _: &Function, block: u32, _: u32) -> u32 {
        self.0.chip.threads / block.max(1)
    }

    fn launch(&self, launch: &Launch) -> Result<(), Error> {
        self.healthy()?;
        let shader = {
            let shaders = self.0.shaders.read().unwrap_or_else(PoisonError::into_inner);
            shaders.get(&launch.function.handle).cloned().ok_or_else(|| self.error("an unknown function"))?
        };
        let chunks = shader.words.iter().map(|&word| heap::split(launch.arguments[word]).0);
        let (mut chunks, mut pattern) = shader::pattern(chunks);
        // An address that a launch does not use is 0: it shares the binding of another one.
        if let Some(none) = chunks.iter().position(|&c| c == 0) {
            chunks.remove(none);
            let other = |n: &u8| match (*n as usize).cmp(&none) {
                std::cmp::Ordering::Equal => 0,
                std::cmp::Ordering::Greater => n - 1,
                std::cmp::Ordering::Less => *n,
            };
            pattern = pattern.iter().map(other).collect();
        }
        if chunks.is_empty() && !pattern.is_empty() {
            return Err(self.error("a launch has no operand in memory"));
        }
        let pipeline = shader.pipeline(&self.0, &pattern)?;
        let layout = self.0.layout(chunks.len())?;
        self.recorded().launch(&self.0, (&pipeline, &layout), &chunks, launch)
    }

    fn graph(&self, _: &[Launch]) -> Result<Box<dyn Graph>, Error> {
        Err(self.error("it has no graphs"))
    }

    fn fill(&self, address: u64, value: u8, bytes: usize) -> Result<(), Error> {
        if value == 0 && (address | bytes as u64).is_multiple_of(4) {
            self.recorded().clear(address, bytes as u64);
            return self.healthy();
        }
        self.write(address, &vec![value; bytes])
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return self.healthy();
        }
        // Copies are of whole words: the rest of the first and the last one is read before.
        let (before, after) =
            ((address % 4) as usize, bytes.len().wrapping_add(address as usize % 4).wrapping_neg() % 4);
        if before + after == 0 {
            self.recorded().write(address, bytes);
            return self.healthy();
        }
        let mut words = vec![0; before + bytes.len() + after];
        let (first, last) = (address - before as u64, words.len() - 4);
        self.read(first, &mut words[..4])?;
        let end = &mut words[last..];
        self.read(first + last as u64, end)?;
        words[before..][..bytes.len()].copy_from_slice(bytes);
        self.recorded().write(first, &words);
        self.healthy()
    }

    fn write_all(&self, address: u64, spans: &[&[u8]]) -> Result<(), Error> {
        match spans {
            [one] => self.write(address, one),
            all => self.write(address, &all.concat()),
        }
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.healthy()?;
        if bytes.is_empty() {
            return Ok(());
        }
        let reading = self.recorded().read(&self.0.device, address, bytes.len());
        self.wait(None)?;
        reading.finish(bytes).ok_or_else(|| self.error("memory could not be read"))
    }

    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        if (from | to | bytes as u64).is_multiple_of(4) {
            self.recorded().copy(&self.0.device, from, to, bytes as u64);
            return self.healthy();
        }
        let mut held = vec![0; bytes];
        self.read(from, &mut held)?;
        self.write(to, &held)
    }

    fn event(&self) -> Result<Box<dyn Event>, Error> {
        self.new_event(true)
    }

    fn point(&self) -> Result<Box<dyn Event>, Error> {
        self.new_event(false)
    }

    fn after(&self, _: &dyn Event) -> Result<(), Error> {
        // There is one queue, whose work runs in order.
        Ok(())
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.recorded().submit();
        self.wait(None)
    }
}
