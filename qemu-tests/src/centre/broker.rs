//! The broker of a centre, as stock clients see it.

use std::process::{Command, Stdio};

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::{class, role};
use latchkey_factory_plus_client::{Auth, ConfigDb};
use latchkey_test_support::{Lines, block_on, spawn};

use super::Centre;
use crate::error::{HarnessError, io_error};
use crate::process::{Finished, Process, TOOL, run};

/// Who reads all of Sparkplug here, once [`Centre::reader`] has made the account.
const READER: (&str, &str) = ("reader", "of-the-reader");

/// A stock client that stays, and hears what it subscribed to.
#[derive(Debug)]
pub struct Listener {
    lines: Lines,
    _process: Process,
}

impl Centre {
    /// Publishes a message by MQTT 5, and waits for the broker's word: its reason is in what this prints.
    pub fn publish(&self, user: (&str, &str), topic: &str) -> Result<Finished, HarnessError> {
        let mut command = Command::new("mosquitto_pub");
        self.connects(&mut command, user);
        run(command.args(["-d", "-t", topic, "-m", "x"]), TOOL)
    }

    fn connects(&self, command: &mut Command, user: (&str, &str)) {
        let address = self.parameters.places.broker;
        let port = address.port().to_string();
        command.args(["-h", &self.parameters.host, "-p", &port, "-V", "mqttv5", "-q", "1"]);
        command.args(["-u", &self.upn(user.0), "-P", user.1]);
        if !self.parameters.insecure {
            command.arg("--cafile").arg(self.layout.authority());
        }
    }

    /// Makes the account that [`Self::listen`] uses: its object's UUID.
    pub fn reader(&self) -> Result<Uuid, HarnessError> {
        self.set_password(READER.0, READER.1)?;
        let unusable = |error: &dyn std::fmt::Display| HarnessError::Unusable(error.to_string());
        let upn = self.parameters.upn(READER.0).map_err(|error| unusable(&error))?;
        let client = self.client()?;
        let (database, auth) = (ConfigDb::of(&client), Auth::of(&client));
        block_on(async {
            let (_, made) = database.create_object(class::PRINCIPAL, None).await?;
            database.add_member(role::SPARKPLUG_READER, made.uuid).await?;
            auth.put_kerberos(made.uuid, &upn).await?;
            Ok(made.uuid)
        })
        .map_err(|error: latchkey_factory_plus_client::CallError| unusable(&error))
    }

    /// Hears everything of Sparkplug from when this returns. Until its rights are known, the account is refused: that is tried again.
    ///
    /// # Panics
    /// If it is refused for too long.
    pub fn listen(&self) -> Result<Listener, HarnessError> {
        let mut last = None;
        latchkey_test_support::until("the reader's rights", || {
            let listener = self.subscribe(READER, "spBv1.0/#");
            let granted = !matches!(listener, Ok(None));
            last = Some(listener);
            granted.then_some(())
        });
        match last {
            Some(Ok(Some(listener))) => Ok(listener),
            Some(Err(error)) => Err(error),
            _ => Err(HarnessError::Unusable("nobody listened".into())),
        }
    }

    /// A stock client that subscribes to a filter and stays; none, where it is refused. Its id is its name.
    pub fn subscribe(&self, user: (&str, &str), filter: &str) -> Result<Option<Listener>, HarnessError> {
        // Line by line, although nobody reads at a terminal.
        let mut command = Command::new("stdbuf");
        command.args(["-oL", "mosquitto_sub"]);
        self.connects(&mut command, user);
        command.args(["-i", user.0, "-t", filter, "-d", "-F", "got %t %x"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = spawn(command).map_err(io_error("start", "mosquitto_sub".as_ref()))?;
        let lines = child.stdout.take().map(Lines::of);
        let process = Process::watch(child).map_err(io_error("watch", "mosquitto_sub".as_ref()))?;
        let Some(lines) = lines else { return Ok(None) };
        let said = lines.find("the broker's word", &mut Vec::new(), |line| {
            line.starts_with("Subscribed") || line.contains("denied") || line.contains("CONNACK (1")
        });
        let granted =
            said.is_some_and(|line| line.starts_with("Subscribed") && !line.ends_with("128") && !line.ends_with("135"));
        Ok(granted.then_some(Listener { lines, _process: process }))
    }
}

impl Listener {
    /// The next message: topic and payload.
    ///
    /// # Panics
    /// If there is none in time.
    pub fn message(&self) -> Result<(String, Vec<u8>), HarnessError> {
        let found = self.lines.find("a message", &mut Vec::new(), |line| line.starts_with("got "));
        let message = found.as_deref().and_then(|line| line["got ".len()..].split_once(' '));
        let decoded = message.and_then(|(topic, payload)| Some((topic.to_owned(), hex::decode(payload).ok()?)));
        decoded.ok_or_else(|| HarnessError::Unusable("the stock client ended".into()))
    }
}
