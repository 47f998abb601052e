//! Operations with the user's own source.
//!
//! In: CUDA C++ with a named entry, and the block that it is launched with. Out: source of a function `foreign`, which
//! calls the entry with addresses, sizes and numbers from its argument words. So it is launched like all other kernels:
//! it waits for earlier work, is part of graphs, and runs on the emulator.
//!
//! Always true: an entry whose parameters differ from the operation's does not compile. Names of the source and of the
//! prelude do not collide: the source has a namespace of its own. Its functions that are marked `__global__` are
//! called, not launched. A block of several dimensions is launched as one dimension, with threads in the same order.

use super::print::argument;
use std::fmt::Write;
use thalweg_gpu::kernels::foreign::ForeignClass;
use thalweg_gpu::kernels::foreign::params::ForeignParams;
use thalweg_ir::{DType, ForeignCode};

/// Device code that converts arguments to the types of the entry's parameters.
const ARGUMENTS: &str = r#"template <class T> struct ThalwegType { enum { kind = 0, pointer = 0 }; };
template <> struct ThalwegType<float> { enum { kind = 1, pointer = 0 }; };
template <> struct ThalwegType<double> { enum { kind = 2, pointer = 0 }; };
template <class T> struct ThalwegType<const T> : ThalwegType<T> {};
template <class T> struct ThalwegType<T*> { enum { kind = 0, pointer = 1 }; };
template <int SIZE, int KIND> struct ThalwegElements {
  u64 at;
  template <class T> FN operator T*() const {
    static_assert(sizeof(T) == SIZE && int(ThalwegType<T>::kind) == KIND, "a parameter is no pointer to elements of its operand's or result's dtype");
    return (T*)at;
  }
};
template <class V> struct ThalwegNumber {
  V value;
  template <class T> FN operator T() const {
    static_assert(!int(ThalwegType<T>::pointer), "a parameter is a pointer where the operation has a size or a number");
    return (T)value;
  }
};
"#;

/// Source of a foreign kernel.
pub fn source(class: &ForeignClass) -> String {
    let (params, layout) = ForeignParams::new(class);
    let (s, k, [x, y, z]) = (class.of.source(), layout.words(), class.block);
    let ForeignCode::Cuda { text, entry } = &s.code else { unreachable!("a routine of a library has no source") };
    let mut out = format!(
        "template <int K> FN void thalweg_call(const Words<K> &a);\n\
         extern \"C\" __global__ void __launch_bounds__({}) foreign(THALWEG_PARAMETER({k})) {{\n  begin();\n  \
         thalweg_call<{k}>(a);\n}}\n{ARGUMENTS}",
        x * y * z
    );
    if y * z > 1 {
        let _ = write!(
            out,
            "FN uint3 thalweg_thread() {{\n  const u32 t = threadIdx.x;\n  uint3 at;\n  at.x = t % {x}; at.y = t / {x} % {y}; \
             at.z = t / {};\n  return at;\n}}\nFN uint3 thalweg_size() {{\n  uint3 of;\n  of.x = {x}; of.y = {y}; of.z = \
             {z};\n  return of;\n}}\n#undef threadIdx\n#undef blockDim\n#define threadIdx thalweg_thread()\n#define blockDim \
             thalweg_size()\n",
            x * y
        );
    }
    let shown: String = s.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let _ = write!(
        out,
        "#undef __global__\n#undef __launch_bounds__\n#define __global__ __device__\n#define __launch_bounds__(...)\n\
         namespace thalweg_source {{\n#line 1 \"{shown}\"\n{}\n}}\n#line 1 \"call\"\n\
         template <int K> FN void thalweg_call(const Words<K> &a) {{\n  thalweg_source::{entry}({});\n}}\n",
        text,
        arguments(class, &params).join(", ")
    );
    out
}

/// Argument expressions of the call of the user's entry: addresses, sizes and numbers.
fn arguments(class: &ForeignClass, params: &ForeignParams) -> Vec<String> {
    let s = class.of.source();
    let dtypes = s.operands.iter().chain(&s.results);
    let elements = params.operands.iter().chain(&params.results).zip(dtypes).map(|(param, dtype)| {
        let kind = match dtype {
            DType::F32 => 1,
            DType::F64 => 2,
            _ => 0,
        };
        format!("ThalwegElements<{}, {kind}>{{{}}}", dtype.size(), argument(&param.slot()))
    });
    let size = params.sizes.iter().map(|param| format!("ThalwegNumber<i64>{{(i64){}}}", argument(&param.slot())));
    let number = params.numbers.iter().zip(&s.numbers).map(|(param, dtype)| match (argument(&param.slot()), dtype) {
        (word, DType::F64) => format!("ThalwegNumber<double>{{__longlong_as_double((i64){word})}}"),
        (word, _) => format!("ThalwegNumber<i64>{{(i64){word}}}"),
    });
    elements.chain(size).chain(number).collect()
}
