//! Attention blocks in which all threads copy rows, keys and values, with two steps in shared memory.

use crate::ir::{Expr, Statement, Type};
use crate::kernels::attention::emit::{Attention, Copy, Placing, Side, i32, i64};
use crate::kernels::gemm::Math;

impl Attention<'_> {
    /// Emits the coordinates of a block's only tile, and its offsets in rows, keys and values.
    pub(super) fn own_tile(&self) -> Vec<Statement> {
        // Under a causal mask, tiles of the last rows attend to the most keys: they come first.
        self.text().params(self.layout).given("batches", self.batches()).statements(&[r"
let product = block / param row_tiles, within = block % param row_tiles;
let row0 = i64(SEEN ? param row_tiles - 1 - within : within) * ROWS, column0: i64 = 0;
batches;
"])
    }

    /// Emits the declaration of accumulators, set to 0.
    pub(super) fn cleared(&self, name: &str) -> Vec<Statement> {
        let count = if name == "s" { "EIGHTS" } else { "COLUMNS" };
        let text = format!(
            "var {name}: f32[{count}][4];\nfor j: i32 in 0..{count} unroll {{ for e: i32 in 0..4 unroll {{ {name}[j][e] = zero; }} }}"
        );
        self.text().statements(&[&text])
    }

    fn copies(&self) -> [Copy; 3] {
        let class = self.class;
        let [depth, columns] = class.sizes;
        let none = || Expr::Number(0, Type::I32);
        let side = |count: u32, first: Expr, step: u32, most: &str| Side { count, first, step, most: i64(most) };
        let rows = side(class.rows(), i64("row0").to(Type::I32), 0, "m");
        let keys = || side(class.block.keys, none(), class.block.keys, "keys");
        let depth = || side(depth, none(), 0, "depth");
        let columns = side(columns, none(), 0, "n");
        let copy = |number: usize, lines: Side, terms: Side| {
            let [pitch, all] = class.layout(number);
            Copy {
                number,
                element: self.element(),
                size: class.dtype.size() as u32,
                lines,
                terms,
                threads: class.threads(),
                along: class.along[number],
                placing: if class.math == Math::Warpgroup { Placing::Lines } else { Placing::Kept },
                pitch,
                all,
                params: self.params.copies[number].clone(),
            }
        };
        [copy(0, rows, depth()), copy(1, keys(), depth()), copy(2, columns, keys())]
    }

    /// Program of a block whose threads all copy.
    pub(super) fn copied(&self) -> Vec<Statement> {
        let [rows, keys, values] = self.copies();
        let none = || Expr::Number(0, Type::I32);
        let scoped = |all| vec![Statement::Scope(all)];
        let both = |step: Expr, slot: Expr| {
            [scoped(keys.step(step.clone(), slot.clone())), scoped(values.step(step, slot))].concat()
        };
        let slot = Expr::name("slot", Type::U32);
        let slot_now = slot.clone().to(Type::I32);
        let round = |of: &[&Copy], slot: &Expr| match self.class.math {
            Math::Tf32 => of.iter().flat_map(|copy| scoped(copy.round(slot.clone()))).collect(),
            _ => vec![],
        };
        let class = self.class;
        let mut out = self.own_tile();
        out.extend([&rows, &keys, &values].into_iter().flat_map(Copy::declared));
        out.extend(self.declared());
        out.extend(self.visible_keys());
        out.extend(self.scale());
        let text = self
            .text()
            .value("steps", i32("steps"))
            .given("copy_rows", scoped(rows.step(none(), none())))
            .given("copy_first", both(none(), none()))
            .given("copy_next", both(i32("next"), i32("other")))
            .given("fetch", self.first_fetch())
            .given(
                "round_rows",
                if class.scores_by_fours() { scoped(rows.round_to_fragments()) } else { round(&[&rows], &none()) },
            )
            .given("round", round(&[&keys, &values], &slot_now))
            .given("no_sums", self.cleared("sum"))
            .given("no_scores", self.cleared("s"))
            .given("row_begins", self.row_begins())
            .given("scores", self.scores(&slot))
            .given("make", self.make())
            .given("rescale", self.rescale())
            .given("add_up", self.sums(&slot))
            .given("row_ends", self.row_ends())
            .given("result", self.result());
        out.extend(text.statements(&[r"
copy_rows;
if steps > 0 { copy_first; }
copies_commit;
fetch;
no_sums;
row_begins;
for step: i32 in 0..steps {
    let slot = u32(step) & 1;
    copies_wait(0);
    when TF32 {
        if step == 0 { round_rows; }
        round;
    }
    when WARPGROUP { async_fence; }
    barrier;
    // The other half of the room was read in the last step.
    let next = step + 1, other = i32(slot ^ 1);
    if next < steps { copy_next; }
    copies_commit;
    no_scores;
    scores;
    make;
    rescale;
    add_up;
}
copies_wait(0);
row_ends;
result;
"]));
        out
    }
}
