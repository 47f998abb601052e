//! Text form of bodies, for dumps and test messages.

use crate::{Body, Node};
use std::fmt;
use thalweg_ir::Scalar;

impl fmt::Display for Body {
    /// One line for each access, node and root.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, a) in self.accesses.iter().enumerate() {
            let of = a.operand.map_or("no operand".into(), |o| format!("operand {o}"));
            let once = if a.per_row { ", once a row" } else { "" };
            writeln!(f, "@{i} = {of}: {} {:?}{once}", a.dtype.name(), a.class)?;
        }
        for (i, node) in self.nodes.iter().enumerate() {
            let n = |id: crate::NodeId| format!("%{}", id.index());
            write!(f, "%{i} = ")?;
            match *node {
                Node::Load { access } => writeln!(f, "load @{access}")?,
                Node::Index { access, dtype } => writeln!(f, "index @{access} as {}", dtype.name())?,
                Node::Valid { access } => writeln!(f, "inside @{access}")?,
                Node::Scalar { slot, dtype } => writeln!(f, "scalar {slot}: {}", dtype.name())?,
                Node::Const { bits, dtype } => {
                    writeln!(f, "{:?}: {}", Scalar::from_bits(bits, dtype), dtype.name())?;
                }
                Node::Element { op, dtype, args } => {
                    let args: Vec<String> = args.into_iter().take(op.row().arity).map(n).collect();
                    writeln!(f, "{} {}: {}", op.name(), args.join(" "), dtype.name())?;
                }
                Node::Bitcast { dtype, arg } => writeln!(f, "bitcast {}: {}", n(arg), dtype.name())?,
                Node::Cast { dtype, arg } => writeln!(f, "cast {}: {}", n(arg), dtype.name())?,
                Node::Round { arg } => writeln!(f, "round {}: {}", n(arg), self.dtype(arg).name())?,
                Node::Value { slot, dtype } => writeln!(f, "value {slot} of the row: {}", dtype.name())?,
                Node::Scanned { scan, dtype } => writeln!(f, "scan {scan}: {}", dtype.name())?,
                Node::Combined { number, component, dtype } => {
                    writeln!(f, "component {component} of combined {number}: {}", dtype.name())?;
                }
                Node::Loop { of, .. } => {
                    let args: Vec<String> = self.args(crate::NodeId(i as u32)).map(n).collect();
                    writeln!(f, "{of} of {}", args.join(" "))?;
                }
                Node::Looped { of, number, dtype } => writeln!(f, "result {number} of {}: {}", n(of), dtype.name())?,
                Node::Gather { access, offset, inside } => {
                    writeln!(f, "gather @{access} at {} if {}", n(offset), n(inside))?;
                }
            }
        }
        for fold in &self.folds {
            writeln!(f, "fold %{} by {:?} to value {}", fold.node.index(), fold.op, fold.slot)?;
        }
        for (i, scan) in self.scans.iter().enumerate() {
            let reverse = if scan.reverse { ", reversed" } else { "" };
            writeln!(f, "scan {i} of %{} by {:?}{reverse}", scan.node.index(), scan.op)?;
        }
        for (i, c) in self.combined.iter().enumerate() {
            let of: Vec<String> = c.elements().iter().map(|n| format!("%{}", n.index())).collect();
            writeln!(f, "combined {i}: {:?} of {} by {}", c.along, of.join(" "), c.of)?;
        }
        for set in &self.sets {
            writeln!(f, "value {} = %{}", set.slot, set.node.index())?;
        }
        for store in &self.stores {
            let combine = store.combine.map_or(String::new(), |op| format!(", {op:?} with what is there"));
            writeln!(f, "store %{} to @{}{combine}", store.node.index(), store.access)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Access, BodyBuilder, Node};
    use thalweg_ir::{DType, ElementOp, Monoid};

    #[test]
    fn a_body_reads_from_loads_to_stores() {
        let mut b = BodyBuilder::new(false);
        let [x, y] = [0, 1].map(|o| b.access(Access::contiguous(o, DType::F32)));
        let x = b.node(Node::Load { access: x });
        let sum = b.fold(Monoid::Sum, x);
        let out = b.element(ElementOp::Div, &[x, sum]);
        b.store(out, y);
        assert_eq!(
            b.finish().to_string(),
            "@0 = operand 0: f32 Contiguous\n\
             @1 = operand 1: f32 Contiguous\n\
             %0 = load @0\n\
             %1 = value 0 of the row: f32\n\
             %2 = div %0 %1: f32\n\
             fold %0 by Sum to value 0\n\
             store %2 to @1\n"
        );
    }
}
