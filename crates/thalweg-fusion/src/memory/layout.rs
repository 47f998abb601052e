//! Memory layout: turns a sequence of launches into a schedule with lifetimes and locations.

use super::{Arena, CellLocation, Launch, Lifetime, Needs, Schedule, arena};
use crate::instance::Instance;
use crate::write::step::Slot;

/// Value of `Uses::last` for a cell that outlives the run.
pub(super) const STAYS: usize = usize::MAX;

/// Schedule that runs these steps in order. `share`: intermediates share an arena. A step may occur several times;
/// later steps read the results of its latest run.
pub(super) fn lay(instance: &Instance, needs: &Needs<'_>, steps: &[usize], share: bool) -> Schedule {
    let mut s = launches(instance, steps);
    let uses = Uses::new(&s, needs.own.len());
    let roots = places(instance, needs, &mut s, &uses);
    releases(&mut s, &uses);
    let blocks = blocks(needs, &s, &uses, &roots);
    if share {
        into_arena(&mut s, &blocks);
    }
    s.peak = in_use(needs, &s, &uses, &blocks, false).into_iter().max().unwrap_or(0).max(0) as usize;
    s
}

/// Memory in use over time, if every cell has an allocation of its own.
pub(super) struct Curve {
    /// Indices of the cells that each launch reads and writes.
    pub launches: Vec<Touched>,
    /// Indices of the launches that read each cell.
    pub readers: Vec<Vec<usize>>,
    /// Index of the buffer that each cell holds a result for.
    pub buffers: Vec<usize>,
    pub uses: Uses,
    /// Bytes in use during each launch, relative to before the first.
    pub in_use: Vec<i64>,
    cells: Vec<usize>,
}

/// Distinct cells that one launch reads, and those that it writes.
pub(super) struct Touched {
    pub reads: Vec<usize>,
    pub writes: Vec<usize>,
}

impl Curve {
    pub fn bytes(&self, cell: usize) -> usize {
        self.cells[cell]
    }
}

/// Memory in use during each launch of these steps. `share`: temporary cells count their exact bytes, as in an arena.
pub(super) fn curve(instance: &Instance, needs: &Needs<'_>, steps: &[usize], share: bool) -> Curve {
    let mut s = launches(instance, steps);
    let uses = Uses::new(&s, needs.own.len());
    let mut readers = vec![vec![]; s.cells.len()];
    let mut buffers: Vec<usize> = (0..s.cells.len()).collect();
    let mut touched = Vec::with_capacity(s.launches.len());
    for (at, launch) in s.launches.iter().enumerate() {
        let step = &instance.steps[launch.step];
        let cells = |slots: &[Slot]| -> Vec<usize> {
            let cell = |s: &Slot| if let Slot::Buffer(c) = *s { Some(c) } else { None };
            slots.iter().filter_map(cell).collect()
        };
        let (mut reads, writes) =
            (cells(&launch.operands[..step.first_write]), cells(&launch.operands[step.first_write..]));
        reads.sort_unstable();
        reads.dedup();
        reads.iter().for_each(|&c| readers[c].push(at));
        for (&c, slot) in writes.iter().zip(&step.operands[step.first_write..]) {
            if let Slot::Buffer(b) = *slot {
                buffers[c] = b;
            }
        }
        touched.push(Touched { reads, writes });
    }
    let roots = places(instance, needs, &mut s, &uses);
    let blocks = blocks(needs, &s, &uses, &roots);
    let in_use = in_use(needs, &s, &uses, &blocks, share);
    Curve { launches: touched, readers, buffers, uses, in_use, cells: s.cells }
}

/// Launches with their cells, without locations.
fn launches(instance: &Instance, steps: &[usize]) -> Schedule {
    let mut s = Schedule { cells: instance.buffers.clone(), ..Schedule::default() };
    let mut now: Vec<usize> = (0..instance.buffers.len()).collect();
    let mut ran = vec![false; instance.steps.len()];
    for &n in steps {
        let step = &instance.steps[n];
        let cell = |slot: &Slot, now: &[usize]| match *slot {
            Slot::Buffer(b) => Slot::Buffer(now[b]),
            input => input,
        };
        let mut operands = Vec::with_capacity(step.operands.len());
        operands.extend(step.operands[..step.first_write].iter().map(|slot| cell(slot, &now)));
        for slot in &step.operands[step.first_write..] {
            let Slot::Buffer(b) = *slot else { unreachable!("a kernel writes buffers") };
            if ran[n] {
                now[b] = s.cells.len();
                s.cells.push(instance.buffers[b]);
            }
            operands.push(Slot::Buffer(now[b]));
        }
        s.repeated += ran[n] as usize;
        ran[n] = true;
        s.launches.push(Launch { step: n, operands, ..Launch::default() });
    }
    let last = |slot: Slot| match slot {
        Slot::Buffer(b) => Slot::Buffer(now[b]),
        input => input,
    };
    s.outputs = instance.outputs.iter().map(|o| last(o.slot)).collect();
    s.places = vec![CellLocation::Own; s.cells.len()];
    s
}

/// First and last uses of cells and inputs.
pub(super) struct Uses {
    /// First launch that uses each cell; `None` if nothing writes it.
    pub first: Vec<Option<usize>>,
    /// Last launch that uses each cell; [`STAYS`] for outputs.
    pub last: Vec<usize>,
    /// Last launch that uses each input; unused inputs are never released.
    pub inputs: Vec<usize>,
}

impl Uses {
    fn new(s: &Schedule, inputs: usize) -> Uses {
        let cells = s.cells.len();
        let mut uses = Uses { first: vec![None; cells], last: vec![STAYS; cells], inputs: vec![STAYS; inputs] };
        for (at, launch) in s.launches.iter().enumerate() {
            for &slot in &launch.operands {
                match slot {
                    Slot::Buffer(c) => {
                        uses.first[c].get_or_insert(at);
                        uses.last[c] = at;
                    }
                    Slot::Input(i) => uses.inputs[i] = at,
                }
            }
        }
        for &slot in &s.outputs {
            match slot {
                Slot::Buffer(c) => uses.last[c] = STAYS,
                Slot::Input(i) => uses.inputs[i] = STAYS,
            }
        }
        uses
    }

    fn of(&self, slot: Slot) -> usize {
        match slot {
            Slot::Buffer(c) => self.last[c],
            Slot::Input(i) => self.inputs[i],
        }
    }
}

/// Chooses the cells that reuse memory of dead operands in place, and writes that into the schedule. Returns the cell
/// or input whose memory each cell finally occupies.
fn places(instance: &Instance, needs: &Needs<'_>, s: &mut Schedule, uses: &Uses) -> Vec<Slot> {
    let mut roots: Vec<Slot> = (0..s.cells.len()).map(Slot::Buffer).collect();
    for (at, launch) in s.launches.iter_mut().enumerate() {
        let step = &instance.steps[launch.step];
        let mut taken: Vec<(Slot, Slot)> = Vec::new();
        let mut fitted = usize::MAX;
        for &(w, read) in &step.in_place {
            let (to, from) = (launch.operands[w], launch.operands[read]);
            let Slot::Buffer(cell) = to else { unreachable!("a kernel writes buffers") };
            let fits = match from {
                Slot::Buffer(_) => true,
                // A view of a small part would keep the whole buffer alive.
                Slot::Input(i) => needs.own[i] > 0 && needs.own[i] <= 2 * s.cells[cell],
            };
            let free = uses.of(from) == at && taken.iter().all(|t| t.0 != from);
            if fitted != w && s.cells[cell] > 0 && fits && free && !(needs.rereads)(launch.step, w) {
                fitted = w;
                taken.push((from, to));
                s.places[cell] = CellLocation::Over(from);
                roots[cell] = match from {
                    Slot::Buffer(c) => roots[c],
                    input => input,
                };
            }
        }
        for slot in &mut launch.operands[..step.first_write] {
            if let Some(t) = taken.iter().find(|t| t.0 == *slot) {
                *slot = t.1;
            }
        }
    }
    roots
}

/// Writes into each launch which cells and inputs are released after it: those whose last use it is, and whose memory
/// no other cell reuses.
fn releases(s: &mut Schedule, uses: &Uses) {
    let mut over = vec![false; s.cells.len()];
    let mut over_input = vec![false; uses.inputs.len()];
    for place in &s.places {
        match *place {
            CellLocation::Over(Slot::Buffer(c)) => over[c] = true,
            CellLocation::Over(Slot::Input(i)) => over_input[i] = true,
            _ => {}
        }
    }
    for (c, &last) in uses.last.iter().enumerate().filter(|(c, _)| !over[*c]) {
        if let Some(launch) = s.launches.get_mut(last) {
            launch.release.push(c);
        }
    }
    for (i, &last) in uses.inputs.iter().enumerate().filter(|(i, _)| !over_input[*i]) {
        if let Some(launch) = s.launches.get_mut(last) {
            launch.release_inputs.push(i);
        }
    }
}

/// Block of memory that one or more cells occupy, one after the other.
pub(super) struct Block {
    root: Slot,
    life: Lifetime,
}

/// Blocks of all cells that are written and have elements.
fn blocks(needs: &Needs<'_>, s: &Schedule, uses: &Uses, roots: &[Slot]) -> Vec<Block> {
    let mut number: Vec<Option<usize>> = vec![None; s.cells.len() + needs.own.len()];
    let mut blocks: Vec<Block> = Vec::new();
    let mut cells: Vec<usize> = (0..s.cells.len()).filter(|&c| s.cells[c] > 0 && uses.first[c].is_some()).collect();
    cells.sort_by_key(|&c| uses.first[c]);
    for c in cells {
        let root = match roots[c] {
            Slot::Buffer(r) => r,
            Slot::Input(i) => s.cells.len() + i,
        };
        let first = uses.first[c].expect("written");
        let at = *number[root].get_or_insert_with(|| {
            blocks.push(Block { root: roots[c], life: Lifetime { bytes: 0, first, last: first } });
            blocks.len() - 1
        });
        let life = &mut blocks[at].life;
        life.bytes = life.bytes.max(s.cells[c]);
        life.last = life.last.max(uses.last[c]);
    }
    blocks
}

/// Puts temporary blocks into an arena, if there are several.
fn into_arena(s: &mut Schedule, blocks: &[Block]) {
    let inner = |b: &&Block| b.life.last != STAYS && matches!(b.root, Slot::Buffer(_));
    let (roots, lives): (Vec<Slot>, Vec<Lifetime>) = blocks.iter().filter(inner).map(|b| (b.root, b.life)).unzip();
    if roots.len() < 2 {
        return;
    }
    let (offsets, bytes) = arena::pack(&lives);
    for (root, offset) in roots.into_iter().zip(offsets) {
        if let Slot::Buffer(c) = root {
            s.places[c] = CellLocation::Arena(offset);
        }
    }
    s.arena = Arena {
        bytes,
        first: lives.iter().map(|l| l.first).min().expect("not empty"),
        last: lives.iter().map(|l| l.last).max().expect("not empty"),
        live: arena::live(&lives, s.launches.len()),
    };
}

/// Bytes in use during each launch, relative to before the first. `share`: temporary cells take exactly their own
/// bytes.
fn in_use(needs: &Needs<'_>, s: &Schedule, uses: &Uses, blocks: &[Block], share: bool) -> Vec<i64> {
    let n = s.launches.len();
    let mut change = vec![0i64; n + 1];
    let mut held = |bytes: usize, first: usize, last: usize| {
        let exact = share && last != STAYS;
        let bytes = if exact { bytes } else { (needs.granted)(bytes) }.min(i64::MAX as usize >> 20) as i64;
        change[first] += bytes;
        if last < n {
            change[last + 1] -= bytes;
        }
    };
    if s.arena.bytes > 0 {
        held(s.arena.bytes, s.arena.first, s.arena.last);
    }
    let mut over = vec![None; needs.own.len()];
    for b in blocks {
        match b.root {
            Slot::Buffer(c) if !matches!(s.places[c], CellLocation::Arena(_)) => {
                held(b.life.bytes, b.life.first, b.life.last)
            }
            Slot::Buffer(_) => {}
            Slot::Input(i) => over[i] = Some(b.life.last),
        }
    }
    for (i, &own) in needs.own.iter().enumerate().filter(|(_, own)| **own > 0) {
        let last = over[i].unwrap_or(uses.inputs[i]);
        if last < n {
            change[last + 1] -= (needs.granted)(own) as i64;
        }
    }
    let mut now = 0;
    change[..n]
        .iter()
        .zip(&s.launches)
        .map(|(c, launch)| {
            now += c;
            now + (needs.temporary)(launch.step) as i64
        })
        .collect()
}
