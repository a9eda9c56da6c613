//! A client of a centre, and of each of its services.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use http::Method;
use http::header::{ACCEPT, AUTHORIZATION};
use latchkey_factory_plus::{Uuid, uuids};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::call::{Answer, Call, Etag, Precondition, Written};
use crate::connection::{Outgoing, Pool, Stream, connect};
use crate::directory::{self, Advertised};
use crate::error::{CallError, Place};
use crate::notify::{Notify, WeakNotify};
use crate::token::{Granted, TOKEN, Token, Tokens, sensitive};
use crate::within::within;
use crate::{BaseUrl, Identity, Limits, Services, Trust};

/// What a client needs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who it is.
    pub identity: Identity,
    /// Whom it believes.
    pub trust: Trust,
    /// Where services are.
    pub services: Services,
    /// What they may cost.
    pub limits: Limits,
}

/// A client of a centre. Clones are one client: they share connections, tokens and subscriptions.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    settings: Settings,
    /// By URL, of the services that were used.
    origins: Mutex<BTreeMap<BaseUrl, Arc<Origin>>>,
    /// What the directory said, and when.
    advertised: Mutex<BTreeMap<Uuid, (BaseUrl, Instant)>>,
    notify: Mutex<BTreeMap<Uuid, WeakNotify>>,
}

/// One service at one URL.
struct Origin {
    url: BaseUrl,
    pool: Pool,
    tokens: Tokens,
}

/// Origins and answers of the directory that are remembered: a centre has five services, and a directory that names another
/// URL each time must not fill the memory.
const MOST_ORIGINS: usize = 32;

impl Client {
    /// A client; it connects when it is used.
    pub fn new(settings: Settings) -> Self {
        let (origins, advertised, notify) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { settings, origins, advertised, notify }))
    }

    /// One of the centre's services.
    pub fn service(&self, service: Uuid) -> Service {
        Service { client: self.clone(), service }
    }

    /// What services may cost.
    pub fn limits(&self) -> &Limits {
        &self.0.settings.limits
    }

    /// Where a service is.
    async fn resolve(&self, service: Uuid) -> Result<BaseUrl, CallError> {
        if let Some(url) = self.0.settings.services.find(service) {
            return Ok(url.clone());
        }
        let fresh = |(url, at): &(BaseUrl, Instant)| (at.elapsed() < self.limits().directory).then(|| url.clone());
        if let Some(url) = lock(&self.0.advertised).get(&service).and_then(fresh) {
            return Ok(url);
        }
        let directory = self.0.settings.services.find(uuids::service::DIRECTORY);
        let directory = directory.ok_or(CallError::NotAdvertised(service))?;
        let url = Box::pin(self.ask_directory(directory, service)).await?;
        let mut advertised = lock(&self.0.advertised);
        if advertised.len() >= MOST_ORIGINS {
            advertised.clear();
        }
        advertised.insert(service, (url.clone(), Instant::now()));
        Ok(url)
    }

    async fn ask_directory(&self, directory: &BaseUrl, service: Uuid) -> Result<BaseUrl, CallError> {
        let call = Call::new(Method::GET, &directory::path(service));
        let place = place(uuids::service::DIRECTORY, directory, &call);
        let answer = self.call_at(directory, call, &place).await?;
        if answer.status == 404 {
            return Err(CallError::NotAdvertised(service));
        }
        let found: Vec<Advertised> = answer.accepted(&place)?.read(&place)?;
        match found.as_slice() {
            [] => Err(CallError::NotAdvertised(service)),
            [one] => one.url.parse().map_err(|error| CallError::bad_answer(&place, &error as &crate::BaseUrlError)),
            _ => Err(CallError::bad_answer(&place, &"it names more than one URL")),
        }
    }

    /// What the directory said of a service may be over: ask again before the next call.
    fn forget(&self, service: Uuid) {
        lock(&self.0.advertised).remove(&service);
    }

    /// A call with a token; one that is refused is renewed and the call repeated, once.
    async fn call_at(&self, url: &BaseUrl, call: Call, place: &Place) -> Result<Answer, CallError> {
        let mut request = call.outgoing(place)?;
        request.headers.entry(ACCEPT).or_insert(http::HeaderValue::from_static("application/json, text/plain;q=0.5"));
        let limit = self.limits().whole;
        let calling = async {
            let origin = self.origin(url);
            let token = self.token(&origin, None, place).await?;
            let answer = self.with_token(&origin, &request, &token, place).await?;
            if answer.status != 401 {
                return Ok(answer);
            }
            let token = self.token(&origin, Some(&token), place).await?;
            self.with_token(&origin, &request, &token, place).await
        };
        within(limit, calling).await.unwrap_or_else(|| {
            Err(CallError::unreachable(place, &format_args!("not done within {} s", limit.as_secs_f32())))
        })
    }

    async fn with_token(
        &self,
        origin: &Origin,
        request: &Outgoing,
        token: &Token,
        place: &Place,
    ) -> Result<Answer, CallError> {
        let mut request = request.clone();
        request.headers.insert(AUTHORIZATION, token.header(place)?);
        origin.pool.exchange(&request, &self.0.settings.trust, self.limits(), place).await
    }

    /// A token of a service; another one than `spoiled`.
    async fn token(&self, origin: &Origin, spoiled: Option<&Token>, place: &Place) -> Result<Token, CallError> {
        let fetch = async || -> Result<Granted, CallError> {
            let credentials = self.0.settings.identity.authorization(&origin.url).await;
            let credentials =
                credentials.map_err(|why| CallError::NoCredentials { place: place.clone(), why: why.into() })?;
            let (method, path) = TOKEN;
            let mut request = Call::new(method, path).outgoing(place)?;
            request.headers.insert(AUTHORIZATION, sensitive(&credentials, place)?);
            let answer = origin.pool.exchange(&request, &self.0.settings.trust, self.limits(), place).await?;
            match answer.accepted(place) {
                // `place` names the call that needs the token; what is not there is the token's.
                Err(CallError::NotFound(_)) => {
                    Err(CallError::bad_answer(place, &"it has no /token, as a service of a centre has"))
                }
                answer => answer?.read(place),
            }
        };
        origin.tokens.token(spoiled, place, fetch).await
    }

    fn origin(&self, url: &BaseUrl) -> Arc<Origin> {
        let mut origins = lock(&self.0.origins);
        if let Some(origin) = origins.get(url) {
            return Arc::clone(origin);
        }
        if origins.len() >= MOST_ORIGINS {
            origins.clear();
        }
        let pool = Pool::new(url.clone(), self.limits());
        let origin = Arc::new(Origin { url: url.clone(), pool, tokens: Tokens::default() });
        origins.insert(url.clone(), Arc::clone(&origin));
        origin
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("services", &self.0.settings.services).finish_non_exhaustive()
    }
}

/// A stream that change notification can be spoken on, and what it needs for that.
pub(crate) struct Opened {
    pub(crate) stream: Stream,
    pub(crate) url: BaseUrl,
    pub(crate) token: Token,
    pub(crate) place: Place,
}

/// One service of a centre.
#[derive(Debug, Clone)]
pub struct Service {
    client: Client,
    service: Uuid,
}

impl Service {
    /// A resource and its version; `None` if there is no such resource.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<(T, Etag)>, CallError> {
        let (answer, place) = self.answer(Call::new(Method::GET, path)).await?;
        if answer.status == 404 {
            return Ok(None);
        }
        let answer = answer.accepted(&place)?;
        let etag = answer.etag.clone().ok_or_else(|| CallError::bad_answer(&place, &"it has no valid ETag"))?;
        Ok(Some((answer.read(&place)?, etag)))
    }

    /// A resource that may have no version, such as a list; `None` if there is no such resource.
    pub async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, CallError> {
        let (answer, place) = self.answer(Call::new(Method::GET, path)).await?;
        if answer.status == 404 { Ok(None) } else { answer.accepted(&place)?.read(&place).map(Some) }
    }

    /// Whether there is a resource.
    pub async fn exists(&self, path: &str) -> Result<bool, CallError> {
        let (answer, place) = self.answer(Call::new(Method::GET, path)).await?;
        if answer.status == 404 { Ok(false) } else { answer.accepted(&place).map(|_| true) }
    }

    /// Writes a resource.
    pub async fn put<B>(&self, path: &str, body: &B, when: &Precondition) -> Result<Written, CallError>
    where
        B: Serialize + ?Sized + Sync,
    {
        let call = Call::new(Method::PUT, path).when(when).json(body);
        Ok(self.success(self.written_as_json(path, call)?).await?.0.written())
    }

    /// Writes a resource without a body, such as a membership.
    pub async fn put_empty(&self, path: &str) -> Result<Written, CallError> {
        Ok(self.success(Call::new(Method::PUT, path)).await?.0.written())
    }

    /// Merges a patch (RFC 7396) into a resource.
    pub async fn patch<B>(&self, path: &str, change: &B, when: &Precondition) -> Result<Written, CallError>
    where
        B: Serialize + ?Sized + Sync,
    {
        let call = Call::new(Method::PATCH, path).when(when).merge_patch(change);
        Ok(self.success(self.written_as_json(path, call)?).await?.0.written())
    }

    /// Posts something, and reads what is answered.
    pub async fn post<B, T>(&self, path: &str, body: &B) -> Result<(Written, T), CallError>
    where
        B: Serialize + ?Sized + Sync,
        T: DeserializeOwned,
    {
        let call = Call::new(Method::POST, path).json(body);
        let (answer, place) = self.success(self.written_as_json(path, call)?).await?;
        Ok((answer.written(), answer.read(&place)?))
    }

    /// Posts something that is answered without a body.
    pub async fn post_only<B>(&self, path: &str, body: &B) -> Result<Written, CallError>
    where
        B: Serialize + ?Sized + Sync,
    {
        let call = Call::new(Method::POST, path).json(body);
        Ok(self.success(self.written_as_json(path, call)?).await?.0.written())
    }

    /// Deletes a resource; whether there was one.
    pub async fn delete(&self, path: &str, when: &Precondition) -> Result<bool, CallError> {
        match self.success(Call::new(Method::DELETE, path).when(when)).await {
            Ok(_) => Ok(true),
            Err(CallError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Any call, and its answer whatever its status; 401 was tried again with a new token.
    pub async fn call(&self, call: Call) -> Result<Answer, CallError> {
        Ok(self.answer(call).await?.0)
    }

    /// Where the service is, and the value of the header `Authorization` for it: for a program that speaks to it in our
    /// name, such as git. The token is one that was good at the last call.
    pub async fn authorization(&self) -> Result<(BaseUrl, Zeroizing<String>), CallError> {
        let url = self.client.resolve(self.service).await?;
        let place = place(self.service, &url, &Call::new(Method::GET, ""));
        let limit = self.limits().whole;
        let origin = self.client.origin(&url);
        let token = within(limit, Box::pin(self.client.token(&origin, None, &place))).await.unwrap_or_else(|| {
            Err(CallError::unreachable(&place, &format_args!("no token within {} s", limit.as_secs_f32())))
        });
        token.map(|token| (url, token.bearer())).map_err(|error| self.moved(error))
    }

    /// Change notification of this service: the same for all clones of the client.
    pub fn notify(&self) -> Notify {
        let mut known = lock(&self.client.0.notify);
        if let Some(notify) = known.get(&self.service).and_then(WeakNotify::upgrade) {
            return notify;
        }
        let notify = Notify::start(self.clone());
        known.retain(|_, weak| weak.upgrade().is_some());
        known.insert(self.service, notify.downgrade());
        notify
    }

    /// What services may cost.
    pub fn limits(&self) -> &Limits {
        self.client.limits()
    }

    async fn success(&self, call: Call) -> Result<(Answer, Place), CallError> {
        let (answer, place) = self.answer(call).await?;
        Ok((answer.accepted(&place)?, place))
    }

    async fn answer(&self, call: Call) -> Result<(Answer, Place), CallError> {
        let url = self.client.resolve(self.service).await?;
        let place = place(self.service, &url, &call);
        // Boxed: callers' futures stay small.
        match Box::pin(self.client.call_at(&url, call, &place)).await {
            Ok(answer) => Ok((answer, place)),
            Err(error) => Err(self.moved(error)),
        }
    }

    /// Opens a connection for change notification, with a token other than `spoiled`.
    pub(crate) async fn open(&self, path: &str, spoiled: Option<&Token>) -> Result<Opened, CallError> {
        let url = self.client.resolve(self.service).await?;
        let place = place(self.service, &url, &Call::new(Method::GET, path));
        let settings = &self.client.0.settings;
        let opening = async {
            let token = self.client.token(&self.client.origin(&url), spoiled, &place).await?;
            let stream = connect(&url, &settings.trust, &settings.limits, &place).await?;
            Ok(Opened { stream, url: url.clone(), token, place: place.clone() })
        };
        opening.await.map_err(|error| self.moved(error))
    }

    fn moved(&self, error: CallError) -> CallError {
        if matches!(error, CallError::Unreachable { .. } | CallError::BadAnswer { .. }) {
            self.client.forget(self.service);
        }
        error
    }

    fn written_as_json(&self, path: &str, call: Result<Call, serde_json::Error>) -> Result<Call, CallError> {
        call.map_err(|error| {
            let place = Place::new(self.service, &Method::PUT, &path);
            CallError::bad_call(&place, &format_args!("its body cannot be written as JSON: {error}"))
        })
    }
}

fn place(service: Uuid, url: &BaseUrl, call: &Call) -> Place {
    Place::new(service, call.method(), &format_args!("{url}/{}", call.path()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
