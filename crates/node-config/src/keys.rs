//! The closed set of keys, for people: the parser is held to it by a test.

/// A key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// With its prefix.
    pub name: &'static str,
    /// What it says and which values it takes; Markdown.
    pub value: &'static str,
    /// What holds without it; Markdown.
    pub without: &'static str,
}

const fn key(name: &'static str, value: &'static str, without: &'static str) -> Key {
    Key { name, value, without }
}

/// All of them.
pub const KEYS: [Key; 23] = [
    key(
        "latchkey.root_verity",
        "the operating system's root: `HASH,salt=HEX,blocks=N`, the root hash of its dm-verity tree (64 hex digits), the salt (up to 512 hex digits), its blocks of 4096 bytes",
        "required in stage 1",
    ),
    key("latchkey.root_fs", "its file system: `squashfs`, `erofs`, `ext4`", "`squashfs`"),
    key(
        "latchkey.writable",
        "what of it can be written, in memory: `overlay` (all), `none`, `tmpfs:/DIRECTORY[,/DIRECTORY]…` (at most 16)",
        "`overlay`",
    ),
    key("latchkey.init", "the program that takes over, a path in that root", "`/sbin/init`"),
    key("latchkey.state_disk", "`auto`, `partlabel:NAME`, `parttype:GUID`, `device:/dev/NAME`", "`auto`"),
    key(
        "latchkey.state_integrity",
        "whether the state disk's sectors are authenticated: `none`, `hmac-sha256`",
        "`none`",
    ),
    key("latchkey.device_timeout", "seconds to wait for a disk, 1–3600", "`30`"),
    key(
        "latchkey.network",
        "`dhcp4`, `ipv6-ra`, `none`, `static:ADDRESS/PREFIX[,gw=ADDRESS][,dns=ADDRESS]…` (at most 3 `dns`)",
        "`dhcp4`",
    ),
    key("latchkey.interface", "the network interface: `auto`, a name, or a MAC address `aa:bb:cc:dd:ee:ff`", "`auto`"),
    key("latchkey.network_timeout", "seconds for the network to come up, 1–3600", "`60`"),
    key(
        "latchkey.metadata",
        "where instance metadata comes from: `qemu`, a cloud (`aws`, `gcp`, `azure`, `openstack`, `hetzner`), a volume (`nocloud`: label `cidata`; `config-drive`: label `config-2`), `auto` (by SMBIOS), `none`",
        "`none`",
    ),
    key(
        "latchkey.join_service",
        "`HOST:PORT[,HOST:PORT]…`, at most 8; IPv6 addresses in brackets",
        "this node cannot join by itself",
    ),
    key(
        "latchkey.join_service_key",
        "`sha256:` and 64 hex digits: the hash of the service's public key (SPKI)",
        "this node cannot join by itself: it never takes a ticket from an unproven service",
    ),
    key(
        "latchkey.centre",
        "`HOST:PORT` of a centre's enrol service: the first node of a new cluster registers that cluster there",
        "this node's cluster is registered nowhere",
    ),
    key(
        "latchkey.centre_key",
        "`sha256:` and 64 hex digits: the hash of that service's public key (SPKI)",
        "required with `centre`",
    ),
    key(
        "latchkey.ek",
        "the template of the endorsement key that this node shows, as the policy's `ek_templates` names it: `ecc-p256` (L-2), `ecc-p384` (H-3), `ecc-p521` (H-4), `rsa-2048` (L-1), `rsa-3072` (H-6), `rsa-4096` (H-7), `ecc-p256-high` (H-2), `rsa-2048-high` (H-1)",
        "`ecc-p256`",
    ),
    key(
        "latchkey.ak",
        "the attestation key that this node quotes with: `own`, or its cloud's, which has a certificate for a policy's rule `ak-chain`: `google-ecc`, `google-rsa`, `azure`; or `azure-hcl`, the same key as `azure` without its certificate, for the rule `ak-azure-hcl`: the report of Azure's paravisor (HCL, the host compatibility layer; its source is OpenHCL) vouches for it",
        "`own`",
    ),
    key("latchkey.role_hint", "the role to ask for: `control-plane`, `worker`", "the join service decides alone"),
    key("latchkey.listen_port", "where init and recovery listen, 1–65535", "`9000`"),
    key("latchkey.cluster_step", "what makes the node part of a cluster: `command`, `kubeadm`", "required"),
    key("latchkey.command", "the program of `cluster_step=command`, an absolute path", "required with `command`"),
    key(
        "latchkey.console_qr",
        "whether the console shows the digest of the node's key as a QR code, too: `none`, `ascii` (37 lines of 74 columns)",
        "`none`",
    ),
    key("latchkey.log", "`error`, `warn`, `info`, `debug`", "`info`"),
];

/// The keys as a table in Markdown.
pub fn table() -> String {
    let rows = KEYS.map(|Key { name, value, without }| format!("| `{name}` | {value} | {without} |\n"));
    format!("| key | value | without it |\n|---|---|---|\n{}", rows.concat())
}
