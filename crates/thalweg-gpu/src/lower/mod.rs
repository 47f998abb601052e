//! Lowering: kernels bound to sizes, as launches of skeletons with their argument words.
//!
//! In: a kernel and a geometry. Out: a [`Plan`]. The classes of its launches are chosen here by sizes, layouts and the
//! chip's properties.
//!
//! * `map`, `rows`, `scan`, `sort`, `contraction`, `scatter`, `foreign`: one kind of kernel each. `group`: independent
//!   launches, fused into one (horizontal fusion).

mod combined;
mod contraction;
mod foreign;
mod group;
mod map;
pub mod operands;
mod radix;
mod row_scan;
mod rows;
mod scan;
mod scatter;
mod scatter_counted;
mod scatter_sort;
mod sort;

use crate::plan::Word;
use crate::plan::{MOST_BLOCKS, Plan};
use crate::target::Target;
use crate::traffic;
use map::{add_boxes, add_map};
use thalweg_ir::{DType, ScatterOp};
use thalweg_kernel::{Body, Computed, Geometry, GroupPart, Kernel, MapGeometry, ScatterGeometry};
use thalweg_runtime::Error;

/// Plans the launches of a kernel with a geometry.
///
/// # Errors
/// [`Error::Compile`] where there is no source for it, or a launch would have too many blocks.
///
/// # Panics
/// When geometry and kernel are of different kinds.
pub fn plan(kernel: &Kernel, geometry: &Geometry, target: &dyn Target) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    match (kernel, geometry) {
        (Kernel::Map(body), Geometry::Map(geometry)) => add_map(&mut plan, body, geometry, target),
        (Kernel::Boxes(bodies), Geometry::Boxes(boxes)) => {
            add_boxes(&mut plan, bodies, boxes, target);
            let all: Vec<usize> = (0..plan.stages.len()).collect();
            group::join(&mut plan, &all, target);
        }
        (Kernel::Rows { body, orientation }, Geometry::Rows(geometry)) => {
            rows::add(&mut plan, body, *orientation, geometry, target)?;
        }
        (Kernel::Contraction(c), Geometry::Contraction(geometry)) => {
            plan = contraction::plan(c, geometry, target)?;
        }
        (Kernel::Scatter { op, dtype, ordered, inputs }, Geometry::Scatter(geometry)) => {
            add_scatter(&mut plan, (*op, *dtype, *ordered), inputs, geometry, target)?;
        }
        (Kernel::Foreign { of, wanted }, Geometry::Foreign(geometry)) => {
            foreign::add(&mut plan, (*of, wanted), geometry, target)?;
        }
        (Kernel::Group { kernels, parts }, Geometry::Group(geometries)) => {
            add_group(&mut plan, kernels, parts, geometries, target)?;
        }
        (kernel, geometry) => panic!("{kernel:?} with {geometry:?}"),
    }
    match plan.stages.iter().find(|s| s.grid[0] > MOST_BLOCKS) {
        None => Ok(plan),
        Some(stage) => {
            let name = stage.kernel.name();
            let message = format!("{name} would take more than the {MOST_BLOCKS} blocks that a launch may have");
            Err(Error::Compile { device: target.device().into(), message })
        }
    }
}

/// Adds a scatter, after the kernels that compute its index and its values. Operands: tensor; index or the operands of
/// its computation; values or the operands of theirs; result.
fn add_scatter(
    plan: &mut Plan,
    (op, dtype, ordered): (ScatterOp, DType, bool),
    inputs: &[Option<Box<Computed>>; 2],
    geometry: &ScatterGeometry,
    target: &dyn Target,
) -> Result<(), Error> {
    let (mut next, mut scalars) = (1, 0);
    let mut targets = [Word::Operand(0, 0); 4];
    let counted = scatter_counted::fits(op, dtype, geometry);
    let index = scatter_counted::fused(inputs[0].as_deref(), geometry).filter(|_| counted);
    let mut of_index = vec![];
    for (n, input) in inputs.iter().enumerate() {
        if let (0, Some(input), Some(_)) = (n, input, index) {
            of_index.extend((0..input.operands as u16).map(|o| Word::Operand(next + o, 0)));
            next += input.operands as u16;
            scalars += input.scalars as u16;
            continue;
        }
        let Some(input) = input else {
            targets[1 + n] = Word::Operand(next, 0);
            next += 1;
            continue;
        };
        let own = geometry.inputs[n].as_deref().expect("a computed input has a geometry");
        plan.scratch.push(output_bytes(&input.kernel, own));
        let region = plan.scratch.len() as u16 - 1;
        let mut operands: Vec<Word> = (0..input.operands as u16).map(|o| Word::Operand(next + o, 0)).collect();
        operands.push(Word::Scratch(region, 0));
        plan.absorb(self::plan(&input.kernel, own, target)?, &operands, scalars);
        targets[1 + n] = Word::Scratch(region, 0);
        next += input.operands as u16;
        scalars += input.scalars as u16;
    }
    targets[3] = Word::Operand(next, 0);
    if counted {
        scatter::copy(plan, op, dtype, geometry, targets, target);
        let index = index.unwrap_or(scatter_counted::Index::Lies(targets[1]));
        scatter_counted::add(plan, dtype, geometry, index, (&of_index, targets[2], targets[3]), target);
        return Ok(());
    }
    let before = plan.scratch.iter().sum::<usize>();
    scatter::add(plan, (op, dtype, ordered), geometry, targets, target);
    let scratch = plan.scratch.iter().sum::<usize>() - before;
    plan.moved += traffic::scatter(geometry, dtype.size(), scratch);
    Ok(())
}

/// Adds independent kernels. Operands: those that they read, then those that they write.
fn add_group(
    plan: &mut Plan,
    kernels: &[Kernel],
    parts: &[GroupPart],
    geometries: &[Geometry],
    target: &dyn Target,
) -> Result<(), Error> {
    let (mut reads, mut scalars) = (0, 0);
    let mut writes: u16 = parts.iter().map(|p| p.reads as u16).sum();
    let mut all = vec![];
    for (part, geometry) in parts.iter().zip(geometries) {
        let operands = |first: u16, n: u32| (first..first + n as u16).map(|o| Word::Operand(o, 0));
        let own: Vec<Word> = operands(reads, part.reads).chain(operands(writes, part.writes)).collect();
        all.push((&kernels[part.kernel as usize], geometry, own, scalars));
        reads += part.reads as u16;
        writes += part.writes as u16;
        scalars += part.scalars as u16;
    }
    if let Some(products) = all.iter().map(as_product).collect::<Option<Vec<_>>>()
        && contraction::add_together(plan, &products, target)
    {
        return Ok(());
    }
    let mut apart = vec![];
    for (kernel, geometry, operands, scalars) in all {
        let mut own = Plan::default();
        match (kernel, geometry) {
            // The boxes of a map are components of the group like others.
            (Kernel::Boxes(bodies), Geometry::Boxes(g)) => add_boxes(&mut own, bodies, g, target),
            (kernel, geometry) => own = self::plan(kernel, geometry, target)?,
        }
        let from = plan.stages.len();
        let independent = own.stages.len() == 1 || matches!(geometry, Geometry::Boxes(_));
        plan.absorb(own, &operands, scalars);
        apart.extend((from..plan.stages.len()).filter(|_| independent));
    }
    group::join(plan, &apart, target);
    Ok(())
}

/// Component of a group that is a matrix product: kernel and geometry, operands, and its first scalar.
fn as_product<'a>(
    (kernel, geometry, operands, scalars): &(&'a Kernel, &'a Geometry, Vec<Word>, u16),
) -> Option<contraction::Sibling<'a>> {
    let (Kernel::Contraction(contraction), Geometry::Contraction(geometry)) = (kernel, geometry) else { return None };
    Some(contraction::Sibling { contraction, geometry, operands: operands.clone(), scalars: *scalars })
}

/// Bytes of a scatter's computed input, row-major.
fn output_bytes(kernel: &Kernel, geometry: &Geometry) -> usize {
    let of = |body: &Body, g: &MapGeometry| {
        let last = body.accesses.len() - 1;
        g.accesses[last].reach.map_or(0, |(_, high)| (high + 1) * body.accesses[last].dtype.size())
    };
    match (kernel, geometry) {
        (Kernel::Map(body), Geometry::Map(g)) => of(body, g),
        (Kernel::Boxes(bodies), Geometry::Boxes(all)) => {
            bodies.iter().zip(all).map(|(b, g)| of(b, g)).max().unwrap_or(0)
        }
        _ => unreachable!("an input is computed by a map"),
    }
    .max(64)
}
