//! The configuration files that units name: those of `latchkey centre up`, with credentials in the place of root's files.

use serde_json::{Value, json};

use super::{BROKER, BROKER_SOCKET, Installed, UnitsError, unit_name};
use crate::{Layout, Parameters, ParametersError, Program, Service, broker, services};

/// Where a unit finds a credential.
fn credential(unit: &str, name: &str) -> String {
    format!("/run/credentials/{unit}/{name}")
}

/// The configuration of a service of ours.
pub(super) fn config(
    parameters: &Parameters,
    layout: &Layout,
    installed: &Installed,
    service: Service,
) -> Result<String, UnitsError> {
    let helper = installed.ours.join("latchkey-kerberos-helper");
    let text = services::config(parameters, layout, service, &helper).map_err(ParametersError::from)?;
    // Text that was a value a moment ago is one.
    let mut config: Value = serde_json::from_str(&text).unwrap_or_default();
    let unit = unit_name(service);
    let mut put = |pointer: &str, value: String| {
        if let Some(place) = config.pointer_mut(pointer) {
            *place = Value::String(value);
        }
    };
    for (pointer, name) in CREDENTIALS {
        put(pointer, credential(&unit, name));
    }
    for pointer in ["/kerberos/krb5_config", "/kadmin/krb5_config"] {
        put(pointer, installed.to.join("config/krb5.conf").display().to_string());
    }
    if service == Program::Auth.into() {
        config["broker_socket"] = json!(BROKER_SOCKET);
        config["broker_users"] = json!([installed.broker_user.1]);
    }
    Ok(format!("{config:#}\n"))
}

/// Fields of a configuration, and the credentials that they name.
const CREDENTIALS: [(&str, &str); 7] = [
    ("/http/certificate", "server.pem"),
    ("/http/private_key", "server.key"),
    ("/kerberos/keytab", "http.keytab"),
    ("/centre/password_file", "password"),
    ("/centre/authorities", "authority.pem"),
    ("/kadmin/password_file", "password"),
    ("/identity_key", "identity.key"),
];

/// The broker's configuration.
pub(super) fn mosquitto_conf(parameters: &Parameters, layout: &Layout, installed: &Installed) -> String {
    let plugin = installed.ours.join("liblatchkey_mosquitto_plugin.so");
    broker::mosquitto_conf(parameters, layout, &plugin)
        .replace(&layout.certificate().display().to_string(), &credential(BROKER, "server.pem"))
        .replace(&layout.private_key().display().to_string(), &credential(BROKER, "server.key"))
        .replace(&layout.broker_socket().display().to_string(), BROKER_SOCKET)
}
