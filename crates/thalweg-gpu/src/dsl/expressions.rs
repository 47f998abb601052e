//! Expressions of the DSL.

use crate::dsl::parser::{Macro, Meaning, Memory, Parser, Read, Value};
use crate::dsl::tokens::Token;
use crate::ir::{Binary, Expr, Routine, Shuffle, Slot, Type};
use thalweg_ir::{DType, ElementOp};

/// Binary operators by precedence, from the loosest on, as in C.
const OPERATORS: [&[&str]; 9] =
    [&["||"], &["&&"], &["|"], &["^"], &["&"], &["==", "!="], &["<", "<=", ">", ">="], &["<<", ">>"], &["+", "-"]];
const TIGHTEST: [&str; 3] = ["*", "/", "%"];

/// Binary operator of a token; `>` and `>=` are `<` and `<=` with swapped operands.
fn operator(sign: &str) -> Binary {
    match sign {
        "+" => Binary::Add,
        "-" => Binary::Sub,
        "*" => Binary::Mul,
        "/" => Binary::Div,
        "%" => Binary::Rem,
        "&" => Binary::BitAnd,
        "|" => Binary::BitOr,
        "^" => Binary::BitXor,
        "<<" => Binary::Shl,
        ">>" => Binary::Shr,
        "&&" => Binary::And,
        "||" => Binary::Or,
        "<" | ">" => Binary::Lt,
        "<=" | ">=" => Binary::Le,
        "==" => Binary::Eq,
        "!=" => Binary::Ne,
        other => unreachable!("{other} is no operator"),
    }
}

/// Elementwise operation of a binary operator on floats.
fn of_floats(op: Binary) -> Option<ElementOp> {
    Some(match op {
        Binary::Add => ElementOp::Add,
        Binary::Sub => ElementOp::Sub,
        Binary::Mul => ElementOp::Mul,
        Binary::Div => ElementOp::Div,
        Binary::Lt => ElementOp::Lt,
        Binary::Le => ElementOp::Le,
        Binary::Eq => ElementOp::Eq,
        Binary::Ne => ElementOp::Ne,
        _ => return None,
    })
}

fn free(n: i64) -> Value {
    Value { expr: Expr::Number(n, Type::I32), free: true }
}

fn typed(expr: Expr) -> Value {
    Value { expr, free: false }
}

impl Value {
    /// Value of an untyped literal; `None` for other expressions.
    pub(super) fn number(&self) -> Option<i64> {
        match self.expr {
            Expr::Number(n, _) if self.free => Some(n),
            _ => None,
        }
    }

    /// Converts to an expression; an untyped literal takes type `ty`.
    pub(super) fn like(self, ty: Type) -> Expr {
        if self.free { self.expr.to(ty) } else { self.expr }
    }
}

/// Constant folding of two untyped literals.
fn constant_folded(op: Binary, x: i64, y: i64) -> Option<i64> {
    Some(match op {
        Binary::Add => x.checked_add(y)?,
        Binary::Sub => x.checked_sub(y)?,
        Binary::Mul => x.checked_mul(y)?,
        Binary::Div => x.checked_div(y)?,
        Binary::Rem => x.checked_rem(y)?,
        Binary::BitAnd => x & y,
        Binary::BitOr => x | y,
        Binary::BitXor => x ^ y,
        Binary::Shl => x.checked_shl(u32::try_from(y).ok()?)?,
        Binary::Shr => x.checked_shr(u32::try_from(y).ok()?)?,
        Binary::And => i64::from(x != 0 && y != 0),
        Binary::Or => i64::from(x != 0 || y != 0),
        Binary::Lt => i64::from(x < y),
        Binary::Le => i64::from(x <= y),
        Binary::Ge => i64::from(x >= y),
        Binary::Eq => i64::from(x == y),
        Binary::Ne => i64::from(x != y),
    })
}

impl<'t> Parser<'t> {
    /// Parses an expression that has a type.
    pub(super) fn expression(&mut self) -> Read<Expr> {
        let value = self.value()?;
        if value.free { self.wrong(format!("{} meets nothing that says its type", value.expr)) } else { Ok(value.expr) }
    }

    /// Parses an expression; an untyped literal takes type `ty`.
    pub(super) fn of_type(&mut self, ty: Type) -> Read<Expr> {
        Ok(self.value()?.like(ty))
    }

    /// Parses an expression that must be a compile-time constant.
    pub(super) fn known(&mut self) -> Read<i64> {
        match self.value()?.number() {
            Some(n) => Ok(n),
            None => self.wrong("a number is wanted that is known here"),
        }
    }

    /// Parses a compile-time constant that is a count, such as a number of lanes.
    pub(super) fn number(&mut self) -> Read<u32> {
        let n = self.known()?;
        u32::try_from(n).or_else(|_| self.wrong(format!("{n} is no count")))
    }

    pub(super) fn value(&mut self) -> Read<Value> {
        let condition = self.binary(0)?;
        if !self.is("?") {
            return Ok(condition);
        }
        let yes = self.value()?;
        self.want(":")?;
        let no = self.value()?;
        if let Some(n) = condition.number() {
            return Ok(if n != 0 { yes } else { no });
        }
        let (yes, no) = self.alike(yes, no)?;
        Ok(typed(condition.expr.select(yes, no)))
    }

    /// Unifies the types of two operands: an untyped literal takes the type of the other one.
    fn alike(&self, x: Value, y: Value) -> Read<(Expr, Expr)> {
        match (x.free, y.free) {
            (true, true) => self.wrong(format!("{} and {} meet nothing that says their type", x.expr, y.expr)),
            (true, false) => Ok((x.expr.to(y.expr.ty()), y.expr)),
            _ => {
                let ty = x.expr.ty();
                Ok((x.expr, y.like(ty)))
            }
        }
    }

    fn binary(&mut self, level: usize) -> Read<Value> {
        let signs: &[&str] = OPERATORS.get(level).copied().unwrap_or(&TIGHTEST);
        let mut left = if level < OPERATORS.len() { self.binary(level + 1)? } else { self.unary()? };
        while let Token::Sign(sign) = self.ahead(0)
            && signs.contains(&sign)
        {
            self.at += 1;
            let mut right = if level < OPERATORS.len() { self.binary(level + 1)? } else { self.unary()? };
            if matches!(sign, ">" | ">=") {
                std::mem::swap(&mut left, &mut right);
            }
            left = self.both(operator(sign), left, right)?;
        }
        Ok(left)
    }

    /// Applies a binary operator, with constant folding and algebraic simplification.
    pub(super) fn both(&self, op: Binary, left: Value, right: Value) -> Read<Value> {
        if let (Some(x), Some(y)) = (left.number(), right.number()) {
            return constant_folded(op, x, y).map(free).map_or_else(|| self.wrong(format!("{x} {op} {y}")), Ok);
        }
        let (x, y) = self.alike(left, right)?;
        // Simplifications for constants that classes bind: `0 + x`, `x * 0`, `1 * x`.
        let is = |x: &Expr, n: i64| matches!(x, Expr::Number(m, _) if *m == n);
        if let Type::Held(dtype) = x.ty()
            && dtype.is_float()
        {
            let Some(op) = of_floats(op) else { return self.wrong(format!("{op} of {dtype}")) };
            return Ok(typed(Expr::Operation(op, dtype, vec![x, y])));
        }
        Ok(typed(match op {
            Binary::Add if is(&x, 0) => y,
            Binary::Add if is(&y, 0) => x,
            Binary::Mul if is(&y, 0) || is(&x, 1) => y,
            Binary::Mul if is(&x, 0) || is(&y, 1) => x,
            _ => Expr::Binary(op, Box::new([x, y])),
        }))
    }

    fn unary(&mut self) -> Read<Value> {
        if self.is("-") {
            let x = self.unary()?;
            return match x.expr.ty() {
                Type::Held(dtype) if dtype.is_float() => {
                    Ok(typed(Expr::Operation(ElementOp::Neg, dtype, vec![x.expr])))
                }
                _ => self.both(Binary::Sub, free(0), x),
            };
        }
        if self.is("~") {
            let x = self.unary()?;
            return match (x.number(), x.expr.ty()) {
                (Some(n), _) => Ok(free(!n)),
                (None, Type::U64) => Ok(typed(all_ones(x.expr, Expr::Constant(DType::U64, u64::MAX)))),
                (None, Type::U32) => Ok(typed(all_ones(x.expr, Expr::Constant(DType::U32, u64::from(u32::MAX))))),
                (None, ty) => self.wrong(format!("~ of {ty}")),
            };
        }
        if self.is("!") {
            let x = self.unary()?;
            return Ok(match x.number() {
                Some(n) => free(i64::from(n == 0)),
                None => typed(Expr::Operation(ElementOp::Not, DType::Bool, vec![x.expr])),
            });
        }
        self.primary()
    }

    fn primary(&mut self) -> Read<Value> {
        match self.next() {
            Token::Number(n) => {
                i64::try_from(n).map_or_else(|_| self.wrong(format!("{n} is too large")), |n| Ok(free(n)))
            }
            Token::Sign("(") => {
                let value = self.value()?;
                self.want(")")?;
                Ok(value)
            }
            Token::Name(name) => self.named(name),
            other => self.wrong(format!("a value is wanted, and not {other:?}")),
        }
    }

    fn named(&mut self, name: &'t str) -> Read<Value> {
        match name {
            "thread" => return Ok(typed(Expr::Thread)),
            "block" => return Ok(typed(Expr::Block)),
            "blocks" => return Ok(typed(Expr::Blocks)),
            "threads" => return Ok(typed(Expr::Threads)),
            "param" => {
                let param = self.param()?;
                let ty = param.kind().ty();
                return Ok(typed(param.read(ty)));
            }
            "matrix" => {
                self.want("(")?;
                let (of, at) = self.place()?;
                self.want(",")?;
                let leading = self.number()?;
                self.want(")")?;
                return Ok(typed(Expr::Matrix { of, at: Box::new(at), leading }));
            }
            "stored" => {
                self.at -= 1;
                let ty = self.ty()?;
                return self.converted(ty);
            }
            _ => {}
        }
        match self.meaning(name) {
            Some(Meaning::Value(value)) => Ok(value),
            Some(Meaning::Variable(own, ty)) => Ok(typed(Expr::Name(own, ty))),
            Some(Meaning::Elements(own, ty)) => match self.ahead(0) {
                Token::Sign("[") => Ok(typed(Expr::Element { of: own, at: self.indices()?, ty })),
                _ => Ok(typed(Expr::Whole(own, ty))),
            },
            Some(Meaning::Operand(own, ty, memory)) => {
                let at = Box::new(self.index()?);
                Ok(typed(match memory {
                    Memory::Ordered => Expr::Load(ty, own, at),
                    Memory::Scratch => Expr::Scratch(ty, own, at),
                }))
            }
            Some(Meaning::Ticket(own)) => Ok(typed(Expr::Drawn(own))),
            Some(Meaning::Type(ty)) => self.converted(ty),
            Some(Meaning::Function(f)) => {
                let args: Vec<Expr> = self.arguments()?.into_iter().map(|v| v.expr).collect();
                Ok(typed(f(&args)))
            }
            Some(Meaning::Fn(of)) => self.expanded(&of),
            Some(Meaning::Proc(_) | Meaning::Procedure(_) | Meaning::Given(_)) => {
                self.wrong(format!("`{name}` gives no value"))
            }
            None => self.routine(name),
        }
    }

    /// Parses the name of a kernel argument: `rows`, `dims[1].stride`.
    pub(super) fn param(&mut self) -> Read<Slot> {
        let mut name = self.name()?.to_string();
        loop {
            if self.is("[") {
                name += &format!("[{}]", self.number()?);
                self.want("]")?;
            } else if self.is(".") {
                name = name + "." + self.name()?;
            } else {
                return match self.params.get(&name) {
                    Some(slot) => Ok(slot.clone()),
                    None => self.wrong(format!("`{name}` is no kernel argument")),
                };
            }
        }
    }

    pub(super) fn arguments(&mut self) -> Read<Vec<Value>> {
        self.listed(Parser::value)
    }

    fn index(&mut self) -> Read<Expr> {
        self.want("[")?;
        let at = self.of_type(Type::I32)?;
        self.want("]")?;
        Ok(at)
    }

    pub(super) fn indices(&mut self) -> Read<Vec<Expr>> {
        let mut all = vec![];
        while self.ahead(0) == Token::Sign("[") {
            all.push(self.index()?);
        }
        Ok(all)
    }

    /// Parses a conversion to a type.
    fn converted(&mut self, ty: Type) -> Read<Value> {
        self.want("(")?;
        let value = self.value()?;
        self.want(")")?;
        if value.free && ty.is_index() {
            return Ok(typed(value.expr.to(ty)));
        }
        let whole = |d: DType| d.is_int() || d == DType::Bool;
        // A kernel argument is read directly as the requested type.
        let x = match value.expr {
            Expr::Convert(_, param) if ty.is_index() && matches!(*param, Expr::Param(_)) => *param,
            other => other,
        };
        Ok(typed(match (x.ty(), ty) {
            (same, ty) if same == ty => x,
            (Type::Stored(from), Type::Held(to)) if from == to => Expr::Unpack(from, Box::new(x)),
            (Type::Held(from), Type::Stored(to)) if from == to => Expr::Pack(to, Box::new(x)),
            (Type::Held(from), Type::Held(to)) if whole(from) && to.is_int() => Expr::Convert(ty, Box::new(x)),
            (Type::Held(from), Type::Held(to)) => Expr::Cast(from, to, Box::new(x)),
            (from, _) => return self.wrong(format!("{x} is {from}, which does not become {ty}")),
        }))
    }

    /// Expands a use of a `fn` macro to its expression.
    fn expanded(&mut self, of: &Macro<'t>) -> Read<Value> {
        let meanings = self.meanings(of)?;
        self.inside(of, meanings, |parser| {
            let value = parser.value()?;
            parser.want(";")?;
            Ok(value)
        })
    }

    /// Parses the arguments of a macro's use, and binds its parameters.
    pub(super) fn meanings(&mut self, of: &Macro<'t>) -> Read<rustc_hash::FxHashMap<&'t str, Meaning<'t>>> {
        self.want("(")?;
        let mut all = rustc_hash::FxHashMap::default();
        for (n, &parameter) in of.parameters.iter().enumerate() {
            if n > 0 {
                self.want(",")?;
            }
            // An argument that is not a value (a function or an array) is bound as such.
            let whole = match (self.ahead(0), self.ahead(1)) {
                (Token::Name(name), Token::Sign("," | ")")) => self.meaning(name),
                _ => None,
            };
            let meaning = match whole {
                Some(meaning) => {
                    self.at += 1;
                    meaning
                }
                None => Meaning::Value(self.value()?),
            };
            all.insert(parameter, meaning);
        }
        self.want(")")?;
        Ok(all)
    }

    /// Parses a call of a built-in routine.
    fn routine(&mut self, name: &str) -> Read<Value> {
        if self.ahead(0) != Token::Sign("(") {
            return self.wrong(format!("`{name}` is not declared"));
        }
        let args: Vec<Value> = self.arguments()?;
        let held = |x: &Value| match x.expr.ty() {
            Type::Held(dtype) => Ok(dtype),
            other => self.wrong(format!("{name} of {other}")),
        };
        let way = match name {
            "shuffle" => Some(Shuffle::From),
            "shuffle_up" => Some(Shuffle::Up),
            "shuffle_xor" => Some(Shuffle::Xor),
            _ => None,
        };
        Ok(typed(match (name, &args[..]) {
            (_, [x, by]) if way.is_some() => {
                let routine = Routine::Shuffle(way.unwrap_or(Shuffle::From), x.expr.ty());
                routine.of([x.expr.clone(), by.clone().like(Type::U32)])
            }
            ("ballot", [x]) => Routine::Ballot.of([x.expr.clone()]),
            ("ones", [x]) => Routine::Ones.of([x.expr.clone()]),
            ("any_of_block", [x]) => Routine::AnyOfBlock.of([x.expr.clone()]),
            ("any_of_warp", [x]) => Routine::AnyOfWarp.of([x.expr.clone()]),
            ("power_of_two", [x]) => Routine::PowerOfTwo.of([x.expr.clone()]),
            ("multiply_add", [x, y, z]) => {
                Routine::MultiplyAdd(held(x)?).of([x.expr.clone(), y.expr.clone(), z.expr.clone()])
            }
            ("further", [x, bytes]) => Routine::Further.of([x.expr.clone(), bytes.clone().like(Type::U32)]),
            ("exp", [x]) => Expr::Operation(ElementOp::Exp, held(x)?, vec![x.expr.clone()]),
            ("abs", [x]) => Expr::Operation(ElementOp::Abs, held(x)?, vec![x.expr.clone()]),
            ("larger", [x, y]) => Expr::Operation(ElementOp::Maximum, held(x)?, vec![x.expr.clone(), y.expr.clone()]),
            ("value", [x]) => match x.expr.ty() {
                Type::Stored(dtype) => Expr::Unpack(dtype, Box::new(x.expr.clone())),
                other => return self.wrong(format!("{} is {other}, and not stored", x.expr)),
            },
            ("bits", [x]) => {
                let dtype = held(x)?;
                let to = match dtype.size() {
                    8 => DType::U64,
                    4 => DType::U32,
                    2 => DType::U16,
                    _ => DType::U8,
                };
                Expr::Bitcast(dtype, to, Box::new(x.expr.clone()))
            }
            ("min", [x, y]) => {
                let (x, y) = self.alike(x.clone(), y.clone())?;
                x.clone().lt(y.clone()).select(x, y)
            }
            _ => return self.wrong(format!("there is no `{name}` of {} values", args.len())),
        }))
    }
}

fn all_ones(x: Expr, ones: Expr) -> Expr {
    Expr::Binary(Binary::BitXor, Box::new([x, ones]))
}
