//! Random instances without kernels: only reads, writes and outputs matter here.

use super::*;
use crate::instance::Output;
use crate::write::step::Step;
use thalweg_ir::{Shape, View};
use thalweg_kernel::{Geometry, Kernel};

/// Deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) as usize % n
    }
}

fn step(reads: &[Slot], writes: &[usize], in_place: Vec<(usize, usize)>) -> Step {
    Step {
        kernel_index: 0,
        kernel: Kernel::Boxes(vec![]).into(),
        geometry: Geometry::Group(vec![]).into(),
        operands: reads.iter().copied().chain(writes.iter().map(|&b| Slot::Buffer(b))).collect(),
        first_write: reads.len(),
        scalars: vec![],
        in_place,
        out_of_range: None,
        touched: vec![0; reads.len()],
        bytes_read: 0,
        bytes_written: 0,
        form: None,
    }
}

/// Random graph over two inputs: each step reads up to three values, mostly recent ones, and writes one or two.
fn random(dice: &mut Dice, steps: usize) -> Instance {
    let mut instance = Instance { steps: vec![], outputs: vec![], buffers: vec![], fused: true };
    let mut values = vec![Slot::Input(0), Slot::Input(1)];
    for _ in 0..steps {
        let mut reads = vec![];
        for _ in 0..1 + dice.below(3) {
            let far = if dice.below(3) == 0 { values.len() } else { values.len().min(4) };
            let slot = values[values.len() - 1 - dice.below(far)];
            if !reads.contains(&slot) {
                reads.push(slot);
            }
        }
        let first = instance.buffers.len();
        let writes: Vec<usize> = (first..=first + dice.below(2)).collect();
        instance.buffers.extend(writes.iter().map(|_| 64 * (1 + dice.below(40))));
        let in_place = match reads[0] {
            Slot::Buffer(b) if instance.buffers[b] == instance.buffers[first] => vec![(reads.len(), 0)],
            Slot::Input(_) if dice.below(2) == 0 => vec![(reads.len(), 0)],
            _ => vec![],
        };
        values.extend(writes.iter().map(|&b| Slot::Buffer(b)));
        instance.steps.push(step(&reads, &writes, in_place));
    }
    let wanted = [values.len() - 1, 2 + dice.below(values.len() - 2)];
    instance.outputs = wanted.map(|v| Output { op: v, slot: values[v], view: View::contiguous(Shape::SCALAR) }).into();
    instance
}

const OWN: [usize; 2] = [640, 0];

fn needs() -> Needs<'static> {
    Needs { own: &OWN, rereads: &|_, _| false, temporary: &|_| 0, granted: |b| b }
}

/// Simulates a schedule: checks that every read finds the value that its step computed.
fn check(instance: &Instance, s: &Schedule) {
    // Contents of memory: allocations by their cell, then inputs, and the arena in units of 64 bytes.
    let mut arena: Vec<Option<usize>> = vec![None; s.arena.bytes / 64];
    let mut memory: Vec<Option<usize>> = vec![None; s.cells.len()];
    let mut holds: Vec<Option<usize>> = vec![None; s.cells.len() + OWN.len()];
    let mut ran = vec![false; instance.steps.len()];
    let input = |i: usize| s.cells.len() + i;
    (0..OWN.len()).for_each(|i| holds[input(i)] = Some(usize::MAX - i));
    // Buffer that a cell is a result for.
    let mut buffer: Vec<usize> = (0..s.cells.len()).collect();
    for launch in &s.launches {
        let step = &instance.steps[launch.step];
        for (n, &slot) in launch.operands[..step.first_write].iter().enumerate() {
            let want = match step.operands[n] {
                Slot::Buffer(b) => b,
                Slot::Input(i) => usize::MAX - i,
            };
            // An operand that is overwritten in place is read from its old location.
            let from = match slot {
                Slot::Buffer(c) => match s.places[c] {
                    CellLocation::Over(Slot::Buffer(o)) if launch.operands[step.first_write..].contains(&slot) => o,
                    CellLocation::Over(Slot::Input(i)) if launch.operands[step.first_write..].contains(&slot) => {
                        input(i)
                    }
                    _ => c,
                },
                Slot::Input(i) => input(i),
            };
            let there = holds[from].map(|h| if from < s.cells.len() { buffer[h] } else { h });
            assert_eq!(there, Some(want), "operand {n} of step {}", launch.step);
            if let (true, Some(c)) = (from < s.cells.len(), holds[from])
                && let Some(at) = memory[c]
            {
                assert!(arena[at..at + s.cells[c] / 64].iter().all(|&o| o == Some(c)), "cell {c} was written over");
            }
        }
        for (n, &slot) in launch.operands[step.first_write..].iter().enumerate() {
            let (Slot::Buffer(c), Slot::Buffer(b)) = (slot, step.operands[step.first_write + n]) else { panic!() };
            buffer[c] = b;
            match s.places[c] {
                CellLocation::Over(Slot::Buffer(o)) => {
                    memory[c] = memory[o];
                    holds[o] = None;
                }
                CellLocation::Over(Slot::Input(i)) => holds[input(i)] = None,
                CellLocation::Arena(at) => memory[c] = Some(at / 64),
                CellLocation::Own => {}
            }
            if let Some(at) = memory[c] {
                arena[at..at + s.cells[c] / 64].fill(Some(c));
            }
            holds[c] = Some(c);
        }
        ran[launch.step] = true;
        launch.release.iter().for_each(|&c| holds[c] = None);
        launch.release_inputs.iter().for_each(|&i| holds[input(i)] = None);
    }
    assert!(ran.iter().all(|&r| r));
    for (slot, output) in s.outputs.iter().zip(&instance.outputs) {
        match (*slot, output.slot) {
            (Slot::Buffer(c), Slot::Buffer(b)) => {
                assert!(holds[c] == Some(c) && buffer[c] == b && memory[c].is_none(), "an output in the arena");
            }
            (a, b) => assert_eq!(a, b),
        }
    }
}

#[test]
fn nothing_that_lives_is_written_over() {
    let mut dice = Dice(1);
    for round in 0..400 {
        let instance = random(&mut dice, 3 + round % 40);
        let s = schedule(&instance, &needs());
        check(&instance, &s);
        assert_eq!((s.repeated, s.launches.len()), (0, instance.steps.len()));
    }
}

#[test]
fn what_runs_twice_finds_its_operands_and_stays_below_the_limit() {
    let mut dice = Dice(2);
    let (mut fit, mut twice) = (0, 0);
    for round in 0..400 {
        let instance = random(&mut dice, 5 + round % 40);
        let peak = schedule(&instance, &needs()).peak;
        let limit = peak * (5 + dice.below(3)) / 8;
        if let Ok(s) = schedule_within(&instance, &needs(), limit, &|n| 1 + n as u64 % 7) {
            check(&instance, &s);
            assert!(s.peak <= limit);
            fit += 1;
            twice += (s.repeated > 0) as usize;
        }
    }
    assert!(fit > 100 && twice > 40, "{fit} fit, {twice} by running something twice");
}

#[test]
fn memory_that_a_step_frees_itself_counts_while_it_runs() {
    // Two values, of which the second step reads the first.
    let mut instance = Instance { steps: vec![], outputs: vec![], buffers: vec![640, 64], fused: true };
    instance.steps.push(step(&[Slot::Input(1)], &[0], vec![]));
    instance.steps.push(step(&[Slot::Buffer(0)], &[1], vec![]));
    instance.outputs = vec![Output { op: 1, slot: Slot::Buffer(1), view: View::contiguous(Shape::SCALAR) }];
    let of = |temporary: &dyn Fn(usize) -> usize, limit: usize| {
        let needs = Needs { own: &[0, 0], temporary, ..needs() };
        (schedule(&instance, &needs).peak, schedule_within(&instance, &needs, limit, &|_| 1).map(|s| s.peak))
    };
    assert_eq!(of(&|_| 0, 704), (704, Ok(704)));
    assert_eq!(of(&|step| [128, 0][step], 767), (768, Err(768)));
    assert_eq!(of(&|step| [0, 128][step], 832), (832, Ok(832)));
}

#[test]
fn arenas_are_hardly_larger_than_what_lives_in_them() {
    let mut dice = Dice(3);
    let (mut bytes, mut live) = (0, 0);
    for _ in 0..100 {
        let arena = schedule(&random(&mut dice, 60), &needs()).arena;
        assert!(arena.bytes >= arena.live);
        (bytes, live) = (bytes + arena.bytes, live + arena.live);
    }
    assert!(bytes * 100 <= live * 108, "{bytes} bytes for {live}");
}

#[test]
fn branches_run_one_after_the_other() {
    // Eight large values, each summed to a small one, with all large ones recorded first.
    let mut instance = Instance { steps: vec![], outputs: vec![], buffers: vec![6400; 8], fused: true };
    instance.steps.extend((0..8).map(|b| step(&[Slot::Input(1)], &[b], vec![])));
    instance.buffers.extend([64; 9]);
    instance.steps.extend((0..8).map(|b| step(&[Slot::Buffer(b)], &[8 + b], vec![])));
    let sums: Vec<Slot> = (8..16).map(Slot::Buffer).collect();
    instance.steps.push(step(&sums, &[16], vec![]));
    instance.outputs = vec![Output { op: 16, slot: Slot::Buffer(16), view: View::contiguous(Shape::SCALAR) }];
    let s = schedule(&instance, &needs());
    check(&instance, &s);
    assert_eq!(s.arena.bytes, 6400 + 8 * 64);
}

#[test]
fn thousands_of_launches_are_planned() {
    let mut dice = Dice(4);
    let instance = random(&mut dice, 4000);
    let s = schedule(&instance, &needs());
    check(&instance, &s);
}
