//! Manifests as YAML.

use serde_json::Value;

/// Why a value cannot be written as YAML.
#[derive(Debug, thiserror::Error)]
#[error("YAML cannot say this: {0}")]
pub struct YamlError(#[from] serde_saphyr::ser::Error);

/// Values as documents of one stream, each after a line of three hyphens.
///
/// Strings are quoted where YAML 1.1 or 1.2 reads something else without quotes; Flux and kubectl read YAML 1.1.
pub fn documents(values: &[Value]) -> Result<String, YamlError> {
    let mut stream = String::new();
    for value in values {
        // Folded blocks would make the text depend on the place of spaces; escapes say each character.
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        stream.push_str("---\n");
        stream.push_str(&serde_saphyr::to_string_with_options(value, options)?);
        if !stream.ends_with('\n') {
            stream.push('\n');
        }
    }
    Ok(stream)
}
