//! The KDC of a centre, as its administrator and its users see it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use latchkey_test_support::finish;

use super::Centre;
use crate::error::{HarnessError, io_error};
use crate::process::{Finished, TOOL, run, spawn};

impl Centre {
    /// Where curl and kinit keep tickets.
    pub fn tickets(&self) -> PathBuf {
        self.run.file("tickets")
    }

    /// A query of the administrator on the KDC's own machine: what it printed.
    pub fn kadmin_local(&self, query: &str) -> Result<String, HarnessError> {
        let mut command = Command::new("/usr/sbin/kadmin.local");
        command.args(["-r", self.parameters.realm.as_str(), "-q", query]);
        command.env("KRB5_CONFIG", self.layout.krb5_conf()).env("KRB5_KDC_PROFILE", self.layout.kdc_conf());
        let done = run(&mut command, TOOL)?;
        Ok(String::from_utf8_lossy(&[done.out, done.err].concat()).into_owned())
    }

    /// Gives a principal a password that this test knows. Until an edge is bootstrapped the KDC has no principal of it: then it is made.
    pub fn set_password(&self, name: &str, password: &str) -> Result<(), HarnessError> {
        let there = self.enabled(name)?.is_some();
        let what = if there { "cpw" } else { "addprinc" };
        let said = self.kadmin_local(&format!("{what} -pw {password} {name}"))?;
        if said.contains(if there { "changed" } else { "created" }) {
            return Ok(());
        }
        Err(HarnessError::Command { command: format!("{what} {name}"), output: said })
    }

    /// A query of anybody, by the network: how it ended, and what it printed.
    pub fn kadmin(&self, user: (&str, &str), query: &str) -> Result<(bool, String), HarnessError> {
        let mut command = Command::new("kadmin");
        command.args(["-r", self.parameters.realm.as_str(), "-p", user.0, "-w", user.1, "-q", query]);
        command.env("KRB5_CONFIG", self.layout.krb5_conf());
        let done = run(&mut command, TOOL)?;
        let said = String::from_utf8_lossy(&[done.out, done.err].concat()).into_owned();
        Ok((done.status.success(), said))
    }

    /// The principals that there are, without realm.
    pub fn principals(&self) -> Result<Vec<String>, HarnessError> {
        let realm = format!("@{}", self.parameters.realm);
        let said = self.kadmin_local("listprincs")?;
        Ok(said.lines().filter_map(|line| line.trim().strip_suffix(&realm)).map(str::to_owned).collect())
    }

    /// Whether the KDC gives tickets to a principal; `None` where there is none of this name.
    pub fn enabled(&self, name: &str) -> Result<Option<bool>, HarnessError> {
        let said = self.kadmin_local(&format!("getprinc {name}"))?;
        let attributes = said.lines().find_map(|line| line.strip_prefix("Attributes:"));
        Ok(attributes.map(|attributes| !attributes.contains("DISALLOW_ALL_TIX")))
    }

    /// Signs an account in at the KDC by the keys of a keytab.
    pub fn kinit_by(&self, name: &str, keytab: &Path) -> Result<Finished, HarnessError> {
        let mut command = Command::new("kinit");
        command.arg("-c").arg(self.tickets()).arg("-kt").arg(keytab).arg(self.upn(name));
        run(command.env("KRB5_CONFIG", self.layout.krb5_conf()), TOOL)
    }

    /// Signs somebody in at the KDC, for [`Self::curl`].
    pub fn kinit(&self, name: &str, password: &str) -> Result<Finished, HarnessError> {
        let mut command = Command::new("kinit");
        command.arg("-c").arg(self.tickets()).arg(self.upn(name));
        command.env("KRB5_CONFIG", self.layout.krb5_conf());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(command).map_err(io_error("start", "kinit".as_ref()))?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(format!("{password}\n").as_bytes()).map_err(io_error("write to", "kinit".as_ref()))?;
        }
        let done = finish("kinit", child);
        Ok(Finished { status: done.status, out: done.stdout, err: done.stderr })
    }
}
