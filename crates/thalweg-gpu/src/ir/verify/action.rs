//! Checks of actions, the routines without a result.

use crate::ir::verify::{Checked, Checker, Declared, want};
use crate::ir::{Action, Definition, Expr, Kind, Left, Name, Type};
use thalweg_ir::DType;

impl Checker<'_> {
    /// Checks a reference to an mbarrier in shared memory.
    pub(super) fn barrier(&self, (name, at): &(Name, Expr)) -> Checked {
        want(self.shared(name)? == Type::U64, || format!("`{name}` are no barriers"))?;
        self.position(at)
    }

    /// Element type of a shared array; an error for other names.
    pub(super) fn shared(&self, name: &str) -> Result<Type, String> {
        match self.known(name)? {
            Declared::Elements { ty, shared: true, .. } => Ok(*ty),
            _ => Err(format!("`{name}` is not shared")),
        }
    }

    pub(super) fn action(&self, action: &Action) -> Checked {
        want(self.same || !action.is_collective(), || format!("some threads of a block do not come to: {action}"))?;
        match action {
            Action::FoldPoints { monoid, dtype, registers, .. } => {
                self.defined(Definition::Monoid(*monoid, *dtype))?;
                self.check(&Expr::Whole(registers.clone(), Type::Held(*dtype)))
            }
            Action::FoldBlocks { monoid, dtype, value, parts, all, ticket, at: [first, chunk, chunks] } => {
                self.defined(Definition::Monoid(*monoid, *dtype))?;
                for of in [value, parts, all] {
                    self.check(&Expr::Whole(of.clone(), Type::Held(*dtype)))?;
                }
                self.check(&Expr::Drawn(ticket.clone()))?;
                self.typed(first, Type::U64)?;
                [chunk, chunks].into_iter().try_for_each(|x| self.typed(x, Type::U32))
            }
            Action::Push { tree, value } => match *self.known(tree)? {
                Declared::Tree(dtype) => self.typed(value, Type::Held(dtype)),
                _ => Err(format!("`{tree}` is no tree")),
            },
            Action::Fence
            | Action::CopiesCommit
            | Action::CopiesWait(_)
            | Action::AsyncFence
            | Action::WarpgroupFence
            | Action::WarpgroupCommit
            | Action::WarpgroupWait(_)
            | Action::BarriersStarted
            | Action::RegistersLess(_)
            | Action::RegistersMore(_)
            | Action::RotationStart(_) => Ok(()),
            Action::Kept(name, at) => self.element(name, at, Type::Held(DType::F32), 2),
            Action::BarrierStart(b, _) | Action::BarrierArrive(b) => self.barrier(b),
            Action::BarrierExpect(b, x) | Action::BarrierWait(b, x) => {
                self.barrier(b)?;
                self.typed(x, Type::U32)
            }
            Action::TensorMapPrefetch(map) => self.param(map, &[Kind::TensorMap]),
            Action::TensorMapCopy { to, map, barrier, at } => {
                self.param(map, &[Kind::TensorMap])?;
                self.shared(&to.0)?;
                self.position(&to.1)?;
                self.barrier(barrier)?;
                at.iter().try_for_each(|x| self.typed(x, Type::I32))
            }
            Action::RotationWait(_, turns, turn) => {
                self.barrier(&(turns.clone(), Expr::Number(0, Type::I32)))?;
                self.typed(&Expr::name(turn.clone(), Type::U32), Type::U32)
            }
            Action::RotationSignal(_, turns, _) => self.barrier(&(turns.clone(), Expr::Number(0, Type::I32))),
            Action::AsyncCopy { to, from, bytes, kept } => {
                let (to_ty, from_ty) = (self.shared(&to.0)?, self.operand(&from.0)?);
                let size = |ty| match ty {
                    Type::Held(d) | Type::Stored(d) => d.size() as u32,
                    _ => 0,
                };
                let alike = size(to_ty) == size(from_ty) && (*bytes == 16 || *bytes == size(to_ty));
                want(alike, || format!("{bytes} bytes of {from_ty} for {to_ty}"))?;
                [&to.1, &from.1].into_iter().try_for_each(|at| self.position(at))?;
                let ty = if *bytes == 16 { Type::I32 } else { Type::BOOL };
                kept.as_ref().map_or(Ok(()), |kept| self.typed(kept, ty))
            }
            Action::StoreInterleaved { operand, at, from, kept } => {
                let ty = self.operand(operand)?;
                let narrow = matches!(ty, Type::Stored(DType::BF16 | DType::F16));
                want(narrow, || format!("{ty} is no narrow float"))?;
                self.position(at)?;
                self.check(&Expr::Whole(from.clone(), Type::U32))?;
                self.typed(kept, Type::BOOL)
            }
            Action::LoadShared { to, from } => {
                let ty = self.shared(&from.0)?;
                self.element(&to.0, &to.1, ty, 1)?;
                self.position(&from.1)
            }
            Action::Fragments { to, from, .. } => {
                self.element(&to.0, &to.1, Type::U32, 1)?;
                self.shared(&from.0)?;
                self.position(&from.1)
            }
            Action::Multiply { sums, left, right, .. } => {
                self.element(&sums.0, &sums.1, Type::Held(DType::F32), 1)?;
                self.element(&left.0, &left.1, Type::U32, 1)?;
                right.iter().try_for_each(|x| self.typed(x, Type::U32))
            }
            Action::WarpgroupMultiply { f16, sums, left, right, columns, keep } => {
                let across = matches!(left.0, Left::Matrix(_)).then_some(left.1);
                let of = Definition::Warpgroups { f16: *f16, left: across, right: right.1, columns: *columns };
                self.defined(of)?;
                self.element(&sums.0, &sums.1, Type::Held(DType::F32), 2)?;
                match &left.0 {
                    Left::Matrix(x) => self.typed(x, Type::Matrix)?,
                    Left::Registers(name, at) => self.element(name, at, Type::U32, 1)?,
                }
                self.typed(&right.0, Type::Matrix)?;
                self.typed(keep, Type::BOOL)
            }
            Action::StoreAccumulators { pass, to, cases, .. } => {
                self.position(pass)?;
                self.element(&to.0, &to.1, Type::Held(DType::F32), 1)?;
                cases.iter().try_for_each(|(of, _)| self.element(&of.0, &of.1, Type::Held(DType::F32), 2))
            }
            Action::Reset { counters, at } => {
                let ty = self.written(counters)?;
                want(ty == Type::U32, || format!("`{counters}` are {ty}, no counters"))?;
                self.position(at)
            }
            Action::StoreState { operand, at, value } => {
                let ty = self.written(operand)?;
                self.position(at)?;
                self.typed(value, ty)
            }
            Action::Scan { number, buffer, thread, count, parts, links, .. } => {
                let dtype = self.scan(*number)?;
                self.check(&Expr::Whole(buffer.clone(), Type::Held(dtype)))?;
                self.check(&Expr::Whole(parts.clone(), Type::Wide(*number)))?;
                let (ticket, places) = links.as_ref().map_or((None, &[][..]), |(name, all)| (Some(name), &all[..]));
                ticket.map_or(Ok(()), |name| self.check(&Expr::Drawn(name.clone())))?;
                [thread, count].into_iter().chain(places).try_for_each(|x| self.typed(x, Type::U32))
            }
        }
    }

    pub(super) fn vector(&self, (name, before): &(Name, Vec<Expr>), operand: &str, at: &Expr) -> Checked {
        let of = self.operand(operand)?;
        self.position(at)?;
        let Declared::Elements { ty, shape: Some(_), shared: false } = self.known(name)? else {
            return Err(format!("`{name}` are no registers"));
        };
        want(*ty == of, || format!("`{name}` are {ty}, and `{operand}` is {of}"))?;
        self.element(name, before, *ty, 1)
    }
}
