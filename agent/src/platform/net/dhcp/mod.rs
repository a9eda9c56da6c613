//! DHCPv4 (RFC 2131): a client without I/O and a thin driver.
//!
//! * [`packet`]: the bytes, bounded and strict; what a hostile server sends is refused or harmless.
//! * [`machine`]: what to send and when, as `input, now → outputs`.
//! * `driver`: a UDP socket tied to one interface, and a timer.
//!
//! The first good offer is taken. Messages go out as broadcast with the broadcast flag set (RFC 2131 section 4.1), so
//! that answers reach an ordinary UDP socket of an interface that has no address yet; a server that ignores the flag is
//! not supported. No DHCPDECLINE: duplicates are not looked for, a boot has no time for it and the server pings.

mod driver;
pub mod machine;
pub mod packet;

pub use driver::Session;
pub(super) use driver::acquire;
pub use machine::{Action, Client};
pub use packet::Lease;
