//! What cannot be derived is one error, at the token that it is about.

#[test]
fn errors_of_derive() {
    trybuild::TestCases::new().compile_fail("tests/errors/*.rs");
}
