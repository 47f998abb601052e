//! Online softmax: from scores to weights, with the running maximum and sum of each row, and the rescaling of the
//! accumulators.

use crate::body::divisors;
use crate::emit::nodes::{Names, statements, value};
use crate::ir::{Expr, Statement, Type};
use crate::kernels::attention::emit::{Attention, f32, i32};
use crate::kernels::gemm::emit::part::held;
use thalweg_ir::DType;

impl Attention<'_> {
    /// Emits the state of the online softmax: maximum and sum of two rows, eight apart. A thread has a part of the
    /// scores of both.
    pub(super) fn row_begins(&self) -> Vec<Statement> {
        self.text().statements(&[r"
when ONCE {
    var top: f32[2];
    var total: f32[2];
    for h: i32 in 0..2 unroll {
        top[h] = lowest;
        total[h] = zero;
    }
}
"])
    }

    /// Emits the computation of weights from the scores of step `step`, and the update of the maximum and sum of each
    /// row. If scores have a factor that can be folded into the exponent, the multiplier `by` includes the factor.
    ///
    /// With bf16 and f16 operands, weights are powers of two of scaled scores: one fused multiply-add each. The
    /// rounding of the scaled maximum changes all weights of a row by the same factor. Scores whose scaled values
    /// overflow, such as masks of the most negative number, take the slow path.
    pub(super) fn weigh(&self) -> Vec<Statement> {
        let constant = |x: f32| Expr::Constant(DType::F32, x.to_bits().into());
        let outside = if self.class.once.is_some() { constant(f32::NEG_INFINITY) } else { constant(0.0) };
        let by = if self.scaled.is_some() { f32("by") } else { constant(std::f32::consts::LOG2_E) };
        self.text()
            .value("step", i32("step"))
            .value("outside", outside)
            .value("by", by)
            .value("huge", constant(1.4e38))
            .elements("top", Type::Held(DType::F32))
            .elements("total", Type::Held(DType::F32))
            .statements(&[OUTSIDE, WEIGH])
    }

    /// Emits the rescaling of the accumulators, for when the row's maximum has grown.
    pub(super) fn rescale(&self) -> Vec<Statement> {
        // Two warpgroups in a persistent block have issue slots to spare: testing first takes longer (measured on an
        // H200).
        let always = self.class.block.persistent && self.class.block.warps < 12;
        self.text().holds("ALWAYS", always).elements("again", Type::Held(DType::F32)).statements(&[r"
when ONCE {
    for h: i32 in 0..2 unroll {
        proc rescale() {
            for j: i32 in 0..COLUMNS unroll {
                sum[j][2 * h] *= again[h];
                sum[j][2 * h + 1] *= again[h];
            }
        }
        when ALWAYS { rescale(); } else { if any_of_warp(again[h] != one) { rescale(); } }
    }
}
"])
    }

    /// Emits the final factor of a row, by which its weighted sums are multiplied at the end.
    pub(super) fn row_ends(&self) -> Vec<Statement> {
        let Some((body, [max, sum])) = &self.class.once else { return vec![] };
        let top = Expr::Element { of: "top".into(), at: vec![i32("h")], ty: Type::Held(DType::F32) };
        let top = match self.scaled {
            Some(_) => Expr::Operation(thalweg_ir::ElementOp::Mul, DType::F32, vec![top, f32("joined")]),
            None => top,
        };
        let own = |slot: u16| match slot {
            s if s == *max => top.clone(),
            s if s == *sum => f32("all"),
            other => unreachable!("value {other} of a row of weights"),
        };
        let once = |slot: u16, dtype| held(own(slot), dtype);
        let names = Names {
            load: &|_| unreachable!("nothing is loaded once a row"),
            index: &|_, _| unreachable!("a row has no place of its own"),
            valid: &|_| unreachable!("a row has no place of its own"),
            gather: &|_, _, _| unreachable!("nothing is gathered once a row"),
            value: &once,
            scalar: &|s| self.params.once_scalars[s as usize].slot(),
            reciprocal: &|s| {
                let at = divisors(body).iter().position(|d| d.0 == s)?;
                Some(self.params.once_reciprocals[at].slot())
            },
            native: self.native,
        };
        self.text()
            .elements("total", Type::Held(DType::F32))
            .given("compute", statements(body, &names))
            .value("factor", held(value(body, body.stores[0].node), DType::F32))
            .statements(&[r"
for h: i32 in 0..2 unroll {
    var all = total[h];
    all += shuffle_xor(all, 1);
    all += shuffle_xor(all, 2);
    compute;
    for j: i32 in 0..COLUMNS unroll {
        sum[j][2 * h] *= factor;
        sum[j][2 * h + 1] *= factor;
    }
}
"])
    }
}

const OUTSIDE: &str = r"
if (step + 1) * KEYS > i32(keys) {
    for j: i32 in 0..EIGHTS unroll {
        for e: i32 in 0..4 unroll {
            if step * KEYS + j * 8 + i32(lane) % 4 * 2 + e % 2 >= i32(keys) { s[j][e] = outside; }
        }
    }
}
";

/// Computes both rows of a thread together, each in two halves: that shortens the dependency chains.
const WEIGH: &str = r"
when ONCE {
    var most: f32[2][2];
    var part: f32[2][2];
    var now: f32[2];
    var shift: f32[2];
    var again: f32[2];
    for h: i32 in 0..2 unroll {
        most[h][0] = top[h];
        most[h][1] = s[0][2 * h];
        part[h][0] = zero;
        part[h][1] = zero;
    }
    for j: i32 in 0..EIGHTS unroll {
        for h: i32 in 0..2 unroll { most[h][j % 2] = larger(most[h][j % 2], larger(s[j][2 * h], s[j][2 * h + 1])); }
    }
    for h: i32 in 0..2 unroll { now[h] = larger(most[h][0], most[h][1]); }
    for x: u32 in 1..3 unroll {
        for h: i32 in 0..2 unroll { now[h] = larger(now[h], shuffle_xor(now[h], x)); }
    }
    // Of a row that has had nothing but -infinity nothing is to be NaN yet.
    for h: i32 in 0..2 unroll { shift[h] = now[h] == lowest ? zero : now[h]; }
    proc weights(weight) {
        for j: i32 in 0..EIGHTS unroll {
            for h: i32 in 0..2 unroll {
                s[j][2 * h] = weight(s[j][2 * h], h);
                s[j][2 * h + 1] = weight(s[j][2 * h + 1], h);
                part[h][j % 2] += s[j][2 * h] + s[j][2 * h + 1];
            }
        }
    }
    when NARROW {
        var scaled: f32[2];
        for h: i32 in 0..2 unroll { scaled[h] = shift[h] * by; }
        let far = abs(scaled[0]) > huge || abs(scaled[1]) > huge;
        for h: i32 in 0..2 unroll {
            let changed = power_of_two(far ? (top[h] - shift[h]) * by : top[h] * by - scaled[h]);
            again[h] = top[h] == lowest ? zero : changed;
            top[h] = now[h];
        }
        fn near(x, h) = power_of_two(multiply_add(x, by, -scaled[h]));
        fn long(x, h) = power_of_two((x - shift[h]) * by);
        if !any_of_warp(far) { weights(near); } else { weights(long); }
    } else {
        for h: i32 in 0..2 unroll {
            again[h] = top[h] == lowest ? zero : exp(top[h] - shift[h]);
            top[h] = now[h];
        }
        fn weight(x, h) = exp(x - shift[h]);
        weights(weight);
    }
    for h: i32 in 0..2 unroll { total[h] = total[h] * again[h] + (part[h][0] + part[h][1]); }
}
";
