//! What a dynamically linked file needs: its dynamic linker and libraries, read from its ELF program headers.
//!
//! A strict, bounded reader. Layout: ELF-64 Object File Format, version 1.5, figures 2, 14 and 17; System V ABI, chapter 5.

use crate::elf::{ElfError, slice, u16_at, u32_at, u64_at};
use crate::executable::ExecutableError;

/// Libraries have about a dozen.
const MAX_PROGRAM_HEADERS: usize = 128;
/// Bytes of a dynamic section, libraries of one file, and bytes of one name.
const MAX_DYNAMIC: usize = 64 * 1024;
const MAX_NEEDED: usize = 128;
const MAX_NAME: usize = 255;
/// Sizes of `Elf64_Ehdr`, `Elf64_Phdr` and `Elf64_Dyn`.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const ENTRY: usize = 16;
const EM_X86_64: u16 = 62;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;

/// What a file needs to run, or to be loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needed {
    /// The path of its dynamic linker; a library has none.
    pub interpreter: Option<String>,
    /// The names of libraries, such as `libc.so.6`.
    pub libraries: Vec<String>,
}

impl Needed {
    /// Reads an executable or a library for x86-64.
    ///
    /// # Errors
    /// [`ExecutableError`]; a static one needs nothing, which is no error.
    pub fn read(bytes: &[u8]) -> Result<Self, ExecutableError> {
        if !bytes.starts_with(b"\x7fELF\x02\x01\x01") {
            return Err(ExecutableError::NotExecutable);
        }
        let header = bytes.get(..HEADER).ok_or(ExecutableError::Damaged)?;
        if u16_at(header, 18)? != EM_X86_64 {
            return Err(ExecutableError::OtherProcessor);
        }
        let (table, size, count) = (u64_at(header, 32)?, u16_at(header, 54)?, usize::from(u16_at(header, 56)?));
        if usize::from(size) != PROGRAM_HEADER || count > MAX_PROGRAM_HEADERS {
            return Err(ExecutableError::Damaged);
        }
        let length = u64::try_from(count * PROGRAM_HEADER).map_err(|_| ExecutableError::Damaged)?;
        let segments: Vec<&[u8]> = slice(bytes, table, length)?.chunks_exact(PROGRAM_HEADER).collect();
        let mut needed = Self::default();
        for segment in &segments {
            let content = || slice(bytes, u64_at(segment, 8)?, u64_at(segment, 32)?);
            match u32_at(segment, 0)? {
                PT_INTERP => needed.interpreter = Some(text(content()?)?),
                PT_DYNAMIC => needed.libraries = libraries(bytes, &segments, content()?)?,
                _ => {}
            }
        }
        Ok(needed)
    }
}

fn libraries(bytes: &[u8], segments: &[&[u8]], dynamic: &[u8]) -> Result<Vec<String>, ExecutableError> {
    if dynamic.len() > MAX_DYNAMIC {
        return Err(ExecutableError::Damaged);
    }
    let (mut names, mut strings) = (Vec::new(), None);
    for entry in dynamic.chunks_exact(ENTRY) {
        let value = u64_at(entry, 8)?;
        match u64_at(entry, 0)? {
            0 => break,
            DT_NEEDED => names.push(value),
            DT_STRTAB => strings = Some(value),
            _ => {}
        }
    }
    if names.is_empty() {
        return Ok(Vec::new());
    }
    if names.len() > MAX_NEEDED {
        return Err(ExecutableError::Damaged);
    }
    let strings = strings.ok_or(ExecutableError::Damaged)?;
    let strings = loaded_from(bytes, segments, strings)?;
    let name = |at: u64| {
        let at = usize::try_from(at).map_err(|_| ExecutableError::Damaged)?;
        text(strings.get(at..).ok_or(ExecutableError::Damaged)?)
    };
    names.into_iter().map(name).collect()
}

/// What is loaded from an address on, to the end of its segment.
fn loaded_from<'a>(bytes: &'a [u8], segments: &[&[u8]], address: u64) -> Result<&'a [u8], ExecutableError> {
    for segment in segments {
        let (offset, start, length) = (u64_at(segment, 8)?, u64_at(segment, 16)?, u64_at(segment, 32)?);
        if u32_at(segment, 0)? == PT_LOAD
            && let Some(inside) = address.checked_sub(start).filter(|inside| *inside < length)
        {
            let at = offset.checked_add(inside).ok_or(ExecutableError::Damaged)?;
            return Ok(slice(bytes, at, length - inside)?);
        }
    }
    Err(ExecutableError::from(ElfError::OutOfBounds))
}

/// A text that ends with a zero byte.
fn text(bytes: &[u8]) -> Result<String, ExecutableError> {
    let end = bytes.iter().take(MAX_NAME + 1).position(|byte| *byte == 0).ok_or(ExecutableError::Damaged)?;
    let plain = |byte: &u8| byte.is_ascii_graphic();
    let name = bytes.get(..end).filter(|name| !name.is_empty() && name.iter().all(plain));
    name.map(|name| String::from_utf8_lossy(name).into_owned()).ok_or(ExecutableError::Damaged)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The oracle: `readelf -d`, of what this test itself is.
    #[test]
    fn what_a_program_needs_is_what_readelf_says() {
        let own = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&own).unwrap();
        let needed = Needed::read(&bytes).unwrap();
        let Ok(said) = latchkey_test_support::output(Command::new("readelf").arg("-d").arg(&own)) else {
            latchkey_test_support::skip("readelf cannot be run");
            return;
        };
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let wanted = said.lines().filter(|line| line.contains("(NEEDED)"));
        let wanted: Vec<_> = wanted.filter_map(|line| line.split(['[', ']']).nth(1)).collect();
        assert_eq!(needed.libraries, wanted);
        assert_eq!(needed.interpreter.as_deref(), Some("/lib64/ld-linux-x86-64.so.2"));
        for end in 0..bytes.len().min(4096) {
            let _cut = Needed::read(&bytes[..end]);
        }
    }

    #[test]
    fn a_static_program_needs_nothing_and_no_program_is_none() {
        let program = crate::elf_sample::static_executable();
        assert_eq!(Needed::read(&program), Ok(Needed::default()));
        assert_eq!(Needed::read(b"#!/bin/sh\n"), Err(ExecutableError::NotExecutable));
    }
}
