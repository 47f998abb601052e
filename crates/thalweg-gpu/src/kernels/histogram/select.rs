//! Lowering of histograms: sums of integers in tables in shared memory.
//!
//! The index is computed in the same launch where it is a map over the scatter's points in their order; else it is read
//! from memory.

use crate::kernels::Skeleton;
use crate::kernels::histogram::params::HistogramArguments;
use crate::kernels::histogram::{Addend, BLOCK, BLOCKS, HistogramClass};
use crate::kernels::map::MapClass;
use crate::kernels::map::params::MapArguments;
use crate::kernels::plan::{Draft, Plan};
use crate::operands::{BodyArguments, needs};
use crate::params::RuntimeArgument;
use crate::space::Space;
use crate::target::Target;
use crate::traffic;
use crate::tunable::TUNABLES;
use thalweg_ir::{DType, MAX_RANK, ScatterOp};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, Body, BodyBuilder, Computed, Geometry, Kernel, Moved, Node, NodeId,
    ScatterGeometry, Store, expand, widen,
};

/// Number of vectors that a thread loads at a time, before it processes the first.
const VECTORS: u8 = 4;

/// Whether a scatter can count in tables in shared memory: it adds integers along its only dimension, the tables fit
/// shared memory, and values outnumber bins.
pub fn fits(op: ScatterOp, dtype: DType, g: &ScatterGeometry) -> bool {
    let lines: usize = g.outer.iter().chain(&g.inner).map(|d| d.0).product();
    let size = if g.steps[2] == 0 { 4 } else { dtype.size() };
    let whole = matches!(dtype, DType::I32 | DType::I64 | DType::U32 | DType::U64);
    // A step of the grid beyond the last one is a number of 32 bits, too.
    let counted = g.n < (1 << 31) - (1 << 24);
    let alone = op == ScatterOp::Add && whole && lines == 1 && g.size > 0 && counted;
    alone
        && TUNABLES.max_table_bytes.admits(g.size * size)
        && TUNABLES.min_counted_values.reached_by(g.n)
        && TUNABLES.min_values_of_place.reached_by(g.n / g.size)
}

/// Source of the indices of a histogram.
#[derive(Clone, Copy)]
pub enum Index<'a> {
    /// A map over these extents. Its operands are numbered from 0 on; the last of them is the result, which is not
    /// written.
    Map(&'a Body, &'a [usize], &'a [AccessGeometry]),
    /// Operand in memory that has the indices in the order of the points.
    Lies(RuntimeArgument),
}

/// Returns the map that computes the index, if it can run in the same launch: its points must be the scatter's values,
/// in the same order.
pub fn fused<'a>(input: Option<&'a Computed>, g: &'a ScatterGeometry) -> Option<Index<'a>> {
    let (Kernel::Map(body), Some(Geometry::Map(own))) = (&input?.kernel, g.inputs[0].as_deref()) else { return None };
    let as_it_lies = g.steps[1] == 1 && g.base[1] == 0 && own.points() == g.n;
    (as_it_lies && body.stores.len() == 1).then_some(Index::Map(body, &own.extents, &own.accesses))
}

/// Geometry of an access to the points of a domain in order, with this base and stride.
fn along(extents: &[usize], [base, step]: [isize; 2]) -> AccessGeometry {
    let mut strides = [0; MAX_RANK];
    let mut each = step;
    for (d, &extent) in extents.iter().enumerate().rev() {
        strides[d] = each;
        each *= extent as isize;
    }
    AccessGeometry { base, strides, map: None, reach: None, distinct: extents.iter().product() }
}

/// Adds the launch. `operands` are the operands of the index computation; the other two arguments are the addresses of
/// values and result.
pub fn add(
    plan: &mut Plan,
    dtype: DType,
    g: &ScatterGeometry,
    index: Index<'_>,
    (operands, values, to): (&[RuntimeArgument], RuntimeArgument, RuntimeArgument),
    target: &dyn Target,
) {
    let mut all = operands.to_vec();
    let in_memory;
    let (body, extents, accesses) = match index {
        Index::Map(body, extents, accesses) => (body, extents, accesses),
        Index::Lies(word) => {
            let mut b = BodyBuilder::new(false);
            let access = |b: &mut BodyBuilder, operand| {
                let class = if operand == 0 { AccessClass::of_step(g.steps[1]) } else { AccessClass::Contiguous };
                b.access(Access { operand: Some(operand), dtype: DType::I64, class, per_row: false })
            };
            let from = access(&mut b, 0);
            let load = b.node(Node::Load { access: from });
            let into = access(&mut b, 1);
            b.store(load, into);
            all = vec![word];
            in_memory = (b.finish(), [g.n], [[g.base[1], g.steps[1]], [0, 1]].map(|at| along(&[g.n], at)));
            (&in_memory.0, &in_memory.1[..], &in_memory.2[..])
        }
    };
    let mut body = expand(&widen(body), &|op, dtype| target.is_native(op, dtype));
    // The last operand and access are the index's result, which is not written.
    let Some(Store { node: index, .. }) = body.stores.pop() else { unreachable!("an index is computed") };
    let mut accesses = accesses[..accesses.len() - 1].to_vec();
    body.accesses.pop();
    body.operands -= 1;
    plan.moved.read += traffic::map(&body, extents, &accesses).read;
    let own_needs = accesses.clone();
    let of_index = body.accesses.len();
    let added = if g.steps[2] == 0 {
        Addend::Same
    } else {
        let class = AccessClass::of_step(g.steps[2]);
        body.accesses.push(Access { operand: Some(body.operands), dtype, class, per_row: false });
        accesses.push(along(extents, [g.base[2], g.steps[2]]));
        body.nodes.push(Node::Load { access: of_index as u16 });
        Addend::Element(NodeId(body.nodes.len() as u32 - 1))
    };
    let most = if TUNABLES.max_counted_nodes.admits(body.nodes.len()) { 8 } else { 4 };
    let space = Space::new(extents, 0, false, (&body.accesses, &accesses), most);
    let vectors = space.row() / space.class.lanes as usize;
    let map = MapClass { space: space.class.clone(), vectors: VECTORS, tile: None };
    let class = HistogramClass { map, index, added, dtype };
    let table = g.size * class.size();
    // Number of tables per block: a power of two, as many as fit.
    let tables = 1 << (TUNABLES.max_table_bytes.get() / table).clamp(1, TUNABLES.max_tables.size()).ilog2();
    let mut own_plan = Plan { checked: true, ..Plan::default() };
    let size = dtype.size() as i64;
    let count = all.len() as u16;
    let arguments = HistogramArguments {
        map: MapArguments { vectors, body: BodyArguments::new(&body, &space), fault: true, tiles: None },
        bins: g.size,
        tables,
        result: RuntimeArgument::Operand(count + 1, g.base[3] as i64 * size),
        stride: g.steps[3],
        value: (added == Addend::Same).then_some(RuntimeArgument::Operand(count, g.base[2] as i64 * size)),
    };
    let arguments = arguments.fill(&class, &body);
    all.extend([values, to]);
    needs(&mut own_plan.needs, &Body { accesses: body.accesses[..of_index].to_vec(), ..Body::default() }, &own_needs);
    let most = BLOCKS * target.chip().multiprocessors as usize;
    let grid = vectors.div_ceil(BLOCK as usize * VECTORS as usize).clamp(1, most);
    let (kernel, shared) = (Skeleton::Histogram(body, class), (tables * table) as u32);
    own_plan.stages.push(Draft::new(kernel, [grid as u32, 1, 1], BLOCK, shared, arguments));
    plan.absorb(own_plan, &all, 0);
    // The tensor is copied, and each block reads and writes every bin.
    let result = g.size * dtype.size();
    let read = if added == Addend::Same { dtype.size() } else { g.n * dtype.size() };
    let each = result * grid;
    plan.moved += Moved { read: (result + read + each) as u64, written: (result + each) as u64, ..Moved::default() };
}
