//! The checked-in types are the contracts' types.

use std::{fs, path::Path};

/// Fields that sound secret and are not: names of keys, and a message whose own `Debug` hides what it holds.
const PUBLIC: [&str; 2] = ["key_id", "secrets_key"];

#[test]
fn the_checked_in_descriptors_are_the_contracts() {
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api");
    let fresh = latchkey_api_codegen::descriptors(&api.join("proto")).expect("contracts compile");
    let checked_in = fs::read(api.join("src/generated/latchkey.v1.binpb")).expect("checked-in file");
    assert!(fresh == checked_in, "out of date: run `cargo run -p latchkey-api-codegen` and commit the result");
}

#[test]
fn the_checked_in_file_is_what_the_generator_gives() {
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api");
    let fresh = latchkey_api_codegen::generate(&api.join("proto")).expect("contracts compile");
    let checked_in = fs::read_to_string(api.join("src/generated/latchkey.v1.rs")).expect("checked-in file");
    assert!(fresh == checked_in, "out of date: run `cargo run -p latchkey-api-codegen` and commit the result");
}

#[test]
fn the_checked_in_types_of_sparkplug_are_what_the_generator_gives() {
    let sparkplug = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sparkplug");
    let fresh = latchkey_api_codegen::sparkplug(&sparkplug.join("proto")).expect("the payloads compile");
    let checked_in = fs::read_to_string(sparkplug.join("src/generated/sparkplug.b.rs")).expect("checked-in file");
    assert!(fresh == checked_in, "out of date: run `cargo run -p latchkey-api-codegen` and commit the result");
}

/// A new field called `…secret`, `…key`, `…token` or the like must be put on the list of secret messages, or say why not.
#[test]
fn every_message_with_a_secret_sounding_field_has_its_debug_written_by_hand() {
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api");
    let source = latchkey_api_codegen::generate(&api.join("proto")).expect("contracts compile");
    let mut skips_debug = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[prost(skip_debug)]") {
            skips_debug = true;
        } else if line == "}" {
            skips_debug = false;
        } else if let Some(field) =
            line.strip_prefix("pub ").and_then(|rest| rest.split_once(':')).map(|(name, _)| name)
        {
            let sounds_secret = ["secret", "key", "token", "password"].iter().any(|word| field.contains(word));
            assert!(skips_debug || !sounds_secret || PUBLIC.contains(&field), "`{field}` would be printed by Debug");
        }
    }
}
