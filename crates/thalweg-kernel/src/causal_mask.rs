//! Causal masks: detects the number of leading keys that each query attends to, if a mask compares indices.
//!
//! In: a contraction whose left operand is computed from another product by one-pass weights ([`weights`]). Out: the
//! number of leading keys that each row sees, if a score is used as `where(key <= row + a, score, -∞)` in any of its
//! spellings. A kernel then skips blocks of keys that no row of a block sees, and compares indices only in blocks that
//! some rows see. Bodies do not know the values of scalars, which come with a launch: the launch may have to check -∞
//! and `a`.

use crate::weights::{Put, only};
use crate::{Body, Contraction, ContractionGeometry, Kernel, Node, NodeId, TileGeometry, weights};
use thalweg_ir::{DType, ElementOp, Scalar};

/// Causal mask: a row sees its leading keys only; the scores of the others are -∞ regardless of the inputs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CausalMask {
    /// Offset of the diagonal: row `r` attends to keys below `r + ahead`.
    pub ahead: i64,
    /// Index of an f32 scalar added to the offset, or subtracted if `true`. The mask holds only if the scalar is an
    /// integer below 2²⁴ in magnitude.
    pub moved: Option<(u16, bool)>,
    /// Index of the f32 scalar used as masked score; the mask holds only if it is -∞. `None` if masked scores are the
    /// constant -∞.
    pub hidden: Option<u16>,
    /// Body that computes the unmasked score, with the operands, accesses and scalars of the body in which the mask was
    /// found.
    pub body: Body,
}

/// Causal mask of a product of weights, if a score is masked by comparing indices. Also returns the index, in
/// [`scores`], of the body that contains the mask.
pub fn causal_mask(c: &Contraction, g: &ContractionGeometry) -> Option<(usize, CausalMask)> {
    causal_mask_of(&exponentiated(c)?, g)
}

/// Bodies of [`scores`], if the scores are exponentiated. Otherwise a score of -∞ would itself be a weight and could
/// not be skipped.
pub fn exponentiated(c: &Contraction) -> Option<Vec<Body>> {
    match &c.factors[0].as_deref()?.kernel {
        Kernel::Map(body) | Kernel::Rows { body, .. } => weights(body)?.once?,
        _ => return None,
    };
    scores(c)
}

/// Like [`causal_mask`], for known bodies: those of [`exponentiated`].
pub fn causal_mask_of(scores: &[Body], g: &ContractionGeometry) -> Option<(usize, CausalMask)> {
    let tiles = tiles(g)?;
    let ((last, before), last_tiles) = scores.split_last().zip(tiles.last())?;
    if let Some(seen) = causal_mask_in(last, last_tiles) {
        return Some((before.len(), seen));
    }
    // A score of -∞ stays -∞ if the last body only loads it.
    let [first] = before else { return None };
    let root = last.stores[0].node;
    let plain = matches!(last.nodes[uncast(last, root).index()], Node::Load { .. });
    causal_mask_in(first, tiles[0]).filter(|_| plain).map(|seen| (0, seen))
}

/// Bodies from scores to weights, if weights can be computed in one pass: the epilogue of the producer GEMM, if it has
/// one, then the argument of the exponential.
pub fn scores(c: &Contraction) -> Option<Vec<Body>> {
    let factor = c.factors[0].as_deref()?;
    let one = |kernel: &Kernel| match kernel {
        Kernel::Map(body) | Kernel::Rows { body, .. } => weights(body).map(|w| w.point),
        _ => None,
    };
    let epilogue = factor.inner.as_deref()?.product.epilogue.as_deref();
    epilogue.map(|e| &e.kernel).into_iter().chain([&factor.kernel]).map(one).collect()
}

/// Domains of the bodies that [`scores`] returns.
fn tiles(g: &ContractionGeometry) -> Option<Vec<&TileGeometry>> {
    let epilogue = g.inner.as_deref()?.epilogue.as_deref();
    Some(epilogue.into_iter().chain([g.factors[0].as_deref()?]).collect())
}

/// Like [`causal_mask_of`], for one body.
fn causal_mask_in(body: &Body, tiles: &TileGeometry) -> Option<CausalMask> {
    use ElementOp::{Ge, Gt, Le, Lt, Where};
    if tiles.boxes.len() != 1 {
        return None;
    }
    // One dimension of rows and one of keys, with indices that are exact as floats.
    let [rows, keys] = [tiles.rows, tiles.columns];
    let plain = keys == rows + 1 && tiles.extents.len() == keys + 1;
    if !plain || tiles.extents[rows..].iter().any(|&n| n >= 1 << 24) {
        return None;
    }
    let choice = uncast(body, body.stores[0].node);
    let Node::Element { op: Where, args: [condition, yes, no], .. } = body.nodes[choice.index()] else { return None };
    // Matches a value of -∞: `Some(None)` for a constant, `Some(Some(slot))` for a scalar whose value the launch must
    // check.
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
    // Normalized as `key op row`.
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
    Some(CausalMask { ahead, moved: by, hidden, body })
}

/// First index along one dimension, for a value that is the index of an access without an operand and increases by one
/// per step. Also returns the scalar that is added to it, or subtracted if `true`.
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

/// Strips conversions to f32, f64 and integers of 32 or 64 bits from a value.
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

    /// Spelling of a mask: the comparison, whether the key is its left side, whether the score is taken if it holds,
    /// and the sign of a scalar added to the row index.
    type Spelled = (ElementOp, bool, bool, Option<bool>);

    /// Masked body over `[2, 5, 7]` of scores, with keys from 3 on.
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
            let seen = causal_mask_in(&body, &tiles).unwrap_or_else(|| panic!("{spelled:?}"));
            let moved = spelled.3.map(|minus| (4, minus));
            assert_eq!((seen.ahead, seen.moved, seen.hidden), (ahead, moved, None), "{spelled:?}");
            // The score of a visible key is unchanged.
            assert!(!seen.body.nodes.iter().any(|n| matches!(n, Node::Element { .. })), "{spelled:?}");
        }
    }

    /// Bodies that are no causal masks: rows that attend to their last keys, masked values other than -∞, indices of
    /// other dimensions.
    #[test]
    fn what_is_no_such_mask_is_none() {
        use ElementOp::{Eq, Ge, Le};
        for spelled in [(Ge, true, true, None), (Le, true, false, None), (Eq, true, true, None)] {
            let (body, tiles) = masked(spelled, f64::NEG_INFINITY);
            assert_eq!(causal_mask_in(&body, &tiles), None, "{spelled:?}");
        }
        let (body, tiles) = masked((Le, true, true, None), -1e9);
        assert_eq!(causal_mask_in(&body, &tiles), None);
        let (body, mut tiles) = masked((Le, true, true, None), f64::NEG_INFINITY);
        tiles.boxes[0].geometry.accesses[1].strides[0] = 1;
        assert_eq!(causal_mask_in(&body, &tiles), None);
    }
}
