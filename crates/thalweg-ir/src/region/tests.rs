use super::*;
use std::cmp::Ordering;

/// Region of `while x < a { x = x + x; n = n + 1 }`; `x` starts from an argument, `n` from 0.
pub(super) fn doubling(most: u32) -> Region {
    use RegionNode::*;
    Region {
        most,
        args: vec![DType::F32, DType::F32],
        first: vec![First::Arg(0), First::Const { bits: 0, dtype: DType::I32 }],
        nodes: vec![
            Carried(0),
            super::RegionNode::Arg(1),
            Element { op: ElementOp::Lt, args: [0, 1, 0] },
            Element { op: ElementOp::Add, args: [0, 0, 0] },
            Carried(1),
            super::RegionNode::Const { bits: 1, dtype: DType::I32 },
            Element { op: ElementOp::Add, args: [4, 5, 4] },
        ],
        go: 2,
        next: vec![3, 6],
    }
}

#[test]
fn equal_regions_are_one_loop() {
    let (a, b, c) = (doubling(9).intern(), doubling(9).intern(), doubling(10).intern());
    assert_eq!(a, b);
    assert_ne!(a, c);
    assert_ne!(a.cmp(&c), Ordering::Equal);
    assert_eq!((a.carried(0), a.carried(1)), (DType::F32, DType::I32));
    assert!(a.cost() > 9);
}

#[test]
fn a_loop_is_read_back_from_its_text() {
    use RegionNode::*;
    let inner = doubling(7).intern();
    let outer = Region {
        nodes: vec![
            Carried(0),
            super::RegionNode::Arg(1),
            Loop { inner, args: vec![0, 1] },
            Result { of: 2, number: 0 },
            Result { of: 2, number: 1 },
            Element { op: ElementOp::Lt, args: [3, 1, 3] },
            Cast { dtype: DType::F32, arg: 4 },
        ],
        go: 5,
        next: vec![6, 4],
        ..doubling(3)
    };
    for l in [inner, outer.intern()] {
        let text = l.to_string();
        assert!(!text.contains([' ', '(', ')']), "{text}");
        assert_eq!(super::Loop::parse(&text), Some(l), "{text}");
    }
}

#[test]
fn what_is_no_region_is_refused() {
    let wrong: [fn(&mut Region); 6] = [
        |r| r.go = 3,
        |r| r.next[0] = 6,
        |r| r.next[0] = 9,
        |r| r.nodes[2] = RegionNode::Element { op: ElementOp::Lt, args: [0, 5, 0] },
        |r| r.args = vec![DType::BF16; 2],
        |r| r.args = vec![DType::F32; MAX_ARGS + 1],
    ];
    for (i, change) in wrong.into_iter().enumerate() {
        let mut r = doubling(5);
        change(&mut r);
        assert_eq!(r.check(), None, "{i}");
    }
    assert_eq!(Loop::parse("loop{5;f32;a0;c0;0;0}"), None);
}

/// Every way to write a linear recurrence is recognized; similar ones are not.
#[test]
fn a_linear_recurrence_is_known_as_one() {
    let of = |nodes: &str, next: &str| {
        let text = format!("loop{{1;f32,f32;k0:f32,k0:f32;k1:bool,c0,c1,a0,a1,{nodes};0;{next}}}");
        Loop::parse(&text).expect("a region")
    };
    assert_eq!(of("mul:1:3,mul:3:2,add:6:4", "5,7").linear(), Some([0, 1]));
    assert_eq!(of("mul:3:1,mul:2:3,add:4:6", "5,7").linear(), Some([0, 1]));
    assert_eq!(of("mul:2:4,mul:4:1,add:6:3", "7,5").linear(), Some([1, 0]));
    // The coefficient of the earlier part; a difference; a missing side.
    assert_eq!(of("mul:1:3,mul:1:2,add:6:4", "5,7").linear(), None);
    assert_eq!(of("mul:1:3,mul:3:2,sub:6:4", "5,7").linear(), None);
    assert_eq!(of("mul:1:3,mul:3:2,add:6:2", "5,7").linear(), None);
    let more = Loop::parse("loop{2;f32;k0:f32;k1:bool,c0,a0,add:1:2;0;3}").expect("a region");
    assert!(!more.is_combine() && more.linear().is_none());
}
