//! Matrix products: by the library that the driver has, else by threads (`render/matmul.rs`).

use crate::compiler::Compiler;
use crate::launch::Word;
use crate::plan::{Draft, Plan, blocks};
use crate::product;
use crate::render::UnitKey;
use crate::render::matmul::{HEAD, MatmulClass, TILE};
use crate::space::divisor;
use thalweg_ir::DType;
use thalweg_kernel::{MatmulGeometry, Precision};

/// Adds a product that a library computes; `false` where none does.
pub fn add_product(
    plan: &mut Plan,
    dtype: DType,
    precision: Precision,
    geometry: &MatmulGeometry,
    compiler: &Compiler,
) -> bool {
    let Some(launches) = product::launches(dtype, precision, geometry) else { return false };
    let Some((unit, workspace)) = compiler.product(&launches.product) else { return false };
    let block = (workspace > 0).then_some(plan.scratch.len() as u16);
    plan.scratch.extend(block.map(|_| workspace));
    for [a, b, c] in launches.places {
        // Our right operand is the library's left side.
        let mut patches = vec![(0, Word::Operand(1, b)), (1, Word::Operand(0, a)), (2, Word::Operand(2, c))];
        patches.extend(block.map(|block| (3, Word::Scratch(block, 0))));
        let words = vec![0; product::WORDS];
        plan.stages.push(Draft { unit: unit.clone(), grid: [1; 3], block: 1, shared: 0, words, patches });
    }
    needs(plan, dtype, geometry);
    true
}

/// Adds a product `c = a·b`, operands in this order.
pub fn add(plan: &mut Plan, dtype: DType, g: &MatmulGeometry, compiler: &Compiler) {
    let class = MatmulClass { dtype, batch: g.batch.len() as u8 };
    let mut words = vec![0u64; HEAD + 4 * g.batch.len() + 1];
    words[3..6].copy_from_slice(&[g.m, g.n, g.k].map(|v| v as u64));
    words[6..10].copy_from_slice(&[g.a.1, g.a.2, g.b.1, g.b.2].map(|v| v as u64));
    for (i, &(d, a, b)) in g.batch.iter().enumerate() {
        let [w, s] = divisor(d.max(1));
        words[HEAD + 4 * i..][..4].copy_from_slice(&[w, s, a as u64, b as u64]);
    }
    let size = dtype.size() as i64;
    let patches = vec![
        (0, Word::Operand(0, g.a.0 as i64 * size)),
        (1, Word::Operand(1, g.b.0 as i64 * size)),
        (2, Word::Operand(2, 0)),
    ];
    needs(plan, dtype, g);
    let products: usize = g.batch.iter().map(|b| b.0).product();
    words[HEAD + 4 * g.batch.len()] = products as u64;
    let grid = [blocks(g.n, TILE), blocks(g.m, TILE).min(65_535), u32::try_from(products).unwrap_or(1).min(65_535)];
    let unit = compiler.unit(UnitKey::Matmul(class));
    plan.stages.push(Draft { unit, grid, block: 256, shared: 0, words, patches });
}

/// Takes down the bytes that operands of a product must have.
fn needs(plan: &mut Plan, dtype: DType, g: &MatmulGeometry) {
    for (o, reach) in g.reach.iter().enumerate() {
        plan.needs.extend(reach.map(|(_, high)| (o as u16, (high + 1) * dtype.size())));
    }
    let products: usize = g.batch.iter().map(|b| b.0).product();
    plan.needs.push((2, products * g.m * g.n * dtype.size()));
}
