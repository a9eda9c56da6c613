//! A kubeconfig that is written anew: as kubectl shows it, and in the form that kubectl gives it.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::sealed::SealedCopy;
use crate::stock::Stock;

/// A kubeconfig as kubectl prints it. What is in an entry is passed on as it is, and is never copied.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Config<'a> {
    #[serde(borrow, default)]
    pub(super) clusters: Option<Vec<Cluster<'a>>>,
    #[serde(borrow, default)]
    pub(super) users: Option<Vec<User<'a>>>,
    #[serde(borrow, default)]
    pub(super) contexts: Option<Vec<Context<'a>>>,
    #[serde(rename = "current-context", default)]
    pub(super) current_context: String,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    preferences: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    extensions: Option<&'a RawValue>,
    #[serde(rename = "apiVersion", default)]
    pub(super) api_version: String,
    #[serde(default)]
    pub(super) kind: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Cluster<'a> {
    pub(super) name: String,
    #[serde(borrow)]
    pub(super) cluster: &'a RawValue,
}

#[derive(Serialize, Deserialize)]
pub(super) struct User<'a> {
    pub(super) name: String,
    #[serde(borrow)]
    pub(super) user: &'a RawValue,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Context<'a> {
    pub(super) name: String,
    #[serde(borrow)]
    pub(super) context: &'a RawValue,
}

impl<'a> Config<'a> {
    /// What kubectl shows of a file.
    pub(super) fn parse(text: &'a [u8], file: &Path) -> Result<Self, CommandError> {
        serde_json::from_slice(text).map_err(|error| malformed(file, &error.to_string()))
    }

    /// In kubectl's own form: it has read what is to be the file before it is.
    pub(super) async fn in_its_form(&self, stock: &Stock, file: &Path) -> Result<Zeroizing<Vec<u8>>, CommandError> {
        let text = Zeroizing::new(serde_json::to_vec(self).map_err(|error| malformed(file, &error.to_string()))?);
        let draft = SealedCopy::of("kubeconfig", &text, file)?;
        Ok(stock.kubectl_alone(&draft.path())?.kubeconfig_as_yaml().await?)
    }
}

pub(super) fn malformed(file: &Path, why: &str) -> CommandError {
    let what = format!("{} cannot be used", file.display());
    CommandError::new(Exit::Usage, CommandCode::FileMalformed, what)
        .because(why)
        .fix(format!("see what `kubectl config view --kubeconfig {}` says of it", file.display()))
}
