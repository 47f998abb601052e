//! Matrix products by cuBLASLt: choice of the algorithm, and its check.
//!
//! In: a [`Product`]. Out: a function that computes it by one algorithm, always the same: the library's first choice
//! that passes the check. Choices are cached in memory and on disk, by product, library version and chip.
//!
//! The check: cuBLASLt 12.8 to 13.1 is known to drop the last terms of sums in some of its kernels. So before an
//! algorithm is used for a size, it computes a product of ones, in which every element must be the number of terms.
//! Where the dtype cannot represent that number (bf16 has 8 bits), a second product has the second half of its terms
//! negative: every element must be 0 or 1, and dropped terms show. Gaps between columns are NaN meanwhile, and so is
//! the result before.
//!
//! Always true: an algorithm that failed the check is never used.

use super::Cuda;
use super::chosen::Chosen;
use super::code::{What, entry, library_function};
use crate::driver::cublaslt::{Algorithm, CublasLt, Problem};
use crate::driver::{Driver, Function};
use crate::tunable::TUNABLES;
use half::{bf16, f16};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use thalweg_gpu::product::{Product, Side};
use thalweg_ir::DType;
use thalweg_runtime::Error;
use thalweg_runtime::disk::{self, Key, Kind};

/// Bytes of the check's result that are read back and compared at a time.
const READ: usize = 16 << 20;

/// Matrix products of a device: the library, and the functions chosen so far.
#[derive(Debug, Default)]
pub(super) struct Products {
    library: OnceLock<Option<Arc<CublasLt>>>,
    /// Chosen functions; `None` for products that no algorithm computes correctly. Locked while an algorithm is chosen.
    known: Mutex<FxHashMap<Product, Option<Function>>>,
}

impl Cuda {
    /// Returns the function of a product, choosing it at the first call: see [`Driver::product`].
    pub(super) fn chosen(&self, product: &Product) -> Option<Function> {
        let library = self.products.library.get_or_init(|| self.open_library()).as_ref()?;
        let mut known = self.products.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(product) {
            return found.clone();
        }
        let found = self.choose(library, product);
        let found = found.inspect_err(|error| tracing::debug!(%error, ?product, "runs on plain cores")).ok()?;
        if TUNABLES.max_products.reached_by(known.len()) {
            known.clear();
        }
        known.insert(*product, found.clone());
        found
    }

    fn open_library(&self) -> Option<Arc<CublasLt>> {
        let made = self.gpu.enter().map_err(|e| e.to_string()).and_then(|()| CublasLt::new(self.major));
        made.map(Arc::new).inspect_err(|why| tracing::debug!(why, "products run on plain cores")).ok()
    }

    /// Chooses the cuBLASLt algorithm of a new product: the one in the disk cache, else the first candidate of the
    /// library's heuristic whose results pass a check. Returns `None` if the library cannot describe the product, or no
    /// candidate passes; the caller caches both outcomes. Errors, such as lack of memory, may not recur, and are not
    /// cached.
    fn choose(&self, library: &Arc<CublasLt>, product: &Product) -> Result<Option<Function>, Error> {
        self.gpu.enter()?;
        let problem = match library.problem(product) {
            Ok(problem) => problem,
            Err(why) => {
                tracing::debug!(why, ?product, "cannot be described");
                return Ok(None);
            }
        };
        let cache = disk::cache();
        let key = self.key(library, product);
        let kept = cache.as_ref().and_then(|c| c.get(Kind::Product, &key)).and_then(|bytes| from_bytes(&bytes));
        match kept {
            Some(None) => return Ok(None),
            Some(Some(algorithm)) => {
                if let Some(workspace) = library.workspace(&problem, &algorithm) {
                    return Ok(Some(self.function(library, product, problem, (algorithm, workspace))));
                }
            }
            None => {}
        }
        let candidates = library.candidates(&problem).unwrap_or_else(|why| {
            tracing::debug!(why, ?product, "no algorithm");
            vec![]
        });
        let (mut problem, mut found) = (Some(problem), None);
        for (algorithm, workspace) in candidates {
            let described = problem.take().map_or_else(|| library.problem(product), Ok).map_err(|m| self.error(m))?;
            let function = self.function(library, product, described, (algorithm, workspace));
            if self.is_right(&function, product, workspace)? {
                found = Some((function, algorithm));
                break;
            }
            tracing::warn!(?product, ?algorithm, "an algorithm of cuBLASLt gives wrong sums, and is not used");
        }
        if let Some(cache) = cache {
            cache.put(Kind::Product, &key, &to_bytes(found.as_ref().map(|f| &f.1)));
        }
        Ok(found.map(|f| f.0))
    }

    fn error(&self, message: String) -> Error {
        Error::Device { device: self.gpu.name.clone(), message }
    }

    /// Cache key of a choice: library version, chip and product.
    fn key(&self, library: &CublasLt, product: &Product) -> Key {
        let chip = &self.chip;
        let text = format!("{} {} {} {} {product:?}", library.version(), chip.name, chip.sm, chip.multiprocessors);
        Key::of(&[b"cuBLASLt with split sums", text.as_bytes()])
    }

    fn function(
        &self,
        library: &Arc<CublasLt>,
        product: &Product,
        problem: Problem,
        (algorithm, workspace): (Algorithm, usize),
    ) -> Function {
        let alignments = [product.left, product.right, product.result].map(|s| s.alignment);
        let chosen = Chosen { library: library.clone(), problem, algorithm, workspace, alignments };
        library_function("a matrix product", Box::new(chosen), workspace)
    }

    /// Whether an algorithm computes correct sums of ones, and of equally many 1 and -1 where the dtype cannot
    /// represent the first sum.
    fn is_right(&self, function: &Function, product: &Product, workspace: usize) -> Result<bool, Error> {
        let check = Check::new(self, product, workspace)?;
        let terms = product.depth as f64;
        if !check.gives(function, product.depth, terms)? {
            return Ok(false);
        }
        let exact = 2f64.powi(product.dtype.mantissa_digits() as i32) >= terms;
        if exact || !is_non_overlapping(&product.left, [product.rows, product.depth], product.count) {
            return Ok(true);
        }
        let half = product.depth / 2;
        check.gives(function, half + product.depth % 2, (product.depth % 2) as f64)
    }
}

/// Buffers for the check of an algorithm: operands, result and workspace. They are freed when dropped.
struct Check<'a> {
    cuda: &'a Cuda,
    product: &'a Product,
    /// Addresses of left operand, right operand, result, workspace.
    addresses: [u64; 4],
}

impl Drop for Check<'_> {
    fn drop(&mut self) {
        self.addresses.iter().filter(|&&a| a != 0).for_each(|&a| self.cuda.release(a));
    }
}

/// Number of elements of memory that a matrix operand spans, from its first element to its last one in the batch.
fn reach(side: &Side, [rows, columns]: [usize; 2], count: usize) -> usize {
    let [rows, columns] = if side.transposed { [columns, rows] } else { [rows, columns] };
    (count - 1) * side.stride + (columns - 1) * side.leading + rows
}

/// Whether no two elements of an operand share memory, except for the matrices of a broadcast batch.
fn is_non_overlapping(side: &Side, [rows, columns]: [usize; 2], count: usize) -> bool {
    let [rows, columns] = if side.transposed { [columns, rows] } else { [rows, columns] };
    let mut dims = [(1, rows), (side.leading, columns), (side.stride, if side.stride == 0 { 1 } else { count })];
    dims.sort_unstable();
    let dims: Vec<_> = dims.into_iter().filter(|d| d.1 > 1).collect();
    dims.windows(2).all(|d| d[1].0 >= d[0].0 * d[0].1)
}

impl<'a> Check<'a> {
    fn new(cuda: &'a Cuda, product: &'a Product, workspace: usize) -> Result<Check<'a>, Error> {
        let &Product { rows, columns, depth, count, dtype, .. } = product;
        let sides =
            [(&product.left, [rows, depth]), (&product.right, [depth, columns]), (&product.result, [rows, columns])];
        let mut check = Check { cuda, product, addresses: [0; 4] };
        let none =
            |bytes| Error::OutOfMemory { requested: bytes, in_use: 0, limit: None, device: cuda.gpu.name.clone() };
        for (address, (side, sizes)) in check.addresses.iter_mut().zip(sides) {
            let bytes = reach(side, sizes, count) * dtype.size();
            *address = cuda.obtain(bytes).ok_or_else(|| none(bytes))?;
            // NaN in every float dtype.
            cuda.fill(*address, 0xff, bytes)?;
        }
        if workspace > 0 {
            check.addresses[3] = cuda.obtain(workspace).ok_or_else(|| none(workspace))?;
        }
        check.fill(check.addresses[1], &product.right, [depth, columns], 1.0)?;
        Ok(check)
    }

    /// Fills all elements of a matrix operand, in every product of the batch, with `value`. Gaps between columns are
    /// not written.
    fn fill(&self, address: u64, side: &Side, [rows, columns]: [usize; 2], value: f64) -> Result<(), Error> {
        let [rows, columns] = if side.transposed { [columns, rows] } else { [rows, columns] };
        let (size, mut count, mut columns) = (self.product.dtype.size(), self.product.count, columns);
        if side.stride == 0 {
            count = 1;
        } else if side.stride == side.leading * columns {
            (columns, count) = (columns * count, 1);
        }
        let bits = bits_of(value, self.product.dtype);
        for product in 0..count {
            let address = address + (product * side.stride * size) as u64;
            let (pitch, sizes) = (side.leading * size, [rows, columns]);
            if self.product.dtype != DType::F64 {
                self.cuda.gpu.fill_rows(self.cuda.queue, (address, pitch), (size, bits as u32), sizes)?;
                continue;
            }
            // 64-bit elements are pairs of halves, each filled as a column: one for all elements, one per column, or
            // one per row, whichever are fewest.
            let (lines, apart, step, many) = match side.leading == rows {
                true => (1, 0, size, rows * columns),
                false if columns <= rows => (columns, pitch, size, rows),
                false => (rows, size, pitch, columns),
            };
            for line in 0..lines {
                let address = address + (line * apart) as u64;
                let queue = self.cuda.queue;
                self.cuda.gpu.fill_rows(queue, (address, step), (4, bits as u32), [1, many])?;
                self.cuda.gpu.fill_rows(queue, (address + 4, step), (4, (bits >> 32) as u32), [1, many])?;
            }
        }
        Ok(())
    }

    /// Whether the algorithm computes `expected` in every element, where the first `ones` terms are 1 and the others
    /// -1.
    fn gives(&self, function: &Function, ones: usize, expected: f64) -> Result<bool, Error> {
        let &Product { rows, columns, depth, count, dtype, left, result, .. } = self.product;
        self.fill(self.addresses[0], &left, [rows, depth], 1.0)?;
        if ones < depth {
            let to_there = if left.transposed { ones } else { ones * left.leading };
            let from_there = self.addresses[0] + (to_there * dtype.size()) as u64;
            self.rest(from_there, &left, [rows, depth - ones])?;
        }
        let turn = self.cuda.gpu.turn(self.cuda.queue)?;
        let What::Library(call) = &entry(function).what else { unreachable!("it is a product") };
        if let Err(why) = call.launch(&self.addresses, turn.handle as usize) {
            tracing::debug!(why, "an algorithm does not run");
            return Ok(false);
        }
        drop(turn);
        let want = bits_of(expected, dtype).to_le_bytes();
        let want = &want[..dtype.size()];
        let (each, stride) = (rows * columns, result.stride.max(1));
        let (blocks, each) = if count == 1 || stride == each { (1, each * count) } else { (count, each) };
        let mut bytes = vec![0; READ.min(each * dtype.size())];
        for block in 0..blocks {
            let (first, end) = (block * stride * dtype.size(), (block * stride + each) * dtype.size());
            for at in (first..end).step_by(READ) {
                let bytes = &mut bytes[..READ.min(end - at)];
                self.cuda.read(self.addresses[2] + at as u64, bytes)?;
                // All elements equal the first one, if each equals the one before.
                if bytes[..want.len()] != *want || bytes[want.len()..] != bytes[..bytes.len() - want.len()] {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Writes -1 to the left operand from `address` on: to the given number of rows and terms of each matrix.
    fn rest(&self, address: u64, left: &Side, sizes: [usize; 2]) -> Result<(), Error> {
        let [rows, terms] = sizes;
        let size = self.product.dtype.size();
        let [neighbours, others] = if left.transposed { [terms, rows] } else { [rows, terms] };
        let bits = bits_of(-1.0, self.product.dtype) as u32;
        let count = if left.stride == 0 { 1 } else { self.product.count };
        for product in 0..count {
            let address = address + (product * left.stride * size) as u64;
            let place = (address, left.leading * size);
            self.cuda.gpu.fill_rows(self.cuda.queue, place, (size, bits), [neighbours, others])?;
        }
        Ok(())
    }
}

/// Bits of a number in memory after it is rounded to a dtype.
fn bits_of(value: f64, dtype: DType) -> u64 {
    match dtype {
        DType::F64 => value.to_bits(),
        DType::BF16 => u64::from(bf16::from_f64(value).to_bits()),
        DType::F16 => u64::from(f16::from_f64(value).to_bits()),
        _ => u64::from((value as f32).to_bits()),
    }
}

/// Serialises a choice: empty, or an algorithm.
fn to_bytes(algorithm: Option<&Algorithm>) -> Vec<u8> {
    algorithm.map_or(vec![], |a| a.iter().flat_map(|w| w.to_le_bytes()).collect())
}

/// Parses a choice; `None` for invalid bytes.
fn from_bytes(bytes: &[u8]) -> Option<Option<Algorithm>> {
    if bytes.is_empty() {
        return Some(None);
    }
    let (words, []) = bytes.as_chunks::<8>() else { return None };
    let words: [[u8; 8]; 8] = words.try_into().ok()?;
    Some(Some(words.map(u64::from_le_bytes)))
}
