//! Fourier transforms by the driver's library.
//!
//! In: real and imaginary parts in any layout, of `[outer, n, inner]`. Out: those of the transforms, row-major. The
//! library takes contiguous lines of complex numbers as interleaved pairs: one kernel packs them (`pack`), the library
//! transforms all lines, another kernel unpacks and scales them (`unpack`).
//!
//! Always true: all work is submitted in one turn, and its temporary memory is freed after it.

use crate::around::{Functions, RANK, first_of, launch};
use crate::driver::Lines;
use std::sync::Arc;
use thalweg_gpu::runtime::Queues;
use thalweg_ir::View;
use thalweg_runtime::{Buffer, Error, Fourier, FourierKind, Pool, count};

const PACK_WORDS: usize = 8 + 3 * RANK;
const UNPACK_WORDS: usize = 7;

/// Source of both kernels, for f32 and f64. Arguments of `pack`: real and imaginary part (0 for real numbers),
/// destination, number of elements, elements of a line, lines after the axis, whether the imaginary parts at the ends
/// of a line are 0 (1: of the first, 2: of the last, too), rank (0 where both parts are row-major), extents, strides of
/// both parts. Arguments of `unpack`: source, real and imaginary part, number of elements, elements of a line, lines
/// after the axis, the factor.
const SOURCE: &str = r#"
#define PACK(NAME, T) \
extern "C" __global__ void __launch_bounds__(256) NAME(THALWEG_PARAMETER(32)) { \
    u64 i = blockIdx.x * 256ull + threadIdx.x; \
    if (i >= a.w[3]) return; \
    u64 n = a.w[4], inner = a.w[5]; \
    u64 r = i % inner, row = i / inner, k = row % n, at = ((row / n) * inner + r) * n + k; \
    i64 from_re = (i64)i, from_im = (i64)i; \
    if (a.w[7] != 0) { \
        u64 rest = i; \
        from_re = 0; \
        from_im = 0; \
        for (int d = (int)a.w[7] - 1; d >= 0; d--) { \
            i64 p = (i64)(rest % a.w[8 + d]); \
            rest /= a.w[8 + d]; \
            from_re += p * (i64)a.w[16 + d]; \
            from_im += p * (i64)a.w[24 + d]; \
        } \
    } \
    T re = ((const T*)a.w[0])[from_re]; \
    if (a.w[1] == 0) { \
        ((T*)a.w[2])[at] = re; \
        return; \
    } \
    bool real = (a.w[6] >= 1 && k == 0) || (a.w[6] == 2 && k == n - 1); \
    T im = real ? (T)0 : ((const T*)a.w[1])[from_im]; \
    ((T*)a.w[2])[2 * at] = re; \
    ((T*)a.w[2])[2 * at + 1] = im; \
}
#define UNPACK(NAME, T) \
extern "C" __global__ void __launch_bounds__(256) NAME(THALWEG_PARAMETER(7)) { \
    u64 i = blockIdx.x * 256ull + threadIdx.x; \
    if (i >= a.w[3]) return; \
    u64 n = a.w[4], inner = a.w[5]; \
    u64 r = i % inner, row = i / inner, k = row % n, at = ((row / n) * inner + r) * n + k; \
    T scale = (T)__longlong_as_double((i64)a.w[6]); \
    if (a.w[2] == 0) { \
        ((T*)a.w[1])[i] = ((const T*)a.w[0])[at] * scale; \
        return; \
    } \
    ((T*)a.w[1])[i] = ((const T*)a.w[0])[2 * at] * scale; \
    ((T*)a.w[2])[i] = ((const T*)a.w[0])[2 * at + 1] * scale; \
}
PACK(pack_f32, float)
UNPACK(unpack_f32, float)
PACK(pack_f64, double)
UNPACK(unpack_f64, double)
"#;

const NAMES: [&str; 4] = ["pack_f32", "unpack_f32", "pack_f64", "unpack_f64"];

/// Compiled `pack` and `unpack` kernels of a device.
#[derive(Debug, Default)]
pub(crate) struct Fouriers(Functions);

impl Fouriers {
    /// Submits a transform, as [`thalweg_runtime::Device::fourier`] specifies.
    pub fn run(
        &self,
        (queues, pool): (&Queues, &Arc<Pool>),
        of: &Fourier,
        x: &[(&Buffer, &View)],
        y: &[&Buffer],
    ) -> Option<Result<(), Error>> {
        let queue = match queues.mine() {
            Ok(queue) => queue,
            Err(error) => return Some(Err(error)),
        };
        let driver = queue.driver();
        let lines = Lines { kind: of.kind, double: of.double, n: of.n, count: of.outer.checked_mul(of.inner)? };
        if lines.count == 0 {
            return None;
        }
        let libraries = driver.libraries()?;
        let workspace = libraries.transform(&lines)?;
        let kernels = self.0.get(driver, SOURCE, &NAMES);
        let kernels = kernels.inspect_err(|error| tracing::debug!(%error, "no kernels of transforms")).ok()?;
        // If an allocation fails here, the host may still have memory.
        let size = if of.double { 8 } else { 4 };
        let (taken, given) = (of.kind.taken(of.n), of.kind.given(of.n));
        let [real_in, real_out] = [of.kind == FourierKind::Half, of.kind == FourierKind::Real];
        let bytes =
            |line: usize, real: bool| lines.count.checked_mul(line)?.checked_mul(if real { size } else { 2 * size });
        let from = pool.allocate(bytes(taken, real_in)?).ok()?;
        // Complex lines are transformed in place.
        let to = if real_in || real_out { Some(pool.allocate(bytes(given, real_out)?).ok()?) } else { None };
        let work = pool.allocate(workspace.max(1)).ok()?;
        let address = |b: &Buffer| b.address() as u64;
        let (from_at, work_at) = (address(&from), address(&work));
        let to_at = to.as_ref().map_or(from_at, address);
        let [pack, unpack] = if of.double { [2, 3] } else { [0, 1] }.map(|i: usize| &kernels[i]);
        let packed = launch(pack, pack_words(of, size, x, from_at), lines.count * taken);
        let second = y.get(1).map_or(0, |b| address(b));
        let words = [
            to_at,
            address(y[0]),
            second,
            (lines.count * given) as u64,
            given as u64,
            of.inner as u64,
            of.scale.to_bits(),
        ];
        let unpacked = launch(unpack, words.to_vec(), lines.count * given);
        debug_assert_eq!(unpacked.arguments.len(), UNPACK_WORDS);
        count(|c| c.library_calls += 1);
        let missing = &|other| queues.make_whole(other);
        let used = x.iter().map(|x| x.0).chain(y.iter().copied()).chain([&from, &work]).chain(&to);
        let used: Vec<&Buffer> = used.collect();
        Some(queue.after_deferred(&mut || {
            used.iter().try_for_each(|buffer| queue.uses(buffer, missing))?;
            driver.launch(&packed)?;
            libraries.run_transform(&lines, [from_at, to_at, work_at])?;
            driver.launch(&unpacked)
        }))
    }
}

fn pack_words(of: &Fourier, size: usize, x: &[(&Buffer, &View)], to: u64) -> Vec<u64> {
    let taken = of.kind.taken(of.n);
    let at = |&x: &(&Buffer, &View)| first_of(x, size);
    let ends = match of.kind {
        FourierKind::Real => 1 + u64::from(of.n.is_multiple_of(2)),
        _ => 0,
    };
    let mut words = vec![0; PACK_WORDS];
    words[0] = at(&x[0]);
    words[1] = x.get(1).map_or(0, at);
    words[2] = to;
    words[3] = (of.outer * of.inner * taken) as u64;
    words[4] = taken as u64;
    words[5] = of.inner as u64;
    words[6] = ends;
    if x.iter().any(|(_, view)| !view.is_contiguous()) {
        let rank = x[0].1.shape.rank();
        words[7] = rank as u64;
        for d in 0..rank {
            words[8 + d] = x[0].1.shape[d] as u64;
            words[8 + RANK + d] = x[0].1.strides()[d] as i64 as u64;
            words[8 + 2 * RANK + d] = x.get(1).map_or(0, |x| x.1.strides()[d] as i64 as u64);
        }
    }
    words
}
