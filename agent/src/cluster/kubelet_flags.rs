//! Arguments that kubeadm of an earlier release wrote for the kubelet, and that a later kubelet does not start with.
//!
//! kubeadm's own upgrade takes them out of its file. That is after the kubelet has started here, so they are taken out before.

use std::path::Path;

use super::{StepError, files};

/// "`--pod-infra-container-image`": without a use in 1.34, not known in 1.35 (`CHANGELOG-1.35.md`), and which image that is says the
/// container runtime's configuration.
const GONE: [&str; 1] = ["--pod-infra-container-image="];
/// `KUBELET_KUBEADM_ARGS="--name=value --name=value"`.
const FILE: &str = "kubeadm-flags.env";
const MAX_BYTES: usize = 64 * 1024;

/// Takes out of the file below the kubelet's directory what no later kubelet knows; without effect on an earlier one.
pub(super) fn drop_gone(kubelet: &Path) -> Result<(), StepError> {
    let path = kubelet.join(FILE);
    if !path.try_exists().map_err(|error| files::error(&path, &error))? {
        return Ok(());
    }
    let bytes = files::read(&path, MAX_BYTES)?;
    let text = String::from_utf8_lossy(bytes.expose());
    let left = without_gone(&text);
    if left == text { Ok(()) } else { files::write(&path, left.as_bytes()) }
}

fn without_gone(text: &str) -> String {
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = GONE.iter().filter_map(|name| begin(rest, name)).min() {
        let (before, from) = rest.split_at(at);
        let end = from.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(from.len());
        left.push_str(before);
        rest = from.get(end..).unwrap_or_default();
        // One of the two spaces around it goes, too.
        match rest.strip_prefix(' ') {
            Some(after) => rest = after,
            None => left.truncate(left.trim_end_matches(' ').len()),
        }
    }
    left.push_str(rest);
    left
}

/// Where an argument of this name begins: a word, and no value of another.
fn begin(text: &str, name: &str) -> Option<usize> {
    let is_word = |at: &usize| text.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with([' ', '"']));
    text.match_indices(name).map(|(at, _)| at).find(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_that_are_gone_go_and_all_else_stays() {
        const PAUSE: &str = "--pod-infra-container-image=registry.k8s.io/pause:3.10.1";
        let file = |arguments: &str| format!("KUBELET_KUBEADM_ARGS=\"{arguments}\"\n");
        for (arguments, left) in [
            (
                format!("--container-runtime-endpoint=unix:///x {PAUSE} --node-ip=10.1.0.1"),
                "--container-runtime-endpoint=unix:///x --node-ip=10.1.0.1",
            ),
            (format!("{PAUSE} --node-ip=10.1.0.1"), "--node-ip=10.1.0.1"),
            (format!("--node-ip=10.1.0.1 {PAUSE}"), "--node-ip=10.1.0.1"),
            (format!("{PAUSE} {PAUSE}"), ""),
            ("--node-ip=10.1.0.1".to_owned(), "--node-ip=10.1.0.1"),
            (format!("--note=x{PAUSE}"), "--note=x--pod-infra-container-image=registry.k8s.io/pause:3.10.1"),
        ] {
            assert_eq!(without_gone(&file(&arguments)), file(left), "{arguments}");
        }
        assert_eq!(without_gone(PAUSE), "");
    }
}
