//! `latchkey charts` and `latchkey backup`, in the table.

use super::Need::{AtMostOnce, Once};
use super::{Command, Flag, Operand};
use crate::{backup, charts};

pub(super) const KUBECONFIG: Flag = Flag {
    long: "kubeconfig",
    value: Some("FILE"),
    need: Once,
    text: "the cluster, and who asks: as `latchkey init` wrote it, for example",
};
pub(super) const CHARTS: Flag =
    Flag { long: "charts", value: Some("FILE"), need: Once, text: "the charts file: see `latchkey charts install`" };
pub(super) const KUBECTL: Flag = Flag {
    long: "kubectl-program",
    value: Some("FILE"),
    need: AtMostOnce,
    text: "stock kubectl, at most one minor version from the cluster's [in PATH]",
};
pub(super) const HELM: Flag =
    Flag { long: "helm-program", value: Some("FILE"), need: AtMostOnce, text: "stock helm, 3.18 or newer [in PATH]" };
pub(super) const DEBUG: Flag = Flag {
    long: "debug",
    value: None,
    need: AtMostOnce,
    text: "print every line of helm's own debug output, with the chart that it is about",
};
pub(super) const TAKE_OVER: Flag = Flag {
    long: "take-over",
    value: None,
    need: AtMostOnce,
    text: "a release that a helm run by hand left half done is nobody's: mend it",
};
pub(super) const BACKUPS: Flag = Flag {
    long: "backups",
    value: Some("DIR"),
    need: AtMostOnce,
    text: "where backups are, each in a directory of its own [latchkey-backups]",
};
const BACKUP: Operand = Operand { name: "DIR", required: true, text: "the directory of one backup" };

pub(super) const INSTALL: Command = Command {
    path: &["charts", "install"],
    operands: &[],
    flags: &[CHARTS, KUBECONFIG, BACKUPS, KUBECTL, HELM, DEBUG, TAKE_OVER],
    summary: "installs the charts of a file into a cluster",
    about: "
Installs what is not there, in the file's order, and waits until it is ready. A release
that is there stays as it is; one that never worked is deleted, after a backup of all
custom resources, and installed anew. A release of which helm forgot whether it ever
worked is refused. The first chart that fails ends the run, and the next run goes on
with it. One operator works at a time: a Lease in the cluster says who.

The file is JSON:

  {\"schema\": 1, \"charts\": [
    {\"name\": \"flannel\", \"namespace\": \"kube-system\",
     \"chart\": {\"directory\": \"charts/flannel\"},
     \"values\": {\"inline\": {\"podCidr\": \"10.244.0.0/16\"}},
     \"wait\": 600, \"crds\": \"once\"}
  ]}

chart   {\"directory\": DIR}, {\"archive\": {\"file\": FILE, \"sha256\": HASH}} or
        {\"registry\": {\"repository\": \"oci://…\", \"digest\": \"sha256:…\"}}
values  {\"file\": FILE} (YAML or JSON) or {\"inline\": {…}}; else those of the chart
wait    seconds until its objects must be ready [600]; 0 does not wait, except for
        upgrades, which helm gives 90 seconds
crds    definitions in the chart's `crds` directory: `once` is helm's way, `upgrade`
        applies them before each upgrade too, `never` leaves them alone [once]

Paths are taken from where the file is. Releases are plain ones: helm by hand sees and
changes them, before and afterwards.
",
    examples: &["latchkey charts install --charts charts.json --kubeconfig plant/admin.conf"],
    run: charts::install,
};

pub(super) const LIST: Command = Command {
    path: &["charts", "list"],
    operands: &[],
    flags: &[Flag { need: AtMostOnce, ..CHARTS }, KUBECONFIG, HELM],
    summary: "lists the releases of a cluster",
    about: "With --charts it also says which of them the file names, and which charts of the file\nare absent.",
    examples: &["latchkey charts list --kubeconfig plant/admin.conf"],
    run: charts::list,
};

pub(super) const CHECK: Command = Command {
    path: &["charts", "check"],
    operands: &[],
    flags: &[CHARTS, HELM],
    summary: "checks a charts file, and renders its charts",
    about: "Reads all that the file names, and lets helm render each chart with its values. No\ncluster is asked.",
    examples: &["latchkey charts check --charts charts.json"],
    run: charts::check,
};

pub(super) const BACKUP_CREATE: Command = Command {
    path: &["backup", "create"],
    operands: &[],
    flags: &[KUBECONFIG, BACKUPS, KUBECTL],
    summary: "writes a cluster's custom resources to this machine's disk",
    about: "
All custom resource definitions, and their objects in every version that is served, as
they were at one moment, in a directory named by time and version (mode 0700, files
0600). The files are read again and counted; the list of them is written last, and
without it the directory is no backup. Secrets of charts may be among the objects.
",
    examples: &["latchkey backup create --kubeconfig plant/admin.conf"],
    run: backup::create_one,
};

pub(super) const BACKUP_LIST: Command = Command {
    path: &["backup", "list"],
    operands: &[],
    flags: &[BACKUPS],
    summary: "lists the backups of a directory",
    about: "Reads their lists; whether all is there says `latchkey backup check`.",
    examples: &["latchkey backup list"],
    run: backup::list,
};

pub(super) const BACKUP_CHECK: Command = Command {
    path: &["backup", "check"],
    operands: &[BACKUP],
    flags: &[],
    summary: "reads a backup, and says whether it is complete",
    about: "Every file must have the hash, and the number of objects, that the backup's list says.",
    examples: &["latchkey backup check latchkey-backups/2026-11-22T18-00-00Z_1.34.4"],
    run: backup::check,
};

pub(super) const BACKUP_RESTORE: Command = Command {
    path: &["backup", "restore"],
    operands: &[BACKUP],
    flags: &[
        KUBECONFIG,
        Flag {
            long: "any-cluster",
            value: None,
            need: AtMostOnce,
            text: "restore into this cluster, though the backup is of another",
        },
        Flag {
            long: "machines",
            value: None,
            need: AtMostOnce,
            text: "restore records of machines, too, that this cluster has not any more",
        },
        KUBECTL,
    ],
    summary: "brings back what a cluster lost",
    about: "
Makes the definitions that are missing, waits until they are established, and makes the
objects that are missing, with their status. Owners are named by the uids that they
have now; one that is gone is left out and named, since the cluster would remove the
object at once. What is there is never overwritten: if it differs from the backup, or
is being removed, it is named, and the command fails. So is what the API server refuses;
all else is restored. Objects that were being removed are not made again.

Records of machines go with their definition: where that is
there, a record that is missing was removed since by `latchkey node remove`, and comes
back with --machines only.
",
    examples: &["latchkey backup restore backups/2026-11-22T18-00-00Z_1.34.4 --kubeconfig admin.conf"],
    run: backup::restore,
};
