//! Scatters: values written at given indices along an axis.
//!
//! In: an operation and the geometry of a scatter. Out: launches, and their programs. First a map copies the tensor to the
//! result, unless they share memory. Then values are scattered by one of these strategies, chosen by sizes and chip
//! alone. All but *lines* are for lines that are too few to keep the chip busy:
//!
//! * *lines*: each thread has one line along the axis, and writes its values one after the other.
//! * *runs*: indices are sorted by their destination element, and each thread takes all values of one element (a run).
//!   Where neighbouring lines share their indices, a thread takes a vector of lines.
//! * *chunks*, for runs whose order is free: runs are cut into chunks, so that one element with all values keeps the
//!   chip busy (`chunks`).
//! * *latest*, where values replace each other: a thread for each index finds by an atomic maximum the last index that
//!   refers to an element, and a thread for each element takes that index's value. (There is no copy.)
//! * *atomic*, where the order cannot be observed (sums, maxima and minima of integers): a thread for each value, and
//!   atomic operations. Sums with few bins are counted in shared memory ([`crate::kernels::histogram::emit`]).
//! * *aggregated*, for sums along the last axis, whose indices are often sorted (segments, rows of a sparse matrix): the
//!   threads of a warp first add the values of neighbouring equal indices, as atomic additions to one element wait for
//!   each other.
//!
//! Always true: except in chunks and in atomic sums of floats, aggregated or not, the values of one element are applied in
//! the order of the index; each result is rounded to its dtype. So all other strategies give the same bits, and strict
//! modes use no others.

mod chunks;

use crate::dsl::Text;
use crate::ir::{Atomic, Binary, Definition, Expr, For, Kernel, Routine, Statement, Type, Unroll};
use crate::kernels::scatter::params::ScatterParams;
use crate::kernels::scatter::{BLOCK, ScatterClass, ScatterStage};
use crate::params::{Stride, operand};
use thalweg_ir::{DType, ElementOp, Monoid, ScatterOp};

/// Number of values of a run that a thread loads at a time, before it applies the first.
const AHEAD: u32 = 8;

/// Builds the kernel of a class key.
pub fn kernel(class: &ScatterClass) -> Kernel {
    let (params, layout) = ScatterParams::new(class);
    let own = Scatter { class, params: &params, number: if class.wide { Type::I64 } else { Type::U32 } };
    let (definitions, body) = (own.definitions(), own.function());
    Kernel { name: "scatter", block: BLOCK, blocks: None, params: layout, definitions, body }
}

struct Scatter<'a> {
    class: &'a ScatterClass,
    params: &'a ScatterParams,
    /// Integer type of thread indices: u32, or i64 for more than 2³¹ threads.
    number: Type,
}

fn i64(name: &str) -> Expr {
    Expr::name(name, Type::I64)
}

fn number(n: i64, ty: Type) -> Expr {
    Expr::Number(n, ty)
}

/// Declaration of an immutable variable.
fn set(name: &str, value: Expr) -> Statement {
    Statement::Let(name.into(), value)
}

/// Monoid of a scatter operation, and the dtype in which the monoid combines; `None` for plain stores.
fn monoid(op: ScatterOp, dtype: DType) -> Option<(Monoid, DType)> {
    let held = if matches!(dtype, DType::BF16 | DType::F16) { DType::F32 } else { dtype };
    op.monoid().map(|monoid| (monoid, held))
}

impl Scatter<'_> {
    fn op(&self) -> Option<ScatterOp> {
        match self.class.stage {
            ScatterStage::Lines(op)
            | ScatterStage::Runs(op)
            | ScatterStage::Chunks(op)
            | ScatterStage::Join(op)
            | ScatterStage::Atomic(op) => Some(op),
            _ => None,
        }
    }

    fn definitions(&self) -> Vec<Definition> {
        let by = self.op().and_then(|op| monoid(op, self.class.dtype));
        let one_by_one = !matches!(self.class.stage, ScatterStage::Atomic(_)) && self.class.dtype != DType::Bool;
        by.filter(|_| one_by_one).map(|(op, dtype)| Definition::Monoid(op, dtype)).into_iter().collect()
    }

    fn stored(&self) -> Type {
        Type::Stored(self.class.dtype)
    }

    /// Variable with the type of thread indices.
    fn own(&self, name: &str) -> Expr {
        Expr::name(name, self.number)
    }

    fn along(&self) -> Expr {
        self.own("along").to(Type::I64)
    }

    fn function(&self) -> Vec<Statement> {
        let (stage, ty) = (self.class.stage, self.number);
        let mut out = vec![];
        if let ScatterStage::Join(_) = stage {
            out.push(self.shared());
        }
        let index = Type::Stored(DType::I64);
        out.extend([
            operand("tensor", self.stored(), self.params.tensor.slot()),
            operand("index", index, self.params.index.slot()),
            operand("values", self.stored(), self.params.values.slot()),
            operand("to", self.stored(), self.params.result.slot()),
        ]);
        out.extend(self.place(ty));
        out.extend(match stage {
            ScatterStage::Lines(op) => self.lines(op),
            ScatterStage::Runs(op) => self.runs(op),
            ScatterStage::Chunks(op) => self.chunks(op),
            ScatterStage::Join(op) => self.join(op),
            ScatterStage::Atomic(op) => self.atomic(op),
            ScatterStage::Aggregated => self.aggregated(),
            ScatterStage::Latest => self.latest(),
            ScatterStage::Take => self.take(),
        });
        out
    }

    /// Emits the coordinates of a thread: its index along the axis (`along`), and the offsets `at0` to `at4` of its
    /// line in tensor, index, values, result and sorted indices.
    fn place(&self, ty: Type) -> Vec<Statement> {
        let (stage, wide) = (self.class.stage, self.class.wide);
        let mut out = vec![];
        // Blocks run from the last index on, so that most threads find a later index already there. The first-level
        // cache may be stale, and then holds a smaller one.
        let block = |ty| Expr::Block.to(ty) * number(BLOCK.into(), ty);
        let beyond = match stage {
            ScatterStage::Latest => {
                let last = self.params.threads.read(Type::I64) - number(1, Type::I64);
                out.push(set("counted", last - block(Type::I64) - Expr::Thread.to(Type::I64)));
                i64("counted").lt(number(0, Type::I64))
            }
            _ => {
                out.push(set("counted", block(ty) + Expr::Thread.to(ty)));
                self.own("counted").ge(self.params.threads.read(ty))
            }
        };
        let counted = if stage == ScatterStage::Latest { i64("counted") } else { self.own("counted") };
        let counted = if stage == ScatterStage::Aggregated {
            // All threads of a warp take part in its shuffles: those beyond the last are where it is, and add nothing.
            let last = self.params.threads.read(ty) - number(1, ty);
            out.push(set("beyond", beyond));
            out.push(set("clamped", Expr::name("beyond", Type::BOOL).select(last, counted)));
            self.own("clamped")
        } else {
            out.push(Statement::when(beyond, vec![Statement::Return]));
            counted
        };
        // A warp of a join has the task that a thread has in other stages: one run.
        let of_warp = if let ScatterStage::Join(_) = stage { counted / number(32, ty) } else { counted };
        out.push(set("g", of_warp.to(ty)));
        let g = || self.own("g");
        if let ScatterStage::Lines(_) = stage {
            out.push(Statement::Variable("rest".into(), g()));
        } else {
            let by = || self.params.split.read(ty);
            let (high, low) = if wide {
                (g() / by(), g() % by())
            } else {
                out.push(Statement::Split { name: "cut".into(), of: g(), param: self.params.split.slot() });
                (Expr::Quotient("cut".into()), Expr::Remainder("cut".into()))
            };
            out.extend([set("high", high), set("low", low)]);
            // Whether neighbouring threads have neighbouring lines.
            let sides = || self.params.across.read(Type::I64).same(number(0, Type::I64));
            let [high, low] = ["high", "low"].map(|name| self.own(name));
            out.push(set("along", sides().select(low.clone(), high.clone())));
            out.push(Statement::Variable("rest".into(), sides().select(high, low)));
            if let ScatterStage::Chunks(_) | ScatterStage::Join(_) = stage {
                out.push(set("line", self.own("rest")));
            }
        }
        let at = |k: usize| i64(&format!("at{k}"));
        out.extend((0..5).map(|k| Statement::Variable(format!("at{k}"), number(0, Type::I64))));
        for own in self.params.dims.iter().rev() {
            let rest = || self.own("rest");
            let mut dim = vec![];
            if wide {
                dim.push(set("i", rest() % own.size.read(ty)));
                dim.push(Statement::Set(rest(), rest() / own.size.read(ty)));
            } else {
                dim.push(Statement::Split { name: "s".into(), of: rest(), param: own.size.slot() });
                dim.push(set("i", Expr::Remainder("s".into()).to(Type::I64)));
                dim.push(Statement::Set(rest(), Expr::Quotient("s".into())));
            }
            let step = |(k, stride): (usize, &Stride)| Statement::Set(at(k), at(k) + i64("i") * stride.read(Type::I64));
            dim.extend(own.strides().into_iter().enumerate().map(step));
            out.push(Statement::Scope(dim));
        }
        out
    }

    /// Declares registers for the elements of neighbouring lines.
    fn registers(&self, name: &str) -> Statement {
        Statement::Registers { name: name.into(), ty: self.stored(), shape: vec![self.class.lanes.into()] }
    }

    fn load(name: &str, before: Vec<Expr>, operand: &str, at: Expr) -> Statement {
        Statement::LoadVector { to: (name.into(), before), operand: operand.into(), at, fresh: false }
    }

    fn store(at: Expr, name: &str) -> Statement {
        Statement::StoreVector { operand: "to".into(), at, from: (name.into(), vec![]) }
    }

    /// Condition that tensor and result share memory.
    fn in_place(&self) -> Expr {
        self.params.tensor.read(Type::U64).same(self.params.result.read(Type::U64))
    }

    /// Offset in the result of the line's element with index `along` on the scattered axis.
    fn result(&self, along: Expr) -> Expr {
        i64("at3") + along * self.params.result_stride.read(Type::I64)
    }

    /// Destination index on the scattered axis: the value of element `at` of the line's indices.
    fn named(&self, at: Expr) -> Expr {
        let at = i64("at1") + at * self.params.index_stride.read(Type::I64);
        let load = Expr::Load(Type::Stored(DType::I64), "index".into(), Box::new(at));
        Expr::Unpack(DType::I64, Box::new(load))
    }

    /// Condition that the destination index `place` is out of range.
    fn is_outside(&self) -> Expr {
        i64("place").lt(number(0, Type::I64)).or(i64("place").ge(self.params.size.read(Type::I64)))
    }

    fn fault(&self) -> Statement {
        Statement::Fault(self.params.fault.read(Type::U64))
    }

    /// Emits the combination of element `raw` into the register `place`, by the scatter's operation.
    fn put(&self, op: ScatterOp, raw: Expr, place: Expr) -> Vec<Statement> {
        let dtype = self.class.dtype;
        let Some((monoid, held)) = monoid(op, dtype) else { return vec![Statement::Set(place, raw)] };
        let unpacked = |x: Expr| {
            let value = Expr::Unpack(dtype, Box::new(x));
            if held == dtype { value } else { Expr::Cast(dtype, held, Box::new(value)) }
        };
        let [before, value] = [unpacked(place.clone()), unpacked(raw)];
        let both = match (dtype, monoid) {
            // A sum of bools is taken modulo 2.
            (DType::Bool, Monoid::Sum) => Expr::Operation(ElementOp::Xor, dtype, vec![before, value]),
            (DType::Bool, Monoid::Max) => Expr::Operation(ElementOp::Or, dtype, vec![before, value]),
            (DType::Bool, _) => Expr::Operation(ElementOp::And, dtype, vec![before, value]),
            _ => Routine::Combine(monoid, held).of([before, value]),
        };
        let rounded = if held == dtype { both } else { Expr::Cast(held, dtype, Box::new(both)) };
        vec![Statement::Set(place, Expr::Pack(dtype, Box::new(rounded)))]
    }

    fn lane(&self, name: &str, before: &[Expr]) -> Expr {
        let at = before.iter().cloned().chain([Expr::name("v", Type::I32)]).collect();
        Expr::Element { of: name.into(), at, ty: self.stored() }
    }

    fn lines(&self, op: ScatterOp) -> Vec<Statement> {
        let lanes = self.class.lanes as usize;
        let values = i64("at2") + i64("i") * self.params.values_stride.read(Type::I64);
        let mut inside = vec![
            self.registers("raws"),
            Scatter::load("raws", vec![], "values", values),
            set("line", self.result(i64("place"))),
        ];
        inside.extend(match op {
            ScatterOp::Set => vec![Scatter::store(i64("line"), "raws")],
            op => {
                let each = self.put(op, self.lane("raws", &[]), self.lane("elements", &[]));
                vec![
                    self.registers("elements"),
                    Scatter::load("elements", vec![], "to", i64("line")),
                    Statement::lanes(lanes, Unroll::All, each),
                    Scatter::store(i64("line"), "elements"),
                ]
            }
        });
        let turn =
            vec![set("place", self.named(i64("i"))), Statement::If(self.is_outside(), vec![self.fault()], inside)];
        vec![Statement::For(For {
            name: "i".into(),
            ty: Type::I64,
            from: number(0, Type::I64),
            below: self.params.indices.read(Type::I64),
            step: number(1, Type::I64),
            unroll: Unroll::Free,
            body: turn,
        })]
    }

    fn atomic(&self, op: ScatterOp) -> Vec<Statement> {
        let from = i64("at2") + self.along() * self.params.values_stride.read(Type::I64);
        let op = match op {
            ScatterOp::Add => Atomic::Add,
            ScatterOp::Max => Atomic::Max,
            _ => Atomic::Min,
        };
        let (name, at) = ("to".to_string(), self.result(i64("place")));
        let value = Expr::name("raw", self.stored());
        vec![
            set("place", self.named(self.along())),
            Statement::when(self.is_outside(), vec![self.fault(), Statement::Return]),
            set("raw", Expr::Load(self.stored(), "values".into(), Box::new(from))),
            Statement::Atomic { op, name, at, value, before: None },
        ]
    }

    fn aggregated(&self) -> Vec<Statement> {
        let from = i64("at2") + self.along() * self.params.values_stride.read(Type::I64);
        let (dtype, value) = (self.class.dtype, Expr::Load(self.stored(), "values".into(), Box::new(from)));
        let text = Text::new()
            .value("index", self.named(self.along()))
            .value("beyond", Expr::name("beyond", Type::BOOL))
            .value("size", self.params.size.read(Type::I64))
            .value("none", Expr::Constant(dtype, 0))
            .value("own", Expr::Unpack(dtype, Box::new(value)))
            .function("packed", move |x| Expr::Pack(dtype, Box::new(x[0].clone())))
            .function("result", |x| self.result(x[0].clone()))
            .procedure("report", |_| vec![self.fault()])
            .operand("to", self.stored());
        text.statements(&[AGGREGATED])
    }

    /// Entry `at` of the table of latest indices: the position of the last index whose value is `at`, plus one; 0 for
    /// none.
    fn known(at: Expr) -> Expr {
        Expr::Load(Type::U32, "latest".into(), Box::new(i64("at4") + at))
    }

    fn latest(&self) -> Vec<Statement> {
        let next = self.own("along") + number(1, self.number);
        let same = self.named(next.clone().to(Type::I64)).same(i64("place"));
        let own = next.clone().to(Type::U32);
        vec![
            operand("latest", Type::U32, self.params.sorted_or_latest.slot()),
            set("place", self.named(self.along())),
            Statement::when(self.is_outside(), vec![self.fault(), Statement::Return]),
            // The next index refers to the same element and has precedence: this thread is done.
            Statement::when(next.lt(self.params.indices.read(self.number)).and(same), vec![Statement::Return]),
            Statement::when(
                Scatter::known(i64("place")).lt(own.clone()),
                vec![Statement::Atomic {
                    op: Atomic::Max,
                    name: "latest".into(),
                    at: i64("at4") + i64("place"),
                    value: own,
                    before: None,
                }],
            ),
        ]
    }

    fn take(&self) -> Vec<Statement> {
        let own = || Expr::name("own", Type::U32);
        let none = || own().same(number(0, Type::U32));
        let last = (own() - number(1, Type::U32)).to(Type::I64);
        let values = i64("at2") + last * self.params.values_stride.read(Type::I64);
        let tensor = i64("at0") + self.along() * self.params.tensor_stride.read(Type::I64);
        vec![
            operand("latest", Type::U32, self.params.sorted_or_latest.slot()),
            set("own", Scatter::known(self.along())),
            Statement::when(none().and(self.in_place()), vec![Statement::Return]),
            self.registers("raw"),
            Statement::If(
                none(),
                vec![Scatter::load("raw", vec![], "tensor", tensor)],
                vec![Scatter::load("raw", vec![], "values", values)],
            ),
            Scatter::store(self.result(self.along()), "raw"),
        ]
    }

    fn sorted_operand(&self) -> Statement {
        operand("sorted", Type::U64, self.params.sorted_or_latest.slot())
    }

    /// Pair `at` of the row's sorted pairs: destination element in the high half, position of its index in the low
    /// half.
    fn sorted(at: Expr) -> Expr {
        Expr::Load(Type::U64, "sorted".into(), Box::new(i64("at4") + at))
    }

    /// Destination element of a pair, its high half.
    fn element_of(pair: Expr) -> Expr {
        Expr::Binary(Binary::Shr, Box::new([pair, number(32, Type::U64)])).to(Type::U32)
    }

    /// Emits the loop that applies values to the registers `elements`: those of the sorted pairs from `from` to the
    /// variable `below`, up to the first pair with another destination than `place`. The loop loads several values at
    /// once, then applies them one after the other.
    fn run(&self, op: ScatterOp, from: Expr, below: &str) -> Statement {
        let (lanes, u32) = (self.class.lanes, |name: &str| Expr::name(name, Type::U32));
        let (first, k) = (|| u32("first"), || Expr::name("k", Type::I32));
        let at = |of: &str, at: Expr, ty| Expr::Element { of: of.into(), at: vec![at], ty };
        let each = |body| Statement::count("k", AHEAD as usize, Unroll::All, body);
        let own = || first() + k().to(Type::U32);
        let read = Scatter::sorted(own().to(Type::I64));
        let none = Expr::Constant(DType::U64, u64::MAX);
        let paired = || at("pairs", k(), Type::U64);
        let mine = |i: Expr| at("mine", i, Type::BOOL);
        let value = i64("at2") + paired().to(Type::U32).to(Type::I64) * self.params.values_stride.read(Type::I64);
        let put = self.put(op, self.lane("raws", &[k()]), self.lane("elements", &[]));
        let last = mine(number(i64::from(AHEAD) - 1, Type::I32));
        let shape = |more: &[u32]| [&[AHEAD], more].concat();
        let body = vec![
            Statement::Registers { name: "pairs".into(), ty: Type::U64, shape: shape(&[]) },
            Statement::Registers { name: "raws".into(), ty: self.stored(), shape: shape(&[lanes.into()]) },
            Statement::Registers { name: "mine".into(), ty: Type::BOOL, shape: shape(&[]) },
            each(vec![Statement::Set(paired(), own().lt(u32(below)).select(read, none))]),
            each(vec![
                Statement::Set(mine(k()), Scatter::element_of(paired()).same(u32("place"))),
                Statement::when(mine(k()), vec![Scatter::load("raws", vec![k()], "values", value)]),
            ]),
            each(vec![Statement::when(mine(k()), vec![Statement::lanes(lanes as usize, Unroll::All, put)])]),
            Statement::when(Expr::Operation(ElementOp::Not, DType::Bool, vec![last]), vec![Statement::Break]),
        ];
        let (below, step) = (u32(below), number(AHEAD.into(), Type::U32));
        Statement::For(For { name: "first".into(), ty: Type::U32, from, below, step, unroll: Unroll::Free, body })
    }

    /// Emits the update of an element by a run of sorted pairs, all with this destination. The thread of the run's
    /// first pair applies all of the run's values.
    fn runs(&self, op: ScatterOp) -> Vec<Statement> {
        let place = || Expr::name("place", Type::U32);
        let along = || self.along();
        let before = Scatter::element_of(Scatter::sorted(along() - number(1, Type::I64))).same(place());
        let result = || self.result(place().to(Type::I64));
        vec![
            self.sorted_operand(),
            set("n", self.params.indices.read(Type::U32)),
            set("place", Scatter::element_of(Scatter::sorted(along()))),
            Statement::when(place().same(self.params.size.read(Type::U32)), vec![Statement::Return]),
            Statement::when(number(0, Type::I64).lt(along()).and(before), vec![Statement::Return]),
            self.registers("elements"),
            Scatter::load("elements", vec![], "to", result()),
            self.run(op, self.own("along").to(Type::U32), "n"),
            Scatter::store(result(), "elements"),
        ]
    }
}

/// Sum of the run of equal places that a thread's lane is in, up to the lane: a segmented scan. The last lane of each run
/// adds it to the element. `heads` has a bit for each lane whose place differs from that of the lane before.
const AGGREGATED: &str = r"
let lane = thread % 32, place = index;
let outside = place < 0 || place >= size;
if outside { if !beyond { report(); } }
var key = u32(4294967295);
if !beyond && !outside { key = u32(result(place)); }
var sum = none;
if key != 4294967295 { sum = own; }
let before = shuffle_up(key, 1);
let heads = ballot(lane == 0 || before != key);
if heads != 4294967295 {
    for step: u32 in 0..5 unroll {
        let back = u32(1) << step;
        let other = shuffle_up(sum, back);
        if lane >= back {
            let between = (heads >> (lane - back)) >> 1;
            if (between & ((u32(1) << back) - 1)) == 0 { sum = sum + other; }
        }
    }
}
let last = lane == 31 || (((heads >> lane) >> 1) & 1) == 1;
if last && key != 4294967295 { atomic_add(to[result(place)], packed(sum)); }
";
