//! Tests of the verifier: kernels with one violation each, and the expected messages.

use crate::ir::{Atomic, Routine, Unroll, *};
use thalweg_ir::ElementOp;

fn layout(arguments: &[(&str, Kind)]) -> Layout {
    let mut layout = Layout::named();
    for &(name, kind) in arguments {
        layout.field(name, |layout| layout.add(kind));
    }
    layout
}

/// Arguments of all kernels here.
fn arguments() -> Layout {
    layout(&[("at", Kind::Address), ("n", Kind::U32), ("by", Kind::Divisor)])
}

fn param(name: &str) -> Slot {
    arguments().find(name).expect("it is declared").clone()
}

fn check(body: Vec<Statement>) -> Result<(), String> {
    verify(&Kernel { name: "k", block: 64, blocks: None, params: arguments(), definitions: vec![], body })
}

fn number(n: i64) -> Expr {
    Expr::Number(n, Type::I32)
}

fn loops(below: Expr, body: Vec<Statement>) -> Statement {
    let (from, step) = (Expr::Number(0, below.ty()), Expr::Number(1, below.ty()));
    Statement::For(For { name: "i".into(), ty: below.ty(), from, below, step, unroll: Unroll::Free, body })
}

fn operand() -> Statement {
    Statement::Operand { name: "p0".into(), ty: Type::Stored(DType::F32), param: param("at") }
}

fn registers() -> Statement {
    Statement::Registers { name: "r".into(), ty: Type::Stored(DType::F32), shape: vec![2, 4] }
}

fn element(first: Expr, second: Expr) -> Expr {
    Expr::Element { of: "r".into(), at: vec![first, second], ty: Type::Stored(DType::F32) }
}

#[test]
fn valid_kernels_pass() {
    let load = Expr::Load(Type::Stored(DType::F32), "p0".into(), Box::new(number(3)));
    let value = Expr::Unpack(DType::F32, Box::new(element(number(1), number(3))));
    let body = vec![
        operand(),
        registers(),
        loops(number(2), vec![Statement::Set(element(Expr::name("i", Type::I32), number(0)), load)]),
        Statement::LoadVector { to: ("r".into(), vec![number(1)]), operand: "p0".into(), at: number(0), fresh: false },
        Statement::Let("x".into(), value),
        Statement::Barrier,
        loops(param("n").read(Type::U32), vec![Statement::Barrier]),
    ];
    assert_eq!(check(body), Ok(()));
}

#[test]
fn violations_have_messages() {
    let x = || Expr::name("x", Type::I32);
    let mine = || Expr::Thread.lt(Expr::Number(8, Type::U32));
    let float = || Expr::Constant(DType::F32, 0);
    let other = layout(&[("at", Kind::Address), ("other", Kind::U32)]).find("other").expect("it is declared").clone();
    let cases: Vec<(Vec<Statement>, &str)> = vec![
        (vec![Statement::Let("y".into(), x())], "k: `x` is not declared"),
        (
            vec![Statement::Let("x".into(), number(0)), Statement::Let("x".into(), number(1))],
            "k: `x` is declared twice",
        ),
        (vec![Statement::Let("x".into(), number(0)), Statement::Set(x(), number(1))], "k: `x` does not change"),
        (vec![Statement::Let("x".into(), Expr::Thread), Statement::Let("y".into(), x())], "k: `x` is u32, not i32"),
        (vec![Statement::Let("y".into(), number(0) + Expr::Thread)], "k: thread is u32 where i32 is wanted"),
        (vec![Statement::Let("y".into(), float() + float())], "k: f32 0x0 is f32, which has no Add"),
        (vec![Statement::Let("y".into(), other.read(Type::U64))], "k: `other` is no argument"),
        (
            vec![Statement::Split { name: "s".into(), of: Expr::Block, param: param("n") }],
            "k: `n` is U32, where [Divisor] is wanted",
        ),
        (
            vec![registers(), Statement::Let("y".into(), element(number(2), number(0)))],
            "k: index 2 of `r`, which has 2",
        ),
        (
            vec![operand(), Statement::Store { operand: "p0".into(), at: number(0), value: float() }],
            "k: f32 0x0 is f32 where stored f32 is wanted",
        ),
        (
            vec![
                Statement::Let("x".into(), number(0)),
                Statement::Scope(vec![Statement::Let("x".into(), x() + number(1))]),
            ],
            "k: `x` is declared by what has its name",
        ),
        (vec![Statement::Break], "k: a break is in no loop"),
        (
            vec![Statement::Let("y".into(), Expr::Operation(ElementOp::Add, DType::F32, vec![float()]))],
            "k: add takes 2 arguments",
        ),
        (
            vec![
                operand(),
                Statement::Atomic {
                    op: Atomic::Add,
                    name: "p0".into(),
                    at: number(0),
                    value: Expr::Number(1, Type::U64),
                    before: None,
                },
            ],
            "k: 1 is u64 where elements are f32",
        ),
    ];
    for (body, what) in cases {
        assert_eq!(check(body), Err(what.to_string()));
    }
    let late = "k: some threads of a block do not come to a barrier";
    let barriers = [
        vec![Statement::when(mine(), vec![Statement::Barrier])],
        vec![Statement::when(mine(), vec![Statement::Return]), Statement::Barrier],
        vec![loops(Expr::Thread, vec![Statement::Barrier])],
        vec![
            Statement::Variable("x".into(), number(0)),
            Statement::when(mine(), vec![Statement::Set(x(), number(1))]),
            Statement::when(x().lt(number(1)), vec![Statement::Barrier]),
        ],
        vec![loops(number(9), vec![Statement::when(mine(), vec![Statement::Break]), Statement::Barrier])],
    ];
    for body in barriers {
        assert_eq!(check(body), Err(late.to_string()));
    }
}

#[test]
fn barriers_after_divergent_returns() {
    let late = Err("k: some threads of a block do not come to a barrier".to_string());
    let mine = || Expr::Thread.lt(Expr::Number(8, Type::U32));
    let leaves = || Statement::when(mine(), vec![Statement::Return]);
    let all = || param("n").read(Type::U32).lt(Expr::Number(3, Type::U32));
    // In a loop, in uniform control flow, and in the iteration before.
    assert_eq!(check(vec![loops(number(2), vec![leaves()]), Statement::Barrier]), late);
    assert_eq!(check(vec![Statement::when(all(), vec![leaves()]), Statement::Barrier]), late);
    assert_eq!(check(vec![loops(number(2), vec![Statement::Barrier, leaves()])]), late);
    // Barriers are reached where all threads return, or none does.
    assert_eq!(check(vec![Statement::when(all(), vec![Statement::Return]), Statement::Barrier]), Ok(()));
    let other = vec![Statement::Barrier];
    assert_eq!(check(vec![Statement::If(all(), vec![leaves()], other.clone())]), late);
    assert_eq!(check(vec![Statement::If(all(), other, vec![leaves()])]), Ok(()));
}

#[test]
fn conditions_around_collective_routines() {
    let late = Err("k: some threads of a block do not come to what all of them tell".to_string());
    let mine = || Expr::Thread.lt(Expr::Number(8, Type::U32));
    let all = || Expr::Block.lt(Expr::Number(8, Type::U32));
    let any = || Routine::AnyOfBlock.of([mine()]);
    let says = |value: Expr| check(vec![Statement::Let("y".into(), value)]);
    assert_eq!(says(mine().and(any())), late);
    assert_eq!(says(mine().or(any())), late);
    assert_eq!(says(mine().select(any(), all())), late);
    assert_eq!(says(any().and(mine())), Ok(()));
    assert_eq!(says(all().and(any())), Ok(()));
    // A thread that breaks does not evaluate the next iteration's condition.
    let broken = vec![Statement::when(mine(), vec![Statement::Break])];
    assert_eq!(check(vec![Statement::While(any(), broken)]), late);
    assert_eq!(check(vec![Statement::While(any(), vec![Statement::Barrier])]), Ok(()));
}

#[test]
fn arguments_at_an_offset() {
    let late = Err("k: some threads of a block do not come to a barrier".to_string());
    let barrier = || loops(param("n").read(Type::U32), vec![Statement::Barrier]);
    assert_eq!(check(vec![Statement::Within(Expr::Thread, vec![barrier()])]), late);
    assert_eq!(check(vec![Statement::Within(Expr::Block, vec![barrier()])]), Ok(()));
    let mine = || Expr::Thread.lt(Expr::Number(8, Type::U32));
    let broken = Statement::Within(Expr::Block, vec![Statement::when(mine(), vec![Statement::Break])]);
    assert_eq!(check(vec![loops(number(9), vec![broken, Statement::Barrier])]), late);
}

#[test]
fn names_places_and_numbers_that_are_wrong() {
    let x = || Expr::name("i", Type::I32);
    let twice = |what: &str| format!("k: `{what}` is declared by what has its name");
    let split = |of| Statement::Split { name: "s".into(), of, param: param("by") };
    let stored = Type::Stored(DType::F32);
    let constants = || Statement::Constants { name: "p0".into(), ty: stored, param: param("at") };
    let vector = |first| ("r".to_string(), vec![number(first)]);
    let add = |name: &str| Statement::Atomic {
        op: Atomic::Add,
        name: name.into(),
        at: number(0),
        value: Expr::Number(1, Type::U32),
        before: None,
    };
    let bytes = || Statement::Shared { name: "b".into(), ty: Type::Stored(DType::U8), shape: vec![32] };
    let part = |ty, n, at| Statement::SharedPart { name: "q".into(), ty, shape: vec![n], of: "b".into(), at };
    let cases: Vec<(Vec<Statement>, String)> = vec![
        (vec![Statement::Let("i".into(), number(3)), loops(x(), vec![])], twice("i")),
        (vec![split(Expr::Block), Statement::Scope(vec![split(Expr::Quotient("s".into()))])], twice("s")),
        (vec![loops(number(3), vec![Statement::Let("i".into(), number(1))])], "k: `i` is declared twice".into()),
        (
            vec![
                constants(),
                registers(),
                Statement::StoreVector { operand: "p0".into(), at: number(0), from: vector(0) },
            ],
            "k: `p0` is constant".into(),
        ),
        (
            vec![
                operand(),
                registers(),
                Statement::LoadVector { to: vector(2), operand: "p0".into(), at: number(0), fresh: false },
            ],
            "k: index 2 of `r`, which has 2".into(),
        ),
        (vec![registers(), add("r")], "k: `r` has no elements that others may change".into()),
        (vec![Statement::Let("y".into(), number(1 << 31))], "k: 2147483648 is no i32".into()),
        (
            vec![Statement::Let("y".into(), Expr::Convert(stored, Box::new(number(1))))],
            "k: 1 does not become stored f32".into(),
        ),
        (
            vec![Statement::Let("y".into(), Expr::Bitcast(DType::U32, DType::F64, Box::new(Expr::Thread)))],
            "k: the bits of u32 are no f64".into(),
        ),
        (vec![bytes(), part(Type::U32, 8, 2)], "k: `q` begins at 2, between elements".into()),
        (vec![bytes(), part(Type::U32, 1 << 30, 0)], "k: `q` ends 4294967296 bytes behind the begin of `b`".into()),
        (vec![bytes(), part(Type::Held(DType::BF16), 16, 0)], "k: `q` ends 64 bytes behind the begin of `b`".into()),
    ];
    for (body, what) in cases {
        assert_eq!(check(body), Err(what));
    }
}
