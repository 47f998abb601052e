//! Map kernels: elementwise, one result a point.
//!
//! A thread takes `lanes` neighbouring points at a time, 16 bytes of the narrowest operand. It takes several such
//! vectors with all of their loads before the first use, so that enough loads are in flight for the memory bandwidth. A
//! block covers one range of the domain; the last one may be partial. Where an operand is contiguous along another
//! dimension than the result, a block covers a two-dimensional *tile* and a warp a part of it, in which both sides read
//! and write whole sectors of 32 bytes.

use crate::body::wanted;
use crate::emit::access::{Accesses, Stand};
use crate::emit::index::{decompose, offset};
use crate::emit::loops::Native;
use crate::emit::nodes::{Names, statements, value};
use crate::ir::{Expr, Kernel, Statement, Type, Unroll};
use crate::kernels::map::params::MapParams;
use crate::kernels::map::{BLOCK, MapClass, Tile};
use thalweg_kernel::Body;

/// Builds the kernel of a class key.
pub fn kernel(body: &Body, class: &MapClass, native: Native) -> Kernel {
    let (params, layout) = MapParams::new(class, body);
    let ty = Type::index(class.space.wide);
    let mut out = declared(body, class, &params);
    match class.tile {
        Some(tile) => out.extend(in_tile(class, &params, tile)),
        None => {
            let each = Expr::Number(i64::from(BLOCK) * i64::from(class.vectors), ty);
            out.push(Statement::Let("n".into(), params.vectors.read(ty)));
            out.push(Statement::Let("first".into(), Expr::Block.to(ty) * each + Expr::Thread.to(ty)));
        }
    }
    out.extend(vectors(body, class, &params, BLOCK, native, vec![]));
    Kernel { name: "map", block: BLOCK, blocks: None, params: layout, definitions: vec![], body: out }
}

/// Emits the declarations of the operands.
pub fn declared(body: &Body, class: &MapClass, params: &MapParams) -> Vec<Statement> {
    let accesses = Accesses { list: &body.accesses, class: &class.space, params: &params.body.space, tag: "" };
    let wants = wanted(body);
    let stored = |k: usize| body.stores.iter().any(|s| s.access as usize == k);
    accesses.declare(&|k| stored(k) || wants[k] != Default::default())
}

/// Emits the statements for a thread's vectors from index `first` up to `n`, with the block size as stride: loads,
/// nodes, `more` for each lane, and stores.
pub fn vectors(
    body: &Body,
    class: &MapClass,
    params: &MapParams,
    threads: u32,
    native: Native,
    more: Vec<Statement>,
) -> Vec<Statement> {
    let (space, u) = (&class.space, u32::from(class.vectors));
    let accesses = Accesses { list: &body.accesses, class: space, params: &params.body.space, tag: "" };
    let (wants, ty) = (wanted(body), Type::index(space.wide));
    let position = |k: usize| offset(space, &params.body.space, k, 0..space.rank(), "i").unwrap_or(Expr::Number(0, ty));
    let vector = || Expr::name("u", Type::I32);
    let stand = Stand {
        position: &position,
        point: Expr::name("j", ty).to(Type::I64) * Expr::Number(space.lanes.into(), Type::I64),
        step: Expr::Number(1, Type::I64),
        lanes: space.lanes as usize,
    };
    let fetched: Vec<usize> = (0..wants.len()).filter(|&k| wants[k].load || wants[k].position).collect();
    let mut out: Vec<Statement> =
        fetched.iter().flat_map(|&k| accesses.arrays(k, wants[k], stand.lanes, &[u])).collect();
    let extent = |d: usize| params.body.space.dims[d].read(Type::U32).to(Type::I32);
    let step = |inner: Vec<Statement>| {
        let turn = match class.tile {
            Some(Tile { dim, depth }) => {
                let (dim, last) = (dim as usize, space.rank() - 1);
                let (i, l) = (|| Expr::name(format!("i{dim}"), ty), Expr::name(format!("i{last}"), ty));
                let depth = Expr::Number(depth.into(), ty);
                let here = Expr::name(format!("first{dim}"), ty) + vector().to(ty) * depth;
                let inside = i().lt(extent(dim)).and(l.lt(extent(last)));
                vec![Statement::Let(format!("i{dim}"), here), Statement::when(inside, inner)]
            }
            None => {
                let apart = Expr::Number(threads.into(), ty);
                let here = Expr::name("first", ty) + vector().to(ty) * apart;
                let (j, n) = (Expr::name("j", ty), Expr::name("n", ty));
                let mut inside = decompose(space, &params.body.space, 0..space.rank(), j.clone(), "i");
                inside.extend(inner);
                vec![Statement::Let("j".into(), here), Statement::when(j.lt(n), inside)]
            }
        };
        Statement::count("u", u as usize, Unroll::All, turn)
    };
    let at = [vector()];
    if !fetched.is_empty() {
        out.push(step(fetched.iter().flat_map(|&k| accesses.fetch(k, wants[k], &stand, [&at, &at])).collect()));
    }
    let names = Names {
        load: &|k| accesses.element(k as usize, &at),
        index: &|k, dtype| accesses.position(k as usize, dtype, &at),
        valid: &|k| accesses.valid(k as usize, &at),
        gather: &|k, offset, inside| {
            accesses.gathered(k as usize, &stand, [offset, inside, params.fault.read(Type::U64)])
        },
        value: &|_, _| unreachable!("a map has no values of rows"),
        scalar: &|s| params.body.scalar(s),
        reciprocal: &|s| params.body.reciprocal(body, s),
        native,
    };
    let stores = || body.stores.iter().map(|s| (s.access as usize, s.node));
    let mut lane = statements(body, &names);
    lane.extend(more);
    lane.extend(stores().map(|(k, node)| accesses.set(k, value(body, node))));
    let mut inner: Vec<Statement> = stores().map(|(k, _)| accesses.result(k, stand.lanes)).collect();
    inner.push(Statement::lanes(stand.lanes, Unroll::All, lane));
    inner.extend(stores().map(|(k, _)| accesses.store(k, &stand)));
    out.push(step(inner));
    out
}

/// Emits the coordinates of a thread in a tile: `i{d}` for every dimension but the tile's outer dimension, along which
/// the thread's vectors begin at `first{dim}`.
fn in_tile(class: &MapClass, params: &MapParams, tile: Tile) -> Vec<Statement> {
    let (lane, dim) = (class.space.rank() - 1, tile.dim as usize);
    let tiles = params.tiles.as_ref().expect("a class with tiles has their numbers");
    let (ty, number) = (Type::index(class.space.wide), |n: usize| Expr::Number(n as i64, Type::U32));
    let [deep, wide] = tile.sizes(class.vectors);
    let depth = || number(tile.depth.into());
    let (quotient, remainder) = (|name: &str| Expr::Quotient(name.into()), |name: &str| Expr::Remainder(name.into()));
    let near = remainder("along") * number(wide) + Expr::Thread / depth();
    let far = remainder("across") * number(deep) + Expr::Thread % depth();
    let mut out = vec![
        Statement::Split { name: "along".into(), of: Expr::Block, param: tiles.along.slot() },
        Statement::Split { name: "across".into(), of: quotient("along"), param: tiles.across.slot() },
        Statement::Let(format!("i{lane}"), near.to(ty)),
        Statement::Let(format!("first{dim}"), far.to(ty)),
    ];
    let others: Vec<usize> = (0..lane).filter(|&d| d != dim).collect();
    let mut rest = quotient("across");
    for &d in others.iter().skip(1).rev() {
        let name = format!("is{d}");
        out.push(Statement::Split { name: name.clone(), of: rest, param: params.body.space.dims[d].slot() });
        out.push(Statement::Let(format!("i{d}"), remainder(&name).to(ty)));
        rest = quotient(&name);
    }
    out.extend(others.first().map(|d| Statement::Let(format!("i{d}"), rest.to(ty))));
    out
}
