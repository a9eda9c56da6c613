//! The way to the API server: a kubeconfig, and a runtime for the client on a thread of its own.

use crate::bounded::BoundAnswers;
use crate::error::{ApiCode, elsewhere, failed};
use kube::Client;
use kube::client::ClientBuilder;
use kube::config::{AuthInfo, Cluster, Config, KubeConfigOptions, Kubeconfig};
use latchkey_cluster_store::StoreError;
use latchkey_cluster_store::certificate::end_of_data;
use latchkey_keys::read_private_file;
use std::fmt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Largest kubeconfig, and largest certificate, key or token that one names, bytes.
pub const MAX_KUBECONFIG: usize = 256 * 1024;

/// How long one request may take. A write takes milliseconds; a node waits some seconds for its ticket.
const REQUEST: Duration = Duration::from_secs(3);
const CONNECT: Duration = Duration::from_secs(2);

/// A client of one API server, and the thread that drives it. The services run on smol; kube needs tokio's runtime.
pub struct Connection {
    client: Client,
    /// When the client certificate ends, in seconds since the Unix epoch; `None` where there is a token.
    certificate_ends: Option<u64>,
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Reads a kubeconfig; nobody is asked yet.
    ///
    /// It holds a key or a token, so the file is held to what every file with a secret is. What it may say is closed: one https
    /// server, its authority, a client certificate or a token. What would run a program, send requests elsewhere or switch a check
    /// off is refused.
    ///
    /// # Errors
    /// [`ApiCode::KubeconfigUnusable`].
    pub fn open(kubeconfig: &Path) -> Result<Self, StoreError> {
        let unusable = |detail: String| elsewhere(&kubeconfig.to_string_lossy(), ApiCode::KubeconfigUnusable, detail);
        let text = private_text(kubeconfig).map_err(unusable)?;
        let parsed =
            Kubeconfig::from_yaml(&text).map_err(|error| unusable(crate::error::one_line(&error.to_string())))?;
        let checked = checked(parsed, kubeconfig.parent().unwrap_or(Path::new(""))).map_err(unusable)?;
        let user = checked.auth_infos.first().and_then(|named| named.auth_info.as_ref());
        let certificate = user.and_then(|user| user.client_certificate_data.as_deref());
        let certificate_ends = certificate.and_then(end_of_data);
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| unusable(format!("no runtime for the client: {error}")))?;
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name("api-client".to_owned()).spawn(move || {
            // Ends with the sender.
            drop(runtime.block_on(stopped));
        });
        let thread = thread.map_err(|error| unusable(format!("no thread for the client: {error}")))?;
        let client = handle.block_on(async {
            let config = Config::from_custom_kubeconfig(checked, &KubeConfigOptions::default()).await;
            let mut config = config.map_err(|error| unusable(crate::error::one_line(&error.to_string())))?;
            config.connect_timeout = Some(CONNECT);
            // Whoever asks decides whether to ask again.
            config.default_retry = false;
            let builder =
                ClientBuilder::try_from(config).map_err(|error| failed(&kubeconfig.to_string_lossy(), &error))?;
            Ok(builder.with_layer(&BoundAnswers).build())
        })?;
        Ok(Self { client, certificate_ends, handle, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// When the certificate by which this service is known to the API server ends, in seconds since the Unix epoch; `None` where it is
    /// known by a token.
    pub fn certificate_ends(&self) -> Option<u64> {
        self.certificate_ends
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for what a request is answered, not longer than one may take. Blocks: never on the client's own thread.
    pub(crate) fn wait<T>(
        &self,
        about: &str,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.handle.block_on(in_time(about, request))
    }
}

/// The answer, if it comes in time.
pub(crate) async fn in_time<T>(
    about: &str,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let answer = tokio::time::timeout(REQUEST, request).await;
    answer.unwrap_or_else(|_| {
        Err(elsewhere(about, ApiCode::TooSlow, format!("no answer within {} s", REQUEST.as_secs())))
    })
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there was told.
            let _ended = thread.join();
        }
    }
}

fn private_text(path: &Path) -> Result<String, String> {
    let bytes =
        read_private_file(path, MAX_KUBECONFIG).map_err(|error| format!("{error}; {}", error.code().remedy()))?;
    String::from_utf8(bytes.expose().to_vec()).map_err(|_| "not UTF-8".to_owned())
}

/// The one cluster and the one user of the current context, with files read, and nothing else.
fn checked(config: Kubeconfig, directory: &Path) -> Result<Kubeconfig, String> {
    let name = config.current_context.clone().ok_or("`current-context` is missing")?;
    let context = config.contexts.iter().find(|context| context.name == name).and_then(|named| named.context.clone());
    let context = context.ok_or_else(|| format!("`current-context` names {name:?}, which is not among `contexts`"))?;
    let cluster = config.clusters.iter().find(|named| named.name == context.cluster);
    let cluster = cluster.and_then(|named| named.cluster.clone());
    let cluster = cluster.ok_or_else(|| format!("the cluster {:?} is not among `clusters`", context.cluster))?;
    let user_name = context.user.clone().ok_or("the current context names no user")?;
    let user = config.auth_infos.iter().find(|named| named.name == user_name).and_then(|named| named.auth_info.clone());
    let user = user.ok_or_else(|| format!("the user {user_name:?} is not among `users`"))?;
    let (cluster, user) = (checked_cluster(cluster, directory)?, checked_user(user, directory)?);
    let mut config = config;
    config.contexts.retain(|context| context.name == name);
    config.clusters.retain(|named| named.name == context.cluster);
    config.auth_infos.retain(|named| named.name == user_name);
    for named in &mut config.clusters {
        named.cluster = Some(cluster.clone());
    }
    for named in &mut config.auth_infos {
        named.auth_info = Some(user.clone());
    }
    Ok(config)
}

fn checked_cluster(cluster: Cluster, directory: &Path) -> Result<Cluster, String> {
    let server = cluster.server.as_deref().unwrap_or_default();
    if !server.starts_with("https://") {
        return Err(format!("`server` must be an https address, and is {server:?}"));
    }
    if cluster.insecure_skip_tls_verify.is_some_and(|skip| skip) {
        return Err("`insecure-skip-tls-verify` would let anybody answer".to_owned());
    }
    if cluster.proxy_url.is_some() {
        return Err("`proxy-url` is not supported".to_owned());
    }
    let data =
        data_of("certificate-authority", cluster.certificate_authority_data, cluster.certificate_authority, |path| {
            std::fs::read(directory.join(path)).map_err(|error| format!("{path}: {error}"))
        })?;
    let data = data.ok_or(
        "`certificate-authority` or `certificate-authority-data` must be given: other authorities are not asked",
    )?;
    Ok(Cluster {
        server: cluster.server,
        certificate_authority_data: Some(data),
        tls_server_name: cluster.tls_server_name,
        ..Cluster::default()
    })
}

fn checked_user(user: AuthInfo, directory: &Path) -> Result<AuthInfo, String> {
    let refused = [
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
        ("username", user.username.is_some()),
        ("as", user.impersonate.is_some() || user.impersonate_uid.is_some() || user.impersonate_groups.is_some()),
    ];
    if let Some((field, _)) = refused.into_iter().find(|(_, there)| *there) {
        return Err(format!("`{field}` is not supported: give a client certificate or a token"));
    }
    let read = |path: &str| private_text(&directory.join(path)).map(String::into_bytes);
    let certificate = data_of("client-certificate", user.client_certificate_data, user.client_certificate, |path| {
        std::fs::read(directory.join(path)).map_err(|error| format!("{path}: {error}"))
    })?;
    let key = user.client_key_data.as_ref().map(kube_secret);
    let key = data_of("client-key", key, user.client_key, read)?;
    let token_file: Option<PathBuf> = user.token_file.map(|path| directory.join(path));
    if let Some(path) = &token_file {
        // Read again by the client when it changes; now, to say what is wrong with it.
        private_text(path)?;
    }
    match (&certificate, &key, user.token.is_some() || token_file.is_some()) {
        (Some(_), Some(_), _) | (None, None, true) => {}
        (None, None, false) => return Err("the user has neither a client certificate nor a token".to_owned()),
        _ => return Err("a client certificate needs its key, and the other way round".to_owned()),
    }
    Ok(AuthInfo {
        client_certificate_data: certificate,
        client_key_data: key.map(Into::into),
        token: user.token,
        token_file: token_file.map(|path| path.to_string_lossy().into_owned()),
        ..AuthInfo::default()
    })
}

/// What stands in the file itself, or what the file that is named holds, in base64. Not both.
fn data_of(
    field: &str,
    data: Option<String>,
    path: Option<String>,
    read: impl Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<Option<String>, String> {
    match (data, path) {
        (Some(_), Some(_)) => Err(format!("give `{field}` or `{field}-data`, not both")),
        (Some(data), None) => Ok(Some(data)),
        (None, Some(path)) => {
            let bytes = read(&path)?;
            if bytes.len() > MAX_KUBECONFIG {
                return Err(format!("{path} is larger than {MAX_KUBECONFIG} bytes"));
            }
            Ok(Some(base64(&bytes)))
        }
        (None, None) => Ok(None),
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn kube_secret(secret: &impl secrecy::ExposeSecret<str>) -> String {
    secret.expose_secret().to_owned()
}
