//! `latchkey centre` and `latchkey cluster`, in the table.

use super::table::{flag, required, switch};
use super::{Command, Flag, Operand};
use crate::{centre, clusters};

const DIRECTORY: Operand = Operand {
    name: "DIR",
    required: true,
    text: "the centre's directory: everything that it keeps; made if it is not there",
};

pub(super) const UP: Command = Command {
    path: &["centre", "up"],
    operands: &[DIRECTORY],
    flags: &[
        flag("realm", "REALM", "the Kerberos realm of a new centre [FACTORY.LOCALHOST]"),
        flag("organisation", "NAME", "what Sparkplug groups of a new centre begin with [Factory]"),
        flag("port", "PORT", "the first of the ports of a new centre, on 127.0.0.1 [8440]"),
        switch("insecure", "make a new centre without TLS: passwords are readable on its network"),
        switch("new-password", "give the user admin a new password, and print it"),
    ],
    summary: "runs a centre on this machine until it is told to stop",
    about: "A centre keeps the configuration of edge clusters, knows who may do what, has their\nrepositories, and sets new ones up. This starts stock krb5kdc, kadmind and mosquitto,\nand our services, each a program of its own beside this one; prints the address of the\npage, the first time the password of the user admin, and what machines that register\nclusters by themselves have on their command line; and ends all with itself.\nRun again, it goes on with what the directory has: addresses, URLs and the realm stand\nin its centre.json. With --output json each line of standard output is one object: that\nit runs, and how it ended.",
    examples: &["latchkey centre up ./centre", "latchkey centre up ./centre --organisation ACME --realm ACME.EXAMPLE"],
    run: centre::up,
};

const EXISTING: Operand = Operand { name: "DIR", required: true, text: "the directory that `latchkey centre up` made" };

pub(super) const UNITS: Command = Command {
    path: &["centre", "units"],
    operands: &[EXISTING],
    flags: &[required("to", "DIRECTORY", "where the files go: made if it is not there; files of before are replaced")],
    summary: "writes hardened systemd units for a centre",
    about: "One unit for each program, a target for all, users (sysusers.d), owners of files\n(tmpfiles.d), and the services' configurations with their secrets as credentials. They\nrun what `latchkey centre up` made in DIR, which must not be in a home directory, and\nthe programs beside this one. The target's head says how all of it is installed.",
    examples: &["latchkey centre units /var/lib/latchkey-centre --to /etc/latchkey-centre"],
    run: centre::units,
};

pub(super) const BACKUP: Command = Command {
    path: &["centre", "backup"],
    operands: &[EXISTING],
    flags: &[required("to", "FILE", "the backup: a new file, mode 0600")],
    summary: "backs up a centre while it runs",
    about: "Configuration database, authorisation service, directory, enrol service, KDC and\nrepositories, in this order, each as it is at one moment: all that the first one knows\nas made is in those after it. With the centre's passwords, keys and authority, so\nwhoever reads FILE can be anybody in this centre: encrypt it before it leaves the\nmachine. Bootstrap commands are not in it, nor machines that wait to register.",
    examples: &["latchkey centre backup ./centre --to ./centre.backup"],
    run: centre::backup,
};

pub(super) const RESTORE: Command = Command {
    path: &["centre", "restore"],
    operands: &[
        Operand { name: "FILE", required: true, text: "the backup that `latchkey centre backup` wrote" },
        Operand { name: "DIR", required: true, text: "the centre's new directory: empty, or not there" },
    ],
    flags: &[],
    summary: "restores a centre from a backup",
    about: "FILE is verified as a whole before anything is written, and DIR is there once all is\nrestored. `latchkey centre up DIR` runs it then; where it listens stands in\nDIR/centre.json. Tokens and bootstrap commands of before are void. Printed are the\naccounts of edges with the number of their keys: an edge that has a key of a higher\nnumber got it after the backup, and needs a new one. The backup says itself what must be\nin it: take none from strangers.",
    examples: &["latchkey centre restore ./centre.backup ./centre"],
    run: centre::restore,
};

pub(super) const IMPORT: Command = Command {
    path: &["centre", "charts", "import"],
    operands: &[
        Operand {
            name: "INPUT",
            required: true,
            text: "Flux's install.yaml, or the chart of Sealed Secrets: a .tgz or a directory",
        },
        Operand { name: "INPUT", required: false, text: "the other one" },
    ],
    flags: &[
        CENTRE,
        USER,
        PASSWORD,
        switch("migrated", "no cluster has objects in a version that this Flux no longer knows"),
    ],
    summary: "imports Flux and Sealed Secrets for edge clusters",
    about: "Edge clusters read charts from one repository at the centre. This writes the chart of\nedge clusters there, which this program carries, and what others make: it is taken as it\nis, and its SHA-256 is recorded in the repository's inputs.json. A Flux that drops a\nversion of its resources is refused until every cluster was migrated, which --migrated\nsays.",
    examples: &["latchkey centre charts import install.yaml --centre operator.json --password-file pass"],
    run: clusters::import,
};

const NAME: Operand = Operand { name: "NAME", required: true, text: "the cluster's name, or its UUID" };
const CENTRE: Flag =
    required("centre", "FILE", "where the centre is: the operator.json that `latchkey centre up` wrote");
const USER: Flag = flag("user", "PRINCIPAL", "who asks, as NAME@REALM [the one in FILE]");
const PASSWORD: Flag = required("password-file", "FILE", "the user's password; mode 0600, or - for standard input");
const TIMEOUT: Flag = flag("timeout", "TIME", "how long to wait, such as 30s or 5m [1m]");

pub(super) const NEW: Command = Command {
    path: &["cluster", "new"],
    operands: &[Operand {
        name: "NAME",
        required: true,
        text: "a letter, then letters, digits and underscores: 31 at most. For life",
    }],
    flags: &[
        CENTRE,
        USER,
        PASSWORD,
        flag("namespace", "NAME", "the namespace at the edge [fplus-edge]"),
        flag("chart", "UUID", "the Helm chart template [the centre's own]"),
        switch("bare", "leave out Flux's own manifests and Sealed Secrets: somebody else brings them"),
        TIMEOUT,
    ],
    summary: "makes an edge cluster, and waits until it is ready",
    about: "Writes the cluster's configuration into the centre, whose cluster manager gives it a\nSparkplug group, accounts and a repository. `latchkey cluster command` prints the\ncommand that bootstraps it then.",
    examples: &["latchkey cluster new Building_1 --centre ./operator.json --password-file ./pass"],
    run: clusters::new,
};

pub(super) const LIST: Command = Command {
    path: &["cluster", "list"],
    operands: &[],
    flags: &[CENTRE, USER, PASSWORD],
    summary: "lists the edge clusters of a centre",
    about: "Each with its Sparkplug group and its state: how far its set-up is, or how many of its\nhosts are ready.",
    examples: &["latchkey cluster list --centre ./operator.json --password-file ./pass"],
    run: clusters::list,
};

pub(super) const SHOW: Command = Command {
    path: &["cluster", "show"],
    operands: &[NAME],
    flags: &[CENTRE, USER, PASSWORD],
    summary: "shows one edge cluster and its hosts",
    about: "With what failed last, and how to mend it.",
    examples: &["latchkey cluster show Building_1 --centre ./operator.json --password-file -"],
    run: clusters::show,
};

pub(super) const WAIT: Command = Command {
    path: &["cluster", "wait"],
    operands: &[NAME],
    flags: &[CENTRE, USER, PASSWORD, TIMEOUT],
    summary: "waits until an edge cluster is ready",
    about: "Ends at once when the set-up is refused; what fails otherwise is tried again by the\ncluster manager, and waited for.",
    examples: &["latchkey cluster wait Building_1 --centre ./operator.json --password-file ./pass"],
    run: clusters::wait,
};

pub(super) const COMMAND: Command = Command {
    path: &["cluster", "command"],
    operands: &[NAME],
    flags: &[CENTRE, USER, PASSWORD, flag("lifetime", "TIME", "how long the command is good for, 1m to 24h [1h]")],
    summary: "makes the command that bootstraps an edge cluster",
    about: "The command has a token that is good for this one cluster, until an edge has redeemed\nit, it is revoked, or its time is over. The second form checks the script's SHA-256\nbefore it runs.",
    examples: &["latchkey cluster command Building_1 --centre ./operator.json --password-file ./pass"],
    run: clusters::command,
};

pub(super) const REVOKE: Command = Command {
    path: &["cluster", "revoke"],
    operands: &[NAME],
    flags: &[CENTRE, USER, PASSWORD, flag("link", "UUID", "this one [all of the cluster]")],
    summary: "revokes the commands that bootstrap an edge cluster",
    about: "Whoever comes with one is refused from now on, and told why.",
    examples: &["latchkey cluster revoke Building_1 --centre ./operator.json --password-file ./pass"],
    run: clusters::revoke,
};

const ENROL_DIRECTORY: Flag = required("directory", "DIR", "the enrol service's directory");
const AS_NAMESPACE: Flag = flag("namespace", "NAME", "the namespace at the edge [the one in DIR/registration.json]");
const AS_CHART: Flag = flag("chart", "UUID", "the Helm chart template [the one in DIR/registration.json]");

pub(super) const INVITE: Command = Command {
    path: &["cluster", "invite"],
    operands: &[Operand { name: "NAME", required: true, text: "what the cluster is going to be called, for life" }],
    flags: &[
        ENROL_DIRECTORY,
        required("to", "FILE", "the invitation: a new file, mode 0600"),
        AS_NAMESPACE,
        AS_CHART,
        flag("lifetime", "TIME", "how long it is good for, 1m to 2160h [24h]"),
    ],
    summary: "invites one machine to register one edge cluster",
    about: "FILE has a token for one machine; the enrol service knows its hash alone. It serves\nonce: the machine that shows it, and proves what it runs, becomes the\ncluster NAME.",
    examples: &["latchkey cluster invite Press_4 --directory /var/lib/latchkey/enrol --to ./press-4"],
    run: clusters::invite,
};

pub(super) const UNINVITE: Command = Command {
    path: &["cluster", "uninvite"],
    operands: &[Operand { name: "NAME", required: true, text: "the cluster's name, or the invitation's hash" }],
    flags: &[ENROL_DIRECTORY],
    summary: "takes an invitation back",
    about: "Whoever shows it from now on is refused. A cluster that registered with it stays.",
    examples: &["latchkey cluster uninvite Press_4 --directory /var/lib/latchkey/enrol"],
    run: clusters::uninvite,
};

pub(super) const HELD: Command = Command {
    path: &["cluster", "held"],
    operands: &[],
    flags: &[ENROL_DIRECTORY],
    summary: "lists machines that wait to register an edge cluster",
    about: "They proved a TPM and an image that the policy trusts, and no invitation and no rule\nspeaks of them. What they call themselves is their own word.",
    examples: &["latchkey cluster held --directory /var/lib/latchkey/enrol"],
    run: clusters::held,
};

pub(super) const ADMIT: Command = Command {
    path: &["cluster", "admit"],
    operands: &[Operand {
        name: "EK",
        required: true,
        text: "the digest of the machine's endorsement key; its first digits, at least 8, or\nwords, at least 3, will do",
    }],
    flags: &[ENROL_DIRECTORY, required("name", "NAME", "what the cluster is called, for life"), AS_NAMESPACE, AS_CHART],
    summary: "lets a machine register an edge cluster that waits to",
    about: "Compare the digest with the machine's own console first: it is what tells your machine\nfrom another one of the same image.",
    examples: &["latchkey cluster admit 1f2e3d4c --name Press_4 --directory /var/lib/latchkey/enrol"],
    run: clusters::admit,
};

pub(super) const SEAL: Command = Command {
    path: &["cluster", "seal"],
    operands: &[NAME],
    flags: &[
        CENTRE,
        USER,
        PASSWORD,
        required("secret", "NAMESPACE/NAME/KEY", "where the value goes in the edge cluster"),
        required("value-file", "FILE", "the value; mode 0600, or - for standard input"),
    ],
    summary: "seals a secret for an edge cluster, and commits it",
    about: "Only the cluster's own Sealed Secrets controller can open it. One line end at the\nvalue's end is not part of it.",
    examples: &[
        "latchkey cluster seal Hall_1 --secret fplus-edge/plc/password --value-file ./val \\",
        "    --centre ./operator.json --password-file ./pass",
    ],
    run: clusters::seal,
};

pub(super) const DELETE: Command = Command {
    path: &["cluster", "delete"],
    operands: &[NAME],
    flags: &[CENTRE, USER, PASSWORD],
    summary: "deletes an edge cluster",
    about: "Its grants end and its principals are disabled. Made again under the same UUID, it\ntakes its accounts up again.",
    examples: &["latchkey cluster delete Building_1 --centre ./operator.json --password-file ./pass"],
    run: clusters::delete,
};

pub(super) const DECOMMISSION: Command = Command {
    path: &["cluster", "decommission"],
    operands: &[NAME],
    flags: &[CENTRE, USER, PASSWORD],
    summary: "removes what a deleted edge cluster left",
    about: "Its principals, repository and status. A machine that still runs it is left without\ncredentials.",
    examples: &["latchkey cluster decommission Hall_1 --centre ./operator.json --password-file ./pass"],
    run: clusters::decommission,
};
