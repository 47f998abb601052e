//! Invalid input of the macros is one error, at its token.

#[test]
fn errors_of_macros() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/errors/*.rs");
    cases.compile_fail("tests/kernels/*.rs");
}
