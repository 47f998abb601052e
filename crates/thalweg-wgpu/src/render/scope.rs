//! Names of a kernel: those in scope, and their spelling.

use rustc_hash::FxHashMap;
use thalweg_gpu::ir::{Name, Type};

/// Meaning of a name in scope.
#[derive(Clone, Debug)]
pub enum Symbol {
    /// Operand in memory: type of its elements, and argument word with its address.
    Operand(Type, usize),
    /// Array in registers, with its dimensions.
    Registers(Vec<u32>),
    /// Array in workgroup memory.
    Shared {
        /// Name of the global variable.
        global: String,
        /// Type of the elements.
        ty: Type,
        /// Whether elements are atomic.
        atomic: bool,
        /// Range of the global variable, where several arrays share it.
        range: Option<SharedRange>,
    },
    /// Bytes of workgroup memory that arrays share.
    SharedBytes(usize),
}

/// Range of an array in workgroup memory that several arrays share.
#[derive(Clone, Debug)]
pub struct SharedRange {
    /// Index of the first element.
    pub first: u32,
    /// Whether the global variable has vectors of four elements.
    pub vectors: bool,
    /// Dimensions of the array.
    pub shape: Vec<u32>,
}

/// Names in scope, the innermost scope last.
#[derive(Debug, Default)]
pub struct Scopes(Vec<FxHashMap<Name, Symbol>>);

impl Scopes {
    /// Opens a scope.
    pub fn open(&mut self) {
        self.0.push(FxHashMap::default());
    }

    /// Closes the innermost scope.
    pub fn close(&mut self) {
        self.0.pop();
    }

    /// Declares a name in the innermost scope.
    pub fn declare(&mut self, name: &str, symbol: Symbol) {
        self.0.last_mut().expect("a scope is open").insert(name.into(), symbol);
    }

    /// Meaning of a name; `None` for variables.
    pub fn find(&self, name: &str) -> Option<&Symbol> {
        self.0.iter().rev().find_map(|scope| scope.get(name))
    }
}

/// Words that WGSL reserves or that printed kernels call, and that kernels use as names.
const TAKEN: &[&str] = &[
    "active",
    "all",
    "any",
    "as",
    "auto",
    "become",
    "bitcast",
    "break",
    "case",
    "cast",
    "ceil",
    "class",
    "clamp",
    "common",
    "const",
    "continue",
    "continuing",
    "default",
    "delete",
    "discard",
    "do",
    "else",
    "enable",
    "enum",
    "explicit",
    "export",
    "extern",
    "external",
    "false",
    "filter",
    "final",
    "floor",
    "fn",
    "for",
    "from",
    "get",
    "goto",
    "if",
    "impl",
    "import",
    "in",
    "inline",
    "instanceof",
    "interface",
    "layout",
    "let",
    "loop",
    "match",
    "meta",
    "mod",
    "module",
    "move",
    "mut",
    "namespace",
    "new",
    "nil",
    "null",
    "of",
    "operator",
    "override",
    "package",
    "partition",
    "pass",
    "patch",
    "precise",
    "priv",
    "protected",
    "pub",
    "public",
    "readonly",
    "ref",
    "register",
    "requires",
    "resource",
    "return",
    "round",
    "select",
    "self",
    "set",
    "shared",
    "sizeof",
    "split",
    "sqrt",
    "static",
    "struct",
    "super",
    "switch",
    "target",
    "template",
    "this",
    "throw",
    "true",
    "trunc",
    "try",
    "type",
    "typeof",
    "union",
    "unless",
    "use",
    "using",
    "var",
    "virtual",
    "where",
    "while",
    "with",
    "writeonly",
    "yield",
];

/// Spelling of a kernel's name.
pub fn spelled(name: &str) -> String {
    if TAKEN.contains(&name) { format!("{name}_") } else { name.into() }
}
