//! `latchkey centre units`: the centre as services of systemd.

use std::path::{Path, PathBuf};

use latchkey_centre_site::units::{self, Installed, UnitsError};
use serde::Serialize;

use super::existing::Existing;
use super::programs::{Programs, Stock};
use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::output::{Output, Report, Style};

/// The user that Debian's package makes.
const BROKER_USER: &str = "mosquitto";
/// The most bytes of the list of users.
const LARGEST: usize = 16 << 20;

pub(crate) fn units(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let programs = Programs::find()?;
    let centre = Existing::open(arguments.operand(0))?;
    let to = arguments.required_path("to")?;
    let to = std::path::absolute(to).map_err(|error| files::unwritable(to, &error))?;
    let installed = installed(&programs, to)?;
    for path in [centre.layout.root(), &installed.ours, &installed.to] {
        units::check(path).map_err(|error| refused(&error))?;
    }
    let files = units::files(&centre.parameters, &centre.layout, &installed).map_err(|error| refused(&error))?;
    for file in &files {
        let path = installed.to.join(&file.path);
        let directory = path.parent().unwrap_or(&installed.to);
        std::fs::create_dir_all(directory).map_err(|error| files::unwritable(directory, &error))?;
        // Nothing in them is secret, and every service reads its own.
        files::replace(&path, file.content.as_bytes(), Readers::Anyone)?;
    }
    output.report(&UnitsReport {
        directory: installed.to.display().to_string(),
        files: files.iter().map(|file| file.path.display().to_string()).collect(),
        target: units::TARGET,
    })
}

fn installed(programs: &Programs, to: PathBuf) -> Result<Installed, CommandError> {
    Ok(Installed {
        ours: programs.ours().to_owned(),
        krb5kdc: Stock::Krb5kdc.path()?,
        kadmind: Stock::Kadmind.path()?,
        mosquitto: Stock::Mosquitto.path()?,
        broker_user: (BROKER_USER.into(), broker_user()?),
        to,
    })
}

/// The number of Mosquitto's user on this machine: the authorisation service answers it and nobody else.
fn broker_user() -> Result<u32, CommandError> {
    let text = files::read(Path::new("/etc/passwd"), LARGEST)?;
    let text = String::from_utf8_lossy(&text);
    let number = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() == Some(BROKER_USER) { fields.nth(1)?.parse().ok() } else { None }
    });
    number.ok_or_else(|| {
        CommandError::local(CommandCode::ProgramMissing, format!("this machine has no user {BROKER_USER}"))
            .fix("apt-get install --no-install-recommends mosquitto, which makes it")
    })
}

fn refused(error: &UnitsError) -> CommandError {
    let refused = CommandError::usage(error.to_string());
    match error {
        UnitsError::Hidden(_) => {
            refused.fix("use a centre below /var/lib, programs below /usr, and files below /etc, for example")
        }
        _ => refused,
    }
}

/// Units that were written.
#[derive(Serialize)]
struct UnitsReport {
    directory: String,
    /// Below it.
    files: Vec<String>,
    target: &'static str,
}

impl Report for UnitsReport {
    fn text(&self, _: Style) -> String {
        format!(
            "{}: {} files. The head of systemd/{} says how they are installed.\n",
            self.directory,
            self.files.len(),
            self.target,
        )
    }
}
