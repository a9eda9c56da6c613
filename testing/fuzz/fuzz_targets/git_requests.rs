//! What the git server reads of a request: path and query, and which repository the name in them means.
#![no_main]

use latchkey_factory_plus::Uuid;
use latchkey_git_server::entries::Entries;
use latchkey_git_server::paths::{LONGEST_NAME, LONGEST_PATH, Method, Repository, Service, Step, Target};
use latchkey_factory_plus_server::read_json;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const ONE: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000a");
const OTHER: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000b");

fuzz_target!(|bytes: &[u8]| {
    // A method, a path, a query, and the entry of a repository, each on a line.
    let Some((method, rest)) = bytes.split_first() else { return };
    let mut lines = rest.splitn(3, |byte| *byte == b'\n');
    let [path, query, entry] = [(); 3].map(|()| lines.next().unwrap_or_default());
    let (path, query) = (String::from_utf8_lossy(path), String::from_utf8_lossy(query));
    let query = (!query.is_empty()).then_some(&*query);
    let method = [Method::Get, Method::Post, Method::Delete][usize::from(method % 3)];
    let Ok(target) = Target::read(method, &path, query) else { return };
    assert!(path.len() <= LONGEST_PATH, "bound");
    if let Target::Git { repository, service, step } = target {
        assert_eq!(method, if step == Step::Advertise { Method::Get } else { Method::Post });
        one_service(&path, query, service, step);
        one_repository(&repository, &read_json(entry).unwrap_or_default());
    }
});

/// Whoever reads path and query in another way finds the same service: nothing else is said in either.
fn one_service(path: &str, query: Option<&str>, service: Service, step: Step) {
    match step {
        Step::Advertise => {
            assert!(path.ends_with("/info/refs"), "{path:?}");
            assert_eq!(query, Some(format!("service={}", service.name()).as_str()));
        }
        Step::Exchange => assert!(path.ends_with(&format!("/{}", service.name())), "{path:?}"),
    }
}

/// A name is a name of one repository, or of none, whatever the entries say.
fn one_repository(repository: &Repository, entry: &Value) {
    let mut entries = Entries::new([(ONE, entry)]);
    if let Repository::Name(name) = repository {
        let parts: Vec<&str> = name.split('/').collect();
        let fits = |part: &&str| !part.is_empty() && part.len() <= LONGEST_NAME && !part.contains(char::is_control);
        assert!(parts.len() == 2 && parts.iter().all(fits), "{name:?}");
        if let Some(found) = entries.resolve(repository) {
            let path = entry["path"].as_str().expect("it was found by it");
            assert!(found == ONE && (path == name || Some(path) == name.strip_suffix(".git")), "{name:?}: {path:?}");
            // Another one that wants the same path takes nothing over, and leaves nothing behind.
            entries.set(OTHER, entry);
            assert_ne!(entries.resolve(repository), Some(OTHER));
            entries.remove(OTHER);
            assert_eq!(entries.resolve(repository), Some(ONE));
        }
    }
}
