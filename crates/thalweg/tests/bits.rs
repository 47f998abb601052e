//! Equal bits on any number of threads. This test runs itself as child processes with `THALWEG_THREADS` set to 1, 2 and
//! 8, and compares their output. Sizes are large enough for threads to take part (a launch of about 30 µs wakes them);
//! lengths are odd and longer than a block of a fold.

use std::process::Command;
use thalweg::prelude::*;

/// Environment variable of child processes.
const CHILD: &str = "TEST_BITS_CHILD";

/// FNV-1a hash, to compare results.
fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3))
}

/// Hash of the bits, with NaN of any payload as one NaN.
fn bits(t: &Tensor) -> u64 {
    match t.dtype() {
        DType::I64 => hash(t.to_vec::<i64>().unwrap().into_iter().flat_map(i64::to_le_bytes)),
        _ => hash(t.to_vec::<f32>().unwrap().into_iter().flat_map(|v| {
            let v = if v.is_nan() { f32::NAN } else { v };
            v.to_le_bytes()
        })),
    }
}

fn cases() -> Vec<(&'static str, Tensor)> {
    let mut random = Generator::seed(7);
    let long = random.randn([3_000_001]);
    let wide = random.randn([7, 300_007]);
    let tall = random.randn([200_003, 9]);
    let square = random.randn([1501, 1203]);
    let deep = random.randn([33, 65, 517]);
    let index = random.randint(0..1000, [400_009]);
    let values = random.randn([400_009]);
    thalweg::synchronize().unwrap();
    let scores = &square * 0.125;
    vec![
        ("sum of all", long.sum(..)),
        ("sum of rows longer than a block", wide.sum(1)),
        ("sum of columns", square.sum(0)),
        ("sum of few columns", tall.sum(0)),
        ("sum of rows", square.sum(1)),
        ("sum of a transposed view", square.t().sum(0)),
        ("sum between", deep.sum(1)),
        ("sum around", deep.sum([0, 2])),
        ("sum over one axis, over the other", {
            let (a, b) = (scores.sum(0), scores.sum(1));
            Tensor::cat(&[a, b], 0)
        }),
        ("extremes over one axis, a sum over the other", {
            let (a, b) = (square.exp().sum(0), square.amax(1));
            Tensor::cat(&[a, b], 0)
        }),
        ("product", (&long * 1e-3 + 1.0).prod(..)),
        ("largest", wide.amax(0)),
        ("argmax of all", long.argmax(..)),
        ("argmax along", wide.argmax(1)),
        ("argmin across", square.argmin(0)),
        ("softmax along", square.softmax(1)),
        ("softmax across", square.softmax(0)),
        ("softmax of long rows", wide.softmax(1)),
        ("log softmax between", deep.log_softmax(1)),
        ("layer norm", square.layer_norm(-1, 1e-5)),
        ("layer norm of long rows", wide.layer_norm(-1, 1e-5)),
        ("layer norm across", deep.layer_norm(0, 1e-5)),
        ("variance of all", long.var(..)),
        ("variance of columns", tall.var(0)),
        ("logsumexp", wide.logsumexp(1)),
        ("running sum", long.cumsum(0)),
        ("running sums along", square.cumsum(1)),
        ("running sums across", square.cumsum(0)),
        ("scattered sums", Tensor::zeros([1000]).scatter_add(0, &index, &values)),
        ("gathered sums", square.narrow(1, 0, 1000).sum(0).gather(0, &index)),
        ("a matrix product", scores.matmul(&scores.t())),
    ]
}

fn child() {
    for strict in [false, true] {
        thalweg::with_strict(strict, || {
            for (name, result) in cases() {
                println!("bits {strict} {name}: {:016x}", bits(&result));
            }
        });
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    let run = |threads: &str| -> Vec<String> {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "results_do_not_depend_on_the_number_of_threads", "--nocapture"]);
        let output = command.env(CHILD, "1").env("THALWEG_THREADS", threads).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        // The harness may have printed the beginning of the first line.
        text.lines().filter_map(|l| Some(l[l.find("bits ")?..].to_string())).collect()
    };
    let one = run("1");
    assert!(one.len() >= 60, "{one:?}");
    for threads in ["2", "8"] {
        let many = run(threads);
        let differ: Vec<_> = one.iter().zip(&many).filter(|(a, b)| a != b).collect();
        assert!(one.len() == many.len() && differ.is_empty(), "on {threads} threads: {differ:?}");
    }
}
