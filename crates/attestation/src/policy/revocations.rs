//! What authorities of TPMs revoked: lists of endorsement-key and attestation-key certificates, and of intermediates.

use std::collections::BTreeSet;

use latchkey_pem::PemSection;
use webpki::{
    CertRevocationList, Error, ExpirationPolicy, OwnedCertRevocationList, RevocationOptionsBuilder, UnknownStatusPolicy,
};
#[cfg(feature = "processors")]
use x509_cert::{
    crl::CertificateList,
    der::{Decode as _, Encode as _},
};

#[cfg(feature = "processors")]
use super::Policy;
use super::RevocationList;
#[cfg(feature = "processors")]
use crate::reference::format_rfc3339;
use crate::refusal::{ReasonCode, Refusal};
use crate::verify::chain_words;
#[cfg(feature = "processors")]
use crate::verify::{Validity, common_name, sha256};

/// Lists of revoked certificates (RFC 5280, section 5): a snapshot, made of files once. Whether a list is its authority's is known
/// when a chain leads to that authority.
#[derive(Debug, Default)]
pub struct TpmRevocations {
    lists: Vec<CertRevocationList<'static>>,
    #[cfg(feature = "processors")]
    dated: Vec<TpmList>,
}

/// One of these lists, as it describes itself.
#[cfg(feature = "processors")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TpmList {
    /// The file that it is in.
    pub file: String,
    /// Whose it is: the common name of its issuer, or the SHA-256 of an issuer's name that has none.
    pub of: String,
    /// The issuer's name, in DER.
    pub(crate) issuer: Vec<u8>,
    /// `thisUpdate` to `nextUpdate`.
    pub validity: Validity,
}

#[cfg(feature = "processors")]
impl TpmList {
    fn read(file: &str, der: &[u8]) -> Result<Self, Refusal> {
        let list = <CertificateList>::from_der(der).map_err(|error| malformed(file, &error.to_string()))?;
        let validity = Validity::of_list(&list).ok_or_else(|| malformed(file, "a list without `nextUpdate`"))?;
        let issuer = list.tbs_cert_list.issuer.to_der().map_err(|error| malformed(file, &error.to_string()))?;
        let of = common_name(&issuer).unwrap_or_else(|| sha256(&issuer).to_string());
        Ok(Self { file: file.to_owned(), of, issuer, validity })
    }

    /// Whether it counts still at `now`, in seconds since the Unix epoch: who is certified by its authority is refused when it ended.
    ///
    /// # Errors
    /// `tpm-revocation-list-expired`.
    pub fn check(&self, now: u64) -> Result<(), Refusal> {
        let Validity { to, .. } = self.validity;
        if now < to {
            return Ok(());
        }
        let detail = format!("the list of what {} revoked ended at {}", self.of, format_rfc3339(to));
        Err(Refusal::new(ReasonCode::TpmRevocationListExpired, detail))
    }
}

impl TpmRevocations {
    /// Reads files, each of one list in DER, or of any number in PEM. Of one authority there is one list: an older one beside it
    /// could be the one that counts. A list of a part of what was revoked counts for certificates that name that part.
    ///
    /// # Errors
    /// `collateral-malformed` names the file.
    pub fn new(files: &[(&str, &[u8])]) -> Result<Self, Refusal> {
        let (mut lists, mut seen) = (Vec::new(), BTreeSet::new());
        #[cfg(feature = "processors")]
        let mut dated = Vec::new();
        for (name, content) in files {
            if content.len() > MAX_FILE {
                return Err(malformed(name, &format!("{} bytes, at most {MAX_FILE}", content.len())));
            }
            for der in ders(name, content)? {
                if lists.len() == MAX_LISTS {
                    return Err(malformed(name, &format!("more than {MAX_LISTS} lists")));
                }
                let list =
                    OwnedCertRevocationList::from_der(&der).map_err(|error| malformed(name, &chain_words(&error)))?;
                let list = CertRevocationList::from(list);
                if !seen.insert(list.issuer().to_vec()) {
                    return Err(malformed(
                        name,
                        "another list of an authority that has one; keep the newer of the two",
                    ));
                }
                #[cfg(feature = "processors")]
                dated.push(TpmList::read(name, &der)?);
                lists.push(list);
            }
        }
        Ok(Self {
            lists,
            #[cfg(feature = "processors")]
            dated,
        })
    }

    /// The lists, each with whose it is and its dates.
    #[cfg(feature = "processors")]
    pub fn dated(&self) -> &[TpmList] {
        &self.dated
    }

    /// Which list ends first, and when, in seconds since the Unix epoch: from then on nobody is let in whom its authority certified.
    /// Nothing under a policy that trusts no authority.
    #[cfg(feature = "processors")]
    pub fn first_end(&self, policy: &Policy) -> Option<(String, u64)> {
        let first = self.dated.iter().min_by_key(|list| list.validity.to).filter(|_| policy.trusts_authority())?;
        Some((format!("the list of what the TPMs' authority {} revoked", first.of), first.validity.to))
    }

    /// The first list of `before` that is not here, or here in an older issue, in words: in its place a certificate that was revoked
    /// would be good again.
    #[cfg(feature = "processors")]
    pub fn first_lost(&self, before: &Self) -> Option<String> {
        before.dated.iter().find_map(|old| match self.dated.iter().find(|new| new.issuer == old.issuer) {
            None => Some(format!("the list of what {} revoked is gone", old.of)),
            Some(new) if new.validity.from < old.validity.from => {
                let (of, from) = (&old.of, format_rfc3339(old.validity.from));
                Some(format!("the list of what {of} revoked is older than that of {from}"))
            }
            Some(_) => None,
        })
    }

    /// How many lists there are.
    pub fn count(&self) -> usize {
        self.lists.len()
    }

    /// Calls `check` with what a path is held against, if there is anything.
    pub(crate) fn with_options<T>(
        &self,
        rule: RevocationList,
        check: impl FnOnce(Option<webpki::RevocationOptions<'_>>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let lists: Vec<_> = self.lists.iter().collect();
        let unknown = match rule {
            RevocationList::Demanded => UnknownStatusPolicy::Deny,
            RevocationList::IfThere => UnknownStatusPolicy::Allow,
        };
        let options = RevocationOptionsBuilder::new(&lists).map(|builder| {
            builder.with_status_policy(unknown).with_expiration_policy(ExpirationPolicy::Enforce).build()
        });
        match (options, rule) {
            (Ok(options), _) => check(Some(options)),
            (Err(_), RevocationList::IfThere) => check(None),
            (Err(_), RevocationList::Demanded) => Err(Error::UnknownRevocationStatus),
        }
    }
}

fn ders(name: &str, content: &[u8]) -> Result<Vec<Vec<u8>>, Refusal> {
    if !PemSection::is_in(content) {
        return Ok(vec![content.to_vec()]);
    }
    let sections = PemSection::all(content).map_err(|error| malformed(name, &error.to_string()))?;
    if let Some(other) = sections.iter().find(|section| section.label != "X509 CRL") {
        let why = format!("line {}: something else than a list of revoked certificates (`X509 CRL`)", other.line);
        return Err(malformed(name, &why));
    }
    Ok(sections.into_iter().map(|section| section.der).collect())
}

fn malformed(name: &str, why: &str) -> Refusal {
    Refusal::new(ReasonCode::CollateralMalformed, format!("{name}: {why}"))
}

/// Vendors' lists have some KiB.
const MAX_FILE: usize = 1024 * 1024;
/// A list for each authority of a large site. Each is compared with each certificate of a path.
const MAX_LISTS: usize = 256;
