//! `latchkey reference …` in the table of commands.

use super::Need::{AnyNumber, AtLeastOnce, AtMostOnce, Once};
use super::{Command, Flag, Operand, node};
use crate::reference;

const MANIFEST: Operand = Operand { name: "MANIFEST", required: true, text: "the manifest's file" };
const BASE: Operand = Operand { name: "BASE", required: true, text: "the newest revision of the manifest" };
const OUT: Flag = Flag {
    long: "out",
    value: Some("FILE"),
    need: Once,
    text: "where the next revision goes, and its signature beside it;\nthe file must not exist",
};
const SERIAL: Flag = Flag {
    long: "serial",
    value: Some("NUMBER"),
    need: AtMostOnce,
    text: "the revision's number [one more than BASE's]",
};
const KEY: Flag = Flag {
    long: "key",
    value: Some("FILE"),
    need: AtMostOnce,
    text: "sign the revision with this secret key; mode 0600",
};
const PASSWORD: Flag = Flag {
    long: "password",
    value: Some("FILE"),
    need: AtMostOnce,
    text: "the secret key's password; mode 0600, or - for standard input",
};

pub(super) const NEW_KEY: Command = Command {
    path: &["reference", "new-key"],
    operands: &[],
    flags: &[
        Flag { need: Once, text: "where the secret key goes; the public one goes to NAME.pub", ..OUT },
        Flag { text: "encrypt the secret key with this password; mode 0600,\nor - for standard input", ..PASSWORD },
    ],
    summary: "makes a key that signs reference manifests",
    about: "Ed25519, in minisign's format: `minisign` reads it too. Without --password the file\nis NOT encrypted. The public key, which is printed, goes into policies (--signer).",
    examples: &["latchkey reference new-key --out release.key"],
    run: reference::new_key,
};

pub(super) const SIGN: Command = Command {
    path: &["reference", "sign"],
    operands: &[MANIFEST],
    flags: &[Flag { need: Once, text: "the secret key; mode 0600", ..KEY }, PASSWORD],
    summary: "signs a reference manifest",
    about: "Writes MANIFEST.minisig, which `minisign -V` verifies. Keep the two side by side:\nwhoever is given the manifest looks for its signature there.",
    examples: &["latchkey reference sign edge.json --key release.key"],
    run: reference::sign,
};

pub(super) const CHECK: Command = Command {
    path: &["reference", "check"],
    operands: &[MANIFEST],
    flags: &[
        Flag {
            long: "signer",
            value: Some("KEY"),
            need: AtLeastOnce,
            text: "a key that may have signed it, as text (RW…) or as a file",
        },
        Flag { long: "signature", value: Some("FILE"), need: AtMostOnce, text: "its signature [MANIFEST.minisig]" },
    ],
    summary: "verifies a manifest's signature and shows what is in it",
    about: "Images with their validity, the machine types they have values for, and where they\ncome from. Registers in parentheses are only warned about.",
    examples: &["latchkey reference check edge.json --signer release.pub"],
    run: reference::check,
};

pub(super) const ADD: Command = Command {
    path: &["reference", "add"],
    operands: &[BASE, Operand { name: "NEW", required: true, text: "a manifest with the images to add" }],
    flags: &[
        OUT,
        Flag {
            long: "old-until",
            value: Some("TIME"),
            need: AtMostOnce,
            text: "let versions below the added ones expire then: the upgrade's window.\nTIME is 2026-01-31T23:59:59Z, or 14d or 36h from now",
        },
        Flag { long: "not-before", value: Some("TIME"), need: AtMostOnce, text: "admit the added images from then on" },
        Flag { long: "not-after", value: Some("TIME"), need: AtMostOnce, text: "admit the added images until then" },
        SERIAL,
        KEY,
        PASSWORD,
    ],
    summary: "publishes an upgrade: the next revision, with more images",
    about: "Old and new version are admitted until the old one expires. Services that follow\nthe manifest take it up without a restart, and refuse every older revision from then on.",
    examples: &[
        "latchkey reference add edge.json edge_1.1.0.json --old-until 14d --key release.key \\",
        "    --out edge-2.json",
    ],
    run: reference::add,
};

pub(super) const REVOKE: Command = Command {
    path: &["reference", "revoke"],
    operands: &[
        BASE,
        Operand { name: "IMAGE", required: true, text: "name of the image" },
        Operand { name: "VERSION", required: true, text: "the version that must not run any more" },
    ],
    flags: &[
        Flag { long: "why", value: Some("TEXT"), need: Once, text: "why, in one line: refusals quote it" },
        OUT,
        SERIAL,
        KEY,
        PASSWORD,
    ],
    summary: "revokes a version: the next revision, without it",
    about: "The version's values stay in the manifest, so that its machines are told why they\nare refused.",
    examples: &[
        "latchkey reference revoke edge.json edge 1.0.0 --why \"CVE-2026-0001\" \\",
        "    --key release.key --out edge-3.json",
    ],
    run: reference::revoke,
};

const MACHINE: Flag = Flag {
    long: "machine",
    value: Some("NAME"),
    need: AtMostOnce,
    text: "the name of this type of machine [the one that `latchkey record` was given]",
};

pub(super) const ADD_FIRMWARE: Command = Command {
    path: &["reference", "add-firmware"],
    operands: &[
        BASE,
        Operand {
            name: "RECORDED",
            required: true,
            text: "what `latchkey record` wrote of a machine with this firmware",
        },
    ],
    flags: &[OUT, MACHINE, SERIAL, KEY, PASSWORD],
    summary: "makes firmware known, in the next revision",
    about: "Of a boot that you trust, of an image of BASE, the values of PCR 0 and 2 (the firmware's\ncode and that of option ROMs) come in, as a further type of machine of that image. They\ncount for all images of the policy's manifests. Under `\"firmware\": \"known\"` (`latchkey\npolicy new --firmware-known`) machines with any other firmware are refused; without it\n`latchkey node list` tells which of those that wait have it.",
    examples: &[
        "latchkey record 10.0.0.5 --policy policy.json --name edge --version 1.0.0 \\",
        "    --machine model-a-2.14 --out model-a.json",
        "latchkey reference add-firmware edge.json model-a.json --key release.key \\",
        "    --out edge-2.json",
    ],
    run: reference::add_firmware,
};

const ALSO: Flag = Flag {
    long: "also",
    value: Some("MACHINE"),
    need: AnyNumber,
    text: "another type of machine that goes, such as one that lists the same firmware",
};

pub(super) const REMOVE_FIRMWARE: Command = Command {
    path: &["reference", "remove-firmware"],
    operands: &[BASE, Operand { name: "MACHINE", required: true, text: "the type of machine that lists the firmware" }],
    flags: &[OUT, ALSO, SERIAL, KEY, PASSWORD],
    summary: "makes firmware unknown, in the next revision",
    about: "All types of machines of this name that list firmware go, from every image. Where one\nwas all that an image had, revoke the image. Firmware that another type lists, too,\nwould stay known: that is refused, and the type named. Other manifests of the policy\nare not looked at.",
    examples: &[
        "latchkey reference remove-firmware edge-2.json model-a-2.14 --key release.key \\",
        "    --out edge-3.json",
    ],
    run: reference::remove_firmware,
};

pub(super) const INSTALL: Command = Command {
    path: &["reference", "install"],
    operands: &[MANIFEST],
    flags: &[
        node::DIRECTORY,
        node::KUBECONFIG,
        node::KUBECTL,
        Flag {
            long: "forget-revocations",
            value: None,
            need: AtMostOnce,
            text: "although it does not revoke what the revision in force revokes",
        },
        Flag {
            long: "replace-newer",
            value: None,
            need: AtMostOnce,
            text: "although a newer revision was accepted, which is forgotten: the way back\nfrom one that was signed by mistake",
        },
    ],
    summary: "puts a revision of a manifest in force in a cluster",
    about: "Verifies it under the cluster's policy, holds it against the revisions accepted\nbefore, and puts it, with its signature, in the place of the one of the same name, in\nthe directory or the API server that keeps the cluster. The join service takes it up at\nonce, without a restart.\n\nWith --replace-newer, whoever has the newer revision can put it in again: let another\nkey sign from then on, and take the old one out of the policy.",
    examples: &["latchkey reference install edge-2.json --cluster ./plant"],
    run: reference::install,
};

/// A key that may sign manifests, in a policy.
pub(super) const SIGNER: Flag = Flag {
    long: "signer",
    value: Some("KEY"),
    need: AnyNumber,
    text: "a key that may sign the manifests: minisign's, as text (RW…) or as a file",
};
