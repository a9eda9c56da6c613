//! Single steps of the machine: what it does with one event in one state.

use latchkey_api::OfferRefusal;

use super::*;

const CLUSTER: Digest = Digest([7; 32]);
/// Another cluster, whose tickets and secrets go astray.
const OTHER: Digest = Digest([8; 32]);

#[test]
fn a_register_that_was_not_zero_is_no_lock() {
    let mut node = Node::new();
    node.handle(Event::DiskFresh { attempts: 0 });
    node.handle(Event::Offered(Grant { id: OfferId(0), source: Source::Init, cluster_id: Some(CLUSTER), epoch: None }));
    let effects = node.handle(Event::Extended { pcr15: Digest([1; 32]) });
    assert!(matches!(&effects[..], [
        Effect::Answer(OfferId(0), Verdict::Failed { .. }),
        Effect::End(Stop::Refused { code, .. }),
    ] if *code == NodeCode::LockNotClean));
}

#[test]
fn a_wrong_recovery_key_is_refused_and_the_node_keeps_listening() {
    let mut node = Node::new();
    node.handle(Event::DiskExisting);
    let push = |id| Grant { id: OfferId(id), source: Source::Recovery, cluster_id: None, epoch: None };
    assert_eq!(node.handle(Event::Offered(push(0))), [Effect::CheckKey(OfferId(0))]);
    let effects = node.handle(Event::KeyWrong { id: OfferId(0), code: OfferRefusal::DiskWrongKey });
    assert!(matches!(&effects[..], [Effect::Answer(OfferId(0), Verdict::Refused { .. })]));
    assert!(!node.ended());
    assert_eq!(node.handle(Event::Offered(push(1))), [Effect::CheckKey(OfferId(1))]);
}

/// A node whose disk exists and opens with the offer 0 of `source`; what it does with it.
fn fits(source: Source, cluster_id: Option<Digest>, recorded: Option<u64>, phase: DiskPhase) -> (Node, Vec<Effect>) {
    let mut node = Node::new();
    node.handle(Event::DiskExisting);
    node.handle(Event::Offered(Grant { id: OfferId(0), source, cluster_id, epoch: recorded }));
    let role = NodeRole::Worker;
    let fits = Event::KeyFits { id: OfferId(0), phase, role, cluster_id: CLUSTER, epoch: 2, attempts: 0 };
    let effects = node.handle(fits);
    (node, effects)
}

/// The epoch counts first joins: a disk that a later first join replaced is told by it.
#[test]
fn a_disk_that_a_later_join_replaced_is_refused_by_its_epoch() {
    let (node, effects) = fits(Source::Rejoin, None, Some(3), DiskPhase::Bootstrapped);
    let ended =
        |effect: &Effect| matches!(effect, Effect::End(Stop::Refused { code, .. }) if *code == NodeCode::OldCopy);
    assert!(effects.iter().any(ended), "{effects:?}");
    assert!(node.ended());
}

/// What the epoch cannot tell (`docs/threats.md`, 35): yesterday's copy of today's disk has today's epoch.
#[test]
fn yesterdays_copy_of_todays_disk_has_its_epoch_and_opens() {
    let (_, effects) = fits(Source::Rejoin, None, Some(2), DiskPhase::Bootstrapped);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Lock(_))), "{effects:?}");
}

/// PCR 15 once it was extended with the cluster, from zero.
fn expected() -> Digest {
    let (_, effects) = fits(Source::Rejoin, None, None, DiskPhase::Bootstrapped);
    let order = effects.into_iter().find_map(|effect| match effect {
        Effect::Lock(order) => Some(order),
        _ => None,
    });
    order.unwrap().expected()
}

fn refuses_wrong_cluster(effects: &[Effect]) -> bool {
    matches!(effects, [Effect::Answer(OfferId(_), Verdict::Refused { code: OfferRefusal::WrongCluster, .. })])
}

#[test]
fn the_right_key_with_another_clusters_secret_is_refused_and_the_node_waits_on() {
    for source in [Source::Rejoin, Source::Recovery] {
        let (mut node, effects) = fits(source, Some(OTHER), None, DiskPhase::Bootstrapped);
        assert!(refuses_wrong_cluster(&effects), "{effects:?}");
        let again = Event::Offered(Grant { id: OfferId(1), source, cluster_id: Some(CLUSTER), epoch: None });
        assert_eq!(node.handle(again), [Effect::CheckKey(OfferId(1))]);
    }
}

#[test]
fn a_ticket_of_another_cluster_for_an_unfinished_disk_is_refused_and_the_node_waits_on() {
    let (mut node, effects) = fits(Source::Rejoin, None, None, DiskPhase::Formatted);
    assert_eq!(effects.last(), Some(&Effect::ResumeJoin));
    let ticket =
        |id, cluster_id| Event::Offered(Grant { id: OfferId(id), source: Source::Join, cluster_id, epoch: None });
    assert!(refuses_wrong_cluster(&node.handle(ticket(1, Some(OTHER)))));
    assert!(refuses_wrong_cluster(&node.handle(ticket(2, None))));
    let effects = node.handle(ticket(3, Some(CLUSTER)));
    assert!(matches!(effects[..], [Effect::Stop(_), Effect::Lock(_)]), "{effects:?}");
}

/// The machine's half of "whatever fails after an offer was taken"; the driver's is in `stage1::driver::tests`.
#[test]
fn a_failure_at_any_step_ends_the_boot_and_tells_whoever_waits() {
    let failed = || Event::Failed { code: NodeCode::LockNotClean.into(), message: "it broke".into() };
    let extended = Event::Extended { pcr15: expected() };
    for steps in [vec![], vec![extended.clone()], vec![extended, Event::DiskOpened]] {
        let (mut node, _) = fits(Source::Rejoin, Some(CLUSTER), None, DiskPhase::Bootstrapped);
        let last = steps.into_iter().fold(vec![], |_, event| node.handle(event));
        assert!(!node.ended() && !last.contains(&Effect::Leave));
        let effects = node.handle(failed());
        assert!(
            matches!(&effects[..], [
            Effect::Answer(OfferId(0), Verdict::Failed { code: told, .. }),
            Effect::End(Stop::Refused { code, .. }),
        ] if code == told && *told == NodeCode::LockNotClean),
            "{effects:?}"
        );
        assert!(node.ended() && node.handle(Event::DiskOpened).is_empty(), "nothing happens afterwards");
    }
}

#[test]
fn a_port_that_does_not_open_ends_the_boot_only_where_nobody_can_be_asked() {
    let broken = |source| Event::FlowFailed {
        source,
        code: crate::stage1::BootCode::ListenFailed.into(),
        message: "taken".into(),
    };
    for (disk, listener, asker) in [
        (Event::DiskExisting, Source::Recovery, Source::Rejoin),
        (Event::DiskFresh { attempts: 0 }, Source::Init, Source::Join),
    ] {
        let mut node = Node::new();
        node.handle(disk.clone());
        assert_eq!(node.handle(broken(listener)), []);
        let effects = node.handle(Event::FlowIdle { source: asker });
        assert!(
            matches!(&effects[..], [Effect::End(Stop::Refused { code, .. })] if *code == crate::stage1::BootCode::ListenFailed),
            "{effects:?}"
        );
        let mut node = Node::new();
        node.handle(disk);
        assert_eq!(node.handle(Event::FlowIdle { source: asker }), [], "an operator may come");
        assert!(!node.ended());
    }
    let (mut node, _) = fits(Source::Recovery, None, None, DiskPhase::Formatted);
    let effects = node.handle(Event::FlowIdle { source: Source::Join });
    assert!(matches!(&effects[..], [Effect::End(Stop::Refused { code, .. })] if *code == NodeCode::NoJoinService));
}
