//! The values of the placeholders in a script and its files.

use latchkey_factory_plus::{ClusterName, Uuid};
use serde_json::{Value, json};

use super::{ScriptError, TOKEN, is_plain};

/// Where programs at an edge find the authorities of the centre's certificates.
const AUTHORITY: &str = "/etc/latchkey/centre/ca.pem";

/// What a script says of the centre: the same for all clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CentreValues {
    /// `domain`: the centre's base domain.
    pub domain: String,
    /// `realm`: of Kerberos.
    pub realm: String,
    /// `kdc`: where the KDC is, `HOST` or `HOST:PORT`.
    pub kdc: String,
    /// `kadmin`: where its administration is, `HOST` or `HOST:PORT`.
    pub kadmin: String,
    /// `krbkeys`: the container image of the operator of keys.
    pub krbkeys: String,
    /// `url.directory`: the directory's base URL.
    pub directory: String,
    /// `url.manager`: the base URL of the cluster manager, where links are redeemed.
    pub manager: String,
    /// `authority`: the authorities of the centre's certificates, as PEM; empty where its URLs are plain http. By it `centre` is the
    /// section of that name in the configurations of programs at an edge, as JSON.
    pub authority: String,
}

/// The values of the placeholders.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// `name`: the cluster's.
    pub name: &'a ClusterName,
    /// `uuid`: the cluster's.
    pub uuid: Uuid,
    /// `namespace`: of Kubernetes.
    pub namespace: &'a str,
    /// Those of the centre.
    pub centre: &'a CentreValues,
}

impl Values<'_> {
    /// The parameters of the templates; `token` is its place.
    pub(super) fn parameters(&self) -> Result<Value, ScriptError> {
        let centre = self.centre;
        let plain = |name: &'static str, value: &str| {
            if is_plain(value) { Ok(()) } else { Err(ScriptError::Value { name, value: value.to_owned() }) }
        };
        plain("namespace", self.namespace)?;
        centre.check()?;
        let section = if centre.authority.is_empty() {
            json!({"directory": centre.directory, "insecure": true})
        } else {
            json!({"directory": centre.directory, "authority": AUTHORITY})
        };
        Ok(json!({
            "name": self.name,
            "uuid": self.uuid,
            "namespace": self.namespace,
            "domain": centre.domain,
            "realm": centre.realm,
            "kdc": centre.kdc,
            "kadmin": centre.kadmin,
            "krbkeys": centre.krbkeys,
            "url": {"directory": centre.directory, "manager": centre.manager},
            "authority": centre.authority,
            "centre": section.to_string(),
            "token": TOKEN,
        }))
    }
}

impl CentreValues {
    /// Refuses what could mean something to a shell, in YAML or in JSON.
    ///
    /// # Errors
    /// [`ScriptError::Value`].
    pub fn check(&self) -> Result<(), ScriptError> {
        let Self { domain, realm, kdc, kadmin, krbkeys, directory, manager, authority } = self;
        let texts = [
            ("domain", domain),
            ("realm", realm),
            ("kdc", kdc),
            ("kadmin", kadmin),
            ("krbkeys", krbkeys),
            ("url.directory", directory),
            ("url.manager", manager),
        ];
        let bad = texts.into_iter().find(|(_, value)| !is_plain(value));
        let bad = bad.or_else(|| (!is_pem(authority)).then_some(("authority", authority)));
        bad.map_or(Ok(()), |(name, value)| Err(ScriptError::Value { name, value: value.clone() }))
    }
}

/// Whether a text is certificates as PEM and nothing else, or empty.
fn is_pem(text: &str) -> bool {
    let mut inside = false;
    text.lines().all(|line| match line {
        "-----BEGIN CERTIFICATE-----" => !std::mem::replace(&mut inside, true),
        "-----END CERTIFICATE-----" => std::mem::replace(&mut inside, false),
        line => inside && line.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)),
    }) && !inside
}

#[cfg(test)]
mod tests {
    use super::is_pem;

    #[test]
    fn an_authority_is_certificates_and_nothing_else() {
        let good = "-----BEGIN CERTIFICATE-----\nMIIB+/==\n-----END CERTIFICATE-----\n";
        assert!(is_pem("") && is_pem(good) && is_pem(&good.repeat(2)));
        for bad in ["x", "$(reboot)", "-----BEGIN CERTIFICATE-----\nMI\n", &good.replace("MIIB", "MI'IB")] {
            assert!(!is_pem(bad), "{bad}");
        }
        assert!(!is_pem(&good.replace("CERTIFICATE", "PRIVATE KEY")) && !is_pem(&format!("subject=x\n{good}")));
    }
}
