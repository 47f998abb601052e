//! Attention blocks whose rows, keys and values are copied by TMA: a producer warp issues the copies some steps ahead
//! of the consumers.

use crate::ir::{Expr, Name, Statement, Type};
use crate::kernels::attention::emit::{Attention, i32, i64, shared_part, u32};
use crate::kernels::gemm::tma::TmaFactor;
use crate::kernels::gemm::tma::boxes::Boxes;

impl Attention<'_> {
    /// Emits the TMA copies of a box of rows, keys or values, which begins at the given line and term, to a stage of
    /// its range of shared memory.
    pub(super) fn boxes(
        &self,
        (factors, number): (&[TmaFactor; 3], usize),
        first: [Expr; 2],
        place: Expr,
        barrier: (Name, Expr),
    ) -> Vec<Statement> {
        let (class, params) = (self.class, self.params);
        let [depth, columns] = class.sizes;
        let keys = class.block.keys;
        let counts = [[class.rows(), depth], [keys, depth], [columns, keys]][number];
        let all = Expr::Number(class.layout(number)[1].into(), Type::U32);
        let boxes = Boxes {
            factor: factors[number],
            number,
            batch: Type::I64,
            dims: &params.dims[number],
            map: params.maps[number].slot(),
            counts,
            first,
            to: if number == 0 { place } else { place * all },
            barrier,
        };
        boxes.statements()
    }

    /// Bytes that TMA copies per step, of rows, keys and values.
    pub(super) fn bytes(&self) -> [u32; 3] {
        [0, 1, 2].map(|n| self.class.layout(n)[1] * self.class.dtype.size() as u32)
    }

    /// Emits the program of a block of one consumer warpgroup.
    pub(super) fn tma(&self, factors: &[TmaFactor; 3]) -> Vec<Statement> {
        let (class, stages) = (self.class, self.class.stages());
        let none = || Expr::Number(0, Type::I32);
        let keys = i32("step") * Expr::Number(class.block.keys.into(), Type::I32);
        let slot = || u32("slot");
        let full = || ("full".to_string(), slot());
        let rows = self.boxes((factors, 0), [i64("row0"), none()], Expr::Number(0, Type::U32), full());
        let mut of_step = self.boxes((factors, 1), [keys.clone(), none()], slot(), full());
        of_step.extend(self.boxes((factors, 2), [none(), keys], slot(), full()));
        let mut out = vec![
            shared_part("full".into(), Type::U64, stages, class.barriers_at()),
            shared_part("empty".into(), Type::U64, stages, class.barriers_at() + 8 * stages),
        ];
        out.extend(self.own_tile());
        out.extend(self.declared());
        out.extend(self.visible_keys());
        out.extend(self.scale());
        let [rows_bytes, keys_bytes, values_bytes] = self.bytes();
        let text = self
            .text()
            .number("ROWS_BYTES", rows_bytes)
            .number("BYTES", keys_bytes + values_bytes)
            .elements("full", Type::U64)
            .elements("empty", Type::U64)
            .value("steps", i32("steps"))
            .given("copy_rows", rows)
            .given("copy", of_step)
            .given("fetch", self.first_fetch())
            .given("no_sums", self.cleared("sum"))
            .given("row_begins", self.row_begins())
            .given("first_scores", self.begin_scores(&Expr::Number(0, Type::U32)))
            .given("scores", self.begin_scores(&slot()))
            .given("add_up", self.begin_sums(&u32("before")))
            .given("add_last", self.begin_sums(&u32("last")))
            .given("no_weights", vec![self.fragments()])
            .given("pack", self.pack())
            .given("make", self.make())
            .given("rescale", self.rescale())
            .given("row_ends", self.row_ends())
            .given("result", self.result());
        out.extend(text.statements(&[r"
if t == 0 {
    for p: u32 in 0..STAGES {
        barrier_start(full[p], 1);
        barrier_start(empty[p], WARPS);
    }
    barriers_started;
}
barrier;
if warp == WARPS {
    if lane == 0 {
        for step: i32 in 0..steps {
            let slot = u32(step) % STAGES;
            barrier_wait(empty[slot], u32(step) / STAGES & 1 ^ 1);
            barrier_expect(full[slot], step > 0 ? u32(BYTES) : u32(BYTES + ROWS_BYTES));
            if step == 0 { copy_rows; }
            copy;
        }
    }
    return;
}
let warp_row = row0 + i64(warp * 16);
fetch;
no_sums;
row_begins;
var s: f32[EIGHTS][4];
if steps > 0 {
    barrier_wait(full[0], 0);
    first_scores;
    warpgroup_wait(0);
    keep(s);
    if steps > 0 {
        let step = i32(0);
        make;
    }
    no_weights;
    pack;
    // While weights are made of one step's scores, the second product of the step before is under way.
    for step: i32 in 1..steps {
        let slot = u32(step) % STAGES, before = u32(step - 1) % STAGES;
        barrier_wait(full[slot], u32(step) / STAGES & 1);
        scores;
        add_up;
        warpgroup_wait(1);
        keep(s);
        make;
        warpgroup_wait(0);
        keep(sum);
        if t % 32 == 0 { barrier_arrive(empty[before]); }
        rescale;
        pack;
    }
    let last = u32(steps - 1) % STAGES;
    add_last;
    warpgroup_wait(0);
    keep(sum);
}
row_ends;
result;
"]));
        out
    }
}
