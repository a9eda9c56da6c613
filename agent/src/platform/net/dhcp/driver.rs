//! The client on a real interface.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use smol::Async;

use super::machine::{Action, Client};
use super::packet::{Lease, MAX_MESSAGE};
use crate::platform::net::{Link, NetworkError, before};
use crate::platform::sys::bind_device::bind_device;
use crate::platform::{clock, entropy};

/// RFC 2131 section 4.1: servers listen on 67, clients on 68.
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::BROADCAST, 67);
const CLIENT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 68);

/// A lease that can be renewed.
#[derive(Debug)]
pub struct Session {
    client: Client,
    socket: Async<UdpSocket>,
}

/// Gets an address for this link before the deadline.
pub(in crate::platform::net) async fn acquire(
    link: &Link,
    deadline: Instant,
) -> Result<(Lease, Session), NetworkError> {
    let failed = |source| NetworkError::Socket { what: "DHCP", source };
    let socket = open(link).map_err(failed)?;
    let client = Client::new(link.mac, u64::from_ne_bytes(entropy::bytes()), clock::uptime());
    let mut session = Session { client, socket };
    match before(deadline, session.next_lease()).await {
        Some(Ok(Some(lease))) => Ok((lease, session)),
        Some(Ok(None)) => Err(NetworkError::LeaseLost),
        Some(Err(source)) => Err(failed(source)),
        None => Err(NetworkError::NoLease { interface: link.name.clone() }),
    }
}

fn open(link: &Link) -> io::Result<Async<UdpSocket>> {
    let socket = UdpSocket::bind(CLIENT)?;
    bind_device(&socket, &link.name)?;
    socket.set_broadcast(true)?;
    Async::new(socket)
}

impl Session {
    /// Renews the lease whenever it is time. Ends when it is lost.
    pub async fn hold(&mut self) -> NetworkError {
        loop {
            match self.next_lease().await {
                // The machine accepts only the same address, so the kernel needs to know nothing new.
                Ok(Some(lease)) => tracing::info!(seconds = lease.time.as_secs(), "DHCP lease renewed"),
                Ok(None) => return NetworkError::LeaseLost,
                Err(source) => return NetworkError::Socket { what: "DHCP", source },
            }
        }
    }

    /// Runs the machine until it has a new lease (`Some`) or lost the old one (`None`).
    async fn next_lease(&mut self) -> io::Result<Option<Lease>> {
        loop {
            match self.client.poll(clock::uptime()) {
                Action::Bound(lease) => return Ok(Some(lease)),
                Action::Lost => return Ok(None),
                Action::Send(bytes) => self.send(&bytes).await?,
                Action::Wait(until) => self.receive(until.saturating_sub(clock::uptime())).await?,
            }
        }
    }

    async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match self.socket.send_to(bytes, SERVER).await {
            // A link that is down for a moment is a lost packet: the machine sends again in time.
            Err(error) if is_passing(&error) => Ok(()),
            result => result.map(|_| ()),
        }
    }

    async fn receive(&mut self, time: Duration) -> io::Result<()> {
        let mut buffer = [0; MAX_MESSAGE + 1];
        match before(Instant::now() + time, self.socket.recv_from(&mut buffer)).await {
            None => Ok(()),
            Some(Err(error)) if is_passing(&error) => Ok(()),
            Some(Err(error)) => Err(error),
            Some(Ok((length, _))) => {
                let packet = buffer.get(..length).unwrap_or_default();
                if let Err(reason) = self.client.receive(packet, clock::uptime()) {
                    tracing::debug!(reason, "DHCP message ignored");
                }
                Ok(())
            }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable};
    matches!(error.kind(), NetworkDown | NetworkUnreachable | HostUnreachable)
}
