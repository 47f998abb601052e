//! Decodes whole emitted functions with an independent decoder (iced-x86), to check that they are valid.

use super::super::assemble;
use super::super::inner_reduction::assemble_inner_reduction;
use super::{Options, Rng, isas};
use iced_x86::{Code as Iced, Decoder, DecoderOptions};
use thalweg_ir::DType;

#[test]
fn whole_functions_decode() {
    let mut r = Rng(77);
    for isa in isas() {
        for _ in 0..150 {
            let d: Vec<DType> = (0..3).map(|_| r.pick(&DType::ALL)).collect();
            let body = super::random::random_body(&mut r, &d, 30);
            let Ok((bytes, _)) = assemble(&body, isa, Options { registers: Some(8), ..Options::default() }) else {
                continue;
            };
            decodes(&bytes);
            let body = super::along::random_rows(&mut r, &d, 8, 3);
            let body = crate::prepare::prepare(&body);
            let phases = thalweg_kernel::phases(&body, true);
            if let Ok((bytes, _)) =
                assemble_inner_reduction(&body, &phases, isa, Options { registers: Some(8), ..Options::default() })
            {
                decodes(&bytes);
            }
        }
    }
}

fn decodes(bytes: &[u8]) {
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let (mut starts, mut jumps) = (Vec::new(), Vec::new());
    loop {
        let i = decoder.decode();
        assert_ne!(i.code(), Iced::INVALID);
        starts.push(i.ip());
        if i.is_jcc_short_or_near() || i.is_jmp_short_or_near() {
            jumps.push(i.near_branch_target());
        }
        if i.code() == Iced::Retnq {
            break;
        }
    }
    assert!(jumps.iter().all(|j| starts.contains(j)));
}
