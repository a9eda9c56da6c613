use super::*;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;

const MOST: usize = 3;

fn object(name: &str, value: &str) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.to_owned()), namespace: Some("n".to_owned()), ..ObjectMeta::default() };
    let data = Some([("value".to_owned(), value.to_owned())].into());
    ConfigMap { metadata, data, ..ConfigMap::default() }
}

fn keep(object: ConfigMap) -> Option<String> {
    object.data?.remove("value").filter(|value| value != "unwanted")
}

fn take(known: &mut Known<String>, event: Event<ConfigMap>) -> bool {
    known.take("configmaps", MOST, event, &keep)
}

fn list(known: &mut Known<String>, objects: &[(&str, &str)]) -> bool {
    assert!(!take(known, Event::Init));
    for (name, value) in objects {
        assert!(!take(known, Event::InitApply(object(name, value))));
    }
    take(known, Event::InitDone)
}

fn names(known: &Known<String>) -> String {
    known.objects.iter().fold(String::new(), |all, (key, value)| all + &key.name + "=" + value + " ")
}

fn failure() -> Standing {
    Standing::Stale(ApiError::new("configmaps", ApiCode::Unreachable, "away"))
}

#[test]
fn only_what_changed_of_what_is_kept_is_told() {
    let mut known = Known::new();
    assert!(list(&mut known, &[("a", "1"), ("b", "unwanted")]));
    assert_eq!((names(&known).as_str(), &known.standing), ("a=1 ", &Standing::Fresh));
    let number = known.number;
    for event in
        [Event::Apply(object("a", "1")), Event::Apply(object("b", "unwanted")), Event::Delete(object("b", "1"))]
    {
        assert!(!take(&mut known, event));
    }
    assert!(!list(&mut known, &[("a", "1")]));
    assert_eq!(known.number, number);
    for (event, left) in [
        (Event::Apply(object("b", "2")), "a=1 b=2 "),
        (Event::Apply(object("a", "unwanted")), "b=2 "),
        (Event::Delete(object("b", "2")), ""),
    ] {
        assert!(take(&mut known, event));
        assert_eq!(names(&known), left);
    }
    assert_eq!(known.number, number + 3);
}

#[test]
fn a_listing_takes_the_place_of_what_was_known_when_it_is_complete() {
    let mut known = Known::new();
    assert!(list(&mut known, &[("a", "1"), ("b", "1")]));
    take(&mut known, Event::Init);
    take(&mut known, Event::InitApply(object("c", "1")));
    assert_eq!(names(&known), "a=1 b=1 ");
    // It broke off, and begins anew.
    assert!(list(&mut known, &[("b", "1")]));
    assert_eq!(names(&known), "b=1 ");
}

#[test]
fn after_a_failure_what_was_known_stays_and_a_listing_alone_is_not_believed_to_go_on() {
    let mut known = Known::new();
    list(&mut known, &[("a", "1")]);
    assert!(known.stand("configmaps", failure()) && !known.stand("configmaps", failure()));
    assert_eq!(names(&known), "a=1 ");
    assert!(!list(&mut known, &[("a", "1")]));
    assert_eq!(known.standing, failure());
    assert!(known.go_on("configmaps", MOST));
    assert_eq!(known.standing, Standing::Fresh);
}

#[test]
fn there_is_so_much_room_and_what_finds_none_is_said_until_a_listing_has_room_for_all() {
    let mut known = Known::new();
    let four = [("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")];
    let is_full = |known: &Known<String>| matches!(&known.standing, Standing::Stale(error) if error.code == ApiCode::TooManyObjects);
    list(&mut known, &four);
    assert!(is_full(&known));
    assert_eq!(names(&known), "a=1 b=1 c=1 ");
    list(&mut known, &four[1..]);
    known.go_on("configmaps", MOST);
    assert_eq!(known.standing, Standing::Fresh);
    assert!(take(&mut known, Event::Apply(object("a", "1"))) && is_full(&known));
    // Those that are there may change, and the one too many is told of once.
    assert!(!take(&mut known, Event::Apply(object("a", "2"))));
    assert!(take(&mut known, Event::Apply(object("b", "2"))));
    assert_eq!(names(&known), "b=2 c=1 d=1 ");
}
