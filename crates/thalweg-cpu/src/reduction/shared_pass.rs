//! Shared passes: reductions over all rows (such as the gradient of a bias) inside an inner-axis kernel, by stores that
//! combine the values of all rows into the same elements.
//!
//! Rows are divided into groups, by their number alone. One thread runs the rows of a group in order and combines them
//! into the group's partial result; at the end, a tree reduction combines the groups' partial results. So bits do not
//! depend on the number of threads.

use super::arena::{Arena, ArenaLayout};
use super::fold;
use super::layout::Layout;
use crate::check;
use crate::simd::Shared;
use crate::tile;
use thalweg_ir::{DType, Monoid};
use thalweg_kernel::{AccessClass, Body, RowGeometry};

/// Maximum number of groups of rows.
pub const GROUPS: usize = 64;

/// A store that combines all rows: its result has one element per point of a row.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Index of the access that is stored through.
    pub access: usize,
    op: Monoid,
    dtype: DType,
    /// Byte offset of the store's partial results in a group's memory.
    at: usize,
}

/// Partial results, by group of rows, of the stores of a launch that combine rows.
pub struct Columns {
    all: Vec<Column>,
    /// Number of rows per group.
    pub rows: usize,
    pub groups: usize,
    /// Bytes of a group's partial results.
    bytes: usize,
    memory: Shared<u8>,
    /// Owner of the allocation that `memory` points into.
    _arena: Arena,
}

/// Stores of a body that combine rows: access, monoid and dtype of each.
pub fn stores(body: &Body) -> impl Iterator<Item = (usize, Monoid, DType)> + '_ {
    body.stores.iter().filter_map(|s| {
        let access = s.access as usize;
        s.combine.map(|op| (access, op, body.accesses[access].dtype))
    })
}

/// Panics unless each store that combines rows has one element per point of a row, the same for all rows.
pub fn check(body: &Body, geometry: &RowGeometry) {
    for (access, _, dtype) in stores(body) {
        let (a, at, kept) = (&body.accesses[access], &geometry.accesses[access], geometry.kept);
        let still = at.strides[..kept].iter().zip(&geometry.extents).all(|(&s, &e)| s == 0 || e == 1);
        let single = geometry.extents.len() == kept + 1;
        let carried = matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64);
        assert!(
            still && single && carried && a.class == AccessClass::Contiguous && !a.per_row && at.map.is_none(),
            "access {access} cannot put rows together: {a:?}, {at:?}"
        );
        assert!(check::injective(&geometry.extents[kept..], &shifted(at, kept)), "access {access} meets itself");
    }
}

/// Geometry of an access with the strides of the row's dimensions first.
fn shifted(at: &thalweg_kernel::AccessGeometry, kept: usize) -> thalweg_kernel::AccessGeometry {
    let mut own = at.clone();
    own.strides.rotate_left(kept);
    own
}

impl Columns {
    /// Allocates the partial results of a launch; `None` if the body combines no rows.
    pub fn new(body: &Body, layout: &Layout<'_>) -> Option<Columns> {
        let mut places = ArenaLayout::default();
        let all: Vec<Column> = stores(body)
            .map(|(access, op, dtype)| Column { access, op, dtype, at: places.take(layout.n * dtype.size()) })
            .collect();
        if all.is_empty() {
            return None;
        }
        let rows = layout.rows().div_ceil(GROUPS).max(1);
        let (groups, bytes) = (layout.rows().div_ceil(rows), places.bytes);
        let mut arena = Arena::default();
        let memory = Shared(arena.bytes(groups * bytes));
        for group in 0..groups {
            for c in &all {
                // SAFETY: each group has space for a row of each store.
                unsafe { fold::identities(c.op, c.dtype, memory.get().add(group * bytes + c.at), layout.n) };
            }
        }
        Some(Columns { all, rows, groups, bytes, memory, _arena: arena })
    }

    /// Address of the partial results, for the group of a row, of an access that combines rows; `None` for other
    /// accesses.
    pub fn start(&self, access: usize, row: usize) -> Option<i64> {
        let c = self.all.iter().find(|c| c.access == access)?;
        Some(self.memory.get().wrapping_add(row / self.rows * self.bytes + c.at) as i64)
    }

    /// Combines the partial results of the groups in a tree, and stores the totals to the operands.
    pub fn store(&self, layout: &Layout<'_>) {
        let at = |group: usize, c: &Column| self.memory.get().wrapping_add(group * self.bytes + c.at);
        let mut apart = 1;
        while apart < self.groups {
            for group in (0..self.groups - apart).step_by(2 * apart) {
                for c in &self.all {
                    // SAFETY: each group has a row of each store, and all threads have finished.
                    unsafe { fold::combine(c.op, c.dtype, at(group, c), at(group + apart, c), layout.n) };
                }
            }
            apart *= 2;
        }
        for c in &self.all {
            // SAFETY: the store is contiguous over the row, which was checked to be inside the operand.
            unsafe {
                let to = layout.lines[c.access].start as *mut u8;
                std::ptr::copy_nonoverlapping(at(0, c), to, layout.n * c.dtype.size());
            }
            tile::note(0, layout.n * c.dtype.size());
        }
    }
}
