//! Fake: directory, authorisation and configuration database of a centre at one address, for one monitor that has an address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_tungstenite::tungstenite::Message;
use serde_json::{Value, json};
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::{TcpListener, TcpStream};
use smol::stream::StreamExt as _;

use super::MONITOR;

pub(crate) struct FakeCentre {
    address: SocketAddr,
    tokens: Arc<AtomicUsize>,
    _serving: smol::Task<()>,
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

impl FakeCentre {
    /// Its tokens are said to end so long from now.
    pub(crate) fn start(account: String, tokens_end_in: Duration) -> Self {
        let listener = smol::block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let tokens = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&tokens);
        let serving = smol::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (account, tokens) = (account.clone(), Arc::clone(&counted));
                smol::spawn(async move {
                    // Whoever hangs up in between is served no more.
                    let _ = serve(stream, address, &account, tokens_end_in, &tokens).await;
                })
                .detach();
            }
        });
        Self { address, tokens, _serving: serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How often a token was asked for.
    pub(crate) fn tokens(&self) -> usize {
        self.tokens.load(SeqCst)
    }
}

async fn serve(
    mut stream: TcpStream,
    address: SocketAddr,
    account: &str,
    tokens_end_in: Duration,
    tokens: &AtomicUsize,
) -> Result<(), Failed> {
    let mut head = [0; 4096];
    let count = stream.peek(&mut head).await?;
    if head[..count].starts_with(b"GET /notify/v2") {
        return notify(stream).await;
    }
    let count = stream.read(&mut head).await?;
    let head = String::from_utf8_lossy(&head[..count]).into_owned();
    let body = if head.starts_with("POST /token") {
        tokens.fetch_add(1, SeqCst);
        let end = SystemTime::now().duration_since(UNIX_EPOCH)? + tokens_end_in;
        json!({"token": "token", "expiry": u64::try_from(end.as_millis())?})
    } else if head.starts_with("GET /v1/service/") {
        json!([{"device": null, "url": format!("http://{address}")}])
    } else {
        assert!(head.starts_with("GET /v2/whoami "), "{head}");
        json!({"kerberos": MONITOR.0, "uuid": account})
    };
    let body = body.to_string();
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await?;
    Ok(stream.close().await?)
}

/// Tells the address of the monitor, and nothing after it.
async fn notify(stream: TcpStream) -> Result<(), Failed> {
    let mut socket = async_tungstenite::accept_async(stream).await?;
    socket.next().await.ok_or("no token")??;
    socket.send(Message::text("200")).await?;
    let request = socket.next().await.ok_or("no request")??;
    let request: Value = serde_json::from_str(request.to_text()?)?;
    let body = json!({"group_id": "ACME-Bolt", "node_id": "Monitor"});
    let update = json!({"uuid": request["uuid"], "status": 201, "response": {"status": 200, "body": body}});
    socket.send(Message::text(update.to_string())).await?;
    // Answers pings until the monitor is gone.
    while socket.next().await.transpose()?.is_some() {}
    Ok(())
}
