//! Types of partitions, as they stand in a partition table.

use crate::Guid;

/// A Latchkey state partition.
pub const STATE: Guid = Guid::from_u128(0x8f1d_5a2e_6c37_4b0e_9a54_1ce0_7ad3_926b);
/// "EFI System Partition" (UEFI 2.10, table 5.7).
pub const ESP: Guid = Guid::from_u128(0xc12a_7328_f81f_11d2_ba4b_00a0_c93e_c93b);
/// "Linux root (x86-64)" of the Discoverable Partitions Specification.
pub const ROOT_X86_64: Guid = Guid::from_u128(0x4f68_bce3_e8cd_4db1_96e7_fbca_f984_b709);
/// "Linux root verity (x86-64)" of the same.
pub const ROOT_VERITY_X86_64: Guid = Guid::from_u128(0x2c73_57ed_ebd2_46d9_aec1_23d4_37ec_2bf5);
/// "Linux filesystem data" of the same.
pub const LINUX_DATA: Guid = Guid::from_u128(0x0fc6_3daf_8483_4772_8e79_3d69_d847_7de4);
