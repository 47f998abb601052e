//! Which keys a row of weights sees, where a mask says so by comparing places.
//!
//! In: a contraction whose left factor is made of another product by weights of one pass ([`weights`]). Out: how many of
//! its first keys each row sees, if what is made of a score is `where(key <= row + a, score, -∞)` in any of its
//! spellings; so that a kernel leaves out blocks of keys that no row of a block sees, and compares places only where some
//! rows see a key and some do not. Bodies do not know the values of scalars, which come with a launch: what -∞ and `a`
//! are may be left to it.

use crate::weights::{Put, only};
use crate::{Body, Contraction, ContractionGeometry, Kernel, Node, NodeId, TileGeometry, weights};
use thalweg_ir::{DType, ElementOp, Scalar};

/// Scores of which a row sees those of its first keys only: the others are -∞, whatever they are computed from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Seen {
    /// Row `r` sees keys below `r + ahead`.
    pub ahead: i64,
    /// A scalar, of f32, that is added to that, or subtracted if so; it is a whole number below 2²⁴, or nothing is known.
    pub moved: Option<(u16, bool)>,
    /// The scalar, of f32, that unseen scores are: unless it is -∞, nothing is known. `None` where they are -∞.
    pub hidden: Option<u16>,
    /// What a score is that is seen, for the body that it was found in: the same operands, accesses and scalars.
    pub body: Body,
}

/// Which keys the rows of a product of weights see, where what is made of a score says so by comparing places, as a causal
/// mask does; with the number of the body that says it, of [`scores`].
pub fn seen(c: &Contraction, g: &ContractionGeometry) -> Option<(usize, Seen)> {
    seen_of(&exponentiated(c)?, g)
}

/// [`scores`] where these are exponentiated: a weight that is -∞ by itself counts.
pub fn exponentiated(c: &Contraction) -> Option<Vec<Body>> {
    match &c.factors[0].as_deref()?.kernel {
        Kernel::Map(body) | Kernel::Rows { body, .. } => weights(body)?.once?,
        _ => return None,
    };
    scores(c)
}

/// The same where the bodies are known: those that [`exponentiated`] gives.
pub fn seen_of(scores: &[Body], g: &ContractionGeometry) -> Option<(usize, Seen)> {
    let tiles = tiles(g)?;
    let ((last, before), last_tiles) = scores.split_last().zip(tiles.last())?;
    if let Some(seen) = seen_by(last, last_tiles) {
        return Some((before.len(), seen));
    }
    // What is -∞ before stays so where nothing else is made of it.
    let [first] = before else { return None };
    let root = last.stores[0].node;
    let plain = matches!(last.nodes[uncast(last, root).index()], Node::Load { .. });
    seen_by(first, tiles[0]).filter(|_| plain).map(|seen| (0, seen))
}

/// What is made of a score before it is a weight, where weights can be had in one pass: the first product's epilogue, where
/// it has one, then what is exponentiated.
pub fn scores(c: &Contraction) -> Option<Vec<Body>> {
    let factor = c.factors[0].as_deref()?;
    let one = |kernel: &Kernel| match kernel {
        Kernel::Map(body) | Kernel::Rows { body, .. } => weights(body).map(|w| w.point),
        _ => None,
    };
    let epilogue = factor.inner.as_deref()?.product.epilogue.as_deref();
    epilogue.map(|e| &e.kernel).into_iter().chain([&factor.kernel]).map(one).collect()
}

/// The domains of these bodies.
fn tiles(g: &ContractionGeometry) -> Option<Vec<&TileGeometry>> {
    let epilogue = g.inner.as_deref()?.epilogue.as_deref();
    Some(epilogue.into_iter().chain([g.factors[0].as_deref()?]).collect())
}

/// The same of one body.
fn seen_by(body: &Body, tiles: &TileGeometry) -> Option<Seen> {
    use ElementOp::{Ge, Gt, Le, Lt, Where};
    if tiles.boxes.len() != 1 {
        return None;
    }
    // One dimension of rows and one of keys, whose places are exact as floats.
    let [rows, keys] = [tiles.rows, tiles.columns];
    let plain = keys == rows + 1 && tiles.extents.len() == keys + 1;
    if !plain || tiles.extents[rows..].iter().any(|&n| n >= 1 << 24) {
        return None;
    }
    let choice = uncast(body, body.stores[0].node);
    let Node::Element { op: Where, args: [condition, yes, no], .. } = body.nodes[choice.index()] else { return None };
    // Whether a value is -∞, by which scalar if by one.
    let hidden = |id: NodeId| match body.nodes[id.index()] {
        Node::Const { bits, dtype } => (Scalar::from_bits(bits, dtype).to_f64() == f64::NEG_INFINITY).then_some(None),
        Node::Scalar { slot, dtype: DType::F32 } => Some(Some(slot)),
        _ => None,
    };
    let (score, when, hidden) = match (hidden(no), hidden(yes)) {
        (Some(by), _) => (yes, true, by),
        (_, Some(by)) => (no, false, by),
        _ => return None,
    };
    let Node::Element { op, args: [a, b, _], .. } = body.nodes[condition.index()] else { return None };
    let place = |id: NodeId, along: usize| place(body, tiles, id, along);
    // As `key op row`.
    let turned = |op: ElementOp| match op {
        Lt => Gt,
        Le => Ge,
        Gt => Lt,
        Ge => Le,
        other => other,
    };
    let (op, key, row) = match (place(a, keys).zip(place(b, rows)), place(a, rows).zip(place(b, keys))) {
        (Some((key, row)), _) => (op, key, row),
        (_, Some((row, key))) => (turned(op), key, row),
        _ => return None,
    };
    let by = match (row.1, key.1) {
        (by, None) => by,
        (None, Some((slot, minus))) => Some((slot, !minus)),
        _ => return None,
    };
    let ahead = match (op, when) {
        (Le, true) | (Gt, false) => row.0 - key.0 + 1,
        (Lt, true) | (Ge, false) => row.0 - key.0,
        _ => return None,
    };
    let body = only(body, body.stores[0].node, Some((choice, Put::Node(score))));
    Some(Seen { ahead, moved: by, hidden, body })
}

/// The first of the places that a value stands for along one dimension, step by step: those of an access without an
/// operand; and the scalar that is added to them, or subtracted if so.
fn place(body: &Body, tiles: &TileGeometry, id: NodeId, along: usize) -> Option<(i64, Option<(u16, bool)>)> {
    let id = uncast(body, id);
    let scalar = |id: NodeId| match body.nodes[id.index()] {
        Node::Scalar { slot, dtype: DType::F32 } => Some(slot),
        _ => None,
    };
    let moved = |id: NodeId, slot: u16, minus: bool| match place(body, tiles, id, along)? {
        (first, None) => Some((first, Some((slot, minus)))),
        _ => None,
    };
    match body.nodes[id.index()] {
        Node::Index { access, .. } => {
            let at = &tiles.boxes[0].geometry.accesses[access as usize];
            let mut steps = tiles.extents.iter().zip(at.strides).enumerate();
            let straight = steps.all(|(d, (&n, s))| n == 1 || s == (d == along) as isize);
            (at.map.is_none() && straight).then_some((at.base as i64, None))
        }
        Node::Element { op: ElementOp::Add, args: [x, y, _], .. } => match (scalar(x), scalar(y)) {
            (Some(slot), _) => moved(y, slot, false),
            (_, Some(slot)) => moved(x, slot, false),
            _ => None,
        },
        Node::Element { op: ElementOp::Sub, args: [x, y, _], .. } => moved(x, scalar(y)?, true),
        _ => None,
    }
}

/// The value before it was converted to what holds it.
fn uncast(body: &Body, mut id: NodeId) -> NodeId {
    while let Node::Cast { arg, dtype } = body.nodes[id.index()]
        && matches!(dtype, DType::F32 | DType::F64 | DType::I64 | DType::U64 | DType::U32 | DType::I32)
    {
        id = arg;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, AccessClass, AccessGeometry, BodyBuilder, MapGeometry, TileBox};
    use thalweg_ir::MAX_RANK;

    /// How a mask is spelled: the comparison, whether the key stands first, whether the score is taken where it holds, and
    /// what is added to the row's number.
    type Spelled = (ElementOp, bool, bool, Option<bool>);

    /// A body over `[2, 5, 7]` of scores, keys from 3 on, that is masked so.
    fn masked((op, key_first, taken, moved): Spelled, hidden: f64) -> (Body, TileGeometry) {
        let mut b = BodyBuilder::new(false);
        let place = Access { operand: None, dtype: DType::F32, class: AccessClass::Strided, per_row: false };
        let at = [place, place, Access::contiguous(0, DType::F32), Access::contiguous(1, DType::F32)];
        let at = at.map(|a| b.access(a));
        let number = |b: &mut BodyBuilder, access: u16| {
            let index = b.node(Node::Index { access, dtype: DType::U32 });
            b.cast(index, DType::F32)
        };
        let (key, row) = (number(&mut b, at[0]), number(&mut b, at[1]));
        let row = match moved {
            Some(minus) => {
                let by = b.node(Node::Scalar { slot: 4, dtype: DType::F32 });
                b.element(if minus { ElementOp::Sub } else { ElementOp::Add }, &[row, by])
            }
            None => row,
        };
        let condition = b.element(op, &if key_first { [key, row] } else { [row, key] });
        let score = b.node(Node::Load { access: at[2] });
        let hidden = b.constant(Scalar::Float(hidden), DType::F32);
        let value =
            b.element(ElementOp::Where, &if taken { [condition, score, hidden] } else { [condition, hidden, score] });
        b.store(value, at[3]);
        let extents = vec![2, 5, 7];
        let access = |base: isize, own: [isize; 3]| {
            let mut strides = [0; MAX_RANK];
            strides[..3].copy_from_slice(&own);
            AccessGeometry { base, strides, map: None, reach: None, distinct: 1 }
        };
        let accesses = vec![access(3, [0, 0, 1]), access(0, [0, 1, 0]), access(0, [35, 7, 1]), access(0, [35, 7, 1])];
        let geometry = MapGeometry { extents: extents.clone(), accesses };
        let boxes = vec![TileBox { origin: vec![0; 3], geometry }];
        (b.finish(), TileGeometry { extents, rows: 1, columns: 2, boxes })
    }

    #[test]
    fn a_mask_is_known_however_it_is_spelled() {
        use ElementOp::{Ge, Gt, Le, Lt};
        let hides = f64::NEG_INFINITY;
        for (spelled, ahead) in [
            ((Le, true, true, None), -2),
            ((Lt, true, true, None), -3),
            ((Ge, false, true, None), -2),
            ((Gt, false, true, None), -3),
            ((Gt, true, false, None), -2),
            ((Ge, true, false, None), -3),
            ((Lt, false, false, None), -2),
            ((Le, true, true, Some(false)), -2),
            ((Le, true, true, Some(true)), -2),
        ] {
            let (body, tiles) = masked(spelled, hides);
            let seen = seen_by(&body, &tiles).unwrap_or_else(|| panic!("{spelled:?}"));
            let moved = spelled.3.map(|minus| (4, minus));
            assert_eq!((seen.ahead, seen.moved, seen.hidden), (ahead, moved, None), "{spelled:?}");
            // A score that is seen is what it is.
            assert!(!seen.body.nodes.iter().any(|n| matches!(n, Node::Element { .. })), "{spelled:?}");
        }
    }

    /// Rows that see their last keys, what is hidden as another number, places of other dimensions.
    #[test]
    fn what_is_no_such_mask_is_none() {
        use ElementOp::{Eq, Ge, Le};
        for spelled in [(Ge, true, true, None), (Le, true, false, None), (Eq, true, true, None)] {
            let (body, tiles) = masked(spelled, f64::NEG_INFINITY);
            assert_eq!(seen_by(&body, &tiles), None, "{spelled:?}");
        }
        let (body, tiles) = masked((Le, true, true, None), -1e9);
        assert_eq!(seen_by(&body, &tiles), None);
        let (body, mut tiles) = masked((Le, true, true, None), f64::NEG_INFINITY);
        tiles.boxes[0].geometry.accesses[1].strides[0] = 1;
        assert_eq!(seen_by(&body, &tiles), None);
    }
}
