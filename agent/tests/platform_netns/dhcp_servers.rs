//! DHCP servers, and a relay, that others made: dnsmasq and busybox's udhcpd.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use latchkey_test_support::{Lines, Process, skip, spawn};
use tempfile::TempDir;

use super::netns::{ip, ip_each};

const DNSMASQ: &str = "/usr/sbin/dnsmasq";
const BUSYBOX: &str = "/bin/busybox";

/// What dnsmasq gives: addresses to be renewed after the shortest time that the agent believes.
const GIVES: [&str; 5] = [
    "--dhcp-range=10.77.0.100,10.77.0.199,255.255.255.0,2m",
    "--dhcp-option=option:router,10.77.0.1",
    "--dhcp-option=option:dns-server,10.77.0.3",
    "--dhcp-option=option:T1,8",
    "--domain=plant.example",
];
/// The same of udhcpd, which knows no name for the renewal time.
const UDHCPD: &str = "interface lk1\nstart 10.77.0.100\nend 10.77.0.199\nopt subnet 255.255.255.0\nopt router 10.77.0.1\n\
    opt dns 10.77.0.3\nopt domain plant.example\nopt lease 120\nopt 0x3a 00000008\n";

/// Whether both are there; else it is said that they are not.
pub(crate) fn are_here() -> bool {
    let missing = [(DNSMASQ, "dnsmasq-base"), (BUSYBOX, "busybox-static")]
        .into_iter()
        .find(|(path, _)| !Path::new(path).exists());
    if let Some((path, package)) = missing {
        skip(format_args!("{path} is missing: apt-get install {package}"));
    }
    missing.is_none()
}

/// A program that runs; dropped, it is gone.
pub(crate) struct Server {
    said: Lines,
    acknowledges: &'static str,
    _process: Process,
    _files: TempDir,
}

impl Server {
    /// A dnsmasq that gives addresses to whoever asks at `lk1`, and a name.
    pub(crate) fn dnsmasq() -> Self {
        let at = ["--interface=lk1", "--dhcp-host=*:*:*:*:*:*,edge-7"];
        Self::of_dnsmasq(&[], &[&GIVES[..], &at].concat(), |_| ())
    }

    /// A dnsmasq in a namespace of its own, behind this one: 10.88.0.1 at the end of `lk2`.
    pub(crate) fn dnsmasq_behind() -> Self {
        const BEGIN: &str = "echo inside; read -r go; ip addr add 10.88.0.1/24 dev lk3; ip link set lk3 up
            ip route add 10.77.0.0/24 via 10.88.0.2; exec \"$@\"";
        let before = ["unshare", "--net", "sh", "-c", BEGIN, "sh"];
        Self::of_dnsmasq(&before, &[&GIVES[..], &["--interface=lk3"]].concat(), |child| {
            let mut inside = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut inside).unwrap();
            assert_eq!(inside, "inside\n");
            ip("link add lk2 type veth peer name lk3");
            ip(&format!("link set lk3 netns {}", child.id()));
            ip_each(&["addr add 10.88.0.2/24 dev lk2", "link set lk2 up"]);
            writeln!(child.stdin.take().unwrap(), "go").unwrap();
        })
    }

    /// A dnsmasq that passes on what it hears at `lk1` to that server, and what that answers.
    pub(crate) fn relay() -> Self {
        let relays = ["--dhcp-relay=10.77.0.1,10.88.0.1", "--interface=lk1", "--interface=lk2"];
        Self::of_dnsmasq(&[], &relays, |_| ())
    }

    /// A udhcpd that gives the same addresses.
    pub(crate) fn udhcpd() -> Self {
        let files = tempfile::tempdir().unwrap();
        let at = |name: &str| files.path().join(name).display().to_string();
        fs::write(at("leases"), "").unwrap();
        let here = format!("lease_file {}\npidfile {}\n", at("leases"), at("pid"));
        fs::write(at("conf"), format!("{UDHCPD}{here}")).unwrap();
        let mut command = Command::new(BUSYBOX);
        command.args(["udhcpd", "-f", &at("conf")]);
        Self::started(command, files, ["udhcpd: started", "sending ACK to"], |_| ())
    }

    fn of_dnsmasq(before: &[&str], arguments: &[&str], prepare: impl FnOnce(&mut Child)) -> Self {
        let files = tempfile::tempdir().unwrap();
        let words: Vec<&str> = before.iter().copied().chain([DNSMASQ]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command.args(["--conf-file=/dev/null", "--keep-in-foreground", "--log-facility=-", "--log-dhcp"]);
        command.args(["--user=root", "--port=0", "--bind-interfaces", "--no-ping"]);
        command.arg(format!("--pid-file={}", files.path().join("pid").display()));
        command.arg(format!("--dhcp-leasefile={}", files.path().join("leases").display()));
        command.args(arguments);
        Self::started(command, files, ["started, version", "DHCPACK("], prepare)
    }

    fn started(
        mut command: Command,
        files: TempDir,
        [started, acknowledges]: [&'static str; 2],
        prepare: impl FnOnce(&mut Child),
    ) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(command).unwrap();
        let said = Lines::of(child.stderr.take().unwrap());
        prepare(&mut child);
        let server = Self { said, acknowledges, _process: Process::watch(child).unwrap(), _files: files };
        server.says(started);
        server
    }

    /// Waits until it has acknowledged an address, and its renewal.
    pub(crate) fn acknowledges_twice(&self) {
        for _ in 0..2 {
            self.says(self.acknowledges);
        }
    }

    fn says(&self, what: &str) {
        let mut seen = Vec::new();
        let found = self.said.find(&format!("a server to say {what}"), &mut seen, |line| line.contains(what));
        assert!(found.is_some(), "it ended: {seen:?}");
    }
}
