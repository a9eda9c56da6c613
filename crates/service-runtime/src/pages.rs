//! The admin pages of a program that takes no connections by [`crate::serve`], or none at all: the section `pages`.

use crate::admin::Admin;
use crate::config::{ConfigFileError, MetricsConfig, check_admin};
use crate::guarded;
use crate::page::Page;
use crate::program::ProgramError;
use crate::serve::Bound;
use serde::Deserialize;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Where the pages are. Without the section there are none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PagesConfig {
    /// Address and port of `/metrics` and `/healthz`, plain HTTP; a loopback address.
    pub admin_listen: SocketAddr,
    /// The same pages for other machines, over TLS and for whoever shows a token or a certificate. Without it there are none.
    pub metrics: Option<MetricsConfig>,
}

impl PagesConfig {
    /// Checks the section, before anything is opened.
    ///
    /// # Errors
    /// Those of [`check_admin`].
    pub fn check(&self) -> Result<(), ConfigFileError> {
        check_admin(self.admin_listen, self.metrics.as_ref())
    }

    /// The paths that the section names, to make them relative to the file's directory.
    pub fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.metrics.iter_mut().flat_map(MetricsConfig::paths)
    }
}

/// The pages, not yet answered.
#[derive(Debug)]
pub struct Pages(Option<Bound>);

impl Pages {
    /// Reads what guards them, and listens, where there is a section.
    ///
    /// # Errors
    /// Files that cannot be used, an address that cannot be had.
    pub fn open(config: Option<PagesConfig>) -> Result<Self, ProgramError> {
        let Some(PagesConfig { admin_listen, metrics }) = config else { return Ok(Self(None)) };
        guarded::check(metrics.as_ref()).map_err(ProgramError::unusable)?;
        let bound = smol::block_on(async { Bound::open_all(&[], admin_listen).await?.with_metrics(metrics).await });
        bound.map(|bound| Self(Some(bound))).map_err(ProgramError::running)
    }

    /// What a READY line says of them: ` admin=ADDRESS`, ` metrics=ADDRESS`, or nothing.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn in_ready_line(&self) -> Result<String, ProgramError> {
        let Some(bound) = &self.0 else { return Ok(String::new()) };
        let admin = bound.admin_address().map_err(ProgramError::running)?;
        let metrics = bound.metrics_address().map_err(ProgramError::running)?;
        Ok(format!(" admin={admin}{}", metrics.map_or_else(String::new, |address| format!(" metrics={address}"))))
    }

    /// Answers until dropped; where there is no section, does nothing for as long.
    ///
    /// # Errors
    /// When a listener fails for good.
    pub async fn answer(self, admin: Arc<dyn Admin>) -> io::Result<()> {
        match self.0 {
            Some(bound) => bound.answer(admin).await,
            None => pending().await,
        }
    }
}

/// Which version runs, and nothing else; `.0` begins the metric's name, and includes the last underscore.
#[derive(Clone, Copy, Debug)]
pub struct VersionPage(pub &'static str);

impl Admin for VersionPage {
    fn metrics(&self) -> String {
        Page::new(self.0).into_text()
    }

    fn health(&self) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smol::future::FutureExt as _;
    use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use smol::net::TcpStream;

    #[test]
    fn a_program_without_connections_has_pages_where_its_configuration_says_so() {
        assert_eq!(Pages::open(None).unwrap().in_ready_line().unwrap(), "");
        let config: PagesConfig = serde_json::from_str(r#"{"admin_listen": "127.0.0.1:0"}"#).unwrap();
        config.check().unwrap();
        let pages = Pages::open(Some(config)).unwrap();
        let said = pages.in_ready_line().unwrap();
        let address: SocketAddr = said.strip_prefix(" admin=").unwrap().parse().unwrap();
        let page = latchkey_test_support::block_on(async {
            let asking = async {
                let mut stream = TcpStream::connect(address).await?;
                stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await?;
                let mut page = String::new();
                stream.read_to_string(&mut page).await.map(|_| page)
            };
            let answering = async { pages.answer(Arc::new(VersionPage("x_"))).await.map(|()| String::new()) };
            asking.or(answering).await.unwrap()
        });
        assert!(page.contains("\nx_build_info{version=") && page.contains("\nprocess_open_fds "), "{page}");
    }

    #[test]
    fn pages_for_everybody_are_refused() {
        let config: PagesConfig = serde_json::from_str(r#"{"admin_listen": "0.0.0.0:0"}"#).unwrap();
        assert!(matches!(config.check(), Err(ConfigFileError::AdminNotLoopback { .. })));
    }
}
