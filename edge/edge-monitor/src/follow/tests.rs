//! What the centre says of a monitor, by a fake centre over real sockets.

use std::sync::{Arc, Mutex};

use async_tungstenite::tungstenite::Message;
use latchkey_factory_plus_client::{Identity as Principal, Insecure, Limits, Services, Settings, Trust};
use latchkey_test_support::block_on;
use serde_json::{Value, json};
use smol::channel::{Receiver, Sender, unbounded};
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::{TcpListener, TcpStream};
use smol::stream::StreamExt as _;

use super::*;

const ACCOUNT: &str = "9a3d7a60-6bbd-4d34-b6a8-3c7d9cc0f1aa";
const CLUSTER: Uuid = Uuid::constant("3f0c62e3-6f6e-4f4f-9b65-4c5d53b9a6d1");

/// Fake: authorisation and configuration database at one address. It answers `whoami` as told, and pushes what a test sends as
/// readings of the one resource that is watched.
struct FakeCentre {
    client: Client,
    whoami: Arc<Mutex<Value>>,
    /// Status and body.
    readings: Sender<(u16, Value)>,
    watched: Receiver<String>,
    _serving: smol::Task<()>,
}

impl FakeCentre {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse::<latchkey_factory_plus_client::BaseUrl>();
        let url = url.unwrap();
        let services = [uuids::service::AUTH, uuids::service::CONFIG_DB].map(|service| (service, url.clone()));
        let client = Client::new(Settings {
            identity: Principal::basic(&"op1monitor/Bolt@R".parse().unwrap(), &"secret".to_owned().into()).unwrap(),
            trust: Trust::none().allowing(Insecure),
            services: Services::fixed(services),
            limits: Limits::default(),
        });
        let whoami = Arc::new(Mutex::new(json!({"kerberos": "op1monitor/Bolt@R"})));
        let (readings, told) = unbounded();
        let (asked, watched) = unbounded();
        let answers = Arc::clone(&whoami);
        let serving = smol::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (whoami, told, asked) = (Arc::clone(&answers), told.clone(), asked.clone());
                smol::spawn(async move {
                    // Whoever hangs up in between is served no more.
                    let _ = serve(stream, &whoami, &told, &asked).await;
                })
                .detach();
            }
        });
        Self { client, whoami, readings, watched, _serving: serving }
    }

    async fn says(&self, status: u16, body: Value) {
        self.readings.send((status, body)).await.unwrap();
    }
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

async fn serve(
    mut stream: TcpStream,
    whoami: &Mutex<Value>,
    told: &Receiver<(u16, Value)>,
    asked: &Sender<String>,
) -> Result<(), Failed> {
    let mut head = [0; 2048];
    let count = stream.peek(&mut head).await?;
    if head[..count].starts_with(b"GET /notify/v2") {
        return notify(stream, told, asked).await;
    }
    let count = stream.read(&mut head).await?;
    let head = String::from_utf8_lossy(&head[..count]).into_owned();
    let body = if head.starts_with("POST /token") {
        json!({"token": "token", "expiry": u64::MAX / 2})
    } else {
        assert!(head.starts_with("GET /v2/whoami "), "{head}");
        whoami.lock().unwrap().clone()
    };
    let body = body.to_string();
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await?;
    Ok(stream.close().await?)
}

async fn notify(stream: TcpStream, told: &Receiver<(u16, Value)>, asked: &Sender<String>) -> Result<(), Failed> {
    let mut socket = async_tungstenite::accept_async(stream).await?;
    socket.next().await.ok_or("no token")??;
    socket.send(Message::text("200")).await?;
    let request = socket.next().await.ok_or("no request")??;
    let request: Value = serde_json::from_str(request.to_text()?)?;
    asked.send(request["request"]["url"].as_str().unwrap_or_default().to_owned()).await?;
    let mut first = true;
    while let Ok((status, body)) = told.recv().await {
        let update = json!({
            "uuid": request["uuid"], "status": if std::mem::take(&mut first) { 201 } else { 200 },
            "response": {"status": status, "body": body},
        });
        socket.send(Message::text(update.to_string())).await?;
    }
    Ok(())
}

#[test]
fn an_address_is_followed_and_a_bad_one_is_none() {
    block_on(async {
        let centre = FakeCentre::start().await;
        let known = Latest::new(None);
        let following = async { match follow(&centre.client, CLUSTER, &known).await {} };
        let testing = async {
            // Unknown at first: it asks again.
            *centre.whoami.lock().unwrap() = json!({"kerberos": "op1monitor/Bolt@R", "uuid": ACCOUNT});
            let watched = centre.watched.recv().await.unwrap();
            assert_eq!(watched, format!("v2/app/{}/object/{ACCOUNT}", uuids::application::SPARKPLUG_ADDRESS));
            for node in ["Monitor", "Other"] {
                centre.says(200, json!({"group_id": "ACME-Bolt", "node_id": node})).await;
                let address = NodeAddress::new("ACME-Bolt", node).unwrap();
                let found = known.wait(|known| known.clone().filter(|known| known.address == address)).await;
                assert_eq!((found.account, found.cluster), (ACCOUNT.parse().unwrap(), CLUSTER));
            }
            for (status, body) in [
                (404, Value::Null),
                (403, Value::Null),
                (200, json!({"group_id": "ACME-Bolt"})),
                (200, json!({"group_id": "ACME/#", "node_id": "Monitor"})),
                (200, json!({"group_id": "", "node_id": "Monitor"})),
                (200, json!({"group_id": 7})),
                (200, json!("a")),
            ] {
                centre.says(status, body).await;
                known.wait(|known| known.is_none().then_some(())).await;
                centre.says(200, json!({"group_id": "ACME-Bolt", "node_id": "Monitor"})).await;
                known.wait(|known| known.is_some().then_some(())).await;
            }
        };
        smol::future::or(testing, following).await;
    });
}
