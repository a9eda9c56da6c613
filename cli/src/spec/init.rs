//! `latchkey init`.

use super::Need::AnyNumber;
use super::charts::BACKUPS;
use super::table::{ANY_EK, CLUSTER, COLLATERAL, EK, MASTER_SECRET, NODE, POLICY, REFERENCE, flag, required, switch};
use super::{Command, Flag};
use crate::init;

pub(super) const INIT: Command = Command {
    path: &["init"],
    operands: &[NODE],
    flags: &[
        CLUSTER,
        required("name", "NAME", "name of the cluster: a lower-case DNS label"),
        MASTER_SECRET,
        required(
            "init-secret",
            "FILE",
            "the node's init secret, made by `latchkey init-secret`;\nmode 0600, or - for standard input",
        ),
        flag(
            "invitation",
            "FILE",
            "register the cluster at its node's centre with this; made by `latchkey cluster\ninvite`, mode 0600",
        ),
        POLICY,
        REFERENCE,
        COLLATERAL,
        EK,
        ANY_EK,
        flag("kubernetes", "MINOR", "the version of Kubernetes that the image must carry, such as 1.34"),
        flag(
            "components",
            "URL",
            "a mirror from which nodes of images without Kubernetes get it, with --kubernetes\n[official addresses]",
        ),
        flag("table", "FILE", "the version table they get it by [the one in this program]"),
        flag("control-plane-endpoint", "HOST[:PORT]", "for the cluster step: the API server's stable address"),
        switch(
            "api-balancer",
            "nodes reach the API servers by the balancer of their image, and outlive the\ncontrol plane that they joined through; for --store kubernetes",
        ),
        switch("untainted", "control planes get no taint: pods run there, too, which a cluster of one machine\nneeds"),
        Flag {
            need: AnyNumber,
            ..flag("cert-san", "NAME", "one more name or address for the API server's certificate")
        },
        flag(
            "api-server",
            "HOST[:PORT]",
            "where you reach the API server, written into the credentials, if it is not\nwhere nodes do: a forwarded port, a bastion (by stock kubectl)",
        ),
        flag("pod-cidr", "CIDR", "for the cluster step: addresses of pods"),
        flag("service-cidr", "CIDR", "for the cluster step: addresses of services"),
        flag("admin-config", "FILE", "where the cluster's credentials go [DIR/admin.conf]; must not exist"),
        flag(
            "merge-kubeconfig",
            "FILE",
            "put the credentials into this kubeconfig, too, as the context NAME, by stock kubectl",
        ),
        flag(
            "store",
            "WHERE",
            "where machines and policy are kept: `directory` or `kubernetes`, the cluster's\nown API server [kubernetes with --kubernetes, else directory]",
        ),
        flag(
            "services",
            "WHERE",
            "where join and key service run: `outside`, or `inside`, on every control plane,\nwhich then has the master secret; for --store kubernetes [outside]",
        ),
        flag(
            "join-service-key",
            "FILE",
            "for --services inside: the join service's key, PEM, whose hash is in the image",
        ),
        flag("charts", "FILE", "charts to install at the end, by stock helm: see `latchkey charts install`"),
        flag(
            "kubectl-program",
            "FILE",
            "the stock kubectl, for --store kubernetes, --api-server, --merge-kubeconfig and\n--charts [the first in PATH]",
        ),
        flag("helm-program", "FILE", "the stock helm, in the same way [the first in PATH]"),
        BACKUPS,
        switch("resume", "take up an earlier init; without it the same is done if there is one"),
        flag("timeout", "TIME", "how long all of it may take [30m]"),
    ],
    summary: "makes a fresh node the first of a new cluster",
    about: "Proves what the node is, hands it the keys of its disk, follows its bootstrap over\nthe change to its operating system, and fetches the cluster's credentials.\n\nA policy that trusts a vendor's authority admits every machine with such a TPM: --ek\nsays which one is meant. Without it the command asks on a terminal, and elsewhere\nrefuses. A policy that pins one TPM names it.\n\nWith --store kubernetes it then installs our chart with stock helm, moves policy,\nmanifests, rules and the first machine's record into the API server, and gets the join\nservice its own kubeconfig: DIR/join-service.kubeconfig. With --services inside the\nmachine gets what both services read, the master secret among it, onto its encrypted\ndisk, and further control planes get it in their tickets.\n\nLosing the connection loses nothing, and neither does stopping this command: run it\nagain. One directory holds one cluster, whatever happens.",
    examples: &[
        "latchkey init 10.0.0.5 --cluster ./plant --name plant \\",
        "    --master-secret master-secret.json --init-secret init-secret \\",
        "    --policy policy.json --reference edge.json",
    ],
    run: init::run,
};
