//! Persistent attention blocks: two or three consumer warpgroups of 64 rows share the keys and values that a producer
//! thread copies by TMA.
//!
//! Keys and values have mbarriers of their own, since a step's scores are done with its keys long before its weights
//! are multiplied with its values. Rows are released after the last scores, so that the next tile's rows are loaded
//! during this one's epilogue. Three warpgroups multiply *in turns* (ping-pong): while one does, the others compute
//! weights from their scores.

use crate::ir::{Action, Expr, Rotation, Routine, Shuffle, Statement, Type};
use crate::kernels::attention::emit::{Attention, VISIBLE_KEYS, i32, i64, shared_part, u32};
use crate::kernels::attention::{AttentionClass, groups};
use crate::kernels::gemm::emit::{next_place, registers};
use crate::kernels::gemm::tma::TmaFactor;

/// Registers per thread of the producer warpgroup: 24, as many as its code needs; with three consumer warpgroups 32,
/// the registers that the consumers leave.
fn less(groups: u32) -> u32 {
    if groups > 2 { 32 } else { 24 }
}

/// Synchronization of three warpgroups in the ping-pong schedule; two warpgroups interleave without it. Measured on an
/// H200: named barriers are 2 % faster, except for causal masks, where they are 3 % slower.
fn turns(class: &AttentionClass) -> Option<Rotation> {
    match (groups(class), &class.causal) {
        (..3, _) => None,
        (_, None) => Some(Rotation::NamedBarrier),
        (_, Some(_)) => Some(Rotation::Mbarrier),
    }
}

impl Attention<'_> {
    /// Declares the mbarriers of the block.
    fn barriers(&self) -> Vec<Statement> {
        let (stages, groups) = (self.class.stages(), groups(self.class));
        let mut at = self.class.barriers_at();
        let counts = [
            ("rows_full", 1),
            ("rows_empty", 1),
            ("keys_full", stages),
            ("keys_empty", stages),
            ("values_full", stages),
            ("values_empty", stages),
            ("turns", groups),
        ];
        let part = |(name, count): (&str, u32)| {
            let part = shared_part(name.into(), Type::U64, count, at);
            at += 8 * count;
            part
        };
        counts.into_iter().map(part).collect()
    }

    /// Emits the program of a persistent block with several consumer warpgroups.
    pub(super) fn persistent(&self, factors: &[TmaFactor; 3]) -> Vec<Statement> {
        let (class, groups, stages) = (self.class, groups(self.class), self.class.stages());
        let (slot, before) = (u32("slot"), u32("before"));
        let none = || Expr::Number(0, Type::I32);
        let keys = |step: Expr| step * Expr::Number(class.block.keys.into(), Type::I32);
        let at = |name: &str, place: &Expr| (name.to_string(), place.clone());
        let first = Expr::Number(0, Type::U32);
        let rows = self.boxes((factors, 0), [i64("row0"), none()], first.clone(), at("rows_full", &first));
        let ahead = [keys(i32("step")), none()];
        let of_keys = self.boxes((factors, 1), ahead, slot.clone(), at("keys_full", &slot));
        let behind = [none(), keys(i32("step") - Expr::Number(1, Type::I32))];
        let of_values = self.boxes((factors, 2), behind, before.clone(), at("values_full", &before));
        let [rows_bytes, keys_bytes, values_bytes] = self.bytes();
        let turn = |of: fn(Rotation, u32) -> Action| {
            turns(class).map(|how| Statement::Do(of(how, groups))).into_iter().collect::<Vec<_>>()
        };
        let take = turn(|how, _| Action::RotationWait(how, "turns".into(), "turn".into()));
        let give = turn(|how, groups| Action::RotationSignal(how, "turns".into(), groups));
        let first_turn = match turns(class) {
            Some(Rotation::NamedBarrier) => vec![Statement::Do(Action::RotationStart(groups))],
            _ => vec![],
        };
        let same_in_warp = Routine::Shuffle(Shuffle::From, Type::U32);
        let maps = self.params.maps.iter().map(|map| Statement::Do(Action::TensorMapPrefetch(map.slot())));
        let text = self
            .text()
            .params(self.layout)
            .number("GROUPS", groups)
            .number("LESS", less(groups))
            .number("MORE", registers(groups, less(groups)))
            .number("ROWS_BYTES", rows_bytes)
            .number("KEYS_BYTES", keys_bytes)
            .number("VALUES_BYTES", values_bytes)
            .function("same_in_warp", move |x| same_in_warp.of([x[0].clone(), Expr::Number(0, Type::U32)]))
            .value("hides", Expr::name("hides", Type::BOOL))
            .value("ahead", i64("ahead"))
            .value("steps", i32("steps"))
            .given("batches", self.batches())
            .given("maps_ahead", maps.collect())
            .given("seen_steps", self.visible_keys())
            .given("copy_rows", rows)
            .given("copy_keys", of_keys)
            .given("copy_values", of_values)
            .given("next_keys", next_place("slot", "slot_phase", stages))
            .given("next_values", next_place("before", "before_phase", stages))
            .given("first_turn", first_turn)
            .given("take_turn", take)
            .given("give_turn", give)
            .given("declared", self.declared())
            .given("scale", self.scale())
            .given("fetch", self.first_fetch())
            .given("no_sums", self.cleared("sum"))
            .given("row_begins", self.row_begins())
            .given("scores", self.begin_scores(&slot))
            .given("add_up", self.begin_sums(&before))
            .given("no_weights", vec![self.fragments()])
            .given("pack", self.pack())
            .given("make", self.make())
            .given("rescale", self.rescale())
            .given("row_ends", self.row_ends())
            .given("result", self.result());
        let names = ["rows_full", "rows_empty", "keys_full", "keys_empty", "values_full", "values_empty", "turns"];
        let text = names.into_iter().fold(text, |text, name| text.elements(name, Type::U64));
        let mut out = self.barriers();
        let copy = TILES.replace("BODY;", COPY);
        let compute = TILES.replace("BODY;", &COMPUTE.replace("STEP;", STEP));
        out.extend(text.statements(&[VISIBLE_KEYS, BEGIN, &COPIES.replace("TILES;", &copy), COMPUTES, &compute]));
        out
    }
}

const BEGIN: &str = r"
let column0: i64 = 0, group = same_in_warp(t / 128), tiles = param row_tiles * param products;
if t == 0 {
    barrier_start(rows_full[0], 1);
    barrier_start(rows_empty[0], WARPS);
    for p: u32 in 0..STAGES {
        barrier_start(keys_full[p], 1);
        barrier_start(keys_empty[p], WARPS);
        barrier_start(values_full[p], 1);
        barrier_start(values_empty[p], WARPS);
    }
    // Each warp arrives after its own multiplications.
    for g: u32 in 0..GROUPS { barrier_start(turns[g], 4); }
    barriers_started;
}
barrier;
// Steps of all tiles of the block cycle through the pipeline stages.
var rows_phase = u32(0), slot = u32(0), slot_phase = u32(0), before = u32(0), before_phase = u32(0);
";

/// Loop over a block's tiles. Blocks take tiles forwards and backwards in alternate rounds, so that with causal masks
/// all blocks get about the same number of steps; tiles that attend to most keys come first, across all products.
const TILES: &str = r"
var round = u32(0);
for first: u32 in 0..tiles by blocks {
    let at = first + (round % 2 == 1 ? blocks - 1 - block : block);
    round += 1;
    if at < tiles {
        let product = SEEN ? at % param products : at / param row_tiles;
        let row0 = i64(SEEN ? param row_tiles - 1 - at / param products : at % param row_tiles) * ROWS;
        batches;
        seen_steps;
        BODY;
    }
}
";

const COPIES: &str = r"
if group == GROUPS {
    registers_less(LESS);
    if t % 128 == 0 {
        maps_ahead;
        TILES;
    }
    return;
}
";

/// Producer: copies are issued in the order of use, each step's keys followed by the values of the step before.
const COPY: &str = r"
if steps > 0 {
    barrier_wait(rows_empty[0], rows_phase ^ 1);
    barrier_expect(rows_full[0], ROWS_BYTES);
    copy_rows;
    rows_phase ^= 1;
    for step: i32 in 0..steps + 1 {
        if step < steps {
            barrier_wait(keys_empty[slot], slot_phase ^ 1);
            barrier_expect(keys_full[slot], KEYS_BYTES);
            copy_keys;
            next_keys;
        }
        if step > 0 {
            barrier_wait(values_empty[before], before_phase ^ 1);
            barrier_expect(values_full[before], VALUES_BYTES);
            copy_values;
            next_values;
        }
    }
}
";

const COMPUTES: &str = r"
registers_more(MORE);
var turn = u32(0);
first_turn;
declared;
";

const COMPUTE: &str = r"
let warp_row = row0 + i64(warp * 16);
scale;
fetch;
no_sums;
row_begins;
if steps > 0 {
    when SEEN {
        // A warpgroup whose rows attend to fewer keys than others of its block skips the last steps.
        let own_keys = hides ? seen_keys(row0 + i64(group * 64) + 63 + ahead) : keys;
        let own_steps = i32((own_keys + (KEYS - 1)) / KEYS), own = own_steps > 1 ? own_steps : 1;
    } else {
        let own = steps;
    }
    var s: f32[EIGHTS][4];
    no_weights;
    barrier_wait(rows_full[0], rows_phase);
    barrier_wait(keys_full[slot], slot_phase);
    take_turn;
    scores;
    give_turn;
    warpgroup_wait(0);
    keep(s);
    if lane == 0 {
        barrier_arrive(keys_empty[slot]);
        if own == 1 { barrier_arrive(rows_empty[0]); }
    }
    next_keys;
    if steps > 0 {
        let step = i32(0);
        make;
    }
    pack;
    STEP;
    barrier_wait(values_full[before], before_phase);
    add_up;
    warpgroup_wait(0);
    keep(sum);
    if lane == 0 { barrier_arrive(values_empty[before]); }
    next_values;
    when SEEN {
        for step: i32 in own..steps {
            barrier_wait(keys_full[slot], slot_phase);
            take_turn;
            give_turn;
            barrier_wait(values_full[before], before_phase);
            // All threads of the warp have waited for both phases: a thread two phases late would wait forever.
            warp_barrier;
            if lane == 0 {
                barrier_arrive(keys_empty[slot]);
                barrier_arrive(values_empty[before]);
            }
            next_keys;
            next_values;
        }
    }
    rows_phase ^= 1;
}
row_ends;
result;
";

const STEP: &str = r"
for step: i32 in 1..own {
    barrier_wait(keys_full[slot], slot_phase);
    take_turn;
    scores;
    barrier_wait(values_full[before], before_phase);
    add_up;
    give_turn;
    warpgroup_wait(1);
    keep(s);
    if lane == 0 {
        barrier_arrive(keys_empty[slot]);
        if step + 1 == own { barrier_arrive(rows_empty[0]); }
    }
    next_keys;
    make;
    warpgroup_wait(0);
    keep(sum);
    if lane == 0 { barrier_arrive(values_empty[before]); }
    next_values;
    rescale;
    pack;
}
";
