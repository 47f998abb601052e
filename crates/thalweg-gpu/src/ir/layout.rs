//! Layout of the kernel arguments of a launch: an array of 64-bit words, in which each argument has a name, a kind, and
//! the index of its first word.

use crate::ir::Type;
use crate::maps::MAP_WORDS;
use std::sync::Arc;

/// Kind of a kernel argument: the words that it takes, and the type that programs read it as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Address of an operand in global memory.
    Address,
    /// Address of the fault slot that an out-of-range index is reported to.
    Fault,
    /// Address of an access's first element; its offset, an i64, for an access without an operand.
    Base,
    /// Unsigned 32-bit number, in one word.
    U32,
    /// Signed 64-bit number, such as a size or a stride.
    I64,
    /// Unsigned 64-bit number, such as a bound of indices.
    U64,
    /// Condition: 0 or 1.
    Flag,
    /// Divisor with its multiplier and shift, in two words ([`crate::space::divisor`]); for 64-bit indices the divisor
    /// alone.
    Divisor,
    /// Bits of a scalar ([`thalweg_ir::Scalar::to_bits`]).
    Scalar,
    /// Tensor map (TMA descriptor), aligned to its size.
    TensorMap,
}

impl Kind {
    /// Number of 64-bit argument words that an argument of this kind takes.
    pub fn words(self) -> usize {
        match self {
            Kind::Divisor => 2,
            Kind::TensorMap => MAP_WORDS,
            _ => 1,
        }
    }

    /// Type that programs read an argument of this kind as.
    pub fn ty(self) -> Type {
        match self {
            Kind::U32 | Kind::Divisor => Type::U32,
            Kind::I64 => Type::I64,
            _ => Type::U64,
        }
    }
}

/// Kernel argument of a layout: index of its first word, kind and name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    word: usize,
    kind: Kind,
    /// Name of the argument; `None` in a layout without names, where the host allocates nothing per argument.
    name: Option<Arc<str>>,
}

impl Slot {
    /// Index of the argument's first word.
    pub fn word(&self) -> usize {
        self.word
    }

    /// Kind of the argument.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Name of the argument; empty in a layout without names.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Slot of the same argument in repetition `number` of a repeated layout.
    pub fn repeated(&self, number: usize, layout: &Layout) -> Slot {
        if number == 0 {
            return self.clone();
        }
        let name = self.name.as_ref().map(|name| format!("{name}@{number}").into());
        Slot { word: self.word + number * layout.period, kind: self.kind, name }
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Arguments of a launch in the order of their declaration.
#[derive(Clone, PartialEq, Debug)]
pub struct Layout {
    slots: Vec<Slot>,
    words: usize,
    /// Words of one repetition of a repeated layout.
    period: usize,
    /// Path of the argument that is being declared, such as `dims[1].stride`; `None` in a layout without names.
    path: Option<String>,
}

impl Layout {
    /// Layout whose arguments have names, for a program.
    pub fn named() -> Layout {
        Layout { slots: vec![], words: 0, period: 0, path: Some(String::new()) }
    }

    /// Layout without names, for the host: planning a launch is faster with it.
    pub fn unnamed() -> Layout {
        Layout { path: None, ..Layout::named() }
    }

    /// Declares the argument or group `name`.
    pub fn field<T>(&mut self, name: &str, declare: impl FnOnce(&mut Layout) -> T) -> T {
        let before = self.path.as_ref().map_or(0, String::len);
        if let Some(path) = &mut self.path {
            if before > 0 {
                path.push('.');
            }
            path.push_str(name);
        }
        let declared = declare(self);
        if let Some(path) = &mut self.path {
            path.truncate(before);
        }
        declared
    }

    /// Declares `count` arguments or groups of one kind, `name[0]` and so on.
    pub fn each<T>(&mut self, count: usize, mut declare: impl FnMut(&mut Layout, usize) -> T) -> Vec<T> {
        let before = self.path.as_ref().map_or(0, String::len);
        let mut all = Vec::with_capacity(count);
        for i in 0..count {
            if let Some(path) = &mut self.path {
                path.push_str(&format!("[{i}]"));
            }
            all.push(declare(self, i));
            if let Some(path) = &mut self.path {
                path.truncate(before);
            }
        }
        all
    }

    /// Declares a group whose arguments are named without the group's name.
    pub fn flat<T>(&mut self, declare: impl FnOnce(&mut Layout) -> T) -> T {
        let path = self.path.clone();
        if let Some(path) = &mut self.path {
            path.truncate(path.rfind('.').unwrap_or(0));
        }
        let declared = declare(self);
        self.path = path;
        declared
    }

    /// Adds an argument under the current path.
    pub fn add(&mut self, kind: Kind) -> Slot {
        if kind == Kind::TensorMap {
            self.align();
        }
        let slot = Slot { word: self.words, kind, name: self.path.as_deref().map(Arc::from) };
        self.words += kind.words();
        if self.path.is_some() {
            self.slots.push(slot.clone());
        }
        slot
    }

    /// Pads the layout to a multiple of a tensor map's words.
    pub fn align(&mut self) {
        self.words = self.words.next_multiple_of(MAP_WORDS);
    }

    /// Layout that repeats this one `count` times, for launches of several problems of one class. Names are those of
    /// the first repetition.
    pub fn repeated(self, count: usize) -> Layout {
        let slots = (0..count).flat_map(|n| self.slots.iter().map(move |slot| (n, slot)));
        let one = Layout { period: self.words, ..self.clone() };
        let slots = slots.map(|(n, slot)| slot.repeated(n, &one)).collect();
        Layout { slots, words: self.words * count, ..one }
    }

    /// Number of 64-bit words of all arguments.
    pub fn words(&self) -> usize {
        self.words
    }

    /// All arguments, in the order of their declaration.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Argument of that name; `None` if there is none.
    pub fn find(&self, name: &str) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.name() == name)
    }
}
