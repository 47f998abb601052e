//! Indexing as NumPy's: slices, integers, ellipsis, new axes, integer and boolean arrays, in any mixture.
//!
//! In: an array and a key. Out: the selected elements, or the array with other elements there. Always true: a key is
//! resolved to one form, a slice of basic parts and then index arrays on some axes, which reads and writes share.

use crate::dtype::{ArrayDType, ArrayDType::Real};
use crate::error::{index_error, run, run_fallible, type_error, value_error};
use crate::functions::convert::{of_foreign, of_nested};
use crate::functions::elementwise::array_of;
use crate::handle::{Array, Data};
use crate::promote::Arg;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple};
use thalweg::{DType, MAX_RANK, Shape, SliceArg, Tensor};

/// One component of a key.
enum KeyPart {
    Slice(SliceArg),
    At(i64),
    NewAxis,
    Ellipsis,
    /// An array of integers.
    Index(Tensor),
    /// An array of bools of this rank, or a Python bool (rank 0).
    Mask(Tensor),
}

fn part_of(item: &Bound<'_, PyAny>) -> PyResult<KeyPart> {
    let py = item.py();
    if let Ok(slice) = item.cast::<PySlice>() {
        let end = |name: &str| -> PyResult<Option<i64>> {
            let v = slice.getattr(name)?;
            if v.is_none() { Ok(None) } else { bound(&v).map(Some) }
        };
        let (start, stop, step) = (end("start")?, end("stop")?, end("step")?.unwrap_or(1));
        if step == 0 {
            return Err(value_error(py, "slice step cannot be zero"));
        }
        return Ok(KeyPart::Slice(SliceArg::range(start, stop, step)));
    }
    if item.is_none() {
        return Ok(KeyPart::NewAxis);
    }
    if item.cast::<PyEllipsis>().is_ok() {
        return Ok(KeyPart::Ellipsis);
    }
    if let Ok(v) = item.cast::<PyBool>() {
        let v = v.is_true();
        return Ok(KeyPart::Mask(run(py, || Tensor::full_with([], v, DType::Bool))?));
    }
    if item.cast::<PyInt>().is_ok() {
        return Ok(KeyPart::At(bound(item)?));
    }
    let data = match item.cast::<Array>() {
        Ok(array) => Some(array.get().data()),
        Err(_) if item.cast::<PyList>().is_ok() => Some(of_nested(item, None)?),
        Err(_) => of_foreign(item)?,
    };
    if let Some(data) = data {
        return match data {
            Data::Real(x) if x.dtype() == DType::Bool => Ok(KeyPart::Mask(x)),
            Data::Real(x) if x.dtype().is_int() => Ok(KeyPart::Index(x)),
            Data::Real(x) if x.numel() == 0 && item.cast::<PyList>().is_ok() => {
                Ok(KeyPart::Index(run(py, || x.cast(DType::I64))?))
            }
            other => {
                let name = other.dtype().name();
                Err(index_error(py, format!("an index array is of integers or bool, not {name}")))
            }
        };
    }
    if item.hasattr("__index__")? {
        return Ok(KeyPart::At(bound(&item.call_method0("__index__")?)?));
    }
    let kind = item.get_type().name()?;
    Err(index_error(
        py,
        format!("an index is an integer, a slice, ..., None or an array of integers or bool, not {kind}"),
    ))
}

/// An integer of a key; beyond i64 it is as far out of range as can be.
fn bound(item: &Bound<'_, PyAny>) -> PyResult<i64> {
    match item.extract::<i64>() {
        Ok(v) => Ok(v),
        Err(e) => match item.extract::<f64>() {
            Ok(v) if item.cast::<PyInt>().is_ok() => Ok(if v < 0.0 { i64::MIN / 4 } else { i64::MAX / 4 }),
            _ if item.hasattr("__index__")? => bound(&item.call_method0("__index__")?),
            _ => Err(e),
        },
    }
}

/// A key, resolved for an array.
struct Key {
    /// Basic part: slices, integers and new axes. Axes with index arrays are whole.
    basic: Vec<SliceArg>,
    /// Index arrays, with the axis of the sliced array that each indexes.
    arrays: Vec<(usize, Tensor)>,
    /// Whether the dimensions of the index arrays come first: the arrays are not on neighbouring axes.
    first: bool,
    /// A single mask over the leading axes, and nothing else.
    mask: Option<Tensor>,
}

impl Key {
    fn new(py: Python<'_>, key: &Bound<'_, PyAny>, shape: &Shape) -> PyResult<Key> {
        let parts: Vec<KeyPart> = match key.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().map(|item| part_of(&item)).collect::<PyResult<_>>()?,
            Err(_) => vec![part_of(key)?],
        };
        let rank = shape.rank();
        let taken: usize = parts
            .iter()
            .map(|p| match p {
                KeyPart::Slice(_) | KeyPart::At(_) | KeyPart::Index(_) => 1,
                KeyPart::Mask(m) => m.rank(),
                KeyPart::NewAxis | KeyPart::Ellipsis => 0,
            })
            .sum();
        if taken > rank {
            return Err(index_error(py, format!("too many indices: {taken} for the {rank} axes of {shape}")));
        }
        if parts.iter().filter(|p| matches!(p, KeyPart::Ellipsis)).count() > 1 {
            return Err(index_error(py, "an index can only have a single ellipsis ('...')"));
        }
        if let [KeyPart::Mask(mask)] = &parts[..]
            && mask.rank() > 0
        {
            let mask = checked_mask(py, mask.clone(), shape, 0)?;
            return Ok(Key { basic: vec![], arrays: vec![], first: true, mask: Some(mask) });
        }
        let advanced = parts.iter().any(|p| matches!(p, KeyPart::Index(_) | KeyPart::Mask(_)));
        let mut key = Key { basic: vec![], arrays: vec![], first: false, mask: None };
        // Axis of the operand, and of the sliced array.
        let (mut axis, mut out) = (0, 0);
        // Positions in the key of index arrays, for whether they are neighbours. An integer counts as one of them.
        let mut positions: Vec<usize> = vec![];
        for (position, part) in parts.into_iter().enumerate() {
            match part {
                KeyPart::Slice(slice) => {
                    key.basic.push(slice);
                    (axis, out) = (axis + 1, out + 1);
                }
                KeyPart::NewAxis => {
                    key.basic.push(SliceArg::NewAxis);
                    out += 1;
                }
                KeyPart::Ellipsis => {
                    for _ in 0..rank - taken {
                        key.basic.push(SliceArg::range(None, None, 1));
                        (axis, out) = (axis + 1, out + 1);
                    }
                }
                KeyPart::At(at) => {
                    let size = shape[axis] as i64;
                    if at >= size || at < -size {
                        let text = format!("index {at} is out of bounds for axis {axis} with size {size}");
                        return Err(index_error(py, text));
                    }
                    if advanced {
                        key.basic.push(SliceArg::range(None, None, 1));
                        let index = run(py, || Tensor::full_with([], at, DType::I64))?;
                        key.arrays.push((out, index));
                        positions.push(position);
                        out += 1;
                    } else {
                        key.basic.push(SliceArg::At(at));
                    }
                    axis += 1;
                }
                KeyPart::Index(index) => {
                    key.basic.push(SliceArg::range(None, None, 1));
                    key.arrays.push((out, index));
                    positions.push(position);
                    (axis, out) = (axis + 1, out + 1);
                }
                KeyPart::Mask(mask) if mask.rank() == 0 => {
                    // One or no element of a new axis.
                    key.basic.push(SliceArg::NewAxis);
                    let index = run_fallible(py, || mask.reshape([1]).flat_nonzero())?;
                    key.arrays.push((out, index));
                    positions.push(position);
                    out += 1;
                }
                KeyPart::Mask(mask) => {
                    let mask = checked_mask(py, mask, shape, axis)?;
                    for index in run_fallible(py, || mask.nonzero())? {
                        key.basic.push(SliceArg::range(None, None, 1));
                        key.arrays.push((out, index));
                        (axis, out) = (axis + 1, out + 1);
                    }
                    positions.push(position);
                }
            }
        }
        if out + (rank - axis) > MAX_RANK {
            return Err(index_error(py, format!("the result is over the rank limit of {MAX_RANK}")));
        }
        key.first = positions.windows(2).any(|p| p[1] != p[0] + 1);
        Ok(key)
    }

    /// Whether the basic part selects everything as it is.
    fn is_plain(&self) -> bool {
        self.basic.iter().all(|a| matches!(a, SliceArg::Range { start: None, end: None, step: 1 }))
    }
}

/// A mask for axes of a shape from `axis` on. A mask with a size of 0 selects nothing, as NumPy has it.
fn checked_mask(py: Python<'_>, mask: Tensor, shape: &Shape, axis: usize) -> PyResult<Tensor> {
    let own = Shape::new(&shape.dims()[axis..axis + mask.rank()]);
    for (i, &size) in mask.dims().iter().enumerate() {
        if own[i] != size && size != 0 {
            let text = format!("a boolean index has {size} elements along axis {}, the array {}", axis + i, own[i]);
            return Err(index_error(py, text));
        }
    }
    if *mask.shape() == own {
        return Ok(mask);
    }
    run(py, || Tensor::full_with(own, false, (DType::Bool, mask.device())))
}

/// Order of axes that puts the indexed ones first.
fn indexed_first(rank: usize, arrays: &[(usize, Tensor)]) -> Vec<usize> {
    let indexed = arrays.iter().map(|a| a.0);
    indexed.chain((0..rank).filter(|i| arrays.iter().all(|a| a.0 != *i))).collect()
}

/// Shape that index arrays broadcast to.
fn indices_shape(py: Python<'_>, arrays: &[(usize, Tensor)]) -> PyResult<Shape> {
    let mut shape = Shape::SCALAR;
    for (_, index) in arrays {
        shape = shape.broadcast(index.shape()).ok_or_else(|| {
            let shapes: Vec<String> = arrays.iter().map(|a| a.1.shape().to_string()).collect();
            index_error(py, format!("index arrays of shapes {} do not broadcast", shapes.join(", ")))
        })?;
    }
    Ok(shape)
}

/// Index arrays on the array's device, checked as far as the sizes say.
fn checked(py: Python<'_>, x: &Tensor, arrays: Vec<(usize, Tensor)>) -> PyResult<Vec<(usize, Tensor)>> {
    for (axis, index) in &arrays {
        if x.dims()[*axis] == 0 && index.numel() > 0 {
            return Err(index_error(py, format!("index is out of bounds for axis {axis} with size 0")));
        }
    }
    let device = x.device();
    arrays.into_iter().map(|(axis, index)| Ok((axis, run_fallible(py, || index.to_device(device))?))).collect()
}

/// Position among the result's axes at which the dimensions of the index arrays are.
fn position_of(key: &Key) -> usize {
    if key.first { 0 } else { key.arrays.iter().map(|a| a.0).min().unwrap_or(0) }
}

/// `x[key]` of a tensor.
fn read(py: Python<'_>, x: &Tensor, key: &Key) -> PyResult<Tensor> {
    if let Some(mask) = &key.mask {
        return masked(py, x, mask);
    }
    let x = if key.is_plain() { x.clone() } else { run(py, || x.slice(&key.basic[..]))? };
    if key.arrays.is_empty() {
        return Ok(x);
    }
    let arrays = checked(py, &x, key.arrays.clone())?;
    let shape = indices_shape(py, &arrays)?;
    let rank = x.rank();
    if shape.rank() + rank - arrays.len() > MAX_RANK {
        return Err(index_error(py, format!("the result is over the rank limit of {MAX_RANK}")));
    }
    let at = position_of(key);
    run(py, || {
        if let [(axis, index)] = &arrays[..] {
            return x.index_select(*axis as i64, index);
        }
        let first = x.permute(indexed_first(rank, &arrays));
        let indices: Vec<&Tensor> = arrays.iter().map(|a| &a.1).collect();
        let found = first.index(&indices);
        // The dimensions of the indices move from the front to their position.
        let (count, total) = (shape.rank(), found.rank());
        let rest = (count..count + at).chain(0..count).chain(count + at..total);
        found.permute(rest.collect::<Vec<usize>>())
    })
}

/// `x[mask]`: elements in row-major order, with the dimensions that the mask does not cover.
fn masked(py: Python<'_>, x: &Tensor, mask: &Tensor) -> PyResult<Tensor> {
    let covered = mask.rank();
    let rest: Vec<usize> = x.dims()[covered..].to_vec();
    run_fallible(py, || {
        let mask = mask.to_device(x.device())?;
        if covered == x.rank() {
            return x.masked_select(&mask);
        }
        let places = mask.flatten().flat_nonzero()?;
        let mut dims = vec![mask.numel()];
        dims.extend(&rest);
        Ok(x.reshape(Shape::new(&dims)).index_select(0, &places))
    })
}

/// `x` with `values` at `key`; values are of the array's dtype.
fn write(py: Python<'_>, x: &Tensor, key: &Key, values: &Tensor) -> PyResult<Tensor> {
    let own = *x.shape();
    if let Some(mask) = &key.mask {
        return write_masked(py, x, mask, values);
    }
    if key.arrays.is_empty() {
        let values = trimmed(py, values, &run(py, || x.slice(&key.basic[..]))?)?;
        let mut out = x.clone();
        run(py, || out.set(&key.basic[..], &values))?;
        return Ok(out);
    }
    // The basic part is taken out, written to, and put back.
    let part = if key.is_plain() { x.clone() } else { run(py, || x.slice(&key.basic[..]))? };
    let arrays = checked(py, &part, key.arrays.clone())?;
    let shape = indices_shape(py, &arrays)?;
    let rank = part.rank();
    let at = position_of(key);
    let order = indexed_first(rank, &arrays);
    // Shape of the selection, as a read would give it, and as the scatter takes it (index dimensions first).
    let rest: Vec<usize> = order[arrays.len()..].iter().map(|&i| part.dims()[i]).collect();
    if shape.rank() + rest.len() > MAX_RANK {
        return Err(index_error(py, format!("the values are over the rank limit of {MAX_RANK}")));
    }
    let selected: Vec<usize> = rest[..at].iter().chain(shape.dims()).chain(&rest[at..]).copied().collect();
    let selected = Shape::new(&selected);
    let values = broadcast(py, values, &selected)?;
    let count = shape.rank();
    let part = run(py, || {
        let front = (at..at + count).chain(0..at).chain(at + count..selected.rank());
        let values = values.permute(front.collect::<Vec<usize>>());
        let first = part.permute(&order);
        let indices: Vec<&Tensor> = arrays.iter().map(|a| &a.1).collect();
        let put = first.index_put(&indices, &values, false);
        let mut back = vec![0; rank];
        for (i, &o) in order.iter().enumerate() {
            back[o] = i;
        }
        put.permute(back)
    })?;
    if key.is_plain() {
        return run(py, || part.reshape(own));
    }
    let mut out = x.clone();
    run(py, || out.set(&key.basic[..], &part))?;
    Ok(out)
}

fn write_masked(py: Python<'_>, x: &Tensor, mask: &Tensor, values: &Tensor) -> PyResult<Tensor> {
    let device = x.device();
    let mask = run_fallible(py, || mask.to_device(device))?;
    let covered = mask.rank();
    let over = run(py, || {
        let mut shape = mask.dims().to_vec();
        shape.resize(x.rank(), 1);
        mask.reshape(Shape::new(&shape)).broadcast_to(*x.shape())
    })?;
    // Values that are the same for all selected elements need no count of these.
    let rest = &x.dims()[covered..];
    if values.rank() <= rest.len() {
        let values = broadcast(py, values, &Shape::new(rest))?;
        return run(py, || over.where_(&values, x));
    }
    let count = run_fallible(py, || mask.count_nonzero(..).item::<i64>())? as usize;
    let mut selected = vec![count];
    selected.extend(rest);
    let values = broadcast(py, values, &Shape::new(&selected))?;
    run(py, || x.masked_scatter(&over, &values.flatten()))
}

/// Values without leading axes of size 1 beyond the rank of the destination, which NumPy drops.
fn trimmed(py: Python<'_>, values: &Tensor, part: &Tensor) -> PyResult<Tensor> {
    broadcast(py, values, part.shape())
}

fn broadcast(py: Python<'_>, values: &Tensor, shape: &Shape) -> PyResult<Tensor> {
    let extra = values.rank().saturating_sub(shape.rank());
    let fits = values.dims()[..extra].iter().all(|&d| d == 1);
    let dims = Shape::new(&values.dims()[extra..]);
    if !fits || dims.broadcast(shape) != Some(*shape) {
        let text = format!("values of shape {} do not broadcast to the selected shape {shape}", values.shape());
        return Err(value_error(py, text));
    }
    let target = *shape;
    run(py, || values.reshape(dims).broadcast_to(target))
}

#[pymethods]
impl Array {
    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Data> {
        let data = self.data();
        let key = Key::new(py, key, data.shape())?;
        Ok(match &data {
            Data::Real(x) => read(py, x, &key)?.into(),
            Data::Complex(z) => {
                Data::Complex(thalweg::Complex { re: read(py, &z.re, &key)?, im: read(py, &z.im, &key)? })
            }
        })
    }

    fn __setitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = self.data();
        let dtype = data.dtype();
        let resolved = Key::new(py, key, data.shape())?;
        let value = match Arg::of(value)? {
            Some(arg) => arg,
            None => match of_foreign(value)? {
                Some(data) => Arg::Array(data),
                None => Arg::Array(of_nested(value, None)?),
            },
        };
        let value = assigned(py, &value, dtype, data.device())?;
        self.rebind(match (&data, &value) {
            (Data::Real(x), Data::Real(v)) => write(py, x, &resolved, v)?.into(),
            (data, value) => {
                let (z, v) = (data.complex(), value.complex());
                Data::Complex(thalweg::Complex {
                    re: write(py, &z.re, &resolved, &v.re)?,
                    im: write(py, &z.im, &resolved, &v.im)?,
                })
            }
        });
        Ok(())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let first = self.with(|d| d.dims().first().copied());
        first.ok_or_else(|| type_error(py, "len() of an array without dimensions"))
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let array = slf.get();
        if array.with(Data::rank) == 0 {
            return Err(type_error(py, "iteration over an array without dimensions"));
        }
        let data = array.data();
        let rows: Vec<Data> = run(py, || (0..data.dims()[0]).map(|i| data.map(|x| x.select(0, i))).collect())?;
        PyList::new(py, rows)?.into_any().call_method0("__iter__")
    }

    fn __contains__(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        use crate::functions::elementwise::{Binary, binary};
        let Some(value) = Arg::of(value)? else { return Ok(false) };
        let equal = binary(py, Binary::Equal, &Arg::Array(self.data()), &value)?.real(py, "in")?;
        run_fallible(py, || equal.any(..).item::<bool>())
    }
}

/// A value as assigned to elements of a dtype. Floats are truncated for integers, as NumPy does; complex numbers do not
/// fit real dtypes.
fn assigned(py: Python<'_>, value: &Arg, dtype: ArrayDType, device: thalweg::Device) -> PyResult<Data> {
    let own = value.own_dtype();
    if own.is_complex() && !dtype.is_complex() {
        return Err(type_error(py, format!("{} is not cast to {}", own.name(), dtype.name())));
    }
    match value {
        Arg::Float(v) if dtype.is_int() => {
            let v = *v;
            if !v.is_finite() {
                return Err(value_error(py, format!("cannot convert {v} to {}", dtype.name())));
            }
            array_of(py, &Arg::Int(thalweg::Scalar::Int(v as i64)), dtype, device)
        }
        Arg::Array(data) => {
            let data = data.clone();
            let moved = run_fallible(py, || match data {
                Data::Real(x) => Ok(Data::Real(x.to_device(device)?)),
                Data::Complex(z) => Ok(Data::Complex(z.to_device(device)?)),
            })?;
            run(py, || if moved.dtype() == dtype { moved } else { moved.cast(dtype) })
        }
        Arg::Int(_) if dtype == Real(DType::Bool) => {
            let v = value.scalar().is_some_and(|s| s.to_f64() != 0.0);
            array_of(py, &Arg::Bool(v), dtype, device)
        }
        _ => array_of(py, value, dtype, device),
    }
}
