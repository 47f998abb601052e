//! Work that keeps a queue busy while launches are put behind it, so that their times are the device's alone.
//!
//! A GPU starts a launch once it is in the queue. If the queue is empty, events around a launch of two microseconds
//! measure the five that the host takes to queue it. Behind a launch that takes longer than that, everything is queued
//! before the first event happens.

use crate::DeviceRef;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use thalweg_ir::{DType, ElementOp, First, MAX_RANK, Region, RegionNode, Scalar};
use thalweg_kernel::{Access, AccessClass, AccessGeometry, BodyBuilder, Geometry, Kernel, MapGeometry, Node};
use thalweg_runtime::{Buffer, Device, Error, Program};

/// Number of iterations of the launch's loop: about 0.2 ms on an H100, which takes 10 ns for one.
const TURNS: u32 = 20_000;

/// Launch that keeps a device's queue busy.
#[derive(Clone, Debug)]
pub struct Ahead {
    program: Arc<dyn Program>,
    geometry: Arc<Geometry>,
    /// Operands of the launch: input and output.
    places: [Buffer; 2],
}

static ALL: LazyLock<Mutex<HashMap<DeviceRef, Ahead>>> = LazyLock::new(Mutex::default);

impl Ahead {
    /// Prepares the launch for a device; it is compiled on first use.
    ///
    /// # Errors
    /// When the device fails.
    pub fn of(device: DeviceRef) -> Result<Ahead, Error> {
        let all = || ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ahead) = all().get(&device) {
            return Ok(ahead.clone());
        }
        // Not under the lock: loading code may wait for other devices, whose threads must not wait here.
        let own = Ahead::new(&**device.device())?;
        Ok(all().entry(device).or_insert(own).clone())
    }

    fn new(device: &dyn Device) -> Result<Ahead, Error> {
        let (kernel, geometry) = kernel();
        let places = [device.allocate(4)?, device.allocate(4)?];
        device.write(&places[0], &1.0f32.to_le_bytes())?;
        let program = device.prepare(&[(&kernel, &geometry)])?.remove(0);
        Ok(Ahead { program, geometry: Arc::new(geometry), places })
    }

    /// Queues the launch `times` times on the calling thread's queue.
    ///
    /// # Errors
    /// When the device fails.
    pub fn launch(&self, times: usize) -> Result<(), Error> {
        let [from, to] = &self.places;
        (0..times).try_for_each(|_| self.program.launch(&self.geometry, &[from, to], &[]))
    }
}

/// Kernel that moves one number halfway to 2 in each iteration: serial, and without an early end.
pub fn kernel() -> (Kernel, Geometry) {
    let number = |v: f64| RegionNode::Const { bits: Scalar::Float(v).to_bits(DType::F32), dtype: DType::F32 };
    let element = |op, a, b| RegionNode::Element { op, args: [a, b, a] };
    let nodes = vec![
        RegionNode::Carried(0),
        number(0.5),
        number(1.0),
        element(ElementOp::Mul, 0, 1),
        element(ElementOp::Add, 3, 2),
        number(1e9),
        element(ElementOp::Lt, 0, 5),
    ];
    let region =
        Region { most: TURNS, args: vec![DType::F32], first: vec![First::Arg(0)], nodes, go: 6, next: vec![4] };
    let mut b = BodyBuilder::new(false);
    let access =
        |operand| Access { operand: Some(operand), dtype: DType::F32, class: AccessClass::Contiguous, per_row: false };
    let [from, to] = [0, 1].map(|operand| b.access(access(operand)));
    let begin = b.node(Node::Load { access: from });
    let of = b.looped(region.intern(), &[begin]);
    let y = b.node(Node::Looped { of, number: 0, dtype: DType::F32 });
    b.store(y, to);
    let at = AccessGeometry { base: 0, strides: [0; MAX_RANK], map: None, reach: Some((0, 0)), distinct: 1 };
    (Kernel::Map(b.finish()), Geometry::Map(MapGeometry { extents: vec![1], accesses: vec![at.clone(), at] }))
}
