//! A node's disk, its list and a mirror that has what is on it; and the program, as the agent calls it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use latchkey_kubernetes::Sha256;
use serde_json::{Value, json};
use tempfile::TempDir;

use latchkey_test_support::mirror::{Answer, Mirror, answers, serves};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_latchkey-components");
pub(crate) const KUBEADM: &[u8] = &[b'a'; 90_000];
pub(crate) const KUBELET: &[u8] = &[b'k'; 100_000];
pub(crate) const KUBECTL: &[u8] = b"a kubectl";
pub(crate) const BRIDGE: &[u8] = &[b'b'; 70_000];
pub(crate) const COREDNS: &[u8] = &[b'c'; 80_000];

pub(crate) fn archive() -> &'static [u8] {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in [("./bridge", BRIDGE), ("./unwanted", b"u"), ("./loopback", b"l")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o4755);
        builder.append_data(&mut header, name, content).unwrap();
    }
    Box::leak(builder.into_inner().unwrap().finish().unwrap().into_boxed_slice())
}

pub(crate) fn files() -> [(&'static str, &'static [u8]); 5] {
    [
        ("kubeadm-1.34.4", KUBEADM),
        ("kubelet-1.34.4", KUBELET),
        ("kubectl-1.34.4", KUBECTL),
        ("cni-1.8.0", archive()),
        ("coredns-v1.12.1.tar", COREDNS),
    ]
}

pub(crate) fn list(mirror: &str) -> String {
    let component = |name: &str, install: Value, roles: Value| {
        let (file, content) = files().into_iter().find(|(file, _)| file.starts_with(name)).unwrap();
        json!({"name": name, "version": file.split_once('-').unwrap().1, "sha256": Sha256::of(content).to_string(),
            "max_bytes": 200_000, "roles": roles, "install": install})
    };
    let every = json!(["control-plane", "worker"]);
    let file = |name: &str| json!({"file": format!("/usr/bin/{name}")});
    let members = ["bridge", "loopback"].map(|name| json!({"member": name, "to": format!("/opt/cni/bin/{name}")}));
    let pause = format!("sha256:{}", "0".repeat(64));
    json!({"schema": 1, "mirror": mirror, "table": {"schema": 1, "architecture": "x86_64", "versions": [{
        "version": "1.34.4",
        "components": [
            component("kubeadm", file("kubeadm"), every.clone()),
            component("kubelet", file("kubelet"), every.clone()),
            component("kubectl", file("kubectl"), json!(["control-plane"])),
            component("cni", json!({"tar_gz": members}), every),
        ],
        "images": [
            {"name": "registry.k8s.io/pause", "tag": "3.10", "digest": pause},
            {"name": "registry.k8s.io/coredns/coredns", "tag": "v1.12.1",
                "archive": {"sha256": Sha256::of(COREDNS).to_string(), "max_bytes": 200_000}},
        ],
    }]}})
    .to_string()
}

/// Gives each file under its name.
pub(crate) fn good(count: usize) -> Vec<Answer> {
    let files = files();
    let one = move || -> Answer {
        Box::new(move |head, stream| {
            let name = head.strip_prefix("GET /").unwrap().split(' ').next().unwrap();
            let file = files.iter().find(|(file, _)| *file == name);
            let answer = match file {
                Some((_, content)) => serves(content),
                None => answers("404 Not Found", "Content-Length: 0\r\n", b""),
            };
            answer(head, stream);
        })
    };
    (0..count).map(|_| one()).collect()
}

/// A state disk, and the memory of one boot.
pub(crate) struct Node {
    pub(crate) disk: TempDir,
    pub(crate) memory: TempDir,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self { disk: tempfile::tempdir().unwrap(), memory: tempfile::tempdir().unwrap() }
    }

    /// One whose components are all there, and their list.
    pub(crate) fn member(role: &str) -> (Self, String) {
        let (node, mirror) = (Self::new(), Mirror::new(good(if role == "worker" { 4 } else { 5 })));
        let list = list(&mirror.address);
        succeeded(&node.fetch(&list, role));
        (node, list)
    }

    pub(crate) fn reboot(&mut self) {
        self.memory = tempfile::tempdir().unwrap();
    }

    pub(crate) fn link(&self) -> PathBuf {
        self.memory.path().join("components")
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words).arg("--store").arg(self.disk.path()).arg("--link").arg(self.link());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn fetch(&self, list: &str, role: &str) -> Output {
        given(self.command(&["fetch", "--role", role, "--version", "1.34", "--silence", "2"]), list)
    }

    pub(crate) fn verify(&self, list: &str, role: &str) -> Output {
        given(self.command(&["verify", &Sha256::of(list.as_bytes()).to_string(), "--role", role]), "")
    }

    /// Every file of the store, by its path.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut directories = vec![self.disk.path().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    directories.push(entry.path());
                } else {
                    found.push(entry.path());
                }
            }
        }
        found.sort();
        found
    }

    /// What of the store may be executed.
    pub(crate) fn executable(&self) -> Vec<PathBuf> {
        let may = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o111 != 0;
        self.files().into_iter().filter(may).collect()
    }

    pub(crate) fn holds(&self, role: &str) {
        let mut wanted = vec![("bridge", BRIDGE), ("kubeadm", KUBEADM), ("kubelet", KUBELET), ("loopback", &b"l"[..])];
        if role == "control-plane" {
            wanted.push(("kubectl", KUBECTL));
        }
        let mut found: Vec<_> = fs::read_dir(self.link()).unwrap().map(|one| one.unwrap().file_name()).collect();
        found.sort();
        let mut names: Vec<_> = wanted.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert_eq!(found, names);
        for (name, content) in wanted {
            let path = self.link().join(name);
            let found = fs::symlink_metadata(&path).unwrap();
            assert!(found.is_file() && found.permissions().mode() & 0o7777 == 0o755, "{name}: {found:?}");
            assert!(fs::read(&path).unwrap() == content, "{name} is another file");
        }
        let home = self.link().canonicalize().unwrap().parent().unwrap().to_owned();
        let images = fs::read_to_string(home.join("images")).unwrap();
        let pause = format!("- registry.k8s.io/pause:3.10 sha256:{}\n", "0".repeat(64));
        assert_eq!(images, pause + "coredns-v1.12.1.tar registry.k8s.io/coredns/coredns:v1.12.1\n");
        assert!(fs::read(home.join("downloads/coredns-v1.12.1.tar")).unwrap() == COREDNS, "another image");
    }
}

pub(crate) fn given(mut command: Command, input: &str) -> Output {
    let mut child = command.spawn().unwrap();
    // It need not read what it refuses.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    child.wait_with_output().unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub(crate) fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", said(output));
}

/// It failed with this reason code, which stands in its last line.
pub(crate) fn failed(output: &Output, code: &str) {
    let text = said(output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with(&format!("failed: {code}: ")), "expected {code}: {text}");
}
