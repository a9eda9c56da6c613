use super::*;
use proptest::prelude::*;
use std::net::Ipv4Addr;

const LIMITS: SlotLimits = SlotLimits { total: 8, per_host: 8, reserve: 0 };

fn host(site: u8, last: u8) -> PeerNetwork {
    PeerNetwork::of(Ipv4Addr::new(192, 0, site, last).into())
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn seated(slots: &mut ConnectionSlots, host: PeerNetwork, now: Duration) -> SlotId {
    match slots.arrive(host, now) {
        Arrival::Seated { slot, displaced: None } => slot,
        other => panic!("{other:?}"),
    }
}

fn displaced(slots: &mut ConnectionSlots, host: PeerNetwork, now: Duration) -> Option<SlotId> {
    match slots.arrive(host, now) {
        Arrival::Seated { displaced, .. } => displaced,
        Arrival::Refused(full) => panic!("{full:?}"),
    }
}

/// A full table: one connection of each of these sites, in this order.
fn full(sites: [u8; 8]) -> (ConnectionSlots, [SlotId; 8]) {
    let mut slots = ConnectionSlots::new(LIMITS);
    let ids = sites.map(|site| seated(&mut slots, host(site, 1), secs(0)));
    (slots, ids)
}

#[test]
fn whoever_holds_most_gives_up_its_oldest() {
    let (mut slots, ids) = full([1, 66, 66, 66, 66, 66, 66, 2]);
    assert_eq!(displaced(&mut slots, host(3, 1), secs(0)), Some(ids[1]));
    assert_eq!(displaced(&mut slots, host(4, 1), secs(0)), Some(ids[2]));
}

#[test]
fn many_hosts_of_one_site_count_together() {
    let mut slots = ConnectionSlots::new(LIMITS);
    let honest = [seated(&mut slots, host(1, 1), secs(0)), seated(&mut slots, host(1, 1), secs(0))];
    let site: Vec<_> = (0..6).map(|last| seated(&mut slots, host(66, last), secs(0))).collect();
    assert_eq!(displaced(&mut slots, host(3, 1), secs(0)), Some(site[0]), "not of {honest:?}, a host that holds two");
}

#[test]
fn a_flood_from_one_site_pushes_out_nobody_else() {
    let (mut slots, ids) = full([1, 2, 66, 66, 66, 66, 66, 66]);
    for later in 0..100_u8 {
        let gone = displaced(&mut slots, host(66, later), secs(later.into()));
        assert!(gone != Some(ids[0]) && gone != Some(ids[1]), "{gone:?}");
    }
}

#[test]
fn among_equals_the_silent_go_first_and_then_the_oldest() {
    let (mut slots, ids) = full([1, 2, 3, 4, 5, 6, 7, 8]);
    ids[..3].iter().for_each(|slot| slots.shows(*slot, Standing::Started, secs(0)));
    assert_eq!(displaced(&mut slots, host(9, 1), secs(0)), Some(ids[0]), "silence of a moment says nothing");
    assert_eq!(displaced(&mut slots, host(10, 1), SILENCE), Some(ids[3]));
}

#[test]
fn who_claims_an_identity_stays_while_others_can_go_and_for_a_bounded_time() {
    let (mut slots, ids) = full([1, 2, 3, 4, 5, 6, 7, 8]);
    for slot in [ids[0], ids[1]] {
        slots.shows(slot, Standing::Claimed, secs(0));
    }
    for (newcomer, expected) in (9..).zip(&ids[2..]) {
        assert_eq!(displaced(&mut slots, host(newcomer, 1), secs(0)), Some(*expected));
    }
}

#[test]
fn copied_claims_keep_nobody_out() {
    let mut slots = ConnectionSlots::new(LIMITS);
    for number in 0..8 {
        let slot = seated(&mut slots, host(66 + number / 4, number), secs(0));
        slots.shows(slot, Standing::Claimed, secs(0));
    }
    assert_eq!(slots.claimed, 4, "half of the slots");
    let Arrival::Seated { slot: honest, .. } = slots.arrive(host(1, 1), secs(0)) else { panic!("no slot") };
    slots.shows(honest, Standing::Claimed, secs(0));
    assert_eq!(slots.connections[&honest].standing, Standing::Claimed, "of the site that holds most one loses its own");
    assert_eq!(slots.claimed, 4);
    for number in 0..100 {
        slots.arrive(host(66, number), secs(0));
        slots.arrive(host(67, number), secs(0));
    }
    assert!(slots.connections.contains_key(&honest));
}

#[test]
fn who_was_admitted_stays_and_a_site_holds_no_more_than_its_part() {
    let mut slots = ConnectionSlots::new(LIMITS);
    for number in 0..6 {
        let slot = seated(&mut slots, host(1, number), secs(0));
        slots.shows(slot, Standing::Admitted, secs(0));
    }
    assert_eq!(slots.arrive(host(1, 9), secs(100)), Arrival::Refused(Full::Site));
    seated(&mut slots, host(2, 1), secs(0));
    seated(&mut slots, host(3, 1), secs(0));
    assert_eq!(slots.usage(), Usage { open: 8, strangers: 2, sites: 3 });
}

#[test]
fn a_host_at_its_bound_replaces_its_own_oldest_stranger() {
    let mut slots = ConnectionSlots::new(SlotLimits { per_host: 2, ..LIMITS });
    let first = seated(&mut slots, host(1, 1), secs(0));
    slots.shows(first, Standing::Admitted, secs(0));
    let second = seated(&mut slots, host(1, 1), secs(0));
    seated(&mut slots, host(1, 2), secs(0));
    assert_eq!(displaced(&mut slots, host(1, 1), secs(0)), Some(second));
    let mut slots = ConnectionSlots::new(SlotLimits { per_host: 1, ..LIMITS });
    let first = seated(&mut slots, host(1, 1), secs(0));
    slots.shows(first, Standing::Admitted, secs(0));
    assert_eq!(slots.arrive(host(1, 1), secs(100)), Arrival::Refused(Full::Host));
}

#[test]
fn the_reserve_is_for_those_who_were_admitted_before() {
    let mut slots = ConnectionSlots::new(SlotLimits { reserve: 2, ..LIMITS });
    let visit = seated(&mut slots, host(1, 1), secs(0));
    slots.shows(visit, Standing::Admitted, secs(0));
    slots.release(visit);
    let strangers: Vec<_> = (2..8).map(|site| seated(&mut slots, host(site, 1), secs(0))).collect();
    assert_eq!(displaced(&mut slots, host(9, 1), secs(0)), Some(strangers[0]), "two slots are not for strangers");
    assert!(slots.knows(host(1, 7)) && !slots.knows(host(2, 1)));
    let known = [seated(&mut slots, host(1, 1), secs(0)), seated(&mut slots, host(1, 2), secs(0))];
    for number in 0..100 {
        let gone = displaced(&mut slots, host(100 + number, 1), secs(0)).unwrap();
        assert!(!known.contains(&gone));
    }
}

#[test]
fn nothing_is_left_of_connections_that_ended() {
    let (mut slots, ids) = full([1, 1, 2, 2, 3, 3, 4, 4]);
    slots.shows(ids[0], Standing::Claimed, secs(0));
    slots.shows(ids[1], Standing::Admitted, secs(0));
    ids.iter().chain(&ids).for_each(|slot| slots.release(*slot));
    assert_eq!(slots.usage(), Usage { open: 0, strangers: 0, sites: 0 });
    assert_eq!((slots.unknown, slots.claimed, slots.admitted, slots.hosts.len()), (0, 0, 0, 0));
}

/// One thing that happens to the table.
#[derive(Clone, Copy, Debug)]
enum Act {
    Arrive(u8, u8),
    Show(usize, Standing),
    Release(usize),
    Wait(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let standing = prop_oneof![Just(Standing::Started), Just(Standing::Claimed), Just(Standing::Admitted)];
    prop_oneof![
        8 => (0..12_u8, 0..4_u8).prop_map(|(site, last)| Act::Arrive(site, last)),
        3 => (any::<usize>(), standing).prop_map(|(at, standing)| Act::Show(at, standing)),
        1 => any::<usize>().prop_map(Act::Release),
        1 => (0..8_000_u64).prop_map(Act::Wait),
    ]
}

/// What the table must say, counted anew from its connections.
fn held(slots: &ConnectionSlots, of: impl Fn(&Connection) -> bool) -> u32 {
    u32::try_from(slots.connections.values().filter(|connection| of(connection)).count()).unwrap()
}

fn bounds_hold(slots: &ConnectionSlots) {
    let SlotLimits { total, per_host, reserve } = slots.limits;
    let admitted = |c: &Connection| c.standing == Standing::Admitted;
    let unknown = held(slots, |c| !slots.sites.at(c.site).known);
    assert!(held(slots, |_| true) <= total && unknown <= total - reserve);
    assert_eq!(slots.unknown, unknown);
    assert_eq!(slots.admitted, held(slots, admitted));
    assert_eq!(slots.claimed, held(slots, |c| c.standing == Standing::Claimed));
    for connection in slots.connections.values() {
        let (host, site) = (slots.hosts.at(connection.host), slots.sites.at(connection.site));
        assert_eq!(host.held, held(slots, |c| c.host == connection.host));
        assert_eq!(site.held, held(slots, |c| c.site == connection.site));
        assert_eq!(site.strangers, held(slots, |c| c.site == connection.site && !admitted(c)));
        assert!(host.held <= per_host && (site.held < total || total == 1));
    }
}

/// A connection comes. Whoever goes for it was not admitted, was not of a known site within the reserve, and was of no site
/// that would then hold less than the newcomer's.
fn arrival_is_fair(slots: &mut ConnectionSlots, ids: &mut Vec<SlotId>, newcomer: PeerNetwork, now: Duration) {
    let of = |slots: &ConnectionSlots, slot: &SlotId| {
        let connection = &slots.connections[slot];
        let site = slots.sites.at(connection.site);
        (connection.standing, slots.sites.network(connection.site), site.known, site.strangers)
    };
    let before: BTreeMap<SlotId, _> = slots.connections.keys().map(|slot| (*slot, of(slots, slot))).collect();
    let known_before = slots.knows(newcomer);
    let (open, unknown) = (before.len(), slots.unknown as usize);
    match slots.arrive(newcomer, now) {
        Arrival::Refused(full) => {
            let weak = before.values().any(|(standing, _, known, strangers)| {
                *standing < Standing::Claimed && *strangers >= 1 && (!known || known_before)
            });
            let holds = before.values().any(|(_, site, ..)| *site == newcomer.site());
            assert!(holds || !weak, "{full:?}: a site that holds nothing is let in while somebody can go");
        }
        Arrival::Seated { slot, displaced } => {
            ids.push(slot);
            let Some(gone) = displaced else { return };
            let (standing, site, known, strangers) = before[&gone];
            assert!(standing < Standing::Admitted, "who was admitted stays");
            if site == newcomer.site() {
                return;
            }
            let now_held = slots.sites.at(slots.connections[&slot].site).strangers;
            assert!(strangers >= now_held, "{site} held {strangers}, and the newcomer's now {now_held}");
            let reserve = slots.limits.reserve as usize;
            assert!(!known || known_before || open - unknown > reserve, "the reserve is kept from strangers");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn whatever_comes_the_bounds_hold_and_nobody_is_pushed_out_by_those_who_hold_more(
        total in 1..24_u32,
        per_host in 1..24_u32,
        reserve in 0..8_u32,
        acts in prop::collection::vec(act(), 1..200),
    ) {
        let mut slots = ConnectionSlots::new(SlotLimits { total, per_host, reserve });
        let (mut ids, mut now) = (Vec::new(), Duration::ZERO);
        for act in acts {
            let pick = |ids: &Vec<SlotId>, at: usize| ids.get(at % ids.len().max(1)).copied();
            match act {
                Act::Arrive(site, last) => arrival_is_fair(&mut slots, &mut ids, host(site, last), now),
                Act::Show(at, standing) => {
                    if let Some(slot) = pick(&ids, at) { slots.shows(slot, standing, now) }
                }
                Act::Release(at) => if let Some(slot) = pick(&ids, at) { slots.release(slot) },
                Act::Wait(milliseconds) => now += Duration::from_millis(milliseconds),
            }
            bounds_hold(&slots);
        }
    }

    /// Any flood of newcomers, from any networks but its own: who was admitted, and who is of a known site within the
    /// reserve, is still there.
    #[test]
    fn no_set_of_newcomers_pushes_out_a_known_peer(flood in prop::collection::vec((2..=255_u8, any::<u8>()), 1..500)) {
        let mut slots = ConnectionSlots::new(SlotLimits { total: 16, per_host: 4, reserve: 4 });
        let admitted = seated(&mut slots, host(1, 1), secs(0));
        slots.shows(admitted, Standing::Admitted, secs(0));
        let back = [seated(&mut slots, host(1, 2), secs(0)), seated(&mut slots, host(1, 3), secs(0))];
        for (number, (site, last)) in flood.into_iter().enumerate() {
            if let Arrival::Seated { slot, .. } = slots.arrive(host(site, last), secs(number as u64)) {
                slots.shows(slot, Standing::Claimed, secs(number as u64));
            }
        }
        prop_assert!([admitted].iter().chain(&back).all(|slot| slots.connections.contains_key(slot)));
    }
}
