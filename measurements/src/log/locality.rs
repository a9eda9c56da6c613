//! The `StartupLocality` event: PCR 0 does not begin at zero when `TPM2_Startup` came from another locality.

use crate::error::{LogError, LogErrorKind};
use crate::event::{Event, EventType};

/// PFP 1.05, section 10.4: signature `"StartupLocality"`, a NUL, then one byte.
const SIGNATURE: &[u8; 16] = b"StartupLocality\0";

/// The startup locality, if the log states one, before anything was measured into PCR 0.
pub(crate) fn find(events: &[Event<'_>]) -> Result<Option<u8>, LogError> {
    let mut locality = None;
    let mut begun = false;
    for event in events {
        begun |= event.extends() == Some(0);
        let Some(value) = of(event)? else { continue };
        if begun || locality.replace(value).is_some() {
            return Err(LogError { offset: event.offset, kind: LogErrorKind::LocalityLate });
        }
    }
    Ok(locality)
}

fn of(event: &Event<'_>) -> Result<Option<u8>, LogError> {
    if event.kind != EventType::NO_ACTION || !event.data.starts_with(SIGNATURE) {
        return Ok(None);
    }
    match (event.pcr(), event.data.get(SIGNATURE.len()..)) {
        // TPM 2.0 Library Part 3, section 9.3: startup from locality 3, or 4 by an H-CRTM; 0 is the usual one.
        (Some(0), Some(&[locality @ (0 | 3 | 4)])) => Ok(Some(locality)),
        _ => Err(LogError { offset: event.offset, kind: LogErrorKind::LocalityMalformed }),
    }
}
