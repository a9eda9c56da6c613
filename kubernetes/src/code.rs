use latchkey_reason::reason_codes;

reason_codes! {
    /// Why a version of Kubernetes, or a table of them, is not used.
    pub enum KubernetesCode {
        /// It is no minor version.
        VersionMalformed = "kubernetes-version-malformed":
            "say the minor version alone, such as 1.34: the version table has the patch";
        /// The table does not have it.
        VersionUnknown = "kubernetes-version-unknown": "choose one of the versions that are named, or give a table that has it";
        /// It is older than any that the table has.
        VersionTooOld = "kubernetes-version-too-old": "choose one of the versions that are named; older ones get no fixes";
        /// The version table cannot be used.
        TableUnusable = "kubernetes-table-unusable": "correct what is named in the version table";
        /// The version table cannot be read.
        TableUnreadable = "kubernetes-table-unreadable": "check the path of the version table, and who may read it";
    }
}
