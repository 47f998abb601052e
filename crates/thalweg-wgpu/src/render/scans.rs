//! Scans of rows in registers, as functions of the vectors that a row's threads have.
//!
//! In: the registers of a row, interleaved among its threads: thread `t` of `G` has the vectors `t`, `t + G`, … Out: a
//! function that replaces elements by running results. Each thread reduces its vector; the threads of a warp scan these
//! totals; totals of warps go through workgroup memory, and every warp scans them for itself, so that none waits for
//! the results of another. All threads of a workgroup take part.

use super::kernel::Emitter;
use super::monoid::name;
use super::scope::Symbol;
use super::types::{cast, constant};
use std::fmt::Write;
use thalweg_gpu::ir::{Expr, Type};
use thalweg_ir::{DType, Monoid};

/// Threads of a warp.
const WARP: u32 = 32;

/// Scan of a row's registers, as its statement has it.
pub struct RowScan<'a> {
    /// Index of the scan among the kernel's.
    pub number: u16,
    /// Threads per row.
    pub group: u32,
    /// Whether it runs from the end.
    pub back: bool,
    /// Registers with the vectors.
    pub buffer: &'a str,
    /// Index of the thread within its row.
    pub thread: &'a Expr,
    /// Number of vectors in the row.
    pub count: &'a Expr,
    /// Workgroup memory with a partial result for each warp and vector.
    pub parts: &'a str,
}

impl Emitter<'_> {
    /// Prints the scan of a row in registers.
    pub fn scan_row(&mut self, of: &RowScan<'_>) {
        let (Some((monoid, dtype, wide)), Some(Symbol::Registers(shape))) =
            (self.scan(of.number), self.scopes.find(of.buffer).cloned())
        else {
            self.refuse("there is no such scan");
            return;
        };
        let (&[steps, lanes], Some(Symbol::Shared { global, range: None, .. })) =
            (&shape[..], self.scopes.find(of.parts).cloned())
        else {
            self.refuse("a scan has other registers");
            return;
        };
        let own = format!("scan_row_{}", of.number);
        let element = self.type_name(Type::Held(dtype));
        let registers = self.array_type(&element, &shape);
        let body = self.scan_body(of, (monoid, dtype, wide), [steps, lanes], &global);
        let text = format!("fn {own}(x: ptr<function, {registers}>, t: u32, count: u32) {{\n{body}}}");
        self.globals.insert(own.clone(), text);
        let [thread, count] = [of.thread, of.count].map(|e| self.expr(&e.clone().to(Type::U32)));
        let buffer = super::scope::spelled(of.buffer);
        let _ = writeln!(self.out, "{own}(&{buffer}, {thread}, {count});");
    }

    /// Statements of the function.
    fn scan_body(
        &mut self,
        of: &RowScan<'_>,
        (monoid, dtype, wide): (Monoid, DType, DType),
        [steps, lanes]: [u32; 2],
        parts: &str,
    ) -> String {
        let (width, warps) = (of.group.min(WARP), of.group.div_ceil(WARP));
        let ty = self.type_name(Type::Held(wide));
        let both = if monoid == Monoid::LogSumExp { "log_add".to_string() } else { name(monoid, wide) };
        let none = constant(wide, (monoid.row().neutral)(wide).to_bits(wide));
        let element = |k: u32, v: u32| format!("(*x)[{k}][{}]", if of.back { lanes - 1 - v } else { v });
        let vector = |i: u32| if of.back { steps - 1 - i } else { i };
        let group = of.group;
        let mut out = format!("let lane = t % {width}u;\nvar running = {none};\n");
        for i in 0..steps {
            let k = vector(i);
            let _ = writeln!(out, "var all{i} = {none};\nif {}u + t < count {{", k * group);
            for v in 0..lanes {
                let x = cast(dtype, wide, &element(k, v));
                let _ = match v {
                    0 => writeln!(out, "  all{i} = {x};"),
                    _ => writeln!(out, "  all{i} = {both}(all{i}, {x});"),
                };
            }
            out.push_str("}\n");
            for offset in (0..width.ilog2()).map(|bit| 1 << bit) {
                let (other, inside) = self.neighbour(wide, &format!("all{i}"), offset, width, of.back);
                let _ = writeln!(out, "{{ let other = {other}; if {inside} {{ all{i} = {both}(other, all{i}); }} }}");
            }
            let (before, inside) = self.neighbour(wide, &format!("all{i}"), 1, width, of.back);
            let _ = writeln!(out, "let near{i} = {before};\nvar before{i} = select({none}, near{i}, {inside});");
            let last = if of.back { 0 } else { width - 1 };
            if warps == 1 {
                let total =
                    self.shuffle(Type::Held(wide), &format!("all{i}"), &format!("(own_thread - lane + {last}u)"));
                let _ = writeln!(out, "before{i} = {both}(running, before{i});\nrunning = {both}(running, {total});");
            } else {
                let warp = if of.back { format!("{}u - t / 32u", warps - 1) } else { "t / 32u".into() };
                let _ = writeln!(out, "if lane == {last}u {{ {parts}[{}u + {warp}] = all{i}; }}", i * warps);
            }
        }
        if warps > 1 {
            out.push_str(&self.scan_parts((wide, &ty, &both, &none), [steps, warps], of.back, parts));
            // A later scan may use the memory again.
            out.push_str("workgroupBarrier();\n");
        }
        for i in 0..steps {
            let k = vector(i);
            let _ = writeln!(out, "var y{i} = before{i};");
            for v in 0..lanes {
                let x = element(k, v);
                let next = cast(dtype, wide, &x);
                let _ =
                    writeln!(out, "y{i} = {both}(y{i}, {next});\n{x} = {};", narrowed(wide, dtype, &format!("y{i}")));
            }
        }
        out
    }

    /// Statements that combine each vector's prefix with the totals of the warps and vectors before it.
    fn scan_parts(
        &mut self,
        (wide, ty, both, none): (DType, &str, &str, &str),
        [steps, warps]: [u32; 2],
        back: bool,
        parts: &str,
    ) -> String {
        let count = steps * warps;
        let turns = count.div_ceil(WARP);
        let mut out = format!("workgroupBarrier();\nlet own_lane = own_thread % 32u;\nvar sum = {none};\n");
        for turn in 0..turns {
            let at = turn * WARP;
            let _ = writeln!(out, "var part{turn}: {ty} = {none};");
            let _ = match count >= at + WARP {
                true => writeln!(out, "part{turn} = {parts}[{at}u + own_lane];"),
                false => writeln!(out, "if {at}u + own_lane < {count}u {{ part{turn} = {parts}[{at}u + own_lane]; }}"),
            };
            for offset in [1, 2, 4, 8, 16] {
                let (other, inside) = self.neighbour_of_warp(wide, &format!("part{turn}"), offset);
                let _ = writeln!(
                    out,
                    "{{ let other = {other}; if {inside} {{ part{turn} = {both}(other, part{turn}); }} }}"
                );
            }
            let (before, inside) = self.neighbour_of_warp(wide, &format!("part{turn}"), 1);
            let total = self.shuffle(Type::Held(wide), &format!("part{turn}"), "((own_thread & ~31u) + 31u)");
            let _ = writeln!(
                out,
                "let lower{turn} = {before};\nlet first{turn} = {both}(sum, select({none}, lower{turn}, {inside}));\n\
                 sum = {both}(sum, {total});"
            );
        }
        let warp = if back { format!("{}u - t / 32u", warps - 1) } else { "t / 32u".into() };
        for i in 0..steps {
            // Vectors of one step are in one group of 32 partial results, since the number of warps is a power of two.
            let (turn, at) = (i * warps / WARP, i * warps % WARP);
            let base = self.shuffle(
                Type::Held(wide),
                &format!("first{turn}"),
                &format!("((own_thread & ~31u) + {at}u + {warp})"),
            );
            let _ = writeln!(out, "let base{i} = {base};\nbefore{i} = {both}(base{i}, before{i});");
        }
        out
    }

    /// Text of the value of the thread `offset` threads before, in the order of the scan, and of the condition that it
    /// is in the same group of `width` threads.
    fn neighbour(&mut self, wide: DType, x: &str, offset: u32, width: u32, back: bool) -> (String, String) {
        let inside = match back {
            true => format!("lane + {offset}u < {width}u"),
            false => format!("lane >= {offset}u"),
        };
        let sign = if back { "+" } else { "-" };
        let thread = format!("(own_thread {sign} select(0u, {offset}u, {inside}))");
        (self.shuffle(Type::Held(wide), x, &thread), inside)
    }

    /// [`Emitter::neighbour`] among the threads of a warp, forward.
    fn neighbour_of_warp(&mut self, wide: DType, x: &str, offset: u32) -> (String, String) {
        let inside = format!("own_lane >= {offset}u");
        let thread = format!("(own_thread - select(0u, {offset}u, {inside}))");
        (self.shuffle(Type::Held(wide), x, &thread), inside)
    }
}

/// Text of a running result as an element.
fn narrowed(wide: DType, dtype: DType, y: &str) -> String {
    // A scan of bools adds modulo 2.
    if dtype == DType::Bool { format!("((u32({y}) & 1u) != 0u)") } else { cast(wide, dtype, y) }
}
