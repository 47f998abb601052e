//! Test launches: random memory and arguments of a call, and its reference evaluation from the operation table.

use super::super::{Isa, Options, compile_with};
use super::Rng;
use super::memory::Fenced;
use crate::row_call::{ACCESS_WORDS, Rows};
use thalweg_ir::{Compute, DType, ElementOp, Scalar};
use thalweg_kernel::{AccessClass, Body, Node, NodeId, reference};

/// Exact value of an element: floats as f64, integers and bool as i64, sign- or zero-extended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    F(f64),
    I(i64),
}

impl Value {
    fn f(self) -> f64 {
        match self {
            Value::F(v) => v,
            Value::I(_) => panic!("a float was expected"),
        }
    }
    fn i(self) -> i64 {
        match self {
            Value::I(v) => v,
            Value::F(_) => panic!("an integer was expected"),
        }
    }
}

pub fn read(p: &[u8], dtype: DType) -> Value {
    macro_rules! le {
        ($t:ty) => {
            <$t>::from_le_bytes(p[..size_of::<$t>()].try_into().unwrap())
        };
    }
    match dtype {
        DType::F32 => Value::F(le!(f32) as f64),
        DType::F64 => Value::F(le!(f64)),
        DType::BF16 => Value::F(half::bf16::from_bits(le!(u16)).to_f64()),
        DType::F16 => Value::F(half::f16::from_bits(le!(u16)).to_f64()),
        DType::I8 => Value::I(le!(i8) as i64),
        DType::I16 => Value::I(le!(i16) as i64),
        DType::I32 => Value::I(le!(i32) as i64),
        DType::I64 => Value::I(le!(i64)),
        DType::U8 | DType::Bool => Value::I(le!(u8) as i64),
        DType::U16 => Value::I(le!(u16) as i64),
        DType::U32 => Value::I(le!(u32) as i64),
        DType::U64 => Value::I(le!(i64)),
    }
}

/// Rounds to the nearest value of a float dtype. (`half` truncates the low 32 bits of a double before it rounds to 16
/// bits, which misjudges near-ties; rounding the double to odd in f32 first preserves the deciding bits.)
fn round(dtype: DType, v: f64) -> f64 {
    if !matches!(dtype, DType::BF16 | DType::F16) {
        return dtype.round(v);
    }
    let near = v as f32;
    let toward_zero = near.to_bits() - ((near as f64).abs() > v.abs()) as u32;
    let odd = f32::from_bits(toward_zero | (near as f64 != v) as u32);
    match dtype {
        DType::BF16 => half::bf16::from_f32(odd).to_f64(),
        _ => half::f16::from_f32(odd).to_f64(),
    }
}

/// Converts a value; u64 integers are represented by their bits.
fn convert(v: Value, from: DType, to: DType) -> Value {
    match (v, to.compute()) {
        (Value::F(x), Compute::Mask) => Value::I((x != 0.0) as i64),
        (Value::I(x), Compute::Mask) => Value::I((x != 0) as i64),
        (Value::F(x), Compute::F32 | Compute::F64) => Value::F(round(to, x)),
        (Value::I(x), Compute::F32) if to == DType::F32 && from == DType::U64 => Value::F(x as u64 as f32 as f64),
        (Value::I(x), Compute::F32 | Compute::F64) if from == DType::U64 => Value::F(round(to, x as u64 as f64)),
        (Value::I(x), Compute::F32) if to == DType::F32 => Value::F(x as f32 as f64),
        (Value::I(x), Compute::F32 | Compute::F64) => Value::F(round(to, x as f64)),
        (Value::F(x), _) => {
            let (lo, hi) = to.int_range();
            Value::I((x as i128).clamp(lo, hi) as i64)
        }
        (Value::I(x), _) => Value::I(to.wrap(x)),
    }
}

/// Converts a value to the bytes of an element; the vector has 8 bytes, whatever the dtype's size.
fn bytes(v: Value, dtype: DType) -> Vec<u8> {
    let bits = match (v, dtype) {
        (Value::F(x), DType::F32) => (x as f32).to_bits() as u64,
        (Value::F(x), DType::BF16) => half::bf16::from_f64(x).to_bits() as u64,
        (Value::F(x), DType::F16) => half::f16::from_f64(x).to_bits() as u64,
        (Value::F(x), _) => x.to_bits(),
        (Value::I(x), _) => x as u64,
    };
    bits.to_le_bytes().to_vec()
}

/// Memory and arguments of a test call.
pub struct Launch {
    pub n: usize,
    pub rows: usize,
    pub buffers: Vec<Option<Fenced>>,
    tables: Vec<Vec<i32>>,
    pub args: Vec<u64>,
}

/// Generates the bytes of a random element: a special value, a small number, or random bits.
pub fn random_element(r: &mut Rng, dtype: DType) -> Vec<u8> {
    let special =
        [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-40, 3e9, -3e9, 1e20];
    let small = [0i64, 1, -1, 2, 7, -7, 31, 32, i64::MAX, i64::MIN, 1 << 31, 255, 100, 33, 64];
    let float = match r.below(4) {
        0 => r.pick(&special),
        1 => r.below(2000) as f64 / 16.0 - 60.0,
        2 => f32::from_bits(r.next() as u32) as f64,
        _ => (r.next() as i64 as f64) / (1u64 << 60) as f64,
    };
    let int = if r.below(2) == 0 { r.pick(&small) } else { r.next() as i64 >> r.below(60) };
    match dtype {
        DType::F32 => (float as f32).to_le_bytes().to_vec(),
        DType::F64 => float.to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f64(float).to_le_bytes().to_vec(),
        DType::F16 => half::f16::from_f64(float).to_le_bytes().to_vec(),
        DType::Bool => vec![(int & 1) as u8],
        _ => int.to_le_bytes()[..dtype.size()].to_vec(),
    }
}

impl Launch {
    pub fn new(body: &Body, r: &mut Rng, n: usize, rows: usize) -> Launch {
        let mut l = Launch { n, rows, buffers: Vec::new(), tables: Vec::new(), args: Vec::new() };
        for a in &body.accesses {
            let size = a.dtype.size() as i64;
            let (n, rows) = (n as i64, rows as i64);
            let step = n + r.below(5) as i64;
            let mut words = [0i64; ACCESS_WORDS];
            let mut table = Vec::new();
            let count = match a.class {
                AccessClass::Contiguous => step * rows,
                AccessClass::Uniform => rows + 1,
                AccessClass::Reversed => {
                    words[2] = -1;
                    step * rows
                }
                AccessClass::Strided => {
                    words[2] = r.pick(&[2, 3, 1, 0, -1, -2, 5]);
                    rows * 4 + n * words[2].abs() + 1
                }
                AccessClass::Mapped => {
                    let count = 1 + r.below(40) as i64;
                    table = (0..n).map(|_| if r.below(4) == 0 { -1 } else { r.below(count as usize) as i32 }).collect();
                    count
                }
            };
            let start = if words[2] < 0 { -words[2] * (n - 1).max(0) } else { 0 };
            words[1] = match a.class {
                AccessClass::Contiguous | AccessClass::Reversed => step,
                AccessClass::Uniform => r.below(2) as i64,
                AccessClass::Strided => r.below(4) as i64,
                AccessClass::Mapped => 0,
            };
            l.buffers.push(a.operand.map(|_| {
                let mut b = Fenced::new((count * size) as usize, r.below(2) == 0);
                for c in b.bytes().chunks_exact_mut(size as usize) {
                    c.copy_from_slice(&random_element(r, a.dtype));
                }
                words[0] = b.address() as i64 + start * size;
                words[1] *= size;
                b
            }));
            if a.operand.is_none() {
                words[0] = r.next() as i64 >> r.below(50);
            }
            l.tables.push(table);
            words[3] = l.tables.last().unwrap().as_ptr() as i64;
            l.args.extend(words.map(|w| w as u64));
        }
        for s in 0..body.scalars {
            let dtype = body.nodes.iter().find_map(|n| match n {
                Node::Scalar { slot, dtype } if *slot == s => Some(*dtype),
                _ => None,
            });
            let dtype = dtype.unwrap_or(DType::F32);
            let v = match read(&random_element(r, dtype), dtype) {
                Value::F(v) => Scalar::Float(v),
                Value::I(v) => Scalar::Int(v),
            };
            l.args.push(v.to_bits(dtype));
        }
        l
    }

    pub fn position(&self, body: &Body, access: usize, row: usize, i: usize) -> Option<i64> {
        let w = &self.args[access * ACCESS_WORDS..];
        let base = (w[0] as i64).wrapping_add(w[1] as i64 * row as i64);
        let size = if body.accesses[access].operand.is_some() { body.accesses[access].dtype.size() as i64 } else { 1 };
        Some(match body.accesses[access].class {
            AccessClass::Contiguous => base.wrapping_add(i as i64 * size),
            AccessClass::Uniform => base,
            AccessClass::Reversed => base.wrapping_sub(i as i64 * size),
            AccessClass::Strided => base.wrapping_add(i as i64 * w[2] as i64 * size),
            AccessClass::Mapped => {
                let t = self.tables[access][i] as i64;
                if t < 0 {
                    return None;
                }
                if body.accesses[access].operand.is_some() { base + t * size } else { t }
            }
        })
    }

    /// Evaluates all nodes of a body at a point; `known` are the row's values so far.
    pub fn point(&self, body: &Body, row: usize, i: usize, known: &[Value]) -> Vec<Value> {
        let mut out: Vec<Value> = Vec::with_capacity(body.nodes.len());
        let mut loops: Vec<(NodeId, Vec<Scalar>)> = Vec::new();
        for (k, node) in body.nodes.iter().enumerate() {
            let id = NodeId(k as u32);
            // The operands of an element operation, and of all other nodes but loops, without allocating.
            let (mut args, mut count) = ([Value::I(0); 3], 0);
            for arg in body.args(id).take(3) {
                args[count] = out[arg.index()];
                count += 1;
            }
            let args = &args[..count];
            out.push(match *node {
                // (Results computed from a fold that is not yet known are not used.)
                Node::Value { slot, dtype } => {
                    known.get(slot as usize).copied().unwrap_or(from_scalar(Scalar::from_bits(0, dtype)))
                }
                Node::Scanned { .. } | Node::Combined { .. } => unreachable!("the emitter has not these"),
                Node::Gather { access, .. } => {
                    let dtype = body.accesses[access as usize].dtype;
                    let at = self.position(body, access as usize, row, i).unwrap() + args[0].i() * dtype.size() as i64;
                    if args[1].i() == 0 {
                        read(&[0; 8], dtype)
                    } else {
                        // SAFETY: the position is inside the access's buffer.
                        read(unsafe { std::slice::from_raw_parts(at as *const u8, dtype.size()) }, dtype)
                    }
                }
                Node::Load { access } => {
                    let a = &body.accesses[access as usize];
                    // (Per-row elements exist even in a row without points.)
                    let there = i < self.n || a.per_row;
                    match there.then(|| self.position(body, access as usize, row, i)).flatten() {
                        // SAFETY: the position is inside the access's buffer.
                        Some(p) => read(unsafe { std::slice::from_raw_parts(p as *const u8, a.dtype.size()) }, a.dtype),
                        None => read(&[0; 8], a.dtype),
                    }
                }
                Node::Index { access, dtype } => {
                    Value::I(dtype.wrap(self.position(body, access as usize, row, i).unwrap_or(-1)))
                }
                Node::Valid { access } => Value::I(self.position(body, access as usize, row, i).is_some() as i64),
                Node::Scalar { slot, dtype } => {
                    let word = self.args[body.accesses.len() * ACCESS_WORDS + slot as usize];
                    from_scalar(Scalar::from_bits(word, dtype))
                }
                Node::Const { bits, dtype } => from_scalar(Scalar::from_bits(bits, dtype)),
                Node::Element { op, dtype, .. } => {
                    let o = body.operand_dtype(id);
                    if o.is_float() {
                        let mut x = [0.0; 3];
                        for (x, v) in x.iter_mut().zip(args) {
                            *x = if let Value::I(b) = v { *b as f64 } else { v.f() };
                        }
                        let mut y = (op.row().meaning.float.unwrap())(&x[..count]);
                        // From 2²³ on, the f32 quotient counts as its floor: one rounding less than in the table.
                        if op == ElementOp::FloorDiv && o != DType::F64 && y.abs() >= 8_388_608.0 {
                            y = x[0] / x[1];
                        }
                        if dtype == DType::Bool { Value::I(y as i64) } else { Value::F(round(dtype, y)) }
                    } else {
                        let mut x = [0; 3];
                        for (x, v) in x.iter_mut().zip(args) {
                            *x = v.i();
                        }
                        Value::I(dtype.wrap((op.row().meaning.int.unwrap())(&x[..count], o)))
                    }
                }
                Node::Bitcast { dtype, arg } => read(&bytes(args[0], body.dtype(arg)), dtype),
                Node::Cast { dtype, arg } => convert(args[0], body.dtype(arg), dtype),
                // Narrow floats have been widened before.
                Node::Round { .. } => args[0],
                Node::Loop { of, .. } => {
                    let args: Vec<Scalar> = body.args(id).map(|arg| to_scalar(out[arg.index()])).collect();
                    loops.push((id, reference::looped(of, &args)));
                    Value::I(0)
                }
                Node::Looped { of, number, .. } => {
                    from_scalar(loops.iter().find(|l| l.0 == of).expect("results are of loops").1[number as usize])
                }
            });
        }
        out
    }

    /// Compiles a map body, runs it, and compares the results with the reference. Returns false if the emitter refuses
    /// the body.
    pub fn check(&mut self, body: &Body, isa: Isa, options: Options) -> bool {
        let Ok(code) = compile_with(body, isa, options) else { return false };
        // SAFETY: the launch was built for the body.
        self.compare(body, &format!("{isa:?} {options:?}"), |args, n, rows| unsafe { code.run(args, n, rows) });
        true
    }

    /// Runs a map body by `run`, and compares the results with the reference.
    pub fn compare(&mut self, body: &Body, what: &str, run: impl FnOnce(&[u64], usize, usize) -> bool) {
        let want: Vec<Vec<Value>> =
            (0..self.rows * self.n).map(|p| self.point(body, p / self.n, p % self.n, &[])).collect();
        assert!(run(&self.args, self.n, self.rows), "{what}");
        for s in &body.stores {
            let dtype = body.accesses[s.access as usize].dtype;
            for (p, values) in want.iter().enumerate() {
                let at = self.position(body, s.access as usize, p / self.n, p % self.n).unwrap();
                // SAFETY: the position is inside the output's buffer.
                let got = read(unsafe { std::slice::from_raw_parts(at as *const u8, dtype.size()) }, dtype);
                let want = values[s.node.index()];
                let same = match (got, want) {
                    (Value::F(a), Value::F(b)) => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
                    _ => got == want,
                };
                assert!(
                    same,
                    "{what} n {} rows {} point {p} {dtype}: got {got:?}, want {want:?}\nvalues {values:?}\n{body:?}",
                    self.n, self.rows
                );
            }
        }
        for (a, b) in self.buffers.iter_mut().enumerate() {
            let Some(b) = b else { continue };
            assert!(b.clean(), "{what} n {} access {a} was written outside\n{body:?}", self.n);
        }
    }
}

fn to_scalar(v: Value) -> Scalar {
    match v {
        Value::F(v) => Scalar::Float(v),
        Value::I(v) => Scalar::Int(v),
    }
}

pub fn from_scalar(s: Scalar) -> Value {
    match s {
        Scalar::Float(v) => Value::F(v),
        Scalar::Int(v) => Value::I(v),
        Scalar::Unsigned(v) => Value::I(v as i64),
        Scalar::Bool(v) => Value::I(v as i64),
    }
}
