//! Interim: the plainest loops behind the interface of the kernels to come.
use crate::engine::Choice;
use crate::threads::Threads;
use std::ops::Range;
use thalweg_ir::DType;
pub use thalweg_kernel::accumulator;

pub enum Factor<'a> {
    Strided { first: *const u8, batch: Vec<isize>, line: isize, term: isize },
    Computed(&'a (dyn Fn(Block, *mut u8, usize) + Sync)),
}
pub struct Block {
    pub batch: usize,
    pub lines: Range<usize>,
    pub terms: Range<usize>,
}
pub struct Tile {
    pub batch: usize,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    pub sums: *const u8,
    pub lead: usize,
}
pub enum Finish<'a> {
    Store(*mut u8),
    Tiles(&'a (dyn Fn(Tile) + Sync)),
}
pub struct Contraction<'a> {
    pub dtype: DType,
    pub batch: Vec<usize>,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub left: Factor<'a>,
    pub right: Factor<'a>,
    pub finish: Finish<'a>,
}

fn get(dtype: DType, at: *const u8, i: isize) -> f64 {
    unsafe {
        match dtype {
            DType::F32 => at.cast::<f32>().offset(i).read() as f64,
            DType::F64 => at.cast::<f64>().offset(i).read(),
            DType::BF16 => half::bf16::from_bits(at.cast::<u16>().offset(i).read()).to_f64(),
            DType::F16 => half::f16::from_bits(at.cast::<u16>().offset(i).read()).to_f64(),
            DType::I32 | DType::U32 => at.cast::<i32>().offset(i).read() as f64,
            DType::I64 => at.cast::<i64>().offset(i).read() as f64,
            _ => at.cast::<i8>().offset(i).read() as f64,
        }
    }
}

pub fn run(c: &Contraction<'_>, _: Choice, _: &Threads) {
    let batches: usize = c.batch.iter().product();
    let size = c.dtype.size();
    for b in 0..batches {
        let load = |f: &Factor<'_>, lines: usize, right: bool| -> Vec<f64> {
            match f {
                Factor::Strided { first, batch, line, term } => {
                    let (mut rest, mut at) = (b, 0isize);
                    for (d, s) in c.batch.iter().zip(batch).rev() {
                        at += (rest % d) as isize * s;
                        rest /= d;
                    }
                    (0..lines * c.k)
                        .map(|p| get(c.dtype, *first, at + (p / c.k) as isize * line + (p % c.k) as isize * term))
                        .collect()
                }
                Factor::Computed(f) => {
                    let lead = if right { lines + 3 } else { c.k + 5 };
                    let rows = if right { c.k } else { lines };
                    let mut block = vec![0u64; (rows * lead * size).div_ceil(8) + 8];
                    let half = c.k / 2;
                    for terms in [0..half, half..c.k] {
                        if terms.is_empty() {
                            continue;
                        }
                        let at = if right { terms.start * lead } else { terms.start };
                        let to = unsafe { block.as_mut_ptr().cast::<u8>().add(at * size) };
                        f(Block { batch: b, lines: 0..lines, terms }, to, lead);
                    }
                    let at = |l: usize, t: usize| if right { t * lead + l } else { l * lead + t };
                    (0..lines * c.k)
                        .map(|p| get(c.dtype, block.as_ptr().cast(), at(p / c.k, p % c.k) as isize))
                        .collect()
                }
            }
        };
        let (l, r) = (load(&c.left, c.m, false), load(&c.right, c.n, true));
        let mut sums = vec![0f64; c.m * c.n];
        for i in 0..c.m {
            for j in 0..c.n {
                let mut s = 0.0;
                if !c.dtype.is_float() {
                    let int = (0..c.k)
                        .fold(0i64, |s, k| s.wrapping_add((l[i * c.k + k] as i64).wrapping_mul(r[j * c.k + k] as i64)));
                    let bits = 8 * c.dtype.size() as u32;
                    sums[i * c.n + j] = (int << (64 - bits) >> (64 - bits)) as f64;
                    continue;
                }
                for k in 0..c.k {
                    s += l[i * c.k + k] * r[j * c.k + k];
                    if accumulator(c.dtype) == DType::F32 {
                        s = s as f32 as f64;
                    }
                }
                sums[i * c.n + j] = s;
            }
        }
        let put = |dtype: DType, at: *mut u8, i: usize, v: f64| unsafe {
            match dtype {
                DType::F32 => at.cast::<f32>().add(i).write(v as f32),
                DType::F64 => at.cast::<f64>().add(i).write(v),
                DType::BF16 => at.cast::<u16>().add(i).write(half::bf16::from_f64(v).to_bits()),
                DType::F16 => at.cast::<u16>().add(i).write(half::f16::from_f64(v).to_bits()),
                DType::I32 | DType::U32 => at.cast::<i32>().add(i).write(v as i64 as i32),
                DType::I64 => at.cast::<i64>().add(i).write(v as i64),
                _ => at.cast::<i8>().add(i).write(v as i64 as i8),
            }
        };
        match &c.finish {
            Finish::Store(to) => (0..c.m * c.n).for_each(|i| put(c.dtype, *to, b * c.m * c.n + i, sums[i])),
            Finish::Tiles(f) => {
                let dtype = accumulator(c.dtype);
                let mut tile = vec![0u64; c.m * c.n + 8];
                let half = c.m / 2;
                for rows in [0..half, half..c.m] {
                    let lead = c.n + 1;
                    tile.resize(rows.len() * lead + 8, 0);
                    for (i, row) in rows.clone().enumerate() {
                        for j in 0..c.n {
                            put(dtype, tile.as_mut_ptr().cast(), i * lead + j, sums[row * c.n + j]);
                        }
                    }
                    if !rows.is_empty() {
                        f(Tile { batch: b, rows, columns: 0..c.n, sums: tile.as_ptr().cast(), lead });
                    }
                }
            }
        }
    }
}
