//! Readable listings of emitted code (`THALWEG_DUMP`): a text file with the body and the instructions of each loop with
//! their registers, and a binary file with the machine code.
//!
//! `objdump -D -b binary -m i386:x86-64 -M intel FILE.bin` disassembles the binary file.

use super::Isa;
use super::Report;
use crate::vector::ir::{Class, Inst, Val};
use crate::vector::regalloc::{Allocation, Loc, Step};
use crate::vector::schedule::Program;
use std::fmt::Write;
use thalweg_kernel::Body;

/// A loop to list: title, instructions, register allocation.
pub type Listed<'a> = (String, &'a Program, &'a Allocation);

/// Writes the listing and the machine code of a compiled body to the dump folder, if `THALWEG_DUMP` sets one.
pub fn write(kind: &str, body: &Body, report: &Report, loops: &[Listed<'_>], code: &[u8]) {
    let name = format!("cpu-{:?}-{kind}", report.isa).to_lowercase();
    thalweg_runtime::dump(&name, || vec![("txt", listing(body, report, loops).into_bytes()), ("bin", code.to_vec())]);
}

/// Text of the body and its loops.
fn listing(body: &Body, report: &Report, loops: &[Listed<'_>]) -> String {
    let mut out = format!(
        "{:?}: {} points a step, {} copies, {} instructions a step, {} bytes, {} spills\n\n{body}",
        report.isa, report.lanes, report.copies, report.instructions, report.bytes, report.spills
    );
    for (title, program, allocation) in loops {
        let _ = write!(out, "\n{title}: {} vector registers, {} spill places\n", allocation.peak, allocation.places);
        for &(val, reg) in &allocation.hoisted {
            let _ = writeln!(
                out,
                "    before the loop: {} = v{}",
                register(report.isa, &program.insts[val.at()], reg),
                val.at()
            );
        }
        for step in &allocation.steps {
            let _ = writeln!(out, "    {}", operation(report.isa, program, step));
        }
    }
    out
}

/// Name of a register, by the class and width of the value in it.
fn register(isa: Isa, inst: &Inst, reg: u8) -> String {
    match inst.class {
        Class::Mask => isa.register(0, reg),
        Class::Effect => "-".into(),
        Class::Vector => isa.register(inst.width, reg),
    }
}

/// Text of one operation, with registers as the instruction set names them: `r3 = v9: Add(v7 in r1, v2 in memory)`.
fn operation(isa: Isa, program: &Program, step: &Step) -> String {
    let named = |val: Val, reg: u8| register(isa, &program.insts[val.at()], reg);
    match *step {
        Step::Run { at, dst, vals, locs, .. } => {
            let inst = &program.insts[at as usize];
            let argument = |i: usize| match locs[i] {
                Loc::Reg(r) => format!("v{} in {}", vals[i].at(), named(vals[i], r)),
                Loc::Home => format!("v{} in memory", vals[i].at()),
            };
            let args: Vec<String> = (0..inst.nargs as usize).map(argument).collect();
            format!("{} = v{at}: {:?}({})", register(isa, inst, dst), inst.op, args.join(", "))
        }
        Step::Reload { val, reg } => format!("{} = v{} from memory", named(val, reg), val.at()),
        Step::Fresh { val, reg } => format!("{} = v{} from memory, to be written over", named(val, reg), val.at()),
        Step::Copy { val, from, to } => format!("{} = {}, to be written over", named(val, to), named(val, from)),
        Step::Spill { val, reg } => format!("spill v{} from {}", val.at(), named(val, reg)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emitter::assemble;
    use crate::vector::regalloc::{self, Limits};
    use crate::vector::{Options, lower, schedule};
    use thalweg_ir::{DType, ElementOp};
    use thalweg_kernel::{Access, BodyBuilder, Node};

    #[test]
    fn a_listing_names_every_instruction_with_its_registers() {
        let mut b = BodyBuilder::new(false);
        let [x, y] = [0, 1].map(|o| b.access(Access::contiguous(o, DType::F32)));
        let x = b.node(Node::Load { access: x });
        let e = b.element(ElementOp::Exp, &[x]);
        b.store(e, y);
        let body = b.finish();
        let v = lower(&body, Isa::Avx2.target()).unwrap();
        let line = schedule::unroll(&v, &schedule::order(&v), 1, 1, false);
        let allocation = regalloc::allocate(&line, v.target, Limits { vectors: 16, masks: 5 }).unwrap();
        let (_, report) = assemble(&body, Isa::Avx2, Options::default()).unwrap();
        let text = listing(&body, &report, &[("main loop".into(), &line, &allocation)]);
        assert!(text.contains("%1 = exp %0: f32") && text.contains("main loop"), "{text}");
        let lines = text.lines().filter(|l| l.starts_with("    ymm")).count();
        assert!(lines >= report.instructions / 2, "{lines} of {}: {text}", report.instructions);
    }
}
