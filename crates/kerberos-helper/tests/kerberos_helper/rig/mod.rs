//! A KDC, a service's keytab, and the library over the helper.
#![allow(dead_code)] // each test program uses a part
#![allow(clippy::unwrap_used)] // a rig for tests: a panic is how it fails

use base64::Engine as _;
use latchkey_factory_plus::Upn;
use latchkey_kdc_rig::{Kdc, REALM};
use latchkey_kerberos::{Kerberos, Secret, Settings};
use latchkey_test_support::{output, until};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use zeroize::Zeroizing;

pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_latchkey-kerberos-helper");

const INITIATOR: &str = r#"
import base64, gssapi, sys
name = gssapi.Name("HTTP/localhost", gssapi.NameType.kerberos_principal)
mechanisms = {"spnego": "1.3.6.1.5.5.2", "kerberos": "1.2.840.113554.1.2.2"}
mechanism = gssapi.OID.from_int_seq(mechanisms[sys.argv[1]])
flags = [gssapi.RequirementFlag.mutual_authentication]
context = gssapi.SecurityContext(name=name, mech=mechanism, flags=flags, usage="initiate")
print(base64.b64encode(context.step()).decode(), flush=True)
assert not context.complete
context.step(base64.b64decode(sys.stdin.readline()))
assert context.complete
"#;

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
        self.token_of(Command::new("curl"))
    }

    /// The same with a `curl` that has been made ready.
    pub(crate) fn token_of(&self, mut curl: Command) -> Vec<u8> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
        let server = std::thread::spawn(move || first_token(&listener));
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

    /// A client of another make (python3-gssapi) that sends a token of SPNEGO, or of Kerberos as it is, and demands that the
    /// service prove itself: whether it was satisfied with the reply.
    pub(crate) fn exchange(&self, mechanism: &str, reply: impl FnOnce(Vec<u8>) -> Vec<u8>) -> bool {
        use std::io::{BufRead as _, BufReader, Write as _};
        let mut python = Command::new("/usr/bin/python3");
        python.envs(self.kdc.environment()).args(["-c", INITIATOR, mechanism]);
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = latchkey_test_support::spawn(python).expect("python3 starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let token = base64::engine::general_purpose::STANDARD.decode(line.trim()).unwrap();
        let reply = base64::engine::general_purpose::STANDARD.encode(reply(token));
        writeln!(child.stdin.take().unwrap(), "{reply}").unwrap();
        latchkey_test_support::wait("python3", &mut child).success()
    }

    pub(crate) async fn kill_helper() {
        let helper = smol::unblock(helper).await;
        let id = rustix::process::Pid::from_raw(helper.cast_signed()).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    }
}

/// The process id of a helper that runs.
pub(crate) fn helper() -> u32 {
    until("a helper", || helpers().first().copied())
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
    Upn::in_realm(name, &REALM.parse().unwrap()).unwrap()
}

pub(crate) fn secret(text: &str) -> Secret {
    Zeroizing::new(text.as_bytes().to_vec())
}
