//! Phases that run once a row.

use crate::body::wanted;
use crate::emit::access::Stand;
use crate::emit::nodes::{Names, statements, value};
use crate::ir::{Expr, Statement, Type};
use crate::kernels::reduce::emit::{Rows, lanes, live, number, thread};
use thalweg_kernel::Phase;

impl Rows<'_> {
    /// Emits a phase that runs once a row. `stores` is the condition of the phase's stores: `Some(None)` for
    /// unconditional stores, `None` for no stores.
    pub(super) fn once(&self, phase: &Phase, stores: Option<Option<Expr>>) -> Option<Statement> {
        let body = &phase.body;
        let stores = stores.filter(|_| !body.stores.is_empty());
        if stores.is_none() && body.sets.is_empty() {
            return None;
        }
        let n = if self.is_outer_axis() { self.v } else { 1 };
        let position = |k: usize| self.position(k, false);
        // An index map takes points of the whole domain: the first point of the row.
        let wide = |name: &str| self.place(name).to(Type::I64);
        let v = number(self.v, Type::I64);
        let (point, step) = match self.is_outer_axis() {
            true => (wide("row") * v * wide("n"), wide("n")),
            false => (wide("row") * wide("n") * v, number(0, Type::I64)),
        };
        let stand = Stand { position: &position, point, step, lanes: n };
        let mut out = vec![];
        for (k, &want) in wanted(body).iter().enumerate().filter(|(_, w)| w.load || w.position) {
            out.extend(self.accesses.arrays(k, want, n, &[]));
            out.extend(self.accesses.fetch(k, want, &stand, [&[], &[]]));
        }
        if stores.is_some() {
            out.extend(body.stores.iter().map(|s| self.accesses.result(s.access as usize, n)));
        }
        let names = Names {
            load: &|k| self.accesses.element(k as usize, &[]),
            index: &|k, dtype| self.accesses.position(k as usize, dtype, &[]),
            valid: &|k| self.accesses.valid(k as usize, &[]),
            gather: &|k, offset, inside| self.accesses.gathered(k as usize, &stand, [offset, inside, self.fault()]),
            value: &|slot, _| self.value(slot),
            scalar: &|s| self.scalar(s),
            reciprocal: &|s| self.reciprocal(s),
            native: self.native,
        };
        let mut inner = statements(body, &names);
        inner.extend(body.sets.iter().map(|set| Statement::Set(self.value(set.slot), value(body, set.node))));
        if stores.is_some() {
            inner.extend(body.stores.iter().map(|s| self.accesses.set(s.access as usize, value(body, s.node))));
        }
        out.push(lanes(n, inner));
        if let Some(when) = stores {
            let own = thread().same(number(0, Type::U32)).and(live());
            let all = body.stores.iter().map(|s| self.accesses.store(s.access as usize, &stand)).collect();
            out.push(Statement::when(when.into_iter().fold(own, Expr::and), all));
        }
        Some(Statement::Scope(out))
    }
}
