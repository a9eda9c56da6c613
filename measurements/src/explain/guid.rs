//! GUIDs, which UEFI stores with their first three fields little-endian.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guid(pub(crate) [u8; 16]);

impl Guid {
    pub(crate) const GLOBAL_VARIABLE: Self = Self(*b"\x61\xdf\xe4\x8b\xca\x93\xd2\x11\xaa\x0d\x00\xe0\x98\x03\x2b\x8c");
    pub(crate) const IMAGE_SECURITY: Self = Self(*b"\xcb\xb2\x19\xd7\x3a\x3d\x96\x45\xa3\xbc\xda\xd0\x0e\x67\x65\x6f");
    pub(crate) const SECURE_BOOT_ENABLE: Self =
        Self(*b"\xc7\x0b\xa3\xf0\x08\xaf\x56\x45\x99\xc4\x00\x10\x09\xc9\x3a\x44");
    pub(crate) const VARIABLE_VOLUME: Self = Self(*b"\x8d\x2b\xf1\xff\x96\x76\x8b\x4c\xa9\x85\x27\x47\x07\x5b\x4f\x50");
    pub(crate) const AUTHENTICATED_VARIABLES: Self =
        Self(*b"\x78\x2c\xf3\xaa\x7b\x94\x9a\x43\xa1\x80\x2e\x14\x4e\xc3\x77\x92");
    pub(crate) const CERT_SHA256: Self = Self(*b"\x26\x16\xc4\xc1\x4c\x50\x92\x40\xac\xa9\x41\xf9\x36\x93\x43\x28");
    pub(crate) const CERT_X509: Self = Self(*b"\xa1\x59\xc0\xa5\xe4\x94\xa7\x4a\x87\xb5\xab\x15\x5c\x2b\xf0\x72");
    const SHIM: Self = Self(*b"\x50\xab\x5d\x60\x46\xe0\x00\x43\xab\xb6\x3d\xd8\x10\xdd\x8b\x23");
    const UNUSED: Self = Self([0; 16]);
    pub(crate) const ESP: Self = Self(*b"\x28\x73\x2a\xc1\x1f\xf8\xd2\x11\xba\x4b\x00\xa0\xc9\x3e\xc9\x3b");
    const LINUX_DATA: Self = Self(*b"\xaf\x3d\xc6\x0f\x83\x84\x72\x47\x8e\x79\x3d\x69\xd8\x47\x7d\xe4");
    const SMBIOS: Self = Self(*b"\x31\x2d\x9d\xeb\x88\x2d\xd3\x11\x9a\x16\x00\x90\x27\x3f\xc1\x4d");
    const SMBIOS3: Self = Self(*b"\x44\x15\xfd\xf2\x94\x97\x2c\x4a\x99\x2e\xe5\xbb\xcf\x20\xe3\x94");
    const ACPI: Self = Self(*b"\x71\xe8\x68\x88\xf1\xe4\xd3\x11\xbc\x22\x00\x80\xc7\x3c\x88\x81");

    pub(crate) fn is_unused(self) -> bool {
        self == Self::UNUSED
    }

    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::GLOBAL_VARIABLE => "EFI",
            Self::IMAGE_SECURITY => "EFI image security",
            Self::SHIM => "shim",
            Self::ESP => "EFI system partition",
            Self::LINUX_DATA => "Linux file system",
            Self::SMBIOS => "SMBIOS",
            Self::SMBIOS3 => "SMBIOS 3",
            Self::ACPI => "ACPI",
            _ => return None,
        })
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            return f.write_str(name);
        }
        let [a0, a1, a2, a3, b0, b1, c0, c1, d0, d1, rest @ ..] = self.0;
        let (a, b, c) =
            (u32::from_le_bytes([a0, a1, a2, a3]), u16::from_le_bytes([b0, b1]), u16::from_le_bytes([c0, c1]));
        write!(f, "{a:08x}-{b:04x}-{c:04x}-{d0:02x}{d1:02x}-")?;
        rest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
