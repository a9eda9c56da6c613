//! IPv6 by router advertisement: the kernel does it, we wait for an address that can be used.

use std::time::Instant;

use super::link::Link;
use super::route::{Events, Routing};
use super::{Network, NetworkError};
use latchkey_node_config::MAX_NAME_SERVERS;

/// Waits for an address of the whole net, duplicate detection over. The kernel solicits routers by itself when the link
/// comes up, and takes addresses (RFC 4862) and the default route from what they answer.
pub(super) async fn wait(
    routing: &mut Routing,
    events: &mut Events,
    link: Link,
    deadline: Instant,
) -> Result<Network, NetworkError> {
    loop {
        let addresses = routing.addresses6()?;
        let usable = addresses.iter().find(|address| address.usable && address.index == link.index);
        if let Some((address, prefix)) = usable.and_then(|usable| Some((usable.address?, usable.prefix))) {
            let ours = events.name_servers.iter().filter(|(index, _)| *index == link.index).map(|(_, server)| *server);
            let name_servers = ours.take(MAX_NAME_SERVERS).collect();
            return Ok(Network { address: Some((address, prefix)), name_servers, ..Network::without(Some(link)) });
        }
        if !events.change(deadline).await? {
            return Err(NetworkError::NoAdvertisement { interface: link.name });
        }
    }
}
