//! Whether a file can become process 1: a static executable for x86-64, read from its ELF program headers.
//!
//! A strict, bounded reader. Layout: ELF-64 Object File Format, version 1.5, figures 2 and 14; System V ABI for x86-64,
//! section 5.

use crate::elf::{ElfError, slice, u16_at, u32_at, u64_at};

/// Executables have about a dozen; with 0xffff, ELF would use an escape that is refused here.
const MAX_PROGRAM_HEADERS: usize = 128;
/// No executable's dynamic section is longer; a static one has about thirty entries.
const MAX_DYNAMIC: u64 = 64 * 1024;

/// `e_type`: an executable at a fixed address, or one that may lie anywhere.
const EXECUTABLE: [u16; 2] = [2, 3];
/// `e_machine`: "AMD x86-64 architecture".
const EM_X86_64: u16 = 62;
/// Size of `Elf64_Ehdr`.
const HEADER: usize = 64;
/// Size of `Elf64_Phdr`.
const PROGRAM_HEADER: usize = 56;
/// `p_type`: what is loaded, what the dynamic linker reads, the path of the dynamic linker.
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
/// `p_flags`: may be executed.
const PF_X: u32 = 1;
/// `d_tag`: another library is needed.
const DT_NEEDED: u64 = 1;

/// What the node agent says of itself, and no other program does: the first line of its help.
pub const AGENT: &[u8] = b"latchkey-agent, the node agent";

/// Why a file cannot become process 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExecutableError {
    /// Not a 64-bit ELF file that can be executed.
    #[error("not a 64-bit ELF executable")]
    NotExecutable,
    /// For another processor.
    #[error("an executable for another processor than x86-64")]
    OtherProcessor,
    /// It needs a dynamic linker or libraries, which an initramfs, or an image of the program alone, does not have.
    #[error("linked dynamically: there are no libraries where it runs")]
    Dynamic,
    /// Nothing in it would be executed: its entry lies in no executable part of it.
    #[error("an ELF file without an entry that could be executed")]
    NoEntry,
    /// A program, but not the one that makes a node.
    #[error("a static executable, and not the node agent")]
    NoAgent,
    /// It is cut short, or its headers lie.
    #[error("an ELF executable that is cut short or damaged")]
    Damaged,
}

impl ExecutableError {
    /// What to do, where that is more than to correct what the message names.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoAgent => "name the file latchkey-agent of a release, or of a build",
            Self::Dynamic => "build it for the target x86_64-unknown-linux-musl",
            _ => return None,
        })
    }
}

impl From<ElfError> for ExecutableError {
    fn from(_: ElfError) -> Self {
        Self::Damaged
    }
}

/// Whether the file can become process 1 of an initramfs that holds nothing else it could load.
///
/// # Errors
/// [`ExecutableError`].
pub fn check_static(bytes: &[u8]) -> Result<(), ExecutableError> {
    // EI_CLASS 2 = 64 bit, EI_DATA 1 = little endian, EI_VERSION 1.
    if !bytes.starts_with(b"\x7fELF\x02\x01\x01") {
        return Err(ExecutableError::NotExecutable);
    }
    let header = bytes.get(..HEADER).ok_or(ExecutableError::Damaged)?;
    if !EXECUTABLE.contains(&u16_at(header, 16)?) {
        return Err(ExecutableError::NotExecutable);
    }
    if u16_at(header, 18)? != EM_X86_64 {
        return Err(ExecutableError::OtherProcessor);
    }
    let (entry, table) = (u64_at(header, 24)?, u64_at(header, 32)?);
    let (size, count) = (usize::from(u16_at(header, 54)?), usize::from(u16_at(header, 56)?));
    if size != PROGRAM_HEADER || count > MAX_PROGRAM_HEADERS {
        return Err(ExecutableError::Damaged);
    }
    let length = u64::try_from(count * PROGRAM_HEADER).map_err(|_| ExecutableError::Damaged)?;
    let segments = slice(bytes, table, length)?.chunks_exact(PROGRAM_HEADER);
    let mut enters = false;
    for segment in segments {
        let content = slice(bytes, u64_at(segment, 8)?, u64_at(segment, 32)?);
        match u32_at(segment, 0)? {
            PT_INTERP => return Err(ExecutableError::Dynamic),
            PT_DYNAMIC => check_dynamic(content?)?,
            PT_LOAD => {
                let inside =
                    entry.checked_sub(u64_at(segment, 16)?).is_some_and(|at| at < content.map_or(0, length_of));
                enters |= content.is_ok() && inside && u32_at(segment, 4)? & PF_X != 0;
                content?;
            }
            _ => {}
        }
    }
    if enters { Ok(()) } else { Err(ExecutableError::NoEntry) }
}

/// Whether the file is the node agent, and can become process 1.
///
/// # Errors
/// [`ExecutableError`].
pub fn check_agent(bytes: &[u8]) -> Result<(), ExecutableError> {
    check_static(bytes)?;
    if bytes.windows(AGENT.len()).any(|text| text == AGENT) { Ok(()) } else { Err(ExecutableError::NoAgent) }
}

/// A program that may lie anywhere has a dynamic section for its own addresses; a static one needs no library.
fn check_dynamic(section: &[u8]) -> Result<(), ExecutableError> {
    if length_of(section) > MAX_DYNAMIC {
        return Err(ExecutableError::Damaged);
    }
    for entry in section.chunks_exact(16) {
        match u64_at(entry, 0)? {
            0 => break,
            DT_NEEDED => return Err(ExecutableError::Dynamic),
            _ => {}
        }
    }
    Ok(())
}

fn length_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf_sample::{Segment, agent, executable, static_executable};

    const CODE: Segment = Segment::code(&[0xf4; 16]);

    #[test]
    fn the_agent_is_known_by_what_it_says_of_itself() {
        assert!(include_bytes!("../../agent/src/main.rs").windows(AGENT.len()).any(|text| text == AGENT));
        assert_eq!(check_agent(&agent()), Ok(()));
        assert_eq!(check_agent(&static_executable()), Err(ExecutableError::NoAgent));
    }

    #[test]
    fn a_static_executable_fixed_or_anywhere_is_one() {
        assert_eq!(check_static(&executable(2, &[CODE])), Ok(()));
        let own_addresses = [&7_u64.to_le_bytes()[..], &0_u64.to_le_bytes(), &[0; 16]].concat();
        let anywhere = executable(3, &[CODE, Segment { kind: PT_DYNAMIC, flags: 6, content: &own_addresses }]);
        assert_eq!(check_static(&anywhere), Ok(()));
    }

    #[test]
    fn what_needs_a_linker_or_libraries_is_not_one() {
        let linker = Segment { kind: PT_INTERP, flags: 4, content: b"/lib64/ld-linux-x86-64.so.2\0" };
        assert_eq!(check_static(&executable(3, &[linker, CODE])), Err(ExecutableError::Dynamic));
        let library = [&DT_NEEDED.to_le_bytes()[..], &1_u64.to_le_bytes(), &[0; 16]].concat();
        let library = Segment { kind: PT_DYNAMIC, flags: 6, content: &library };
        assert_eq!(check_static(&executable(3, &[CODE, library])), Err(ExecutableError::Dynamic));
    }

    #[test]
    fn other_files_are_not_one() {
        for bytes in [&b""[..], b"{}", b"#!/bin/sh\n", &[0; 100]] {
            assert_eq!(check_static(bytes), Err(ExecutableError::NotExecutable));
        }
        assert_eq!(check_static(&executable(1, &[CODE])), Err(ExecutableError::NotExecutable));
        assert_eq!(check_static(&executable(2, &[])), Err(ExecutableError::NoEntry));
        let data = Segment { flags: 6, ..CODE };
        assert_eq!(check_static(&executable(2, &[data])), Err(ExecutableError::NoEntry));
        let mut foreign = executable(2, &[CODE]);
        foreign[18] = 183;
        assert_eq!(check_static(&foreign), Err(ExecutableError::OtherProcessor));
    }

    #[test]
    fn cut_anywhere_and_with_any_lying_byte_it_is_judged_without_panic() {
        let whole = executable(3, &[CODE, Segment { kind: PT_DYNAMIC, flags: 6, content: &[0; 16] }]);
        assert_eq!(check_static(&whole), Ok(()));
        for length in 0..whole.len() {
            assert!(check_static(&whole[..length]).is_err(), "cut at {length}");
        }
        for position in 0..whole.len() {
            for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[position] = value;
                let _ = check_static(&bytes);
            }
        }
    }
}
