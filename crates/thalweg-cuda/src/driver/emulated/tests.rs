use super::*;

const PRELUDE: &str = include_str!("../../render/prelude.cuh");

/// A kernel with an emulated GPU.
struct Bench {
    gpu: Emulated,
    function: Function,
}

fn bench(source: &str) -> Bench {
    let gpu = Emulated::new().unwrap();
    let source = format!("{PRELUDE}{source}");
    if crate::driver::nvrtc::version().is_ok() {
        // The real compiler must accept the test's source, too.
        crate::driver::nvrtc::compile_for(90, &source).unwrap();
    }
    let image = gpu.compile(&source).unwrap();
    let function = gpu.load(&image, &["k"]).unwrap().remove(0);
    Bench { gpu, function }
}

impl Bench {
    fn put<T: Copy>(&self, values: &[T]) -> u64 {
        // SAFETY: the tests' values are numbers.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
        let address = self.gpu.obtain(bytes.len()).unwrap();
        self.gpu.write(address, bytes).unwrap();
        address
    }

    fn get<T: Copy + Default>(&self, address: u64, n: usize) -> Vec<T> {
        let mut values = vec![T::default(); n];
        // SAFETY: as in `put`; any bytes are numbers.
        let bytes = unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast::<u8>(), size_of_val(&*values)) };
        self.gpu.read(address, bytes).unwrap();
        values
    }

    fn launch(&self, grid: [u32; 3], block: u32, shared: u32, arguments: &[u64]) -> Result<(), Error> {
        let (function, arguments) = (self.function.clone(), arguments.to_vec());
        self.gpu.launch(&Launch { function, grid, block, shared, arguments, early: false })?;
        self.gpu.synchronize()
    }
}

#[test]
fn maps() {
    let b = bench(
        r#"extern "C" __global__ void __launch_bounds__(256) k(THALWEG_PARAMETER(3)) {
            unsigned long long i = blockIdx.x * 256ull + threadIdx.x;
            if (i >= a.w[2]) return;
            ((float*)a.w[1])[i] = fmaf(__ldg((const float*)a.w[0] + i), 2.0f, 1.0f);
        }"#,
    );
    let x: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let (from, to) = (b.put(&x), b.gpu.obtain(4000).unwrap());
    assert_eq!(b.get::<u32>(to, 1), [0xa5a5_a5a5]);
    b.launch([4, 1, 1], 256, 0, &[from, to, 1000]).unwrap();
    assert_eq!(b.get::<f32>(to, 1000), x.iter().map(|x| 2.0 * x + 1.0).collect::<Vec<_>>());
}

/// Threads of the second half return before the barriers; sums go through static and through dynamic shared memory.
#[test]
fn reduces_with_shuffles_barriers_and_early_exits() {
    let b = bench(
        r#"extern "C" __global__ void k(THALWEG_PARAMETER(2)) {
            __shared__ double of_warp[16];
            THALWEG_SHARED(bytes);
            float* mine = (float*)bytes;
            unsigned t = threadIdx.x;
            if (t >= 200) return;
            mine[t] = ((const float*)a.w[0])[t];
            __syncthreads();
            unsigned lanes = t < 192 ? 0xffffffffu : 0xffu;
            double x = mine[199 - t];
            for (int o = t < 192 ? 16 : 4; o > 0; o /= 2) x += __shfl_xor_sync(lanes, x, o);
            if (t % 32 == 0) of_warp[t / 32] = x;
            __syncthreads();
            double sum = 0;
            for (int i = 0; i < 7; i++) sum += of_warp[i];
            ((double*)a.w[1])[t] = sum + __syncthreads_or(t == 77) + __syncthreads_count(t % 2);
        }"#,
    );
    let x: Vec<f32> = (0..200).map(|i| i as f32).collect();
    let (from, to) = (b.put(&x), b.put(&[0f64; 200]));
    for _ in 0..3 {
        b.launch([3, 1, 1], 400, 800, &[from, to]).unwrap();
    }
    assert_eq!(b.get::<f64>(to, 200), [19900.0 + 1.0 + 100.0; 200]);
}

#[test]
fn shuffles_and_votes_are_the_device_s() {
    let b = bench(
        r#"extern "C" __global__ void k(THALWEG_PARAMETER(1)) {
            int t = threadIdx.x;
            long long* to = (long long*)a.w[0] + 8 * t;
            to[0] = __shfl_sync(~0u, t, 3, 8);
            to[1] = __shfl_up_sync(~0u, (long long)t, 2, 16);
            to[2] = (long long)__shfl_down_sync(~0u, (double)t, 30);
            to[3] = (long long)__shfl_xor_sync(~0u, (float)t, 5);
            to[4] = __ballot_sync(~0u, t % 3 == 0);
            to[5] = __any_sync(~0u, t == 40) * 2 + __all_sync(~0u, t >= 32);
            if (t % 32 < 4) {
                __syncwarp(0xf);
                to[6] = __shfl_sync(0xfu, t, 1);
            } else {
                to[6] = __shfl_sync(0xfffffff0u, 2 * t, 9);
            }
            __syncwarp();
            to[7] = __shfl_sync(~0u, (unsigned)t, 31);
        }"#,
    );
    let to = b.put(&[0i64; 8 * 64]);
    b.launch([1, 1, 1], 64, 0, &[to]).unwrap();
    let got = b.get::<i64>(to, 8 * 64);
    for t in 0..64i64 {
        let (lane, warp) = (t % 32, t / 32 * 32);
        let votes = (0..32).filter(|l| (warp + l) % 3 == 0).fold(0, |v, l| v | 1i64 << l);
        let expected = [
            t / 8 * 8 + 3,
            if lane % 16 < 2 { t } else { t - 2 },
            if lane < 2 { t + 30 } else { t },
            warp + (lane ^ 5),
            votes,
            if warp == 32 { 3 } else { 0 },
            if lane < 4 { warp + 1 } else { 2 * (warp + 9) },
            warp + 31,
        ];
        assert_eq!(got[8 * t as usize..][..8], expected, "thread {t}");
    }
}

#[test]
fn the_last_block_finishes() {
    let b = bench(
        r#"extern "C" __global__ void k(THALWEG_PARAMETER(3)) {
            __shared__ bool last;
            unsigned* partial = (unsigned*)a.w[0];
            unsigned sum = __shfl_down_sync(~0u, threadIdx.x, 1);
            if (threadIdx.x == 0) {
                partial[blockIdx.x] = sum + blockIdx.x;
                __threadfence();
                last = atomicAdd((unsigned*)a.w[1], 1u) == gridDim.x - 1;
            }
            __syncthreads();
            if (!last) return;
            atomicMax((int*)a.w[2] + 1, (int)threadIdx.x);
            if (threadIdx.x < gridDim.x) atomicAdd((int*)a.w[2], (int)partial[threadIdx.x]);
            if (threadIdx.x == 0) *(unsigned*)a.w[1] = 0;
        }"#,
    );
    let (partial, count, out) = (b.gpu.obtain(80).unwrap(), b.put(&[0u32]), b.put(&[0i32; 2]));
    b.launch([20, 1, 1], 64, 0, &[partial, count, out]).unwrap();
    assert_eq!(b.get::<i32>(out, 2), [20 + 190, 63]);
    assert_eq!(b.get::<u32>(count, 1), [0]);
}

#[test]
fn grids_have_three_dimensions() {
    let b = bench(
        r#"extern "C" __global__ void k(THALWEG_PARAMETER(1)) {
            unsigned at = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
            ((uint4*)a.w[0])[at * blockDim.x + threadIdx.x] = make_uint4(blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x);
        }"#,
    );
    let to = b.gpu.obtain(2 * 3 * 4 * 5 * 16).unwrap();
    b.launch([2, 3, 4], 5, 0, &[to]).unwrap();
    let got = b.get::<[u32; 4]>(to, 120);
    let coordinates = (0..120).map(|i| [i / 5 % 2, i / 10 % 3, i / 30, i % 5]);
    assert!(got.into_iter().eq(coordinates));
}

#[test]
fn a_missing_barrier_shows_and_one_that_some_miss_is_an_error() {
    let b = bench(
        r#"extern "C" __global__ void k(THALWEG_PARAMETER(2)) {
            __shared__ unsigned x;
            if (threadIdx.x == 0) x = 7;
            if (a.w[1] != 0 && threadIdx.x == 40) __syncwarp();
            if (a.w[1] != 0) __syncthreads();
            ((unsigned*)a.w[0])[threadIdx.x] = x;
        }"#,
    );
    let to = b.gpu.obtain(256).unwrap();
    // The direction of threads is drawn for each launch.
    let mut found = std::collections::BTreeSet::new();
    for _ in 0..32 {
        b.launch([1, 1, 1], 64, 0, &[to, 0]).unwrap();
        found.insert(b.get::<u32>(to, 2));
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [[7, 7], [7, 0xa5a5_a5a5]]);
    let message = b.launch([1, 1, 1], 64, 0, &[to, 1]).unwrap_err().to_string();
    assert!(message.contains("k in block [0, 0, 0]: threads wait for others"), "{message}");
    assert!(message.contains("1 wait for lanes 0xffffffff of its warp (the first is thread 40)"), "{message}");
    b.launch([1, 1, 1], 32, 0, &[to, 1]).unwrap();
    assert_eq!(b.get::<u32>(to, 32), [7; 32]);
}

#[test]
fn errors_say_what_and_where() {
    let gpu = Emulated::new().unwrap();
    let error = gpu.compile("extern \"C\" __global__ void k() {\n    nothing;\n}").unwrap_err().to_string();
    assert!(error.contains("kernel:2:5") && error.contains("nothing"), "{error}");
    let b = bench("extern \"C\" __global__ void k(THALWEG_PARAMETER(1)) { ((char*)a.w[0])[a.w[0] % 7] = 1; }");
    assert!(b.launch([1, 1, 1], 2048, 0, &[0]).unwrap_err().to_string().contains("launch of k: 2048 threads"));
    assert!(b.launch([1, 65536, 1], 1, 0, &[0]).is_err() && b.launch([1, 1, 1], 1, 1 << 20, &[0]).is_err());
    assert!(b.gpu.load(&gpu.compile("").unwrap(), &["k"]).is_err());
    assert!(b.gpu.write(0x1000, &[1]).is_err());
}

#[test]
fn memory_ends_where_it_ends() {
    let gpu = Emulated::new().unwrap();
    let a = gpu.obtain(100).unwrap();
    assert!(a.is_multiple_of(256) && gpu.obtain(9 << 30).is_none());
    assert!(gpu.write(a, &[0; 101]).is_err() && gpu.fill(a + 100, 0, 1).is_err());
    // SAFETY: an out-of-bounds write as of a kernel; it stays within the page.
    unsafe { *((a + 100) as *mut u8) = 0 };
    gpu.release(a);
    assert!(gpu.synchronize().unwrap_err().to_string().contains("beside an allocation of 100 bytes"));
    gpu.synchronize().unwrap();
}

#[test]
fn graphs_run_with_other_arguments() {
    let b = bench(
        "extern \"C\" __global__ void k(THALWEG_PARAMETER(2)) { atomicAdd((unsigned*)a.w[0], (unsigned)a.w[1]); }",
    );
    let to = b.put(&[0u32]);
    let launch = |grid, x| Launch {
        function: b.function.clone(),
        grid: [grid, 1, 1],
        block: 32,
        shared: 0,
        arguments: vec![to, x],
        early: false,
    };
    let begin = b.gpu.event().unwrap();
    let mut graph = b.gpu.graph(&[launch(1, 1), launch(1, 2)]).unwrap();
    graph.run(&[launch(1, 1), launch(1, 2)]).unwrap();
    graph.run(&[launch(2, 1), launch(1, 0)]).unwrap();
    assert_eq!(b.get::<u32>(to, 1), [32 * (1 + 2) + 64]);
    assert!(graph.run(&[launch(1, 1)]).is_err());
    assert!(b.gpu.event().unwrap().since(&*begin).unwrap() > 0.0);
}

#[test]
fn faults_are_errors_that_say_who_and_where() {
    let b = bench(
        r#"
        __device__ __noinline__ int deep(int n, volatile int* at) { int x[64]; x[n % 64] = n; *at = x[3]; return n > 1 << 20 ? 0 : deep(n + 1, x + 5) + x[7]; }
        extern "C" __global__ void k(THALWEG_PARAMETER(2)) {
            if (threadIdx.x != 5 || blockIdx.x != 1) return;
            volatile unsigned* x = (volatile unsigned*)a.w[0];
            if (a.w[1] == 0) x[64] = 1;
            if (a.w[1] == 1) x[0] = 7 / x[0];
            if (a.w[1] == 2) __trap();
            if (a.w[1] == 3) x[0] = deep(0, (int*)x);
            if (a.w[1] == 4) x[0] = ((volatile unsigned*)&a)[4];
        }"#,
    );
    let x = b.put(&[0u32; 64]);
    for (which, what) in [
        "thread 5 touches 0x",
        "thread 5 divides by zero",
        "thread 5 stops itself",
        "behind its stack",
        // Whether it is near an allocation depends on chance.
        "thread 5 touches 0x",
    ]
    .into_iter()
    .enumerate()
    {
        let error = b.launch([2, 1, 1], 64, 0, &[x, which as u64]).unwrap_err().to_string();
        assert!(error.starts_with("cuda:emulated: k in block [1, 0, 0]: ") && error.contains(what), "{error}");
        assert!(which != 0 || error.ends_with(": byte 256 of an allocation of 256"), "{error}");
        b.launch([1, 1, 1], 64, 0, &[x, 0]).unwrap();
    }
}
