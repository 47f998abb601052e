//! Random operations in CUDA C++ between others, on a GPU or on an emulated one.
//!
//! Input: a seed. Invariant: all arithmetic is exact (small whole numbers, halves and their multiples), so that a
//! source gives the bits of its reference in the interpreter, whatever a compiler contracts: fused, unfused, strict,
//! called again, and with dropped results.

use super::Checker;
use crate::program::Input;
use fastrand::Rng;
use thalweg::{CudaLaunch, CudaOp, DType, Tensor};
use thalweg_ir::Shape;

/// Computation of a user's source.
#[derive(Clone, Debug)]
enum Source {
    /// Sum of the operands, each times a power of two, and their maximum, in blocks of this many threads.
    Blend(Vec<f64>, u32),
    /// Transposes a matrix.
    Transposed,
    /// Sum and maximum of each row of a matrix.
    Rows,
}

/// Random chain of operations with the user's own sources, in call order.
#[derive(Debug)]
struct Case {
    inputs: Vec<Input>,
    /// Sources of the chain, each with the numbers of the views before and after it.
    steps: Vec<(Source, [usize; 2])>,
    /// Whether all results are kept.
    all: bool,
}

impl Case {
    fn new(seed: u64) -> Case {
        let mut rng = Rng::with_seed(seed);
        let (n, m) = (rng.usize(1..40), rng.usize(1..40));
        let whole = |rng: &mut Rng| {
            let bytes = (0..n * m).flat_map(|_| (rng.i32(-8..9) as f32).to_le_bytes()).collect();
            Input { dtype: DType::F32, shape: Shape::new(&[n, m]), bytes }
        };
        let inputs = (0..3).map(|_| whole(&mut rng)).collect();
        let step = |rng: &mut Rng| {
            let source = match rng.usize(..4) {
                0 => Source::Transposed,
                1 => Source::Rows,
                _ => {
                    let factors = (0..rng.usize(1..4)).map(|_| [0.5, 1.0, 2.0, -1.0][rng.usize(..4)]).collect();
                    Source::Blend(factors, [32, 64, 128][rng.usize(..3)])
                }
            };
            (source, [rng.usize(..5), rng.usize(..5)])
        };
        let steps = (0..rng.usize(1..4)).map(|_| step(&mut rng)).collect();
        Case { inputs, steps, all: rng.bool() }
    }

    /// Computes the results of the chain.
    fn run(&self, x: &[Tensor]) -> Vec<Tensor> {
        let (mut x, mut results) = (x.to_vec(), vec![]);
        for (source, [before, behind]) in &self.steps {
            let given: Vec<Tensor> = x.iter().map(|x| view(x, *before)).collect();
            let made = source.called(&given);
            if self.all {
                results.extend(made[1..].iter().cloned());
            }
            let next = view(&made[0], *behind);
            // Row results have one dimension less and broadcast against the others.
            x = x.iter().map(|x| if *x.shape() == *next.shape() { &next + x * 0.5 } else { next.clone() }).collect();
            results.push(next);
        }
        results
    }
}

impl Source {
    fn called(&self, x: &[Tensor]) -> Vec<Tensor> {
        match self {
            Source::Blend(factors, threads) => {
                let (count, threads) = (factors.len(), *threads);
                let x = &x[..count];
                let list =
                    |f: &dyn Fn(usize) -> String, between: &str| (0..count).map(f).collect::<Vec<_>>().join(between);
                let text = format!(
                    "__global__ void __launch_bounds__(128) blend({}, float *sum, float *most, int n, {}) {{\n\
                     for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {{\n\
                     float m = x0[i]; {}\n sum[i] = {}; most[i] = m; }} }}",
                    list(&|i| format!("const float *x{i}"), ", "),
                    list(&|i| format!("float a{i}"), ", "),
                    list(&|i| format!("m = x{i}[i] > m ? x{i}[i] : m;"), " "),
                    list(&|i| format!("a{i} * x{i}[i]"), " + "),
                );
                let (own, numbers) = (factors.clone(), factors.clone());
                let launch = move |x: &[Tensor]| {
                    let n = x[0].numel();
                    numbers.iter().fold(CudaLaunch::linear(n, threads).size(n), |launch, &a| launch.number(a))
                };
                let op = CudaOp::new("blend", text, "blend", |x| [(*x[0].shape(), DType::F32); 2], launch);
                let op = op.reference(move |x| {
                    let sum = x.iter().zip(&own).map(|(x, &a)| x * a).reduce(|a, b| a + b).expect("an operand");
                    let most = x.iter().cloned().reduce(|a, b| a.maximum(b)).expect("an operand");
                    (sum, most)
                });
                match x {
                    [a] => op.on_all(a),
                    [a, b] => op.on_all([a, b]),
                    [a, b, c, ..] => op.on_all([a, b, c]),
                    [] => unreachable!("a source has an operand"),
                }
            }
            Source::Transposed => {
                let x = matrix(&x[0]);
                let text = "__global__ void turned(const float *x, float *y, int n, int m) {\n\
                            int i = blockIdx.x; for (int j = threadIdx.x; j < m; j += blockDim.x) y[j * n + i] = x[i * m + j]; }";
                let of = |x: &[Tensor]| [([x[0].dims()[1], x[0].dims()[0]], DType::F32)];
                let launch = |x: &[Tensor]| {
                    let (n, m) = (x[0].dims()[0], x[0].dims()[1]);
                    CudaLaunch::new([n, 1, 1], [32, 1, 1]).size(n).size(m)
                };
                CudaOp::new("turned", text, "turned", of, launch).reference(|x| x[0].t()).on_all(&x)
            }
            Source::Rows => {
                let x = matrix(&x[0]);
                let text = "__global__ void rows(const float *x, float *sum, float *most, int n, int m) {\n\
                            int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;\n\
                            float s = 0, b = x[i * m]; for (int j = 0; j < m; j++) { float v = x[i * m + j]; s += v; b = v > b ? v : b; }\n\
                            sum[i] = s; most[i] = b; }";
                let of = |x: &[Tensor]| [([x[0].dims()[0]], DType::F32); 2];
                let launch = |x: &[Tensor]| {
                    let (n, m) = (x[0].dims()[0], x[0].dims()[1]);
                    CudaLaunch::linear(n, 32).size(n).size(m)
                };
                let op = CudaOp::new("rows", text, "rows", of, launch).reference(|x| (x[0].sum(1), x[0].amax(1)));
                op.on_all(&x)
            }
        }
    }
}

/// Views a tensor as a matrix.
fn matrix(x: &Tensor) -> Tensor {
    if x.rank() == 2 { x.clone() } else { x.unsqueeze(0) }
}

/// Applies exact operations and views with other strides; the result has the tensor's shape.
fn view(x: &Tensor, how: usize) -> Tensor {
    match how {
        0 => x * 0.5,
        1 => x.flip(-1),
        2 => x.abs() - 1.0,
        3 if x.rank() == 2 => x.t() * 2.0,
        _ => x.clone(),
    }
}

/// Checks the user's sources of a seed.
pub fn check(checker: &Checker, seed: u64) -> Result<(), String> {
    let case = Case::new(seed);
    let told = |why: String| format!("{why}\n{case:?}");
    let x = super::tensors(checker, &case.inputs)?;
    let bits = |results: Vec<Tensor>| -> Result<Vec<Vec<u32>>, String> {
        let one = |t: Tensor| Ok(t.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect());
        results.into_iter().map(one).collect::<Result<_, thalweg::Error>>().map_err(|e| e.to_string())
    };
    let run = || case.run(&x);
    let want = bits(thalweg::with_reference(run)).map_err(told)?;
    let ways: [(&str, &dyn Fn() -> Vec<Tensor>); 4] = [
        ("fused", &run),
        ("again", &run),
        ("unfused", &|| thalweg::with_fusion(false, run)),
        ("strict", &|| thalweg::with_strict(true, run)),
    ];
    for (name, way) in ways {
        let got = bits(way()).map_err(|why| told(format!("{name}: {why}")))?;
        if got != want {
            return Err(told(format!("{name}: {got:?}, by its reference {want:?}")));
        }
    }
    // The last result alone: the same launches compute the others but discard them.
    let last = run().pop().map(|t| bits(vec![t])).transpose().map_err(told)?;
    match last.as_deref().and_then(|all| all.first()) == want.last() {
        true => Ok(()),
        false => Err(told(format!("the last alone: {last:?} for {:?}", want.last()))),
    }
}
