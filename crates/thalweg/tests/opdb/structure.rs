//! Entries that move, select, assign and create elements.

use crate::call::Call;
use thalweg::prelude::*;
use thalweg::{Border, Indexing, ScatterOp};

/// Borders in PyTorch's form: pairs, the last axis first.
fn widths(c: &Call, rank: usize) -> Vec<(usize, usize)> {
    let pad = c.sizes("pad");
    let mut out = vec![(0, 0); rank];
    for (i, pair) in pad.chunks(2).enumerate() {
        out[rank - 1 - i] = (pair[0], pair[1]);
    }
    out
}

/// A tensor in the shape that it has as the source of a scatter: that of the index.
fn source(c: &Call) -> Tensor {
    let (src, index) = (c.t("src"), c.t("index"));
    let ranges: Vec<SliceArg> = index.dims().iter().map(|&d| (0..d).into()).collect();
    if src.dims() == index.dims() { src.clone() } else { src.slice(ranges) }
}

/// Whether an index has the tensor's shape except along the axis, which Thalweg requires and PyTorch does not.
fn goes_along(c: &Call) -> bool {
    let (x, index) = (c.x(), c.t("index"));
    let axis = c.int("dim").rem_euclid(x.rank().max(1) as i64) as usize;
    let others =
        |t: &Tensor| t.dims().iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, &d)| d).collect::<Vec<_>>();
    x.rank() == index.rank() && others(x) == others(index)
}

/// Ranges that are whole except along one axis.
fn ranges(x: &Tensor, c: &Call) -> Vec<SliceArg> {
    let mut list: Vec<SliceArg> = vec![(..).into(); x.rank()];
    let axis = c.int("dim").rem_euclid(x.rank() as i64) as usize;
    list[axis] = SliceArg::range(c.opt_int("start"), c.opt_int("end"), c.int("step"));
    list
}

/// The dtype of tensors created from numbers.
fn made(c: &Call) -> DType {
    c.dtype
}

/// An index vector, also for a single number.
fn index(c: &Call) -> Tensor {
    c.t("index").flatten()
}

pub fn call(entry: &str, c: &Call) -> Option<Vec<Tensor>> {
    let dim = || c.int("dim");
    let x = || c.x();
    Some(vec![match entry {
        "broadcast_to" => x().broadcast_to(c.sizes("shape")),
        "expand_as" => x().broadcast_to(c.t("other").dims().to_vec()),
        "expand" | "expand_copy" => x().expand(c.ints("shape")),
        "broadcast_tensors" => return Some(Tensor::broadcast_all(&c.tensors("x"))),
        "sum_to_size" => x().sum_to(c.sizes("shape")),
        "chunk" | "unsafe_chunk" => return Some(x().chunk(c.size("chunks"), dim())),
        "split" | "unsafe_split" => {
            return Some(match c.is_list("size") {
                true => x().split_sizes(&c.sizes("size"), dim()),
                false => x().split(c.size("size"), dim()),
            });
        }
        "split:list_args" | "split_with_sizes" | "split_with_sizes_copy" => {
            return Some(x().split_sizes(&c.sizes("size"), dim()));
        }
        "hsplit" | "vsplit" | "dsplit" => {
            let axis = match entry {
                "vsplit" => 0,
                "dsplit" => 2,
                _ => i64::from(x().rank() > 1),
            };
            let size = x().size(axis);
            if !c.is_list("size") {
                return Some(x().split(size / c.size("size"), axis));
            }
            let mut bounds = c.sizes("size");
            bounds.push(size);
            let starts = std::iter::once(0).chain(bounds.iter().copied());
            let sizes: Vec<usize> = starts.zip(&bounds).map(|(a, &b)| b.min(size) - a.min(size)).collect();
            return Some(x().split_sizes(&sizes, axis));
        }
        "unbind" | "unbind_copy" => return Some(x().unbind(dim())),
        "meshgrid:variadic_tensors" | "meshgrid:list_of_tensors" => {
            let by = if c.text("indexing") == "xy" { Indexing::Cartesian } else { Indexing::Matrix };
            let vectors: Vec<Tensor> = c.tensors("x").iter().map(Tensor::flatten).collect();
            return Some(Tensor::meshgrid(&vectors, by));
        }
        "diag" => x().diag(c.int("diagonal")),
        "diagflat" => x().flatten().diag(c.int("offset")),
        "diag_embed" => x().diag_embed(c.int("offset")),
        "diagonal" | "diagonal_copy" | "linalg.diagonal" => {
            x().diagonal_of(c.int("offset"), c.int("dim1"), c.int("dim2"))
        }
        "diff" => x().diff(c.size("n"), dim()),
        "flip" => x().flip(c.ints("dims")),
        "fliplr" => x().flip(1),
        "flipud" => x().flip(0),
        "gradient" => {
            let spacing = c.opt_float("spacing")?;
            let axes = if c.has("dim") { c.ints("dim") } else { (0..x().rank() as i64).collect() };
            return Some(axes.iter().map(|&axis| x().gradient(spacing, axis)).collect());
        }
        "masked_scatter" if c.t("mask").rank() > x().rank() => return None,
        "masked_scatter" => x().masked_scatter(c.t("mask"), c.t("source")),
        "masked_select" => x().masked_select(c.t("mask")).expect("it can be computed"),
        "view_copy" | "view" | "reshape" => x().reshape(c.ints("shape")),
        "reshape_as" | "view_as" => x().reshape(c.t("other").dims().to_vec()),
        "ravel" => x().flatten(),
        "flatten" if x().rank() == 0 => x().reshape([1]),
        "flatten" => x().flatten_axes(c.int("start"), c.int("end")),
        "unflatten" => x().unflatten(dim(), c.ints("sizes")),
        "narrow" | "narrow_copy" => {
            let start = match c.maybe("start") {
                Some(t) => t.item::<i64>().expect("it was given"),
                None => c.int("start"),
            };
            x().narrow(dim(), start.rem_euclid(x().size(dim()).max(1) as i64) as usize, c.size("length"))
        }
        "select" => x().index_axis(dim(), c.int("index")),
        "select_scatter" => x().select_scatter(dim(), c.int("index"), c.t("src")),
        "slice" => x().slice(ranges(x(), c)),
        "slice_scatter" => x().slice_scatter(ranges(x(), c), c.t("src")),
        "permute" | "permute_copy" => x().permute(c.ints("dims")),
        "transpose" | "transpose_copy" if x().rank() == 0 => x().clone(),
        "transpose" | "transpose_copy" => x().transpose(c.int("dim0"), c.int("dim1")),
        "movedim" => {
            let (from, to) = (c.ints("source"), c.ints("destination"));
            if let ([from], [to]) = (&from[..], &to[..]) {
                return Some(vec![x().movedim(*from, *to)]);
            }
            let rank = x().rank() as i64;
            let mut moves: Vec<(i64, i64)> =
                from.iter().zip(&to).map(|(f, t)| (t.rem_euclid(rank), f.rem_euclid(rank))).collect();
            moves.sort_unstable();
            let mut order: Vec<i64> = (0..rank).filter(|i| moves.iter().all(|m| m.1 != *i)).collect();
            moves.into_iter().for_each(|(to, from)| order.insert(to as usize, from));
            x().permute(order)
        }
        "T" | "H" | "t" | "t_copy" if x().rank() < 2 => x().clone(),
        "T" | "H" | "t" | "t_copy" => x().t(),
        "mT" | "mH" => x().transpose(-1, -2),
        "rot90" => {
            let plane = c.ints("dims");
            x().rot90(c.int("k"), plane[0], plane[1])
        }
        "roll" => {
            let shifts = c.ints("shifts");
            if !c.has("dim") && c.ints("dims").is_empty() {
                return Some(vec![x().flatten().roll(shifts[0], 0).reshape(x().dims().to_vec())]);
            }
            shifts.iter().zip(c.ints("dims")).fold(x().clone(), |x, (&shift, axis)| x.roll(shift, axis))
        }
        "squeeze" | "squeeze_copy" | "squeeze:multiple" => {
            let axes: Vec<i64> = match c.has("dim") {
                true => c.ints("dim"),
                false => (0..x().rank() as i64).collect(),
            };
            let ones: Vec<i64> = axes.into_iter().filter(|&a| x().rank() > 0 && x().size(a) == 1).collect();
            if ones.is_empty() { x().clone() } else { x().squeeze(ones) }
        }
        "unsqueeze" | "unsqueeze_copy" => x().unsqueeze(dim()),
        "repeat" | "tile" => {
            let counts = c.sizes("counts");
            x().tile(counts)
        }
        "repeat_interleave" => {
            let flat = if c.has("dim") { x().clone() } else { x().flatten() };
            let axis = if c.has("dim") { dim() } else { 0 };
            match c.maybe("repeats") {
                Some(counts) if counts.numel() != 1 => {
                    flat.repeat_interleave(counts, axis).expect("it can be computed")
                }
                Some(count) => flat.repeat(count.flatten().to_vec::<i64>().expect("it was given")[0] as usize, axis),
                None => flat.repeat(c.size("repeats"), axis),
            }
        }
        "stack" => Tensor::stack(&c.tensors("x"), dim()),
        "cat" => {
            // PyTorch ignores vectors without elements.
            let all = c.tensors("x");
            let rank = all.iter().map(Tensor::rank).max().unwrap_or(0);
            let some: Vec<Tensor> = all.into_iter().filter(|t| t.rank() == rank || t.dims() != [0]).collect();
            Tensor::cat(&some, dim())
        }
        "hstack" => {
            let all = c.tensors("x");
            let axis = i64::from(all[0].rank() > 1);
            let all: Vec<Tensor> = all.iter().map(|t| if t.rank() == 0 { t.reshape([1]) } else { t.clone() }).collect();
            Tensor::cat(&all, axis)
        }
        "unfold" | "unfold_copy" if x().rank() == 0 => return None,
        "unfold" | "unfold_copy" => x().window(dim(), c.size("size"), c.size("step")),
        name if name.starts_with("nn.functional.pad:") && c.ints("pad").iter().any(|&p| p < 0) => return None,
        "constant_pad_nd" if c.ints("pad").iter().any(|&p| p < 0) => return None,
        "constant_pad_nd" | "nn.functional.pad:constant" => {
            let value = if c.has("value") { c.scalar("value") } else { Scalar::Int(0) };
            let value = if x().dtype() == DType::Bool { Scalar::Bool(value.to_f64() != 0.0) } else { value };
            x().pad(widths(c, x().rank()), value)
        }
        "nn.functional.pad:reflect" => x().pad(widths(c, x().rank()), Border::Reflect),
        "nn.functional.pad:replicate" => x().pad(widths(c, x().rank()), Border::Edge),
        "nn.functional.pad:circular" => x().pad(widths(c, x().rank()), Border::Wrap),
        name if name.starts_with("scatter") && !goes_along(c) => return None,
        "gather" if !goes_along(c) => return None,
        "gather" => x().gather(dim(), c.t("index")),
        "take_along_dim" => match c.has("dim") {
            true => x().take_along_axis(dim(), c.t("index")),
            false => x().flatten().take_along_axis(0, &c.t("index").flatten()),
        },
        "take" => x().take(c.t("index")),
        "index_select" => x().index_select(dim(), &index(c)),
        "index_fill" => match c.maybe("value") {
            Some(_) => return None,
            None => x().index_fill(dim(), &index(c), c.scalar("value")),
        },
        "index_copy" => x().index_copy(dim(), &index(c), c.t("source")),
        "index_add" => {
            let source = c.t("source");
            match c.float("alpha") {
                1.0 => x().index_add(dim(), &index(c), source),
                _ => x().index_add(dim(), &index(c), source * c.scalar("alpha")),
            }
        }
        "index_put" => {
            let indices = c.tensors("indices");
            if indices.iter().any(|i| i.dtype() == DType::Bool) {
                return None;
            }
            x().index_put(&indices, c.op("values"), c.flag("accumulate"))
        }
        "scatter" => match c.maybe("src") {
            Some(_) => x().scatter(dim(), c.t("index"), source(c)),
            None => x().scatter(dim(), c.t("index"), c.scalar("src")),
        },
        "scatter_add" => x().scatter_add(dim(), c.t("index"), source(c)),
        "scatter_reduce:sum" => x().scatter_add(dim(), c.t("index"), source(c)),
        "scatter_reduce:prod" => x().scatter_reduce(dim(), c.t("index"), source(c), ScatterOp::Prod),
        "scatter_reduce:amin" => x().scatter_reduce(dim(), c.t("index"), source(c), ScatterOp::Min),
        "scatter_reduce:amax" => x().scatter_reduce(dim(), c.t("index"), source(c), ScatterOp::Max),
        "scatter_reduce:mean" => x().scatter_mean(dim(), c.t("index"), source(c)),
        "nn.functional.embedding" => x().embedding(c.t("index")),
        "nn.functional.one_hot" => match c.int("classes") {
            -1 => x().one_hot(x().amax(..).item::<i64>().expect("it was given") as usize + 1),
            n => x().one_hot(n as usize),
        },
        "nonzero" | "argwhere" => x().argwhere().expect("it can be computed"),
        "tril" => x().tril(c.int("diagonal")),
        "triu" => x().triu(c.int("diagonal")),
        "trapz" | "trapezoid" => match c.maybe("at") {
            Some(at) if at.rank() == 1 => x().trapezoid_at(at, dim()),
            Some(_) => return None,
            None => x().trapezoid(c.float("dx"), dim()),
        },
        "cumulative_trapezoid" => x().cumulative_trapezoid(c.float("dx"), dim()),
        "full_like" | "fill" => match c.maybe("value") {
            Some(value) => value.broadcast_to(x().dims().to_vec()),
            None => x().full_like(c.scalar("value")),
        },
        "full" => Tensor::full_with(c.sizes("x"), c.scalar("value"), made(c)),
        "ones" => Tensor::ones_with(c.sizes("x"), made(c)),
        "zeros" => Tensor::zeros_with(c.sizes("x"), made(c)),
        "scalar_tensor" => Tensor::full_with([], c.scalar("x"), made(c)),
        "eye" => Tensor::eye_with(c.size("x"), c.opt_int("columns").map_or(c.size("x"), |n| n as usize), made(c)),
        "arange" => {
            let (x, step) = (c.float("x"), c.float("step"));
            let (start, end) = if c.has("end") { (x, c.float("end")) } else { (0.0, x) };
            Tensor::arange_with((start, end, step), made(c))
        }
        "linspace" => Tensor::linspace_with(c.float("x"), c.float("end"), c.size("steps"), made(c)),
        "logspace" => Tensor::logspace_with(c.float("x"), c.float("end"), c.size("steps"), c.float("base"), made(c)),
        "fft.fftshift" => x().fftshift(shifted(c)),
        "fft.ifftshift" => x().ifftshift(shifted(c)),
        _ => return None,
    }])
}

fn shifted(c: &Call) -> thalweg::Axes {
    if c.has("dim") { c.axes("dim") } else { (..).into() }
}
