//! The fake's change notification.

use std::collections::BTreeMap;

use async_tungstenite::tungstenite::{Error, Message};
use async_tungstenite::{WebSocketStream, accept_async};
use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::notify::Request;
use serde_json::{Value, json};
use smol::future::FutureExt as _;
use smol::net::TcpStream;
use smol::stream::StreamExt as _;

use super::{World, lock};

enum Step {
    Frame(Option<Result<Message, Error>>),
    Changed(String),
}

pub(super) async fn serve(stream: TcpStream, world: &World) {
    // A client may end it at any time.
    let _ = talk(stream, world).await;
}

async fn talk(stream: TcpStream, world: &World) -> Result<(), Error> {
    let mut socket = accept_async(stream).await?;
    let Some(Message::Text(first)) = socket.next().await.transpose()? else { return Ok(()) };
    let known = first.strip_prefix("Bearer ").is_some_and(|token| lock(&world.tokens).contains(token));
    socket.send(Message::text(if known { "200" } else { "401" })).await?;
    if !known {
        return socket.close(None).await;
    }
    if *lock(&world.deaf) {
        return std::future::pending().await;
    }
    let (listener, changes) = smol::channel::unbounded();
    lock(&world.listeners).push(listener);
    let mut asked: BTreeMap<Uuid, Request> = BTreeMap::new();
    loop {
        let frame = async { Step::Frame(socket.next().await) };
        let told = async {
            match changes.recv().await {
                Ok(path) => Step::Changed(path),
                Err(_) => std::future::pending().await,
            }
        };
        match frame.or(told).await {
            Step::Frame(Some(Ok(Message::Text(text)))) => {
                let request: Request = serde_json::from_str(text.as_str()).expect("a request of the contract");
                lock(&world.asked).push(request.clone());
                if !take(&mut socket, world, &mut asked, request).await? {
                    return Ok(());
                }
            }
            Step::Frame(Some(Ok(_))) => {}
            Step::Frame(_) => return Ok(()),
            Step::Changed(path) => {
                let updates: Vec<Value> = asked.values().filter_map(|request| change(world, request, &path)).collect();
                for update in updates {
                    socket.send(Message::text(update.to_string())).await?;
                }
            }
        }
    }
}

async fn take(
    socket: &mut WebSocketStream<TcpStream>,
    world: &World,
    asked: &mut BTreeMap<Uuid, Request>,
    request: Request,
) -> Result<bool, Error> {
    let lying = *lock(&world.lying);
    if let Some(lying) = lying
        && !matches!(request, Request::Close { .. })
    {
        let Some(frames) = lying(&request) else { return Ok(false) };
        for frame in frames {
            socket.send(Message::text(frame)).await?;
        }
        return Ok(true);
    }
    let answer = match &request {
        Request::Watch { uuid, request } => json!({"uuid": uuid, "status": 201, "response": read(world, &request.url)}),
        Request::Search { uuid, parent, .. } => {
            let resources = lock(&world.resources);
            let inside =
                resources.iter().filter_map(|(path, value)| Some((path.strip_prefix(parent.as_str())?, value)));
            let children: BTreeMap<_, _> =
                inside.map(|(child, value)| (child, json!({"status": 200, "body": value}))).collect();
            json!({"uuid": uuid, "status": 201, "response": {"status": 204}, "children": children})
        }
        Request::Close { uuid } => {
            asked.remove(uuid);
            json!({"uuid": uuid, "status": 410})
        }
    };
    if let Request::Watch { uuid, .. } | Request::Search { uuid, .. } = &request {
        asked.insert(*uuid, request);
    }
    socket.send(Message::text(answer.to_string())).await?;
    Ok(true)
}

fn change(world: &World, request: &Request, path: &str) -> Option<Value> {
    match request {
        Request::Watch { uuid, request } if request.url == path => {
            Some(json!({"uuid": uuid, "status": 200, "response": read(world, path)}))
        }
        Request::Search { uuid, parent, .. } => {
            let child = path.strip_prefix(parent.as_str())?;
            Some(json!({"uuid": uuid, "status": 200, "child": child, "response": read(world, path)}))
        }
        _ => None,
    }
}

fn read(world: &World, path: &str) -> Value {
    match lock(&world.resources).get(path) {
        Some(value) => json!({"status": 200, "body": value, "headers": {"etag": "v1"}}),
        None => json!({"status": 404}),
    }
}
