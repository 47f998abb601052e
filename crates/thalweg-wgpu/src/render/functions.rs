//! Functions that kernels call: items of the prelude's files, and which of them a source needs.

use std::collections::BTreeMap;
use std::sync::OnceLock;

const FILES: [&str; 2] = [include_str!("prelude.wgsl"), include_str!("math.wgsl")];
/// Functions of an integer type, with `T` in the place of its name.
const INTEGERS: &str = include_str!("integers.wgsl");

/// Items by the names that they define.
fn items() -> &'static BTreeMap<String, String> {
    static ITEMS: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    ITEMS.get_or_init(|| {
        let mut all = BTreeMap::new();
        FILES.iter().for_each(|file| add(&mut all, file));
        let types = [("i32", "true", "31u"), ("u32", "false", "31u"), ("i64", "true", "63u"), ("u64", "false", "63u")];
        for (ty, signed, last) in types {
            add(&mut all, &of_type(ty).replace("SIGNED", signed).replace("LAST", last));
        }
        all
    })
}

/// Functions of one integer type.
fn of_type(ty: &str) -> String {
    let mut out = String::new();
    for (n, part) in INTEGERS.split('T').enumerate() {
        let begins_word = part.chars().next().is_some_and(|c| c.is_alphanumeric() || c == '_');
        let ends_word = out.chars().next_back().is_some_and(char::is_alphanumeric);
        if n > 0 {
            // `T` alone or after an underscore is the type's name; other words keep their letter.
            out.push_str(if begins_word || ends_word { "T" } else { ty });
        }
        out.push_str(part);
    }
    out
}

/// Adds the items of a file, which are separated by blank lines. Comments of the file's head define nothing.
fn add(all: &mut BTreeMap<String, String>, file: &str) {
    for item in file.split("\n\n") {
        for line in item.lines() {
            let name = line.strip_prefix("fn ").or_else(|| line.strip_prefix("struct "));
            if let Some(name) = name.and_then(|rest| rest.split(|c: char| !is_word(c)).next()) {
                all.insert(name.into(), item.trim_matches('\n').into());
            }
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Items that a text refers to, directly or through others.
pub fn needed(text: &str) -> String {
    let mut found: BTreeMap<&str, &str> = BTreeMap::new();
    let mut texts = vec![text];
    while let Some(text) = texts.pop() {
        for word in text.split(|c: char| !is_word(c)) {
            if let Some((name, item)) = items().get_key_value(word)
                && found.insert(name, item).is_none()
            {
                texts.push(item);
            }
        }
    }
    // An item may define several names.
    let mut items: Vec<&str> = found.into_values().collect();
    items.sort_unstable();
    items.dedup();
    items.iter().map(|item| format!("{item}\n\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_comes_with_those_that_it_calls() {
        let text = needed("let y = sigmoid_f32(x);");
        for name in ["fn sigmoid_f32", "fn exp_polynomial", "fn scaled", "fn bits_of_whole", "fn is_nan"] {
            assert!(text.contains(name), "{name}: {text}");
        }
        assert!(!text.contains("fn erf_f32") && !text.contains("fn div_i32"), "{text}");
    }

    #[test]
    fn functions_of_integers_are_named_by_their_type() {
        let text = needed("rem_i64(x, y)");
        assert!(text.contains("fn rem_i64(x: i64, y: i64) -> i64") && text.contains("equal_i64(y, i64(0)) | (true &"));
        assert!(!text.contains('T'), "{text}");
    }
}
