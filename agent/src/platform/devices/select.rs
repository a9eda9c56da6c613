//! Which of the devices is meant: pure, on an inventory.

use latchkey_boot_formats::partition_type;
use latchkey_node_config::DiskSelector;

use super::{BlockDevice, DeviceError, Inventory, Kind, Wanted};

/// What an inventory has for a configured choice.
#[derive(Debug)]
pub(super) enum Choice {
    Found(BlockDevice),
    Ambiguous(Vec<BlockDevice>),
    /// Nothing yet.
    Nothing,
    /// Nothing yet, and a damaged table may hide it.
    Damaged(DeviceError),
}

impl Choice {
    fn among(candidates: &[&BlockDevice]) -> Self {
        match candidates {
            [] => Self::Nothing,
            [one] => Self::Found((*one).clone()),
            many => Self::Ambiguous(many.iter().map(|device| (*device).clone()).collect()),
        }
    }

    /// All that it is between.
    pub(super) fn candidates(&self) -> &[BlockDevice] {
        match self {
            Self::Found(one) => std::slice::from_ref(one),
            Self::Ambiguous(many) => many,
            Self::Nothing | Self::Damaged(_) => &[],
        }
    }
}

pub(super) fn choose(inventory: &Inventory, wanted: &Wanted<'_>) -> Choice {
    match wanted {
        Wanted::Selected(DiskSelector::Device(name)) => {
            Choice::among(&inventory.devices.iter().filter(|device| device.name == *name).collect::<Vec<_>>())
        }
        Wanted::Selected(DiskSelector::PartLabel(wanted)) => {
            let labelled = |device: &&BlockDevice| matches!(&device.kind, Kind::Partition { label: Some(label), .. } if label == wanted);
            Choice::among(&inventory.devices.iter().filter(labelled).collect::<Vec<_>>())
        }
        Wanted::Selected(DiskSelector::PartType(kind)) => {
            let (found, damage) = inventory.partitions(|entry| entry.kind == *kind);
            among_tables(&found, damage)
        }
        Wanted::Partition(id, _) => {
            let (found, damage) = inventory.partitions(|entry| entry.id == *id);
            among_tables(&found, damage)
        }
        Wanted::AutoState(taken) => auto(inventory, taken),
        Wanted::Volume(label) => Choice::among(&inventory.volumes(*label)),
    }
}

/// A damaged table may hide what is looked for; whether it does matters only if nothing else is there.
fn among_tables(found: &[&BlockDevice], damage: Option<DeviceError>) -> Choice {
    match damage {
        Some(error) if found.is_empty() => Choice::Damaged(error),
        _ => Choice::among(found),
    }
}

fn auto(inventory: &Inventory, taken: &[BlockDevice]) -> Choice {
    let is_taken = |device: &BlockDevice| taken.iter().any(|taken| taken.name == device.name);
    let holds_taken = |disk: &BlockDevice| taken.iter().any(|taken| taken.disk() == disk.name);
    let (typed, damage) = inventory.partitions(|entry| entry.kind == partition_type::STATE);
    // A system that was started from a stick may keep its state there, but no other stick is a candidate.
    let fixed = |device: &BlockDevice| !device.removable || taken.iter().any(|taken| taken.disk() == device.disk());
    let state = |device: &&BlockDevice| !device.read_only && fixed(device) && !is_taken(device);
    let typed: Vec<_> = typed.into_iter().filter(state).collect();
    match among_tables(&typed, damage) {
        Choice::Nothing => {
            let whole = inventory.devices.iter().filter(|device| {
                device.kind == Kind::Disk
                    && !device.read_only
                    && !device.removable
                    && !holds_taken(device)
                    && !inventory.has_partitions(device)
            });
            Choice::among(&whole.collect::<Vec<_>>())
        }
        choice => choice,
    }
}

/// What a choice means once nothing more will come.
pub(super) fn settle(choice: Choice, wanted: &Wanted<'_>, inventory: &Inventory) -> Result<BlockDevice, DeviceError> {
    let list = |devices: &[BlockDevice]| {
        let names: Vec<_> = devices.iter().map(ToString::to_string).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let (name, state) = match wanted {
        Wanted::Selected(selector) => (selector.to_string(), false),
        Wanted::Partition(id, what) => (format!("{what}, partition {id}"), false),
        Wanted::AutoState(_) => ("the state disk".to_owned(), true),
        Wanted::Volume(label) => (format!("the volume with the label {label}"), false),
    };
    match choice {
        Choice::Found(device) => Ok(device),
        Choice::Ambiguous(many) => Err(DeviceError::Ambiguous { wanted: name, candidates: list(&many), state }),
        Choice::Damaged(error) => Err(error),
        Choice::Nothing => {
            let optical = inventory.optical.iter().filter(|_| matches!(wanted, Wanted::Volume(_)));
            let present: Vec<_> = inventory.devices.iter().chain(optical).cloned().collect();
            Err(DeviceError::Missing { wanted: name, present: list(&present) })
        }
    }
}
