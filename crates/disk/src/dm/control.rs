//! The device mapper's control device.

use super::ioctl::{Command, flag, issue};
use super::request::{MappingName, Request};
use super::table::Table;
use crate::block::DeviceNumber;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// An open `/dev/mapper/control`.
#[derive(Debug)]
pub struct Control(File);

impl Control {
    /// Where devtmpfs puts the control device once `dm-mod` is there.
    pub const PATH: &'static str = "/dev/mapper/control";

    /// Opens the control device.
    ///
    /// # Errors
    /// What the kernel says; not found means that `dm-mod` is neither loaded nor built in.
    pub fn open() -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(Path::new(Self::PATH)).map(Self)
    }

    /// The interface's version; major 4 is the only one there ever was.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn version(&self) -> io::Result<(u32, u32, u32)> {
        self.issue(Command::VERSION, Request::new(None, 0)).map(|answer| answer.version())
    }

    /// The targets that are loaded or built in, `crypt` hopefully among them.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn target_versions(&self) -> io::Result<Vec<TargetVersion>> {
        let answer = self.issue(Command::LIST_VERSIONS, Request::new(None, 0))?;
        let versions = answer.target_versions();
        Ok(versions.into_iter().map(|(name, version)| TargetVersion { name: name.to_owned(), version }).collect())
    }

    /// Creates a mapping without a table.
    ///
    /// # Errors
    /// What the kernel says; busy when the name or `uuid` is taken.
    pub fn create(&self, name: &MappingName, uuid: &str) -> io::Result<DeviceNumber> {
        self.issue(Command::DEV_CREATE, Request::create(name, uuid)).map(|answer| answer.device())
    }

    /// Loads a table; the key it names is looked up now, in the keyrings of the calling thread.
    ///
    /// # Errors
    /// What the kernel says; the kernel log says more.
    pub fn load(&self, name: &MappingName, table: &Table) -> io::Result<()> {
        self.issue(Command::TABLE_LOAD, Request::load(name, table)).map(drop)
    }

    /// Takes the loaded table into use.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn resume(&self, name: &MappingName) -> io::Result<()> {
        self.issue(Command::DEV_SUSPEND, Request::new(Some(name), 0)).map(drop)
    }

    /// The live table's target and status.
    ///
    /// # Errors
    /// What the kernel says; [`io::ErrorKind::InvalidData`] for an answer without a target.
    pub fn status(&self, name: &MappingName) -> io::Result<Status> {
        self.table_status(name, 0)
    }

    /// The live table's target and parameters. A key in the keyring shows as its description only.
    ///
    /// # Errors
    /// As for [`Self::status`].
    pub fn table(&self, name: &MappingName) -> io::Result<Status> {
        self.table_status(name, flag::STATUS_TABLE | flag::SECURE_DATA)
    }

    /// Removes the mapping; dm-crypt wipes its key.
    ///
    /// # Errors
    /// What the kernel says; busy while it is open.
    pub fn remove(&self, name: &MappingName) -> io::Result<()> {
        self.issue(Command::DEV_REMOVE, Request::new(Some(name), 0)).map(drop)
    }

    fn table_status(&self, name: &MappingName, flags: u32) -> io::Result<Status> {
        let answer = self.issue(Command::TABLE_STATUS, Request::new(Some(name), flags))?;
        let (target, text) = answer.first_target().ok_or(io::ErrorKind::InvalidData)?;
        Ok(Status {
            target: target.to_owned(),
            text: text.to_owned(),
            device: answer.device(),
            open_count: answer.open_count(),
        })
    }

    fn issue(&self, command: Command, mut request: Request) -> io::Result<Request> {
        issue(&self.0, command, request.as_mut())?;
        if request.is_truncated() { Err(io::ErrorKind::InvalidData.into()) } else { Ok(request) }
    }
}

/// A target the kernel knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetVersion {
    /// Its name, such as `crypt`.
    pub name: String,
    /// Major, minor and patch level.
    pub version: [u32; 3],
}

/// What the kernel says of a live mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The first target's name.
    pub target: String,
    /// Its status or its parameters.
    pub text: String,
    /// The mapping's own device.
    pub device: DeviceNumber,
    /// How many have it open.
    pub open_count: u32,
}
