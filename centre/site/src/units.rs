//! The centre as services of systemd.
//!
//! One unit for each program, each with a user of its own that owns the program's directory. Passwords, keytabs and keys stay
//! root's, and are handed over as credentials. One exception: the KDC and its administration share a database, and a user.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{Layout, Parameters, ParametersError, Program, SiteFile, broker, kdc, services};

/// The target that starts all of a centre.
pub const TARGET: &str = "latchkey-centre.target";
/// The unit of the KDC.
pub const KDC: &str = "latchkey-centre-kdc.service";
/// The unit of the KDC's administration.
pub const KADMIND: &str = "latchkey-centre-kadmind.service";
/// The unit of the broker.
pub const BROKER: &str = "latchkey-centre-mosquitto.service";
/// The user of the KDC and its administration.
const KDC_USER: &str = "latchkey-kdc";
/// Where the broker asks the authorisation service.
const BROKER_SOCKET: &str = "/run/latchkey-auth/broker.socket";

/// Where the programs are, and where the files go.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The directory of our programs.
    pub ours: PathBuf,
    /// MIT's KDC.
    pub krb5kdc: PathBuf,
    /// MIT's administration of the KDC.
    pub kadmind: PathBuf,
    /// Mosquitto.
    pub mosquitto: PathBuf,
    /// The user of Mosquitto, by name and number: the authorisation service answers it.
    pub broker_user: (String, u32),
    /// Where the files of [`files`] will stand.
    pub to: PathBuf,
}

/// Why there are no units.
#[derive(Debug, thiserror::Error)]
pub enum UnitsError {
    /// A path that a unit does not take as it is.
    #[error("{}: a path in a unit has letters, digits and `/._-` only, and is absolute", .0.display())]
    Path(PathBuf),
    /// A path that the services must not see.
    #[error("{}: services see no home directories, and a /tmp of their own", .0.display())]
    Hidden(PathBuf),
    /// Parameters that do not fit.
    #[error(transparent)]
    Parameters(#[from] ParametersError),
}

/// Whether services may be run from a path: not in a home directory, and not where each service has a directory of its own.
pub fn check(path: &Path) -> Result<(), UnitsError> {
    let hidden = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];
    if hidden.iter().any(|hidden| path.starts_with(hidden)) { Err(UnitsError::Hidden(path.into())) } else { Ok(()) }
}

/// Every file, with its path below [`Installed::to`].
pub fn files(parameters: &Parameters, layout: &Layout, installed: &Installed) -> Result<Vec<SiteFile>, UnitsError> {
    let Installed { ours, krb5kdc, kadmind, mosquitto, to, .. } = installed;
    for path in [layout.root(), ours, krb5kdc, kadmind, mosquitto, to] {
        plain(path)?;
    }
    let unit = |name: &str| format!("systemd/{name}");
    let mut files = vec![
        file(unit(TARGET), target(layout, to)),
        file("sysusers.d/latchkey-centre.conf", users(layout)),
        file("tmpfiles.d/latchkey-centre.conf", owners(layout)),
        file("config/krb5.conf", kdc::krb5_conf(parameters)),
        file("config/kdc.conf", kdc::kdc_conf(parameters, layout)),
        file("config/kadm5.acl", kdc::kadm5_acl(parameters)?),
        file(unit(KDC), kdc_unit(parameters, layout, installed)),
        file(unit(KADMIND), kadmind_unit(parameters, layout, installed)),
    ];
    for program in Program::ALL {
        files.push(file(format!("config/{}.json", program.name()), config(parameters, layout, installed, program)));
        files.push(file(unit(&unit_name(program)), service_unit(parameters, layout, installed, program)));
    }
    files.push(file("config/mosquitto.conf", mosquitto_conf(parameters, layout, installed)));
    files.push(file(unit(BROKER), broker_unit(parameters, layout, installed)));
    Ok(files)
}

/// The unit of a service of ours.
pub fn unit_name(program: Program) -> String {
    format!("{}.service", program.file_name())
}

fn file(path: impl Into<PathBuf>, content: String) -> SiteFile {
    SiteFile { path: path.into(), content }
}

fn plain(path: &Path) -> Result<(), UnitsError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'_' | b'-');
    let good = path.is_absolute() && path.as_os_str().as_encoded_bytes().iter().copied().all(fits);
    if good { Ok(()) } else { Err(UnitsError::Path(path.into())) }
}

fn target(layout: &Layout, to: &Path) -> String {
    let (root, to) = (layout.root().display(), to.display());
    format!(
        "# Written by `latchkey centre units`. The centre was made by `latchkey centre up {root}`, which must have ended:\n\
         # systemd-sysusers {to}/sysusers.d/latchkey-centre.conf\n\
         # systemd-tmpfiles --create {to}/tmpfiles.d/latchkey-centre.conf\n\
         # systemctl link {to}/systemd/*\n\
         # systemctl enable --now {TARGET}\n\
         [Unit]\n\
         Description=Latchkey centre\n\
         Wants={}\n\n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        all().join(" ")
    )
}

/// All services, in the order in which they start.
pub fn all() -> Vec<String> {
    let ours = Program::ALL.map(unit_name);
    [KDC, KADMIND].into_iter().map(str::to_owned).chain(ours).chain([BROKER.to_owned()]).collect()
}

fn users(layout: &Layout) -> String {
    let root = layout.root().display();
    let kdc = format!("# Written by `latchkey centre units`.\nu {KDC_USER} - \"Latchkey KDC\" {root}\n");
    let ours =
        Program::ALL.map(|program| format!("u {} - \"Latchkey {}\" {root}\n", program.file_name(), program.name()));
    kdc + &ours.concat()
}

/// Who owns what in the centre's directory: secrets and keys root, everything else the one program that writes it.
fn owners(layout: &Layout) -> String {
    let first = format!("# Written by `latchkey centre units`.\nz {} 0711 root root\n", layout.root().display());
    let roots = [layout.secrets(), layout.tls(), layout.broker(), layout.logs()].map(|path| (path, "root"));
    let ours = Program::ALL.map(|program| (layout.of(program), program.file_name()));
    let all = roots.into_iter().chain(ours).chain([(layout.kdc(), KDC_USER)]);
    let lines = all.map(|(path, user)| format!("Z {} ~0700 {user} {user}\n", path.display()));
    std::iter::once(first).chain(lines).collect()
}

/// Where a unit finds a credential.
fn credential(unit: &str, name: &str) -> String {
    format!("/run/credentials/{unit}/{name}")
}

/// The configuration of a service of ours as `latchkey centre up` writes it, with credentials in the place of root's files.
fn config(parameters: &Parameters, layout: &Layout, installed: &Installed, program: Program) -> String {
    let text = services::config(parameters, layout, program, &installed.ours.join("latchkey-kerberos-helper"));
    // Text that was a value a moment ago is one.
    let mut config: Value = serde_json::from_str(&text).unwrap_or_default();
    let unit = unit_name(program);
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
    if program == Program::Auth {
        config["broker_socket"] = json!(BROKER_SOCKET);
        config["broker_users"] = json!([installed.broker_user.1]);
    }
    format!("{config:#}\n")
}

/// Fields of a configuration, and the credentials that they name.
const CREDENTIALS: [(&str, &str); 6] = [
    ("/http/certificate", "server.pem"),
    ("/http/private_key", "server.key"),
    ("/kerberos/keytab", "http.keytab"),
    ("/centre/password_file", "password"),
    ("/centre/authorities", "authority.pem"),
    ("/kadmin/password_file", "password"),
];

fn mosquitto_conf(parameters: &Parameters, layout: &Layout, installed: &Installed) -> String {
    let plugin = installed.ours.join("liblatchkey_mosquitto_plugin.so");
    broker::mosquitto_conf(parameters, layout, &plugin)
        .replace(&layout.certificate().display().to_string(), &credential(BROKER, "server.pem"))
        .replace(&layout.private_key().display().to_string(), &credential(BROKER, "server.key"))
        .replace(&layout.broker_socket().display().to_string(), BROKER_SOCKET)
}

/// What differs from unit to unit.
struct Unit<'a> {
    description: String,
    after: Vec<String>,
    user: &'a str,
    start_pre: Option<String>,
    start: String,
    /// Lines of `[Service]`.
    own: String,
    memory: &'a str,
    tasks: u32,
    families: &'a str,
    listens: Vec<SocketAddr>,
}

fn kdc_environment(installed: &Installed) -> String {
    let to = installed.to.display();
    format!("Environment=KRB5_CONFIG={to}/config/krb5.conf KRB5_KDC_PROFILE={to}/config/kdc.conf\n")
}

fn kdc_unit(parameters: &Parameters, layout: &Layout, installed: &Installed) -> String {
    Unit {
        description: format!("Latchkey centre: KDC of {}", parameters.realm),
        after: Vec::new(),
        user: KDC_USER,
        start_pre: None,
        start: format!("{} -n -r {}", installed.krb5kdc.display(), parameters.realm),
        own: format!("{}ReadWritePaths={}\n", kdc_environment(installed), layout.kdc().display()),
        memory: "256M",
        tasks: 32,
        // Netlink: MIT's servers follow the machine's addresses.
        families: "AF_INET AF_INET6 AF_UNIX AF_NETLINK",
        listens: vec![parameters.places.kdc],
    }
    .text(layout)
}

fn kadmind_unit(parameters: &Parameters, layout: &Layout, installed: &Installed) -> String {
    Unit {
        description: format!("Latchkey centre: administration of {}", parameters.realm),
        after: vec![KDC.into()],
        user: KDC_USER,
        start_pre: None,
        start: format!("{} -nofork -r {}", installed.kadmind.display(), parameters.realm),
        own: format!("{}ReadWritePaths={}\n", kdc_environment(installed), layout.kdc().display()),
        memory: "256M",
        tasks: 32,
        families: "AF_INET AF_INET6 AF_UNIX AF_NETLINK",
        listens: vec![parameters.places.kadmin, parameters.places.kpasswd],
    }
    .text(layout)
}

fn service_unit(parameters: &Parameters, layout: &Layout, installed: &Installed, program: Program) -> String {
    let mut after = vec![KDC.to_owned(), KADMIND.to_owned()];
    after.extend(Program::ALL.into_iter().take_while(|before| *before != program).map(unit_name));
    let mut own = handed_over(parameters, layout, program.account());
    own.extend(["ReadWritePaths=", &layout.of(program).display().to_string(), "\n"]);
    if program == Program::Auth {
        own += "RuntimeDirectory=latchkey-auth\nRuntimeDirectoryMode=0711\n";
    }
    let (memory, tasks) = match program {
        // With the runs of git.
        Program::GitServer => ("1G", 256),
        _ => ("256M", 128),
    };
    let start = format!(
        "{} --config {}",
        installed.ours.join(program.file_name()).display(),
        installed.to.join(format!("config/{}.json", program.name())).display()
    );
    let place = parameters.place(program);
    Unit {
        description: format!("Latchkey centre: {}", program.name()),
        after,
        user: program.file_name(),
        start_pre: Some(format!("{start} --check")),
        start,
        own,
        memory,
        tasks,
        families: "AF_INET AF_INET6 AF_UNIX",
        listens: vec![place.listen, place.admin],
    }
    .text(layout)
}

fn broker_unit(parameters: &Parameters, layout: &Layout, installed: &Installed) -> String {
    let mut own = String::new();
    if !parameters.insecure {
        own += &server_certificate(layout);
    }
    Unit {
        description: "Latchkey centre: broker".into(),
        after: vec![unit_name(Program::Auth)],
        user: &installed.broker_user.0,
        start_pre: None,
        start: format!("{} -c {}", installed.mosquitto.display(), installed.to.join("config/mosquitto.conf").display()),
        own,
        memory: "512M",
        tasks: 32,
        families: "AF_INET AF_INET6 AF_UNIX",
        listens: vec![parameters.places.broker],
    }
    .text(layout)
}

/// The credentials of a service of ours.
fn handed_over(parameters: &Parameters, layout: &Layout, account: &str) -> String {
    let load = |name: &str, path: PathBuf| format!("LoadCredential={name}:{}\n", path.display());
    let mut lines = load("password", layout.password(account)) + &load("http.keytab", layout.http_keytab());
    if !parameters.insecure {
        lines += &server_certificate(layout);
        lines += &load("authority.pem", layout.authority());
    }
    lines
}

fn server_certificate(layout: &Layout) -> String {
    format!(
        "LoadCredential=server.pem:{}\nLoadCredential=server.key:{}\n",
        layout.certificate().display(),
        layout.private_key().display()
    )
}

impl Unit<'_> {
    fn text(&self, layout: &Layout) -> String {
        let Self { description, user, start, own, memory, tasks, families, .. } = self;
        let after = self.after.join(" ");
        let pre = self.start_pre.as_ref().map(|pre| format!("ExecStartPre={pre}\n")).unwrap_or_default();
        let (ports, network) = (self.ports(), self.network());
        let made = layout.set_up();
        let made = made.display();
        format!(
            "# Written by `latchkey centre units`.\n\
             [Unit]\n\
             Description={description}\n\
             PartOf={TARGET}\n\
             Wants=network-online.target\n\
             After=network-online.target {after}\n\
             # Made by `latchkey centre up`, or restored by `latchkey centre restore`.\n\
             AssertPathExists={made}\n\n\
             [Service]\n\
             Type=exec\n\
             {pre}\
             ExecStart={start}\n\
             User={user}\n\
             {own}\
             # A configuration that cannot be used (2) does not get better by trying again.\n\
             Restart=on-failure\n\
             RestartPreventExitStatus=2\n\
             RestartSec=1s\n\
             TimeoutStopSec=20s\n\
             MemoryMax={memory}\n\
             TasksMax={tasks}\n\
             {ports}\
             {network}\
             RestrictAddressFamilies={families}\n\
             {HARDENED}\n\
             [Install]\n\
             WantedBy={TARGET}\n"
        )
    }

    /// Only where a port needs it, one capability; and then the user is one of the machine's, since only those open such ports.
    fn ports(&self) -> &'static str {
        if self.listens.iter().any(|address| address.port() < 1024) {
            "CapabilityBoundingSet=CAP_NET_BIND_SERVICE\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n"
        } else {
            "CapabilityBoundingSet=\nAmbientCapabilities=\nPrivateUsers=yes\n"
        }
    }

    /// A centre on loopback talks to nobody else.
    fn network(&self) -> &'static str {
        if self.listens.iter().all(|address| address.ip().is_loopback()) {
            "IPAddressDeny=any\nIPAddressAllow=localhost\n"
        } else {
            ""
        }
    }
}

/// What no program of a centre needs.
const HARDENED: &str = "\
NoNewPrivileges=yes
RestrictSUIDSGID=yes
UMask=0077
# Where passwords must not go: core dumps, swap.
LimitCORE=0
MemorySwapMax=0
LimitNOFILE=16384
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
PrivateIPC=yes
ProtectProc=invisible
ProcSubset=pid
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictNamespaces=yes
RestrictRealtime=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
";
