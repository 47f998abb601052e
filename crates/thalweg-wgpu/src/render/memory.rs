//! Loads, stores and atomic updates of global memory, by functions for each argument with an address.

use super::binding::{Memory, is_of_vectors};
use super::kernel::Emitter;
use super::scope::Symbol;
use super::types::{from_bits, size, to_bits};
use std::fmt::Write;
use thalweg_gpu::ir::{Atomic, Expr, Name, Type};
use thalweg_ir::DType;

/// Address of an element: its operand's argument word and type, and text of the element's index in its chunk.
pub struct ElementAddress {
    pub word: usize,
    pub ty: Type,
    pub index: String,
}

/// Raw bits of an element of a vector of 16 bytes.
fn of_vector(vector: &str, ty: Type, lane: u32) -> String {
    const WORDS: [&str; 4] = ["x", "y", "z", "w"];
    match size(ty) as u32 {
        8 => format!("word_u64({vector}.{})", ["xy", "zw"][lane as usize]),
        4 => format!("{vector}.{}", WORDS[lane as usize]),
        bytes => {
            let (of_word, bits) = (4 / bytes, 8 * bytes);
            let word = WORDS[(lane / of_word) as usize];
            format!("(({vector}.{word} >> {}u) & {}u)", bits * (lane % of_word), u32::MAX >> (32 - bits))
        }
    }
}

impl Emitter<'_> {
    /// Text of an i32 offset.
    pub fn offset(&mut self, at: &Expr) -> String {
        if let Expr::Number(n, _) = at {
            return super::types::number(*n, Type::I32);
        }
        let text = self.expr(at);
        if at.ty() == Type::I32 { text } else { format!("i32({text})") }
    }

    /// Address of element `at` of an operand.
    pub fn place(&mut self, operand: &str, at: &Expr) -> Option<ElementAddress> {
        let at = self.offset(at);
        match self.scopes.find(operand) {
            Some(&Symbol::Operand(ty, word)) => {
                let ty = self.resolved(ty);
                Some(ElementAddress { word, ty, index: format!("{} + {at}", super::scope::spelled(operand)) })
            }
            _ => {
                self.refuse(format!("{operand} is not in global memory"));
                None
            }
        }
    }

    /// Type of an element, where an accumulator of a scan is a value of its dtype.
    pub fn resolved(&self, ty: Type) -> Type {
        match ty {
            Type::Wide(scan) => self.wide(scan).map_or(ty, Type::Held),
            other => other,
        }
    }

    /// Text of an element's value in memory format.
    pub fn load(&mut self, place: &ElementAddress) -> String {
        let bits = 8 * size(place.ty);
        let name = format!("load{bits}_{}", place.word);
        self.load_function(bits, place.word);
        from_bits(place.ty, &format!("{name}({})", place.index))
    }

    /// Prints the store of an element.
    pub fn store(&mut self, place: &ElementAddress, value: &str) {
        let bits = 8 * size(place.ty);
        self.store_function(bits, place.word);
        let raw = to_bits(place.ty, value);
        let _ = writeln!(self.out, "store{bits}_{}({}, {raw});", place.word, place.index);
    }

    /// Prints the load of a vector into registers: whole words where it is narrow.
    pub fn load_vector(&mut self, to: &str, lanes: u32, place: &ElementAddress) {
        if self.memory == Memory::Vectors && is_of_vectors(lanes, place.ty) {
            let (per, first) = self.vectors_of(place);
            for lane in 0..lanes {
                let (n, within) = (lane / per, lane % per);
                if within == 0 {
                    let _ = writeln!(self.out, "let {first}_{n} = memory_{}[{first} + {n}u];", place.word);
                }
                let value = from_bits(place.ty, &of_vector(&format!("{first}_{n}"), place.ty, within));
                let _ = writeln!(self.out, "{to}[{lane}] = {value};");
            }
            return;
        }
        let (per, first) = self.words_of(lanes, place);
        for lane in 0..lanes {
            let value = match per {
                1 => self.load(&ElementAddress { index: format!("{first} + {lane}i"), ..*place }),
                _ => {
                    if lane % per == 0 {
                        self.load_function(32, place.word);
                        let (word, n) = (place.word, lane / per);
                        let _ = writeln!(self.out, "let {first}_{n} = load32_{word}({first} + {n}i);");
                    }
                    let (bits, mask) = (32 / per, u32::MAX >> (32 - 32 / per));
                    let raw = format!("(({first}_{} >> {}u) & {mask}u)", lane / per, bits * (lane % per));
                    from_bits(place.ty, &raw)
                }
            };
            let _ = writeln!(self.out, "{to}[{lane}] = {value};");
        }
    }

    /// Prints the store of a vector from registers: whole words where it is narrow.
    pub fn store_vector(&mut self, from: &str, lanes: u32, place: &ElementAddress) {
        if self.memory == Memory::Vectors && is_of_vectors(lanes, place.ty) {
            let (per, first) = self.vectors_of(place);
            for n in 0..lanes / per {
                let raw = |lane: u32| to_bits(place.ty, &format!("{from}[{}]", n * per + lane));
                let words: Vec<String> = match size(place.ty) {
                    8 => {
                        let halves = self.fresh("halves");
                        for half in 0..2 {
                            let _ = writeln!(self.out, "let {halves}_{half} = halves_of({});", raw(half));
                        }
                        vec![format!("{halves}_0, {halves}_1")]
                    }
                    bytes => {
                        let of_word = 4 / bytes as u32;
                        let part =
                            |word: u32, m: u32| format!("({} << {}u)", raw(word * of_word + m), 8 * bytes as u32 * m);
                        let word = |word| {
                            (1..of_word).fold(raw(word * of_word), |all, m| format!("{all} | {}", part(word, m)))
                        };
                        (0..4).map(word).collect()
                    }
                };
                let _ = writeln!(self.out, "memory_{}[{first} + {n}u] = vec4<u32>({});", place.word, words.join(", "));
            }
            return;
        }
        let (per, first) = self.words_of(lanes, place);
        for lane in (0..lanes).step_by(per as usize) {
            if per == 1 {
                let own = ElementAddress { index: format!("{first} + {lane}i"), ..*place };
                self.store(&own, &format!("{from}[{lane}]"));
                continue;
            }
            let raw = |n: u32| to_bits(place.ty, &format!("{from}[{}]", lane + n));
            let word = (1..per).fold(raw(0), |word, n| format!("{word} | ({} << {}u)", raw(n), n * (32 / per)));
            self.store_function(32, place.word);
            let _ = writeln!(self.out, "store32_{}({first} + {}i, {word});", place.word, lane / per);
        }
    }

    /// Number of elements per word that a vector is accessed by, and a variable with the index of its first element, or
    /// word if there are several.
    fn words_of(&mut self, lanes: u32, place: &ElementAddress) -> (u32, String) {
        let per = match 4 / size(place.ty) as u32 {
            0 => 1,
            per if lanes.is_multiple_of(per) => per,
            _ => 1,
        };
        let first = self.fresh("q");
        let index = &place.index;
        let _ = match per {
            1 => writeln!(self.out, "let {first} = {index};"),
            _ => writeln!(self.out, "let {first} = ({index}) / {per}i;"),
        };
        (per, first)
    }

    /// Number of elements per vector of 16 bytes, and a variable with the index of the first vector in its chunk.
    fn vectors_of(&mut self, place: &ElementAddress) -> (u32, String) {
        let (per, first) = (16 / size(place.ty) as u32, self.fresh("q"));
        let _ = writeln!(self.out, "let {first} = u32({}) / {per}u;", place.index);
        (per, first)
    }

    /// Text of a word of memory.
    fn memory(&self, word: usize, index: &str) -> String {
        match self.memory {
            Memory::Atomic => format!("atomicLoad(&memory_{word}[{index}])"),
            Memory::Words => format!("memory_{word}[{index}]"),
            Memory::Vectors => format!("memory_{word}[({index}) / 4u][({index}) % 4u]"),
        }
    }

    fn set_memory(&self, word: usize, index: &str, value: &str) -> String {
        match self.memory {
            Memory::Atomic => format!("atomicStore(&memory_{word}[{index}], {value});"),
            Memory::Words => format!("memory_{word}[{index}] = {value};"),
            Memory::Vectors => format!("memory_{word}[({index}) / 4u][({index}) % 4u] = {value};"),
        }
    }

    /// Defines the function that loads an element of that many bits by its index.
    pub fn load_function(&mut self, bits: usize, word: usize) {
        let name = format!("load{bits}_{word}");
        let text = match bits {
            64 => {
                let [low, high] = ["2u * u32(i)", "2u * u32(i) + 1u"].map(|index| self.memory(word, index));
                format!("fn {name}(i: i32) -> u64 {{ return word_u64(vec2<u32>({low}, {high})); }}")
            }
            32 => format!("fn {name}(i: i32) -> u32 {{ return {}; }}", self.memory(word, "u32(i)")),
            _ => {
                let (per, mask) = (32 / bits, u32::MAX >> (32 - bits));
                let own = self.memory(word, &format!("u32(i) / {per}u"));
                format!("fn {name}(i: i32) -> u32 {{ return ({own} >> ({bits}u * (u32(i) % {per}u))) & {mask}u; }}")
            }
        };
        self.globals.insert(name, text);
    }

    /// Defines the function that stores an element of that many bits. Where several elements share a word, other threads
    /// may store the others at the same time.
    pub fn store_function(&mut self, bits: usize, word: usize) {
        let name = format!("store{bits}_{word}");
        let text = match bits {
            64 => {
                let low = self.set_memory(word, "2u * u32(i)", "halves.x");
                let high = self.set_memory(word, "2u * u32(i) + 1u", "halves.y");
                format!("fn {name}(i: i32, x: u64) {{ let halves = halves_of(x); {low} {high} }}")
            }
            32 => format!("fn {name}(i: i32, x: u32) {{ {} }}", self.set_memory(word, "u32(i)", "x")),
            _ => {
                self.needs_atomic_memory = true;
                let (per, mask) = (32 / bits, u32::MAX >> (32 - bits));
                format!(
                    "fn {name}(i: i32, x: u32) {{\n  let word = u32(i) / {per}u;\n  let shift = {bits}u * (u32(i) % {per}u);\n  atomicAnd(&memory_{word}[word], ~({mask}u << shift));\n  atomicOr(&memory_{word}[word], x << shift);\n}}"
                )
            }
        };
        self.globals.insert(name, text);
    }

    /// Prints an atomic update of an element of global memory.
    pub fn update(&mut self, op: Atomic, place: &ElementAddress, value: &str, before: Option<&Name>) {
        self.needs_atomic_memory = true;
        let (word, ty) = (place.word, place.ty);
        let (Type::Held(dtype) | Type::Stored(dtype)) = ty else {
            self.refuse("there are no such atomic updates");
            return;
        };
        if size(ty) != 4 {
            self.refuse(format!("there are no atomic updates of {dtype}"));
            return;
        }
        let kind = match op {
            Atomic::Add => "add",
            Atomic::Max => "max",
            Atomic::Min => "min",
            Atomic::Exchange => "exchange",
        };
        let name = format!("atomic_{kind}_{dtype}_{word}");
        let at = format!("&memory_{word}[u32(i)]");
        // Sums of integers wrap in any sign; others but those of u32 are done by comparing and exchanging.
        let built_in = match (op, dtype) {
            (Atomic::Add, DType::I32 | DType::U32) => Some("atomicAdd"),
            (Atomic::Max, DType::U32) => Some("atomicMax"),
            (Atomic::Min, DType::U32) => Some("atomicMin"),
            (Atomic::Exchange, _) => Some("atomicExchange"),
            _ => None,
        };
        let text = match built_in {
            Some(built_in) => format!("fn {name}(i: i32, x: u32) -> u32 {{ return {built_in}({at}, x); }}"),
            None => {
                let [old, new] = ["old", "x"].map(|bits| from_bits(ty, bits));
                let ty_name = self.type_name(ty);
                let both = match op {
                    Atomic::Add => format!("({old} + {new})"),
                    Atomic::Max => format!("larger_{ty_name}({old}, {new})"),
                    _ => format!("smaller_{ty_name}({old}, {new})"),
                };
                format!(
                    "fn {name}(i: i32, x: u32) -> u32 {{\n  var old = atomicLoad({at});\n  loop {{\n    let next = {};\n    let found = atomicCompareExchangeWeak({at}, old, next);\n    if found.exchanged {{ break; }}\n    old = found.old_value;\n  }}\n  return old;\n}}",
                    to_bits(ty, &both)
                )
            }
        };
        self.globals.insert(name.clone(), text);
        let call = format!("{name}({}, {})", place.index, to_bits(ty, value));
        let _ = match before {
            Some(before) => writeln!(self.out, "let {} = {};", super::scope::spelled(before), from_bits(ty, &call)),
            None => writeln!(self.out, "{call};"),
        };
    }
}
