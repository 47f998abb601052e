//! Two products with weights between them, as one kernel: `Σ_j w(q·k[j])·v[j]`, the keys `j` streamed.
//!
//! A warp has 16 rows. Of a block of keys it computes the scores, which stay in its registers as the sums of the first
//! product and go into the second one as its left factor; nothing of the size rows times keys is in any memory. Where
//! weights are exponentials, the sums so far are multiplied by what a larger score changes
//! ([`thalweg_kernel::Weights`]).

mod feed;
mod multiply;
mod point;
mod scaled;
mod stay;
mod weigh;

use crate::render::elements::is_native;
use crate::render::print;
use crate::render::types::stored;
use multiply::{functions, scores, sums};
use point::{Point, point};
use scaled::scaled;
use std::fmt::Write;
use thalweg_gpu::class::contraction::{LINE_ELEMENTS, Math};
use thalweg_gpu::class::streamed::{HEAD, StreamedClass, StreamedSlots};
use thalweg_gpu::ir::{Expr, Type};
use thalweg_gpu::write::contraction::factor::{Copy, Placing, Side};
use thalweg_gpu::write::contraction::result;
use thalweg_kernel::Seen;
use weigh::{begin, end, rescale, weigh};

/// What every form of the kernel is put together from.
struct Texts {
    /// The numbers of a product's matrices among those of each factor.
    batches: String,
    /// What is declared for the reads of a score.
    declared: String,
    /// How many keys a block of rows goes through.
    seen: String,
    /// What is known of a factor that all scores have.
    scale: String,
    /// What loads what a step's scores need, if anything is loaded, as a function.
    fetch: String,
    /// From scores to weights.
    make: String,
    /// What a larger score changes of the sums so far, and what is done with them at the end.
    rescale: String,
    end: String,
    result: String,
}

impl Texts {
    fn of(class: &StreamedClass, slots: &StreamedSlots) -> Texts {
        let mut batches = String::new();
        for d in (0..class.batch as usize).rev() {
            let w = HEAD + 5 * d;
            let _ = writeln!(
                batches,
                "  {{ const Split s = split(rest, a.w[{w}], a.w[{}]); rest = s.q; batch0 += s.r * (i64)a.w[{}]; batch1 += s.r * (i64)a.w[{}]; batch2 += s.r * (i64)a.w[{}]; }}",
                w + 1,
                w + 2,
                w + 3,
                w + 4
            );
        }
        let scaled = scaled(class, slots);
        let points: Vec<Point> = (0..class.points.len())
            .map(|n| point(class, slots, n, scaled.as_ref().filter(|s| s.number == n)))
            .collect();
        let loads: String = points.iter().map(|p| p.fetch.as_str()).collect();
        // What the next step's scores need is on its way while this one's weights are made.
        let (fetch, ahead) = match loads.is_empty() {
            true => (String::new(), ""),
            false => (
                format!("  auto fetch = [&](i32 step) {{\n{loads}  }};\n  if (steps) fetch(0);\n"),
                "    if (step + 1 < steps) fetch(step + 1);\n",
            ),
        };
        let compute: String = points.iter().map(|p| p.compute.as_str()).collect();
        let compute = match &class.seen {
            None => compute,
            Some(_) => {
                let whole: String = points.iter().map(|p| p.seen.as_ref().unwrap_or(&p.compute).as_str()).collect();
                format!("    if (hides) {{\n{whole}{}    }} else {{\n{compute}    }}\n", hide(class))
            }
        };
        Texts {
            batches,
            declared: points.iter().map(|p| p.declared.as_str()).collect(),
            seen: format!(
                "{}  const i32 steps = (i32)((seen + {}) / {});\n",
                seen(class, slots),
                class.block.keys - 1,
                class.block.keys
            ),
            fetch,
            make: compute + ahead + &weigh(class, scaled.is_some()),
            rescale: rescale(class),
            end: end(class, slots, scaled.is_some()),
            scale: scaled.map_or(String::new(), |s| s.declared),
            result: made(class, slots),
        }
    }
}

/// The source, with one function, `contraction`.
pub fn source(class: &StreamedClass) -> String {
    let slots = StreamedSlots::new(class);
    let texts = Texts::of(class, &slots);
    if let (true, Some(factors)) = (class.block.stays, &class.fed) {
        return stay::source(class, &slots, factors, &texts);
    }
    let [copies, first_copies, arrive] = match &class.fed {
        Some(factors) => feed::text(class, &slots, factors),
        None => copies(class, &slots),
    };
    let [rows, keys, values] = [0, 1, 2].map(|f| class.layout(f));
    let [depth, columns] = class.sizes;
    // Those that see most keys come first.
    let first_tile = match &class.seen {
        None => "blockIdx.x % (u32)a.w[4]",
        Some(_) => "(u32)a.w[4] - 1 - blockIdx.x % (u32)a.w[4]",
    };
    let Texts { batches, declared, seen, scale, fetch, make, rescale, end, result } = &texts;
    let steps = match &class.fed {
        Some(_) => feed::steps(class, make, rescale),
        None => format!(
            "  for (i32 step = 0; step < steps; step++) {{\n{arrive}    float s[{}][4] = {{}};\n{}{make}{rescale}{}  }}\n  copies_wait<0>();\n",
            class.block.keys / 8,
            scores(class, depth, [rows[0], keys[0], keys[1]]),
            sums(class, values),
        ),
    };
    format!(
        r#"
{functions}extern "C" __global__ void __launch_bounds__({threads}, {blocks}) contraction(THALWEG_PARAMETER{lines}({words})) {{
  begin();
  THALWEG_SHARED_LINES(shared);
  const i64 m = (i64)a.w[0], n = (i64)a.w[1], keys = (i64)a.w[2], depth = (i64)a.w[3];
  const u32 t = threadIdx.x, lane = t % 32, warp = t / 32;
  u32 *const fault = (u32 *)a.w[5];
  const u32 product = blockIdx.x / (u32)a.w[4];
  const i64 row0 = (i64)({first_tile}) * {tall}, column0 = 0;
  i64 batch0 = 0, batch1 = 0, batch2 = 0;
  u32 rest = product;
{batches}  {element} *const s0 = ({element} *)shared, *const s1 = s0 + {all0}, *const s2 = s1 + {stages} * {all1};
{copies}{declared}{seen}{scale}{first_copies}{fetch}  float sum[{oj}][4] = {{}};
{begin}{steps}{end}{result}}}
"#,
        functions = functions(class),
        threads = class.threads(),
        blocks = class.block.blocks,
        words = slots.end,
        lines = if class.fed.is_some() { "_LINES" } else { "" },
        element = stored(class.dtype),
        stages = class.stages(),
        tall = class.rows(),
        all0 = rows[1],
        all1 = keys[1],
        oj = columns / 8,
        begin = begin(class),
    )
}

/// The statements that say how many keys a block of rows goes through.
fn seen(class: &StreamedClass, slots: &StreamedSlots) -> String {
    let Some((point, Seen { moved, hidden, .. })) = &class.seen else { return "  const i64 seen = keys;\n".into() };
    let scalar = |slot: u16| format!("bits_f32((u32)a.w[{}])", slots.points[*point as usize].scalars + slot as usize);
    let (mut known, mut ahead) = (vec![], format!("(i64)a.w[{}]", slots.ahead));
    if let Some(slot) = hidden {
        known.push(format!("{} == -bits_f32(0x7f800000u)", scalar(*slot)));
    }
    if let Some((slot, minus)) = moved {
        let by = scalar(*slot);
        known.push(format!("fabsf({by}) < 16777216.0f && truncf({by}) == {by}"));
        ahead += &format!(" {} (i64)({by})", if *minus { '-' } else { '+' });
    }
    let known = if known.is_empty() { "true".into() } else { known.join(" && ") };
    format!(
        "  const bool hides = {known};\n  const i64 ahead = hides ? {ahead} : 0, seen = hides ? seen_keys(row0 + {} + ahead - 1, keys) : keys;\n",
        class.rows()
    )
}

/// Statements that hide what a row does not see, in blocks of keys that some rows of the warpgroup do not see whole.
fn hide(class: &StreamedClass) -> String {
    let (keys, j) = (class.block.keys, class.block.keys / 8);
    format!(
        r#"      if ((i64)(step + 1) * {keys} > row0 + warp / 4 * 64 + ahead) {{
#pragma unroll
        for (int h = 0; h < 2; h++) {{
          // A thread's first keys of eight are seen below this one.
          const i64 below = row0 + (i64)(warp * 16 + lane / 4 + h * 8) + ahead - (i64)step * {keys};
          const i32 most = (i32)(below < 0 ? 0 : below < {keys} ? below : {keys}) - (i32)(lane % 4) * 2;
#pragma unroll
          for (int j = 0; j < {j}; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) if (j * 8 + e >= most) s[j][2 * h + e] = -bits_f32(0x7f800000u);
        }}
      }}
"#
    )
}

/// What copies rows, keys and values to shared memory, by all threads: its functions, what begins before the first step,
/// and what a step begins with.
fn copies(class: &StreamedClass, slots: &StreamedSlots) -> [String; 3] {
    let [depth, columns] = class.sizes;
    let copy = |number: usize, lines: &Side, terms: &Side| {
        let [pitch, all] = class.layout(number);
        let copy = Copy {
            number,
            element: Type::Stored(class.dtype),
            size: class.dtype.size() as u32,
            lines: lines.clone(),
            terms: terms.clone(),
            threads: class.threads(),
            along: class.along[number],
            placing: if class.math == Math::Warpgroup { Placing::Lines } else { Placing::Kept },
            pitch,
            all,
            at: slots.factors[number],
        };
        let [step, slot] = ["step", "slot"].map(|name| Expr::name(name, Type::I32));
        format!(
            "{}  auto copy{number} = [&](i32 step, i32 slot) {{\n{}  }};\n",
            print::statements(&copy.declared()),
            print::statements(&copy.step(step, slot))
        )
    };
    let side = |count: u32, first: Expr, step: u32, most: &str| Side {
        count,
        first: first.to(Type::I32),
        step,
        most: Expr::name(most, Type::I64),
    };
    let none = || Expr::Number(0, Type::I32);
    let rows = side(class.rows(), Expr::name("row0", Type::I64), 0, "m");
    let keys = side(class.block.keys, none(), class.block.keys, "keys");
    let depth = side(depth, none(), 0, "depth");
    let columns = side(columns, none(), 0, "n");
    let functions = copy(0, &rows, &depth) + &copy(1, &keys, &depth) + &copy(2, &columns, &keys);
    let first = r#"  copy0(0, 0);
  if (steps) {
    copy1(0, 0);
    copy2(0, 0);
  }
  copies_commit();
"#;
    let arrive = format!(
        r#"    const u32 slot = step & 1;
    copies_wait<0>();
{fence}    __syncthreads();
    // The other half of the room was read in the last step.
    if (step + 1 < steps) {{
      copy1(step + 1, slot ^ 1);
      copy2(step + 1, slot ^ 1);
    }}
    copies_commit();
"#,
        fence = if class.math == Math::Warpgroup { "    async_fence();\n" } else { "" },
    );
    [functions, first.into(), arrive]
}

/// What is made of the sums.
fn made(class: &StreamedClass, slots: &StreamedSlots) -> String {
    let handed = class.handed();
    let hand_on = if class.fed.is_some() {
        let case = |pass: u32| (("sum".into(), vec![]), pass * (LINE_ELEMENTS / 8));
        result::hand_on_pass(&handed, (0..handed.passes).map(case).collect())
    } else {
        result::hand_on_rows(&handed, class.sizes[1] / 8)
    };
    print::statements(&result::statements(&handed, &slots.result, &is_native, hand_on))
}
