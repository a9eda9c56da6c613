//! Where access control lists come from.

use std::pin::Pin;
use std::sync::Arc;

use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus_client::acl::Follower;

/// A list, some time later, or why there is none; then nobody may do anything.
pub type Listing<'a> = Pin<Box<dyn Future<Output = Result<Arc<[Access]>, String>> + Send + 'a>>;

/// Whoever knows what a principal may do.
pub trait AccessLists: Send + Sync + 'static {
    /// The list of `NAME@REALM`.
    fn of<'a>(&'a self, principal: &'a str) -> Listing<'a>;
}

impl AccessLists for Follower {
    fn of<'a>(&'a self, principal: &'a str) -> Listing<'a> {
        Box::pin(async move { self.access(principal).await.map_err(|error| error.to_string()) })
    }
}
