//! The attestation report of an AMD SEV-SNP guest. **Nothing of it is trusted here**: `verify` checks its signature, `validate`
//! what it says.
//!
//! Specification: AMD 56860, "SEV Secure Nested Paging Firmware ABI Specification", revision 1.58, table `ATTESTATION_REPORT`.
//! All numbers are little-endian.

use super::{GuestPolicy, PlatformInfo, SnpProduct, Tcb, TcbLayout};
use crate::parse::LaunchDigest;
use crate::refusal::{ReasonCode, Refusal};

/// A report as somebody sent it. Whoever can write bytes can write one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnpReport {
    bytes: Box<[u8; Self::SIZE]>,
    version: u32,
    policy: GuestPolicy,
    platform: PlatformInfo,
    signing_key: SigningKey,
    chip_masked: bool,
    product: Option<SnpProduct>,
}

/// Which key of the secure processor signed (`SIGNING_KEY`, bits 4 to 2 at 48h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SigningKey {
    /// The versioned chip endorsement key: of one chip.
    Vcek,
    /// The versioned loaded endorsement key: of all chips of one cloud provider.
    Vlek,
}

impl SigningKey {
    /// The field's term.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vcek => "VCEK",
            Self::Vlek => "VLEK",
        }
    }
}

impl SnpReport {
    /// Bytes of every report.
    pub const SIZE: usize = 0x4a0;

    /// Reads a report: exactly [`Self::SIZE`] bytes, of version 2 to 5, whose reserved bytes and bits are as the specification
    /// says. What a later version puts there could change what the rest means; bits of `PLATFORM_INFO` cannot, and are the policy's to judge.
    ///
    /// # Errors
    /// * `snp-report-malformed`: another length, version, signature algorithm or kind of key.
    /// * `snp-report-reserved`: something is set that has no meaning in this version.
    /// * `snp-product-unknown`: the processor that it names is none of those that this program knows.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let bytes: &[u8; Self::SIZE] =
            bytes.try_into().map_err(|_| malformed(format!("{} bytes, expected {}", bytes.len(), Self::SIZE)))?;
        let version = number(bytes, VERSION);
        if !VERSIONS.contains(&version) {
            return Err(malformed(format!("version {version}, expected 2 to 5")));
        }
        let algorithm = number(bytes, SIGNATURE_ALGORITHM);
        if algorithm != ECDSA_P384_SHA384 {
            return Err(malformed(format!("signature algorithm {algorithm}, expected 1 (ECDSA P-384 with SHA-384)")));
        }
        let vmpl = number(bytes, VMPL);
        // A report that the host asked for has another one, FFFFFFFFh: it is nobody's evidence.
        if vmpl > 3 {
            return Err(malformed(format!(
                "VMPL {vmpl:#x}, expected 0 to 3: the guest itself must ask for its report"
            )));
        }
        check_reserved(bytes, version)?;
        let flags = number(bytes, FLAGS);
        let signing_key = match flags >> 2 & 7 {
            0 => SigningKey::Vcek,
            1 => SigningKey::Vlek,
            7 => return Err(malformed("the secure processor had no key to sign it with (SIGNING_KEY 7)")),
            other => return Err(malformed(format!("SIGNING_KEY {other}, expected 0 (VCEK) or 1 (VLEK)"))),
        };
        if flags >> 5 != 0 {
            return Err(reserved("bits above 4 at 48h"));
        }
        Ok(Self {
            version,
            policy: GuestPolicy::parse(long(bytes, POLICY))?,
            platform: PlatformInfo::new(long(bytes, PLATFORM_INFO)),
            signing_key,
            chip_masked: flags & 1 << 1 != 0,
            product: if version >= 3 { Some(SnpProduct::of_processor(field(bytes, CPUID))?) } else { None },
            bytes: Box::new(*bytes),
        })
    }

    /// All its bytes.
    pub fn as_bytes(&self) -> &[u8; Self::SIZE] {
        &self.bytes
    }

    /// What its signature covers: everything before it.
    pub fn signed(&self) -> &[u8] {
        &self.bytes[..SIGNATURE]
    }

    /// R and S of its signature: 48 bytes each, big-endian, as everybody but AMD writes them.
    ///
    /// # Errors
    /// `snp-report-malformed`: a number that does not fit, or bytes behind it that are not zero.
    pub fn signature(&self) -> Result<[u8; 96], Refusal> {
        let mut signature = [0; 96];
        let (numbers, rest) = self.bytes[SIGNATURE..].split_at(2 * NUMBER);
        for (number, out) in numbers.chunks_exact(NUMBER).zip(signature.chunks_exact_mut(48)) {
            let (number, above) = number.split_at(48);
            if above.iter().any(|byte| *byte != 0) {
                return Err(malformed("its signature has a number of more than 384 bits"));
            }
            number.iter().rev().zip(out).for_each(|(from, to)| *to = *from);
        }
        if rest.iter().any(|byte| *byte != 0) {
            return Err(reserved("bytes behind the signature"));
        }
        Ok(signature)
    }

    /// Version of the report's form, 2 to 5.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Security version of the guest, which its launcher chose and an ID block may prove.
    pub fn guest_svn(&self) -> u32 {
        number(&self.bytes, GUEST_SVN)
    }

    /// What the guest's host may do with it.
    pub fn policy(&self) -> GuestPolicy {
        self.policy
    }

    /// `FAMILY_ID` of the ID block, zero without one.
    pub fn family_id(&self) -> [u8; 16] {
        field(&self.bytes, FAMILY_ID)
    }

    /// `IMAGE_ID` of the ID block, zero without one.
    pub fn image_id(&self) -> [u8; 16] {
        field(&self.bytes, IMAGE_ID)
    }

    /// The privilege level that asked for the report, 0 to 3; 0 is the highest.
    pub fn vmpl(&self) -> u32 {
        number(&self.bytes, VMPL)
    }

    /// The machine's state that the secure processor sees.
    pub fn platform(&self) -> PlatformInfo {
        self.platform
    }

    /// Whether an author key signed the ID key of the ID block.
    pub fn has_author_key(&self) -> bool {
        number(&self.bytes, FLAGS) & 1 != 0
    }

    /// Whether the host hides which chip it is (`MASK_CHIP_ID`): `CHIP_ID` is zero then.
    pub fn chip_masked(&self) -> bool {
        self.chip_masked
    }

    /// The key that claims to have signed.
    pub fn signing_key(&self) -> SigningKey {
        self.signing_key
    }

    /// What the guest asked to have signed.
    pub fn report_data(&self) -> [u8; 64] {
        field(&self.bytes, REPORT_DATA)
    }

    /// The launch digest.
    pub fn measurement(&self) -> LaunchDigest {
        LaunchDigest(field(&self.bytes, MEASUREMENT))
    }

    /// What the host put in at launch. Measured by nothing.
    pub fn host_data(&self) -> [u8; 32] {
        field(&self.bytes, HOST_DATA)
    }

    /// SHA-384 of the key that signed the ID block; zero without one.
    pub fn id_key_digest(&self) -> [u8; 48] {
        field(&self.bytes, ID_KEY_DIGEST)
    }

    /// SHA-384 of the key that signed the ID key; zero without one.
    pub fn author_key_digest(&self) -> [u8; 48] {
        field(&self.bytes, AUTHOR_KEY_DIGEST)
    }

    /// The processor's generation: reports from version 3 on say it.
    pub fn product(&self) -> Option<SnpProduct> {
        self.product
    }

    /// The chip: 64 bytes, of which Turin uses the first 8.
    pub fn chip_id(&self) -> [u8; 64] {
        field(&self.bytes, CHIP_ID)
    }

    /// Firmware versions that the signing key is derived from (`REPORTED_TCB`).
    pub fn reported_tcb(&self, layout: TcbLayout) -> Tcb {
        Tcb::parse(field(&self.bytes, REPORTED_TCB), layout)
    }

    /// Firmware versions that run now.
    pub fn current_tcb(&self, layout: TcbLayout) -> Tcb {
        Tcb::parse(field(&self.bytes, CURRENT_TCB), layout)
    }

    /// Firmware versions that the machine will not go back behind.
    pub fn committed_tcb(&self, layout: TcbLayout) -> Tcb {
        Tcb::parse(field(&self.bytes, COMMITTED_TCB), layout)
    }

    /// Firmware versions that ran when the guest was launched.
    pub fn launch_tcb(&self, layout: TcbLayout) -> Tcb {
        Tcb::parse(field(&self.bytes, LAUNCH_TCB), layout)
    }

    /// The SNP firmware that runs: major, minor, build.
    pub fn current_firmware(&self) -> [u8; 3] {
        let [build, minor, major] = field(&self.bytes, CURRENT_VERSION);
        [major, minor, build]
    }

    /// The SNP firmware that the machine will not go back behind: major, minor, build. Another than the current one is
    /// provisional: its host can still undo the update.
    pub fn committed_firmware(&self) -> [u8; 3] {
        let [build, minor, major] = field(&self.bytes, COMMITTED_VERSION);
        [major, minor, build]
    }
}

/// What must be zero, by version: "Reserved" of the table. Versions 2 to 4 end where version 5 has mitigation vectors.
fn check_reserved(bytes: &[u8; SnpReport::SIZE], version: u32) -> Result<(), Refusal> {
    let after_cpuid = if version >= 3 { 0x18b..CHIP_ID } else { CPUID..CHIP_ID };
    let after_launch = if version >= 5 { 0x208..SIGNATURE } else { 0x1f8..SIGNATURE };
    for range in [0x4c..REPORT_DATA, after_cpuid, 0x1eb..0x1ec, 0x1ef..LAUNCH_TCB, after_launch] {
        if bytes[range.clone()].iter().any(|byte| *byte != 0) {
            return Err(reserved(format_args!("a byte of {:x}h to {:x}h", range.start, range.end - 1)));
        }
    }
    Ok(())
}

fn field<const N: usize>(report: &[u8; SnpReport::SIZE], offset: usize) -> [u8; N] {
    // Every offset is a constant of this file, and the test below reads all fields of a report.
    report[offset..].first_chunk::<N>().copied().unwrap_or([0; N])
}

fn number(report: &[u8; SnpReport::SIZE], offset: usize) -> u32 {
    u32::from_le_bytes(field(report, offset))
}

fn long(report: &[u8; SnpReport::SIZE], offset: usize) -> u64 {
    u64::from_le_bytes(field(report, offset))
}

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::new(ReasonCode::SnpReportMalformed, detail)
}

pub(super) fn reserved(what: impl std::fmt::Display) -> Refusal {
    Refusal::new(ReasonCode::SnpReportReserved, format!("{what} must be zero"))
}

const VERSION: usize = 0x00;
const GUEST_SVN: usize = 0x04;
const POLICY: usize = 0x08;
const FAMILY_ID: usize = 0x10;
const IMAGE_ID: usize = 0x20;
const VMPL: usize = 0x30;
const SIGNATURE_ALGORITHM: usize = 0x34;
const CURRENT_TCB: usize = 0x38;
const PLATFORM_INFO: usize = 0x40;
/// Author key, masked chip, signing key.
const FLAGS: usize = 0x48;
const REPORT_DATA: usize = 0x50;
const MEASUREMENT: usize = 0x90;
const HOST_DATA: usize = 0xc0;
const ID_KEY_DIGEST: usize = 0xe0;
const AUTHOR_KEY_DIGEST: usize = 0x110;
const REPORTED_TCB: usize = 0x180;
/// Family, model and stepping, a byte each, from version 3 on.
const CPUID: usize = 0x188;
const CHIP_ID: usize = 0x1a0;
const COMMITTED_TCB: usize = 0x1e0;
/// Build, minor, major.
const CURRENT_VERSION: usize = 0x1e8;
const COMMITTED_VERSION: usize = 0x1ec;
const LAUNCH_TCB: usize = 0x1f0;
const SIGNATURE: usize = 0x2a0;
/// Bytes that R and S have room in, each.
const NUMBER: usize = 72;
/// Chapter "Signing algorithms": "ECDSA P-384 with SHA-384".
const ECDSA_P384_SHA384: u32 = 1;
/// Those that firmware for Milan to Turin writes.
const VERSIONS: std::ops::RangeInclusive<u32> = 2..=5;
