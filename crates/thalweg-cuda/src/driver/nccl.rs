//! Bindings to NCCL, NVIDIA's library of collectives.
//!
//! In: a [`Transfer`] with addresses. Out: calls of NCCL on a stream. Types and constants are those of nccl.h, which
//! have kept their meaning since version 2.10. Always true: calls of a communicator are serialized, and none follows
//! its abort.

use super::functions::functions;
use crate::find::{self, Sought};
use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use thalweg_gpu::runtime::{RankLibrary, Ranks};
use thalweg_ir::DType;
use thalweg_runtime::{Combine, Error, Transfer};

pub(super) type Status = i32;
pub(super) const SUCCESS: Status = 0;
const IN_PROGRESS: Status = 7;

/// Opaque handle of a communicator.
pub(super) type Handle = *mut c_void;
pub(super) type Stream = *mut c_void;

pub(super) const ID_BYTES: usize = 128;

/// `ncclUniqueId`, passed by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct UniqueId(pub(super) [u8; ID_BYTES]);

/// Oldest version that is used: the first that can abort communicators of which a rank has died.
pub(super) const OLDEST: i32 = 21800;

/// Time that an abort waits for a call of the library on another thread. A call that takes longer waits for a rank that
/// is gone, and the abort ends it.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

functions! {
    version: "ncclGetVersion" (*mut i32);
    error: "ncclGetErrorString" (Status) -> *const c_char;
    last_error: "ncclGetLastError" (Handle) -> *const c_char;
    new_id: "ncclGetUniqueId" (*mut UniqueId);
    join: "ncclCommInitRank" (*mut Handle, i32, UniqueId, i32);
    destroy: "ncclCommDestroy" (Handle);
    abort: "ncclCommAbort" (Handle);
    async_error: "ncclCommGetAsyncError" (Handle, *mut Status);
    group_start: "ncclGroupStart" ();
    group_end: "ncclGroupEnd" ();
    all_reduce: "ncclAllReduce" (*const c_void, *mut c_void, usize, i32, i32, Handle, Stream);
    all_gather: "ncclAllGather" (*const c_void, *mut c_void, usize, i32, Handle, Stream);
    reduce_scatter: "ncclReduceScatter" (*const c_void, *mut c_void, usize, i32, i32, Handle, Stream);
    broadcast: "ncclBroadcast" (*const c_void, *mut c_void, usize, i32, i32, Handle, Stream);
    send: "ncclSend" (*const c_void, usize, i32, i32, Handle, Stream);
    receive: "ncclRecv" (*mut c_void, usize, i32, i32, Handle, Stream);
}

/// GPU and queue that NCCL submits work to.
pub(super) trait Target: Send + Sync + fmt::Debug {
    /// Identity of the GPU.
    fn identity(&self) -> Result<String, String>;

    /// Makes the GPU current on the calling thread and its memory accessible to the GPUs of other ranks.
    fn prepare(&self) -> Result<(), Error>;

    /// Calls `f` with the queue's stream, while no other thread submits work there and the GPU is current.
    fn with_stream(&self, f: &mut dyn FnMut(Stream) -> Result<(), Error>) -> Result<(), Error>;

    /// Notes that the GPU is in a group, by its id.
    fn join(&self, _group: &[u8]) {}

    /// Notes that the GPU has left a group.
    fn leave(&self, _group: &[u8]) {}

    /// Calls `f`, which submits the next transfer of the GPU in a group.
    fn enqueue(&self, _group: &[u8], f: &mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error> {
        f()
    }

    /// Name of the device, for errors.
    fn device(&self) -> String;
}

/// NCCL for a GPU.
#[derive(Clone)]
pub(super) struct Nccl {
    api: &'static Api,
    target: Arc<dyn Target>,
}

impl fmt::Debug for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nccl({:?})", self.target)
    }
}

impl Api {
    /// Message for a failed call.
    fn said(&self, call: &str, status: Status, handle: Handle) -> String {
        let text = |pointer: *const c_char| match pointer.is_null() {
            true => String::new(),
            // SAFETY: the library's strings end with 0 and stay until the next call.
            false => unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned(),
        };
        // SAFETY: takes any number.
        let what = text(unsafe { (self.error)(status) });
        // SAFETY: takes a communicator, or null.
        let more = text(unsafe { (self.last_error)(handle) });
        let more = more.trim();
        format!("{call}: {what} (status {status}){}{more}", if more.is_empty() { "" } else { ": " })
    }

    fn check(&self, call: &str, status: Status, handle: Handle) -> Result<(), String> {
        if status == SUCCESS { Ok(()) } else { Err(self.said(call, status, handle)) }
    }
}

impl Nccl {
    /// NCCL of this machine.
    ///
    /// # Errors
    /// Advice: the package to install, or the reason why the library found cannot be used.
    pub(super) fn open(target: Arc<dyn Target>, at_most: u32) -> Result<Nccl, String> {
        static USABLE: OnceLock<Result<&'static Api, String>> = OnceLock::new();
        let open = || {
            let api = Api::get(Sought::Nccl, at_most)?;
            let mut version = 0;
            // SAFETY: an out-pointer to a number.
            api.check("ncclGetVersion", unsafe { (api.version)(&mut version) }, null_mut())?;
            match version >= OLDEST {
                true => Ok(api),
                false => Err(format!(
                    "NCCL {} is too old: at least {} is needed",
                    find::nccl_version(version),
                    find::nccl_version(OLDEST)
                )),
            }
        };
        Ok(Nccl { api: USABLE.get_or_init(open).as_ref().map_err(String::clone)?, target })
    }
}

#[cfg(all(feature = "emulate", target_arch = "x86_64", target_os = "linux"))]
impl Nccl {
    /// A stand-in for the library, on an emulated GPU.
    ///
    /// # Errors
    /// If `THALWEG_NCCL` is off.
    pub(super) fn with(api: &'static Api, target: Arc<dyn Target>) -> Result<Nccl, String> {
        match thalweg_runtime::environment::NCCL.is("off") {
            true => Err(format!("{} is off", thalweg_runtime::environment::NCCL.name)),
            false => Ok(Nccl { api, target }),
        }
    }
}

/// `ncclDataType_t` of a dtype in a combination; `None` if NCCL has no arithmetic for it.
fn arithmetic_type(dtype: DType) -> Option<i32> {
    Some(match dtype {
        DType::I8 => 0,
        DType::U8 | DType::Bool => 1,
        DType::I32 => 2,
        DType::U32 => 3,
        DType::I64 => 4,
        DType::U64 => 5,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::BF16 => 9,
        DType::I16 | DType::U16 => return None,
    })
}

/// `ncclDataType_t` of bytes.
const BYTES: i32 = 1;

/// `ncclRedOp_t`.
fn operation(of: Combine) -> i32 {
    match of {
        Combine::Sum => 0,
        Combine::Product => 1,
        Combine::Max => 2,
        Combine::Min => 3,
        Combine::Mean => 4,
    }
}

impl RankLibrary for Nccl {
    fn identity(&self) -> Result<String, String> {
        self.target.identity()
    }

    fn combines(&self, dtype: DType) -> bool {
        arithmetic_type(dtype).is_some()
    }

    fn new_id(&self) -> Result<Vec<u8>, String> {
        let mut id = UniqueId([0; ID_BYTES]);
        // SAFETY: an out-pointer to an id.
        self.api.check("ncclGetUniqueId", unsafe { (self.api.new_id)(&mut id) }, null_mut())?;
        Ok(id.0.to_vec())
    }

    fn join(&self, id: &[u8], rank: usize, size: usize) -> Result<Arc<dyn Ranks>, String> {
        let id: [u8; ID_BYTES] =
            id.try_into().map_err(|_| format!("an id of {} bytes, not of {ID_BYTES}", id.len()))?;
        self.target.prepare().map_err(|e| e.to_string())?;
        let mut handle = null_mut();
        // SAFETY: an out-pointer to a handle; an id of the library; a rank below the size.
        let joined = unsafe { (self.api.join)(&mut handle, size as i32, UniqueId(id), rank as i32) };
        self.api.check("ncclCommInitRank", joined, null_mut())?;
        self.target.join(&id);
        let (member, current) = (Mutex::new(Member(handle)), handle as usize);
        Ok(Arc::new(Group { nccl: self.clone(), id, size, member, current }))
    }
}

/// Handle of a communicator; null once it was left.
struct Member(Handle);

// SAFETY: a communicator may be used on any thread, by one at a time.
unsafe impl Send for Member {}

/// Communicator of a rank.
struct Group {
    nccl: Nccl,
    id: [u8; ID_BYTES],
    size: usize,
    member: Mutex<Member>,
    /// Address of the communicator, for an abort during a call.
    current: usize,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({:?})", self.nccl)
    }
}

impl Group {
    fn member(&self) -> MutexGuard<'_, Member> {
        self.member.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, message: String) -> Error {
        Error::Device { device: self.nccl.target.device(), message }
    }

    /// Submits the calls of a transfer to a stream.
    fn call(
        &self,
        handle: Handle,
        (transfer, dtype): (&Transfer, DType),
        (x, x_count): (u64, usize),
        (y, y_count): (u64, usize),
        stream: Stream,
    ) -> Result<(), String> {
        let api = self.nccl.api;
        let check = |call, status| api.check(call, status, handle);
        let arithmetic = || arithmetic_type(dtype).ok_or_else(|| format!("NCCL has no arithmetic of {dtype}"));
        let (from, to) = (x as usize as *const c_void, y as usize as *mut c_void);
        let (size, of_bytes) = (dtype.size(), |count: usize| count * dtype.size());
        let after = |start: usize, count: usize| start + count * size;
        // SAFETY: for all calls, the communicator is joined and not left, the addresses are of device memory with as many
        // elements (the caller's promise), and the stream is of the communicator's GPU.
        unsafe {
            match transfer {
                Transfer::AllReduce(op) => {
                    let status = (api.all_reduce)(from, to, x_count, arithmetic()?, operation(*op), handle, stream);
                    check("ncclAllReduce", status)
                }
                Transfer::ReduceScatter(op) => {
                    let status = (api.reduce_scatter)(from, to, y_count, arithmetic()?, operation(*op), handle, stream);
                    check("ncclReduceScatter", status)
                }
                Transfer::AllGather => {
                    check("ncclAllGather", (api.all_gather)(from, to, of_bytes(x_count), BYTES, handle, stream))
                }
                Transfer::Broadcast { root } => {
                    let status = (api.broadcast)(from, to, of_bytes(x_count), BYTES, *root as i32, handle, stream);
                    check("ncclBroadcast", status)
                }
                Transfer::AllToAll { sent, received } => {
                    check("ncclGroupStart", (api.group_start)())?;
                    let (mut read, mut write) = (x as usize, y as usize);
                    let mut outcome = Ok(());
                    for rank in 0..self.size {
                        // Messages without bytes are neither sent nor received.
                        if sent[rank] > 0 && outcome.is_ok() {
                            let from = read as *const c_void;
                            let status = (api.send)(from, of_bytes(sent[rank]), BYTES, rank as i32, handle, stream);
                            outcome = check("ncclSend", status);
                        }
                        if received[rank] > 0 && outcome.is_ok() {
                            let to = write as *mut c_void;
                            let bytes = of_bytes(received[rank]);
                            outcome = check("ncclRecv", (api.receive)(to, bytes, BYTES, rank as i32, handle, stream));
                        }
                        (read, write) = (after(read, sent[rank]), after(write, received[rank]));
                    }
                    // A group that was begun must be ended.
                    let ended = check("ncclGroupEnd", (api.group_end)());
                    outcome.and(ended)
                }
            }
        }
    }

    /// Handle to leave the group with, if it was not left before. A call on another thread is waited for at most
    /// [`CALL_TIMEOUT`].
    fn take(&self) -> Option<Handle> {
        let start = Instant::now();
        loop {
            match self.member.try_lock() {
                Ok(mut member) => return Some(std::mem::replace(&mut member.0, null_mut())).filter(|h| !h.is_null()),
                Err(std::sync::TryLockError::Poisoned(poisoned)) => {
                    return Some(std::mem::replace(&mut poisoned.into_inner().0, null_mut())).filter(|h| !h.is_null());
                }
                Err(std::sync::TryLockError::WouldBlock) if start.elapsed() > CALL_TIMEOUT => {
                    return Some(self.current as Handle);
                }
                Err(std::sync::TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

impl Ranks for Group {
    fn submit(&self, transfer: &Transfer, dtype: DType, x: (u64, usize), y: (u64, usize)) -> Result<(), Error> {
        let target = &self.nccl.target;
        let call = &mut |stream| {
            let member = self.member();
            if member.0.is_null() {
                return Err(self.failed("the group of ranks was left".into()));
            }
            self.call(member.0, (transfer, dtype), x, y, stream).map_err(|message| self.failed(message))
        };
        target.enqueue(&self.id, &mut || target.with_stream(call))
    }

    fn failure(&self) -> Option<String> {
        // During a call on another thread nothing is known.
        let member = self.member.try_lock().ok()?;
        if member.0.is_null() {
            return None;
        }
        let mut status = SUCCESS;
        // SAFETY: the communicator is joined, and an out-pointer to a status.
        let asked = unsafe { (self.nccl.api.async_error)(member.0, &mut status) };
        let found = if asked == SUCCESS { status } else { asked };
        (found != SUCCESS && found != IN_PROGRESS).then(|| self.nccl.api.said("NCCL", found, member.0))
    }

    fn abort(&self) {
        self.nccl.target.leave(&self.id);
        let Some(handle) = self.take() else { return };
        if let Err(error) = self.nccl.target.prepare() {
            tracing::debug!(%error, "a group of ranks is aborted on a device that has failed");
        }
        // SAFETY: the communicator is joined, and nobody uses it any more, or waits in a call that this ends.
        let status = unsafe { (self.nccl.api.abort)(handle) };
        if status != SUCCESS {
            tracing::debug!(status, "ncclCommAbort failed");
        }
    }

    fn close(&self) {
        self.nccl.target.leave(&self.id);
        let handle = std::mem::replace(&mut self.member().0, null_mut());
        if handle.is_null() || self.nccl.target.prepare().is_err() {
            return;
        }
        // SAFETY: the communicator is joined, and nobody uses it any more.
        let status = unsafe { (self.nccl.api.destroy)(handle) };
        if status != SUCCESS {
            tracing::debug!(status, "ncclCommDestroy failed");
        }
    }
}
