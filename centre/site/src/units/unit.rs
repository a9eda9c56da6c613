//! The text of a unit.

use std::net::SocketAddr;

use super::TARGET;
use crate::Layout;

/// What differs from unit to unit.
pub(super) struct Unit<'a> {
    pub(super) description: String,
    pub(super) after: Vec<String>,
    pub(super) user: &'a str,
    pub(super) start_pre: Option<String>,
    pub(super) start: String,
    /// Lines of `[Service]`.
    pub(super) own: String,
    pub(super) memory: &'a str,
    pub(super) tasks: u32,
    pub(super) families: &'a str,
    pub(super) listens: Vec<SocketAddr>,
}

impl Unit<'_> {
    /// The file's text.
    pub(super) fn text(&self, layout: &Layout) -> String {
        let Self { description, user, start, own, memory, tasks, families, .. } = self;
        let after = self.after.join(" ");
        let pre = self.start_pre.as_ref().map(|pre| format!("ExecStartPre={pre}\n")).unwrap_or_default();
        let (ports, network) = (self.ports(), self.network());
        let made = layout.set_up();
        let made = made.display();
        format!(
            "# Written by `latchkey centre units`.\n\
             [Unit]\n\
             Description={description}\n\
             PartOf={TARGET}\n\
             Wants=network-online.target\n\
             After=network-online.target {after}\n\
             # Made by `latchkey centre up`, or restored by `latchkey centre restore`.\n\
             AssertPathExists={made}\n\n\
             [Service]\n\
             Type=exec\n\
             {pre}\
             ExecStart={start}\n\
             User={user}\n\
             {own}\
             # A configuration that cannot be used (2) does not get better by trying again.\n\
             Restart=on-failure\n\
             RestartPreventExitStatus=2\n\
             RestartSec=1s\n\
             TimeoutStopSec=20s\n\
             MemoryMax={memory}\n\
             TasksMax={tasks}\n\
             {ports}\
             {network}\
             RestrictAddressFamilies={families}\n\
             {HARDENED}\n\
             [Install]\n\
             WantedBy={TARGET}\n"
        )
    }

    /// Only where a port needs it, one capability; and then the user is one of the machine's, since only those open such ports.
    fn ports(&self) -> &'static str {
        if self.listens.iter().any(|address| address.port() < 1024) {
            "CapabilityBoundingSet=CAP_NET_BIND_SERVICE\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n"
        } else {
            "CapabilityBoundingSet=\nAmbientCapabilities=\nPrivateUsers=yes\n"
        }
    }

    /// A centre on loopback talks to nobody else.
    fn network(&self) -> &'static str {
        if self.listens.iter().all(|address| address.ip().is_loopback()) {
            "IPAddressDeny=any\nIPAddressAllow=localhost\n"
        } else {
            ""
        }
    }
}

/// What no program of a centre needs.
const HARDENED: &str = "\
NoNewPrivileges=yes
RestrictSUIDSGID=yes
UMask=0077
# Where passwords must not go: core dumps, swap.
LimitCORE=0
MemorySwapMax=0
LimitNOFILE=16384
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
PrivateIPC=yes
ProtectProc=invisible
ProcSubset=pid
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictNamespaces=yes
RestrictRealtime=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
";
