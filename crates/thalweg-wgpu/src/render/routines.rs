//! Routines: folds over lanes and threads, shuffles, ballots. Threads of a warp exchange values by subgroup operations
//! where a subgroup has that many threads, else through workgroup memory, and all threads of a block take part.

use super::kernel::Emitter;
use super::monoid::name;
use super::scope::Symbol;
use super::types::{cast, constant, wrapped};
use std::fmt::Write;
use thalweg_gpu::ir::{Definition, Expr, Routine, Shuffle, Type};
use thalweg_ir::{DType, Monoid};

/// Threads of a warp, which families count on.
const WARP: u32 = 32;

/// Text of `y` of the thread whose number differs by one bit within its subgroup.
fn shuffled_xor(ty: &str, offset: u32) -> String {
    match ty {
        "bool" => format!("(subgroupShuffleXor(u32(y), {offset}u) != 0u)"),
        "u64" => format!("of_lane_xor_u64(y, {offset}u)"),
        "i64" => format!("i64(of_lane_xor_u64(u64(y), {offset}u))"),
        _ => format!("subgroupShuffleXor(y, {offset}u)"),
    }
}

impl Emitter<'_> {
    /// Prints the call of a routine that has a result.
    pub fn routine(&mut self, of: Routine, args: &[Expr]) -> String {
        let all: Vec<String> = args.iter().map(|x| self.expr(x)).collect();
        let list = all.join(", ");
        match of {
            Routine::Combine(op, dtype) => format!("{}({list})", name(op, dtype)),
            Routine::FoldLanes(op, dtype) => self.fold_lanes(op, dtype, &args[0], &list),
            Routine::FoldThreads(op, dtype, group) => {
                format!("{}({list})", self.fold_threads(op, dtype, u32::from(group).min(32)))
            }
            Routine::FoldWarps(op, dtype, group) => {
                let warps = u32::from(group) / 32;
                format!("{}({list}[own_thread % {warps}u])", self.fold_threads(op, dtype, warps))
            }
            Routine::FirstLane(dtype) => self.shuffle(Type::Held(dtype), &list, "own_thread & ~31u"),
            Routine::Shuffle(from, ty) => {
                let (x, n) = (&all[0], &all[1]);
                let thread = match from {
                    Shuffle::From => format!("(own_thread & ~31u) | ({n} & 31u)"),
                    Shuffle::Up => format!("own_thread - select(0u, {n}, (own_thread & 31u) >= {n})"),
                    Shuffle::Xor => format!("own_thread ^ {n}"),
                };
                self.shuffle(ty, x, &thread)
            }
            Routine::Ballot => self.ballot(&list),
            Routine::AnyOfWarp => format!("({} != 0u)", self.ballot(&list)),
            Routine::AnyOfBlock => format!("{}({list})", self.any_of_block()),
            Routine::Ones => format!("countOneBits({list})"),
            Routine::Bits => format!("bitcast<u32>({list})"),
            Routine::MultiplyAdd(dtype) => wrapped(dtype, &format!("({} * {} + {})", all[0], all[1], all[2])),
            Routine::PowerOfTwo => format!("exp2_f32({list})"),
            Routine::Pair(dtype) => {
                let narrow = if dtype == DType::F16 { "f16" } else { "bf16" };
                let bits = |x: &str| format!("bits_{narrow}(round_{narrow}({x}))");
                format!("({} | ({} << 16u))", bits(&all[0]), bits(&all[1]))
            }
            Routine::Nothing(scan) => match self.scan(scan) {
                Some((monoid, _, wide)) => {
                    let identity = (monoid.row().neutral)(wide);
                    constant(wide, identity.to_bits(wide))
                }
                None => self.refuse("there is no such scan"),
            },
            Routine::Widened(scan) => match self.scan(scan) {
                Some((_, dtype, wide)) => cast(dtype, wide, &list),
                None => self.refuse("there is no such scan"),
            },
            Routine::Accumulated(scan) => match self.scan(scan) {
                Some((Monoid::LogSumExp, ..)) => format!("log_add({list})"),
                Some((monoid, _, wide)) => format!("{}({list})", name(monoid, wide)),
                None => self.refuse("there is no such scan"),
            },
            Routine::Narrowed(scan, dtype) => match self.scan(scan) {
                // A scan of bools adds modulo 2.
                Some(_) if dtype == DType::Bool => {
                    format!("((u32({list}) & 1u) != 0u)")
                }
                Some((_, _, wide)) => cast(wide, dtype, &list),
                None => self.refuse("there is no such scan"),
            },
            _ => self.refuse("there are neither online folds nor tensor cores, and blocks exchange nothing"),
        }
    }

    /// Monoid of a scan, dtype of its elements and dtype of its accumulator.
    pub fn scan(&self, scan: u16) -> Option<(Monoid, DType, DType)> {
        let wide = self.wide(scan)?;
        self.kernel.definitions.iter().find_map(|of| match *of {
            Definition::Scan { number, op, dtype } if number == scan => Some((op.monoid()?, dtype, wide)),
            _ => None,
        })
    }

    /// Reduction of the lanes of registers.
    fn fold_lanes(&mut self, op: Monoid, dtype: DType, registers: &Expr, text: &str) -> String {
        let lanes = match registers {
            Expr::Whole(name, _) => match self.scopes.find(name) {
                Some(Symbol::Registers(shape)) => shape.last().copied(),
                _ => None,
            },
            _ => None,
        };
        let Some(lanes) = lanes else { return self.refuse("lanes of no registers are folded") };
        let (combine, ty) = (name(op, dtype), self.type_name(Type::Held(dtype)));
        let own = format!("fold_lanes{lanes}_{combine}");
        // Written out: an array with computed indices is in memory.
        let mut all: Vec<String> = (0..lanes).map(|i| format!("x[{i}]")).collect();
        while all.len() > 1 {
            let half = all.len() / 2;
            all = (0..half).map(|i| format!("{combine}({}, {})", all[i], all[i + half])).collect();
        }
        let folded = &all[0];
        self.globals.insert(own.clone(), format!("fn {own}(x: array<{ty}, {lanes}>) -> {ty} {{ return {folded}; }}"));
        format!("{own}({text})")
    }

    /// Name of the function that reduces over groups of this many threads. All get the result.
    fn fold_threads(&mut self, op: Monoid, dtype: DType, group: u32) -> String {
        let offsets = (0..group.ilog2()).rev().map(|bit| 1 << bit).collect();
        self.fold_steps(format!("fold_threads{group}_{}", name(op, dtype)), op, dtype, offsets)
    }

    /// Name of the function that reduces over the threads of a warp that are `wide` threads apart.
    pub fn fold_points(&mut self, op: Monoid, dtype: DType, wide: u16) -> String {
        let offsets = (wide.ilog2()..5).map(|bit| 1 << bit).collect();
        self.fold_steps(format!("fold_points{wide}_{}", name(op, dtype)), op, dtype, offsets)
    }

    /// Defines a function that combines each thread's value with those of the threads whose numbers differ in one bit,
    /// for each of these bits: within a subgroup by a shuffle, else through workgroup memory.
    fn fold_steps(&mut self, own: String, op: Monoid, dtype: DType, offsets: Vec<u32>) -> String {
        let held = Type::Held(dtype);
        let (ty, combine) = (self.type_name(held), name(op, dtype));
        let mut steps = String::new();
        for offset in offsets {
            let other = match offset < self.subgroup {
                true => shuffled_xor(&ty, offset),
                false => format!("{}(y, own_thread ^ {offset}u)", self.shuffled(held)),
            };
            let _ = writeln!(steps, "  y = {combine}(y, {other});");
        }
        self.globals.insert(own.clone(), format!("fn {own}(x: {ty}) -> {ty} {{\n  var y = x;\n{steps}  return y;\n}}"));
        own
    }

    /// Text of the value that another thread of the warp has.
    pub fn shuffle(&mut self, ty: Type, x: &str, thread: &str) -> String {
        if self.subgroup < WARP {
            return format!("{}({x}, {thread})", self.shuffled(ty));
        }
        // A warp is in one subgroup.
        let lane = format!("({thread}) & {}u", self.subgroup - 1);
        match &*self.type_name(ty) {
            "bool" => format!("(subgroupShuffle(u32({x}), {lane}) != 0u)"),
            "u64" => format!("of_lane_u64({x}, {lane})"),
            "i64" => format!("i64(of_lane_u64(u64({x}), {lane}))"),
            _ => format!("subgroupShuffle({x}, {lane})"),
        }
    }

    /// Name of the function that returns another thread's value through workgroup memory.
    fn shuffled(&mut self, ty: Type) -> String {
        let (ty, block) = (self.type_name(ty), self.kernel.block);
        let (own, lanes) = (format!("shuffled_{ty}"), format!("lanes_{ty}"));
        let text = format!(
            "var<workgroup> {lanes}: array<{ty}, {block}>;\nfn {own}(x: {ty}, thread: u32) -> {ty} {{\n  workgroupBarrier();\n  {lanes}[own_thread] = x;\n  workgroupBarrier();\n  return {lanes}[thread];\n}}"
        );
        self.globals.insert(own.clone(), text);
        own
    }

    /// Text of a number with a bit for each thread of the warp.
    fn ballot(&mut self, x: &str) -> String {
        if self.subgroup >= WARP {
            return format!("subgroupBallot({x})[(own_thread & {}u) / 32u]", self.subgroup - 1);
        }
        let warps = self.kernel.block.div_ceil(32);
        let text = format!(
            "var<workgroup> ballots: array<atomic<u32>, {warps}>;\nfn ballot(x: bool) -> u32 {{\n  let warp = own_thread / 32u;\n  workgroupBarrier();\n  if own_thread % 32u == 0u {{ atomicStore(&ballots[warp], 0u); }}\n  workgroupBarrier();\n  if x {{ atomicOr(&ballots[warp], 1u << (own_thread % 32u)); }}\n  workgroupBarrier();\n  return atomicLoad(&ballots[warp]);\n}}"
        );
        self.globals.insert("ballot".into(), text);
        format!("ballot({x})")
    }

    /// Name of the function that tells whether a condition holds in some thread of the block.
    fn any_of_block(&mut self) -> &'static str {
        let text = "var<workgroup> any_thread: atomic<u32>;\nfn any_of_block(x: bool) -> bool {\n  workgroupBarrier();\n  if own_thread == 0u { atomicStore(&any_thread, 0u); }\n  workgroupBarrier();\n  if x { atomicOr(&any_thread, 1u); }\n  workgroupBarrier();\n  return atomicLoad(&any_thread) != 0u;\n}";
        self.globals.insert("any_of_block".into(), text.into());
        "any_of_block"
    }
}
