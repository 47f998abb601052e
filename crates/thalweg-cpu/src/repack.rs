//! Repeated strided operands ([`thalweg_kernel::repeated()`]), packed before a launch.
//!
//! In: a launch of a body some of whose loads are strided. Out: the same launch with packed copies of these elements as
//! further operands, by a variant of the program in which the loads are contiguous. The arithmetic is the same, so the
//! bits are.
//!
//! **Example.** `(x[:, None, 0] - x[None, :, 0]).abs().sum(1)` of a matrix `[1000, 3]` reads the first column a thousand
//! times. Gathered, an element takes about 1.7 ns; packed, 0.1.

use crate::check::{self, strided_reach};
use crate::tunable::TUNABLES;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::OnceLock;
use thalweg_ir::MAX_RANK;
use thalweg_kernel::{AccessClass, AccessGeometry, Body, repeated};
use thalweg_runtime::{Allocation, Buffer};

thread_local! {
    /// Memory of the copies of a launch of this thread.
    static COPIES: Cell<Vec<u64>> = const { Cell::new(vec![]) };
}

/// Alignment of a copy, in words.
const ALIGN_WORDS: usize = 8;

/// Variant of a program of type `P` whose repeated operands are packed.
#[derive(Debug)]
pub struct Repacked<P> {
    /// Strided accesses that are only loaded.
    candidates: Box<[u16]>,
    /// The accesses that are packed, and the program; compiled on first use.
    variant: OnceLock<(Vec<u16>, Box<P>)>,
}

/// Accesses to pack before a launch over a domain of sizes `extents`, whose vectors go along dimension `lane`.
pub struct Packing<'a> {
    body: &'a Body,
    accesses: Vec<u16>,
    extents: &'a [usize],
    lane: usize,
}

impl<P> Repacked<P> {
    /// Variant, not compiled yet, of the program of a body.
    pub fn new(body: &Body) -> Repacked<P> {
        let strided = |a: usize| body.accesses[a].class == AccessClass::Strided && body.accesses[a].operand.is_some();
        let uses = check::uses(body);
        let loaded = |a: usize| !uses[a].stored && !uses[a].gathered;
        let candidates = (0..body.accesses.len()).filter(|&a| strided(a) && loaded(a)).map(|a| a as u16).collect();
        Repacked { candidates, variant: OnceLock::new() }
    }

    /// Accesses to pack in a launch; `None` if there are none.
    pub fn packing<'a>(
        &self,
        body: &'a Body,
        geometry: &[AccessGeometry],
        (extents, lane): (&'a [usize], usize),
    ) -> Option<Packing<'a>> {
        let pays = |&a: &u16| {
            let access = &body.accesses[a as usize];
            let elements = repeated(access, &geometry[a as usize], extents, lane);
            elements.is_some_and(|n| {
                TUNABLES.min_repacked_points.reached_by(extents[lane])
                    && TUNABLES.max_repacked.admits(n.saturating_mul(access.dtype.size()))
            })
        };
        let accesses: Vec<u16> = self.candidates.iter().copied().filter(pays).collect();
        (!accesses.is_empty()).then_some(Packing { body, accesses, extents, lane })
    }

    /// The variant for these accesses, made by `make` on first use; `None` if it was made for others.
    pub fn variant(&self, packing: &Packing<'_>, make: impl FnOnce(&Body) -> P) -> Option<&P> {
        let (accesses, program) = self.variant.get_or_init(|| {
            let mut body = packing.body.clone();
            for &a in &packing.accesses {
                let access = &mut body.accesses[a as usize];
                (access.operand, access.class) = (Some(body.operands), AccessClass::Contiguous);
                body.operands += 1;
            }
            (packing.accesses.clone(), Box::new(make(&body)))
        });
        (*accesses == packing.accesses).then_some(program)
    }
}

impl Packing<'_> {
    /// Packs the elements, and calls `launch` with the geometry of the variant's accesses, and with its operands.
    ///
    /// # Panics
    /// If an access reaches outside its operand.
    pub fn with_copies<R>(
        &self,
        geometry: &[AccessGeometry],
        operands: &[&Buffer],
        launch: impl FnOnce(Vec<AccessGeometry>, &[&Buffer]) -> R,
    ) -> R {
        let mut memory = COPIES.take();
        let mut packed = geometry.to_vec();
        let words = |a: &u16| {
            let size = self.body.accesses[*a as usize].dtype.size();
            (self.elements(&geometry[*a as usize]) * size).div_ceil(8).next_multiple_of(ALIGN_WORDS)
        };
        let total: usize = self.accesses.iter().map(words).sum();
        if memory.len() < total + ALIGN_WORDS {
            memory.resize(total + ALIGN_WORDS, 0);
        }
        let mut at = memory.as_ptr().align_offset(8 * ALIGN_WORDS);
        let mut copies: Vec<Buffer> = Vec::with_capacity(self.accesses.len());
        for a in &self.accesses {
            let (access, from) = (&self.body.accesses[*a as usize], &geometry[*a as usize]);
            let (size, to) = (access.dtype.size(), &mut memory[at..at + words(a)]);
            let operand = operands[access.operand.expect("a load has an operand") as usize];
            let (low, high) = strided_reach(self.extents, from);
            let has = operand.bytes() / size;
            assert!(low <= high && high < has, "access {a} reaches elements {low} to {high} of an operand of {has}");
            let strides = self.strides(from);
            // SAFETY: all elements are inside the operand, as just checked, and the copy has space for them.
            unsafe {
                let start = operand.address().cast_const().offset(from.base * size as isize);
                match size {
                    1 => self.pack::<u8>(start.cast(), from, &strides, to.as_mut_ptr().cast()),
                    2 => self.pack::<u16>(start.cast(), from, &strides, to.as_mut_ptr().cast()),
                    4 => self.pack::<u32>(start.cast(), from, &strides, to.as_mut_ptr().cast()),
                    _ => self.pack::<u64>(start.cast(), from, &strides, to.as_mut_ptr().cast()),
                }
                let start = NonNull::new_unchecked(to.as_mut_ptr().cast::<u8>());
                copies.push(Allocation::foreign(start, to.len() * 8));
            }
            packed[*a as usize] = AccessGeometry { base: 0, strides, ..from.clone() };
            at += words(a);
        }
        let all: Vec<&Buffer> = operands[..self.body.operands as usize].iter().copied().chain(&copies).collect();
        let done = launch(packed, &all);
        COPIES.set(memory);
        done
    }

    /// Number of elements of an access.
    fn elements(&self, at: &AccessGeometry) -> usize {
        self.extents.iter().zip(&at.strides).filter(|(_, stride)| **stride != 0).map(|(n, _)| n).product()
    }

    /// Strides of the packed copy of an access: row-major, with the lanes' dimension innermost.
    fn strides(&self, at: &AccessGeometry) -> [isize; MAX_RANK] {
        let (mut strides, mut step) = ([0; MAX_RANK], self.extents[self.lane] as isize);
        strides[self.lane] = 1;
        for d in (0..self.extents.len()).rev().filter(|&d| d != self.lane && at.strides[d] != 0) {
            strides[d] = step;
            step *= self.extents[d] as isize;
        }
        strides
    }

    /// Copies the elements of an access, from the domain's first point on.
    ///
    /// # Safety
    /// They are readable, and there is space for them at `to`, with these strides.
    unsafe fn pack<T: Copy>(&self, from: *const T, at: &AccessGeometry, strides: &[isize; MAX_RANK], to: *mut T) {
        let others: Vec<usize> = (0..self.extents.len()).filter(|&d| d != self.lane && at.strides[d] != 0).collect();
        let lines: usize = others.iter().map(|&d| self.extents[d]).product();
        for line in 0..lines {
            let (mut rest, mut read, mut written) = (line, 0, 0);
            for &d in others.iter().rev() {
                let digit = (rest % self.extents[d]) as isize;
                rest /= self.extents[d];
                read += digit * at.strides[d];
                written += digit * strides[d];
            }
            for i in 0..self.extents[self.lane] as isize {
                // SAFETY: the caller's promise; elements are aligned, since operands are and strides count elements.
                unsafe { to.offset(written + i).write(from.offset(read + i * at.strides[self.lane]).read()) };
            }
        }
    }
}
