//! GUIDs of firmware's variables, of the store that holds them, and of the lists of certificates in them.

use crate::Guid;

/// `EFI_GLOBAL_VARIABLE` (UEFI 2.10, section 3.3): whose `SecureBoot`, `PK` and `KEK` are.
pub const GLOBAL_VARIABLE: Guid = Guid::from_u128(0x8be4_df61_93ca_11d2_aa0d_00e0_9803_2b8c);
/// `EFI_IMAGE_SECURITY_DATABASE_GUID` (UEFI 2.10, section 32.6.1): whose `db` and `dbx` are.
pub const IMAGE_SECURITY: Guid = Guid::from_u128(0xd719_b2cb_3d3a_4596_a3bc_dad0_0e67_656f);
/// `gEfiSecureBootEnableDisableGuid` of EDK II: the operator's switch.
pub const SECURE_BOOT_ENABLE: Guid = Guid::from_u128(0xf0a3_0bc7_af08_4556_99c4_0010_09c9_3a44);
/// `gEfiSystemNvDataFvGuid` of EDK II: a firmware volume with variables.
pub const VARIABLE_VOLUME: Guid = Guid::from_u128(0xfff1_2b8d_7696_4c8b_a985_2747_075b_4f50);
/// `gEfiAuthenticatedVariableGuid` of EDK II: the store in it.
pub const AUTHENTICATED_VARIABLES: Guid = Guid::from_u128(0xaaf3_2c78_947b_439a_a180_2e14_4ec3_7792);
/// `EFI_CERT_SHA256_GUID` (UEFI 2.10, section 32.4.1): a list of hashes of images.
pub const CERT_SHA256: Guid = Guid::from_u128(0xc1c4_1626_504c_4092_aca9_41f9_3693_4328);
/// `EFI_CERT_X509_GUID`: a list of certificates.
pub const CERT_X509: Guid = Guid::from_u128(0xa5c0_59a1_94e4_4aa7_87b5_ab15_5c2b_f072);
