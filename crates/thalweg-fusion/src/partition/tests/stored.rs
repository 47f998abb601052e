//! Serialized plans: they round-trip, and any other bytes give a legal plan or none.

use super::graphs::{choices, random};
use crate::cost::Costs;
use crate::partition::{Effort, Planned, plan, question};
use crate::plan::Plan;
use crate::scalars::ScalarClasses;
use crate::segment::{BitSet, Mode, Segment};
use crate::{OutputPlan, instantiate};
use proptest::prelude::*;
use thalweg_ir::DType;
use thalweg_kernel::Precision;

/// Whether a plan keeps the invariants that later stages rely on: each value is stored once, before it is read, and all
/// live results exist.
fn is_whole(plan: &Plan, segment: Segment<'_>) -> bool {
    let mut stored = BitSet::new(segment.ops.len());
    for kernel in &plan.kernels {
        // A kernel computes each operation from arguments that are computed in it, stored before, or inputs.
        for part in kernel.parts() {
            let own: Vec<usize> = part.ops().collect();
            let there = |a: thalweg_ir::Arg| match a {
                thalweg_ir::Arg::Op(o) => own.contains(&o) || stored.has(o) || segment.ops[o].op.is_view(),
                _ => true,
            };
            let opaque = matches!(part, crate::KernelPlan::Opaque { .. });
            if !opaque && !own.iter().all(|&i| stored.has(i) || segment.ops[i].args().all(there)) {
                return false;
            }
        }
        for s in kernel.writes() {
            if stored.has(s) {
                return false;
            }
            stored.insert(s);
        }
    }
    let wanted = |&(op, how): &(usize, OutputPlan)| how == OutputPlan::Alias || stored.has(op);
    plan.outputs.iter().all(wanted) && plan.outputs.iter().map(|o| o.0).eq(segment.live.iter())
}

/// Bytes with a few random changes, digits more often than not.
fn damaged(bytes: &[u8], edits: &[(usize, u8, u8)]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for &(at, how, byte) in edits {
        if out.is_empty() {
            break;
        }
        let at = at % out.len();
        let digits: Vec<usize> = (0..out.len()).filter(|&i| out[i].is_ascii_digit()).collect();
        match how % 6 {
            0 => out[at] = byte,
            1 => drop(out.remove(at)),
            2 => out.truncate(at),
            3 => out.insert(at, b"0123456789,[]"[byte as usize % 13]),
            _ if digits.is_empty() => {}
            _ => out[digits[at % digits.len()]] = b'0' + byte % 10,
        }
    }
    out
}

#[test]
fn precision_is_part_of_the_key() {
    let mut g = super::graphs::Graph::new();
    let mut key = |mode| {
        g.0.mode = mode;
        question(&g.0.as_segment(), &Costs::typical(), Effort::default())
    };
    let plain = Mode::fused(thalweg_kernel::Contracts::Rows);
    assert_ne!(key(plain), key(Mode { tf32: true, ..plain }));
    let of = |strict, tf32, dtype| Mode { strict, tf32, ..Mode::fused(thalweg_kernel::Contracts::Rows) }.precision(dtype);
    assert_eq!([of(false, true, DType::F32), of(false, true, DType::BF16)], [Precision::Tf32, Precision::Full]);
    assert_eq!([of(false, false, DType::F32), of(true, true, DType::F32)], [Precision::Full, Precision::Ordered]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_comes_back_from_its_bytes(c in choices(14), strict: bool) {
        let mut g = random(&c);
        g.0.mode = Mode { strict, ..Mode::fused(thalweg_kernel::Contracts::Rows) };
        let (segment, costs) = (g.0.as_segment(), Costs::typical());
        for effort in [Effort::None, Effort::default()] {
            let found = plan(segment, &costs, effort).unwrap();
            let again = Planned::from_bytes(&found.to_bytes(), segment, &costs).expect("its own bytes");
            prop_assert_eq!(&again.plan, &found.plan);
            prop_assert_eq!((again.time, again.complete), (found.time, found.complete));
        }
    }

    #[test]
    fn other_bytes_give_a_legal_plan_or_none(
        c in choices(14),
        edits in prop::collection::vec(prop::collection::vec((0..4000usize, any::<u8>(), any::<u8>()), 1..4), 10),
    ) {
        let g = random(&c);
        let (segment, costs) = (g.0.as_segment(), Costs::typical());
        let good = plan(segment, &costs, Effort::default()).unwrap().to_bytes();
        for edits in edits {
            if let Some(other) = Planned::from_bytes(&damaged(&good, &edits), segment, &costs) {
                prop_assert!(is_whole(&other.plan, segment), "{:?}", other.plan);
                prop_assert!(instantiate(&other.plan, segment, &ScalarClasses::new(segment.scalars)).is_some());
            }
        }
    }

    #[test]
    fn any_partition_gives_a_legal_plan_or_none(
        c in choices(10),
        homes in prop::collection::vec(prop::collection::vec(0..6usize, 10), 20),
    ) {
        let g = random(&c);
        let (segment, costs) = (g.0.as_segment(), Costs::typical());
        for homes in homes {
            let mut kernels = vec![vec![]; 5];
            let all = homes.iter().enumerate().take(segment.ops.len());
            all.filter(|h| *h.1 < 5).for_each(|(i, &k)| kernels[k].push(i));
            kernels.retain(|k: &Vec<usize>| !k.is_empty());
            let text = format!("{{\"complete\":true,\"kernels\":{kernels:?}}}");
            if let Some(other) = Planned::from_bytes(text.as_bytes(), segment, &costs) {
                prop_assert!(is_whole(&other.plan, segment), "{:?}", other.plan);
                prop_assert!(instantiate(&other.plan, segment, &ScalarClasses::new(segment.scalars)).is_some());
            }
        }
    }

    #[test]
    fn a_segment_comes_back_from_its_text(c in choices(14), fused: bool, strict: bool, visits: Option<u64>) {
        let mut g = random(&c);
        g.0.mode = Mode { fused, strict };
        let (segment, costs) = (g.0.as_segment(), Costs { launch: 0.1 + 0.2, ..Costs::typical() });
        let effort = visits.map_or(Effort::Full, Effort::Visits);
        let (again, costs_again, effort_again) = crate::text::read(&crate::text::write(&segment, &costs, effort)).unwrap();
        prop_assert_eq!(question(&again.as_segment(), &costs_again, effort_again), question(&segment, &costs, effort));
        prop_assert_eq!(again.scalars, g.0.scalars);
    }

    #[test]
    fn other_text_is_refused(c in choices(6), edits in prop::collection::vec((0..4000usize, any::<u8>(), any::<u8>()), 1..4)) {
        let g = random(&c);
        let text = crate::text::write(&g.0.as_segment(), &Costs::typical(), Effort::None);
        let other = damaged(text.as_bytes(), &edits);
        // Any text is read or rejected, without a panic.
        let _ = crate::text::read(&String::from_utf8_lossy(&other));
        let without_head = text.replacen("thalweg", "something", 1);
        prop_assert!(crate::text::read(&without_head).is_err());
        let cut = text.replace(" attr 0x", " ");
        prop_assert!(crate::text::read(&cut).unwrap_err().contains("not understood: %0"));
    }

    #[test]
    fn the_question_tells_segments_apart(a in choices(6), b in choices(6)) {
        let (a, b) = (random(&a), random(&b));
        let (x, y) = (a.0.as_segment(), b.0.as_segment());
        let ask = |s: &Segment<'_>| question(s, &Costs::typical(), Effort::Full);
        let same = (x.ops, x.live, x.shapes, x.ints, x.inputs) == (y.ops, y.live, y.shapes, y.ints, y.inputs)
            && ScalarClasses::new(x.scalars) == ScalarClasses::new(y.scalars);
        prop_assert_eq!(ask(&x) == ask(&y), same);
        prop_assert_ne!(ask(&x), question(&x, &Costs::typical(), Effort::None));
        let other = Costs { launch: 1.0, ..Costs::typical() };
        prop_assert_ne!(ask(&x), question(&x, &other, Effort::Full));
    }
}
