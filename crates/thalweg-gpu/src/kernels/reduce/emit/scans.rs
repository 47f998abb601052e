//! Scans of rows in registers, between two passes of a kernel whose blocks have whole rows, or of a chained scan whose
//! blocks have tiles of a row.
//!
//! In: the buffer that a pass has filled. Out: statements that replace it with the running results. Only the look-back
//! goes through memory: 16 bytes a tile, and 32 for each group of 32 tiles.

use crate::ir::{Action, Expr, Statement, Type};
use crate::kernels::reduce::emit::{Rows, thread};
use thalweg_kernel::Phase;

impl Rows<'_> {
    /// Emits the draw of the block's ticket: the block's position in the order in which blocks begin.
    pub(super) fn ticket(&self, out: &mut Vec<Statement>) -> Expr {
        out.push(Statement::Ticket { name: "own".into(), param: self.params.counters_or_exchange.slot() });
        Expr::Drawn("own".into())
    }

    /// Whether the scan of a chained stage is reversed: from the last element to the first.
    pub(super) fn scans_from_end(&self) -> bool {
        let phase = self.class.stage.filter(|s| s.chained).map(|s| &self.phases.list[s.phase as usize]);
        phase.is_some_and(|p| p.scans.iter().any(|s| s.scan.reverse))
    }

    /// Emits the scans after a pass, where rows are held.
    pub(super) fn scans(&self, phase: &Phase) -> Vec<Statement> {
        let mut out = vec![];
        let Some((group, steps, _)) = self.held_row() else { return out };
        for s in &phase.scans {
            let mut parts = (u32::from(steps) * u32::from(group.div_ceil(32))).max(1);
            // Prefixes of each thread's vectors go to shared memory where there are many: in registers they would cost
            // a resident block.
            if self.class.is_chained() && steps >= 8 && self.phases.buffers[s.from as usize].size() <= 4 {
                parts += u32::from(steps) * u32::from(group);
            }
            let name = format!("parts{}", s.from);
            out.push(Statement::Shared { name: name.clone(), ty: Type::Wide(s.from), shape: vec![parts] });
            let chained = self.class.is_chained();
            let count = if chained { self.place("stop") - self.place("begin") } else { self.place("n") };
            let tile = ["chunk", "chunks"].map(|name| Expr::name(name, Type::U32));
            out.push(Statement::Do(Action::Scan {
                number: s.from,
                group,
                back: s.scan.reverse,
                buffer: format!("b{}", s.from),
                thread: thread(),
                count: count.to(Type::U32),
                parts: name,
                links: chained.then(|| ("own".into(), [vec![self.place("row").to(Type::U32)], tile.to_vec()].concat())),
            }));
        }
        out
    }
}
