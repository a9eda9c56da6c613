//! Plain requests to paths of the API, through kubectl.

use std::ffi::OsString;

use serde::de::DeserializeOwned;

use super::StockError;
use super::kubectl::{Kubectl, MANY_OBJECTS, ONE_OBJECT};

impl Kubectl {
    /// The answer to a plain GET of a path of the API.
    pub(crate) async fn raw<T: DeserializeOwned>(&self, path: &str) -> Result<T, StockError> {
        self.raw_within(path, ONE_OBJECT).await
    }

    /// The same, for an answer of at most `limit` bytes.
    pub(crate) async fn raw_within<T: DeserializeOwned>(&self, path: &str, limit: usize) -> Result<T, StockError> {
        self.typed(self.call(["get", "--raw", path].map(OsString::from), &[], limit)).await
    }

    /// The answer as text, for what is no JSON (metrics).
    pub(crate) async fn raw_text(&self, path: &str) -> Result<String, StockError> {
        let call = self.call(["get", "--raw", path].map(OsString::from), &[], MANY_OBJECTS);
        let shown = call.shown();
        let printed = self.run(call).await?;
        String::from_utf8(printed).map_err(|error| StockError::Malformed { call: shown, reason: error.to_string() })
    }

    /// The answer to a plain POST to a path of the API.
    pub(crate) async fn post_raw<T: DeserializeOwned>(&self, path: &str, document: &[u8]) -> Result<T, StockError> {
        let arguments = ["create", "--raw", path, "--filename=-"].map(OsString::from);
        self.typed(self.call(arguments, document, ONE_OBJECT)).await
    }

    /// A plain PUT to a path of the API. The API server refuses a document whose uid or revision is not that of its object.
    pub(crate) async fn put_raw(&self, path: &str, document: &[u8]) -> Result<(), StockError> {
        let arguments = ["replace", "--raw", path, "--filename=-"].map(OsString::from);
        self.run(self.call(arguments, document, ONE_OBJECT)).await.map(drop)
    }
}
