//! What stands between `krb-keys` and everybody whom it asks: counts, and holds up.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use latchkey_api_server_rig::proxy::{Fault, Proxy};
use latchkey_kdc_rig::Kdc;
use smol::channel::{Receiver, Sender, unbounded};
use smol::future::FutureExt as _;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::{TcpListener, TcpStream};

type Hold = Arc<Mutex<Option<Receiver<()>>>>;

/// The way to the KDC and to kadmind.
pub(crate) struct Front {
    hold: Hold,
    krb5_config: PathBuf,
    _serving: [smol::Task<()>; 2],
}

/// Lets so many requests pass, to the API server, the KDC and kadmind together, and holds up all others. Who is held up stays so: a
/// gate is dropped last of all.
pub(crate) struct Gate {
    pass: Sender<()>,
    held: Receiver<()>,
}

/// Whoever has a receiver of a gate's and is not held up: the gate, the way to the API server, and that to the KDC.
const NOT_HELD: usize = 3;

impl Gate {
    pub(crate) fn close_after(requests: usize, proxy: &Proxy, front: &Front) -> Self {
        let (pass, held) = unbounded();
        (0..requests).for_each(|_| pass.try_send(()).unwrap());
        proxy.arm(["/", " HTTP/1.1"], Fault::Held(held.clone()), usize::MAX);
        *front.hold.lock().unwrap() = Some(held.clone());
        Self { pass, held }
    }

    /// For who comes from now on.
    pub(crate) fn open(proxy: &Proxy, front: &Front) {
        proxy.disarm();
        proxy.cut();
        *front.hold.lock().unwrap() = None;
    }

    /// Whether as many as may have passed.
    pub(crate) fn is_closed(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether there was one more, which waits.
    pub(crate) fn holds_one(&self) -> bool {
        self.is_closed() && self.pass.receiver_count() > NOT_HELD
    }
}

impl Front {
    pub(crate) fn before(kdc: &Kdc) -> Self {
        let hold = Hold::default();
        let mut text = std::fs::read_to_string(kdc.krb5_config()).unwrap();
        let serving = ["kdc", "admin_server"].map(|name| {
            let before = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{name} = 127"))).unwrap();
            let upstream: SocketAddr = format!("127{before}").parse().unwrap();
            let listener = smol::block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            let here = listener.local_addr().unwrap();
            text = text.replace(&format!("{name} = {upstream}"), &format!("{name} = {here}"));
            smol::spawn(serve(listener, upstream, Arc::clone(&hold)))
        });
        let krb5_config = kdc.path("front.krb5.conf");
        std::fs::write(&krb5_config, text).unwrap();
        Self { hold, krb5_config, _serving: serving }
    }

    /// MIT's configuration that leads here.
    pub(crate) fn krb5_config(&self) -> PathBuf {
        self.krb5_config.clone()
    }
}

async fn serve(listener: TcpListener, upstream: SocketAddr, hold: Hold) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let hold = Arc::clone(&hold);
        // Who hangs up, or is not there, is served no more.
        smol::spawn(async move { drop(pass(upstream, &hold, stream).await) }).detach();
    }
}

/// One connection. A client of Kerberos writes a message at once; one that comes in two parts is two here, which costs nothing.
async fn pass(upstream: SocketAddr, hold: &Hold, mut client: TcpStream) -> std::io::Result<()> {
    let mut server = TcpStream::connect(upstream).await?;
    let (mut from_client, mut from_server) = (client.clone(), server.clone());
    let mut buffers = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let asked = async { from_client.read(&mut buffers.0).await.map(|count| (true, count)) };
        let answered = async { from_server.read(&mut buffers.1).await.map(|count| (false, count)) };
        match asked.or(answered).await? {
            (_, 0) => return Ok(()),
            (true, count) => {
                let gate = hold.lock().unwrap().clone();
                if let Some(gate) = gate {
                    gate.recv().await.map_err(std::io::Error::other)?;
                }
                server.write_all(&buffers.0[..count]).await?;
            }
            (false, count) => client.write_all(&buffers.1[..count]).await?,
        }
    }
}
