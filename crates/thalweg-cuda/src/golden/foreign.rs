//! A golden source of the user's own: two-dimensional blocks, static and dynamic shared memory, inline PTX, and a name
//! that also exists in the prelude.

use thalweg_ir::{DType, ForeignCode, ForeignLaunch, ForeignSource};
use thalweg_kernel::{ForeignGeometry, Geometry, Kernel};

const TEXT: &str = r#"#define TILE 32
static __device__ float begin(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }

extern "C" __global__ void __launch_bounds__(TILE * 8) transposed(const unsigned short *__restrict__ x, float *y, long long *clock, int rows, int columns, float scale) {
  __shared__ float tile[TILE][TILE + 1];
  extern __shared__ float more[];
  THALWEG_SHARED(same);
  const int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
  for (int r = threadIdx.y; r < TILE; r += blockDim.y)
    if (top + r < rows && left + threadIdx.x < columns) tile[r][threadIdx.x] = begin(x[(top + r) * columns + left + threadIdx.x]);
  if (threadIdx.x == 0 && threadIdx.y == 0) more[0] = scale;
  __syncthreads();
  for (int r = threadIdx.y; r < TILE; r += blockDim.y)
    if (left + r < columns && top + threadIdx.x < rows) y[(left + r) * rows + top + threadIdx.x] = *(float *)same * tile[threadIdx.x][r];
  long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0 && threadIdx.y == 0) *clock = now;
}"#;

/// Golden kernel of the user's own: a transpose of bf16 to f32, scaled by a number.
pub(super) fn transposed() -> (Kernel, Geometry) {
    let source = ForeignSource {
        name: "transposed".into(),
        code: ForeignCode::Cuda { text: TEXT.into(), entry: "transposed".into() },
        operands: vec![DType::BF16],
        results: vec![DType::F32, DType::I64],
        sizes: 2,
        numbers: vec![DType::F64],
    };
    let launch = ForeignLaunch { grid: [32, 64, 1], block: [32, 8, 1], shared: 4, additions: None };
    let (sizes, operands, results) = (vec![2048, 1024], vec![(0, 2048 * 1024)], vec![4 * 2048 * 1024, 8]);
    let geometry = ForeignGeometry { launch, sizes, operands, results };
    (Kernel::Foreign { of: source.intern(), wanted: vec![0, 1] }, Geometry::Foreign(geometry))
}
