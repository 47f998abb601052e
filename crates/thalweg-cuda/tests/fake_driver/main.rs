//! Tests of `Cuda` from the driver's side, with a fake driver (fake.cpp). Its queue runs everything as late as allowed.

#![cfg(all(feature = "emulate", unix))]

mod products;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use thalweg_cuda::driver::{Cuda, Driver, Function, Launch};
use thalweg_cuda::find::{Sought, find};
use thalweg_runtime::Error;

/// The fake driver, compiled and set in the environment before anything asks for a driver. Tests lock it: its state is
/// shared.
static FAKE: LazyLock<Mutex<libloading::Library>> = LazyLock::new(|| {
    let library = compiled();
    // SAFETY: only tests run here, and each waits for this before it does anything.
    unsafe {
        std::env::set_var("THALWEG_CUDA_DRIVER", &library);
        if matches!(thalweg_runtime::environment::CUBLASLT.read(), Ok(None)) {
            std::env::set_var("THALWEG_CUBLASLT", &library);
        }
        // The library takes products of any size, and choices are cached in a folder of this process.
        std::env::set_var("THALWEG_CUBLASLT_MIN_MULTIPLICATIONS", "0");
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&cache);
        std::env::set_var("THALWEG_CACHE", cache);
    }
    // SAFETY: its initialisers are harmless.
    let opened = unsafe { libloading::Library::new(&library) }.unwrap();
    assert_eq!(find(Sought::Driver).version.as_deref(), Some("13.0"));
    Mutex::new(opened)
});

/// Compiles the fake driver: that takes seconds, so the library is cached by its source.
fn compiled() -> PathBuf {
    const SOURCE: &str = include_str!("fake.cpp");
    let mut hash = DefaultHasher::new();
    SOURCE.hash(&mut hash);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = folder.join(format!("libcuda-fake-{:016x}.so", hash.finish()));
    if !library.exists() {
        let mine = folder.join(format!("libcuda-fake-{}.so", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake_driver/fake.cpp");
        let made = Command::new("g++").args(["-std=c++17", "-shared", "-fPIC", "-w", source, "-o"]).arg(&mine).status();
        assert!(made.unwrap().success());
        std::fs::rename(mine, &library).unwrap();
    }
    library
}

struct Bench {
    fake: MutexGuard<'static, libloading::Library>,
    gpu: Arc<Cuda>,
}

fn bench() -> Bench {
    let fake = FAKE.lock().unwrap_or_else(|e| e.into_inner());
    Bench { fake, gpu: Cuda::open(0).unwrap() }
}

impl Bench {
    fn ask(&self, name: &str) -> i32 {
        // SAFETY: a function of fake.cpp without parameters.
        unsafe { self.fake.get::<unsafe extern "C" fn() -> i32>(name.as_bytes()).unwrap()() }
    }

    fn tell(&self, name: &str, number: i32) {
        // SAFETY: a function of fake.cpp with one number.
        unsafe { self.fake.get::<unsafe extern "C" fn(i32) -> i32>(name.as_bytes()).unwrap()(number) };
    }

    fn function(&self, name: &str) -> Function {
        self.gpu.load(b"fake\0", &[name]).unwrap().remove(0)
    }

    fn get(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        self.gpu.read(address, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }
}

fn launch(function: &Function, arguments: [u64; 2], grid: u32) -> Launch {
    let (function, arguments) = (function.clone(), arguments.to_vec());
    Launch { function, grid: [grid, 1, 1], block: 128, shared: 0, arguments, early: false }
}

#[test]
fn devices_are_counted_and_described() {
    let b = bench();
    assert_eq!(Cuda::count().unwrap(), 2);
    let chip = b.gpu.chip();
    assert_eq!((chip.name.as_str(), chip.sm, chip.multiprocessors, chip.memory), ("fake", 90, 132, 64 << 20));
    let none = Cuda::open(2).unwrap_err().to_string();
    assert_eq!(none, "cuda:2: there is no such GPU: 2 are seen by this process");
}

#[test]
fn copies_of_all_sizes_arrive() {
    let b = bench();
    for bytes in [0, 1, 100, 1 << 20, (2 << 20) + 5, (9 << 20) + 1] {
        let address = b.gpu.obtain(bytes).unwrap();
        let data: Vec<u8> = (0..bytes).map(|i| (i * i / 7) as u8).collect();
        b.gpu.write(address, &data).unwrap();
        let mut back = vec![0; bytes];
        b.gpu.read(address, &mut back).unwrap();
        assert!(back == data, "{bytes} bytes");
        b.gpu.release(address);
    }
}

#[test]
fn stretches_lie_one_behind_the_other() {
    let b = bench();
    for sizes in [&[0usize, 3, 0, 5][..], &[70_000, 0, 1, 4 << 20, (4 << 20) - 1, 2], &[6 << 20, 7 << 20, 5 << 20, 9]] {
        let all: Vec<Vec<u8>> =
            sizes.iter().enumerate().map(|(n, &size)| (0..size).map(|i| (i * 31 / 8 + n) as u8).collect()).collect();
        let (spans, whole): (Vec<&[u8]>, Vec<u8>) = (all.iter().map(Vec::as_slice).collect(), all.concat());
        let address = b.gpu.obtain(whole.len()).unwrap();
        b.gpu.write_all(address, &spans).unwrap();
        let mut back = vec![0; whole.len()];
        b.gpu.read(address, &mut back).unwrap();
        assert!(back == whole, "{sizes:?}");
        b.gpu.release(address);
    }
}

#[test]
fn queues_wait_for_each_other_where_that_is_said() {
    let b = bench();
    let (add, x, other) = (b.function("add"), b.gpu.obtain(8).unwrap(), b.gpu.on(3));
    b.gpu.fill(x, 0, 8).unwrap();
    other.after(&*b.gpu.point().unwrap()).unwrap();
    other.launch(&launch(&add, [x, 5], 1)).unwrap();
    let there = other.event().unwrap();
    assert_eq!(b.get(x), 0, "nobody has waited for the other queue");
    b.gpu.after(&*there).unwrap();
    drop(there);
    assert_eq!(b.get(x), 5);
    other.launch(&launch(&add, [x, 1], 1)).unwrap();
    b.gpu.synchronize().unwrap();
    assert_eq!(b.get(x), 6, "all queues are waited for");
}

#[test]
fn a_gpu_copies_from_another_one() {
    let b = bench();
    let other = Cuda::open(1).unwrap();
    let (from, to) = (other.obtain(1000).unwrap(), b.gpu.obtain(1000).unwrap());
    let data: Vec<u8> = (0..1000).map(|i| (i * 7) as u8).collect();
    other.write(from, &data).unwrap();
    b.gpu.after(&*other.point().unwrap()).unwrap();
    b.gpu.copy_from(&*other, from, to, 1000).unwrap().unwrap();
    let mut back = vec![0; 1000];
    b.gpu.read(to, &mut back).unwrap();
    assert!(back == data);
}

#[test]
fn small_writes_do_not_overtake_each_other() {
    let b = bench();
    let all: Vec<u64> = (0..3000).map(|_| b.gpu.obtain(4000).unwrap()).collect();
    for (i, &address) in all.iter().enumerate() {
        b.gpu.write(address, &vec![i as u8; 4000]).unwrap();
    }
    for (i, &address) in all.iter().enumerate() {
        let mut back = [0; 4000];
        b.gpu.read(address, &mut back).unwrap();
        assert_eq!(back, [i as u8; 4000]);
        b.gpu.release(address);
    }
}

#[test]
fn threads_share_a_device() {
    let b = bench();
    std::thread::scope(|scope| {
        for t in 0..4u8 {
            let gpu = &b.gpu;
            scope.spawn(move || {
                for i in 0..50 {
                    let (address, data) = (gpu.obtain(50_000).unwrap(), vec![t.wrapping_mul(i); 50_000]);
                    gpu.write(address, &data).unwrap();
                    let mut back = vec![0; 50_000];
                    gpu.read(address, &mut back).unwrap();
                    assert!(back == data);
                    gpu.release(address);
                }
            });
        }
    });
}

#[test]
fn memory_that_is_on_its_way_back_is_waited_for() {
    let b = bench();
    let a = b.gpu.obtain(40 << 20).unwrap();
    b.gpu.release(a);
    let a = b.gpu.obtain(40 << 20).unwrap();
    assert!(b.gpu.obtain(40 << 20).is_none());
    b.gpu.release(a);
    let trims = b.ask("fakeTrims");
    b.gpu.synchronize().unwrap();
    b.gpu.synchronize().unwrap();
    assert_eq!(b.ask("fakeTrims"), trims + 1, "kept memory goes to the system once");
}

#[test]
fn launches_and_functions() {
    let b = bench();
    let add = b.function("add");
    assert_eq!((add.info.registers, add.info.shared, add.info.local), (24, 128, 0));
    assert_eq!(b.gpu.occupancy(&add, 256, 200 << 10), 8);
    assert_eq!(b.gpu.occupancy(&add, 256, 228 << 10), 0);
    let x = b.gpu.obtain(8).unwrap();
    b.gpu.fill(x, 0, 8).unwrap();
    let begin = b.gpu.event().unwrap();
    b.gpu.launch(&launch(&add, [x, 5], 3)).unwrap();
    b.gpu.launch(&Launch { shared: 100 << 10, ..launch(&add, [x, 1], 1) }).unwrap();
    let end = b.gpu.event().unwrap();
    assert_eq!(end.since(&*begin).unwrap(), 2e6);
    assert_eq!(b.get(x), 16);
    let y = b.gpu.obtain(8).unwrap();
    b.gpu.copy(x, y, 8).unwrap();
    assert_eq!(b.get(y), 16);
    let refused = b.gpu.launch(&Launch { block: 2048, ..launch(&add, [x, 1], 1) }).unwrap_err().to_string();
    assert!(refused.starts_with("cuda:0: launch of add (1×1×1 blocks of 2048 threads): CUDA_ERROR_OTHER"), "{refused}");
    assert!(b.gpu.load(b"fake\0", &["nothing"]).unwrap_err().to_string().contains("cuModuleGetFunction(nothing)"));
    assert!(b.gpu.load(b"other\0", &["add"]).is_err());
}

#[test]
fn graphs_set_only_what_differs() {
    let b = bench();
    let add = b.function("add");
    let x = b.gpu.obtain(8).unwrap();
    b.gpu.fill(x, 0, 8).unwrap();
    let mut launches = vec![launch(&add, [x, 1], 1), launch(&add, [x, 10], 1), launch(&add, [x, 100], 2)];
    let mut graph = b.gpu.graph(&launches).unwrap();
    let updates = b.ask("fakeUpdates");
    graph.run(&launches).unwrap();
    graph.run(&launches).unwrap();
    assert_eq!((b.ask("fakeUpdates") - updates, b.get(x)), (0, 2 * 211));
    launches[1].arguments[1] = 20;
    graph.run(&launches).unwrap();
    launches[2].grid = [1, 1, 1];
    graph.run(&launches).unwrap();
    assert_eq!((b.ask("fakeUpdates") - updates, b.get(x)), (2, 2 * 211 + 221 + 121));
    assert!(graph.run(&launches[1..]).is_err());
    let refuse = |x| b.tell("fakeRefuse", x);
    refuse(1);
    launches[0].arguments[1] = 2;
    graph.run(&launches).unwrap();
    refuse(0);
    graph.run(&launches).unwrap();
    assert_eq!(b.get(x), 2 * 211 + 221 + 121 + 2 * 122);
}

/// Runs in a process of its own: afterwards the device is unusable.
#[test]
fn a_crash_is_reported_at_the_next_call_and_at_all_later_ones() {
    if std::env::var_os("TEST_FAKE_CRASH").is_none() {
        let name = "a_crash_is_reported_at_the_next_call_and_at_all_later_ones";
        let again =
            Command::new(std::env::current_exe().unwrap()).args([name, "--exact"]).env("TEST_FAKE_CRASH", "1").output();
        let again = again.unwrap();
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
        return;
    }
    let b = bench();
    let (crash, add, x) = (b.function("crash"), b.function("add"), b.gpu.obtain(8).unwrap());
    b.gpu.launch(&launch(&crash, [x, 0], 1)).unwrap();
    let error = b.gpu.read(x, &mut [0; 8]).unwrap_err();
    assert!(matches!(&error, Error::Device { .. }));
    let error = error.to_string();
    assert!(
        error.starts_with("cuda:0: CUDA_ERROR_ILLEGAL_ADDRESS (it is so), noticed by cuEventQuery; a launch before"),
        "{error}"
    );
    assert_eq!(b.gpu.launch(&launch(&add, [x, 1], 1)).unwrap_err().to_string(), error);
    assert_eq!(b.gpu.synchronize().unwrap_err().to_string(), error);
    assert!(b.gpu.obtain(8).is_none());
    b.gpu.release(x);
}
