//! The device mapper, by its ioctls and without libdevmapper or udev.
//!
//! `table` makes the text of a target, `request` the bytes of an ioctl and reads its answer (both pure, tested byte for
//! byte), `ioctl` is the one file with the numbers and the system call, `control` puts them together.

mod control;
mod ioctl;
mod request;
mod table;

pub use control::{Control, Status, TargetVersion};
pub use request::{MappingName, NameError};
pub use table::{OnCorruption, Table, VerityRoot};
