//! The static pods of a control plane, as kubeadm wrote them onto the state disk: which images they name.
//!
//! The images come with the root, and a root of another release has others. Then the tags are replaced before the kubelet starts; all
//! else of the files stays as it is, byte for byte, and kubeadm writes them anew afterwards if its new version has more to change.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::release::Release;
use super::{StepCode, StepError, files};

const PODS: [&str; 4] = ["etcd", "kube-controller-manager", "kube-scheduler", API_SERVER];
const API_SERVER: &str = "kube-apiserver";
/// The annotation that says when the certificates end with which a pod was started.
const UNTIL: &str = "latchkey.dev/certificates-until:";
/// kubeadm's have 4 KiB.
const MAX_BYTES: usize = 256 * 1024;

/// The manifests below kubeadm's directory.
pub(super) struct StaticPods<'a> {
    kubernetes: &'a Path,
}

impl<'a> StaticPods<'a> {
    pub(super) fn below(kubernetes: &'a Path) -> Self {
        Self { kubernetes }
    }

    /// The image of the API server; none where no API server is to run.
    pub(super) fn api_server(&self) -> Result<Option<String>, StepError> {
        let path = self.path(API_SERVER);
        let Some(text) = read(&path)? else { return Ok(None) };
        Ok(text.get(image(&path, &text, API_SERVER)?).map(str::to_owned))
    }

    /// What release the API server has.
    pub(super) fn release(&self) -> Result<Option<Release>, StepError> {
        let Some(image) = self.api_server()? else { return Ok(None) };
        let tag = image.rsplit_once(':').and_then(|(_, tag)| Release::parse(tag));
        tag.map(Some).ok_or_else(|| foreign(&self.path(API_SERVER), "the API server's image has no release as its tag"))
    }

    /// Gives the pods the tags that `images` has, the images of a release as kubeadm lists them. Nothing is written if one of them is
    /// not kubeadm's; `begin` comes before the first file. Each is the old one or the new one at every moment, all of them are not.
    pub(super) fn take_tags_of(
        &self,
        images: &str,
        begin: impl FnOnce() -> Result<(), StepError>,
    ) -> Result<(), StepError> {
        let mut changed = Vec::new();
        for name in PODS {
            let path = self.path(name);
            let Some(mut text) = read(&path)? else { continue };
            let mut tags = images.lines().filter_map(|line| tag_of(line.trim(), name));
            let tag = tags.next_back().ok_or_else(|| {
                StepError::new(StepCode::Output, format!("kubeadm lists no image of {name} for its release"))
            })?;
            let place = image(&path, &text, name)?;
            let old = text.get(place.clone()).unwrap_or_default();
            let repository = old.rsplit_once(':').map_or(old, |(repository, _)| repository);
            let new = format!("{repository}:{tag}");
            if new != old {
                text.replace_range(place, &new);
                changed.push((path, text));
            }
        }
        begin()?;
        write(&changed)
    }

    /// Has the kubelet restart the pods, by an annotation that says when the certificates end that they are to read: what it restarts
    /// is what changed. Nothing is written if one of them is not kubeadm's; those that say so already stay as they are.
    pub(super) fn restart_with_certificates_until(&self, end: &str) -> Result<(), StepError> {
        let mut changed = Vec::new();
        for name in PODS {
            let path = self.path(name);
            let Some(text) = read(&path)? else { continue };
            let new = annotated(&text, end).ok_or_else(|| foreign(&path, "it has no metadata where kubeadm has it"))?;
            if new != text {
                changed.push((path, new));
            }
        }
        write(&changed)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.kubernetes.join("manifests").join(format!("{name}.yaml"))
    }
}

fn write(changed: &[(PathBuf, String)]) -> Result<(), StepError> {
    changed.iter().try_for_each(|(path, text)| files::write(path, text.as_bytes()))
}

fn read(path: &Path) -> Result<Option<String>, StepError> {
    // Not `exists`: what cannot be looked at is an error, and nothing that is missing.
    if !path.try_exists().map_err(|error| files::error(path, &error))? {
        return Ok(None);
    }
    let bytes = files::read(path, MAX_BYTES)?;
    let text = std::str::from_utf8(bytes.expose()).map_err(|_| foreign(path, "it is no text"))?;
    Ok(Some(text.to_owned()))
}

/// The manifest with the annotation in it, once; nothing if its metadata is not as kubeadm writes it.
fn annotated(text: &str, end: &str) -> Option<String> {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with(UNTIL)).collect();
    let metadata = lines.iter().position(|line| *line == "metadata:")? + 1;
    let inside = lines.get(metadata..)?.iter().take_while(|line| line.starts_with(' '));
    let annotations = inside.clone().position(|line| *line == "  annotations:");
    // Written in another way, it would be there twice.
    if annotations.is_none() && inside.clone().any(|line| line.trim_start().starts_with("annotations:")) {
        return None;
    }
    let annotation = format!("    {UNTIL} {end:?}");
    match annotations {
        Some(place) => lines.insert(metadata + place + 1, &annotation),
        None => _ = lines.splice(metadata..metadata, ["  annotations:", &annotation]),
    }
    Some(lines.join("\n") + "\n")
}

/// The tag of an image that is called so, whatever repository it is in.
fn tag_of<'a>(image: &'a str, name: &str) -> Option<&'a str> {
    let (repository, tag) = image.rsplit_once(':')?;
    (repository.rsplit('/').next() == Some(name) && !tag.contains(['/', '@'])).then_some(tag)
}

/// Where a manifest names the image of its component. A pod may have other containers; this one it has once.
fn image(path: &Path, text: &str, name: &str) -> Result<Range<usize>, StepError> {
    let mut places = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let field = line.trim_start().trim_start_matches("- ").trim_start();
        if let Some(value) = field.strip_prefix("image:") {
            let value = value.trim().trim_matches(['"', '\'']);
            let begin = at + line.find(value).unwrap_or_default();
            if value.contains('@') && value.split('@').next().is_some_and(|image| is_called(image, name)) {
                return Err(foreign(path, "it names its image by a digest"));
            }
            if tag_of(value, name).is_some() {
                places.push(begin..begin + value.len());
            }
        }
        at += line.len();
    }
    match &places[..] {
        [place] => Ok(place.clone()),
        [] => Err(foreign(path, &format!("it names no image {name} with a tag"))),
        _ => Err(foreign(path, &format!("it names an image {name} more than once"))),
    }
}

fn is_called(image: &str, name: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split(':').next() == Some(name)
}

fn foreign(path: &Path, why: &str) -> StepError {
    StepError::new(StepCode::StaticPodForeign, format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "spec:\n  containers:\n  - command: [etcd, --x=image: etcd:1]\n    image: registry.example:5000/k8s/etcd:3.6.5-0\n    imagePullPolicy: IfNotPresent\n  - image: \"sidecar:1\"\n";

    fn places(text: &str) -> Result<&str, String> {
        image(Path::new("etcd.yaml"), text, "etcd")
            .map(|place| text.get(place).unwrap())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_image_of_the_component_is_found_among_others() {
        assert_eq!(places(POD).unwrap(), "registry.example:5000/k8s/etcd:3.6.5-0");
        assert_eq!(places("  - image: 'etcd:1'\r\n").unwrap(), "etcd:1");
    }

    #[test]
    fn what_kubeadm_does_not_write_is_not_changed() {
        for (text, why) in [
            ("image: registry.k8s.io/etcd@sha256:00\n", "digest"),
            ("image: registry.k8s.io/etcd:1@sha256:00\n", "digest"),
            ("image: registry.k8s.io/other:1\n", "no image etcd"),
            ("image: registry.example:5000/etcd\n", "no image etcd"),
            ("image: etcd:1\nimage: x/etcd:1\n", "more than once"),
            ("", "no image etcd"),
        ] {
            assert!(places(text).unwrap_err().contains(why), "{text}");
        }
    }
}
