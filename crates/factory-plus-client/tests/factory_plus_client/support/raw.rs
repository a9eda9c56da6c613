//! A server that answers every request with bytes of a test's choice.

use smol::Task;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::{TcpListener, TcpStream};

/// A running one; ends when dropped.
pub(crate) struct Raw {
    pub(crate) url: String,
    _task: Task<()>,
}

/// What it sends after each head of a request, then as often as it is read; then silence.
pub(crate) fn answering(head: &'static [u8], endless: &'static [u8]) -> Raw {
    let listener = smol::block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let task = smol::spawn(async move {
        let mut connections = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.push(smol::spawn(one(stream, head, endless)));
        }
    });
    Raw { url, _task: task }
}

async fn one(mut stream: TcpStream, head: &'static [u8], endless: &'static [u8]) {
    let mut request = Vec::new();
    let mut bytes = [0; 1024];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut bytes).await {
            Ok(count @ 1..) => request.extend_from_slice(&bytes[..count]),
            _ => return,
        }
    }
    if stream.write_all(head).await.is_err() {
        return;
    }
    while !endless.is_empty() && stream.write_all(endless).await.is_ok() {
        // The client may run on this thread.
        smol::future::yield_now().await;
    }
    std::future::pending::<()>().await;
}
