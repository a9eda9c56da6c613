//! The interface over HTTP: carries [`crate::api`] on a server.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use latchkey_centre_service::{AccessLists, Answer, backup};
use latchkey_factory_plus::Realm;
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::uuids;
use latchkey_factory_plus_server::http::{HeaderName, Method as HttpMethod, StatusCode};
use latchkey_factory_plus_server::{
    self as server, About, Authenticated, ContentType, Handler, HttpConfig, HttpServer, Refusal, Request, ServerError,
    Software, Terms, Verifier,
};

use crate::address::{Domain, Outside};
use crate::api::{Ask, MayAdvertise, Method, answer};
use crate::keeper::Keeper;
use crate::networks::Network;

/// The longest dump, in bytes.
const LONGEST_DUMP: u64 = 4 << 20;
/// How long a dump may take to come.
const DUMP_TIME: Duration = Duration::from_mins(2);

const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What a caller may do.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// Everything.
    pub is_root: bool,
    /// This.
    pub list: Arc<[Access]>,
}

/// What a caller may do, some time later; 503 where nobody can tell.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Result<Held, Refusal>> + Send + 'a>>;

/// Whoever knows what callers may do.
pub trait Callers: Send + Sync + 'static {
    /// What one may do now.
    fn held<'a>(&'a self, caller: &'a Authenticated) -> Asking<'a>;
}

impl Callers for AccessLists {
    fn held<'a>(&'a self, caller: &'a Authenticated) -> Asking<'a> {
        Box::pin(async move {
            let rights = self.of(caller).await?;
            Ok(Held { is_root: rights.is_root(), list: Arc::clone(rights.list()) })
        })
    }
}

/// What the configuration says of requests.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The domain that the site's services have names in.
    pub domain: Option<Domain>,
    /// Whose word is taken for how a client got here.
    pub trusted_proxies: Vec<Network>,
}

/// Answers requests.
pub struct Requests {
    keeper: Keeper,
    rules: Rules,
    callers: Arc<dyn Callers>,
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// A server of the directory that does not listen yet. Callers are verified by `verifier`.
///
/// # Errors
/// [`ServerError`].
pub fn server(
    http: &HttpConfig,
    realm: Realm,
    verifier: Arc<dyn Verifier>,
    (keeper, rules, callers): (Keeper, Rules, Arc<dyn Callers>),
) -> Result<HttpServer<Requests>, ServerError> {
    let about = About {
        // The version of the original that has this interface; clients compare it.
        version: "2.0.0",
        service: uuids::service::DIRECTORY,
        device: None,
        software: Software {
            vendor: "Latchkey",
            application: "latchkey-directory",
            revision: env!("CARGO_PKG_VERSION"),
        },
    };
    HttpServer::new(http, about, realm, verifier, Requests { keeper, rules, callers })
}

impl Handler for Requests {
    fn terms(&self, method: &HttpMethod, path: &str) -> Terms {
        if method == HttpMethod::POST && ["/load", "/v1/load"].contains(&path) {
            return Terms::authenticated().body_limit(LONGEST_DUMP).time(DUMP_TIME);
        }
        if backup::is_asked(method, path) {
            return backup::terms();
        }
        Terms::authenticated()
    }

    async fn handle(&self, mut request: Request) -> server::Answer {
        let caller = request.caller().known()?.clone();
        if backup::is_asked(request.method(), request.path()) {
            let is_root = self.callers.held(&caller).await?.is_root;
            return backup::answer(&request, is_root, self.keeper.store().copy_beside()).await;
        }
        let method = match *request.method() {
            HttpMethod::GET => Method::Get,
            HttpMethod::PUT => Method::Put,
            HttpMethod::POST => Method::Post,
            _ => return Err(Refusal::method_not_allowed("This service takes GET, PUT and POST")),
        };
        let said = request.content_type();
        let body = request.body().read_all().await?;
        if !body.is_empty() && said != ContentType::Json {
            let text = "The body must be JSON: send Content-Type: application/json";
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        match Ask::read(method, request.path(), &body) {
            Err(refused) => refused.into_response(),
            Ok(asked) if asked.is_write() => self.write(&caller, asked).await?.into_response(),
            Ok(asked) => {
                let outside = self.outside(&request)?;
                let domain = self.rules.domain.as_ref();
                self.keeper.look(|services| answer(services, &asked, outside.as_ref(), domain)).into_response()
            }
        }
    }
}

impl Requests {
    async fn write(&self, caller: &Authenticated, asked: Ask) -> Result<Answer, Refusal> {
        let Held { is_root, list } = self.callers.held(caller).await?;
        Ok(match MayAdvertise::check(asked, &list, is_root) {
            Ok(may) => self.keeper.advertise(may).await,
            Err(refused) => refused,
        })
    }

    /// How the client got here. What others than proxies say of that is not looked at: it would be a way to lead clients astray.
    fn outside(&self, request: &Request) -> Result<Option<Outside>, Refusal> {
        let peer = request.peer().ip();
        let is_said = request.headers().contains_key(FORWARDED_HOST);
        if !is_said || !self.rules.trusted_proxies.iter().any(|network| network.has(peer)) {
            return Ok(None);
        }
        let host = request.header(&FORWARDED_HOST).unwrap_or_default();
        let outside = Outside::read(host, request.header(&FORWARDED_PROTO));
        outside.map(Some).map_err(|why| Refusal::bad_request(why.to_string()))
    }
}
