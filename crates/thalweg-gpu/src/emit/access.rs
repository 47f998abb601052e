//! Loads and stores through the accesses of a body.
//!
//! In: a thread's position (an offset for each access). Out: statements. The elements that access `k` loads are in
//! `r{k}[v]`, lane by lane in their memory format; the offsets that an index map yields are in `m{k}[v]`; the elements
//! to store are in `y{k}[v]`.

use crate::body::Wanted;
use crate::emit::index::map_function;
use crate::ir::{Expr, Name, Statement, Type, Unroll};
use crate::space::{Addressing, Inner, SpaceClass, SpaceParams};
use thalweg_ir::DType;
use thalweg_kernel::Access;

/// Emitter of the declarations, loads and stores of a kernel's accesses.
#[derive(Clone, Copy)]
pub struct Accesses<'a> {
    /// Accesses of the body, followed by its buffers where there are some.
    pub list: &'a [Access],
    /// Class of the domain, with the addressing mode of each access.
    pub class: &'a SpaceClass,
    /// Kernel arguments of domain and accesses.
    pub params: &'a SpaceParams,
    /// Tag in the names of accesses, where a kernel has several bodies: `a` in `pa0`.
    pub tag: &'static str,
}

/// Position of a thread in the domain: that of its first lane.
pub struct Stand<'a> {
    /// Offset in elements of a strided access, given by its index, at this position.
    pub position: &'a dyn Fn(usize) -> Expr,
    /// Row-major index of the point in the whole domain, an i64.
    pub point: Expr,
    /// Distance from lane to lane in the row-major index `point`, an i64.
    pub step: Expr,
    /// Number of lanes of the thread.
    pub lanes: usize,
}

/// Lane index: the variable `v`.
pub fn lane_number() -> Expr {
    Expr::name("v", Type::I32)
}

impl Accesses<'_> {
    fn named(&self, letter: &str, k: usize) -> Name {
        format!("{letter}{}{k}", self.tag)
    }

    fn index(&self) -> Type {
        Type::index(self.class.wide)
    }

    fn stored(&self, k: usize) -> Type {
        Type::Stored(self.list[k].dtype)
    }

    /// Emits declarations of the operands, and of the index maps as functions.
    pub fn declare(&self, used: &dyn Fn(usize) -> bool) -> Vec<Statement> {
        let mut out = vec![];
        for (k, access) in self.list.iter().enumerate().filter(|(k, _)| used(*k)) {
            if access.operand.is_some() {
                let param = self.params.accesses[k].base.slot();
                out.push(Statement::Operand { name: self.named("p", k), ty: self.stored(k), param });
            }
            if let Addressing::Mapped(_) = self.class.addressing[k] {
                out.push(map_function(self.class, self.params, k, self.named("map", k)));
            }
        }
        out
    }

    /// Stride from lane to lane of a strided access.
    pub fn lane_step(&self, k: usize) -> Expr {
        match (&self.class.addressing[k], self.class.lane()) {
            (Addressing::Strided { inner: Inner::Unit, .. }, _) => Expr::Number(1, Type::I64),
            (Addressing::Strided { inner: Inner::Any, .. }, Some(l)) => {
                self.params.accesses[k].strides[l].read(self.index()).to(Type::I64)
            }
            _ => Expr::Number(0, Type::I64),
        }
    }

    /// Whether all lanes of a thread read the same element.
    pub fn single(&self, k: usize) -> bool {
        matches!(self.class.addressing[k], Addressing::Strided { inner: Inner::Zero, .. })
    }

    fn is_vector(&self, k: usize, lanes: usize) -> bool {
        matches!(self.class.addressing[k], Addressing::Strided { vector: true, .. }) && lanes > 1
    }

    /// Declares the element registers of an access. `before` are the dimensions before the lanes: 4 for several
    /// vectors.
    pub fn elements(&self, k: usize, lanes: usize, before: &[u32]) -> Statement {
        let n = if self.single(k) { 1 } else { lanes };
        let shape = before.iter().copied().chain([n as u32]).collect();
        Statement::Registers { name: self.named("r", k), ty: self.stored(k), shape }
    }

    /// Declares the registers that [`Accesses::fetch`] fills.
    pub fn arrays(&self, k: usize, wanted: Wanted, lanes: usize, before: &[u32]) -> Vec<Statement> {
        let n = if self.single(k) { 1 } else { lanes };
        let mut out: Vec<Statement> = wanted.load.then(|| self.elements(k, lanes, before)).into_iter().collect();
        if wanted.position || matches!(self.class.addressing[k], Addressing::Mapped(_)) {
            let shape = before.iter().copied().chain([n as u32]).collect();
            out.push(Statement::Registers { name: self.named("m", k), ty: Type::I64, shape });
        }
        out
    }

    fn loaded(&self, k: usize, at: &[Expr], lane: Expr) -> Expr {
        let at = at.iter().cloned().chain([lane]).collect();
        Expr::Element { of: self.named("r", k), at, ty: self.stored(k) }
    }

    fn found(&self, k: usize, at: &[Expr], lane: Expr) -> Expr {
        let at = at.iter().cloned().chain([lane]).collect();
        Expr::Element { of: self.named("m", k), at, ty: Type::I64 }
    }

    fn load(&self, k: usize, at: Expr) -> Expr {
        Expr::Load(self.stored(k), self.named("p", k), Box::new(at))
    }

    /// Emits loads that fill the registers of an access; `at` and `place` are the indices before the lanes, of elements
    /// and of offsets.
    pub fn fetch(&self, k: usize, wanted: Wanted, stand: &Stand, [at, place]: [&[Expr]; 2]) -> Vec<Statement> {
        let (v, mut out) = (stand.lanes, vec![]);
        if wanted == Wanted::default() {
            return out;
        }
        let each = |n: usize, body: Vec<Statement>| Statement::lanes(n, Unroll::Free, body);
        let lane = lane_number;
        let (zero, first) = (Expr::Number(0, Type::I64), Expr::Number(0, Type::I32));
        if let Addressing::Mapped(_) = self.class.addressing[k] {
            let point = stand.point.clone() + lane().to(Type::I64) * stand.step.clone();
            let found = Expr::Call(self.named("map", k), Box::new(point));
            out.push(each(v, vec![Statement::Set(self.found(k, place, lane()), found)]));
            if wanted.load {
                let found = self.found(k, place, lane());
                let none = Expr::Pack(self.list[k].dtype, Box::new(Expr::Constant(self.list[k].dtype, 0)));
                let element = found.clone().lt(zero).select(none, self.load(k, found));
                out.push(each(v, vec![Statement::Set(self.loaded(k, at, lane()), element)]));
            }
            return out;
        }
        let position = (stand.position)(k);
        let step = self.lane_step(k);
        if wanted.load {
            out.push(if self.is_vector(k, v) {
                let to = (self.named("r", k), at.to_vec());
                Statement::LoadVector { to, operand: self.named("p", k), at: position.clone(), fresh: false }
            } else if self.single(k) || v == 1 {
                Statement::Set(self.loaded(k, at, first), self.load(k, position.clone()))
            } else {
                let from = Expr::name("at", Type::I64) + lane().to(Type::I64) * step.clone();
                Statement::Scope(vec![
                    Statement::Let("at".into(), position.clone().to(Type::I64)),
                    each(v, vec![Statement::Set(self.loaded(k, at, lane()), self.load(k, from))]),
                ])
            });
        }
        if wanted.position {
            // An index is used only of an access without an operand, whose base is an offset and not an address.
            let base = self.params.accesses[k].base.read(Type::I64);
            let n = if self.single(k) { 1 } else { v };
            let found = base + position.to(Type::I64) + lane().to(Type::I64) * step;
            out.push(each(n, vec![Statement::Set(self.found(k, place, lane()), found)]));
        }
        out
    }

    /// Emits loads that fill the elements of a strided access for half `h` of a dimension's blocks of eight: `count`
    /// blocks, of each of which a thread has `halves` vectors of `v`. The first element is at `position`. Registers are
    /// indexed by block, `h`, and vector.
    pub fn fetch_strided(&self, k: usize, position: Expr, [count, halves, v]: [u32; 3]) -> Vec<Statement> {
        let i32 = |n: u32| Expr::Number(n.into(), Type::I32);
        let name = |name: &str| Expr::name(name, Type::I32);
        let number = (name("j") * i32(2) + name("h")) * i32(halves) + name("g");
        let begin = Expr::name("begin", Type::I64);
        let first = name("j") * i32(8) + name("g") * i32(v);
        let lane = lane_number;
        let at = [number];
        let load = match () {
            () if self.is_vector(k, v as usize) => Statement::LoadVector {
                to: (self.named("r", k), at.to_vec()),
                operand: self.named("p", k),
                at: begin + first.to(Type::I64),
                fresh: false,
            },
            () if self.single(k) => Statement::Set(self.loaded(k, &at, i32(0)), self.load(k, begin)),
            () => {
                let from = begin + (first + lane()).to(Type::I64) * self.lane_step(k);
                Statement::lanes(
                    v as usize,
                    Unroll::Free,
                    vec![Statement::Set(self.loaded(k, &at, lane()), self.load(k, from))],
                )
            }
        };
        let halves = Statement::count("g", halves as usize, Unroll::All, vec![load]);
        let all = Statement::count("j", count as usize, Unroll::All, vec![halves]);
        vec![Statement::Scope(vec![Statement::Let("begin".into(), position.to(Type::I64)), all])]
    }

    fn lane(&self, k: usize) -> Expr {
        if self.single(k) { Expr::Number(0, Type::I32) } else { lane_number() }
    }

    /// Value of the element that lane `v` has loaded through access `k`.
    pub fn element(&self, k: usize, at: &[Expr]) -> Expr {
        let dtype = self.list[k].dtype;
        let vector = matches!(self.class.addressing[k], Addressing::Strided { vector: true, .. });
        if vector && dtype == DType::BF16 {
            return Expr::OfPair { of: self.named("r", k), at: at.to_vec(), lane: Box::new(lane_number()), dtype };
        }
        Expr::Unpack(dtype, Box::new(self.loaded(k, at, self.lane(k))))
    }

    /// Index of lane `v` in access `k`, converted to a dtype.
    pub fn position(&self, k: usize, dtype: DType, at: &[Expr]) -> Expr {
        Expr::Convert(Type::Held(dtype), Box::new(self.found(k, at, self.lane(k))))
    }

    /// Condition that lane `v`'s index in access `k` is in bounds.
    pub fn valid(&self, k: usize, at: &[Expr]) -> Expr {
        match self.class.addressing[k] {
            Addressing::Mapped(_) => self.found(k, at, lane_number()).ge(Expr::Number(0, Type::I64)),
            Addressing::Strided { .. } => Expr::Constant(DType::Bool, 1),
        }
    }

    /// Element at `offset` elements from lane `v`'s position. An out-of-range index is reported to the address `fault`.
    pub fn gathered(&self, k: usize, stand: &Stand, [offset, inside, fault]: [Expr; 3]) -> Expr {
        let dtype = self.list[k].dtype;
        let position = (stand.position)(k).to(Type::I64) + lane_number().to(Type::I64) * self.lane_step(k);
        let place = Box::new([position + offset.to(Type::I64), inside, fault]);
        let raw = Expr::Gather { dtype, operand: self.named("p", k), place };
        Expr::Unpack(dtype, Box::new(raw))
    }

    /// Declares the registers of the elements to store through an access.
    pub fn result(&self, k: usize, lanes: usize) -> Statement {
        Statement::Registers { name: self.named("y", k), ty: self.stored(k), shape: vec![lanes as u32] }
    }

    fn computed(&self, k: usize, lane: Expr) -> Expr {
        Expr::Element { of: self.named("y", k), at: vec![lane], ty: self.stored(k) }
    }

    /// Emits the assignment of `value` to lane `v` of the registers of [`Accesses::result`].
    pub fn set(&self, k: usize, value: Expr) -> Statement {
        Statement::Set(self.computed(k, lane_number()), Expr::Pack(self.list[k].dtype, Box::new(value)))
    }

    /// Emits the store of the registers of [`Accesses::result`] to memory.
    pub fn store(&self, k: usize, stand: &Stand) -> Statement {
        let (v, position, step) = (stand.lanes, (stand.position)(k), self.lane_step(k));
        let operand = self.named("p", k);
        match &self.class.addressing[k] {
            Addressing::Strided { .. } if self.is_vector(k, v) => {
                Statement::StoreVector { operand, at: position, from: (self.named("y", k), vec![]) }
            }
            Addressing::Strided { .. } if v == 1 => {
                Statement::Store { operand, at: position, value: self.computed(k, Expr::Number(0, Type::I32)) }
            }
            Addressing::Strided { .. } => {
                let at = Expr::name("at", Type::I64) + lane_number().to(Type::I64) * step;
                let store = Statement::Store { operand, at, value: self.computed(k, lane_number()) };
                Statement::Scope(vec![
                    Statement::Let("at".into(), position.to(Type::I64)),
                    Statement::lanes(v, Unroll::Free, vec![store]),
                ])
            }
            Addressing::Mapped(_) => unreachable!("nothing is stored through a map"),
        }
    }
}
