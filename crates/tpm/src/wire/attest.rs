//! `TPMS_ATTEST` of a quote (part 2, section 10.12).

use super::{HashAlg, PcrSelection, Reader, WireError, Writer};

/// `TPM_GENERATED_VALUE`: 0xff, then "TCG" (part 2, section 6.2).
const GENERATED: u32 = 0xff54_4347;
const ST_ATTEST_QUOTE: u16 = 0x8018;
/// Longest name: two bytes of algorithm and a SHA-512 digest.
const MAX_NAME: usize = 2 + HashAlg::MAX_SIZE;

/// What a TPM signs when it quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attest {
    /// Qualified name of the signing key, ≤ 66 bytes.
    pub qualified_signer: Vec<u8>,
    /// The caller's qualifying data, ≤ 64 bytes.
    pub extra_data: Vec<u8>,
    /// The TPM's clock and restart counters.
    pub clock: ClockInfo,
    /// Vendor's own number.
    pub firmware_version: u64,
    /// The registers quoted.
    pub selection: PcrSelection,
    /// Hash of their values: 32, 48 or 64 bytes.
    pub pcr_digest: Vec<u8>,
}

/// `TPMS_CLOCK_INFO` (part 2, section 10.11.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockInfo {
    /// Milliseconds the TPM has been powered.
    pub clock: u64,
    /// How often the TPM was reset since it was last cleared.
    pub reset_count: u32,
    /// How often it was shut down or resumed since the last reset.
    pub restart_count: u32,
    /// No greater value of `clock` was ever reported.
    pub safe: bool,
}

impl Attest {
    /// Longest accepted, in bytes.
    pub const MAX_SIZE: usize = 256;

    /// Parses a whole `TPMS_ATTEST`; magic, type and selection are checked.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        if bytes.len() > Self::MAX_SIZE {
            return Err(WireError::Length { field: "attestation", max: Self::MAX_SIZE, got: bytes.len() });
        }
        Reader::all(bytes, Self::read)
    }

    /// As `TPMS_ATTEST`; what was parsed is given back byte for byte.
    pub fn marshal(&self) -> Vec<u8> {
        Writer::build(|out| {
            out.u32(GENERATED).u16(ST_ATTEST_QUOTE).sized(&self.qualified_signer).sized(&self.extra_data);
            out.u64(self.clock.clock).u32(self.clock.reset_count).u32(self.clock.restart_count);
            out.u8(self.clock.safe.into()).u64(self.firmware_version);
            out.bytes(&self.selection.marshal()).sized(&self.pcr_digest);
        })
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match reader.u32()? {
            GENERATED => {}
            got => return Err(WireError::NotGenerated(got)),
        }
        match reader.u16()? {
            ST_ATTEST_QUOTE => {}
            got => return Err(WireError::NotAQuote(got)),
        }
        let qualified_signer = reader.sized("qualified signer", MAX_NAME)?.to_vec();
        let extra_data = reader.sized("extra data", HashAlg::MAX_SIZE)?.to_vec();
        let clock = ClockInfo::read(reader)?;
        let firmware_version = reader.u64()?;
        let selection = PcrSelection::read(reader)?;
        let pcr_digest = reader.sized("PCR digest", HashAlg::MAX_SIZE)?.to_vec();
        if !matches!(pcr_digest.len(), 32 | 48 | 64) {
            return Err(WireError::Length { field: "PCR digest", max: HashAlg::MAX_SIZE, got: pcr_digest.len() });
        }
        Ok(Self { qualified_signer, extra_data, clock, firmware_version, selection, pcr_digest })
    }
}

impl ClockInfo {
    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            clock: reader.u64()?,
            reset_count: reader.u32()?,
            restart_count: reader.u32()?,
            safe: match reader.u8()? {
                0 => false,
                1 => true,
                got => return Err(WireError::Unsupported { field: "clock safe flag", got: got.into() }),
            },
        })
    }
}
