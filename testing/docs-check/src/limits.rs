//! Values of constants in `docs/limits.md`.
//!
//! Where that document names a constant, it says its value as the source does: `` `path/file.rs::NAME = 16 * 1024` ``. So a
//! constant does not change without the document, and whoever reads a row sees both the words and the number.

use crate::scan;
use crate::{DocsError, Workspace};

/// The document.
pub const DOCUMENT: &str = "docs/limits.md";
/// A longer expression is left out, in characters.
const LONGEST: usize = 80;

/// The document's text with the value of each constant that it names.
///
/// # Errors
/// A file that it names cannot be read.
pub fn written(workspace: &Workspace, text: &str) -> Result<String, DocsError> {
    let mut pieces: Vec<String> = text.split('`').map(str::to_owned).collect();
    for quoted in pieces.iter_mut().skip(1).step_by(2) {
        let place = quoted.split_once(" = ").map_or(quoted.as_str(), |(place, _)| place);
        let Some((path, name)) = place.rsplit_once("::").filter(|(path, _)| path.rsplit('.').next() == Some("rs"))
        else {
            continue;
        };
        let value = scan::constant(&workspace.read(path)?, name).filter(|value| value.chars().count() <= LONGEST);
        *quoted = value.map_or_else(|| place.to_owned(), |value| format!("{place} = {value}"));
    }
    Ok(pieces.join("`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_gets_its_value_of_now_and_the_rest_stays() {
        let workspace = Workspace::here().unwrap();
        let text = "| a `testing/docs-check/src/limits.rs::LONGEST = 70` | `testing/docs-check/src/limits.rs::written` | `x::y` |";
        let wanted = text.replace("= 70", "= 80");
        assert_eq!(written(&workspace, text).unwrap(), wanted);
        assert_eq!(written(&workspace, &text.replace(" = 70", "")).unwrap(), wanted);
    }
}
