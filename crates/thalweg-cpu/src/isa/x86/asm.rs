//! Instruction encoder: one function for all VEX and EVEX instructions, and the few scalar ones that loops need.
//!
//! In: an instruction as [`Code`] and operands. Out: bytes, and fix-ups for references to the constant pool that
//! follows the code. The encoder checks nothing: the caller must pass operands that fit the instruction. Tests compare
//! its output with an independent decoder.

use super::Level;

/// Encoding of a vector instruction, without its operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Code {
    /// Opcode map: 1 is 0F, 2 is 0F38, 3 is 0F3A.
    pub map: u8,
    /// Implied prefix: 1 is 66, 2 is F3, 3 is F2.
    pub pp: u8,
    /// Opcode byte.
    pub opcode: u8,
    /// W bit; in EVEX it also gives the element size (4 or 8 bytes).
    pub w: bool,
    /// Opcode extension in the reg field of ModRM, for instructions that have no register operand there.
    pub ext: u8,
    /// Size of the memory operand: below 16, the vector's size shifted right by this number; else `1 << (tuple - 16)`
    /// bytes.
    pub tuple: u8,
    /// Whether the instruction takes an immediate.
    pub imm: bool,
    /// Whether EVEX allows an embedded broadcast.
    pub broadcast: bool,
    /// Whether the first two arguments may be swapped.
    pub commutes: bool,
}

/// A general register, by its number in encodings (rax is 0).
pub type Gpr = u8;
pub const RAX: Gpr = 0;
pub const RCX: Gpr = 1;
pub const RDX: Gpr = 2;
pub const RBX: Gpr = 3;
pub const RSP: Gpr = 4;
pub const RBP: Gpr = 5;
pub const RSI: Gpr = 6;
pub const RDI: Gpr = 7;
pub const R12: Gpr = 12;
pub const R13: Gpr = 13;
pub const R14: Gpr = 14;
pub const R15: Gpr = 15;

/// Operand of an instruction's r/m field: a register or memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rm {
    /// A register.
    Reg(u8),
    /// Memory operand `[base + index·scale + disp]`; the index is a vector register in gathers.
    Mem { base: Gpr, index: Option<(u8, u8)>, disp: i32 },
    /// Memory operand in the constant pool, by its offset in bytes.
    Pool(u32),
}

/// Memory operand `[base + disp]`.
pub fn at(base: Gpr, disp: i32) -> Rm {
    Rm::Mem { base, index: None, disp }
}

/// Modifiers of a vector instruction: mask, broadcast, immediate, encoding.
#[derive(Clone, Copy, Default, Debug)]
pub struct Extra {
    /// Mask register, 0 for none.
    pub mask: u8,
    /// Whether lanes outside the mask become 0; otherwise they keep their value.
    pub zero: bool,
    /// Whether the memory operand is a single element that is broadcast to all lanes (embedded broadcast).
    pub broadcast: bool,
    /// Immediate operand, if any.
    pub imm: Option<u8>,
    /// Whether the index register of the memory operand is a vector register (gathers).
    pub vsib: bool,
    /// Whether the instruction has VEX encoding even on AVX-512 (mask instructions, and those without an EVEX form).
    pub vex: bool,
}

/// Jump condition; the discriminant is its encoding in opcodes.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Cond {
    Below = 2,
    AboveEqual = 3,
    Equal = 4,
    NotEqual = 5,
    BelowEqual = 6,
    Above = 7,
}

/// A jump target in the code, created before it is bound to a position.
#[derive(Clone, Copy)]
pub struct Label(usize);

/// Machine code under construction.
pub struct Asm {
    /// Code bytes.
    pub bytes: Vec<u8>,
    level: Level,
    /// References to the constant pool, to be resolved at the end: (offset of the displacement in the code, bytes of
    /// the instruction after it, offset in the pool).
    pool: Vec<(usize, usize, u32)>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, usize)>,
}

impl Asm {
    /// Returns an empty function for an instruction set level.
    pub fn new(level: Level) -> Asm {
        Asm { bytes: Vec::with_capacity(2048), level, pool: Vec::new(), labels: Vec::new(), jumps: Vec::new() }
    }

    fn byte(&mut self, b: u8) {
        self.bytes.push(b);
    }

    fn dword(&mut self, v: i32) {
        self.bytes.extend_from_slice(&v.to_le_bytes());
    }

    /// Encodes a vector instruction: `reg` and `vvvv` as ModRM.reg and VEX.vvvv, vector length `16 << len`.
    pub fn op(&mut self, c: Code, len: u8, reg: u8, vvvv: u8, rm: Rm, x: Extra) {
        let evex = self.level == Level::Avx512 && !x.vex;
        let (mut rx, mut rb, mut v4) = (false, false, vvvv & 16 != 0);
        match rm {
            Rm::Reg(r) => {
                rb = r & 8 != 0;
                rx = r & 16 != 0;
            }
            Rm::Mem { base, index, .. } => {
                rb = base & 8 != 0;
                if let Some((i, _)) = index {
                    rx = i & 8 != 0;
                    if x.vsib {
                        v4 = i & 16 != 0;
                    }
                }
            }
            Rm::Pool(_) => {}
        }
        let inv = |b: bool, at: u8| (!b as u8) << at;
        if evex {
            self.byte(0x62);
            self.byte(inv(reg & 8 != 0, 7) | inv(rx, 6) | inv(rb, 5) | inv(reg & 16 != 0, 4) | c.map);
            self.byte((c.w as u8) << 7 | (!vvvv & 15) << 3 | 4 | c.pp);
            self.byte((x.zero as u8) << 7 | len << 5 | (x.broadcast as u8) << 4 | inv(v4, 3) | x.mask);
        } else if c.map == 1 && !c.w && !rx && !rb {
            self.byte(0xC5);
            self.byte(inv(reg & 8 != 0, 7) | (!vvvv & 15) << 3 | len << 2 | c.pp);
        } else {
            self.byte(0xC4);
            self.byte(inv(reg & 8 != 0, 7) | inv(rx, 6) | inv(rb, 5) | c.map);
            self.byte((c.w as u8) << 7 | (!vvvv & 15) << 3 | len << 2 | c.pp);
        }
        self.byte(c.opcode);
        let unit = match (evex, x.broadcast) {
            (false, _) => 1,
            (true, true) => 4 << c.w as i32,
            (true, false) if c.tuple >= 16 => 1 << (c.tuple - 16),
            (true, false) => (16 << len) >> c.tuple,
        };
        self.modrm(reg & 7, rm, unit, x.imm.is_some() as usize);
        if let Some(imm) = x.imm {
            self.byte(imm);
        }
    }

    /// Encodes ModRM, SIB and displacement. An 8-bit displacement counts units of `unit` bytes; `after` bytes of the
    /// instruction follow.
    fn modrm(&mut self, reg: u8, rm: Rm, unit: i32, after: usize) {
        let reg = (reg & 7) << 3;
        match rm {
            Rm::Reg(r) => self.byte(0xC0 | reg | (r & 7)),
            Rm::Pool(place) => {
                self.byte(reg | 5);
                self.pool.push((self.bytes.len(), after, place));
                self.dword(0);
            }
            Rm::Mem { base, index, disp } => {
                let short = disp % unit == 0 && (-128..128).contains(&(disp / unit));
                let md = if disp == 0 && base & 7 != 5 {
                    0
                } else if short {
                    0x40
                } else {
                    0x80
                };
                match index {
                    Some((i, scale)) => {
                        self.byte(md | reg | 4);
                        self.byte((scale.trailing_zeros() as u8) << 6 | (i & 7) << 3 | (base & 7));
                    }
                    None if base & 7 == 4 => {
                        self.byte(md | reg | 4);
                        self.byte(0x24);
                    }
                    None => self.byte(md | reg | (base & 7)),
                }
                match md {
                    0x40 => self.byte((disp / unit) as u8),
                    0x80 => self.dword(disp),
                    _ => {}
                }
            }
        }
    }

    /// Encodes a scalar instruction with one opcode byte, or with two after 0F.
    pub fn scalar(&mut self, wide: bool, opcode: &[u8], reg: u8, rm: Rm, after: usize) {
        let (mut rx, mut rb) = (false, false);
        match rm {
            Rm::Reg(r) => rb = r & 8 != 0,
            Rm::Mem { base, index, .. } => {
                rb = base & 8 != 0;
                rx = index.is_some_and(|(i, _)| i & 8 != 0);
            }
            Rm::Pool(_) => {}
        }
        let rex = 0x40 | (wide as u8) << 3 | (reg >> 3 & 1) << 2 | (rx as u8) << 1 | rb as u8;
        if rex != 0x40 {
            self.byte(rex);
        }
        self.bytes.extend_from_slice(opcode);
        self.modrm(reg, rm, 1, after);
    }

    /// Encodes `mov reg, rm` (64 bits).
    pub fn load(&mut self, reg: Gpr, rm: Rm) {
        self.scalar(true, &[0x8B], reg, rm, 0);
    }
    /// Encodes `mov rm, reg` (64 bits).
    pub fn store(&mut self, rm: Rm, reg: Gpr) {
        self.scalar(true, &[0x89], reg, rm, 0);
    }
    /// Encodes `lea reg, rm`.
    pub fn lea(&mut self, reg: Gpr, rm: Rm) {
        self.scalar(true, &[0x8D], reg, rm, 0);
    }
    /// Encodes `mov reg, imm32` (zero-extended to 64 bits).
    pub fn set(&mut self, reg: Gpr, v: u32) {
        if reg >= 8 {
            self.byte(0x41);
        }
        self.byte(0xB8 | (reg & 7));
        self.dword(v as i32);
    }
    /// Encodes `add`, `or`, `and`, `sub` or `cmp` with an immediate; `which` is the opcode extension (0, 1, 4, 5 or 7).
    pub fn arith_imm(&mut self, which: u8, rm: Rm, v: i32) {
        if (-128..128).contains(&v) {
            self.scalar(true, &[0x83], which, rm, 1);
            self.byte(v as u8);
        } else {
            self.scalar(true, &[0x81], which, rm, 4);
            self.dword(v);
        }
    }
    /// Encodes `push reg`.
    pub fn push(&mut self, reg: Gpr) {
        if reg >= 8 {
            self.byte(0x41);
        }
        self.byte(0x50 | (reg & 7));
    }
    /// Encodes `pop reg`.
    pub fn pop(&mut self, reg: Gpr) {
        if reg >= 8 {
            self.byte(0x41);
        }
        self.byte(0x58 | (reg & 7));
    }
    /// Appends bytes, such as an instruction without operands, verbatim.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Creates a label to be bound later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }
    /// Binds a label to the current position.
    pub fn bind(&mut self, l: Label) {
        self.labels[l.0] = Some(self.bytes.len());
    }
    /// Encodes a conditional jump.
    pub fn jump_if(&mut self, c: Cond, l: Label) {
        self.raw(&[0x0F, 0x80 | c as u8]);
        self.jumps.push((self.bytes.len(), l.0));
        self.dword(0);
    }
    /// Encodes an unconditional jump.
    pub fn jump(&mut self, l: Label) {
        self.byte(0xE9);
        self.jumps.push((self.bytes.len(), l.0));
        self.dword(0);
    }
    /// Pads with no-ops to a multiple of `to` bytes.
    pub fn align(&mut self, to: usize) {
        while self.bytes.len() % to >= 1 {
            match to - self.bytes.len() % to {
                1..=2 => self.byte(0x90),
                3 => self.raw(&[0x0F, 0x1F, 0x00]),
                4..=6 => self.raw(&[0x0F, 0x1F, 0x40, 0x00]),
                _ => self.raw(&[0x0F, 0x1F, 0x80, 0, 0, 0, 0]),
            }
        }
    }

    /// Returns the code followed by the pool, with all references resolved. Every label used must be bound.
    pub fn finish(mut self, pool: &[u8]) -> Vec<u8> {
        for &(at, label) in &self.jumps {
            let target = self.labels[label].expect("a label is bound before the function ends");
            let rel = target as i64 - (at as i64 + 4);
            self.bytes[at..at + 4].copy_from_slice(&(rel as i32).to_le_bytes());
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(64), 0xCC);
        let base = self.bytes.len();
        for &(at, after, place) in &self.pool {
            let rel = (base + place as usize) as i64 - (at + 4 + after) as i64;
            self.bytes[at..at + 4].copy_from_slice(&(rel as i32).to_le_bytes());
        }
        self.bytes.extend_from_slice(pool);
        self.bytes
    }
}
