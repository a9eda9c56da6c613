//! `latchkey cluster seal`: a secret that only one cluster can read, in its repository.

use http::Method;
use latchkey_factory_plus_client::{Call, segment};
use serde::Serialize;

use super::reach::{Centre, failed};
use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::node::block_on;
use crate::output::{Output, Report, Style};

/// The most bytes of a secret.
const LARGEST: usize = 64 << 10;

pub(crate) fn seal(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let centre = Centre::of(arguments)?;
    let named = arguments.required_text("secret")?;
    let parts: Vec<&str> = named.split('/').collect();
    let &[namespace, name, key] = parts.as_slice() else {
        return Err(CommandError::usage(format!("--secret {named}: expected NAMESPACE/NAME/KEY")));
    };
    let value = files::read_secret(arguments.required_path("value-file")?, LARGEST)?;
    output.waiting("sealing");
    let cluster = block_on(async {
        let (uuid, cluster) = centre.cluster(arguments).await?;
        let [namespace, name, key] = [namespace, name, key].map(segment);
        let path = format!("v1/cluster/{uuid}/secret/{namespace}/{name}/{key}");
        let call = Call::new(Method::PUT, &path).text(value.expose().to_vec());
        let answer = centre.manager.call(call).await.map_err(|error| failed(&error))?;
        match answer.status {
            200..=299 => Ok(cluster.name),
            status => {
                let said = String::from_utf8_lossy(&answer.body).chars().take(300).collect::<String>();
                let what = format!("the cluster manager answers {status}: {said}");
                Err(CommandError::new(Exit::Failed, CommandCode::CentreRefuses, what))
            }
        }
    })?;
    output.report(&SealReport { cluster, secret: named.to_owned() })
}

/// A secret is sealed.
#[derive(Serialize)]
struct SealReport {
    cluster: String,
    secret: String,
}

impl Report for SealReport {
    fn text(&self, _: Style) -> String {
        format!("{} is sealed for {}, and in its repository.\n", self.secret, self.cluster)
    }
}
