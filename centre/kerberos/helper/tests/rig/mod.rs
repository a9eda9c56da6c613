//! A KDC, a service's keytab, and the library over the helper.
#![allow(dead_code)] // each test program uses a part

use base64::Engine as _;
use latchkey_kdc_rig::{Kdc, REALM};
use latchkey_kerberos::{Kerberos, Secret, Settings, Upn};
use latchkey_test_support::{output, until};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use zeroize::Zeroizing;

pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_latchkey-kerberos-helper");

pub(crate) struct Rig {
    pub(crate) kerberos: Kerberos,
    pub(crate) keytab: PathBuf,
    pub(crate) kdc: Kdc,
}

impl Rig {
    pub(crate) fn start() -> Option<Self> {
        let kdc = Kdc::start_or_skip()?;
        let keytab = kdc.keytab(&["HTTP/localhost"]);
        let kerberos = Kerberos::new(settings(&kdc, &keytab, kdc.krb5_config(), Duration::from_secs(30)));
        Some(Self { kerberos, keytab, kdc })
    }

    /// A Negotiate token that curl makes with the tickets of the last `kinit`.
    pub(crate) fn token(&self) -> Vec<u8> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
        let server = std::thread::spawn(move || first_token(&listener));
        let mut curl = Command::new("curl");
        curl.envs(self.kdc.environment()).args([
            "--silent",
            "--max-time",
            "60",
            "--ipv4",
            "--negotiate",
            "-u",
            ":",
            &url,
        ]);
        output(&mut curl).expect("curl starts");
        latchkey_test_support::in_time("curl's token", move || server.join().unwrap())
    }

    /// The process id of a helper that runs.
    pub(crate) async fn helper(&self) -> u32 {
        until("a helper", || helpers().first().copied())
    }

    pub(crate) async fn kill_helper(&self) {
        let helper = smol::unblock(|| until("a helper that waits for the KDC", || helpers().first().copied())).await;
        let id = rustix::process::Pid::from_raw(helper.cast_signed()).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    }
}

/// Helpers that this process started.
fn helpers() -> Vec<u32> {
    let ids = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let ours = |id: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let parent = format!("PPid:\t{}\n", std::process::id());
        status.starts_with("Name:\tlatchkey-kerber") && status.contains(&parent)
    };
    ids.filter(ours).collect()
}

fn first_token(listener: &std::net::TcpListener) -> Vec<u8> {
    use std::io::{BufRead as _, BufReader, Write as _};
    loop {
        let (stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
        let found = lines
            .by_ref()
            .take_while(|line| !line.is_empty())
            .find_map(|line| line.strip_prefix("Authorization: Negotiate ").map(str::to_owned));
        let answer = if found.is_some() { "200 OK" } else { "401 Unauthorized\r\nWWW-Authenticate: Negotiate" };
        let _ = write!(&stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        if let Some(token) = found {
            return base64::engine::general_purpose::STANDARD.decode(token).unwrap();
        }
    }
}

fn settings(kdc: &Kdc, keytab: &Path, krb5_config: &Path, deadline: Duration) -> Settings {
    Settings {
        helper: HELPER.into(),
        krb5_config: Some(krb5_config.to_owned()),
        keytab: keytab.to_owned(),
        service: upn("HTTP/localhost"),
        replay_cache: kdc.path("replays"),
        helpers: 2,
        deadline,
        waiting: 16,
    }
}

/// Another one, with another configuration of MIT.
pub(crate) fn kerberos_of(rig: &Rig, krb5_config: &Path, deadline: Duration) -> Kerberos {
    Kerberos::new(settings(&rig.kdc, &rig.keytab, krb5_config, deadline))
}

/// Another one, with another program for its helper.
pub(crate) fn with_helper(rig: &Rig, helper: &Path) -> Kerberos {
    let settings = settings(&rig.kdc, &rig.keytab, rig.kdc.krb5_config(), Duration::from_secs(30));
    Kerberos::new(Settings { helper: helper.to_owned(), ..settings })
}

pub(crate) fn upn(name: &str) -> Upn {
    Upn::in_realm(name, REALM).unwrap()
}

pub(crate) fn secret(text: &str) -> Secret {
    Zeroizing::new(text.as_bytes().to_vec())
}
