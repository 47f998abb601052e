//! Matrix products by threads: tiles of 64×64 in shared memory, 16 along the sum at a time, 4×4 results a thread.
//!
//! Any strides, any dtype. The sum goes in order, so its bits depend on nothing else. Narrow floats are accumulated in
//! f32, integers wrap.

use super::types::{held, pack, stored, unpack};
use std::fmt::Write;
use thalweg_ir::DType;

/// Words before those of the batch dimensions.
pub const HEAD: usize = 10;
/// Rows and columns of a tile.
pub const TILE: usize = 64;

/// What decides the source of a product.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MatmulClass {
    /// Of operands and result.
    pub dtype: DType,
    /// Batch dimensions.
    pub batch: u8,
}

/// The source of a product with one function, `matmul`.
pub fn source(class: &MatmulClass) -> String {
    let MatmulClass { dtype, batch } = *class;
    let (s, h) = (stored(dtype), held(dtype));
    let mut out = String::new();
    let mut offsets = String::new();
    for d in (0..batch as usize).rev() {
        let w = HEAD + 4 * d;
        let _ = writeln!(
            offsets,
            "    {{ const Split s = split(rest, a.w[{w}], a.w[{}]); rest = s.q; pa += s.r * (i64)a.w[{}]; pb += s.r * (i64)a.w[{}]; }}",
            w + 1,
            w + 2,
            w + 3
        );
    }
    let sum =
        if dtype.is_float() { "x * y + sum".to_string() } else { format!("int_add<{h}>(sum, int_mul<{h}>(x, y))") };
    let _ = write!(
        out,
        r#"
FN {h} multiply_add({h} x, {h} y, {h} sum) {{ return {sum}; }}
extern "C" __global__ void __launch_bounds__(256) matmul(THALWEG_PARAMETER({words})) {{
  begin();
  __shared__ {h} as[16][{TILE} + 4], bs[16][{TILE} + 4];
  const i64 m = (i64)a.w[3], n = (i64)a.w[4], k = (i64)a.w[5];
  const i64 ar = (i64)a.w[6], ac = (i64)a.w[7], br = (i64)a.w[8], bc = (i64)a.w[9];
  const u32 t = threadIdx.x, tx = t % 16, ty = t / 16;
  const i64 column = (i64)blockIdx.x * {TILE};
  for (i64 row = (i64)blockIdx.y * {TILE}; row < m; row += (i64)gridDim.y * {TILE}) for (u32 product = blockIdx.z; product < (u32)a.w[{products}]; product += gridDim.z) {{
    const {s} *pa = (const {s} *)a.w[0], *pb = (const {s} *)a.w[1];
    u32 rest = product;
{offsets}    {h} sum[4][4] = {{}};
    for (i64 first = 0; first < k; first += 16) {{
      for (u32 e = t; e < 16 * {TILE}; e += 256) {{
        // Neighbouring threads read along what lies side by side.
        const u32 i = ac == 1 ? e / 16 : e % {TILE}, j = ac == 1 ? e % 16 : e / {TILE};
        {h} x = 0;
        if (row + i < m && first + j < k) {{ const {s} raw = load1(pa + (row + i) * ar + (first + j) * ac); x = {value}; }}
        as[j][i] = x;
        const u32 p = bc == 1 ? e / {TILE} : e % 16, q = bc == 1 ? e % {TILE} : e / 16;
        {h} y = 0;
        if (first + p < k && column + q < n) {{ const {s} raw = load1(pb + (first + p) * br + (column + q) * bc); y = {value}; }}
        bs[p][q] = y;
      }}
      __syncthreads();
      const u32 most = k - first < 16 ? (u32)(k - first) : 16;
      for (u32 p = 0; p < most; p++) {{
        {h} x[4], y[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {{ x[i] = as[p][ty * 4 + i]; y[i] = bs[p][tx + 16 * i]; }}
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) sum[i][j] = multiply_add(x[i], y[j], sum[i][j]);
      }}
      __syncthreads();
    }}
    {s} *const pc = ({s} *)a.w[2] + (i64)product * m * n;
    for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) {{
      const i64 r = row + ty * 4 + i, c = column + tx + 16 * j;
      if (r < m && c < n) store1(pc + r * n + c, ({s}){packed});
    }}
  }}
}}
"#,
        words = HEAD + 4 * batch as usize + 1,
        products = HEAD + 4 * batch as usize,
        value = unpack(dtype, "raw"),
        packed = pack(dtype, "sum[i][j]"),
    );
    out
}
