//! The reason codes of this command: what went wrong on this side. Codes of attestation, of the channel and of a node's own
//! refusals keep the names that they have there.

use latchkey_reason::{Reason, ReasonCode, reason_codes};

reason_codes! {
    /// Why a command fails on the operator's side.
    pub enum CommandCode {
        /// The arguments are not those of the command.
        Usage = "usage": "see --help of the command for its arguments";
        /// A directory that an argument names is not there.
        DirectoryMissing = "directory-missing": "name a directory that exists";
        /// The directory holds no cluster.
        ClusterMissing = "cluster-missing": "begin a cluster with `latchkey init`, or name the directory of one";
        /// The key of the cluster's own certificate authority is not in its directory.
        AuthorityMissing = "authority-missing": "name the directory that `latchkey init --store kubernetes` wrote, or put control-plane.json there";
        /// A file that an argument names is of another kind than is needed there.
        OtherKind = "file-of-another-kind": "name the file that is meant";
        /// A file that an argument names cannot be read.
        FileUnreadable = "file-unreadable": "check the path and who may read the file";
        /// A file that is to be made is there already.
        FileExists = "file-exists": "choose another name, or move the file away: it is never overwritten";
        /// A file cannot be written.
        FileUnwritable = "file-unwritable": "make room, or choose a place that you may write to";
        /// A file of the cluster does not follow its schema.
        FileMalformed = "file-malformed": "restore the file from a copy";
        /// Standard output takes no more.
        OutputUnwritable = "output-unwritable":
            "make room where standard output goes, or send it elsewhere, and run the command again";
        /// A secret cannot be read, made or derived.
        SecretUnusable = "secret-unusable": "give a file with mode 0600 that you own, as `latchkey secret new` makes it";
        /// A secret could not be hashed.
        HashFailed = "hash-failed": "run the command again; if it fails again, report it";
        /// The lock of the cluster's directory cannot be taken.
        DirectoryLock = "directory-lock": "check who may write to the cluster's directory";
        /// Another command works on the cluster's directory.
        DirectoryBusy = "directory-busy": "wait until the other command is done";
        /// The cluster's directory cannot be read or written.
        DirectoryUnusable = "directory-unusable": "check the directory, and who may read and write it";
        /// The directory holds a cluster already.
        ClusterExists = "cluster-exists": "use another directory for another cluster";
        /// A new revision of a manifest does not revoke what the one in force revokes.
        RevocationsMissing = "revocations-missing":
            "merge the two with `latchkey reference add`, which keeps revocations";
        /// The machine has a record of its own.
        MachineOnRecord = "machine-on-record":
            "remove the record with `latchkey node remove`, if the machine is to have another";
        /// A machine is to have the name of another one on record.
        NameTaken = "name-on-record":
            "give it another name, or remove the other machine first with `latchkey node remove`";
        /// The join service of this machine was not told of a denial.
        ServiceNotTold = "service-not-told":
            "run the command as root on the machine of the join service, and see that it runs and that its configuration has a `denial_socket`";
        /// No node on record has this name.
        NodeUnknown = "node-unknown": "see `latchkey node list` for the nodes on record";
        /// The API server keeps another cluster than the one that is founded.
        ForeignCluster = "foreign-cluster":
            "use the kubeconfig of this cluster: the other one's documents are in the namespace latchkey, and are left as they are";
        /// The kubeconfig that a cluster is to be merged into has entries of its names.
        KubeconfigNameTaken = "kubeconfig-name-taken":
            "remove the entries with kubectl config, or leave --merge-kubeconfig out";
        /// Somebody else changes the kubeconfig that a cluster is to be merged into.
        KubeconfigBusy = "kubeconfig-busy": "run the command again";
        /// A control plane that is to be removed is a member of etcd, and no other member can be asked.
        ControlPlaneStays = "control-plane-stays":
            "let another control plane join, or come back, before this one goes; the last one stays as long as its cluster";
        /// The API server gave no certificate for the join service.
        CertificateNotIssued = "certificate-not-issued":
            "see that kube-controller-manager runs and has the cluster's authority, and run the command again";
        /// A file of the cluster's directory that says where the cluster is kept, or by which credentials, is not this user's alone.
        StoreUntrusted = "store-untrusted":
            "name the kubeconfig with --kubeconfig instead of --cluster; or give the file to the user that runs this, writable by nobody else, with all that it needs in it";
        /// Other denials are there than the operator says.
        DenialsNotConfirmed = "denials-not-confirmed":
            "look at what `latchkey upgrade store` shows without --denials, and say how many machines are shut out there";
        /// A machine that is to be allowed is not denied.
        NotDenied = "not-denied": "see `latchkey node list`; a policy may deny it, too";
        /// The firmware of a machine is not the one on its record.
        FirmwareChanged = "firmware-changed":
            "if the change is yours, say so with `latchkey policy accept-firmware`; if not, shut the machine out with `latchkey node deny`";
        /// The counters of a machine's TPM are lower than on its record.
        CountersWentBack = "tpm-counters-went-back":
            "if nobody cleared the TPM in the firmware set-up, find out who brought an older state of it back";
        /// The counters are those of a boot that was locked, and PCR 15 is zero.
        AlreadyLocked = "boot-already-locked":
            "switch the machine off and on; if nobody cleared its TPM, ask its host who brought an older state of it back";
        /// A machine whose firmware is to be accepted has no other firmware than the one on record.
        NoFirmwareChange = "no-firmware-change":
            "see `latchkey node show`: a change is on record once the machine was seen with it";
        /// Nobody said that a machine's new firmware is meant.
        ChangeNotConfirmed = "change-not-confirmed":
            "look at the change with `latchkey node show`, and name it with --change if it is yours";
        /// A key would be given without a proof, and nobody said the word for it.
        WordMissing = "word-missing": "if that is what you want, say --without-its-machine; else see `latchkey recover`";
        /// The operator said that the machine is another one.
        MachineNotConfirmed = "machine-not-confirmed": "check the address, and name the machine with --ek";
        /// The policy trusts more than one machine, and none is named.
        MachineNotNamed = "machine-not-named": "name the machine with --ek";
        /// The node has a name that a cluster cannot record.
        NodeName = "node-name": "give the node another name in its metadata";
        /// The journal of an init names no machine.
        JournalLost = "journal-lost": "restore `init.json` from a copy";
        /// The journal of an init cannot be written.
        JournalUnwritable = "journal-unwritable": "make room in the cluster's directory";
        /// Somebody else makes the node a member.
        AlreadyActivating = "already-activating": "choose another node, or look at the node's console";
        /// The node's disk belongs to a cluster already.
        DiskInUse = "disk-in-use": "choose another node, or wipe its state disk";
        /// Another machine answers than the one that is meant.
        AnotherMachine = "another-machine": "check the address; if it is right, find out who answers there";
        /// The node is in another cluster.
        WrongCluster = "wrong-cluster": "name the directory and the master secret of the node's cluster";
        /// The node says what it must not say at this point.
        OutOfTurn = "out-of-turn": "run the same release on both sides";
        /// The connection to the node ended early.
        ConnectionLost = "connection-lost": "look at the node's console, and run the command again";
        /// The node cannot be reached.
        Unreachable = "unreachable": "check the address, and on the node's console whether it waits for an operator";
        /// The node was not done in time.
        Timeout = "timeout": "look at the node's console, or allow more time with --timeout";
        /// The node is not in a state to do what was asked.
        WrongState = "wrong-state": "look at the node's console: it says what the node is doing";
        /// The node does not accept the init secret.
        WrongInitSecret = "wrong-init-secret": "use the secret whose hash is in this node's metadata";
        /// The node wants no further try yet.
        TooManyTries = "too-many-tries": "wait as long as the node says, and run the same command again";
        /// The node refuses what was sent.
        InvalidArgument = "invalid-argument": "correct what the node names";
        /// The node could not do what was asked.
        CallFailed = "call-failed": "run the same release on both sides";
        /// A node was admitted without the evidence that its admission needs.
        ChannelMisuse = "channel-misuse": "report it: this must not happen";
        /// The evidence of the node was not kept.
        NoEvidence = "no-evidence": "run the command again; if it fails again, report it";
        /// The node describes itself in a form that is not readable.
        DescriptionMalformed = "description-malformed": "run the same release on both sides";
        /// The node's answer is not readable.
        AnswerMalformed = "answer-malformed": "run the same release on both sides";
        /// The boot partition has files that would be measured too.
        ImageNotAlone = "image-not-alone": "remove these files from the boot partition: nodes with them are refused";
        /// The description of a machine type does not follow its schema.
        MachineMalformed = "machine-malformed": "see `latchkey measure image --help` for descriptions of machines";
        /// A machine type names files that cannot be used.
        MachineUnusable = "machine-unusable": "check the files that the description of the machine type names";
        /// The charts file does not follow its schema.
        ChartsMalformed = "charts-file-malformed": "see `latchkey charts install --help` for the form of the file";
        /// An archive of a chart is not the one that the charts file names.
        ChartAltered = "chart-altered": "get the archive again, or name its new hash if the change is yours";
        /// Another command works on the cluster's charts.
        ChartsBusy = "charts-busy": "wait until the one who is named is done";
        /// The lock on the cluster's charts was lost while a command worked.
        LockLost = "charts-lock-lost": "see that the API server is reached, and run the command again: it goes on where it stopped";
        /// A program that a centre is made of is not installed.
        ProgramMissing = "program-missing": "install what is named";
        /// There is no centre in the directory.
        CentreMissing = "centre-missing": "name the directory that `latchkey centre up` made";
        /// A centre is to be restored to where something is.
        DirectoryNotEmpty = "directory-not-empty": "name a directory that is empty, or not there";
        /// A centre's backup is not what its manifest says, or has no place in a centre.
        CentreBackupDamaged = "centre-backup-damaged": "use another backup, or another copy of it";
        /// git could not read or write a repository of the centre.
        RepositoryUnusable = "repository-unusable": "see what git said, and run the command again";
        /// A program of the centre has ended, or did not begin.
        ProgramEnded = "program-ended": "look into its log, and run the command again: it goes on where it stopped";
        /// Something else listens where a program of the centre must.
        PortTaken = "port-taken": "end what listens there, or change the port in the centre's centre.json";
        /// The centre's Kerberos realm could not be made or changed.
        RealmUnusable = "realm-unusable": "see what the program said, and run the command again";
        /// A service of the centre does not answer.
        CentreUnreachable = "centre-unreachable": "see that the centre runs, and that its addresses are reached from here";
        /// A service of the centre does not let this user do it.
        CentreForbids = "centre-forbids": "check user and password; an administrator can grant the permission that is named";
        /// A service of the centre refuses what was asked.
        CentreRefuses = "centre-refuses": "do what it says, and run the command again";
        /// The centre has no such edge cluster.
        EdgeClusterUnknown = "edge-cluster-unknown": "see `latchkey cluster list`";
        /// The centre has the edge cluster, and must not for this.
        EdgeClusterExists = "edge-cluster-exists": "choose another name, or see `latchkey cluster show`";
        /// The edge cluster is not set up, or not in time.
        EdgeClusterNotReady = "edge-cluster-not-ready": "see `latchkey cluster show`; what is not refused goes on by itself";
        /// Another operator upgrades the cluster's Kubernetes.
        UpgradeBusy = "upgrade-busy": "wait until the one who is named is done; if nobody works on it any more, go on with it with `latchkey upgrade resume --take-over`";
        /// The lock on the upgrade was lost while it went on.
        UpgradeLockLost = "upgrade-lock-lost": "see that the API server is reached, and run `latchkey upgrade resume`: it goes on where it stopped";
        /// An upgrade to another version is not done yet.
        UpgradeUnderWay = "upgrade-under-way": "go on with it with `latchkey upgrade resume`; the next version comes after it";
        /// There is no upgrade to go on with.
        NoUpgradeUnderWay = "no-upgrade-under-way": "begin one with `latchkey upgrade execute --kubernetes`";
        /// Something has to be done before the cluster can be upgraded.
        UpgradeNotReady = "upgrade-not-ready": "do first what is named; `latchkey upgrade check` shows more";
        /// The operator's program did not restart a machine.
        RestartFailed = "restart-failed": "mend what the program says, and run `latchkey upgrade resume`";
        /// The pods of a node did not go elsewhere.
        NodeNotDrained = "node-not-drained":
            "have the PodDisruptionBudget of the pod that kubectl names allow it, and run the command again";
        /// A node did not come back, or not with the new version.
        NodeNotUpgraded = "node-not-upgraded": "look at the node's console; once it is mended, run `latchkey upgrade resume`";
        /// A release was removed by hand, and its history kept.
        ReleaseRemoved = "release-removed": "forget the release's history, too, with `helm uninstall`";
        /// No revision of a release that worked is known, and helm forgot its first ones.
        ReleaseUnclear = "release-history-cut":
            "see with kubectl whether the release serves: if it does, `helm upgrade` makes it a deployed one; if not, `helm uninstall` removes it";
        /// A release that is to be upgraded never worked, or its removal was begun.
        ReleaseNotInstalled = "release-not-installed":
            "run `latchkey charts install`, which deletes it after a backup and installs it anew; if it serves by now, `helm upgrade` by hand makes it a deployed one";
        /// An upgrade failed, and the release does not serve as it did.
        UpgradeNotRolledBack = "upgrade-not-rolled-back":
            "run the command again, which rolls back first; if it fails again, look at the release with `helm history`";
        /// A backup has not the files that its list says.
        BackupDamaged = "backup-damaged": "use another backup: see `latchkey backup list`";
        /// Not everything could be written.
        BackupIncomplete = "backup-incomplete": "see that the definition that is named serves its objects, and run the command again";
        /// A backup is of another cluster than the kubeconfig's.
        BackupOfAnotherCluster = "backup-of-another-cluster": "check the kubeconfig; if another cluster is meant, say --any-cluster";
        /// The definition in the cluster does not serve what was written.
        DefinitionDiffers = "definition-differs":
            "remove the definition if its objects may go, or install the chart's version that the backup is of";
        /// A namespace is missing that objects are in.
        NamespaceMissing = "namespace-missing": "make the namespaces that are named with kubectl";
        /// A directory of collateral has nothing.
        CollateralEmpty = "collateral-empty": "fill the directory with `latchkey collateral fetch`";
        /// A certificate or list of the collateral is good, and not for long any more.
        CollateralEndsSoon = "collateral-ends-soon": "fetch it again with `latchkey collateral fetch` before it ends; of TPMs, copy their authority's newer list";
        /// This machine's TPM cannot be used.
        TpmUnusable = "tpm-unusable":
            "run this as root on the machine whose TPM is meant, with the TPM enabled in its firmware set-up";
    }
}

/// The code of a failed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ErrorCode {
    /// Of a closed list: this command's own, or one of a crate that it stands on.
    Known(Reason),
    /// What the node said, which may be of a later release.
    FromNode(String),
}

impl ErrorCode {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Known(reason) => reason.code,
            Self::FromNode(code) => code,
        }
    }

    /// One sentence that says what to do.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::Known(reason) => reason.remedy,
            Self::FromNode(_) => "look at the node's console, which says more",
        }
    }
}

/// Codes of enums that another crate declares by itself.
impl ErrorCode {
    pub(crate) fn of_attestation(code: latchkey_attestation::ReasonCode) -> Self {
        Self::Known(Reason { code: code.as_str(), remedy: code.remedy() })
    }

    /// What a node sent.
    pub(crate) fn from_node(code: latchkey_api::SentCode) -> Self {
        match code {
            latchkey_api::SentCode::Known(code) => code.into(),
            latchkey_api::SentCode::Other(code) => Self::FromNode(code),
        }
    }

    pub(crate) fn of_peer(reason: latchkey_channel::PeerReason) -> Self {
        Self::Known(Reason { code: reason.as_str(), remedy: reason.remedy() })
    }
}

impl<C: ReasonCode> From<C> for ErrorCode {
    fn from(code: C) -> Self {
        Self::Known(code.reason())
    }
}
