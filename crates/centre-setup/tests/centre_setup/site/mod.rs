//! A site, and what its dumps mean: classes, memberships and access lists, worked out here on their own.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test binary uses its part")]

use std::collections::{BTreeMap, BTreeSet};

use latchkey_centre_setup::{Local, Setup, Site};
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::uuids::{application, class, special};
use latchkey_factory_plus::{Uuid, uuids};
use serde_json::json;

/// What every database has before anything is loaded.
pub const BUILT_IN: [Uuid; 9] = [
    class::RANK_3,
    class::RANK_2,
    class::RANK_1,
    class::INDIVIDUAL,
    application::REGISTRATION,
    application::CONFIG_SCHEMA,
    application::WRITE_SCOPE,
    special::WILDCARD,
    special::UNOWNED,
];

pub const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n";

pub fn site() -> Site {
    serde_json::from_value(json!({
        "realm": "EXAMPLE.ORG", "domain": "example.org", "authority": AUTHORITY, "prefix": "ACME", "administrator": "admin",
        "urls": {
            "directory": "https://directory.example.org", "config_db": "https://configdb.example.org",
            "auth": "https://auth.example.org", "git": "https://git.example.org",
            "cluster_manager": "https://clusters.example.org", "mqtt": "mqtts://mqtt.example.org:8883",
        },
    }))
    .unwrap()
}

pub fn setup() -> (Setup, Local) {
    let local = Local::new();
    (Setup::new(&site(), &local).unwrap(), local)
}

/// A loaded centre, to which more is added as its programs would.
pub struct Centre {
    members: BTreeMap<Uuid, BTreeSet<Uuid>>,
    superclasses: BTreeMap<Uuid, BTreeSet<Uuid>>,
    owners: BTreeMap<Uuid, Uuid>,
    grants: Vec<(Uuid, Uuid, Uuid, bool)>,
}

impl Centre {
    pub fn load(setup: &Setup) -> Self {
        let mut centre = Self {
            members: BTreeMap::new(),
            superclasses: BTreeMap::new(),
            owners: BTreeMap::new(),
            grants: Vec::new(),
        };
        for (primary, objects) in &setup.config_db.objects {
            for (object, about) in objects {
                for class in about.member_of.clone().unwrap_or_else(|| vec![*primary]) {
                    centre.join(class, *object);
                }
                centre.superclasses.entry(*object).or_default().extend(about.subclass_of.iter().flatten());
            }
        }
        for (principal, permissions) in &setup.auth.grants {
            for (permission, targets) in permissions {
                match targets {
                    None => centre.grant(*principal, *permission, special::WILDCARD, false),
                    Some(targets) => {
                        for (target, plural) in targets {
                            centre.grant(*principal, *permission, *target, *plural);
                        }
                    }
                }
            }
        }
        centre
    }

    pub fn create(&mut self, class: Uuid, owner: Uuid) -> Uuid {
        let object = Uuid::random();
        self.join(class, object);
        self.owners.insert(object, owner);
        object
    }

    pub fn join(&mut self, class: Uuid, object: Uuid) {
        self.members.entry(class).or_default().insert(object);
    }

    pub fn grant(&mut self, principal: Uuid, permission: Uuid, target: Uuid, plural: bool) {
        self.grants.push((principal, permission, target, plural));
    }

    /// Members, those of subclasses included.
    pub fn members(&self, class: Uuid) -> BTreeSet<Uuid> {
        let below = self.superclasses.iter().filter(|(_, above)| above.contains(&class)).map(|(subclass, _)| *subclass);
        let direct = self.members.get(&class).into_iter().flatten().copied();
        direct.chain(below.flat_map(|subclass| self.members(subclass))).collect()
    }

    /// The access list of a principal.
    pub fn list(&self, principal: Uuid) -> Vec<Access> {
        let mut list = Vec::new();
        for (holder, permission, target, plural) in &self.grants {
            if *holder != principal && !self.members(*holder).contains(&principal) {
                continue;
            }
            let group = self.members(*permission);
            let permissions = if group.is_empty() { BTreeSet::from([*permission]) } else { group };
            let targets = match *target {
                special::SELF => BTreeSet::from([principal]),
                special::MINE => {
                    self.owners.iter().filter(|(_, owner)| **owner == principal).map(|(o, _)| *o).collect()
                }
                class if *plural => self.members(class),
                target => BTreeSet::from([target]),
            };
            for permission in permissions {
                list.extend(targets.iter().map(|target| Access { permission, target: *target }));
            }
        }
        list
    }
}

/// An edge cluster with its four accounts, as the cluster manager makes them.
pub struct Edge {
    pub cluster: Uuid,
    pub flux: Uuid,
    pub krbkeys: Uuid,
    pub sync: Uuid,
    pub monitor: Uuid,
}

impl Edge {
    pub fn make(centre: &mut Centre, local: &Local) -> Self {
        let manager = uuids::account::CLUSTER_MANAGER;
        let cluster = centre.create(class::EDGE_CLUSTER, local.administrator);
        centre.join(local.cluster_repositories, cluster);
        let mut account = |role| {
            let account = centre.create(class::EDGE_SERVICE, manager);
            centre.join(role, account);
            account
        };
        let (flux, krbkeys) = (account(local.edge_flux), account(local.edge_krbkeys));
        let (sync, monitor) = (account(local.edge_sync), account(local.edge_monitor));
        centre.grant(flux, uuids::permission::GIT_PULL, cluster, false);
        centre.grant(sync, uuids::permission::WRITE_EDGE_CLUSTER_STATUS, cluster, false);
        centre.grant(monitor, uuids::permission::READ_GROUP, cluster, false);
        Self { cluster, flux, krbkeys, sync, monitor }
    }

    pub fn accounts(&self) -> [Uuid; 4] {
        [self.flux, self.krbkeys, self.sync, self.monitor]
    }

    pub fn objects(&self) -> [Uuid; 5] {
        [self.cluster, self.flux, self.krbkeys, self.sync, self.monitor]
    }
}
