//! Finished bodies: traffic, in-place reuse, and layout of the domain.

use super::{MapKernel, Writer, Written};
use crate::segment::ValueId;
use crate::write::map_layout::{lay_out, lay_out_box};
use crate::write::movement::layout;
use crate::write::{boxes, rows};
use thalweg_ir::View;
use thalweg_kernel::{Body, Geometry, IndexMap, Kernel, MapGeometry, in_place_operand, reads_in_place};

impl Writer<'_> {
    /// Kernel of the finished body, whose domain is laid out as one map or row domain, or as boxes.
    pub(super) fn laid_out(mut self) -> MapKernel {
        let body = std::mem::take(&mut self.builder).finish();
        let loaded = body.loaded();
        let (kernel, geometry) = self.kernel(body);
        let touched = match (&kernel, &geometry) {
            (Kernel::Boxes(bodies), Geometry::Boxes(boxes)) => self.touched_by_boxes(bodies, boxes),
            _ => self.touched(&loaded),
        };
        let in_place = self.in_place_of(&kernel, &geometry);
        let Writer { reads, scalars, computed, .. } = self;
        MapKernel { kernel, geometry, reads, scalars, in_place, touched, computed }
    }

    pub(super) fn finish(mut self) -> Written {
        let body = std::mem::take(&mut self.builder).finish();
        let (touched, in_place) = (self.touched(&body.loaded()), self.in_place());
        let Writer { maps, reads, scalars, computed, .. } = self;
        Written { body, maps, reads, scalars, in_place, touched, computed }
    }

    /// Bytes of distinct elements of each operand. Loads that the builder simplified away do not count, such as the
    /// condition of a select between equal values.
    fn touched(&self, loaded: &[bool]) -> Vec<usize> {
        let distinct = |(map, loaded): (&IndexMap, &bool)| if *loaded { map.distinct() } else { 0 };
        let distinct: Vec<usize> = self.maps.iter().zip(loaded).map(distinct).collect();
        let of = |v: &ValueId| {
            let own = self.sources.iter().zip(&distinct).filter(|(s, _)| **s == Some(*v));
            let touched: usize = own.map(|(_, n)| n).sum();
            touched.min(layout(self.ix, *v).distinct()) * self.ix.dtype(*v).size()
        };
        self.reads.iter().map(of).collect()
    }

    /// Bytes of distinct elements of each operand that the boxes of a domain read. A branch that no point of a box takes
    /// is not in the box's body.
    fn touched_by_boxes(&self, bodies: &[Body], boxes: &[MapGeometry]) -> Vec<usize> {
        let mut elements = vec![0; self.reads.len()];
        for (body, geometry) in bodies.iter().zip(boxes) {
            for ((access, map), loaded) in body.accesses.iter().zip(&geometry.accesses).zip(body.loaded()) {
                if let Some(n) = access.operand.and_then(|o| elements.get_mut(o as usize)).filter(|_| loaded) {
                    *n += map.distinct;
                }
            }
        }
        let of = |(v, n): (&ValueId, usize)| n.min(layout(self.ix, *v).distinct()) * self.ix.dtype(*v).size();
        self.reads.iter().zip(elements).map(of).collect()
    }

    /// Pairs of results and operands whose memory they may reuse, for a laid-out kernel. With boxes, parts of an
    /// operand may be read in different boxes. If some of its elements stay unchanged, the result reuses that operand
    /// or none.
    fn in_place_of(&self, kernel: &Kernel, geometry: &Geometry) -> Vec<(usize, usize)> {
        let (Kernel::Boxes(bodies), Geometry::Boxes(boxes)) = (kernel, geometry) else { return self.in_place() };
        let boxes: Vec<(&Body, &MapGeometry)> = bodies.iter().zip(boxes).collect();
        let points = self.domain.numel();
        let kept = in_place_operand(&boxes).map(usize::from);
        let mut in_place = vec![];
        for (n, &s) in self.outline.stores.iter().enumerate() {
            let size = self.ix.seg.ops[s].dtype.size();
            for (r, v) in self.reads.iter().enumerate() {
                // The layout matters, too: a broadcast has fewer elements than its shape, and a box of one point does
                // not show that.
                let as_many = self.ix.shape(*v).numel() == points && self.ix.dtype(*v).size() == size;
                let whole = as_many && layout(self.ix, *v).is_contiguous();
                if whole && kept.is_none_or(|k| k == r) && reads_in_place(&boxes, r as u16) {
                    in_place.push((self.reads.len() + n, r));
                }
            }
        }
        in_place
    }

    /// Pairs of results and operands whose memory they may reuse. None if rows have one element. Then a value read once
    /// per row is a whole operand as well, and threads that share a row read it separately, some after others have
    /// stored.
    fn in_place(&self) -> Vec<(usize, usize)> {
        let points = self.domain.numel();
        let mut in_place = vec![];
        if self.outline.rows.is_some_and(|r| rows::row_count(self.ix, r) == points) {
            return in_place;
        }
        for (n, &s) in self.outline.stores.iter().enumerate() {
            let size = self.ix.seg.ops[s].dtype.size();
            for (r, v) in self.reads.iter().enumerate() {
                let mut own = self.sources.iter().zip(&self.maps).filter(|(s, _)| **s == Some(*v));
                let whole = self.ix.shape(*v).numel() == points && self.ix.dtype(*v).size() == size;
                if whole && own.all(|(_, m)| m.as_view().is_some_and(View::is_contiguous)) {
                    in_place.push((self.reads.len() + n, r));
                }
            }
        }
        in_place
    }
}

impl Writer<'_> {
    fn kernel(&self, body: Body) -> (Kernel, Geometry) {
        if let Some(reduction) = self.outline.rows {
            let points = self.outline.stores.len();
            let row_stores = points..points + self.outline.row_stores.len();
            let (mut kernel, geometry) = rows::lay_out(body, self.ix, (reduction, row_stores), self.domain, &self.maps);
            if let Kernel::Rows { body, .. } = &mut kernel {
                // A tensor without elements has no value per row either.
                let empty = |v: &Option<ValueId>| v.is_some_and(|v| self.ix.shape(v).numel() == 0);
                for (access, _) in body.accesses.iter_mut().zip(&self.sources).filter(|(_, v)| empty(v)) {
                    access.per_row = false;
                }
            }
            return (kernel, Geometry::Rows(geometry));
        }
        let (domain, maps) = boxes::renumbered(self.domain, &self.maps);
        let boxes = boxes::cut(domain, &maps, self.ix.seg.mode);
        if boxes.len() == 1 {
            let by_table = self.ix.seg.mode.parts_rows() && maps.iter().any(IndexMap::is_masked);
            let (body, maps) = if by_table { boxes::join_loads(&body, &maps) } else { (body, maps) };
            let (body, geometry) = lay_out(body, domain, &maps);
            return (Kernel::Map(body), Geometry::Map(geometry));
        }
        let laid: Vec<(Body, MapGeometry)> = boxes.iter().map(|b| lay_out_box(&body, &maps, b)).collect();
        let (bodies, geometries) = laid.into_iter().unzip();
        (Kernel::Boxes(bodies), Geometry::Boxes(geometries))
    }
}
