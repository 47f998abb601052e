//! GEMV: products of few rows or few columns as one row kernel. Each element of the long operand is read once,
//! multiplied by the few elements of the short one, and summed. The epilogue runs on the sums, once a row.
//!
//! In: a contraction of operands in memory whose epilogue, if it has one, is a map. Out: a [`Kernel::Rows`] over
//! `[batch…, lines…, terms]`, with a fold for each line of the short side. Such products are bound by memory, which row
//! kernels read at nine tenths of its bandwidth; a library's tiles are mostly empty then, and it does not split terms.
//!
//! Example: `silu(x·w1ᵀ)`, `x: [1, 2048]`, `w1: [5632, 2048]`: 5,632 rows of 2,048 terms, one fold, and the sigmoid of
//! its result.
//!
//! Always true: operands are those of the contraction, in its order.

use crate::kernels::plan::Plan;
use crate::target::Target;
use crate::tunable::TUNABLES;
use thalweg_ir::{DType, ElementOp, MAX_RANK, Monoid};
use thalweg_kernel::{
    Access, AccessClass, AccessGeometry, Body, BodyBuilder, Contraction, ContractionGeometry, Epilogue, Geometry,
    Kernel, MatmulGeometry, Node, NodeId, Orientation, Precision, RowGeometry, TileGeometry, widen_sums,
};
use thalweg_runtime::Error;

/// Whether the product has few rows or columns and may add its terms in any order.
fn is_few(c: &Contraction, p: &MatmulGeometry) -> bool {
    let foldable = matches!(c.dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16 | DType::I32 | DType::I64);
    let some = p.k > 0 && p.m * p.n > 0 && p.batch.iter().all(|d| d.0 > 0);
    let fits = foldable && some && c.precision != Precision::Ordered;
    fits && TUNABLES.max_folded_lines.admits(p.m.min(p.n))
}

/// Whether a row kernel is faster than a GEMM for an unfused product: its lines are long (for shorter ones a library's
/// launch is as fast), and its terms are contiguous. With strided terms the library is a little faster.
pub fn is_worth_it(p: &MatmulGeometry) -> bool {
    let line = p.batch.iter().map(|d| d.0).product::<usize>() * p.m.max(p.n) * p.k;
    TUNABLES.min_folded_product.reached_by(line) && Domain::of(p, None).is_some_and(|d| d.along || !p.batch.is_empty())
}

/// Plans the kernel. Without an epilogue, sums are stored in dtype `written`. `None` if the contraction is no GEMV that
/// a row reduction can compute.
pub fn plan(
    c: &Contraction,
    g: &ContractionGeometry,
    written: DType,
    target: &dyn Target,
) -> Option<Result<Plan, Error>> {
    let (kernel, geometry) = kernel(c, g, written)?;
    Some(crate::kernels::plan(&kernel, &geometry, target))
}

/// Row kernel and geometry of a GEMV; `None` for other contractions.
pub fn kernel(c: &Contraction, g: &ContractionGeometry, written: DType) -> Option<(Kernel, Geometry)> {
    if !is_few(c, &g.product) || c.factors.iter().any(Option::is_some) {
        return None;
    }
    let behind = match (c.epilogue.as_deref(), g.epilogue.as_deref()) {
        (Some(e), Some(tiles)) => Some((e, tiles)),
        _ => None,
    };
    let domain = Domain::of(&g.product, behind.map(|b| b.1))?;
    let mut w = Writer { domain, builder: BodyBuilder::new(false), accesses: vec![] };
    let sums = w.sums(c, &g.product);
    match behind {
        Some((e, tiles)) => w.epilogue(e, tiles, &sums)?,
        None => w.results(&g.product, &sums, written),
    }
    let Domain { extents, kept, along, .. } = w.domain;
    let orientation = if along { Orientation::InnerAxis } else { Orientation::OuterAxis };
    let geometry = RowGeometry { extents, kept, accesses: w.accesses };
    Some((Kernel::Rows { body: w.builder.finish(), orientation }, Geometry::Rows(geometry)))
}

/// Domain of the row kernel: batches, then the lines of the long side; the terms are the points of a row.
struct Domain {
    extents: Vec<usize>,
    /// Number of leading dimensions that enumerate rows of the row kernel.
    kept: usize,
    /// Strides of A and B in each batch dimension.
    batches: Vec<[isize; 2]>,
    /// Whether the long side is the columns of the product, and not its rows.
    columns: bool,
    /// Number of lines of the short side: rows of A or columns of B.
    few: usize,
    /// Whether the lanes of a thread are neighbouring terms, and not neighbouring lines.
    along: bool,
}

impl Domain {
    fn of(p: &MatmulGeometry, tiles: Option<&TileGeometry>) -> Option<Domain> {
        let columns = p.m <= p.n;
        let (few, lines) = if columns { (p.m, p.n) } else { (p.n, p.m) };
        let mut batches: Vec<(usize, [isize; 2])> = p.batch.iter().map(|d| (d.0, [d.1, d.2])).collect();
        let own = match tiles {
            None => vec![lines],
            Some(t) => {
                batches = aligned(&batches, &t.extents[..t.rows])?;
                let own = if columns { &t.extents[t.columns..] } else { &t.extents[t.rows..t.columns] };
                if own.is_empty() { vec![1] } else { own.to_vec() }
            }
        };
        if own.iter().product::<usize>() != lines || tiles.is_some_and(|t| t.boxes.len() != 1) {
            return None;
        }
        let mut extents: Vec<usize> = batches.iter().map(|b| b.0).chain(own).collect();
        let kept = extents.len();
        extents.push(p.k);
        let (term, line) = if columns { (p.b.1, p.b.2) } else { (p.a.2, p.a.1) };
        let along = term.unsigned_abs() <= line.unsigned_abs() || lines == 1;
        let batches = batches.iter().map(|b| b.1).collect();
        (extents.len() <= MAX_RANK).then_some(Domain { extents, kept, batches, columns, few, along })
    }

    /// Strides of the lines' dimensions; the innermost one has stride `step`.
    fn lines(&self, step: isize) -> Vec<isize> {
        let inner = |d: usize| self.extents[d + 1..self.kept].iter().product::<usize>() as isize;
        (self.batches.len()..self.kept).map(|d| step * inner(d)).collect()
    }
}

/// Matches a product's batch dimensions to the epilogue's batch dimensions, some of which may have extent 1.
fn aligned(batches: &[(usize, [isize; 2])], extents: &[usize]) -> Option<Vec<(usize, [isize; 2])>> {
    let mut left = batches.iter().copied().filter(|b| b.0 != 1);
    let own: Option<Vec<_>> =
        extents.iter().map(|&e| if e == 1 { Some((1, [0; 2])) } else { left.next().filter(|b| b.0 == e) }).collect();
    own.filter(|_| left.next().is_none())
}

/// Whether all stores of an epilogue depend on the sums. Others would be stored before the sums are known, and a result
/// may alias an operand that is read for them.
fn follows(body: &Body, sums: u16) -> bool {
    let mut from_sums = vec![false; body.nodes.len()];
    for (i, node) in body.nodes.iter().enumerate() {
        let own = matches!(*node, Node::Load { access } if body.accesses[access as usize].operand == Some(sums));
        from_sums[i] = own || body.args(NodeId(i as u32)).any(|a| from_sums[a.index()]);
    }
    body.stores.iter().all(|s| from_sums[s.node.index()])
}

struct Writer {
    domain: Domain,
    builder: BodyBuilder,
    accesses: Vec<AccessGeometry>,
}

impl Writer {
    /// Adds an access, with its strides along batch dimensions, along lines, and along terms.
    fn access(
        &mut self,
        (operand, dtype, per_row): (Option<u16>, DType, bool),
        (base, reach): (isize, Option<(usize, usize)>),
        steps: (&[isize], &[isize], isize),
    ) -> u16 {
        let d = &self.domain;
        let mut strides = [0; MAX_RANK];
        for (s, step) in strides.iter_mut().zip(steps.0.iter().chain(steps.1).chain([&steps.2])) {
            *s = *step;
        }
        let lane = if d.along { d.kept } else { d.kept - 1 };
        let class = AccessClass::of_step(strides[lane]);
        let moved = d.extents.iter().zip(&strides).filter(|(_, s)| **s != 0);
        let distinct = moved.map(|(e, _)| e).product();
        self.accesses.push(AccessGeometry { base, strides, map: None, reach, distinct });
        self.builder.access(Access { operand, dtype, class, per_row })
    }

    /// Adds a fold for each line of the short side; returns the nodes of their sums.
    fn sums(&mut self, c: &Contraction, p: &MatmulGeometry) -> Vec<NodeId> {
        let of_batch = [0, 1].map(|n| self.domain.batches.iter().map(|d| d[n]).collect::<Vec<isize>>());
        let long = usize::from(self.domain.columns);
        let side = |n: usize| if n == 0 { (p.a.0, p.a.1, p.a.2) } else { (p.b.0, p.b.2, p.b.1) };
        let (none, lines) = (self.domain.lines(0), self.domain.lines(side(long).1));
        let load = |w: &mut Writer, n: usize, number: usize| {
            let (base, line, term) = side(n);
            let own = if n == long { &lines } else { &none };
            let base = base + number as isize * line;
            let access = w.access((Some(n as u16), c.dtype, false), (base, p.reach[n]), (&of_batch[n], own, term));
            let x = w.builder.node(Node::Load { access });
            w.builder.cast(x, c.accumulator())
        };
        let x = load(self, long, 0);
        let few = self.domain.few;
        (0..few)
            .map(|number| {
                let y = load(self, 1 - long, number);
                // Left times right, as in every other kernel.
                let product = if long == 0 { [x, y] } else { [y, x] };
                let product = self.builder.element(ElementOp::Mul, &product);
                self.builder.fold(Monoid::Sum, product)
            })
            .collect()
    }

    /// Adds the stores of the sums for a product without an epilogue.
    fn results(&mut self, p: &MatmulGeometry, sums: &[NodeId], written: DType) {
        let mut batch: Vec<isize> = vec![];
        let mut step = (p.m * p.n) as isize;
        for d in p.batch.iter().rev() {
            batch.insert(0, step);
            step *= d.0 as isize;
        }
        let (line, number) = if self.domain.columns { (1, p.n as isize) } else { (p.n as isize, 1) };
        let lines = self.domain.lines(line);
        let reach = Some((0, step as usize - 1));
        for (i, &sum) in sums.iter().enumerate() {
            let result = self.builder.cast(sum, written);
            let at = (i as isize * number, reach);
            let access = self.access((Some(2), written, true), at, (&batch, &lines, 0));
            self.builder.store(result, access);
        }
    }

    /// Adds the epilogue for each line of the short side; `None` if the epilogue is not a map, or reads through index
    /// maps.
    fn epilogue(&mut self, e: &Epilogue, tiles: &TileGeometry, sums: &[NodeId]) -> Option<()> {
        let Kernel::Map(body) = &e.kernel else { return None };
        if body.repeatable {
            self.builder.repeatable();
        }
        let body = widen_sums(body, Some(e.sums));
        let at = &tiles.boxes[0].geometry.accesses;
        let is_sums = |a: &Access| a.operand == Some(e.sums);
        // Sums have no index, so a body that uses their index or mask is rejected.
        let is_placed = |node: &Node| match *node {
            Node::Index { access, .. } | Node::Valid { access } => is_sums(&body.accesses[access as usize]),
            _ => false,
        };
        if at.iter().any(|at| at.map.is_some()) || body.nodes.iter().any(is_placed) || !follows(&body, e.sums) {
            return None;
        }
        let (lines, few) = if self.domain.columns {
            (tiles.columns..tiles.extents.len(), tiles.rows..tiles.columns)
        } else {
            (tiles.rows..tiles.columns, tiles.columns..tiles.extents.len())
        };
        for (i, &sum) in sums.iter().enumerate() {
            let number = |at: &AccessGeometry| offset(i, &tiles.extents, few.clone(), &at.strides);
            let accesses: Vec<u16> = body
                .accesses
                .iter()
                .zip(at)
                .map(|(a, at)| {
                    if is_sums(a) {
                        return u16::MAX;
                    }
                    let operand = a.operand.map(|o| 2 + o - u16::from(o > e.sums));
                    let mut own = at.strides[lines.clone()].to_vec();
                    if own.is_empty() {
                        own.push(0);
                    }
                    let steps = (&at.strides[..tiles.rows], &own[..], 0);
                    self.access((operand, a.dtype, true), (at.base + number(at), at.reach), steps)
                })
                .collect();
            self.copied(&body, &accesses, sum);
        }
        Some(())
    }

    /// Copies a body into the row's once-a-row computation, where `sum` replaces the loads of accumulators.
    fn copied(&mut self, body: &Body, accesses: &[u16], sum: NodeId) {
        let access = |a: u16| accesses[a as usize];
        let mut place: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
        for node in &body.nodes {
            let new = match *node {
                Node::Load { access: a } if access(a) == u16::MAX => sum,
                Node::Load { access: a } => self.builder.node(Node::Load { access: access(a) }),
                Node::Index { access: a, dtype } => self.builder.node(Node::Index { access: access(a), dtype }),
                Node::Valid { access: a } => self.builder.node(Node::Valid { access: access(a) }),
                Node::Scalar { slot, dtype } => self.builder.scalar(slot, dtype),
                Node::Gather { access: a, offset, inside } => {
                    let args = [offset, inside].map(|n| place[n.index()]);
                    self.builder.node(Node::Gather { access: access(a), offset: args[0], inside: args[1] })
                }
                other => self.builder.node(other.with_args(|a| place[a.index()])),
            };
            place.push(new);
        }
        for s in &body.stores {
            self.builder.store(place[s.node.index()], access(s.access));
        }
    }
}

/// Offset in elements of line `i` of a group of dimensions.
fn offset(mut i: usize, extents: &[usize], dims: std::ops::Range<usize>, strides: &[isize]) -> isize {
    let mut to = 0;
    for d in dims.rev() {
        to += (i % extents[d]) as isize * strides[d];
        i /= extents[d];
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_kernel::{MapGeometry, TileBox};

    /// Product of `few` rows by 130 columns of 96 terms, halved by the epilogue. Its geometry is the planner's, where a
    /// single row is a batch of its own.
    fn halved(few: usize) -> (Contraction, ContractionGeometry) {
        let (n, k) = (130usize, 96usize);
        let mut b = BodyBuilder::new(false);
        let access = |operand| Access {
            operand: Some(operand),
            dtype: DType::F32,
            class: AccessClass::Contiguous,
            per_row: false,
        };
        let (sums, result) = (b.access(access(0)), b.access(access(1)));
        let x = b.node(Node::Load { access: sums });
        let half = b.constant(thalweg_ir::Scalar::Float(0.5), DType::F32);
        let y = b.element(ElementOp::Mul, &[x, half]);
        b.store(y, result);
        let mut strides = [0; MAX_RANK];
        strides[..2].copy_from_slice(&[n as isize, 1]);
        let at = AccessGeometry { base: 0, strides, map: None, reach: Some((0, few * n - 1)), distinct: few * n };
        let geometry = MapGeometry { extents: vec![few, n], accesses: vec![at.clone(), at] };
        let rows = usize::from(few == 1);
        let boxes = vec![TileBox { origin: vec![0; 2], geometry }];
        let tiles = TileGeometry { extents: vec![few, n], rows, columns: 1, boxes };
        let epilogue = Epilogue { kernel: Kernel::Map(b.finish()), sums: 0, reads: 1, writes: 1, scalars: 0 };
        let product = MatmulGeometry {
            batch: vec![],
            m: few,
            n,
            k,
            a: (0, k as isize, 1),
            b: (0, 1, k as isize),
            reach: [Some((0, few * k - 1)), Some((0, n * k - 1))],
        };
        let c = Contraction { epilogue: Some(Box::new(epilogue)), ..Contraction::unfused(DType::F32, Precision::Full) };
        (c, ContractionGeometry { epilogue: Some(Box::new(tiles)), ..ContractionGeometry::unfused(product) })
    }

    #[test]
    fn few_rows_are_as_many_folds_over_rows_of_weights() {
        for few in [1, 2, 8] {
            let (c, g) = halved(few);
            let (kernel, geometry) = kernel(&c, &g, DType::F32).expect("few rows");
            let (Kernel::Rows { body, orientation }, Geometry::Rows(g)) = (kernel, geometry) else { panic!("rows") };
            assert_eq!((body.folds.len(), body.stores.len(), orientation), (few, few, Orientation::InnerAxis));
            assert_eq!(g.extents, if few == 1 { vec![1, 130, 96] } else { vec![130, 96] });
            assert_eq!(g.kept, g.extents.len() - 1);
            // Weights are loaded once, then each row.
            let loads: Vec<Option<u16>> = body.accesses.iter().map(|a| a.operand).collect();
            assert_eq!(loads.iter().filter(|o| **o == Some(1)).count(), 1);
            assert_eq!(loads.iter().filter(|o| **o == Some(2)).count(), few);
        }
        let (c, g) = halved(9);
        assert!(kernel(&c, &g, DType::F32).is_none(), "nine rows are tiles");
    }
}
