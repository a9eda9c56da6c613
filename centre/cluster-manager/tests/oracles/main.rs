//! Other people's programs as judges: npm's json-templates of templates, PyYAML of YAML, and npm's aes-gcm-rsa-oaep of sealed secrets.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod programs;
mod templates;
mod yaml;
