//! `latchkey upgrade`, in the table.

use super::Need::AtMostOnce;
use super::charts::{BACKUPS, CHARTS, DEBUG, HELM, KUBECONFIG, KUBECTL, TAKE_OVER};
use super::{Command, Flag, node, table};
use crate::upgrade;

const TABLE: Flag = Flag {
    long: "table",
    value: Some("FILE"),
    need: AtMostOnce,
    text: "a version table of your own [the one in this program]",
};
const COMPONENTS: Flag = Flag {
    long: "components",
    value: Some("URL"),
    need: AtMostOnce,
    text: "a mirror from which nodes of images without Kubernetes get it [that of before]",
};
const RESTART: Flag = Flag {
    long: "restart",
    value: Some("PROGRAM"),
    need: AtMostOnce,
    text: "restarts a machine with the new image; it is given the node's name, its role\n(control-plane or worker) and the minor version [you are told what to boot]",
};
const WAIT: Flag = Flag {
    long: "wait",
    value: Some("TIME"),
    need: AtMostOnce,
    text: "how long a node may take to come back, such as 20m [30m]",
};
const DRY_RUN: Flag = Flag {
    long: "dry-run",
    value: None,
    need: AtMostOnce,
    text: "show what would change: of charts line by line, of Secrets only that they do; of\nKubernetes which nodes, and in which order",
};
const IS_GONE: Flag = Flag {
    long: "take-over",
    value: None,
    need: AtMostOnce,
    text: "whoever the cluster says works on it works no more: do not wait",
};

pub(super) const EXECUTE: Command = Command {
    path: &["upgrade", "execute"],
    operands: &[],
    flags: &[
        Flag { long: "helm", value: None, need: AtMostOnce, text: "upgrade the charts, and nothing else" },
        Flag {
            long: "kubernetes",
            value: Some("VERSION"),
            need: AtMostOnce,
            text: "upgrade Kubernetes, and nothing else, to the next minor version, such as 1.35",
        },
        Flag { need: AtMostOnce, ..CHARTS },
        KUBECONFIG,
        DRY_RUN,
        RESTART,
        WAIT,
        BACKUPS,
        TABLE,
        COMPONENTS,
        KUBECTL,
        HELM,
        DEBUG,
        Flag {
            text: "charts: a release that a helm run by hand left half done is nobody's, mend it;\nKubernetes: whoever the cluster says works on it works no more, do not wait",
            ..TAKE_OVER
        },
    ],
    summary: "upgrades a cluster's charts, or its Kubernetes",
    about: "
Before either all custom resource definitions and all their objects are written to this
machine's disk: without a complete backup nothing is upgraded.

--helm: a chart is upgraded if its version, its values or what it renders to differ from
the release. A chart that fails is rolled back by helm, the run ends, and those before
it stay upgraded. A run that was interrupted is run again: it waits until the lock of
the one before has ended (a minute), rolls back what was half done, and goes on. A chart
of the file that is not installed stays so, one that never worked is refused; a release
that the file does not name is not touched.

--kubernetes: one minor version up, if `latchkey upgrade check` finds nothing in the way
and every node is ready. Control planes go first, then workers, one after the other: no
pods come to the node any more, those that are there go elsewhere (what they keep on the
node alone is lost), the machine is restarted with an image of the new version, and is
waited for. A node that does not come back, or not as it should, ends the run and says
why; so does a program that fails. `latchkey upgrade resume` goes on. A node that
somebody else cordoned stays cordoned. Machines whose image has no Kubernetes keep what
they have, and end the run; those that join afterwards get the new version.
",
    examples: &[
        "latchkey upgrade execute --helm --charts charts.json --kubeconfig admin.conf --dry-run",
        "latchkey upgrade execute --helm --charts charts.json --kubeconfig admin.conf",
        "latchkey upgrade execute --kubernetes 1.35 --restart ./reimage --kubeconfig admin.conf",
    ],
    run: upgrade::execute,
};

pub(super) const RESUME: Command = Command {
    path: &["upgrade", "resume"],
    operands: &[],
    flags: &[KUBECONFIG, DRY_RUN, RESTART, WAIT, BACKUPS, TABLE, COMPONENTS, KUBECTL, IS_GONE],
    summary: "goes on with an upgrade of Kubernetes that stopped",
    about: "
The cluster itself says which version it goes to, and how far each node is. The node at
which the upgrade stopped is the next: one that has the new version by now is let have
pods again, one that has not is restarted. A run that was interrupted holds its lock for
a minute, or, while a control plane was away, for as long as that may take and ten
minutes more; --take-over does not wait.
",
    examples: &["latchkey upgrade resume --restart ./reimage --kubeconfig admin.conf"],
    run: upgrade::resume,
};

pub(super) const CHECK: Command = Command {
    path: &["upgrade", "check"],
    operands: &[],
    flags: &[KUBECONFIG, TABLE, KUBECTL],
    summary: "says to which version Kubernetes can go",
    about: "
Kubernetes goes up one minor version at a time, to one that the version table has. The
kubelets must be at most three minor versions behind it, and never newer than the API
server. An API that was asked for since the API server started, and that is gone in the
next version, stands in the way, too: the API server that answers counts its own. Exits
with 1 if something has to be done first. Nothing is changed.
",
    examples: &["latchkey upgrade check --kubeconfig plant/admin.conf"],
    run: upgrade::check,
};

pub(super) const STORE: Command = Command {
    path: &["upgrade", "store"],
    operands: &[],
    flags: &[
        node::DIRECTORY,
        node::KUBECONFIG,
        node::KUBECTL,
        table::flag(
            "denials",
            "NUMBER",
            "the explicit word: so many machines are shut out, and those that are shown are all",
        ),
        table::flag(
            "join-service",
            "ADDRESS",
            "`admin_listen` of a join service that runs here: how many it shuts out is shown, too",
        ),
    ],
    summary: "makes what a cluster's directory or API server lacks",
    about: "
For a cluster that a release before this one made, once; and where denials, records or
their place were lost. Shows what is missing, which nodes are on record and who is shut
out, and changes nothing: it exits with 1 if something is missing. With --denials it
makes that, empty, and has the cluster count its denials, so that one that gets lost is
missed: then join services release no key. Where a copy is, put that back instead.

Join services of releases before cannot read a cluster that counts, and give names and
disks otherwise: stop all of them first. In an API server those of this release let
nobody new in before. There the chart comes first: what the join service may do is
asked, and nothing is made while that is not what this release's chart gives it.
",
    examples: &["latchkey upgrade store --cluster ./plant", "latchkey upgrade store --cluster ./plant --denials 2"],
    run: upgrade::store,
};
