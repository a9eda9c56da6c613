//! Evidence: parse, verify, validate.
