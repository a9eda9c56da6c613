//! The errors of MIT's libraries as reason codes.

use latchkey_kerberos::KerberosCode;

/// The error tables `krb5` and `ovk` (kadm5) begin here; the numbers below are offsets into them (krb5.h, `kadm_err.h`).
const KRB5: i64 = -1_765_328_384;
const KADM5: i64 = 43_787_520;

/// The reason code of an error of libkrb5 or libkadm5clnt.
pub(crate) fn code(error: i64) -> KerberosCode {
    use KerberosCode as C;
    if let Some(code) = kadm5(error - KADM5) {
        return code;
    }
    match error - KRB5 {
        1 => C::PrincipalExpired,
        // The service's name has expired, or the service is unknown, or disabled.
        2 | 7 | 19 => C::ServiceUnknown,
        6 => C::PrincipalUnknown,
        12 => C::PolicyRefused,
        18 => C::PrincipalRevoked,
        23 => C::PasswordExpired,
        // Pre-authentication failed; or, without any, what the KDC sent cannot be decrypted; or no way of the first worked.
        24 | 31 | 210 => C::WrongPassword,
        29 | 156 | 220 => C::KdcUnreachable,
        32 | 33 => C::TokenExpired,
        34 => C::TokenReplayed,
        37 | 148 => C::ClockSkew,
        // Not for us, wrong version of the key, no key, wrong principal.
        35 | 44 | 45 | 144 | 181 | 230 => C::KeytabKeyMissing,
        // No default realm, unknown realm, no file, bad file.
        135 | 136 | 154 | 224 => C::ConfigurationBad,
        179 | 180 | 184 | 229 | 235 => C::KeytabMissing,
        _ if error == 2 || error == 13 => C::KeytabMissing,
        _ => C::Failed,
    }
}

fn kadm5(offset: i64) -> Option<KerberosCode> {
    use KerberosCode as C;
    Some(match offset {
        // Each of kadmind's rights, the administrator's own password, protected keys.
        1..=5 | 30 | 44 | 45 | 50 | 60..=62 => C::AdminRefused,
        7 => C::PrincipalExists,
        // RPC, no server, not initialised, bad handle, GSS, name, cannot resolve.
        8 | 9 | 11 | 31 | 46 | 49 | 56 => C::KadmindUnreachable,
        12 => C::PrincipalUnknown,
        // Bad, too short, too few classes, in a dictionary, used before, too soon, other.
        22..=26 | 29 | 57 => C::PasswordRefused,
        48 | 54 => C::ConfigurationBad,
        0..=62 => C::Failed,
        _ => return None,
    })
}
