//! The page: files that are a part of the program, and what the page must know of the site.

use latchkey_factory_plus_client::BaseUrl;
use latchkey_factory_plus_server::http::{HeaderName, HeaderValue, StatusCode, header};
use latchkey_factory_plus_server::{Refusal, Response};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::manager::Manager;

/// A file of the page.
#[derive(Debug, Clone, Copy)]
struct File {
    path: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

macro_rules! files {
    ($($name:literal: $media_type:expr),+ $(,)?) => {
        [$(File {
            path: concat!("/", $name),
            media_type: $media_type,
            bytes: include_bytes!(concat!("../../page/", $name)),
        }),+]
    };
}

const FILES: [File; 15] = files!(
    "index.html": HTML,
    "page.css": STYLE,
    "icon.svg": IMAGE,
    "actions.js": SCRIPT,
    "app.js": SCRIPT,
    "charts.js": SCRIPT,
    "cluster.js": SCRIPT,
    "command.js": SCRIPT,
    "dom.js": SCRIPT,
    "list.js": SCRIPT,
    "names.js": SCRIPT,
    "new.js": SCRIPT,
    "notify.js": SCRIPT,
    "session.js": SCRIPT,
    "uuids.js": SCRIPT,
);

/// What the page must know of the site.
const SITE: &str = "/page.json";
/// Where the edge's chart is deployed to, where nobody says otherwise.
const NAMESPACE: &str = "fplus-edge";

/// The page's files, each with its hash, and the headers they are sent with.
#[derive(Debug)]
pub(super) struct Pages {
    etags: [HeaderValue; FILES.len()],
    policy: HeaderValue,
    own: BaseUrl,
    config_db: BaseUrl,
    insecure: bool,
}

impl Pages {
    pub(super) fn new(own: &BaseUrl, config_db: &BaseUrl, insecure: bool) -> Self {
        let none = || HeaderValue::from_static("\"\"");
        let etags = FILES.map(|file| {
            let hash = hex::encode(Sha256::digest(file.bytes));
            HeaderValue::try_from(format!("\"{hash}\"")).unwrap_or_else(|_| none())
        });
        // An origin's URL is a source of the policy as it is; one that were none would leave nothing to connect to.
        let policy = HeaderValue::try_from(policy(own, config_db));
        let policy = policy.unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"));
        Self { etags, policy, own: own.clone(), config_db: config_db.clone(), insecure }
    }

    /// What is at a path, if it is something of the page.
    pub(super) fn answer(
        &self,
        path: &str,
        matches: Option<&str>,
        manager: &Manager,
    ) -> Result<Option<Response>, Refusal> {
        if path == SITE {
            let site = self.site(manager);
            return Ok(Some(self.marked(Response::json(&site)?, "no-store")));
        }
        let Some(number) = find(path) else { return Ok(None) };
        let (file, etag) = (FILES[number], &self.etags[number]);
        let is_same = matches.is_some_and(|list| list.split(',').any(|one| one.trim().as_bytes() == etag.as_bytes()));
        let response = if is_same {
            Response::empty(StatusCode::NOT_MODIFIED)
        } else {
            Response::bytes(StatusCode::OK, file.media_type, file.bytes)
        };
        Ok(Some(self.marked(response, "no-cache").with(header::ETAG, etag.clone())))
    }

    fn site(&self, manager: &Manager) -> serde_json::Value {
        let (place, charts) = (manager.place(), manager.charts());
        json!({
            "realm": place.realm,
            "organisation": place.organisation,
            "insecure": self.insecure,
            "namespace": NAMESPACE,
            "chart": charts.cluster,
            "agentChart": charts.agent,
            "services": { "config_db": self.config_db, "cluster_manager": self.own },
        })
    }

    fn marked(&self, response: Response, caching: &'static str) -> Response {
        let fixed = [
            (header::CACHE_CONTROL, caching),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ];
        let response = response.with(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        fixed.into_iter().fold(response, |response, (name, value)| response.with(name, HeaderValue::from_static(value)))
    }
}

/// Whether something of the page is at a path, as it came.
pub(super) fn has(path: &str) -> bool {
    path == SITE || find(path).is_some()
}

fn find(path: &str) -> Option<usize> {
    let path = if path == "/" { "/index.html" } else { path };
    FILES.iter().position(|file| file.path == path)
}

fn policy(own: &BaseUrl, config_db: &BaseUrl) -> String {
    let sources = [own, config_db].map(|url| {
        let url = url.to_string();
        let socket = url.replacen("http", "ws", 1);
        format!("{url} {socket}")
    });
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' {}; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        sources.join(" ")
    )
}
