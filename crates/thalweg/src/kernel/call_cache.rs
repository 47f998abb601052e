//! Cache of a kernel's calls: templates by their arguments.
//!
//! In: operands, and the other arguments of a call. Out: for a call equal to an earlier one, that call's operations,
//! recorded in one go ([`thalweg_stream::Template`]). Calls are equal if they have the same axis or shape, tensors of
//! the same shapes, dtypes and device, the same plain data, and, except for maps, whose traces keep numbers as
//! arguments, the same numbers. Always true: a call with tracked tensors does not use it, since the tape needs each
//! operation.

use super::program::Program;
use crate::{Axis, DType, Device, Operand, Scalar, Shape, Tensor};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use thalweg_stream::{self as stream, Mark, Template, Value};

/// Maximum number of cached calls of one kernel; further ones are traced each time.
const MAX_CALLS: usize = 32;

/// Domain over which a kernel call runs.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Over {
    /// Elements of the shape that the operands broadcast to.
    Elements,
    /// Indices of this shape.
    Places(Shape),
    /// Rows along an axis of the shape that the row operands broadcast to.
    Rows(Axis),
    /// Tiles of each batch.
    Tiles,
}

/// Plain data of a call in comparable form: numbers and arrays of numbers, as collected by `#[kernel]`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    words: [u64; 12],
    count: usize,
}

/// Plain argument of a kernel (no tensor), which is compared by its bits.
#[doc(hidden)]
pub trait Word {
    /// Appends the bits of the value to `plain`.
    fn note(&self, plain: &mut Plain);
}

impl Default for Plain {
    fn default() -> Plain {
        Plain::new()
    }
}

impl Plain {
    /// Plain data without any item.
    pub const fn new() -> Plain {
        Plain { words: [0; 12], count: 0 }
    }

    /// Appends one item.
    pub fn with(mut self, data: &impl Word) -> Plain {
        data.note(&mut self);
        self
    }

    /// Whether there is no plain data.
    pub(super) fn is_none(&self) -> bool {
        self.count == 0
    }

    /// The plain data as 64-bit words; `None` if there are too many.
    fn words(&self) -> Option<&[u64]> {
        self.words.get(..self.count)
    }

    fn push(&mut self, word: u64) {
        if let Some(to) = self.words.get_mut(self.count) {
            *to = word;
        }
        self.count += 1;
    }
}

macro_rules! words {
    ($($t:ty: $x:ident => $word:expr;)*) => {$(
        impl Word for $t {
            fn note(&self, plain: &mut Plain) {
                let $x = *self;
                plain.push($word);
            }
        }
    )*};
}
words! {
    i8: x => x as u64; i16: x => x as u64; i32: x => x as u64; i64: x => x as u64; isize: x => x as u64;
    u8: x => x as u64; u16: x => x as u64; u32: x => x as u64; u64: x => x; usize: x => x as u64;
    bool: x => x as u64; char: x => x as u64; f32: x => x.to_bits() as u64; f64: x => x.to_bits();
}

impl<T: Word, const N: usize> Word for [T; N] {
    fn note(&self, plain: &mut Plain) {
        self.iter().for_each(|x| x.note(plain));
    }
}

/// Cached calls of a kernel.
#[derive(Debug)]
pub(super) struct CallCache {
    count: AtomicUsize,
    /// Hashes of the calls; valid where the call is set.
    hashes: [AtomicU64; MAX_CALLS],
    calls: [OnceLock<Box<Entry>>; MAX_CALLS],
}

#[derive(Debug)]
struct Entry {
    over: Over,
    operands: Vec<Given>,
    plain: Vec<u64>,
    template: Template,
    /// Scalar operands: index of the scalar in the template, index of the operand, and the dtype that it takes there.
    numbers: Vec<(u32, u32, DType)>,
}

/// Operand of a cached call.
#[derive(Clone, Copy, Debug)]
enum Given {
    Tensor(Shape, DType, Device),
    /// Number with this value.
    Number(Scalar),
    /// Number of any value that fits this dtype.
    Any(DType),
}

/// Kernel call that is looked up in the cache.
#[derive(Clone, Copy)]
pub(super) struct Question<'a, 'b> {
    pub over: &'b Over,
    pub operands: &'b [(&'static str, super::Take, Operand<'a>)],
    pub plain: &'b Plain,
}

impl Given {
    fn is(&self, operand: &Operand<'_>) -> bool {
        match (self, operand) {
            (Given::Tensor(shape, dtype, device), Operand::Tensor(t)) => {
                t.shape() == shape && t.dtype() == *dtype && t.device() == *device
            }
            (Given::Number(a), Operand::Scalar(b)) => bits(*a) == bits(*b),
            (Given::Any(dtype), Operand::Scalar(s)) => s.fits(*dtype),
            _ => false,
        }
    }
}

/// Tag and bits of a scalar, for exact comparison.
fn bits(s: Scalar) -> (u8, u64) {
    match s {
        Scalar::Float(x) => (0, x.to_bits()),
        Scalar::Int(x) => (1, x as u64),
        Scalar::Unsigned(x) => (2, x),
        Scalar::Bool(x) => (3, x as u64),
    }
}

impl Question<'_, '_> {
    fn hash(&self) -> u64 {
        let mut hash = self.plain.count as u64;
        let mut add = |word: u64| hash = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
        for (_, _, operand) in self.operands {
            match operand {
                Operand::Tensor(t) => {
                    add((t.rank() as u64) << 8 | t.dtype() as u64);
                    t.dims().iter().for_each(|&d| add(d as u64));
                }
                // Numbers are compared one by one.
                Operand::Scalar(_) => add(u64::MAX),
            }
        }
        hash | 1
    }

    /// Values of the call's tensors; `None` if there are too many, or one is tracked.
    fn values(&self) -> Option<([&std::sync::Arc<Value>; stream::MAX_OPERANDS], usize)> {
        let mut tensors = self.operands.iter().filter_map(|o| match &o.2 {
            Operand::Tensor(t) => Some(*t),
            Operand::Scalar(_) => None,
        });
        let first: &Tensor = tensors.next()?;
        let (mut all, mut count, mut tracked) = ([&first.value; stream::MAX_OPERANDS], 1, first.node.is_some());
        for t in tensors {
            *all.get_mut(count)? = &t.value;
            count += 1;
            tracked |= t.node.is_some();
        }
        (!tracked).then_some((all, count))
    }
}

impl CallCache {
    pub const fn new() -> CallCache {
        CallCache {
            count: AtomicUsize::new(0),
            hashes: [const { AtomicU64::new(0) }; MAX_CALLS],
            calls: [const { OnceLock::new() }; MAX_CALLS],
        }
    }

    /// Looks up an equal call, records all its operations at once, and passes the results to `then`; `None` if there is
    /// no such call.
    pub fn record<R>(
        &self,
        question: &Question<'_, '_>,
        then: impl FnOnce(&mut dyn Iterator<Item = Tensor>) -> R,
    ) -> Option<R> {
        let entry = self.find(question)?;
        let (values, count) = question.values()?;
        let number = |&(scalar, operand, dtype): &(u32, u32, DType)| match question.operands[operand as usize].2 {
            Operand::Scalar(s) => (scalar as usize, s.to_bits(dtype)),
            Operand::Tensor(_) => unreachable!("a number is asked for"),
        };
        let numbers = entry.numbers.iter().map(number);
        let then = |results: &mut dyn Iterator<Item = std::sync::Arc<Value>>| then(&mut results.map(Tensor::of));
        stream::record_batch(values[0].device(), &entry.template, &values[..count], numbers, then)
    }

    fn find(&self, question: &Question<'_, '_>) -> Option<&Entry> {
        let (count, hash) = (self.count.load(Relaxed).min(MAX_CALLS), question.hash());
        for (known, call) in self.hashes[..count].iter().zip(&self.calls) {
            if known.load(Relaxed) != hash {
                continue;
            }
            let Some(entry) = call.get() else { continue };
            if entry.answers(question) {
                return Some(entry);
            }
        }
        None
    }

    /// Position in the stream before the call's operations; `None` if the call is not to be cached.
    pub fn mark(&self, question: &Question<'_, '_>) -> Option<Mark> {
        if self.count.load(Relaxed) >= MAX_CALLS || question.plain.words().is_none() {
            return None;
        }
        let (values, _) = question.values()?;
        Some(stream::mark(values[0].device()))
    }

    /// Caches the operations that a call recorded since `mark`; for a map with what its trace says about numbers. Does
    /// nothing if a template cannot express the operations, or if the cache is full.
    pub fn keep(
        &self,
        mark: Mark,
        question: &Question<'_, '_>,
        float: DType,
        results: &[Tensor],
        program: Option<&Program>,
    ) {
        let Some((values, count)) = question.values() else { return };
        let results: Vec<_> = results.iter().map(|t| &t.value).collect();
        let Some(template) = stream::template(mark, &values[..count], &results) else { return };
        let numbers = program.and_then(|p| p.numbers(&template, |i| question.operands[i].2));
        let given = |(_, take, operand): &(_, super::Take, Operand<'_>)| match operand {
            Operand::Tensor(t) => Given::Tensor(*t.shape(), t.dtype(), t.device()),
            Operand::Scalar(_) if numbers.is_some() => Given::Any(take.dtype(float)),
            Operand::Scalar(s) => Given::Number(*s),
        };
        let operands = question.operands.iter().map(given).collect();
        let plain = question.plain.words().map(<[u64]>::to_vec).unwrap_or_default();
        let at = self.count.fetch_add(1, Relaxed);
        if at < MAX_CALLS {
            let entry = Entry { over: *question.over, operands, plain, template, numbers: numbers.unwrap_or_default() };
            let _ = self.calls[at].set(Box::new(entry));
            self.hashes[at].store(question.hash(), Relaxed);
        }
    }
}

impl Entry {
    fn answers(&self, question: &Question<'_, '_>) -> bool {
        let Question { over, operands, plain } = question;
        self.operands.len() == operands.len()
            && self.over == **over
            && plain.count == self.plain.len()
            // Compared one by one: `memcmp` of an empty slice at a dangling address takes 25 ns.
            && self.plain.iter().zip(&plain.words).all(|(a, b)| a == b)
            && self.operands.iter().zip(*operands).all(|(a, b)| a.is(&b.2))
    }
}
