//! The units of `latchkey centre units`: configurations that the services read, hardening, and what systemd says of them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use latchkey_centre_site::units::{self, BROKER, Installed, KADMIND, KDC, TARGET, unit_name};
use latchkey_centre_site::{Layout, Parameters, Program, Service};
use latchkey_service_runtime::config::ConfigFile;
use latchkey_test_support::{output, skip};

/// Every file by its path, as they are with and without TLS.
struct Site {
    parameters: Parameters,
    layout: Layout,
    files: BTreeMap<String, String>,
}

fn site(insecure: bool, programs: &Path, to: &Path) -> Site {
    let mut parameters = Parameters::on_loopback("FACTORY.EXAMPLE", "ACME", insecure, Parameters::FIRST_PORT).unwrap();
    let public: SocketAddr = "192.0.2.1:443".parse().unwrap();
    parameters.places.cluster_manager.listen = public;
    let layout = Layout::new("/var/lib/latchkey-centre".into());
    let installed = Installed {
        ours: programs.into(),
        krb5kdc: programs.join("krb5kdc"),
        kadmind: programs.join("kadmind"),
        mosquitto: programs.join("mosquitto"),
        broker_user: ("mosquitto".into(), 100),
        to: to.into(),
    };
    let files = units::files(&parameters, &layout, &installed).unwrap();
    let files = files.into_iter().map(|file| (file.path.to_str().unwrap().to_owned(), file.content)).collect();
    Site { parameters, layout, files }
}

fn sites() -> [Site; 2] {
    [false, true].map(|insecure| site(insecure, Path::new("/usr/bin"), Path::new("/etc/latchkey-centre")))
}

impl Site {
    fn unit(&self, name: &str) -> BTreeSet<&str> {
        self.files[&format!("systemd/{name}")].lines().filter(|line| line.contains('=')).collect()
    }

    fn config<C: ConfigFile>(&self, program: Program) -> C {
        let name = format!("config/{}.json", program.name());
        let read = C::parse(&Path::new("/etc/latchkey-centre").join(&name), self.files[&name].as_bytes());
        read.unwrap_or_else(|_| panic!("{name} is refused: {}", self.files[&name]))
    }

    fn data(&self, program: Program) -> PathBuf {
        self.layout.data(program)
    }
}

#[test]
fn the_configuration_of_each_service_is_one_that_it_reads() {
    for site in sites() {
        let http = |program: Program| site.parameters.place(program).listen;
        let auth: latchkey_auth::config::Config = site.config(Program::Auth);
        assert_eq!((auth.http.listen, auth.data), (vec![http(Program::Auth)], site.data(Program::Auth)));
        assert_eq!(auth.broker_users, Some(BTreeSet::from([100])));
        let config_db: latchkey_config_db::config::Config = site.config(Program::ConfigDb);
        assert_eq!(config_db.http.listen, [http(Program::ConfigDb)]);
        assert_eq!(config_db.data, Some(site.data(Program::ConfigDb)));
        let directory: latchkey_directory::config::Config = site.config(Program::Directory);
        assert_eq!(
            (directory.http.listen, directory.data),
            (vec![http(Program::Directory)], site.data(Program::Directory))
        );
        let git: latchkey_git_server::config::Config = site.config(Program::GitServer);
        assert_eq!((git.http.listen, git.repositories), (vec![http(Program::GitServer)], site.layout.repositories()));
        let manager: latchkey_cluster_manager::config::Config = site.config(Program::ClusterManager);
        assert_eq!(manager.http.listen, [http(Program::ClusterManager)]);
        assert_eq!((manager.data, manager.organisation.as_str()), (site.data(Program::ClusterManager), "ACME"));
    }
}

/// What a configuration names is what its unit hands over, and nothing else is.
#[test]
fn every_credential_that_is_named_is_handed_over_and_no_other() {
    for (site, service) in sites().iter().flat_map(|site| Service::ALL.map(|service| (site, service))) {
        let config = &site.files[&format!("config/{}.json", service.name())];
        let place = format!("/run/credentials/{}/", unit_name(service));
        let named: BTreeSet<&str> = config.split(&place).skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        let unit = unit_name(service);
        let unit = site.unit(&unit);
        let loaded = unit.iter().filter_map(|line| line.strip_prefix("LoadCredential=")?.split_once(':'));
        let loaded: BTreeMap<&str, &str> = loaded.collect();
        assert_eq!(loaded.keys().copied().collect::<BTreeSet<_>>(), named, "{}", service.name());
        let secret = |path: &&str| Path::new(path).starts_with("/var/lib/latchkey-centre");
        assert!(named.contains("password") && loaded.values().all(secret), "{loaded:?}");
        // No file of root's is opened by the service itself.
        assert!(!config.contains("/secrets/") && !config.contains("/tls/"), "{config}");
    }
}

#[test]
fn every_unit_is_hardened() {
    for site in sites() {
        let all: BTreeSet<String> =
            site.files.keys().filter_map(|path| path.strip_prefix("systemd/")).map(str::to_owned).collect();
        let expected = [KDC, KADMIND, BROKER].map(str::to_owned).into_iter().chain(Service::ALL.map(unit_name));
        assert_eq!(all, expected.chain([TARGET.to_owned()]).collect());
        for name in all.iter().filter(|name| *name != TARGET) {
            let unit = site.unit(name);
            for line in [
                "NoNewPrivileges=yes",
                "ProtectSystem=strict",
                "ProtectHome=yes",
                "PrivateTmp=yes",
                "PrivateDevices=yes",
                "ProtectProc=invisible",
                "ProtectKernelTunables=yes",
                "ProtectKernelModules=yes",
                "ProtectControlGroups=yes",
                "RestrictNamespaces=yes",
                "MemoryDenyWriteExecute=yes",
                "LimitCORE=0",
                "MemorySwapMax=0",
                "UMask=0077",
                "SystemCallFilter=@system-service",
                "SystemCallFilter=~@privileged @resources",
            ] {
                assert!(unit.contains(line), "{name} lacks {line}");
            }
            for start in ["User=", "MemoryMax=", "TasksMax=", "RestrictAddressFamilies="] {
                assert_eq!(unit.iter().filter(|line| line.starts_with(start)).count(), 1, "{name}: {start}");
            }
            assert!(!unit.contains("User=root"), "{name}");
            // One capability where a port needs it, and the network where somebody else is to come: here the page's alone.
            let public = *name == unit_name(Program::ClusterManager);
            let port = "CapabilityBoundingSet=CAP_NET_BIND_SERVICE";
            assert_eq!(unit.contains(port), public, "{name}");
            assert_eq!(unit.contains("CapabilityBoundingSet=") && unit.contains("PrivateUsers=yes"), !public, "{name}");
            assert_eq!(unit.contains("IPAddressDeny=any"), !public, "{name}");
        }
    }
}

/// systemd's own reading, of programs that are there.
#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        skip("there is no systemd-analyze; install the package systemd");
        return;
    }
    for insecure in [false, true] {
        let folder = tempfile::Builder::new().prefix("units").tempdir().unwrap();
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).unwrap();
        let ours = Service::ALL.map(Service::file_name);
        for name in ours.into_iter().chain(["krb5kdc", "kadmind", "mosquitto"]) {
            fs::write(programs.join(name), "").unwrap();
            fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let site = site(insecure, &programs, folder.path());
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["verify", "--man=no", "--generators=no"]);
        for (path, content) in &site.files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            if path.parent().unwrap().ends_with("systemd") {
                analyze.arg(path);
            }
        }
        let said = output(&mut analyze).unwrap();
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        // Of the machine's own units it may complain as it likes.
        let of_ours: Vec<&str> = text.lines().filter(|line| line.contains("latchkey")).collect();
        assert_eq!(of_ours, Vec::<&str>::new());
    }
}
