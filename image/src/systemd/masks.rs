//! What systemd must leave alone on a node, as of systemd 252 (Debian 12) and 257 (Debian 13). A mask of a unit that a root
//! does not have does nothing.

/// Units that are linked to `/dev/null` in `/etc/systemd/system`.
pub(super) const UNITS: [&str; 55] = [
    // PCR 15 is the node lock, and nothing else.
    "systemd-pcrmachine.service",
    "systemd-pcrfs-root.service",
    "systemd-pcrfs@.service",
    "systemd-pcrlogin@.service",
    "systemd-pcrextend.socket",
    "systemd-pcrextend@.service",
    // PCR 11 with boot phases would be another value in stage 1, in stage 2 and an hour later. Verifiers compare the one
    // value of the image, whenever they ask.
    "systemd-pcrphase-initrd.service",
    "systemd-pcrphase-sysinit.service",
    "systemd-pcrphase.service",
    "systemd-pcrproduct.service",
    "systemd-pcrnvdone.service",
    // Their policies and keys are of another design, and they share the TPM's few slots with the agent.
    "systemd-pcrlock.socket",
    "systemd-pcrlock@.service",
    "systemd-pcrlock-file-system.service",
    "systemd-pcrlock-firmware-code.service",
    "systemd-pcrlock-firmware-config.service",
    "systemd-pcrlock-machine-id.service",
    "systemd-pcrlock-make-policy.service",
    "systemd-pcrlock-secureboot-authority.service",
    "systemd-pcrlock-secureboot-policy.service",
    "systemd-tpm2-setup-early.service",
    "systemd-tpm2-setup.service",
    "systemd-tpm2-clear.service",
    // No shell, no prompt, no log-in on a console. A remote one is the image's own affair.
    "getty@.service",
    "serial-getty@.service",
    "console-getty.service",
    "container-getty@.service",
    "autovt@.service",
    "debug-shell.service",
    "emergency.service",
    "emergency.target",
    "rescue.service",
    "rescue.target",
    "systemd-ask-password-console.path",
    "systemd-ask-password-wall.path",
    "systemd-firstboot.service",
    "systemd-homed-firstboot.service",
    "ctrl-alt-del.target",
    // A TPM that loses power while memory keeps its content begins anew with empty registers, on a machine that runs on
    // (CVE-2018-6622); an image of the memory on a disk would hold the keys.
    "sleep.target",
    "suspend.target",
    "hibernate.target",
    "hybrid-sleep.target",
    "suspend-then-hibernate.target",
    "systemd-suspend.service",
    "systemd-hibernate.service",
    "systemd-hybrid-sleep.service",
    "systemd-suspend-then-hibernate.service",
    "systemd-hibernate-clear.service",
    // Disk, tables and boot partition are as the image and the agent made them; what runs is what was measured.
    "systemd-repart.service",
    "systemd-boot-update.service",
    "systemd-boot-random-seed.service",
    "systemd-boot-system-token.service",
    "systemd-sysext.service",
    "systemd-confext.service",
    "systemd-storagetm.service",
];

/// Generators that are linked to `/dev/null` in `/etc/systemd/system-generators`.
pub(super) const GENERATORS: [&str; 9] = [
    // Would open and mount what it finds on the disk that firmware booted.
    "systemd-gpt-auto-generator",
    // Disks are opened by the agent; the second measures into PCR 15 when told to.
    "systemd-veritysetup-generator",
    "systemd-cryptsetup-generator",
    "systemd-integritysetup-generator",
    // Log-ins on every console, shells and other targets by words and credentials, secure shells through the host.
    "systemd-getty-generator",
    "systemd-debug-generator",
    "systemd-run-generator",
    "systemd-ssh-generator",
    // Would continue what a disk or a firmware variable says was interrupted.
    "systemd-hibernate-resume-generator",
];
