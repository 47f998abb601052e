//! Kernels bound to sizes: which source a geometry needs, and the words of its launches.
//!
//! In: a kernel and a geometry. Out: a [`Bound`]. Sources are compiled once a class (the [`Compiler`] remembers them by their text).

use crate::compiler::{Compiler, Unit};
use crate::driver::Chip;
use crate::group;
use crate::launch::{Bound, Stage, Word};
use crate::product;
use crate::render::body::divisors;
use crate::render::elements::is_native;
use crate::render::map::{self, MapClass, MapSlots, Tile};
use crate::render::{UnitKey, matmul, scatter};
use crate::rows;
use crate::space::{Slots, Space, Way, divisor};
use crate::traffic;
use std::sync::Arc;
use thalweg_ir::DType;
use thalweg_kernel::{
    Access, AccessGeometry, Body, Geometry, Kernel, MapGeometry, MatmulGeometry, Moved, Precision, expand, widen,
};
use thalweg_runtime::Error;

/// What a kernel needs to run, before its functions are compiled.
#[derive(Debug, Default)]
pub struct Plan {
    /// Launches, in order.
    pub stages: Vec<Draft>,
    /// Bytes of each region of scratch memory.
    pub scratch: Vec<usize>,
    /// Bytes that each operand must have.
    pub needs: Vec<(u16, usize)>,
    /// Whether an index may be out of range.
    pub checked: bool,
    /// What the launches move.
    pub moved: Moved,
}

/// A launch whose function is not compiled yet.
#[derive(Debug)]
pub struct Draft {
    /// Its source.
    pub unit: Arc<Unit>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Words that stay.
    pub words: Vec<u64>,
    /// Words that change.
    pub patches: Vec<(usize, Word)>,
}

/// What it takes to launch a kernel with a geometry.
///
/// # Errors
/// [`Error::Compile`] where there is no source for it, or a launch would have too many blocks.
///
/// # Panics
/// When geometry and kernel are of different kinds.
pub fn plan(kernel: &Kernel, geometry: &Geometry, compiler: &Compiler) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    match (kernel, geometry) {
        (Kernel::Map(body), Geometry::Map(geometry)) => add_map(&mut plan, body, geometry, compiler),
        (Kernel::Boxes(bodies), Geometry::Boxes(boxes)) => {
            add_boxes(&mut plan, bodies, boxes, compiler);
            let all: Vec<usize> = (0..plan.stages.len()).collect();
            group::join(&mut plan, &all, compiler);
        }
        (Kernel::Rows { body, orientation }, Geometry::Rows(geometry)) => {
            rows::add(&mut plan, body, *orientation, geometry, compiler)?;
        }
        (&Kernel::Matmul { dtype, precision }, Geometry::Matmul(geometry)) => {
            if dtype == DType::Bool {
                let message = "bool has no matrix product".into();
                return Err(Error::Compile { device: compiler.device().into(), message });
            }
            plan.moved += traffic::product(geometry, dtype.size());
            if !add_product(&mut plan, dtype, precision, geometry, compiler) {
                matmul::add(&mut plan, dtype, geometry, compiler);
            }
        }
        (Kernel::Scatter { op, dtype, inputs }, Geometry::Scatter(geometry)) => {
            // Operands: tensor, index or what it is computed from, values or what they are, result.
            let (mut next, mut scalars) = (1, 0);
            let mut targets = [Word::Operand(0, 0); 4];
            for (n, input) in inputs.iter().enumerate() {
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
                plan.absorb(self::plan(&input.kernel, own, compiler)?, &operands, scalars);
                targets[1 + n] = Word::Scratch(region, 0);
                next += input.operands as u16;
                scalars += input.scalars as u16;
            }
            targets[3] = Word::Operand(next, 0);
            let before = plan.scratch.iter().sum::<usize>();
            scatter::add(&mut plan, *op, *dtype, geometry, targets, compiler);
            let scratch = plan.scratch.iter().sum::<usize>() - before;
            plan.moved += traffic::scatter(geometry, dtype.size(), scratch);
        }
        (Kernel::Group { kernels, parts }, Geometry::Group(geometries)) => {
            let (mut reads, mut scalars) = (0, 0);
            let mut writes: u16 = parts.iter().map(|p| p.reads as u16).sum();
            let mut apart = vec![];
            for (part, geometry) in parts.iter().zip(geometries) {
                let operands = |first: u16, n: u32| (first..first + n as u16).map(|o| Word::Operand(o, 0));
                let all: Vec<Word> = operands(reads, part.reads).chain(operands(writes, part.writes)).collect();
                let mut own = Plan::default();
                match (&kernels[part.kernel as usize], geometry) {
                    // Its boxes are parts like others.
                    (Kernel::Boxes(bodies), Geometry::Boxes(g)) => add_boxes(&mut own, bodies, g, compiler),
                    (kernel, geometry) => own = self::plan(kernel, geometry, compiler)?,
                }
                let from = plan.stages.len();
                let independent = own.stages.len() == 1 || matches!(geometry, Geometry::Boxes(_));
                plan.absorb(own, &all, scalars);
                apart.extend((from..plan.stages.len()).filter(|_| independent));
                reads += part.reads as u16;
                writes += part.writes as u16;
                scalars += part.scalars as u16;
            }
            group::join(&mut plan, &apart, compiler);
        }
        (kernel, geometry) => panic!("{kernel:?} with {geometry:?}"),
    }
    match plan.stages.iter().find(|s| s.grid[0] > MOST_BLOCKS) {
        None => Ok(plan),
        Some(stage) => {
            let name = stage.unit.name();
            let message = format!("{name} would take more than the {MOST_BLOCKS} blocks that a launch may have");
            Err(Error::Compile { device: compiler.device().into(), message })
        }
    }
}

/// Bytes that an input of a scatter takes where it is computed, row-major.
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

impl Plan {
    /// Takes in what another kernel does, its operands being these, its scalars from that number on.
    fn absorb(&mut self, other: Plan, operands: &[Word], scalars: u16) {
        let regions = self.scratch.len() as u16;
        for mut draft in other.stages {
            for (_, word) in &mut draft.patches {
                *word = match *word {
                    Word::Operand(o, offset) => match operands[o as usize] {
                        Word::Operand(to, base) => Word::Operand(to, base + offset),
                        Word::Scratch(region, base) => Word::Scratch(region, base + offset),
                        other => other,
                    },
                    Word::Scalar(s) => Word::Scalar(s + scalars),
                    Word::Reciprocal(s, wide) => Word::Reciprocal(s + scalars, wide),
                    Word::Scratch(region, offset) => Word::Scratch(region + regions, offset),
                    other => other,
                };
            }
            self.stages.push(draft);
        }
        self.scratch.extend(other.scratch);
        self.checked |= other.checked;
        self.moved += other.moved;
        for (o, bytes) in other.needs {
            if let Word::Operand(to, _) = operands[o as usize] {
                self.needs.push((to, bytes));
            }
        }
    }

    /// The plan with functions.
    ///
    /// # Errors
    /// [`Error::Compile`].
    pub fn bind(self, compiler: &Compiler) -> Result<Bound, Error> {
        let mut stages = Vec::with_capacity(self.stages.len());
        for d in self.stages {
            let function = compiler.function(&d.unit)?;
            let Draft { grid, block, shared, words, patches, .. } = d;
            stages.push(Stage { function, grid, block, shared, words, patches });
        }
        Ok(Bound::new(stages, self.scratch, self.needs, self.checked))
    }
}

/// Adds a product that a library computes; `false` where none does.
fn add_product(
    plan: &mut Plan,
    dtype: DType,
    precision: Precision,
    geometry: &MatmulGeometry,
    compiler: &Compiler,
) -> bool {
    let Some(launches) = product::launches(dtype, precision, geometry) else { return false };
    let Some((unit, workspace)) = compiler.product(&launches.product) else { return false };
    let block = (workspace > 0).then_some(plan.scratch.len() as u16);
    plan.scratch.extend(block.map(|_| workspace));
    for [a, b, c] in launches.places {
        // Our right operand is the library's left side.
        let mut patches = vec![(0, Word::Operand(1, b)), (1, Word::Operand(0, a)), (2, Word::Operand(2, c))];
        patches.extend(block.map(|block| (3, Word::Scratch(block, 0))));
        let words = vec![0; product::WORDS];
        plan.stages.push(Draft { unit: unit.clone(), grid: [1; 3], block: 1, shared: 0, words, patches });
    }
    matmul::needs(plan, dtype, geometry);
    true
}

fn add_boxes(plan: &mut Plan, bodies: &[Body], boxes: &[MapGeometry], compiler: &Compiler) {
    assert_eq!(bodies.len(), boxes.len(), "one geometry a box");
    bodies.iter().zip(boxes).for_each(|(b, g)| add_map(plan, b, g, compiler));
}

fn add_map(plan: &mut Plan, body: &Body, geometry: &MapGeometry, compiler: &Compiler) {
    let body = &expand(&widen(body), &is_native);
    plan.moved += traffic::map(body, &geometry.extents, &geometry.accesses);
    let chip = compiler.chip();
    let threads = chip.multiprocessors as usize * chip.threads as usize;
    let laid_out = |lanes| Space::new(&geometry.extents, 0, false, (&body.accesses, &geometry.accesses), lanes);
    let mut space = laid_out(most_lanes(body));
    // A point a thread where there would be few threads: what is small is bound by the time that one point takes. Nothing between, or changing sizes compile more often.
    if space.class.lanes > 1 && space.row() / (space.class.lanes as usize) < threads / 16 {
        space = laid_out(1);
    }
    let points = space.row();
    let vectors = points / space.class.lanes as usize;
    let tile = tile(body, &space, chip);
    // More vectors a thread where there are enough for all: it keeps more loads in flight. In a tile they use up the lines of memory that the first ones touch; but each is a copy of the body.
    let class = MapClass {
        vectors: match tile {
            Some(_) if body.nodes.len() <= LONG => 4,
            Some(_) => 1,
            None => 1 + u8::from(vectors >= 4 * threads),
        },
        tile: tile.map(|t| t.0),
        space: space.class.clone(),
    };
    let slots = MapSlots::new(&class, body);
    let mut words = vec![0; slots.end];
    words[0] = vectors as u64;
    space.fill(&slots.space, &mut words);
    let mut patches = vec![];
    addresses(&mut patches, &slots.space, body, &space);
    patches.extend((0..body.scalars).map(|s| (slots.scalars + s as usize, Word::Scalar(s))));
    add_reciprocals(&mut patches, slots.reciprocals, body);
    if map::gathers(body) {
        patches.push((slots.fault, Word::Fault));
        plan.checked = true;
    }
    let count = match tile {
        Some((tile, extent)) => {
            let [deep, wide] = tile.sizes(class.vectors);
            let row = space.extents[space.extents.len() - 1] / space.class.lanes as usize;
            let tiles = [row.div_ceil(wide), extent.div_ceil(deep)];
            for (i, n) in tiles.into_iter().enumerate() {
                words[slots.tiles + 2 * i..][..2].copy_from_slice(&divisor(n));
            }
            blocks(tiles[0] * tiles[1] * (vectors / row / extent), 1)
        }
        None => blocks(vectors, map::BLOCK as usize * class.vectors as usize),
    };
    let grid = [count, 1, 1];
    let unit = compiler.unit(UnitKey::Map(body.clone(), class));
    plan.stages.push(Draft { unit, grid, block: map::BLOCK, shared: 0, words, patches });
    needs(&mut plan.needs, body, &geometry.accesses);
}

/// The tile that blocks of a map cover, with the extent of its other dimension: where an operand is read along another dimension than the innermost one. `None` where
/// none is, or the domain is so small that its lines of memory stay near anyway.
fn tile(body: &Body, space: &Space, chip: &Chip) -> Option<(Tile, usize)> {
    let innermost = space.extents.len().checked_sub(1)?;
    let strided = |w: &Way| matches!(w, Way::Strided { .. });
    if space.class.wide || space.row() < TILED * chip.multiprocessors as usize || !space.class.ways.iter().all(strided)
    {
        return None;
    }
    let transposed = |(k, access): (usize, &Access)| {
        let steps = &space.steps[k].1;
        access.operand.filter(|_| steps[innermost].unsigned_abs() > 1)?;
        let dim = (0..innermost).find(|&d| steps[d] == 1 && space.extents[d] >= 8)?;
        // A sector of 32 bytes.
        let depth = (32 / access.dtype.size()).clamp(4, 16);
        Some((Tile { dim: dim as u8, depth: depth as u8 }, space.extents[dim]))
    };
    let wide = space.extents[innermost] >= 8 * space.class.lanes as usize;
    body.accesses.iter().enumerate().find_map(transposed).filter(|_| wide)
}

/// Blocks that a grid may have along its first dimension. Along the others there are at most 65,535, and kernels go through what is more.
const MOST_BLOCKS: u32 = i32::MAX as u32;
/// Nodes of a body that is written down four times over for a tile, lanes apart.
const LONG: usize = 100;
/// Points of a domain for each multiprocessor from which on blocks cover tiles.
const TILED: usize = 128;

/// Points that a thread of a map takes side by side at most: fewer where the arithmetic of each needs the registers.
fn most_lanes(body: &Body) -> usize {
    if body.nodes.len() > 400 { 2 } else { 8 }
}

/// Blocks of so many that cover `n`; where these are more than can be told, more than [`MOST_BLOCKS`].
pub fn blocks(n: usize, each: usize) -> u32 {
    u32::try_from(n.div_ceil(each)).unwrap_or(u32::MAX)
}

/// The words that are addresses of operands.
pub fn addresses(patches: &mut Vec<(usize, Word)>, slots: &Slots, body: &Body, space: &Space) {
    for (i, access) in body.accesses.iter().enumerate() {
        let Some(operand) = access.operand else { continue };
        let base = space.base(i) as i64 * access.dtype.size() as i64;
        let word = match operand.checked_sub(rows::SCRATCH) {
            Some(region) => Word::Scratch(region, base),
            None => Word::Operand(operand, base),
        };
        patches.push((slots.accesses[i], word));
    }
}

/// The words that are reciprocals of scalars.
pub fn add_reciprocals(patches: &mut Vec<(usize, Word)>, first: usize, body: &Body) {
    let word = |(slot, dtype): (u16, DType)| Word::Reciprocal(slot, dtype == DType::F64);
    patches.extend(divisors(body).into_iter().enumerate().map(|(i, d)| (first + i, word(d))));
}

/// The bytes that operands must have.
pub fn needs(needs: &mut Vec<(u16, usize)>, body: &Body, accesses: &[AccessGeometry]) {
    for (access, at) in body.accesses.iter().zip(accesses) {
        let (Some(operand), Some((_, high))) = (access.operand, at.reach) else { continue };
        let bytes = (high + 1) * access.dtype.size();
        match needs.iter_mut().find(|n| n.0 == operand) {
            Some(n) => n.1 = n.1.max(bytes),
            None => needs.push((operand, bytes)),
        }
    }
}
