//! Compiled map kernels: one body, or one body per box of a domain that is cut into boxes.

use crate::engine::{Choice, Engine};
use crate::flat::Facts;
use crate::launch::Job;
use crate::launch_common::with_scratch;
use crate::narrow::Widened;
use crate::prepare::prepare;
use crate::reduction;
use crate::repack::Repacked;
use crate::threads::Threads;
use crate::traffic;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use thalweg_kernel::{Body, Geometry, MapGeometry, Moved, copies, in_place_operand};
use thalweg_runtime::{Buffer, Error, Program, ProgramInfo};

/// A compiled map kernel.
#[derive(Debug)]
pub struct MapProgram {
    engine: Engine,
    body: Body,
    facts: Facts,
    widened: Widened,
    repacked: Repacked<MapProgram>,
    choice: Choice,
    threads: Arc<Threads>,
}

impl MapProgram {
    /// Compiles a body.
    pub fn new(body: &Body, isa: Choice, threads: Arc<Threads>) -> MapProgram {
        let (engine, facts) = (Engine::new(body, isa), Facts::new(body));
        let (widened, repacked) = (Widened::new(isa), Repacked::new(body));
        MapProgram { engine, body: body.clone(), facts, widened, repacked, choice: isa, threads }
    }

    /// Builds a checked launch of the map.
    ///
    /// # Errors
    /// As [`Job::new`], and its panics.
    pub fn job<'a>(
        &'a self,
        geometry: &'a MapGeometry,
        operands: &'a [&'a Buffer],
        scalars: &'a [u64],
    ) -> Result<Job<'a>, Error> {
        Job::new((&self.engine, &self.body, &self.facts, &self.widened), geometry, operands, scalars)
    }

    /// Launches the map, after packing the operands that rows read again.
    fn launch_map(&self, geometry: &MapGeometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let domain = (&geometry.extents[..], geometry.extents.len() - 1);
        if let Some(packing) = self.repacked.packing(&self.body, &geometry.accesses, domain)
            && let Some(program) =
                self.repacked.variant(&packing, |body| MapProgram::new(body, self.choice, self.threads.clone()))
        {
            return packing.with_copies(&geometry.accesses, operands, |accesses, operands| {
                let packed = MapGeometry { extents: geometry.extents.clone(), accesses };
                program.launch_as_is(&packed, operands, scalars)
            });
        }
        self.launch_as_is(geometry, operands, scalars)
    }

    fn launch_as_is(&self, geometry: &MapGeometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let job = self.job(geometry, operands, scalars)?;
        // After an index out of range, the remaining work is skipped.
        let failed = AtomicBool::new(false);
        self.threads.run(job.chunks, job.grain, job.estimate_ns, |range| {
            if !failed.load(Relaxed) && with_scratch(|scratch| job.run(range, scratch)).is_err() {
                failed.store(true, Relaxed);
            }
        });
        // Helpers have finished when `run` returns.
        if failed.into_inner() { Err(crate::engine::OutOfRange.into()) } else { Ok(()) }
    }
}

impl Program for MapProgram {
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let Geometry::Map(geometry) = geometry else { panic!("a map kernel is launched with {geometry:?}") };
        self.launch_map(geometry, operands, scalars)
    }

    fn moves(&self, geometry: &Geometry, _: bool) -> Moved {
        let Geometry::Map(geometry) = geometry else { panic!("a map kernel is launched with {geometry:?}") };
        traffic::map(&prepare(&self.body), geometry, &[])
    }

    fn info(&self) -> ProgramInfo {
        self.engine.info().clone()
    }

    fn rereads_for(&self, _: usize) -> bool {
        self.engine.rereads_inputs()
    }
}

/// A map kernel whose domain is cut into boxes.
#[derive(Debug)]
pub struct BoxesProgram(Vec<Arc<MapProgram>>);

impl BoxesProgram {
    /// Compiles the bodies; boxes with equal bodies share one program.
    pub fn new(bodies: &[Body], isa: Choice, threads: &Arc<Threads>) -> BoxesProgram {
        let mut made: HashMap<&Body, Arc<MapProgram>> = HashMap::new();
        let program = |body| Arc::new(MapProgram::new(body, isa, threads.clone()));
        BoxesProgram(bodies.iter().map(|b| made.entry(b).or_insert_with(|| program(b)).clone()).collect())
    }

    /// Index of the operand whose buffer the result may take over: some boxes copy its elements to the same positions,
    /// and are skipped if the result is written to that buffer.
    fn in_place_operand(&self, boxes: &[MapGeometry]) -> Option<u16> {
        let boxes: Vec<(&Body, &MapGeometry)> = self.0.iter().map(|p| &p.body).zip(boxes).collect();
        in_place_operand(&boxes)
    }

    /// Index of the read operand that shares its buffer with the written one, if the kernel writes one operand.
    fn written_over(&self, operands: &[&Buffer]) -> Option<u16> {
        let [store] = &self.0.first()?.body.stores[..] else { return None };
        let written = self.0[0].body.accesses[store.access as usize].operand?;
        let own = operands[written as usize].address();
        (0..operands.len() as u16).find(|&o| o != written && operands[o as usize].address() == own)
    }

    /// Programs of the boxes, in order; boxes with equal bodies have the same program.
    pub fn programs(&self) -> &[Arc<MapProgram>] {
        &self.0
    }
}

impl Program for BoxesProgram {
    fn launch(&self, geometry: &Geometry, operands: &[&Buffer], scalars: &[u64]) -> Result<(), Error> {
        let Geometry::Boxes(boxes) = geometry else { panic!("a map in boxes is launched with {geometry:?}") };
        assert_eq!(boxes.len(), self.0.len(), "one geometry a box");
        let kept = self.written_over(operands).and_then(|o| self.in_place_operand(boxes).filter(|&k| k == o));
        let run = |(p, g): &(&Arc<MapProgram>, &MapGeometry)| !kept.is_some_and(|k| copies(&p.body, g, k));
        self.0.iter().zip(boxes).filter(run).try_for_each(|(p, g)| p.launch_map(g, operands, scalars))
    }

    fn moves(&self, geometry: &Geometry, in_place: bool) -> Moved {
        let Geometry::Boxes(boxes) = geometry else { panic!("a map in boxes is launched with {geometry:?}") };
        let kept = if in_place { self.in_place_operand(boxes) } else { None };
        let run = |(p, g): &(&Arc<MapProgram>, &MapGeometry)| !kept.is_some_and(|k| copies(&p.body, g, k));
        self.0.iter().zip(boxes).filter(run).map(|(p, g)| traffic::map(&prepare(&p.body), g, &[])).sum()
    }

    fn info(&self) -> ProgramInfo {
        reduction::sum(self.0.iter().map(|p| p.info()))
    }

    fn rereads_for(&self, operand: usize) -> bool {
        self.0.iter().any(|p| p.rereads_for(operand))
    }
}
