//! What SPECIFICATION.md promises.

use serde::Serialize;

/// A bound, of a figure or a quantity.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    /// A time.
    Microseconds(f64),
    /// So many times as long as another figure of the same run.
    TimesOf(&'static str, f64),
    /// A number of bytes.
    Bytes(u64),
    /// A number of things.
    Count(u64),
}

/// What is promised: a figure or quantity by its id, in words, at most, and what measures it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promised {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
    pub(crate) at_most: Limit,
    /// Names that `docs-check` finds: files and tests.
    pub(crate) shown_by: &'static str,
}

const fn promised(id: &'static str, at_most: Limit, what: &'static str, shown_by: &'static str) -> Promised {
    Promised { id, what, at_most, shown_by }
}

/// All promises with numbers, in the order of the document.
pub(crate) const PROMISED: [Promised; 54] = [
    promised("agent/bytes", Limit::Bytes(2_500_000), "the agent, static, stripped", "`qemu-tests/src/bin/size.rs`"),
    promised("agent/crates", Limit::Count(110), "crates in it", "`qemu-tests/src/bin/size.rs`"),
    promised(
        "initramfs/bytes",
        Limit::Bytes(6_000_000),
        "the initramfs with its modules",
        "`qemu-tests/src/bin/size.rs`",
    ),
    promised(
        "join-service/bytes",
        Limit::Bytes(9_500_000),
        "the join service, static, stripped",
        "`qemu-tests/src/bin/size.rs`",
    ),
    promised(
        "key-service/bytes",
        Limit::Bytes(4_000_000),
        "the key service, static, stripped",
        "`qemu-tests/src/bin/size.rs`",
    ),
    promised(
        "agent/peak-memory",
        Limit::Bytes(6_000_000),
        "peak memory of stage 1 on a node that joins (`VmHWM`)",
        "`qemu-tests/benches/boot.rs`",
    ),
    promised(
        "join-service/own-memory",
        Limit::Bytes(6_000_000),
        "memory of the join service's own, ready (`VmRSS` less `RssFile`)",
        "`services/join-service/benches/tickets.rs`",
    ),
    promised(
        "attestation/quote-rsa",
        Limit::TimesOf("keylime/quote-rsa", 0.5),
        "verifying one quote: keys, signature, PCRs, policy; RSA-2048, beside keylime's checkquote",
        "`crates/attestation/benches/appraise.rs`",
    ),
    promised(
        "attestation/quote-p256",
        Limit::TimesOf("keylime/quote-p256", 0.5),
        "the same, P-256",
        "`crates/attestation/benches/appraise.rs`",
    ),
    promised(
        "attestation/snp-report",
        Limit::TimesOf("sev-openssl/snp-report", 0.45),
        "verifying one SNP report: certificate, chain with revocation list, signature; nothing known before, beside `sev` with OpenSSL",
        "`crates/attestation/benches/snp.rs`",
    ),
    promised(
        "attestation/snp-report-new-chip",
        Limit::TimesOf("sev-openssl/snp-report", 0.3),
        "the same of a new chip, whose authority is known",
        "`crates/attestation/benches/snp.rs`",
    ),
    promised(
        "join-service/join",
        Limit::TimesOf("rustls/mutual", 3.0),
        "a complete join, the service's side: TLS, evidence, decision, keys, durable record, ticket; beside both ends of rustls' mutual handshake",
        "`services/join-service/benches/tickets.rs`",
    ),
    promised(
        "join-service/api-server-join",
        Limit::TimesOf("api-server/record-and-token", 2.0),
        "a first join with records in a real API server, 32 machines at a time, everything on this machine; beside the API server's part of it, asked by clients that do nothing else",
        "`services/join-service/benches/api_server_tickets.rs`",
    ),
    promised(
        "join-service/api-server-storm-lost",
        Limit::Count(0),
        "machines without a ticket after 500 recorded ones came at once to a service that had just started",
        "`services/join-service/benches/api_server_tickets.rs`",
    ),
    promised(
        "disk/key-check",
        Limit::Microseconds(3000.0),
        "checking a key against a LUKS2 header",
        "`crates/disk/benches/unlock.rs`",
    ),
    promised(
        "measurements/image",
        Limit::Microseconds(25_000.0),
        "predicting PCRs and SNP launch digest of a 17 MB image, in the library",
        "`measurements/benches/launch.rs`",
    ),
    promised(
        "cli/measure-image",
        Limit::TimesOf("systemd-measure/pcr-11", 1.2),
        "the same as the command `latchkey measure image`, a process, beside systemd-measure, which predicts PCR 11 alone",
        "`cli/benches/measure.rs`",
    ),
    promised(
        "cli/measure-image-direct",
        Limit::TimesOf("systemd-measure/pcr-11", 1.5),
        "the same with the hashes of a direct boot, beside the same",
        "`cli/benches/measure.rs`",
    ),
    promised(
        "image/build",
        Limit::Microseconds(30e6),
        "building an image of a 200 MB root, signed",
        "`qemu-tests/benches/image.rs`",
    ),
    promised(
        "disk/authenticated-1g",
        Limit::Microseconds(2e6),
        "1 GiB of authenticated state disk, blank to open",
        "`qemu-tests/benches/disk.rs`",
    ),
    promised(
        "boot/ticket",
        Limit::TimesOf("boot/nothing", 1.2),
        "power-on to ticket, beside the same kernel and firmware doing nothing",
        "`qemu-tests/benches/boot.rs`",
    ),
    promised(
        "kubernetes/control-plane-latchkey",
        Limit::TimesOf("kubernetes/control-plane-typed", 1.05),
        "power-on to a control plane that is Ready, beside kubeadm as people type it",
        "`qemu-tests/benches/kubernetes.rs`",
    ),
    promised(
        "kubernetes/worker-latchkey",
        Limit::TimesOf("kubernetes/worker-typed", 1.1),
        "power-on to a worker that is Ready, beside the same",
        "`qemu-tests/benches/kubernetes.rs`",
    ),
    promised(
        "config-db/http-get",
        Limit::TimesOf("pgbench/select", 1.0 / 0.52),
        "config-db: GET with a token and 50 permissions, 16 connections, beside pgbench's select",
        "`centre/config-db/benches/requests/main.rs`",
    ),
    promised(
        "config-db/http-put",
        Limit::TimesOf("pgbench/update", 1.0 / 0.83),
        "config-db: durable PUT, the same way, beside pgbench's update",
        "`centre/config-db/benches/requests/main.rs`",
    ),
    promised(
        "config-db/http-patch",
        Limit::TimesOf("pgbench/update", 1.0 / 1.2),
        "config-db: durable PATCH, beside the same",
        "`centre/config-db/benches/requests/main.rs`",
    ),
    promised(
        "config-db/postgres-get",
        Limit::TimesOf("pgbench/select", 1.0 / 0.052),
        "config-db in PostgreSQL: GET, beside pgbench's select; the original's ratio",
        "`centre/config-db/benches/requests/main.rs`",
    ),
    promised(
        "config-db/postgres-put",
        Limit::TimesOf("pgbench/update", 1.0 / 0.083),
        "config-db in PostgreSQL: durable PUT, beside pgbench's update; the original's ratio",
        "`centre/config-db/benches/requests/main.rs`",
    ),
    promised(
        "config-db/postgres-patch",
        Limit::TimesOf("pgbench/update", 1.0 / 0.118),
        "config-db in PostgreSQL: durable PATCH, beside the same; the original's ratio",
        "`centre/config-db/benches/requests/main.rs`",
    ),
    promised(
        "config-db/http-put-watched",
        Limit::Microseconds(1e6 / 340.0),
        "config-db: durable PUT while 100 searches hear of it: 340 a second",
        "`centre/config-db/benches/requests/main.rs`",
    ),
    promised(
        "config-db/http-frames",
        Limit::Microseconds(1e6 / 33_000.0),
        "config-db: a frame of these searches: 33 000 a second",
        "`centre/config-db/benches/requests/main.rs`",
    ),
    promised(
        "config-db/memory-ready",
        Limit::Bytes(32_000_000),
        "memory of config-db with 10 000 entries, ready (`VmRSS`)",
        "`centre/config-db/benches/requests/main.rs`",
    ),
    promised(
        "centre/up",
        Limit::Microseconds(5e6),
        "a new centre, from `latchkey centre up` until its page is told",
        "`qemu-tests/benches/centre.rs`",
    ),
    promised(
        "centre/ready-slowest",
        Limit::Microseconds(1e6),
        "a cluster's configuration, from its PUT until it is ready, the slowest of 50",
        "`qemu-tests/benches/centre.rs`",
    ),
    promised(
        "centre/hundred",
        Limit::Microseconds(30e6),
        "100 configurations at once, until the last is ready",
        "`qemu-tests/benches/centre.rs`",
    ),
    promised(
        "enrol-service/decision",
        Limit::Microseconds(5000.0),
        "enrolling a cluster: TLS, evidence, decision, the service's side",
        "`centre/enrol-service/benches/decisions.rs`",
    ),
    promised(
        "enrol-service/call",
        Limit::TimesOf("enrol-service/cluster-ready", 1.2),
        "enrolling a cluster, the whole call, beside a cluster made without a machine",
        "`centre/enrol-service/benches/decisions.rs`",
    ),
    promised(
        "cluster-manager/seal",
        Limit::TimesOf("kubeseal/seal", 0.05),
        "sealing a secret for an edge, in the library, beside the process kubeseal",
        "`centre/cluster-manager/benches/seal.rs`",
    ),
    promised(
        "krb-keys/redeem",
        Limit::Microseconds(2e6),
        "an edge's bootstrap link, redeemed until its Secrets are there",
        "`qemu-tests/benches/edge.rs`",
    ),
    promised(
        "krb-keys/hundred",
        Limit::TimesOf("kadmin/hundred", 2.0),
        "100 KerberosKeys, from the operator's start until all are ready, beside one session of stock kadmin",
        "`qemu-tests/benches/edge.rs`",
    ),
    promised(
        "edge-sync/change-p99",
        Limit::Microseconds(300_000.0),
        "a Node's change, of 1000, until the centre has it, p99 of 200",
        "`qemu-tests/benches/edge.rs`",
    ),
    promised(
        "edge-sync/memory-thousand",
        Limit::Bytes(32_000_000),
        "peak memory of Edge Sync with these (`VmHWM`)",
        "`qemu-tests/benches/edge.rs`",
    ),
    promised(
        "edge-sync/memory",
        Limit::Bytes(20_000_000),
        "memory of Edge Sync with one machine (`VmRSS`)",
        "`qemu-tests/benches/edge.rs`",
    ),
    promised(
        "edge-monitor/memory",
        Limit::Bytes(20_000_000),
        "memory of Edge Monitor (`VmRSS`)",
        "`qemu-tests/benches/edge.rs`",
    ),
    promised(
        "edge-monitor/birth-slowest",
        Limit::Microseconds(5e6),
        "a centre that was away is started, until the edge's birth, the slowest of 3",
        "`qemu-tests/benches/edge.rs`",
    ),
    promised(
        "auth/bytes",
        Limit::Bytes(6_000_000),
        "the centre's auth, static, stripped",
        "`qemu-tests/src/bin/size.rs`",
    ),
    promised(
        "cluster-manager/bytes",
        Limit::Bytes(6_150_000),
        "the centre's cluster manager, static, stripped",
        "`qemu-tests/src/bin/size.rs`",
    ),
    promised(
        "config-db/bytes",
        Limit::Bytes(7_300_000),
        "the centre's config-db, static, stripped",
        "`qemu-tests/src/bin/size.rs`",
    ),
    promised(
        "directory/bytes",
        Limit::Bytes(6_000_000),
        "the centre's directory, static, stripped",
        "`qemu-tests/src/bin/size.rs`",
    ),
    promised(
        "git-server/bytes",
        Limit::Bytes(6_000_000),
        "the centre's git server, static, stripped",
        "`qemu-tests/src/bin/size.rs`",
    ),
    promised(
        "enrol-service/bytes",
        Limit::Bytes(8_000_000),
        "the enrol service, static, stripped",
        "`qemu-tests/src/bin/size.rs`",
    ),
    promised(
        "krb-keys/bytes",
        Limit::Bytes(4_200_000),
        "the edge's krb-keys, static, stripped",
        "`qemu-tests/src/bin/size.rs`",
    ),
    promised(
        "edge-monitor/bytes",
        Limit::Bytes(4_200_000),
        "the edge's monitor, static, stripped",
        "`qemu-tests/src/bin/size.rs`",
    ),
    promised("edge-sync/bytes", Limit::Bytes(4_200_000), "Edge Sync, static, stripped", "`qemu-tests/src/bin/size.rs`"),
];

impl Limit {
    /// The bound, in the unit of the limit: microseconds, times, bytes, things.
    pub(crate) fn bound(self) -> f64 {
        match self {
            Self::Microseconds(bound) | Self::TimesOf(_, bound) => bound,
            #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
            Self::Bytes(bound) | Self::Count(bound) => bound as f64,
        }
    }

    /// A value of this kind, in the unit that people would choose.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Microseconds(_) => match value {
                ..1e3 => format!("{value:.1} µs"),
                1e3..1e6 => format!("{:.1} ms", value / 1e3),
                _ => format!("{:.2} s", value / 1e6),
            },
            Self::TimesOf(..) => format!("{value:.2} ×"),
            Self::Bytes(_) => format!("{:.2} MB", value / 1e6),
            Self::Count(_) => format!("{value:.0}"),
        }
    }
}
