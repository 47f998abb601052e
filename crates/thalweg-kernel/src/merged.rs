//! Boxes of a map that a thread computes together.
//!
//! In: the boxes of a map, each with its body. Out: fewer boxes. Two boxes of equal extents are merged if they load the
//! same elements, as the halves of a rotation do, or store elements that alternate in memory, as the parts of a `stack`
//! along the last axis do. Blocks of their own would each move the cache lines that both touch.
//!
//! Always true: every point is computed and stored as it would be without merging. A device that merges boxes loads the
//! elements of a point before it stores any, so a result may overlap an operand.

use crate::{Access, AccessGeometry, Body, MapGeometry, Node, join};

/// Maximum number of nodes of a merged body on a GPU: its registers hold their values.
pub const MERGED_NODES: usize = 160;

/// Maximum number of accesses of a merged body: the loaded elements are held in registers.
const MAX_ACCESSES: usize = 32;

/// Returns the boxes of a map, those merged that touch the same cache lines. `fits` decides from the number of nodes
/// whether a merged body is small enough.
///
/// # Panics
/// When there are not as many bodies as boxes.
pub fn merged(bodies: &[Body], boxes: &[MapGeometry], fits: &dyn Fn(usize) -> bool) -> Vec<(Body, MapGeometry)> {
    assert_eq!(bodies.len(), boxes.len(), "one geometry a box");
    let mut out: Vec<(Body, MapGeometry)> = Vec::with_capacity(bodies.len());
    for (body, geometry) in bodies.iter().zip(boxes) {
        let part = BoxBody { body, geometry };
        let with = |(i, (body, geometry)): (usize, &(Body, MapGeometry))| {
            let both = BoxBody { body, geometry }.with(&part)?;
            fits(both.0.nodes.len()).then_some((i, both))
        };
        match out.iter().enumerate().find_map(with) {
            Some((i, both)) => out[i] = both,
            None => out.push((body.clone(), geometry.clone())),
        }
    }
    out
}

/// Box of a map with its body.
struct BoxBody<'a> {
    body: &'a Body,
    geometry: &'a MapGeometry,
}

impl BoxBody<'_> {
    /// Both as one, if they touch the same cache lines and registers hold what they load.
    fn with(&self, other: &BoxBody) -> Option<(Body, MapGeometry)> {
        let alike = self.geometry.extents == other.geometry.extents
            && (self.body.strict, self.body.repeatable) == (other.body.strict, other.body.repeatable);
        if !alike || !self.loads_with(other) && !self.alternates_with(other) {
            return None;
        }
        Some(self.joined(other)).filter(|both| both.0.accesses.len() <= MAX_ACCESSES)
    }

    fn access(&self, k: usize) -> (Access, &AccessGeometry) {
        (self.body.accesses[k], &self.geometry.accesses[k])
    }

    /// Number of the access that reaches the same elements at every point.
    fn same(&self, (access, at): (Access, &AccessGeometry)) -> Option<usize> {
        let rank = self.geometry.extents.len();
        let equals = |own: &AccessGeometry| {
            (own.base, &own.strides[..rank], &own.map) == (at.base, &at.strides[..rank], &at.map)
        };
        (0..self.body.accesses.len()).find(|&k| self.body.accesses[k] == access && equals(&self.geometry.accesses[k]))
    }

    /// Whether both load the same elements, at least one for two points.
    fn loads_with(&self, other: &BoxBody) -> bool {
        let loads = |n: &Node| match *n {
            Node::Load { access } => Some(access as usize),
            _ => None,
        };
        let many = |k: &usize| 2 * other.geometry.accesses[*k].distinct >= other.geometry.points();
        let mut wanted = other.body.nodes.iter().filter_map(loads).filter(many);
        wanted.any(|k| self.same(other.access(k)).is_some())
    }

    /// Whether stores of both alternate along the innermost dimension.
    fn alternates_with(&self, other: &BoxBody) -> bool {
        let innermost = self.geometry.extents.len() - 1;
        let stores = |part: &BoxBody| part.body.stores.iter().map(|s| s.access as usize).collect::<Vec<_>>();
        let alternate = |(a, b): (usize, usize)| {
            let ((a, own), (b, at)) = (self.access(a), other.access(b));
            let step = own.strides[innermost].unsigned_abs();
            a.operand == b.operand
                && own.strides[..=innermost] == at.strides[..=innermost]
                && step * a.dtype.size() <= 128
                && own.base.abs_diff(at.base) < step
        };
        stores(self).into_iter().any(|a| stores(other).into_iter().any(|b| alternate((a, b))))
    }

    /// Body that computes both at each point, with its accesses.
    fn joined(&self, other: &BoxBody) -> (Body, MapGeometry) {
        let (mut accesses, mut geometry) = (self.body.accesses.clone(), self.geometry.clone());
        let stored = |k: usize| other.body.stores.iter().any(|s| s.access as usize == k);
        let number = |k: usize| {
            let known = self.same(other.access(k)).filter(|_| !stored(k));
            known.unwrap_or_else(|| {
                accesses.push(other.body.accesses[k]);
                geometry.accesses.push(other.geometry.accesses[k].clone());
                accesses.len() - 1
            }) as u16
        };
        let numbers: Vec<u16> = (0..other.body.accesses.len()).map(number).collect();
        (join(self.body, other.body, accesses, &|k| numbers[k as usize]), geometry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccessClass, BodyBuilder};
    use thalweg_ir::{DType, ElementOp, MAX_RANK};

    /// Access with a base and a stride over a domain of one dimension.
    type Steps = (u16, isize, isize);

    /// Box of `points` points that stores the sum of what two accesses load.
    fn sum(points: usize, from: [Steps; 2], to: Steps) -> (Body, MapGeometry) {
        let mut b = BodyBuilder::new(false);
        let mut accesses = vec![];
        let mut access = |b: &mut BodyBuilder, (operand, base, stride): Steps| {
            let mut strides = [0; MAX_RANK];
            strides[0] = stride;
            let reach = Some((base as usize, base as usize + (points - 1) * stride as usize));
            accesses.push(AccessGeometry { base, strides, map: None, reach, distinct: points });
            b.access(Access {
                operand: Some(operand),
                dtype: DType::F32,
                class: AccessClass::of_step(stride),
                per_row: false,
            })
        };
        let loads = from.map(|steps| {
            let access = access(&mut b, steps);
            b.node(Node::Load { access })
        });
        let total = b.element(ElementOp::Add, &loads);
        let access = access(&mut b, to);
        b.store(total, access);
        (b.finish(), MapGeometry { extents: vec![points], accesses })
    }

    fn all(boxes: &[(Body, MapGeometry)], fits: usize) -> Vec<(Body, MapGeometry)> {
        let (bodies, geometries): (Vec<_>, Vec<_>) = boxes.iter().cloned().unzip();
        merged(&bodies, &geometries, &|nodes| nodes <= fits)
    }

    #[test]
    fn parts_of_a_stack_are_one_box_that_loads_each_element_once() {
        // Operand 0 is [n, 2]: both sums read its columns; operand 1 is the result, [n, 2].
        let parts = [sum(100, [(0, 0, 2), (0, 1, 2)], (1, 0, 2)), sum(100, [(0, 1, 2), (0, 0, 2)], (1, 1, 2))];
        let one = all(&parts, 100);
        let [(body, geometry)] = &one[..] else { panic!("{} boxes", one.len()) };
        // Two loads, of which the sum in either order is one value or two; and two stores.
        assert_eq!((body.accesses.len(), geometry.accesses.len(), body.stores.len()), (4, 4, 2));
        let stored: Vec<isize> = body.stores.iter().map(|s| geometry.accesses[s.access as usize].base).collect();
        assert_eq!(stored, [0, 1]);
        assert_eq!(all(&parts, 3).len(), 2, "bodies that are too large are not merged");
    }

    #[test]
    fn boxes_without_common_cache_lines_stay_as_they_are() {
        // Halves of a concatenation: other elements of both operands.
        let halves = [sum(100, [(0, 0, 1), (1, 0, 1)], (2, 0, 1)), sum(100, [(0, 100, 1), (1, 100, 1)], (2, 100, 1))];
        assert_eq!(all(&halves, 100).len(), 2);
        // Halves that read the same elements.
        let shared = [sum(100, [(0, 0, 1), (1, 0, 1)], (2, 0, 1)), sum(100, [(0, 0, 1), (1, 100, 1)], (2, 100, 1))];
        assert_eq!(all(&shared, 100).len(), 1);
        // Other numbers of points.
        let uneven = [sum(100, [(0, 0, 1), (1, 0, 1)], (2, 0, 1)), sum(99, [(0, 0, 1), (1, 100, 1)], (2, 100, 1))];
        assert_eq!(all(&uneven, 100).len(), 2);
    }
}
