//! `latchkey cluster command`, `latchkey cluster revoke`.

use std::time::Duration;

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::manager::{Link, LinkRequest, LinkState, NewLink};
use latchkey_factory_plus_client::Precondition;
use serde::Serialize;

use super::reach::{Centre, failed};
use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::node::block_on;
use crate::output::{Output, Report, Style, pairs};

/// How long a link is good for where nobody says.
const LIFETIME: Duration = Duration::from_hours(1);

pub(crate) fn command(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let centre = Centre::of(arguments)?;
    let lifetime = arguments.duration("lifetime", LIFETIME)?.as_secs();
    let request = LinkRequest { lifetime_seconds: u32::try_from(lifetime).ok() };
    output.waiting("asking the centre");
    let link = block_on(async {
        let (uuid, _) = centre.cluster(arguments).await?;
        let path = format!("v1/cluster/{uuid}/link");
        centre.manager.post::<_, NewLink>(&path, &request).await.map(|(_, link)| link).map_err(|error| failed(&error))
    })?;
    output.report(&CommandReport { link })
}

/// A new link, and the commands that use it.
#[derive(Serialize)]
struct CommandReport {
    #[serde(flatten)]
    link: NewLink,
}

impl Report for CommandReport {
    fn text(&self, _: Style) -> String {
        let NewLink { id, sha256, command, checked, .. } = &self.link;
        let lines = pairs(&[("link", id.to_string()), ("SHA-256", sha256.clone())]);
        format!("{command}\n\nThe same, with the script checked before it runs:\n\n{checked}\n\n{lines}")
    }
}

pub(crate) fn revoke(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let centre = Centre::of(arguments)?;
    let one = arguments.value::<Uuid>("link")?;
    output.waiting("asking the centre");
    let revoked = block_on(async {
        let (uuid, _) = centre.cluster(arguments).await?;
        let path = format!("v1/cluster/{uuid}/link");
        let links: Vec<Link> = centre.manager.read(&path).await.map_err(|error| failed(&error))?.unwrap_or_default();
        let meant = |link: &Link| match one {
            Some(id) => link.id == id,
            None => matches!(link.state, LinkState::Valid | LinkState::Redeemed | LinkState::Theft),
        };
        let mut revoked = Vec::new();
        for link in links.iter().filter(|link| meant(link)) {
            centre
                .manager
                .delete(&format!("{path}/{}", link.id), &Precondition::None)
                .await
                .map_err(|error| failed(&error))?;
            revoked.push(link.id);
        }
        Ok::<_, CommandError>(revoked)
    })?;
    output.report(&RevokeReport { revoked })
}

/// Links that lead nowhere any more.
#[derive(Serialize)]
struct RevokeReport {
    revoked: Vec<Uuid>,
}

impl Report for RevokeReport {
    fn text(&self, _: Style) -> String {
        match self.revoked.len() {
            0 => "There was nothing to revoke.\n".to_owned(),
            1 => "One link is revoked.\n".to_owned(),
            number => format!("{number} links are revoked.\n"),
        }
    }
}
