//! The unit of each program.

use std::path::PathBuf;

use super::unit::Unit;
use super::{Installed, KADMIND, KDC, KDC_USER, unit_name};
use crate::{Layout, Parameters, Program, Service};

fn kdc_environment(installed: &Installed) -> String {
    let to = installed.to.display();
    format!("Environment=KRB5_CONFIG={to}/config/krb5.conf KRB5_KDC_PROFILE={to}/config/kdc.conf\n")
}

pub(super) fn kdc(parameters: &Parameters, layout: &Layout, installed: &Installed) -> String {
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

pub(super) fn kadmind(parameters: &Parameters, layout: &Layout, installed: &Installed) -> String {
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

pub(super) fn service(parameters: &Parameters, layout: &Layout, installed: &Installed, service: Service) -> String {
    let mut after = vec![KDC.to_owned(), KADMIND.to_owned()];
    after.extend(Service::ALL.into_iter().take_while(|before| *before != service).map(unit_name));
    let mut own = handed_over(parameters, layout, service);
    own.extend(["ReadWritePaths=", &layout.of(service).display().to_string(), "\n"]);
    if service == Program::Auth.into() {
        own += "RuntimeDirectory=latchkey-auth\nRuntimeDirectoryMode=0711\n";
    }
    let (memory, tasks) = match service {
        // With the runs of git.
        Service::Http(Program::GitServer) => ("1G", 256),
        Service::Http(_) => ("256M", 128),
        Service::Enrol => ("512M", 64),
    };
    let start = format!(
        "{} --config {}",
        installed.ours.join(service.file_name()).display(),
        installed.to.join(format!("config/{}.json", service.name())).display()
    );
    Unit {
        description: format!("Latchkey centre: {}", service.name()),
        after,
        user: service.file_name(),
        start_pre: Some(format!("{start} --check")),
        start,
        own,
        memory,
        tasks,
        families: "AF_INET AF_INET6 AF_UNIX",
        listens: service.listens(parameters).to_vec(),
    }
    .text(layout)
}

pub(super) fn broker(parameters: &Parameters, layout: &Layout, installed: &Installed) -> String {
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
fn handed_over(parameters: &Parameters, layout: &Layout, service: Service) -> String {
    let load = |name: &str, path: PathBuf| format!("LoadCredential={name}:{}\n", path.display());
    let mut lines = load("password", layout.password(service.account()));
    lines += &match service {
        Service::Http(_) => load("http.keytab", layout.http_keytab()),
        Service::Enrol => load("identity.key", layout.enrol_key()),
    };
    if !parameters.insecure {
        if let Service::Http(_) = service {
            lines += &server_certificate(layout);
        }
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
