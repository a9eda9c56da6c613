//! The services of a centre as curl and stock git see them.

use std::path::Path;
use std::process::Command;

use latchkey_centre_site::Program;
use serde_json::Value;

use super::Centre;
use crate::error::HarnessError;
use crate::process::{Finished, TOOL, run};

/// What a service answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status; 0 where there was no answer.
    pub status: u16,
    /// The body, as text.
    pub body: String,
}

impl Answer {
    /// The body as JSON; null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

impl Centre {
    /// The URL of a path of a service.
    pub fn url(&self, program: Program, path: &str) -> String {
        format!(
            "{}/{}",
            self.parameters.place(program).url.to_string().trim_end_matches('/'),
            path.trim_start_matches('/')
        )
    }

    /// curl with arguments, in front of this centre's authority, realm and ticket cache.
    pub fn curl(&self, arguments: &[&str]) -> Result<Answer, HarnessError> {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--max-time", "60", "--write-out", "\n%{http_code}"]);
        if !self.parameters.insecure {
            command.arg("--cacert").arg(self.layout.authority());
        }
        command.args(arguments).env("KRB5_CONFIG", self.layout.krb5_conf()).env("KRB5CCNAME", self.tickets());
        let done = run(&mut command, TOOL)?;
        let text = String::from_utf8_lossy(&done.out).into_owned();
        let (body, status) = text.rsplit_once('\n').unwrap_or(("", "0"));
        Ok(Answer { status: status.trim().parse().unwrap_or(0), body: body.to_owned() })
    }

    /// A request of a user with a password.
    pub fn ask(&self, user: (&str, &str), method: &str, program: Program, path: &str) -> Result<Answer, HarnessError> {
        let who = format!("{}:{}", self.upn(user.0), user.1);
        self.curl(&["--user", &who, "--request", method, &self.url(program, path)])
    }

    /// The same with a body of JSON.
    pub fn send(
        &self,
        user: (&str, &str),
        method: &str,
        program: Program,
        path: &str,
        body: &Value,
    ) -> Result<Answer, HarnessError> {
        let who = format!("{}:{}", self.upn(user.0), user.1);
        let (json, body) = ("content-type: application/json", body.to_string());
        let url = self.url(program, path);
        self.curl(&["--user", &who, "--request", method, "--header", json, "--data-binary", &body, &url])
    }

    /// A clone of a repository by stock git.
    pub fn git_clone(&self, user: (&str, &str), path: &str, to: &Path) -> Result<Finished, HarnessError> {
        self.git_clone_url((&self.upn(user.0), user.1), &self.url(Program::GitServer, path), to)
    }

    /// The same of a URL, by who is named in full.
    pub fn git_clone_url(&self, (who, secret): (&str, &str), url: &str, to: &Path) -> Result<Finished, HarnessError> {
        // The password is git's own to ask for, and this is who answers.
        let answer = r#"!f() { echo "username=$WHO"; echo "password=$SECRET"; }; f"#;
        let mut command = Command::new("git");
        command.args(["-c", "credential.helper=", "-c", &format!("credential.helper={answer}"), "clone", url]).arg(to);
        command.env("WHO", who).env("SECRET", secret);
        command.env("GIT_SSL_CAINFO", self.layout.authority()).env("GIT_TERMINAL_PROMPT", "0");
        command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("HOME", self.run.path());
        run(&mut command, TOOL)
    }
}
