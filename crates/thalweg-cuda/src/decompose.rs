//! Matrix decompositions by the driver's library.
//!
//! In: matrices in any layout. Out: results, row-major. The library takes column-major matrices: a kernel packs them,
//! the library's routines decompose them, and other kernels unpack the results and check whether they exist. The reason
//! why a matrix has no decomposition is reported to a fault slot (`faults`), which is checked when a result is read.
//!
//! Always true: all work is submitted in one turn, and its temporary memory is freed after it.

use crate::around::{BLOCK, Functions, RANK, first_of, launch};
use crate::driver::{BatchBuffer, Driver, Function, Launch, Matrices, Routine, RoutineBuffers};
use std::sync::Arc;
use thalweg_gpu::runtime::Queues;
use thalweg_ir::View;
use thalweg_runtime::{Batch, Buffer, Decomposition, DecompositionKind as Kind, Error, Pool, Unfit, count};

/// Kernels that pack, unpack and check matrices around the calls of cuSOLVER. Each has an f32 and an f64 version,
/// except for the last two.
#[derive(Clone, Copy)]
enum Kernel {
    Pack,
    Unpack,
    Identity,
    Diagonal,
    Order,
    Determinant,
    Reflect,
    Said,
    Places,
}

const NAMES: [&str; 16] = [
    "pack_f32",
    "pack_f64",
    "unpack_f32",
    "unpack_f64",
    "identity_f32",
    "identity_f64",
    "diagonal_f32",
    "diagonal_f64",
    "order_f32",
    "order_f64",
    "determinant_f32",
    "determinant_f64",
    "reflect_f32",
    "reflect_f64",
    "said",
    "places",
];

impl Kernel {
    fn place(self, double: bool) -> usize {
        match self {
            Kernel::Said => 14,
            Kernel::Places => 15,
            other => 2 * other as usize + usize::from(double),
        }
    }
}

/// Compiled helper kernels of a device.
#[derive(Debug, Default)]
pub(crate) struct Decompositions(Functions);

/// Work item of a decomposition; the items are submitted in order.
enum Step {
    /// A launch, and the index of its kernel argument for the fault slot, if any.
    Launch(Launch, Option<usize>),
    Routine(Matrices, RoutineBuffers),
    /// Fill with zeros: address and number of bytes.
    Zero(u64, usize),
}

/// Decomposition that is being prepared: its temporary buffers and its work items.
struct Making<'a> {
    driver: &'a dyn Driver,
    pool: &'a Arc<Pool>,
    kernels: Arc<[Function]>,
    of: Decomposition,
    /// Bytes of an element.
    size: usize,
    held: Vec<Buffer>,
    steps: Vec<Step>,
}

/// Options of the kernel that packs matrices for the library: column-major result, lower half only (with zeros above),
/// and check for elements that are not finite.
#[derive(Clone, Copy, Default)]
struct How {
    by_columns: bool,
    lower: bool,
    /// Reason that is reported for a matrix with elements that are not finite; `None` for no check.
    finite: Option<Unfit>,
}

/// Elements of a matrix that the unpacking kernel copies: all, or one triangle. It sets the other triangle to 0.
#[derive(Clone, Copy)]
enum Half {
    Both,
    Upper,
    Lower,
}

const BY_COLUMNS: How = How { by_columns: true, lower: false, finite: None };

impl Decompositions {
    /// Submits a decomposition, as [`thalweg_runtime::Device::decompose`] specifies.
    pub fn run(
        &self,
        (queues, pool): (&Queues, &Arc<Pool>),
        of: &Decomposition,
        x: &[(&Buffer, &View)],
        y: &[&Buffer],
    ) -> Option<Result<Batch, Error>> {
        let queue = match queues.mine() {
            Ok(queue) => queue,
            Err(error) => return Some(Err(error)),
        };
        // Reports belong to a batch of their own.
        if queue.is_open() || of.count == 0 || of.m == 0 || of.n == 0 || y.iter().any(|y| y.bytes() == 0) {
            return None;
        }
        if !is_worth_it(of) {
            return None;
        }
        let driver = queue.driver();
        // Opens the library before anything is compiled.
        let libraries = driver.libraries()?;
        libraries.routine(&first(of))?;
        let kernels = self.0.get(driver, include_str!("decompose.cuh"), &NAMES);
        let kernels = kernels.inspect_err(|error| tracing::debug!(%error, "no kernels of decompositions")).ok()?;
        let size = if of.double { 8 } else { 4 };
        let mut making = Making { driver, pool, kernels, of: *of, size, held: vec![], steps: vec![] };
        making.all(x, y)?;
        let Making { held, steps, .. } = making;
        let missing = &|other| queues.make_whole(other);
        let used: Vec<&Buffer> = x.iter().map(|x| x.0).chain(y.iter().copied()).chain(&held).collect();
        let tells = steps.iter().any(|s| matches!(s, Step::Launch(_, Some(_))));
        let mut refused = None;
        let put = queue.batch(None, false, &mut || {
            let word = queue.begin(tells)?;
            used.iter().try_for_each(|buffer| queue.uses(buffer, missing))?;
            for step in &steps {
                match step {
                    Step::Launch(launch, told) => match told {
                        Some(at) => {
                            let mut launch = launch.clone();
                            launch.arguments[*at] = word;
                            driver.launch(&launch)?;
                        }
                        None => driver.launch(launch)?,
                    },
                    Step::Routine(of, places) => {
                        if let Err(why) = libraries.run_routine(of, places)? {
                            refused = Some(why);
                            return Ok(());
                        }
                    }
                    Step::Zero(at, bytes) => driver.fill(*at, 0, *bytes)?,
                }
            }
            Ok(())
        });
        if let (Some(why), Ok(_)) = (refused, &put) {
            // The host overwrites partial results.
            tracing::debug!(why, ?of, "decomposed on the host");
            return None;
        }
        count(|c| c.library_calls += 1);
        Some(put)
    }
}

/// First routine of the library that a decomposition calls, with the matrices that it takes.
fn first(of: &Decomposition) -> Matrices {
    let &Decomposition { kind, double, count, m, n, columns } = of;
    let routine = match kind {
        Kind::Cholesky => Routine::Cholesky { n },
        Kind::Lu | Kind::Solve | Kind::Inverse { .. } | Kind::Determinant | Kind::LogDeterminant => {
            Routine::Lu { m, n }
        }
        Kind::Qr { .. } => Routine::Qr { m, n },
        Kind::Svd { full } => {
            let (m, n) = (m.max(n), m.min(n));
            // The batched routine always computes all columns.
            let left = if full || is_batched(of) { m } else { n };
            Routine::Singular { m, n, left }
        }
        Kind::SingularValues => Routine::Singular { m: m.max(n), n: m.min(n), left: 0 },
        Kind::Symmetric => Routine::Symmetric { n, vectors: true },
        Kind::SymmetricValues => Routine::Symmetric { n, vectors: false },
        // Xᵀ Aᵀ = Bᵀ.
        Kind::Triangular { upper, unit } => Routine::Triangular { n, columns, upper: !upper, transposed: false, unit },
    };
    Matrices { routine, double, count, batched: is_batched(of) }
}

/// Whether the library is faster than the host. The library computes singular values of several matrices that are too
/// large for its batched routine one after the other. Each takes 2 ms for 100 rows, mostly launch overhead, and host
/// threads are much faster.
fn is_worth_it(of: &Decomposition) -> bool {
    let large = of.m.max(of.n);
    !matches!(of.kind, Kind::Svd { .. } | Kind::SingularValues) || is_batched(of) || of.count < 8 || large > 128
}

/// Whether the library's batched routine is used: there are several matrices, small enough for it to be faster.
fn is_batched(of: &Decomposition) -> bool {
    let (small, large) = (of.m.min(of.n), of.m.max(of.n));
    of.count > 1
        && match of.kind {
            Kind::Svd { .. } | Kind::SingularValues => large <= 32,
            // The kernel that multiplies reflectors is for small matrices.
            Kind::Qr { .. } => large <= 128,
            Kind::Symmetric | Kind::SymmetricValues => small <= 512,
            // The library's batched routine takes square matrices only.
            Kind::Lu if of.m != of.n => false,
            _ => small <= 64 * of.count.min(16),
        }
}

impl Making<'_> {
    fn take(&mut self, bytes: usize) -> Option<u64> {
        // If this allocation fails, the host may still have memory.
        let buffer = self.pool.allocate(bytes.max(1)).ok()?;
        let address = buffer.address() as u64;
        self.held.push(buffer);
        Some(address)
    }

    /// Allocates temporary memory of `elements` elements for each matrix.
    fn matrices(&mut self, elements: usize) -> Option<BatchBuffer> {
        let bytes = elements.checked_mul(self.size)?;
        let at = self.take(self.of.count.checked_mul(bytes)?)?;
        Some(BatchBuffer { at, step: bytes, list: 0 })
    }

    /// Wraps a result buffer that has `elements` elements for each matrix.
    fn result(&self, y: &Buffer, elements: usize) -> BatchBuffer {
        BatchBuffer { at: y.address() as u64, step: elements * self.size, list: 0 }
    }

    /// Allocates temporary memory of `each` i32 for each matrix.
    fn integers(&mut self, each: usize) -> Option<BatchBuffer> {
        let at = self.take(self.of.count.checked_mul(4 * each)?)?;
        Some(BatchBuffer { at, step: 4 * each, list: 0 })
    }

    fn launch(&mut self, kernel: Kernel, arguments: Vec<u64>, threads: usize, told: Option<usize>) {
        let function = &self.kernels[kernel.place(self.of.double)];
        self.steps.push(Step::Launch(launch(function, arguments, threads), told));
    }

    /// Adds a launch that packs an operand's matrices contiguously.
    fn pack(&mut self, (buffer, view): (&Buffer, &View), to: BatchBuffer, how: How) {
        let (rank, size) = (view.shape.rank(), self.size);
        let (rows, columns) = (view.shape[rank - 2], view.shape[rank - 1]);
        let total = self.of.count * rows * columns;
        let minors = matches!(how.finite, Some(Unfit::Minor(_)));
        let bits = u64::from(how.by_columns) | u64::from(how.lower) << 1;
        let bits = bits | u64::from(how.finite.is_some()) << 2 | u64::from(minors) << 3;
        let mut words = vec![0; 10 + 2 * RANK];
        words[0] = first_of((buffer, view), size);
        words[1] = to.at;
        words[2] = total as u64;
        words[3] = rows as u64;
        words[4] = columns as u64;
        words[5] = bits;
        words[6] = (to.step / size) as u64;
        words[8] = how.finite.map_or(0, Unfit::code);
        if !view.is_contiguous() {
            words[9] = rank as u64;
            for d in 0..rank {
                words[10 + d] = view.shape[d] as u64;
                words[10 + RANK + d] = view.strides()[d] as i64 as u64;
            }
        }
        self.launch(Kernel::Pack, words, total, how.finite.map(|_| 7));
    }

    /// Adds a launch that unpacks matrices of `[rows, columns]` into a result, row-major; `steps` are the strides from
    /// row to row and from column to column, in elements.
    fn unpack(
        &mut self,
        from: BatchBuffer,
        (to, rows, columns): (&Buffer, usize, usize),
        steps: [usize; 2],
        (half, infinite): (Half, Option<BatchBuffer>),
    ) {
        let total = self.of.count * rows * columns;
        let words = [
            from.at,
            to.address() as u64,
            total as u64,
            rows as u64,
            columns as u64,
            (from.step / self.size) as u64,
            steps[0] as u64,
            steps[1] as u64,
            half as u64,
            infinite.map_or(0, |flags| flags.at),
        ];
        self.launch(Kernel::Unpack, words.to_vec(), total, None);
    }

    /// Adds a launch that checks the diagonal of each matrix. It reports a zero, or (`finite`) the minor of an element
    /// that is not finite, and sets the i32 of such a matrix in `flags`.
    fn diagonal(&mut self, from: BatchBuffer, n: usize, told: Option<Unfit>, finite: bool, flags: Option<BatchBuffer>) {
        let total = self.of.count * n;
        let words = [
            from.at,
            total as u64,
            n as u64,
            (from.step / self.size) as u64,
            n as u64 + 1,
            0,
            told.map_or(0, Unfit::code),
            u64::from(finite),
            flags.map_or(0, |f| f.at),
        ];
        self.launch(Kernel::Diagonal, words.to_vec(), total, told.map(|_| 5));
    }

    /// Adds a launch that reports each matrix whose status in `infos` is positive, as `unfit`. With `number`, the
    /// report contains the status.
    fn said(&mut self, infos: BatchBuffer, unfit: Unfit, number: bool) {
        let count = self.of.count;
        let words = vec![infos.at, count as u64, 0, unfit.code(), u64::from(number)];
        self.launch(Kernel::Said, words, count, Some(2));
    }

    /// Adds a routine of the library; returns its status buffer.
    fn routine(&mut self, routine: Routine, batched: bool, mut places: RoutineBuffers) -> Option<BatchBuffer> {
        let Decomposition { double, count, .. } = self.of;
        let of = Matrices { routine, double, count, batched };
        let bytes = self.driver.libraries()?.routine(&of)?;
        places.work = self.take(bytes)?;
        let infos = self.integers(1)?;
        places.infos = infos.at;
        if batched {
            for place in [&mut places.a, &mut places.b, &mut places.c] {
                // Only the library knows which buffers of a routine need a list.
                if place.at != 0 {
                    place.list = self.take(8 * count)?;
                    let words = vec![place.list, place.at, place.step as u64, count as u64];
                    self.launch(Kernel::Places, words, count, None);
                }
            }
        }
        self.steps.push(Step::Routine(of, places));
        Some(infos)
    }

    /// Adds all work items of the decomposition.
    fn all(&mut self, x: &[(&Buffer, &View)], y: &[&Buffer]) -> Option<()> {
        let Decomposition { kind, m, n, .. } = self.of;
        match kind {
            Kind::Cholesky => {
                // The upper triangle would need no transposition, but is twice as slow in the library.
                let a = self.matrices(n * n)?;
                self.pack(x[0], a, How { by_columns: true, lower: true, finite: Some(Unfit::Minor(0)) });
                let infos = self.first(RoutineBuffers { a, ..RoutineBuffers::default() })?;
                self.said(infos, Unfit::Minor(0), true);
                self.diagonal(a, n, Some(Unfit::Minor(0)), true, None);
                // The batched routine leaves the other triangle undefined.
                self.unpack(a, (y[0], n, n), [1, n], (Half::Lower, None));
                Some(())
            }
            Kind::Lu | Kind::Solve | Kind::Inverse { .. } | Kind::Determinant | Kind::LogDeterminant => {
                self.by_lu(x, y)
            }
            Kind::Qr { complete } => self.qr(x[0], y, if complete { m } else { m.min(n) }),
            Kind::Svd { .. } | Kind::SingularValues => self.svd(x[0], y),
            Kind::Symmetric | Kind::SymmetricValues => {
                let a = self.matrices(n * n)?;
                self.pack(x[0], a, How { lower: true, finite: Some(Unfit::NotFinite), ..How::default() });
                let b = self.result(y[0], n);
                let infos = self.first(RoutineBuffers { a, b, ..RoutineBuffers::default() })?;
                self.said(infos, Unfit::NoEnd, false);
                if kind == Kind::Symmetric {
                    self.unpack(a, (y[1], n, n), [1, n], (Half::Both, None));
                }
                Some(())
            }
            Kind::Triangular { unit, .. } => {
                let columns = self.of.columns;
                let (a, c) = (self.matrices(n * n)?, self.result(y[0], n * columns));
                self.pack(x[0], a, How::default());
                self.pack(x[1], c, How::default());
                if !unit {
                    self.diagonal(a, n, Some(Unfit::Diagonal(0)), false, None);
                }
                self.first(RoutineBuffers { a, c, ..RoutineBuffers::default() })?;
                Some(())
            }
        }
    }

    /// Adds the decomposition's first routine; returns its status buffer.
    fn first(&mut self, places: RoutineBuffers) -> Option<BatchBuffer> {
        let Matrices { routine, batched, .. } = first(&self.of);
        self.routine(routine, batched, places)
    }

    fn by_lu(&mut self, x: &[(&Buffer, &View)], y: &[&Buffer]) -> Option<()> {
        let Decomposition { kind, count, m, n, columns, .. } = self.of;
        let (a, b) = (self.matrices(m * n)?, self.integers(m.min(n))?);
        self.pack(x[0], a, BY_COLUMNS);
        self.first(RoutineBuffers { a, b, ..RoutineBuffers::default() })?;
        let columns = match kind {
            Kind::Solve => columns,
            Kind::Inverse { .. } => n,
            Kind::Lu => {
                self.unpack(a, (y[0], m, n), [1, m], (Half::Both, None));
                let ranks = self.integers(m)?;
                let words = vec![b.at, y[1].address() as u64, m as u64, m.min(n) as u64, ranks.at];
                self.launch(Kernel::Order, words, count * BLOCK, None);
                return Some(());
            }
            _ => {
                let logs = y.get(1).map_or(0, |y| y.address() as u64);
                let words = vec![a.at, (n * n) as u64, n as u64, b.at, y[0].address() as u64, logs];
                self.launch(Kernel::Determinant, words, count * BLOCK, None);
                return Some(());
            }
        };
        let flags = match kind {
            Kind::Inverse { singular: true } => Some(self.integers(1)?),
            _ => None,
        };
        if let Some(flags) = flags {
            self.steps.push(Step::Zero(flags.at, 4 * count));
        }
        let told = flags.is_none().then_some(Unfit::Pivot(0));
        self.diagonal(a, n, told, false, flags);
        // A single column has the same layout in either order.
        let c = if columns == 1 { self.result(y[0], n) } else { self.matrices(n * columns)? };
        match kind {
            Kind::Solve => self.pack(x[1], c, BY_COLUMNS),
            _ => {
                let words = vec![c.at, (count * n * n) as u64, n as u64];
                self.launch(Kernel::Identity, words, count * n * n, None);
            }
        }
        self.routine(
            Routine::Solve { n, columns },
            is_batched(&self.of),
            RoutineBuffers { a, b, c, ..RoutineBuffers::default() },
        )?;
        if columns != 1 || flags.is_some() {
            self.unpack(c, (y[0], n, columns), [1, n], (Half::Both, flags));
        }
        Some(())
    }

    fn qr(&mut self, x: (&Buffer, &View), y: &[&Buffer], columns: usize) -> Option<()> {
        let Decomposition { count, m, n, .. } = self.of;
        let k = m.min(n);
        // Memory for all columns of Q.
        let (a, b) = (self.matrices(m * n.max(columns))?, self.matrices(k)?);
        self.pack(x, a, BY_COLUMNS);
        self.first(RoutineBuffers { a, b, ..RoutineBuffers::default() })?;
        self.unpack(a, (y[1], columns, n), [1, m], (Half::Upper, None));
        let q = if is_batched(&self.of) {
            let (q, total) = (self.matrices(m * columns)?, count * columns);
            let words =
                [a.at, (a.step / self.size) as u64, b.at, q.at, m as u64, columns as u64, k as u64, total as u64];
            self.launch(Kernel::Reflect, words.to_vec(), total, None);
            q
        } else {
            self.routine(
                Routine::Reflections { m, columns, k },
                false,
                RoutineBuffers { a, b, ..RoutineBuffers::default() },
            )?;
            a
        };
        self.unpack(q, (y[0], m, columns), [1, m], (Half::Both, None));
        Some(())
    }

    fn svd(&mut self, x: (&Buffer, &View), y: &[&Buffer]) -> Option<()> {
        let Decomposition { kind, m, n, .. } = self.of;
        // A wide matrix is decomposed as its transpose: a row-major matrix is its transpose to the library.
        let (wide, rows, k) = (m < n, m.max(n), m.min(n));
        let Routine::Singular { left, .. } = first(&self.of).routine else { unreachable!("that is its routine") };
        let a = self.matrices(m * n)?;
        self.pack(x, a, How { by_columns: !wide, lower: false, finite: Some(Unfit::NotFinite) });
        let vectors = left > 0;
        let s = self.result(y[usize::from(vectors)], k);
        // The routine writes its vectors to these buffers even where none are requested.
        let room = left.max(if is_batched(&self.of) { rows } else { k });
        let (c, d) = (self.matrices(rows * room)?, self.matrices(k * k)?);
        let infos = self.first(RoutineBuffers { a, b: s, c, d, ..RoutineBuffers::default() })?;
        self.said(infos, Unfit::NoEnd, false);
        if !vectors {
            return Some(());
        }
        let full = matches!(kind, Kind::Svd { full: true });
        let (own, other) = if full { (m, n) } else { (k, k) };
        // Columns of the library's results are columns of U and rows of Vᵀ.
        let (left, right) = if wide { ((d, k), (c, rows)) } else { ((c, rows), (d, k)) };
        self.unpack(left.0, (y[0], m, own), [1, left.1], (Half::Both, None));
        self.unpack(right.0, (y[2], other, n), [right.1, 1], (Half::Both, None));
        Some(())
    }
}
