//! Tests of one queue: batches, graphs, and what its launches share.

use crate::driver::{Driver, Emulated, Launch};
use std::sync::Arc;
use thalweg_gpu::runtime::{DeviceMemory, Queue, Queues};
use thalweg_runtime::{Buffer, Check, Error, Pool, counters};

struct Bench {
    queues: Arc<Queues>,
    pool: Arc<Pool>,
    add: Launch,
}

/// Creates a queue, and a launch that adds its second argument word to the number at its first.
fn bench() -> Bench {
    let driver: Arc<dyn Driver> = Arc::new(Emulated::new().unwrap());
    let queues = Queues::new(&driver, "cuda:emulated").unwrap();
    let pool = DeviceMemory::pool(queues.clone(), "cuda:emulated".into());
    let source = crate::prelude::PRELUDE.to_string()
        + "extern \"C\" __global__ void add(THALWEG_PARAMETER(2)) { *(u64 *)a.w[0] += a.w[1]; }";
    let function = driver.load(&driver.compile(&source).unwrap(), &["add"]).unwrap().remove(0);
    let add = Launch { function, grid: [1; 3], block: 1, shared: 0, arguments: vec![0; 2], early: false };
    Bench { queues, pool, add }
}

impl Bench {
    fn queue(&self) -> &Queue {
        self.queues.mine().unwrap()
    }

    fn buffer(&self) -> Buffer {
        let buffer = self.pool.allocate(64).unwrap();
        self.queues.write(&buffer, &[&[0; 64]]).unwrap();
        buffer
    }

    fn add(&self, to: &Buffer, n: u64) -> Result<(), Error> {
        let address = to.address() as u64;
        self.queue().uses(to, &|other| self.queues.make_whole(other))?;
        self.queue().launch(&self.add, &mut |words| {
            (words[0], words[1]) = (address, n);
            address
        })
    }

    fn value(&self, of: &Buffer) -> u64 {
        let mut bytes = [0; 8];
        self.queues.read(of, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }
}

#[test]
fn what_comes_often_is_a_graph_whatever_happens_in_between() {
    let b = bench();
    let (x, y) = (b.buffer(), b.buffer());
    let run = |n: u64, stop: bool, write: bool| {
        let before = counters();
        let done = b.queue().batch(Some(1), false, &mut || {
            b.add(&x, n)?;
            b.add(&y, 2 * n)?;
            if write {
                b.queues.write(&x, &[&[0; 8]])?;
            }
            if stop {
                return Err(Error::Value("no more".into()));
            }
            b.add(&x, 1)
        });
        let c = counters() - before;
        (done.is_ok(), b.value(&x), b.value(&y), c.device_launches, c.graph_runs)
    };
    for n in 1..4 {
        assert_eq!(run(n, false, false).3, 3);
    }
    let (x, y) = (6 + 3, 12);
    assert_eq!(run(10, false, false), (true, x + 11, y + 20, 1, 1));
    assert_eq!(run(5, false, false), (true, x + 17, y + 30, 1, 1));
    // An exclusive write is ordered between the launches.
    assert_eq!(run(7, false, true), (true, 1, y + 44, 3, 0));
    // Deferred launches of a run that failed do not run.
    assert_eq!(run(9, true, false), (false, 1, y + 44, 0, 0));
    // The last run was too short for a graph.
    assert_eq!(run(1, false, false).3, 3);
    assert_eq!(run(1, false, false), (true, 5, y + 48, 1, 1));
}

#[test]
fn memory_returns_to_the_driver_after_held_back_blocks() {
    let b = bench();
    let keep = b.buffer();
    for turn in 0..8 {
        let done = b.queue().batch(Some(2), false, &mut || {
            let own = b.pool.allocate(1 << 16)?;
            for _ in 0..4 {
                b.add(&own, 1)?;
            }
            drop(own);
            // Frees all unused memory: the emulated driver fails if a launch still needs it.
            b.pool.trim();
            b.add(&keep, 1)
        });
        assert!(done.is_ok());
        assert_eq!(b.value(&keep), turn + 1);
    }
}

#[test]
fn a_panic_closes_the_batch() {
    let b = bench();
    let x = b.buffer();
    let panics = || b.queue().batch(Some(3), false, &mut || panic!("on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    b.queue().batch(None, false, &mut || b.add(&x, 3)).unwrap();
    assert_eq!(b.value(&x), 3);
}

/// Runs a batch whose program adds `n` to its fault slot; returns the slot's address and the check.
fn checked(b: &Bench, n: u64) -> (u64, Arc<dyn Check>) {
    let mut slot = 0;
    let batch = b.queue().batch(None, false, &mut || {
        slot = b.queue().begin(true)?;
        b.queue().launch(&b.add, &mut |words| {
            (words[0], words[1]) = (slot, n);
            slot
        })
    });
    (slot, batch.unwrap().check.unwrap())
}

#[test]
fn an_assertion_fails_the_queue_where_a_check_fails_and_costs_no_wait_where_it_passes() {
    let b = bench();
    let x = b.buffer();
    let (slot, check) = checked(&b, 0);
    assert!(check.assert().unwrap());
    assert_eq!(check.outcome().unwrap(), []);
    // The slot is free again without having been read.
    assert_eq!(checked(&b, 0).0, slot);
    let (_, check) = checked(&b, 1);
    assert!(check.assert().unwrap());
    let mut bytes = [0; 8];
    let failed = b.queues.read(&x, &mut bytes).unwrap_err().to_string();
    assert!(failed.contains("an index is in range"), "{failed}");
}

#[test]
fn a_check_that_is_known_to_have_failed_is_not_asserted() {
    let b = bench();
    let (_, check) = checked(&b, 1);
    assert_eq!(check.outcome().unwrap().len(), 1);
    assert!(!check.assert().unwrap());
}
