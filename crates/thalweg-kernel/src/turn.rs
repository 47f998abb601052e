//! Iteration of a loop as a body, which every engine compiles for a [`Node::Loop`].
//!
//! In: an interned loop. Out: a strict body without accesses. Its values 0, 1, … are the loop's carried values, then
//! its arguments. It sets value 0 to the loop condition, and the values from 1 on to the carried values after the
//! iteration. Always true: the ancestors of the condition come before all other nodes, so an engine may end the loop
//! there.

use crate::{Body, BodyBuilder, Node, NodeId};
use thalweg_ir::{Loop, MAX_ARGS, RegionNode};

/// Body of one iteration of a loop; see the module for its values.
pub fn turn(of: Loop) -> Body {
    let region = of.region();
    let mut turn = IterationBuilder { of, place: vec![None; region.nodes.len()], b: BodyBuilder::new(true) };
    let go = turn.node(region.go);
    let next: Vec<NodeId> = region.next.iter().map(|&n| turn.node(n)).collect();
    turn.b.set(0, go);
    next.into_iter().enumerate().for_each(|(i, n)| turn.b.set(i as u16 + 1, n));
    turn.b.finish()
}

struct IterationBuilder {
    of: Loop,
    place: Vec<Option<NodeId>>,
    b: BodyBuilder,
}

impl IterationBuilder {
    /// Writes node `n` of the region with all of its ancestors; returns its node in the body.
    fn node(&mut self, n: u32) -> NodeId {
        // In order from the first node, without recursion: an iteration may be as deep as it is long.
        let region = self.of.region();
        let mut needed = vec![false; n as usize + 1];
        needed[n as usize] = true;
        for i in (0..=n).rev().filter(|&i| self.place[i as usize].is_none()) {
            if needed[i as usize] {
                region.nodes[i as usize].args().for_each(|a| needed[a as usize] = true);
            }
        }
        for i in (0..=n as usize).filter(|&i| needed[i]) {
            if self.place[i].is_none() {
                self.place[i] = Some(self.write(i as u32));
            }
        }
        self.placed(n)
    }

    fn placed(&self, n: u32) -> NodeId {
        self.place[n as usize].expect("arguments come before what takes them")
    }

    fn write(&mut self, n: u32) -> NodeId {
        let region = self.of.region();
        match &region.nodes[n as usize] {
            RegionNode::Carried(i) => self.b.node(Node::Value { slot: *i, dtype: self.of.dtype(n) }),
            RegionNode::Arg(i) => {
                let slot = region.first.len() as u16 + i;
                self.b.node(Node::Value { slot, dtype: self.of.dtype(n) })
            }
            RegionNode::Const { bits, dtype } => self.b.node(Node::Const { bits: *bits, dtype: *dtype }),
            RegionNode::Element { op, args } => {
                let args: Vec<NodeId> = args[..op.row().arity].iter().map(|&a| self.placed(a)).collect();
                self.b.element(*op, &args)
            }
            RegionNode::Cast { dtype, arg } => {
                let arg = self.placed(*arg);
                self.b.cast(arg, *dtype)
            }
            RegionNode::Loop { inner, args } => {
                let args: Vec<NodeId> = args.iter().map(|&a| self.placed(a)).collect();
                self.b.looped(*inner, &args)
            }
            RegionNode::Result { of, number } => {
                let of = self.placed(*of);
                self.b.node(Node::Looped { of, number: *number, dtype: self.of.dtype(n) })
            }
        }
    }
}

impl BodyBuilder {
    /// Returns the node of a loop with these arguments of its region; adds it if it is new.
    pub fn looped(&mut self, of: Loop, args: &[NodeId]) -> NodeId {
        let mut all = [args[0]; MAX_ARGS];
        all[..args.len()].copy_from_slice(args);
        self.node(Node::Loop { of, args: all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_what_ends_the_loop_first() {
        let l = Loop::parse("loop{9;f32;a0,k0:i32;c0,exp:0,a0,lt:0:2,c1,k1:i32,add:4:5;3;1,6}").unwrap();
        let body = turn(l);
        assert!(body.strict && body.sets.len() == 3);
        let [go, next, count] = [0, 1, 2].map(|s| body.sets[s].node.index());
        assert!(go < next && go < count, "{body}");
        assert_eq!(body.nodes.len(), 7, "{body}");
    }
}
