//! Paths of both versions.

use super::*;

const A: &str = "64a8bfa9-7772-45c4-9d1a-9e6290690957";
const O: &str = "f24d354d-abc1-4e32-98e1-0667b3e40b61";

#[test]
fn each_path_is_what_the_contract_says() {
    let (a, o): (Uuid, Uuid) = (A.parse().unwrap(), O.parse().unwrap());
    let (derived, direct) = (Depth::Derived, Depth::Direct);
    for (path, resource) in [
        ("/ping", Resource::Ping),
        ("/token", Resource::Token),
        ("/load", Resource::Load),
        ("/notify/v2", Resource::Notify),
        ("/v2/object", Resource::Objects),
        ("/v2/object/rank", Resource::Ranks),
        ("/v2/object/O", Resource::Object(o)),
        ("/v2/class", Resource::Members(RANK_1, derived)),
        ("/v2/app", Resource::Members(APPLICATION, derived)),
        ("/v2/class/O", Resource::Class(o)),
        ("/v2/class/O/member", Resource::Members(o, derived)),
        ("/v2/class/O/subclass", Resource::Subclasses(o, derived)),
        ("/v2/class/O/direct/member", Resource::Members(o, direct)),
        ("/v2/class/O/direct/subclass", Resource::Subclasses(o, direct)),
        ("/v2/class/O/member/A", Resource::Member(o, derived, a)),
        ("/v2/class/O/direct/member/A", Resource::Member(o, direct, a)),
        ("/v2/class/O/direct/subclass/A", Resource::Subclass(o, direct, a)),
        ("/v2/app/A/object", Resource::EntryObjects(a)),
        ("/v2/app/A/object/O", Resource::Entry(a, o)),
        ("/v2/app/A/class/O", Resource::EntryObjectsOfClass(a, o)),
        ("/v1/app/A/object/O", Resource::Entry(a, o)),
        ("/v1/app/A/device/O", Resource::Entry(a, o)),
        ("/v1/app/A/config-schema", Resource::Entry(CONFIG_SCHEMA, a)),
        ("/v1/app/A/search", Resource::Search(a, None)),
        ("/v1/app/A/class/O/search", Resource::Search(a, Some(o))),
        ("/v1/object", Resource::Objects),
        ("/v1/class/O", Resource::Members(o, derived)),
    ] {
        let path = path.replace('A', A).replace('O', O);
        assert_eq!(Resource::parse(&path), Ok(resource), "{path}");
    }
    for (path, error) in [
        ("/v2/object/x", PathError::NoUuid),
        ("/v2/app/A/object/%2F", PathError::NoUuid),
        ("/v1/app/A", PathError::Withdrawn),
        ("/v1/save", PathError::Withdrawn),
        ("/v2/app/A/object/", PathError::NoUuid),
        ("/v3/object", PathError::Unknown),
        ("/", PathError::Unknown),
        ("", PathError::Unknown),
        ("//v2/object", PathError::Unknown),
    ] {
        assert_eq!(Resource::parse(&path.replace('A', A)), Err(error), "{path}");
    }
}

#[test]
fn a_new_object_has_a_class_and_no_rank() {
    let post = |body: &str| Resource::Objects.post(body.as_bytes()).unwrap();
    assert!(matches!(post(&format!("{{\"class\":\"{O}\"}}")), Ok(Write::CreateObject { uuid: None, .. })));
    for bad in ["{}", "{\"class\":null}", &format!("{{\"class\":\"{O}\",\"rank\":1}}"), "[", "7"] {
        assert!(post(bad).is_err(), "{bad}");
    }
}
