//! What auth and directory read before they know what it means: paths, names, dumps, addresses, what proxies say.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use latchkey_auth::api::{Ask, Ground, Method, Write, decide, watched};
use latchkey_auth::model::Model;
use latchkey_auth::rights::Rules;
use latchkey_auth::state::State;
use latchkey_auth::Realms;
use latchkey_directory::address::{Address, Domain, Outside};
use latchkey_directory::api as directory;
use latchkey_factory_plus::{Upn, Uuid};
use libfuzzer_sys::fuzz_target;

const ROOT: &str = "root@R";

fuzz_target!(|bytes: &[u8]| {
    // A method, a path up to the end of the line, and a body.
    let Some((method, rest)) = bytes.split_first() else { return };
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let (path, body) = (String::from_utf8_lossy(&rest[..end]), rest.get(end + 1..).unwrap_or_default());
    ask_auth([Method::Get, Method::Put, Method::Post, Method::Delete][usize::from(method % 4)], &path, body);
    ask_auth(Method::Post, "/load", body);
    for method in [directory::Method::Get, directory::Method::Put, directory::Method::Post] {
        let _ = directory::Ask::read(method, &path, body);
    }
    if let Ok(read) = path.parse::<Address>() {
        assert_eq!(read.to_string(), path);
    }
    if let Ok(outside) = Outside::read(&path, std::str::from_utf8(body).ok()) {
        let (inside, address) = (Domain::try_from("a.b".to_owned()), "mqtt://x.a.b:1883/p".parse::<Address>());
        let seen = address.expect("an address").seen_from(&outside, &inside.expect("a domain")).to_string();
        assert!(seen.parse::<Address>().is_ok(), "{seen}");
    }
});

/// What root may ask, a model takes: no two principals have one name, and no two grants say the same.
fn ask_auth(method: Method, path: &str, body: &[u8]) {
    let _ = watched(path);
    let Ok(Ask::Write(write)) = Ask::read(method, path, body) else { return };
    let root: Upn = ROOT.parse().expect("a name");
    let realms = Realms::new("R".parse().expect("a realm"), BTreeSet::new());
    let rules = Rules { realms, root: Some(root.clone()), fixed: BTreeMap::new() };
    let mut state = State::new(rules, Model::default());
    let rights = state.rights(root).expect("no list is too long");
    let mut next = 0_u128;
    for _ in 0..2 {
        let ground = Ground { rules: state.rules(), objects: state.objects(), model: state.model() };
        let mut fresh = || {
            next += 1;
            Uuid::from_bytes(next.to_be_bytes())
        };
        let decided = decide(ground, &rights, write.clone(), &mut fresh);
        decided.changes.iter().for_each(|change| drop(state.apply(change)));
        if matches!(write, Write::Load(_)) && decided.answer.status == 200 {
            for (principal, name) in state.model().identities().all() {
                assert_eq!(state.model().identities().principal_of(name), Some(principal));
            }
        }
    }
    for (uuid, grant) in state.model().grants().all() {
        assert_eq!(state.model().grants().find(grant), Some(uuid));
    }
}
