//! The command itself.

use std::net::SocketAddr;
use std::process::Command;

use async_signal::{Signal, Signals};
use latchkey_centre_site::{Program, Service, kdc};
use serde::Serialize;
use smol::stream::StreamExt as _;

use super::enrol::{self, EnrolService};
use super::processes::Processes;
use super::programs::{Programs, Stock};
use super::site::Site;
use super::{certificates, realm, setup};
use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::node::block_on;
use crate::output::{Output, Report, Style, Tone};

/// How often the processes are looked at while nobody says to stop.
const LOOK: std::time::Duration = std::time::Duration::from_millis(500);

pub(crate) fn up(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let programs = Programs::find()?;
    let site = Site::open(arguments)?;
    // From here on somebody who says to stop is heard, and everything ends in order.
    let stop = Signals::new([Signal::Term, Signal::Int]);
    let stop = stop.map_err(|error| CommandError::local(CommandCode::ProgramEnded, error.to_string()))?;
    output.waiting("writing configurations");
    site.configure(&programs)?;
    if !site.parameters.insecure {
        certificates::make(&site)?;
    }
    let enrol_service = enrol::make(&site)?;
    output.waiting("making the realm");
    realm::make(&site)?;
    let mut processes = Processes::default();
    let password = start(&site, &programs, &mut processes, arguments.has("new-password"), output)?;
    let page = site.parameters.place(Program::ClusterManager).url.to_string();
    let authorities = (!site.parameters.insecure).then(|| site.layout.authority().display().to_string());
    output.report_line(&UpReport {
        event: "running",
        page,
        user: "admin",
        password: password.map(|password| password.to_string()),
        realm: site.parameters.realm.to_string(),
        authorities,
        enrol_service,
        operator: site.layout.operator().display().to_string(),
    })?;
    block_on(follow(&mut processes, stop))?;
    output.say(Tone::Good, "ending", "the services, the last one first");
    drop(processes);
    output.report_line(&EndReport { event: "ended" })
}

/// Starts everything, and loads what a new centre has. Gives the operator's password, if it is a new one.
fn start(
    site: &Site,
    programs: &Programs,
    processes: &mut Processes,
    new_password: bool,
    output: &Output,
) -> Result<Option<zeroize::Zeroizing<String>>, CommandError> {
    let first = setup::is_first(site);
    let places = &site.parameters.places;
    let realm = site.parameters.realm.as_str();
    let mut mit = |program: Stock, arguments: &[&str], address: SocketAddr| {
        let name = program.name();
        output.waiting(&format!("starting {name}"));
        let mut command = Command::new(program.path()?);
        command.args(arguments).envs(realm::environment(&site.layout));
        processes.start(name, command, &site.layout.log(name), address)
    };
    mit(Stock::Krb5kdc, &["-n", "-r", realm], places.kdc)?;
    mit(Stock::Kadmind, &["-nofork", "-r", realm], places.kadmin)?;
    output.say(Tone::Good, "started", &format!("the KDC of {realm}, administrated by {}", kdc::ADMINISTRATOR));
    let admin = block_on(realm::principals(site, programs))?;
    for service in Service::ALL {
        output.waiting(&format!("starting {}", service.name()));
        let mut command = Command::new(programs.service(service));
        command.arg("--config").arg(site.layout.config(service));
        let [listen, _] = service.listens(&site.parameters);
        processes.start(service.file_name(), command, &site.layout.log(service.name()), listen)?;
        output.say(Tone::Good, "started", &format!("{:<16} {}", service.name(), service.address(&site.parameters)));
        if service == Program::ConfigDb.into() {
            block_on(setup::load(site, output))?;
        }
    }
    let mut command = Command::new(Stock::Mosquitto.path()?);
    command.arg("-c").arg(site.layout.mosquitto_conf());
    processes.start("mosquitto", command, &site.layout.log("mosquitto"), places.broker)?;
    output.say(Tone::Good, "started", &format!("{:<16} {}", "mosquitto", places.broker));
    for service in Service::ALL {
        output.waiting(&format!("waiting for {}", service.name()));
        let [_, admin] = service.listens(&site.parameters);
        processes.wait_until_well(service.name(), admin)?;
    }
    let needed = first || new_password || block_on(realm::lacks_operator(site, &admin))?;
    Ok(if needed { Some(block_on(realm::operator(site, &admin))?) } else { None })
}

/// Until somebody says to stop, or a process ends.
async fn follow(processes: &mut Processes, mut stop: Signals) -> Result<(), CommandError> {
    loop {
        let look = async {
            smol::Timer::after(LOOK).await;
            None
        };
        if smol::future::or(async { stop.next().await.map(|_| ()) }, look).await.is_some() {
            return Ok(());
        }
        processes.check()?;
    }
}

/// A centre that was told to end, and did.
#[derive(Serialize)]
struct EndReport {
    event: &'static str,
}

impl Report for EndReport {
    fn text(&self, _: Style) -> String {
        String::new()
    }
}

/// A centre that runs.
#[derive(Serialize)]
struct UpReport {
    event: &'static str,
    page: String,
    user: &'static str,
    /// Only when it was made just now: it is kept nowhere.
    password: Option<String>,
    realm: String,
    authorities: Option<String>,
    enrol_service: EnrolService,
    operator: String,
}

impl Report for UpReport {
    fn text(&self, style: Style) -> String {
        let page = style.paint(Tone::Strong, &self.page);
        let password = match &self.password {
            Some(password) => format!("password   {password}   (shown once; `--new-password` makes another)\n"),
            None => "password   the one of before (`--new-password` makes another)\n".to_owned(),
        };
        let trust =
            self.authorities.as_ref().map(|path| format!("trust      {path}   (for browsers and curl --cacert)\n"));
        format!(
            "\npage       {page}\nuser       {}\n{password}{}centre     {}   (for `latchkey cluster … --centre`)\nenrolment  {}   (policy, manifests; for `latchkey cluster invite … --directory`)\nmachines   {}\n\nCtrl+C ends all of it.\n",
            self.user,
            trust.unwrap_or_default(),
            self.operator,
            self.enrol_service.directory(),
            self.enrol_service.command_line(),
        )
    }
}
