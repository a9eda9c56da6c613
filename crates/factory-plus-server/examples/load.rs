//! What a small request costs: a server with one JSON answer, a token, and clients that ask as fast as they are answered, all on this
//! machine. `cargo run --profile bench -p latchkey-factory-plus-server --features testing --example load -- [CONNECTIONS] [SECONDS]`.

use latchkey_factory_plus::uuids;
use latchkey_factory_plus_server::testing::FakeVerifier;
use latchkey_factory_plus_server::{
    About, Answer, Handler, HttpConfig, HttpServer, Nothing, Request, Response, Software,
};
use serde_json::json;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

struct Small;

impl Handler for Small {
    async fn handle(&self, _: Request) -> Answer {
        Response::json(&json!({ "name": "Building_1", "ready": true }))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let connections: usize = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let config: HttpConfig = serde_json::from_value(json!({
        "listen": ["127.0.0.1:0"], "admin_listen": "127.0.0.1:0", "insecure": true
    }))?;
    let software = Software { vendor: "Latchkey", application: "load", revision: "1" };
    let about = About { version: "2.0.0", service: uuids::service::CONFIG_DB, device: None, software };
    let verifier = Arc::new(FakeVerifier::of([("admin@R", "pw")]));
    let server = HttpServer::new(&config, about, "R".parse()?, verifier, Small)?;
    let running = server.start(Arc::new(Nothing), Arc::new(Nothing))?;
    let token = token(running.address())?;
    println!("ab -k -q -c {connections} -n 500000 -H 'Authorization: Bearer {token}' http://{}/x", running.address());
    if seconds == 0 {
        // Until its input ends: for another load maker.
        std::io::stdin().read_to_end(&mut Vec::new())?;
        return Ok(());
    }
    let request = format!("GET /x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
    let (over, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            let (over, request, address) = (Arc::clone(&over), request.clone(), running.address());
            thread::spawn(move || ask(address, &request, &over).unwrap_or_default())
        })
        .collect();
    smol::block_on(smol::Timer::after(Duration::from_secs(seconds)));
    over.store(true, Relaxed);
    let mut times: Vec<Duration> = clients.into_iter().flat_map(|client| client.join().unwrap_or_default()).collect();
    let took = began.elapsed();
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 1000).copied().unwrap_or_default();
    let rate = times.len() as u128 * 1000 / took.as_millis();
    println!(
        "{connections} connections: {rate} requests/s; median {:?}, 99 % {:?}, 99.9 % {:?}",
        at(500),
        at(990),
        at(999)
    );
    Ok(())
}

fn token(address: SocketAddr) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    // admin:pw
    let head = "POST /token HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\nAuthorization: Basic YWRtaW46cHc=\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let token = reply.split("\"token\":\"").nth(1).and_then(|rest| rest.split('"').next());
    Ok(token.ok_or("no token")?.to_owned())
}

/// Asks until it is over: how long each answer took.
fn ask(address: SocketAddr, request: &str, over: &AtomicBool) -> std::io::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let (mut buffer, mut times) = ([0; 4096], Vec::new());
    while !over.load(Relaxed) {
        let began = Instant::now();
        stream.write_all(request.as_bytes())?;
        let mut count = 0;
        // The answer is short and has one end.
        while !buffer.get(..count).is_some_and(|read| read.ends_with(b"}")) {
            match stream.read(buffer.get_mut(count..).unwrap_or_default())? {
                0 => return Ok(times),
                more => count += more,
            }
        }
        times.push(began.elapsed());
    }
    Ok(times)
}
