//! The configurations of our services.

use std::path::Path;

use latchkey_factory_plus::{EdgeProgram, UpnError, Uuid, uuids};
use serde_json::{Map, Value, json};

use crate::{Layout, Parameters, Program, Service};

/// The principal that sets the centre up, and passes every check of the services.
pub const ROOT: &str = "sv1setup";

/// The configuration of a service.
///
/// # Errors
/// As [`Parameters::upn`].
pub fn config(parameters: &Parameters, layout: &Layout, service: Service, helper: &Path) -> Result<String, UpnError> {
    let config = match service {
        Service::Http(program) => http_config(parameters, layout, program, helper)?,
        Service::Enrol => enrol_config(parameters, layout)?,
    };
    Ok(format!("{config:#}\n"))
}

/// That of the enrol service: where machines meet it, by what it decides, and where the others are.
fn enrol_config(parameters: &Parameters, layout: &Layout) -> Result<Value, UpnError> {
    let [listen, admin] = Service::Enrol.listens(parameters);
    Ok(json!({
        "schema": 1,
        "listen": listen,
        "admin_listen": admin,
        "directory": layout.registrations(),
        "identity_key": layout.enrol_key(),
        "collateral": parameters.places.enrol_service.collateral,
        "centre": centre(parameters, layout, Service::Enrol)?,
    }))
}

/// One of who answers HTTP: how it is reached, who verifies callers, where the others are, whose permissions are known without the
/// authorisation service, and what only this service has.
fn http_config(parameters: &Parameters, layout: &Layout, program: Program, helper: &Path) -> Result<Value, UpnError> {
    let mut config = Map::from_iter([
        ("schema".to_owned(), json!(1)),
        ("http".to_owned(), http(parameters, layout, program)),
        ("kerberos".to_owned(), kerberos(parameters, layout, program, helper)),
        ("centre".to_owned(), centre(parameters, layout, program.into())?),
        ("access".to_owned(), access(parameters, program)?),
    ]);
    config.extend(own(parameters, layout, program, helper)?);
    Ok(Value::Object(config))
}

fn http(parameters: &Parameters, layout: &Layout, program: Program) -> Value {
    let place = parameters.place(program);
    let mut http = json!({ "listen": [place.listen], "admin_listen": place.admin });
    if parameters.insecure {
        http["insecure"] = json!(true);
    } else {
        http["certificate"] = json!(layout.certificate());
        http["private_key"] = json!(layout.private_key());
    }
    http
}

fn kerberos(parameters: &Parameters, layout: &Layout, program: Program, helper: &Path) -> Value {
    json!({
        "realm": parameters.realm,
        "service": http_service(parameters),
        "keytab": layout.http_keytab(),
        "replay_cache": layout.of(program).join("replays"),
        "helper": helper,
        "krb5_config": layout.krb5_conf(),
        "helpers": 2,
    })
}

/// What clients get tickets for, without realm.
pub fn http_service(parameters: &Parameters) -> String {
    format!("HTTP/{}", parameters.host)
}

fn centre(parameters: &Parameters, layout: &Layout, service: Service) -> Result<Value, UpnError> {
    let url = |program: Program| json!(parameters.place(program).url);
    let mut centre = json!({
        "principal": parameters.upn(service.account())?,
        "password_file": layout.password(service.account()),
        "services": {
            "directory": url(Program::Directory),
            "config_db": url(Program::ConfigDb),
            "auth": url(Program::Auth),
            "git": url(Program::GitServer),
            "cluster_manager": url(Program::ClusterManager),
        },
    });
    if parameters.insecure {
        centre["insecure"] = json!(true);
    } else {
        centre["authorities"] = json!(layout.authority());
    }
    Ok(centre)
}

/// The authorisation service reads classes and owners before it can say what anybody may do, so its own permissions are known to
/// the configuration database; and each service may ask it for access lists before it has heard of any grant.
fn access(parameters: &Parameters, program: Program) -> Result<Value, UpnError> {
    let hold = |permission: Uuid| json!({ "permission": permission, "target": uuids::special::WILDCARD });
    let mut fixed = Map::new();
    match program {
        Program::ConfigDb => {
            let auth = [
                uuids::permission::READ_CONFIG,
                uuids::permission::READ_MEMBERS,
                uuids::permission::READ_SUBCLASSES,
                uuids::permission::LIST_OBJECTS,
            ];
            fixed.insert(parameters.upn(Program::Auth.account())?.into(), auth.map(hold).into());
        }
        Program::Auth => {
            for asks in Program::ALL.into_iter().filter(|asks| *asks != Program::Auth) {
                let reads = [uuids::permission::READ_ACL, uuids::permission::READ_KERBEROS];
                fixed.insert(parameters.upn(asks.account())?.into(), reads.map(hold).into());
            }
        }
        _ => {}
    }
    Ok(json!({ "root": parameters.upn(ROOT)?, "fixed": fixed }))
}

/// What stands in bootstrap scripts.
fn bootstrap(parameters: &Parameters) -> Value {
    let [kdc, kadmin] = parameters.kdc();
    json!({
        "domain": parameters.host,
        "kdc": kdc,
        "kadmin": kadmin,
        "krbkeys_image": parameters.images.reference(EdgeProgram::KrbKeys),
    })
}

/// What only this service has.
fn own(
    parameters: &Parameters,
    layout: &Layout,
    program: Program,
    helper: &Path,
) -> Result<Map<String, Value>, UpnError> {
    let fields = match program {
        Program::ConfigDb => json!({ "data": layout.data(program) }),
        Program::Auth => json!({ "data": layout.data(program), "broker_socket": layout.broker_socket() }),
        Program::Directory => json!({ "data": layout.data(program), "advertisements": advertisements(parameters) }),
        Program::GitServer => json!({ "repositories": layout.repositories() }),
        Program::ClusterManager => json!({
            "data": layout.data(program),
            "organisation": parameters.organisation,
            "kadmin": {
                "helper": helper,
                "krb5_config": layout.krb5_conf(),
                "principal": parameters.upn(Program::ClusterManager.account())?,
                "password_file": layout.password(Program::ClusterManager.account()),
            },
            "bootstrap": bootstrap(parameters),
        }),
    };
    Ok(match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    })
}

/// What the directory says from its start.
fn advertisements(parameters: &Parameters) -> Value {
    let ours = Program::ALL
        .into_iter()
        .map(|program| json!({ "service": program.service(), "url": parameters.place(program).url }));
    let scheme = if parameters.insecure { "mqtt" } else { "mqtts" };
    let broker = format!("{scheme}://{}:{}", parameters.host, parameters.places.broker.port());
    ours.chain([json!({ "service": uuids::service::MQTT, "url": broker })]).collect()
}
