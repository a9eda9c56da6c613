//! Software TPMs with endorsement certificates from an authority of our own.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::{HarnessError, io_error};
use crate::process::{Process, output, spawn};
use crate::run::Run;

/// It writes a few kilobytes and ends.
const WRITES_STATE: Duration = Duration::from_mins(1);

/// Issues endorsement certificates, as a TPM's manufacturer does.
#[derive(Debug, Clone)]
pub struct Authority {
    run: Run,
    directory: PathBuf,
}

impl Authority {
    /// Prepares an authority in the run's directory; its keys are made with its first certificate.
    pub fn new(run: &Run) -> Result<Self, HarnessError> {
        let localca = crate::doctor::need("/usr/bin/swtpm_localca")?;
        let directory = run.subdirectory("tpm-authority")?;
        let at = |file: &str| directory.join(file).display().to_string();
        let options = "--platform-manufacturer Latchkey\n--platform-version 1\n--platform-model Test\n";
        let authority = format!(
            "statedir = {}\nsigningkey = {}\nissuercert = {}\ncertserial = {}\n",
            directory.display(),
            at("signkey.pem"),
            at("issuercert.pem"),
            at("certserial"),
        );
        let setup = format!(
            "create_certs_tool = {}\ncreate_certs_tool_config = {}\ncreate_certs_tool_options = {}\n\
             active_pcr_banks = sha256\n",
            localca.display(),
            at("localca.conf"),
            at("localca.options"),
        );
        for (name, content) in [("localca.options", options), ("localca.conf", &authority), ("setup.conf", &setup)] {
            let path = directory.join(name);
            std::fs::write(&path, content).map_err(io_error("write", &path))?;
        }
        Ok(Self { run: run.clone(), directory })
    }

    /// The root certificate (PEM), which verifiers are to trust. There from the first TPM on.
    pub fn root_certificate(&self) -> PathBuf {
        self.directory.join("swtpm-localca-rootca-cert.pem")
    }

    /// The certificate of the issuer below the root (PEM).
    pub fn issuer_certificate(&self) -> PathBuf {
        self.directory.join("issuercert.pem")
    }

    /// Makes a new TPM, called `name`, with certificates for its endorsement keys.
    pub fn tpm(&self, name: &str) -> Result<TpmState, HarnessError> {
        let directory = self.run.subdirectory(&format!("tpm-{name}"))?;
        let mut setup = Command::new(crate::doctor::need("swtpm_setup")?);
        setup.arg("--config").arg(self.directory.join("setup.conf")).arg("--tpmstate").arg(&directory);
        setup.args(["--tpm2", "--create-ek-cert", "--create-platform-cert", "--pcr-banks", "sha256"]);
        setup.args(["--lock-nvram", "--vmid", name, "--overwrite"]);
        // It wants a home and a place for its own socket; the run's directory is both.
        setup.env("HOME", self.run.path()).env("XDG_CONFIG_HOME", self.run.path()).env("TMPDIR", self.run.path());
        output(&mut setup)?;
        Ok(TpmState { run: self.run.clone(), name: name.into(), directory })
    }
}

/// What a TPM keeps without power. Machines come and go, this stays.
#[derive(Debug, Clone)]
pub struct TpmState {
    run: Run,
    name: String,
    directory: PathBuf,
}

impl TpmState {
    /// Powers the TPM on for a machine: QEMU connects to the socket.
    pub(crate) fn power_on(&self) -> Result<Swtpm, HarnessError> {
        let socket = self.run.file(&format!("{}.tpm", self.name));
        let _ = std::fs::remove_file(&socket);
        // The socket listens before swtpm even starts, so nobody has to wait for it.
        let listener = UnixListener::bind(&socket).map_err(io_error("listen on", &socket))?;
        let mut command = self.command()?;
        command.args(["--ctrl", "type=unixio,fd=0", "--terminate"]).stdin(Stdio::from(OwnedFd::from(listener)));
        self.start(command, socket)
    }

    /// Powers the TPM on for a program on this machine, which sends it bare commands.
    pub fn serve(&self) -> Result<Swtpm, HarnessError> {
        let socket = self.run.file(&format!("{}.raw", self.name));
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).map_err(io_error("listen on", &socket))?;
        let mut command = self.command()?;
        command.args(["--server", "type=unixio,fd=0", "--flags", "not-need-init,startup-clear"]);
        command.stdin(Stdio::from(OwnedFd::from(listener)));
        self.start(command, socket)
    }

    fn command(&self) -> Result<Command, HarnessError> {
        let mut command = Command::new(crate::doctor::need("swtpm")?);
        command.args(["socket", "--tpm2", "--tpmstate", &format!("dir={}", self.directory.display())]);
        // The lowest level at which it writes down every command and response, in hexadecimal.
        command.args(["--log", &format!("file={},level=2", self.traffic_log().display())]);
        Ok(command)
    }

    fn traffic_log(&self) -> PathBuf {
        self.run.file(&format!("{}-tpm-traffic.log", self.name))
    }

    /// The bytes of every command and response so far, in order: what somebody on the TPM's bus sees.
    pub fn traffic(&self) -> Result<Vec<u8>, HarnessError> {
        let log = self.traffic_log();
        let text = std::fs::read_to_string(&log).map_err(io_error("read", &log))?;
        let bytes = |line: &str| line.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        Ok(text.lines().filter_map(bytes).collect::<Vec<Vec<u8>>>().concat())
    }

    fn start(&self, mut command: Command, socket: PathBuf) -> Result<Swtpm, HarnessError> {
        let log = self.run.file(&format!("{}-swtpm.log", self.name));
        let file = std::fs::File::create(&log).map_err(io_error("make", &log))?;
        command.stdout(Stdio::null()).stderr(file);
        let process = spawn(command).and_then(Process::watch).map_err(io_error("start", "swtpm".as_ref()))?;
        Ok(Swtpm { process, socket })
    }
}

/// A TPM with power.
#[derive(Debug)]
pub struct Swtpm {
    process: Process,
    socket: PathBuf,
}

impl Swtpm {
    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Waits until it has written its state and is gone, as it is when its machine is; false if it stays all the same.
    pub(crate) fn gone(&self) -> bool {
        if self.process.wait(WRITES_STATE).is_none() {
            self.process.kill();
        }
        self.process.gone()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// `TPM2_ReadPublic` of the endorsement key P-384, which `swtpm_setup` makes persistent.
    const READ_EK: [u8; 14] = [0x80, 0x01, 0, 0, 0, 14, 0, 0, 0x01, 0x73, 0x81, 0x01, 0x00, 0x16];

    fn endorsement_key(tpm: &TpmState) -> Vec<u8> {
        let power = tpm.serve().unwrap();
        let mut stream = UnixStream::connect(power.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
        stream.write_all(&READ_EK).unwrap();
        let mut response = vec![0; 10];
        stream.read_exact(&mut response).unwrap();
        let length = u32::from_be_bytes(response[2..6].try_into().unwrap());
        assert_eq!(response[6..10], [0; 4], "TPM_RC_SUCCESS");
        response.resize(length.try_into().unwrap(), 0);
        stream.read_exact(&mut response[10..]).unwrap();
        response
    }

    #[test]
    fn a_tpm_keeps_its_identity_without_power_and_shares_it_with_no_other() {
        let run = Run::new("tpm").unwrap();
        let authority = Authority::new(&run).unwrap();
        let (one, other) = (authority.tpm("one").unwrap(), authority.tpm("other").unwrap());
        assert_eq!(endorsement_key(&one), endorsement_key(&one));
        assert_ne!(endorsement_key(&one), endorsement_key(&other));
        for certificate in [authority.root_certificate(), authority.issuer_certificate()] {
            assert!(std::fs::read_to_string(certificate).unwrap().contains("BEGIN CERTIFICATE"));
        }
    }
}
