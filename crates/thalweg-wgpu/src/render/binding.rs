//! Type by which a kernel binds global memory, from its loads and stores.

use super::types::size;
use std::collections::BTreeMap;
use thalweg_gpu::ir::{For, Statement, Type};

/// Type by which a kernel binds global memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// Words of 32 bits.
    Words,
    /// Vectors of 16 bytes, where the kernel loads or stores whole ones.
    Vectors,
    /// Words that are accessed by atomic operations, because threads share them.
    Atomic,
}

/// Whether a vector of that many elements consists of vectors of 16 bytes, to which it is aligned.
pub fn is_of_vectors(lanes: u32, ty: Type) -> bool {
    (lanes * size(ty) as u32).is_multiple_of(16)
}

/// Whether a body loads or stores vectors of 16 bytes.
pub fn has_vectors(body: &[Statement]) -> bool {
    let (mut vectors, mut types, mut found) = (BTreeMap::new(), BTreeMap::new(), false);
    // Names of one kernel mean one type of elements.
    each_statement(body, &mut |s| match s {
        Statement::Registers { name, shape, .. } => {
            vectors.insert(name.clone(), shape.last().copied().unwrap_or(1));
        }
        Statement::Operand { name, ty, .. } | Statement::Constants { name, ty, .. } => {
            types.insert(name.clone(), *ty);
        }
        _ => {}
    });
    each_statement(body, &mut |s| {
        if let Statement::LoadVector { to: (vector, _), operand, .. }
        | Statement::StoreVector { from: (vector, _), operand, .. } = s
            && let (Some(&lanes), Some(&ty)) = (vectors.get(vector), types.get(operand))
        {
            found |= is_of_vectors(lanes, ty);
        }
    });
    found
}

/// Calls `f` for each statement of a body, at any depth.
pub fn each_statement(body: &[Statement], f: &mut impl FnMut(&Statement)) {
    for statement in body {
        f(statement);
        match statement {
            Statement::If(_, then, otherwise) => {
                each_statement(then, f);
                each_statement(otherwise, f);
            }
            Statement::For(For { body, .. }) | Statement::While(_, body) | Statement::Scope(body) => {
                each_statement(body, f);
            }
            _ => {}
        }
    }
}
