//! In place of the unwinder. The agent that ships aborts on a panic and has no unwind tables (`build.rs`), so that nothing can walk its
//! stack: by these answers the linker knows, and leaves out what would read tables and debugging information for a backtrace
//! (the unwinder and std's symbolizer).
//!
//! The functions are those of the Itanium C++ ABI: Exception Handling, level I, that std calls or names.
#![expect(unsafe_code, reason = "an unwinder is found by the names of its functions")]

use std::ffi::{c_int, c_void};

/// `_URC_END_OF_STACK`.
const END_OF_STACK: c_int = 5;

/// Nothing is on the stack.
// SAFETY: the name is the unwinder's, and this program has no other one.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Backtrace(_each: *const c_void, _argument: *mut c_void) -> c_int {
    END_OF_STACK
}

macro_rules! nowhere {
    ($($name:ident)*) => {$(
        /// Of a place on the stack, which there is none of.
        // SAFETY: the name is the unwinder's, and this program has no other one. It is called by nobody, since `_Unwind_Backtrace` calls
        // nothing and nothing is thrown; and whatever it is given it does not look at, and does not return.
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> usize {
            std::process::abort()
        }
    )*};
}

nowhere! {
    _Unwind_DeleteException
    _Unwind_FindEnclosingFunction
    _Unwind_GetCFA
    _Unwind_GetDataRelBase
    _Unwind_GetIP
    _Unwind_GetIPInfo
    _Unwind_GetLanguageSpecificData
    _Unwind_GetRegionStart
    _Unwind_GetTextRelBase
    _Unwind_RaiseException
    _Unwind_Resume
    _Unwind_SetGR
    _Unwind_SetIP
}
