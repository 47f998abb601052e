//! Plans in the disk cache: found by everything that they depend on, and verified. Each test has a folder of its own.

use super::on_its_own;
use crate::saved::{Answer, Asked, Origin, plan_in, save_better_in, save_measured_in};
use crate::{DeviceRef, effort, set_measuring};
use std::path::PathBuf;
use thalweg_fusion::{BitSet, Costs, Effort, Mode, OwnedSegment, PartitionCache, Plan, ScalarClasses, SegmentClass};
use thalweg_ir::{DType, ElementOp, InputKind, Op, RelArg, RelOp, Shape, View};
use thalweg_runtime::disk::{Cache, Kind};

/// Cache in a temporary folder that is removed at the end.
struct Place(PathBuf, Cache);

impl Place {
    fn new(test: &str) -> Place {
        let path = std::env::temp_dir().join(format!("thalweg-saved-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let cache = Cache::open(&path).expect("a folder of the user's own");
        Place(path, cache)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Segment of `exp(x)` and its negative, both live: one kernel or two.
fn segment(n: usize, fused: bool) -> OwnedSegment {
    let input = RelArg::input(0, InputKind { dtype: DType::F32, rank: 1, contiguous: true });
    let one = |op, arg| RelOp { op: Op::Element(op), dtype: DType::F32, rank: 1, attr: 0, args: RelOp::pack(&[arg]) };
    let mut live = BitSet::new(2);
    live.insert(0);
    live.insert(1);
    OwnedSegment {
        ops: vec![one(ElementOp::Exp, input), one(ElementOp::Neg, RelArg::op(0))],
        live,
        mode: Mode { fused, ..Mode::fused(thalweg_kernel::Contracts::Rows) },
        shapes: vec![Shape::new(&[n]); 2],
        ints: vec![],
        scalars: vec![],
        inputs: vec![(DType::F32, View::contiguous(Shape::new(&[n])))],
    }
}

/// Passes `f` a question for `n` elements: for a plan of their class, or of exactly these sizes.
fn asked<T>(device: DeviceRef, (n, fused): (usize, bool), of_class: bool, f: impl FnOnce(Asked<'_>) -> T) -> T {
    let own = segment(n, fused);
    let (segment, classes) = (own.as_segment(), ScalarClasses::new(&[]));
    let class = SegmentClass::of(&segment);
    let (costs, class) = (&Costs::typical(), of_class.then_some(&class));
    f(Asked { device, segment, costs, effort: effort(), classes: &classes, class, parts: None })
}

fn found(cache: Option<&Cache>, device: DeviceRef, n: usize, fused: bool) -> (Plan, Origin) {
    found_of(cache, device, (n, fused), false)
}

fn found_of(cache: Option<&Cache>, device: DeviceRef, what: (usize, bool), of_class: bool) -> (Plan, Origin) {
    let Answer { plan, instance, origin, .. } =
        asked(device, what, of_class, |asked| plan_in(cache, asked)).expect("there is a plan");
    assert_eq!(instance.steps.len(), plan.kernel_count());
    (plan, origin)
}

#[test]
fn a_plan_that_was_searched_for_is_found_on_disk_by_the_next_process() {
    on_its_own(|device| {
        let place = Place::new("found");
        let (searched, origin) = found(Some(&place.1), device, 1000, true);
        assert_eq!(origin, Origin::Search);
        assert_eq!(place.1.contents().iter().map(|c| c.entries).sum::<usize>(), 1);
        // Reopened, as by another process.
        let again = Cache::open(&place.0).unwrap();
        assert_eq!(found(Some(&again), device, 1000, true), (searched, Origin::Disk));
        assert_eq!(found(None, device, 1000, true).1, Origin::Search);
    });
}

#[test]
fn what_is_no_plan_of_the_segment_is_searched_for_again_and_written_over() {
    on_its_own(|device| {
        let place = Place::new("damaged");
        let key = asked(device, (1000, true), false, |asked| asked.key());
        let (plan, _) = found(Some(&place.1), device, 1000, true);
        let good = place.1.get(Kind::Plan, &key).expect("it was kept");
        for bad in [&b""[..], b"no plan at all", &good[..good.len() - 1]] {
            place.1.put(Kind::Plan, &key, bad);
            assert_eq!(found(Some(&place.1), device, 1000, true), (plan.clone(), Origin::Search), "{bad:?}");
            assert_eq!(found(Some(&place.1), device, 1000, true).1, Origin::Disk, "{bad:?}");
        }
    });
}

#[test]
fn a_measured_plan_comes_first_where_plans_are_measured() {
    on_its_own(|device| {
        let place = Place::new("measured");
        let (plan, _) = found(Some(&place.1), device, 1000, true);
        asked(device, (1000, true), false, |asked| save_measured_in(&place.1, asked, &plan));
        assert_eq!(found(Some(&place.1), device, 1000, true).1, Origin::Disk);
        set_measuring(Some(0.05));
        assert_eq!(found(Some(&place.1), device, 1000, true).1, Origin::Measured);
    });
}

#[test]
fn other_sizes_of_a_class_have_its_plan_unless_it_must_be_their_own() {
    on_its_own(|device| {
        let place = Place::new("class");
        let (plan, origin) = found_of(Some(&place.1), device, (1000, true), true);
        assert_eq!(origin, Origin::Search);
        assert_eq!(place.1.contents().iter().map(|c| c.entries).sum::<usize>(), 2, "for the sizes, and for the class");
        let again = Cache::open(&place.0).unwrap();
        assert_eq!(found_of(Some(&again), device, (1000, true), true).1, Origin::Disk);
        assert_eq!(found_of(Some(&again), device, (1001, true), true), (plan.clone(), Origin::Class));
        assert_eq!(found_of(Some(&again), device, (1001, true), false).1, Origin::Search);
        // Two megabytes are in another size class than eight kilobytes.
        assert_eq!(found_of(Some(&again), device, (1 << 18, true), true).1, Origin::Search);
        // A measured plan becomes the plan of its class.
        asked(device, (1002, true), true, |asked| save_measured_in(&again, asked, &plan));
        assert_eq!(found_of(Some(&again), device, (1003, true), true), (plan, Origin::Class));
    });
}

/// A plan assembled from known partial plans may differ from the one a search finds: it is saved for its class only.
#[test]
fn a_plan_of_known_parts_is_not_kept_for_its_sizes() {
    on_its_own(|device| {
        let parts = PartitionCache::new();
        let kept = |place: &Place| {
            let answer = asked(device, (1000, true), true, |asked| {
                plan_in(Some(&place.1), Asked { parts: Some(&parts), ..asked }).unwrap()
            });
            assert_eq!(answer.origin, Origin::Search);
            asked(device, (1000, true), true, |asked| place.1.get(Kind::Plan, &asked.key()).is_some())
        };
        let (first, second) = (Place::new("parts-1"), Place::new("parts-2"));
        assert!(kept(&first), "searched for from nothing");
        assert!(!kept(&second), "taken");
        assert_eq!(found_of(Some(&second.1), device, (1000, true), true).1, Origin::Class);
        assert_eq!(found_of(Some(&second.1), device, (1000, true), false).1, Origin::Search);
    });
}

#[test]
fn what_a_search_found_that_went_on_comes_before_what_it_went_on_from() {
    on_its_own(|device| {
        let place = Place::new("further");
        let planned = |effort| {
            let own = segment(1000, true);
            thalweg_fusion::plan(own.as_segment(), &Costs::typical(), effort).unwrap()
        };
        let (stopped, better) = (planned(Effort::None), planned(Effort::Full));
        assert!(!stopped.complete && stopped.plan != better.plan);
        asked(device, (1000, true), true, |asked| {
            place.1.put(Kind::Plan, &asked.key(), &stopped.to_bytes());
            save_better_in(&place.1, asked, &better);
        });
        assert_eq!(found_of(Some(&place.1), device, (1000, true), true), (better.plan.clone(), Origin::Disk));
        assert_eq!(found_of(Some(&place.1), device, (1000, true), false), (stopped.plan, Origin::Disk));
        assert_eq!(found_of(Some(&place.1), device, (1001, true), true), (better.plan, Origin::Class));
    });
}

#[test]
fn without_fusion_nothing_is_kept() {
    on_its_own(|device| {
        let place = Place::new("unfused");
        assert_eq!(found(Some(&place.1), device, 1000, false).1, Origin::Search);
        assert_eq!(found(Some(&place.1), device, 1000, false).1, Origin::Search);
        assert_eq!(place.1.contents().iter().map(|c| c.entries).sum::<usize>(), 0);
    });
}
