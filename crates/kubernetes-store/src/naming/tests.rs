//! Each rule of the order by itself: [`simulation`](super::simulation) tries what follows from all of them.

use super::*;
use crate::cache::Cache;
use crate::objects::{node_object, node_of};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use latchkey_cluster_store::{Change, News, Recorded, Role};

fn name(name: &str) -> Claimed {
    Claimed::Name(name.parse().unwrap())
}

/// The object `a-1` is the first of the machine `a`, `a-2` the one after it.
fn claims(uid: &str, revision: u64, mark: Mark, names: &[&str]) -> Claims {
    let of = names.iter().map(|it| (name(it), mark)).collect();
    Claims { object: object(uid), uid: uid.to_owned(), revision, of, mark, damaged: false }
}

fn ek(uid: &str) -> EkDigest {
    EkDigest::from_hex(&uid[..1].repeat(64)).unwrap()
}

fn object(uid: &str) -> String {
    ek(uid).to_string()
}

fn standing(naming: &Naming, uid: &str) -> Standing {
    naming.standing_of_all(&object(uid))
}

fn listing(listed: &[Claims]) -> Naming {
    let mut naming = Naming::default();
    naming.listed(listed.to_vec());
    naming
}

#[test]
fn who_was_told_of_first_has_it_whatever_the_marks_and_revisions() {
    let mut naming = Naming::default();
    drop(naming.heard(claims("a-1", 9, Mark::Again, &["n"])));
    drop(naming.heard(claims("b-1", 3, Mark::Stands, &["n"])));
    assert_eq!((standing(&naming, "a"), standing(&naming, "b")), (Standing::First, Standing::Later(name("n"))));
    // A listing comes after what the watch told before it.
    let mut naming = listing(&[]);
    drop(naming.heard(claims("a-1", 9, Mark::Again, &["n"])));
    naming.listed(vec![claims("a-1", 9, Mark::Again, &["n"]), claims("b-1", 3, Mark::Stands, &["n"])]);
    assert_eq!((standing(&naming, "a"), standing(&naming, "b")), (Standing::First, Standing::Later(name("n"))));
    assert_eq!(standing(&naming, "c"), Standing::Unheard);
}

#[test]
fn in_one_listing_what_was_released_was_before_and_of_two_written_once_the_revision_says() {
    let (first, later, unclear) = (Standing::First, Standing::Later(name("n")), Standing::Unclear);
    for (a, b, expected) in [
        ((1, Mark::Again), (9, Mark::Released), [&later, &first]),
        ((1, Mark::Once), (9, Mark::Released), [&later, &first]),
        // No service may have looked at it.
        ((1, Mark::Again), (9, Mark::Stands), [&unclear, &unclear]),
        ((1, Mark::Once), (9, Mark::Stands), [&unclear, &unclear]),
        ((5, Mark::Once), (4, Mark::Once), [&later, &first]),
        ((4, Mark::Once), (5, Mark::Once), [&first, &later]),
        // Somebody wrote one by hand since: its revision is not that of its creation.
        ((4, Mark::Again), (5, Mark::Once), [&unclear, &unclear]),
        ((5, Mark::Once), (4, Mark::Again), [&unclear, &unclear]),
        ((4, Mark::Again), (5, Mark::Again), [&unclear, &unclear]),
        // By hand alone.
        ((4, Mark::Stands), (5, Mark::Stands), [&unclear, &unclear]),
        ((4, Mark::Released), (5, Mark::Stands), [&unclear, &unclear]),
        ((4, Mark::Released), (5, Mark::Released), [&unclear, &unclear]),
    ] {
        let naming = listing(&[claims("a-1", a.0, a.1, &["n"]), claims("b-1", b.0, b.1, &["n"])]);
        assert_eq!([&standing(&naming, "a"), &standing(&naming, "b")], expected, "{a:?} {b:?}");
    }
}

#[test]
fn a_place_is_kept_by_its_object_until_that_is_gone_or_gives_it_up() {
    let two = || listing(&[claims("a-1", 4, Mark::Once, &["n"]), claims("b-1", 5, Mark::Once, &["n"])]);
    let later = Standing::Later(name("n"));
    // A label that somebody puts on it since changes nothing.
    let mut naming = two();
    drop(naming.heard(claims("a-1", 6, Mark::Again, &["n"])));
    assert_eq!((standing(&naming, "a"), standing(&naming, "b")), (Standing::First, later.clone()));
    // By whose record something was released since was found to be the first one, whatever the listing said.
    drop(naming.heard(claims("b-1", 7, Mark::Released, &["n"])));
    assert_eq!((standing(&naming, "a"), standing(&naming, "b")), (later.clone(), Standing::First));
    // It has another name now.
    let mut naming = two();
    assert_eq!(naming.heard(claims("a-1", 6, Mark::Stands, &["m"])), [object("a"), object("b")].into());
    assert_eq!((standing(&naming, "a"), standing(&naming, "b")), (Standing::First, Standing::First));
    // Another object of the same machine.
    let mut naming = two();
    drop(naming.heard(claims("a-2", 6, Mark::Once, &["n"])));
    assert_eq!((standing(&naming, "a"), standing(&naming, "b")), (later, Standing::First));
    // Gone, as the watch says or a listing.
    let mut naming = two();
    assert_eq!(naming.gone(&object("a")), [object("b")].into());
    assert_eq!((standing(&naming, "a"), standing(&naming, "b")), (Standing::Unheard, Standing::First));
    let mut naming = two();
    naming.listed(vec![claims("b-1", 5, Mark::Once, &["n"])]);
    assert_eq!((standing(&naming, "a"), standing(&naming, "b")), (Standing::Unheard, Standing::First));
    // A damaged record keeps its name from others. Whoever starts now does not know of that claim, so nobody is deleted for it.
    let damaged = |names: &[&str]| Claims { damaged: true, ..claims("a-1", 0, Mark::Stands, names) };
    let mut naming = two();
    assert_eq!(naming.heard(damaged(&[])), [object("a"), object("b")].into());
    assert_eq!((standing(&naming, "a"), standing(&naming, "b")), (Standing::Unclear, Standing::Unclear));
    assert!(!naming.is_lost(&ek("b")) && naming.rivals(&ek("b")) == [object("a")].into());
    drop(naming.heard(claims("a-1", 7, Mark::Stands, &["n"])));
    assert_eq!(standing(&naming, "b"), Standing::Unclear, "nobody knows who wrote it");
    // Its bytes say it.
    let mut naming = two();
    drop(naming.heard(damaged(&["n"])));
    assert_eq!((standing(&naming, "a"), standing(&naming, "b")), (Standing::First, Standing::Later(name("n"))));
    // It was removed, and made anew by hand, while nothing was heard.
    naming.listed(vec![claims("a-2", 9, Mark::Stands, &["n"]), claims("b-1", 5, Mark::Once, &["n"])]);
    assert!(!naming.is_lost(&ek("b")) && standing(&naming, "b") == Standing::First);
}

#[test]
fn only_a_provisional_record_is_withheld_and_only_one_that_came_later_is_lost() {
    let is = |naming: &Naming, uid| (naming.is_withheld(&ek(uid)), naming.is_lost(&ek(uid)));
    let mut naming = Naming::default();
    drop(naming.heard(claims("a-1", 1, Mark::Once, &["n"])));
    drop(naming.heard(claims("b-1", 2, Mark::Once, &["m", "n"])));
    drop(naming.heard(claims("c-1", 3, Mark::Stands, &["n"])));
    assert_eq!([is(&naming, "a"), is(&naming, "b"), is(&naming, "c")], [(false, false), (true, true), (false, false)]);
    assert_eq!(naming.withheld(), [ek("b")].into());
    let unclear = listing(&[claims("a-1", 1, Mark::Again, &["n"]), claims("b-1", 2, Mark::Once, &["n"])]);
    assert_eq!([is(&unclear, "a"), is(&unclear, "b")], [(true, false); 2]);
    assert_eq!(is(&unclear, "d"), (false, false));
}

/// By what only a listing told nobody knows whether another service saw it as a later one.
#[test]
fn it_is_sure_of_a_record_that_stands_or_was_first_when_it_was_created() {
    let mut naming = listing(&[claims("a-1", 1, Mark::Once, &["n"]), claims("b-1", 1, Mark::Stands, &["m"])]);
    assert_eq!((naming.is_sure(&ek("a")), naming.is_sure(&ek("b"))), (false, true));
    drop(naming.heard(claims("c-1", 3, Mark::Once, &["o"])));
    drop(naming.heard(claims("d-1", 4, Mark::Once, &["n"])));
    assert_eq!((naming.is_sure(&ek("c")), naming.is_sure(&ek("d"))), (true, false));
    // The one before it is removed.
    drop(naming.gone(&object("a")));
    drop(naming.heard(claims("d-1", 5, Mark::Again, &["n"])));
    assert_eq!((standing(&naming, "d"), naming.is_sure(&ek("d"))), (Standing::First, false));
    // Another object.
    naming.listed(vec![claims("c-2", 5, Mark::Once, &["o"])]);
    assert!(!naming.is_sure(&ek("c")));
}

#[test]
fn a_state_is_known_once_the_watch_has_told_of_it_or_of_all_that_it_claims() {
    let mut naming = Naming::default();
    drop(naming.heard(claims("a-1", 5, Mark::Once, &["n"])));
    for (state, known) in [
        (claims("a-1", 5, Mark::Once, &["n"]), true),
        (claims("a-1", 4, Mark::Once, &["n", "m"]), true),
        (claims("a-1", 6, Mark::Once, &["n"]), false),
        (claims("a-2", 5, Mark::Once, &["n"]), false),
        (claims("a-1", 6, Mark::Stands, &["n"]), true),
        (claims("a-1", 6, Mark::Stands, &["n", "m"]), false),
        (claims("b-1", 5, Mark::Once, &["n"]), false),
    ] {
        assert_eq!(naming.knows(&state), known, "{state:?}");
    }
}

#[test]
fn how_often_a_record_was_written_is_read_from_its_metadata() {
    let of = |provisional: bool, writers: &[Option<&str>], has_status| {
        let annotations = provisional.then(|| [(PROVISIONAL.to_owned(), String::new())].into());
        let writer = |subresource: Option<&str>| ManagedFieldsEntry {
            subresource: subresource.map(str::to_owned),
            ..ManagedFieldsEntry::default()
        };
        let managed_fields = Some(writers.iter().copied().map(writer).collect());
        Mark::of(&ObjectMeta { annotations, managed_fields, ..ObjectMeta::default() }, has_status)
    };
    assert_eq!(of(true, &[None], false), Mark::Once);
    for writers in [&[][..], &[Some("status")], &[None, None]] {
        assert_eq!(of(true, writers, false), Mark::Again, "{writers:?}");
    }
    for (provisional, has_status, mark) in
        [(true, true, Mark::Released), (false, true, Mark::Released), (false, false, Mark::Stands)]
    {
        assert_eq!(of(provisional, &[None], has_status), mark);
    }
}

#[test]
fn what_is_reserved_is_claimed_by_a_revision_that_says_nothing() {
    let disk = "0a0a0a0a-0000-4000-8000-000000000001".parse().unwrap();
    let role = Role::Worker;
    let record = NodeRecord::first(ek("a"), "n".parse().unwrap(), role, disk, 1, 1_800_000_000);
    let claimed = |reserves: &str| {
        let annotations = Some([(RESERVES.to_owned(), reserves.to_owned())].into());
        let metadata = ObjectMeta { annotations, resource_version: Some("7".to_owned()), ..ObjectMeta::default() };
        Claims::of(&node_of(node_object(&record, metadata))).of
    };
    let own = BTreeMap::from([(name("n"), Mark::Stands), (Claimed::Disk(disk), Mark::Stands)]);
    let mut more = own.clone();
    more.insert(name("m"), Mark::Again);
    assert_eq!(claimed(r#"[{"name": "m"}]"#), more);
    assert_eq!(claimed("what is no list"), own);
}

/// The object of a machine's record that was created and not written since, with this name and a disk of its own.
fn provisional(uid: &str, revision: u64, name: &str) -> NodeObject {
    let disk = format!("0a0a0a0a-0000-4000-8000-0000000000{}0", &uid[..1]).parse().unwrap();
    let record = NodeRecord::first(ek(uid), name.parse().unwrap(), Role::Worker, disk, 1, 1);
    let metadata = ObjectMeta {
        resource_version: Some(revision.to_string()),
        uid: Some(uid.to_owned()),
        annotations: Some([(PROVISIONAL.to_owned(), String::new())].into()),
        managed_fields: Some(vec![ManagedFieldsEntry::default()]),
        ..ObjectMeta::default()
    };
    node_of(node_object(&record, metadata))
}

/// Which machines are told of, and whether keys may be released by it; and of which it is told that they are gone.
fn told(cache: &mut Cache) -> (Vec<(EkDigest, bool)>, Vec<EkDigest>) {
    let of = |recorded: &Recorded| (recorded.ek_sha256, recorded.is_confirmed());
    let (mut told, mut gone) = (Vec::new(), Vec::new());
    match cache.news() {
        News::All(listing) => told.extend(listing.records.iter().map(of)),
        News::Changes(changes) => changes.into_iter().for_each(|change| match change {
            Change::Recorded(recorded) => told.push(of(&recorded)),
            Change::Gone(ek) => gone.push(ek),
        }),
        News::None => {}
    }
    (told, gone)
}

#[test]
fn of_a_record_that_came_second_nothing_is_told_until_the_first_one_is_gone() {
    let mut cache = Cache::default();
    let listed = |cache: &mut Cache, objects| {
        let asked = cache.moment();
        assert_eq!(cache.listed(objects, asked), Ok(vec![]));
    };
    listed(&mut cache, vec![provisional("a-1", 5, "n"), provisional("b-1", 6, "n")]);
    // Another service may have seen the first one otherwise, as far as a listing says.
    assert_eq!(told(&mut cache), (vec![(ek("a"), false)], vec![]));
    for object in [provisional("c-1", 7, "n"), provisional("d-1", 8, "m")] {
        assert_eq!(cache.heard(object), Ok(true));
    }
    let (of, gone) = told(&mut cache);
    assert_eq!(of, [(ek("a"), false), (ek("d"), true)]);
    assert_eq!(gone, [ek("b"), ek("c")]);
    cache.deleted(&object("a"), 9);
    assert_eq!(told(&mut cache), (vec![(ek("b"), false)], vec![ek("a"), ek("c")]));
    // A listing says the same of what it does not have any more.
    listed(&mut cache, vec![provisional("c-1", 7, "n"), provisional("d-1", 8, "m")]);
    assert_eq!(told(&mut cache), (vec![(ek("c"), false), (ek("d"), true)], vec![]));
}

/// Between its write and the watch's telling of it there was a cut: the listing after it says so.
#[test]
fn that_a_record_stands_is_told_by_whoever_says_so_first() {
    let stands = || {
        let NodeObject::Record(record, mut metadata, _) = provisional("a-1", 6, "n") else { unreachable!("a record") };
        metadata.annotations = None;
        node_of(node_object(&record, *metadata))
    };
    let mut cache = Cache::default();
    let asked = cache.moment();
    assert_eq!(cache.listed(vec![provisional("a-1", 5, "n")], asked), Ok(vec![]));
    assert_eq!(told(&mut cache), (vec![(ek("a"), false)], vec![]));
    let asked = cache.moment();
    assert_eq!(cache.answered(stands(), asked), Ok(true));
    assert_eq!(told(&mut cache), (vec![(ek("a"), false)], vec![]));
    let asked = cache.moment();
    assert_eq!(cache.listed(vec![stands()], asked), Ok(vec![]));
    assert_eq!(told(&mut cache), (vec![(ek("a"), true)], vec![]));
    let asked = cache.moment();
    assert_eq!(cache.listed(vec![stands()], asked), Ok(vec![]));
    assert!(!cache.has_news());
}

/// The one before it was removed, and another service found it to be the first one since and wrote it, which only an answer told here.
#[test]
fn a_record_is_given_back_only_as_it_was_seen_to_be_lost() {
    let mut cache = Cache::default();
    let asked = cache.moment();
    assert_eq!(cache.listed(vec![provisional("a-1", 4, "n"), provisional("b-1", 5, "n")], asked), Ok(vec![]));
    assert!(cache.lost(&ek("b")).is_some_and(|lost| lost.recorded.revision() == 5));
    let NodeObject::Record(record, mut metadata, _) = provisional("b-1", 7, "n") else { unreachable!("a record") };
    metadata.annotations = None;
    let written = node_of(node_object(&record, *metadata));
    let asked = cache.moment();
    assert!(cache.naming().knows(&Claims::of(&written)));
    assert_eq!(cache.answered(written, asked), Ok(true));
    assert!(cache.naming().is_lost(&ek("b")) && cache.lost(&ek("b")).is_none());
}
