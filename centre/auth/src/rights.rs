//! Whether the caller may.
//!
//! What changes something is asked for with a witness: [`MayName`], [`MayUnname`], [`MayGrant`], [`MayRevoke`], [`MayLoad`]. Only
//! [`Rights`] makes one, of the caller's own access list, so no way around a check compiles.

use std::collections::BTreeMap;

use latchkey_factory_plus::grants::{Access, Grant, allows};
use latchkey_factory_plus::{ClusterName, Role, Upn, Uuid, uuids};

use crate::expand::{self, List};
use crate::objects::Objects;
use crate::realms::{ForeignRealm, Realms};

/// Why the caller may not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// Its list has no such line.
    #[error("this needs the permission {permission} for {target}")]
    Permission {
        /// What would allow it.
        permission: &'static str,
        /// What it is needed for.
        target: Uuid,
    },
    /// It holds nothing that would let it see any of this.
    #[error("this needs the permission {0}")]
    Any(&'static str),
    /// An edge names principals of its own cluster.
    #[error("the edge of the cluster {cluster} names principals */{cluster} and */{cluster}/* only, not {name}")]
    OtherCluster {
        /// The caller's cluster.
        cluster: ClusterName,
        /// What it wanted to be a name.
        name: Upn,
    },
    /// An edge names what it owns.
    #[error("an edge names the principals that it owns; {0} is another's")]
    NotOwn(Uuid),
    /// The caller looks like an edge's account, and no cluster can be called as its second part says.
    #[error("{0} is called like an edge's account, but there can be no cluster of that name: it names nobody")]
    NoCluster(Upn),
    /// The root principal is nobody's to give away.
    #[error("only the root principal gives its own name to a principal")]
    Root,
    /// Granting this would let the grantee grant what the caller may not.
    #[error("a grant of ManageACL needs ManageACL for its target, and for everything where the target is several")]
    Widens,
}

/// Which names a caller may give.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Names {
    All,
    Of(ClusterName),
    Nobodys,
}

/// What a caller may do here.
#[derive(Debug, Clone)]
pub struct Rights {
    caller: Upn,
    principal: Option<Uuid>,
    is_root: bool,
    names: Names,
    list: List,
}

/// Whose rights are how, from the configuration.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The realms of principals.
    pub realms: Realms,
    /// Who may do everything, if anybody.
    pub root: Option<Upn>,
    /// What principals may do here beside what is granted to them.
    pub fixed: BTreeMap<Upn, List>,
}

impl Rights {
    /// The rights of a caller whose name was proven, whose principal and access list these are (none and an empty one where nobody
    /// is called so); what the configuration gives it comes to that.
    pub fn of(rules: &Rules, caller: Upn, principal: Option<Uuid>, list: List) -> Self {
        let list = match rules.fixed.get(&caller) {
            Some(fixed) => list.iter().chain(fixed.iter()).copied().collect(),
            None => list,
        };
        let is_root = rules.root.as_ref() == Some(&caller);
        let names = names(rules, &caller);
        Self { caller, principal, is_root, names, list }
    }

    /// Who asks.
    pub fn caller(&self) -> &Upn {
        &self.caller
    }

    /// Its access list.
    pub fn list(&self) -> &List {
        &self.list
    }

    fn holds(&self, permission: Uuid, target: Uuid) -> bool {
        self.is_root || allows(&self.list, permission, target)
    }

    fn holds_some(&self, permission: Uuid) -> bool {
        self.is_root || self.list.iter().any(|line| line.permission == permission)
    }

    /// Whether it may read who this principal is.
    ///
    /// # Errors
    /// [`Forbidden::Permission`].
    pub fn reads_identity(&self, principal: Uuid) -> Result<(), Forbidden> {
        self.need("ReadKerberos", uuids::permission::READ_KERBEROS, principal)
    }

    /// Whether it may read who anybody is.
    ///
    /// # Errors
    /// [`Forbidden::Any`].
    pub fn reads_some_identity(&self) -> Result<(), Forbidden> {
        self.need_some("ReadKerberos", self.holds_some(uuids::permission::READ_KERBEROS))
    }

    /// Whether it may read who holds this permission, as lines of access lists.
    pub fn reads_list(&self, permission: Uuid) -> bool {
        self.holds(uuids::permission::READ_ACL, permission)
    }

    /// Whether it may read any line of access lists.
    ///
    /// # Errors
    /// [`Forbidden::Any`].
    pub fn reads_some_list(&self) -> Result<(), Forbidden> {
        self.need_some("ReadACL", self.holds_some(uuids::permission::READ_ACL))
    }

    /// Whether it may read grants of this permission.
    pub fn reads_grant(&self, permission: Uuid) -> bool {
        self.reads_list(permission) || self.holds(uuids::permission::MANAGE_ACL, permission)
    }

    /// Whether it may read any grants.
    ///
    /// # Errors
    /// [`Forbidden::Any`].
    pub fn reads_some_grant(&self) -> Result<(), Forbidden> {
        let some = [uuids::permission::READ_ACL, uuids::permission::MANAGE_ACL].map(|held| self.holds_some(held));
        self.need_some("ManageACL or ReadACL", some.contains(&true))
    }

    /// Whether it may name a principal so.
    ///
    /// It needs `ManageKerberos` for the principal: for all, for this one, or for what it owns when this one is its own. An edge's
    /// account (`op1krbkeys/CLUSTER` of our realm, say) names only `*/CLUSTER` and `*/CLUSTER/*`, and only what it owns or was
    /// granted by name, even where it was granted all: whoever names a principal of others is that principal from then on.
    ///
    /// # Errors
    /// [`Forbidden`], but [`Forbidden::Widens`] and [`Forbidden::Any`].
    pub fn name(&self, rules: &Rules, objects: &Objects, principal: Uuid, name: Upn) -> Result<MayName, Forbidden> {
        self.names_principal(objects, principal)?;
        self.check_name(rules, &name)?;
        Ok(MayName { principal, name })
    }

    /// Whether it may take a principal's name away, which is `name` now.
    ///
    /// # Errors
    /// Those of [`name`](Self::name).
    pub fn unname(
        &self,
        rules: &Rules,
        objects: &Objects,
        principal: Uuid,
        name: Option<&Upn>,
    ) -> Result<MayUnname, Forbidden> {
        self.names_principal(objects, principal)?;
        if let Some(name) = name {
            self.check_name(rules, name)?;
        }
        Ok(MayUnname { principal })
    }

    fn names_principal(&self, objects: &Objects, principal: Uuid) -> Result<(), Forbidden> {
        const HELD: Uuid = uuids::permission::MANAGE_KERBEROS;
        self.need("ManageKerberos", HELD, principal)?;
        let by_name = || self.list.contains(&Access { permission: HELD, target: principal });
        let own = || self.principal.is_some() && objects.owner(principal) == self.principal;
        if self.is_root || self.names == Names::All || by_name() || own() {
            Ok(())
        } else {
            Err(Forbidden::NotOwn(principal))
        }
    }

    fn check_name(&self, rules: &Rules, name: &Upn) -> Result<(), Forbidden> {
        if self.is_root {
            return Ok(());
        }
        if rules.root.as_ref() == Some(name) {
            return Err(Forbidden::Root);
        }
        match &self.names {
            Names::All => Ok(()),
            Names::Of(cluster) if is_of(rules, cluster, name) => Ok(()),
            Names::Of(cluster) => Err(Forbidden::OtherCluster { cluster: cluster.clone(), name: name.clone() }),
            Names::Nobodys => Err(Forbidden::NoCluster(self.caller.clone())),
        }
    }

    /// Whether it may make this grant.
    ///
    /// It needs `ManageACL` for the permission, exactly as the grant names it: a group itself, not each of its members, since
    /// more may join it. What lets the grantee grant (`ManageACL`, or a group that has it) needs `ManageACL` for the target, too:
    /// nobody grants, to itself or others, the granting of what it may not grant.
    ///
    /// # Errors
    /// [`Forbidden::Permission`], [`Forbidden::Widens`].
    pub fn grant(&self, objects: &Objects, grant: Grant) -> Result<MayGrant, Forbidden> {
        self.need("ManageACL", uuids::permission::MANAGE_ACL, grant.permission)?;
        let granting = |permission| permission == uuids::permission::MANAGE_ACL;
        if granting(grant.permission) || expand::permissions(objects, grant.permission).any(granting) {
            let several = grant.plural || [uuids::special::SELF, uuids::special::MINE].contains(&grant.target);
            let granted = if several { uuids::special::WILDCARD } else { grant.target };
            if !self.holds(uuids::permission::MANAGE_ACL, granted) {
                return Err(Forbidden::Widens);
            }
        }
        Ok(MayGrant { grant })
    }

    /// Whether it may end a grant, which is this.
    ///
    /// # Errors
    /// [`Forbidden::Permission`].
    pub fn revoke(&self, uuid: Uuid, grant: &Grant) -> Result<MayRevoke, Forbidden> {
        self.need("ManageACL", uuids::permission::MANAGE_ACL, grant.permission)?;
        Ok(MayRevoke { uuid })
    }

    /// Whether it may end any grants.
    ///
    /// # Errors
    /// [`Forbidden::Any`].
    pub fn writes_some_grant(&self) -> Result<(), Forbidden> {
        self.need_some("ManageACL", self.holds_some(uuids::permission::MANAGE_ACL))
    }

    /// Whether it may load dumps, which say anything about anybody: it needs `ManageKerberos` and `ManageACL` for everything.
    ///
    /// # Errors
    /// [`Forbidden::Permission`].
    pub fn load(&self) -> Result<MayLoad, Forbidden> {
        self.need("ManageKerberos", uuids::permission::MANAGE_KERBEROS, uuids::special::WILDCARD)?;
        self.need("ManageACL", uuids::permission::MANAGE_ACL, uuids::special::WILDCARD)?;
        match self.names {
            Names::All => Ok(MayLoad { as_root: self.is_root }),
            _ if self.is_root => Ok(MayLoad { as_root: true }),
            _ => Err(Forbidden::Any("ManageKerberos for names of no cluster")),
        }
    }

    fn need(&self, name: &'static str, permission: Uuid, target: Uuid) -> Result<(), Forbidden> {
        if self.holds(permission, target) { Ok(()) } else { Err(Forbidden::Permission { permission: name, target }) }
    }

    #[expect(clippy::unused_self, reason = "what it says is about the caller")]
    fn need_some(&self, name: &'static str, held: bool) -> Result<(), Forbidden> {
        if held { Ok(()) } else { Err(Forbidden::Any(name)) }
    }
}

/// Which names a caller of this name may give.
fn names(rules: &Rules, caller: &Upn) -> Names {
    let mut components = caller.components();
    if components.next().is_none_or(|account| Role::of_account(account).is_none()) {
        return Names::All;
    }
    match (components.next().map(str::parse::<ClusterName>), components.next()) {
        // The central operator's own account is called so.
        (None, _) if rules.realms.is_ours(caller) => Names::All,
        (Some(Ok(cluster)), None) if rules.realms.is_ours(caller) => Names::Of(cluster),
        _ => Names::Nobodys,
    }
}

/// Whether a name is `*/CLUSTER` or `*/CLUSTER/*` of our realm.
fn is_of(rules: &Rules, cluster: &ClusterName, name: &Upn) -> bool {
    let count = name.components().count();
    rules.realms.is_ours(name) && (2..=3).contains(&count) && name.components().nth(1) == Some(cluster.as_str())
}

/// A witness: the caller may call this principal so.
#[derive(Debug)]
pub struct MayName {
    principal: Uuid,
    name: Upn,
}

impl MayName {
    pub(crate) fn into_parts(self) -> (Uuid, Upn) {
        (self.principal, self.name)
    }
}

/// A witness: the caller may take this principal's name away.
#[derive(Debug)]
pub struct MayUnname {
    principal: Uuid,
}

impl MayUnname {
    /// Whose name.
    pub fn principal(&self) -> Uuid {
        self.principal
    }
}

/// A witness: the caller may make this grant.
#[derive(Debug)]
pub struct MayGrant {
    grant: Grant,
}

impl MayGrant {
    /// Which.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }
}

/// A witness: the caller may end this grant.
#[derive(Debug)]
pub struct MayRevoke {
    uuid: Uuid,
}

impl MayRevoke {
    /// Which.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }
}

/// A witness: the caller may load dumps.
#[derive(Debug)]
pub struct MayLoad {
    as_root: bool,
}

impl MayLoad {
    /// Checks a name of a dump: the root principal's is only its own to give.
    pub(crate) fn check(&self, rules: &Rules, name: &Upn) -> Result<(), NotLoaded> {
        rules.realms.check(name)?;
        if !self.as_root && rules.root.as_ref() == Some(name) { Err(NotLoaded::Root) } else { Ok(()) }
    }
}

/// Why a name of a dump is not loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotLoaded {
    /// Of another realm.
    #[error(transparent)]
    Realm(#[from] ForeignRealm),
    /// The root principal's.
    #[error("only the root principal gives its own name to a principal")]
    Root,
}
