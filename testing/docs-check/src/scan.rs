//! Reads Rust sources as text, as far as documents name what is in them.

/// The names of test functions.
pub(crate) fn tests(source: &str) -> impl Iterator<Item = &str> {
    // Attributes and comments stand directly above the function.
    let mut marked = false;
    source.lines().map(str::trim).filter_map(move |line| {
        if line.starts_with("#[") || line.starts_with("//") {
            marked |= line == "#[test]";
            return None;
        }
        std::mem::take(&mut marked).then(|| function(line)).flatten()
    })
}

/// Whether documentation has a block of code that would be compiled: one without a language, or Rust's.
pub(crate) fn has_example(source: &str) -> bool {
    let comment =
        |line: &'_ str| line.trim().strip_prefix("///").or_else(|| line.trim().strip_prefix("//!")).map(str::to_owned);
    let fences =
        source.lines().filter_map(comment).filter_map(|line| line.trim().strip_prefix("```").map(str::to_owned));
    let mut opening = fences.step_by(2);
    opening.any(|words| {
        let of_rust = ["rust", "no_run", "should_panic", "compile_fail"];
        words.trim().is_empty() || words.split(',').any(|word| of_rust.contains(&word.trim()))
    })
}

/// The name in `fn name(`, whatever stands before.
fn function(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("fn ")?;
    rest.split(['(', '<']).next().filter(|name| !name.is_empty() && name.bytes().all(is_word))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The expression after `const NAME: Type =`, in one line and with single spaces; `None` if there is no such constant.
pub(crate) fn constant(source: &str, name: &str) -> Option<String> {
    let marks = [format!("const {name}: "), format!("static {name}: ")];
    let at = marks.iter().find_map(|mark| source.find(mark.as_str()).map(|at| at + mark.len()))?;
    let (_, value) = source[at..].split_once(" =")?;
    // A `;` ends it, but not the one inside of `[0; 4]`.
    let mut depth = 0_usize;
    let end = value.char_indices().find(|(_, letter)| {
        match letter {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *letter == ';' && depth == 0
    })?;
    Some(value[..end.0].split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod check {
    use super::*;

    #[test]
    fn tests_are_functions_below_the_attribute_and_nothing_else() {
        let source = "#[test]\n// why\n#[ignore = \"slow\"]\nfn one() {\n}\nfn two() {}\n    #[test]\n    fn three(x in 0..1) {}\n";
        assert_eq!(tests(source).collect::<Vec<_>>(), ["one", "three"]);
    }

    #[test]
    fn an_example_is_a_block_of_rust_in_documentation() {
        assert!(has_example("/// ```\n/// x();\n/// ```\n") && has_example("    //! ```no_run\n"));
        assert!(!has_example("/// ```text\n/// x\n/// ```\n") && !has_example("// ```\n"));
    }

    #[test]
    fn a_constant_is_its_expression_in_one_line() {
        let source = "pub const A: usize = 16 * 1024; // why\nconst B: [u8; 2] =\n    [0; 2];\nconst C: Rate = Rate {\n  a: 1,\n};\n";
        let values = ["A", "B", "C", "D"].map(|name| constant(source, name));
        assert_eq!(values.map(Option::unwrap_or_default), ["16 * 1024", "[0; 2]", "Rate { a: 1, }", ""]);
    }
}
