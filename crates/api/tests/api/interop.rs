//! Google's own implementation (grpcio, a Python package) against our server and our client, over plain HTTP/2 on loopback.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use crate::support::python;
use latchkey_api::{
    grpc::{Channel, Code, Limits},
    v1::{self, init_event::Event},
};
use latchkey_test_support::within;
use smol::{
    io::{AsyncBufReadExt, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdout, Command, Stdio},
    stream::StreamExt as _,
};
use std::time::Duration;

const SOON: Duration = Duration::from_mins(1);
const LARGE: Limits = Limits {
    inbound_message: 8 << 20,
    outbound_message: 8 << 20,
    header_list: 16 << 10,
    stream_window: 64 << 10,
    connection_window: 256 << 10,
    handshake: SOON,
    stall: SOON,
    keepalive: None,
    concurrent_calls: 100,
    idle: SOON,
    drain: SOON,
    call: None,
};

#[test]
fn grpcio_calls_every_method_of_our_server() {
    let Some(interpreter) = python::python() else { return };
    latchkey_test_support::block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (heard_sender, heard) = smol::channel::unbounded();
        let accepting = smol::spawn(async move {
            let server = support::services::server(LARGE);
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (peer, events, release) = support::peer();
                heard_sender.send((events, release)).await.unwrap();
                let server = server.clone();
                smol::spawn(async move { server.serve(stream, peer).await }).detach();
            }
        });
        let script = python::script("client.py");
        let mut run = Command::new(interpreter);
        run.arg(script).arg(port.to_string()).arg(python::descriptors()).kill_on_drop(true);
        let output = run.output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        drop(accepting);
        let mut dropped = 0;
        while let Ok((events, _)) = heard.recv().await {
            // The handlers of a connection end with it.
            while let Ok(event) = within("the end of grpcio's connections", events.recv()).await {
                dropped += usize::from(event == "dropped");
            }
        }
        assert_eq!(dropped, 2, "one call ran out of time, one was cancelled; both handlers were dropped");
    });
}

/// grpcio's server, until dropped.
struct GrpcioServer {
    _child: Child,
    lines: smol::io::Lines<BufReader<ChildStdout>>,
    channel: Channel,
    driver: smol::Task<Result<(), latchkey_api::grpc::ConnectionError>>,
}

async fn grpcio_server() -> Option<GrpcioServer> {
    let interpreter = python::python()?;
    let mut child = Command::new(interpreter)
        .arg(python::script("server.py"))
        .arg(python::descriptors())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port: u16 = line_of(&mut lines).await.parse().unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (channel, driver) = Channel::open(stream, LARGE).await.unwrap();
    Some(GrpcioServer { _child: child, lines, channel, driver: smol::spawn(driver) })
}

impl GrpcioServer {
    async fn line(&mut self) -> String {
        line_of(&mut self.lines).await
    }
}

async fn line_of(lines: &mut smol::io::Lines<BufReader<ChildStdout>>) -> String {
    within("a line of grpcio's server", lines.next()).await.expect("grpcio's server ended").unwrap()
}

fn key(key_id: &str, length: u32) -> v1::GetDataKeyRequest {
    v1::GetDataKeyRequest { key_id: key_id.into(), length, version: 0 }
}

fn init(cluster_name: &str) -> v1::InitRequest {
    let mut request = v1::InitRequest::default();
    request.cluster_name.push_str(cluster_name);
    request
}

#[test]
fn our_client_calls_grpcios_server() {
    latchkey_test_support::block_on(async {
        let Some(server) = grpcio_server().await else { return };
        let keys = v1::KeysClient::new(server.channel.clone());
        assert_eq!(keys.get_data_key(&key("x", 32), SOON).await.unwrap().data_key, [b'k'; 32]);
        let status = keys.get_data_key(&key("", 32), SOON).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "key_id is empty: „ü“ (100%)"));
        let anything = key("", 1);
        let path = "/latchkey.v1.Keys/Nothing";
        let nothing: Result<v1::GetDataKeyResponse, _> = server.channel.unary(path, &anything, Some(SOON)).await;
        assert_eq!(nothing.unwrap_err().code(), Code::Unimplemented);
        let describe = v1::InitClient::new(server.channel.clone()).describe(&v1::DescribeRequest {}, SOON).await;
        assert_eq!(describe.unwrap_err().code(), Code::Unimplemented);
        let calls: Vec<_> = (0..200)
            .map(|_| {
                let keys = keys.clone();
                smol::spawn(async move { keys.get_data_key(&key(&"x".repeat(20_000), 20_000), SOON).await })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await.unwrap().data_key.len(), 20_000);
        }
        drop((keys, server.channel));
        server.driver.await.unwrap();
    });
}

#[test]
fn our_client_reads_grpcios_streams() {
    latchkey_test_support::block_on(async {
        let Some(server) = grpcio_server().await else { return };
        let client = v1::InitClient::new(server.channel.clone());
        let mut events = client.init(&init("1000"), SOON).await.unwrap();
        let mut count = 0;
        while let Some(event) = events.message().await.unwrap() {
            assert!(matches!(event.event, Some(Event::Progress(progress)) if progress.elapsed_ms == count));
            count += 1;
        }
        assert_eq!(count, 1000);
        let mut events = client.init(&init("2 fails"), SOON).await.unwrap();
        assert!(events.message().await.unwrap().is_some());
        assert!(events.message().await.unwrap().is_some());
        assert_eq!(events.message().await.unwrap_err().to_string(), "ABORTED: the disk went away");
        let request = v1::AttachRequest { init_secret: vec![b's'; 3 << 20], cluster_id: vec![b'c'; 32] };
        let mut events = client.attach(&request, SOON).await.unwrap();
        let Some(Event::Succeeded(succeeded)) = events.message().await.unwrap().unwrap().event else { panic!() };
        assert!(succeeded.admin_config == request.init_secret, "3 MiB there and back");
        assert_eq!(events.message().await.unwrap(), None);
    });
}

#[test]
fn grpcio_notices_our_deadline_and_our_cancellation() {
    latchkey_test_support::block_on(async {
        let Some(mut server) = grpcio_server().await else { return };
        let client = v1::InitClient::new(server.channel.clone());
        // The first event proves that the handler runs; grpcio tells it when nobody listens any more.
        let mut events = client.init(&init("1 hangs"), Duration::from_secs(5)).await.unwrap();
        assert!(events.message().await.unwrap().is_some());
        assert_eq!(events.message().await.unwrap_err().code(), Code::DeadlineExceeded);
        assert_eq!(server.line().await, "dropped");
        let mut events = client.init(&init("1 hangs"), None).await.unwrap();
        assert!(events.message().await.unwrap().is_some());
        drop(events);
        assert_eq!(server.line().await, "dropped");
    });
}
