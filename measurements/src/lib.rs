//! TCG event logs and reference manifests.
