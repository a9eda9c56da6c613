//! Which kernel modules go into the initramfs where the operator does not say.
//!
//! Each costs time at every boot: firmware and boot stub read and measure its bytes, the kernel unpacks them and checks a
//! signature.

use latchkey_initramfs::{DEBIAN_CLOUD, Wanted};
use latchkey_node_config::{Config, RootFs, StateIntegrity, Writable};

/// The default list: enough for a node of any configuration on Debian's cloud kernels.
pub(crate) fn default_modules() -> Vec<Wanted> {
    DEBIAN_CLOUD.iter().map(|name| Wanted::parse(name)).collect()
}

/// Those of the default list that a node of this configuration, which is measured with the image, never uses.
pub(crate) fn unused_modules(config: &Config) -> Vec<&'static str> {
    let mut unused = match config.root_fs {
        RootFs::Squashfs => vec!["erofs"],
        RootFs::Erofs => vec!["squashfs"],
        RootFs::Ext4 => vec!["squashfs", "erofs"],
    };
    if config.state_integrity == StateIntegrity::None {
        unused.extend(["dm_integrity", "hmac", "authenc"]);
    }
    if config.writable != Writable::Overlay {
        unused.push("overlay");
    }
    unused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(words: &str) -> String {
        let config = Config::parse(words.as_bytes()).unwrap();
        let unused = unused_modules(&config);
        let of_interest = ["squashfs", "erofs", "dm_integrity", "hmac", "authenc", "overlay"];
        let used =
            default_modules().into_iter().map(|wanted| wanted.name).filter(|name| !unused.contains(&name.as_str()));
        used.filter(|name| of_interest.contains(&name.as_str())).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_image_has_the_modules_of_its_configuration() {
        assert_eq!(used(""), "squashfs overlay");
        assert_eq!(used("latchkey.root_fs=erofs latchkey.writable=none"), "erofs");
        assert_eq!(used("latchkey.state_integrity=hmac-sha256"), "dm_integrity hmac authenc squashfs overlay");
    }

    #[test]
    fn only_modules_of_the_default_list_are_ever_left_out() {
        let listed: Vec<String> = default_modules().into_iter().map(|wanted| wanted.name).collect();
        for words in ["latchkey.root_fs=erofs", "latchkey.root_fs=squashfs", "latchkey.writable=none"] {
            let config = Config::parse(words.as_bytes()).unwrap();
            for name in unused_modules(&config) {
                assert!(listed.iter().any(|listed| listed == name), "{name}");
            }
        }
    }
}
