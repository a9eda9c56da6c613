//! The centre's own client, and requests by hand.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};

use latchkey_auth::api::Method;
use latchkey_factory_plus::grants::Grant;
use latchkey_factory_plus::uuids::{permission, service, special};
use latchkey_factory_plus_client::notify::State;
use latchkey_factory_plus_client::{Auth, CallError, Directory, GrantPattern, Written, acl};
use latchkey_test_support::{block_on, connect_from, within};
use serde_json::json;

use crate::served::rig::{ACCOUNT, MANAGER, MANAGER_UUID, READER, Rig};

fn pull(target: latchkey_factory_plus::Uuid) -> Grant {
    Grant { principal: ACCOUNT, permission: permission::GIT_PULL, target, plural: false }
}

#[test]
fn an_account_is_made_granted_something_and_ended() {
    let rig = Rig::new();
    let auth = Auth::of(&rig.client(MANAGER));
    block_on(async {
        let me = auth.whoami().await.unwrap().unwrap();
        assert_eq!(
            (me.kerberos.as_ref().map(latchkey_factory_plus::Upn::as_str), me.uuid),
            (Some(MANAGER), Some(MANAGER_UUID))
        );
        auth.put_kerberos(ACCOUNT, &"op1flux/North@R".parse().unwrap()).await.unwrap();
        assert_eq!(auth.identity(&"op1flux/North@R".parse().unwrap()).await.unwrap(), Some(ACCOUNT));
        assert!(matches!(
            auth.put_kerberos(MANAGER_UUID, &"op1flux/North@R".parse().unwrap()).await,
            Err(CallError::Conflict { .. })
        ));
        let (written, uuid) = auth.grant(&pull(MANAGER_UUID)).await.unwrap();
        assert_eq!(written, Written::Created);
        assert_eq!(auth.grant(&pull(MANAGER_UUID)).await.unwrap(), (Written::Replaced, uuid));
        let theirs = GrantPattern { principal: Some(ACCOUNT), ..GrantPattern::default() };
        assert_eq!(auth.find_grants(&theirs).await.unwrap(), [uuid]);
        assert_eq!(auth.acl(&"op1flux/North@R".parse().unwrap()).await.unwrap().len(), 1);
        assert!(auth.delete_grant(uuid).await.unwrap() && !auth.delete_grant(uuid).await.unwrap());
        assert!(auth.delete_kerberos(ACCOUNT).await.unwrap() && !auth.delete_kerberos(ACCOUNT).await.unwrap());
        assert_eq!(auth.acl(&"op1flux/North@R".parse().unwrap()).await.unwrap(), []);
        let stranger = Auth::of(&rig.client(READER));
        assert!(matches!(stranger.acl(&MANAGER.parse().unwrap()).await, Err(CallError::Forbidden { .. })));
        assert_eq!(stranger.whoami().await.unwrap(), None);
    });
}

#[test]
fn an_access_list_is_followed_as_it_changes() {
    let rig = Rig::new();
    let client = rig.client(MANAGER);
    let (auth, follower) = (Auth::of(&client), acl::Follower::new(&client, acl::Settings::default()));
    let path = "v2/acl/kerberos/op1flux%2FNorth%40R";
    let mut watch = auth.service().notify().watch(path);
    block_on(async {
        watch.changed().await;
        assert_eq!((watch.state(), watch.reading().unwrap().body.as_deref()), (State::Fresh, Some(&json!([]))));
        auth.put_kerberos(ACCOUNT, &"op1flux/North@R".parse().unwrap()).await.unwrap();
        let (_, uuid) = auth.grant(&pull(special::SELF)).await.unwrap();
        watch.changed().await;
        let list = json!([{"permission": permission::GIT_PULL, "target": ACCOUNT}]);
        assert_eq!(watch.reading().unwrap().body.as_deref(), Some(&list));
        assert_eq!(follower.access(&"op1flux/North@R".parse().unwrap()).await.unwrap().len(), 1);
        auth.delete_grant(uuid).await.unwrap();
        watch.changed().await;
        assert_eq!(watch.reading().unwrap().body.as_deref(), Some(&json!([])));
        let ended = within("the end of the grant", async {
            while !follower.access(&"op1flux/North@R".parse().unwrap()).await.unwrap().is_empty() {
                smol::future::yield_now().await;
            }
        });
        ended.await;
    });
}

#[test]
fn a_name_is_given_as_soon_as_the_news_of_its_object_came() {
    let rig = Rig::new();
    let edge = "op1krbkeys/North@R";
    rig.as_root(Method::Put, &format!("/v2/principal/{ACCOUNT}/kerberos"), &json!(edge));
    let mine = json!({"principal": ACCOUNT, "permission": permission::MANAGE_KERBEROS, "target": special::MINE, "plural": true});
    rig.as_root(Method::Post, "/v2/grant", &mine);
    let own = latchkey_factory_plus::Uuid::random();
    let path = format!("/v2/principal/{own}/kerberos");
    let asked = latchkey_auth::api::Ask::read(latchkey_auth::api::Method::Put, &path, br#""op1sync/North@R""#).unwrap();
    let keeper = rig.keeper.clone();
    let named = smol::spawn(async move { keeper.ask(edge.parse().unwrap(), asked).await.status });
    rig.keeper.heard(Vec::new(), vec![(own, Some(ACCOUNT))], false);
    assert_eq!(block_on(named), 204);
}

/// What is answered to one request, by hand.
fn raw(from: &str, to: SocketAddr, head: &str, body: &str) -> String {
    let mut stream = connect_from(from.parse::<Ipv4Addr>().unwrap(), to).unwrap();
    let basic = "Authorization: Basic c3YxY2x1c3Rlcm1hbmFnZXJAUjpyaWdodA==";
    let request =
        format!("{head}\r\nHost: x\r\n{basic}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn only_a_trusted_proxy_says_what_a_service_is_called_outside() {
    let rig = Rig::new();
    let client = rig.client(MANAGER);
    let body = json!({"url": "http://git.internal.example"});
    let path = format!("v1/service/{}/advertisment", service::GIT);
    block_on(client.service(service::DIRECTORY).put(&path, &body, &latchkey_factory_plus_client::Precondition::None))
        .unwrap();
    let asked = |from, said: &str| {
        raw(from, rig.directory.address(), &format!("GET /v1/service/{} HTTP/1.1{said}", service::GIT), "")
    };
    let outside = "\r\nX-Forwarded-Host: directory.example.org\r\nX-Forwarded-Proto: https";
    assert!(asked("127.0.0.1", outside).contains("http://git.internal.example"));
    assert!(asked("127.0.0.2", outside).contains("https://git.example.org"));
    assert!(asked("127.0.0.2", "").contains("http://git.internal.example"));
    let twice = "\r\nX-Forwarded-Host: a.example\r\nX-Forwarded-Host: b.example";
    assert!(asked("127.0.0.2", twice).starts_with("HTTP/1.1 400 "));
    let found = block_on(Directory::of(&client).services(service::AUTH)).unwrap();
    assert_eq!(found.len(), 1);
}

#[test]
fn a_body_that_is_not_said_to_be_json_is_refused() {
    let rig = Rig::new();
    let head = format!("PUT /v2/principal/{ACCOUNT}/kerberos HTTP/1.1");
    let put = |more: &str| raw("127.0.0.1", rig.auth.address(), &format!("{head}{more}"), r#""a@R""#);
    assert!(put("").starts_with("HTTP/1.1 415 "));
    assert!(put("\r\nContent-Type: text/plain").starts_with("HTTP/1.1 415 "));
    let good = put("\r\nContent-Type: application/json");
    assert!(good.starts_with("HTTP/1.1 204 "), "{good}");
    let patch = raw("127.0.0.1", rig.auth.address(), "PATCH /v2/grant HTTP/1.1", "");
    assert!(patch.starts_with("HTTP/1.1 405 "), "{patch}");
}
