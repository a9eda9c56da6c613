//! Where an image, or its values, come from: an in-toto Statement v1 with a SLSA provenance v1 predicate, both closed.
//!
//! Field names and meanings are those of <https://in-toto.io/Statement/v1> and <https://slsa.dev/provenance/v1>; every
//! statement that is read here is valid there. Optional fields that Latchkey never writes are refused. For people and
//! audits: nothing is decided by a provenance but that it is of this image.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::malformed;
use super::time::{format_rfc3339, parse_rfc3339};
use crate::parse::{Digest, ImageVersion};
use crate::refusal::Refusal;

/// The build type of images built by `latchkey image build`.
pub const BUILT: &str = "urn:latchkey:build:image:v1";
/// The build type of values recorded from a machine whose boot somebody vouched for.
pub const RECORDED: &str = "urn:latchkey:build:recording:v1";
/// The builder: this project's programs. Their version stands beside it.
pub const BUILDER: &str = "urn:latchkey:builder:v1";

/// What this project's programs are called among the builder's components.
const PROGRAM: &str = "latchkey";

/// A statement about one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    #[serde(rename = "_type")]
    statement: StatementType,
    subject: Vec<Artefact>,
    #[serde(rename = "predicateType")]
    predicate_type: PredicateType,
    predicate: Predicate,
}

/// What a provenance is made from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// A URI that says what was done: [`BUILT`] or [`RECORDED`].
    pub build_type: String,
    /// What came out, by file name: 1 to 16.
    pub products: BTreeMap<String, Digest>,
    /// What it was made from, by file name: at most 512.
    pub sources: BTreeMap<String, Digest>,
    /// The caller's words of the image's kernel command line.
    pub command_line: Option<String>,
    /// More of what the caller asked for; at most 32.
    pub options: BTreeMap<String, String>,
    /// What the builder found out and the output depends on; at most 32.
    pub facts: BTreeMap<String, String>,
    /// Programs that worked for the builder, with their versions; at most 16.
    pub tools: BTreeMap<String, String>,
    /// Program, version and place, such as `latchkey 0.1.0`.
    pub by: String,
    /// One run of the builder, where it has a name.
    pub invocation: Option<String>,
    /// When it began, seconds since the Unix epoch. Absent where the output must not depend on it.
    pub at: Option<u64>,
}

impl Provenance {
    /// The statement. Checked when its image becomes part of a manifest.
    pub fn new(image: &str, version: ImageVersion, origin: Origin) -> Self {
        let artefacts = |files: BTreeMap<String, Digest>| {
            files.into_iter().map(|(name, sha256)| Artefact { name, digest: Digests { sha256 } }).collect()
        };
        let parameters =
            Parameters { image: image.to_owned(), version, command_line: origin.command_line, options: origin.options };
        let mut version = origin.tools;
        version.insert(PROGRAM.to_owned(), origin.by);
        let started_on = origin.at.map(format_rfc3339);
        let metadata = (origin.invocation.is_some() || started_on.is_some())
            .then_some(Metadata { invocation_id: origin.invocation, started_on });
        let predicate = Predicate {
            build_definition: BuildDefinition {
                build_type: origin.build_type,
                external_parameters: parameters,
                internal_parameters: origin.facts,
                resolved_dependencies: artefacts(origin.sources),
            },
            run_details: RunDetails { builder: Builder { id: BUILDER.to_owned(), version }, metadata },
        };
        Self {
            statement: StatementType::V1,
            subject: artefacts(origin.products),
            predicate_type: PredicateType::SlsaV1,
            predicate,
        }
    }

    /// What was made, with hashes.
    pub fn products(&self) -> &[Artefact] {
        &self.subject
    }

    /// What it was made from, with hashes.
    pub fn sources(&self) -> &[Artefact] {
        &self.predicate.build_definition.resolved_dependencies
    }

    /// The URI that says what was done.
    pub fn build_type(&self) -> &str {
        &self.predicate.build_definition.build_type
    }

    /// The words of the image's kernel command line that its maker asked for, where it is said.
    pub fn command_line(&self) -> Option<&str> {
        self.predicate.build_definition.external_parameters.command_line.as_deref()
    }

    /// Program, version and place, as the maker said.
    pub fn by(&self) -> &str {
        let Builder { id, version } = &self.predicate.run_details.builder;
        version.get(PROGRAM).or_else(|| version.values().next()).unwrap_or(id)
    }

    /// What else its maker asked for, the builder found out, and which programs worked for it: by name.
    pub fn circumstances(&self) -> impl Iterator<Item = (&str, &str)> {
        let Predicate { build_definition: build, run_details: run } = &self.predicate;
        let tools = run.builder.version.iter().filter(|(name, _)| *name != PROGRAM);
        let all = build.external_parameters.options.iter().chain(&build.internal_parameters).chain(tools);
        all.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// When it began, RFC 3339 in UTC, as the maker said.
    pub fn at(&self) -> Option<&str> {
        self.predicate.run_details.metadata.as_ref()?.started_on.as_deref()
    }

    pub(super) fn check(&self, image: &str, version: ImageVersion) -> Result<(), Refusal> {
        let Predicate { build_definition: build, run_details: run } = &self.predicate;
        let label = format!("image {image} {version}");
        let wrong = |detail: &str| Err(malformed(format!("{label}: `provenance`: {detail}")));
        let parameters = &build.external_parameters;
        if parameters.image != image || parameters.version != version {
            return wrong(&format!("is of {} {}", parameters.image, parameters.version));
        }
        if !(1..=MAX_PRODUCTS).contains(&self.subject.len()) {
            return wrong(&format!("{} subjects, expected 1 to {MAX_PRODUCTS}", self.subject.len()));
        }
        let (options, facts) = (&parameters.options, &build.internal_parameters);
        if build.resolved_dependencies.len() > MAX_SOURCES || options.len().max(facts.len()) > MAX_OPTIONS {
            return wrong(&format!("more than {MAX_SOURCES} sources or {MAX_OPTIONS} options or internal parameters"));
        }
        if ![&build.build_type, &run.builder.id].into_iter().all(|uri| is_uri(uri)) {
            return wrong("`buildType` and `builder.id` must be URIs");
        }
        let metadata = run.metadata.as_ref();
        if metadata.and_then(|metadata| metadata.started_on.as_ref()).is_some_and(|at| parse_rfc3339(at).is_none()) {
            return wrong("`startedOn` must be of the form 2026-01-31T23:59:59Z");
        }
        if run.builder.version.len() > MAX_TOOLS || self.texts().any(|text| text.is_empty() || text.len() > MAX_TEXT) {
            return wrong(&format!(
                "more than {MAX_TOOLS} programs, or a text is empty or longer than {MAX_TEXT} bytes"
            ));
        }
        let long = parameters.command_line.iter().chain(options.values()).chain(facts.values());
        if long.into_iter().any(|text| text.len() > MAX_LONG_TEXT) {
            return wrong(&format!("`commandLine`, an option or a parameter is longer than {MAX_LONG_TEXT} bytes"));
        }
        Ok(())
    }

    /// Texts of which each has the same bound.
    fn texts(&self) -> impl Iterator<Item = &String> {
        let Predicate { build_definition: build, run_details: run } = &self.predicate;
        let artefacts = self.subject.iter().chain(&build.resolved_dependencies).map(|artefact| &artefact.name);
        let invocation = run.metadata.as_ref().and_then(|metadata| metadata.invocation_id.as_ref());
        let version = run.builder.version.iter().flat_map(|(name, version)| [name, version]);
        let options = build.external_parameters.options.keys().chain(build.internal_parameters.keys());
        artefacts.chain(invocation).chain(version).chain(options)
    }
}

/// A file and its hash: in-toto's resource descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artefact {
    /// Its name, 1 to 256 bytes.
    pub name: String,
    /// Its hash.
    pub digest: Digests,
}

/// in-toto's digest set, of which SHA-256 is all there is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digests {
    /// SHA-256.
    pub sha256: Digest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum StatementType {
    #[serde(rename = "https://in-toto.io/Statement/v1")]
    V1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum PredicateType {
    #[serde(rename = "https://slsa.dev/provenance/v1")]
    SlsaV1,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Predicate {
    build_definition: BuildDefinition,
    run_details: RunDetails,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct BuildDefinition {
    build_type: String,
    external_parameters: Parameters,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    internal_parameters: BTreeMap<String, String>,
    #[serde(default)]
    resolved_dependencies: Vec<Artefact>,
}

/// SLSA leaves these to the build type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Parameters {
    image: String,
    version: ImageVersion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command_line: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    options: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RunDetails {
    builder: Builder,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Builder {
    id: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    version: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Metadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    invocation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started_on: Option<String>,
}

/// RFC 3986, section 3: a scheme, a colon, and no character that a URI cannot have.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let schematic = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let allowed = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}');
    text.len() <= MAX_TEXT
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(schematic)
        && !rest.is_empty()
        && rest.chars().all(allowed)
}

const MAX_PRODUCTS: usize = 16;
/// Each kernel module of an image is one.
const MAX_SOURCES: usize = 512;
const MAX_OPTIONS: usize = 32;
const MAX_TOOLS: usize = 16;
const MAX_TEXT: usize = 256;
/// The kernel's command line: `COMMAND_LINE_SIZE` is 2048 on x86.
const MAX_LONG_TEXT: usize = 4096;
