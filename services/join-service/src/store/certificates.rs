//! Who gets a kubelet's certificate, on what stands: the claim of a ticket is written before anything is approved.

use super::Store;
use super::records::Records;
use crate::decision::{Refusal, Serving, State};
use crate::denials::DenialCheck;
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::NotDenied;
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
    /// An approval comes with the witness that its machine is not shut out.
    Decided(Result<(Approval, NotDenied), CertificateRefusal>),
    /// See [`Serving::NotReported`].
    NotReported,
}

impl Store {
    /// Uses the ticket of the token that asks. An approval stands on record when this returns.
    pub(crate) async fn certify_client(&self, ask: ClientAsk, denials: DenialCheck) -> Result<Certified, Refusal> {
        self.in_time(move |records| records.certify_client(&ask, &denials)).await
    }

    /// Decides by the record of the node that asks. Writes nothing.
    ///
    /// # Errors
    /// Records contradict each other about that name, or it is not known whether the machine is shut out.
    pub(crate) fn certify_serving(
        &self,
        reserved: &Reserved,
        ask: &ServingAsk,
        denials: &DenialCheck,
    ) -> Result<Certified, Refusal> {
        let now = self.now();
        self.look(|state| {
            state.check_name(ask.node())?;
            let (ek, not_denied) = standing(state, ask.node(), denials)?;
            let outcome = match state.serve(reserved, ask, |_| not_denied.is_none(), now) {
                Serving::Decided(decided) => outcome(decided, not_denied),
                Serving::NotReported => Outcome::NotReported,
            };
            Ok(Certified { outcome, ek })
        })
    }

    /// The same for the renewal of a client certificate.
    ///
    /// # Errors
    /// As [`Self::certify_serving`].
    pub(crate) fn certify_renewal(&self, ask: &RenewalAsk, denials: &DenialCheck) -> Result<Certified, Refusal> {
        self.look(|state| {
            state.check_name(ask.node())?;
            let (ek, not_denied) = standing(state, ask.node(), denials)?;
            let decided = state.renew(ask, |_| not_denied.is_none());
            Ok(Certified { outcome: outcome(decided, not_denied), ek })
        })
    }
}

impl Records {
    fn certify_client(&self, ask: &ClientAsk, denials: &DenialCheck) -> Result<Certified, Refusal> {
        let holder = self.state().ticket_holder(ask.token().as_str(), self.now());
        let Some(ek) = holder else {
            return Ok(Certified { outcome: Outcome::Decided(Err(CertificateRefusal::TicketUnknown)), ek: None });
        };
        self.state().check_holder(&ek)?;
        let decided = self.write(
            &ek,
            |state, now| {
                let not_denied = decisive(denials.of(&ek))?;
                Ok(match state.use_ticket(ask, &ek, not_denied.is_none(), now) {
                    Ok((claim, record)) => (record, Ok((claim, not_denied))),
                    Err(refusal) => (None, Err(refusal)),
                })
            },
            |state, written, decided, _| {
                if let Some(recorded) = written {
                    state.commit_kept(recorded);
                }
                Ok(match decided {
                    Ok((claim, not_denied)) => {
                        outcome(claim.stands(state.used_by(&ek).unwrap_or_default()), not_denied)
                    }
                    Err(refusal) => Outcome::Decided(Err(refusal)),
                })
            },
        )?;
        Ok(Certified { outcome: decided, ek: Some(ek) })
    }
}

/// The machine of the node of this name, if there is one, and the witness that it is not shut out, if it is not.
fn standing(
    state: &State,
    node: &str,
    denials: &DenialCheck,
) -> Result<(Option<EkDigest>, Option<NotDenied>), Refusal> {
    let ek = state.node_named(node);
    Ok((ek, ek.map(|ek| decisive(denials.of(&ek))).transpose()?.flatten()))
}

/// That a machine is shut out decides its request; that nobody knows, nothing.
fn decisive(checked: Result<NotDenied, Refusal>) -> Result<Option<NotDenied>, Refusal> {
    match checked {
        Ok(not_denied) => Ok(Some(not_denied)),
        Err(Refusal::Denied) => Ok(None),
        Err(unknown) => Err(unknown),
    }
}

fn outcome(decided: Result<Approval, CertificateRefusal>, not_denied: Option<NotDenied>) -> Outcome {
    match (decided, not_denied) {
        (Ok(approval), Some(not_denied)) => Outcome::Decided(Ok((approval, not_denied))),
        (Err(refusal), _) => Outcome::Decided(Err(refusal)),
        // Nobody is approved without a record, nor while shut out.
        (Ok(_), None) => Outcome::NotReported,
    }
}
