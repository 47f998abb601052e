//! Sort keys of elements: unsigned integers that compare like the elements.

use crate::dsl::Text;
use crate::ir::{Binary, Expr, Type};
use crate::kernels::sort::SortClass;
use thalweg_ir::{DType, ElementOp, ScanOp};

/// Whether keys take 64 bits.
pub fn is_wide(dtype: DType) -> bool {
    dtype.size() == 8
}

/// Unsigned integer dtype of the sort key of elements of a dtype.
fn key_type(dtype: DType) -> DType {
    if is_wide(dtype) { DType::U64 } else { DType::U32 }
}

/// Sort key of an element, in as many low bytes as the element has: NaN is the largest, zeros are equal.
fn key_of(dtype: DType, raw: Expr) -> Expr {
    let key = key_type(dtype);
    let constant = |bits: u64| Expr::Constant(key, bits);
    let with = |op, x, y| Expr::Binary(op, Box::new([x, y]));
    let value = Expr::Unpack(dtype, Box::new(raw));
    let size = 8 * dtype.size();
    let (all, high) = (u64::MAX >> (64 - size), 1u64 << (size - 1));
    if dtype.is_float() {
        let compute = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let narrow = dtype != compute;
        let own = if narrow { Expr::Cast(dtype, compute, Box::new(value.clone())) } else { value.clone() };
        let unsigned = if narrow { DType::U16 } else { key };
        let bits = Expr::Bitcast(dtype, unsigned, Box::new(value)).to(Type::Held(key));
        let of = |op, args| Expr::Operation(op, compute, args);
        let is_nan = of(ElementOp::IsNan, vec![own.clone()]);
        let is_zero = of(ElementOp::Eq, vec![own, Expr::Constant(compute, 0)]);
        let below_zero = with(Binary::Ge, bits.clone(), constant(high));
        let turned = with(Binary::BitXor, bits.clone(), constant(all));
        let above = with(Binary::BitOr, bits, constant(high));
        return is_nan.select(constant(all), is_zero.select(constant(high), below_zero.select(turned, above)));
    }
    let number = value.to(Type::Held(key));
    let unsigned = matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool);
    match dtype {
        _ if unsigned => number,
        // Masks the sign extension.
        DType::I8 | DType::I16 => with(Binary::BitXor, with(Binary::BitAnd, number, constant(all)), constant(high)),
        _ => with(Binary::BitXor, number, constant(high)),
    }
}

/// DSL environment of the sorts: types of elements and keys, and `key_of`.
pub(crate) fn keys(class: &SortClass) -> Text<'static> {
    let (dtype, descending) = (class.dtype, class.descending);
    let key = key_type(dtype);
    let most = Expr::Constant(key, if is_wide(dtype) { u64::MAX } else { u32::MAX.into() });
    let largest = most.clone();
    let argsort = class.op == ScanOp::Argsort;
    Text::new()
        .ty("S", Type::Stored(dtype))
        .ty("Key", Type::Held(key))
        .ty("Result", Type::Stored(if argsort { DType::I64 } else { dtype }))
        .holds("PLACES", argsort)
        .function("largest", move |_| largest.clone())
        .function("key_of", move |x| {
            let key = key_of(dtype, x[0].clone());
            if descending { Expr::Binary(Binary::BitXor, Box::new([key, most.clone()])) } else { key }
        })
}
