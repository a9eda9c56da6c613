//! Builds unified kernel images.
