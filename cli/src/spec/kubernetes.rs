//! `latchkey kubernetes`, in the table.

use super::Need::{AnyNumber, AtMostOnce, Once};
use super::{Command, Flag, Operand};
use crate::kubernetes;

const TABLE: Flag = Flag {
    long: "table",
    value: Some("FILE"),
    need: AtMostOnce,
    text: "a version table of your own [the one in this program]",
};

pub(super) const VERSIONS: Command = Command {
    path: &["kubernetes", "versions"],
    operands: &[],
    flags: &[TABLE],
    summary: "lists the versions of Kubernetes that nodes can carry",
    about: "One exact version stands behind each minor one. With --output json the container\nimages are named, too.",
    examples: &["latchkey kubernetes versions"],
    run: kubernetes::versions,
};

pub(super) const FETCH: Command = Command {
    path: &["kubernetes", "fetch"],
    operands: &[Operand { name: "VERSION", required: true, text: "the minor version, such as 1.34" }],
    flags: &[
        Flag {
            long: "into",
            value: Some("DIR"),
            need: Once,
            text: "where the files go; made if it is not there. Files that are right stay",
        },
        Flag {
            long: "mirror",
            value: Some("URL|DIR"),
            need: AtMostOnce,
            text: "where they come from [their official addresses]",
        },
        Flag {
            long: "role",
            value: Some("ROLE"),
            need: AnyNumber,
            text: "what the nodes are: control-plane or worker [both]",
        },
        TABLE,
    ],
    summary: "gets the programs that nodes of a version carry",
    about: ABOUT,
    examples: &[
        "latchkey kubernetes fetch 1.34 --into parts",
        "latchkey kubernetes fetch 1.34 --into parts --mirror https://mirror.example/kubernetes",
    ],
    run: kubernetes::fetch,
};

const ABOUT: &str = "
Every file is held against the version table: its SHA-256, and how long it may be. One
that was interrupted is continued by the next run.

DIR can be named as \"components\" in an image's configuration, and put on a web server
as a mirror: files are called NAME-VERSION there, without directories. A mirror's
address has no user and no password. HTTPS trusts this machine's certificate
authorities; http_proxy, https_proxy and no_proxy count.
";
