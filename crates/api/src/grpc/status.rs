//! gRPC status codes and the errors that calls end with.

use std::fmt;

/// The canonical codes (gRPC, `doc/statuscodes.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// The caller gave up, or went away.
    Cancelled = 1,
    /// An error nobody classified.
    Unknown = 2,
    /// The request is wrong, whatever state the service is in.
    InvalidArgument = 3,
    /// Time ran out before the call was done.
    DeadlineExceeded = 4,
    /// What was asked for does not exist.
    NotFound = 5,
    /// What was to be made exists.
    AlreadyExists = 6,
    /// The caller is known and may not do this.
    PermissionDenied = 7,
    /// A quota, rate or size limit is reached.
    ResourceExhausted = 8,
    /// The service is not in the state this call needs; do not retry before that changed.
    FailedPrecondition = 9,
    /// Concurrent work got in the way; start over.
    Aborted = 10,
    /// Past the valid range.
    OutOfRange = 11,
    /// No such method, or a feature that is not supported.
    Unimplemented = 12,
    /// An invariant is broken, on either side.
    Internal = 13,
    /// Nobody answers at the moment; retry with back-off.
    Unavailable = 14,
    /// Data is lost for good.
    DataLoss = 15,
    /// The caller has no valid credentials.
    Unauthenticated = 16,
}

impl Code {
    /// The code of a `grpc-status` value; numbers nobody defined are [`Code::Unknown`].
    pub fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Ok,
            1 => Self::Cancelled,
            3 => Self::InvalidArgument,
            4 => Self::DeadlineExceeded,
            5 => Self::NotFound,
            6 => Self::AlreadyExists,
            7 => Self::PermissionDenied,
            8 => Self::ResourceExhausted,
            9 => Self::FailedPrecondition,
            10 => Self::Aborted,
            11 => Self::OutOfRange,
            12 => Self::Unimplemented,
            13 => Self::Internal,
            14 => Self::Unavailable,
            15 => Self::DataLoss,
            16 => Self::Unauthenticated,
            _ => Self::Unknown,
        }
    }

    /// The value for `grpc-status`.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The canonical name, e.g. `INVALID_ARGUMENT`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a call failed: the code for programs, the message for humans. Both cross the wire; put no secret in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    code: Code,
    message: String,
}

macro_rules! constructors {
    ($($name:ident: $code:ident),* $(,)?) => {
        $(
            #[doc = concat!("A failure with [`Code::", stringify!($code), "`].")]
            pub fn $name(message: impl Into<String>) -> Self {
                Self::new(Code::$code, message)
            }
        )*
    };
}

impl Status {
    /// A failure. [`Code::Ok`] is not one and becomes [`Code::Unknown`].
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let code = if code == Code::Ok { Code::Unknown } else { code };
        Self { code, message: message.into() }
    }

    constructors! {
        aborted: Aborted,
        already_exists: AlreadyExists,
        cancelled: Cancelled,
        deadline_exceeded: DeadlineExceeded,
        failed_precondition: FailedPrecondition,
        internal: Internal,
        invalid_argument: InvalidArgument,
        not_found: NotFound,
        permission_denied: PermissionDenied,
        resource_exhausted: ResourceExhausted,
        unauthenticated: Unauthenticated,
        unavailable: Unavailable,
        unimplemented: Unimplemented,
        unknown: Unknown,
    }

    /// What a service answers to a method it does not have.
    pub fn unknown_method(service: &str, method: &str) -> Self {
        Self::unimplemented(format!("service {service} has no method {method}"))
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Status {}
