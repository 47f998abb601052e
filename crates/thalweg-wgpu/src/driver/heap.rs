//! Memory: addresses over a few large buffers.
//!
//! In: sizes. Out: virtual addresses, each in a *chunk*, a buffer that kernels bind as a whole. A launch binds each chunk
//! that it touches once, whatever operands are in it, so overlapping operands go through one binding and kernels need few
//! bindings.
//!
//! An address has the chunk's number in its upper bits. Its lower 32 bits are the offset in the chunk, in two's
//! complement, since an operand's first element may be before the buffer that it strides through.

use std::collections::BTreeMap;
use wgpu::{Buffer, BufferDescriptor, BufferUsages, Device, ErrorFilter};

use crate::adapters::ready;

/// Number of the lowest bit of a chunk's number in an address.
const CHUNK_SHIFT: u32 = 34;
/// Address bit that all offsets are added to, so that an offset below 0 stays in the chunk's range of addresses.
const BIAS: u64 = 1 << 33;
/// Alignment of allocations in bytes.
const ALIGNMENT: usize = 256;
/// Bytes of the first chunk; each further one has twice as many, up to `MAX_CHUNK`.
const MIN_CHUNK: usize = 16 << 20;
const MAX_CHUNK: usize = 256 << 20;

/// Chunk's number and offset in bytes of an address.
pub fn split(address: u64) -> (usize, u64) {
    ((address >> CHUNK_SHIFT) as usize, u64::from(address as u32))
}

fn address(chunk: usize, offset: usize) -> u64 {
    (chunk as u64) << CHUNK_SHIFT | BIAS | offset as u64
}

/// A buffer that allocations are cut from.
#[derive(Debug)]
struct Chunk {
    buffer: Buffer,
    /// Free ranges: offset and length.
    free: BTreeMap<usize, usize>,
    /// Allocations: offset and length.
    used: BTreeMap<usize, usize>,
}

/// All memory of a device.
#[derive(Debug)]
pub struct Heap {
    /// Chunks by number; the first number is 1, so that no address is 0.
    chunks: Vec<Option<Chunk>>,
    /// Maximum bytes of a chunk.
    most: usize,
}

impl Heap {
    /// Creates a heap whose chunks have at most this many bytes.
    pub fn new(most: usize) -> Heap {
        Heap { chunks: vec![None], most }
    }

    /// Buffer of a chunk; `None` if there is no such chunk.
    pub fn buffer(&self, chunk: usize) -> Option<&Buffer> {
        Some(&self.chunks.get(chunk)?.as_ref()?.buffer)
    }

    /// Allocates memory; `None` if there is none.
    pub fn obtain(&mut self, device: &Device, bytes: usize) -> Option<u64> {
        let bytes = bytes.max(1).checked_next_multiple_of(ALIGNMENT)?;
        if bytes > self.most {
            return None;
        }
        let known = self.chunks.iter_mut().enumerate().filter_map(|(n, c)| Some((n, c.as_mut()?)));
        for (number, chunk) in known {
            if let Some(offset) = chunk.take(bytes) {
                return Some(address(number, offset));
            }
        }
        let next = self.chunks.iter().flatten().map(|c| 2 * c.buffer.size() as usize).max().unwrap_or(MIN_CHUNK);
        let wanted = next.clamp(MIN_CHUNK, MAX_CHUNK).min(self.most).max(bytes);
        let (buffer, size) =
            [wanted, bytes].into_iter().find_map(|size| Some((buffer(device, size, "thalweg heap")?, size)))?;
        let mut chunk = Chunk { buffer, free: BTreeMap::from([(0, size)]), used: BTreeMap::new() };
        let offset = chunk.take(bytes)?;
        let number = self.chunks.iter().skip(1).position(Option::is_none).map_or(self.chunks.len(), |n| n + 1);
        if number == self.chunks.len() {
            self.chunks.push(None);
        }
        self.chunks[number] = Some(chunk);
        Some(address(number, offset))
    }

    /// Frees memory of [`Heap::obtain`]. Returns the number of its chunk if nothing is left in it, so that it was freed,
    /// too.
    ///
    /// # Panics
    /// When the address was not allocated.
    pub fn release(&mut self, address: u64) -> Option<usize> {
        let (number, offset) = split(address);
        let chunk = self.chunks[number].as_mut().expect("the address is in a chunk");
        chunk.give_back(offset as usize);
        // The first chunk stays, since small allocations come and go.
        let is_empty = number > 1 && chunk.used.is_empty();
        if is_empty {
            self.chunks[number] = None;
        }
        is_empty.then_some(number)
    }
}

impl Chunk {
    /// Takes the smallest free range that fits; returns its offset.
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let fits = self.free.iter().filter(|(_, length)| **length >= bytes);
        let (&offset, &length) = fits.min_by_key(|(_, length)| **length)?;
        self.free.remove(&offset);
        if length > bytes {
            self.free.insert(offset + bytes, length - bytes);
        }
        self.used.insert(offset, bytes);
        Some(offset)
    }

    fn give_back(&mut self, offset: usize) {
        let length = self.used.remove(&offset).expect("it was allocated");
        let (mut first, mut end) = (offset, offset + length);
        if let Some((&before, &own)) = self.free.range(..offset).next_back()
            && before + own == offset
        {
            self.free.remove(&before);
            first = before;
        }
        if let Some(own) = self.free.remove(&end) {
            end += own;
        }
        self.free.insert(first, end - first);
    }
}

/// Creates a buffer for kernels and copies; `None` where there is no memory.
fn buffer(device: &Device, bytes: usize, label: &str) -> Option<Buffer> {
    let scope = device.push_error_scope(ErrorFilter::OutOfMemory);
    let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
    let descriptor = BufferDescriptor { label: Some(label), size: bytes as u64, usage, mapped_at_creation: false };
    let buffer = device.create_buffer(&descriptor);
    ready(scope.pop())?.is_none().then_some(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_below_its_chunk_keeps_the_chunks_number() {
        let at = address(3, 4096);
        assert_eq!(split(at), (3, 4096));
        let below = at.wrapping_add_signed(-8192);
        assert_eq!(below >> CHUNK_SHIFT, 3);
        assert_eq!(below as u32 as i32, -4096);
    }
}
