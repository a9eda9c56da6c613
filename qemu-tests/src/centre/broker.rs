//! The broker of a centre, as stock clients see it.

use std::process::Command;

use super::Centre;
use crate::error::HarnessError;
use crate::process::{Finished, TOOL, run};

impl Centre {
    /// Publishes a message by MQTT 5, and waits for the broker's word: its reason is in what this prints.
    pub fn publish(&self, user: (&str, &str), topic: &str) -> Result<Finished, HarnessError> {
        let address = self.parameters.places.broker;
        let mut command = Command::new("mosquitto_pub");
        command.args(["-h", "localhost", "-p", &address.port().to_string(), "-V", "mqttv5", "-q", "1", "-d"]);
        command.args(["-u", &self.upn(user.0), "-P", user.1, "-t", topic, "-m", "x"]);
        if !self.parameters.insecure {
            command.arg("--cafile").arg(self.layout.authority());
        }
        run(&mut command, TOOL)
    }
}
