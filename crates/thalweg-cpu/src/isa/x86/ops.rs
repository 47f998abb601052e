//! Vector instructions of the emitter, by name.
//!
//! The W bit is that of EVEX encodings; VEX encodings ignore it or agree, except for the two that [`vex`] corrects.

use super::Level;
use super::asm::Code;

const fn c(map: u8, pp: u8, opcode: u8, w: u8) -> Code {
    Code { map, pp, opcode, w: w != 0, ext: 0, tuple: 0, imm: false, broadcast: true, commutes: false }
}
impl Code {
    const fn commutes(mut self) -> Code {
        self.commutes = true;
        self
    }
    const fn imm(mut self) -> Code {
        self.imm = true;
        self
    }
    /// Marks an instruction that allows no embedded broadcast.
    const fn whole(mut self) -> Code {
        self.broadcast = false;
        self
    }
    const fn tuple(mut self, t: u8) -> Code {
        self.tuple = t;
        self
    }
    const fn ext(mut self, e: u8) -> Code {
        self.ext = e;
        self
    }
}

/// Instructions of one operation for elements of 4 bytes and of 8 bytes.
pub type Pair = [Code; 2];

const fn ps(opcode: u8) -> Pair {
    [c(1, 0, opcode, 0), c(1, 1, opcode, 1)]
}
const fn ps_commutes(opcode: u8) -> Pair {
    [c(1, 0, opcode, 0).commutes(), c(1, 1, opcode, 1).commutes()]
}
const fn dq(map: u8, d: u8, q: u8) -> Pair {
    [c(map, 1, d, 0), c(map, 1, q, 1)]
}
const fn dq_commutes(map: u8, d: u8, q: u8) -> Pair {
    [c(map, 1, d, 0).commutes(), c(map, 1, q, 1).commutes()]
}

pub const ADD: Pair = ps_commutes(0x58);
pub const MUL: Pair = ps_commutes(0x59);
pub const SUB: Pair = ps(0x5C);
pub const MIN: Pair = ps(0x5D);
pub const DIV: Pair = ps(0x5E);
pub const MAX: Pair = ps(0x5F);
pub const SQRT: Pair = ps(0x51);
pub const CMP: Pair = [c(1, 0, 0xC2, 0).imm(), c(1, 1, 0xC2, 1).imm()];
pub const ROUND: Pair = [c(3, 1, 0x08, 0).imm(), c(3, 1, 0x09, 1).imm()];
pub const RANGE: Pair = [c(3, 1, 0x50, 0).imm(), c(3, 1, 0x50, 1).imm()];
pub const SCALEF: Pair = dq(2, 0x2C, 0x2C);
/// Fused multiply-add in the 213 form. The opcode of the 132 form is 16 lower, that of the 231 form 16 higher; the same
/// holds for the variants below.
pub const FMADD: Pair = dq(2, 0xA8, 0xA8);
pub const FMSUB: Pair = dq(2, 0xAA, 0xAA);
pub const FNMADD: Pair = dq(2, 0xAC, 0xAC);
/// `vdpbf16ps`: adds the products of two bf16 to f32.
pub const DOT_PAIRS: Code = c(2, 2, 0x52, 0);
/// `vpdpbusd`: adds the products of four bytes to i32; bytes of the second argument (vvvv) are unsigned, those of the
/// third signed.
pub const DOT_QUADS: Code = c(2, 1, 0x50, 0);
pub const BLENDM: Pair = dq(2, 0x65, 0x65);
pub const BLENDV: Pair = [c(3, 1, 0x4A, 0).imm(), c(3, 1, 0x4B, 0).imm()];

pub const PADD: Pair = dq_commutes(1, 0xFE, 0xD4);
pub const PSUB: Pair = dq(1, 0xFA, 0xFB);
pub const PAND: Pair = dq_commutes(1, 0xDB, 0xDB);
pub const PANDN: Pair = dq(1, 0xDF, 0xDF);
pub const POR: Pair = dq_commutes(1, 0xEB, 0xEB);
pub const PXOR: Pair = dq_commutes(1, 0xEF, 0xEF);
pub const PMULL: Pair = dq_commutes(2, 0x40, 0x40);
pub const PMINS: Pair = dq_commutes(2, 0x39, 0x39);
pub const PMAXS: Pair = dq_commutes(2, 0x3D, 0x3D);
pub const PMINU: Pair = dq_commutes(2, 0x3B, 0x3B);
pub const PMAXU: Pair = dq_commutes(2, 0x3F, 0x3F);
pub const PABS: Pair = dq(2, 0x1E, 0x1F);
pub const PMULUDQ: Code = c(1, 1, 0xF4, 1).commutes();
/// Integer equality, VEX-encoded, with a vector mask as result.
pub const PCMPEQ: Pair = [c(1, 1, 0x76, 0).commutes(), c(2, 1, 0x29, 1).commutes()];
pub const PCMPGT: Pair = [c(1, 1, 0x66, 0), c(2, 1, 0x37, 1)];
/// Signed integer comparison, EVEX-encoded, with a mask register as result; the immediate is the predicate.
pub const PCMP: Pair = [c(3, 1, 0x1F, 0).imm(), c(3, 1, 0x1F, 1).imm()];
pub const PCMPU: Pair = [c(3, 1, 0x1E, 0).imm(), c(3, 1, 0x1E, 1).imm()];
pub const PTESTM: Pair = dq_commutes(2, 0x27, 0x27);

pub const SHL: Pair = [c(1, 1, 0x72, 0).ext(6).imm(), c(1, 1, 0x73, 1).ext(6).imm()];
pub const SHR: Pair = [c(1, 1, 0x72, 0).ext(2).imm(), c(1, 1, 0x73, 1).ext(2).imm()];
pub const SAR: Pair = [c(1, 1, 0x72, 0).ext(4).imm(), c(1, 1, 0x72, 1).ext(4).imm()];
pub const ROL: Code = c(1, 1, 0x72, 0).ext(1).imm();
pub const SHLV: Pair = dq(2, 0x47, 0x47);
pub const SHRV: Pair = dq(2, 0x45, 0x45);
pub const SARV: Pair = dq(2, 0x46, 0x46);

pub const CVT_I32_F32: Code = c(1, 0, 0x5B, 0);
pub const CVT_F32_I32: Code = c(1, 1, 0x5B, 0);
pub const CVTT_F32_I32: Code = c(1, 2, 0x5B, 0);
pub const CVT_U32_F32: Code = c(1, 3, 0x7A, 0);
pub const CVTT_F32_U32: Code = c(1, 0, 0x78, 0);
pub const CVT_I32_F64: Code = c(1, 2, 0xE6, 0).tuple(1);
pub const CVT_U32_F64: Code = c(1, 2, 0x7A, 0).tuple(1);
pub const CVTT_F64_I32: Code = c(1, 1, 0xE6, 1);
pub const CVT_F64_I32: Code = c(1, 3, 0xE6, 1);
pub const CVTT_F64_U32: Code = c(1, 0, 0x78, 1);
pub const CVT_F64_F32: Code = c(1, 1, 0x5A, 1);
pub const CVT_F32_F64: Code = c(1, 0, 0x5A, 0).tuple(1);
pub const CVT_I64_F64: Code = c(1, 2, 0xE6, 1);
pub const CVT_I64_F32: Code = c(1, 0, 0x5B, 1);
pub const CVTT_F64_I64: Code = c(1, 1, 0x7A, 1);
pub const CVT_U64_F64: Code = c(1, 2, 0x7A, 1);
pub const CVT_U64_F32: Code = c(1, 3, 0x7A, 1);
pub const CVTT_F64_U64: Code = c(1, 1, 0x78, 1);

pub const MOVZX_B: Code = c(2, 1, 0x31, 0).whole().tuple(2);
pub const MOVZX_W: Code = c(2, 1, 0x33, 0).whole().tuple(1);
pub const MOVSX_B: Code = c(2, 1, 0x21, 0).whole().tuple(2);
pub const MOVSX_W: Code = c(2, 1, 0x23, 0).whole().tuple(1);
pub const MOVSX_DQ: Code = c(2, 1, 0x25, 0).whole().tuple(1);
pub const MOVZX_DQ: Code = c(2, 1, 0x35, 0).whole().tuple(1);
/// Truncation of 32-bit lanes to bytes (`vpmovdb`); like the two below, source in ModRM.reg, destination in ModRM.rm.
pub const MOV_DB: Code = c(2, 2, 0x31, 0).whole().tuple(2);
pub const MOV_DW: Code = c(2, 2, 0x33, 0).whole().tuple(1);
pub const MOV_QD: Code = c(2, 2, 0x35, 0).whole().tuple(1);
pub const F16_F32: Code = c(2, 1, 0x13, 0).whole().tuple(1);
pub const F32_F16: Code = c(3, 1, 0x1D, 0).whole().tuple(1).imm();
pub const PSHUFB: Code = c(2, 1, 0x00, 0).whole();
pub const PERMQ: Code = c(3, 1, 0x00, 1).whole().imm();
pub const PERMD: Code = c(2, 1, 0x36, 0);
/// Permutes lanes within each 128-bit quarter.
pub const PSHUFD: Code = c(1, 1, 0x70, 0).whole().imm();
/// Extracts 128 bits of a longer vector; destination in ModRM.rm.
pub const EXTRACT: Code = c(3, 1, 0x19, 0).whole().imm();
/// Extracts 256 bits of a 512-bit vector; destination in ModRM.rm.
pub const EXTRACT_HALF: Code = c(3, 1, 0x1B, 1).whole().imm();
pub const BROADCAST: Pair = [c(2, 1, 0x18, 0).whole().tuple(18), c(2, 1, 0x19, 1).whole().tuple(19)];
pub const BROADCAST_GPR: Pair = [c(2, 1, 0x7C, 0).whole(), c(2, 1, 0x7C, 1).whole()];

pub const MOVUPS: Pair = [c(1, 0, 0x10, 0).whole(), c(1, 1, 0x10, 1).whole()];
pub const MOVUPS_STORE: Pair = [c(1, 0, 0x11, 0).whole(), c(1, 1, 0x11, 1).whole()];
/// Non-temporal store; the address must be aligned to the vector.
pub const MOVNTPS: Code = c(1, 0, 0x2B, 0).whole();
pub const MOVAPS: Code = c(1, 0, 0x28, 0).whole();
/// Masked load, VEX-encoded, with the mask vector in vvvv; the store below alike.
pub const MASKMOV: Pair = [c(2, 1, 0x2C, 0).whole(), c(2, 1, 0x2D, 0).whole()];
pub const MASKMOV_STORE: Pair = [c(2, 1, 0x2E, 0).whole(), c(2, 1, 0x2F, 0).whole()];
/// `vmovd`/`vmovq` from a general register or memory to the lowest element; the store below is the reverse.
pub const MOVD: Pair = [c(1, 1, 0x6E, 0).whole().tuple(18), c(1, 1, 0x6E, 1).whole().tuple(19)];
pub const MOVD_STORE: Pair = [c(1, 1, 0x7E, 0).whole().tuple(18), c(1, 1, 0x7E, 1).whole().tuple(19)];
pub const PBROADCAST: Pair = [c(2, 1, 0x58, 0).whole().tuple(18), c(2, 1, 0x59, 1).whole().tuple(19)];
pub const GATHER: Pair = [c(2, 1, 0x92, 0).whole().tuple(18), c(2, 1, 0x92, 1).whole().tuple(19)];
pub const MOVMSK: Pair = [c(1, 0, 0x50, 0), c(1, 1, 0x50, 0)];

pub const KAND: Code = c(1, 0, 0x41, 0).commutes();
pub const KANDN: Code = c(1, 0, 0x42, 0);
pub const KOR: Code = c(1, 0, 0x45, 0).commutes();
pub const KXNOR: Code = c(1, 0, 0x46, 0).commutes();
pub const KXOR: Code = c(1, 0, 0x47, 0).commutes();
pub const KNOT: Code = c(1, 0, 0x44, 0);
pub const KMOV: Code = c(1, 0, 0x90, 0);
pub const KMOV_STORE: Code = c(1, 0, 0x91, 0);
pub const KMOV_FROM_GPR: Code = c(1, 0, 0x92, 0);
/// Move of a mask of 16 lanes to a general register; the form for 8 lanes, below, has the 66 prefix.
pub const KMOV_TO_GPR: Code = c(1, 0, 0x93, 0);
pub const KMOV_TO_GPR_8: Code = c(1, 1, 0x93, 0);

/// Adapts an instruction's code to the level: on AVX2, clears the W bit of broadcasts.
pub fn vex(code: Code, level: Level) -> Code {
    let broadcast = code.map == 2 && code.pp == 1 && matches!(code.opcode, 0x19 | 0x59);
    if level == Level::Avx2 && broadcast { Code { w: false, ..code } } else { code }
}
