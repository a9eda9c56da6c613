//! What a kubeconfig may say here: one https server, its authority, a client certificate or a token. What would run a program, send
//! requests elsewhere or switch a check off is refused.

use crate::yaml;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use latchkey_keys::read_private_file;
use latchkey_pem::PemSection;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Largest kubeconfig, and largest certificate, key or token that one names, bytes.
pub const MAX_KUBECONFIG: usize = 256 * 1024;

/// The API server, and who asks it.
pub(crate) struct Way {
    /// Where it is.
    pub(crate) server: Uri,
    /// The name in its certificate, where that is not the host's.
    pub(crate) name: Option<ServerName<'static>>,
    /// Who may have issued its certificate.
    pub(crate) authorities: Vec<CertificateDer<'static>>,
    /// Who asks.
    pub(crate) certificate: Option<Certificate>,
    /// The same, where it has no certificate, or beside it.
    pub(crate) token: Option<TokenSource>,
}

/// A client certificate.
pub(crate) struct Certificate {
    /// In PEM.
    pub(crate) pem: String,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

/// Where a bearer token is.
pub(crate) enum TokenSource {
    /// In the kubeconfig.
    Text(Zeroizing<String>),
    /// In a file, which is written anew from time to time.
    File(PathBuf),
    /// In a file that the kubelet mounts, and writes anew from time to time.
    Mounted(PathBuf),
}

impl TokenSource {
    /// The token as it is now, and the file that it is in. The error says why it cannot be read.
    pub(crate) fn read(self) -> Result<(Zeroizing<String>, Option<TokenFile>), String> {
        let file = match self {
            Self::Text(token) => return Ok((token, None)),
            Self::File(path) => TokenFile { path, read: private_text },
            Self::Mounted(path) => TokenFile { path, read: crate::pod::text },
        };
        Ok(((file.read)(&file.path)?, Some(file)))
    }
}

/// A file with a token, and the rules that it is read by.
pub(crate) struct TokenFile {
    pub(crate) path: PathBuf,
    read: fn(&Path) -> Result<Zeroizing<String>, String>,
}

impl TokenFile {
    pub(crate) fn read(&self) -> Result<Zeroizing<String>, String> {
        (self.read)(&self.path)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Document {
    current_context: Option<String>,
    #[serde(default)]
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
    #[serde(default)]
    contexts: Vec<NamedContext>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    user: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
    tls_server_name: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: bool,
    proxy_url: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
    client_key: Option<String>,
    client_key_data: Option<Secret>,
    token: Option<Secret>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    exec: Option<IgnoredAny>,
    auth_provider: Option<IgnoredAny>,
    username: Option<IgnoredAny>,
    password: Option<IgnoredAny>,
    #[serde(rename = "as")]
    acts_as: Option<IgnoredAny>,
    as_uid: Option<IgnoredAny>,
    as_groups: Option<IgnoredAny>,
    as_user_extra: Option<IgnoredAny>,
}

/// Text that is wiped.
struct Secret(Zeroizing<String>);

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Zeroizing::new).map(Self)
    }
}

impl Way {
    /// Reads the file, which holds a key or a token and so is held to what every file with a secret is, and those that it names.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = private_text(path)?;
        let document: Document = serde_json::from_value(yaml::parse(&text)?).map_err(|error| form(&error))?;
        document.way(path.parent().unwrap_or(Path::new("")))
    }
}

/// What is wrong, without what stands there: it may be a secret in the wrong place.
fn form(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let is_missing = said.starts_with("missing field");
    if is_missing { said } else { "a field is of another form than in kubeconfigs".to_owned() }
}

impl Document {
    /// By the one cluster and the one user of the current context.
    fn way(self, directory: &Path) -> Result<Way, String> {
        let name = self.current_context.ok_or("`current-context` is missing")?;
        let context = self.contexts.into_iter().find(|named| named.name == name);
        let Context { cluster, user } = context
            .map(|named| named.context)
            .ok_or_else(|| format!("`current-context` names {name:?}, which is not among `contexts`"))?;
        let found = self.clusters.into_iter().find(|named| named.name == cluster);
        let found = found.ok_or_else(|| format!("the cluster {cluster:?} is not among `clusters`"))?;
        let (server, name, authorities) = found.cluster.checked(directory)?;
        let found = self.users.into_iter().find(|named| named.name == user);
        let found = found.ok_or_else(|| format!("the user {user:?} is not among `users`"))?;
        let (certificate, token) = found.user.checked(directory)?;
        Ok(Way { server, name, authorities, certificate, token })
    }
}

impl Cluster {
    fn checked(
        self,
        directory: &Path,
    ) -> Result<(Uri, Option<ServerName<'static>>, Vec<CertificateDer<'static>>), String> {
        let server = Some(&self.server).filter(|server| server.starts_with("https://"));
        let server = server.and_then(|server| server.parse().ok());
        let server = server.ok_or_else(|| format!("`server` must be an https address, and is {:?}", self.server))?;
        if self.insecure_skip_tls_verify {
            return Err("`insecure-skip-tls-verify` would let anybody answer".to_owned());
        }
        if self.proxy_url.is_some() {
            return Err("`proxy-url` is not supported".to_owned());
        }
        let name = self.tls_server_name.map(|name| {
            ServerName::try_from(name.clone()).map_err(|_| format!("`tls-server-name` is {name:?}, which is no name"))
        });
        let data = self.certificate_authority_data.map(|data| Secret(data.into()));
        let pem = data_of("certificate-authority", data, self.certificate_authority, |path| {
            read_bounded(&directory.join(path))
        })?;
        let pem = pem.ok_or(
            "`certificate-authority` or `certificate-authority-data` must be given: other authorities are not asked",
        )?;
        Ok((server, name.transpose()?, certificates("certificate-authority", &pem)?))
    }
}

impl User {
    fn checked(self, directory: &Path) -> Result<(Option<Certificate>, Option<TokenSource>), String> {
        let acts_as = [&self.acts_as, &self.as_uid, &self.as_groups, &self.as_user_extra];
        let refused = [
            ("exec", self.exec.is_some()),
            ("auth-provider", self.auth_provider.is_some()),
            ("username", self.username.is_some() || self.password.is_some()),
            ("as", acts_as.into_iter().any(Option::is_some)),
        ];
        if let Some((field, _)) = refused.into_iter().find(|(_, there)| *there) {
            return Err(format!("`{field}` is not supported: give a client certificate or a token"));
        }
        let data = self.client_certificate_data.map(|data| Secret(data.into()));
        let certificate =
            data_of("client-certificate", data, self.client_certificate, |path| read_bounded(&directory.join(path)))?;
        let key = data_of("client-key", self.client_key_data, self.client_key, |path| {
            private_text(&directory.join(path)).map(|text| text.as_bytes().to_vec().into())
        })?;
        let token = match (self.token, self.token_file) {
            (Some(_), Some(_)) => return Err("give `token` or `tokenFile`, not both".to_owned()),
            (Some(Secret(token)), None) => Some(TokenSource::Text(token)),
            (None, Some(path)) => {
                let path = directory.join(path);
                // Read again when it may be another; now, to say what is wrong with it.
                private_text(&path)?;
                Some(TokenSource::File(path))
            }
            (None, None) => None,
        };
        match (certificate, key, token) {
            (Some(certificate), Some(key), token) => {
                let chain = certificates("client-certificate", &certificate)?;
                let pem = String::from_utf8_lossy(&certificate).into_owned();
                let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| "`client-key` is no private key in PEM")?;
                Ok((Some(Certificate { pem, chain, key }), token))
            }
            (None, None, Some(token)) => Ok((None, Some(token))),
            (None, None, None) => Err("the user has neither a client certificate nor a token".to_owned()),
            _ => Err("a client certificate needs its key, and the other way round".to_owned()),
        }
    }
}

/// What stands in the file itself, in base64, or what the file that is named holds. Not both.
fn data_of(
    field: &str,
    data: Option<Secret>,
    path: Option<String>,
    read: impl Fn(&str) -> Result<Zeroizing<Vec<u8>>, String>,
) -> Result<Option<Zeroizing<Vec<u8>>>, String> {
    match (data, path) {
        (Some(_), Some(_)) => Err(format!("give `{field}` or `{field}-data`, not both")),
        (Some(Secret(data)), None) => {
            let decoded = STANDARD.decode(data.trim()).map_err(|error| format!("`{field}-data`: {error}"))?;
            Ok(Some(decoded.into()))
        }
        (None, Some(path)) => read(&path).map(Some),
        (None, None) => Ok(None),
    }
}

pub(crate) fn certificates(field: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = PemSection::certificates(pem).map_err(|error| format!("`{field}` is no PEM: {error}"))?;
    let found: Vec<_> = found.map(CertificateDer::from).collect();
    if found.is_empty() { Err(format!("`{field}` has no certificate in PEM form")) } else { Ok(found) }
}

fn read_bounded(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    use std::io::Read as _;
    let mut bytes = Zeroizing::default();
    let most = u64::try_from(MAX_KUBECONFIG).unwrap_or(u64::MAX);
    let read = std::fs::File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("{}: {error}", path.display()))?;
    if bytes.len() > MAX_KUBECONFIG {
        return Err(format!("{} is larger than {MAX_KUBECONFIG} bytes", path.display()));
    }
    Ok(bytes)
}

pub(crate) fn private_text(path: &Path) -> Result<Zeroizing<String>, String> {
    let bytes =
        read_private_file(path, MAX_KUBECONFIG).map_err(|error| format!("{error}; {}", error.code().remedy()))?;
    std::str::from_utf8(bytes.expose()).map(|text| text.to_owned().into()).map_err(|_| "not UTF-8".to_owned())
}

#[cfg(test)]
mod tests;
