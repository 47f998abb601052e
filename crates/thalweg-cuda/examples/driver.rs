//! Exercises all functions of a driver on a real GPU (or, with the feature `emulate` and `emulated` as argument, on the
//! host), checks the results, and prints timings. With `crash` as argument it makes the device fail and prints the
//! error.

use std::process::exit;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_cuda::driver::{Cuda, Driver, Function, Launch, nvrtc};
use thalweg_cuda::find::{Sought, find};
use thalweg_runtime::Error;

const PRELUDE: &str = include_str!("../src/render/prelude.cuh");
const KERNELS: &str = r#"
extern "C" __global__ void __launch_bounds__(256) map(THALWEG_PARAMETER(4)) {
    unsigned long long i = blockIdx.x * 256ull + threadIdx.x;
    if (i < a.w[2]) ((float*)a.w[1])[i] = ((const float*)a.w[0])[i] * 2 + __uint_as_float((unsigned)a.w[3]);
}
extern "C" __global__ void __launch_bounds__(256) sum(THALWEG_PARAMETER(4)) {
    __shared__ float of_warp[8];
    float x = 0;
    for (unsigned long long i = threadIdx.x; i < a.w[2]; i += 256) x += ((const float*)a.w[0])[i];
    for (int o = 16; o > 0; o /= 2) x += __shfl_xor_sync(~0u, x, o);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int i = 1; i < 8; i++) x += of_warp[i];
    *(float*)a.w[1] = x;
}
extern "C" __global__ void __launch_bounds__(256) large(THALWEG_PARAMETER(2)) {
    THALWEG_SHARED(bytes);
    unsigned* words = (unsigned*)bytes;
    for (unsigned i = threadIdx.x; i < a.w[1]; i += 256) words[i] = i;
    __syncthreads();
    if (threadIdx.x == 0) *(unsigned*)a.w[0] = words[a.w[1] - 1];
}
extern "C" __global__ void crash(THALWEG_PARAMETER(1)) { *(volatile int*)a.w[0] = 1; }
"#;

/// Minimum of several timings.
fn least<R>(times: usize, mut run: impl FnMut() -> R) -> Duration {
    let one = |_| {
        let start = Instant::now();
        std::hint::black_box(run());
        start.elapsed()
    };
    (0..times).map(one).min().unwrap_or_default()
}

fn row(what: &str, time: Duration, rest: &str) {
    println!("{what:<58} {:>11.1} us  {rest}", time.as_secs_f64() * 1e6);
}

fn rate(bytes: usize, time: Duration) -> String {
    format!("{:.2} GB/s", bytes as f64 / time.as_secs_f64() / 1e9)
}

/// Kernels that are new in each run, so that no cache has them.
fn source(i: usize) -> String {
    format!("{PRELUDE}{}", KERNELS.replace("* 2 +", &format!("* 2 + {i} * 0 +")))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
}

fn compiling(driver: &dyn Driver) -> Result<Vec<u8>, Error> {
    let start = Instant::now();
    let image = driver.compile(&source(0))?;
    row("compile, the first time", start.elapsed(), &format!("{} bytes", image.len()));
    const N: usize = 8;
    for threads in [1, 2, 4] {
        let start = Instant::now();
        let done = std::thread::scope(|scope| {
            let work = |t: usize| {
                move || (0..N).try_for_each(|i| driver.compile(&source(1 + 100 * threads + N * t + i)).map(|_| ()))
            };
            let all: Vec<_> = (0..threads).map(|t| scope.spawn(work(t))).collect();
            all.into_iter().try_for_each(|t| t.join().expect("no panic"))
        });
        done?;
        row(
            &format!("compile four kernels, {threads} threads, each"),
            start.elapsed() / N as u32,
            "of every thread at once",
        );
    }
    Ok(image)
}

struct Bench {
    driver: Arc<dyn Driver>,
    map: Function,
    sum: Function,
    large: Function,
}

impl Bench {
    fn launch(&self, function: &Function, grid: u32, shared: u32, arguments: &[u64]) -> Launch {
        Launch {
            function: function.clone(),
            grid: [grid, 1, 1],
            block: 256,
            shared,
            arguments: arguments.to_vec(),
            early: false,
        }
    }

    fn memory(&self, bytes: usize) -> u64 {
        self.driver.obtain(bytes).expect("memory")
    }

    fn values(&self) -> Result<(), Error> {
        let (driver, n) = (&self.driver, 1_000_000usize);
        let (x, y, s) = (self.memory(4 * n), self.memory(4 * n), self.memory(4));
        let data: Vec<u8> = (0..n).flat_map(|i| ((i % 100) as f32).to_le_bytes()).collect();
        driver.write(x, &data)?;
        let map = self.launch(&self.map, n.div_ceil(256) as u32, 0, &[x, y, n as u64, u64::from(1f32.to_bits())]);
        driver.launch(&map)?;
        driver.launch(&self.launch(&self.sum, 1, 0, &[y, s, n as u64, 0]))?;
        let (mut back, mut sum) = (vec![0; 4 * n], [0; 4]);
        driver.read(y, &mut back)?;
        driver.read(s, &mut sum)?;
        let right = floats(&back).iter().enumerate().all(|(i, &v)| v == (i % 100) as f32 * 2.0 + 1.0);
        println!("map of {n}: {right}; sum: {} of 1e8", floats(&sum)[0]);
        let shared = driver.chip().shared;
        driver.launch(&self.launch(&self.large, 1, shared, &[s, u64::from(shared / 4)]))?;
        driver.read(s, &mut sum)?;
        let holds = [0, 32 << 10, 100 << 10, shared].map(|s| driver.occupancy(&self.large, 256, s));
        println!(
            "{shared} bytes of shared memory: {}; blocks at once {holds:?}",
            u32::from_le_bytes(sum) == shared / 4 - 1
        );
        [x, y, s].into_iter().for_each(|a| driver.release(a));
        if right && u32::from_le_bytes(sum) == shared / 4 - 1 {
            Ok(())
        } else {
            Err(Error::Value("wrong values".into()))
        }
    }

    fn copies(&self, most: usize) -> Result<(), Error> {
        for bytes in [8, 4096, 64 << 10, 1 << 20, 16 << 20, 256 << 20].into_iter().filter(|&b| b <= most) {
            let (address, data) = (self.memory(bytes), (0..bytes).map(|i| (i * 31 / 8) as u8).collect::<Vec<_>>());
            let mut back = vec![0; bytes];
            let times = if bytes < 4 << 20 { 50 } else { 4 };
            self.driver.write(address, &data)?;
            self.driver.read(address, &mut back)?;
            let queued = least(times, || self.driver.write(address, &data));
            self.driver.synchronize()?;
            let written = least(times, || self.driver.write(address, &data).and_then(|()| self.driver.synchronize()));
            let read = least(times, || self.driver.read(address, &mut back));
            row(&format!("write {bytes} bytes, in the queue"), queued, &rate(bytes, queued));
            row(&format!("write {bytes} bytes, arrived"), written, &rate(bytes, written));
            row(&format!("read {bytes} bytes"), read, &format!("{}, right: {}", rate(bytes, read), back == data));
            self.driver.release(address);
        }
        Ok(())
    }

    fn memories(&self) -> Result<(), Error> {
        let driver = &self.driver;
        for bytes in [1 << 10, 1 << 20, 256 << 20, 1 << 30] {
            let start = Instant::now();
            let address = self.memory(bytes);
            let first = start.elapsed();
            driver.release(address);
            let again = least(10, || driver.release(self.memory(bytes)));
            row(
                &format!("obtain {bytes} bytes"),
                first,
                &format!("again, with giving it back {:.1} us", again.as_secs_f64() * 1e6),
            );
        }
        row("synchronize, memory goes back to the system", least(1, || driver.synchronize()), "");
        row("synchronize", least(20, || driver.synchronize()), "");
        let all = driver.obtain(driver.chip().memory).inspect(|&a| driver.release(a));
        let half = self.memory(driver.chip().memory / 2);
        driver.release(half);
        let three_quarters = driver.obtain(driver.chip().memory / 4 * 3).inspect(|&a| driver.release(a));
        println!("all memory: {}; half, then three quarters: {}", all.is_some(), three_quarters.is_some());
        driver.synchronize()
    }

    fn launches(&self) -> Result<(), Error> {
        let (driver, n) = (&self.driver, 1024u64);
        let (x, y) = (self.memory(4 * n as usize), self.memory(4 * n as usize));
        driver.fill(x, 0, 4 * n as usize)?;
        let mut chain: Vec<Launch> = (0..60).map(|i| self.launch(&self.map, 4, 0, &[x, y, n, i])).collect();
        let mut graph = driver.graph(&chain)?;
        row("make a graph of 60", least(3, || driver.graph(&chain).map(drop)), "");
        let change = |chain: &mut Vec<Launch>, changed: usize| {
            (0..changed).for_each(|i| chain[i * 60 / changed].arguments[3] += 1)
        };
        let mut timed =
            |what: &str, changed: usize, run: &mut dyn FnMut(&[Launch]) -> Result<(), Error>| -> Result<(), Error> {
                let (mut host, mut total) = (Duration::MAX, Duration::MAX);
                for _ in 0..30 {
                    change(&mut chain, changed);
                    driver.synchronize()?;
                    let start = Instant::now();
                    run(&chain)?;
                    host = host.min(start.elapsed());
                    driver.synchronize()?;
                    total = total.min(start.elapsed());
                }
                row(what, host, &format!("done after {:.1} us", total.as_secs_f64() * 1e6));
                Ok(())
            };
        timed("60 launches, plain", 0, &mut |chain| chain.iter().try_for_each(|l| driver.launch(l)))?;
        for changed in [0, 1, 10, 30, 60] {
            timed(&format!("60 launches, as a graph, {changed} changed"), changed, &mut |chain| graph.run(chain))?;
        }
        timed("10 launches, plain", 0, &mut |chain| chain[..10].iter().try_for_each(|l| driver.launch(l)))?;
        let mut graph = driver.graph(&chain_of(self, 10, x, y))?;
        let chain = chain_of(self, 10, x, y);
        row(
            "10 launches, as a graph, in the queue",
            least(30, || graph.run(&chain).and_then(|()| driver.synchronize())),
            "and done",
        );
        let mut word = [0; 4];
        let one = self.launch(&self.map, 4, 0, &[x, y, n, 0]);
        row(
            "one launch, and reading 4 bytes of it",
            least(200, || driver.launch(&one).and_then(|()| driver.read(y, &mut word))),
            "",
        );
        let through =
            || driver.write(x, &[0; 4]).and_then(|()| driver.launch(&one)).and_then(|()| driver.read(y, &mut word));
        row("writing 4 bytes, one launch, and reading 4 bytes", least(200, through), "");
        self.on_the_device(&one)?;
        [x, y].into_iter().for_each(|a| driver.release(a));
        Ok(())
    }

    fn on_the_device(&self, one: &Launch) -> Result<(), Error> {
        let driver = &self.driver;
        let begin = driver.event()?;
        (0..1000).try_for_each(|_| driver.launch(one))?;
        let each = driver.event()?.since(&*begin)? / 1000.0;
        row("a small launch of many, by events", Duration::from_nanos(each as u64), "");
        let bytes = driver.chip().memory / 16;
        let (from, to) = (self.memory(bytes), self.memory(bytes));
        for _ in 0..2 {
            let begin = driver.event()?;
            driver.copy(from, to, bytes)?;
            let time = Duration::from_nanos(driver.event()?.since(&*begin)? as u64);
            row(&format!("copy {bytes} bytes within, by events"), time, &rate(2 * bytes, time));
        }
        [from, to].into_iter().for_each(|a| driver.release(a));
        row("an event, made and dropped", least(100, || driver.event()), "");
        Ok(())
    }
}

fn chain_of(bench: &Bench, n: u64, x: u64, y: u64) -> Vec<Launch> {
    (0..n).map(|i| bench.launch(&bench.map, 4, 0, &[x, y, 1024, i])).collect()
}

fn open() -> Result<Arc<dyn Driver>, Error> {
    #[cfg(all(feature = "emulate", target_arch = "x86_64", target_os = "linux"))]
    if std::env::args().any(|a| a == "emulated") {
        return Ok(Arc::new(thalweg_cuda::driver::Emulated::new()?));
    }
    println!("{} GPUs", Cuda::count()?);
    let start = Instant::now();
    let driver = Cuda::open(0)?;
    row("open", start.elapsed(), "");
    Ok(driver)
}

fn run() -> Result<(), Error> {
    for sought in Sought::ALL {
        println!("{:?}", find(sought));
    }
    let driver = open()?;
    println!("{:?}\nNVRTC compiles for {:?}", driver.chip(), nvrtc::supported_sms());
    let emulated = driver.chip().name.contains("emulated");
    if std::env::args().any(|a| a == "crash") {
        let crash = driver.load(&driver.compile(&source(0))?, &["crash"])?.remove(0);
        let launch =
            Launch { function: crash, grid: [1, 1, 1], block: 1, shared: 0, arguments: vec![0x1000], early: false };
        println!("launch: {:?}", driver.launch(&launch));
        println!("then: {:?}\nlater: {:?}", driver.synchronize(), driver.fill(0x1000, 0, 1));
        return Ok(());
    }
    let image = compiling(&*driver)?;
    let start = Instant::now();
    let functions = driver.load(&image, &["map", "sum", "large"])?;
    row("load", start.elapsed(), &format!("{:?}", functions.iter().map(|f| f.info).collect::<Vec<_>>()));
    row("load, again, and unload", least(5, || driver.load(&image, &["map", "sum", "large"]).map(|f| f.len())), "");
    let [map, sum, large] = functions.try_into().expect("three");
    let bench = Bench { driver, map, sum, large };
    bench.values()?;
    bench.copies(if emulated { 1 << 20 } else { usize::MAX })?;
    bench.memories()?;
    bench.launches()
}

fn main() {
    if let Err(error) = run() {
        println!("FAILED: {error}");
        exit(1);
    }
    println!("all good");
}
