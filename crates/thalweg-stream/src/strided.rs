//! Host copies of strided views to row-major order.
//!
//! In: a strided view of bytes. Out: its elements, row-major. Neighbouring dimensions that are contiguous with each
//! other are merged. Contiguous rows are copied whole. If the source is contiguous along the rows of the result
//! instead, it is copied in blocks whose lines stay in the first-level cache.

use thalweg_ir::View;
use thalweg_kernel::dims;

/// Number of rows and columns of a block.
const BLOCK: usize = 16;

/// Copies the elements of a view of `source`, each of `size` bytes, to `out`.
pub(crate) fn copy(view: &View, source: &[u8], size: usize, out: &mut [u8]) {
    match size {
        1 => copy_of::<1>(view, source, out),
        2 => copy_of::<2>(view, source, out),
        4 => copy_of::<4>(view, source, out),
        8 => copy_of::<8>(view, source, out),
        16 => copy_of::<16>(view, source, out),
        other => unreachable!("no dtype has {other} bytes"),
    }
}

fn copy_of<const N: usize>(view: &View, source: &[u8], out: &mut [u8]) {
    let (source, out) = (source.as_chunks::<N>().0, out.as_chunks_mut::<N>().0);
    let (extents, strides) = (view.shape.dims(), view.strides());
    let merged = dims::merge(extents, 0..extents.len(), false, |o, i, n| dims::runs_on(strides, o, i, n));
    let mut dims: Vec<(usize, isize)> = merged.iter().map(|m| (m.extent, strides[m.inner])).collect();
    // The innermost two dimensions are a plane; the others are iterated.
    let columns = dims.pop().unwrap_or((1, 1));
    let rows = dims.pop().unwrap_or((1, 0));
    let mut index = vec![0; dims.len()];
    for plane in out.chunks_exact_mut(rows.0 * columns.0) {
        let at = index.iter().zip(&dims).fold(view.offset, |at, (&i, d)| at + i as isize * d.1);
        copy_plane(source, at, rows, columns, plane);
        for (i, d) in index.iter_mut().zip(&dims).rev() {
            *i += 1;
            if *i < d.0 {
                break;
            }
            *i = 0;
        }
    }
}

fn copy_plane<T: Copy>(source: &[T], at: isize, rows: (usize, isize), columns: (usize, isize), out: &mut [T]) {
    let width = columns.0;
    if columns.1 == 1 {
        for (r, row) in out.chunks_exact_mut(width).enumerate() {
            let from = (at + r as isize * rows.1) as usize;
            row.copy_from_slice(&source[from..from + width]);
        }
        return;
    }
    // Source contiguous along the row index: blocks reuse whole source lines.
    let (high, wide) = if rows.1.unsigned_abs() < columns.1.unsigned_abs() { (BLOCK, BLOCK) } else { (1, width) };
    for top in (0..rows.0).step_by(high) {
        for left in (0..width).step_by(wide) {
            let end = width.min(left + wide);
            for r in top..rows.0.min(top + high) {
                let mut from = at + r as isize * rows.1 + left as isize * columns.1;
                for element in &mut out[r * width + left..r * width + end] {
                    *element = source[from as usize];
                    from += columns.1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::copy;
    use thalweg_ir::{Shape, View};

    /// Reference copy, one element at a time.
    fn slowly(view: &View, source: &[u8], size: usize) -> Vec<u8> {
        let dims = view.shape.dims();
        let element = |n: usize| {
            let mut rest = n;
            let mut index = vec![0; dims.len()];
            for d in (0..dims.len()).rev() {
                index[d] = rest % dims[d];
                rest /= dims[d];
            }
            let at = view.position(&index) as usize * size;
            source[at..at + size].to_vec()
        };
        (0..view.shape.numel()).flat_map(element).collect()
    }

    #[test]
    fn every_view_is_copied_element_by_element() {
        let source: Vec<u8> = (0..8 * 37 * 41 * 3).map(|i| (i * 7 % 251) as u8).collect();
        let whole = View::contiguous(Shape::new(&[37, 41, 3]));
        let views = [
            whole,
            whole.permute(&[2, 0, 1]),
            whole.permute(&[1, 0, 2]),
            whole.slice(&[(1, 1, 35), (40, -3, 13), (0, 1, 3)]),
            whole.slice(&[(0, 2, 18), (0, 1, 41), (1, 1, 1)]),
            View::contiguous(Shape::new(&[37, 1, 3])).expand(Shape::new(&[37, 5, 3])),
            View::contiguous(Shape::new(&[])),
        ];
        for size in [1, 2, 4, 8] {
            for view in &views {
                let mut out = vec![0; view.shape.numel() * size];
                copy(view, &source, size, &mut out);
                assert_eq!(out, slowly(view, &source, size), "{view:?} of {size} bytes");
            }
        }
    }
}
