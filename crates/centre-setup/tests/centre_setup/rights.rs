//! Who may do what in a centre with two clusters.

use crate::site::{Centre, Edge, setup};
use latchkey_factory_plus::grants::allows;
use latchkey_factory_plus::uuids::{account, application, class, permission, role, special};
use latchkey_factory_plus::{Uuid, uuids};

/// What only reads, or makes something new that is its maker's.
const HARMLESS: [Uuid; 9] = [
    permission::READ_CONFIG,
    permission::READ_MEMBERS,
    permission::READ_SUBCLASSES,
    permission::LIST_OBJECTS,
    permission::READ_KERBEROS,
    permission::READ_ACL,
    permission::READ_ALL_STATES,
    permission::CREATE_OBJECT,
    // Of groups alone: whom it may put in, WRITE_MEMBERSHIPS says.
    permission::WRITE_MEMBERS,
];

#[test]
fn no_account_of_an_edge_reaches_another_cluster() {
    let (setup, local) = setup();
    let mut centre = Centre::load(&setup);
    let (north, south) = (Edge::make(&mut centre, &local), Edge::make(&mut centre, &local));
    let theirs = centre.create(class::EDGE_SERVICE, south.krbkeys);
    let mine = centre.create(class::EDGE_SERVICE, north.krbkeys);
    for account in north.accounts() {
        let list = centre.list(account);
        assert!(!list.is_empty());
        for access in list.iter().filter(|access| !HARMLESS.contains(&access.permission)) {
            let own = north.objects().contains(&access.target) || access.target == mine;
            let shared = access.permission == permission::GIT_PULL && access.target == local.helm_charts;
            assert!(own || shared, "{account} holds {access:?}");
        }
        for target in south.objects().into_iter().chain([theirs, special::WILDCARD]) {
            for held in [
                permission::GIT_PULL,
                permission::GIT_PUSH,
                permission::WRITE_EDGE_CLUSTER_STATUS,
                permission::MANAGE_KERBEROS,
                permission::MANAGE_SECRETS,
                permission::WRITE_MEMBERSHIPS,
                permission::PARTICIPATE_AS_NODE,
                permission::REPRESENT_DEVICES,
                permission::READ_GROUP,
                permission::NAME_OBJECT,
                permission::DELETE_OBJECT,
            ] {
                assert!(!allows(&list, held, target), "{account} holds {held} for {target}");
            }
        }
    }
    let status = permission::WRITE_EDGE_CLUSTER_STATUS;
    assert!(allows(&centre.list(north.sync), status, north.cluster));
    assert!(allows(&centre.list(north.flux), permission::GIT_PULL, north.cluster));
    assert!(allows(&centre.list(north.flux), permission::GIT_PULL, local.helm_charts));
    assert!(allows(&centre.list(north.krbkeys), permission::MANAGE_KERBEROS, mine));
    assert!(allows(&centre.list(north.monitor), permission::PARTICIPATE_AS_NODE, north.monitor));
}

#[test]
fn no_role_of_an_edge_writes_a_whole_application_or_grants_anything() {
    let (setup, local) = setup();
    let mut centre = Centre::load(&setup);
    let edge = Edge::make(&mut centre, &local);
    let agent = centre.create(class::EDGE_AGENT, local.administrator);
    centre.join(local.edge_agent, agent);
    for account in edge.accounts().into_iter().chain([agent]) {
        let list = centre.list(account);
        for never in [
            permission::WRITE_CONFIG,
            permission::MANAGE_ACL,
            permission::MANAGE_SECRETS,
            permission::MANAGE_CLUSTER,
            permission::RELOAD_CONFIG,
            permission::ISSUE_COMMANDS,
            permission::READ_WHOLE_NAMESPACE,
            permission::GIT_PUSH,
            permission::GIT_MANAGE_STORAGE,
            permission::CREATE_SPECIFIC_OBJECT,
        ] {
            assert!(list.iter().all(|access| access.permission != never), "{account} holds {never}");
        }
        let everything = list.iter().filter(|access| access.target == special::WILDCARD);
        assert!(everything.clone().all(|access| access.permission == permission::READ_ALL_STATES), "{list:?}");
    }
}

#[test]
fn an_edge_puts_nobody_into_the_roles_of_other_accounts() {
    let (setup, local) = setup();
    let mut centre = Centre::load(&setup);
    let edge = Edge::make(&mut centre, &local);
    let list = centre.list(edge.krbkeys);
    let groups: Vec<Uuid> = list
        .iter()
        .filter(|access| access.permission == permission::WRITE_MEMBERS)
        .map(|access| access.target)
        .collect();
    assert_eq!(groups, [local.edge_agent]);
}

#[test]
fn the_enrol_service_reaches_the_clusters_that_it_made_and_no_other() {
    let (setup, local) = setup();
    let mut centre = Centre::load(&setup);
    let other = Edge::make(&mut centre, &local).cluster;
    let own = centre.create(class::EDGE_CLUSTER, account::ENROL_SERVICE);
    let list = centre.list(account::ENROL_SERVICE);
    for held in [permission::CONFIGURE_CLUSTER, permission::REGISTER_CLUSTER, permission::MANAGE_CLUSTER] {
        assert!(allows(&list, held, own));
        assert!(!allows(&list, held, other) && !allows(&list, held, special::WILDCARD));
    }
    let made: Vec<Uuid> = list
        .iter()
        .filter(|access| access.permission == permission::CREATE_SPECIFIC_OBJECT)
        .map(|it| it.target)
        .collect();
    assert_eq!(made, [class::EDGE_CLUSTER]);
    let expected = [
        permission::CREATE_SPECIFIC_OBJECT,
        permission::CONFIGURE_CLUSTER,
        permission::REGISTER_CLUSTER,
        permission::MANAGE_CLUSTER,
        permission::READ_CONFIG,
    ];
    assert!(list.iter().all(|access| expected.contains(&access.permission)), "{list:?}");
}

#[test]
fn the_cluster_manager_can_make_and_end_a_cluster_and_nothing_more() {
    let (setup, local) = setup();
    let mut centre = Centre::load(&setup);
    let edge = Edge::make(&mut centre, &local);
    let stranger = centre.create(class::CENTRAL_SERVICE, local.administrator);
    let list = centre.list(account::CLUSTER_MANAGER);
    let may = |held, target| allows(&list, held, target);
    for target in edge.accounts() {
        for held in [permission::MANAGE_KERBEROS, permission::WRITE_MEMBERSHIPS, permission::DELETE_OBJECT] {
            assert!(may(held, target));
            assert!(!may(held, stranger));
        }
    }
    assert!(may(permission::CREATE_SPECIFIC_OBJECT, class::EDGE_SERVICE));
    assert!(!may(permission::CREATE_SPECIFIC_OBJECT, class::CENTRAL_SERVICE));
    for group in [local.cluster_repositories, local.edge_flux, local.edge_krbkeys, local.edge_sync, local.edge_monitor]
    {
        assert!(may(permission::WRITE_MEMBERS, group));
    }
    for group in [role::ADMINISTRATOR, role::CLUSTER_MANAGER, local.shared_repositories] {
        assert!(!may(permission::WRITE_MEMBERS, group));
    }
    let granted: Vec<Uuid> =
        list.iter().filter(|access| access.permission == permission::MANAGE_ACL).map(|access| access.target).collect();
    let per_cluster = [permission::GIT_PULL, permission::WRITE_EDGE_CLUSTER_STATUS, permission::READ_GROUP];
    assert!(per_cluster.iter().all(|held| granted.contains(held)) && granted.len() == per_cluster.len());
    assert!(may(permission::WRITE_MEMBERSHIPS, edge.cluster) && may(permission::GIT_PUSH, edge.cluster));
    assert!(may(permission::WRITE_EDGE_CLUSTER_STATUS, edge.cluster) && may(permission::GIT_PULL, local.helm_charts));
    assert!(
        !may(permission::GIT_PUSH, local.helm_charts) && !may(permission::WRITE_CONFIG, application::CONFIG_SCHEMA)
    );
}

#[test]
fn an_administrator_holds_every_permission() {
    let (setup, local) = setup();
    let centre = Centre::load(&setup);
    let list = centre.list(local.administrator);
    let all = &setup.config_db.objects[&class::PERMISSION];
    assert!(all.len() > 35);
    for held in all.keys() {
        assert!(allows(&list, *held, Uuid::random()), "{held}");
    }
}

#[test]
fn services_read_what_they_decide_by() {
    let (setup, _) = setup();
    let centre = Centre::load(&setup);
    let may = |account, held, target| allows(&centre.list(account), held, target);
    for (account, set) in [
        (account::CONFIG_DB, permission::CONFIG_DB),
        (account::GIT, permission::GIT),
        (account::MQTT, permission::MQTT),
        (account::DIRECTORY, permission::DIRECTORY),
        (account::CLUSTER_MANAGER, permission::CLUSTERS),
    ] {
        let held = centre.members(set);
        assert!(!held.is_empty());
        assert!(held.iter().all(|held| may(account, permission::READ_ACL, *held)), "{account}");
    }
    assert!(may(account::GIT, permission::READ_CONFIG, application::GIT_REPOSITORY_CONFIGURATION));
    assert!(may(account::MQTT, permission::READ_CONFIG, application::MQTT_PERMISSION_TEMPLATE));
    assert!(!may(account::GIT, permission::READ_CONFIG, uuids::application::EDGE_CLUSTER_STATUS));
}
