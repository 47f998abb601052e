//! The two products of a step: on what is in shared memory, and on the weights in registers.

use super::StreamedClass;

use crate::render::types::stored;
use crate::render::warpgroup::{self, EIGHT, Left};
use std::fmt::Write;
use thalweg_gpu::class::contraction::{LINE, LINE_ELEMENTS, Math};
use thalweg_ir::DType;

/// What stands in front of the kernel.
pub(super) fn functions(class: &StreamedClass) -> String {
    if class.math != Math::Warpgroup {
        return String::new();
    }
    let f16 = class.dtype == DType::F16;
    warpgroup::function(f16, Left::Shared { across: !class.along[0] }, !class.along[1], class.block.keys)
        + &warpgroup::function(f16, Left::Registers, !class.along[2], class.sizes[1])
}

/// Begins the first product of the block of keys in a place in shared memory, by warpgroups.
pub(super) fn begin_scores(class: &StreamedClass, slot: &str) -> String {
    let [depth, _] = class.sizes;
    // Where terms are neighbours, 64 of them are a slice of lines; where lines are, 64 of those.
    let (slice_x, slice_y) = (class.rows() * LINE, class.block.keys * LINE);
    let own = match (class.block.warps, class.along[0]) {
        (..=4, _) => String::new(),
        (_, true) => format!(" + t / 128 * {}", 64 * LINE_ELEMENTS),
        (_, false) => format!(" + t / 128 * {}", depth * LINE_ELEMENTS),
    };
    let far = |along: bool, slice: u32| match along {
        true => format!("p / 4 * {slice} + p % 4 * 32"),
        false => format!("p * {}", 16 * LINE),
    };
    format!(
        r#"    const Matrix x = matrix(s0{own}, {lines}, {EIGHT}), y = matrix(s1 + {slot} * {all}, {lines}, {EIGHT});
    warpgroup_fence();
#pragma unroll
    for (int p = 0; p < {steps}; p++) warpgroup_multiply<{f16}, {ta}, {tb}, {}>(s, further(x, {dx}), further(y, {dy}), p);
    warpgroup_commit();
"#,
        class.block.keys,
        all = class.layout(1)[1],
        lines = depth * LINE,
        steps = depth / 16,
        f16 = class.dtype == DType::F16,
        ta = !class.along[0],
        tb = !class.along[1],
        dx = far(class.along[0], slice_x),
        dy = far(class.along[1], slice_y),
    )
}

/// The weights as the left factor of the second product.
pub(super) fn pack(class: &StreamedClass) -> String {
    let pack = if class.dtype == DType::F16 { "pack_f16" } else { "pack_bf16" };
    format!(
        r#"#pragma unroll
    for (int p = 0; p < {steps}; p++) {{
      w[p][0] = {pack}(s[2 * p][0], s[2 * p][1]); w[p][1] = {pack}(s[2 * p][2], s[2 * p][3]);
      w[p][2] = {pack}(s[2 * p + 1][0], s[2 * p + 1][1]); w[p][3] = {pack}(s[2 * p + 1][2], s[2 * p + 1][3]);
    }}
"#,
        steps = class.block.keys / 16,
    )
}

/// Begins the second product of a block of keys, by warpgroups.
pub(super) fn begin_sums(class: &StreamedClass, slot: &str) -> String {
    format!(
        r#"    const Matrix z = matrix(s2 + {slot} * {all}, {slice}, {EIGHT});
    warpgroup_fence();
#pragma unroll
    for (int p = 0; p < {steps}; p++) warpgroup_multiply<{f16}, {tb}, {columns}>(sum, w[p], further(z, {dz}));
    warpgroup_commit();
"#,
        all = class.layout(2)[1],
        slice = class.block.keys * LINE,
        steps = class.block.keys / 16,
        f16 = class.dtype == DType::F16,
        columns = class.sizes[1],
        tb = !class.along[2],
        dz = match class.along[2] {
            true => format!("(p / 4 * {} + p % 4 * 32)", class.sizes[1] * LINE),
            false => format!("p * {}", 16 * LINE),
        },
    )
}

/// The first product of a block of keys.
pub(super) fn scores(class: &StreamedClass, depth: u32, [pr, pk, all]: [u32; 3]) -> String {
    let element = stored(class.dtype);
    if class.math == Math::Warpgroup {
        return begin_scores(class, "slot") + "    warpgroup_wait<0>();\n";
    }
    let mut out = format!("    const {element} *const kt = s1 + slot * {all};\n");
    let j = class.block.keys / 8;
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

/// The second product of a block of keys.
pub(super) fn sums(class: &StreamedClass, [pitch, all]: [u32; 2]) -> String {
    let element = stored(class.dtype);
    let columns = class.sizes[1];
    if class.math == Math::Warpgroup {
        let declared = format!("    u32 w[{}][4];\n", class.block.keys / 16);
        return declared + &pack(class) + &begin_sums(class, "slot") + "    warpgroup_wait<0>();\n";
    }
    let mut out = format!("    const {element} *const vt = s2 + slot * {all};\n");
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
            class.block.keys / 8,
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
        class.block.keys / 16,
        columns / 16,
    );
    out
}
