//! The network of stage 1: enough to reach a join service and to be reached by whoever founds or recovers a node.
//!
//! No daemon, no configuration files: links, addresses and routes go to the kernel by netlink; DHCPv4 is a small client
//! of our own ([`dhcp`]); IPv6 router advertisements are the kernel's business and only waited for. The peers prove
//! themselves whatever the network does, so a hostile network can delay a node but not deceive it.
//!
//! **The rule of `latchkey.interface=auto`.** All Ethernet interfaces are switched on. As soon as any has a carrier, the
//! one with the lowest number (the order the kernel found them in) among those that have one is taken.
//!
//! Addresses stay when the operating system takes over; its own network configuration is free to change them.
//! A DHCP lease is renewed for as long as [`Network::hold`] is polled, which is stage 1.

mod advertisement;
pub mod dhcp;
mod error;
mod link;
pub mod message;
mod resolver;
mod route;

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

pub use error::{NetworkCode, NetworkError};
pub use link::Link;
pub use resolver::resolve;

use latchkey_node_config::{Config, NetworkSetup, StaticNetwork};
use route::{Events, Routing};

/// A network that is up.
#[derive(Debug)]
pub struct Network {
    /// The interface; `None` if only the loopback interface was wanted.
    pub link: Option<Link>,
    /// Its address and how many bits of it are the network.
    pub address: Option<(IpAddr, u8)>,
    /// The default gateway; the kernel's own business with router advertisements.
    pub gateway: Option<IpAddr>,
    /// Name servers, as written to `/etc/resolv.conf`.
    pub name_servers: Vec<IpAddr>,
    /// The domain the network calls its own.
    pub domain: Option<String>,
    /// The name the network gives this node: untrusted, a request at most.
    pub host_name: Option<String>,
    session: Option<dhcp::Session>,
}

impl Network {
    fn without(link: Option<Link>) -> Self {
        Self {
            link,
            address: None,
            gateway: None,
            name_servers: Vec::new(),
            domain: None,
            host_name: None,
            session: None,
        }
    }

    /// Keeps the network up: renews a DHCP lease in time. Ends only if the lease is lost.
    pub async fn hold(&mut self) -> NetworkError {
        match &mut self.session {
            Some(session) => session.hold().await,
            None => std::future::pending().await,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(link) = &self.link else { return f.write_str("loopback only") };
        write!(f, "{}", link.name)?;
        if let Some((address, prefix)) = self.address {
            write!(f, " has {address}/{prefix}")?;
        }
        if let Some(gateway) = self.gateway {
            write!(f, ", gateway {gateway}")?;
        }
        for server in &self.name_servers {
            write!(f, ", dns {server}")?;
        }
        Ok(())
    }
}

/// Brings the network up as configured, within `latchkey.network_timeout`.
pub async fn up(config: &Config) -> Result<Network, NetworkError> {
    up_below(config, Path::new("/")).await
}

/// The same with `etc/resolv.conf` below another root than `/`.
pub async fn up_below(config: &Config, root: &Path) -> Result<Network, NetworkError> {
    let deadline = Instant::now() + config.network_timeout;
    // First listen: what the kernel announces from now on is not missed.
    let mut events = Events::open()?;
    let mut routing = Routing::open()?;
    routing.loopback_up()?;
    if config.network == NetworkSetup::None {
        return Ok(Network::without(None));
    }
    let link = link::wait_for_carrier(&mut routing, &mut events, &config.interface, deadline).await?;
    let network = match &config.network {
        NetworkSetup::Static(fixed) => fixed_address(&mut routing, link, fixed)?,
        NetworkSetup::Ipv6Ra => advertisement::wait(&mut routing, &mut events, link, deadline).await?,
        NetworkSetup::Dhcp4 | NetworkSetup::None => by_dhcp(&mut routing, link, deadline).await?,
    };
    resolver::write_configuration(root, &network)?;
    Ok(network)
}

fn fixed_address(routing: &mut Routing, link: Link, fixed: &StaticNetwork) -> Result<Network, NetworkError> {
    routing.add_address(link.index, fixed.address, fixed.prefix)?;
    if let Some(gateway) = fixed.gateway {
        routing.add_default_route(link.index, gateway)?;
    }
    let (address, gateway) = (Some((fixed.address, fixed.prefix)), fixed.gateway);
    Ok(Network { address, gateway, name_servers: fixed.dns.clone(), ..Network::without(Some(link)) })
}

async fn by_dhcp(routing: &mut Routing, link: Link, deadline: Instant) -> Result<Network, NetworkError> {
    let (lease, session) = dhcp::acquire(&link, deadline).await?;
    routing.add_address(link.index, lease.address.into(), lease.prefix)?;
    if let Some(router) = lease.router {
        routing.add_default_route(link.index, router.into())?;
    }
    Ok(Network {
        address: Some((lease.address.into(), lease.prefix)),
        gateway: lease.router.map(IpAddr::V4),
        name_servers: lease.name_servers.into_iter().map(IpAddr::V4).collect(),
        domain: lease.domain,
        host_name: lease.host_name,
        session: Some(session),
        ..Network::without(Some(link))
    })
}

/// Ends a wait at a deadline: `None` when the time is over.
async fn before<T>(deadline: Instant, future: impl Future<Output = T>) -> Option<T> {
    smol::future::or(async { Some(future.await) }, async {
        smol::Timer::at(deadline).await;
        None
    })
    .await
}

/// The time left, for messages.
fn seconds(time: Duration) -> u64 {
    time.as_secs()
}
