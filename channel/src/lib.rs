//! Attested TLS: a byte stream whose peer is proven.
