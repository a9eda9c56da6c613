//! What stands between `krb-keys` and a KDC with its kadmind.

use std::path::PathBuf;
use std::sync::Arc;

use latchkey_api_server_rig::gate::Way;
use latchkey_kdc_rig::Kdc;

pub(crate) struct Front {
    /// To the KDC and to kadmind.
    pub(crate) ways: [Way; 2],
    krb5_config: PathBuf,
}

impl Front {
    pub(crate) fn before(kdc: &Kdc) -> Self {
        let mut text = std::fs::read_to_string(kdc.krb5_config()).unwrap();
        let ways = ["kdc", "admin_server"].map(|name| {
            let before = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{name} = 127"))).unwrap();
            let server = format!("127{before}").parse().unwrap();
            let way = Way::to(server, Arc::new(()));
            text = text.replace(&format!("{name} = {server}"), &format!("{name} = {}", way.address()));
            way
        });
        let krb5_config = kdc.path("front.krb5.conf");
        std::fs::write(&krb5_config, text).unwrap();
        Self { ways, krb5_config }
    }

    /// MIT's configuration that leads here.
    pub(crate) fn krb5_config(&self) -> PathBuf {
        self.krb5_config.clone()
    }
}
