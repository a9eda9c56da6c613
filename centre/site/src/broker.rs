//! The configuration of Mosquitto.

use std::path::Path;

use crate::{Layout, Parameters};

/// `mosquitto.conf`: one listener, no anonymous clients, and our plugin, which asks the authorisation service.
pub fn mosquitto_conf(parameters: &Parameters, layout: &Layout, plugin: &Path) -> String {
    let address = parameters.places.broker;
    let tls = if parameters.insecure {
        String::new()
    } else {
        format!(
            "certfile {}\nkeyfile {}\ntls_version tlsv1.3\n",
            layout.certificate().display(),
            layout.private_key().display()
        )
    };
    format!(
        "# Written by `latchkey centre up`.\n\
         # Only where it is started as root: everything else is this user's already.\n\
         user root\n\
         per_listener_settings false\n\
         allow_anonymous false\n\
         plugin {}\n\
         plugin_opt_latchkey_socket {}\n\
         listener {} {}\n\
         {tls}\
         max_packet_size 1048576\n\
         max_inflight_messages 100\n\
         max_queued_messages 1000\n\
         persistence false\n\
         log_dest stderr\n\
         log_type error\n\
         log_type warning\n\
         log_type notice\n",
        plugin.display(),
        layout.broker_socket().display(),
        address.port(),
        address.ip(),
    )
}
