//! What `latchkey centre` writes for this service is what this service reads.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use latchkey_centre_site::units::{self, Installed};
use latchkey_centre_site::{Layout, Parameters, Service, SiteFile, services};
use latchkey_enrol_service::config::Config;
use latchkey_service_runtime::config::ConfigFile as _;

fn site(insecure: bool) -> (Parameters, Layout) {
    let parameters = Parameters::on_loopback("FACTORY.EXAMPLE", "ACME", insecure, Parameters::FIRST_PORT).unwrap();
    (parameters, Layout::new("/var/lib/latchkey-centre".into()))
}

fn unit_files() -> Vec<SiteFile> {
    let (parameters, layout) = site(false);
    let installed = Installed {
        ours: "/usr/bin".into(),
        krb5kdc: "/usr/sbin/krb5kdc".into(),
        kadmind: "/usr/sbin/kadmind".into(),
        mosquitto: "/usr/sbin/mosquitto".into(),
        broker_user: ("mosquitto".into(), 100),
        to: "/etc/latchkey-centre".into(),
    };
    units::files(&parameters, &layout, &installed).unwrap()
}

fn file(name: &str) -> String {
    unit_files().into_iter().find(|file| file.path == Path::new(name)).unwrap().content
}

#[test]
fn the_configuration_of_a_centre_is_read_as_it_is_meant() {
    for insecure in [false, true] {
        let (parameters, layout) = site(insecure);
        let text = services::config(&parameters, &layout, Service::Enrol, Path::new("/usr/bin/helper")).unwrap();
        let config = Config::parse(&layout.config(Service::Enrol), text.as_bytes()).unwrap();
        assert_eq!([config.listen, config.admin_listen], Service::Enrol.listens(&parameters));
        assert_eq!((config.directory, config.identity_key), (layout.registrations(), layout.enrol_key()));
        assert_eq!(config.centre.principal.to_string(), "sv1enrol@FACTORY.EXAMPLE");
        assert_eq!(config.centre.authorities, (!insecure).then(|| layout.authority()));
    }
}

#[test]
fn a_unit_has_its_secrets_as_credentials() {
    let name = "config/enrol-service.json";
    let config = Config::parse(&Path::new("/etc/latchkey-centre").join(name), file(name).as_bytes()).unwrap();
    let credential = |name: &str| Path::new("/run/credentials/latchkey-enrol-service.service").join(name);
    assert_eq!(config.identity_key, credential("identity.key"));
    assert_eq!(config.centre.password_file, credential("password"));
    assert_eq!(config.centre.authorities, Some(credential("authority.pem")));
    let unit = file("systemd/latchkey-enrol-service.service");
    for line in [
        "LoadCredential=identity.key:/var/lib/latchkey-centre/secrets/enrol-service.key",
        "LoadCredential=password:/var/lib/latchkey-centre/secrets/sv1enrol.password",
        "LoadCredential=authority.pem:/var/lib/latchkey-centre/tls/authority.pem",
        "ReadWritePaths=/var/lib/latchkey-centre/enrol-service",
        "User=latchkey-enrol-service",
    ] {
        assert!(unit.lines().any(|it| it == line), "{line}: {unit}");
    }
    assert!(!unit.contains("http.keytab") && !unit.contains("server.key"), "it has no use for them: {unit}");
    assert!(file("systemd/latchkey-centre.target").contains("latchkey-enrol-service.service"));
}

/// One hardening, whoever installs the service.
#[test]
fn the_unit_of_a_centre_is_as_hard_as_the_one_that_comes_with_the_service() {
    let lines = |text: &str| -> BTreeSet<String> {
        let of_service = text.split("[Service]").nth(1).unwrap().split("[Install]").next().unwrap();
        of_service.lines().filter(|line| line.contains('=') && !line.starts_with('#')).map(str::to_owned).collect()
    };
    let own = lines(include_str!("../../latchkey-enrol-service.service"));
    let centre = lines(&file("systemd/latchkey-enrol-service.service"));
    let missing: Vec<_> = own.difference(&centre).collect();
    // Where it is installed, and that its user has a name there: the directory is the centre's.
    let place = ["ExecStart", "LoadCredential=", "DynamicUser=", "StateDirectory"];
    let softer: Vec<_> = missing.iter().filter(|line| !place.iter().any(|start| line.starts_with(start))).collect();
    assert!(softer.is_empty(), "{softer:?}");
}
