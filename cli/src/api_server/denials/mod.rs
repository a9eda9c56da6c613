//! Who is shut out, and how many are counted, as two objects: see `latchkey_cluster_store::CountedDenials`.

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::objects::{CLUSTER_MAP, DENIED_MAP, PENDING_MAP, REVISIONS_MAP};
use latchkey_cluster_store::{ClusterFile, CountedDenials, Denials, PlaceCode};

use super::objects::{ConfigMap, Data};
use super::{CLUSTER_FILE, Maps, TRIES, malformed, others_first};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;

/// Documents that may be begun anew with nothing in them, by an operator who was shown that they are gone.
pub(super) const MAY_BE_EMPTY: [&str; 3] = [DENIED_MAP, REVISIONS_MAP, PENDING_MAP];

/// What is done to these two, of which each is changed by itself: another may come in between each two steps, and any step may be the last.
pub(crate) trait DenialMaps: Maps {
    /// TPMs that are shut out. That the cluster's document cannot be read says nothing of their number.
    async fn denied(&self) -> Result<Denials, CommandError> {
        // In this order: a denial is counted before it is listed.
        let counted = match self.cluster_document().await {
            Err(error) if error.code != CommandCode::FileMalformed.into() => return Err(error),
            cluster => cluster.ok().flatten().and_then(|(_, cluster)| cluster.denials),
        };
        self.listed(counted).await
    }

    /// Why this one is.
    async fn reason_of_denial(&self, ek: EkDigest) -> Result<String, CommandError> {
        let data = self.data(DENIED_MAP).await?;
        let denial = data.into_iter().find(|(name, _)| Denials::of_names([name]).has(&ek));
        Ok(denial.map(|(_, reason)| reason.trim_end().to_owned()).unwrap_or_default())
    }

    /// Shuts a TPM out: counted first, and listed whether that could be done or not.
    async fn shut_out(&self, ek: EkDigest, reason: &str) -> Result<(), CommandError> {
        let counted = self.recount(|known, counted| counted.with(ek, known)).await;
        let half = |code: PlaceCode, what: &str, error: &CommandError| {
            let failure = CommandError::new(Exit::Failed, code, what).because(&error.what);
            error.because.iter().fold(failure, CommandError::because)
        };
        match (counted, self.list(ek, reason).await) {
            (Ok(_), Ok(())) => Ok(()),
            (Err(error), Ok(())) => {
                Err(half(PlaceCode::NotCounted, "the machine is shut out, and that is not counted", &error))
            }
            // The cluster's document names it.
            (Ok(true), Err(error)) => {
                Err(half(PlaceCode::NotListed, "the machine is shut out, and that is not listed", &error))
            }
            (Ok(false) | Err(_), Err(error)) => Err(error),
        }
    }

    /// Lists one that is shut out, with a new revision even where it is listed so already: who takes the denial back may have read the
    /// document before this one was counted, and must not be able to write it any more.
    async fn list(&self, ek: EkDigest, reason: &str) -> Result<(), CommandError> {
        for _ in 0..TRIES {
            let mut map = self.known(DENIED_MAP).await?.ok_or_else(|| self.is_gone(DENIED_MAP))?;
            map.data.insert(ek.to_string(), reason.to_owned());
            map.say_what_it_replaces();
            if self.put_document(&map).await? {
                return Ok(());
            }
        }
        Err(others_first(DENIED_MAP))
    }

    /// Whether it was denied.
    async fn take_denial_back(&self, ek: EkDigest) -> Result<bool, CommandError> {
        let known = self.denied().await?;
        if !known.has(&ek) && !known.is_leaving(&ek) {
            return Ok(false);
        }
        self.recount(|known, counted| counted.without(ek, known)).await?;
        self.unlist(ek).await?;
        self.recount(|known, counted| counted.settled(known)).await?;
        Ok(true)
    }

    /// Removes the entry of one that leaves; one that was denied again meanwhile stays.
    async fn unlist(&self, ek: EkDigest) -> Result<(), CommandError> {
        for _ in 0..TRIES {
            // In this order: who denies it again says so in the cluster's document first.
            let mut map = self.known(DENIED_MAP).await?.ok_or_else(|| self.is_gone(DENIED_MAP))?;
            let counted = self.cluster_document().await?.and_then(|(_, cluster)| cluster.denials);
            let before = map.data.len();
            map.data.retain(|name, _| !Denials::of_names([name]).has(&ek));
            let is_denied_again = counted.is_some_and(|counted| !counted.leaving.contains(&ek));
            if is_denied_again || map.data.len() == before || self.put_document(&map).await? {
                return Ok(());
            }
        }
        Err(others_first(DENIED_MAP))
    }

    /// Which of the documents are gone that may be begun anew.
    async fn missing_documents(&self) -> Result<Vec<String>, CommandError> {
        let mut missing = Vec::new();
        for name in MAY_BE_EMPTY {
            if self.known(name).await?.is_none() {
                missing.push(name.to_owned());
            }
        }
        Ok(missing)
    }

    /// The denials, also where their document is among those that are missing: then the one that was counted last is known.
    async fn known_denials(&self, missing: &[String]) -> Result<Denials, CommandError> {
        if !missing.iter().any(|name| name == DENIED_MAP) {
            return self.denied().await;
        }
        let counted = self.cluster_document().await?.and_then(|(_, cluster)| cluster.denials);
        Ok(Denials::default().counted_by(counted))
    }

    /// Begins anew what is missing, and has the cluster count the denials that are listed, if they are so many; whether they are.
    async fn count_anew(&self, listed: u64) -> Result<bool, CommandError> {
        let missing = self.missing_documents().await?;
        if self.known_denials(&missing).await?.iter().count() as u64 != listed {
            return Ok(false);
        }
        for name in &missing {
            // Others that made it meanwhile made what this would.
            self.put_document(&ConfigMap::new(name)).await?;
        }
        for _ in 0..TRIES {
            let Some((mut map, cluster)) = self.cluster_document().await? else {
                return Err(self.is_gone(CLUSTER_MAP));
            };
            if let Some(counted) = cluster.denials.clone() {
                drop(self.finished(&counted).await?);
            }
            // Looked at after the document was: who denies a machine changes that first.
            if self.listed(None).await?.listed() != listed {
                return Ok(false);
            }
            map.data.insert(CLUSTER_FILE.to_owned(), cluster.counting(CountedDenials::of(listed)).to_json());
            if self.put_document(&map).await? {
                return Ok(true);
            }
        }
        Err(others_first(CLUSTER_MAP))
    }

    async fn listed(&self, counted: Option<CountedDenials>) -> Result<Denials, CommandError> {
        Ok(Denials::of_names(self.data(DENIED_MAP).await?.keys()).counted_by(counted))
    }

    /// The denials, after one that was counted and not listed is.
    async fn finished(&self, counted: &CountedDenials) -> Result<Denials, CommandError> {
        let known = self.listed(Some(counted.clone())).await?;
        let Some(ek) = known.unfinished() else { return Ok(known) };
        let list = |data: &mut Data| {
            let is_new = !Denials::of_names(data.keys()).has(&ek);
            data.entry(ek.to_string()).or_default();
            Ok(is_new)
        };
        self.change(DENIED_MAP, list).await?;
        self.listed(Some(counted.clone())).await
    }

    /// Changes the count, anew where others came first. Whether there is one: a cluster of the version before has none.
    async fn recount(
        &self,
        change: impl Fn(&Denials, &CountedDenials) -> CountedDenials,
    ) -> Result<bool, CommandError> {
        for _ in 0..TRIES {
            let Some((mut map, cluster)) = self.cluster_document().await? else {
                return Err(self.is_gone(CLUSTER_MAP));
            };
            let Some(counted) = &cluster.denials else { return Ok(false) };
            let next = change(&self.finished(counted).await?, counted);
            if next == *counted {
                return Ok(true);
            }
            map.data.insert(CLUSTER_FILE.to_owned(), cluster.counting(next).to_json());
            if self.put_document(&map).await? {
                return Ok(true);
            }
        }
        Err(others_first(CLUSTER_MAP))
    }

    async fn cluster_document(&self) -> Result<Option<(ConfigMap, ClusterFile)>, CommandError> {
        let Some(map) = self.known(CLUSTER_MAP).await? else { return Ok(None) };
        let Some(text) = map.data.get(CLUSTER_FILE) else { return Ok(None) };
        let cluster = ClusterFile::parse(text.as_bytes()).map_err(|error| malformed(CLUSTER_MAP, &error))?;
        Ok(Some((map, cluster)))
    }
}

impl<T: Maps> DenialMaps for T {}

#[cfg(test)]
mod tests;
