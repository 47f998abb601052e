//! Functions of NCCL for emulated GPUs, whose ranks are threads of one process.
//!
//! In: calls as of the library. Out: work in queues of emulated GPUs. A call submits three items: its operand is copied to
//! where the other ranks see it, later work waits until all ranks have done so, and the result is written. As with the
//! library, ranks that call other operations wait for each other until the communicator is aborted. Always true:
//! elements are combined in rank order, sums and products of bf16 and f16 in f32.

use super::transfers::{Memory, submit};
use crate::driver::nccl::{Api, Handle, ID_BYTES, OLDEST, SUCCESS, Status, Stream, UniqueId};
use half::{bf16, f16};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::ptr::null;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use thalweg_runtime::Error;

/// Table of the functions.
pub(super) static API: Api = Api {
    version,
    error,
    last_error,
    new_id,
    join,
    destroy: leave,
    abort,
    async_error,
    group_start,
    group_end,
    all_reduce,
    all_gather,
    reduce_scatter,
    broadcast,
    send,
    receive,
};

const INVALID_ARGUMENT: Status = 4;
const REMOTE_ERROR: Status = 6;

/// Group of ranks.
#[derive(Default)]
struct Group {
    size: usize,
    state: Mutex<State>,
    all_joined: Condvar,
}

#[derive(Default)]
struct State {
    joined: usize,
    /// Operands of collectives by number, and of each rank, with how many ranks have taken them.
    calls: HashMap<u64, (Vec<Option<Operand>>, usize)>,
    /// Messages by sender, receiver, and number between the two.
    messages: HashMap<(usize, usize, u64), Vec<u8>>,
}

/// Operation that ranks must agree on, and the bytes of a rank.
#[derive(Clone)]
struct Operand {
    call: Call,
    bytes: Arc<Vec<u8>>,
}

/// Collective, with the number of elements, their type, and the operation or root.
#[derive(Clone, Copy, PartialEq)]
struct Call {
    kind: Kind,
    count: usize,
    dtype: i32,
    option: i32,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
}

/// Communicator, whose address is its handle.
struct Member {
    group: Arc<Group>,
    rank: usize,
    aborted: Arc<AtomicBool>,
    calls: AtomicU64,
    /// Number of messages to, and from, each rank.
    sent: Vec<AtomicU64>,
    received: Vec<AtomicU64>,
}

static GROUPS: Mutex<Vec<(u64, Arc<Group>)>> = Mutex::new(vec![]);
static NEXT: AtomicU64 = AtomicU64::new(1);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Communicator of a handle.
fn member<'a>(handle: Handle) -> &'a Member {
    // SAFETY: a handle is the address of a communicator, which lives as long as the process.
    unsafe { &*handle.cast::<Member>() }
}

unsafe extern "C" fn version(to: *mut i32) -> Status {
    // SAFETY: an out-pointer to a number.
    unsafe { *to = OLDEST };
    SUCCESS
}

unsafe extern "C" fn error(status: Status) -> *const c_char {
    match status {
        INVALID_ARGUMENT => c"invalid argument".as_ptr(),
        REMOTE_ERROR => c"remote process exited or there was a network error".as_ptr(),
        _ => c"failed".as_ptr(),
    }
}

unsafe extern "C" fn last_error(_: Handle) -> *const c_char {
    null()
}

unsafe extern "C" fn new_id(to: *mut UniqueId) -> Status {
    let mut id = [0; ID_BYTES];
    id[..8].copy_from_slice(&NEXT.fetch_add(1, Relaxed).to_ne_bytes());
    // SAFETY: an out-pointer to an id.
    unsafe { *to = UniqueId(id) };
    SUCCESS
}

unsafe extern "C" fn join(to: *mut Handle, size: i32, id: UniqueId, rank: i32) -> Status {
    let (size, rank) = (size as usize, rank as usize);
    let id = u64::from_ne_bytes(id.0[..8].try_into().expect("8 bytes"));
    let group = {
        let mut groups = locked(&GROUPS);
        match groups.iter().find(|(known, _)| *known == id) {
            Some((_, group)) => group.clone(),
            None => {
                let group = Arc::new(Group { size, ..Group::default() });
                groups.push((id, group.clone()));
                group
            }
        }
    };
    if group.size != size || rank >= size {
        return INVALID_ARGUMENT;
    }
    let mut state = locked(&group.state);
    state.joined += 1;
    group.all_joined.notify_all();
    while state.joined < size {
        state = group.all_joined.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    drop(state);
    locked(&GROUPS).retain(|(known, _)| *known != id);
    let numbers = || (0..size).map(|_| AtomicU64::new(0)).collect();
    let member =
        Member { group, rank, aborted: Arc::default(), calls: AtomicU64::new(0), sent: numbers(), received: numbers() };
    // A communicator of a test is small; a call that an abort overtakes may still use it.
    // SAFETY: an out-pointer to a handle.
    unsafe { *to = Box::into_raw(Box::new(member)).cast() };
    SUCCESS
}

unsafe extern "C" fn leave(_: Handle) -> Status {
    SUCCESS
}

unsafe extern "C" fn abort(handle: Handle) -> Status {
    // The other ranks wait on, until they abort, too.
    member(handle).aborted.store(true, Relaxed);
    SUCCESS
}

unsafe extern "C" fn async_error(handle: Handle, to: *mut Status) -> Status {
    let is_aborted = member(handle).aborted.load(Relaxed);
    // SAFETY: an out-pointer to a status.
    unsafe { *to = if is_aborted { REMOTE_ERROR } else { SUCCESS } };
    SUCCESS
}

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Calls of the open group: sends first.
    static GROUPED: RefCell<[Vec<Submit>; 2]> = const { RefCell::new([vec![], vec![]]) };
}

type Submit = Box<dyn FnOnce() -> Status>;

unsafe extern "C" fn group_start() -> Status {
    DEPTH.set(DEPTH.get() + 1);
    SUCCESS
}

unsafe extern "C" fn group_end() -> Status {
    DEPTH.set(DEPTH.get() - 1);
    if DEPTH.get() > 0 {
        return SUCCESS;
    }
    let grouped = GROUPED.take();
    grouped
        .into_iter()
        .flatten()
        .map(|submit| submit())
        .fold(SUCCESS, |all, one| if all == SUCCESS { one } else { all })
}

/// Submits a call now, or at the end of the open group.
fn grouped(is_receive: bool, submit: impl FnOnce() -> Status + 'static) -> Status {
    if DEPTH.get() == 0 {
        return submit();
    }
    GROUPED.with_borrow_mut(|all| all[usize::from(is_receive)].push(Box::new(submit)));
    SUCCESS
}

fn bytes_of(dtype: i32) -> usize {
    match dtype {
        0 | 1 => 1,
        6 | 9 => 2,
        2 | 3 | 7 => 4,
        _ => 8,
    }
}

fn read(memory: &Memory<'_>, at: usize, bytes: usize) -> Result<Vec<u8>, Error> {
    memory.check(at as u64, bytes)?;
    // SAFETY: within an allocation that, by the submitter's promise, nobody writes now.
    Ok(unsafe { std::slice::from_raw_parts(at as *const u8, bytes) }.to_vec())
}

fn write(memory: &Memory<'_>, at: usize, bytes: &[u8]) -> Result<(), Error> {
    memory.check(at as u64, bytes.len())?;
    // SAFETY: within an allocation that, by the submitter's promise, nobody else uses now.
    unsafe { (at as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

/// Submits a collective: `count` elements of the operand, and those of the result as [`result`] gives them.
fn collective(from: *const c_void, to: *mut c_void, call: Call, handle: Handle, stream: Stream) -> Status {
    let (own, from, to) = (member(handle), from as usize, to as usize);
    let (group, rank, aborted) = (own.group.clone(), own.rank, own.aborted.clone());
    let is_aborted = aborted.clone();
    let number = own.calls.fetch_add(1, Relaxed);
    let bytes = call.count * bytes_of(call.dtype) * if call.kind == Kind::ReduceScatter { group.size } else { 1 };
    let [given, taken] = [group.clone(), group.clone()];
    let give = move |memory: &Memory<'_>| {
        let bytes = Arc::new(read(memory, from, bytes)?);
        let mut state = locked(&given.state);
        let size = given.size;
        let all = state.calls.entry(number).or_insert_with(|| (vec![None; size], 0));
        all.0[rank] = Some(Operand { call, bytes });
        Ok(())
    };
    let is_ready = move || {
        let state = locked(&group.state);
        let all = state.calls.get(&number).map(|all| &all.0);
        let agreed = |all: &Vec<Option<Operand>>| all.iter().all(|o| o.as_ref().is_some_and(|o| o.call == call));
        is_aborted.load(Relaxed) || all.is_some_and(agreed)
    };
    let take = move |memory: &Memory<'_>| {
        if aborted.load(Relaxed) {
            return Ok(());
        }
        let operands: Vec<Arc<Vec<u8>>> = {
            let mut state = locked(&taken.state);
            let Some(all) = state.calls.get_mut(&number) else { return Ok(()) };
            let operands = all.0.iter().flatten().map(|o| o.bytes.clone()).collect();
            all.1 += 1;
            if all.1 == taken.size {
                state.calls.remove(&number);
            }
            operands
        };
        write(memory, to, &result(call, rank, &operands))
    };
    submit(stream as usize, [Box::new(give), Box::new(take)], Box::new(is_ready)).map_or(INVALID_ARGUMENT, |()| SUCCESS)
}

/// Bytes of a rank's result.
fn result(call: Call, rank: usize, operands: &[Arc<Vec<u8>>]) -> Vec<u8> {
    match call.kind {
        Kind::AllReduce => combine(call, operands),
        Kind::ReduceScatter => {
            let part = call.count * bytes_of(call.dtype);
            combine(call, operands)[rank * part..][..part].to_vec()
        }
        Kind::AllGather => operands.iter().flat_map(|o| o.iter().copied()).collect(),
        Kind::Broadcast => operands[call.option as usize].to_vec(),
    }
}

fn combine(call: Call, operands: &[Arc<Vec<u8>>]) -> Vec<u8> {
    macro_rules! elements {
        ($t:ty, $accumulator:ty, $widen:expr, $narrow:expr, $add:expr, $multiply:expr) => {{
            let size = size_of::<$t>();
            let mut out = Vec::with_capacity(operands[0].len());
            for at in (0..operands[0].len()).step_by(size) {
                let one = |o: &Arc<Vec<u8>>| -> $accumulator {
                    $widen(<$t>::from_ne_bytes(o[at..at + size].try_into().expect("an element")))
                };
                let two = |a: $accumulator, b: $accumulator| match call.option {
                    1 => $multiply(a, b),
                    2 => {
                        if b > a {
                            b
                        } else {
                            a
                        }
                    }
                    3 => {
                        if b < a {
                            b
                        } else {
                            a
                        }
                    }
                    _ => $add(a, b),
                };
                let all = operands.iter().map(one).reduce(two).expect("there is a rank");
                let all = if call.option == 4 { all / operands.len() as $accumulator } else { all };
                out.extend_from_slice(&<$t>::to_ne_bytes($narrow(all)));
            }
            out
        }};
    }
    macro_rules! integers {
        ($t:ty) => {
            elements!($t, $t, |v| v, |v| v, <$t>::wrapping_add, <$t>::wrapping_mul)
        };
    }
    macro_rules! floats {
        ($t:ty, $accumulator:ty, $widen:expr, $narrow:expr) => {
            elements!($t, $accumulator, $widen, $narrow, |a, b| a + b, |a, b| a * b)
        };
    }
    match call.dtype {
        0 => integers!(i8),
        1 => integers!(u8),
        2 => integers!(i32),
        3 => integers!(u32),
        4 => integers!(i64),
        5 => integers!(u64),
        6 => floats!(f16, f32, f16::to_f32, f16::from_f32),
        7 => floats!(f32, f32, |v| v, |v| v),
        8 => floats!(f64, f64, |v| v, |v| v),
        _ => floats!(bf16, f32, bf16::to_f32, bf16::from_f32),
    }
}

unsafe extern "C" fn all_reduce(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    dtype: i32,
    option: i32,
    handle: Handle,
    stream: Stream,
) -> Status {
    collective(from, to, Call { kind: Kind::AllReduce, count, dtype, option }, handle, stream)
}

unsafe extern "C" fn all_gather(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    dtype: i32,
    handle: Handle,
    stream: Stream,
) -> Status {
    collective(from, to, Call { kind: Kind::AllGather, count, dtype, option: 0 }, handle, stream)
}

unsafe extern "C" fn reduce_scatter(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    dtype: i32,
    option: i32,
    handle: Handle,
    stream: Stream,
) -> Status {
    collective(from, to, Call { kind: Kind::ReduceScatter, count, dtype, option }, handle, stream)
}

unsafe extern "C" fn broadcast(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    dtype: i32,
    root: i32,
    handle: Handle,
    stream: Stream,
) -> Status {
    collective(from, to, Call { kind: Kind::Broadcast, count, dtype, option: root }, handle, stream)
}

unsafe extern "C" fn send(
    from: *const c_void,
    count: usize,
    dtype: i32,
    peer: i32,
    handle: Handle,
    stream: Stream,
) -> Status {
    let (from, bytes, stream, handle) = (from as usize, count * bytes_of(dtype), stream as usize, handle as usize);
    grouped(false, move || {
        let own = member(handle as Handle);
        let (group, peer) = (own.group.clone(), peer as usize);
        let key = (own.rank, peer, own.sent[peer].fetch_add(1, Relaxed));
        let give = move |memory: &Memory<'_>| {
            let bytes = read(memory, from, bytes)?;
            locked(&group.state).messages.insert(key, bytes);
            Ok(())
        };
        submit(stream, [Box::new(give), Box::new(|_| Ok(()))], Box::new(|| true)).map_or(INVALID_ARGUMENT, |()| SUCCESS)
    })
}

unsafe extern "C" fn receive(
    to: *mut c_void,
    count: usize,
    dtype: i32,
    peer: i32,
    handle: Handle,
    stream: Stream,
) -> Status {
    let (to, bytes, stream, handle) = (to as usize, count * bytes_of(dtype), stream as usize, handle as usize);
    grouped(true, move || {
        let own = member(handle as Handle);
        let (group, peer, aborted) = (own.group.clone(), peer as usize, own.aborted.clone());
        let key = (peer, own.rank, own.received[peer].fetch_add(1, Relaxed));
        let taken = group.clone();
        // A message of another size never arrives.
        let is_ready = move || {
            let is_there = locked(&group.state).messages.get(&key).is_some_and(|m| m.len() == bytes);
            is_there || aborted.load(Relaxed)
        };
        let take = move |memory: &Memory<'_>| {
            let message = locked(&taken.state).messages.remove(&key);
            message.filter(|m| m.len() == bytes).map_or(Ok(()), |message| write(memory, to, &message))
        };
        submit(stream, [Box::new(|_: &Memory<'_>| Ok(())), Box::new(take)], Box::new(is_ready))
            .map_or(INVALID_ARGUMENT, |()| SUCCESS)
    })
}
