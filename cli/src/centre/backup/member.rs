//! What can be in a backup. A name that is none of these has no place in a centre, so no archive chooses where a file goes.

use std::path::PathBuf;

use latchkey_centre_site::{Layout, Program, Service};
use latchkey_factory_plus::Uuid;

use super::registrations;

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Member {
    /// `centre.json`.
    Parameters,
    /// `local.json`.
    Local,
    /// `set-up.json`.
    SetUp,
    /// A password, keytab or key: the file's name.
    Secret(String),
    /// The centre's authority, and its key.
    Tls(Tls),
    /// What `kdb5_util dump` wrote.
    KdcDump,
    /// The KDC's master key.
    KdcStash,
    /// What a service keeps.
    Data(Kept),
    /// What the enrol service decided.
    EnrolRecords,
    /// A file of the enrol service's directory: its path below that.
    Registration(String),
    /// A bundle of a repository.
    Repository(Uuid),
    /// A repository without a branch.
    EmptyRepository(Uuid),
}

/// A file of the authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tls {
    Authority,
    AuthorityKey,
}

/// A service that keeps what a backup has. The cluster manager keeps bootstrap links only, which end with the centre that made
/// them, and the git server is in its repositories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kept {
    ConfigDb,
    Auth,
    Directory,
}

impl Kept {
    /// All, in the order in which they are copied.
    pub(super) const ALL: [Self; 3] = [Self::ConfigDb, Self::Auth, Self::Directory];

    pub(super) const fn program(self) -> Program {
        match self {
            Self::ConfigDb => Program::ConfigDb,
            Self::Auth => Program::Auth,
            Self::Directory => Program::Directory,
        }
    }
}

/// Bytes of a file of JSON.
const LARGEST_JSON: u64 = 1 << 20;
/// Bytes of a secret.
const LARGEST_SECRET: u64 = 64 << 10;
/// Bytes of the KDC's dump.
const LARGEST_DUMP: u64 = 4 << 30;
/// Bytes of what a service keeps, or of a repository.
const LARGEST: u64 = 64 << 30;
/// Characters of a secret's name.
const LONGEST_NAME: usize = 64;

impl Member {
    /// Its name in the archive.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Parameters => "centre.json".into(),
            Self::Local => "local.json".into(),
            Self::SetUp => "set-up.json".into(),
            Self::Secret(name) => format!("secrets/{name}"),
            Self::Tls(Tls::Authority) => "tls/authority.pem".into(),
            Self::Tls(Tls::AuthorityKey) => "tls/authority.key".into(),
            Self::KdcDump => "kdc/dump".into(),
            Self::KdcStash => "kdc/stash".into(),
            Self::Data(kept) => format!("{}/data", kept.program().name()),
            Self::EnrolRecords => "enrol-service/records".into(),
            Self::Registration(name) => format!("registration/{name}"),
            Self::Repository(uuid) => format!("git/{uuid}.bundle"),
            Self::EmptyRepository(uuid) => format!("git/{uuid}.empty"),
        }
    }

    /// Whether a centre has it for its enrol service.
    pub(super) fn is_of_enrol(&self) -> bool {
        match self {
            Self::EnrolRecords | Self::Registration(_) => true,
            Self::Secret(name) => name == "enrol-service.key" || name.starts_with(Service::Enrol.account()),
            _ => false,
        }
    }

    /// The one with this name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let fixed = [
            Self::Parameters,
            Self::Local,
            Self::SetUp,
            Self::Tls(Tls::Authority),
            Self::Tls(Tls::AuthorityKey),
            Self::KdcDump,
            Self::KdcStash,
            Self::EnrolRecords,
        ];
        if let Some(member) = fixed.into_iter().chain(Kept::ALL.map(Self::Data)).find(|member| member.name() == name) {
            return Some(member);
        }
        let member = match name.split_once('/')? {
            ("secrets", name) => Self::secret(name)?,
            ("registration", name) if registrations::is_file(name) => Self::Registration(name.into()),
            ("git", name) => match name.split_once('.')? {
                (uuid, "bundle") => Self::Repository(uuid.parse().ok()?),
                (uuid, "empty") => Self::EmptyRepository(uuid.parse().ok()?),
                _ => return None,
            },
            _ => return None,
        };
        // One name for one file: a UUID can be written in several ways.
        (member.name() == name).then_some(member)
    }

    /// A file in the directory of secrets.
    pub(super) fn secret(name: &str) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let known = [".password", ".keytab", ".key"].into_iter().any(|end| name.ends_with(end));
        let fits = name.len() <= LONGEST_NAME && !name.starts_with('.') && name.bytes().all(plain);
        (known && fits).then(|| Self::Secret(name.into()))
    }

    /// The most bytes that it may have.
    pub(super) const fn limit(&self) -> u64 {
        match self {
            Self::Parameters | Self::Local | Self::SetUp | Self::Registration(_) => LARGEST_JSON,
            Self::Secret(_) | Self::Tls(_) | Self::KdcStash => LARGEST_SECRET,
            Self::KdcDump => LARGEST_DUMP,
            Self::Data(_) | Self::EnrolRecords | Self::Repository(_) => LARGEST,
            Self::EmptyRepository(_) => 0,
        }
    }

    /// Where it stands in a centre; a dump, and a bundle, until it is read.
    pub(super) fn place(&self, layout: &Layout) -> PathBuf {
        match self {
            Self::Parameters => layout.parameters(),
            Self::Local => layout.local(),
            Self::SetUp => layout.set_up(),
            Self::Secret(name) => layout.secrets().join(name),
            Self::Tls(Tls::Authority) => layout.authority(),
            Self::Tls(Tls::AuthorityKey) => layout.tls().join("authority.key"),
            Self::KdcDump => layout.kdc().join("dump"),
            Self::KdcStash => layout.kdc_stash(),
            Self::Data(kept) => layout.data(kept.program()),
            Self::EnrolRecords => layout.registrations().join("records"),
            Self::Registration(name) => layout.registrations().join(name),
            Self::Repository(uuid) => layout.of(Program::GitServer).join(format!("{uuid}.bundle")),
            Self::EmptyRepository(uuid) => layout.of(Program::GitServer).join(format!("{uuid}.empty")),
        }
    }
}
