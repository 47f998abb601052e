//! CUDA graphs: several launches that are submitted as one.
//!
//! In: launches. Out: the same launches, submitted by one call, whatever their number. A node keeps a copy of its
//! arguments; only nodes whose arguments changed are updated. A matrix product is a child graph: the library's
//! launches, captured. With other addresses it is captured again.
//!
//! Always true: the device runs the launches that `run` was given. Where the driver refuses an update, they are
//! submitted one by one.

use super::code::{LibraryCall, What, entry};
use super::gpu::Gpu;
use crate::driver::{Graph, Launch};
use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS, CUfunction, CUgraph, CUgraphExec, CUgraphNode};
use std::ptr::null_mut;
use std::sync::Arc;
use thalweg_runtime::Error;

/// CUDA graph whose nodes are a chain of launches.
#[derive(Debug)]
pub(super) struct Chain {
    gpu: Arc<Gpu>,
    /// Queue in which the graph runs.
    queue: usize,
    graph: CUgraph,
    exec: CUgraphExec,
    nodes: Vec<CUgraphNode>,
    /// Launches that the nodes currently represent.
    launches: Vec<Launch>,
    /// Whether an update was refused: nodes may be partly updated.
    refused: bool,
}

// SAFETY: the driver's handles may be used on any thread, one at a time, which `&mut` ensures.
unsafe impl Send for Chain {}
// SAFETY: as above; nothing is done through `&`.
unsafe impl Sync for Chain {}

/// A matrix product's work in a stream, captured as a graph.
struct Captured<'a> {
    gpu: &'a Gpu,
    graph: CUgraph,
}

impl<'a> Captured<'a> {
    fn new(gpu: &'a Gpu, call: &dyn LibraryCall, words: &[u64]) -> Result<Captured<'a>, Error> {
        // Relaxed mode allows other threads' calls meanwhile, and the library to load its code at its first use.
        const RELAXED: u32 = 2;
        let stream = gpu.capturing()?;
        let stream = stream.handle();
        // SAFETY: an empty stream of this context, which nobody else uses meanwhile.
        gpu.check("cuStreamBeginCapture", unsafe { (gpu.api.capture)(stream, RELAXED) })?;
        let put = call.launch(words, stream as usize);
        let mut captured = Captured { gpu, graph: null_mut() };
        // SAFETY: as above, and an out-pointer to a handle.
        let ended = unsafe { (gpu.api.capture_end)(stream, &mut captured.graph) };
        put.map_err(|message| Error::Device { device: gpu.name.clone(), message })?;
        gpu.check("cuStreamEndCapture", ended)?;
        Ok(captured)
    }
}

impl Drop for Captured<'_> {
    fn drop(&mut self) {
        if !self.graph.is_null() {
            // SAFETY: captured in `new`; its users have copies.
            unsafe { (self.gpu.api.graph_destroy)(self.graph) };
        }
    }
}

/// Fills in the driver's node parameters for a launch; `words` is the parameter list that they point to.
fn parameters(
    launch: &Launch,
    function: CUfunction,
    words: &mut [*mut std::ffi::c_void; 1],
) -> CUDA_KERNEL_NODE_PARAMS {
    words[0] = launch.arguments.as_ptr().cast_mut().cast();
    CUDA_KERNEL_NODE_PARAMS {
        func: function,
        gridDimX: launch.grid[0],
        gridDimY: launch.grid[1],
        gridDimZ: launch.grid[2],
        blockDimX: launch.block,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: launch.shared,
        kernelParams: words.as_mut_ptr(),
        extra: null_mut(),
        kern: null_mut(),
        ctx: null_mut(),
    }
}

impl Chain {
    /// Creates the graph without running it.
    pub(super) fn new(gpu: Arc<Gpu>, queue: usize, launches: &[Launch]) -> Result<Chain, Error> {
        gpu.enter()?;
        let (graph, exec, nodes) = (null_mut(), null_mut(), vec![]);
        let launches_now = launches.to_vec();
        let mut chain = Chain { gpu: gpu.clone(), queue, graph, exec, nodes, launches: launches_now, refused: false };
        // SAFETY: an out-pointer to a handle.
        gpu.check("cuGraphCreate", unsafe { (gpu.api.graph)(&mut chain.graph, 0) })?;
        for launch in launches {
            let node = chain.add(launch)?;
            chain.nodes.push(node);
        }
        // SAFETY: an out-pointer to a handle, and the graph created above.
        gpu.check("cuGraphInstantiate", unsafe { (gpu.api.graph_instantiate)(&mut chain.exec, chain.graph, 0) })?;
        Ok(chain)
    }

    /// Appends the node of a launch to the chain.
    fn add(&self, launch: &Launch) -> Result<CUgraphNode, Error> {
        let (gpu, mut node) = (&*self.gpu, null_mut());
        let before = self.nodes.last().map_or(&[][..], std::slice::from_ref);
        let entry = entry(&launch.function);
        if let What::Library(call) = &entry.what {
            let child = Captured::new(gpu, &**call, &launch.arguments)?;
            // SAFETY: the node before it is of this graph; the child is copied in the call.
            let added =
                unsafe { (gpu.api.graph_child)(&mut node, self.graph, before.as_ptr(), before.len(), child.graph) };
            gpu.check("cuGraphAddChildGraphNode", added)?;
            return Ok(node);
        }
        let mut words = [null_mut()];
        let parameters = parameters(launch, entry.allow(gpu, launch.shared)?, &mut words);
        // SAFETY: the node before it is of this graph; arguments are copied in the call, and match the function's
        // parameter.
        let added =
            unsafe { (gpu.api.graph_kernel)(&mut node, self.graph, before.as_ptr(), before.len(), &parameters) };
        gpu.check("cuGraphAddKernelNode", added)?;
        Ok(node)
    }

    /// Updates a node to another launch of the same kind: a kernel, or a library GEMM.
    fn set(&self, node: CUgraphNode, launch: &Launch) -> Result<(), Error> {
        let (gpu, entry) = (&*self.gpu, entry(&launch.function));
        if let What::Library(call) = &entry.what {
            let child = Captured::new(gpu, &**call, &launch.arguments)?;
            // SAFETY: a node of the graph from which `exec` was instantiated; the child is copied in the call.
            let set = unsafe { (gpu.api.graph_update_child)(self.exec, node, child.graph) };
            return gpu.check("cuGraphExecChildGraphNodeSetParams", set);
        }
        let mut words = [null_mut()];
        let parameters = parameters(launch, entry.allow(gpu, launch.shared)?, &mut words);
        // SAFETY: a node of the graph from which `exec` was instantiated; arguments are copied in the call.
        let set = unsafe { (gpu.api.graph_update)(self.exec, node, &parameters) };
        gpu.check("cuGraphExecKernelNodeSetParams", set)
    }

    /// Updates the nodes whose launches differ; `false` where the driver refuses.
    fn update(&mut self, launches: &[Launch]) -> Result<bool, Error> {
        for (i, launch) in launches.iter().enumerate() {
            let known = &self.launches[i];
            let same =
                known.arguments == launch.arguments && known.grid == launch.grid && known.shared == launch.shared;
            if same && known.function.handle == launch.function.handle && known.block == launch.block {
                continue;
            }
            if let Err(error) = self.set(self.nodes[i], launch) {
                tracing::debug!(%error, "a graph is run launch by launch");
                return if self.gpu.has_failed() { Err(error) } else { Ok(false) };
            }
            let known = &mut self.launches[i];
            // Reuses the memory of the old arguments.
            known.arguments.clone_from(&launch.arguments);
            (known.grid, known.shared, known.block) = (launch.grid, launch.shared, launch.block);
            if known.function.handle != launch.function.handle {
                known.function = launch.function.clone();
            }
        }
        Ok(true)
    }
}

impl Graph for Chain {
    fn run(&mut self, launches: &[Launch]) -> Result<(), Error> {
        self.gpu.enter()?;
        if launches.len() != self.launches.len() {
            let message = format!("a graph of {} launches is run with {}", self.launches.len(), launches.len());
            return Err(Error::Device { device: self.gpu.name.clone(), message });
        }
        if !self.refused {
            self.refused = !self.update(launches)?;
        }
        if self.refused {
            let one = |launch| super::code::launch(&self.gpu, &mut self.gpu.turn(self.queue)?, launch);
            return launches.iter().try_for_each(one);
        }
        let turn = self.gpu.turn(self.queue)?;
        // SAFETY: the graph was created for this context, and its functions are kept by `launches`.
        let put = unsafe { (self.gpu.api.graph_launch)(self.exec, turn.handle) };
        self.gpu.check("cuGraphLaunch", put)
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        if self.gpu.enter().is_err() {
            return;
        }
        // SAFETY: created in `new` where they are not null; the driver keeps running ones until they end.
        unsafe {
            if !self.exec.is_null() {
                (self.gpu.api.graph_exec_destroy)(self.exec);
            }
            if !self.graph.is_null() {
                (self.gpu.api.graph_destroy)(self.graph);
            }
        }
    }
}
