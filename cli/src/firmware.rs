//! A machine's firmware beside its record, where this command gives it keys or an operator accepts it.

use latchkey_attestation::{Digest, EkDigest};
use latchkey_cluster_store::{BootSeen, NodeRecord};
use latchkey_measurements::firmware::Changes;

use crate::clock::now;
use crate::cluster_dir::ClusterDir;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machines::Machines;
use crate::output::{Output, Tone};
use crate::store_error::unusable;

/// What is another in the firmware that waits beside the record; `None` if nothing waits.
pub(crate) fn waiting(record: &NodeRecord) -> Option<(Changes, Digest)> {
    let known = record.firmware.as_ref()?;
    let changed = &known.changed.as_ref()?.measured;
    Some((Changes::between(&known.measured, changed)?, changed.digest()))
}

impl ClusterDir {
    /// Changes a machine's record: the record before, if there is one.
    pub(crate) fn change(
        &self,
        ek: EkDigest,
        change: &mut dyn FnMut(&mut NodeRecord) -> bool,
    ) -> Result<Option<NodeRecord>, CommandError> {
        let (mut writer, before) = self.as_owner(|| {
            let writer = self.store().writer().map_err(unusable)?;
            Ok((writer, self.store().record(&ek).map_err(unusable)?))
        })?;
        let Some(before) = before else { return Ok(None) };
        let mut record = (*before).clone();
        if change(&mut record) {
            self.as_owner(|| writer.put(&record).map(drop).map_err(unusable))?;
        }
        Ok(Some(before.into_inner()))
    }
}

/// Holds a machine that is to get keys against its record, if it has one, as the join service does: what is new is written down, a
/// change told or refused as the policy says.
pub(crate) fn check_boot(
    machines: &dyn Machines,
    ek: EkDigest,
    seen: &BootSeen,
    output: &Output,
) -> Result<(), CommandError> {
    let now = now();
    let mut keep = |record: &mut NodeRecord| {
        let before = record.clone();
        // Of a boot that was locked before nothing is kept.
        record.keep(seen, now);
        *record != before
    };
    let Some(before) = machines.change(ek, &mut keep)? else { return Ok(()) };
    let (finding, name) = (before.judge(seen), &before.name);
    if finding.already_locked {
        let what = format!("{name} was locked in this boot before, and its TPM says otherwise");
        return Err(CommandError::new(Exit::Attestation, CommandCode::AlreadyLocked, what));
    }
    let changes = before.firmware.as_ref().and_then(|known| Changes::between(&known.measured, &seen.firmware));
    let changes: Vec<String> = changes.iter().flat_map(Changes::iter).map(ToString::to_string).collect();
    if !finding.refused.is_empty() {
        let what = format!("the firmware of {name} is not the one on its record");
        let refused = CommandError::new(Exit::Attestation, CommandCode::FirmwareChanged, what);
        return Err(changes.into_iter().fold(refused, CommandError::because));
    }
    let warnings = changes.into_iter().map(|change| (CommandCode::FirmwareChanged, change));
    let counters =
        "the counters of its TPM are lower than on record: it was cleared, or an older state was brought back";
    let went_back = finding.went_back.then(|| (CommandCode::CountersWentBack, counters.to_owned()));
    for (code, text) in warnings.chain(went_back) {
        output.say(Tone::Warning, "warning", &format!("{code}: {name}: {text}"));
    }
    Ok(())
}

/// Makes the changed firmware with this digest the one on record. `false` if it is not the one that waits now.
pub(crate) fn accept(machines: &dyn Machines, ek: EkDigest, change: &Digest) -> Result<bool, CommandError> {
    let mut accepted = false;
    machines.change(ek, &mut |record| {
        accepted = record.accept_firmware(change, now());
        accepted
    })?;
    Ok(accepted)
}
