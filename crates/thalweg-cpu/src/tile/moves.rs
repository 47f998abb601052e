//! Fills, gathers and scatters between memory and registers.

/// Fills `n` lanes of `width` bytes with the low bits of `bits`; lanes of one byte with 1, or 0 if `bits` is 0.
///
/// # Safety
/// `out` has space for `n` lanes of the width.
pub(super) unsafe fn fill(bits: u64, width: usize, out: *mut u8, n: usize) {
    // SAFETY: as above.
    unsafe {
        match width {
            1 => std::slice::from_raw_parts_mut(out, n).fill((bits != 0) as u8),
            4 => std::slice::from_raw_parts_mut(out.cast::<u32>(), n).fill(bits as u32),
            _ => std::slice::from_raw_parts_mut(out.cast::<u64>(), n).fill(bits),
        }
    }
}

/// Reads a register's first lane, in the form of `Scalar::to_bits`.
///
/// # Safety
/// `from` points at a lane of that width, 4 or 8.
pub(super) unsafe fn first(from: *const u8, width: usize) -> u64 {
    // SAFETY: as above.
    unsafe { if width == 4 { from.cast::<u32>().read() as u64 } else { from.cast::<u64>().read() } }
}

/// Gathers `n` elements of `size` bytes that are `stride` elements apart.
///
/// # Safety
/// `n` of them are readable; `out` has space for them.
pub(super) unsafe fn strided(size: usize, from: *const u8, stride: isize, out: *mut u8, n: usize) {
    unsafe fn copy<T: Copy>(from: *const T, stride: isize, out: *mut T, n: usize) {
        for i in 0..n {
            // SAFETY: the contract of `strided`.
            unsafe { out.add(i).write(from.offset(stride * i as isize).read()) };
        }
    }
    // SAFETY: as above.
    unsafe {
        match size {
            1 => copy(from, stride, out, n),
            2 => copy(from.cast::<u16>(), stride, out.cast(), n),
            4 => copy(from.cast::<u32>(), stride, out.cast(), n),
            _ => copy(from.cast::<u64>(), stride, out.cast(), n),
        }
    }
}

/// Gathers `n` elements of `size` bytes at the positions in a table; 0 for negative positions.
///
/// # Safety
/// The table has `n` positions, and elements at non-negative ones are readable; `out` has space for `n`.
pub(super) unsafe fn mapped(size: usize, from: *const u8, table: *const i32, out: *mut u8, n: usize) {
    unsafe fn copy<T: Copy + Default>(from: *const T, table: *const i32, out: *mut T, n: usize) {
        for i in 0..n {
            // SAFETY: the contract of `mapped`.
            unsafe {
                let at = table.add(i).read();
                let v = if at < 0 { T::default() } else { from.offset(at as isize).read() };
                out.add(i).write(v);
            }
        }
    }
    // SAFETY: as above.
    unsafe {
        match size {
            1 => copy(from, table, out, n),
            2 => copy(from.cast::<u16>(), table, out.cast(), n),
            4 => copy(from.cast::<u32>(), table, out.cast(), n),
            _ => copy(from.cast::<u64>(), table, out.cast(), n),
        }
    }
}

/// Source of a `Gather` in one row.
#[derive(Clone, Copy)]
pub(super) struct Indexed {
    /// Address of the operand's element 0.
    pub start: *const u8,
    /// Number of elements of the operand.
    pub len: u64,
    /// Position of the first point, in elements (`first`), and the stride of positions between points (`step`).
    pub first: i64,
    pub step: i64,
}

/// Gathers `n` elements of `size` bytes at the points' positions plus offsets; 0 where `inside` is 0, or the position
/// is out of range. Returns whether all elements were read.
///
/// # Safety
/// The operand is readable, there are `n` lanes of offsets and of `inside`, and `out` has space for as many elements.
pub(super) unsafe fn indexed(
    size: usize,
    at: Indexed,
    offset: *const i64,
    inside: *const u8,
    out: *mut u8,
    n: usize,
) -> bool {
    unsafe fn copy<T: Copy + Default>(
        at: Indexed,
        offset: *const i64,
        inside: *const u8,
        out: *mut T,
        n: usize,
    ) -> bool {
        let mut all = true;
        for i in 0..n {
            // SAFETY: the contract of `indexed`; an element is read only if its position, wrapped or not, is below the
            // length.
            unsafe {
                let moved = at.first.wrapping_add(at.step.wrapping_mul(i as i64));
                let position = moved.wrapping_add(offset.add(i).read()) as u64;
                let fits = inside.add(i).read() != 0 && position < at.len;
                out.add(i).write(if fits { at.start.cast::<T>().add(position as usize).read() } else { T::default() });
                all &= fits;
            }
        }
        all
    }
    // SAFETY: as above.
    unsafe {
        match size {
            1 => copy::<u8>(at, offset, inside, out, n),
            2 => copy::<u16>(at, offset, inside, out.cast(), n),
            4 => copy::<u32>(at, offset, inside, out.cast(), n),
            _ => copy::<u64>(at, offset, inside, out.cast(), n),
        }
    }
}

/// Scatters `n` elements of `size` bytes to destinations `stride` elements apart, in order.
///
/// # Safety
/// `from` points at `n` of them, and their destinations are writable.
pub(super) unsafe fn scatter(size: usize, from: *const u8, to: *mut u8, stride: isize, n: usize) {
    unsafe fn copy<T: Copy>(from: *const T, to: *mut T, stride: isize, n: usize) {
        for i in 0..n {
            // SAFETY: the contract of `scatter`.
            unsafe { to.offset(stride * i as isize).write(from.add(i).read()) };
        }
    }
    // SAFETY: as above.
    unsafe {
        match size {
            1 => copy(from, to, stride, n),
            2 => copy(from.cast::<u16>(), to.cast(), stride, n),
            4 => copy(from.cast::<u32>(), to.cast(), stride, n),
            _ => copy(from.cast::<u64>(), to.cast(), stride, n),
        }
    }
}
