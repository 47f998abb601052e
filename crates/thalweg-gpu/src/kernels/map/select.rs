//! Lowering of maps: how many points a thread takes, and whether blocks cover two-dimensional tiles.

use crate::body::{gathers, wanted};
use crate::kernels::Skeleton;
use crate::kernels::map::params::{MapArguments, TilesArguments};
use crate::kernels::map::{self, MapClass, Tile};
use crate::kernels::plan::{Draft, Plan, blocks};
use crate::operands::{BodyArguments, needs};
use crate::space::{Addressing, Inner, Space, divisor};
use crate::target::{Chip, Target};
use crate::traffic;
use crate::tunable::TUNABLES;
use thalweg_kernel::{Access, Body, MapGeometry, expand, merged, widen};

/// Maximum number of neighbouring points that a thread of a map takes: fewer for large bodies, whose arithmetic needs
/// the registers.
fn most_lanes(body: &Body) -> usize {
    if TUNABLES.max_eight_lane_nodes.admits(body.nodes.len()) { 8 } else { 2 }
}

/// Adds the launches of a kernel's boxes.
pub fn add_boxes(plan: &mut Plan, bodies: &[Body], boxes: &[MapGeometry], target: &dyn Target) {
    let all = merged(bodies, boxes, &|nodes| TUNABLES.max_merged_nodes.admits(nodes));
    all.iter().for_each(|(b, g)| add_map(plan, b, g, target));
}

/// Adds the launch of a map to a plan.
pub fn add_map(plan: &mut Plan, body: &Body, geometry: &MapGeometry, target: &dyn Target) {
    let body = &expand(&widen(body), &|op, dtype| target.is_native(op, dtype));
    plan.moved += traffic::map(body, &geometry.extents, &geometry.accesses);
    let chip = target.chip();
    let threads = chip.multiprocessors as usize * chip.threads as usize;
    let laid_out = |lanes| Space::new(&geometry.extents, 0, false, (&body.accesses, &geometry.accesses), lanes);
    let mut space = laid_out(most_lanes(body));
    // One point a thread where there would be few threads: small maps are bound by the latency of one point. No lane
    // counts between one and the maximum: each would be another source, and sizes change.
    let few = &TUNABLES.vector_divisor;
    let of_lanes = space.row() / space.class.lanes as usize;
    if space.class.lanes > 1 && few.side(of_lanes < threads / few.get()) {
        space = laid_out(1);
    }
    if space.class.lanes > 1 && is_scattered(body, &space) {
        space = laid_out(1);
    }
    let points = space.row();
    let vectors = points / space.class.lanes as usize;
    let tile = tile(body, &space, chip);
    // More vectors a thread where there are enough for all threads: it has more loads in flight. In a tile they use the
    // rest of the cache lines that the first vector touches; but the body is emitted once for each.
    let class = MapClass {
        vectors: match tile {
            Some(_) if TUNABLES.max_repeated_nodes.admits(body.nodes.len()) => 4,
            Some(_) => 1,
            None if !TUNABLES.min_two_vectors.reached_by(vectors / threads) => 1,
            None => vectors_of_thread(body, &space),
        },
        tile: tile.map(|t| t.0),
        space: space.class.clone(),
    };
    plan.checked |= gathers(body);
    let (tiles, count) = match tile {
        Some((tile, extent)) => {
            let [deep, wide] = tile.sizes(class.vectors);
            let row = space.extents[space.extents.len() - 1] / space.class.lanes as usize;
            let [along, across] = [row.div_ceil(wide), extent.div_ceil(deep)];
            let tiles = TilesArguments { along: divisor(along), across: divisor(across) };
            (Some(tiles), blocks(along * across * (vectors / row / extent), 1))
        }
        None => (None, blocks(vectors, map::BLOCK as usize * class.vectors as usize)),
    };
    let arguments = MapArguments { vectors, body: BodyArguments::new(body, &space), fault: gathers(body), tiles };
    let arguments = arguments.fill(&class, body);
    let kernel = Skeleton::Map(body.clone(), class);
    plan.stages.push(Draft::new(kernel, [count, 1, 1], map::BLOCK, 0, arguments));
    needs(&mut plan.needs, body, &geometry.accesses);
}

/// Whether lanes would scatter loads and stores: many accesses have no aligned vectors, so that the lanes of a thread
/// read neighbouring elements one by one, and each load of a warp touches as many cache lines as there are lanes. One
/// point a thread reads them with one or two lines a load.
fn is_scattered(body: &Body, space: &Space) -> bool {
    let lane = space.extents.len() - 1;
    let (mut vectors, mut scattered) = (0, 0);
    for (k, access) in body.accesses.iter().enumerate().filter(|(_, access)| access.operand.is_some()) {
        let step = space.steps[k].1[lane].unsigned_abs() * access.dtype.size();
        match space.class.addressing[k] {
            Addressing::Strided { vector: true, .. } => vectors += 1,
            Addressing::Strided { inner: Inner::Unit | Inner::Any, .. } if step <= 64 => scattered += 1,
            _ => {}
        }
    }
    scattered > 0 && !TUNABLES.max_scattered_percent.admits(100 * scattered / (vectors + scattered))
}

/// Number of vectors of a thread with enough points: more where a vector is one element, as long as registers hold what
/// is loaded.
fn vectors_of_thread(body: &Body, space: &Space) -> u8 {
    let loads = wanted(body).iter().filter(|w| w.load).count();
    match space.class.lanes {
        1 if 4 * loads <= MAX_LOADED => 4,
        1 if 2 * loads > MAX_LOADED => 1,
        _ => 2,
    }
}

/// Maximum number of elements that a thread holds in registers before it computes.
const MAX_LOADED: usize = 32;

/// Returns the tile of a map's blocks and the extent of the tile's outer dimension, if an operand is contiguous along
/// this dimension instead of the innermost. `None` if there is no such operand, or the domain is so small that its
/// cache lines stay cached anyway.
fn tile(body: &Body, space: &Space, chip: &Chip) -> Option<(Tile, usize)> {
    let innermost = space.extents.len().checked_sub(1)?;
    let strided = |w: &Addressing| matches!(w, Addressing::Strided { .. });
    let own = space.row() / chip.multiprocessors as usize;
    if space.class.wide || !TUNABLES.min_tiled_map.reached_by(own) || !space.class.addressing.iter().all(strided) {
        return None;
    }
    let transposed = |(k, access): (usize, &Access)| {
        let steps = &space.steps[k].1;
        access.operand.filter(|_| steps[innermost].unsigned_abs() > 1)?;
        let long = |d: usize| TUNABLES.min_tile_side.reached_by(space.extents[d]);
        let dim = (0..innermost).find(|&d| steps[d] == 1 && long(d))?;
        // Extent of the tile along the other dimension: a sector of 32 bytes.
        let depth = (32 / access.dtype.size()).clamp(4, 16);
        Some((Tile { dim: dim as u8, depth: depth as u8 }, space.extents[dim]))
    };
    let wide = || TUNABLES.min_tile_side.reached_by(space.extents[innermost] / space.class.lanes as usize);
    body.accesses.iter().enumerate().find_map(transposed).filter(|_| wide())
}
