//! Formatting of generated source.
//!
//! In: statements in any layout. Out: the same with a statement a line, indented by braces, without trailing spaces.

/// One level of indentation.
const STEP: &str = "  ";

/// Reformats generated source.
pub fn tidy(text: &str) -> String {
    let (mut out, mut depth) = (String::with_capacity(text.len()), 0usize);
    for line in text.lines().flat_map(statements) {
        let line = line.trim();
        let closes = line.bytes().take_while(|&b| b == b'}').count();
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(STEP, depth.saturating_sub(closes)));
            out += line;
        }
        out.push('\n');
        if !line.starts_with("//") {
            depth += line.matches('{').count();
            depth = depth.saturating_sub(line.matches('}').count());
        }
    }
    out
}

/// Splits a line after each statement outside of brackets; blocks that open and close in it stay whole.
fn statements(line: &str) -> Vec<&str> {
    if line.trim_start().starts_with("//") {
        return vec![line];
    }
    let (mut all, mut from, mut brackets) = (vec![], 0, 0i32);
    for (i, b) in line.bytes().enumerate() {
        match b {
            b'(' | b'{' | b'[' => brackets += 1,
            b')' | b'}' | b']' => brackets -= 1,
            b';' if brackets <= 0 && line[i + 1..].starts_with(' ') => {
                all.push(&line[from..=i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    if all.is_empty() || !line[from..].trim().is_empty() {
        all.push(&line[from..]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::tidy;

    #[test]
    fn a_statement_a_line() {
        let text = "f(K) {\n    i64 a = 1; for (int v = 0; v < 4; v++) a += v; \n#pragma unroll\n for (;;) {\n{ x; y; } \n   if (a) {\nz; }\n}\n}\n\n// a; b {\nend;\n";
        let tidied = "f(K) {\n  i64 a = 1;\n  for (int v = 0; v < 4; v++) a += v;\n  #pragma unroll\n  for (;;) {\n    { x; y; }\n    if (a) {\n      z;\n    }\n  }\n}\n\n// a; b {\nend;\n";
        assert_eq!(tidy(text), tidied);
        assert_eq!(tidy(tidied), tidied);
    }
}
