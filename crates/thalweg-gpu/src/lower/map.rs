//! Lowering of maps: how many points a thread takes, and whether blocks cover two-dimensional tiles.

use super::operands::{add_reciprocals, addresses, needs};
use crate::class::body::gathers;
use crate::class::map::{self, MapClass, MapSlots, Tile};
use crate::plan::Word;
use crate::plan::{Draft, Plan, blocks};
use crate::skeleton::Skeleton;
use crate::space::{Space, Way, divisor};
use crate::target::Chip;
use crate::target::Target;
use crate::traffic;
use crate::tunable::TUNABLES;
use std::sync::Arc;
use thalweg_kernel::{Access, Body, MapGeometry, expand, widen};

/// Points that a thread of a map takes side by side at most: fewer where the arithmetic of each needs the registers.
fn most_lanes(body: &Body) -> usize {
    if TUNABLES.max_eight_lane_nodes.admits(body.nodes.len()) { 8 } else { 2 }
}

/// Adds the maps of a kernel's boxes.
pub fn add_boxes(plan: &mut Plan, bodies: &[Body], boxes: &[MapGeometry], target: &dyn Target) {
    assert_eq!(bodies.len(), boxes.len(), "one geometry a box");
    bodies.iter().zip(boxes).for_each(|(b, g)| add_map(plan, b, g, target));
}

/// Adds a map.
pub fn add_map(plan: &mut Plan, body: &Body, geometry: &MapGeometry, target: &dyn Target) {
    let body = &expand(&widen(body), &|op, dtype| target.is_native(op, dtype));
    plan.moved += traffic::map(body, &geometry.extents, &geometry.accesses);
    let chip = target.chip();
    let threads = chip.multiprocessors as usize * chip.threads as usize;
    let laid_out = |lanes| Space::new(&geometry.extents, 0, false, (&body.accesses, &geometry.accesses), lanes);
    let mut space = laid_out(most_lanes(body));
    // A point a thread where there would be few threads: what is small is bound by the time that one point takes.
    // Nothing between, or changing sizes compile more often.
    let few = &TUNABLES.vector_divisor;
    let of_lanes = space.row() / space.class.lanes as usize;
    if space.class.lanes > 1 && few.side(of_lanes < threads / few.get()) {
        space = laid_out(1);
    }
    let points = space.row();
    let vectors = points / space.class.lanes as usize;
    let tile = tile(body, &space, chip);
    // More vectors a thread where there are enough for all threads: it keeps more loads in flight. In a tile they use
    // the rest of the cache lines that the first vector touches; but each is a copy of the body.
    let class = MapClass {
        vectors: match tile {
            Some(_) if TUNABLES.max_repeated_nodes.admits(body.nodes.len()) => 4,
            Some(_) => 1,
            None => 1 + u8::from(TUNABLES.min_two_vectors.reached_by(vectors / threads)),
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
    if gathers(body) {
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
    let kernel = Arc::new(Skeleton::Map(body.clone(), class));
    plan.stages.push(Draft { kernel, grid, block: map::BLOCK, shared: 0, words, patches });
    needs(&mut plan.needs, body, &geometry.accesses);
}

/// Returns the tile of a map's blocks, with the extent of its other dimension, where an operand is contiguous along
/// another dimension than the innermost one. `None` where no operand is, or the domain is so small that its cache lines
/// stay cached anyway.
fn tile(body: &Body, space: &Space, chip: &Chip) -> Option<(Tile, usize)> {
    let innermost = space.extents.len().checked_sub(1)?;
    let strided = |w: &Way| matches!(w, Way::Strided { .. });
    let own = space.row() / chip.multiprocessors as usize;
    if space.class.wide || !TUNABLES.min_tiled_map.reached_by(own) || !space.class.ways.iter().all(strided) {
        return None;
    }
    let transposed = |(k, access): (usize, &Access)| {
        let steps = &space.steps[k].1;
        access.operand.filter(|_| steps[innermost].unsigned_abs() > 1)?;
        let long = |d: usize| TUNABLES.min_tile_side.reached_by(space.extents[d]);
        let dim = (0..innermost).find(|&d| steps[d] == 1 && long(d))?;
        // A sector of 32 bytes.
        let depth = (32 / access.dtype.size()).clamp(4, 16);
        Some((Tile { dim: dim as u8, depth: depth as u8 }, space.extents[dim]))
    };
    let wide = || TUNABLES.min_tile_side.reached_by(space.extents[innermost] / space.class.lanes as usize);
    body.accesses.iter().enumerate().find_map(transposed).filter(|_| wide())
}
