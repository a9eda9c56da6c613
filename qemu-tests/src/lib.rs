//! QEMU, swtpm and the real services, as a user sees them.
//!
//! The harness boots real machines: firmware that measures (OVMF), a TPM with an endorsement
//! certificate (swtpm), a real kernel, our initramfs. It runs as an ordinary user, on loopback only,
//! with KVM where that works and without where not. Nothing waits for a while: everything waits for
//! an event, with a deadline.
//!
//! * [`run::Run`]: the directory of one test; what is in it ends with the test
//! * [`kernel::Kernel`]: a kernel package, fetched once
//! * [`build`]: the project's own binaries, built as they ship
//! * [`bootimage::BootImage`] and [`rootfs::RootFs`]: what a machine boots, and its operating system
//! * [`debian::DebianRoot`]: an operating system that systemd runs; [`kubernetes`]: one with Kubernetes in it
//! * [`swtpm::Authority`] and [`swtpm::TpmState`]: TPMs that outlive power cycles
//! * [`machine::Machine`] and its [`hardware`]: what stays without power
//! * [`vm::Vm`]: machines with power, their consoles, [`monitor`]s, crashes and restarts
//! * [`namespaces`]: machines that share this machine's kernel, where emulation is too slow
//! * [`service::Service`]: services as processes
//! * [`fleet::Fleet`]: a whole site; its [`cluster`], what its [`operator`] does, its [`osimage`]s and their [`publisher`]
//! * [`encrypted`]: machines that seem to be SEV-SNP guests, of a fake AMD
//! * [`host_name`]: a name for this machine that virtual machines have for it, too
//! * [`centre`]: a centre as its operator and its edges see it
//! * [`probe`]: a stand-in for the agent that shows what was measured; [`tamper`]: a disk in an attacker's hands
//! * [`doctor`]: what this machine lacks

pub mod accel;
pub mod board;
pub mod bootimage;
#[cfg(feature = "centre")]
pub mod centre;
pub mod cluster;
pub mod console;
pub mod debian;
pub mod doctor;
pub mod encrypted;
pub mod error;
pub mod fleet;
pub mod hardware;
pub mod host_name;
pub mod kernel;
pub mod kubernetes;
pub mod lan;
pub mod machine;
pub mod monitor;
pub mod namespaces;
pub mod operator;
pub mod osimage;
pub mod pki;
pub mod ports;
pub mod probe;
pub mod process;
pub mod publisher;
pub mod rootfs;
pub mod run;
pub mod secureboot;
pub mod service;
mod slot;
pub mod swtpm;
pub mod tamper;
pub mod vm;

pub use error::HarnessError;
pub use latchkey_test_programs as build;
