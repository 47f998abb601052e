//! Specifications of einsums: `ij,jk->ik`, `...a,...a`.
//!
//! In: the text and the operands' sizes. Out: the label of each axis, and the size of each label. A label is the number
//! of a letter, 0 to 51, or 52 and up for the axes of `...`, counted from the last. So labels fit a mask of 64 bits.

use crate::MAX_RANK;

/// Number of labels that stand for letters.
const LETTERS: u8 = 52;
/// Maximum number of labels: letters, and the axes of `...`.
pub const LABELS: usize = LETTERS as usize + MAX_RANK;

/// Parsed specification, checked against its operands.
#[derive(Debug)]
pub struct Spec {
    /// Labels of each operand's axes.
    pub inputs: Vec<Vec<u8>>,
    /// Labels of the result's axes.
    pub output: Vec<u8>,
    /// Sizes by label.
    pub sizes: [usize; LABELS],
}

/// Term of a specification: letters, and the index of `...` among them.
struct Term {
    letters: Vec<u8>,
    dots: Option<usize>,
}

impl Spec {
    /// Parses a specification; an error message if it is invalid.
    pub fn parse(text: &str, shapes: &[&[usize]]) -> Result<Spec, String> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text.as_str(), None),
        };
        let terms: Vec<Term> = left.split(',').map(Term::parse).collect::<Result<_, _>>()?;
        if shapes.is_empty() {
            return Err("there are no operands".into());
        }
        if terms.len() != shapes.len() {
            return Err(format!("{} terms for {} operands", terms.len(), shapes.len()));
        }
        let mut sizes = [1usize; LABELS];
        let mut inputs = vec![];
        for (n, (term, shape)) in terms.iter().zip(shapes).enumerate() {
            let labels = term.labels(shape.len()).ok_or_else(|| {
                let least = if term.dots.is_some() { "at least " } else { "" };
                format!("operand {n} has {} axes, its term names {least}{}", shape.len(), term.letters.len())
            })?;
            for (&label, &size) in labels.iter().zip(*shape) {
                let known = &mut sizes[label as usize];
                if *known != size && *known != 1 && size != 1 {
                    return Err(format!("{} is {known} and {size}", name(label)));
                }
                if size != 1 {
                    *known = size;
                }
            }
            for (i, &label) in labels.iter().enumerate() {
                let twin = labels[..i].iter().position(|&l| l == label);
                if let Some(twin) = twin.filter(|&t| shape[t] != shape[i]) {
                    let (a, b) = (shape[twin], shape[i]);
                    return Err(format!("{} is {a} and {b} in operand {n}, which has no diagonal", name(label)));
                }
            }
            inputs.push(labels);
        }
        let output = output(right, &inputs)?;
        Ok(Spec { inputs, output, sizes })
    }
}

/// Labels of the result's axes.
fn output(text: Option<&str>, inputs: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    let dots = inputs.iter().flatten().filter(|&&l| l >= LETTERS).max().map_or(0, |&l| l - LETTERS + 1);
    let count = |label: u8| inputs.iter().flatten().filter(|&&l| l == label).count();
    let output = match text {
        None => (LETTERS..LETTERS + dots).rev().chain((0..LETTERS).filter(|&l| count(l) == 1)).collect(),
        Some(text) => {
            let term = Term::parse(text)?;
            let rank = term.letters.len() + if term.dots.is_some() { dots as usize } else { 0 };
            term.labels(rank).expect("a term fits as many axes as it names")
        }
    };
    for (i, &label) in output.iter().enumerate() {
        if output[..i].contains(&label) {
            return Err(format!("{} stands twice in the result", name(label)));
        }
        if count(label) == 0 {
            return Err(format!("{} of the result is in no operand", name(label)));
        }
    }
    if output.len() > MAX_RANK {
        return Err(format!("the result has {} axes, over the rank limit of {MAX_RANK}", output.len()));
    }
    Ok(output)
}

impl Term {
    fn parse(text: &str) -> Result<Term, String> {
        let mut term = Term { letters: vec![], dots: None };
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("...") {
                if term.dots.replace(term.letters.len()).is_some() {
                    return Err(format!("{text:?} has \"...\" twice"));
                }
                rest = after;
                continue;
            }
            term.letters.push(match c {
                'A'..='Z' => c as u8 - b'A',
                'a'..='z' => c as u8 - b'a' + 26,
                _ => return Err(format!("{c:?} names no axis")),
            });
            rest = &rest[1..];
        }
        Ok(term)
    }

    /// The labels of an operand of that rank; `None` if the term does not match it.
    fn labels(&self, rank: usize) -> Option<Vec<u8>> {
        let open = rank.checked_sub(self.letters.len())?;
        match self.dots {
            None => (open == 0).then(|| self.letters.clone()),
            Some(at) => {
                let dots = (LETTERS..LETTERS + open as u8).rev();
                Some(self.letters[..at].iter().copied().chain(dots).chain(self.letters[at..].iter().copied()).collect())
            }
        }
    }
}

/// Name of a label, as the specification writes it.
fn name(label: u8) -> String {
    match label {
        0..26 => ((b'A' + label) as char).to_string(),
        26..LETTERS => ((b'a' + label - 26) as char).to_string(),
        _ => format!("axis -{} of \"...\"", label - LETTERS + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(labels: &[u8]) -> String {
        labels.iter().map(|&l| if l < LETTERS { name(l) } else { (l - LETTERS).to_string() }).collect()
    }

    #[test]
    fn results_that_are_not_written() {
        let of = |text: &str, shapes: &[&[usize]]| written(&Spec::parse(text, shapes).unwrap().output);
        assert_eq!(of("ij,jk", &[&[2, 3], &[3, 4]]), "ik");
        assert_eq!(of("ba", &[&[2, 3]]), "ab");
        assert_eq!(of("aB", &[&[2, 3]]), "Ba");
        assert_eq!(of("ii", &[&[2, 2]]), "");
        assert_eq!(of("a...b, b...", &[&[2, 5, 6, 3], &[3, 1, 6]]), "10a");
        assert_eq!(of("...a->a", &[&[4, 2]]), "a");
        assert_eq!(of("...->...", &[&[]]), "");
    }

    #[test]
    fn mistakes() {
        let of = |text: &str, shapes: &[&[usize]]| Spec::parse(text, shapes).unwrap_err();
        assert_eq!(of("ij,jk", &[&[2, 3]]), "2 terms for 1 operands");
        assert_eq!(of("ij", &[&[2]]), "operand 0 has 1 axes, its term names 2");
        assert_eq!(of("i...j", &[&[2]]), "operand 0 has 1 axes, its term names at least 2");
        assert_eq!(of("ij,jk", &[&[2, 3], &[4, 5]]), "j is 3 and 4");
        assert_eq!(of("i...,i...", &[&[2, 3], &[2, 4]]), "axis -1 of \"...\" is 3 and 4");
        assert_eq!(of("ii", &[&[2, 1]]), "i is 2 and 1 in operand 0, which has no diagonal");
        assert_eq!(of("ij->ii", &[&[2, 3]]), "i stands twice in the result");
        assert_eq!(of("ij->k", &[&[2, 3]]), "k of the result is in no operand");
        assert_eq!(of("i.j", &[&[2, 3]]), "'.' names no axis");
        assert_eq!(of("i->j->k", &[&[2]]), "'-' names no axis");
    }
}
