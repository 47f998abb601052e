//! Scans of rows that lie in registers (`scanned.cuh`): between two passes of a kernel whose blocks have whole rows, or
//! tiles of a row whose blocks pass on what comes before.
//!
//! In: the buffer that a pass has filled. Out: source that leaves the running results in its place. Nothing goes
//! through memory but what blocks tell each other: 16 bytes a tile, 32 for each 32 of them.

use super::{Phases, Writer, held};
use crate::render::scan::Running;
use std::fmt::Write;
use thalweg_ir::DType;
use thalweg_kernel::Phase;

/// What stands behind the prelude.
pub const SCANNED: &str = concat!(include_str!("../told.cuh"), include_str!("../scanned.cuh"));
/// What blocks of a launch tell each other.
pub const TOLD: &str = include_str!("../told.cuh");

/// What is accumulated by the scans of a kernel that holds its rows, as structs in front of it.
pub(super) fn definitions(phases: &Phases) -> String {
    let mut out = String::new();
    for s in phases.list.iter().flat_map(|p| &p.scans) {
        let dtype = phases.buffers[s.from as usize];
        let Running { wide, identity, combined, functions } = Running::new(s.scan.op, dtype);
        let element = held(dtype);
        let narrowed = narrowed(dtype);
        let _ = write!(
            out,
            "\n{functions}\nstruct Scan{} {{\n  typedef {wide} Wide;\n  FN static Wide identity() {{ return {identity}; }}\n  FN static Wide of(Wide x, Wide y) {{ return {combined}; }}\n  FN static Wide wide({element} x) {{ return (Wide)x; }}\n  FN static {element} narrow(Wide y) {{ return {narrowed}; }}\n}};",
            s.from
        );
    }
    out
}

/// An accumulated value, `y`, as one in a register.
fn narrowed(dtype: DType) -> String {
    match dtype {
        DType::F64 => "y".into(),
        DType::BF16 => "bf16_of(y)".into(),
        DType::F16 => "f16_of(y)".into(),
        // Sums modulo 2.
        DType::Bool => "(y & 1) != 0".into(),
        other => format!("({})y", held(other)),
    }
}

impl Writer<'_> {
    /// Draws a block's number in the order of their beginning; that, and the number of its tile in memory.
    pub(super) fn ticket(&self, out: &mut String) -> (&'static str, &'static str) {
        let _ = writeln!(
            out,
            "  u64 *const words = (u64 *)a.w[{}];\n  __shared__ u64 drawn;\n  const Ticket own = ticket(words, &drawn);",
            self.slots.counters
        );
        ("own.number", if self.linked_back() { "(chunks - 1 - chunk)" } else { "chunk" })
    }

    /// Whether the scan of a linked stage runs from the end.
    fn linked_back(&self) -> bool {
        let phase = self.class.stage.filter(|s| s.linked).map(|s| &self.phases.list[s.phase as usize]);
        phase.is_some_and(|p| p.scans.iter().any(|s| s.scan.reverse))
    }

    /// The scans behind a pass, where rows are held.
    pub(super) fn scans(&self, phase: &Phase) -> String {
        let mut out = String::new();
        let Some((group, steps, _)) = self.held_row() else { return out };
        for s in &phase.scans {
            let (number, back) = (s.from, s.scan.reverse);
            let parts = (steps as usize * group.div_ceil(32) as usize).max(1);
            let (count, at) = match self.class.is_linked() {
                true => ("stop - begin", "links(words, own, (u32)row, chunk, chunks)"),
                false => ("n", "Alone()"),
            };
            let _ = writeln!(
                out,
                "  __shared__ Scan{number}::Wide parts{number}[{parts}];\n  scan_row<Scan{number}, {group}, {back}>(b{number}, t, (u32)({count}), parts{number}, {at});"
            );
        }
        out
    }
}
