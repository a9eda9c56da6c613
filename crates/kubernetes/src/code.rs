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
        /// A list of components for nodes cannot be used.
        ListUnusable = "component-list-unusable":
            "make it with the same release as the node's image: `latchkey init --kubernetes` does; correct what it names in a version table of your own";
        /// It is of another minor version than the cluster's.
        ListVersionDiffers = "component-list-version-differs": "give the list of the version that the cluster is made with";
    }
}
