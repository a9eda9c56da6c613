//! The command that gets a script and runs it: the one place that makes it, for the page, the command line and the API.

use super::{Authorities, ReaderScript, is_plain};

/// Where a script is, and how a machine knows that it comes from there.
///
/// Where machines know the authority of the centre's certificate, one line gets the script. Where it is the centre's own, the
/// command carries it as a here-document that is curl's standard input: nothing is written to a file, and curl believes no other
/// certificate, whereas `--pinnedpubkey` would end with the certificate's key, and needs `--insecure`.
#[derive(Debug, Clone, Copy)]
pub struct BootstrapCommand<'a> {
    url: &'a str,
    authorities: Option<&'a Authorities>,
}

impl<'a> BootstrapCommand<'a> {
    /// `authorities` are those of a certificate that machines do not know. `None` for a URL that is none, or has a character that
    /// means something to a shell.
    pub fn new(url: &'a str, authorities: Option<&'a Authorities>) -> Option<Self> {
        let good = is_plain(url) && (url.starts_with("https://") || url.starts_with("http://"));
        good.then_some(Self { url, authorities })
    }

    /// The command for a POSIX shell; its last line has no end.
    pub fn text(self) -> String {
        self.with(str::to_owned, "-fsS", "| sh -")
    }

    /// The same, but nothing runs that has another hash.
    /// Nobody else may read the file: the script has the link's token.
    pub fn checked(self, script: &ReaderScript) -> String {
        let hash = script.sha256();
        let then = format!("&& echo \"{hash}  bootstrap.sh\" | sha256sum -c - && sh bootstrap.sh");
        self.with(|curl| format!("(umask 077 && {curl})"), "-fsSo bootstrap.sh", &then)
    }

    /// `around` is put around the call of curl.
    fn with(self, around: impl Fn(&str) -> String, options: &str, then: &str) -> String {
        let (url, mark) = (self.url, Authorities::MARK);
        match self.authorities {
            None => format!("{} {then}", around(&format!("curl {options} {url}"))),
            Some(authorities) => {
                let call = around(&format!("curl {options} --cacert /dev/stdin {url}"));
                format!("{call} <<'{mark}' {then}\n{pem}{mark}", pem = authorities.pem())
            }
        }
    }
}
