//! New code on a GPU: single operations are compiled once they cost no more than plans that nobody runs again.

use super::{counted, tensor, values};
use thalweg::{finish_searches, set_tiers};

#[test]
fn code_that_never_repeats_stops_waiting_for_the_compiler() {
    let before = set_tiers(true);
    let x = tensor(&[0.1, 0.2, 0.3, 0.4]);
    let program = |n: u32| {
        let (mut y, mut want) = (x.clone(), vec![0.1f32, 0.2, 0.3, 0.4]);
        for bit in 0..5 {
            let adds = n >> bit & 1 == 1;
            y = if adds { &y + 1.0 } else { y.square() };
            want.iter_mut().for_each(|w| *w = if adds { *w + 1.0 } else { *w * *w });
        }
        assert_eq!(values(&y), want, "program {n}");
    };
    let (_, c) = counted(|| (0..16).for_each(program));
    assert!(c.programs_compiled <= 6, "{} programs of two operations, and of a few chains", c.programs_compiled);
    let (_, c) = counted(|| (16..32).for_each(program));
    assert_eq!((c.programs_compiled, c.first_sight), (0, 16));

    // What comes again and again has its plan in the end, compiled by whoever runs it.
    let compiled = (0..5000).find(|_| {
        let (_, c) = counted(|| program(16));
        finish_searches();
        c.programs_compiled > 0
    });
    assert!(compiled.is_some_and(|turn| turn > 50), "{compiled:?}: not before that many launches cost as much");
    let (_, c) = counted(|| program(16));
    assert_eq!((c.kernels, c.first_sight), (1, 0));
    set_tiers(before);
}
