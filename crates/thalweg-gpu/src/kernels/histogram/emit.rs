//! Histograms: sums of integers in tables in shared memory (privatization).
//!
//! In: the index of each point, and the addend: one number for all points, or an element for each. Out: a launch in
//! which every block has a table of all bins in shared memory, adds its points to it, and adds the table to the result
//! at the end. If the addend is one number, the table counts points, and counts are multiplied at the end. Where bins
//! are few, a block has several tables, so that fewer threads update one word; the copies of a bin are neighbours, one
//! for each of as many neighbouring threads.
//!
//! Always true: sums of integers wrap, so they do not depend on the order.

use crate::emit::loops::Native;
use crate::emit::nodes::value;
use crate::ir::{Atomic, Expr, For, Kernel, Statement, Type, Unroll};
use crate::kernels::histogram::params::HistogramParams;
use crate::kernels::histogram::{Addend, BLOCK, HistogramClass};
use crate::kernels::map;
use thalweg_kernel::Body;

fn number(n: i64) -> Expr {
    Expr::Number(n, Type::U32)
}

fn u32(name: &str) -> Expr {
    Expr::name(name, Type::U32)
}

/// Emits an atomic addition to a word of the table in shared memory.
fn add(at: Expr, value: Expr, before: Option<&str>) -> Statement {
    Statement::Atomic { op: Atomic::Add, name: "table".into(), at, value, before: before.map(Into::into) }
}

/// Builds the kernel of a class key.
pub fn kernel(body: &Body, class: &HistogramClass, native: Native) -> Kernel {
    let (params, layout) = HistogramParams::new(class, body);
    let ty = Type::index(class.map.space.wide);
    // A 64-bit sum is two 32-bit halves, in two ranges of the table: there are no 64-bit additions in shared memory.
    let wide = class.size() == 8;
    let words = if wide { number(2) * u32("places") } else { u32("places") };
    let element = |at: Expr| Expr::Element { of: "table".into(), at: vec![at], ty: Type::U32 };
    let each = |name: &str, below: Expr, body| {
        let (name, ty, from, step) = (name.into(), Type::U32, Expr::Thread, number(BLOCK.into()));
        Statement::For(For { name, ty, from, below, step, unroll: Unroll::Free, body })
    };
    let mut out = vec![
        Statement::Shared { name: "table".into(), ty: Type::U32, shape: vec![] },
        Statement::Let("places".into(), params.bins.read(Type::U32)),
        Statement::Let("tables".into(), params.tables.read(Type::U32)),
        each("i", words * u32("tables"), vec![Statement::Set(element(u32("i")), number(0))]),
        Statement::Barrier,
        Statement::Let("own".into(), Expr::Thread.bits(u32("tables") - number(1))),
    ];
    out.extend(map::emit::declared(body, &class.map, &params.map));
    out.push(Statement::Let("n".into(), params.map.vectors.read(ty)));
    let lane = count(body, class, wide, params.map.fault.read(Type::U64));
    let block = || Expr::Number(i64::from(BLOCK) * i64::from(class.map.vectors), ty);
    out.push(Statement::For(For {
        name: "first".into(),
        ty,
        from: Expr::Block.to(ty) * block() + Expr::Thread.to(ty),
        below: Expr::name("n", ty),
        step: Expr::Blocks.to(ty) * block(),
        unroll: Unroll::Free,
        body: map::emit::vectors(body, &class.map, &params.map, BLOCK, native, lane),
    }));
    out.push(Statement::Barrier);
    out.push(Statement::Operand { name: "to".into(), ty: Type::Stored(class.dtype), param: params.result.slot() });
    let sum = if class.dtype.size() == 8 { Type::U64 } else { Type::U32 };
    let mut factor = None;
    if class.added == Addend::Same {
        out.push(Statement::Operand {
            name: "value".into(),
            ty: Type::Stored(class.dtype),
            param: params.value.slot(),
        });
        let load = Expr::Load(Type::Stored(class.dtype), "value".into(), Box::new(Expr::Number(0, Type::I64)));
        factor = Some(Expr::Unpack(class.dtype, Box::new(load)).to(sum));
    }
    out.push(each("i", u32("places"), give_out(wide, sum, factor, params.stride.read(Type::I64))));
    Kernel { name: "scatter", block: BLOCK, blocks: None, params: layout, definitions: vec![], body: out }
}

/// Emits the update of the table for the index of a lane.
fn count(body: &Body, class: &HistogramClass, wide: bool, fault: Expr) -> Vec<Statement> {
    let u64 = |name: &str| Expr::name(name, Type::U64);
    let at = |place: Expr| u32("own") + place.to(Type::U32) * u32("tables");
    let mut inside = vec![];
    match class.added {
        Addend::Same => inside.push(add(at(u64("place")), number(1), None)),
        Addend::Element(node) if wide => {
            let (low, high, before) = (u32("low"), u32("high"), u32("before"));
            let carry = (before + low.clone()).lt(low.clone()).select(number(1), number(0));
            let half = Expr::Binary(crate::ir::Binary::Shr, Box::new([u64("more"), Expr::Number(32, Type::U64)]));
            inside.extend([
                Statement::Let("more".into(), value(body, node).to(Type::U64)),
                Statement::Let("low".into(), u64("more").to(Type::U32)),
                add(at(u64("place")), low, Some("before")),
                Statement::Let("high".into(), half.to(Type::U32) + carry),
                Statement::when(
                    high.clone().ge(number(1)),
                    vec![add(at(u64("place") + u32("places").to(Type::U64)), high, None)],
                ),
            ]);
        }
        Addend::Element(node) => inside.push(add(at(u64("place")), value(body, node).to(Type::U32), None)),
    }
    let place = value(body, class.index).to(Type::I64).to(Type::U64);
    vec![
        Statement::Let("place".into(), place),
        Statement::If(u64("place").lt(u32("places").to(Type::U64)), inside, vec![Statement::Fault(fault)]),
    ]
}

/// Emits the reduction of a bin's copies, the multiplication by the factor, and the addition to the result.
fn give_out(wide: bool, ty: Type, factor: Option<Expr>, stride: Expr) -> Vec<Statement> {
    let own = if wide { Type::U64 } else { Type::U32 };
    let sum = || Expr::name("sum", own);
    let element = |place: Expr| {
        let at = place * u32("tables") + u32("k");
        Expr::Element { of: "table".into(), at: vec![at], ty: Type::U32 }
    };
    let term = if wide {
        // The upper half times 2³².
        let upper = element(u32("places") + u32("i")).to(Type::U64);
        element(u32("i")).to(Type::U64) + upper * Expr::Number(1 << 32, Type::U64)
    } else {
        element(u32("i"))
    };
    let turns = For {
        name: "k".into(),
        ty: Type::U32,
        from: number(0),
        below: u32("tables"),
        step: number(1),
        unroll: Unroll::Free,
        body: vec![Statement::Set(sum(), sum() + term)],
    };
    let value = factor.into_iter().fold(sum().to(ty), |value, factor| value * factor);
    let at = u32("i").to(Type::I64) * stride;
    let to = Statement::Atomic { op: Atomic::Add, name: "to".into(), at, value, before: None };
    vec![
        Statement::Variable("sum".into(), Expr::Number(0, own)),
        Statement::For(turns),
        Statement::when(sum().ge(Expr::Number(1, own)), vec![to]),
    ]
}
