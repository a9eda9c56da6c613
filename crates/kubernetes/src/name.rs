//! Short texts of a table that become parts of file names.

use serde::Deserialize;

/// Longest name or version.
const MAX_NAME: usize = 40;

/// The name or version of a component: letters, digits and `.+-`, not beginning with a dot or a dash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Name(String);

impl Name {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".+-".contains(&byte);
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if begins && text.len() <= MAX_NAME && text.bytes().all(plain) {
            Ok(Self(text))
        } else {
            let shown: String = text.chars().take(MAX_NAME).collect();
            Err(format!(
                "{shown:?} is not 1 to {MAX_NAME} letters, digits, '.', '+' and '-', beginning with a letter or digit"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_a_folder_or_are_hidden_are_refused() {
        let name = |text: &str| Name::try_from(text.to_owned()).is_ok();
        assert!(name("cni-plugins") && name("1.34.4+own.1"));
        let long = "x".repeat(MAX_NAME + 1);
        for text in ["", ".", "..", ".part", "-rf", "a/b", "a b", "a\n", "é", &long] {
            assert!(!name(text), "{text:?}");
        }
    }
}
