//! The kernel command line: the operator's own words, checked, and those that the builder writes.
//!
//! Everything here is measured. What is refused would make an image whose measured command line opens a way around the
//! agent or into the running system; nobody writes that by intent into an image that shall be trusted. The list is not
//! what protects a machine (a changed command line is another measurement), it protects the operator from mistakes.

use latchkey_node_config::{Config, ConfigError, MetadataSource};

/// What a refused word is compared by.
enum Match {
    /// The whole word.
    Word,
    /// What stands before `=`, or the whole word.
    Key,
    /// The beginning.
    Prefix,
    /// What stands before `=`, if what stands behind it (nothing, without one) is none of these.
    Unless(&'static [&'static str]),
}

use Match::{Key, Prefix, Unless, Word};

const WRITTEN: &str = "the builder writes it";
const OTHER_INIT: &str = "it names another first program than the agent, or arguments for it";
const SHELL: &str = "it opens a shell or an emergency mode on the console";
const KEYS: &str = "it opens the kernel's emergency keys or its debugger";
const INITRD: &str = "it steers systemd in an initramfs, which this image does not have";
const UNITS: &str = "it starts other units or programs than the image's own";
const CREDENTIALS: &str = "it sets credentials, passwords among them, for the system's services";
const OTHER_ROOT: &str = "it names another root file system than the measured one";
const DEVICES: &str = "it makes mappings or loads code before the agent looks";
const WEAKER: &str = "it takes away a protection that the image relies on";
const SLEEP: &str = "it lets the machine sleep, or wake up from what a disk holds of its memory";
const MEMORY: &str = "it lets others read the machine's memory";

/// What every image asks of its kernel, where the kernel has it. Freed memory is wiped, so that no key outlasts its process
/// in a page that root could find; no module runs that the kernel's builder did not sign; root reads and changes no kernel
/// memory (`kernel_lockdown(7)`); nothing is written to a disk to wake up from, and the default of sleeping leaves the TPM
/// its power.
const PROTECTIONS: [&str; 4] = ["init_on_free=1", "module.sig_enforce=1", "hibernate=no", "mem_sleep_default=s2idle"];
const LOCKDOWN: &str = "lockdown=confidentiality";

/// Refused words: how they are compared, which, why. `-` and `_` are the same to the kernel and to systemd.
const REFUSED: &[(Match, &str, &str)] = &[
    (Key, "latchkey.root_verity", WRITTEN),
    (Key, "latchkey.root_fs", WRITTEN),
    (Key, "latchkey.root", "it was replaced by latchkey.root_verity, which the builder writes"),
    (Key, "init", OTHER_INIT),
    (Key, "rdinit", OTHER_INIT),
    (Word, "--", OTHER_INIT),
    (Key, "initrd", "it names another initramfs"),
    (Key, "noinitrd", "it leaves out the initramfs, and the agent with it"),
    (Key, "root", OTHER_ROOT),
    (Key, "roothash", OTHER_ROOT),
    (Key, "usrhash", OTHER_ROOT),
    (Key, "rootflags", OTHER_ROOT),
    (Key, "rootfstype", OTHER_ROOT),
    (Prefix, "mount.usr", OTHER_ROOT),
    (Prefix, "rd.", INITRD),
    (Word, "rescue", SHELL),
    (Word, "emergency", SHELL),
    (Word, "single", SHELL),
    (Word, "s", SHELL),
    (Word, "-s", SHELL),
    (Word, "-b", SHELL),
    (Word, "1", SHELL),
    (Word, "2", UNITS),
    (Word, "3", UNITS),
    (Word, "4", UNITS),
    (Word, "5", UNITS),
    (Word, "6", UNITS),
    (Word, "0", UNITS),
    (Prefix, "systemd.debug", SHELL),
    (Key, "systemd.default_debug_tty", SHELL),
    (Prefix, "systemd.crash", SHELL),
    (Prefix, "systemd.getty_auto", SHELL),
    (Prefix, "systemd.tty", SHELL),
    (Prefix, "systemd.firstboot", SHELL),
    (Key, "systemd_sulogin_force", SHELL),
    (Prefix, "systemd.run", UNITS),
    (Key, "systemd.unit", UNITS),
    (Key, "systemd.wants", UNITS),
    (Key, "systemd.setenv", UNITS),
    (Key, "systemd.mask", UNITS),
    (Key, "systemd.volatile", UNITS),
    (Prefix, "systemd.extra_unit", UNITS),
    (Prefix, "systemd.sysext", UNITS),
    (Prefix, "systemd.confext", UNITS),
    (Prefix, "systemd.pull", UNITS),
    (Prefix, "systemd.set_credential", CREDENTIALS),
    (Prefix, "systemd.import_credentials", CREDENTIALS),
    (Prefix, "systemd.password", CREDENTIALS),
    (Prefix, "systemd.verity", OTHER_ROOT),
    (Prefix, "veritytab", OTHER_ROOT),
    (Prefix, "luks", "it makes systemd open disks that are the agent's"),
    (Key, "sysrq_always_enabled", KEYS),
    (Prefix, "sysrq", KEYS),
    (Prefix, "kgdb", KEYS),
    (Prefix, "ekgdboc", KEYS),
    (Prefix, "kdb", KEYS),
    (Prefix, "dm_mod.create", DEVICES),
    (Prefix, "acpi_rsdp", DEVICES),
    (Prefix, "dm_verity.", WEAKER),
    (Key, "iomem", WEAKER),
    (Key, "mem_encrypt", WEAKER),
    (Key, "init_on_free", WRITTEN),
    (Key, "module.sig_enforce", WRITTEN),
    (Unless(&["1"]), "init_on_alloc", WEAKER),
    (Unless(&["integrity", "confidentiality"]), "lockdown", WEAKER),
    // The list of security modules could leave lockdown out.
    (Key, "lsm", WEAKER),
    (Key, "tpm.disable_pcr_integrity", WEAKER),
    (Word, "mitigations=off", WEAKER),
    (Word, "nokaslr", WEAKER),
    (Word, "nosmep", WEAKER),
    (Word, "nosmap", WEAKER),
    (Word, "nopti", WEAKER),
    (Word, "pti=off", WEAKER),
    (Word, "iommu=off", WEAKER),
    (Word, "intel_iommu=off", WEAKER),
    (Word, "amd_iommu=off", WEAKER),
    (Prefix, "efi=no_disable_early_pci_dma", WEAKER),
    (Key, "crashkernel", MEMORY),
    (Key, "ohci1394_dma", MEMORY),
    (Key, "firewire_ohci.remote_dma", MEMORY),
    (Prefix, "proc_mem.", MEMORY),
    (Prefix, "kprobe_event", MEMORY),
    (Key, "hibernate", WRITTEN),
    (Key, "resume", SLEEP),
    (Key, "resume_offset", SLEEP),
    (Key, "resumewait", SLEEP),
    (Key, "resumedelay", SLEEP),
    (Key, "nohibernate", "the builder writes hibernate=no, which is the same"),
    (Key, "no_console_suspend", SLEEP),
    (Key, "mem_sleep_default", WRITTEN),
    (Key, "relative_sleep_states", SLEEP),
    (Prefix, "acpi_sleep", SLEEP),
    (Key, "test_suspend", SLEEP),
];

/// Words of the operator that cannot stand in an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CmdlineError {
    /// A word that is on the list.
    #[error("command_line: {word:?} cannot stand in an image: {why}")]
    Refused {
        /// The word.
        word: String,
        /// Why it is on the list.
        why: &'static str,
    },
    /// Quotes, backslashes, control characters or anything beyond ASCII.
    #[error(
        "command_line: {0:?} has quotes, backslashes or characters beyond ASCII, which the kernel, systemd and the agent read differently"
    )]
    Unclear(String),
    /// It names a join service, and not by what that proves itself.
    #[error(
        "command_line: latchkey.join_service without latchkey.join_service_key: no node asks a service that it cannot know"
    )]
    NoServiceKey,
    /// A machine with an empty disk would wait for ever.
    #[error(
        "command_line: a machine with an empty disk can neither found a cluster (that needs latchkey.metadata) nor join one (that needs latchkey.join_service)"
    )]
    NoWay,
    /// The agent would not take the command line.
    #[error("command_line: the agent would refuse it: {0}")]
    Agent(String),
}

impl CmdlineError {
    /// What to do, where that is more than to correct what the message names.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoServiceKey => {
                "add the word that `latchkey-join-service --new-key` printed, or --print-key-hash prints"
            }
            Self::NoWay => {
                "add one of them; or say \"recover_only\": true, if the image is for machines that have their disks already"
            }
            _ => return None,
        })
    }
}

/// Whether there is a way to a cluster for machines of this configuration, or none is meant to be.
pub(crate) fn check_ways(config: &Config, recover_only: bool) -> Result<(), CmdlineError> {
    let joins = !config.join_services.is_empty();
    if joins && config.join_service_key.is_none() {
        return Err(CmdlineError::NoServiceKey);
    }
    let founds = config.metadata != MetadataSource::None;
    if joins || founds || recover_only { Ok(()) } else { Err(CmdlineError::NoWay) }
}

/// What a node with this command line would be: its own parser, so that what it refuses at boot is refused here.
pub(crate) fn agent_config(command_line: &str) -> Result<Config, CmdlineError> {
    let refused = |error: ConfigError| CmdlineError::Agent(format!("{error}; {}", error.code().remedy()));
    let config = Config::parse(command_line.as_bytes()).map_err(refused)?;
    config.root().map_err(refused)?;
    config.cluster_step().map_err(refused)?;
    Ok(config)
}

/// The operator's words, one space between them; nothing else is changed.
pub fn check(words: &str) -> Result<String, CmdlineError> {
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    for word in &words {
        let clear = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b'`');
        if !word.bytes().all(clear) {
            return Err(CmdlineError::Unclear((*word).to_owned()));
        }
        if let Some(why) = refused(word) {
            return Err(CmdlineError::Refused { word: (*word).to_owned(), why });
        }
    }
    Ok(words.join(" "))
}

/// What the builder adds to the operator's checked words: one that is stronger than they ask for does not replace theirs, as
/// whoever traces a kernel needs `lockdown=integrity`.
pub(crate) fn protections(words: &str) -> Vec<String> {
    let own = words.split_ascii_whitespace().any(|word| word.starts_with("lockdown="));
    let lockdown = (!own).then_some(LOCKDOWN);
    PROTECTIONS.into_iter().chain(lockdown).map(str::to_owned).collect()
}

fn refused(word: &str) -> Option<&'static str> {
    let same = |text: &str| text.to_ascii_lowercase().replace('-', "_");
    let word = same(word);
    let key = word.split_once('=').map_or(word.as_str(), |(key, _)| key);
    let hit = |kind: &Match, pattern: &str| match kind {
        Word => word == pattern,
        Key => key == pattern,
        Prefix => word.starts_with(pattern),
        Unless(values) => key == pattern && !values.iter().any(|value| word.split_once('=') == Some((key, value))),
    };
    REFUSED.iter().find(|(kind, pattern, _)| hit(kind, &same(pattern))).map(|(_, _, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_words_stand() {
        let words = "console=ttyS0,115200n8  quiet panic=-1 latchkey.network=dhcp4\nlatchkey.init=/lib/systemd/systemd 42 systemd.log_level=info loglevel=3";
        assert_eq!(check(words).unwrap(), words.replace("  ", " ").replace('\n', " "));
        assert_eq!(check("").unwrap(), "");
    }

    #[test]
    fn every_emergency_path_is_refused_with_its_reason() {
        for word in [
            "init=/bin/sh",
            "rdinit=/bin/sh",
            "rd.break",
            "rd.systemd.debug_shell",
            "systemd.debug_shell",
            "systemd.debug-shell=1",
            "SYSTEMD.debug-shell",
            "systemd.unit=rescue.target",
            "single",
            "S",
            "1",
            "emergency",
            "--",
            "sysrq_always_enabled",
            "sysrq-always-enabled=1",
            "SYSTEMD_SULOGIN_FORCE=1",
            "systemd.set_credential=passwd.hashed-password.root:x",
            "kgdboc=ttyS0",
            "dm-mod.create=x",
            "root=/dev/vda2",
            "latchkey.root_verity=00",
            "latchkey.root=partlabel:root",
            "latchkey.root-fs=erofs",
        ] {
            let judged = check(&format!("quiet {word}"));
            assert!(
                matches!(&judged, Err(CmdlineError::Refused { word: named, .. }) if named == word),
                "{word}: {judged:?}"
            );
        }
    }

    #[test]
    fn words_that_wake_a_machine_or_weaken_its_kernel_are_refused() {
        for word in [
            "resume=/dev/vda5",
            "resume_offset=1",
            "resume-offset=1",
            "resumewait",
            "resumedelay=3",
            "hibernate=resume",
            "no_console_suspend",
            "mem_sleep_default=deep",
            "acpi_sleep=s3_bios",
            "init_on_free=0",
            "init_on_alloc=0",
            "lockdown=none",
            "lockdown",
            "lsm=apparmor",
            "module.sig_enforce=0",
            "iomem=relaxed",
            "nokaslr",
            "mitigations=off",
            "crashkernel=256M",
            "ohci1394_dma=early",
            "firewire-ohci.remote_dma=1",
            "tpm.disable_pcr_integrity=1",
            "intel_iommu=off",
        ] {
            assert!(matches!(check(word), Err(CmdlineError::Refused { .. })), "{word}");
        }
        let fine = "lockdown=integrity init_on_alloc=1 intel_iommu=on mitigations=auto,nosmt";
        assert_eq!(check(fine).unwrap(), fine);
    }

    #[test]
    fn what_is_added_keeps_the_operators_own_lockdown() {
        let all = ["init_on_free=1", "module.sig_enforce=1", "hibernate=no", "mem_sleep_default=s2idle"];
        assert_eq!(protections("quiet"), [&all[..], &["lockdown=confidentiality"]].concat());
        assert_eq!(protections("quiet lockdown=integrity"), all);
    }

    #[test]
    fn words_that_readers_split_differently_are_refused() {
        for word in ["\"init=/bin/sh\"", "'systemd.debug_shell'", "a\\x20b", "ünit=1", "a=\"b c\"", "a\u{a0}b", "a\0b"]
        {
            assert!(matches!(check(word), Err(CmdlineError::Unclear(_))), "{word:?}");
        }
    }
}
