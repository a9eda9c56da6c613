//! `latchkey measure …` in the table of commands.

use super::Need::{AnyNumber, AtMostOnce};
use super::{Command, Flag, Operand};
use crate::measure;

const MACHINE: Flag = Flag {
    long: "machine",
    value: Some("NAME|FILE"),
    need: AnyNumber,
    text: "a type of machine: a name from below, or a file that describes one",
};

const fn flag(long: &'static str, value: &'static str, text: &'static str) -> Flag {
    Flag { long, value: Some(value), need: AtMostOnce, text }
}

const fn switch(long: &'static str, text: &'static str) -> Flag {
    Flag { long, value: None, need: AtMostOnce, text }
}

pub(super) const IMAGE: Command = Command {
    path: &["measure", "image"],
    operands: &[Operand {
        name: "IMAGE",
        required: true,
        text: "a raw disk image, or the unified kernel image that it boots",
    }],
    flags: &[
        MACHINE,
        flag(
            "snp-firmware",
            "FILE",
            "predict the launch digest of SEV-SNP guests too, with this OVMF as -bios;\nit is shown and listed, and nothing is decided by it",
        ),
        Flag { need: AnyNumber, ..flag("vcpus", "N", "how many processors they have, as -smp; several: 2,4 [1]") },
        flag("vcpu-type", "TYPE", "QEMU's model as -cpu, or the signature as 0x… [EPYC-v4]"),
        flag("guest-features", "HEX", "SEV_FEATURES of the guests [0x1]"),
        flag("append", "TEXT", "command line of a direct boot, as -append []"),
    ],
    summary: "predicts what machines measure when they boot an image",
    about: "Computes the registers (SHA-256) from the file alone: 4, 7, 9, 11 (before systemd's\nboot phases and after each), 12 and 13. What is not certain is refused: an unknown\nboot stub, files on the boot partition that would be measured too.\n\nTypes of machines known by name, the first two with the disk, `-kernel` for QEMU's:\n  debian-12-ovmf  debian-13-ovmf  debian-12-ovmf-kernel  debian-13-ovmf-kernel\n  debian-ovmf-snakeoil (Secure Boot, test keys of the installed package ovmf)\nWithout --machine it is the one of the boot stub's suite. Others are described by a\nfile; `variables` is the firmware's flash with the enrolled keys:\n  {\"name\": \"edge\", \"secure_boot\": \"on\", \"variables\": \"OVMF_VARS_4M.edge.fd\"}\n  {\"name\": \"lab\", \"boot\": \"qemu-kernel\", \"secure_boot\": \"off\",\n   \"secure_boot_variable\": \"zero\"}\nsecure_boot_variable says how firmware tells that Secure Boot is off: `zero`, or\n`empty` where it was built without.\n\nA firmware with a page for kernel hashes (edk2's AmdSev build) has a second digest:\nthat of a direct boot, -kernel with the unified kernel image, no -initrd, and\nkernel-hashes=on. A type of machine may have such guests too: `snp`, see\n`latchkey image build --help`. With `tdx` it has TDX guests, and RTMR 2 is predicted:\n  {\"name\": \"trusted\", \"secure_boot\": \"off\", \"secure_boot_variable\": \"zero\",\n   \"tdx\": {\"kernel_measures\": \"tpm\"}}",
    examples: &[
        "latchkey measure image edge_1.0.0.raw",
        "latchkey measure image edge_1.0.0.efi --machine edge-box.json",
        "latchkey measure image edge_1.0.0.raw --snp-firmware OVMF.fd --vcpus 2,4 \\",
        "    --vcpu-type EPYC-Milan",
    ],
    run: measure::image,
};

pub(super) const LOG: Command = Command {
    path: &["measure", "log"],
    operands: &[Operand {
        name: "FILE",
        required: true,
        text: "a TCG event log, such as the kernel's binary_bios_measurements,\nor systemd's tpm2-measure.log (which only explains), or a confidential\nmachine's (CCEL), or evidence kept by `latchkey verify`",
    }],
    flags: &[
        Flag { need: AnyNumber, ..flag("pcr", "PCRS", "only these registers [all]") },
        flag("bank", "BANK", "only this bank: sha1, sha256, sha384 or sha512 [all]"),
        flag("firmware-log", "FILE", "with systemd's log: the firmware's of the same boot, after which it goes on"),
        switch("ccel", "the log is a confidential machine's, also where its header does not say so"),
        switch("raw", "with the data of each event in hexadecimal; in JSON as `raw`"),
        flag(
            "tpm",
            "FILE",
            "compare with the registers of the machine's own TPM, such as /dev/tpmrm0,\nor the Unix socket of a simulator, in every bank of both. Exit code 3 if one differs",
        ),
        flag("reference-log", "FILE", "a trusted boot's log: show the first event of each register that differs"),
        flag(
            "expect",
            "REFERENCE",
            "a manifest of reference values: show the registers that differ,\nand of the closest image the first event of each; or an image: as\n--expect-image. Exit code 3 if the log is another one",
        ),
        flag(
            "expect-image",
            "IMAGE",
            "the image that should have booted: show the first event of each\nregister that is not as predicted; of a confidential machine's log, of\nRTMR 2 and of the programs in RTMR 1",
        ),
        Flag { text: "with an expected image: the type of machine [the one that fits best]", ..MACHINE },
    ],
    summary: "lists, explains and replays the log of a measured boot",
    about: "A log is written by whatever booted. It says something once its replayed registers\nare those that the TPM signed; evidence has both. What is expected is compared and\nshown, whatever the outcome: to admit or refuse is for `latchkey verify`.",
    examples: &[
        "latchkey measure log /sys/kernel/security/tpm0/binary_bios_measurements --bank sha256",
        "latchkey measure log /sys/kernel/security/tpm0/binary_bios_measurements \\",
        "    --tpm /dev/tpmrm0",
        "latchkey measure log /sys/firmware/acpi/tables/data/CCEL",
        "latchkey measure log node-2.json --reference-log good-boot.bin --pcr 4,9,11",
        "latchkey measure log node-2.json --expect edge.json --expect-image edge_1.0.0.raw",
    ],
    run: measure::log,
};
