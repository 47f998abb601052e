//! Tests that work waits for what it depends on, and for nothing else. The emulated GPU runs a queue when somebody
//! waits for it, so a missing wait exposes old contents. (Without `Driver::after` in `Order::wait_for`, the first five
//! tests fail.)

use crate::driver::{Driver, Emulated, Function, Launch};
use std::sync::Arc;
use std::sync::mpsc::channel;
use thalweg_gpu::runtime::{DeviceMemory, MEMORY, Queues};
use thalweg_runtime::{Buffer, Pool, counters};

const SOURCE: &str = r#"
extern "C" __global__ void add(THALWEG_PARAMETER(2)) { *(u64 *)a.w[0] += a.w[1]; }
extern "C" __global__ void take(THALWEG_PARAMETER(2)) { *(u64 *)a.w[1] = *(u64 *)a.w[0]; }
extern "C" __global__ void set(THALWEG_PARAMETER(2)) { *(u64 *)a.w[0] = a.w[1]; }
"#;

/// Number of bytes of a large buffer.
const BIG: usize = 128 << 10;

struct Bench {
    queues: Arc<Queues>,
    pool: Arc<Pool>,
    functions: Vec<Function>,
}

fn bench() -> Bench {
    let driver: Arc<dyn Driver> = Arc::new(Emulated::new().unwrap());
    let queues = Queues::new(&driver, "cuda:emulated").unwrap();
    let pool = DeviceMemory::pool(queues.clone(), "cuda:emulated".into());
    let source = crate::prelude::PRELUDE.to_string() + SOURCE;
    let functions = driver.load(&driver.compile(&source).unwrap(), &["add", "take", "set"]).unwrap();
    Bench { queues, pool, functions }
}

impl Bench {
    fn put(&self, function: usize, buffers: &[&Buffer], words: [u64; 2]) {
        let queue = self.queues.mine().unwrap();
        let launch = Launch {
            function: self.functions[function].clone(),
            grid: [1; 3],
            block: 1,
            shared: 0,
            arguments: words.to_vec(),
            early: false,
        };
        let mut run = || {
            buffers.iter().try_for_each(|b| queue.uses(b, &|other| self.queues.make_whole(other)))?;
            queue.launch(&launch, &mut |_| 0)
        };
        match queue.is_open() {
            true => run().unwrap(),
            false => drop(queue.batch(None, false, &mut run).unwrap()),
        }
    }

    /// Adds `n` to the first number of a buffer in place, like a run that reuses a dead input's buffer for its result.
    fn add(&self, to: &Buffer, n: u64) {
        to.uses().renew();
        self.put(0, &[to], [to.address() as u64, n]);
    }

    fn take(&self, from: &Buffer, to: &Buffer) {
        self.put(1, &[from, to], [from, to].map(|b| b.address() as u64));
    }

    fn set(&self, to: &Buffer, n: u64) {
        self.put(2, &[to], [to.address() as u64, n]);
    }

    fn small(&self) -> Buffer {
        self.pool.allocate(64).unwrap()
    }

    /// A large buffer that the host writes.
    fn big(&self, n: u64) -> Buffer {
        let buffer = self.pool.allocate_for(BIG, self.queues.to_device(BIG)).unwrap();
        self.queues.write(&buffer, &[&n.to_le_bytes().repeat(BIG / 8)]).unwrap();
        buffer
    }

    fn value(&self, of: &Buffer) -> u64 {
        let mut bytes = [0; 8];
        self.queues.read(of, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn on_another_thread<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        std::thread::scope(|scope| scope.spawn(f).join().unwrap())
    }
}

#[test]
fn kernels_wait_for_copies_and_copies_for_kernels() {
    let b = bench();
    for n in 1..40 {
        let x = b.big(n);
        b.add(&x, 5);
        if n % 3 == 0 {
            b.queues.write(&x, &[&(100 * n).to_le_bytes().repeat(BIG / 8)]).unwrap();
            b.add(&x, 7);
        }
        let mut all = vec![0; BIG];
        b.queues.read(&x, &mut all).unwrap();
        let first = u64::from_le_bytes(*all.first_chunk().unwrap());
        assert_eq!(first, if n % 3 == 0 { 100 * n + 7 } else { n + 5 });
    }
}

#[test]
fn a_thread_waits_for_what_another_one_computes() {
    let b = bench();
    for n in 0..20 {
        let (x, y) = (b.small(), b.small());
        b.set(&x, n);
        b.on_another_thread(|| b.take(&x, &y));
        let z = b.small();
        b.take(&y, &z);
        assert_eq!(b.value(&z), n);
    }
}

#[test]
fn memory_is_reused_after_its_last_use() {
    let b = bench();
    let mut results = vec![];
    for n in 0..40u64 {
        // An input's memory alternates between the copies to the device and this thread's kernels.
        let (x, y) = (b.big(n), b.small());
        b.take(&x, &y);
        drop(x);
        results.push(y);
        // Memory that another thread has freed is reused by this one, and the reverse.
        let mine = b.small();
        b.set(&mine, 1000 + n);
        let theirs = b.small();
        b.take(&mine, &theirs);
        drop(mine);
        b.on_another_thread(|| {
            let other = b.small();
            b.set(&other, 7);
            b.add(&other, 1);
        });
        results.push(theirs);
    }
    for (n, pair) in results.chunks(2).enumerate() {
        assert_eq!([b.value(&pair[0]), b.value(&pair[1])], [n as u64, 1000 + n as u64]);
    }
    let reserved = b.pool.stats().reserved;
    assert!(reserved < 6 * BIG, "{reserved} bytes for a loop with one input");
}

#[test]
fn who_takes_a_buffer_over_waits_for_its_readers() {
    let b = bench();
    for n in 0..20 {
        let (x, y) = (b.small(), b.small());
        b.set(&x, n);
        b.take(&x, &y);
        b.on_another_thread(|| {
            b.add(&x, 1 << 40);
        });
        assert_eq!([b.value(&x), b.value(&y)], [(1 << 40) + n, n]);
    }
}

#[test]
fn memory_is_released_after_its_last_use() {
    let b = bench();
    for n in 0..20 {
        let (x, y) = (b.small(), b.small());
        b.on_another_thread(|| {
            b.set(&x, n);
            b.take(&x, &y);
        });
        drop(x);
        // A later kernel that still needs it would access freed memory, which is an error.
        b.pool.trim();
        b.queues.order().driver(MEMORY).event().unwrap().wait().unwrap();
        assert_eq!(b.value(&y), n);
    }
}

#[test]
fn memory_of_an_open_batch_is_nobody_else_s() {
    let b = bench();
    let queue = b.queues.mine().unwrap();
    let kept = b.small();
    b.set(&kept, 0);
    for n in 0..8 {
        let done = queue.batch(Some(1), false, &mut || {
            let scratch = b.small();
            for _ in 0..4 {
                b.set(&scratch, n);
                b.take(&scratch, &kept);
            }
            let address = scratch.address() as usize;
            drop(scratch);
            // From the fourth run on the launches are deferred. This read must not wait for them: nobody would end the
            // batch.
            let (other, got) = b.on_another_thread(|| {
                let other = b.small();
                b.set(&other, 99);
                (other.address() as usize, b.value(&other))
            });
            assert!(other != address && got == 99);
            // This thread gets the memory.
            let mine = [b.small(), b.small()];
            assert!(mine.iter().any(|m| m.address() as usize == address));
            Ok(())
        });
        done.unwrap();
        assert_eq!(b.value(&kept), n);
    }
}

#[test]
fn independent_work_waits_for_nothing() {
    let b = bench();
    let shared = b.small();
    b.set(&shared, 3);
    let work = || {
        let (x, y) = (b.small(), b.small());
        b.set(&x, 1);
        b.set(&y, 1);
        b.queues.order().driver(b.queues.number()).event().unwrap().wait().unwrap();
        let before = counters();
        for _ in 0..10 {
            b.take(&x, &y);
            b.add(&x, 1);
            // Both threads read it, and wait only for its writer.
            b.take(&shared, &y);
        }
        ((counters() - before).queue_waits, b.value(&x))
    };
    let (send, receive) = channel();
    let other = b.on_another_thread(|| {
        // Holds a queue of its own while the other thread has one.
        send.send(b.queues.number()).unwrap();
        work()
    });
    assert_ne!(receive.recv().unwrap(), b.queues.number());
    assert_eq!(other, (1, 11));
    assert_eq!(work(), (0, 11));
}

#[test]
fn copies_between_gpus_follow_the_writer_and_precede_later_work() {
    let (here, there) = (bench(), bench());
    for n in 0..30 {
        let (x, to) = (there.big(n), here.pool.allocate(BIG).unwrap());
        there.add(&x, 5);
        here.queues.copy_from(&to, &there.queues, &x, BIG).unwrap().unwrap();
        // The memory of the source may be reused there at once, and overwritten.
        match n % 2 {
            0 => drop(x),
            _ => there.add(&x, 1000),
        }
        let other = there.big(77);
        there.add(&other, 1);
        here.add(&to, 1);
        let mut all = vec![0; BIG];
        here.queues.read(&to, &mut all).unwrap();
        let (words, []) = all.as_chunks::<8>() else { unreachable!() };
        assert_eq!([words[0], words[1], words[BIG / 8 - 1]].map(u64::from_le_bytes), [n + 6, n, n]);
        assert_eq!(there.value(&other), 78);
    }
}
