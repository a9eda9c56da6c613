use super::*;
use latchkey_api_server_rig::Authority;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// A kubeconfig as kubeadm writes one, in YAML, with the fields of cluster and user that are given here.
fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\npreferences: {{}}\ncurrent-context: me@plant\n\
         clusters:\n- cluster:\n{}  name: plant\n- cluster:\n    server: http://elsewhere\n  name: other\n\
         contexts:\n- context:\n    cluster: plant\n    user: me\n    namespace: x\n  name: me@plant\n\
         users:\n- name: me\n  user:\n{}",
        indented(cluster),
        indented(user)
    )
}

fn indented(fields: &str) -> String {
    fields.lines().fold(String::new(), |text, line| text + "    " + line + "\n")
}

struct Files {
    directory: tempfile::TempDir,
    cluster: String,
    user: String,
}

impl Files {
    fn new() -> Self {
        let (authority, directory) = (Authority::make(), tempfile::tempdir().unwrap());
        let client = authority.client("me", None);
        let files = [
            ("ca.pem", authority.certificate(), 0o644),
            ("cut.pem", authority.certificate().lines().next().unwrap_or_default(), 0o644),
            ("client.pem", client.certificate(), 0o644),
            ("client.key", client.key(), 0o600),
            ("open.key", client.key(), 0o644),
            ("token", "id.secret\n", 0o600),
        ];
        for (name, text, mode) in files {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let data = |text: &str| STANDARD.encode(text);
        let cluster =
            format!("server: https://192.0.2.1:6443\ncertificate-authority-data: {}", data(authority.certificate()));
        let user =
            format!("client-certificate-data: {}\nclient-key-data: {}", data(client.certificate()), data(client.key()));
        Self { directory, cluster, user }
    }

    fn read(&self, cluster: &str, user: &str) -> Result<Way, String> {
        let path = self.directory.path().join("kubeconfig");
        let _ = fs::remove_file(&path);
        fs::write(&path, kubeconfig(cluster, user)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        Way::read(&path)
    }

    fn refusal(&self, cluster: &str, user: &str) -> String {
        self.read(cluster, user).map(drop).unwrap_err()
    }
}

#[test]
fn certificates_and_tokens_are_taken_from_the_file_and_from_those_that_it_names() {
    let files = Files::new();
    let way = files.read(&files.cluster, &files.user).unwrap();
    assert_eq!(way.server.to_string(), "https://192.0.2.1:6443/");
    assert!(way.name.is_none() && way.token.is_none() && way.authorities.len() == 1);
    assert_eq!(way.certificate.unwrap().chain.len(), 1);

    let cluster = "server: https://api.plant.example\ncertificate-authority: ca.pem\ntls-server-name: kubernetes";
    let way = files.read(cluster, "client-certificate: client.pem\nclient-key: client.key").unwrap();
    assert!(way.certificate.is_some() && way.name.is_some());
    let way = files.read(cluster, "token: id.secret").unwrap();
    assert!(matches!(way.token, Some(TokenSource::Text(token)) if *token == "id.secret"));
    let way = files.read(cluster, "tokenFile: token").unwrap();
    assert!(matches!(way.token, Some(TokenSource::File(path)) if path.ends_with("token")));
}

#[test]
fn what_runs_a_program_leads_elsewhere_or_switches_a_check_off_is_refused_by_name() {
    let files = Files::new();
    let (cluster, user) = (&files.cluster, &files.user);
    let with = |fields: &str, one: &str| format!("{fields}\n{one}");
    for (one, said) in [
        ("insecure-skip-tls-verify: true", "insecure-skip-tls-verify"),
        ("proxy-url: http://192.0.2.9", "proxy-url"),
        ("certificate-authority: ca.pem", "not both"),
    ] {
        let refusal = files.refusal(&with(cluster, one), user);
        assert!(refusal.contains(said), "{one}: {refusal}");
    }
    for (one, said) in [
        ("exec: {command: sh}", "`exec`"),
        ("auth-provider: {name: x}", "`auth-provider`"),
        ("username: me", "`username`"),
        ("password: hush", "`username`"),
        ("as: admin", "`as`"),
        ("as-groups: [system:masters]", "`as`"),
        ("client-key: client.key", "not both"),
    ] {
        let refusal = files.refusal(cluster, &with(user, one));
        assert!(refusal.contains(said) && !refusal.contains("hush"), "{one}: {refusal}");
    }
    for (cluster, said) in [
        (cluster.replace("https://", "http://"), "https"),
        (cluster.replace("https://192.0.2.1:6443", "https://"), "https"),
        ("server: https://192.0.2.1".to_owned(), "certificate-authority"),
        ("server: https://192.0.2.1\ncertificate-authority: missing.pem".to_owned(), "missing.pem"),
        ("server: https://192.0.2.1\ncertificate-authority: token".to_owned(), "no certificate"),
        ("server: https://192.0.2.1\ncertificate-authority: cut.pem".to_owned(), "line 1: the section does not end"),
    ] {
        let refusal = files.refusal(&cluster, user);
        assert!(refusal.contains(said), "{cluster}: {refusal}");
    }
    for (user, said) in [
        ("tokenFile: open.key", "0600"),
        ("client-certificate: client.pem\nclient-key: open.key", "0600"),
        ("client-certificate: client.pem", "needs its key"),
        ("client-certificate: client.pem\nclient-key: token", "no private key"),
        ("token: id.secret\ntokenFile: token", "not both"),
        ("name: nobody", "neither"),
    ] {
        let refusal = files.refusal(cluster, user);
        assert!(refusal.contains(said), "{user}: {refusal}");
    }
}

#[test]
fn what_is_no_kubeconfig_is_refused() {
    let files = Files::new();
    let path = files.directory.path().join("kubeconfig");
    for text in ["", "x", "{", "current-context: a", "clusters: 1", &"[".repeat(10_000), &"x".repeat(300_000)] {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Way::read(&path).is_err(), "{text:.20}");
    }
    let secret = kubeconfig(&files.cluster, "token: [hush]").replace("  user:\n", "  user: hush\n  more:\n");
    fs::write(&path, secret).unwrap();
    assert!(!Way::read(&path).map(drop).unwrap_err().contains("hush"));
    let other = kubeconfig(&files.cluster, &files.user).replace("user: me\n    namespace", "user: you\n    namespace");
    fs::write(&path, other).unwrap();
    assert!(Way::read(&path).map(drop).unwrap_err().contains("\"you\""));
}
