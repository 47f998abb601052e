//! Prologue of row kernels: coordinates of threads, and storage for the whole kernel.

use crate::body::{Wanted, gathers, wanted};
use crate::emit::index::decompose;
use crate::ir::{Expr, Statement, Type};
use crate::kernels::reduce::emit::{Rows, live, number};
use crate::kernels::reduce::{RowSplit, RowStrategy};

impl Rows<'_> {
    /// Flags for all accesses and buffers: whether the kernel uses each.
    fn used(&self) -> Vec<bool> {
        let mut used = vec![false; self.accesses.list.len()];
        for p in &self.phases.list {
            for (u, w) in used.iter_mut().zip(wanted(&p.body)) {
                *u |= w != Wanted::default();
            }
            p.body.stores.iter().for_each(|s| used[s.access as usize] = true);
        }
        used
    }

    /// Emits the declarations and coordinates that precede all phases.
    pub(super) fn begin(&self) -> Vec<Statement> {
        let t = self.t;
        let used = self.used();
        let mut out = self.accesses.declare(&|k| k < self.first_buffer && used[k]);
        let set = |name: &str, value: Expr| Statement::Let(name.into(), value);
        out.push(set("rows", self.params.rows.read(t)));
        out.push(set("n", self.params.points.read(t)));
        if let RowStrategy::Pairwise { rows, .. } = self.class.strategy {
            out.extend(self.stand_in_pairs(rows));
            self.storage(&mut out);
            return out;
        }
        let tile = self.chunk(&mut out);
        let row = match self.class.strategy {
            RowStrategy::Registers { group, .. } | RowStrategy::Reread { group } => {
                let rows = number(self.class.strategy.rows() as usize, t);
                let group = || number(group.into(), Type::U32);
                out.push(set("t", Expr::Thread % group()));
                tile.to(t) * rows + (Expr::Thread / group()).to(t)
            }
            RowStrategy::OuterAxis { wide, .. } | RowStrategy::RegistersOfBlocks { wide, .. } => {
                let side = || number(wide.into(), Type::U32);
                out.push(set("tx", Expr::Thread % side()));
                out.push(set("t", Expr::Thread / side()));
                tile.to(t) * number(wide.into(), t) + Expr::name("tx", Type::U32).to(t)
            }
            RowStrategy::Pairwise { .. } => unreachable!("they stand elsewhere"),
            RowStrategy::Ordered => {
                let warp = || number(32, Type::U32);
                out.push(set("t", Expr::Thread % warp()));
                tile.to(t) * number(8, t) + (Expr::Thread / warp()).to(t)
            }
        };
        let place = |name: &str| self.place(name);
        match self.class.strategy {
            RowStrategy::Ordered => {
                out.push(set("row", row));
                out.push(Statement::when(place("row").ge(place("rows")), vec![Statement::Return]));
                out.push(set("live", Expr::Constant(thalweg_ir::DType::Bool, 1)));
            }
            // Threads beyond the last row join barriers and shuffles of the others, with the last row's data. That may
            // be overwritten already, so an out-of-range index in it is not reported.
            _ => {
                out.push(set("own_row", row));
                out.push(set("live", place("own_row").lt(place("rows"))));
                let last = place("rows") - number(1, t);
                out.push(set("row", live().select(place("own_row"), last)));
            }
        }
        if gathers(self.body) {
            out.push(set("fault", live().select(self.params.fault.read(Type::U64), number(0, Type::U64))));
        }
        out.extend(decompose(&self.class.space, &self.params.body.space, 0..self.row_dims(), place("row"), "i"));
        self.storage(&mut out);
        out
    }

    /// Emits the coordinates of the block's segment of a row; returns the index of its tile of rows.
    fn chunk(&self, out: &mut Vec<Statement>) -> Expr {
        let t = self.t;
        let set = |name: &str, value: Expr| Statement::Let(name.into(), value);
        if !self.class.is_shared() {
            if self.class.split() == RowSplit::Combined {
                out.push(set("chunks", self.params.chunks_or_extent.read(Type::U32)));
            }
            out.push(set("begin", number(0, t)));
            out.push(set("stop", self.place("n")));
            return Expr::Block;
        }
        let [chunk, chunks] = ["chunk", "chunks"].map(|name| Expr::name(name, Type::U32));
        let exchanges = self.class.is_chained() || self.class.is_held_by_blocks();
        let block = if exchanges { self.ticket(out) } else { Expr::Block };
        out.push(set("chunks", self.params.chunks_or_extent.read(Type::U32)));
        out.push(set("tile", block.clone() / chunks.clone()));
        out.push(set("chunk", block % chunks.clone()));
        let place = match self.class.is_chained() && self.scans_from_end() {
            true => chunks - number(1, Type::U32) - chunk,
            false => chunk,
        };
        let (n, begin, length) = (self.place("n"), self.place("begin"), self.params.chunk_points.read(t));
        out.push(set("begin", (place.to(Type::U64) * self.params.chunk_points.read(Type::U64)).to(t)));
        let whole = (n.clone() - begin.clone()).lt(length.clone());
        out.push(set("stop", whole.select(n, begin + length)));
        Expr::name("tile", Type::U32)
    }

    /// Declares registers that are held from the first pass on, buffers in memory, and the values of rows.
    fn storage(&self, out: &mut Vec<Statement>) {
        if let Some((_, steps, _)) = self.held_row() {
            let cached = (0..self.first_buffer).filter(|&k| self.cached(k));
            out.extend(cached.map(|k| self.accesses.elements(k, self.v, &[steps.into()])));
            for (n, &dtype) in self.phases.buffers.iter().enumerate() {
                let shape = vec![steps.into(), self.v as u32];
                out.push(Statement::Registers { name: format!("b{n}"), ty: Type::Held(dtype), shape });
            }
        } else if self.class.stage.is_some() {
            for (n, &dtype) in self.phases.buffers.iter().enumerate() {
                let param = self.params.buffers[n].slot();
                out.push(Statement::Operand { name: format!("b{n}"), ty: Type::Stored(dtype), param });
            }
        }
        for (slot, &dtype) in self.phases.values.iter().enumerate() {
            let (name, ty) = (crate::kernels::reduce::emit::value_name(slot as u16), Type::Held(dtype));
            out.push(match self.is_outer_axis() {
                true => Statement::Registers { name, ty, shape: vec![self.v as u32] },
                false => Statement::Later(name, ty),
            });
        }
    }
}
