#![expect(unsafe_code, reason = "no safe interface has these ioctls")]
//! Asks the SEV-SNP guest driver for a report.
//!
//! Source: the kernel's `include/uapi/linux/sev-guest.h`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// `SNP_GET_REPORT`
const GET_REPORT: libc::Ioctl = libc::_IOWR::<Call>(b'S' as u32, 0);
/// `SNP_GET_EXT_REPORT`
const GET_EXTENDED_REPORT: libc::Ioctl = libc::_IOWR::<Call>(b'S' as u32, 2);
/// Of the messages between guest and processor (AMD 56860, "Guest Messages").
const MESSAGE_VERSION: u8 = 1;
/// `SNP_GUEST_VMM_ERR_INVALID_LEN`: the host has more certificates than there is room for.
pub(crate) const VMM_ERROR_TABLE_TOO_LONG: u32 = 1;

/// `struct snp_report_req`
#[repr(C)]
struct Request {
    user_data: [u8; 64],
    vmpl: u32,
    reserved: [u8; 28],
}

/// `struct snp_ext_report_req`
#[repr(C)]
struct ExtendedRequest {
    data: Request,
    certs_address: u64,
    certs_len: u32,
}

/// `struct snp_report_resp`: `MSG_REPORT_RSP` (AMD 56860), and zeros.
pub(crate) type Answer = Box<[u8; 4000]>;

/// `struct snp_guest_request_ioctl`
#[repr(C)]
struct Call {
    msg_version: u8,
    req_data: u64,
    resp_data: u64,
    fw_error: u32,
    vmm_error: u32,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Failed {
    /// What the kernel said.
    pub(crate) source: io::Error,
    /// What the processor's firmware said.
    pub(crate) firmware: u32,
    /// What the host said.
    pub(crate) host: u32,
}

/// A report over these data, asked for at this privilege level.
pub(crate) fn report(device: &File, vmpl: u32, report_data: &[u8; 64]) -> Result<Answer, Failed> {
    let mut request = request(vmpl, report_data);
    // SAFETY: the request has the layout of this ioctl, and points to nothing.
    unsafe { call(device, GET_REPORT, &raw mut request) }
}

/// The same, and the host's certificates into `table`, whose length is a number of pages.
pub(crate) fn extended_report(
    device: &File,
    vmpl: u32,
    report_data: &[u8; 64],
    table: &mut [u8],
) -> Result<Answer, Failed> {
    let mut request = ExtendedRequest {
        data: request(vmpl, report_data),
        certs_address: table.as_mut_ptr().expose_provenance() as u64,
        // What is too long for the field is too long for the kernel, too.
        certs_len: u32::try_from(table.len()).unwrap_or(u32::MAX),
    };
    // SAFETY: the request has the layout of this ioctl; it points to `table` and says its length, and the kernel writes no more.
    unsafe { call(device, GET_EXTENDED_REPORT, &raw mut request) }
}

fn request(vmpl: u32, report_data: &[u8; 64]) -> Request {
    Request { user_data: *report_data, vmpl, reserved: [0; 28] }
}

/// # Safety
/// `request` is what the ioctl of this number reads and writes, and so is whatever it points to.
unsafe fn call<R>(device: &File, number: libc::Ioctl, request: *mut R) -> Result<Answer, Failed> {
    let mut answer = Box::new([0; 4000]);
    let mut call = Call {
        msg_version: MESSAGE_VERSION,
        req_data: request.expose_provenance() as u64,
        resp_data: answer.as_mut_ptr().expose_provenance() as u64,
        fw_error: 0,
        vmm_error: 0,
    };
    // SAFETY: `call` has the kernel's layout; what it points to lives until the call returns, the request by the caller's word, and
    // the answer has the 4000 bytes that the kernel writes.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), number, &raw mut call) };
    if result == 0 {
        return Ok(answer);
    }
    Err(Failed { source: io::Error::last_os_error(), firmware: call.fw_error, host: call.vmm_error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchkey_test_support::output;
    use std::mem::offset_of;
    use std::path::Path;
    use std::process::Command;

    /// Prints the header's own sizes, places and numbers, in the order of [`ours`].
    const PROBE: &str = r#"
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <linux/sev-guest.h>
#define AT(type, field) (unsigned long)offsetof(struct type, field)
int main(void) {
    unsigned long all[] = {
        SNP_GET_REPORT, SNP_GET_EXT_REPORT,
        sizeof(struct snp_report_req), AT(snp_report_req, user_data), AT(snp_report_req, vmpl),
        sizeof(struct snp_ext_report_req), AT(snp_ext_report_req, certs_address), AT(snp_ext_report_req, certs_len),
        sizeof(struct snp_guest_request_ioctl), AT(snp_guest_request_ioctl, req_data),
        AT(snp_guest_request_ioctl, resp_data), AT(snp_guest_request_ioctl, fw_error),
        AT(snp_guest_request_ioctl, vmm_error), sizeof(struct snp_report_resp), SNP_GUEST_VMM_ERR_INVALID_LEN,
    };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) printf("%lu ", all[i]);
    return 0;
}
"#;

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the type depends on the C library")]
    fn ours() -> [usize; 15] {
        [
            GET_REPORT as u32 as usize,
            GET_EXTENDED_REPORT as u32 as usize,
            size_of::<Request>(),
            offset_of!(Request, user_data),
            offset_of!(Request, vmpl),
            size_of::<ExtendedRequest>(),
            offset_of!(ExtendedRequest, certs_address),
            offset_of!(ExtendedRequest, certs_len),
            size_of::<Call>(),
            offset_of!(Call, req_data),
            offset_of!(Call, resp_data),
            offset_of!(Call, fw_error),
            offset_of!(Call, vmm_error),
            size_of::<[u8; 4000]>(),
            VMM_ERROR_TABLE_TOO_LONG as usize,
        ]
    }

    #[test]
    fn numbers_and_layouts_are_those_of_the_kernel_s_header_in_c() {
        if !Path::new("/usr/include/linux/sev-guest.h").exists() {
            return latchkey_test_support::skip("no linux/sev-guest.h (Debian: apt-get install linux-libc-dev)");
        }
        let directory = tempfile::tempdir().unwrap();
        let [source, probe] = ["probe.c", "probe"].map(|name| directory.path().join(name));
        std::fs::write(&source, PROBE).unwrap();
        let Ok(compiled) = output(Command::new("cc").arg(&source).arg("-o").arg(&probe)) else {
            return latchkey_test_support::skip("no C compiler (Debian: apt-get install gcc)");
        };
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let said = String::from_utf8(output(&mut Command::new(&probe)).unwrap().stdout).unwrap();
        let theirs: Vec<usize> = said.split_whitespace().map(|number| number.parse().unwrap()).collect();
        assert_eq!(theirs, ours());
    }

    #[test]
    fn the_privilege_level_is_the_one_that_was_asked_for() {
        assert_eq!(request(3, &[7; 64]).vmpl, 3);
    }

    #[test]
    fn what_is_no_guest_driver_is_refused() {
        let file = tempfile::tempfile().unwrap();
        assert!(report(&file, 0, &[0; 64]).is_err());
        let failed = extended_report(&file, 0, &[0; 64], &mut [0; 4096]).unwrap_err();
        assert_eq!((failed.firmware, failed.host), (0, 0));
    }
}
