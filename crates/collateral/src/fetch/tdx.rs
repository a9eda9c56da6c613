//! Gets what belongs to a TDX quote, from Intel's service or a mirror of it.

use std::path::Path;

use latchkey_attestation::verify::CollateralFile;
use latchkey_attestation::verify::tdx::{TdxInventory, TdxKind, TdxOf, TdxQuote};
use latchkey_attestation::{ReasonCode, Refusal};

use super::pcs::{self, Holds};
use super::{FetchError, Fetched, Fetcher, NEW, Origin, State, download, store};
use crate::{TDX, read_files, tdx_inventory};

/// A file that came, by itself or in a header.
struct Came {
    name: String,
    place: String,
    holds: Holds,
    content: Vec<u8>,
}

impl Fetcher {
    /// Gets what belongs to a quote into the `tdx` of a directory, which is made if it is not there, and says what lies there now.
    /// `now` is in seconds since the Unix epoch.
    ///
    /// # Errors
    /// [`FetchError`]; then nothing was written, unless writing itself failed.
    pub fn fetch_tdx(&self, quote: &[u8], to: &Path, now: u64) -> Result<Vec<Fetched>, FetchError> {
        let parsed = TdxQuote::parse(quote).map_err(|refusal| refused(QUOTE, &refusal))?;
        let came = self.get_all(&parsed)?;
        verify(to, (quote, &parsed), &came, now)?;
        let directory = to.join(TDX);
        let newer = newer_there(to, &came, now)?;
        let mut fetched = Vec::new();
        for (Came { name, content, .. }, newer) in came.iter().zip(newer) {
            let state = if newer { State::NewerThere } else { store::put(&directory, name, content)? };
            fetched.push(Fetched { path: directory.join(name), state });
        }
        Ok(fetched)
    }

    fn get_all(&self, quote: &TdxQuote) -> Result<Vec<Came>, FetchError> {
        let (Origin::Mirror(address), Some(client)) = (&self.origin, &self.client) else {
            let what =
                "Intel's files are not taken from a directory: their chains come in headers; copy DIR/tdx itself";
            return Err(FetchError::Origin(what.to_owned()));
        };
        let mut came = Vec::new();
        for wanted in pcs::wanted(quote, address) {
            let (place, header) = (wanted.address, wanted.chain.as_ref().map(|chain| chain.header));
            let file = download::get_with(client, &place, wanted.max, header)?;
            if let Some(pcs::Chain { header, name, holds }) = wanted.chain {
                let wrong = |what| FetchError::Header { place: place.clone(), header, what };
                let content = pcs::chain(&file.header.ok_or(wrong("is missing, or not there once"))?).map_err(wrong)?;
                came.push(Came { name, place: format!("{place}, header {header}"), holds, content });
            }
            came.push(Came { name: wanted.name, place, holds: wanted.holds, content: file.content });
        }
        Ok(came)
    }
}

/// Whether each file is what was asked for, all hold together, and the quote with them.
fn verify(to: &Path, (quote, parsed): (&[u8], &TdxQuote), came: &[Came], now: u64) -> Result<(), FetchError> {
    let files: Vec<_> = came.iter().map(|came| CollateralFile { name: &came.place, content: &came.content }).collect();
    let inventory = tdx_inventory(to, &files);
    // A root that is not Intel's makes everything else wrong, too: it is said first.
    let unknown = bad(&inventory).find(|(_, refusal)| refusal.code() == ReasonCode::CollateralRootUnknown);
    if let Some((place, refusal)) = unknown.or_else(|| bad(&inventory).next()) {
        return Err(refused(place, refusal));
    }
    for Came { place, holds: asked, .. } in came {
        let items = inventory.entries().filter(|(file, _)| file == place).filter_map(|(_, item)| item.ok());
        let mut found: Holds = items.map(|item| (item.kind, item.of)).collect();
        found.sort_unstable_by_key(|(kind, _)| *kind != TdxKind::Root);
        if found != *asked {
            let (found, wanted) = (in_words(&found), in_words(asked));
            return Err(FetchError::NotAsAsked { place: place.clone(), found, wanted });
        }
    }
    for ((place, _), verdict) in inventory.entries().zip(inventory.check(now)) {
        verdict.map_err(|refusal| refused(place, &refusal))?;
    }
    let verified =
        inventory.into_collateral().and_then(|collateral| collateral.verify(quote, &parsed.report_data(), now));
    verified.map(drop).map_err(|refusal| refused(QUOTE, &refusal))
}

/// Of each file, whether the directory has a good one that is newer: a mirror may be behind. With what lies there what came must hold,
/// too.
fn newer_there(to: &Path, came: &[Came], now: u64) -> Result<Vec<bool>, FetchError> {
    let directory = to.join(TDX);
    if !directory.exists() {
        return Ok(vec![false; came.len()]);
    }
    let there = read_files(&directory).map_err(FetchError::Directory)?;
    let there = there.iter().map(|(name, content)| CollateralFile { name, content });
    let new = came.iter().map(|came| CollateralFile { name: NEW, content: &came.content });
    let files: Vec<_> = there.chain(new).collect();
    let inventory = tdx_inventory(to, &files);
    let mut good = Vec::new();
    for ((file, item), verdict) in inventory.entries().zip(inventory.check(now)) {
        match item {
            Ok(item) if verdict.is_ok() => good.push((file == NEW, item)),
            // By a newer certificate of Intel's that lies there.
            Err(refusal) if file == NEW => return Err(refused("what came, with what is there", refusal)),
            _ => {}
        }
    }
    let newest = |is_new: bool, holds: (TdxKind, TdxOf)| {
        let same = good.iter().filter(|(new, item)| *new == is_new && (item.kind, item.of) == holds);
        same.map(|(_, item)| item.validity.from).max()
    };
    let newer = |came: &Came| came.holds.iter().any(|holds| newest(false, *holds) > newest(true, *holds));
    Ok(came.iter().map(newer).collect())
}

fn bad(inventory: &TdxInventory) -> impl Iterator<Item = (&str, &Refusal)> {
    inventory.entries().filter_map(|(file, item)| Some((file, item.err()?)))
}

fn in_words(items: &[(TdxKind, TdxOf)]) -> String {
    let words: Vec<_> = items.iter().map(|(kind, of)| format!("{} of {of}", kind.name())).collect();
    words.join(", ")
}

fn refused(place: &str, refusal: &Refusal) -> FetchError {
    FetchError::Refused { place: place.to_owned(), refusal: refusal.clone() }
}

const QUOTE: &str = "the quote";
