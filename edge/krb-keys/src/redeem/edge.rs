//! The world as it is: the API server, the centre, the KDC and kadmind.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use latchkey_factory_plus::manager::RedeemRequest;
use latchkey_factory_plus::{Upn, Uuid};
use latchkey_factory_plus_client::bootstrap;
use latchkey_factory_plus_client::{BaseUrl, CallError, Limits, Trust};
use latchkey_kerberos::keytab::Keytab;
use latchkey_kerberos::{Admin, AdminKey, AdminSettings, Denied, Holder, HolderSettings, KerberosCode, Secret, Shown};
use latchkey_kubernetes_client::read_mounted;
use zeroize::Zeroizing;

use super::{Administrator, OneTime, World};
use crate::failure::Failure;
use crate::kubernetes::Secrets;
use crate::secret::{Data, Stored, Written};

/// Of each call of the KDC or kadmind.
const DEADLINE: Duration = Duration::from_secs(20);
/// A token's longest file.
const TOKEN_FILE: usize = 64;

/// How Kerberos is spoken.
#[derive(Debug, Clone)]
pub(crate) struct Kerberos {
    pub(crate) helper: PathBuf,
    pub(crate) krb5_config: Option<PathBuf>,
}

/// Where the link leads to.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) manager: BaseUrl,
    pub(crate) trust: Trust,
    pub(crate) token_file: PathBuf,
    pub(crate) cluster: Uuid,
}

/// The world of an edge.
#[derive(Debug)]
pub(crate) struct Edge {
    secrets: Secrets,
    link: Link,
    kerberos: Kerberos,
    holder: Holder,
}

impl Edge {
    pub(crate) fn new(secrets: Secrets, link: Link, kerberos: Kerberos) -> Self {
        let holder = kerberos.holder(1);
        Self { secrets, link, kerberos, holder }
    }

    fn token(&self) -> Result<Zeroizing<String>, Failure> {
        let bytes = read_mounted(&self.link.token_file, TOKEN_FILE)
            .map_err(|why| Failure::Refused(format!("`redeem.token_file`: {why}")))?;
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        Ok(Zeroizing::new(text.trim_ascii_end().to_owned()))
    }
}

impl Kerberos {
    /// Who tries keys.
    pub(crate) fn holder(&self, helpers: usize) -> Holder {
        let Self { helper, krb5_config } = self.clone();
        Holder::new(HolderSettings { helper, krb5_config, helpers, deadline: DEADLINE })
    }

    /// Somebody at kadmind.
    pub(crate) fn admin(&self, principal: &Upn, key: AdminKey) -> Admin {
        let Self { helper, krb5_config } = self.clone();
        Admin::new(AdminSettings { helper, krb5_config, principal: principal.clone(), key, deadline: DEADLINE })
    }
}

impl World for Edge {
    type Admin = Admin;

    async fn read(&self, name: &str) -> Result<Option<Stored>, Failure> {
        Ok(self.secrets.read(name).await?)
    }

    async fn write(&self, name: &str, before: Option<&Stored>, data: &Data) -> Result<Written, Failure> {
        tracing::info!(secret = name, "Writing a Secret");
        Ok(self.secrets.write(name, before, data).await?)
    }

    async fn redeem(&self, claim: &Zeroizing<String>) -> Result<OneTime, Failure> {
        tracing::info!(at = %self.link.manager, "Redeeming the bootstrap link");
        let request = RedeemRequest { claim: claim.to_string(), cluster: Some(self.link.cluster) };
        let token = self.token()?;
        let redeemed =
            bootstrap::redeem(&self.link.manager, &self.link.trust, &Limits::default(), &token, &request).await;
        let redeemed = redeemed.map_err(|error| said(&error))?;
        let password = Secret::new(redeemed.password.into_bytes());
        Ok(OneTime { cluster: redeemed.cluster, principal: redeemed.principal, password })
    }

    async fn authenticate(&self, principal: &Upn, key: &AdminKey) -> Result<(), Denied> {
        self.holder.authenticate(principal, key).await
    }

    async fn derive(&self, principal: &Upn, password: &Secret, version: u32) -> Result<Keytab, Denied> {
        self.holder.derive(principal, password, version).await
    }

    fn admin(&self, principal: &Upn, key: AdminKey) -> Admin {
        self.kerberos.admin(principal, key)
    }

    fn random(&self) -> Result<Zeroizing<String>, Failure> {
        random()
    }
}

/// A text that nobody guesses: base64url of 32 random bytes.
pub(crate) fn random() -> Result<Zeroizing<String>, Failure> {
    let mut bytes = Zeroizing::new([0; 32]);
    let none = |_| Failure::Again("the kernel gives no random numbers".into());
    aws_lc_rs::rand::fill(bytes.as_mut_slice()).map_err(none)?;
    Ok(Zeroizing::new(URL_SAFE_NO_PAD.encode(*bytes)))
}

/// What the centre said, in its own words where it has some.
fn said(error: &CallError) -> Failure {
    let text = match error {
        CallError::Conflict { body, .. } if !body.is_empty() => format!("the centre says: {body}"),
        CallError::Refused { text, .. } if !text.is_empty() => format!("the centre says: {text}"),
        CallError::NotFound(_) => "the centre knows no such link; make a new one".into(),
        error => error.to_string(),
    };
    if error.is_transient() { Failure::Again(text) } else { Failure::Refused(text) }
}

impl Administrator for Admin {
    async fn show(&self, principal: &Upn) -> Result<Option<Shown>, Denied> {
        Self::show(self, principal).await
    }

    async fn create(&self, principal: &Upn, password: &Secret) -> Result<(), Denied> {
        match self.create_with_password(principal, password, None, None).await {
            // Made meanwhile, or by a call whose answer was lost.
            Err(denied) if denied.code() == KerberosCode::PrincipalExists => {
                Administrator::set_password(self, principal, password).await
            }
            made => made,
        }
    }

    async fn set_password(&self, principal: &Upn, password: &Secret) -> Result<(), Denied> {
        tracing::info!(%principal, "Setting a password");
        Self::set_password(self, principal, password, None).await
    }

    async fn clear_expiry(&self, principal: &Upn) -> Result<(), Denied> {
        self.set_expiry(principal, None).await?;
        self.set_password_expiry(principal, None).await
    }

    async fn enable(&self, principal: &Upn) -> Result<(), Denied> {
        Self::enable(self, principal).await
    }
}
