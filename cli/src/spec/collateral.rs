//! `latchkey collateral`, in the table.

use super::Need::{AtMostOnce, Once};
use super::{Command, Flag, Operand, node};
use crate::{collateral, collateral_install};

const DIRECTORY: Operand = Operand {
    name: "DIR",
    required: true,
    text: "what AMD publishes, in its `snp`, Intel, in its `tdx`, and authorities of TPMs,\nin its `tpm`: as for `policy check --collateral`",
};

pub(super) const FETCH: Command = Command {
    path: &["collateral", "fetch"],
    operands: &[],
    flags: &[
        Flag {
            long: "snp-report",
            value: Some("FILE"),
            need: AtMostOnce,
            text: "the report of an SEV-SNP guest (1184 bytes), or evidence that has one: it says\nwhich chip and firmware",
        },
        Flag {
            long: "tdx-quote",
            value: Some("FILE"),
            need: AtMostOnce,
            text: "the quote of a TDX guest, or evidence that has one: it says which platform",
        },
        Flag {
            long: "to",
            value: Some("DIR"),
            need: Once,
            text: "the files go into DIR/snp or DIR/tdx, made if it is not there",
        },
        Flag {
            long: "from",
            value: Some("URL|DIR"),
            need: AtMostOnce,
            text: "a mirror of the vendor's service, or, of AMD's, a directory with its paths\n[https://kdsintf.amd.com, https://api.trustedservices.intel.com]",
        },
        Flag {
            long: "product",
            value: Some("NAME"),
            need: AtMostOnce,
            text: "milan, genoa or turin, for reports that do not say it (version 2)",
        },
    ],
    summary: "gets from AMD or Intel what belongs to a report or quote",
    about: FETCH_ABOUT,
    examples: &[
        "latchkey collateral fetch --snp-report report.bin --to ./collateral",
        "latchkey collateral fetch --snp-report report.bin --to ./collateral \\",
        "    --from https://mirror.example/amd",
        "latchkey collateral fetch --tdx-quote quote.bin --to ./intel",
    ],
    run: collateral::fetch,
};

const FETCH_ABOUT: &str = "
Of a report: the chain of the product (ASK, ARK), the list of what its root revoked,
and the certificate of the chip (VCEK), by the paths of AMD's key distribution service.
Of one that a provider's key signed (VLEK): the chain (ASVK, ARK) and the list; the
certificate itself is the host's to give.

Of a TDX quote, by the paths of Intel's Provisioning Certification Service: the list of
the authority that certified the platform's key, and who signed it; TCB information of
the platform (FMSPC), and who signed it; the identity of the quoting enclave; and the
list of Intel's root, which comes from certificates.trustedservices.intel.com, or from
URL/IntelSGXRootCA.der. Chains come in headers, so that a directory is not taken: copy
DIR/tdx itself.

Nothing is kept that does not verify: the root is one of those that are built in, all
hold now, and report or quote verifies with them. Then each file is written as a whole,
with mode 0644. What is older than a good one in DIR does not take its place.

A directory has the same paths, with the query in the file's name, as
`wget --force-directories --no-host-directories` writes it. HTTPS trusts this machine's
certificate authorities; http_proxy, https_proxy and no_proxy count.
";

pub(super) const SHOW: Command = Command {
    path: &["collateral", "show"],
    operands: &[DIRECTORY],
    flags: &[],
    summary: "lists what is there of what vendors publish",
    about: "Each certificate and list of each file: what it is (of AMD's: ARK, ASK, ASVK, VCEK,\nVLEK, CRL), of which product, whose, for which firmware, and how long it is valid.\nNothing of it is verified: `latchkey collateral check` does that. With --output json\nchips are named whole.",
    examples: &["latchkey collateral show ./collateral"],
    run: collateral::show,
};

pub(super) const INSTALL: Command = Command {
    path: &["collateral", "install"],
    operands: &[Operand { name: "COLLATERAL-DIR", ..DIRECTORY }],
    flags: &[node::DIRECTORY, node::KUBECONFIG, node::KUBECTL],
    summary: "gives it to a cluster's join services, by its API server",
    about: INSTALL_ABOUT,
    examples: &["latchkey collateral install ./collateral --cluster ./plant"],
    run: collateral_install::install,
};

const INSTALL_ABOUT: &str = "
All files become entries of one ConfigMap, latchkey-collateral, in the place of those of
before: at most 1 MiB together, with names of letters, digits, `-`, `_` and `.`. Join
services whose configuration names no directory of collateral take it up at once, and
keep what they had where it is bad. A service reads lists of what TPMs' authorities
revoked only where there are no fewer of them than before.

Directory and object are read by the same rules; what `latchkey collateral check` says
of the directory is true of the object. Install again what you fetch, before it ends.
";

pub(super) const CHECK: Command = Command {
    path: &["collateral", "check"],
    operands: &[DIRECTORY],
    flags: &[Flag {
        long: "within",
        value: Some("DAYS"),
        need: AtMostOnce,
        text: "what ends within so many days is not good any more; 0 for what has ended [30]",
    }],
    summary: "verifies it, and says what ends soon",
    about: CHECK_ABOUT,
    examples: &[
        "latchkey collateral check ./collateral",
        "latchkey collateral check ./collateral --within 7 --output json",
    ],
    run: collateral::check,
};

const CHECK_ABOUT: &str = "
Each root must be one of those that are built in, and must have a list of what it
revoked (CRL); each authority and list must be signed by its root; the chain of each
VCEK and VLEK must hold, with that list; and nothing may be expired or revoked. Of
Intel's, each authority, list, TCB information and identity must be signed as far up as
its root, and not be over. Of what authorities of TPMs revoked only the dates are
checked: whose a list is, the chain of a machine's certificate tells.

The exit code is 1 where anything is not good, and the reason stands beside it. Run it
once a day, and what verifies reports does not stop without a warning.
";
