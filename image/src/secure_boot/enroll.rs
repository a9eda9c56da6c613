//! Enrolment: signature lists for any firmware, and a variable store for OVMF in which they are in force.

use super::SecureBootError;

/// A GUID, as the 16 bytes of its text.
type Text = [u8; 16];

/// `EFI_CERT_X509_GUID`: a5c059a1-94e4-4aa7-87b5-ab155c2bf072
const X509: Text = 0xa5c0_59a1_94e4_4aa7_87b5_ab15_5c2b_f072_u128.to_be_bytes();
/// `EFI_GLOBAL_VARIABLE`: 8be4df61-93ca-11d2-aa0d-00e098032b8c
const GLOBAL: Text = 0x8be4_df61_93ca_11d2_aa0d_00e0_9803_2b8c_u128.to_be_bytes();
/// `EFI_IMAGE_SECURITY_DATABASE_GUID`: d719b2cb-3d3a-4596-a3bc-dad00e67656f
const IMAGE_SECURITY: Text = 0xd719_b2cb_3d3a_4596_a3bc_dad0_0e67_656f_u128.to_be_bytes();
/// `gEfiSecureBootEnableDisableGuid` of EDK II: f0a30bc7-af08-4556-99c4-001009c93a44
const ENABLE: Text = 0xf0a3_0bc7_af08_4556_99c4_0010_09c9_3a44_u128.to_be_bytes();
/// Who enrolled a certificate: 6c61746b-6579-8000-8000-696d61676500, which says so.
const OWNER: Text = 0x6c61_746b_6579_8000_8000_696d_6167_6500_u128.to_be_bytes();
/// `gEfiSystemNvDataFvGuid`: fff12b8d-7696-4c8b-a985-2747075b4f50
const VOLUME: Text = 0xfff1_2b8d_7696_4c8b_a985_2747_075b_4f50_u128.to_be_bytes();
/// `gEfiAuthenticatedVariableGuid`: aaf32c78-947b-439a-a180-2e144ec37792
const STORE: Text = 0xaaf3_2c78_947b_439a_a180_2e14_4ec3_7792_u128.to_be_bytes();

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
            let vendor = if name == "db" { IMAGE_SECURITY } else { GLOBAL };
            variables.extend(variable(vendor, name, AUTHENTICATED, &value));
        }
        variables.extend(variable(ENABLE, "SecureBootEnable", KEPT, &[1]));
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
    let header = usize::from(u16::from_le_bytes(*file.get(48..)?.first_chunk()?));
    let store = file.get(header..)?;
    let size = usize::try_from(u32::from_le_bytes(*store.get(16..)?.first_chunk()?)).ok()?;
    let known = file.get(16..32)? == disk_order(VOLUME) && store.get(..16)? == disk_order(STORE);
    let end = header.checked_add(size).filter(|end| *end <= file.len())?;
    known.then_some((header + STORE_HEADER, end))
}

/// `AUTHENTICATED_VARIABLE_HEADER`, name and value, up to the next one's place.
fn variable(vendor: Text, name: &str, attributes: u32, value: &[u8]) -> Vec<u8> {
    let name: Vec<u8> = name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
    let time = if attributes == AUTHENTICATED { TIME } else { [0; 16] };
    // Monotonic count and the index of a public key are of older kinds of authentication.
    let mut bytes =
        [&ADDED[..], &attributes.to_le_bytes(), &[0; 8], &time, &[0; 4], &size(&name), &size(value)].concat();
    bytes.extend(disk_order(vendor));
    bytes.extend(name);
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0xff);
    bytes
}

/// `EFI_SIGNATURE_LIST` with one `EFI_SIGNATURE_DATA` (UEFI 2.10, section 32.4.1).
fn list(certificate: &[u8]) -> Vec<u8> {
    let entry = [&disk_order(OWNER)[..], certificate].concat();
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
    let mut list = disk_order(X509).to_vec();
    // The whole list, no header of the list, each entry.
    list.extend([size(28 + entry.len()), size(0), size(entry.len())].concat());
    list.extend(entry);
    list
}

/// The first three groups are little-endian (UEFI 2.10, appendix A).
fn disk_order(mut guid: Text) -> Text {
    for group in [0..4, 4..6, 6..8] {
        guid[group].reverse();
    }
    guid
}
