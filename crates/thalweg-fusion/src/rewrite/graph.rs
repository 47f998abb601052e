//! Mutable graph of a segment being rewritten: operation numbers stay fixed while their order grows.

use super::{Move, Rewritten};
use crate::segment::{BitSet, Segment};
use thalweg_ir::{Arg, DType, MAX_RANK, Op, RelArg, RelOp, Shape, pack_order};

/// Graph being rewritten; see the module.
pub(super) struct Graph<'a> {
    pub seg: Segment<'a>,
    /// Operations by number: the segment's, some of them changed, then added ones. Arguments refer to these numbers.
    pub ops: Vec<RelOp>,
    pub shapes: Vec<Shape>,
    /// Integer arguments of added operations, in the order of their numbers.
    ints: Vec<Box<[i64]>>,
    /// Number of uses of each operation by operations that are needed.
    pub users: Vec<u32>,
    /// Moves made so far.
    pub moves: Vec<Move>,
    /// Operation numbers in their current order.
    order: Vec<usize>,
}

impl<'a> Graph<'a> {
    pub fn new(seg: Segment<'a>) -> Graph<'a> {
        let (ops, shapes) = (seg.ops.to_vec(), seg.shapes.to_vec());
        let order = (0..ops.len()).collect();
        let mut graph = Graph { seg, ops, shapes, ints: vec![], users: vec![], moves: vec![], order };
        graph.count_users();
        graph
    }

    fn count_users(&mut self) {
        self.users.clear();
        self.users.resize(self.ops.len(), 0);
        for &i in self.order.iter().rev() {
            if self.users[i] == 0 && !self.is_live(i) {
                continue;
            }
            for arg in self.ops[i].args() {
                if let Arg::Op(a) = arg {
                    self.users[a] += 1;
                }
            }
        }
    }

    /// Makes a move, changing the graph; returns `None`, with nothing changed, if it is not legal.
    pub fn make(&mut self, m: Move) -> Option<()> {
        let at = m.at();
        if at >= self.ops.len() || !self.is_needed(at) {
            return None;
        }
        match m {
            Move::Right(_) => self.regroup_right(at)?,
            Move::Left(_) => self.regroup_left(at)?,
            Move::Transpose(_) => self.transpose_product(at)?,
            Move::Rows(_) => self.row_factors_out(at)?,
            Move::Columns(_) => self.column_factors_out(at)?,
            Move::Unroll(_) => self.unroll(at)?,
            Move::Terms(_) => self.product_by_terms(at)?,
            Move::Order(_) => self.reorder(at)?,
        }
        self.moves.push(m);
        self.count_users();
        Some(())
    }

    /// Converts the graph to the rewritten segment, with operations in their current order.
    pub fn finish(self) -> Rewritten {
        let mut place = vec![0; self.ops.len()];
        self.order.iter().enumerate().for_each(|(at, &i)| place[i] = at);
        let moved = |a: &RelArg| match a.decode() {
            Arg::Op(i) => RelArg::op(place[i]),
            _ => *a,
        };
        let placed = |&i: &usize| RelOp { args: self.ops[i].args.each_ref().map(moved), ..self.ops[i] };
        let mut live = BitSet::new(self.ops.len());
        self.seg.live.iter().for_each(|i| live.insert(place[i]));
        let ops = self.order.iter().map(placed).collect();
        let shapes = self.order.iter().map(|&i| self.shapes[i]).collect();
        let recorded = self.seg.ops.len();
        let mut rest = self.seg.ints;
        // Recorded operations keep their order, and a move changes none that has integers.
        let ints = self.order.iter().flat_map(|&i| match i.checked_sub(recorded) {
            Some(added) => &self.ints[added],
            None => rest.split_off(..self.seg.ops[i].int_count()).expect("as many as its operation has"),
        });
        let ints = ints.copied().collect();
        place.truncate(recorded);
        Rewritten { ops, shapes, ints, live, places: place }
    }

    /// Adds an operation without scalars in front of operation `before`; returns it as an argument. A reshape has the
    /// sizes of `shape`; other operations have no integers.
    pub fn add(&mut self, before: usize, op: RelOp, shape: Shape) -> RelArg {
        let at = self.order.iter().position(|&i| i == before).expect("it stands somewhere");
        self.add_at(at, op, shape)
    }

    /// Adds an operation like [`Graph::add`], behind operation `after`; returns its number.
    pub fn add_after(&mut self, after: usize, op: RelOp, shape: Shape) -> usize {
        let at = self.order.iter().position(|&i| i == after).expect("it stands somewhere");
        self.add_at(at + 1, op, shape);
        self.ops.len() - 1
    }

    fn add_at(&mut self, at: usize, op: RelOp, shape: Shape) -> RelArg {
        let sizes = shape.iter().filter(|_| op.op == Op::Reshape).map(|&n| n as i64);
        self.ints.push(sizes.collect());
        debug_assert!(op.int_count() == self.ints[self.ints.len() - 1].len() && op.args().all(|a| a != Arg::Scalar));
        self.order.insert(at, self.ops.len());
        self.ops.push(op);
        self.shapes.push(shape);
        self.users.push(1);
        RelArg::op(self.ops.len() - 1)
    }

    /// Replaces the result of an operation as an argument by another value, except in operation `but`.
    pub fn redirect(&mut self, i: usize, to: RelArg, but: Option<usize>) {
        for (n, op) in self.ops.iter_mut().enumerate() {
            if Some(n) != but {
                op.args.iter_mut().filter(|a| a.decode() == Arg::Op(i)).for_each(|a| *a = to);
            }
        }
    }

    /// Numbers of needed operations, in order.
    pub fn needed(&self) -> Vec<usize> {
        self.order.iter().copied().filter(|&i| self.is_needed(i)).collect()
    }

    /// Whether the result of an operation is live.
    pub fn is_live(&self, i: usize) -> bool {
        i < self.seg.ops.len() && self.seg.live.has(i)
    }

    pub fn is_needed(&self, i: usize) -> bool {
        self.users[i] > 0 || self.is_live(i)
    }

    /// Whether an operation has exactly one use and its result is not live.
    pub fn is_inner(&self, i: usize) -> bool {
        self.users[i] == 1 && !self.is_live(i)
    }

    pub fn shape(&self, arg: RelArg) -> Option<Shape> {
        match arg.decode() {
            Arg::Op(i) => Some(self.shapes[i]),
            Arg::Input(n) => Some(self.seg.inputs[n].1.shape),
            Arg::Scalar | Arg::None => None,
        }
    }

    pub fn dtype(&self, arg: RelArg) -> Option<DType> {
        match arg.decode() {
            Arg::Op(i) => Some(self.ops[i].dtype),
            Arg::Input(n) => Some(self.seg.inputs[n].0),
            Arg::Scalar | Arg::None => None,
        }
    }

    /// Operands of operation `i`, if it is a matrix product.
    pub fn factors(&self, i: usize) -> Option<[RelArg; 2]> {
        (self.ops[i].op == Op::Matmul).then(|| [self.ops[i].args[0], self.ops[i].args[1]])
    }

    /// Matrix product that computes an argument and has no other use; it may be reshaped and reshaped back in between.
    pub fn inner_product(&self, arg: RelArg) -> Option<usize> {
        let wanted = self.shape(arg)?;
        let mut at = arg;
        loop {
            let Arg::Op(i) = at.decode() else { return None };
            match self.ops[i].op {
                _ if !self.is_inner(i) => return None,
                Op::Matmul => return (self.shapes[i] == wanted).then_some(i),
                Op::Reshape => at = self.ops[i].args[0],
                _ => return None,
            }
        }
    }

    /// Shape of the product of `a` and `b`; `None` if they cannot be multiplied.
    pub fn product_shape(&self, a: RelArg, b: RelArg) -> Option<Shape> {
        let (x, y) = (self.shape(a)?, self.shape(b)?);
        let ([m, k], [inner, n]) = (last_two(x)?, last_two(y)?);
        let batch = batch(x).broadcast(&batch(y))?;
        (k == inner && batch.rank() + 2 <= MAX_RANK).then(|| {
            let shape = batch.insert(batch.rank(), m);
            shape.insert(shape.rank(), n)
        })
    }

    /// Adds the product of `a` and `b` in front of operation `like`, with the dtype of that operation.
    pub fn add_product(&mut self, like: usize, a: RelArg, b: RelArg) -> Option<RelArg> {
        let shape = self.product_shape(a, b)?;
        let dtype = self.ops[like].dtype;
        let args = RelOp::pack(&[a, b]);
        Some(self.add(like, RelOp { op: Op::Matmul, dtype, rank: shape.rank() as u8, attr: 0, args }, shape))
    }

    /// Adds the transpose of the matrix `of` in front of operation `before`.
    pub fn add_transposed(&mut self, before: usize, of: RelArg) -> Option<RelArg> {
        let (shape, dtype) = (self.shape(of)?, self.dtype(of)?);
        let rank = shape.rank();
        let attr = transposing(rank)?;
        let mut turned = shape;
        turned.dims_mut().swap(rank - 1, rank - 2);
        let op = RelOp { op: Op::Permute, dtype, rank: rank as u8, attr, args: RelOp::pack(&[of]) };
        Some(self.add(before, op, turned))
    }

    /// Adds a reshape of `of` in front of operation `before`.
    pub fn add_reshaped(&mut self, before: usize, of: RelArg, shape: Shape) -> Option<RelArg> {
        let dtype = self.dtype(of)?;
        let op = RelOp { op: Op::Reshape, dtype, rank: shape.rank() as u8, attr: 0, args: RelOp::pack(&[of]) };
        Some(self.add(before, op, shape))
    }

    /// Adds a conversion of `of` in front of operation `before`, unless it has that dtype.
    pub fn add_cast(&mut self, before: usize, of: RelArg, dtype: DType) -> Option<RelArg> {
        if self.dtype(of)? == dtype {
            return Some(of);
        }
        let shape = self.shape(of)?;
        let op = RelOp { op: Op::Cast, dtype, rank: shape.rank() as u8, attr: 0, args: RelOp::pack(&[of]) };
        Some(self.add(before, op, shape))
    }

    /// If an argument is a transpose (of the last two dimensions): the index of that permutation, and its source.
    pub fn transposed(&self, arg: RelArg) -> Option<(usize, RelArg)> {
        let Arg::Op(i) = arg.decode() else { return None };
        let turns = self.ops[i].op == Op::Permute && Some(self.ops[i].attr) == transposing(self.shapes[i].rank());
        turns.then(|| (i, self.ops[i].args[0]))
    }
}

/// [`RelOp::attr`] of the permutation that swaps the last two of `rank` dimensions.
fn transposing(rank: usize) -> Option<u32> {
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(rank.checked_sub(2)?, rank - 1);
    Some(pack_order(&order))
}

/// Last two dimensions of a shape: rows and columns. `None` for fewer dimensions.
pub(super) fn last_two(shape: Shape) -> Option<[usize; 2]> {
    shape.last_chunk().copied()
}

/// All dimensions of a shape but the last two: the batch.
pub(super) fn batch(shape: Shape) -> Shape {
    Shape::new(&shape[..shape.rank().saturating_sub(2)])
}
