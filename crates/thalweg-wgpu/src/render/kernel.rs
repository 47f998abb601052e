//! Source of a kernel.

use super::binding::{Memory, each_statement, has_vectors};
use super::functions;
use super::scope::Scopes;
use super::types::{held, stored};
use super::unrolling::Unrolling;
use crate::driver::{MEMORY, VECTORS};
use std::collections::BTreeMap;
use std::fmt::Write;
use thalweg_gpu::ir::{Action, Definition, Expr, For, Kernel, Kind, Name, Routine, Statement, Type, verify};
use thalweg_ir::{DType, Monoid};

/// Printer of one kernel.
pub struct Emitter<'a> {
    pub kernel: &'a Kernel,
    /// Threads of a subgroup; 1 where subgroups are not used.
    pub subgroup: u32,
    /// Statements of the function that is being printed.
    pub out: String,
    /// Definitions before the kernel's function, by name.
    pub globals: BTreeMap<String, String>,
    pub scopes: Scopes,
    /// Workgroup memory that arrays of one element type share.
    pub pools: Vec<Pool>,
    /// Number of groups of arrays that share memory.
    pub shared_groups: usize,
    /// Names of arrays in workgroup memory that have atomic updates.
    pub atomic_shared: Vec<Name>,
    /// Names of arrays in workgroup memory over which others are laid.
    pub overlaid: Vec<Name>,
    /// Whether vectors are loaded from workgroup memory.
    pub loads_shared: bool,
    pub unrolling: Unrolling,
    /// Type by which global memory is bound.
    pub memory: Memory,
    /// Whether a statement needs that.
    pub needs_atomic_memory: bool,
    /// Number of names that were made up.
    pub made: usize,
    /// First reason why the kernel cannot be printed.
    pub refusal: Option<String>,
}

/// Workgroup memory that arrays of one element type share: those that a kernel puts over each other.
#[derive(Debug)]
pub struct Pool {
    /// Number of the group of arrays that share memory.
    pub group: usize,
    /// WGSL type of the elements.
    pub element: String,
    /// Name of the global variable.
    pub global: String,
    /// Offset in bytes of the first element among the group's bytes.
    pub begin: u32,
    /// Number of elements.
    pub elements: u32,
    /// Whether the variable has vectors of four elements.
    pub vectors: bool,
}

/// Source of a kernel, for subgroups of this many threads.
///
/// # Errors
/// The reason why there is none.
pub fn source(kernel: &Kernel, subgroup: u32) -> Result<String, String> {
    if let Err(what) = verify(&by_blocks(kernel)) {
        return Err(format!("some threads of a workgroup would miss a barrier ({what})"));
    }
    let memory = if has_vectors(&kernel.body) { Memory::Vectors } else { Memory::Words };
    let mut emitter = Emitter::new(kernel, subgroup, memory);
    let mut text = emitter.print();
    if emitter.needs_atomic_memory {
        emitter = Emitter::new(kernel, subgroup, Memory::Atomic);
        text = emitter.print();
    }
    match emitter.refusal {
        Some(why) => Err(why),
        None => Ok(text),
    }
}

/// Kernel with a barrier before everything that all threads of a warp do together: here all threads of a block do.
fn by_blocks(kernel: &Kernel) -> Kernel {
    Kernel { body: with_barriers(&kernel.body), ..kernel.clone() }
}

fn with_barriers(body: &[Statement]) -> Vec<Statement> {
    let mut out = vec![];
    for statement in body {
        let own = match statement {
            Statement::If(condition, then, otherwise) => {
                Statement::If(condition.clone(), with_barriers(then), with_barriers(otherwise))
            }
            Statement::While(condition, body) => Statement::While(condition.clone(), with_barriers(body)),
            Statement::Scope(body) => Statement::Scope(with_barriers(body)),
            Statement::For(turns) => Statement::For(For { body: with_barriers(&turns.body), ..turns.clone() }),
            other => other.clone(),
        };
        if is_of_warp(statement) {
            out.push(Statement::Barrier);
        }
        out.push(own);
    }
    out
}

/// Whether a statement itself is one of all threads of a warp.
fn is_of_warp(statement: &Statement) -> bool {
    fn any(expr: &Expr) -> bool {
        let own = matches!(
            expr,
            Expr::Routine(
                Routine::FoldThreads(..)
                    | Routine::FoldWarps(..)
                    | Routine::FirstLane(_)
                    | Routine::Shuffle(..)
                    | Routine::Ballot
                    | Routine::AnyOfWarp,
                _
            )
        );
        own || expr.parts().iter().any(any)
    }
    match statement {
        Statement::Let(_, value) | Statement::Variable(_, value) | Statement::Set(_, value) => any(value),
        Statement::Store { value, .. } | Statement::SetScratch { value, .. } => any(value),
        Statement::If(condition, ..) => any(condition),
        Statement::Do(Action::FoldPoints { .. } | Action::Scan { .. }) | Statement::WarpBarrier => true,
        _ => false,
    }
}

impl<'a> Emitter<'a> {
    fn new(kernel: &'a Kernel, subgroup: u32, memory: Memory) -> Emitter<'a> {
        let mut atomic_shared = vec![];
        each_statement(&kernel.body, &mut |s| {
            if let Statement::Atomic { name, .. } = s {
                atomic_shared.push(name.clone());
            }
        });
        let mut loads_shared = false;
        each_statement(&kernel.body, &mut |s| loads_shared |= matches!(s, Statement::Do(Action::LoadShared { .. })));
        let mut overlaid = vec![];
        each_statement(&kernel.body, &mut |s| {
            if let Statement::SharedPart { of, .. } = s {
                overlaid.push(of.clone());
            }
        });
        Emitter {
            kernel,
            subgroup,
            out: String::new(),
            globals: BTreeMap::new(),
            scopes: Scopes::default(),
            pools: vec![],
            shared_groups: 0,
            atomic_shared,
            overlaid,
            loads_shared,
            unrolling: Unrolling::new(&kernel.body),
            memory,
            needs_atomic_memory: false,
            made: 0,
            refusal: None,
        }
    }

    /// Prints the whole source.
    fn print(&mut self) -> String {
        let kernel = self.kernel;
        kernel.definitions.iter().for_each(|of| self.definition(of));
        self.scopes.open();
        self.statements(&kernel.body);
        self.scopes.close();
        let body = std::mem::take(&mut self.out);
        for Pool { global, element, elements, vectors, .. } in &self.pools {
            let text = match vectors {
                true => format!("var<workgroup> {global}: array<vec4<{element}>, {}>;", elements.div_ceil(4)),
                false => format!("var<workgroup> {global}: array<{element}, {elements}>;"),
            };
            self.globals.insert(global.clone(), text);
        }
        let words = kernel.params.words();
        let blocks = self.low_word(words);
        // Workgroups of a launch are in rows of 65,535.
        let head = format!(
            "own_thread = thread_index;\nlet own_block = group.x + group.y * 65535u;\nif own_block >= {blocks} {{ return; }}\n"
        );
        let parameters = "@builtin(local_invocation_index) thread_index: u32, @builtin(workgroup_id) group: vec3<u32>";
        let globals: String = self.globals.values().map(|text| format!("{text}\n")).collect();
        let (name, block) = (kernel.name, kernel.block);
        let own = format!("{globals}@compute @workgroup_size({block})\nfn {name}({parameters}) {{\n{head}{body}}}\n");
        let mut text = MEMORY.to_string();
        for word in memory_words(&own) {
            let _ = write!(text, " {word}");
        }
        if self.memory == Memory::Vectors {
            let _ = write!(text, "\n{VECTORS}");
        }
        let arguments = (words + 1).div_ceil(2);
        let _ = write!(
            text,
            "\nstruct Arguments {{ w: array<vec4<u32>, {arguments}> }}\n@group(0) @binding(0) var<uniform> a: Arguments;\nvar<private> own_thread: u32;\n\n"
        );
        text + &functions::needed(&own) + &own
    }

    /// Records the first reason why the kernel cannot be printed; returns text in the place of what cannot.
    pub fn refuse(&mut self, why: impl Into<String>) -> String {
        self.refusal.get_or_insert_with(|| why.into());
        "0".into()
    }

    /// Name that no other variable has.
    pub fn fresh(&mut self, letter: &str) -> String {
        self.made += 1;
        format!("{letter}_{}", self.made)
    }

    /// WGSL type of a value.
    pub fn type_name(&mut self, ty: Type) -> String {
        let name = match ty {
            Type::Held(dtype) => held(dtype),
            Type::Stored(dtype) => stored(dtype),
            Type::Wide(scan) => self.wide(scan).and_then(held),
            Type::State(_) | Type::Matrix => None,
        };
        match name {
            Some(name) => name.into(),
            None if matches!(ty, Type::Held(_) | Type::Stored(_) | Type::Wide(_)) => self.refuse("there is no f64"),
            None => self.refuse("there are no such values"),
        }
    }

    /// WGSL type of an array.
    pub fn array_type(&mut self, element: &str, shape: &[u32]) -> String {
        shape.iter().rev().fold(element.to_string(), |ty, n| format!("array<{ty}, {n}>"))
    }

    /// Dtype of the accumulator of a scan. Floats are accumulated in f32, since there is no f64.
    pub fn wide(&self, scan: u16) -> Option<DType> {
        self.kernel.definitions.iter().find_map(|of| match *of {
            Definition::Scan { number, dtype, .. } if number == scan => Some(accumulator(dtype)),
            _ => None,
        })
    }

    /// Text of a kernel argument's word: its two halves.
    pub fn word(&self, word: usize) -> String {
        format!("a.w[{}].{}", word / 2, ["xy", "zw"][word % 2])
    }

    /// Text of the lower half of a kernel argument's word.
    pub fn low_word(&self, word: usize) -> String {
        format!("a.w[{}].{}", word / 2, ["x", "z"][word % 2])
    }

    /// Argument word with the address of the fault slot.
    pub fn fault_word(&self) -> Option<usize> {
        self.kernel.params.slots().iter().find(|slot| slot.kind() == Kind::Fault).map(|slot| slot.word())
    }
}

/// Dtype in which a scan accumulates elements.
fn accumulator(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        float if float.is_float() => DType::F32,
        other => Monoid::widest(other),
    }
}

/// Argument words with addresses that a text refers to, in order.
fn memory_words(text: &str) -> Vec<usize> {
    let parts = text.split("memory_").skip(1);
    let numbers = parts.filter_map(|rest| rest.split('[').next()?.parse().ok());
    let mut words: Vec<usize> = numbers.collect();
    words.sort_unstable();
    words.dedup();
    words
}
