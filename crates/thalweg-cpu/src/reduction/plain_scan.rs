//! Plain scans (such as `cumsum` of a tensor): rows in memory are scanned to rows in memory, without other operations.
//!
//! In: a body that loads elements, scans them and stores the result, all contiguous. Out: the scan, directly from the
//! operand to the result. Always true: the scan function is the one that runs between phases, in the same order, so the
//! bits are the same; only the buffers are omitted, which are two thirds of the memory traffic.

use crate::scan;
use crate::simd::Shared;
use crate::threads::Threads;
use crate::tile;
use thalweg_ir::DType;
use thalweg_kernel::{AccessClass, AccessGeometry, Body, Moved, Node, NodeId, Orientation, RowGeometry, Scan};
use thalweg_runtime::Buffer;

/// A launch of a plain scan.
pub struct PlainScan<'a> {
    scan: &'a Scan,
    /// Operand index, index of the first element, and dtype: of the scan's input (`from`), and of its result (`to`).
    from: (u16, isize, DType),
    to: (u16, isize, DType),
    rows: usize,
    n: usize,
}

impl<'a> PlainScan<'a> {
    /// Recognises a plain scan in a body and geometry.
    pub fn of(body: &'a Body, geometry: &RowGeometry, orientation: Orientation) -> Option<PlainScan<'a>> {
        let ([scan], [store]) = (&body.scans[..], &body.stores[..]) else { return None };
        let node = |id: NodeId| body.nodes[id.0 as usize];
        let (Node::Scanned { .. }, Node::Load { access }) = (node(store.node), node(scan.node)) else { return None };
        let plain = body.folds.is_empty() && body.sets.is_empty() && store.combine.is_none();
        if !plain || orientation != Orientation::InnerAxis {
            return None;
        }
        let line = |a: u16| {
            let (access, at) = (&body.accesses[a as usize], &geometry.accesses[a as usize]);
            let whole = access.class == AccessClass::Contiguous && !access.per_row && follows(&geometry.extents, at);
            Some((access.operand?, at.base, access.dtype)).filter(|_| whole)
        };
        let (from, to) = (line(access)?, line(store.access)?);
        Some(PlainScan { scan, from, to, rows: geometry.rows(), n: geometry.row() })
    }

    /// Whether threads split each row instead of taking whole rows.
    fn split(&self, threads: usize) -> bool {
        self.rows < threads
    }

    /// Memory traffic of a launch.
    pub fn moved(&self, threads: usize) -> Moved {
        let points = (self.rows * self.n) as u64;
        let (read, written) = (points * self.from.2.size() as u64, points * self.to.2.size() as u64);
        let own = scan::moves(self.scan.op, self.from.2, [self.n, 1], self.split(threads)).times(self.rows as u64);
        Moved { read, written, loaded: read, stored: written } + own
    }

    /// Runs the scan.
    ///
    /// # Safety
    /// Geometry and operands were checked.
    pub unsafe fn run(&self, operands: &[&Buffer], threads: &Threads, estimate_ns: f64) {
        let row = |(operand, base, dtype): (u16, isize, DType), row: usize| {
            let start = operands[operand as usize].address();
            Shared(start.wrapping_offset((base + (row * self.n) as isize) * dtype.size() as isize))
        };
        let one = |at: usize, threads: Option<&Threads>| {
            let (from, to) = (row(self.from, at), row(self.to, at));
            // SAFETY: the caller's promise: every element of the row is inside its operand, and of its dtype. If input
            // and result are the same memory, they match element by element: a width of 1 allows that.
            unsafe {
                scan::scan((self.scan.op, self.scan.reverse), self.from.2, from.get(), to.get(), [self.n, 1], threads)
            }
        };
        let size = self.rows * self.n;
        tile::note(size * self.from.2.size(), size * self.to.2.size());
        if self.split(threads.for_work(estimate_ns)) {
            return (0..self.rows).for_each(|at| one(at, Some(threads)));
        }
        let grain = (1 << 14) / self.n.max(1);
        threads.run(self.rows, grain.max(1), estimate_ns, |range| range.for_each(|at| one(at, None)));
    }
}

/// Whether the elements of all rows are contiguous, in row-major order.
fn follows(extents: &[usize], at: &AccessGeometry) -> bool {
    let mut step = 1;
    let mut dims = extents.iter().zip(&at.strides).rev();
    at.map.is_none()
        && dims.all(|(&extent, &stride)| {
            let fits = extent == 1 || stride == step;
            step *= extent as isize;
            fits
        })
}
