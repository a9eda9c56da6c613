//! The configurations of our services.
