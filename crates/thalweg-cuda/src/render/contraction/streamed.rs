//! Two products with weights between them, as one kernel: `Σ_j w(q·k[j])·v[j]`, the keys `j` streamed.
//!
//! A warp has 16 rows. Of a block of keys it computes the scores, which stay in its registers as the sums of the first
//! product and go into the second one as its left factor; nothing of the size rows times keys is in any memory. Where
//! weights are exponentials, the sums so far are multiplied by what a larger score changes
//! ([`thalweg_kernel::Weights`]).

use super::factor::{Copy, Placing, Side};
use super::result::{self, Handed};
use super::warpgroup::{self, EIGHT, LINE, LINE_ELEMENTS, Left};
use super::{Math, PartClass, PartSlots, names};
use crate::render::access::{Accesses, Stand, wanted};
use crate::render::body::{Names, divisors, name, statements};
use crate::render::types::stored;
use crate::space::{Way, decompose, index_type, offset};
use std::fmt::Write;
use thalweg_ir::DType;
use thalweg_kernel::Body;

/// Words before those of the batch dimensions: rows, columns of the result, keys, terms of a score, tiles of rows, where
/// an index out of range is told.
pub const HEAD: usize = 6;

/// What decides the source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StreamedClass {
    /// Of the factors.
    pub dtype: DType,
    /// On tensor cores: any but [`Math::Plain`].
    pub math: Math,
    /// Warps of a block, each with 16 rows.
    pub warps: u32,
    /// Keys of a step.
    pub keys: u32,
    /// Blocks that a multiprocessor is to hold, for the compiler's use of registers.
    pub blocks: u32,
    /// Terms of a score and columns of the result, as powers of two, at least 16, for warpgroups 64.
    pub sizes: [u32; 2],
    /// Batch dimensions.
    pub batch: u8,
    /// Of rows, keys and values: whether terms are neighbours (of values the keys are the terms).
    pub along: [bool; 3],
    /// What is made of a score, each of the last one's result, which is this operand of it: the first product's
    /// epilogue, where it has one, then the weights.
    pub points: Vec<(PartClass, u16)>,
    /// What a weight is multiplied by at the end, with the values of the row that are maximum and sum; `None` where
    /// weights are no exponentials.
    pub once: Option<(Body, [u16; 2])>,
    /// What is made of the sums, which are this operand of it.
    pub result: (PartClass, u16),
}

/// Where the words are.
#[derive(Clone, Debug)]
pub struct StreamedSlots {
    /// Address and pitch of rows, keys and values.
    pub factors: [usize; 3],
    /// Of what is made of a score.
    pub points: Vec<PartSlots>,
    /// The scalars of the factor at the end, and their reciprocals.
    pub once: [usize; 2],
    /// Of the result.
    pub result: PartSlots,
}

impl StreamedSlots {
    /// Those of a class. Each batch dimension has five words: two to divide by its size, then how far it goes in rows,
    /// keys and values.
    pub fn new(class: &StreamedClass) -> StreamedSlots {
        let mut end = HEAD + 5 * class.batch as usize;
        let factors = [end, end + 2, end + 4];
        end += 6;
        let mut points = vec![];
        for (part, _) in &class.points {
            points.push(PartSlots::new(part, end));
            end = points.last().map_or(end, |p| p.end);
        }
        let (scalars, divided) = class.once.as_ref().map_or((0, 0), |(b, _)| (b.scalars as usize, divisors(b).len()));
        let once = [end, end + scalars];
        StreamedSlots { factors, points, once, result: PartSlots::new(&class.result.0, end + scalars + divided) }
    }
}

impl StreamedClass {
    /// Its bodies.
    pub fn bodies(&self) -> impl Iterator<Item = &Body> {
        let points = self.points.iter().map(|p| &p.0.body);
        points.chain(self.once.iter().map(|o| &o.0)).chain([&self.result.0.body])
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        32 * self.warps
    }

    /// Rows of a block.
    pub fn rows(&self) -> u32 {
        16 * self.warps
    }

    /// Of rows, keys and values: elements from line to line or term to term in shared memory, and all of a block's.
    fn layout(&self, factor: usize) -> [u32; 2] {
        let (lines, terms) = match factor {
            0 => (self.rows(), self.sizes[0]),
            1 => (self.keys, self.sizes[0]),
            _ => (self.sizes[1], self.keys),
        };
        if self.math == Math::Warpgroup {
            return [LINE_ELEMENTS, lines * terms];
        }
        let (inner, outer) = if self.along[factor] { (terms, lines) } else { (lines, terms) };
        let pad = match self.math {
            Math::Tf32 if self.along[factor] || factor == 2 => 4,
            _ => 8,
        };
        [inner + pad, (inner + pad) * outer]
    }

    fn handed(&self) -> Handed<'_> {
        Handed {
            result: &self.result,
            sums: DType::F32,
            columns: self.sizes[1],
            threads: self.threads(),
            rows_a_pass: self.rows(),
            passes: 1,
        }
    }

    /// Bytes of shared memory.
    pub fn shared(&self) -> u32 {
        let size = self.dtype.size() as u32;
        let factors = (self.layout(0)[1] + 2 * (self.layout(1)[1] + self.layout(2)[1])) * size;
        factors.max(self.handed().bytes())
    }
}

/// The source, with one function, `contraction`.
pub fn source(class: &StreamedClass) -> String {
    let slots = StreamedSlots::new(class);
    let element = stored(class.dtype);
    let [depth, columns] = class.sizes;
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
    let functions = functions(class);
    let arrived = if class.math == Math::Warpgroup { "    async_fence();\n" } else { "" };
    let [rows, keys, values] = [0, 1, 2].map(|f| class.layout(f));
    let points: Vec<Point> = (0..class.points.len()).map(|n| point(class, &slots, n)).collect();
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
    let declared: String = points.iter().map(|p| p.declared.as_str()).collect();
    format!(
        r#"
{functions}extern "C" __global__ void __launch_bounds__({threads}, {blocks}) contraction(THALWEG_PARAMETER({words})) {{
  begin();
  THALWEG_SHARED_LINES(shared);
  const i64 m = (i64)a.w[0], n = (i64)a.w[1], keys = (i64)a.w[2], depth = (i64)a.w[3];
  const u32 t = threadIdx.x, lane = t % 32, warp = t / 32;
  u32 *const fault = (u32 *)a.w[5];
  const u32 product = blockIdx.x / (u32)a.w[4];
  const i64 row0 = (i64)(blockIdx.x % (u32)a.w[4]) * {tall}, column0 = 0;
  i64 batch0 = 0, batch1 = 0, batch2 = 0;
  u32 rest = product;
{batches}  {element} *const s0 = ({element} *)shared, *const s1 = s0 + {all0}, *const s2 = s1 + 2 * {all1};
{copies}{declared}  const i32 steps = (i32)((keys + {last}) / {block});
  copy0(0, 0);
  copy1(0, 0);
  copy2(0, 0);
  copies_commit();
{fetch}  float sum[{oj}][4] = {{}};
{begin}  for (i32 step = 0; step < steps; step++) {{
    const u32 slot = step & 1;
    copies_wait<0>();
{arrived}    __syncthreads();
    // The other half of the room was read in the last step.
    if (step + 1 < steps) {{
      copy1(step + 1, slot ^ 1);
      copy2(step + 1, slot ^ 1);
    }}
    copies_commit();
    float s[{sj}][4] = {{}};
{scores}{compute}{ahead}{weigh}{sums}  }}
  copies_wait<0>();
{end}{result}}}
"#,
        threads = class.threads(),
        blocks = class.blocks,
        block = class.keys,
        words = slots.result.end,
        tall = class.rows(),
        all0 = rows[1],
        all1 = keys[1],
        copies = copies(class, &slots, [rows, keys, values]),
        last = class.keys - 1,
        oj = columns / 8,
        begin = begin(class),
        sj = class.keys / 8,
        scores = scores(class, depth, [rows[0], keys[0], keys[1]]),
        weigh = weigh(class),
        sums = sums(class, [values[0], values[1]]),
        end = end(class, &slots),
        result = result::text(&class.handed(), &slots.result, &hand_on(class)),
    )
}

/// What copies rows, keys and values to shared memory.
fn copies(class: &StreamedClass, slots: &StreamedSlots, layouts: [[u32; 2]; 3]) -> String {
    let [depth, columns] = class.sizes;
    let copy = |number: usize, lines: Side<'_>, terms: Side<'_>| {
        let [pitch, all] = layouts[number];
        Copy {
            number,
            element: stored(class.dtype),
            size: class.dtype.size() as u32,
            lines,
            terms,
            threads: class.threads(),
            along: class.along[number],
            placing: if class.math == Math::Warpgroup { Placing::Lines } else { Placing::Kept },
            pitch,
            all,
            at: slots.factors[number],
        }
        .text()
    };
    let rows = Side { count: class.rows(), first: "(i32)row0", step: 0, most: "m" };
    let keys = Side { count: class.keys, first: "0", step: class.keys, most: "keys" };
    let depth = Side { count: depth, first: "0", step: 0, most: "depth" };
    let columns = Side { count: columns, first: "0", step: 0, most: "n" };
    copy(0, rows, depth) + &copy(1, keys, depth) + &copy(2, columns, keys)
}

/// What a row knows of its scores so far: a thread has a part of two rows, eight apart.
fn begin(class: &StreamedClass) -> String {
    match class.once {
        Some(_) => "  float top[2] = {-bits_f32(0x7f800000u), -bits_f32(0x7f800000u)}, total[2] = {};\n".into(),
        None => String::new(),
    }
}

/// What stands in front of the kernel.
fn functions(class: &StreamedClass) -> String {
    if class.math != Math::Warpgroup {
        return String::new();
    }
    let f16 = class.dtype == DType::F16;
    warpgroup::function(f16, Left::Shared { across: !class.along[0] }, !class.along[1], class.keys)
        + &warpgroup::function(f16, Left::Registers, !class.along[2], class.sizes[1])
}

/// The first product of a block of keys, by warpgroups.
fn scores_of_warpgroup(class: &StreamedClass) -> String {
    let [depth, _] = class.sizes;
    // Where terms are neighbours, 64 of them are a slice of lines; where lines are, 64 of those.
    let (slice_x, slice_y) = (class.rows() * LINE, class.keys * LINE);
    let own = if class.along[0] { 64 * LINE_ELEMENTS } else { depth * LINE_ELEMENTS };
    let far = |along: bool, slice: u32| match along {
        true => format!("p / 4 * {slice} + p % 4 * 32"),
        false => format!("p * {}", 16 * LINE),
    };
    format!(
        r#"    const Matrix x = matrix(s0 + t / 128 * {own}, {lines}, {EIGHT}), y = matrix(kt, {lines}, {EIGHT});
    warpgroup_fence();
#pragma unroll
    for (int p = 0; p < {steps}; p++) warpgroup_multiply<{f16}, {ta}, {tb}, {}>(s, further(x, {dx}), further(y, {dy}), p);
    warpgroup_commit();
    warpgroup_wait<0>();
"#,
        class.keys,
        lines = depth * LINE,
        steps = depth / 16,
        f16 = class.dtype == DType::F16,
        ta = !class.along[0],
        tb = !class.along[1],
        dx = far(class.along[0], slice_x),
        dy = far(class.along[1], slice_y),
    )
}

/// The second product of a block of keys, by warpgroups.
fn sums_of_warpgroup(class: &StreamedClass) -> String {
    let f16 = class.dtype == DType::F16;
    let pack = if f16 { "pack_f16" } else { "pack_bf16" };
    format!(
        r#"    const Matrix z = matrix(vt, {slice}, {EIGHT});
    u32 w[{steps}][4];
#pragma unroll
    for (int p = 0; p < {steps}; p++) {{
      w[p][0] = {pack}(s[2 * p][0], s[2 * p][1]); w[p][1] = {pack}(s[2 * p][2], s[2 * p][3]);
      w[p][2] = {pack}(s[2 * p + 1][0], s[2 * p + 1][1]); w[p][3] = {pack}(s[2 * p + 1][2], s[2 * p + 1][3]);
    }}
    warpgroup_fence();
#pragma unroll
    for (int p = 0; p < {steps}; p++) warpgroup_multiply<{f16}, {tb}, {columns}>(sum, w[p], further(z, {dz}));
    warpgroup_commit();
    warpgroup_wait<0>();
"#,
        slice = class.keys * LINE,
        steps = class.keys / 16,
        columns = class.sizes[1],
        tb = !class.along[2],
        dz = match class.along[2] {
            true => format!("(p / 4 * {} + p % 4 * 32)", class.sizes[1] * LINE),
            false => format!("p * {}", 16 * LINE),
        },
    )
}

/// The first product of a block of keys.
fn scores(class: &StreamedClass, depth: u32, [pr, pk, all]: [u32; 3]) -> String {
    let element = stored(class.dtype);
    let mut out = format!("    const {element} *const kt = s1 + slot * {all};\n");
    let j = class.keys / 8;
    if class.math == Math::Warpgroup {
        return out + &scores_of_warpgroup(class);
    }
    if class.math == Math::Tf32 {
        let left = |row: &str, term: &str| match class.along[0] {
            true => format!("s0[({row}) * {pr} + {term}]"),
            false => format!("s0[({term}) * {pr} + {row}]"),
        };
        let right = |term: &str| match class.along[1] {
            true => format!("kt[(j * 8 + lane / 4) * {pk} + {term}]"),
            false => format!("kt[({term}) * {pk} + j * 8 + lane / 4]"),
        };
        let _ = write!(
            out,
            r#"#pragma unroll
    for (int p = 0; p < {depth}; p += 8) {{
      const u32 low = p + lane % 4, high = low + 4, row = warp * 16 + lane / 4;
      const u32 x[4] = {{to_tf32({}), to_tf32({}), to_tf32({}), to_tf32({})}};
#pragma unroll
      for (int j = 0; j < {j}; j++) multiply_tf32(s[j], x, to_tf32({}), to_tf32({}));
    }}
"#,
            left("row", "low"),
            left("row + 8", "low"),
            left("row", "high"),
            left("row + 8", "high"),
            right("low"),
            right("high"),
        );
        return out;
    }
    let f16 = class.dtype == DType::F16;
    let left = match class.along[0] {
        true => format!("fragments(x, s0 + (warp * 16 + lane % 16) * {pr} + p + lane / 16 * 8)"),
        false => {
            format!(
                "fragments_transposed(x, s0 + (p + lane % 8 + lane / 16 * 8) * {pr} + warp * 16 + lane / 8 % 2 * 8)"
            )
        }
    };
    let right = match class.along[1] {
        true => format!("fragments(y, kt + (j * 16 + lane / 16 * 8 + lane % 8) * {pk} + p + lane / 8 % 2 * 8)"),
        false => {
            format!("fragments_transposed(y, kt + (p + lane / 8 % 2 * 8 + lane % 8) * {pk} + j * 16 + lane / 16 * 8)")
        }
    };
    let _ = write!(
        out,
        r#"#pragma unroll
    for (int p = 0; p < {depth}; p += 16) {{
      u32 x[4];
      {left};
#pragma unroll
      for (int j = 0; j < {}; j++) {{
        u32 y[4];
        {right};
        multiply16<{f16}>(s[2 * j], x, y[0], y[1]);
        multiply16<{f16}>(s[2 * j + 1], x, y[2], y[3]);
      }}
    }}
"#,
        j / 2
    );
    out
}

/// What is made of a score by one body.
struct Point {
    declared: String,
    /// Loads for a block of keys.
    fetch: String,
    compute: String,
}

/// The names of the accesses of what is made of scores.
const TAGS: [&str; 2] = ["a", "b"];

fn point(class: &StreamedClass, slots: &StreamedSlots, number: usize) -> Point {
    let ((part, operand), slots) = (&class.points[number], &slots.points[number]);
    let (space, body) = (&part.space, &part.body);
    let accesses = Accesses { list: &body.accesses, class: space, slots: &slots.space, tag: TAGS[number] };
    let is_sums = |k: usize| body.accesses[k].operand == Some(*operand);
    let wants = wanted(body);
    let fetched: Vec<usize> =
        (0..wants.len()).filter(|&k| !is_sums(k) && (wants[k].load || wants[k].position)).collect();
    let v = space.lanes as u32;
    // Two rows, of each 8 keys a thread has two.
    let keys = class.keys;
    let each = keys / 8 * 2 * (2 / v);
    let mut declared = accesses.declare(&|k| !is_sums(k) && wants[k] != Default::default());
    let it = index_type(space.wide);
    let (batch, rows) = (part.groups[0] as usize, part.groups[1] as usize);
    // What lies behind the edges is taken from the last row and, in the last block, the last keys; it counts for
    // nothing.
    let stand_at = |last: bool| {
        let mut out = format!(
            "      const i32 j = u / {per}, h = u / {halves} % 2;\n      i32 x = (i32)row0 + (i32)(warp * 16 + lane / 4) + h * 8, y = step * {vectors} + j * {of_eight} + (i32)(lane % 4) * {halves} + u % {halves};\n      x = x < (i32)m ? x : (i32)m - 1;{clamp}\n      const {it} row = x, column = y;\n",
            per = 2 * (2 / v),
            halves = 2 / v,
            vectors = keys / v,
            of_eight = 8 / v,
            clamp =
                if last { format!(" y = y * {v} < (i32)keys ? y : ((i32)keys - {v}) / {v};") } else { String::new() },
        );
        out += &decompose(space, &slots.space, 0..batch, &format!("({it})product"), "i");
        out += &decompose(space, &slots.space, batch..batch + rows, "row", "i");
        out + &decompose(space, &slots.space, batch + rows..space.rank(), "column", "i")
    };
    let position = |k: usize| {
        let all = offset(space, &slots.space, k, 0..space.rank(), "i");
        if all.is_empty() { "0".into() } else { all }
    };
    let stand = Stand {
        position: &position,
        point: format!("(((i64)product * m + x) * keys + y * {v})"),
        step: "1".into(),
        lanes: v as usize,
    };
    let begin = |last: bool| format!("#pragma unroll\n    for (i32 u = 0; u < {each}; u++) {{\n{}", stand_at(last));
    let mut fetch = String::new();
    if !fetched.is_empty() {
        for &k in &fetched {
            let _ = writeln!(declared, "  {}", accesses.arrays(k, wants[k], v as usize, &format!("[{each}]")));
        }
        let loads: Vec<String> = fetched.iter().map(|&k| accesses.fetch(k, wants[k], &stand, ["[u]", "[u]"])).collect();
        let loads = loads.concat();
        // Where keys are one dimension, those of a thread lie at fixed distances from its first one.
        let strided = |&k: &usize| matches!(space.ways[k], Way::Strided { .. }) && !wants[k].position;
        let one_dimension = space.rank() == batch + rows + 1 && fetched.iter().all(strided);
        let inside = match one_dimension {
            false => format!("      {loads}\n    }}\n"),
            true => {
                let mut out = format!(
                    "#pragma unroll\n    for (i32 h = 0; h < 2; h++) {{\n      i32 x = (i32)row0 + (i32)(warp * 16 + lane / 4) + h * 8;\n      x = x < (i32)m ? x : (i32)m - 1;\n      const {it} row = x, column = step * {} + (i32)(lane % 4) * {halves};\n",
                    keys / v,
                    halves = 2 / v
                );
                out += &decompose(space, &slots.space, 0..batch, &format!("({it})product"), "i");
                out += &decompose(space, &slots.space, batch..batch + rows, "row", "i");
                out += &decompose(space, &slots.space, batch + rows..space.rank(), "column", "i");
                for &k in &fetched {
                    out += &accesses.fetch_apart(k, &position(k), [keys / 8, 2 / v, v]);
                }
                out + "    }\n"
            }
        };
        let _ = write!(
            fetch,
            "    if ((step + 1) * {keys} <= (i32)keys) {{\n{}{inside}    }} else {{\n{}      {loads}\n    }}\n    }}\n",
            match one_dimension {
                true => String::new(),
                false => begin(false),
            },
            begin(true)
        );
    }
    let mut compute = format!("{}#pragma unroll\n      for (int v = 0; v < {v}; v++) {{\n", begin(true));
    let own = format!("s[j][2 * h + u % {} * {v} + v]", 2 / v);
    let load = |k: u16| if is_sums(k as usize) { own.clone() } else { accesses.element(k as usize, "[u]") };
    let gather = |k: u16, offset: &str, inside: &str| accesses.gathered(k as usize, &stand, offset, inside);
    let mut write = |n: &Names<'_>| compute += &statements(body, n, "        ");
    names(&accesses, (part, slots), &load, &gather, &mut write, "[u]");
    let _ = write!(compute, "        {own} = {};\n      }}\n    }}\n", name(body.stores[0].node));
    Point { declared, fetch, compute }
}

/// From scores to weights, with the maximum and the sum of each row so far.
fn weigh(class: &StreamedClass) -> String {
    let (j, keys) = (class.keys / 8, class.keys);
    let outside = if class.once.is_some() { "-bits_f32(0x7f800000u)" } else { "0" };
    let mut out = format!(
        r#"    if ((step + 1) * {keys} > (i32)keys) {{
#pragma unroll
      for (int j = 0; j < {j}; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) if (step * {keys} + j * 8 + (i32)lane % 4 * 2 + e % 2 >= (i32)keys) s[j][e] = {outside};
    }}
"#
    );
    if class.once.is_none() {
        return out;
    }
    // Narrow weights are powers of two of scaled scores: one multiplication and addition each. Where the maximum is
    // rounded as it is scaled, all weights of the row are off by the same. Scores that overflow as they are scaled
    // (masks of the smallest number) go the long way.
    let (columns, narrow) = (class.sizes[1], class.math.is_narrow());
    let weights = |from: [&str; 2]| {
        let [low, high] = ["s[j][2 * h]", "s[j][2 * h + 1]"].map(|x| from.join(x));
        format!(
            r#"#pragma unroll
      for (int j = 0; j < {j}; j++) {{
        s[j][2 * h] = {low};
        s[j][2 * h + 1] = {high};
        total[h] += s[j][2 * h] + s[j][2 * h + 1];
      }}
"#
        )
    };
    let (again, weights) = match narrow {
        false => ("expf(top[h] - shift)".to_string(), weights(["expf(", " - shift)"])),
        true => {
            let [scaled, far] = ["top[h] * 1.44269504f - scaled", "(top[h] - shift) * 1.44269504f"];
            let near = weights(["power_of_two(fmaf(", ", 1.44269504f, -scaled))"]);
            let long = weights(["power_of_two((", " - shift) * 1.44269504f)"]);
            (
                format!("power_of_two(far ? {far} : {scaled})"),
                format!("      if (!__any_sync(0xffffffffu, far)) {{\n{near}      }} else {{\n{long}      }}\n"),
            )
        }
    };
    let scaled = match narrow {
        true => "      const bool far = fabsf(shift) > 1.0e38f;\n      const float scaled = shift * 1.44269504f;\n",
        false => "",
    };
    let _ = write!(
        out,
        r#"#pragma unroll
    for (int h = 0; h < 2; h++) {{
      float now = top[h];
#pragma unroll
      for (int j = 0; j < {j}; j++) now = larger(now, larger(s[j][2 * h], s[j][2 * h + 1]));
      now = larger(now, __shfl_xor_sync(0xffffffffu, now, 1));
      now = larger(now, __shfl_xor_sync(0xffffffffu, now, 2));
      // Of a row that has had nothing but -infinity nothing is to be NaN yet.
      const float shift = now == -bits_f32(0x7f800000u) ? 0.0f : now;
{scaled}      const float again = top[h] == -bits_f32(0x7f800000u) ? 0.0f : {again};
      top[h] = now;
      total[h] *= again;
{weights}      if (__any_sync(0xffffffffu, again != 1.0f)) {{
#pragma unroll
        for (int j = 0; j < {}; j++) {{ sum[j][2 * h] *= again; sum[j][2 * h + 1] *= again; }}
      }}
    }}
"#,
        columns / 8
    );
    out
}

/// The second product of a block of keys.
fn sums(class: &StreamedClass, [pitch, all]: [u32; 2]) -> String {
    let element = stored(class.dtype);
    let columns = class.sizes[1];
    let mut out = format!("    const {element} *const vt = s2 + slot * {all};\n");
    if class.math == Math::Warpgroup {
        return out + &sums_of_warpgroup(class);
    }
    if class.math == Math::Tf32 {
        // The order of terms within eight is the threads' own: a thread's two scores are its two terms.
        let right = |key: &str| match class.along[2] {
            true => format!("vt[(j * 8 + lane / 4) * {pitch} + {key}]"),
            false => format!("vt[({key}) * {pitch} + j * 8 + lane / 4]"),
        };
        let _ = write!(
            out,
            r#"#pragma unroll
    for (int p = 0; p < {}; p++) {{
      const u32 x[4] = {{to_tf32(s[p][0]), to_tf32(s[p][2]), to_tf32(s[p][1]), to_tf32(s[p][3])}};
      const u32 key = p * 8 + lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < {}; j++) multiply_tf32(sum[j], x, to_tf32({}), to_tf32({}));
    }}
"#,
            class.keys / 8,
            columns / 8,
            right("key"),
            right("key + 1"),
        );
        return out;
    }
    let f16 = class.dtype == DType::F16;
    let pack = if f16 { "pack_f16" } else { "pack_bf16" };
    let right = match class.along[2] {
        true => format!("fragments(y, vt + (j * 16 + lane / 16 * 8 + lane % 8) * {pitch} + p * 16 + lane / 8 % 2 * 8)"),
        false => {
            format!(
                "fragments_transposed(y, vt + (p * 16 + lane / 8 % 2 * 8 + lane % 8) * {pitch} + j * 16 + lane / 16 * 8)"
            )
        }
    };
    let _ = write!(
        out,
        r#"#pragma unroll
    for (int p = 0; p < {}; p++) {{
      const u32 x[4] = {{{pack}(s[2 * p][0], s[2 * p][1]), {pack}(s[2 * p][2], s[2 * p][3]), {pack}(s[2 * p + 1][0], s[2 * p + 1][1]), {pack}(s[2 * p + 1][2], s[2 * p + 1][3])}};
#pragma unroll
      for (int j = 0; j < {}; j++) {{
        u32 y[4];
        {right};
        multiply16<{f16}>(sum[2 * j], x, y[0], y[1]);
        multiply16<{f16}>(sum[2 * j + 1], x, y[2], y[3]);
      }}
    }}
"#,
        class.keys / 16,
        columns / 16,
    );
    out
}

/// What the sums of a row are multiplied by at the end.
fn end(class: &StreamedClass, slots: &StreamedSlots) -> String {
    let Some((body, [max, sum])) = &class.once else { return String::new() };
    let value = |slot: u16| match slot {
        s if s == *max => "top[h]".to_string(),
        s if s == *sum => "all".to_string(),
        other => unreachable!("value {other} of a row of weights"),
    };
    let names = Names {
        load: &|_| unreachable!("nothing is loaded once a row"),
        index: &|_, _| unreachable!("a row has no place of its own"),
        valid: &|_| unreachable!("a row has no place of its own"),
        gather: &|_, _, _| unreachable!("nothing is gathered once a row"),
        value: &value,
        scalar: &|s| format!("a.w[{}]", slots.once[0] + s as usize),
        reciprocal: &|s| {
            let at = divisors(body).iter().position(|d| d.0 == s)?;
            Some(format!("a.w[{}]", slots.once[1] + at))
        },
    };
    format!(
        r#"#pragma unroll
  for (int h = 0; h < 2; h++) {{
    float all = total[h];
    all += __shfl_xor_sync(0xffffffffu, all, 1);
    all += __shfl_xor_sync(0xffffffffu, all, 2);
{}#pragma unroll
    for (int j = 0; j < {}; j++) {{ sum[j][2 * h] *= {factor}; sum[j][2 * h + 1] *= {factor}; }}
  }}
"#,
        statements(body, &names, "    "),
        class.sizes[1] / 8,
        factor = name(body.stores[0].node),
    )
}

/// Statements that write the sums to shared memory.
fn hand_on(class: &StreamedClass) -> String {
    format!(
        r#"#pragma unroll
      for (int j = 0; j < {}; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) sums[(warp * 16 + lane / 4 + e / 2 * 8) * {} + j * 8 + lane % 4 * 2 + e % 2] = sum[j][e];
"#,
        class.sizes[1] / 8,
        class.handed().pitch()
    )
}
