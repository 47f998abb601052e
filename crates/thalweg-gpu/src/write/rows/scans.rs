//! Scans of rows that lie in registers: between two passes of a kernel whose blocks have whole rows, or tiles of a row
//! whose blocks pass on what comes before.
//!
//! In: the buffer that a pass has filled. Out: statements that leave the running results in its place. Nothing goes
//! through memory but what blocks tell each other: 16 bytes a tile, 32 for each 32 of them.

use super::{Rows, thread};
use crate::ir::{Action, Expr, Statement, Type};
use thalweg_kernel::Phase;

impl Rows<'_> {
    /// Draws a block's number in the order of their beginning.
    pub(super) fn ticket(&self, out: &mut Vec<Statement>) -> Expr {
        out.push(Statement::Ticket { name: "own".into(), word: self.slots.counters });
        Expr::Drawn("own".into())
    }

    /// Whether the scan of a linked stage runs from the end.
    pub(super) fn linked_back(&self) -> bool {
        let phase = self.class.stage.filter(|s| s.linked).map(|s| &self.phases.list[s.phase as usize]);
        phase.is_some_and(|p| p.scans.iter().any(|s| s.scan.reverse))
    }

    /// The scans behind a pass, where rows are held.
    pub(super) fn scans(&self, phase: &Phase) -> Vec<Statement> {
        let mut out = vec![];
        let Some((group, steps, _)) = self.held_row() else { return out };
        for s in &phase.scans {
            let mut parts = (u32::from(steps) * u32::from(group.div_ceil(32))).max(1);
            // What is before each vector of each thread, where there are many: beside them it would take a block's registers.
            if self.class.is_linked() && steps >= 8 && self.phases.buffers[s.from as usize].size() <= 4 {
                parts += u32::from(steps) * u32::from(group);
            }
            let name = format!("parts{}", s.from);
            out.push(Statement::Shared { name: name.clone(), ty: Type::Wide(s.from), shape: vec![parts] });
            let linked = self.class.is_linked();
            let count = if linked { self.place("stop") - self.place("begin") } else { self.place("n") };
            let tile = ["chunk", "chunks"].map(|name| Expr::name(name, Type::U32));
            out.push(Statement::Do(Action::Scan {
                number: s.from,
                group,
                back: s.scan.reverse,
                buffer: format!("b{}", s.from),
                thread: thread(),
                count: count.to(Type::U32),
                parts: name,
                links: linked.then(|| ("own".into(), [vec![self.place("row").to(Type::U32)], tile.to_vec()].concat())),
            }));
        }
        out
    }
}
