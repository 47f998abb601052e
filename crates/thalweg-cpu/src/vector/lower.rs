//! Lowering of a kernel body to the vector IR: accesses become loads, gathers and index arithmetic, elementwise
//! operations become operations on vectors.
//!
//! Either the whole body is lowered, or the reason is returned ([`Unsupported`]); a failed attempt has no side effects.

mod loops;

use super::elements::{self, lane_of};
use super::ir::target::{Combine, Target};
use super::ir::{
    Accumulate, CACHED, Class, DOWNWARDS, Format, Inst, Memory, Op, Slot, Source, TABULATED, Val, Vir, pointer,
};
use crate::machine::Machine;
use crate::prepare::{Fused, contractions, prepare};
use thalweg_ir::{DType, ElementOp, Monoid};
use thalweg_kernel::{Access, AccessClass, Body, Node, NodeId, turn};

/// Reason why a body is not compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsupported {
    /// No instructions for the operation on the dtype.
    Element(ElementOp, DType),
    /// No instructions for a fold of the dtype by the monoid.
    Fold(Monoid, DType),
    /// No instructions for the conversion from the first dtype to the second.
    Cast(DType, DType),
    /// Store through an access of this class, which is not contiguous.
    Store(AccessClass),
    /// A node of row bodies in a map, or a mapped access in a phase that runs once per row.
    Rows,
    /// Frame or code above the emitter's limits.
    TooLarge,
    /// The operating system provides no executable memory.
    NoPages,
}

/// Whether some value of the body needs 64-bit lanes, so that a step has half as many points.
fn wide(body: &Body) -> bool {
    use ElementOp::{Div, FloorDiv, Rem};
    body.nodes.iter().enumerate().any(|(i, n)| {
        let id = NodeId(i as u32);
        let d = body.dtype(id);
        let by_f64 = |d: DType| matches!(d, DType::I32 | DType::U32);
        lane_of(d) == 8
            || match *n {
                Node::Loop { of, .. } => wide(&prepare(&turn(of))),
                Node::Element { op, .. } => {
                    let o = body.operand_dtype(id);
                    lane_of(o) == 8 || (o.is_int() && matches!(op, Div | FloorDiv | Rem))
                }
                Node::Cast { dtype, arg } => {
                    matches!(dtype, DType::BF16 | DType::F16) && by_f64(body.dtype(arg))
                        || lane_of(body.dtype(arg)) == 8
                }
                _ => false,
            }
    })
}

struct Lower<'a> {
    body: &'a Body,
    once: bool,
    /// Whether the body is an iteration of a loop.
    turn: bool,
    /// Loop nodes lowered so far.
    loops: Vec<NodeId>,
    v: Vir,
    place: Vec<Val>,
    /// For each node, the fused multiply-add that it becomes by absorbing a product, if any.
    contractions: Vec<Option<(Fused, [NodeId; 3])>>,
    /// Values that were loaded from bf16, with that dtype and the value of the bits as loaded: storing such a value as
    /// bf16 needs no rounding.
    halves: Vec<(Val, DType, Val)>,
}

/// Form and lane size of loaded elements of a dtype: narrow integers are widened; bf16 stays as bits, f16 becomes f32.
fn form_of(dtype: DType) -> (Memory, u8) {
    match dtype {
        DType::F64 | DType::I64 | DType::U64 => (Memory::Same, 8),
        DType::F32 | DType::I32 | DType::U32 => (Memory::Same, 4),
        DType::I8 | DType::I16 => (Memory::Signed, 4),
        DType::U8 | DType::Bool | DType::BF16 | DType::U16 => (Memory::Unsigned, 4),
        DType::F16 => (Memory::Half, 4),
    }
}

/// Maximum number of lanes of a step that runs once per row, whose lanes are all equal: the shortest vectors suffice.
const MAX_ONCE_LANES: usize = 4;

/// Lowers the step of a prepared map body.
pub fn lower(body: &Body, target: &'static Target) -> Result<Vir, Unsupported> {
    if body.has_rows() || !body.sets.is_empty() {
        return Err(Unsupported::Rows);
    }
    lower_phase(body, target, false)
}

/// Lowers the step of a phase of a prepared row body. In a phase that runs `once` per row, all lanes are equal.
pub fn lower_phase(body: &Body, target: &'static Target, once: bool) -> Result<Vir, Unsupported> {
    let mapped = |n: &Node| n.access().is_some_and(|a| body.accesses[a as usize].class == AccessClass::Mapped);
    if once && body.nodes.iter().any(mapped) {
        // It is undefined which of its positions is the row's own.
        return Err(Unsupported::Rows);
    }
    let whole = target.vector_bytes / if wide(body) { 8 } else { 4 };
    let lanes = if once { whole.min(MAX_ONCE_LANES) } else { whole };
    let mut l = Lower::new(body, once, Vir::new(target, lanes));
    if !target.mask_registers() {
        // Always slots 0 and 1: masked moves of the last step expect them there.
        for lane in [4, 8] {
            l.v.slot(Slot { source: Source::Tail, dtype: DType::I32, lane });
        }
    }
    for i in 0..body.nodes.len() {
        let val = l.node(NodeId(i as u32))?;
        l.place.push(val);
    }
    for f in &body.folds {
        let (x, dtype) = (l.place[f.node.index()], body.dtype(f.node));
        l.v.folds.push(Accumulate { op: f.op, dtype, value: f.slot });
        (target.combine)(f.op, dtype).ok_or(Unsupported::Fold(f.op, dtype))?;
        let (width, number) = (l.v.width(lane_of(dtype)), l.v.folds.len() as u64 - 1);
        l.v.effect(Op::Fold(f.op, dtype), width, 0, &[x], number);
    }
    for s in &body.sets {
        l.v.effect(Op::Set, 0, 0, &[l.place[s.node.index()]], s.slot as u64);
    }
    for s in &body.stores {
        let a = body.accesses[s.access as usize];
        if a.class != AccessClass::Contiguous && !once {
            return Err(Unsupported::Store(a.class));
        }
        let mut x = l.place[s.node.index()];
        if let Some(op) = s.combine {
            x = l.combined(op, s.access, a, x)?;
        }
        let aux = pointer(s.access, false) | if s.combine.is_some() { CACHED } else { 0 };
        if once { l.store_one(x, a.dtype, aux) } else { l.store(x, a.dtype, aux) }
    }
    Ok(l.v)
}

impl<'a> Lower<'a> {
    fn new(body: &'a Body, once: bool, v: Vir) -> Lower<'a> {
        let contractions = contractions(body);
        Lower { body, once, turn: false, loops: vec![], v, place: Vec::new(), contractions, halves: Vec::new() }
    }

    fn node(&mut self, id: NodeId) -> Result<Val, Unsupported> {
        let v = &mut self.v;
        Ok(match self.body.nodes[id.index()] {
            Node::Load { access } => self.load(access, self.body.accesses[access as usize]),
            Node::Index { access, dtype } => self.index(access, dtype),
            Node::Valid { access } => match self.body.accesses[access as usize].class {
                AccessClass::Mapped => {
                    let table = self.positions(access);
                    self.inside(table)
                }
                _ => v.mask_const(true),
            },
            Node::Scalar { slot, dtype } => {
                let x = v.slot(Slot { source: Source::Scalar(slot), dtype, lane: lane_of(dtype) });
                if dtype == DType::Bool { self.mask_of(x) } else { x }
            }
            Node::Value { slot, dtype } if self.turn => {
                let x = v.slot(loops::value_slot(slot as usize, dtype));
                if dtype == DType::Bool { self.mask_of(x) } else { x }
            }
            Node::Value { slot, dtype } => v.slot(Slot { source: Source::Value(slot), dtype, lane: lane_of(dtype) }),
            Node::Loop { of, .. } => self.looped(id, of)?,
            Node::Looped { of, number, dtype } => {
                let of = self.loops.iter().position(|l| *l == of).expect("a loop comes before its results");
                let x = v.leaf(Op::Take, lane_of(dtype), 0, (of as u64) << 16 | number as u64);
                if dtype == DType::Bool { self.mask_of(x) } else { x }
            }
            Node::Gather { access, offset, inside } => {
                let (offset, inside) = (self.place[offset.index()], self.place[inside.index()]);
                self.gather_at(access, offset, inside)?
            }
            Node::Scanned { .. } | Node::Combined { .. } => return Err(Unsupported::Rows),
            Node::Const { bits, dtype: DType::Bool } => v.mask_const(bits != 0),
            Node::Const { bits, dtype } => v.constant(bits, lane_of(dtype)),
            Node::Element { op, .. } => {
                let dtype = self.body.operand_dtype(id);
                if let Some(fused) = self.contract(dtype, id) {
                    return Ok(fused);
                }
                let args: Vec<Val> = self.body.args(id).map(|a| self.place[a.index()]).collect();
                elements::element(&mut self.v, op, dtype, &args).ok_or(Unsupported::Element(op, dtype))?
            }
            // Lanes of f32 and f64 are already rounded; [`contractions`] does not contract such a product.
            Node::Round { arg } => self.place[arg.index()],
            Node::Bitcast { dtype, arg } => self.bitcast(self.place[arg.index()], self.body.dtype(arg), dtype),
            Node::Cast { dtype, arg } => {
                let from = self.body.dtype(arg);
                let x = self.place[arg.index()];
                elements::cast(v, x, from, dtype).ok_or(Unsupported::Cast(from, dtype))?
            }
        })
    }

    /// Reinterprets the bits of a value as another dtype of the same width.
    fn bitcast(&mut self, x: Val, from: DType, to: DType) -> Val {
        let v = &mut self.v;
        if to.size() != 2 {
            return elements::wrap(v, x, to);
        }
        // Via the bits in the low half of a lane, with zeros or the sign above them.
        let bits = match from {
            DType::BF16 => v.i_shr(x, 16),
            DType::F16 => {
                let h = elements::f16_bits(v, x);
                v.convert(Format::U16, Format::U32, h)
            }
            _ => x,
        };
        match to {
            DType::BF16 => v.i_shl(bits, 16),
            DType::F16 => {
                let low = elements::wrap(v, bits, DType::U16);
                let h = v.pack(2, low);
                v.convert(Format::F16, Format::F32, h)
            }
            _ => elements::wrap(v, bits, to),
        }
    }

    /// Lowers a sum that absorbs a product to a fused multiply-add; `None` if it absorbs none.
    fn contract(&mut self, dtype: DType, id: NodeId) -> Option<Val> {
        let (how, args) = self.contractions[id.index()]?;
        let op = match how {
            Fused::Add => Op::MulAdd,
            Fused::From => Op::NegMulAdd,
            Fused::Less => Op::MulSub,
        };
        let [x, y, z] = args.map(|n| self.place[n.index()]);
        Some(self.v.fused(op, lane_of(dtype), x, y, z))
    }

    /// Converts lanes of 0 and -1 to a mask.
    fn mask_of(&mut self, x: Val) -> Val {
        if self.v.masks() { self.v.mask_from(Op::TestBits, 4, x, x) } else { x }
    }

    /// Converts lanes of 0 and 1 to a mask.
    fn truth(&mut self, x: Val) -> Val {
        if self.v.masks() {
            return self.mask_of(x);
        }
        let zero = self.v.i(0);
        self.v.int_gt(4, x, zero, true)
    }

    /// Loads positions from the position table of a mapped access.
    fn positions(&mut self, access: u16) -> Val {
        self.v.leaf(Op::Load(Memory::Same), 4, 4, pointer(access, true))
    }

    /// Appends the mask of the lanes whose position is not negative, i.e. not masked out.
    fn inside(&mut self, table: Val) -> Val {
        let least = self.v.i(-1);
        self.v.int_gt(4, table, least, true)
    }

    fn word(&mut self, source: Source, lane: u8) -> Val {
        let dtype = if lane == 8 { DType::I64 } else { DType::U32 };
        self.v.slot(Slot { source, dtype, lane })
    }

    /// Appends the index in the row of each lane's point.
    fn lane_numbers(&mut self, lane: u8) -> Val {
        let v = &mut self.v;
        let (step, iota) = (v.leaf(Op::Step, lane, 0, 0), v.leaf(Op::Iota, lane, 0, 0));
        v.two(Op::IntAdd, lane, step, iota)
    }

    /// Whether an access reads the same element, its first, at all points of a row.
    fn uniform(&self, a: Access) -> bool {
        a.class == AccessClass::Uniform || a.class != AccessClass::Mapped && (a.per_row || self.once)
    }

    fn index(&mut self, access: u16, dtype: DType) -> Val {
        let lane = lane_of(dtype);
        let a = self.body.accesses[access as usize];
        match a.class {
            _ if self.uniform(a) => self.word(Source::Word(access), lane),
            AccessClass::Mapped => {
                let t = self.positions(access);
                if lane == 8 { self.v.convert(Format::I32, Format::I64, t) } else { t }
            }
            AccessClass::Contiguous | AccessClass::Uniform => {
                let (n, base) = (self.lane_numbers(lane), self.word(Source::Word(access), lane));
                self.v.two(Op::IntAdd, lane, n, base)
            }
            AccessClass::Strided | AccessClass::Reversed => {
                let n = self.lane_numbers(lane);
                let stride = self.word(Source::Stride(access), lane);
                let base = self.word(Source::Word(access), lane);
                let p = match lane {
                    8 => elements::mul64(&mut self.v, n, stride),
                    _ => self.v.two(Op::IntMul, 4, n, stride),
                };
                self.v.two(Op::IntAdd, lane, p, base)
            }
        }
    }

    fn load(&mut self, access: u16, a: Access) -> Val {
        let raw = match a.class {
            // In a phase that runs once per row, an access has one element.
            _ if self.uniform(a) => {
                let lane = lane_of(a.dtype);
                let x = self.v.slot(Slot { source: Source::Uniform(access), dtype: a.dtype, lane });
                return if a.dtype == DType::Bool { self.mask_of(x) } else { x };
            }
            AccessClass::Contiguous | AccessClass::Uniform => self.neighbours(pointer(access, false), a.dtype),
            AccessClass::Reversed => {
                let x = self.neighbours(pointer(access, false) | DOWNWARDS, a.dtype);
                in_reverse(&mut self.v, x)
            }
            AccessClass::Strided => {
                let (stride, iota) = (self.word(Source::Stride(access), 4), self.v.table(self.iota_bytes(), 4));
                let offsets = self.v.two(Op::IntMul, 4, iota, stride);
                self.gather(access, a.dtype, offsets, None, 0)
            }
            AccessClass::Mapped => {
                let table = self.positions(access);
                let inside = self.inside(table);
                self.gather(access, a.dtype, table, Some(inside), TABULATED)
            }
        };
        self.widen(raw, a.dtype)
    }

    fn iota_bytes(&self) -> Vec<u8> {
        (0..self.v.lanes as u32).flat_map(|i| i.to_le_bytes()).collect()
    }

    /// Loads a full vector of contiguous elements, in the form of [`form_of`].
    fn neighbours(&mut self, aux: u64, dtype: DType) -> Val {
        let (form, lane) = form_of(dtype);
        self.v.leaf(Op::Load(form), lane, dtype.size() as u8, aux)
    }

    /// Loads a full vector of contiguous elements, `offset` (the same i64 in all lanes) past the access's own position,
    /// where `inside`, a mask of lanes of 8 bytes, is true.
    fn neighbours_at(&mut self, access: u16, dtype: DType, offset: Val, inside: Val) -> Val {
        let (form, lane) = form_of(dtype);
        let v = &mut self.v;
        let (width, imm, aux) = (v.width(lane), dtype.size() as u8, pointer(access, false));
        let (args, class) = ([offset, inside, Val(0)], Class::Vector);
        v.push(Inst { op: Op::LoadAt(form), width, imm, nargs: 2, lane, args, aux, class, step: 0 })
    }

    /// Converts the result of [`Lower::neighbours`] or [`Lower::gather`] to its compute form.
    fn widen(&mut self, raw: Val, dtype: DType) -> Val {
        match dtype {
            DType::BF16 => {
                let x = self.v.i_shl(raw, 16);
                self.halves.push((x, dtype, raw));
                x
            }
            DType::Bool => self.truth(raw),
            _ => raw,
        }
    }

    /// Lowers a gather of elements `offset` (i64) past the access's own positions. If some lane is not `inside`, or too
    /// far for a 32-bit index, the rectangle takes the slow path.
    fn gather_at(&mut self, access: u16, offset: Val, inside: Val) -> Result<Val, Unsupported> {
        let a = self.body.accesses[access as usize];
        let from_row = match a.class {
            _ if self.uniform(a) => None,
            AccessClass::Contiguous => Some(self.lane_numbers(8)),
            AccessClass::Strided | AccessClass::Reversed => {
                let (n, stride) = (self.lane_numbers(8), self.word(Source::Stride(access), 8));
                Some(elements::mul64(&mut self.v, n, stride))
            }
            AccessClass::Mapped | AccessClass::Uniform => return Err(Unsupported::Rows),
        };
        // The elements of a row whose offset is one number are contiguous.
        let row = a.class == AccessClass::Contiguous && from_row.is_some() && !self.turn;
        let row = row && self.v.is_uniform(offset) && self.v.is_uniform(inside);
        let v = &mut self.v;
        let index = from_row.filter(|_| !row).map_or(offset, |n| v.l_add(n, offset));
        // Byte offsets of narrow elements must fit 32 bits.
        let bits = if a.dtype.size() >= 4 { 31 } else { 29 };
        let half = v.l(1 << bits);
        let far = v.l_add(index, half);
        let far = v.l_shr(far, bits + 1);
        let zero = v.l(0);
        let near = v.int_eq(8, far, zero);
        let good = v.mask_and(near, inside);
        let bad = v.mask_not(good);
        v.guard(bad);
        if row {
            let mask = v.mask_to(good, 8);
            let raw = self.neighbours_at(access, a.dtype, index, mask);
            return Ok(self.widen(raw, a.dtype));
        }
        let index = v.low_halves(index);
        let raw = self.gather(access, a.dtype, index, Some(good), 0);
        Ok(self.widen(raw, a.dtype))
    }

    /// Lowers a gather of the elements with the indices `index` (i32), counted from the access's address. `kind` is 0 or
    /// [`TABULATED`], whose indices are not negative.
    fn gather(&mut self, access: u16, dtype: DType, index: Val, inside: Option<Val>, kind: u64) -> Val {
        let size = dtype.size();
        let lane = if size == 8 { 8 } else { 4 };
        let aux = pointer(access, false) | kind;
        if size >= 4 {
            return self.gather_words(aux, size as u8, lane, index, inside);
        }
        // Gather the aligned word that contains the element: it is in the element's page, so it is readable.
        let v = &mut self.v;
        let low = match inside {
            Some(_) => v.slot(Slot { source: Source::Low(access), dtype: DType::U32, lane: 4 }),
            None => v.leaf(Op::StepLow, 4, size as u8, pointer(access, false)),
        };
        let bytes = v.shift(Op::ShiftLeft, 4, index, (size == 2) as u8);
        let bytes = v.i_add(bytes, low);
        let signed = kind != TABULATED;
        let word = v.shift(if signed { Op::ShiftRightSigned } else { Op::ShiftRight }, 4, bytes, 2);
        let at = v.with_const(Op::And, 4, bytes, 3);
        let at = v.shift(Op::ShiftLeft, 4, at, 3);
        let aligned = 1 << 32;
        let w = self.gather_words(aux | aligned | (size as u64) << 33, 4, 4, word, inside);
        let v = &mut self.v;
        let x = v.two(Op::ShiftRightBy, 4, w, at);
        match dtype {
            DType::I8 | DType::I16 | DType::U8 => elements::wrap(v, x, dtype),
            DType::Bool => v.with_const(Op::And, 4, x, 0xFF),
            DType::F16 => {
                let x = v.with_const(Op::And, 4, x, 0xFFFF);
                let x = v.pack(2, x);
                v.convert(Format::F16, Format::F32, x)
            }
            _ => v.with_const(Op::And, 4, x, 0xFFFF),
        }
    }

    fn gather_words(&mut self, aux: u64, size: u8, lane: u8, index: Val, inside: Option<Val>) -> Val {
        let v = &mut self.v;
        let mask = inside.map(|m| v.mask_to(m, lane));
        let (args, nargs) = ([index, mask.unwrap_or(Val(0)), Val(0)], 1 + mask.is_some() as u8);
        let (width, class) = (v.width(lane), Class::Vector);
        v.push(Inst { op: Op::Gather, width, imm: size, nargs, lane, args, aux, class, step: 0 })
    }

    /// Lowers a store that combines: returns the combination of `x` with the previous contents of the output.
    fn combined(&mut self, op: Monoid, access: u16, a: Access, x: Val) -> Result<Val, Unsupported> {
        let dtype = a.dtype;
        if !matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64) {
            return Err(Unsupported::Fold(op, dtype));
        }
        if (self.v.target.combine)(op, dtype) == Some(Combine::Single) && !self.once {
            let (lane, aux) = (lane_of(dtype), pointer(access, false));
            let (op, width, imm) = (Op::Merge(op, dtype), self.v.width(lane), dtype.size() as u8);
            let (args, class) = ([x, Val(0), Val(0)], Class::Vector);
            return Ok(self.v.push(Inst { op, width, imm, nargs: 1, lane, args, aux, class, step: 0 }));
        }
        let old = self.load(access, a);
        elements::combine(&mut self.v, op, dtype, old, x).ok_or(Unsupported::Fold(op, dtype))
    }

    /// Converts a value from its compute form to the form that a store of the dtype writes.
    fn written(&mut self, x: Val, dtype: DType) -> Val {
        let v = &mut self.v;
        let known = self.halves.iter().find(|h| h.0 == x && h.1 == dtype).map(|h| h.2);
        match dtype {
            DType::Bool => v.pick_one(x),
            DType::BF16 => match known {
                Some(bits) => bits,
                None => rounded_bits(v, x).unwrap_or_else(|| elements::bf16_bits(v, x)),
            },
            _ => x,
        }
    }

    fn store_one(&mut self, x: Val, dtype: DType, aux: u64) {
        let mut x = self.written(x, dtype);
        if dtype == DType::F16 {
            x = elements::f16_bits(&mut self.v, x);
        }
        self.v.effect(Op::StoreOne, 0, dtype.size() as u8, &[x], aux);
    }

    fn store(&mut self, x: Val, dtype: DType, aux: u64) {
        let x = self.written(x, dtype);
        let v = &mut self.v;
        let x = if dtype.is_int() && dtype.size() < 4 { unwrapped(v, x, 8 * dtype.size() as u8) } else { x };
        let form = match dtype {
            DType::F16 => Memory::Half,
            _ if dtype.size() < 4 => Memory::Unsigned,
            _ => Memory::Same,
        };
        let size = dtype.size() as u8;
        let (form, width, x) = if form == Memory::Same || v.native(Op::Store(form), size) {
            (form, v.width(lane_of(dtype)), x)
        } else if form == Memory::Half {
            (Memory::Packed, v.width(size), elements::f16_bits(v, x))
        } else {
            (Memory::Packed, v.width(size), v.pack(size, x))
        };
        v.effect(Op::Store(form), width, size, &[x], aux);
    }
}

/// The bits of a value that was just rounded to bf16 (it is those bits, shifted left); `None` for other values.
fn rounded_bits(v: &Vir, x: Val) -> Option<Val> {
    let i = v.inst(x);
    let shifted = i.op == Op::ShiftLeft && i.lane == 4 && i.imm == 16;
    (shifted && v.inst(i.args[0]).op == Op::Select).then_some(i.args[0])
}

/// Strips sign or zero extension from a value of which a store writes only the low bits.
fn unwrapped(v: &Vir, x: Val, bits: u8) -> Val {
    let i = v.inst(x);
    let is_low = |a: &Val| v.inst(*a).op == Op::Const && v.inst(*a).aux == (1u64 << bits) - 1;
    if i.op == Op::And && i.lane == 4 && i.args().iter().any(is_low) {
        return i.args().iter().copied().find(|a| !is_low(a)).unwrap_or(x);
    }
    let below = v.inst(i.args[0]);
    let shifts = |i: &Inst, op: Op| i.op == op && i.lane == 4 && i.imm == 32 - bits;
    if shifts(i, Op::ShiftRightSigned) && shifts(below, Op::ShiftLeft) { below.args[0] } else { x }
}

/// Lowers the reversal of a vector's lanes.
fn in_reverse(v: &mut Vir, x: Val) -> Val {
    let lane = v.lane(x);
    let words = v.lanes * lane as usize / 4;
    if words == 4 && v.native(Op::Reverse, lane) {
        return v.one(Op::Reverse, lane, x);
    }
    // Both halves of a 64-bit lane stay together.
    let pairs = (lane == 8) as u32;
    let order = (0..words as u32).rev().map(|i| i ^ pairs);
    let order = v.table(order.flat_map(u32::to_le_bytes).collect(), lane);
    v.two(Op::PermuteWords, lane, order, x)
}

impl Vir {
    /// Packs the low `size` bytes of 32-bit lanes into adjacent elements in the lower part of the vector.
    fn pack(&mut self, size: u8, x: Val) -> Val {
        if self.native(Op::Pack, size) {
            self.make(Op::Pack, 4, 4, size, &[x])
        } else {
            (self.target.pack)(self, size, x)
        }
    }

    /// Converts a mask to lanes of 1 and 0.
    fn pick_one(&mut self, m: Val) -> Val {
        if self.masks() {
            let (one, zero) = (self.i(1), self.i(0));
            return self.pick(4, m, one, zero);
        }
        let m = self.mask_to(m, 4);
        self.shift(Op::ShiftRight, 4, m, 31)
    }
}
