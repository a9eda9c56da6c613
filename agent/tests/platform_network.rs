//! The network of stage 1 on a real kernel: two network namespaces, tied by a pair of virtual interfaces. In one the
//! agent's own code brings the network up, in the other a small server of this file answers.
//!
//! Each test starts this very program again inside of new namespaces. That needs root, `unshare` and `ip`; without
//! them a test says so and passes.

#![expect(clippy::unwrap_used, reason = "a test program: what fails shall stop it")]

#[path = "platform_netns/dhcp_servers.rs"]
mod dhcp_servers;
#[path = "platform_netns/mod.rs"]
mod netns;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

use dhcp_servers::Server;
use latchkey_agent::platform::net::{Network, NetworkError, up_below};
use latchkey_node_config::Config;
use latchkey_test_support::{PATIENCE, drained};
use netns::{Side, ip, ip_each};

/// Brings the network up with these words of a command line.
fn up(words: &str) -> Result<(Network, String), NetworkError> {
    let root = tempfile::tempdir().unwrap();
    let config = Config::parse(words.as_bytes()).unwrap();
    let network = latchkey_test_support::block_on(up_below(&config, root.path()));
    let resolver = std::fs::read_to_string(root.path().join("etc/resolv.conf")).unwrap_or_default();
    network.map(|network| (network, resolver))
}

fn output(command: &str, arguments: &str) -> String {
    let output = latchkey_test_support::output(Command::new(command).args(arguments.split(' '))).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// What the other side says to whoever connects.
fn greeting_from(address: &str) -> String {
    String::from_utf8(drained(&mut TcpStream::connect(address).unwrap())).unwrap()
}

#[test]
fn a_lease_gives_address_route_and_name_server() {
    match netns::side("a_lease_gives_address_route_and_name_server") {
        Side::Outside => {}
        Side::Other(mut other) => {
            ip_each(&["addr add 10.77.0.1/24 dev lk1", "link set lk1 up", "route add 255.255.255.255 dev lk1"]);
            let server = UdpSocket::bind("0.0.0.0:67").unwrap();
            server.set_broadcast(true).unwrap();
            let listener = TcpListener::bind("10.77.0.1:7777").unwrap();
            other.ready();
            serve_dhcp(&server);
            greet(&listener);
        }
        Side::Agent(other) => {
            let (network, resolver) = up("latchkey.interface=lk0 latchkey.network_timeout=60").unwrap();
            assert_eq!(network.to_string(), "lk0 has 10.77.0.9/24, gateway 10.77.0.1, dns 10.77.0.3");
            assert_eq!(resolver, "search example.org\nnameserver 10.77.0.3\n");
            assert!(output("ip", "-4 route").contains("default via 10.77.0.1 dev lk0"));
            assert!(output("ip", "-br addr show lo").contains("127.0.0.1"), "the loopback interface is up");
            assert_eq!(greeting_from("10.77.0.1:7777"), "hello 10.77.0.9");
            other.end();
        }
    }
}

/// One side of a test with a server of somebody else's: it must acknowledge a lease, and its renewal.
fn leased_by(server: impl FnOnce() -> Server, mut other: netns::Other) {
    ip_each(&["addr add 10.77.0.1/24 dev lk1", "link set lk1 up"]);
    let server = server();
    other.ready();
    server.acknowledges_twice();
}

#[test]
fn dnsmasq_gives_a_lease_and_renews_it() {
    if !dhcp_servers::are_here() {
        return;
    }
    match netns::side("dnsmasq_gives_a_lease_and_renews_it") {
        Side::Outside => {}
        Side::Other(other) => leased_by(Server::dnsmasq, other),
        Side::Agent(other) => {
            let network = leased();
            assert_eq!(network.host_name.as_deref(), Some("edge-7"));
            held_to_the_end(network, other);
        }
    }
}

#[test]
fn udhcpd_gives_a_lease_and_renews_it() {
    if !dhcp_servers::are_here() {
        return;
    }
    match netns::side("udhcpd_gives_a_lease_and_renews_it") {
        Side::Outside => {}
        Side::Other(other) => leased_by(Server::udhcpd, other),
        Side::Agent(other) => held_to_the_end(leased(), other),
    }
}

#[test]
fn a_lease_comes_and_is_renewed_through_a_relay() {
    if !dhcp_servers::are_here() {
        return;
    }
    match netns::side("a_lease_comes_and_is_renewed_through_a_relay") {
        Side::Outside => {}
        Side::Other(mut other) => {
            ip_each(&["addr add 10.77.0.1/24 dev lk1", "link set lk1 up"]);
            let server = Server::dnsmasq_behind();
            let _relay = Server::relay();
            other.ready();
            server.acknowledges_twice();
        }
        Side::Agent(other) => held_to_the_end(leased(), other),
    }
}

/// A network by a lease of such a server.
fn leased() -> Network {
    let (network, resolver) = up("latchkey.interface=lk0 latchkey.network_timeout=60").unwrap();
    let shown = network.to_string();
    assert!(shown.starts_with("lk0 has 10.77.0.1"), "{shown}");
    assert!(shown.ends_with("/24, gateway 10.77.0.1, dns 10.77.0.3"), "{shown}");
    assert_eq!(resolver, "search plant.example\nnameserver 10.77.0.3\n");
    assert!(output("ip", "-4 route").contains("default via 10.77.0.1 dev lk0"));
    network
}

/// Keeps the network up until the other side has seen enough.
fn held_to_the_end(mut network: Network, other: netns::Peer) {
    let held = smol::spawn(async move { network.hold().await });
    other.end();
    assert!(!held.is_finished(), "the lease was lost");
}

#[test]
fn a_fixed_address_needs_no_server() {
    match netns::side("a_fixed_address_needs_no_server") {
        Side::Outside => {}
        Side::Other(mut other) => {
            ip_each(&["addr add 10.77.0.1/24 dev lk1", "link set lk1 up"]);
            let listener = TcpListener::bind("10.77.0.1:7777").unwrap();
            other.ready();
            greet(&listener);
        }
        Side::Agent(other) => {
            let network = "latchkey.network=static:10.77.0.9/24,gw=10.77.0.1,dns=9.9.9.9";
            let (_, resolver) = up(&format!("{network} latchkey.interface=lk0 latchkey.network_timeout=60")).unwrap();
            assert_eq!(resolver, "nameserver 9.9.9.9\n");
            assert!(output("ip", "-4 route").contains("default via 10.77.0.1 dev lk0"));
            assert_eq!(greeting_from("10.77.0.1:7777"), "hello 10.77.0.9");
            other.end();
        }
    }
}

#[test]
fn a_router_advertisement_gives_address_route_and_name_server() {
    match netns::side("a_router_advertisement_gives_address_route_and_name_server") {
        Side::Outside => {}
        Side::Other(mut other) => {
            // The router's own address comes without duplicate detection, so that it can speak at once.
            ip_each(&["link set lk1 addrgenmode none", "link set lk1 up", "-6 addr add fe80::1/64 dev lk1 nodad"]);
            let socket = netns::router_socket("lk1");
            other.ready();
            netns::answer_solicitation(&socket, "lk1", &advertisement());
            other.wait_for_end();
        }
        Side::Agent(other) => {
            let (network, resolver) =
                up("latchkey.network=ipv6-ra latchkey.interface=lk0 latchkey.network_timeout=60").unwrap();
            let (address, prefix) = network.address.unwrap();
            assert!(address.to_string().starts_with("fd77::") && prefix == 64, "{network}");
            assert_eq!(resolver, "nameserver fd77::53\nnameserver fe80::53%lk0\n");
            assert!(output("ip", "-6 route").contains("default via fe80::1 dev lk0"));
            other.end();
        }
    }
}

#[test]
fn silence_ends_at_the_deadline_with_a_reason() {
    match netns::side("silence_ends_at_the_deadline_with_a_reason") {
        Side::Outside => {}
        Side::Other(mut other) => {
            ip_each(&["link set lk1 up"]);
            other.ready();
            other.wait_for_end();
        }
        Side::Agent(other) => {
            let code = |words: &str| up(&format!("latchkey.network_timeout=1 {words}")).unwrap_err().code().as_str();
            assert_eq!(code("latchkey.interface=lk0"), "no-dhcp-lease");
            assert_eq!(code("latchkey.interface=lk0 latchkey.network=ipv6-ra"), "no-router-advertisement");
            assert_eq!(code("latchkey.interface=eth9"), "no-interface");
            ip("link add lonely type veth peer name lonely2");
            assert_eq!(code("latchkey.interface=lonely"), "no-carrier");
            other.end();
        }
    }
}

/// Gives one client its address, by the standard's four messages.
fn serve_dhcp(socket: &UdpSocket) {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 1500];
    loop {
        let (length, _) = socket.recv_from(&mut buffer).unwrap();
        let (kind, answer) = dhcp_answer(&buffer[..length]);
        socket.send_to(&answer, (Ipv4Addr::BROADCAST, 68)).unwrap();
        if kind == 3 {
            return;
        }
    }
}

/// The kind of a request, and an offer for a discovery or an acknowledgement for a request.
fn dhcp_answer(request: &[u8]) -> (u8, Vec<u8>) {
    let kind = request[242];
    let mut answer = vec![2, 1, 6, 0];
    answer.extend(&request[4..8]);
    answer.resize(16, 0);
    answer.extend([10, 77, 0, 9]);
    answer.resize(28, 0);
    answer.extend(&request[28..44]);
    answer.resize(236, 0);
    answer.extend([99, 130, 83, 99, 53, 1, if kind == 1 { 2 } else { 5 }]);
    answer.extend([54, 4, 10, 77, 0, 1, 1, 4, 255, 255, 255, 0, 3, 4, 10, 77, 0, 1]);
    answer.extend([6, 4, 10, 77, 0, 3, 51, 4, 0, 0, 14, 16, 15, 11]);
    answer.extend(b"example.org");
    answer.push(255);
    (kind, answer)
}

/// RFC 4861 section 4.2 with a prefix (4.6.2) and two name servers (RFC 8106 section 5.1); the kernel fills in the checksum.
fn advertisement() -> Vec<u8> {
    let prefix: [u8; 16] = "fd77::".parse::<std::net::Ipv6Addr>().unwrap().octets();
    let mut bytes = vec![134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([3, 4, 64, 0xc0, 0, 0, 14, 16, 0, 0, 7, 8, 0, 0, 0, 0]);
    bytes.extend(prefix);
    bytes.extend([25, 5, 0, 0, 0, 0, 7, 8]);
    for server in ["fd77::53", "fe80::53"] {
        bytes.extend(server.parse::<std::net::Ipv6Addr>().unwrap().octets());
    }
    bytes
}

/// Says hello to the first who connects, with the address it came from.
fn greet(listener: &TcpListener) {
    let (mut stream, peer): (TcpStream, SocketAddr) = listener.accept().unwrap();
    std::io::Write::write_all(&mut stream, format!("hello {}", peer.ip()).as_bytes()).unwrap();
}
