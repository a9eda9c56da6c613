//! The list of what is in a backup: its first file.

use std::collections::BTreeSet;

use latchkey_centre_site::{Service, services};
use serde::{Deserialize, Serialize};

use super::damaged;
use super::member::{Kept, Member};
use crate::error::CommandError;

/// Its name in the archive.
pub(super) const NAME: &str = "manifest.json";
/// The most bytes of it.
pub(super) const LARGEST: u64 = 32 << 20;
/// The most files of a backup.
pub(super) const MOST: usize = 100_000;
/// The version of this form.
const SCHEMA: u32 = 1;

/// What `manifest.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// The form of this file: 1.
    pub(super) schema: u32,
    /// The version of the program that wrote it.
    pub(super) version: String,
    /// When the first copy was begun: RFC 3339.
    pub(super) began: String,
    /// When the last copy was done.
    pub(super) ended: String,
    /// The centre's realm.
    pub(super) realm: String,
    /// Every other file, in the order in which they follow.
    pub(super) members: Vec<Listed>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listed {
    /// Its name in the archive.
    pub(super) name: String,
    /// Bytes.
    pub(super) size: u64,
    /// SHA-256, in hexadecimal.
    pub(super) sha256: String,
}

impl Manifest {
    pub(super) fn new(began: String, ended: String, realm: String, members: Vec<Listed>) -> Self {
        Self { schema: SCHEMA, version: env!("CARGO_PKG_VERSION").into(), began, ended, realm, members }
    }

    /// Reads one that anybody may have written.
    pub(super) fn parse(text: &[u8]) -> Result<Self, CommandError> {
        #[derive(Deserialize)]
        struct Form {
            schema: u32,
        }
        let unreadable = |error: serde_json::Error| damaged(format!("{NAME}: {error}"));
        let Form { schema } = serde_json::from_slice(text).map_err(unreadable)?;
        if schema != SCHEMA {
            return Err(damaged(format!("{NAME} has schema {schema}; this version of latchkey reads {SCHEMA}"))
                .fix("use the release that wrote it"));
        }
        serde_json::from_slice(text).map_err(unreadable)
    }

    /// The files that it lists, each known, within its bound, listed once, and none of those that a centre needs missing.
    pub(super) fn check(&self) -> Result<Vec<(Member, &Listed)>, CommandError> {
        if self.members.len() > MOST {
            return Err(damaged(format!("it has more than {MOST} files")));
        }
        let mut seen = BTreeSet::new();
        let mut members = Vec::new();
        for listed in &self.members {
            let shown = || listed.name.chars().take(100).collect::<String>().escape_debug().to_string();
            let Some(member) = Member::parse(&listed.name) else {
                return Err(damaged(format!("a centre has no file {}", shown())));
            };
            if listed.size > member.limit() {
                return Err(damaged(format!("{} has {} bytes; {} is the most", shown(), listed.size, member.limit())));
            }
            if !seen.insert(member.clone()) {
                return Err(damaged(format!("{} is in it twice", shown())));
            }
            members.push((member, listed));
        }
        // Centres of before had no enrol service; the first start makes what it needs.
        let has_enrol = seen.iter().any(Member::is_of_enrol);
        let is_missing = |member: &Member| !seen.contains(member) && (has_enrol || !member.is_of_enrol());
        let missing = needed().into_iter().find(is_missing);
        missing.map_or(Ok(members), |member| Err(damaged(format!("{} is missing", member.name()))))
    }

    /// Bytes of all files.
    pub(super) fn size(&self) -> u64 {
        self.members.iter().fold(0, |sum, listed| sum.saturating_add(listed.size))
    }
}

/// What every centre has.
pub(super) fn needed() -> Vec<Member> {
    let mut needed =
        vec![Member::Parameters, Member::Local, Member::SetUp, Member::KdcDump, Member::KdcStash, Member::EnrolRecords];
    needed.extend(Kept::ALL.map(Member::Data));
    let accounts = Service::ALL.map(Service::account).into_iter().chain([services::ROOT]);
    needed.extend(accounts.map(|account| Member::Secret(format!("{account}.password"))));
    needed.extend(
        ["http.keytab", "kdc-administrator.keytab", "enrol-service.key"].map(|name| Member::Secret(name.into())),
    );
    needed
}
