//! Why the store did not do what was asked. What the API server says has the codes of [`latchkey_kubernetes_client::ApiCode`].

use kube::runtime::watcher;
use latchkey_cluster_store::StoreError;
pub use latchkey_kubernetes_client::ApiCode;
use latchkey_kubernetes_client::ApiError;
pub(crate) use latchkey_kubernetes_client::{is_absent, is_conflict, one_line};
use latchkey_reason::{Reason, ReasonCode as _, reason_codes};
use std::path::PathBuf;

reason_codes! {
    /// What only this store says.
    pub enum ApiStoreCode {
        /// This machine and the API server do not agree about the time.
        ClocksDiffer = "api-clocks-differ":
            "set the clocks of this service's machine and of the control planes (NTP); nodes ask again";
        /// An object that the service needs is missing.
        DocumentMissing = "api-document-missing":
            "create the ConfigMap that is named, with the key that is named";
        /// The API server answered with a record, and its watch does not tell of it.
        RecordUnheard = "api-record-unheard":
            "see that the API server's watches get through to this service, and that its etcd is the one it began with; nodes ask again";
    }
}

/// The failure of one request: `about` names the object.
pub(crate) fn failed(about: &str, error: &kube::Error) -> StoreError {
    of_api(latchkey_kubernetes_client::failed(about, error))
}

/// The failure of a watch: `about` names the kind.
pub(crate) fn watch_failed(about: &str, error: &watcher::Error) -> StoreError {
    of_api(latchkey_kubernetes_client::watch_failed(about, error))
}

/// A failure with these words.
pub(crate) fn elsewhere(about: &str, code: impl Into<Reason>, detail: impl Into<String>) -> StoreError {
    StoreError::Elsewhere { path: PathBuf::from(about), reason: code.into(), detail: detail.into() }
}

/// What the client says, as stores say it.
pub(crate) fn of_api(error: ApiError) -> StoreError {
    StoreError::Elsewhere { path: PathBuf::from(error.about), reason: error.code.reason(), detail: error.detail }
}

/// Whether the rights are missing.
pub(crate) fn is_forbidden(error: &StoreError) -> bool {
    matches!(error, StoreError::Elsewhere { reason, .. } if reason.code == ApiCode::Forbidden.as_str())
}

/// Whether the API server is away, or has too much to do: then other requests would fail as well, and are better left alone for a while.
pub fn is_overload(error: &StoreError) -> bool {
    code_of(error).is_some_and(ApiCode::is_overload)
}

/// Whether nobody serves in the place of the API server.
pub(crate) fn is_unanswered(error: &StoreError) -> bool {
    code_of(error).is_some_and(ApiCode::is_unanswered)
}

/// A failure of the watch, not of whoever keeps records: these can be written.
pub(crate) fn is_unheard(error: &StoreError) -> bool {
    matches!(error, StoreError::Elsewhere { reason, .. } if reason.code == ApiStoreCode::RecordUnheard.as_str())
}

pub(crate) fn code_of(error: &StoreError) -> Option<ApiCode> {
    let StoreError::Elsewhere { reason, .. } = error else { return None };
    ApiCode::ALL.iter().find(|code| code.as_str() == reason.code).copied()
}
