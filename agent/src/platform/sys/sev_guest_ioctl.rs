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

/// A report over these data.
pub(crate) fn report(device: &File, report_data: &[u8; 64]) -> Result<Answer, Failed> {
    let mut request = request(report_data);
    // SAFETY: the request has the layout of this ioctl, and points to nothing.
    unsafe { call(device, GET_REPORT, &raw mut request) }
}

/// The same, and the host's certificates into `table`, whose length is a number of pages.
pub(crate) fn extended_report(device: &File, report_data: &[u8; 64], table: &mut [u8]) -> Result<Answer, Failed> {
    let mut request = ExtendedRequest {
        data: request(report_data),
        certs_address: table.as_mut_ptr().expose_provenance() as u64,
        // What is too long for the field is too long for the kernel, too.
        certs_len: u32::try_from(table.len()).unwrap_or(u32::MAX),
    };
    // SAFETY: the request has the layout of this ioctl; it points to `table` and says its length, and the kernel writes no more.
    unsafe { call(device, GET_EXTENDED_REPORT, &raw mut request) }
}

fn request(report_data: &[u8; 64]) -> Request {
    Request { user_data: *report_data, vmpl: 0, reserved: [0; 28] }
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

    #[test]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the type depends on the C library")]
    fn numbers_and_layouts_are_those_of_the_kernel_headers() {
        assert_eq!((GET_REPORT as u32, GET_EXTENDED_REPORT as u32), (0xc020_5300, 0xc020_5302));
        assert_eq!((size_of::<Request>(), size_of::<ExtendedRequest>(), size_of::<Call>()), (96, 112, 32));
    }

    #[test]
    fn what_is_no_guest_driver_is_refused() {
        let file = tempfile::tempfile().unwrap();
        assert!(report(&file, &[0; 64]).is_err());
        let failed = extended_report(&file, &[0; 64], &mut [0; 4096]).unwrap_err();
        assert_eq!((failed.firmware, failed.host), (0, 0));
    }
}
