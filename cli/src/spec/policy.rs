//! `latchkey policy`, in the table: what is written and looked at. What changes a cluster stands with its machines.

use super::Command;
use super::Flag;
use super::Need::{AnyNumber, AtLeastOnce, AtMostOnce};
use super::table::{self, flag, required, switch};
use super::{node, reference};
use crate::policy;

pub(super) const NEW: Command = Command {
    path: &["policy", "new"],
    operands: &[],
    flags: &[
        required("out", "FILE", "where the policy goes; the file must not exist"),
        Flag {
            need: AtLeastOnce,
            ..flag("manifest", "NAME", "a manifest of reference values whose images are admitted")
        },
        flag("minimum-version", "VERSION", "refuse older images, though their measurements are known [0.0.0]"),
        reference::SIGNER,
        switch("unsigned", "trust whoever can write the manifests' files, instead of a signer"),
        table::EK_ROOT,
        table::EK_INTERMEDIATE,
        table::EK_PIN,
        table::EK_TEMPLATE,
        table::AK_ROOT,
        table::AK_INTERMEDIATE,
        table::AK_PURPOSE,
        table::AK_ALGORITHM,
        table::ENFORCE,
        table::WARN,
        table::FIRMWARE_REFUSE,
        table::FIRMWARE_KNOWN,
        Flag {
            need: AnyNumber,
            ..flag(
                "snp-report",
                "FILE",
                "demand SEV-SNP, as this report (or evidence that has one) shows it of a good\nmachine; with --collateral",
            )
        },
        Flag {
            need: AnyNumber,
            ..flag(
                "tdx-quote",
                "FILE",
                "demand TDX, as this quote (or evidence that has one) shows it of a good\nmachine; with --collateral",
            )
        },
        flag("collateral", "DIR", "what AMD and Intel publish (DIR/snp, DIR/tdx): reports and quotes must be\ntrue"),
    ],
    summary: "writes a policy",
    about: "A policy says which TPMs are trusted (--ek-root, --ek-pin, --ak-root; at least\none) and which images are admitted. Nothing has a permissive default.\n\nOf reports: the oldest firmware among them becomes the floor of its product, and what\nall of them show (one socket, hidden ciphertext, memory checked for aliases, a safe\nIOMMU) is demanded of every machine. None may be of a guest that its host may debug\nor move.\n\nOf quotes: what they show of MRTD, of Intel's word on the platform (tcb_status), of open\nadvisories, and of XFAM where all have the same, is admitted; older evaluations of\nIntel's than theirs are not. Registers are not judged (`rtmrs` is `any`): RTMR 0\ndiffers with the machine's size, RTMR 1 and 2 with each image, which the TPM tells.\nWrite `manifest` by hand where the manifests list registers of TDX guests (`tdx`,\n`latchkey image build --help`): then the processor has to tell the same image.\nShow quotes that are UpToDate alone, and nothing else is admitted.",
    examples: &[
        "latchkey policy new --ek-root tpm-vendor.pem --manifest edge --signer release.pub \\",
        "    --out policy.json",
    ],
    run: policy::new,
};

pub(super) const CHECK: Command = Command {
    path: &["policy", "check"],
    operands: &[],
    flags: &[
        Flag { need: AtMostOnce, ..table::POLICY },
        Flag { need: AnyNumber, ..table::REFERENCE },
        table::DIRECTORY,
        node::KUBECONFIG,
        node::KUBECTL,
        flag(
            "evidence",
            "FILE",
            "say for each image whether this evidence, kept by `latchkey verify\n--save-evidence`, would pass, and why not",
        ),
        switch("as-recorded", "judge the evidence by the time it was recorded at, not by now"),
        flag(
            "snp-report",
            "FILE",
            "say which launch this report of an SEV-SNP guest claims (1184 bytes, or\nevidence that has it); with --collateral, whether AMD's hardware\nsigned it and the policy takes it",
        ),
        flag(
            "snp-certificates",
            "FILE",
            "what the host gave beside the report: a certificate table (`auxblob`), or\nthe DER of one certificate",
        ),
        table::COLLATERAL,
    ],
    summary: "checks a policy and its reference values: whom they admit",
    about: "Shows each manifest with its revision and signer, and each image with its machine\ntypes, validity and verdict. This explains; it is `latchkey verify --evidence` whose\nexit code says whether evidence is admitted.",
    examples: &[
        "latchkey policy check --policy policy.json --reference edge.json",
        "latchkey policy check --cluster ./plant --evidence edge-1.json",
    ],
    run: policy::check,
};

pub(super) const FLOOR: Command = Command {
    path: &["policy", "floor"],
    operands: &[],
    flags: &[
        Flag {
            need: AtLeastOnce,
            ..flag("from", "FILE", "a report of an SEV-SNP guest (1184 bytes), or evidence that has one")
        },
        flag("collateral", "DIR", "what AMD publishes (DIR/snp): the reports must be true"),
    ],
    summary: "shows what firmware a policy may demand by these reports",
    about: "For the `tcb_floor` in a policy's section `snp`: of each product the oldest firmware\namong the reports, part by part, so that all of these machines are admitted and none\nthat is older.",
    examples: &["latchkey policy floor --from edge-1.json --from edge-2.json --collateral ./amd"],
    run: policy::floor,
};
