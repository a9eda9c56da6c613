//! Gets what belongs to a report: from AMD's key distribution service, from a mirror of it, or from a directory with its paths; and
//! what belongs to a TDX quote: from Intel's service, or a mirror of it.
//!
//! Nothing is kept that does not verify: each file must be the one that was asked for, all must hold together, and report or quote
//! must verify with them. Only then is anything written, each file as a whole.

mod code;
mod download;
mod error;
mod kds;
mod pcs;
mod store;
mod tdx;

use std::path::{Path, PathBuf};
use std::time::Duration;

use latchkey_attestation::Refusal;
use latchkey_attestation::parse::{HostCertificates, SnpProduct, SnpReport};
use latchkey_attestation::policy::RevocationList;
use latchkey_attestation::verify::CollateralFile;
use latchkey_attestation::verify::snp::{SnpInventory, SnpKind};
use latchkey_mirror::{Address, Client, Limits};

pub use code::CollateralCode;
pub use error::FetchError;
pub use kds::KDS;
use kds::Wanted;
pub use pcs::PCS;
pub use store::State;

use crate::{CollateralError, read_file, read_files};

/// Files of a few kilobytes.
pub const LIMITS: Limits =
    Limits { connect: Duration::from_secs(15), silence: Duration::from_secs(30), whole: Duration::from_mins(1) };

/// Where collateral comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A directory with the paths of the service.
    Directory(PathBuf),
    /// An address, HTTP or HTTPS, below which they are.
    Mirror(String),
}

impl Origin {
    /// A directory, or the address of a mirror.
    ///
    /// # Errors
    /// [`FetchError::Origin`].
    pub fn parse(text: &str) -> Result<Self, FetchError> {
        if !text.contains("://") {
            return Ok(Self::Directory(text.into()));
        }
        Address::try_from(text.to_owned()).map_err(FetchError::Origin)?;
        Ok(Self::Mirror(text.trim_end_matches('/').to_owned()))
    }
}

/// A file that is there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where.
    pub path: PathBuf,
    /// Whether it was written.
    pub state: State,
}

/// Gets files from one origin.
#[derive(Debug)]
pub struct Fetcher {
    origin: Origin,
    client: Option<Client>,
    list: List,
}

/// Reads files; other roots are for tests.
struct List(Box<ReadFiles>);

type ReadFiles = dyn Fn(&[CollateralFile<'_>]) -> SnpInventory;

impl std::fmt::Debug for List {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("List")
    }
}

/// A file that came.
struct Came {
    wanted: Wanted,
    place: String,
    content: Vec<u8>,
}

impl Fetcher {
    /// Prepares to get files from there.
    ///
    /// # Errors
    /// [`FetchError::Mirror`]: nobody is trusted for HTTPS.
    pub fn new(origin: Origin, limits: Limits) -> Result<Self, FetchError> {
        let client = match &origin {
            Origin::Directory(_) => None,
            Origin::Mirror(address) => Some(Client::new(Some(address), limits)?),
        };
        Ok(Self { origin, client, list: List(Box::new(SnpInventory::new)) })
    }

    /// The same with other roots than AMD's, for tests.
    #[cfg(feature = "fake-processors")]
    #[must_use]
    pub fn with_fake_roots(self, roots: Vec<(SnpProduct, latchkey_attestation::parse::Digest)>) -> Self {
        Self { list: List(Box::new(move |files| SnpInventory::with_fake_roots(files, &roots))), ..self }
    }

    /// Gets what belongs to a report into the `snp` of a directory, which is made if it is not there, and says what lies there
    /// now. `product` is for reports that do not say it; `now` is in seconds since the Unix epoch.
    ///
    /// # Errors
    /// [`FetchError`]; then nothing was written, unless writing itself failed.
    pub fn fetch_snp(
        &self,
        report: &SnpReport,
        product: Option<SnpProduct>,
        to: &Path,
        now: u64,
    ) -> Result<Vec<Fetched>, FetchError> {
        let product = report.product().or(product).ok_or(FetchError::ProductUnsaid)?;
        let mut came = Vec::new();
        for wanted in kds::wanted(report, product)? {
            let (place, content) = self.get(&wanted)?;
            came.push(Came { wanted, place, content });
        }
        self.verify(report, product, &came, now)?;
        let directory = to.join("snp");
        let mut fetched = Vec::new();
        let newer = self.has_newer_list(&directory, &came, product, now)?;
        for Came { wanted, content, .. } in &came {
            let path = directory.join(&wanted.name);
            let state = match wanted.kinds {
                [SnpKind::Crl] if newer => State::NewerThere,
                _ => store::put(&directory, &wanted.name, content)?,
            };
            fetched.push(Fetched { path, state });
        }
        Ok(fetched)
    }

    /// All of one file, if it has no more bytes than it may.
    fn get(&self, wanted: &Wanted) -> Result<(String, Vec<u8>), FetchError> {
        let (address, client) = match (&self.origin, &self.client) {
            (Origin::Mirror(address), Some(client)) => (address, client),
            (Origin::Mirror(address), None) => return Err(FetchError::Origin(address.clone())),
            (Origin::Directory(directory), _) => {
                let path = directory.join(&wanted.path);
                let place = path.display().to_string();
                return match read_file(&path, wanted.max) {
                    Ok((_, content)) => Ok((place, content)),
                    Err(CollateralError::Unreadable { source, .. })
                        if source.kind() == std::io::ErrorKind::NotFound =>
                    {
                        Err(FetchError::Missing(place))
                    }
                    Err(CollateralError::TooLarge { .. }) => Err(FetchError::TooLarge { place, max: wanted.max }),
                    Err(error) => Err(FetchError::Directory(error)),
                };
            }
        };
        let place = format!("{address}/{}", wanted.path);
        let content = download::get(client, &place, wanted.max)?.content;
        Ok((place, content))
    }

    /// Whether each file is what was asked for, all hold together, and the report with them.
    fn verify(&self, report: &SnpReport, product: SnpProduct, came: &[Came], now: u64) -> Result<(), FetchError> {
        let files: Vec<_> =
            came.iter().map(|came| CollateralFile { name: &came.place, content: &came.content }).collect();
        let inventory = (self.list.0)(&files);
        let refused =
            |place: &str, refusal: &Refusal| FetchError::Refused { place: place.to_owned(), refusal: refusal.clone() };
        for Came { wanted, place, .. } in came {
            let mut found = Vec::new();
            for (_, item) in inventory.entries().filter(|(file, _)| file == place) {
                let item = item.map_err(|refusal| refused(place, refusal))?;
                found.push((item.kind.name(), item.product));
            }
            found.sort_unstable();
            let asked: Vec<_> = wanted.kinds.iter().map(|kind| (kind.name(), product)).collect();
            if found != asked {
                let in_words = |items: &[(&str, SnpProduct)]| {
                    items.iter().map(|(kind, product)| format!("{kind} of {product}")).collect::<Vec<_>>().join(", ")
                };
                let (found, wanted) = (in_words(&found), in_words(&asked));
                return Err(FetchError::NotAsAsked { place: place.clone(), found, wanted });
            }
        }
        // A root that is not AMD's makes everything else wrong, too: it is said first.
        let verdicts: Vec<_> = inventory.entries().map(|(file, _)| file).zip(inventory.check(now)).collect();
        let wrong = verdicts.iter().filter_map(|(file, verdict)| Some((*file, verdict.as_ref().err()?)));
        let unknown = latchkey_attestation::ReasonCode::CollateralRootUnknown;
        if let Some((place, refusal)) = wrong.min_by_key(|(_, refusal)| refusal.code() != unknown) {
            return Err(refused(place, refusal));
        }
        let Some(key) = came.iter().find(|came| came.wanted.kinds == [SnpKind::Vcek]) else { return Ok(()) };
        let host = HostCertificates { vcek: Some(&key.content), vlek: None };
        let verified = inventory.into_collateral().and_then(|collateral| {
            collateral.verify(report, host, &report.report_data(), RevocationList::Demanded, now)
        });
        verified.map(drop).map_err(|refusal| refused(&key.place, &refusal))
    }

    /// Whether the directory has a good list of the product that is newer than the one that came: a mirror may be behind.
    fn has_newer_list(
        &self,
        directory: &Path,
        came: &[Came],
        product: SnpProduct,
        now: u64,
    ) -> Result<bool, FetchError> {
        if !directory.exists() {
            return Ok(false);
        }
        let there = read_files(directory).map_err(FetchError::Directory)?;
        let there = there.iter().map(|(name, content)| CollateralFile { name, content });
        let new = came.iter().map(|came| CollateralFile { name: NEW, content: &came.content });
        let files: Vec<_> = there.chain(new).collect();
        let inventory = (self.list.0)(&files);
        let lists = inventory.entries().zip(inventory.check(now)).filter_map(|((file, item), verdict)| {
            let item = item.ok().filter(|item| item.kind == SnpKind::Crl && item.product == product)?;
            verdict.is_ok().then_some((file == NEW, item.validity.from))
        });
        let lists: Vec<_> = lists.collect();
        let newest = |new: bool| lists.iter().filter(|(is_new, _)| *is_new == new).map(|(_, from)| *from).max();
        Ok(newest(false) > newest(true))
    }
}

/// The name, among those of a directory, of what came; no path is empty.
const NEW: &str = "";
