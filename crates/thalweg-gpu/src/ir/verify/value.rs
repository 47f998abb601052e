//! Checks of expressions and of routines with a result.

use crate::ir::verify::{Checked, Checker, Declared, want};
use crate::ir::{Binary, Definition, Expr, Kind, Routine, Type};
use thalweg_ir::{DType, ElementOp};

impl Checker<'_> {
    pub(super) fn defined(&self, of: Definition) -> Checked {
        want(self.definitions.contains(&of), || format!("{of} is not defined"))
    }

    pub(super) fn state(&self, l: u16) -> Checked {
        let is = |d: &Definition| matches!(d, Definition::State { number, .. } if *number == l);
        want(self.definitions.iter().any(is), || format!("state {l} is not defined"))
    }

    /// Dtype of a scan's elements; an error if the scan is not defined.
    pub(super) fn scan(&self, number: u16) -> Result<DType, String> {
        let of = |d: &Definition| match *d {
            Definition::Scan { number: n, dtype, .. } if n == number => Some(dtype),
            _ => None,
        };
        self.definitions.iter().find_map(of).ok_or_else(|| format!("scan {number} is not defined"))
    }

    /// Checks a routine: its definition exists, and its arguments have the right types.
    pub(super) fn routine(&self, routine: Routine, args: &[Expr]) -> Checked {
        args.iter().try_for_each(|arg| self.check(arg))?;
        let each = |ty: Type| args.iter().try_for_each(|arg| self.typed(arg, ty));
        let count = match routine {
            Routine::NoState(_) | Routine::Nothing(_) => 0,
            Routine::Combine(..) | Routine::CombineStates(_) | Routine::About(_) => 2,
            Routine::Shuffle(..) | Routine::Accumulated(_) | Routine::Pair(_) | Routine::Further => 2,
            Routine::MultiplyAdd(_) => 3,
            Routine::OwnMean(_) | Routine::AboutMean(_) | Routine::TilesBefore => 4,
            Routine::State(_) => args.len(),
            _ => 1,
        };
        want(args.len() == count, || format!("{routine:?} takes {count} arguments"))?;
        let whole = |arg: &Expr| want(matches!(arg, Expr::Whole(..)), || format!("{arg} are no elements"));
        match routine {
            Routine::Combine(monoid, dtype) | Routine::FoldThreads(monoid, dtype, _) => {
                self.defined(Definition::Monoid(monoid, dtype))?;
                each(Type::Held(dtype))
            }
            Routine::FoldLanes(monoid, dtype) | Routine::FoldWarps(monoid, dtype, _) => {
                self.defined(Definition::Monoid(monoid, dtype))?;
                whole(&args[0])?;
                each(Type::Held(dtype))
            }
            Routine::FirstLane(dtype) | Routine::OwnMean(dtype) => each(Type::Held(dtype)),
            Routine::NoState(l) => self.state(l),
            Routine::Nothing(scan) => self.scan(scan).map(|_| ()),
            Routine::Widened(scan) => each(Type::Held(self.scan(scan)?)),
            Routine::Accumulated(scan) => each(Type::Wide(scan)),
            Routine::Narrowed(scan, dtype) => {
                want(self.scan(scan)? == dtype, || format!("scan {scan} is not of {dtype}"))?;
                each(Type::Wide(scan))
            }
            Routine::Shuffle(_, ty) => {
                self.typed(&args[0], ty)?;
                self.typed(&args[1], Type::U32)
            }
            Routine::MultiplyAdd(dtype) => each(Type::Held(dtype)),
            Routine::Tf32 | Routine::Bits => each(Type::Held(DType::F32)),
            Routine::Ballot | Routine::AnyOfWarp => each(Type::BOOL),
            Routine::PowerOfTwo | Routine::Pair(_) => each(Type::Held(DType::F32)),
            Routine::Further => {
                self.typed(&args[0], Type::Matrix)?;
                self.typed(&args[1], Type::U32)
            }
            Routine::Ones => each(Type::U32),
            Routine::AnyOfBlock => {
                want(self.same, || "some threads of a block do not come to what all of them tell".into())?;
                each(Type::BOOL)
            }
            Routine::TilesBefore => {
                let ticket = matches!(args[0], Expr::Drawn(_));
                want(ticket, || format!("{} is no ticket", args[0]))?;
                self.typed(&args[1], Type::U64)?;
                args[2..].iter().try_for_each(|arg| self.typed(arg, Type::U32))
            }
            Routine::State(l) => {
                self.state(l)?;
                let of = |d: &Definition| match *d {
                    Definition::State { number, dtype, .. } if number == l => Some(Type::Held(dtype)),
                    _ => None,
                };
                self.definitions.iter().find_map(of).map_or(Ok(()), each)
            }
            Routine::CombineStates(l) | Routine::StatesOfWarp(l, _) => each(Type::State(l)),
            Routine::StatesOfBlock(l, _) => {
                whole(&args[0])?;
                each(Type::State(l))
            }
            Routine::About(dtype) | Routine::AboutMean(dtype) => {
                let state = matches!(args[0].ty(), Type::State(_));
                want(state, || format!("{} is no state", args[0]))?;
                args[1..].iter().try_for_each(|arg| self.typed(arg, Type::Held(dtype)))
            }
        }
    }

    pub(super) fn typed(&self, of: &Expr, ty: Type) -> Checked {
        self.check(of)?;
        want(of.ty() == ty, || format!("{of} is {} where {ty} is wanted", of.ty()))
    }

    pub(super) fn position(&self, of: &Expr) -> Checked {
        self.check(of)?;
        want(of.ty().is_index(), || format!("{of} is {}, no position", of.ty()))
    }

    pub(super) fn check(&self, of: &Expr) -> Checked {
        match of {
            Expr::Name(name, ty) => match self.known(name)? {
                Declared::Value { ty: is, .. } => want(is == ty, || format!("`{name}` is {is}, not {ty}")),
                _ => Err(format!("`{name}` is no value")),
            },
            Expr::Element { of: name, at, ty } => self.element(name, at, *ty, 0),
            Expr::OfPair { of: name, at, lane, dtype } => {
                self.position(lane)?;
                self.element(name, at, Type::Stored(*dtype), 1)
            }
            Expr::Param(param) => self.param(param, &[]),
            Expr::Scalar(_, param) => self.param(param, &[Kind::Scalar]),
            Expr::Number(n, ty) => {
                want(ty.is_index(), || format!("a number that counts is {ty}"))?;
                // A bit mask may be written as a negative number.
                let fits = match *ty {
                    Type::I32 => i32::try_from(*n).is_ok(),
                    Type::U32 => i32::try_from(*n).is_ok() || u32::try_from(*n).is_ok(),
                    _ => true,
                };
                want(fits, || format!("{n} is no {ty}"))
            }
            Expr::Constant(..) | Expr::Thread | Expr::Block | Expr::Blocks | Expr::Threads => Ok(()),
            Expr::Quotient(name) | Expr::Remainder(name) => match self.known(name)? {
                Declared::Split { .. } => Ok(()),
                _ => Err(format!("`{name}` is not taken apart")),
            },
            Expr::Binary(op, two) => self.binary(*op, &two[0], &two[1]),
            Expr::Select(three) => {
                self.typed(&three[0], Type::BOOL)?;
                self.reached(&three[0], &three[1..])?;
                self.check(&three[1])?;
                self.typed(&three[2], three[1].ty())
            }
            Expr::Convert(ty, x) => {
                self.check(x)?;
                want(matches!(ty, Type::Held(_)), || format!("{x} does not become {ty}"))?;
                let whole = |d: DType| d.is_int() || d == DType::Bool;
                want(matches!(x.ty(), Type::Held(d) if whole(d)), || format!("{x} is {}, no integer", x.ty()))
            }
            Expr::Operation(op, dtype, args) => {
                want(args.len() == op.row().arity, || format!("{} takes {} arguments", op.name(), op.row().arity))?;
                let of = |i: usize| if *op == ElementOp::Where && i == 0 { DType::Bool } else { *dtype };
                args.iter().enumerate().try_for_each(|(i, arg)| self.typed(arg, Type::Held(of(i))))?;
                if *op == ElementOp::Where { self.reached(&args[0], &args[1..]) } else { Ok(()) }
            }
            Expr::Inverse(x) => self.typed(x, Type::Held(DType::F32)),
            Expr::Hidden(x) => {
                self.check(x)?;
                want(matches!(x.ty(), Type::Held(d) if d.is_float()), || format!("{x} is no float"))
            }
            Expr::Product(two) => {
                let ty = two[0].ty();
                want(matches!(ty, Type::Held(DType::F32 | DType::F64)), || format!("{} is no f32 or f64", two[0]))?;
                two.iter().try_for_each(|x| self.typed(x, ty))
            }
            Expr::Cast(from, _, x) => self.typed(x, Type::Held(*from)),
            Expr::Bitcast(from, to, x) => {
                self.typed(x, Type::Held(*from))?;
                want(from.size() == to.size(), || format!("the bits of {from} are no {to}"))
            }
            Expr::Unrounded(dtype, x) => {
                self.check(x)?;
                let in_f32 = |d: DType| matches!(d, DType::F32 | DType::BF16 | DType::F16);
                let both = in_f32(*dtype) && matches!(x.ty(), Type::Held(d) if in_f32(d));
                want(both, || format!("{x} is {}, which is not held as {dtype}", x.ty()))
            }
            Expr::Unpack(dtype, x) => self.typed(x, Type::Stored(*dtype)),
            Expr::Pack(dtype, x) => self.typed(x, Type::Held(*dtype)),
            Expr::Load(ty, name, at) | Expr::Scratch(ty, name, at) | Expr::Fresh(ty, name, at) => {
                let is = self.operand(name)?;
                want(is == *ty, || format!("`{name}` is {is}, not {ty}"))?;
                self.position(at)
            }
            Expr::LoadState(l, name, at) => {
                let is = self.operand(name)?;
                want(is == Type::State(*l), || format!("`{name}` is {is}, not state {l}"))?;
                self.position(at)
            }
            Expr::Matrix { of, at, .. } => {
                self.shared(of)?;
                self.position(at)
            }
            Expr::Whole(name, ty) => match self.known(name)? {
                Declared::Elements { ty: is, .. } => want(is == ty, || format!("`{name}` are {is}, not {ty}")),
                _ => Err(format!("`{name}` has no elements")),
            },
            Expr::Taken { tree, identity } => match *self.known(tree)? {
                Declared::Tree(dtype) => self.typed(identity, Type::Held(dtype)),
                _ => Err(format!("`{tree}` is no tree")),
            },
            Expr::Drawn(name) => match self.known(name)? {
                Declared::Ticket => Ok(()),
                _ => Err(format!("`{name}` is no ticket")),
            },
            Expr::Routine(routine, args) => self.routine(*routine, args),
            Expr::Gather { dtype, operand, place } => {
                let is = self.operand(operand)?;
                want(is == Type::Stored(*dtype), || format!("`{operand}` is {is}, not {dtype}"))?;
                self.typed(&place[0], Type::I64)?;
                self.typed(&place[1], Type::BOOL)?;
                self.typed(&place[2], Type::U64)
            }
            Expr::Call(name, x) => {
                want(matches!(self.known(name)?, Declared::Function), || format!("`{name}` is no function"))?;
                self.typed(x, Type::I64)
            }
        }
    }

    /// Checks operands that are evaluated conditionally: a block-wide routine in them needs a uniform condition.
    pub(super) fn reached(&self, condition: &Expr, then: &[Expr]) -> Checked {
        let all = self.is_same(condition) || !then.iter().any(is_collective);
        want(all, || "some threads of a block do not come to what all of them tell".into())
    }

    pub(super) fn binary(&self, op: Binary, left: &Expr, right: &Expr) -> Checked {
        self.check(left)?;
        self.typed(right, left.ty())?;
        if matches!(op, Binary::And | Binary::Or) {
            self.reached(left, std::slice::from_ref(right))?;
        }
        let of = match op {
            Binary::And | Binary::Or => left.ty() == Type::BOOL,
            // Products of floats occur with reciprocals.
            Binary::Mul => matches!(left.ty(), Type::Held(d) if d.is_float()) || left.ty().is_index(),
            _ => left.ty().is_index(),
        };
        want(of, || format!("{left} is {}, which has no {op:?}", left.ty()))
    }

    /// Checks an indexed array, where all dimensions but the last `open` have an index.
    pub(super) fn element(&self, name: &str, at: &[Expr], ty: Type, open: usize) -> Checked {
        let Declared::Elements { ty: is, shape, .. } = self.known(name)? else {
            return Err(format!("`{name}` has no elements"));
        };
        want(*is == ty, || format!("elements of `{name}` are {is}, not {ty}"))?;
        let dims = shape.as_ref().map_or(1, Vec::len);
        want(at.len() + open == dims, || format!("`{name}` has {dims} dimensions, and {} indices", at.len()))?;
        for (d, index) in at.iter().enumerate() {
            self.position(index)?;
            if let (Expr::Number(n, _), Some(size)) = (index, shape.as_ref().map(|s| s[d])) {
                want((0..i64::from(size)).contains(n), || format!("index {n} of `{name}`, which has {size}"))?;
            }
        }
        Ok(())
    }

    /// Whether an expression is uniform in a block.
    pub(super) fn is_same(&self, of: &Expr) -> bool {
        let own = match of {
            Expr::Name(name, _) => matches!(self.known(name), Ok(Declared::Value { same: true, .. })),
            Expr::Quotient(name) | Expr::Remainder(name) => {
                matches!(self.known(name), Ok(Declared::Split { same: true }))
            }
            // All threads read the same element, if the index is uniform.
            Expr::Element { of, .. } => matches!(self.known(of), Ok(Declared::Elements { shared: true, .. })),
            Expr::Drawn(_) => true,
            Expr::Routine(Routine::AnyOfBlock, _) => return true,
            Expr::Routine(Routine::Ones, _) => true,
            Expr::Thread | Expr::OfPair { .. } | Expr::Whole(..) | Expr::Routine(..) | Expr::Taken { .. } => false,
            // Other threads may have written the element.
            Expr::Load(_, name, _) | Expr::Scratch(_, name, _) => {
                matches!(self.known(name), Ok(Declared::Operand { constant: Some(true), .. }))
            }
            // Values that a function reads besides its argument are not known.
            Expr::Fresh(..) | Expr::LoadState(..) | Expr::Gather { .. } | Expr::Call(..) => false,
            Expr::Param(_) | Expr::Scalar(..) => self.same_words,
            _ => true,
        };
        own && of.parts().iter().all(|x| self.is_same(x))
    }
}

/// Whether a value contains a block-wide routine, which all threads must reach.
pub(super) fn is_collective(value: &Expr) -> bool {
    matches!(value, Expr::Routine(Routine::AnyOfBlock, _)) || value.parts().iter().any(is_collective)
}

/// Whether a value contains a variable or array of that name.
pub(super) fn mentions(value: &Expr, name: &str) -> bool {
    let own = match value {
        Expr::Name(n, _) | Expr::Element { of: n, .. } | Expr::OfPair { of: n, .. } | Expr::Whole(n, _) => n == name,
        Expr::Load(_, n, _) | Expr::Scratch(_, n, _) | Expr::Fresh(_, n, _) | Expr::LoadState(_, n, _) => n == name,
        Expr::Quotient(n) | Expr::Remainder(n) | Expr::Drawn(n) | Expr::Call(n, _) => n == name,
        Expr::Matrix { of: n, .. } | Expr::Taken { tree: n, .. } | Expr::Gather { operand: n, .. } => n == name,
        _ => false,
    };
    let own =
        own || matches!(value, Expr::OfPair { at, lane, .. } if at.iter().chain([&**lane]).any(|x| mentions(x, name)));
    own || value.parts().iter().any(|x| mentions(x, name))
}
