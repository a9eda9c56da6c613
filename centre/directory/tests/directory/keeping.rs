//! What was acknowledged is there after a restart.

use latchkey_directory::advertised::{Advertised, Services};
use latchkey_directory::api::{Ask, MayAdvertise, Method};
use latchkey_directory::keeper::Keeper;
use latchkey_factory_plus::uuids::{service, special};
use latchkey_test_support::block_on;
use serde_json::json;

fn advertise(keeper: &Keeper, url: &str) -> u16 {
    let path = format!("/v1/service/{}/advertisment", service::GIT);
    let asked = Ask::read(Method::Put, &path, json!({"url": url}).to_string().as_bytes()).unwrap();
    block_on(keeper.advertise(MayAdvertise::check(asked, &[], true).unwrap())).status
}

#[test]
fn what_was_advertised_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("directory.redb");
    let keeper = Keeper::open(&path, Services::default()).unwrap();
    assert_eq!(advertise(&keeper, "http://one.example"), 204);
    assert_eq!(advertise(&keeper, "http://two.example"), 204);
    drop(keeper);
    let keeper = Keeper::open(&path, Services::default()).unwrap();
    let url = |keeper: &Keeper| keeper.look(|services| services.find(service::GIT).unwrap().url.to_string());
    assert_eq!(url(&keeper), "http://two.example");
    drop(keeper);
    // What the configuration says from then on counts, whatever was advertised before.
    let configured = Advertised { url: "http://three.example".parse().unwrap(), device: special::WILDCARD };
    let keeper = Keeper::open(&path, Services::new([(service::GIT, configured)])).unwrap();
    assert_eq!(url(&keeper), "http://three.example");
    assert_eq!(advertise(&keeper, "http://two.example"), 409);
}

#[test]
fn a_damaged_file_is_refused_by_what_is_wrong() {
    use latchkey_group_commit::{Change, Store};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("directory.redb");
    let store = Store::open(&path, &["advertisements"], |_, _, _| Ok(())).unwrap();
    block_on(store.write(vec![Change::put("advertisements", [1; 16], "{\"url\": \"javascript:x\"}")])).unwrap();
    drop(store);
    let error = Keeper::open(&path, Services::default()).unwrap_err().to_string();
    assert!(error.contains("begins with http://"), "{error}");
}
