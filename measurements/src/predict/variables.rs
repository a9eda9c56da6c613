//! The variables in a firmware's flash, from an `OVMF_VARS….fd` file: an authenticated variable store (EDK II,
//! `MdeModulePkg/Include/Guid/VariableFormat.h`) in a firmware volume (PI 1.8, volume 3, section 3.2.1).

use latchkey_boot_formats::{Cursor, Guid, firmware_guid};

/// OVMF's are 528 KiB; other firmware has up to a few MiB.
pub const MAX_STORE: usize = 16 * 1024 * 1024;

/// The variables that are in force.
#[derive(Debug, Clone)]
pub struct VariableStore<'a> {
    variables: Vec<StoredVariable<'a>>,
}

#[derive(Debug, Clone)]
struct StoredVariable<'a> {
    vendor: Guid,
    /// UTF-16LE with its NUL.
    name: &'a [u8],
    value: &'a [u8],
    state: u8,
}

/// Why a file is no variable store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// More bytes than are read.
    #[error("a variable store of more than {} MiB", MAX_STORE >> 20)]
    TooLarge,
    /// The file ends within this.
    #[error("the variable store ends within {0}")]
    Truncated(&'static str),
    /// It does not begin with a firmware volume for variables.
    #[error("no firmware volume with variables (give an OVMF_VARS file, in raw form)")]
    NoVolume,
    /// The volume holds no authenticated variable store, or one that is not formatted and healthy.
    #[error("no authenticated variable store")]
    NoStore,
    /// Neither a variable nor empty flash.
    #[error("at byte {0:#x} of the variable store is neither a variable nor its end")]
    NoVariable(usize),
    /// More variables than are read.
    #[error("more than {MAX_VARIABLES} variables")]
    TooMany,
    /// Two variables of the same name are in force.
    #[error("variable {0} is there twice")]
    Twice(&'static str),
}

impl<'a> VariableStore<'a> {
    /// Reads a file of at most [`MAX_STORE`] bytes.
    ///
    /// # Errors
    /// [`VariableError`].
    pub fn parse(file: &'a [u8]) -> Result<Self, VariableError> {
        if file.len() > MAX_STORE {
            return Err(VariableError::TooLarge);
        }
        let store = store(file)?;
        let mut fields = Cursor::new(store);
        let mut variables = Vec::new();
        loop {
            let at = fields.offset();
            // Erased flash is all ones. A store that is full to the end ends without.
            match fields.peek::<2>() {
                None | Some([0xff, 0xff]) => break,
                Some(START) => {}
                Some(_) => return Err(VariableError::NoVariable(at)),
            }
            if variables.len() == MAX_VARIABLES {
                return Err(VariableError::TooMany);
            }
            variables.push(StoredVariable::take(&mut fields).ok_or(VariableError::Truncated("a variable"))?);
            // "HEADER_ALIGNMENT 4"
            fields.align(4);
        }
        variables.retain(|variable| matches!(variable.state, ADDED | IN_REPLACEMENT));
        Ok(Self { variables })
    }

    /// The value of a variable of the EFI specification, such as `PK`; `None` without it.
    ///
    /// # Errors
    /// [`VariableError::Twice`].
    pub(super) fn value(&self, vendor: Guid, name: &'static str) -> Result<Option<&'a [u8]>, VariableError> {
        let utf16: Vec<u8> = name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        let named = |v: &&StoredVariable<'_>| v.vendor == vendor && v.name == utf16;
        // One that is being replaced counts when the new one is not there yet.
        for state in [ADDED, IN_REPLACEMENT] {
            let mut found = self.variables.iter().filter(named).filter(|variable| variable.state == state);
            if let Some(variable) = found.next() {
                return if found.next().is_some() { Err(VariableError::Twice(name)) } else { Ok(Some(variable.value)) };
            }
        }
        Ok(None)
    }

    /// Whether firmware that has Secure Boot turns it on with these variables: a platform key is enrolled, and the
    /// operator has not switched it off in the firmware's menu (EDK II, `AuthVariableLib`).
    pub fn secure_boot(&self) -> bool {
        let enrolled = matches!(self.value(firmware_guid::GLOBAL_VARIABLE, "PK"), Ok(Some(_)));
        let switched_off =
            matches!(self.value(firmware_guid::SECURE_BOOT_ENABLE, "SecureBootEnable"), Ok(Some([0, ..])));
        enrolled && !switched_off
    }

    /// How many variables are in force.
    pub fn len(&self) -> usize {
        self.variables.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }
}

/// The variables' area: behind the headers of the volume and of the store.
fn store(file: &[u8]) -> Result<&[u8], VariableError> {
    let mut fields = Cursor::new(file);
    let truncated = VariableError::Truncated("its headers");
    // EFI_FIRMWARE_VOLUME_HEADER: a zero vector, the kind of volume, its length, signature, attributes, header length.
    let _zero = fields.take(16).ok_or(truncated)?;
    let kind = fields.guid().ok_or(truncated)?;
    let _length = fields.u64().ok_or(truncated)?;
    let signature = fields.array().ok_or(truncated)?;
    let _attributes = fields.u32().ok_or(truncated)?;
    let header = usize::from(fields.u16().ok_or(truncated)?);
    if kind != firmware_guid::VARIABLE_VOLUME || signature != *b"_FVH" {
        return Err(VariableError::NoVolume);
    }
    let mut fields = Cursor::new(file.get(header..).ok_or(truncated)?);
    // VARIABLE_STORE_HEADER: the kind of store, its size with this header, format, state, reserved.
    let kind = fields.guid().ok_or(truncated)?;
    let size = usize::try_from(fields.u32().ok_or(truncated)?).map_err(|_| truncated)?;
    let format_and_state = fields.array().ok_or(truncated)?;
    let _reserved = fields.take(STORE_HEADER - 22).ok_or(truncated)?;
    if kind != firmware_guid::AUTHENTICATED_VARIABLES || format_and_state != [FORMATTED, HEALTHY] {
        return Err(VariableError::NoStore);
    }
    size.checked_sub(STORE_HEADER).and_then(|size| fields.take(size)).ok_or(truncated)
}

impl<'a> StoredVariable<'a> {
    /// `AUTHENTICATED_VARIABLE_HEADER`, name and value.
    fn take(fields: &mut Cursor<'a>) -> Option<Self> {
        let _start = fields.u16()?;
        let state = fields.u8()?;
        let _reserved = fields.u8()?;
        // Attributes, monotonic count, time stamp, index of a public key.
        let _ = fields.take(4 + 8 + 16 + 4)?;
        let name = usize::try_from(fields.u32()?).ok()?;
        let value = usize::try_from(fields.u32()?).ok()?;
        let vendor = fields.guid()?;
        Some(Self { vendor, name: fields.take(name)?, value: fields.take(value)?, state })
    }
}

/// `VARIABLE_DATA` 0x55AA
const START: [u8; 2] = [0xaa, 0x55];
/// `VAR_ADDED`
const ADDED: u8 = 0x3f;
/// `VAR_ADDED & VAR_IN_DELETED_TRANSITION`
const IN_REPLACEMENT: u8 = 0x3e;
/// `VARIABLE_STORE_FORMATTED`
const FORMATTED: u8 = 0x5a;
/// `VARIABLE_STORE_HEALTHY`
const HEALTHY: u8 = 0xfe;
/// Bytes of `VARIABLE_STORE_HEADER`.
const STORE_HEADER: usize = 28;
/// The largest stores have a few hundred.
const MAX_VARIABLES: usize = 16 * 1024;
