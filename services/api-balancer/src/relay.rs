//! Carries bytes between two connections until both ends are done, or the target went down.

use smol::channel::Receiver;
use smol::future::FutureExt as _;
use smol::net::TcpStream;
use std::convert::Infallible;
use std::io;
use std::net::Shutdown;

/// Ends when both directions have ended, one has failed, or the sender of `cut` is gone.
pub(crate) async fn relay(client: TcpStream, server: TcpStream, cut: &Receiver<Infallible>) {
    let both = async {
        // What fails ends both: half a connection helps nobody.
        let _ = smol::future::try_zip(one_way(&client, &server), one_way(&server, &client)).await;
    };
    let cut = async {
        let _ = cut.recv().await;
    };
    both.or(cut).await;
}

async fn one_way(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    smol::io::copy(from.clone(), to.clone()).await?;
    to.shutdown(Shutdown::Write)
}
