//! The requests of one signer that wait, as the watch told of them. No I/O.
//!
//! How many are kept is bounded, for each requester too: whoever floods the cluster with requests takes room from himself. What has
//! no room is left out, and listed again later ([`super::follow`]); what was listed until then is looked at meanwhile.

use super::WaitingRequest;
use crate::error::one_line;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestStatus};
use kube::api::ObjectMeta;
use kube::runtime::watcher::Event;
use latchkey_kubelet_certificates::MAX_PEM;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Requests that wait at a time: more than nodes join at once.
const MAX_WAITING: usize = 1024;
/// Those of one requester. A kubelet has one, and another after a restart.
const MAX_OF_USER: usize = 16;
/// Labels, annotations and whatever else hangs on a request. A kubelet's has none; one that has more is left alone.
const MAX_METADATA: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: Bounded,
    /// What a listing that is under way has.
    listing: Bounded,
    arrived: u64,
}

/// What an event comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Nothing to do.
    Nothing,
    /// There may be something to do.
    News,
    /// As many were listed as fit, and are looked at now: the listing need not go on.
    Enough,
}

impl Requests {
    /// Takes an event over.
    pub(super) fn take(&mut self, event: Event<CertificateSigningRequest>) -> Taken {
        match event {
            Event::Init => {
                // What a listing that broke off had waits all the same.
                for request in std::mem::take(&mut self.listing).by_name.into_values() {
                    self.waiting.insert(request);
                }
            }
            Event::InitApply(request) => {
                if let Some(request) = self.waiting(request) {
                    self.listing.insert(request);
                    if self.listing.is_full() {
                        return self.swap_in(Taken::Enough);
                    }
                }
            }
            Event::InitDone => return self.swap_in(Taken::News),
            Event::Apply(request) => {
                let name = request.metadata.name.clone().unwrap_or_default();
                match self.waiting(request) {
                    Some(request) => {
                        self.waiting.insert(request);
                        return Taken::News;
                    }
                    None => self.waiting.remove(&name),
                }
            }
            Event::Delete(request) => self.waiting.remove(&request.metadata.name.unwrap_or_default()),
        }
        Taken::Nothing
    }

    fn swap_in(&mut self, taken: Taken) -> Taken {
        self.waiting = std::mem::take(&mut self.listing);
        taken
    }

    /// Whether there are more than fit.
    pub(super) fn has_left_out(&self) -> bool {
        self.waiting.has_left_out
    }

    /// The request, if it waits. One that is known already is the same.
    fn waiting(&mut self, request: CertificateSigningRequest) -> Option<Arc<WaitingRequest>> {
        let CertificateSigningRequest { metadata, spec, status } = request;
        let name = metadata.name.clone()?;
        let untouched = |status: CertificateSigningRequestStatus| {
            status.conditions.is_none_or(|conditions| conditions.is_empty())
                && status.certificate.is_none_or(|certificate| certificate.0.is_empty())
        };
        if !status.is_none_or(untouched) {
            return None;
        }
        if spec.request.0.len() > MAX_PEM || size_of_metadata(&metadata) > MAX_METADATA {
            let by = one_line(spec.username.as_deref().unwrap_or_default());
            tracing::warn!(
                name = one_line(&name),
                by,
                "A certificate request is larger than a kubelet's, and left alone"
            );
            return None;
        }
        self.arrived += 1;
        let (arrived, seen) = (self.arrived, Instant::now());
        let metadata = ObjectMeta { managed_fields: None, ..metadata };
        let request = WaitingRequest { metadata, spec, arrived, seen, reading: OnceLock::new() };
        let known = self.waiting.by_name.get(&name).filter(|known| known.is(&request));
        Some(known.map_or_else(|| Arc::new(request), Arc::clone))
    }

    pub(super) fn all(&self) -> Vec<Arc<WaitingRequest>> {
        self.waiting.by_name.values().map(Arc::clone).collect()
    }

    /// Forgets one that was answered, unless the watch has told of a later one meanwhile.
    pub(super) fn done(&mut self, request: &WaitingRequest) {
        if self.waiting.by_name.get(request.name()).is_some_and(|known| known.is(request)) {
            self.waiting.remove(request.name());
        }
    }
}

#[derive(Debug, Default)]
struct Bounded {
    by_name: BTreeMap<String, Arc<WaitingRequest>>,
    of_user: HashMap<String, usize>,
    has_left_out: bool,
}

impl Bounded {
    fn is_full(&self) -> bool {
        self.by_name.len() >= MAX_WAITING && self.has_left_out
    }

    /// Keeps the request, if there is room for it.
    fn insert(&mut self, request: Arc<WaitingRequest>) {
        self.remove(request.name());
        let of_user = self.of_user.get(request.username()).copied().unwrap_or_default();
        if self.by_name.len() >= MAX_WAITING || of_user >= MAX_OF_USER {
            self.has_left_out = true;
            return;
        }
        self.of_user.insert(request.username().to_owned(), of_user + 1);
        self.by_name.insert(request.name().to_owned(), request);
    }

    fn remove(&mut self, name: &str) {
        let Some(request) = self.by_name.remove(name) else { return };
        if let Some(of_user) = self.of_user.get_mut(request.username()) {
            *of_user -= 1;
            if *of_user == 0 {
                self.of_user.remove(request.username());
            }
        }
    }
}

/// Everybody's first comes before anybody's second, so that nobody's many keep others waiting.
pub(super) fn in_turn(mut requests: Vec<Arc<WaitingRequest>>) -> Vec<Arc<WaitingRequest>> {
    requests.sort_by_key(|request| (request.seen, request.arrived));
    let mut of_user: HashMap<String, usize> = HashMap::new();
    let mut ranked: Vec<_> = requests
        .into_iter()
        .map(|request| {
            let rank = of_user.entry(request.username().to_owned()).or_default();
            *rank += 1;
            (*rank, request)
        })
        .collect();
    // Stable: among those of one rank, who came first.
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, request)| request).collect()
}

fn size_of_metadata(metadata: &ObjectMeta) -> usize {
    let maps = [&metadata.labels, &metadata.annotations];
    let words = maps.into_iter().flatten().flatten().map(|(key, value)| key.len() + value.len());
    let names = metadata.finalizers.iter().flatten().map(String::len);
    let owners = metadata.owner_references.iter().flatten().map(|owner| owner.name.len() + owner.kind.len() + 64);
    words.chain(names).chain(owners).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::condition;
    use k8s_openapi::ByteString;
    use k8s_openapi::api::certificates::v1::CertificateSigningRequestSpec;
    use latchkey_kubelet_certificates::CLIENT_SIGNER;

    fn request(name: &str, user: &str, revision: u64) -> CertificateSigningRequest {
        CertificateSigningRequest {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                uid: Some(format!("uid-of-{name}")),
                resource_version: Some(revision.to_string()),
                ..ObjectMeta::default()
            },
            spec: CertificateSigningRequestSpec {
                signer_name: CLIENT_SIGNER.to_owned(),
                username: Some(user.to_owned()),
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        }
    }

    fn denied(mut request: CertificateSigningRequest) -> CertificateSigningRequest {
        let conditions = Some(vec![condition("Denied", "x", "x")]);
        request.status = Some(CertificateSigningRequestStatus { conditions, certificate: None });
        request
    }

    fn names(requests: &Requests) -> Vec<String> {
        in_turn(requests.all()).iter().map(|request| request.name().to_owned()).collect()
    }

    /// A listing of so many requests of so many users; what each event came to at the end.
    fn list(requests: &mut Requests, listed: impl IntoIterator<Item = (String, String)>) -> Taken {
        requests.take(Event::Init);
        for (name, user) in listed {
            if requests.take(Event::InitApply(request(&name, &user, 1))) == Taken::Enough {
                return Taken::Enough;
            }
        }
        requests.take(Event::InitDone)
    }

    #[test]
    fn nobodys_many_requests_keep_others_waiting() {
        let mut requests = Requests::default();
        for (name, user) in [("z1", "eve"), ("z2", "eve"), ("a3", "eve"), ("m", "node")] {
            assert_eq!(requests.take(Event::Apply(request(name, user, 1))), Taken::News);
        }
        assert_eq!(names(&requests), ["z1", "m", "z2", "a3"]);
    }

    #[test]
    fn what_is_decided_or_too_large_does_not_wait() {
        let mut requests = Requests::default();
        requests.take(Event::Apply(request("a", "node", 1)));
        assert_eq!(requests.take(Event::Apply(denied(request("a", "node", 2)))), Taken::Nothing);
        let mut large = request("c", "node", 1);
        large.spec.request = ByteString(vec![b'x'; MAX_PEM + 1]);
        requests.take(Event::Apply(large));
        let mut hung = request("d", "node", 1);
        hung.metadata.annotations = Some([("a".to_owned(), "x".repeat(MAX_METADATA))].into());
        requests.take(Event::Apply(hung));
        assert!(names(&requests).is_empty());
    }

    #[test]
    fn an_answer_to_an_earlier_state_of_a_request_leaves_the_later_one_waiting() {
        let mut requests = Requests::default();
        requests.take(Event::Apply(request("a", "node", 1)));
        let first = requests.all().remove(0);
        requests.take(Event::Apply(request("a", "node", 2)));
        requests.done(&first);
        assert_eq!(names(&requests), ["a"]);
        let second = requests.all().remove(0);
        requests.done(&second);
        assert!(names(&requests).is_empty());
    }

    #[test]
    fn whoever_floods_takes_room_from_himself() {
        let mut requests = Requests::default();
        for number in 0..5000 {
            requests.take(Event::Apply(request(&number.to_string(), "eve", 1)));
        }
        assert_eq!(requests.all().len(), MAX_OF_USER);
        assert!(requests.has_left_out());
        // One that waits already may change, and others come in.
        requests.take(Event::Apply(request("7", "eve", 2)));
        requests.take(Event::Apply(request("honest", "node", 1)));
        assert_eq!(requests.all().len(), MAX_OF_USER + 1);
        assert_eq!(names(&requests)[1], "honest");
    }

    #[test]
    fn a_flood_of_many_requesters_takes_a_bounded_amount_of_memory_and_what_fits_is_looked_at() {
        let mut requests = Requests::default();
        let many = (0..3 * MAX_WAITING).map(|number| (number.to_string(), format!("user-{number}")));
        assert_eq!(list(&mut requests, many.clone()), Taken::Enough);
        assert_eq!(requests.all().len(), MAX_WAITING);
        assert!(requests.has_left_out());
        // What was answered makes room, and the next listing finds those that were left out.
        let answered: Vec<String> = names(&requests);
        for request in requests.all() {
            requests.done(&request);
        }
        let rest = many.filter(|(name, _)| !answered.contains(name)).take(MAX_WAITING);
        assert_eq!(list(&mut requests, rest), Taken::News);
        assert_eq!(requests.all().len(), MAX_WAITING);
        assert!(!requests.has_left_out());
    }

    #[test]
    fn what_a_listing_had_that_broke_off_is_looked_at() {
        let mut requests = Requests::default();
        requests.take(Event::Init);
        requests.take(Event::InitApply(request("a", "node", 1)));
        assert!(names(&requests).is_empty());
        requests.take(Event::Init);
        assert_eq!(names(&requests), ["a"]);
    }

    #[test]
    fn a_request_that_is_listed_again_is_the_one_that_was_known() {
        let mut requests = Requests::default();
        requests.take(Event::Apply(request("a", "node", 1)));
        let first = requests.all().remove(0);
        list(&mut requests, [("a".to_owned(), "node".to_owned())]);
        assert!(Arc::ptr_eq(&first, &requests.all()[0]));
        requests.take(Event::Apply(request("a", "node", 2)));
        assert!(!Arc::ptr_eq(&first, &requests.all()[0]));
    }
}
