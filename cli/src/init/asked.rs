//! What was asked of the first machine, so that a later run of the same init describes the same cluster.

use latchkey_api::v1::ClusterSettings;
use serde::{Deserialize, Serialize};

use super::job::Store;
use crate::error::CommandError;

/// The settings that are no secrets, as the journal has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    kubernetes: String,
    control_plane_endpoint: String,
    cert_sans: Vec<String>,
    pod_cidr: String,
    service_cidr: String,
    api_balancer: bool,
    /// Not in a journal of an earlier release.
    #[serde(default)]
    untainted: bool,
    component_list: String,
    services_inside: bool,
    /// None in a journal of an earlier release.
    #[serde(default)]
    store: Option<Store>,
}

impl Asked {
    pub(super) fn of(settings: &ClusterSettings, store: Store, services_inside: bool) -> Self {
        Self {
            kubernetes: settings.kubernetes_version.clone(),
            control_plane_endpoint: settings.control_plane_endpoint.clone(),
            cert_sans: settings.apiserver_cert_sans.clone(),
            pod_cidr: settings.pod_cidr.clone(),
            service_cidr: settings.service_cidr.clone(),
            api_balancer: settings.api_balancer,
            untainted: settings.untainted,
            component_list: String::from_utf8_lossy(&settings.component_list).into_owned(),
            services_inside,
            store: Some(store),
        }
    }

    /// Where the cluster is to be kept. A later run may say otherwise: a cluster in a directory can be moved.
    pub(super) fn store(&self) -> Option<Store> {
        self.store
    }

    /// What a later run does not say is as it was; what it says otherwise is refused, since the cluster is there.
    pub(super) fn complete(&self, settings: &mut ClusterSettings, services_inside: bool) -> Result<(), CommandError> {
        let now = Self::of(settings, Store::Directory, services_inside);
        let texts = [
            ("--kubernetes", &now.kubernetes, &self.kubernetes),
            ("--control-plane-endpoint", &now.control_plane_endpoint, &self.control_plane_endpoint),
            ("--pod-cidr", &now.pod_cidr, &self.pod_cidr),
            ("--service-cidr", &now.service_cidr, &self.service_cidr),
        ];
        for (flag, now, before) in texts {
            if !now.is_empty() && now != before {
                return Err(differs(flag, &format!("{before:?}")));
            }
        }
        if !now.cert_sans.is_empty() && now.cert_sans != self.cert_sans {
            return Err(differs("--cert-san", &format!("{:?}", self.cert_sans)));
        }
        for (flag, now, before) in
            [("--api-balancer", now.api_balancer, self.api_balancer), ("--untainted", now.untainted, self.untainted)]
        {
            if now && !before {
                return Err(differs(flag, "not given"));
            }
        }
        if services_inside != self.services_inside {
            let before = if self.services_inside { "inside" } else { "outside" };
            return Err(differs("--services", before));
        }
        settings.kubernetes_version.clone_from(&self.kubernetes);
        settings.control_plane_endpoint.clone_from(&self.control_plane_endpoint);
        settings.apiserver_cert_sans.clone_from(&self.cert_sans);
        settings.pod_cidr.clone_from(&self.pod_cidr);
        settings.service_cidr.clone_from(&self.service_cidr);
        settings.api_balancer = self.api_balancer;
        settings.untainted = self.untainted;
        // Another release of this command may make another list of the same version: the machine has this one.
        settings.component_list = self.component_list.clone().into_bytes();
        Ok(())
    }
}

fn differs(flag: &str, before: &str) -> CommandError {
    let what = format!("{flag}: this cluster was begun with another value, {before}, and its first machine has it");
    CommandError::usage(what).fix("run it as at first, or leave the flag out")
}
