//! Which of the devices is meant: pure, on an inventory.

use super::{BlockDevice, DeviceFault, Inventory, Kind, STATE_PARTITION_TYPE, Wanted};
use crate::platform::config::DiskSelector;

/// What an inventory has for a wish.
#[derive(Debug)]
pub(super) enum Choice {
    Found(BlockDevice),
    Ambiguous(Vec<BlockDevice>),
    /// Nothing yet.
    Nothing,
}

impl Choice {
    fn among(candidates: &[&BlockDevice]) -> Self {
        match candidates {
            [] => Self::Nothing,
            [one] => Self::Found((*one).clone()),
            many => Self::Ambiguous(many.iter().map(|device| (*device).clone()).collect()),
        }
    }
}

pub(super) fn choose(inventory: &Inventory, wanted: &Wanted<'_>) -> Result<Choice, DeviceFault> {
    match wanted {
        Wanted::Selected(DiskSelector::Device(name)) => {
            Ok(Choice::among(&inventory.devices.iter().filter(|device| device.name == *name).collect::<Vec<_>>()))
        }
        Wanted::Selected(DiskSelector::PartLabel(wanted)) => {
            let labelled = |device: &&BlockDevice| matches!(&device.kind, Kind::Partition { label: Some(label), .. } if label == wanted);
            Ok(Choice::among(&inventory.devices.iter().filter(labelled).collect::<Vec<_>>()))
        }
        Wanted::Selected(DiskSelector::PartType(kind)) => {
            let (found, damage) = inventory.partitions_of_type(*kind);
            among_tables(&found, damage)
        }
        Wanted::AutoState(root) => auto(inventory, *root),
    }
}

/// A damaged table may hide what is looked for; whether it does matters only if nothing else is there.
fn among_tables(found: &[&BlockDevice], damage: Option<DeviceFault>) -> Result<Choice, DeviceFault> {
    match damage {
        Some(fault) if found.is_empty() => Err(fault),
        _ => Ok(Choice::among(found)),
    }
}

fn auto(inventory: &Inventory, root: Option<&BlockDevice>) -> Result<Choice, DeviceFault> {
    let is_root = |device: &BlockDevice| root.is_some_and(|root| root.name == device.name);
    let (typed, damage) = inventory.partitions_of_type(STATE_PARTITION_TYPE);
    let typed: Vec<_> = typed.into_iter().filter(|device| !device.read_only && !is_root(device)).collect();
    match among_tables(&typed, damage)? {
        Choice::Nothing => {
            let whole = inventory.devices.iter().filter(|device| {
                device.kind == Kind::Disk
                    && !device.read_only
                    && !device.removable
                    && !is_root(device)
                    && !inventory.has_partitions(device)
            });
            Ok(Choice::among(&whole.collect::<Vec<_>>()))
        }
        choice => Ok(choice),
    }
}

/// What a choice means once nothing more will come.
pub(super) fn settle(choice: Choice, wanted: &Wanted<'_>, inventory: &Inventory) -> Result<BlockDevice, DeviceFault> {
    let list = |devices: &[BlockDevice]| {
        let names: Vec<_> = devices.iter().map(ToString::to_string).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let (name, state) = match wanted {
        Wanted::Selected(selector) => (selector.to_string(), false),
        Wanted::AutoState(_) => ("the state disk".to_owned(), true),
    };
    match choice {
        Choice::Found(device) => Ok(device),
        Choice::Ambiguous(many) => Err(DeviceFault::Ambiguous { wanted: name, candidates: list(&many), state }),
        Choice::Nothing => Err(DeviceFault::Missing { wanted: name, present: list(&inventory.devices) }),
    }
}
