//! The platform: everything between the kernel and the life of a node.
//!
//! The agent is process 1 of an initramfs that holds nothing else: no shell, no udev, no module loader. What those
//! would do is done here, one module per duty, in the order stage 1 needs them:
//!
//! | module | duty |
//! |---|---|
//! | [`pid1`] | the witness that this process is process 1 and may act on the whole machine |
//! | [`mounts`] | `/proc`, `/sys`, `/dev`, `/run`, securityfs; the root file system |
//! | [`hardening`] | what the kernel must not do: magic keys, core dumps, kexec |
//! | [`console`], [`logging`], [`timeline`] | lines for humans and for tests; one step after the other, with its time |
//! | [`modules`] | kernel modules, in the order the builder of the initramfs wrote down |
//! | [`devices`] | disks and partitions, by label, by type, by the rule of the state disk |
//! | [`root`] | the root of the operating system, which the measured root hash vouches for |
//! | [`net`] | links, addresses, routes, DHCPv4, router advertisements, names |
//! | [`metadata`] | what the machine's owner or host says about this instance: requests, never facts |
//! | [`handover`] | away with the initramfs, on with the operating system |
//! | [`power`], [`clock`], [`entropy`] | reboot, time since boot, random numbers |
//!
//! Every error has a stable reason code in kebab case ([`Fault::code`]) and one sentence that names the fix (its
//! `Display`).

pub mod clock;
pub mod console;
pub mod devices;
pub mod entropy;
pub mod hardening;
pub mod logging;
pub mod metadata;
pub mod modules;
pub mod mounts;
pub mod net;
pub mod pid1;
pub mod power;
pub mod root;
pub mod switch_root;
pub(crate) mod sys;
pub mod timeline;

use std::fmt;

/// Joins the error enums of the modules into one, so that callers pass on one type with one pair of questions.
macro_rules! faults {
    ($($variant:ident($inner:ty $(, $text:ident)?): $what:literal,)*) => {
        /// Why the platform could not do its duty.
        #[derive(Debug)]
        pub enum Fault {
            $(#[doc = $what] $variant($inner),)*
        }

        impl Fault {
            /// The stable reason code, in kebab case.
            pub fn code(&self) -> &'static str {
                match self { $(Self::$variant(fault) => fault.code()$(.$text())?,)* }
            }

            /// What to do, where the sentence does not say it itself.
            pub fn remedy(&self) -> Option<&'static str> {
                match self {
                    Self::Config(error) => Some(error.code().remedy()),
                    _ => None,
                }
            }
        }

        impl fmt::Display for Fault {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$variant(fault) => fault.fmt(f),)* }
            }
        }

        $(impl From<$inner> for Fault {
            fn from(fault: $inner) -> Self { Self::$variant(fault) }
        })*
    };
}

faults! {
    Pid1(pid1::Pid1Fault): "Not process 1.",
    Mount(mounts::MountFault): "A file system is not there.",
    Hardening(hardening::HardeningFault): "Something that must be closed is not.",
    Config(latchkey_node_config::ConfigError, as_str): "The measured configuration is not acceptable.",
    Module(modules::ModuleFault): "A kernel module did not load.",
    Device(devices::DeviceFault): "A disk was not found, or too many were.",
    Root(root::RootFault): "The root can not be opened.",
    Net(net::NetFault): "The network did not come up.",
    Metadata(metadata::MetadataFault): "The instance metadata is not acceptable.",
    SwitchRoot(switch_root::SwitchRootError): "The operating system could not take over.",
}

impl std::error::Error for Fault {}
