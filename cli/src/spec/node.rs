//! The commands of the machines on record.

use super::Need::{AtMostOnce, Once};
use super::{Command, Flag, Operand};
use crate::{credentials, nodes, policy};

const CLUSTER: Flag = Flag { long: "cluster", value: Some("DIR"), need: Once, text: "the cluster's directory" };
pub(super) const DIRECTORY: Flag = Flag {
    need: AtMostOnce,
    text: "the cluster's directory; the API server, if it says that it is kept there",
    ..CLUSTER
};
pub(super) const KUBECONFIG: Flag =
    optional("kubeconfig", "FILE", "instead of --cluster: the operator's way to the API server that keeps the cluster");
pub(super) const KUBECTL: Flag = optional("kubectl-program", "FILE", "the stock kubectl [the first in PATH]");
const DENIAL_SOCKET: Flag = optional(
    "denial-socket",
    "FILE",
    "where the join service of this machine is told at once\n[/run/latchkey-join-service/denials.sock, if it is there]",
);
const MACHINE: Operand = Operand {
    name: "NODE|EK",
    required: true,
    text: "name of a node on record, or the SHA-256 digest of a machine's\nendorsement key, or a file that holds it; of a machine that is known\nhere the first digits or words will do, at least 8 or 3",
};

const fn optional(long: &'static str, value: &'static str, text: &'static str) -> Flag {
    Flag { long, value: Some(value), need: AtMostOnce, text }
}

pub(super) const LIST: Command = Command {
    path: &["node", "list"],
    operands: &[],
    flags: &[DIRECTORY, KUBECONFIG, KUBECTL],
    summary: "lists the machines: on record, waiting, or denied",
    about: "Reads the cluster's directory, or its API server by stock kubectl; no machine is asked.\nA machine that is held proved what it runs, and waits for `latchkey node admit`: the\nname it shows is its own word.",
    examples: &["latchkey node list --cluster ./plant"],
    run: nodes::list,
};

pub(super) const SHOW: Command = Command {
    path: &["node", "show"],
    operands: &[MACHINE],
    flags: &[
        DIRECTORY,
        KUBECONFIG,
        KUBECTL,
        Flag { long: "qr", value: None, need: AtMostOnce, text: "its digest as a QR code, too, for a dark terminal" },
    ],
    summary: "shows what is known of one machine",
    about: "Its TPM, role, disks with the versions of their keys, and whether it is held or\ndenied.",
    examples: &["latchkey node show edge-1 --cluster ./plant"],
    run: nodes::show,
};

pub(super) const ADMIT: Command = Command {
    path: &["node", "admit"],
    operands: &[MACHINE],
    flags: &[
        DIRECTORY,
        KUBECONFIG,
        KUBECTL,
        optional("role", "ROLE", "`worker` or `control-plane` [as its rule or record says; else worker]"),
        optional("name", "NAME", "the node's name [as on record, or as the default rule says]"),
    ],
    summary: "lets a machine join that is held, or will come",
    about: "Writes a rule for this TPM into enrolment.json. Compare the digest, or its words, with\nwhat the machine's own console shows: that a machine has the right image and a TPM of a\ntrusted vendor does not make it yours. It keeps asking, and joins by itself.",
    examples: &["latchkey node admit 7d0c…64 hex digits…91ab --cluster ./plant --name edge-2"],
    run: nodes::admit,
};

pub(super) const ACCEPT_FIRMWARE: Command = Command {
    path: &["policy", "accept-firmware"],
    operands: &[MACHINE],
    flags: &[
        DIRECTORY,
        KUBECONFIG,
        KUBECTL,
        optional(
            "change",
            "DIGEST",
            "the change that is meant, as `latchkey node show` names it; without it the\ncommand asks on a terminal",
        ),
    ],
    summary: "makes a machine's new firmware the one on its record",
    about: "A machine's record keeps what its firmware measured (PCR 0 to 3 and 6) when it was let\nin first. A policy's `firmware_change` says which registers are held against it, and\nwhether a change warns or refuses. This shows the change that was seen\nlast, register by register with the event that is new, gone or another, and takes it\nover. The join service takes it up by itself.",
    examples: &["latchkey policy accept-firmware edge-1 --cluster ./plant"],
    run: policy::accept_firmware,
};

pub(super) const INSTALL_POLICY: Command = Command {
    path: &["policy", "install"],
    operands: &[Operand { name: "POLICY", required: true, text: "the policy's file: see `latchkey policy new`" }],
    flags: &[DIRECTORY, KUBECONFIG, KUBECTL],
    summary: "puts a policy in force in a cluster",
    about: "Reads it, holds the manifests in force against it, and puts it in the place of the one\nbefore, in the directory or the API server that keeps the cluster. The join service\ntakes it up at once, without a restart. A policy that the manifests in force are not\nsigned for is refused: install them first, with `latchkey reference install`.",
    examples: &["latchkey policy install policy.json --cluster ./plant"],
    run: policy::install,
};

pub(super) const DENY: Command = Command {
    path: &["node", "deny"],
    operands: &[MACHINE],
    flags: &[
        DIRECTORY,
        KUBECONFIG,
        KUBECTL,
        DENIAL_SOCKET,
        optional("reason", "TEXT", "why, for whoever reads it later"),
    ],
    summary: "shuts a machine out",
    about: "Makes denied/EK-DIGEST in the cluster's directory, a file of its own, of which only\nthe name counts; or the entry EK-DIGEST of the ConfigMap latchkey-denied, where the\ncluster is kept in its API server. So no mistake in a policy or rule undoes it. The\nmachine gets no key from then on; a disk that it has open stays open until it restarts.\nThe join service of this machine is told, too, and obeys at once; the output says\nwhether it was. Where EK is a whole digest and --cluster a directory, it is told first,\nalso where the store cannot be written; the command fails then, since the service\nforgets what it was told when it ends.",
    examples: &["latchkey node deny edge-7 --cluster ./plant --reason \"stolen on Monday\""],
    run: nodes::deny,
};

pub(super) const ALLOW: Command = Command {
    path: &["node", "allow"],
    operands: &[MACHINE],
    flags: &[DIRECTORY, KUBECONFIG, KUBECTL, DENIAL_SOCKET],
    summary: "takes a denial back",
    about: "Removes what `latchkey node deny` made, also at the join service of this machine. The\npolicy and the rules decide about the machine again.",
    examples: &["latchkey node allow edge-7 --cluster ./plant"],
    run: nodes::allow,
};

pub(super) const REMOVE: Command = Command {
    path: &["node", "remove"],
    operands: &[MACHINE],
    flags: &[DIRECTORY, KUBECONFIG, KUBECTL, DENIAL_SOCKET],
    summary: "forgets a machine",
    about: "Removes its record and its own rule. Nobody gets the keys of its disks any more, and\nits name is free. In a directory it does not shut the machine out: the default rule\ndecides about it, as about a new one. In an API server it does, first: then its pods go\nelsewhere (kubectl drain), and its Node and its record are removed. Switch the machine\noff: until its certificate ends it can come back as a Node without disk.",
    examples: &["latchkey node remove edge-7 --cluster ./plant"],
    run: nodes::remove,
};

pub(super) const CREDENTIALS: Command = Command {
    path: &["credentials", "join-service"],
    operands: &[],
    flags: &[
        DIRECTORY,
        KUBECONFIG,
        KUBECTL,
        Flag {
            long: "out",
            value: Some("FILE"),
            need: Once,
            text: "the join service's kubeconfig, mode 0600; replaced if it is there",
        },
    ],
    summary: "gets the join service a new client certificate",
    about: "Makes a key, has the cluster's authority certify it for `latchkey:join-service` (whose\nrights are those of our chart), and writes a kubeconfig with both. The certificate is\ngood for a year: run this again before it ends, and restart the join service.",
    examples: &["latchkey credentials join-service --cluster ./plant --out join-service.kubeconfig"],
    run: credentials::join_service,
};

pub(super) const ADMIN_CREDENTIALS: Command = Command {
    path: &["credentials", "admin"],
    operands: &[],
    flags: &[
        CLUSTER,
        Flag {
            long: "api-server",
            value: Some("HOST[:PORT]"),
            need: Once,
            text: "where you reach an API server of the cluster [port 6443]",
        },
        Flag {
            long: "out",
            value: Some("FILE"),
            need: Once,
            text: "the administrator's kubeconfig, mode 0600; replaced if it is there",
        },
    ],
    summary: "makes the cluster's administrator a new kubeconfig",
    about: "For an admin.conf that was lost, was never fetched, or ends: it is good for a year.\nNeeds control-plane.json in the cluster's directory, as `latchkey init --store\nkubernetes` writes it, and asks nobody. Earlier kubeconfigs stay good until they end.",
    examples: &["latchkey credentials admin --cluster ./plant --api-server 10.0.0.5 --out admin.conf"],
    run: credentials::admin,
};
