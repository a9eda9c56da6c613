//! A centre and a site of machines that found clusters of Kubernetes and register them there by themselves.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Centre;
use super::bootstrapped::NAMESPACE;
use super::flux::{self, StandIns};
use super::images::EdgeArchives;
use crate::error::{HarnessError, io_error};
use crate::fleet::{self, Fleet, MANIFEST, STEP, WAITS};
use crate::host_name::NAME;
use crate::kubernetes::{self, Site, definition};
use crate::machine::{HOST, Machine};
use crate::operator::ek;
use crate::publisher::signature;
use crate::vm::Vm;

/// What a node's console says while its cluster has no keys, before the reason.
pub const NOT_FINISHED: &str = "not finished yet: ";
/// What the operator's own Flux would define: group, version, kind, plural.
const OPERATORS_KINDS: [[&str; 4]; 2] = [
    ["source.toolkit.fluxcd.io", "v1", "GitRepository", "gitrepositories"],
    ["kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations"],
];
/// Where `latchkey init` keeps a cluster's records.
const STORE: &str = "directory";

/// Both of them.
#[derive(Debug)]
pub struct Registering {
    /// The centre, which runs.
    pub centre: Centre,
    /// The machines, which are off.
    pub site: Site,
    /// What the centre's operator is told when it has started: the page's address is in it.
    pub report: Value,
    words: String,
}

/// Whose Flux the clusters have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FluxFrom {
    /// That which the centre imported; its image, and that of Sealed Secrets, are in the machines' image, too.
    TheCentre,
    /// Clusters bring their own: [`Registering::define_flux`].
    TheOperator,
}

impl Registering {
    /// Compiles and makes what takes long the first time: before [`crate::host_name::again`], since in there nobody is root.
    pub fn prepare() -> Result<(), HarnessError> {
        fleet::prepare()?;
        kubernetes::prepare()
    }

    /// The same for [`Self::with_flux`].
    pub fn prepare_flux() -> Result<(), HarnessError> {
        Self::prepare()?;
        flux::prepare()
    }

    /// Starts the centre and builds the image, which has the container images of an edge's programs in it; the enrol service admits the
    /// image. Clusters bring their own Flux. `show`: with what the commands say that build it.
    pub fn prepared(name: &str, show: bool) -> Result<Self, HarnessError> {
        Self::with(name, FluxFrom::TheOperator, show)
    }

    /// The same for clusters that have their Flux and Sealed Secrets from the centre.
    pub fn with_flux(name: &str, show: bool) -> Result<Self, HarnessError> {
        Self::with(name, FluxFrom::TheCentre, show)
    }

    fn with(name: &str, flux: FluxFrom, show: bool) -> Result<Self, HarnessError> {
        let centre = Centre::prepared(&format!("{name}-centre"), false)?;
        let archives = EdgeArchives::build(&centre.run.file("images"))?;
        let mut centre = centre.with_host(NAME)?.with_images(archives.images.clone())?;
        let (report, _) = centre.start()?;
        let key = report["enrol_service"]["key"].as_str().unwrap_or_default();
        let port = centre.parameters.places.enrol_service.listen.port();
        let words = format!("latchkey.centre={HOST}:{port} latchkey.centre_key={key}");
        let mut container_images = archives.archives();
        if flux == FluxFrom::TheCentre {
            centre.import_charts()?;
            container_images.extend(flux::archives(&centre.run.file("images"))?);
        }
        let site = Site::with_edge(name, &words, container_images, show)?;
        let registering = Self { centre, site, report, words };
        registering.admit_the_image(flux)?;
        Ok(registering)
    }

    /// The enrol service's directory.
    fn directory(&self) -> &str {
        self.report["enrol_service"]["directory"].as_str().unwrap_or_default()
    }

    /// What the centre's operator gives the enrol service: policy, manifest, and whose Flux clusters have.
    fn admit_the_image(&self, flux: FluxFrom) -> Result<(), HarnessError> {
        let (directory, fleet) = (Path::new(self.directory()), &self.site.fleet);
        let copy = |from: &Path, to: &Path| std::fs::copy(from, to).map(drop).map_err(io_error("copy", from));
        let manifest = directory.join("references").join(format!("{MANIFEST}.json"));
        manifest.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(io_error("make", &manifest))?;
        let signed = PathBuf::from(fleet.path("reference.json"));
        copy(&signature(&signed), &signature(&manifest))?;
        copy(&signed, &manifest)?;
        copy(fleet.path("policy.json").as_ref(), &directory.join("policy.json"))?;
        let rules = directory.join("registration.json");
        let text = std::fs::read(&rules).map_err(io_error("read", &rules))?;
        let mut text: Value = serde_json::from_slice(&text)
            .map_err(|error| HarnessError::Unusable(format!("{}: {error}", rules.display())))?;
        text["bare"] = json!(flux == FluxFrom::TheOperator);
        std::fs::write(&rules, text.to_string()).map_err(io_error("write", &rules))
    }

    /// `latchkey cluster …` in the enrol service's directory, and what it reports.
    pub fn operator(&self, arguments: &[&str]) -> Result<Value, HarnessError> {
        let place = ["--directory", self.directory(), "--output", "json"];
        let done = self.site.fleet.cli(&[&["cluster"], arguments, &place].concat())?;
        Ok(done.success("cluster")?.json())
    }

    /// Makes an invitation for a cluster of this name, and says which file it is in.
    pub fn invite(&self, name: &str) -> Result<String, HarnessError> {
        let invitation = self.site.fleet.path(&format!("{name}.invitation"));
        self.operator(&["invite", name, "--to", &invitation])?;
        Ok(invitation)
    }

    /// `latchkey init` of a machine that waits for it. Its cluster knows this machine by name then, as a site's would.
    pub fn found(&self, node: &Vm, invitation: Option<&str>) -> Result<(), HarnessError> {
        node.expect(WAITS, STEP)?;
        // The cluster is one machine.
        let words = ["--untainted", "--invitation", invitation.unwrap_or_default()];
        let words = if invitation.is_some() { &words[..] } else { &words[..1] };
        self.site.init_with(node, STORE, words)?;
        self.site.names_host(NAME)
    }

    /// The same for a stranger's machine, by the stranger.
    pub fn founded_by_stranger(&self, node: &Vm, invitation: &str) -> Result<(), HarnessError> {
        node.expect(WAITS, STEP)?;
        self.site.init_in("stranger-cluster", node, STORE, &["--invitation", invitation]).map(drop)
    }

    /// Lets a machine's cluster in that is held, under this name.
    pub fn admit(&self, node: &Vm, name: &str) -> Result<(), HarnessError> {
        self.operator(&["admit", &ek(node), "--name", name]).map(drop)
    }

    /// A machine with an image that its own operator signed, and which the centre knows nothing of: its command line is another one.
    /// Its operator's commands trust it from now on. It has the place of the first machine in the network, which must be off.
    pub fn stranger(&self) -> Result<Machine, HarnessError> {
        let fleet: &Fleet = &self.site.fleet;
        let image = self.site.other_image("stranger", &format!("{} latchkey.log=debug", self.words))?;
        fleet.release(&image.values)?;
        self.site.control_plane_of("stranger", 1, &image)
    }

    /// What works beside the kustomize-controller of a cluster.
    pub fn stand_ins(&self) -> Result<StandIns, HarnessError> {
        let place = self.centre.run.subdirectory("flux")?;
        StandIns::new(self.site.kubectl(), NAMESPACE, HOST, &place)
    }

    /// The operator's own Flux comes: as far as what it defines, without the fields.
    pub fn define_flux(&self) -> Result<(), HarnessError> {
        self.site.apply("flux.json", &OPERATORS_KINDS.map(definition))
    }

    /// What a Secret of the edge has under this key.
    pub fn secret(&self, name: &str, key: &str) -> Result<Vec<u8>, HarnessError> {
        let path = format!("jsonpath={{.data.{key}}}");
        let shown = self.site.ask(&["--namespace", NAMESPACE, "get", "secret", name, "--output", &path])?;
        STANDARD.decode(shown.trim()).map_err(|error| HarnessError::Unusable(format!("{name}: {error}")))
    }
}
