//! Decodes every encoding that the emitter uses with an independent decoder (iced-x86).

use super::super::asm::{Asm, Code, Extra, Rm, at};
use super::super::{Level, ops};
use crate::emitter::tests::Rng;
use iced_x86::{Code as Iced, Decoder, DecoderOptions, Instruction, OpKind, Register};

#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Operands reg, vvvv, rm.
    Three,
    /// Operands reg, rm.
    Two,
    /// Operands rm, reg.
    Back,
    /// Operands vvvv, rm, immediate.
    Shift,
    /// Operands mask register, vvvv, rm, immediate.
    Test,
}
use Form::*;

/// Expected decoding of an instruction: mnemonics on AVX-512 and on AVX2 (empty if there is none), encoding, operand
/// form.
struct Row(&'static str, &'static str, Code, Form);

fn pair(avx512: [&'static str; 2], avx2: [&'static str; 2], p: ops::Pair, form: Form) -> [Row; 2] {
    [Row(avx512[0], avx2[0], p[0], form), Row(avx512[1], avx2[1], p[1], form)]
}

fn rows() -> Vec<Row> {
    let mut t: Vec<Row> = Vec::new();
    let mut both = |a: [&'static str; 2], b: [&'static str; 2], p, form| t.extend(pair(a, b, p, form));
    for (n, p) in [
        (["vaddps", "vaddpd"], ops::ADD),
        (["vmulps", "vmulpd"], ops::MUL),
        (["vsubps", "vsubpd"], ops::SUB),
        (["vminps", "vminpd"], ops::MIN),
        (["vdivps", "vdivpd"], ops::DIV),
        (["vmaxps", "vmaxpd"], ops::MAX),
        (["vfmadd213ps", "vfmadd213pd"], ops::FMADD),
        (["vfmsub213ps", "vfmsub213pd"], ops::FMSUB),
        (["vfnmadd213ps", "vfnmadd213pd"], ops::FNMADD),
        (["vpaddd", "vpaddq"], ops::PADD),
        (["vpsubd", "vpsubq"], ops::PSUB),
        (["vpsllvd", "vpsllvq"], ops::SHLV),
        (["vpsrlvd", "vpsrlvq"], ops::SHRV),
    ] {
        both(n, n, p, Three);
    }
    both(["vsqrtps", "vsqrtpd"], ["vsqrtps", "vsqrtpd"], ops::SQRT, Two);
    both(["vrndscaleps", "vrndscalepd"], ["vroundps", "vroundpd"], ops::ROUND, Two);
    both(["vrangeps", "vrangepd"], ["", ""], ops::RANGE, Three);
    both(["vscalefps", "vscalefpd"], ["", ""], ops::SCALEF, Three);
    both(["vblendmps", "vblendmpd"], ["", ""], ops::BLENDM, Three);
    both(["vpandd", "vpandq"], ["vpand", "vpand"], ops::PAND, Three);
    both(["vpandnd", "vpandnq"], ["vpandn", "vpandn"], ops::PANDN, Three);
    both(["vpord", "vporq"], ["vpor", "vpor"], ops::POR, Three);
    both(["vpxord", "vpxorq"], ["vpxor", "vpxor"], ops::PXOR, Three);
    both(["vpmulld", "vpmullq"], ["vpmulld", ""], ops::PMULL, Three);
    both(["vpminsd", "vpminsq"], ["vpminsd", ""], ops::PMINS, Three);
    both(["vpmaxsd", "vpmaxsq"], ["vpmaxsd", ""], ops::PMAXS, Three);
    both(["vpminud", "vpminuq"], ["vpminud", ""], ops::PMINU, Three);
    both(["vpmaxud", "vpmaxuq"], ["vpmaxud", ""], ops::PMAXU, Three);
    both(["vpabsd", "vpabsq"], ["vpabsd", ""], ops::PABS, Two);
    both(["", ""], ["vpcmpeqd", "vpcmpeqq"], ops::PCMPEQ, Three);
    both(["", ""], ["vpcmpgtd", "vpcmpgtq"], ops::PCMPGT, Three);
    both(["vcmpps", "vcmppd"], ["", ""], ops::CMP, Test);
    both(["", ""], ["vcmpps", "vcmppd"], ops::CMP, Three);
    both(["vpcmpd", "vpcmpq"], ["", ""], ops::PCMP, Test);
    both(["vpcmpud", "vpcmpuq"], ["", ""], ops::PCMPU, Test);
    both(["vptestmd", "vptestmq"], ["", ""], ops::PTESTM, Test);
    both(["vpslld", "vpsllq"], ["vpslld", "vpsllq"], ops::SHL, Shift);
    both(["vpsrld", "vpsrlq"], ["vpsrld", "vpsrlq"], ops::SHR, Shift);
    both(["vpsrad", "vpsraq"], ["vpsrad", ""], ops::SAR, Shift);
    both(["vpsravd", "vpsravq"], ["vpsravd", ""], ops::SARV, Three);
    both(["vmovups", "vmovupd"], ["vmovups", "vmovupd"], ops::MOVUPS, Two);
    both(["vmovups", "vmovupd"], ["vmovups", "vmovupd"], ops::MOVUPS_STORE, Back);
    both(["vpbroadcastd", "vpbroadcastq"], ["vpbroadcastd", "vpbroadcastq"], ops::PBROADCAST, Two);
    for (n512, n2, c, form) in [
        ("vpmuludq", "vpmuludq", ops::PMULUDQ, Three),
        ("vprold", "", ops::ROL, Shift),
        ("vcvtdq2ps", "vcvtdq2ps", ops::CVT_I32_F32, Two),
        ("vcvtps2dq", "vcvtps2dq", ops::CVT_F32_I32, Two),
        ("vcvttps2dq", "vcvttps2dq", ops::CVTT_F32_I32, Two),
        ("vcvtudq2ps", "", ops::CVT_U32_F32, Two),
        ("vcvttps2udq", "", ops::CVTT_F32_U32, Two),
        ("vcvtdq2pd", "vcvtdq2pd", ops::CVT_I32_F64, Two),
        ("vcvtudq2pd", "", ops::CVT_U32_F64, Two),
        ("vcvttpd2dq", "vcvttpd2dq", ops::CVTT_F64_I32, Two),
        ("vcvtpd2dq", "vcvtpd2dq", ops::CVT_F64_I32, Two),
        ("vcvttpd2udq", "", ops::CVTT_F64_U32, Two),
        ("vcvtpd2ps", "vcvtpd2ps", ops::CVT_F64_F32, Two),
        ("vcvtps2pd", "vcvtps2pd", ops::CVT_F32_F64, Two),
        ("vcvtqq2pd", "", ops::CVT_I64_F64, Two),
        ("vcvtqq2ps", "", ops::CVT_I64_F32, Two),
        ("vcvttpd2qq", "", ops::CVTT_F64_I64, Two),
        ("vcvtuqq2pd", "", ops::CVT_U64_F64, Two),
        ("vcvtuqq2ps", "", ops::CVT_U64_F32, Two),
        ("vcvttpd2uqq", "", ops::CVTT_F64_U64, Two),
        ("vpmovzxbd", "vpmovzxbd", ops::MOVZX_B, Two),
        ("vpmovzxwd", "vpmovzxwd", ops::MOVZX_W, Two),
        ("vpmovsxbd", "vpmovsxbd", ops::MOVSX_B, Two),
        ("vpmovsxwd", "vpmovsxwd", ops::MOVSX_W, Two),
        ("vpmovsxdq", "vpmovsxdq", ops::MOVSX_DQ, Two),
        ("vpmovzxdq", "vpmovzxdq", ops::MOVZX_DQ, Two),
        ("vpmovdb", "", ops::MOV_DB, Back),
        ("vpmovdw", "", ops::MOV_DW, Back),
        ("vpmovqd", "", ops::MOV_QD, Back),
        ("vcvtph2ps", "vcvtph2ps", ops::F16_F32, Two),
        ("vcvtps2ph", "vcvtps2ph", ops::F32_F16, Back),
        ("vpshufb", "vpshufb", ops::PSHUFB, Three),
        ("", "vpermq", ops::PERMQ, Two),
        ("", "vpermd", ops::PERMD, Three),
        ("vpshufd", "vpshufd", ops::PSHUFD, Two),
        ("vmovaps", "vmovaps", ops::MOVAPS, Two),
        ("vbroadcastss", "vbroadcastss", ops::BROADCAST[0], Two),
    ] {
        t.push(Row(n512, n2, c, form));
    }
    t
}

fn decode(bytes: &[u8]) -> Instruction {
    let mut d = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let i = d.decode();
    assert_ne!(i.code(), Iced::INVALID, "{bytes:02x?}");
    assert_eq!(i.len(), bytes.len(), "{bytes:02x?} is {i:?}");
    i
}

fn number(r: Register) -> u8 {
    r.number() as u8
}

#[test]
fn vector_instructions_read_back() {
    let mut r = Rng(11);
    for level in [Level::Avx512, Level::Avx2] {
        let wide = level == Level::Avx512;
        for Row(n512, n2, code, form) in rows() {
            let name = if wide { n512 } else { n2 };
            if name.is_empty() {
                continue;
            }
            for _ in 0..300 {
                one(&mut r, level, name, code, form);
            }
        }
    }
}

fn one(r: &mut Rng, level: Level, name: &str, code: Code, form: Form) {
    let wide = level == Level::Avx512;
    let n = level.target().vectors;
    let fixed = matches!(name, "vpermd" | "vpermq");
    let len = if fixed { 1 } else { r.below(if wide { 3 } else { 2 }) as u8 };
    let blend = name.starts_with("vblendm");
    let (reg, vvvv, rm) = (r.below(n) as u8, r.below(n) as u8, r.below(n) as u8);
    let reg = if form == Test { reg % 8 } else { reg };
    let c = ops::vex(code, level);
    let memory = form != Shift && r.below(2) == 0 && name != "vmovaps";
    let mut x = Extra { imm: c.imm.then(|| r.below(4) as u8), ..Extra::default() };
    if wide && (blend || (form != Back && r.below(3) == 0)) {
        x.mask = 1 + r.below(7) as u8;
        x.zero = form != Test && !blend && r.below(2) == 0;
    }
    let masked_back = wide && form == Back && memory && r.below(2) == 0;
    if masked_back {
        x.mask = 1 + r.below(7) as u8;
    }
    x.broadcast = wide && memory && c.broadcast && form != Back && r.below(2) == 0;
    let base = r.below(16) as u8;
    let index =
        (r.below(2) == 0).then(|| (r.pick(&[0u8, 1, 2, 3, 5, 6, 7, 8, 12, 13, 14, 15]), r.pick(&[1u8, 2, 4, 8])));
    let disp = r.pick(&[0, 1, 4, 64, -64, 8, 100, 127, 128, -128, 4096, -4096, 256, 0x12345]);
    let operand = if memory { Rm::Mem { base, index, disp } } else { Rm::Reg(rm) };
    let mut a = Asm::new(level);
    match form {
        Three | Test => a.op(c, len, reg, vvvv, operand, x),
        Two | Back => a.op(c, len, reg, 0, operand, x),
        Shift => a.op(c, len, c.ext, vvvv, operand, x),
    }
    let i = decode(&a.bytes);
    let seen = format!("{:?}", i.mnemonic()).to_lowercase();
    assert_eq!(seen, name, "{:02x?}", a.bytes);
    let (places, at): (Vec<(u32, u8)>, u32) = match form {
        Three | Test => (vec![(0, reg), (1, vvvv)], 2),
        Two => (vec![(0, reg)], 1),
        Back => (vec![(1, reg)], 0),
        Shift => (vec![(0, vvvv)], 1),
    };
    for (k, want) in places {
        assert_eq!(number(i.op_register(k)), want, "{name} operand {k}");
    }
    assert_eq!(i.op0_register().is_k(), form == Test);
    let width = [16, 32, 64][len as usize];
    let widest = (0..i.op_count()).filter(|k| i.op_kind(*k) == OpKind::Register).map(|k| i.op_register(k).size()).max();
    assert!(widest == Some(width) || (memory && widest < Some(width)), "{name} {widest:?} {width}");
    if memory {
        assert_eq!(i.op_kind(at), OpKind::Memory);
        assert_eq!((number(i.memory_base()), i.memory_displacement64() as i64), (base, disp as i64), "{name} {x:?}");
        match index {
            Some((k, scale)) => assert_eq!((number(i.memory_index()), i.memory_index_scale()), (k, scale as u32)),
            None => assert_eq!(i.memory_index(), Register::None),
        }
        assert_eq!(i.is_broadcast(), x.broadcast, "{name}");
    } else {
        assert_eq!(number(i.op_register(at)), rm, "{name}");
    }
    let mask = if x.mask == 0 { Register::None } else { Register::K0 + x.mask as u32 };
    assert_eq!((i.op_mask(), i.zeroing_masking()), (mask, x.zero));
}

#[test]
fn mask_and_scalar_instructions_read_back() {
    let read = |build: &dyn Fn(&mut Asm)| {
        let mut a = Asm::new(Level::Avx512);
        build(&mut a);
        format!("{:?}", decode(&a.bytes).code()).to_lowercase()
    };
    let vex = Extra { vex: true, ..Extra::default() };
    for (code, len, name) in [
        (ops::KAND, 1, "vex_kandw_kr_kr_kr"),
        (ops::KANDN, 1, "vex_kandnw_kr_kr_kr"),
        (ops::KOR, 1, "vex_korw_kr_kr_kr"),
        (ops::KXOR, 1, "vex_kxorw_kr_kr_kr"),
        (ops::KXNOR, 1, "vex_kxnorw_kr_kr_kr"),
    ] {
        assert_eq!(read(&|a| a.op(code, len, 1, 2, Rm::Reg(3), vex)), name);
    }
    for (code, rm, name) in [
        (ops::KNOT, Rm::Reg(3), "vex_knotw_kr_kr"),
        (ops::KMOV, Rm::Reg(3), "vex_kmovw_kr_km16"),
        (ops::KMOV, at(4, 8), "vex_kmovw_kr_km16"),
        (ops::KMOV_STORE, at(4, 8), "vex_kmovw_m16_kr"),
        (ops::KMOV_FROM_GPR, Rm::Reg(1), "vex_kmovw_kr_r32"),
        (ops::KMOV_TO_GPR, Rm::Reg(1), "vex_kmovw_r32_kr"),
        (ops::KMOV_TO_GPR_8, Rm::Reg(1), "vex_kmovb_r32_kr"),
    ] {
        assert_eq!(read(&|a| a.op(code, 0, 1, 0, rm, vex)), name);
    }
    assert_eq!(read(&|a| a.load(9, at(13, 40))), "mov_r64_rm64");
    assert_eq!(read(&|a| a.store(at(4, 400), 15)), "mov_rm64_r64");
    assert_eq!(read(&|a| a.lea(8, at(12, 0))), "lea_r64_m");
    assert_eq!(read(&|a| a.arith_imm(7, Rm::Reg(15), 1000)), "cmp_rm64_imm32");
    assert_eq!(read(&|a| a.arith_imm(4, Rm::Reg(4), -64)), "and_rm64_imm8");
    assert_eq!(read(&|a| a.scalar(true, &[0x0F, 0xAF], 0, at(13, 16), 0)), "imul_r64_rm64");
    assert_eq!(read(&|a| a.raw(&[0xC4, 0xE2, 0x78, 0xF5, 0xC9])), "vex_bzhi_r32_rm32_r32");
    assert_eq!(read(&|a| a.raw(&[0xF3, 0xA4])), "movsb_m8_m8");
    let two = |level, c: Code, len, rm, x| {
        let mut a = Asm::new(level);
        a.op(c, len, 3, 15, rm, x);
        format!("{:?}", decode(&a.bytes).code()).to_lowercase()
    };
    let gather = Extra { vsib: true, mask: 6, ..Extra::default() };
    let mem = Rm::Mem { base: 0, index: Some((21, 4)), disp: 0 };
    let mut a = Asm::new(Level::Avx512);
    a.op(ops::GATHER[0], 2, 3, 0, mem, gather);
    let i = decode(&a.bytes);
    assert_eq!(i.code(), Iced::EVEX_Vgatherdps_zmm_k1_vm32z);
    assert_eq!((i.memory_index(), i.op_mask(), i.memory_index_scale()), (Register::ZMM21, Register::K6, 4));
    let near = Rm::Mem { base: 0, index: Some((9, 4)), disp: 0 };
    let vsib = Extra { vsib: true, ..Extra::default() };
    assert_eq!(two(Level::Avx2, ops::GATHER[0], 1, near, vsib), "vex_vgatherdps_ymm_vm32y_ymm");
    assert_eq!(two(Level::Avx2, ops::GATHER[1], 1, near, vsib), "vex_vgatherdpd_ymm_vm32x_ymm");
    let flat = |c: Code| Code { w: false, ..c };
    let none = Extra::default();
    assert_eq!(two(Level::Avx2, flat(ops::MASKMOV[1]), 1, at(3, 0), none), "vex_vmaskmovpd_ymm_ymm_m256");
    assert_eq!(two(Level::Avx2, flat(ops::MASKMOV_STORE[0]), 1, at(3, 0), none), "vex_vmaskmovps_m256_ymm_ymm");
    let blend = Extra { imm: Some(7 << 4), ..none };
    assert_eq!(two(Level::Avx2, ops::BLENDV[1], 1, Rm::Reg(2), blend), "vex_vblendvpd_ymm_ymm_ymmm256_ymm");
    let single = |level, c: Code, len, rm| {
        let mut a = Asm::new(level);
        a.op(ops::vex(c, level), len, 3, 0, rm, none);
        format!("{:?}", decode(&a.bytes).code()).to_lowercase()
    };
    let part = |level, c: Code, len| {
        let mut a = Asm::new(level);
        a.op(c, len, 3, 0, Rm::Reg(9), Extra { imm: Some(1), ..none });
        let i = decode(&a.bytes);
        assert_eq!((number(i.op0_register()), number(i.op1_register())), (9, 3));
        format!("{:?}", i.code()).to_lowercase()
    };
    assert_eq!(part(Level::Avx2, ops::EXTRACT, 1), "vex_vextractf128_xmmm128_ymm_imm8");
    assert_eq!(part(Level::Avx512, ops::EXTRACT, 1), "evex_vextractf32x4_xmmm128_k1z_ymm_imm8");
    assert_eq!(part(Level::Avx512, ops::EXTRACT_HALF, 2), "evex_vextractf64x4_ymmm256_k1z_zmm_imm8");
    assert_eq!(single(Level::Avx2, ops::BROADCAST[1], 1, at(3, 0)), "vex_vbroadcastsd_ymm_m64");
    assert_eq!(single(Level::Avx512, ops::BROADCAST[1], 2, at(3, 0)), "evex_vbroadcastsd_zmm_k1z_xmmm64");
    assert_eq!(single(Level::Avx2, ops::MOVD[1], 0, Rm::Reg(9)), "vex_vmovq_xmm_rm64");
    assert_eq!(single(Level::Avx2, ops::MOVD_STORE[0], 0, at(3, 0)), "vex_vmovd_rm32_xmm");
    assert_eq!(single(Level::Avx512, ops::BROADCAST_GPR[0], 2, Rm::Reg(14)), "evex_vpbroadcastd_zmm_k1z_r32");
    assert_eq!(single(Level::Avx512, ops::BROADCAST_GPR[1], 2, Rm::Reg(0)), "evex_vpbroadcastq_zmm_k1z_r64");
    assert_eq!(single(Level::Avx2, ops::MOVMSK[1], 1, Rm::Reg(0)), "vex_vmovmskpd_r32_ymm");
}
