use latchkey_reason::reason_codes;

reason_codes! {
    /// Why a component is not there.
    pub enum FetchCode {
        /// Where components come from is not said rightly.
        OriginRefused = "component-origin-refused":
            "give a folder, or an address like https://HOST/PATH without user, password and query";
        /// This machine trusts nobody for HTTPS.
        NoAuthorities = "component-no-authorities":
            "install this machine's list of certificate authorities (Debian package ca-certificates), or give a folder";
        /// The table has no address for it.
        NoAddress = "component-no-address": "give a folder or a mirror that has the file";
        /// Folder or mirror do not have it.
        Missing = "component-missing": "put the file into the folder or on the mirror, under this name";
        /// The server cannot be reached, or does not speak HTTP.
        Unreachable = "component-unreachable": "check the address, and the way to it; an interrupted file is continued by the next run";
        /// The server answers, and does not give the file.
        AnswerRefused = "component-answer-refused": "look at the server's log, or take another mirror";
        /// It does not come, or not in time.
        TooSlow = "component-too-slow": "run the command again, which continues the file, or take another mirror";
        /// It came to its end too early, several times.
        Interrupted = "component-interrupted": "run the command again, which continues the file, or take another mirror";
        /// It is longer than the table allows.
        TooLarge = "component-too-large": "take another mirror: this one sends another file";
        /// It is another file than the table names.
        HashDiffers = "component-hash-differs":
            "take another mirror or folder; if the file is a build of your own, give a version table that has its hash";
        /// Somebody else is getting the same file.
        Busy = "component-busy": "wait until the other command is done";
        /// Its archive lacks what the table takes out of it.
        ArchiveUnusable = "component-archive-unusable": "correct what the version table takes out of the archive";
        /// The file system is full.
        NoRoom = "component-no-room": "make the disk larger, or remove what is not needed from it; what is there is continued";
        /// A file cannot be read or written.
        FileUnusable = "file-unusable": "check the path, and who may read or write it";
    }
}
