//! kubectl.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use super::call::{Call, Ended};
use super::error::code_of;
use super::interrupt::Interrupt;
use super::object::Object;
use super::{Program, StockCode, StockError, Version};

/// Whose fields are those that this command applies.
const FIELD_MANAGER: &str = "latchkey";
/// How long one request may take, on the API server's side and in all.
const REQUEST: Duration = Duration::from_mins(1);
pub(super) const ALLOWED: Duration = Duration::from_secs(90);
/// A version, and what else is one object: etcd takes 1.5 MiB, and JSON may be longer than what lies there.
pub(super) const ONE_OBJECT: usize = 8 << 20;
/// A kubeconfig of very many clusters.
const KUBECONFIG: usize = 4 << 20;
/// Several objects at once.
pub(super) const MANY_OBJECTS: usize = 64 << 20;

/// Stock kubectl, for one cluster.
#[derive(Clone, Debug)]
pub(crate) struct Kubectl {
    file: PathBuf,
    kubeconfig: PathBuf,
    interrupt: Option<Arc<Interrupt>>,
    client: Version,
    server: Version,
}

/// Where objects are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'a> {
    /// In no namespace.
    Cluster,
    Namespace(&'a str),
}

#[derive(Deserialize)]
struct ClientVersion {
    #[serde(rename = "clientVersion")]
    client: GitVersion,
}

#[derive(Deserialize)]
struct GitVersion {
    #[serde(rename = "gitVersion")]
    version: String,
}

#[derive(Deserialize)]
struct Kinded {
    kind: String,
}

/// A list as kubectl prints it.
#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

impl Kubectl {
    /// Asks its version and the API server's. They may differ by one minor version: that is what Kubernetes supports.
    pub(super) async fn connect(
        file: PathBuf,
        kubeconfig: &Path,
        interrupt: Arc<Interrupt>,
    ) -> Result<Self, StockError> {
        let mut kubectl = Self::alone(file, kubeconfig, interrupt);
        let version = ["version", "--client", "--output=json"].map(OsString::from);
        let ClientVersion { client } = kubectl.typed(kubectl.call(version, &[], ONE_OBJECT)).await?;
        kubectl.client = kubectl.version(&client.version)?;
        let server: GitVersion = kubectl.raw("/version").await?;
        kubectl.server = kubectl.version(&server.version)?;
        kubectl.check_skew()?;
        Ok(kubectl)
    }

    /// Without a question to the API server: for what concerns the kubeconfig alone.
    pub(super) fn alone(file: PathBuf, kubeconfig: &Path, interrupt: Arc<Interrupt>) -> Self {
        let unknown = Version { major: 0, minor: 0, patch: 0 };
        let kubeconfig = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_owned());
        Self { file, kubeconfig, interrupt: Some(interrupt), client: unknown, server: unknown }
    }

    /// What the API server runs.
    pub(crate) fn server(&self) -> Version {
        self.server
    }

    /// The same, for what has to be done after the command was told to stop.
    pub(crate) fn uninterrupted(&self) -> Self {
        Self { interrupt: None, ..self.clone() }
    }

    /// The object, `None` if there is none.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        resource: &str,
        scope: Scope<'_>,
        name: &str,
    ) -> Result<Option<T>, StockError> {
        let arguments = words(["get", "--output=json", "--ignore-not-found"], scope, [resource, name]);
        let call = self.call(arguments, &[], ONE_OBJECT);
        let shown = call.shown();
        let printed = self.run(call).await?;
        if printed.is_empty() { Ok(None) } else { parse(&shown, &printed).map(Some) }
    }

    /// All objects of a resource, in a namespace or in all of them. For what may be many, see [`Self::raw`].
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        resource: &str,
        scope: Scope<'_>,
    ) -> Result<Vec<T>, StockError> {
        let mut arguments = words(["get", "--output=json"], scope, [resource]);
        if matches!(scope, Scope::Cluster) {
            arguments.insert(1, "--all-namespaces".into());
        }
        self.listed(self.call(arguments, &[], MANY_OBJECTS)).await
    }

    pub(super) async fn listed<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<Vec<T>, StockError> {
        let List { items } = self.typed(call).await?;
        Ok(items)
    }

    /// Applies documents (JSON or YAML) on the server's side, as the field manager `latchkey`. Fields that are another
    /// manager's are a conflict, unless they are taken by force.
    pub(crate) async fn apply(&self, documents: &[u8], force: bool) -> Result<(), StockError> {
        let manager = format!("--field-manager={FIELD_MANAGER}");
        let mut arguments = ["apply", "--server-side", &manager, "--filename=-"].map(OsString::from).to_vec();
        if force {
            arguments.push("--force-conflicts".into());
        }
        self.run(self.call(arguments, documents, MANY_OBJECTS)).await.map(drop)
    }

    /// What [`Self::apply`] by force would make of the documents; the API server is asked, nothing is changed.
    pub(crate) async fn would_apply(&self, documents: &[u8]) -> Result<Vec<Object>, StockError> {
        let manager = format!("--field-manager={FIELD_MANAGER}");
        let flags = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--output=json"];
        let arguments = flags.into_iter().chain([&*manager, "--filename=-"]).map(OsString::from);
        self.objects(self.call(arguments, documents, MANY_OBJECTS)).await
    }

    /// The objects that these documents name, as they are; those that are not there are left out.
    pub(crate) async fn get_named_in(&self, documents: &[u8]) -> Result<Vec<Object>, StockError> {
        let arguments = ["get", "--ignore-not-found", "--output=json", "--filename=-"].map(OsString::from);
        self.objects(self.call(arguments, documents, MANY_OBJECTS)).await
    }

    /// Creates an object that is there not yet, and gives what was made.
    pub(crate) async fn create<T: DeserializeOwned>(&self, documents: &[u8]) -> Result<T, StockError> {
        let manager = format!("--field-manager={FIELD_MANAGER}");
        let arguments = ["create", "--output=json", &manager, "--filename=-"].map(OsString::from);
        self.typed(self.call(arguments, documents, MANY_OBJECTS)).await
    }

    /// Replaces an object; a document that names a `resourceVersion` replaces that one alone.
    pub(crate) async fn replace<T: DeserializeOwned>(&self, document: &[u8]) -> Result<T, StockError> {
        let manager = format!("--field-manager={FIELD_MANAGER}");
        let arguments = ["replace", "--output=json", &manager, "--filename=-"].map(OsString::from);
        self.typed(self.call(arguments, document, MANY_OBJECTS)).await
    }

    /// The same for several objects at once: what was made, in no promised order.
    pub(crate) async fn create_all<T: DeserializeOwned>(&self, documents: &[u8]) -> Result<Vec<T>, StockError> {
        let manager = format!("--field-manager={FIELD_MANAGER}");
        let arguments = ["create", "--output=json", &manager, "--filename=-"].map(OsString::from);
        self.stream(self.call(arguments, documents, MANY_OBJECTS)).await
    }

    /// The same for replacing them.
    pub(crate) async fn replace_all<T: DeserializeOwned>(
        &self,
        documents: &[u8],
        subresource: &str,
    ) -> Result<Vec<T>, StockError> {
        let manager = format!("--field-manager={FIELD_MANAGER}");
        let subresource = format!("--subresource={subresource}");
        // The rest of the object stays as it is, and the server knows that: kubectl would miss what must be in it.
        let unjudged = "--validate=false";
        let arguments =
            ["replace", "--output=json", unjudged, &manager, &subresource, "--filename=-"].map(OsString::from);
        self.stream(self.call(arguments, documents, MANY_OBJECTS)).await
    }

    /// Removes an object, and waits until it is gone. One that is not there is no failure.
    pub(crate) async fn delete(&self, resource: &str, scope: Scope<'_>, name: &str) -> Result<(), StockError> {
        let arguments = words(["delete", "--ignore-not-found", "--wait=true"], scope, [resource, name]);
        self.run(self.call(arguments, &[], ONE_OBJECT)).await.map(drop)
    }

    /// Runs a program in the container `etcd` of a pod of that name, and reads the JSON that it prints.
    pub(crate) async fn exec<T: DeserializeOwned>(
        &self,
        namespace: &str,
        pod: &str,
        command: &[String],
    ) -> Result<T, StockError> {
        // The pod stands before `--`, what is behind is the program's.
        let mut arguments = words(["exec", "--container=etcd"], Scope::Namespace(namespace), []);
        arguments.insert(arguments.len() - 1, pod.into());
        arguments.extend(command.iter().map(Into::into));
        self.typed(self.call(arguments, &[], ONE_OBJECT)).await
    }

    /// How the kubeconfig says that the API server is reached: nothing of its user is printed.
    pub(crate) async fn cluster_of_kubeconfig<T: DeserializeOwned>(&self) -> Result<T, StockError> {
        self.of_kubeconfig("{.clusters[0].cluster}").await
    }

    /// The same with the name that the kubeconfig has for the cluster: an object of `name` and `cluster`.
    pub(crate) async fn named_cluster_of_kubeconfig<T: DeserializeOwned>(&self) -> Result<T, StockError> {
        self.of_kubeconfig("{.clusters[0]}").await
    }

    async fn of_kubeconfig<T: DeserializeOwned>(&self, what: &str) -> Result<T, StockError> {
        let output = format!("--output=jsonpath={what}");
        let flags = ["config", "view", "--raw", "--minify", "--flatten", &output];
        self.typed(self.call(flags.map(OsString::from), &[], ONE_OBJECT)).await
    }

    /// All that the kubeconfig says, keys included, as JSON; what other files hold that it names is put in on request, and then only what
    /// its current context needs.
    pub(crate) async fn whole_kubeconfig(&self, flat: bool) -> Result<Zeroizing<Vec<u8>>, StockError> {
        let flat = if flat { &["--minify", "--flatten"][..] } else { &[] };
        let flags = ["config", "view", "--raw", "--output=json"].into_iter().chain(flat.iter().copied());
        self.run(self.call(flags.map(OsString::from), &[], KUBECONFIG)).await.map(Zeroizing::new)
    }

    /// The same in the form in which kubectl writes it.
    pub(crate) async fn kubeconfig_as_yaml(&self) -> Result<Zeroizing<Vec<u8>>, StockError> {
        let flags = ["config", "view", "--raw", "--output=yaml"].map(OsString::from);
        self.run(self.call(flags, &[], KUBECONFIG)).await.map(Zeroizing::new)
    }

    /// The certificate by which the kubeconfig's user is known, as it has it; empty if it has none. Nothing secret is printed.
    pub(crate) async fn certificate_of_kubeconfig(&self) -> Result<String, StockError> {
        let path = "--output=jsonpath={.users[0].user.client-certificate-data}";
        let flags = ["config", "view", "--raw", "--minify", "--flatten", path];
        let printed = self.run(self.call(flags.map(OsString::from), &[], ONE_OBJECT)).await?;
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }

    /// Waits until objects (`resource/name`) have a condition.
    pub(crate) async fn wait(
        &self,
        condition: &str,
        scope: Scope<'_>,
        objects: &[String],
        allowed: Duration,
    ) -> Result<(), StockError> {
        let condition = format!("--for=condition={condition}");
        let timeout = format!("--timeout={}s", allowed.as_secs());
        let names: Vec<&str> = objects.iter().map(String::as_str).collect();
        let call = self.call(words(["wait", &condition, &timeout], scope, names), &[], MANY_OBJECTS);
        self.run(Call { allowed: allowed + ALLOWED, ..call }).await.map(drop)
    }

    pub(super) fn call<'a>(
        &'a self,
        arguments: impl IntoIterator<Item = OsString>,
        input: &'a [u8],
        limit: usize,
    ) -> Call<'a> {
        let mut all = vec!["--kubeconfig".into(), self.kubeconfig.clone().into_os_string()];
        all.push(format!("--request-timeout={}s", REQUEST.as_secs()).into());
        let mut arguments = arguments.into_iter();
        // The command's word stands first, so that an error shows what was done.
        all.splice(0..0, arguments.next());
        let at = 1;
        all.splice(at..at, arguments.by_ref().take_while(|argument| argument != "--"));
        let operands: Vec<OsString> = arguments.collect();
        if !operands.is_empty() {
            all.push("--".into());
            all.extend(operands);
        }
        Call { program: Program::Kubectl, file: &self.file, arguments: all, input, limit, allowed: ALLOWED }
    }

    pub(super) async fn run(&self, call: Call<'_>) -> Result<Vec<u8>, StockError> {
        let shown = call.shown();
        let Ended { status, stdout, said } = call.run(self.interrupt.as_deref(), None).await?;
        if status.success() {
            return Ok(stdout);
        }
        Err(StockError::Failed { call: shown, code: code_of(&said), said })
    }

    pub(super) async fn typed<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, StockError> {
        let shown = call.shown();
        parse(&shown, &self.run(call).await?)
    }

    /// One object is printed as it is, several as a list, none as nothing.
    async fn objects(&self, call: Call<'_>) -> Result<Vec<Object>, StockError> {
        let shown = call.shown();
        let printed = self.run(call).await?;
        if printed.trim_ascii().is_empty() {
            return Ok(Vec::new());
        }
        let Kinded { kind } = parse(&shown, &printed)?;
        if kind == "List" {
            return parse(&shown, &printed).map(|List { items }| items);
        }
        Ok(vec![parse(&shown, &printed)?])
    }

    /// kubectl prints several objects one behind the other.
    async fn stream<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<Vec<T>, StockError> {
        let shown = call.shown();
        let printed = self.run(call).await?;
        let objects = serde_json::Deserializer::from_slice(&printed).into_iter().collect::<Result<_, _>>();
        objects.map_err(|error| StockError::Malformed { call: shown, reason: error.to_string() })
    }

    fn version(&self, text: &str) -> Result<Version, StockError> {
        let call = format!("{} version", self.file.display());
        text.parse().map_err(|reason| StockError::Malformed { call, reason })
    }

    fn check_skew(&self) -> Result<(), StockError> {
        let Self { client: found, server, .. } = *self;
        let program = Program::Kubectl;
        let (oldest, newest) = (server.minor.saturating_sub(1), server.minor.saturating_add(1));
        let needed = || {
            let major = server.major;
            format!("the API server is {server}, which takes kubectl {major}.{oldest} to {major}.{newest}")
        };
        if (found.major, found.minor) < (server.major, oldest) {
            Err(StockError::TooOld { program, found, needed: needed() })
        } else if (found.major, found.minor) > (server.major, newest) {
            Err(StockError::TooNew { program, found, needed: needed() })
        } else {
            Ok(())
        }
    }
}

/// A command's arguments: flags, where, and behind `--` what no longer can be a flag.
pub(super) fn words<'a>(
    flags: impl IntoIterator<Item = &'a str>,
    scope: Scope<'_>,
    operands: impl IntoIterator<Item = &'a str>,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = flags.into_iter().map(Into::into).collect();
    if let Scope::Namespace(namespace) = scope {
        words.push(format!("--namespace={namespace}").into());
    }
    words.push("--".into());
    words.extend(operands.into_iter().map(Into::into));
    words
}

fn parse<T: DeserializeOwned>(call: &str, printed: &[u8]) -> Result<T, StockError> {
    let malformed =
        |error: serde_json::Error| StockError::Malformed { call: call.to_owned(), reason: error.to_string() };
    serde_json::from_slice(printed).map_err(malformed)
}

impl StockError {
    /// Whether the API server said this.
    pub(crate) fn is(&self, code: StockCode) -> bool {
        self.code() == code
    }
}
