//! Who gets a kubelet's certificate, on what stands: the claim of a ticket is written before anything is approved.

use super::Store;
use super::records::Records;
use crate::decision::{Refusal, Serving};
use latchkey_attestation::EkDigest;
use latchkey_kubelet_certificates::{Approval, CertificateRefusal, ClientAsk, RenewalAsk, Reserved, ServingAsk};

/// What is decided about a request, by whose record.
#[derive(Debug)]
pub(crate) struct Certified {
    pub(crate) outcome: Outcome,
    /// The machine whose record decided, if there is one.
    pub(crate) ek: Option<EkDigest>,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Decided(Result<Approval, CertificateRefusal>),
    /// See [`Serving::NotReported`].
    NotReported,
}

impl Store {
    /// Uses the ticket of the token that asks. An approval stands on record when this returns.
    pub(crate) async fn certify_client(
        &self,
        ask: ClientAsk,
        is_denied: impl Fn(&EkDigest) -> bool + Send + 'static,
    ) -> Result<Certified, Refusal> {
        self.in_time(move |records| records.certify_client(&ask, &is_denied)).await
    }

    /// Decides by the record of the node that asks. Writes nothing.
    ///
    /// # Errors
    /// Records contradict each other about that name.
    pub(crate) fn certify_serving(
        &self,
        reserved: &Reserved,
        ask: &ServingAsk,
        is_denied: impl Fn(&EkDigest) -> bool,
    ) -> Result<Certified, Refusal> {
        let now = self.now();
        self.look(|state| {
            state.check_name(ask.node())?;
            let ek = state.node_named(ask.node());
            let outcome = match state.serve(reserved, ask, is_denied, now) {
                Serving::Decided(decided) => Outcome::Decided(decided),
                Serving::NotReported => Outcome::NotReported,
            };
            Ok(Certified { outcome, ek })
        })
    }

    /// The same for the renewal of a client certificate.
    ///
    /// # Errors
    /// Records contradict each other about that name.
    pub(crate) fn certify_renewal(
        &self,
        ask: &RenewalAsk,
        is_denied: impl Fn(&EkDigest) -> bool,
    ) -> Result<Certified, Refusal> {
        self.look(|state| {
            state.check_name(ask.node())?;
            Ok(Certified { outcome: Outcome::Decided(state.renew(ask, is_denied)), ek: state.node_named(ask.node()) })
        })
    }
}

impl Records {
    fn certify_client(&self, ask: &ClientAsk, is_denied: &dyn Fn(&EkDigest) -> bool) -> Result<Certified, Refusal> {
        let holder = self.state().ticket_holder(ask.token().as_str(), self.now());
        let Some(ek) = holder else {
            return Ok(Certified { outcome: Outcome::Decided(Err(CertificateRefusal::TicketUnknown)), ek: None });
        };
        self.state().check_holder(&ek)?;
        let decided = self.write(
            &ek,
            |state, now| {
                Ok(match state.use_ticket(ask, &ek, is_denied(&ek), now) {
                    Ok((claim, record)) => (record, Ok(claim)),
                    Err(refusal) => (None, Err(refusal)),
                })
            },
            |state, written, decided, _| {
                if let Some(recorded) = written {
                    state.commit_kept(recorded);
                }
                Ok(decided.and_then(|claim| claim.stands(state.used_by(&ek).unwrap_or_default())))
            },
        )?;
        Ok(Certified { outcome: Outcome::Decided(decided), ek: Some(ek) })
    }
}
