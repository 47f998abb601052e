//! The arithmetic of one step on what is in shared memory: by tensor cores, or by plain ones in order.

use super::element_of;
use super::warpgroup::{self, EIGHT, Left};
use crate::render::types::held;
use std::fmt::Write;
use thalweg_gpu::class::contraction::{LINE, LINE_ELEMENTS, Math, Tile, TileClass};
use thalweg_ir::DType;

/// Threads of a block on plain cores along columns.
const ACROSS: u32 = 16;

/// The sizes of the array of sums of a thread; an element of it has four sums of tensor cores, see `declared`.
pub(super) fn sums(class: &TileClass) -> [String; 2] {
    let Tile { m, n, warps, .. } = class.tile;
    match class.math {
        Math::Warpgroup => ["1".into(), format!("{}][4", n / 8)],
        Math::Plain => [(m / ACROSS).to_string(), (n / ACROSS).to_string()],
        _ => [(m / warps[0] / 16).to_string(), format!("{}][4", n / warps[1] / 8)],
    }
}

/// The statements of a step.
pub(super) fn step(class: &TileClass) -> String {
    let Tile { m, n, k, warps, .. } = class.tile;
    let element = element_of(class);
    let (left, right) = (class.layout(0), class.layout(1));
    let (pa, pb) = (left.pitch, right.pitch);
    let mut out =
        format!("    const {element} *const at = s0 + from * {}, *const bt = s1 + from * {};\n", left.all, right.all);
    if class.math == Math::Warpgroup {
        return out + &issue(class);
    }
    if class.math == Math::Plain {
        let (i, j, h) = (m / ACROSS, n / ACROSS, held(class.sums));
        let _ = write!(
            out,
            r#"#pragma unroll
    for (int p = 0; p < {k}; p++) {{
      {h} x[{i}], y[{j}];
#pragma unroll
      for (int i = 0; i < {i}; i++) x[i] = at[p * {pa} + i / 4 * 64 + t / {ACROSS} * 4 + i % 4];
#pragma unroll
      for (int j = 0; j < {j}; j++) y[j] = bt[p * {pb} + j / 4 * 64 + t % {ACROSS} * 4 + j % 4];
#pragma unroll
      for (int i = 0; i < {i}; i++)
#pragma unroll
        for (int j = 0; j < {j}; j++) sum[i][j] = multiply_add(x[i], y[j], sum[i][j]);
    }}
"#
        );
        return out;
    }
    let (wm, wn) = (m / warps[0], n / warps[1]);
    let (i, j) = (wm / 16, wn / 8);
    let _ = writeln!(
        out,
        "    const u32 lane = t % 32, rows_at = t / 32 / {} * {wm}, columns_at = t / 32 % {} * {wn};",
        warps[1], warps[1]
    );
    if class.math == Math::Tf32 {
        let a = |term: &str| {
            if left.along { format!("(row) * {pa} + {term}") } else { format!("({term}) * {pa} + row") }
        };
        let b = |term: &str| {
            if right.along { format!("column * {pb} + {term}") } else { format!("({term}) * {pb} + column") }
        };
        let row8 = |term: &str| a(term).replace("row", "row + 8");
        let _ = write!(
            out,
            r#"#pragma unroll
    for (int p = 0; p < {k}; p += 8) {{
      const u32 low = p + lane % 4, high = low + 4;
      u32 x[{i}][4], y[{j}][2];
#pragma unroll
      for (int i = 0; i < {i}; i++) {{
        const u32 row = rows_at + i * 16 + lane / 4;
        x[i][0] = to_tf32(at[{}]); x[i][1] = to_tf32(at[{}]); x[i][2] = to_tf32(at[{}]); x[i][3] = to_tf32(at[{}]);
      }}
#pragma unroll
      for (int j = 0; j < {j}; j++) {{
        const u32 column = columns_at + j * 8 + lane / 4;
        y[j][0] = to_tf32(bt[{}]); y[j][1] = to_tf32(bt[{}]);
      }}
#pragma unroll
      for (int i = 0; i < {i}; i++)
#pragma unroll
        for (int j = 0; j < {j}; j++) multiply_tf32(sum[i][j], x[i], y[j][0], y[j][1]);
    }}
"#,
            a("low"),
            row8("low"),
            a("high"),
            row8("high"),
            b("low"),
            b("high"),
        );
        return out;
    }
    let f16 = class.dtype == DType::F16;
    let a = match left.along {
        true => format!("fragments(x[i], at + (rows_at + i * 16 + lane % 16) * {pa} + p + lane / 16 * 8)"),
        false => format!(
            "fragments_transposed(x[i], at + (p + lane % 8 + lane / 16 * 8) * {pa} + rows_at + i * 16 + lane / 8 % 2 * 8)"
        ),
    };
    let b = match right.along {
        true => format!(
            "fragments(y[j], bt + (columns_at + j * 16 + lane / 16 * 8 + lane % 8) * {pb} + p + lane / 8 % 2 * 8)"
        ),
        false => format!(
            "fragments_transposed(y[j], bt + (p + lane / 8 % 2 * 8 + lane % 8) * {pb} + columns_at + j * 16 + lane / 16 * 8)"
        ),
    };
    let _ = write!(
        out,
        r#"#pragma unroll
    for (int p = 0; p < {k}; p += 16) {{
      u32 x[{i}][4], y[{pairs}][4];
#pragma unroll
      for (int i = 0; i < {i}; i++) {a};
#pragma unroll
      for (int j = 0; j < {pairs}; j++) {b};
#pragma unroll
      for (int i = 0; i < {i}; i++)
#pragma unroll
        for (int j = 0; j < {j}; j++) multiply16<{f16}>(sum[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
    }}
"#,
        pairs = j / 2,
    );
    out
}

/// What stands in front of the kernel for a step, and what ends it: warpgroups multiply while the next steps are copied.
pub(super) fn around(class: &TileClass) -> [String; 2] {
    if class.math != Math::Warpgroup {
        return [String::new(), String::new()];
    }
    let left = Left::Shared { across: !class.layout(0).along };
    let function = warpgroup::function(class.dtype == DType::F16, left, !class.layout(1).along, class.tile.n);
    [function, "    warpgroup_wait<0>();\n".into()]
}

/// The multiplications of a warpgroup: its 64 rows by all columns.
fn issue(class: &TileClass) -> String {
    let Tile { n, k, .. } = class.tile;
    let (left, right) = (class.layout(0).along, class.layout(1).along);
    // Lines that lie together are terms, or 64 rows or columns at a time.
    let slice = k * LINE;
    let own = if left { 64 * LINE_ELEMENTS } else { k * LINE_ELEMENTS };
    let step = |along: bool| if along { 32 } else { 16 * LINE };
    format!(
        r#"    const Matrix x = matrix(at + t / 128 * {own}, {slice}, {EIGHT}), y = matrix(bt, {slice}, {EIGHT});
    warpgroup_fence();
#pragma unroll
    for (int p = 0; p < {steps}; p++) warpgroup_multiply<{f16}, {ta}, {tb}, {n}>(sum[0], further(x, p * {dx}), further(y, p * {dy}), 1);
    warpgroup_commit();
"#,
        steps = k / 16,
        f16 = class.dtype == DType::F16,
        ta = !left,
        tb = !right,
        dx = step(left),
        dy = step(right),
    )
}

/// Statements that write the sums of a pass to shared memory, those of the threads that have some.
pub(super) fn hand_on(class: &TileClass) -> String {
    let Tile { m, n, warps, .. } = class.tile;
    let pitch = class.handed().pitch();
    if class.math == Math::Plain {
        let j = n / ACROSS;
        let high = (m / ACROSS).min(4);
        return format!(
            r#"#pragma unroll
      for (int i = 0; i < {high}; i++)
#pragma unroll
        for (int j = 0; j < {j}; j++) sums[(t / {ACROSS} * 4 + i) * {pitch} + j / 4 * 64 + t % {ACROSS} * 4 + j % 4] = sum[pass * 4 + i][j];
"#
        );
    }
    if class.math == Math::Warpgroup {
        return format!(
            r#"      if (t / 128 == pass) {{
#pragma unroll
        for (int j = 0; j < {}; j++)
#pragma unroll
          for (int e = 0; e < 4; e++) sums[(t / 32 % 4 * 16 + t % 32 / 4 + e / 2 * 8) * {pitch} + j * 8 + t % 4 * 2 + e % 2] = sum[0][j][e];
      }}
"#,
            n / 8
        );
    }
    let (i, j) = (m / warps[0] / 16, n / warps[1] / 8);
    format!(
        r#"      if (t / 32 / {0} == pass) {{
#pragma unroll
        for (int i = 0; i < {i}; i++)
#pragma unroll
          for (int j = 0; j < {j}; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) sums[(i * 16 + t % 32 / 4 + e / 2 * 8) * {pitch} + t / 32 % {0} * {wn} + j * 8 + t % 4 * 2 + e % 2] = sum[i][j][e];
      }}
"#,
        warps[1],
        wn = n / warps[1],
    )
}
