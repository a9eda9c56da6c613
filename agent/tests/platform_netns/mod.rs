//! Two network namespaces for a test: the test program starts itself again, once per side.

use std::io::{Stdin, Stdout, Write as _};
use std::net::Ipv6Addr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, ChildStdin, Command, Stdio};

use latchkey_test_support::{Lines, PATIENCE, output, status_within, wait};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrV6, SocketFlags, SocketType, ipproto};
use rustix::process::{Signal, set_parent_process_death_signal};

const ROLE: &str = "LATCHKEY_TEST_SIDE";

/// Which part of a test this process is.
pub(crate) enum Side {
    /// The test as it was started; the rest has happened in its children.
    Outside,
    /// The side with `lk0`, where the agent's code runs.
    Agent(Peer),
    /// The side with `lk1`.
    Other(Other),
}

/// Runs both sides of the test of this name, or says which one this process is.
pub(crate) fn side(test: &str) -> Side {
    match std::env::var(ROLE).as_deref() {
        Ok("agent") => Side::Agent(Peer::start(test)),
        Ok(_) => Side::Other(Other::begin()),
        Err(_) => {
            outside(test);
            Side::Outside
        }
    }
}

fn outside(test: &str) {
    let possible = output(Command::new("unshare").args(["--net", "ip", "link", "add", "lk0", "type", "veth"]));
    if !possible.is_ok_and(|output| output.status.success()) {
        latchkey_test_support::skip("network namespaces need root, unshare (util-linux) and ip (iproute2)");
        return;
    }
    let status = status_within(PATIENCE, &mut again(test, "agent")).unwrap();
    assert!(status.success(), "the agent's side failed: {status}");
}

fn again(test: &str, role: &str) -> Command {
    let mut command = Command::new("unshare");
    command.arg("--net").arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]).env(ROLE, role);
    command
}

/// Runs `ip` in this namespace, once for each of these.
pub(crate) fn ip_each(commands: &[&str]) {
    for command in commands {
        ip(command);
    }
}

/// Runs `ip` in this namespace.
pub(crate) fn ip(arguments: &str) {
    let output = output(Command::new("ip").args(arguments.split(' '))).unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The other side, seen from the agent's.
pub(crate) struct Peer {
    child: Child,
    input: ChildStdin,
    output: Lines,
}

impl Peer {
    fn start(test: &str) -> Self {
        let mut child = again(test, "other").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), Lines::of(child.stdout.take().unwrap()));
        let mut peer = Self { child, input, output };
        peer.wait_for("inside");
        ip("link add lk0 type veth peer name lk1");
        ip(&format!("link set lk1 netns {}", peer.child.id()));
        writeln!(peer.input, "go").unwrap();
        peer.wait_for("ready");
        peer
    }

    fn wait_for(&mut self, word: &str) {
        // The test runner prints lines of its own.
        let line = self.output.find(&format!("the other side to be {word}"), &mut Vec::new(), |line| line == word);
        assert!(line.is_some(), "the other side ended before it was {word}");
    }

    /// Lets the other side end and checks that it was content.
    pub(crate) fn end(mut self) {
        drop(self.input);
        assert!(wait("the other side", &mut self.child).success(), "the other side failed");
    }
}

/// The other side, seen from itself.
pub(crate) struct Other {
    input: Stdin,
    output: Stdout,
}

impl Other {
    fn begin() -> Self {
        // It listens to the agent's side only, so it must not outlive it.
        set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
        let mut other = Self { input: std::io::stdin(), output: std::io::stdout() };
        other.say("\ninside");
        assert_eq!(other.hear(), "go\n");
        other
    }

    /// Lets the agent's side begin.
    pub(crate) fn ready(&mut self) {
        self.say("ready");
    }

    /// Waits until the agent's side is content.
    pub(crate) fn wait_for_end(&mut self) {
        assert_eq!(self.hear(), "");
    }

    fn say(&mut self, word: &str) {
        writeln!(self.output, "{word}").unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.input.read_line(&mut line).unwrap();
        line
    }
}

/// A socket that hears and says what routers do.
pub(crate) fn router_socket(interface: &str) -> OwnedFd {
    let socket =
        rustix::net::socket_with(AddressFamily::INET6, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::ICMPV6))
            .unwrap();
    // RFC 4861 section 6.1.2: "The IP Hop Limit field has a value of 255".
    rustix::net::sockopt::set_ipv6_multicast_hops(&socket, 255).unwrap();
    // ff02::2, all routers: there solicitations go.
    let routers = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
    rustix::net::sockopt::set_ipv6_add_membership(&socket, &routers, index(interface)).unwrap();
    socket
}

/// Waits for a solicitation and answers with these bytes to all nodes.
pub(crate) fn answer_solicitation(socket: &OwnedFd, interface: &str, advertisement: &[u8]) {
    const SOLICITATION: u8 = 133;
    let mut buffer = [0u8; 1500];
    while buffer[0] != SOLICITATION {
        rustix::net::recv(socket.as_fd(), &mut buffer[..], RecvFlags::empty()).unwrap();
    }
    let nodes = SocketAddrV6::new(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 0, 0, index(interface));
    rustix::net::sendto(socket, advertisement, SendFlags::empty(), &nodes).unwrap();
}

fn index(interface: &str) -> u32 {
    // Not from /sys, which shows the namespace it was mounted in.
    let output = output(Command::new("ip").args(["-o", "link", "show", interface])).unwrap();
    let line = String::from_utf8(output.stdout).unwrap();
    line.split(':').next().unwrap().parse().unwrap()
}
