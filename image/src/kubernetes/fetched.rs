//! An image without Kubernetes in it: the program that gets the components, and what runs them where they are then.

use latchkey_initramfs::executable::check_static;
use latchkey_kubernetes::Sha256;

use super::error::KubernetesError;
use crate::image::Source;
use crate::systemd::{Addition, AdditionKind};

/// What leads to the programs, in memory: made in each boot when they are verified (`services/components`).
pub(super) const PLACE: &str = "/run/latchkey-components";
/// Where they lie, on the state disk.
pub(super) const STORE: &str = "/var/lib/latchkey/components";
const NAME: &str = "latchkey-components";
const IMAGES: &str = include_str!("../../kubernetes/component-images");
const IMAGES_UNIT: &str = include_str!("../../kubernetes/latchkey-component-images.service");
const CONTAINERD_DROP_IN: &str = include_str!("../../kubernetes/containerd-components.conf");
const KUBELET_DROP_IN: &str = include_str!("../../kubernetes/kubelet-components.conf");

/// The program that gets the components.
#[derive(Debug, Clone)]
pub(super) struct Fetcher(pub(super) Source);

impl Fetcher {
    /// Whether it needs nothing that a root may lack.
    pub(super) fn check(&self) -> Result<(), KubernetesError> {
        let program = self.0.read().map_err(Box::new)?;
        check_static(&program).map_err(|error| KubernetesError::Service(NAME, error))
    }

    /// What it is, and what it hashes to.
    pub(super) fn source(&self) -> Result<(String, Sha256), KubernetesError> {
        Ok((NAME.to_owned(), Sha256::of(&self.0.read().map_err(Box::new)?)))
    }

    /// The program, and what gives the container images that it gets to the container runtime. `pause` is the image that this has for
    /// the name spaces of pods.
    pub(super) fn additions(&self, pause: &str) -> Result<Vec<Addition>, KubernetesError> {
        let program = self.0.read().map_err(Box::new)?.into_owned();
        let file = |path: String, mode, content: Vec<u8>| Addition { path, what: AdditionKind::File(mode, content) };
        let unit = |path: &str, text: &str| file(format!("usr/lib/systemd/system/{path}"), 0o644, text.into());
        Ok(vec![
            file(format!("usr/bin/{NAME}"), 0o755, program),
            file("usr/lib/latchkey/component-images".into(), 0o755, IMAGES.replace("@PAUSE@", pause).into_bytes()),
            unit("latchkey-component-images.service", IMAGES_UNIT),
            unit("containerd.service.d/70-latchkey-components.conf", CONTAINERD_DROP_IN),
            unit("kubelet.service.d/70-latchkey-components.conf", KUBELET_DROP_IN),
        ])
    }
}
