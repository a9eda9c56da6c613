//! swtpm for tests: a local authority that issues endorsement-key certificates, and TPMs on Unix sockets.

use latchkey_tpm::device::{Socket, Tpm};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A certificate authority of its own, and TPM states with certificates it issued.
#[derive(Debug)]
pub struct Authority {
    directory: PathBuf,
}

impl Authority {
    /// An authority that keeps its keys in `directory` (made if missing). Its keys are made with the first TPM.
    pub fn create(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let directory = directory.canonicalize()?;
        let at = |name: &str| directory.join(name).display().to_string();
        let tool = find("swtpm_localca").unwrap_or_else(|| PathBuf::from("swtpm_localca"));
        fs::write(
            directory.join("setup.conf"),
            format!(
                "create_certs_tool={}\ncreate_certs_tool_config={}\ncreate_certs_tool_options={}\nactive_pcr_banks=sha256\n",
                tool.display(),
                at("localca.conf"),
                at("localca.options")
            ),
        )?;
        fs::write(
            directory.join("localca.conf"),
            format!(
                "statedir={}\nsigningkey={}\nissuercert={}\ncertserial={}\n",
                directory.display(),
                at("signkey.pem"),
                at("issuercert.pem"),
                at("certserial")
            ),
        )?;
        let options = "--platform-manufacturer Latchkey\n--platform-version 1\n--platform-model test\n";
        fs::write(directory.join("localca.options"), options)?;
        Ok(Self { directory })
    }

    /// Makes a TPM's state in `state` (made if missing): RSA-2048 and P-384 endorsement keys, both certified.
    pub fn manufacture(&self, state: &Path, name: &str) -> io::Result<()> {
        self.manufacture_with_banks(state, name, "sha256")
    }

    /// The same with these PCR banks switched on, as `swtpm_setup --pcr-banks` takes them.
    pub fn manufacture_with_banks(&self, state: &Path, name: &str, banks: &str) -> io::Result<()> {
        fs::create_dir_all(state)?;
        let mut setup = Command::new("swtpm_setup");
        setup
            .args(["--tpm2", "--create-ek-cert", "--lock-nvram", "--overwrite", "--pcr-banks", banks])
            .arg("--config")
            .arg(self.directory.join("setup.conf"))
            .arg("--tpmstate")
            .arg(state)
            .args(["--vmid", name]);
        let output = latchkey_test_support::output(&mut setup)?;
        if output.status.success() { Ok(()) } else { Err(failed("swtpm_setup", &output)) }
    }

    /// The root's certificate (PEM).
    pub fn root_pem(&self) -> io::Result<String> {
        fs::read_to_string(self.directory.join("swtpm-localca-rootca-cert.pem"))
    }

    /// The certificate (PEM), issued by the root, of the key that signs endorsement-key certificates.
    pub fn issuer_pem(&self) -> io::Result<String> {
        fs::read_to_string(self.directory.join("issuercert.pem"))
    }
}

/// A running swtpm in a directory of its own, both gone when this is dropped.
#[derive(Debug)]
pub struct Swtpm {
    directory: PathBuf,
    child: Child,
}

impl Swtpm {
    /// A TPM with the same keys as every other that this process gets from here, freshly reset, its PCRs zero.
    /// `None`, and a line that says so, if swtpm is not installed.
    ///
    /// # Panics
    /// If swtpm is installed but does not work: a test must not pass then.
    pub fn start() -> Option<Self> {
        installed().then(|| {
            let (_, state) = shared();
            Self::on_copy_of(state).expect("swtpm works")
        })
    }

    /// A TPM with keys of its own, certified by the same authority as all others of this process.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_distinct(name: &str) -> Option<Self> {
        Self::start_with_banks(name, "sha256")
    }

    /// As [`Self::start_distinct`], with these PCR banks switched on, such as `sha384`.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_with_banks(name: &str, banks: &str) -> Option<Self> {
        installed().then(|| {
            let (authority, _) = shared();
            let directory = new_directory().expect("temporary directory");
            authority.manufacture_with_banks(&directory.join("state"), name, banks).expect("swtpm_setup works");
            Self::serve(directory).expect("swtpm works")
        })
    }

    /// The authority behind the certificates of this process's TPMs.
    pub fn authority(&self) -> &'static Authority {
        &shared().0
    }

    /// A connection. swtpm serves one at a time: the next waits until this one is dropped.
    pub fn connect(&self) -> io::Result<Tpm> {
        Ok(Tpm::new(self.socket()?))
    }

    /// As [`Self::connect`], the bare transport.
    pub fn socket(&self) -> io::Result<Socket> {
        Socket::connect(self.socket_path())
    }

    /// Where commands go.
    pub fn socket_path(&self) -> PathBuf {
        self.directory.join("tpm")
    }

    /// A directory for a test's files, gone with the TPM.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs a tool of tpm2-tools against this TPM, in [`Self::directory`], and returns what it printed. Drop all
    /// connections first. `None`, and a line that says so, if the tool is not installed.
    ///
    /// # Panics
    /// If the tool fails, or does not end.
    pub fn tool(&self, name: &str, arguments: &[&str]) -> Option<String> {
        if find(name).is_none() {
            skip(name);
            return None;
        }
        let mut tool = Command::new(name);
        tool.args(arguments)
            .current_dir(&self.directory)
            .env("TPM2TOOLS_TCTI", format!("swtpm:path={}", self.socket_path().display()));
        let output = latchkey_test_support::output(&mut tool).expect("tool starts");
        assert!(output.status.success(), "{}", failed(name, &output));
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Puts `content` into an NV index that anybody may read, as manufacturers and clouds do. As [`Self::tool`].
    ///
    /// # Panics
    /// As [`Self::tool`], and if the content cannot be written.
    pub fn put_nv(&self, index: u32, content: &[u8]) -> Option<()> {
        let (index, size) = (format!("{index:#x}"), content.len().to_string());
        let readable = "platformcreate|ppwrite|ppread|ownerread|authread|no_da";
        self.tool("tpm2_nvdefine", &[&index, "-C", "p", "-s", &size, "-a", readable])?;
        fs::write(self.directory.join("content"), content).expect("written");
        self.tool("tpm2_nvwrite", &[&index, "-C", "p", "-i", "content"]).map(drop)
    }

    /// Resets the machine: a new process on the same state. PCRs are zero, transient objects gone.
    pub fn restart(&mut self) -> io::Result<()> {
        self.stop();
        let _ = fs::remove_file(self.socket_path());
        self.child = spawn(&self.directory)?;
        Ok(())
    }

    fn on_copy_of(state: &Path) -> io::Result<Self> {
        let directory = new_directory()?;
        fs::create_dir(directory.join("state"))?;
        let permanent = "tpm2-00.permall";
        fs::copy(state.join(permanent), directory.join("state").join(permanent))?;
        Self::serve(directory)
    }

    fn serve(directory: PathBuf) -> io::Result<Self> {
        let child = spawn(&directory)?;
        let swtpm = Self { directory, child };
        // Its first answer: from here on the control socket that tpm2-tools wants is there as well.
        swtpm.connect()?.manufacturer().map_err(io::Error::other)?;
        Ok(swtpm)
    }

    fn stop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Swtpm {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The listening socket is made here and handed down as standard input, so that nobody has to wait for it: a
/// connection made before swtpm is ready waits in the socket's queue.
fn spawn(directory: &Path) -> io::Result<Child> {
    let listener = UnixListener::bind(directory.join("tpm"))?;
    let in_directory = |name: &str| directory.join(name).display().to_string();
    Command::new("swtpm")
        .args(["socket", "--tpm2", "--server", "type=unixio,fd=0"])
        .args(["--flags", "not-need-init,startup-clear"])
        .args(["--ctrl", &format!("type=unixio,path={}", in_directory("tpm.ctrl"))])
        .args(["--tpmstate", &format!("dir={}", in_directory("state"))])
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// One authority and one manufactured state for the process; the directory is removed by the next process that finds
/// its owner gone.
fn shared() -> &'static (Authority, PathBuf) {
    static SHARED: OnceLock<(Authority, PathBuf)> = OnceLock::new();
    SHARED.get_or_init(|| {
        sweep();
        let directory = new_directory().expect("temporary directory");
        let authority = Authority::create(&directory.join("authority")).expect("authority");
        let state = directory.join("state");
        authority.manufacture(&state, "shared").expect("swtpm_setup works");
        (authority, state)
    })
}

fn new_directory() -> io::Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("{PREFIX}{}-{number}", std::process::id()));
        match fs::create_dir(&directory) {
            // Left behind by an earlier process of this number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| directory),
        }
    }
}

const PREFIX: &str = "latchkey-rig-";

/// Removes directories of processes that ended without doing so: a static is never dropped.
fn sweep() {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn installed() -> bool {
    let missing = ["swtpm", "swtpm_setup", "swtpm_localca"].into_iter().find(|tool| find(tool).is_none());
    missing.map(skip).is_none()
}

fn skip(tool: &str) {
    latchkey_test_support::skip(format_args!("{tool} is not installed"));
}

fn find(tool: impl AsRef<OsStr>) -> Option<PathBuf> {
    let tool = Path::new(tool.as_ref());
    std::env::split_paths(&std::env::var_os("PATH")?).map(|directory| directory.join(tool)).find(|path| path.is_file())
}

fn failed(tool: &str, output: &Output) -> io::Error {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    io::Error::other(format!("{tool} failed ({}): {}", output.status, String::from_utf8_lossy(&text)))
}
