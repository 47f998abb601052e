//! Score bodies: what a map body computes from a score (scale, mask, bias), in the registers of the thread that has it.

use crate::body::{Wanted, wanted};
use crate::dsl::Text;
use crate::emit::access::{Stand, lane_number};
use crate::emit::nodes::value;
use crate::ir::{Expr, Statement, Type, Unroll};
use crate::kernels::attention::emit::{Attention, i64, u32};
use crate::kernels::gemm::emit::part::{BodyEmitter, held};
use crate::space::Addressing;
use thalweg_ir::DType;
use thalweg_kernel::Body;

/// Emitted statements of one score body.
pub(super) struct Point {
    /// Declarations before the main loop.
    pub(super) declared: Vec<Statement>,
    /// Statements that compute the body.
    pub(super) compute: Vec<Statement>,
    /// Variant of `compute` for blocks of keys that the causal mask leaves entirely visible; `None` if `compute` serves
    /// for them too.
    pub(super) seen: Option<Vec<Statement>>,
}

/// Tags of the score bodies in the names of their accesses (`pa0`, `pb0`).
const TAGS: [&str; 2] = ["a", "b"];

/// Emitter of one score body.
struct At<'a> {
    part: BodyEmitter<'a>,
    streamed: &'a Attention<'a>,
    sums: u16,
    /// Vectors of scores per thread and step: a thread has two rows, and two of every eight keys.
    each: u32,
}

impl Attention<'_> {
    fn at(&self, number: usize) -> At<'_> {
        let (class, sums) = &self.class.points[number];
        let (params, fault) = (&self.params.points[number], &self.params.fault);
        let part = BodyEmitter { class, params, fault, tag: TAGS[number], native: self.native };
        let each = self.class.block.keys / 8 * 2 * (2 / class.space.lanes as u32);
        At { part, streamed: self, sums: *sums, each }
    }

    /// Emits the statements of score body `number`.
    pub(super) fn point(&self, number: usize) -> Point {
        let at = self.at(number);
        let body = &at.part.class.body;
        let scaled = self.scaled.as_ref().filter(|s| s.number == number);
        let of_seen = self.class.causal.as_ref().filter(|s| s.0 as usize == number).map(|s| &s.1.body);
        let late = |whole: &Body| [at.compute(whole), self.scale_late()].concat();
        let (compute, seen) = match (scaled, &self.class.causal) {
            (None, _) => (at.compute(body), of_seen.map(|body| at.compute(body))),
            (Some(scaled), None) => (late(&scaled.whole), None),
            (Some(scaled), Some(_)) => (at.compute(body), Some(late(&scaled.whole))),
        };
        Point { declared: at.declared(), compute, seen }
    }

    /// Emits the loads of all score bodies for step `step`.
    pub(super) fn fetch_points(&self, step: &Expr) -> Vec<Statement> {
        (0..self.class.points.len()).flat_map(|number| self.at(number).fetch(step)).collect()
    }
}

impl At<'_> {
    fn lanes(&self) -> u32 {
        self.part.class.space.lanes as u32
    }

    fn is_sums(&self, access: usize) -> bool {
        self.part.class.body.accesses[access].operand == Some(self.sums)
    }

    /// Whether the body uses the index of an access that is strided: such an index is not stored but recomputed at each
    /// use, in a few additions.
    fn is_placed(&self, access: usize, wants: Wanted) -> bool {
        wants.position && matches!(self.part.class.space.addressing[access], Addressing::Strided { .. })
    }

    fn fetched(&self) -> Vec<(usize, Wanted)> {
        let wants = wanted(&self.part.class.body);
        let fetched = |&(k, w): &(usize, Wanted)| !self.is_sums(k) && (w.load || w.position && !self.is_placed(k, w));
        wants.into_iter().enumerate().filter(fetched).collect()
    }

    fn declared(&self) -> Vec<Statement> {
        let (accesses, wants) = (self.part.accesses(), wanted(&self.part.class.body));
        let mut out = accesses.declare(&|k| !self.is_sums(k) && wants[k] != Wanted::default());
        for (k, wants) in self.fetched() {
            out.extend(accesses.arrays(k, wants, self.lanes() as usize, &[self.each]));
        }
        out
    }

    /// DSL environment of a score body at step `step`.
    fn text(&self, step: &Expr) -> Text<'static> {
        let (v, keys) = (self.lanes(), self.streamed.class.block.keys);
        let index = self.part.index();
        let place = ["row", "column"].map(|name| Expr::name(name, index));
        let [row, column] = place;
        self.streamed
            .text()
            .ty("Index", index)
            .number("LANES", v)
            .number("EACH", self.each)
            .number("HALVES", 2 / v)
            .number("OF_EIGHT", 8 / v)
            .number("VECTORS", keys / v)
            .value("step", step.clone())
            .given("decomposed", self.part.decomposed([u32("product"), row, column]))
    }

    /// Calls `then` with the position of a thread's vector in the domain of the score body.
    fn with_stand<T>(&self, then: impl FnOnce(&Stand) -> T) -> T {
        let position = |k: usize| self.part.position(k);
        let own = |name: &str| Expr::name(name, Type::I32).to(Type::I64);
        let vector = own("y") * Expr::Number(self.lanes().into(), Type::I64);
        let point = (u32("product").to(Type::I64) * i64("m") + own("x")) * i64("keys") + vector;
        let step = Expr::Number(1, Type::I64);
        then(&Stand { position: &position, point, step, lanes: self.lanes() as usize })
    }

    /// Loop over a thread's vectors. Rows out of bounds repeat the last row and, in the last block, keys out of bounds
    /// the last keys; their results are discarded.
    fn for_each(&self, step: &Expr, last: bool, body: Vec<Statement>) -> Vec<Statement> {
        self.text(step).holds("LAST", last).given("body", body).statements(&[r"
for u: i32 in 0..EACH unroll {
    let j = u / (2 * HALVES), h = u / HALVES % 2;
    let own_row = i32(row0) + i32(warp * 16 + lane / 4) + h * 8;
    let own_key = step * VECTORS + j * OF_EIGHT + i32(lane % 4) * HALVES + u % HALVES;
    let x = own_row < i32(m) ? own_row : i32(m) - 1;
    when LAST {
        let y = own_key * LANES < i32(keys) ? own_key : (i32(keys) - LANES) / LANES;
    } else {
        let y = own_key;
    }
    let row = Index(x), column = Index(y);
    decomposed;
    body;
}
"])
    }

    /// Emits the loads of the score body for step `step`.
    fn fetch(&self, step: &Expr) -> Vec<Statement> {
        let (accesses, fetched) = (self.part.accesses(), self.fetched());
        if fetched.is_empty() {
            return vec![];
        }
        let u = [Expr::name("u", Type::I32)];
        let loads = || {
            let all = |stand: &Stand| {
                fetched.iter().flat_map(|&(k, w)| accesses.fetch(k, w, stand, [&u, &u])).collect::<Vec<_>>()
            };
            self.with_stand(all)
        };
        // Where keys are one dimension, a thread's keys are at fixed distances from its first one.
        let space = &self.part.class.space;
        let [batch, rows] = self.part.class.groups.map(usize::from);
        let strided =
            |&(k, w): &(usize, Wanted)| matches!(space.addressing[k], Addressing::Strided { .. }) && !w.position;
        let one_dimension = space.rank() == batch + rows + 1 && fetched.iter().all(strided);
        let whole = match one_dimension {
            false => self.for_each(step, false, loads()),
            true => {
                let (v, count) = (self.lanes(), self.streamed.class.block.keys / 8);
                let apart = fetched
                    .iter()
                    .flat_map(|&(k, _)| accesses.fetch_strided(k, self.part.position(k), [count, 2 / v, v]))
                    .collect();
                self.text(step).given("apart", apart).statements(&[r"
for h: i32 in 0..2 unroll {
    let own_row = i32(row0) + i32(warp * 16 + lane / 4) + h * 8, x = own_row < i32(m) ? own_row : i32(m) - 1;
    let row = Index(x), column = Index(step * VECTORS + i32(lane % 4) * HALVES);
    decomposed;
    apart;
}
"])
            }
        };
        let edge = self.for_each(step, true, loads());
        self.text(step)
            .given("whole", whole)
            .given("edge", edge)
            .statements(&["if (step + 1) * KEYS <= i32(keys) { whole; } else { edge; }"])
    }

    /// Emits the body for each score of a thread.
    fn compute(&self, body: &Body) -> Vec<Statement> {
        let (accesses, v) = (self.part.accesses(), self.lanes());
        let i32 = |n: u32| Expr::Number(n.into(), Type::I32);
        let u = [Expr::name("u", Type::I32)];
        let mut each = vec![];
        // Arrays have the shape of the loaded ones, since names are the same; each iteration uses only its own element.
        for (k, wants) in wanted(body).into_iter().enumerate().filter(|&(k, w)| self.is_placed(k, w)) {
            let position = Wanted { position: wants.position, ..Wanted::default() };
            each.extend(accesses.arrays(k, position, v as usize, &[self.each]));
            each.extend(self.with_stand(|stand| accesses.fetch(k, position, stand, [&u, &u])));
        }
        let name = |name: &str| Expr::name(name, Type::I32);
        let second = name("h") * i32(2) + name("u") % i32(2 / v) * i32(v) + lane_number();
        let own = Expr::Element { of: "s".into(), at: vec![name("j"), second], ty: Type::Held(DType::F32) };
        let load =
            |k: u16| if self.is_sums(k as usize) { self.part.sum(&own, k) } else { accesses.element(k as usize, &u) };
        let mut lane = self.with_stand(|stand| self.part.compute(body, stand, &load, &u));
        lane.push(Statement::Set(own.clone(), held(value(body, body.stores[0].node), DType::F32)));
        each.push(Statement::lanes(v as usize, Unroll::All, lane));
        self.for_each(&name("step"), true, each)
    }
}
