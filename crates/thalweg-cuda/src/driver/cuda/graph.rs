//! Launches that the device knows as one.
//!
//! In: launches. Out: the same, put in the queue by one call, whatever their number. A node keeps a copy of its arguments; only those that differ from the last time are set
//! again.
//!
//! Always true: the device runs what `run` was given, by single launches where it refuses to take a change.

use super::{Gpu, entry};
use crate::driver::{Graph, Launch};
use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphNode};
use std::ptr::null_mut;
use std::sync::Arc;
use thalweg_runtime::Error;

/// A chain of kernels.
#[derive(Debug)]
pub(super) struct Chain {
    gpu: Arc<Gpu>,
    graph: CUgraph,
    exec: CUgraphExec,
    nodes: Vec<CUgraphNode>,
    /// What the nodes have now.
    launches: Vec<Launch>,
    /// Whether a change was refused: nodes may have some of it.
    refused: bool,
}

// SAFETY: the driver's handles may be used on any thread, one at a time, which `&mut` sees to.
unsafe impl Send for Chain {}
// SAFETY: as above; nothing is done through `&`.
unsafe impl Sync for Chain {}

/// The driver's form of a launch, for a call to which `words` points as the one parameter.
fn parameters(launch: &Launch, words: &mut [*mut std::ffi::c_void; 1]) -> CUDA_KERNEL_NODE_PARAMS {
    words[0] = launch.arguments.as_ptr().cast_mut().cast();
    CUDA_KERNEL_NODE_PARAMS {
        func: entry(&launch.function).function,
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
    /// Makes it; does not run it.
    pub(super) fn new(gpu: Arc<Gpu>, launches: &[Launch]) -> Result<Chain, Error> {
        gpu.enter()?;
        let (graph, exec, nodes) = (null_mut(), null_mut(), vec![]);
        let mut chain = Chain { gpu: gpu.clone(), graph, exec, nodes, launches: launches.to_vec(), refused: false };
        // SAFETY: a place for a handle.
        gpu.check("cuGraphCreate", unsafe { (gpu.api.graph)(&mut chain.graph, 0) })?;
        for launch in launches {
            entry(&launch.function).allow(&gpu, launch.shared)?;
            let (mut node, mut words) = (null_mut(), [null_mut()]);
            let parameters = parameters(launch, &mut words);
            let before = chain.nodes.last().map_or(&[][..], std::slice::from_ref);
            // SAFETY: the node before it is of this graph; arguments are copied in the call, and are as many as the function has.
            let added =
                unsafe { (gpu.api.graph_kernel)(&mut node, chain.graph, before.as_ptr(), before.len(), &parameters) };
            gpu.check("cuGraphAddKernelNode", added)?;
            chain.nodes.push(node);
        }
        // SAFETY: a place for a handle, and the graph made above.
        gpu.check("cuGraphInstantiate", unsafe { (gpu.api.graph_instantiate)(&mut chain.exec, chain.graph, 0) })?;
        Ok(chain)
    }

    /// Sets what differs; `false` when the device refuses.
    fn update(&mut self, launches: &[Launch]) -> Result<bool, Error> {
        let gpu = &*self.gpu;
        for ((launch, known), &node) in launches.iter().zip(&mut self.launches).zip(&self.nodes) {
            let same =
                known.arguments == launch.arguments && known.grid == launch.grid && known.shared == launch.shared;
            if same && known.function.handle == launch.function.handle && known.block == launch.block {
                continue;
            }
            entry(&launch.function).allow(gpu, launch.shared)?;
            let mut words = [null_mut()];
            let parameters = parameters(launch, &mut words);
            // SAFETY: a node of the graph that `exec` was made of; arguments are copied in the call.
            let set = unsafe { (gpu.api.graph_update)(self.exec, node, &parameters) };
            if let Err(error) = gpu.check("cuGraphExecKernelNodeSetParams", set) {
                tracing::debug!(%error, "a graph is run launch by launch");
                return if gpu.has_failed() { Err(error) } else { Ok(false) };
            }
            // The room of the old arguments is used again.
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
            return launches.iter().try_for_each(|launch| super::launch(&self.gpu, launch, false));
        }
        // SAFETY: the graph was made for this context, and its functions are held by `launches`.
        let put = unsafe { (self.gpu.api.graph_launch)(self.exec, self.gpu.stream) };
        self.gpu.check("cuGraphLaunch", put)
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        if self.gpu.enter().is_err() {
            return;
        }
        // SAFETY: made in `new` where they are not null; the driver keeps what is still running until it has run.
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
