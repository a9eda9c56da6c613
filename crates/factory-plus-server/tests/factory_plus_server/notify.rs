//! Change notification, with a WebSocket client of another hand.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use crate::rig;

use crate::rig::{Rig, admin, basic, get, rig, rig_with, update};
use async_tungstenite::WebSocketStream;
use async_tungstenite::tungstenite::protocol::Role;
use async_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use async_tungstenite::tungstenite::{Error, Message};
use latchkey_factory_plus::Uuid;
use latchkey_test_support::{block_on, within};
use serde_json::{Value, json};
use smol::stream::StreamExt;

const UPGRADE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

struct Client(WebSocketStream<smol::net::TcpStream>);

impl Client {
    /// A WebSocket that has said nothing.
    async fn open(rig: &Rig) -> Self {
        let mut wire = rig.connect();
        wire.send(get("/notify/v2", UPGRADE).as_bytes());
        let reply = wire.reply();
        assert_eq!(reply.status, 101, "{reply:?}");
        assert_eq!(reply.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(reply.header("connection"), Some("Upgrade"), "clients want it (RFC 6455, section 4.1)");
        wire.stream.set_nonblocking(true).unwrap();
        let stream = smol::net::TcpStream::from(smol::Async::new(wire.stream).unwrap());
        Self(WebSocketStream::from_raw_socket(stream, Role::Client, None).await)
    }

    async fn admitted(rig: &Rig) -> Self {
        let mut client = Self::open(rig).await;
        client.say(&format!("Bearer {}", rig.token())).await;
        assert_eq!(client.text().await, "200");
        client
    }

    async fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    async fn watch(&mut self, uuid: Uuid, url: &str) {
        self.say(&json!({ "uuid": uuid, "method": "WATCH", "request": { "url": url } }).to_string()).await;
    }

    async fn next(&mut self) -> Option<Result<Message, Error>> {
        within("a frame", self.0.next()).await
    }

    async fn text(&mut self) -> String {
        loop {
            match self.next().await.unwrap().unwrap() {
                Message::Text(text) => return text.to_string(),
                Message::Ping(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn update(&mut self) -> Value {
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// The code of the last frame, if there is one; whatever comes before is left out.
    async fn end(&mut self) -> Option<CloseCode> {
        loop {
            match self.next().await {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }
}

fn uuid(n: u8) -> Uuid {
    Uuid::from_random([n; 16])
}

#[test]
fn the_first_frame_says_who_it_is() {
    let rig = rig();
    block_on(async {
        for (first, answer) in [
            ("Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln-_", "401"),
            ("Bearer abc", "401"),
            ("Bearer ", "400"),
            ("Basic abc", "400"),
            ("{}", "400"),
            ("", "400"),
        ] {
            let mut client = Client::open(&rig).await;
            client.say(first).await;
            assert_eq!(client.text().await, answer, "{first}");
            assert_eq!(client.end().await, None);
        }
        let mut client = Client::open(&rig).await;
        client.0.send(Message::binary(b"Bearer x".to_vec())).await.unwrap();
        assert_eq!(client.text().await, "400");
        drop(Client::admitted(&rig).await);
    });
}

#[test]
fn a_silent_client_is_not_waited_for() {
    let rig = rig_with(json!({}), json!({ "head_seconds": 1 }));
    block_on(async {
        let mut client = Client::open(&rig).await;
        assert_eq!(client.end().await, None);
    });
}

#[test]
fn finished_frames_are_sent_as_they_are_up_to_the_last() {
    let rig = rig();
    block_on(async {
        let mut client = Client::admitted(&rig).await;
        client.watch(uuid(1), "v2/finished").await;
        assert_eq!(client.text().await, format!("{{ \"uuid\":\"{}\", \"status\":201 }}", uuid(1)), "with its spaces");
        assert_eq!(client.update().await, json!({ "uuid": uuid(1), "status": 503 }));
        client.watch(uuid(1), "v2/finished").await;
        assert_eq!(client.update().await["status"], 201, "the last one ended it");
    });
}

#[test]
fn updates_come_as_the_feed_tells_them_until_the_client_closes() {
    let rig = rig();
    block_on(async {
        let mut client = Client::admitted(&rig).await;
        client.watch(uuid(1), "v2/thing").await;
        let first = client.update().await;
        assert_eq!(first, json!({ "uuid": uuid(1), "status": 201, "response": { "status": 200, "body": "first" } }));
        rig.updates.send(update(200, json!(null))).await.unwrap();
        let second = client.update().await;
        assert_eq!(second, json!({ "uuid": uuid(1), "status": 200, "response": { "status": 200, "body": null } }));
        assert_eq!(rig.metric("notify_subscriptions"), 1);
        client.say(&json!({ "uuid": uuid(1), "method": "CLOSE" }).to_string()).await;
        assert_eq!(client.update().await, json!({ "uuid": uuid(1), "status": 410 }));
        assert_eq!((rig.metric("notify_subscriptions"), rig.metric("notify_connections")), (0, 1));
        client.watch(uuid(1), "v2/thing").await;
        assert_eq!(client.update().await["status"], 201, "the UUID is free again");
        rig.updates.send(update(403, json!(null))).await.unwrap();
        assert_eq!(client.update().await["status"], 403, "the feed ended it");
        client.watch(uuid(1), "v2/thing").await;
        assert_eq!(client.update().await["status"], 201);
        client.0.close(None).await.unwrap();
        client.end().await;
    });
    latchkey_test_support::until("the end", || (rig.metric("notify_subscriptions") == 0).then_some(()));
}

#[test]
fn what_cannot_be_watched_is_said_with_its_status() {
    let rig = rig();
    block_on(async {
        let mut client = Client::admitted(&rig).await;
        for (request, status) in [
            (json!({ "method": "WATCH", "request": { "url": "v2/nothing" } }), 404),
            (json!({ "method": "SEARCH", "parent": "v2/thing/" }), 404),
            (json!({ "method": "STEAL" }), 400),
            (json!({ "method": "WATCH", "request": { "url": "v2/thing", "method": "PUT" } }), 400),
            (json!({ "method": "WATCH" }), 400),
            (json!({ "method": "CLOSE" }), 410),
            (json!({ "method": "WATCH", "request": { "url": "v2/panic" } }), 500),
            (json!({ "method": "SEARCH", "parent": "panic/" }), 500),
        ] {
            let mut request = request;
            request["uuid"] = json!(uuid(2));
            client.say(&request.to_string()).await;
            assert_eq!(client.update().await, json!({ "uuid": uuid(2), "status": status }), "{request}");
        }
        client.watch(uuid(3), "v2/ends").await;
        assert_eq!([client.update().await["status"].clone(), client.update().await["status"].clone()], [201, 503]);
        client.watch(uuid(4), "v2/pending").await;
        client.watch(uuid(4), "v2/pending").await;
        assert_eq!(client.update().await, json!({ "uuid": uuid(4), "status": 400 }), "one of that UUID runs");
        assert_eq!(rig.metric("notify_subscriptions"), 0, "and both have ended");
    });
    block_on(async {
        let reply =
            rig.ask(&format!("POST /token HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n{}\r\n", basic("nobody", "pw")));
        let mut client = Client::open(&rig).await;
        client.say(&format!("Bearer {}", reply.json()["token"].as_str().unwrap())).await;
        assert_eq!(client.text().await, "200");
        client.watch(uuid(1), "v2/thing").await;
        assert_eq!(client.update().await["status"], 403);
    });
}

#[test]
fn what_names_no_subscription_ends_the_connection() {
    let rig = rig_with(json!({}), json!({ "frame_bytes": 1024 }));
    block_on(async {
        for (frame, code) in [
            (Message::text("{"), CloseCode::Invalid),
            (Message::text("[]"), CloseCode::Invalid),
            (Message::text("{\"uuid\": 1}"), CloseCode::Invalid),
            (Message::text("[".repeat(1000)), CloseCode::Invalid),
            (Message::binary(vec![0]), CloseCode::Unsupported),
            (Message::text("x".repeat(1025)), CloseCode::Size),
        ] {
            let mut client = Client::admitted(&rig).await;
            client.0.send(frame).await.unwrap();
            assert_eq!(client.end().await, Some(code));
        }
    });
}

#[test]
fn subscriptions_are_bounded() {
    let rig = rig_with(json!({}), json!({ "subscriptions": 3 }));
    block_on(async {
        let mut client = Client::admitted(&rig).await;
        for n in 0..4 {
            client.watch(uuid(n), "v2/pending").await;
        }
        assert_eq!(client.update().await, json!({ "uuid": uuid(3), "status": 503 }));
        assert_eq!(rig.metric("notify_subscriptions"), 3);
    });
}

#[test]
fn whoever_does_not_read_is_disconnected() {
    let rig = rig_with(json!({}), json!({ "queue_bytes": 65_536 }));
    block_on(async {
        let mut client = Client::admitted(&rig).await;
        client.watch(uuid(1), "v2/flood").await;
        latchkey_test_support::until("the end", || (rig.metric("notify_slow_total") == 1).then_some(()));
        latchkey_test_support::until("the socket's end", || (rig.metric("notify_connections") == 0).then_some(()));
    });
}

#[test]
fn whoever_answers_no_ping_is_disconnected_and_whoever_does_is_not() {
    let rig = rig_with(json!({}), json!({ "ping_seconds": 1 }));
    block_on(async {
        let mut silent = Client::admitted(&rig).await;
        let mut alive = Client::admitted(&rig).await;
        latchkey_test_support::until("pings", || (rig.metric("notify_connections") == 2).then_some(()));
        // Reading answers pings.
        let answering = async {
            loop {
                alive.next().await.unwrap().unwrap();
            }
        };
        let waiting = async {
            smol::unblock({
                let admin = rig.running.admin();
                move || latchkey_test_support::until("one connection", || (connections(admin) == 1).then_some(()))
            })
            .await;
        };
        smol::future::or(waiting, answering).await;
        assert_eq!(silent.end().await, None);
        alive.watch(uuid(1), "v2/ends").await;
        assert_eq!(alive.update().await["status"], 201);
    });
}

fn connections(admin: std::net::SocketAddr) -> u64 {
    let mut wire = rig::Wire::to(admin);
    wire.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let page = wire.reply().text();
    page.lines().find_map(|line| line.strip_prefix("latchkey_http_notify_connections ")).unwrap().parse().unwrap()
}

#[test]
fn a_revoked_token_ends_what_it_began_and_a_stop_says_so() {
    let rig = rig();
    block_on(async {
        let mut client = Client::admitted(&rig).await;
        rig.tokens.revoke_all();
        assert_eq!(client.end().await, Some(CloseCode::Policy));
        let mut client = Client::admitted(&rig).await;
        let running = rig.running;
        let stopping = smol::unblock(move || running.stop());
        assert_eq!(client.end().await, Some(CloseCode::Restart));
        drop(client);
        stopping.await.unwrap();
    });
}

#[test]
fn what_asks_for_no_websocket_is_told_what_is_missing() {
    let rig = rig();
    assert_eq!(rig.ask(&get("/notify/v2", &admin())).status, 426);
    assert_eq!(rig.ask(&get("/notify/v2", &UPGRADE.replace("13", "8"))).status, 426);
    assert_eq!(rig.ask(&get("/notify/v2", &UPGRADE.replace("dGhl", ""))).status, 400);
    let post = get("/notify/v2", UPGRADE).replace("GET", "POST");
    assert_eq!(rig.ask(&post).status, 405);
    assert_eq!(rig.ask(&get("/open", UPGRADE)).status, 200, "elsewhere nobody is listened to");
}
