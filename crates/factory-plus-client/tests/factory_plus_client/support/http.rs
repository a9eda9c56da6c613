//! The fake's HTTP.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};
use smol::net::TcpStream;
use smol_hyper::rt::FuturesIo;

use super::{PASSWORD, World, lock};

pub(super) async fn serve(stream: TcpStream, world: Arc<World>) {
    let service = hyper::service::service_fn(|request| {
        let world = Arc::clone(&world);
        async move { Ok::<_, Infallible>(answer(request, &world).await) }
    });
    // A client may end it at any time.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(FuturesIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, world: &World) -> Response<Full<Bytes>> {
    let method = request.method().as_str().to_owned();
    let path = request.uri().path_and_query().unwrap().as_str()[1..].to_owned();
    lock(&world.seen).push(format!("{method} {path}"));
    let headers = request.headers().iter();
    *lock(&world.headers) =
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    let authorization = lock(&world.headers).get("authorization").cloned().unwrap_or_default();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let answering = *lock(&world.answering);
    if let Some((status, text)) = answering.and_then(|answering| answering(&method, &path)) {
        return respond(status, text);
    }
    if path == "token" {
        use base64::Engine as _;
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("sv1test@REALM:{PASSWORD}"));
        return if authorization == format!("Basic {pair}") {
            respond(200, &token(world).to_string())
        } else {
            respond(401, "")
        };
    }
    let known = authorization.strip_prefix("Bearer ").is_some_and(|token| lock(&world.tokens).contains(token));
    if known { resource(world, &method, &path, &body) } else { respond(401, "") }
}

fn token(world: &World) -> Value {
    let token = latchkey_factory_plus::Uuid::random().to_string();
    lock(&world.tokens).insert(token.clone());
    json!({"token": token, "expiry": u64::MAX / 2})
}

fn resource(world: &World, method: &str, path: &str, body: &[u8]) -> Response<Full<Bytes>> {
    let old = lock(&world.resources).get(path).cloned();
    let headers = lock(&world.headers).clone();
    let absent_wanted = headers.get("if-none-match").is_some_and(|value| value == "*");
    let etag = old.as_ref().map(etag);
    let matches =
        headers.get("if-match").is_none_or(|value| Some(value) == etag.as_ref() || value == "*" && old.is_some());
    if method != "GET" && (absent_wanted && old.is_some() || !matches) {
        return respond(412, "");
    }
    match (method, old) {
        ("GET", Some(value)) => {
            let mut response = respond(200, &value.to_string());
            response.headers_mut().insert("etag", etag.unwrap().parse().unwrap());
            response
        }
        ("PUT", old) => {
            lock(&world.resources).insert(path.to_owned(), serde_json::from_slice(body).unwrap());
            world.tell(path);
            respond(if old.is_some() { 204 } else { 201 }, "")
        }
        ("DELETE", Some(_)) => {
            lock(&world.resources).remove(path);
            world.tell(path);
            respond(204, "")
        }
        ("POST", _) => respond(201, std::str::from_utf8(body).unwrap()),
        _ => respond(404, "not here"),
    }
}

/// Of equal values it is equal.
fn etag(value: &Value) -> String {
    format!("\"{}\"", latchkey_factory_plus::Uuid::NIL.named(&value.to_string()))
}

fn respond(status: u16, body: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}
