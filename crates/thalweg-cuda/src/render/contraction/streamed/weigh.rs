//! From scores to weights: the maximum and the sum of each row so far, and what they change of the sums.

use super::{StreamedClass, StreamedSlots};
use crate::render::body::{Names, name, statements};
use std::fmt::Write;
use thalweg_gpu::class::body::divisors;

/// What a row knows of its scores so far: a thread has a part of two rows, eight apart.
pub(super) fn begin(class: &StreamedClass) -> String {
    match class.once {
        Some(_) => "  float top[2] = {-bits_f32(0x7f800000u), -bits_f32(0x7f800000u)}, total[2] = {};\n".into(),
        None => String::new(),
    }
}

/// From scores to weights, with the maximum and the sum of each row so far.
/// Where scores have a factor that may join the exponent, `by` is what they are multiplied with there.
pub(super) fn weigh(class: &StreamedClass, scaled: bool) -> String {
    let (j, keys) = (class.block.keys / 8, class.block.keys);
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
    let narrow = class.math.is_narrow();
    let by = if scaled { "by" } else { "1.44269504f" };
    // Both rows of a thread side by side, each in two parts: what waits for what is short then.
    let weights = |from: [&str; 2]| {
        let [low, high] = ["s[j][2 * h]", "s[j][2 * h + 1]"].map(|x| from.join(x));
        format!(
            r#"#pragma unroll
      for (int j = 0; j < {j}; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {{
          s[j][2 * h] = {low};
          s[j][2 * h + 1] = {high};
          part[h][j % 2] += s[j][2 * h] + s[j][2 * h + 1];
        }}
"#
        )
    };
    let (again, weights) = match narrow {
        false => ("expf(top[h] - shift[h])".to_string(), weights(["expf(", " - shift[h])"])),
        true => {
            let near = weights(["power_of_two(fmaf(", &format!(", {by}, -scaled[h]))")]);
            let long = weights(["power_of_two((", &format!(" - shift[h]) * {by})")]);
            (
                format!("power_of_two(far ? (top[h] - shift[h]) * {by} : top[h] * {by} - scaled[h])"),
                format!("    if (!__any_sync(0xffffffffu, far)) {{\n{near}    }} else {{\n{long}    }}\n"),
            )
        }
    };
    let scaled = match narrow {
        true => format!(
            "    const float scaled[2] = {{shift[0] * {by}, shift[1] * {by}}};\n    const bool far = fabsf(scaled[0]) > 1.4e38f || fabsf(scaled[1]) > 1.4e38f;\n"
        ),
        false => String::new(),
    };
    let _ = write!(
        out,
        r#"    float most[2][2] = {{{{top[0], s[0][0]}}, {{top[1], s[0][2]}}}}, part[2][2] = {{}}, now[2], shift[2], again[2];
#pragma unroll
    for (int j = 0; j < {j}; j++)
#pragma unroll
      for (int h = 0; h < 2; h++) most[h][j % 2] = larger(most[h][j % 2], larger(s[j][2 * h], s[j][2 * h + 1]));
#pragma unroll
    for (int h = 0; h < 2; h++) now[h] = larger(most[h][0], most[h][1]);
#pragma unroll
    for (int x = 1; x < 4; x *= 2)
#pragma unroll
      for (int h = 0; h < 2; h++) now[h] = larger(now[h], __shfl_xor_sync(0xffffffffu, now[h], x));
    // Of a row that has had nothing but -infinity nothing is to be NaN yet.
#pragma unroll
    for (int h = 0; h < 2; h++) shift[h] = now[h] == -bits_f32(0x7f800000u) ? 0.0f : now[h];
{scaled}#pragma unroll
    for (int h = 0; h < 2; h++) {{
      again[h] = top[h] == -bits_f32(0x7f800000u) ? 0.0f : {again};
      top[h] = now[h];
    }}
{weights}#pragma unroll
    for (int h = 0; h < 2; h++) total[h] = total[h] * again[h] + (part[h][0] + part[h][1]);
"#
    );
    out
}

/// What a larger score changes of the sums so far.
pub(super) fn rescale(class: &StreamedClass) -> String {
    if class.once.is_none() {
        return String::new();
    }
    // Two warpgroups in a block that stays have slots to spare: looking first takes longer (measured on an H200).
    let always = class.block.stays && class.block.warps < 12;
    let when = if always { "" } else { "if (__any_sync(0xffffffffu, again[h] != 1.0f)) " };
    format!(
        r#"#pragma unroll
    for (int h = 0; h < 2; h++) {{
      {when}{{
#pragma unroll
        for (int j = 0; j < {}; j++) {{ sum[j][2 * h] *= again[h]; sum[j][2 * h + 1] *= again[h]; }}
      }}
    }}
"#,
        class.sizes[1] / 8
    )
}

/// What the sums of a row are multiplied by at the end.
pub(super) fn end(class: &StreamedClass, slots: &StreamedSlots, scaled: bool) -> String {
    let Some((body, [max, sum])) = &class.once else { return String::new() };
    let value = |slot: u16| match slot {
        s if s == *max => if scaled { "(top[h] * joined)" } else { "top[h]" }.to_string(),
        s if s == *sum => "all".to_string(),
        other => unreachable!("value {other} of a row of weights"),
    };
    let names = Names {
        load: &|_| unreachable!("nothing is loaded once a row"),
        index: &|_, _| unreachable!("a row has no place of its own"),
        valid: &|_| unreachable!("a row has no place of its own"),
        gather: &|_, _, _| unreachable!("nothing is gathered once a row"),
        value: &value,
        scalar: &|s| slots.once[0] + s as usize,
        reciprocal: &|s| {
            let at = divisors(body).iter().position(|d| d.0 == s)?;
            Some(slots.once[1] + at)
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
        statements(body, &names),
        class.sizes[1] / 8,
        factor = name(body.stores[0].node),
    )
}
