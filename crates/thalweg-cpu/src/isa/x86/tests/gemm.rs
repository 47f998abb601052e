//! Decodes the micro-kernels of contractions with an independent decoder. (`gemm/tests.rs` checks their results on
//! the machine's instruction sets; this checks both instruction sets on every machine.)

use crate::isa::Isa;
use crate::isa::gemm::{Arithmetic, Form, Layout, MAX_DOT_ROWS, MAX_STREAM_TERMS, TILE_VECTORS};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};

fn forms(isa: Isa) -> Vec<Form> {
    let flags = [false, true];
    let tiles = (1..=isa.tile_rows()).flat_map(|rows| (1..=TILE_VECTORS).map(move |vectors| (rows, vectors)));
    let tiles = tiles.flat_map(|(rows, vectors)| {
        flags
            .into_iter()
            .flat_map(move |masked| flags.map(|along_terms| Form::Tile { rows, vectors, masked, along_terms }))
    });
    let streams = (1..=MAX_STREAM_TERMS).flat_map(|terms| flags.map(|first| Form::Stream { terms, first }));
    let dots = (1..=MAX_DOT_ROWS).flat_map(|rows| (1..=isa.dot_columns(rows)).map(move |columns| (rows, columns)));
    let dots = dots.flat_map(|(rows, columns)| {
        [Layout::Slots, Layout::Bf16, Layout::F16].map(|right| Form::Dots { rows, columns, right })
    });
    tiles.chain(streams).chain(dots).collect()
}

/// Iterates over all pairs of arithmetic and micro-kernel form that an instruction set supports.
fn all(isa: Isa) -> impl Iterator<Item = (Arithmetic, Form)> {
    use Arithmetic::{F32, F64, PairTiles, Pairs, Quads};
    let narrow = if isa == Isa::Avx512 { &[Pairs, Quads][..] } else { &[] };
    let narrow = narrow.iter().flat_map(move |&arithmetic| {
        let forms = forms(isa).into_iter().map(|form| match form {
            // Bytes are read as signed; widened layouts only exist without groups.
            Form::Dots { rows, columns, right: Layout::Bf16 | Layout::F16 } => {
                let right = if arithmetic == Quads { Layout::Offset } else { Layout::Slots };
                Form::Dots { rows, columns, right }
            }
            form => form,
        });
        forms.map(move |form| (arithmetic, form)).collect::<Vec<_>>()
    });
    let shapes = (1..=2).flat_map(|rows| (1..=2).map(move |columns| Form::TileRegisters { rows, columns }));
    let tiles = shapes.chain([Form::Configure, Form::Release]).map(|form| (PairTiles, form));
    let tiles = tiles.filter(move |_| isa == Isa::Avx512);
    let wide = [F32, F64].into_iter().flat_map(move |a| forms(isa).into_iter().map(move |form| (a, form)));
    wide.chain(narrow).chain(tiles)
}

/// Assembles every micro-kernel of an instruction set; returns the arithmetic, the form and the code of each.
pub fn assembled(isa: Isa) -> impl Iterator<Item = (String, String, Vec<u8>)> {
    all(isa).map(move |(a, form)| (format!("{a:?}"), format!("{form:?}"), isa.gemm(a, form)))
}

/// Mnemonic of the instruction that adds products to a sum in this arithmetic.
fn adds_products(arithmetic: Arithmetic) -> Mnemonic {
    match arithmetic {
        Arithmetic::F32 => Mnemonic::Vfmadd231ps,
        Arithmetic::F64 => Mnemonic::Vfmadd231pd,
        Arithmetic::Pairs => Mnemonic::Vdpbf16ps,
        Arithmetic::Quads => Mnemonic::Vpdpbusd,
        Arithmetic::PairTiles => Mnemonic::Tdpbf16ps,
    }
}

/// Decodes all instructions up to the return.
fn decoded(code: &[u8]) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut all = Vec::new();
    loop {
        let i = decoder.decode();
        assert!(!i.is_invalid(), "at {:#x}", i.ip());
        all.push(i);
        if i.mnemonic() == Mnemonic::Ret {
            return all;
        }
    }
}

#[test]
fn every_form_is_whole_and_stays_in_its_registers() {
    for isa in [Isa::Avx2, Isa::Avx512] {
        for (arithmetic, form) in all(isa) {
            let all = decoded(&isa.gemm(arithmetic, form));
            let fused = adds_products(arithmetic);
            let count = all.iter().filter(|i| i.mnemonic() == fused).count();
            let expected = match form {
                // Four terms in the unrolled loop, one in the remainder.
                Form::Tile { rows, vectors, .. } => 5 * rows * vectors,
                // Four vectors in the unrolled loop, one in the remainder, and a masked one.
                Form::Stream { terms, .. } => 6 * terms,
                // 64 bytes of lanes per sum.
                Form::Dots { rows, columns, .. } => rows * columns * (64 / isa.bytes()),
                Form::TileRegisters { rows, columns } => rows * columns,
                Form::Configure | Form::Release => 0,
            };
            assert_eq!(count, expected, "{isa:?} {arithmetic:?} {form:?}");
            let pushed = all.iter().filter(|i| i.mnemonic() == Mnemonic::Push).count();
            let popped = all.iter().filter(|i| i.mnemonic() == Mnemonic::Pop).count();
            assert_eq!(pushed, popped, "{isa:?} {arithmetic:?} {form:?}");
            for i in &all {
                for register in
                    (0..i.op_count()).filter(|o| i.op_kind(*o) == OpKind::Register).map(|o| i.op_register(o))
                {
                    let limit = if isa == Isa::Avx2 { 16 } else { 32 };
                    let fits = register.size() <= isa.bytes() && register.number() < limit;
                    assert!(!register.is_vector_register() || fits, "{isa:?} {arithmetic:?} {form:?}: {i}");
                }
                if i.is_jcc_short_or_near() {
                    assert!(
                        all.iter().any(|to| to.ip() == i.near_branch_target()),
                        "{isa:?} {arithmetic:?} {form:?}: {i}"
                    );
                }
            }
        }
    }
}

#[test]
fn sums_do_not_share_registers_with_factors() {
    for isa in [Isa::Avx2, Isa::Avx512] {
        for (arithmetic, form) in all(isa) {
            let count = match form {
                Form::Tile { rows, vectors, .. } => rows * vectors,
                Form::Dots { rows, columns, .. } => rows * columns * (64 / isa.bytes()),
                Form::TileRegisters { rows, columns } => rows * columns,
                Form::Stream { .. } | Form::Configure | Form::Release => continue,
            };
            let all = decoded(&isa.gemm(arithmetic, form));
            let fused = adds_products(arithmetic);
            let products: Vec<&Instruction> = all.iter().filter(|i| i.mnemonic() == fused).collect();
            let mut sums: Vec<usize> = products.iter().map(|i| i.op_register(0).number()).collect();
            sums.sort_unstable();
            sums.dedup();
            assert_eq!(sums.len(), count, "{isa:?} {arithmetic:?} {form:?}");
            for i in products {
                let factors = (1..3).filter(|o| i.op_kind(*o) == OpKind::Register).map(|o| i.op_register(o).number());
                assert!(factors.into_iter().all(|r| !sums.contains(&r)), "{isa:?} {arithmetic:?} {form:?}: {i}");
            }
        }
    }
}

/// Encodings of AMX instructions in Intel's manual: `ldtilecfg [rdi]`, `tilerelease`; and the instructions of the kernel
/// of one tile of sums.
#[test]
fn tile_registers_are_encoded_as_in_the_manual() {
    let code = |form| Isa::Avx512.gemm(Arithmetic::PairTiles, form);
    assert!(code(Form::Configure).starts_with(&[0xC4, 0xE2, 0x78, 0x49, 0x07, 0xC3]));
    assert!(code(Form::Release).starts_with(&[0xC4, 0xE2, 0x78, 0x49, 0xC0, 0xC3]));
    let all = decoded(&code(Form::TileRegisters { rows: 1, columns: 1 }));
    let tiles: Vec<String> =
        all.iter().filter(|i| format!("{:?}", i.mnemonic()).starts_with('T')).map(|i| format!("{i}")).collect();
    let tiles: Vec<&str> = tiles.iter().map(String::as_str).filter(|i| !i.starts_with("test")).collect();
    assert_eq!(
        tiles,
        [
            "tileloadd tmm0,[r10+r15]",
            "tilezero tmm0",
            "tileloadd tmm4,[rsi+r11]",
            "tileloadd tmm6,[rdx+rax]",
            "tdpbf16ps tmm0,tmm4,tmm6",
            "tilestored [r14+rbx],tmm0",
        ]
    );
}
