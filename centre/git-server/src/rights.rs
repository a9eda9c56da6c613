//! What a request needs, and the witness that its caller holds it.

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::grants::{Access, allows};
use latchkey_factory_plus::uuids::{permission, special};

use crate::entries::Entries;
use crate::paths::{Repository, Service, Step};

/// Who asks, and what the authorisation service says of them.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The name that they are counted and logged by.
    pub name: &'a str,
    /// Whether every check is passed: the root principal.
    pub root: bool,
    /// Their access control list.
    pub list: &'a [Access],
}

/// A step of git's protocol that its caller has the right to. Only [`authorise`] makes one.
#[derive(Debug, Clone)]
pub struct Authorised {
    repository: Uuid,
    service: Service,
    step: Step,
    caller: String,
}

/// That a caller may see and delete the repositories on disk. Only [`manage_storage`] makes one.
#[derive(Debug, Clone, Copy)]
pub struct StorageManager(());

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no repository of the name, or the caller may not know of it; with a right to a UUID, there is no entry of it.
    #[error(
        "there is no such repository, or you have no right to it; its entry of Git repository configuration makes one"
    )]
    NotFound,
    /// The caller lacks a right to this UUID.
    #[error("you need the permission {0} for this repository; an administrator grants it")]
    Forbidden(Need),
}

/// A permission, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Clone and fetch.
    Pull,
    /// Push.
    Push,
    /// Storage.
    ManageStorage,
}

impl Need {
    /// What a service needs, whichever step it is.
    pub const fn of(service: Service) -> Self {
        match service {
            Service::UploadPack => Self::Pull,
            Service::ReceivePack => Self::Push,
        }
    }

    /// The permission's UUID.
    pub const fn permission(self) -> Uuid {
        match self {
            Self::Pull => permission::GIT_PULL,
            Self::Push => permission::GIT_PUSH,
            Self::ManageStorage => permission::GIT_MANAGE_STORAGE,
        }
    }
}

impl std::fmt::Display for Need {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pull => "Git Pull",
            Self::Push => "Git Push",
            Self::ManageStorage => "Git Manage storage",
        })
    }
}

impl Caller<'_> {
    fn may(&self, need: Need, target: Uuid) -> bool {
        self.root || allows(self.list, need.permission(), target)
    }

    /// Whether they may see a repository's branches.
    pub fn sees(&self, repository: Uuid) -> bool {
        self.may(Need::Pull, repository)
    }
}

/// The witness for a step. Who has no right to a UUID learns nothing of it, and who has none to a name not even that it is one.
///
/// # Errors
/// [`Refused`].
pub fn authorise(
    caller: Caller<'_>,
    entries: &Entries,
    repository: &Repository,
    service: Service,
    step: Step,
) -> Result<Authorised, Refused> {
    let need = Need::of(service);
    let uuid = entries.resolve(repository).ok_or(Refused::NotFound)?;
    match (caller.may(need, uuid), repository) {
        (true, _) if entries.has(uuid) => {
            Ok(Authorised { repository: uuid, service, step, caller: caller.name.to_owned() })
        }
        (true, _) | (false, Repository::Name(_)) => Err(Refused::NotFound),
        (false, Repository::Uuid(_)) => Err(Refused::Forbidden(need)),
    }
}

/// The right to see where the branches of a repository stand.
///
/// # Errors
/// [`Refused`].
pub fn see(caller: Caller<'_>, entries: &Entries, repository: Uuid) -> Result<(), Refused> {
    if !caller.sees(repository) {
        return Err(Refused::Forbidden(Need::Pull));
    }
    if entries.has(repository) { Ok(()) } else { Err(Refused::NotFound) }
}

/// The witness for storage: held for everything, since what is on disk may belong to nobody any more.
///
/// # Errors
/// [`Refused::Forbidden`].
pub fn manage_storage(caller: Caller<'_>) -> Result<StorageManager, Refused> {
    let held = caller.may(Need::ManageStorage, special::WILDCARD);
    if held { Ok(StorageManager(())) } else { Err(Refused::Forbidden(Need::ManageStorage)) }
}

impl Authorised {
    /// Of which repository.
    pub const fn repository(&self) -> Uuid {
        self.repository
    }

    /// Of which service.
    pub const fn service(&self) -> Service {
        self.service
    }

    /// Which step.
    pub const fn step(&self) -> Step {
        self.step
    }

    /// For whom.
    pub fn caller(&self) -> &str {
        &self.caller
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: Uuid = Uuid::constant("aaaaaaaa-0000-4000-8000-000000000000");
    const B: Uuid = Uuid::constant("bbbbbbbb-0000-4000-8000-000000000000");
    const GONE: Uuid = Uuid::constant("cccccccc-0000-4000-8000-000000000000");

    fn entries() -> Entries {
        Entries::new([(A, &json!({"path": "cluster/A"})), (B, &json!({"path": "cluster/B"}))])
    }

    fn ask(list: &[Access], repository: &Repository, service: Service) -> Result<Uuid, Refused> {
        let answers = [Step::Advertise, Step::Exchange].map(|step| {
            let caller = Caller { name: "op1flux/A", root: false, list };
            authorise(caller, &entries(), repository, service, step).map(|witness| witness.repository())
        });
        assert_eq!(answers[0], answers[1], "both steps need the same");
        answers[0]
    }

    fn name(name: &str) -> Repository {
        Repository::Name(name.into())
    }

    #[test]
    fn pull_and_push_are_held_apart_and_for_one_repository() {
        let list = [Access { permission: permission::GIT_PULL, target: A }];
        assert_eq!(ask(&list, &Repository::Uuid(A), Service::UploadPack), Ok(A));
        assert_eq!(ask(&list, &name("cluster/A"), Service::UploadPack), Ok(A));
        let push = Refused::Forbidden(Need::Push);
        assert_eq!(ask(&list, &Repository::Uuid(A), Service::ReceivePack), Err(push));
        assert_eq!(ask(&list, &Repository::Uuid(B), Service::UploadPack), Err(Refused::Forbidden(Need::Pull)));
        let list = [Access { permission: permission::GIT_PUSH, target: special::WILDCARD }];
        assert_eq!(ask(&list, &Repository::Uuid(B), Service::ReceivePack), Ok(B));
        assert_eq!(ask(&list, &Repository::Uuid(B), Service::UploadPack), Err(Refused::Forbidden(Need::Pull)));
    }

    #[test]
    fn who_has_no_right_cannot_tell_what_there_is() {
        assert_eq!(
            ask(&[], &name("cluster/A"), Service::UploadPack),
            ask(&[], &name("cluster/none"), Service::UploadPack)
        );
        assert_eq!(
            ask(&[], &Repository::Uuid(A), Service::UploadPack),
            ask(&[], &Repository::Uuid(GONE), Service::UploadPack)
        );
        let all = [Access { permission: permission::GIT_PULL, target: special::WILDCARD }];
        assert_eq!(ask(&all, &Repository::Uuid(GONE), Service::UploadPack), Err(Refused::NotFound));
    }

    #[test]
    fn storage_is_managed_by_who_holds_it_for_everything() {
        let caller = |list| manage_storage(Caller { name: "x", root: false, list }).is_ok();
        assert!(!caller(&[Access { permission: permission::GIT_MANAGE_STORAGE, target: A }]));
        assert!(!caller(&[Access { permission: permission::GIT_PUSH, target: special::WILDCARD }]));
        assert!(caller(&[Access { permission: permission::GIT_MANAGE_STORAGE, target: special::WILDCARD }]));
        assert!(manage_storage(Caller { name: "root", root: true, list: &[] }).is_ok());
    }
}
