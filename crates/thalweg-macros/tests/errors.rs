//! What cannot be derived, or stand in a kernel, is one error, at the token that it is about.

#[test]
fn errors_of_macros() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/errors/*.rs");
    cases.compile_fail("tests/kernels/*.rs");
}
