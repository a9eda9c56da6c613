//! Asks the services of a Factory+ centre, and follows their changes.
//!
//! 1. [`Settings`]: who we are ([`Identity`]), whom we trust ([`Trust`]), where services are ([`Services`]), [`Limits`].
//! 2. [`Client`], [`Service`]: calls over HTTP/1.1 with a token of the service, each failure an [`CallError`] that names service and
//!    URL; [`ConfigDb`], [`Auth`], [`Directory`] know the paths.
//! 3. [`notify`]: one WebSocket per service with many subscriptions, each of which says whether it is up to date.
//! 4. [`bootstrap`]: the one call before a program has an account.
//! 5. [`acl`], [`classes`]: what services follow of auth and of the configuration database.
//!
//! Nothing that a service answers is believed before it was bounded and read. smol runs everything; what goes on in the
//! background ends with the last handle to it.

pub mod acl;
mod auth;
mod base_url;
pub mod bootstrap;
mod call;
pub mod classes;
mod client;
mod config_db;
mod connection;
mod directory;
mod error;
mod identity;
mod limits;
pub mod notify;
mod path;
mod services;
mod token;
mod trust;
mod within;

pub use auth::{Auth, GrantPattern, WhoAmI};
pub use base_url::{BaseUrl, BaseUrlError};
pub use call::{Answer, Call, Etag, Precondition, Written};
pub use client::{Client, Service, Settings};
pub use config_db::{ConfigDb, Registration};
pub use directory::{Advertised, Directory};
pub use error::{CallError, Place};
pub use identity::{Credentials, Identity, IdentityError, Pending};
pub use limits::Limits;
pub use path::segment;
pub use services::Services;
pub use trust::{Insecure, Trust, TrustError};
