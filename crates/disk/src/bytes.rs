//! Writes into bytes at offsets, and looks whether all are zero.

/// Copies `what` into `bytes` at `at`; callers own both sizes, and a test holds them to it.
pub(crate) fn place(bytes: &mut [u8], at: usize, what: &[u8]) {
    let target = at.checked_add(what.len()).and_then(|end| bytes.get_mut(at..end));
    debug_assert!(target.is_some(), "{} bytes do not fit at {at}", what.len());
    if let Some(target) = target {
        target.copy_from_slice(what);
    }
}

/// Whether all of `bytes` are zero.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    // Whole words first: a MiB is looked at on every boot of a fresh disk.
    let (chunks, rest) = bytes.as_chunks::<64>();
    chunks.iter().all(|chunk| *chunk == [0; 64]) && rest.iter().all(|&byte| byte == 0)
}
