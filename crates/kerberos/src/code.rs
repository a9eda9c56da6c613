//! Why Kerberos did not do what it was asked.

use latchkey_reason::{ReasonCode as _, reason_codes};

reason_codes! {
    /// Why a password, a token or a request of an administrator was not taken.
    pub enum KerberosCode {
        /// The password is not that of the principal.
        WrongPassword = "kerberos-wrong-password": "give the password of this principal";
        /// The KDC does not know the principal.
        PrincipalUnknown = "kerberos-principal-unknown": "check the name, and the realm after the @";
        /// The principal's time is over.
        PrincipalExpired = "kerberos-principal-expired": "let an administrator give the principal a later end, or none";
        /// The password's time is over.
        PasswordExpired = "kerberos-password-expired": "set a new password for this principal";
        /// Disabled by an administrator, or locked after too many wrong passwords.
        PrincipalRevoked = "kerberos-principal-revoked": "let an administrator enable or unlock the principal";
        /// The KDC's policy forbids it.
        PolicyRefused = "kerberos-policy-refused": "ask whoever runs the KDC which policy this principal has";
        /// A name with characters or a length that this realm does not use.
        PrincipalNotAccepted = "kerberos-principal-not-accepted": "use a principal of letters, digits, '-', '_', '.' and '/', and no anonymous one";
        /// No KDC of the realm answers.
        KdcUnreachable = "kerberos-kdc-unreachable": "start krb5kdc, and check the addresses of the realm in krb5.conf";
        /// The clocks of KDC, client or this machine differ by more than five minutes.
        ClockSkew = "kerberos-clock-skew": "set the clocks of the KDC, the client and this machine, with NTP for example";
        /// What answered as the KDC does not have the service's key.
        KdcNotGenuine = "kerberos-kdc-not-genuine": "check the KDC's addresses in krb5.conf; where they are right, write the service's keytab again";
        /// There is no keytab, or it cannot be read.
        KeytabMissing = "kerberos-keytab-missing": "write the service's keytab where the configuration says, readable for this service only";
        /// The keytab has no key, or an older one, for the service.
        KeytabKeyMissing = "kerberos-keytab-key-missing": "write the service's keytab again, since its key in the KDC is another one";
        /// The KDC does not know the service itself, or has disabled it.
        ServiceUnknown = "kerberos-service-unknown": "create the service's principal in the KDC, and its keytab";
        /// No GSSAPI token, or none of Kerberos.
        TokenMalformed = "kerberos-token-malformed": "send a Negotiate token of Kerberos, not of NTLM";
        /// The same token again.
        TokenReplayed = "kerberos-token-replayed": "make a new Negotiate token for each request";
        /// The ticket in it has ended, or not begun.
        TokenExpired = "kerberos-token-expired": "get a new ticket with kinit";
        /// The client's mechanism wants more than one exchange.
        TokenIncomplete = "kerberos-token-incomplete": "let the client use Kerberos directly, which needs one exchange";
        /// An MIT library is not installed.
        LibraryMissing = "kerberos-library-missing": "install the Debian packages libkrb5-3, libgssapi-krb5-2 and libkadm5clnt-mit12";
        /// krb5.conf cannot be read, or does not name the realm.
        ConfigurationBad = "kerberos-configuration-bad": "correct krb5.conf, and name the realm and its KDC there";
        /// The helper's program cannot be started.
        HelperMissing = "kerberos-helper-missing": "install latchkey-kerberos-helper where the configuration says";
        /// The helper ended, or spoke another language, while it worked for this request.
        HelperFailed = "kerberos-helper-failed": "try again; if it goes on, look at the log for what the helper said last";
        /// No answer in time.
        TimedOut = "kerberos-timed-out": "try again; if it goes on, check that the KDC answers";
        /// Too many requests wait.
        Busy = "kerberos-busy": "try again later; where it is usual, allow more helpers";
        /// kadmind does not answer.
        KadmindUnreachable = "kerberos-kadmind-unreachable": "start kadmind, and check admin_server of the realm in krb5.conf";
        /// kadmind's ACL does not let the administrator do this.
        AdminRefused = "kerberos-admin-refused": "add the right to kadm5.acl, and restart kadmind";
        /// There is such a principal already.
        PrincipalExists = "kerberos-principal-exists": "choose another name, or change the principal that exists";
        /// The password breaks the policy of kadmind.
        PasswordRefused = "kerberos-password-refused": "choose a longer password, of more kinds of characters, that was not used before";
        /// Anything else that MIT's libraries report.
        Failed = "kerberos-failed": "look at the detail, and at the logs of krb5kdc and kadmind";
    }
}

impl KerberosCode {
    /// Whether the request was not judged: it may be good, and the same again may succeed. Others are refusals.
    pub fn is_outage(self) -> bool {
        use KerberosCode as C;
        match self {
            C::WrongPassword
            | C::PrincipalUnknown
            | C::PrincipalExpired
            | C::PasswordExpired
            | C::PrincipalRevoked
            | C::PolicyRefused
            | C::PrincipalNotAccepted
            | C::TokenMalformed
            | C::TokenReplayed
            | C::TokenExpired
            | C::TokenIncomplete
            | C::AdminRefused
            | C::PrincipalExists
            | C::PasswordRefused => false,
            C::KdcUnreachable
            | C::ClockSkew
            | C::KdcNotGenuine
            | C::KeytabMissing
            | C::KeytabKeyMissing
            | C::ServiceUnknown
            | C::LibraryMissing
            | C::ConfigurationBad
            | C::HelperMissing
            | C::HelperFailed
            | C::TimedOut
            | C::Busy
            | C::KadmindUnreachable
            | C::Failed => true,
        }
    }

    /// Its number on the helper's pipe.
    pub(crate) fn number(self) -> u8 {
        let place = Self::ALL.iter().position(|code| *code == self);
        place.and_then(|place| u8::try_from(place).ok()).unwrap_or(u8::MAX)
    }

    pub(crate) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}
