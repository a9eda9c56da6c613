//! Disks and partitions without udev.
//!
//! The kernel makes the device files (devtmpfs) and describes each block device below `/sys/class/block`; what it does
//! not tell, the type of a partition, is read from the GPT itself. [`find`] waits for a device with the kernel's own
//! announcements (uevents), and does not ask again and again. The one exception are media in optical drives: of one that is ready
//! late the kernel says nothing until somebody looks ([`LOOK_AGAIN`]).
//!
//! **The rule of `latchkey.state_disk=auto`.** If there is exactly one partition of type
//! [`STATE`](latchkey_boot_formats::partition_type::STATE), it is the state disk. If there is none, the one writable whole disk
//! that has no partitions and does not hold the root of the operating system is. Two candidates of the same kind refuse
//! (`state-disk-ambiguous`): formatting the wrong disk cannot be undone. Devices of the kernel's own making (RAM disks, loops,
//! device-mapper), optical drives, removable and empty ones are never candidates. Since drivers may still be finding disks, the
//! choice is made when no block device has appeared for [`SETTLE`].

mod error;
mod grow;
mod inventory;
mod select;
mod uevent;

use std::path::Path;
use std::time::{Duration, Instant};

pub use error::{DeviceCode, DeviceError};
pub use grow::{Growth, Step, plan as plan_growth};
pub use inventory::{BlockDevice, Inventory, Kind};

use crate::platform::volume::Label;
use latchkey_boot_formats::Guid;
use latchkey_node_config::{DiskSelector, StateDisk};
use select::Choice;

/// How long no block device must have appeared before `auto` chooses.
pub const SETTLE: Duration = Duration::from_millis(250);
/// How often a volume is looked for in optical drives, where nothing is announced.
pub const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What is looked for.
#[derive(Debug, Clone)]
pub enum Wanted<'a> {
    /// The device a selector names.
    Selected(&'a DiskSelector),
    /// The partition with this GUID of its own, and what it is for. A hint: whoever writes the table may claim any.
    Partition(Guid, &'static str),
    /// The state disk by the rule above; these devices and the disks they lie on are the operating system's.
    AutoState(&'a [BlockDevice]),
    /// What has the one volume with this label on it: a partition, a disk without any, a medium in an optical drive.
    Volume(Label),
}

impl<'a> Wanted<'a> {
    /// What a configuration wants for its state disk.
    pub fn state(config: &'a StateDisk, taken: &'a [BlockDevice]) -> Self {
        match config {
            StateDisk::Auto => Self::AutoState(taken),
            StateDisk::Selected(selector) => Self::Selected(selector),
        }
    }
}

/// Hears of block devices from the moment it is made.
#[derive(Debug)]
pub struct Watch {
    events: uevent::Listener,
    /// Since when no block device has appeared.
    quiet: Instant,
}

impl Watch {
    /// Begins to listen. Made when the drivers are loaded: from then on it is known how long it has been quiet, and whoever waits
    /// for [`SETTLE`] may do something else meanwhile.
    pub fn begin() -> Result<Self, DeviceError> {
        Ok(Self { events: uevent::Listener::open()?, quiet: Instant::now() })
    }

    /// Finds a device, waiting for it until the time is over.
    pub async fn find(self, wanted: &Wanted<'_>, timeout: Duration) -> Result<BlockDevice, DeviceError> {
        self.find_by(wanted, timeout, async || look(wanted).await).await
    }

    async fn find_by(
        mut self,
        wanted: &Wanted<'_>,
        timeout: Duration,
        mut look: impl AsyncFnMut() -> Result<(Inventory, Choice), DeviceError>,
    ) -> Result<BlockDevice, DeviceError> {
        let deadline = Instant::now() + timeout;
        // What has appeared already, nobody knows when.
        while self.events.block_device_within(Duration::ZERO).await? {
            self.quiet = Instant::now();
            if self.quiet >= deadline {
                break;
            }
        }
        let is_volume = matches!(wanted, Wanted::Volume(_));
        let mut seen = Seen::default();
        loop {
            // It listens before it looks: nothing can appear in between unnoticed.
            let begun = Instant::now();
            let (inventory, choice) = look().await?;
            // To open an optical drive makes the kernel announce a change of it: for a volume only what is seen counts.
            if is_volume && seen.becomes(&inventory, &choice) {
                self.quiet = begun;
            }
            let until = look_again(&choice, wanted, &inventory, self.quiet, deadline);
            // Disks that come and go without end must not keep the node here.
            let ends = |until: &Instant| begun >= deadline || is_volume && begun >= *until;
            let Some(until) = until.filter(|until| !ends(until)) else {
                return select::settle(choice, wanted, &inventory);
            };
            let patience = until.saturating_duration_since(Instant::now());
            let appeared = self.events.block_device_within(patience).await?;
            if !is_volume && !appeared {
                return select::settle(choice, wanted, &inventory);
            }
            if !is_volume {
                self.quiet = Instant::now();
            }
        }
    }
}

/// What the last look for a volume saw.
#[derive(Debug, Default)]
struct Seen(Option<(Inventory, Vec<BlockDevice>)>);

impl Seen {
    /// Takes this look for the last one. Whether it saw something else than the one before.
    fn becomes(&mut self, inventory: &Inventory, choice: &Choice) -> bool {
        let now = (inventory.clone(), choice.candidates().to_vec());
        self.0.replace(now).is_some_and(|before| Some(before) != self.0)
    }
}

/// What there is now. For a volume devices are opened and read, which can take seconds: not on the thread that has the network.
async fn look(wanted: &Wanted<'_>) -> Result<(Inventory, Choice), DeviceError> {
    fn choose(wanted: &Wanted<'_>) -> Result<(Inventory, Choice), DeviceError> {
        let inventory = Inventory::scan(Path::new("/"))?;
        let choice = select::choose(&inventory, wanted);
        Ok((inventory, choice))
    }
    match *wanted {
        Wanted::Volume(label) => smol::unblock(move || choose(&Wanted::Volume(label))).await,
        _ => choose(wanted),
    }
}

/// When to look again, or to settle, if no device appears; `None` if the choice stands whatever comes.
fn look_again(
    choice: &Choice,
    wanted: &Wanted<'_>,
    inventory: &Inventory,
    quiet: Instant,
    deadline: Instant,
) -> Option<Instant> {
    let until = waits_until(choice, wanted, quiet, deadline)?;
    let in_drive = matches!((choice, wanted), (Choice::Nothing, Wanted::Volume(_))) && !inventory.optical.is_empty();
    Some(if in_drive { until.min(Instant::now() + LOOK_AGAIN) } else { until })
}

/// Until when more devices may come, if none does; `None` if the choice stands whatever comes.
fn waits_until(choice: &Choice, wanted: &Wanted<'_>, quiet: Instant, deadline: Instant) -> Option<Instant> {
    match (choice, wanted) {
        // There is one of a name, and of the root any will do: its hash decides.
        (Choice::Found(_), Wanted::Selected(DiskSelector::Device(_)) | Wanted::Partition(..)) => None,
        // More disks may come: choose only among all of them.
        (Choice::Found(_) | Choice::Ambiguous(_), _) | (Choice::Damaged(_), Wanted::AutoState(_)) => {
            Some(quiet + SETTLE)
        }
        (Choice::Nothing | Choice::Damaged(_), _) => Some(deadline),
    }
}

/// Finds a device that is needed by its name only, waiting for it until the time is over.
pub async fn find(wanted: &Wanted<'_>, timeout: Duration) -> Result<BlockDevice, DeviceError> {
    Watch::begin()?.find(wanted, timeout).await
}

#[cfg(test)]
mod tests;
