//! `latchkey upgrade check`: what can go where, and what stands in the way.

use latchkey_kubernetes::Minor;
use serde::Serialize;

use super::deprecated::{DeprecatedApi, deprecated_apis};
use crate::api_server::KubernetesNode;
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::kubernetes;
use crate::output::{Output, Report, Style, Table, pairs};
use crate::stock::{Kubectl, Scope, Stock, StockError, Version};

/// A kubelet may be older than the API server by so many minor versions, and never newer
/// (<https://kubernetes.io/releases/version-skew-policy/>).
const KUBELET_BEHIND: u16 = 3;

pub(crate) fn check(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let table = kubernetes::table(arguments)?;
    let kubeconfig = arguments.required_path("kubeconfig")?;
    let stock = Stock::from_arguments(arguments);
    let (server, nodes, metrics) = smol::block_on(async {
        let kubectl: Kubectl = stock.kubectl(kubeconfig).await?;
        let nodes: Vec<KubernetesNode> = kubectl.list("nodes", Scope::Cluster).await?;
        Ok::<_, StockError>((kubectl.server(), nodes, kubectl.raw_text("/metrics").await?))
    })?;
    let next = format!("{}.{}", server.major, server.minor.saturating_add(1));
    let in_table = next.parse::<Minor>().ok().and_then(|minor| table.release(minor).ok());
    let exact = in_table.map(|release| release.version().to_string());
    output.report(&CheckReport::of(server, next, exact, &nodes, deprecated_apis(&metrics)))
}

/// What can be upgraded to what.
#[derive(Debug, Serialize)]
pub(super) struct CheckReport {
    api_server: String,
    /// The one minor version that the API server can go to.
    next: String,
    /// What the version table has of it.
    next_exact: Option<String>,
    nodes: Vec<NodeRow>,
    deprecated_apis: Vec<DeprecatedApi>,
    /// What has to be done first; nothing stands in the way if there is none.
    pub(super) first: Vec<String>,
}

#[derive(Debug, Serialize)]
struct NodeRow {
    name: String,
    kubelet: String,
    state: KubeletState,
}

/// How a node's kubelet stands to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum KubeletState {
    Ok,
    /// It has to go first.
    Behind,
    TooNew,
    Unreadable,
}

impl KubeletState {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Behind => "behind",
            Self::TooNew => "too-new",
            Self::Unreadable => "unreadable",
        }
    }
}

impl CheckReport {
    pub(super) fn of(
        server: Version,
        next: String,
        exact: Option<String>,
        nodes: &[KubernetesNode],
        deprecated: Vec<DeprecatedApi>,
    ) -> Self {
        let oldest = server.minor.saturating_add(1).saturating_sub(KUBELET_BEHIND);
        let nodes: Vec<NodeRow> = nodes
            .iter()
            .map(|node| {
                let state = match node.kubelet().parse::<Version>() {
                    Ok(kubelet) if kubelet.minor > server.minor => KubeletState::TooNew,
                    Ok(kubelet) if kubelet.minor < oldest => KubeletState::Behind,
                    Ok(_) => KubeletState::Ok,
                    Err(_) => KubeletState::Unreadable,
                };
                NodeRow { name: node.name().to_owned(), kubelet: node.kubelet().to_owned(), state }
            })
            .collect();
        let mut first = Vec::new();
        if exact.is_none() {
            first.push(format!("a release of this command whose version table has Kubernetes {next}"));
        }
        for NodeRow { name, kubelet, state } in &nodes {
            first.extend(match state {
                KubeletState::Ok => None,
                KubeletState::Behind => {
                    Some(format!("node {name}: its kubelet {kubelet} must be {}.{oldest} or newer", server.major))
                }
                KubeletState::TooNew => {
                    Some(format!("node {name}: its kubelet {kubelet} is newer than the API server {server}"))
                }
                KubeletState::Unreadable => {
                    Some(format!("node {name}: what its kubelet is cannot be read from {kubelet:?}"))
                }
            });
        }
        let gone = deprecated.iter().filter(|api| api.is_gone_in(server.minor.saturating_add(1)));
        first.extend(gone.map(|api| format!("{api} is still asked for, and gone in {next}")));
        Self { api_server: server.to_string(), next, next_exact: exact, nodes, deprecated_apis: deprecated, first }
    }
}

impl Report for CheckReport {
    fn text(&self, _: Style) -> String {
        let next =
            self.next_exact.clone().unwrap_or_else(|| format!("{}, which is not in the version table", self.next));
        let deprecated: Vec<String> = self.deprecated_apis.iter().map(ToString::to_string).collect();
        let mut rows = vec![("API server", self.api_server.clone()), ("can go to", next)];
        if !deprecated.is_empty() {
            rows.push(("deprecated", deprecated.join("\n")));
        }
        if !self.first.is_empty() {
            rows.push((
                "first",
                self.first.iter().map(|one| crate::output::printable(one)).collect::<Vec<_>>().join("\n"),
            ));
        }
        let mut table = Table::new(&["NODE", "KUBELET", "STATE"]);
        for NodeRow { name, kubelet, state } in &self.nodes {
            table.row([name.clone(), kubelet.clone(), state.name().to_owned()]);
        }
        format!("{}\n{table}", pairs(&rows))
    }

    fn exit(&self) -> Exit {
        if self.first.is_empty() { Exit::Done } else { Exit::Failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kubelets: &[&str], metrics: &str) -> CheckReport {
        let node = |kubelet: &&str| -> KubernetesNode {
            let text = r#"{"metadata": {"name": "n"}, "status": {"nodeInfo": {"kubeletVersion": "KUBELET"}}}"#;
            serde_json::from_str(&text.replace("KUBELET", kubelet)).unwrap()
        };
        let nodes: Vec<KubernetesNode> = kubelets.iter().map(node).collect();
        let server = Version { major: 1, minor: 34, patch: 4 };
        CheckReport::of(server, "1.35".into(), Some("1.35.1".into()), &nodes, deprecated_apis(metrics))
    }

    #[test]
    fn kubelets_are_at_most_three_minor_versions_behind_the_next_and_never_newer() {
        let states =
            |kubelets: &[&str]| report(kubelets, "").nodes.iter().map(|node| node.state.name()).collect::<Vec<_>>();
        assert_eq!(
            states(&["v1.34.9", "v1.32.0", "v1.31.9", "v1.35.0", "none"]),
            ["ok", "ok", "behind", "too-new", "unreadable"]
        );
        assert!(report(&["v1.32.0"], "").first.is_empty());
        assert_eq!(report(&["v1.31.9"], "").exit(), Exit::Failed);
    }

    #[test]
    fn an_api_that_is_asked_for_and_gone_in_the_next_version_stands_in_the_way() {
        let metric = |removed: &str| {
            format!(
                "apiserver_requested_deprecated_apis{{group=\"g\",removed_release=\"{removed}\",resource=\"things\",subresource=\"\",version=\"v1beta1\"}} 1\n"
            )
        };
        assert_eq!(
            report(&[], &metric("1.35")).first,
            ["things.v1beta1.g (gone in 1.35) is still asked for, and gone in 1.35"]
        );
        for later in ["1.36", ""] {
            let report = report(&[], &metric(later));
            assert!(report.first.is_empty() && report.deprecated_apis.len() == 1, "{report:?}");
        }
    }
}
