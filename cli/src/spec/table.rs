//! The table itself.

use super::Need::{AnyNumber, AtLeastOnce, AtMostOnce, Once};
use super::{Command, Flag, Operand, reference};
use crate::{init_secret, record, recover, secret, status, tpm, verify};

pub(super) const NODE: Operand = Operand {
    name: "NODE[:PORT]",
    required: true,
    text: "name or address of the node, IPv6 in brackets; its port is 9000\nunless latchkey.listen_port says otherwise",
};
pub(super) const CLUSTER: Flag = Flag {
    long: "cluster",
    value: Some("DIR"),
    need: Once,
    text: "the cluster's directory: its id, policy, reference values and node records",
};
pub(super) const MASTER_SECRET: Flag = Flag {
    long: "master-secret",
    value: Some("FILE"),
    need: Once,
    text: "the master secret, made by `latchkey secret new`; mode 0600",
};
pub(super) const POLICY: Flag =
    Flag { long: "policy", value: Some("FILE"), need: Once, text: "whom to admit: see `latchkey policy new`" };
pub(super) const REFERENCE: Flag = Flag {
    long: "reference",
    value: Some("FILE"),
    need: AtLeastOnce,
    text: "measurements of admitted images: see `latchkey record`",
};
pub(super) const EK_ROOT: Flag = Flag {
    long: "ek-root",
    value: Some("PEM"),
    need: AnyNumber,
    text: "trust TPMs whose endorsement key is certified by this authority",
};
pub(super) const EK_INTERMEDIATE: Flag = Flag {
    long: "ek-intermediate",
    value: Some("PEM"),
    need: AnyNumber,
    text: "a certificate between a root and the TPMs, if TPMs do not hold it",
};
pub(super) const EK_PIN: Flag = Flag {
    long: "ek-pin",
    value: Some("EK"),
    need: AnyNumber,
    text: "trust the TPM with this endorsement key: SHA-256 of its TPMT_PUBLIC, or a file\nwith that, with the key (TPM2B or TPMT, PEM, DER), or with what\n`aws ec2 get-instance-tpm-ek-pub` prints",
};
pub(super) const EK_TEMPLATE: Flag = Flag {
    long: "ek-template",
    value: Some("NAME"),
    need: AnyNumber,
    text: "the endorsement key that stands for a TPM: ecc-p256, ecc-p384, ecc-p521, rsa-2048,\nrsa-3072, rsa-4096, ecc-p256-high or rsa-2048-high; as latchkey.ek in the image\n[ecc-p256]",
};
pub(super) const AK_ROOT: Flag = Flag {
    long: "ak-root",
    value: Some("PEM"),
    need: AnyNumber,
    text: "trust TPMs whose attestation key is certified by this authority, a cloud's; as\nlatchkey.ak in the image",
};
pub(super) const AK_INTERMEDIATE: Flag = Flag {
    long: "ak-intermediate",
    value: Some("PEM"),
    need: AnyNumber,
    text: "a certificate between such a root and the TPMs: no TPM holds one",
};
pub(super) const AK_PURPOSE: Flag = Flag {
    long: "ak-purpose",
    value: Some("WORD"),
    need: AtMostOnce,
    text: "demanded: certificates say that they are of attestation keys, as Azure's do;\nif-there: they may say nothing, or what Google's say [demanded]",
};
pub(super) const AK_ALGORITHM: Flag = Flag {
    long: "ak-algorithm",
    value: Some("NAME"),
    need: AnyNumber,
    text: "what attestation keys may be: ecdsa-p256-sha256, which agents make, or\nrsassa-2048-sha256 [ecdsa-p256-sha256]",
};
/// Of commands that verify processors' reports.
pub(super) const COLLATERAL: Flag = flag(
    "collateral",
    "DIR",
    "what AMD and Intel publish (DIR/snp, DIR/tdx), for policies that demand\nreports of SEV-SNP or quotes of TDX",
);
pub(super) const DIRECTORY: Flag = Flag {
    need: AtMostOnce,
    text: "take all of it from this cluster, in its directory or the API server that this\nnames; with --policy: refuse revisions older than those it remembers",
    ..CLUSTER
};
pub(super) const EK: Flag = Flag {
    long: "ek",
    value: Some("EK"),
    need: AtMostOnce,
    text: "the machine that is meant, by its endorsement key: the SHA-256 digest or the\ntwelve words that its console shows, at least 32 digits, or a file that holds\nit; less of one that the policy pins or --cluster has on record, or its name",
};
pub(super) const ANY_EK: Flag = Flag {
    long: "accept-any-ek",
    value: None,
    need: AtMostOnce,
    text: "take whichever machine answers, if the policy admits it: whoever can divert\nthe connection to another such machine chooses which",
};
pub(super) const ENFORCE: Flag = Flag {
    long: "enforce",
    value: Some("PCRS"),
    need: AtMostOnce,
    text: "registers that must be as an image says [4,7,9,11,12,13]",
};
pub(super) const WARN: Flag = Flag {
    long: "warn",
    value: Some("PCRS"),
    need: AtMostOnce,
    text: "registers that may differ with a warning [0,2,3,6]",
};
pub(super) const FIRMWARE_REFUSE: Flag = Flag {
    long: "firmware-refuse",
    value: Some("PCRS"),
    need: AtMostOnce,
    text: "registers of firmware (0 to 3 and 6) that refuse a machine when they are not as on\nits record [none: a warning]",
};

pub(super) const FIRMWARE_KNOWN: Flag =
    switch("firmware-known", "refuse machines whose firmware no manifest lists (`latchkey reference add-firmware`)");

pub(super) const fn flag(long: &'static str, value: &'static str, text: &'static str) -> Flag {
    Flag { long, value: Some(value), need: AtMostOnce, text }
}

pub(super) const fn required(long: &'static str, value: &'static str, text: &'static str) -> Flag {
    Flag { long, value: Some(value), need: Once, text }
}

pub(super) const fn switch(long: &'static str, text: &'static str) -> Flag {
    Flag { long, value: None, need: AtMostOnce, text }
}

/// All commands, in the order in which a new user needs them. A path that begins with another one's path stands before it.
pub(super) const COMMANDS: &[Command] = &[
    Command {
        path: &["secret", "new"],
        operands: &[Operand { name: "FILE", required: true, text: "the file to make; it must not exist" }],
        flags: &[],
        summary: "makes a master secret",
        about: "Every key of a cluster is derived from its master secret. Keep a copy in a safe\nplace: without it, no disk of the cluster can be recovered.",
        examples: &["latchkey secret new master-secret.json"],
        run: secret::run,
    },
    Command {
        path: &["secret", "rotate"],
        operands: &[Operand {
            name: "FILE",
            required: true,
            text: "the master secret; it is replaced as a whole, or not at all",
        }],
        flags: &[Flag {
            need: AtMostOnce,
            text: "the cluster that the secret is of: another one's is refused before it is changed",
            ..CLUSTER
        }],
        summary: "adds a version to a master secret, the current one then",
        about: "New disks get their keys from the current version. Every earlier version stays in\nthe file: each node's record says which one its disk needs, and recovery goes by it.\nA disk that exists keeps its key; it gets one of the new version when its machine\njoins anew with an empty disk.",
        examples: &["latchkey secret rotate master-secret.json --cluster ./plant"],
        run: secret::rotate,
    },
    Command {
        path: &["secret", "disk-key"],
        operands: &[],
        flags: &[
            CLUSTER,
            MASTER_SECRET,
            required("disk", "UUID", "the disk: the UUID in its LUKS2 header (`cryptsetup luksUUID`)"),
            flag(
                "out",
                "FILE",
                "where the key goes, mode 0600; must not exist [standard output, if it is no terminal]",
            ),
            flag("key-version", "NUMBER", "of the master secret, for a disk that is not on record any more"),
            switch("without-its-machine", "the explicit word: nothing is proven to get this key"),
        ],
        summary: "writes the key of a disk, for a rescue without its machine",
        about: "Whoever has this key reads the disk, on any machine, and changes it unseen. No\nmachine proves anything for it: that is what --without-its-machine says. The 32\nbytes open the disk with stock tools:\n\n    cryptsetup open --readonly --key-file KEY /dev/sdX2 rescued\n\nDestroy the file afterwards. A disk that was written to in this way may be refused\nby its machine.",
        examples: &[
            "latchkey secret disk-key --cluster ./plant --master-secret master-secret.json \\",
            "    --disk 0b1c7f0e-9d5b-4a55-8f6e-0d4a1c8f3f11 --without-its-machine --out disk.key",
        ],
        run: secret::disk_key,
    },
    Command {
        path: &["init-secret"],
        operands: &[],
        flags: &[required("out", "FILE", "where the secret goes; the file must not exist")],
        summary: "makes an init secret and prints its hash",
        about: "Whoever knows a node's init secret may make that node the first of a cluster.\nThe secret goes into a file for `latchkey init`; its bcrypt hash, which is printed,\ngoes into the node's instance metadata as `init_secret_hash`.",
        examples: &["latchkey init-secret --out init-secret"],
        run: init_secret::run,
    },
    Command {
        path: &["record"],
        operands: &[NODE],
        flags: &[
            required("name", "NAME", "name of the manifest and of the image in it"),
            required("version", "VERSION", "version of the image: MAJOR.MINOR.PATCH"),
            required("out", "FILE", "where the reference values go; the file must not exist"),
            flag("policy", "FILE", "take trust and registers from this policy, instead of the flags below"),
            EK_ROOT,
            EK_INTERMEDIATE,
            EK_PIN,
            EK_TEMPLATE,
            AK_ROOT,
            AK_INTERMEDIATE,
            AK_PURPOSE,
            AK_ALGORITHM,
            ENFORCE,
            WARN,
            FIRMWARE_REFUSE,
            FIRMWARE_KNOWN,
            flag("machine", "NAME", "the machine type whose values these are [recorded-machine]"),
            flag("serial", "NUMBER", "the manifest's revision; a newer one is higher [seconds since 1970]"),
            flag("policy-out", "FILE", "write a policy that admits this image on TPMs trusted by the flags above"),
            flag("timeout", "TIME", "how long to wait for the node [60s]"),
        ],
        summary: "records reference values from a trusted boot",
        about: "Takes the measurements of a node that waits in its first stage as those of a good\nimage. The node's TPM is proven; that this boot is the one you want is not: you vouch\nfor it. The manifest says `source: recorded`.",
        examples: &[
            "latchkey record 10.0.0.5 --ek-root tpm-vendor.pem --name edge --version 1.0.0 \\",
            "    --out edge.json --policy-out policy.json",
        ],
        run: record::run,
    },
    Command {
        path: &["tpm", "ek"],
        operands: &[],
        flags: &[flag("device", "FILE", "the TPM's device file [/dev/tpmrm0]")],
        summary: "lists the endorsement keys of this machine's TPM",
        about: "A TPM has one endorsement key of each TCG template. A policy's `ek_templates` says\nwhich of them is its identity; digests of keys are what policies pin and deny.",
        examples: &["latchkey tpm ek"],
        run: tpm::ek,
    },
    super::policy::NEW,
    super::policy::CHECK,
    super::policy::FLOOR,
    super::node::INSTALL_POLICY,
    super::node::ACCEPT_FIRMWARE,
    super::collateral::FETCH,
    super::collateral::SHOW,
    super::collateral::CHECK,
    super::collateral::INSTALL,
    reference::NEW_KEY,
    reference::SIGN,
    reference::CHECK,
    reference::ADD,
    reference::REVOKE,
    reference::ADD_FIRMWARE,
    reference::REMOVE_FIRMWARE,
    reference::INSTALL,
    super::init::INIT,
    Command {
        path: &["status"],
        operands: &[],
        flags: &[super::node::DIRECTORY, super::node::KUBECONFIG, super::node::KUBECTL],
        summary: "shows a cluster's nodes, and what needs attention",
        about: "Reads the records of the cluster, in its directory or its API server; no node is asked.\n\nIn an API server each machine stands beside its Node: whether that is ready, its\nkubelet, the image that the machine proved last, and when. Further: which control plane\njoins now, when the operator's certificate and the join service's end, and what\nsomebody should look at: machines that failed or wait, Nodes of which nobody proved what\nthey run, machines that are denied and still Nodes, certificates that end within 30\ndays.",
        examples: &["latchkey status --cluster ./plant", "latchkey status --kubeconfig plant/admin.conf"],
        run: status::run,
    },
    Command {
        path: &["verify"],
        operands: &[Operand { required: false, ..NODE }],
        flags: &[
            Flag { need: AtMostOnce, ..POLICY },
            Flag { need: AnyNumber, ..REFERENCE },
            DIRECTORY,
            super::node::KUBECONFIG,
            super::node::KUBECTL,
            COLLATERAL,
            flag("locked", "CLUSTER_ID", "demand that the node is locked to this cluster; says which node it is"),
            EK,
            flag("node", "NAME", "the machine that is meant, by its name on record; with --cluster"),
            ANY_EK,
            flag("save-evidence", "FILE", "keep the evidence, also of a node that is refused; must not exist"),
            flag("evidence", "FILE", "look at evidence that was kept, instead of a node"),
            switch("as-recorded", "judge kept evidence by the time it was recorded at, not by now"),
            flag("timeout", "TIME", "how long to wait for the node [30s]"),
        ],
        summary: "shows what a node, or kept evidence, proves",
        about: "Shown are the image, the key that the TPM is known by and why it is trusted, the\nprocessor with its firmware and what the policy demands of it, and when each\ncertificate and list behind that ends. A refusal names the first difference.\n\nEvidence that was kept proves less than a node that answers: what, is printed.\n\nWith --locked the machine must be named, by --ek, by --node, or by a policy that pins\none TPM: evidence of another node of the same cluster is not this one's. A member\nlistens nowhere: only a cluster's first node does, until `latchkey init` has fetched the\nresult, and init asks it for the same proof before it ends.",
        examples: &[
            "latchkey verify 10.0.0.5 --policy policy.json --reference edge.json",
            "latchkey verify --evidence edge-1.json --policy policy.json --reference edge.json",
        ],
        run: verify::run,
    },
    Command {
        path: &["recover"],
        operands: &[NODE],
        flags: &[
            CLUSTER,
            MASTER_SECRET,
            flag("policy", "FILE", "whom to admit [the policy in force]"),
            Flag { need: AnyNumber, ..flag("reference", "FILE", "measurements of admitted images [those in force]") },
            COLLATERAL,
            flag(
                "moved-to",
                "EK",
                "the disk was moved on purpose to the machine with this endorsement key\n(SHA-256 digest, twelve words, or a file that holds the digest)",
            ),
            switch("by-directory", "go by the directory, though the cluster is kept in its API server"),
            Flag {
                text: "with --by-directory: this machine, of which the directory has no record, is\nyours; the SHA-256 digest or the twelve words that its console shows, or a file",
                ..EK
            },
            flag("key-version", "NUMBER", "with --ek: of the master secret, for its disk [the cluster's first]"),
            flag("kubernetes", "MINOR", "what a machine whose image has no Kubernetes goes to [it keeps what it has]"),
            flag("components", "URL", "with --kubernetes: a mirror from which it gets that [official addresses]"),
            flag("table", "FILE", "with --kubernetes: a version table of your own [the one in this program]"),
            super::node::KUBECTL,
            flag("timeout", "TIME", "how long to wait for the node [60s]"),
        ],
        summary: "gives a node without a join service the key of its disk",
        about: "The node proves itself first, and must be the machine on whose record its disk is:\nthat it runs the right image does not make it this machine. Another cluster's master\nsecret is refused before the node is asked.\n\nWhere the cluster is kept in its API server, records, denials, policy and manifests are\nread there. If that cannot run before this machine does, --by-directory goes by the\ndirectory: it knows the first machine, and nothing that was changed since. Of other\nmachines --ek says which one the key is for. When so many control planes run that\netcd has its quorum, the others and the workers rejoin by themselves.\n\n--moved-to says that you moved the disk yourself, after a repair for example. The\nrecord with its name, role and disks is the new machine's from then on, and the old\nmachine gets no key any more. Whoever can be in the new machine's place can read the\ndisk: take the digest from the machine, not from who asks you to move it.",
        examples: &["latchkey recover 10.0.0.7 --cluster ./plant --master-secret master-secret.json"],
        run: recover::run,
    },
    super::node::LIST,
    super::node::SHOW,
    super::node::ADMIT,
    super::node::DENY,
    super::node::ALLOW,
    super::node::REMOVE,
    super::node::CREDENTIALS,
    super::node::ADMIN_CREDENTIALS,
    super::image::BUILD,
    super::image::UNITS,
    super::image::CONTAINER,
    super::kubernetes::VERSIONS,
    super::kubernetes::FETCH,
    super::charts::INSTALL,
    super::charts::LIST,
    super::charts::CHECK,
    super::upgrade::CHECK,
    super::upgrade::EXECUTE,
    super::upgrade::RESUME,
    super::upgrade::STORE,
    super::charts::BACKUP_CREATE,
    super::charts::BACKUP_LIST,
    super::charts::BACKUP_CHECK,
    super::charts::BACKUP_RESTORE,
    super::centre::UP,
    super::centre::UNITS,
    super::centre::BACKUP,
    super::centre::RESTORE,
    super::centre::IMPORT,
    super::centre::NEW,
    super::centre::LIST,
    super::centre::SHOW,
    super::centre::WAIT,
    super::centre::COMMAND,
    super::centre::REVOKE,
    super::centre::SEAL,
    super::centre::INVITE,
    super::centre::UNINVITE,
    super::centre::HELD,
    super::centre::ADMIT,
    super::centre::DELETE,
    super::centre::DECOMMISSION,
    super::measure::IMAGE,
    super::measure::LOG,
    super::completions::COMPLETIONS,
    super::manual::MANUAL,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_flag_is_there_once_and_explained() {
        for command in COMMANDS {
            let names: BTreeSet<_> = command.flags.iter().map(|flag| flag.long).collect();
            assert_eq!(names.len(), command.flags.len(), "{}", command.name());
            assert!(command.flags.iter().all(|flag| !flag.text.is_empty()), "{}", command.name());
            assert!(!["output", "quiet", "help"].iter().any(|global| names.contains(global)), "{}", command.name());
        }
    }
}
