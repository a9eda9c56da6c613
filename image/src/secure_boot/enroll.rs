//! Enrolment: signature lists for any firmware, and a variable store for OVMF in which they are in force.

use latchkey_boot_formats::firmware_guid::{
    AUTHENTICATED_VARIABLES, CERT_X509, GLOBAL_VARIABLE, IMAGE_SECURITY, SECURE_BOOT_ENABLE, VARIABLE_VOLUME,
};
use latchkey_boot_formats::{Guid, slice_at, u16_at, u32_at};

use super::SecureBootError;

/// Who enrolled a certificate: a GUID that says so.
const OWNER: Guid = Guid::from_u128(0x6c61_746b_6579_8000_8000_696d_6167_6500);

/// `EFI_VARIABLE_NON_VOLATILE | EFI_VARIABLE_BOOTSERVICE_ACCESS`
const KEPT: u32 = 0x3;
/// The same, with `RUNTIME_ACCESS` and `TIME_BASED_AUTHENTICATED_WRITE_ACCESS`.
const AUTHENTICATED: u32 = 0x27;
/// `VARIABLE_DATA` 0x55AA, `VAR_ADDED`, reserved.
const ADDED: [u8; 4] = [0xaa, 0x55, 0x3f, 0];
/// `EFI_TIME` of 1 January 2000: any later change of the keys is newer.
const TIME: [u8; 16] = [0xd0, 0x07, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Bytes of `VARIABLE_STORE_HEADER`.
const STORE_HEADER: usize = 28;

/// The certificates that decide what boots, DER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// Who may change the key exchange keys.
    pub platform: Vec<u8>,
    /// Who may change what boots.
    pub exchange: Vec<u8>,
    /// Whose signature an image needs.
    pub image: Vec<u8>,
}

impl Keys {
    /// `PK`, `KEK` and `db`, each an `EFI_SIGNATURE_LIST` with one certificate.
    pub fn lists(&self) -> [(&'static str, Vec<u8>); 3] {
        [("PK", list(&self.platform)), ("KEK", list(&self.exchange)), ("db", list(&self.image))]
    }

    /// A variable store with the keys enrolled and Secure Boot on, from one without variables (`OVMF_VARS_4M.fd`).
    pub fn enroll(&self, template: &[u8]) -> Result<Vec<u8>, SecureBootError> {
        let (start, end) = area(template).ok_or(SecureBootError::Template)?;
        let mut variables = Vec::new();
        for (name, value) in self.lists() {
            let vendor = if name == "db" { IMAGE_SECURITY } else { GLOBAL_VARIABLE };
            variables.extend(variable(vendor, name, AUTHENTICATED, &value));
        }
        variables.extend(variable(SECURE_BOOT_ENABLE, "SecureBootEnable", KEPT, &[1]));
        let mut store = template.to_vec();
        let free = store.get_mut(start..end).filter(|free| free.iter().all(|byte| *byte == 0xff));
        let place = free.and_then(|free| free.get_mut(..variables.len())).ok_or(SecureBootError::Template)?;
        place.copy_from_slice(&variables);
        Ok(store)
    }
}

/// Where variables lie: behind the headers of the firmware volume (PI 1.8, volume 3, section 3.2.1) and of the store in
/// it (EDK II, `VariableFormat.h`).
fn area(file: &[u8]) -> Option<(usize, usize)> {
    let header = usize::from(u16_at(file, 48)?);
    let store = file.get(header..)?;
    let size = usize::try_from(u32_at(store, 16)?).ok()?;
    let known = slice_at(file, 16, 16)? == VARIABLE_VOLUME.disk_order()
        && slice_at(store, 0, 16)? == AUTHENTICATED_VARIABLES.disk_order();
    let end = header.checked_add(size).filter(|end| *end <= file.len())?;
    known.then_some((header + STORE_HEADER, end))
}

/// `AUTHENTICATED_VARIABLE_HEADER`, name and value, up to the next one's place.
fn variable(vendor: Guid, name: &str, attributes: u32, value: &[u8]) -> Vec<u8> {
    let name: Vec<u8> = name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
    let time = if attributes == AUTHENTICATED { TIME } else { [0; 16] };
    // Monotonic count and the index of a public key are of older kinds of authentication.
    let mut bytes =
        [&ADDED[..], &attributes.to_le_bytes(), &[0; 8], &time, &[0; 4], &size(&name), &size(value)].concat();
    bytes.extend(vendor.disk_order());
    bytes.extend(name);
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0xff);
    bytes
}

/// `EFI_SIGNATURE_LIST` with one `EFI_SIGNATURE_DATA` (UEFI 2.10, section 32.4.1).
fn list(certificate: &[u8]) -> Vec<u8> {
    let entry = [&OWNER.disk_order()[..], certificate].concat();
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
    let mut list = CERT_X509.disk_order().to_vec();
    // The whole list, no header of the list, each entry.
    list.extend([size(28 + entry.len()), size(0), size(entry.len())].concat());
    list.extend(entry);
    list
}
