use latchkey_reason::reason_codes;

reason_codes! {
    /// Why a file of a vendor's was not got. What does not verify has the code of the verifier.
    pub enum CollateralCode {
        /// Where files come from is not said rightly.
        OriginRefused = "collateral-origin-refused":
            "give a directory, or an address like https://HOST/PATH without user, password and query";
        /// This machine trusts nobody for HTTPS.
        NoAuthorities = "collateral-no-authorities":
            "install this machine's list of certificate authorities (Debian package ca-certificates), or give a directory";
        /// The report does not say which chip made it.
        ChipHidden = "collateral-chip-hidden":
            "have the host give its chip's certificate to its guests, or take a report where MASK_CHIP_ID is off";
        /// The report does not say of which product its processor is.
        ProductUnsaid = "collateral-product-unsaid": "say it with --product: reports of version 2 do not";
        /// Directory or mirror do not have it.
        Missing = "collateral-missing": "put the file there, under the path of the vendor's own service (AMD's KDS, Intel's PCS), or ask the vendor";
        /// The server cannot be reached, or does not speak HTTP.
        Unreachable = "collateral-unreachable": "check the address, and the way to it";
        /// The server wants fewer requests.
        Throttled = "collateral-throttled": "wait as long as the server says, and run the command again; a mirror of your own has no such limit";
        /// The server answers, and does not give the file, or not all that belongs to it.
        AnswerRefused = "collateral-answer-refused": "look at the server's log, or take another mirror";
        /// It does not come, or not in time.
        TooSlow = "collateral-too-slow": "run the command again, or take another mirror";
        /// It came to its end too early.
        Interrupted = "collateral-interrupted": "run the command again, or take another mirror";
        /// It is longer than what vendors publish.
        TooLarge = "collateral-too-large": "take another mirror: this one sends another file";
        /// It is a file of the vendor's, and another one than was asked for.
        NotAsAsked = "collateral-not-as-asked": "take another mirror: this one sends another file";
        /// A file or directory cannot be read or written.
        FileUnusable = "file-unusable": "check the path, and who may read or write it";
    }
}
