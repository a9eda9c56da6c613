//! Typed, versioned key derivation; secrets that wipe themselves.
