//! Groups: many independent kernels in one dispatch.
//!
//! In: the programs of the sub-kernels (equal ones share one program), and how operands and scalars are split among
//! them. Out: launches. All sub-kernels are checked before any runs. If there is little work, the calling thread runs
//! the sub-kernels one after the other. More work is cut into *units* of about equal time, which threads take
//! dynamically: several small sub-kernels, a single one, or some chunks of a large map. A row sub-kernel is never cut,
//! which fixes its order of folds. Units depend on sizes alone, and the results of a chunk do not depend on its thread:
//! so bits do not depend on the number of threads.

use crate::launch::Job;
use crate::launch_common::{Scratch, with_scratch};
use crate::map::{BoxesProgram, MapProgram};
use crate::reduction::{self, Failure, RowsProgram};
use crate::threads::Threads;
use std::ops::Range;
use std::sync::Arc;
use thalweg_kernel::{Geometry, GroupPart, Moved, RowGeometry};
use thalweg_runtime::{Buffer, Error, Program, ProgramInfo};

/// Estimated nanoseconds of a unit: long enough that taking one (a contended atomic addition) costs nothing beside it,
/// and short enough that threads finish close together.
const UNIT_NS: f64 = 10_000.0;
/// Fixed overhead of a sub-kernel in nanoseconds, checks included, beside its loop (measured by `tests/execution/groups.rs`).
const PART_NS: f64 = 50.0;

/// Compiled program of a sub-kernel of a group.
#[derive(Clone, Debug)]
pub enum PartProgram {
    /// Map over one domain.
    Map(Arc<MapProgram>),
    /// Map over a domain cut into boxes.
    Boxes(Arc<BoxesProgram>),
    /// A row kernel.
    Rows(Arc<RowsProgram>),
}

impl PartProgram {
    /// The program as a trait object.
    pub fn program(&self) -> Arc<dyn Program> {
        match self {
            PartProgram::Map(p) => p.clone(),
            PartProgram::Boxes(p) => p.clone(),
            PartProgram::Rows(p) => p.clone(),
        }
    }
}

struct SubKernel {
    program: PartProgram,
    reads: usize,
    writes: usize,
    scalars: usize,
}

/// A compiled group of sub-kernels, which one launch runs.
pub struct GroupProgram {
    parts: Vec<SubKernel>,
    /// Total number of operands that sub-kernels read: they precede the written ones in the operand list of a launch.
    reads: usize,
    /// Total number of operands, and of scalars.
    operands: usize,
    scalars: usize,
    /// For each written operand, whether its sub-kernel may read inputs again after writing it; empty if no sub-kernel
    /// does.
    rereads: Vec<bool>,
    info: ProgramInfo,
    threads: Arc<Threads>,
    /// Thread pool of the calling thread alone, for row sub-kernels.
    alone: Threads,
}

/// Checked launch of a sub-kernel, or of one box of a map in boxes.
enum Work<'a> {
    Map(Job<'a>),
    Rows { program: &'a RowsProgram, geometry: &'a RowGeometry, operands: &'a [&'a Buffer], scalars: &'a [u64] },
}

/// Unit that a thread takes at a time: a range of works, or (`chunks`) some chunks of a single work.
#[derive(Clone, Debug, PartialEq)]
struct Unit {
    works: Range<usize>,
    chunks: Option<Range<usize>>,
}

impl GroupProgram {
    /// Creates a group of the sub-kernels `parts`; `programs` are the programs of its distinct kernels, which parts
    /// refer to by index.
    pub fn new(programs: &[PartProgram], parts: &[GroupPart], threads: Arc<Threads>) -> GroupProgram {
        let parts: Vec<SubKernel> = parts
            .iter()
            .map(|p| SubKernel {
                program: programs[p.kernel as usize].clone(),
                reads: p.reads as usize,
                writes: p.writes as usize,
                scalars: p.scalars as usize,
            })
            .collect();
        let reads = parts.iter().map(|p| p.reads).sum();
        let again = |p: &SubKernel| p.program.program().rereads_for(p.reads);
        let mut rereads: Vec<bool> = parts.iter().flat_map(|p| std::iter::repeat_n(again(p), p.writes)).collect();
        let operands = reads + rereads.len();
        if !rereads.contains(&true) {
            rereads.clear();
        }
        GroupProgram {
            reads,
            operands,
            scalars: parts.iter().map(|p| p.scalars).sum(),
            rereads,
            info: reduction::sum(programs.iter().map(|p| p.program().info())),
            threads,
            alone: Threads::new(1, f64::INFINITY),
            parts,
        }
    }

    /// Reorders the operands of a launch (all reads, then all writes) by sub-kernel: reads and writes of the first one,
    /// reads and writes of the second one, and so on.
    fn by_part<'a>(&self, operands: &[&'a Buffer]) -> Vec<&'a Buffer> {
        let (mut reads, mut writes) = operands.split_at(self.reads);
        let mut all = Vec::with_capacity(operands.len());
        for part in &self.parts {
            let (own, rest) = reads.split_at(part.reads);
            all.extend_from_slice(own);
            reads = rest;
            let (own, rest) = writes.split_at(part.writes);
            all.extend_from_slice(own);
            writes = rest;
        }
        all
    }

    /// Checks all sub-kernels and returns their works, in order; `operands` are by sub-kernel.
    fn works<'a>(
        &'a self,
        geometries: &'a [Geometry],
        mut operands: &'a [&'a Buffer],
        mut scalars: &'a [u64],
    ) -> Result<Vec<Work<'a>>, Error> {
        let mut works = Vec::with_capacity(self.parts.len());
        for (part, geometry) in self.parts.iter().zip(geometries) {
            let (own, rest) = operands.split_at(part.reads + part.writes);
            let (bits, others) = scalars.split_at(part.scalars);
            (operands, scalars) = (rest, others);
            match (&part.program, geometry) {
                (PartProgram::Map(program), Geometry::Map(g)) => works.push(Work::Map(program.job(g, own, bits)?)),
                (PartProgram::Boxes(all), Geometry::Boxes(boxes)) => {
                    assert_eq!(boxes.len(), all.programs().len(), "one geometry a box");
                    for (program, g) in all.programs().iter().zip(boxes) {
                        works.push(Work::Map(program.job(g, own, bits)?));
                    }
                }
                (PartProgram::Rows(program), Geometry::Rows(geometry)) => {
                    program.check(geometry, own, bits);
                    works.push(Work::Rows { program, geometry, operands: own, scalars: bits });
                }
                (_, geometry) => panic!("a part of another kind is launched with {geometry:?}"),
            }
        }
        Ok(works)
    }

    fn run(&self, work: &Work<'_>, chunks: Option<Range<usize>>, scratch: &mut Scratch) -> Result<(), Error> {
        match work {
            Work::Map(job) => Ok(job.run(chunks.unwrap_or(0..job.chunks), scratch)?),
            // SAFETY: checked when the work was built.
            Work::Rows { program, geometry, operands, scalars } => unsafe {
                program.run(geometry, operands, scalars, &self.alone)
            },
        }
    }
}

impl Work<'_> {
    fn estimate_ns(&self) -> f64 {
        PART_NS
            + match self {
                Work::Map(job) => job.estimate_ns,
                Work::Rows { program, geometry, .. } => program.estimate_ns(geometry),
            }
    }

    fn chunks(&self) -> usize {
        match self {
            Work::Map(job) => job.chunks,
            Work::Rows { .. } => 1,
        }
    }
}

impl Program for GroupProgram {
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let Geometry::Group(geometries) = geometry else { panic!("a group is launched with {geometry:?}") };
        assert_eq!(geometries.len(), self.parts.len(), "one geometry a part");
        assert_eq!(operands.len(), self.operands, "operands of a group");
        assert!(scalars.len() >= self.scalars, "{} scalars, {} given", self.scalars, scalars.len());
        let operands = self.by_part(operands);
        debug_assert!(self.are_independent(&operands), "what a part of a group writes is another's operand");
        let works = self.works(geometries, &operands, scalars)?;
        let estimate = works.iter().map(Work::estimate_ns).sum();
        if self.threads.for_work(estimate) == 1 {
            return with_scratch(|scratch| works.iter().try_for_each(|work| self.run(work, None, scratch)));
        }
        let units = units(works.iter().map(|w| (w.estimate_ns(), w.chunks())));
        let failure = Failure::default();
        self.threads.run(units.len(), 1, estimate, |range| {
            // After an index out of range, the remaining work is skipped.
            if failure.any() {
                return;
            }
            with_scratch(|scratch| {
                for unit in &units[range] {
                    for work in &works[unit.works.clone()] {
                        failure.note(self.run(work, unit.chunks.clone(), scratch));
                    }
                }
            });
        });
        failure.result()
    }

    fn moves(&self, geometry: &Geometry, _: bool) -> Moved {
        let Geometry::Group(geometries) = geometry else { panic!("a group is launched with {geometry:?}") };
        // All boxes of a sub-kernel run, even if its result overwrites an input.
        self.parts.iter().zip(geometries).map(|(p, g)| p.program.program().moves(g, false)).sum()
    }

    fn info(&self) -> ProgramInfo {
        self.info.clone()
    }

    fn rereads_for(&self, operand: usize) -> bool {
        operand.checked_sub(self.reads).and_then(|w| self.rereads.get(w)).is_some_and(|&r| r)
    }
}

impl GroupProgram {
    /// Whether no sub-kernel writes an operand that another one reads or writes; `operands` by sub-kernel.
    fn are_independent(&self, mut operands: &[&Buffer]) -> bool {
        let mut all: Vec<(usize, usize, usize, bool)> = vec![];
        for (n, part) in self.parts.iter().enumerate() {
            let (own, rest) = operands.split_at(part.reads + part.writes);
            let place = |(i, b): (usize, &&Buffer)| (b.address() as usize, b.bytes(), n, i >= part.reads);
            all.extend(own.iter().enumerate().map(place).filter(|o| o.1 > 0));
            operands = rest;
        }
        all.sort_unstable();
        // Buffers are either identical or disjoint.
        all.chunk_by(|a, b| a.0 == b.0).all(|same| same.iter().all(|o| !o.3 || same.iter().all(|p| p.2 == o.2)))
    }
}

impl std::fmt::Debug for GroupProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "group of {} parts, {:?}", self.parts.len(), self.info)
    }
}

/// Cuts works into units of about [`UNIT_NS`]. Each item is a work's estimated time in nanoseconds, and its number of
/// chunks.
fn units(works: impl Iterator<Item = (f64, usize)>) -> Vec<Unit> {
    let mut units = vec![];
    let (mut first, mut ns, mut n) = (0, 0.0, 0);
    for (estimate, chunks) in works {
        if ns > 0.0 && ns + estimate > UNIT_NS {
            units.push(Unit { works: first..n, chunks: None });
            (first, ns) = (n, 0.0);
        }
        if chunks > 1 && estimate >= 2.0 * UNIT_NS {
            let each = ((chunks as f64 * UNIT_NS / estimate) as usize).max(1);
            let cut = |start| Unit { works: n..n + 1, chunks: Some(start..chunks.min(start + each)) };
            units.extend((0..chunks).step_by(each).map(cut));
            first = n + 1;
        } else {
            ns += estimate;
        }
        n += 1;
    }
    if first < n {
        units.push(Unit { works: first..n, chunks: None });
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_cover_everything_once() {
        let works = [(100.0, 1), (9_000.0, 1), (2_000.0, 3), (95_000.0, 24), (50.0, 1), (70_000.0, 1), (50.0, 0)];
        let units = units(works.into_iter());
        let whole = |works: Range<usize>| Unit { works, chunks: None };
        assert_eq!(units[..2], [whole(0..2), whole(2..3)]);
        let cut: Vec<&Unit> = units.iter().filter(|u| u.chunks.is_some()).collect();
        assert!(cut.len() > 8 && cut.iter().all(|u| u.works == (3..4)));
        let chunks: Vec<usize> = cut.iter().flat_map(|u| u.chunks.clone().unwrap()).collect();
        assert_eq!(chunks, (0..24).collect::<Vec<_>>());
        assert_eq!(units[units.len() - 3..], [whole(4..5), whole(5..6), whole(6..7)]);
        assert!(super::units(std::iter::empty()).is_empty());
    }
}
