//! What PCR 0 begins with: not zero where an H-CRTM measured before `TPM2_Startup`, or where that came from another locality.

use crate::error::{LogError, LogErrorKind};
use crate::event::{Event, EventType};

/// PFP 1.05, section 10.4: signature `"StartupLocality"`, a NUL, then one byte.
const SIGNATURE: &[u8; 16] = b"StartupLocality\0";
/// TPM 2.0 Library Part 1, section "H-CRTM": its sequence, of locality 4, begins PCR 0 with this in the last byte, and `TPM2_Startup`, from
/// wherever it comes, leaves that.
const H_CRTM: u8 = 4;

/// The locality that PCR 0 begins with. A `StartupLocality` event counts once, before anything but an H-CRTM was measured into PCR 0, and is
/// passed over elsewhere: it extends nothing.
pub(crate) fn find(events: &[Event<'_>]) -> Result<Option<u8>, LogError> {
    let (mut stated, mut h_crtm, mut begun) = (None, false, false);
    for event in events {
        match event.extends() {
            Some(0) if !h_crtm && !begun && event.kind == EventType::EFI_HCRTM_EVENT => h_crtm = true,
            Some(0) => begun = true,
            _ => {}
        }
        match of(event)? {
            Some(locality) if !begun => stated = stated.or(Some(locality)),
            _ => {}
        }
    }
    Ok(if h_crtm { Some(H_CRTM) } else { stated })
}

/// What a `StartupLocality` event states; behind it firmware of coreboot has zeros.
fn of(event: &Event<'_>) -> Result<Option<u8>, LogError> {
    let of_pcr_0 = event.kind == EventType::NO_ACTION && event.pcr() == Some(0);
    let Some(data) = event.data.strip_prefix(SIGNATURE).filter(|_| of_pcr_0) else { return Ok(None) };
    match data {
        // TPM 2.0 Library Part 3, section 9.3: startup from locality 3, or 4 by an H-CRTM; 0 is the usual one.
        [locality @ (0 | 3 | 4), padding @ ..] => Ok(padding.iter().all(|byte| *byte == 0).then_some(*locality)),
        _ => Err(LogError { offset: event.offset, kind: LogErrorKind::LocalityMalformed }),
    }
}
