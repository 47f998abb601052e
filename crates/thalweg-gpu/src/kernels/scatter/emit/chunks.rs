//! Scatters of runs that are cut into chunks, so that an element with many values keeps many threads busy.
//!
//! First launch: a thread for each chunk of a run. The chunk that begins the run combines the element with its values,
//! and stores to the result; each further chunk begins with its first value, and stores to its partial result. Second
//! launch: a warp for each run that has further chunks combines their partial results with the element. Lane `l` takes
//! chunks `l`, `l + 32`, …, and the lanes are combined as a tree.
//!
//! Invariant: the order follows from the sorted indices alone, so results do not depend on the chip.

use crate::dsl::Text;
use crate::ir::{Expr, Statement, Type};
use crate::kernels::scatter::BLOCK;
use crate::kernels::scatter::emit::{Scatter, i64, number, set};
use crate::kernels::scatter::params::ChunkParams;
use crate::params::operand;
use thalweg_ir::ScatterOp;

impl Scatter<'_> {
    /// Kernel arguments of the stages `Chunks` and `Join`.
    fn own_params(&self) -> &ChunkParams {
        self.params.chunks.as_ref().expect("a class with chunks has their arguments")
    }

    /// Offset of a chunk's partial result for the current line; the results of a chunk are stored line by line.
    fn partial(&self, chunk: Expr) -> Expr {
        let line = self.own("line").to(Type::I64) * number(self.class.lanes.into(), Type::I64);
        chunk * self.own_params().lines.read(Type::I64) + line
    }

    fn partials(&self) -> Statement {
        operand("partials", self.stored(), self.own_params().partials.slot())
    }

    /// Emits the update by the values of one chunk, in the thread of its first index.
    pub(super) fn chunks(&self, op: ScatterOp) -> Vec<Statement> {
        let u32 = |name: &str| Expr::name(name, Type::U32);
        let (along, at) = (|| self.along(), || u32("at"));
        let chunk = || self.own_params().length.read(Type::U32);
        let in_chunk = || at() % chunk();
        let continues = number(0, Type::I64)
            .lt(along())
            .and(Scatter::element_of(Scatter::sorted(along() - number(1, Type::I64))).same(u32("place")));
        let own = Expr::name("own", Type::U64);
        let value = i64("at2") + own.to(Type::U32).to(Type::I64) * self.params.values_stride.read(Type::I64);
        let result = || self.result(u32("place").to(Type::I64));
        let further = || Expr::name("further", Type::BOOL);
        let partial = self.partial((at() / chunk()).to(Type::I64));
        let store =
            Statement::StoreVector { operand: "partials".into(), at: partial, from: ("elements".into(), vec![]) };
        vec![
            self.sorted_operand(),
            self.partials(),
            set("own", Scatter::sorted(along())),
            set("place", Scatter::element_of(Expr::name("own", Type::U64))),
            Statement::when(u32("place").same(self.params.size.read(Type::U32)), vec![Statement::Return]),
            set("at", self.own("along").to(Type::U32)),
            set("further", continues),
            Statement::when(further().and(in_chunk().ge(number(1, Type::U32))), vec![Statement::Return]),
            set("next", at() - in_chunk() + chunk()),
            set(
                "end",
                u32("next")
                    .lt(self.params.indices.read(Type::U32))
                    .select(u32("next"), self.params.indices.read(Type::U32)),
            ),
            // The first value of a further chunk is loaded below, so the others begin after it.
            set("begin", further().select(at() + number(1, Type::U32), at())),
            self.registers("elements"),
            Statement::If(
                further(),
                vec![Scatter::load("elements", vec![], "values", value)],
                vec![Scatter::load("elements", vec![], "to", result())],
            ),
            self.run(op, u32("begin"), "end"),
            Statement::If(further(), vec![store], vec![Scatter::store(result(), "elements")]),
        ]
    }

    /// Shared memory in which the lanes of a warp are combined, declared before some threads return.
    pub(super) fn shared(&self) -> Statement {
        let shape = vec![self.class.lanes.into(), BLOCK / 32, 32];
        Statement::Shared { name: "all".into(), ty: self.stored(), shape }
    }

    /// Emits the combination of the partial results of one run, in the warp of its first further chunk.
    pub(super) fn join(&self, op: ScatterOp) -> Vec<Statement> {
        let text = Text::new()
            .ty("S", self.stored())
            .number("LANES", self.class.lanes)
            .value("chunk", self.own_params().length.read(Type::U32))
            .value("n", self.params.indices.read(Type::U32))
            .value("outside", self.params.size.read(Type::U32))
            .value("c", self.own("along").to(Type::U32))
            .function("element", |x| Scatter::element_of(Scatter::sorted(x[0].clone().to(Type::I64))))
            .function("partial", |x| self.partial(x[0].clone().to(Type::I64)))
            .function("result", |x| self.result(x[0].clone().to(Type::I64)))
            .procedure("put", move |x| self.put(op, x[0].clone(), x[1].clone()))
            .elements("all", self.stored())
            .operand("partials", self.stored())
            .operand("to", self.stored());
        [vec![self.sorted_operand(), self.partials()], text.statements(&[JOIN])].concat()
    }
}

const JOIN: &str = r"
let lane = thread % 32, warp = thread / 32;
if c == 0 { return; }
let place = element(c * chunk);
if place == outside { return; }
if element(c * chunk - 1) != place { return; }
// The run has a further chunk before this one.
if c > 1 { if element((c - 1) * chunk - 1) == place { return; } }
let chunks = (n + chunk - 1) / chunk;
var elements: S[LANES];
var d = c + lane, more = d < chunks;
if more { more = element(d * chunk) == place; }
let some = more;
for v: u32 in 0..LANES unroll { if some { elements[v] = partials[partial(d) + i64(v)]; } }
while more {
    d += 32;
    more = d < chunks;
    if more { more = element(d * chunk) == place; }
    if more {
        for v: u32 in 0..LANES unroll {
            let raw = partials[partial(d) + i64(v)];
            put(raw, elements[v]);
        }
    }
}
// Lanes with a chunk are the first ones of the warp.
let count = ones(ballot(some));
if some { for v: u32 in 0..LANES unroll { all[v][warp][lane] = elements[v]; } }
for b: u32 in 0..5 unroll {
    let other = lane + (u32(16) >> b);
    warp_barrier;
    if other < count {
        if lane < (u32(16) >> b) {
            for v: u32 in 0..LANES unroll {
                let raw = all[v][warp][other];
                put(raw, elements[v]);
                all[v][warp][lane] = elements[v];
            }
        }
    }
}
if lane == 0 {
    for v: u32 in 0..LANES unroll {
        var whole = to[result(place) + i64(v)];
        put(elements[v], whole);
        to[result(place) + i64(v)] = whole;
    }
}
";
