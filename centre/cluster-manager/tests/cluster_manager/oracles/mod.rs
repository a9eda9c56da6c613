//! Other people's programs as judges: npm's json-templates of templates, `PyYAML` of YAML, npm's
//! aes-gcm-rsa-oaep and kubeseal of sealed secrets.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod programs;
mod seal;
mod templates;
mod yaml;
