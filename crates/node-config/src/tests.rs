use proptest::prelude::*;

use super::*;

fn code(line: &str) -> &'static str {
    Config::parse(line.as_bytes()).expect_err(line).code().as_str()
}

fn parse(line: &str) -> Config {
    Config::parse(line.as_bytes()).unwrap_or_else(|fault| panic!("{line}: {fault}"))
}

#[test]
fn an_ordinary_command_line_has_the_documented_defaults() {
    let config = parse("console=ttyS0 quiet panic=-1\n");
    assert_eq!(config.network, NetworkSetup::Dhcp4);
    assert_eq!(config.state_disk, StateDisk::Auto);
    assert_eq!(config.listen_port, 9000);
    assert_eq!(config.cluster_step().unwrap_err().code(), ConfigCode::MissingKey);
    assert_eq!(config.init, PathBuf::from("/sbin/init"));
    assert_eq!(config.writable, Writable::Overlay);
    assert_eq!(config.state_integrity, StateIntegrity::None);
    assert_eq!(config.root().unwrap_err().code(), ConfigCode::MissingKey);
}

#[test]
fn every_key_is_read() {
    let hash = "ab".repeat(32);
    let config = parse(&format!(
        "latchkey.root_verity={hash},salt=0102,blocks=4294967295 latchkey.root_fs=erofs \
         latchkey.writable=tmpfs:/var,/etc/kubernetes latchkey.init=/usr/lib/systemd/systemd \
         latchkey.state_disk=device:/dev/nvme0n1p3 latchkey.state_integrity=hmac-sha256 latchkey.device_timeout=5 \
         latchkey.network=static:10.0.2.15/24,gw=10.0.2.2,dns=10.0.2.3,dns=9.9.9.9 latchkey.interface=52:54:00:12:34:56 \
         latchkey.network_timeout=7 latchkey.metadata=qemu latchkey.join_service=join.example:30090,[fd00::1]:1,10.0.2.2:2 \
         latchkey.join_service_key=sha256:{hash} latchkey.ek=rsa-2048 latchkey.ak=azure latchkey.role_hint=worker \
         latchkey.listen_port=9999 \
         latchkey.cluster_step=command latchkey.command=/usr/bin/hook latchkey.console_qr=ascii latchkey.log=debug -- x"
    ));
    let address = |text: &str| text.parse::<std::net::IpAddr>().unwrap();
    let static_network = StaticNetwork {
        address: address("10.0.2.15"),
        prefix: 24,
        gateway: Some(address("10.0.2.2")),
        dns: vec![address("10.0.2.3"), address("9.9.9.9")],
    };
    let expected = Config {
        root_verity: Some(RootVerity { root_hash: [0xab; 32], salt: vec![1, 2], blocks: u32::MAX }),
        root_fs: RootFs::Erofs,
        writable: Writable::Tmpfs(vec!["/var".into(), "/etc/kubernetes".into()]),
        init: "/usr/lib/systemd/systemd".into(),
        state_disk: StateDisk::Selected(DiskSelector::Device("nvme0n1p3".into())),
        state_integrity: StateIntegrity::HmacSha256,
        device_timeout: Duration::from_secs(5),
        network: NetworkSetup::Static(static_network),
        interface: Interface::Mac([0x52, 0x54, 0, 0x12, 0x34, 0x56]),
        network_timeout: Duration::from_secs(7),
        metadata: MetadataSource::Qemu,
        join_services: ["join.example:30090", "[fd00::1]:1", "10.0.2.2:2"].map(|e| Endpoint::parse(e).unwrap()).into(),
        join_service_key: Some(SpkiHash([0xab; 32])),
        centre: None,
        ek: EkChoice::Rsa2048,
        ak: AkChoice::Azure,
        role_hint: Some(RoleHint::Worker),
        listen_port: 9999,
        cluster_step: Some(ClusterStep::Command("/usr/bin/hook".into())),
        console_qr: ConsoleQr::Ascii,
        log: LogLevel::Debug,
    };
    assert_eq!(config, expected);
    assert_eq!(parse(&config.to_string()), expected, "it reads what it writes");
}

#[test]
fn a_centre_is_a_service_and_its_key() {
    let key = format!("latchkey.centre_key=sha256:{}", "ab".repeat(32));
    let config = parse(&format!("latchkey.cluster_step=kubeadm latchkey.centre=centre.example:8450 {key}"));
    let service = Endpoint::parse("centre.example:8450").unwrap();
    assert_eq!(config.centre, Some(Centre { service, key: SpkiHash([0xab; 32]) }));
    assert_eq!(parse(&config.to_string()), config, "it reads what it writes");
    assert_eq!(code("latchkey.centre=a:1"), "config-contradiction");
    assert_eq!(code(&key), "config-contradiction");
    let hook = "latchkey.cluster_step=command latchkey.command=/bin/x";
    assert_eq!(code(&format!("{hook} latchkey.centre=a:1 {key}")), "config-contradiction");
    assert_eq!(code(&format!("{key} latchkey.centre=a:1,b:1")), "config-invalid-value", "there is one centre");
}

#[test]
fn what_is_written_is_read_again_as_the_same() {
    for line in [
        "",
        "latchkey.cluster_step=kubeadm latchkey.network=ipv6-ra latchkey.writable=none",
        "latchkey.network=static:fd00::2/64,gw=fe80::1 latchkey.state_disk=partlabel:state latchkey.interface=ens3",
        "latchkey.network=none latchkey.state_disk=parttype:0fc63daf-8483-4772-8e79-3d69d8477de4",
    ] {
        let config = parse(line);
        assert_eq!(parse(&config.to_string()), config, "{line}");
    }
}

#[test]
fn metadata_of_a_server_need_a_network() {
    for source in ["aws", "gcp", "azure", "openstack", "hetzner", "auto"] {
        let error = Config::parse(format!("latchkey.metadata={source} latchkey.network=none").as_bytes()).unwrap_err();
        assert!(matches!(error, ConfigError::MissingCompanion { key: "latchkey.metadata", .. }), "{source}: {error}");
    }
    for source in ["qemu", "nocloud", "config-drive", "none"] {
        Config::parse(format!("latchkey.metadata={source} latchkey.network=none").as_bytes()).unwrap();
    }
}

#[test]
fn the_documented_keys_are_those_that_are_read() {
    assert_eq!(table(), include_str!("../KEYS.md"));
    for Key { name, .. } in KEYS {
        let refused = |value: &str| Config::parse(format!("{name}={value}").as_bytes()).err().map(|error| error.code());
        assert_ne!(refused(""), Some(ConfigCode::UnknownKey), "{name}");
    }
    let written = parse(&format!("latchkey.root_verity={},salt=,blocks=2", "00".repeat(32))).to_string();
    assert!(
        written.split(' ').all(|word| KEYS.iter().any(|key| word.starts_with(&format!("{}=", key.name)))),
        "{written}"
    );
}

#[test]
fn unknown_and_misspelt_keys_refuse() {
    for line in [
        "latchkey.debug=1",
        "latchkey.join-service=a:1",
        "Latchkey.log=info",
        "LATCHKEY.LOG=info",
        "latchkey.=x",
        "quiet -- latchkey.shell=1",
        // What named a root that nobody checked.
        "latchkey.root=device:/dev/vda",
    ] {
        assert_eq!(code(line), "config-unknown-key", "{line}");
    }
}

#[test]
fn a_key_given_twice_refuses_even_with_the_same_value() {
    assert_eq!(code("latchkey.log=info quiet latchkey.log=info"), "config-duplicate-key");
}

#[test]
fn quoting_can_not_hide_a_key_and_can_not_make_one() {
    assert_eq!(code("\"latchkey.log=info\""), "config-malformed");
    assert_eq!(code("latchkey.log=\"info\""), "config-malformed");
    assert_eq!(code("latchkey.log"), "config-malformed");
    assert_eq!(code("latchkey.log=inf\u{f6}"), "config-malformed");
    assert_eq!(parse("dyndbg=\"file x latchkey.log=debug y\" quiet").log, LogLevel::Info);
    assert_eq!(parse("a=b\tlatchkey.log=debug\nquiet").log, LogLevel::Debug);
}

#[test]
fn values_out_of_form_refuse() {
    let cases = [
        (
            "state_disk",
            &[
                "",
                "vda",
                "device:vda",
                "device:/dev/../etc/x",
                "device:/dev/",
                "device:/dev/a/b",
                "partlabel:",
                "parttype:1",
            ][..],
        ),
        ("state_disk", &["partlabel:0123456789012345678901234567890123456"]),
        ("root_fs", &["", "SQUASHFS", "btrfs"]),
        ("init", &["", "/", "init", "/a/../b"]),
        ("device_timeout", &["", "0", "3601", "+5", "05", "5s", "99999999999"]),
        (
            "network",
            &[
                "",
                "dhcp",
                "static:",
                "static:10.0.2.15",
                "static:10.0.2.15/33",
                "static:10.0.2.15/0",
                "static:fd00::1/129",
            ],
        ),
        (
            "network",
            &["static:10.0.2.15/24,", "static:10.0.2.15/24,gw=fd00::1", "static:10.0.2.15/24,gw=10.0.2.2,gw=10.0.2.3"],
        ),
        (
            "network",
            &[
                "static:0.0.0.0/8",
                "static:127.0.0.1/8",
                "static:224.0.0.1/4",
                "static:255.255.255.255/8",
                "static:10.0.2.15/24,mtu=9000",
            ],
        ),
        (
            "network",
            &["static:10.0.0.1/24,dns=1.1.1.1,dns=1.1.1.2,dns=1.1.1.3,dns=1.1.1.4", "static:10.0.0.1/24,dns=0.0.0.0"],
        ),
        ("interface", &["", "this-name-is-too-long", "-x", ".x", "a/b", "52:54:00:12:34", "52:54:00:12:34:5g"]),
        (
            "join_service",
            &[
                "",
                "host",
                "host:",
                "host:0",
                "host:65536",
                ":1",
                "a:1,",
                "a:1,,b:2",
                "::1:80",
                "[::1]",
                "300.1.1.1:1",
                "a_b:1",
            ],
        ),
        ("join_service", &["a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1"]),
        ("join_service_key", &["", "sha256:", "sha256:00", "sha512:00"]),
        ("listen_port", &["", "0", "65536", "-1"]),
        ("log", &["trace", "INFO", ""]),
        ("console_qr", &["", "utf8", "ASCII", "ascii,none"]),
        ("ak", &["google", "auto", ""]),
        ("ek", &["p256", "auto", "ecc-p256,rsa-2048"]),
        ("metadata", &["AWS", "ec2", "openstack,aws", "cidata", "NoCloud"]),
        ("role_hint", &["master"]),
        ("cluster_step", &["k3s"]),
        ("command", &["sh -c x", "relative"]),
    ];
    refuse_all(&cases);
}

#[test]
fn what_can_be_written_is_said_in_one_way_only() {
    let cases = [
        ("state_integrity", &["", "hmac", "HMAC-SHA256", "hmac-sha256,"][..]),
        (
            "writable",
            &[
                "",
                "all",
                "tmpfs",
                "tmpfs:",
                "tmpfs:var",
                "tmpfs:/",
                "tmpfs:/var,",
                "tmpfs:/var/",
                "tmpfs://var",
                "tmpfs:/var/./x",
                "tmpfs:/var/../etc",
                "tmpfs:/var,/var",
                "tmpfs:/var/lib,/var",
                "tmpfs:/run",
                "tmpfs:/dev/shm",
                "tmpfs:/proc,/var",
                "tmpfs:/a,/b,/c,/d,/e,/f,/g,/h,/i,/j,/k,/l,/m,/n,/o,/p,/q",
            ],
        ),
    ];
    refuse_all(&cases);
}

fn refuse_all(cases: &[(&str, &[&str])]) {
    for (key, values) in cases {
        for value in *values {
            let fault = Config::parse(format!("latchkey.{key}={value}").as_bytes()).expect_err(value);
            assert_eq!(fault.code(), ConfigCode::InvalidValue, "{key}={value}");
        }
    }
}

#[test]
fn a_root_hash_is_whole_and_stands_with_its_salt_and_length() {
    let hash = "0f".repeat(32);
    let salt = "ee".repeat(256);
    for good in [format!("{hash},salt=,blocks=2"), format!("{hash},salt={salt},blocks=4294967295")] {
        let config = parse(&format!("latchkey.root_verity={good}"));
        assert_eq!(config.root().unwrap().to_string(), good);
    }
    for bad in [
        String::new(),
        hash.clone(),
        format!("{hash},blocks=2"),
        format!("{hash},salt=00"),
        format!("{hash},blocks=2,salt=00"),
        format!("{hash},salt=0,blocks=2"),
        format!("{hash},salt=0g,blocks=2"),
        format!("{hash},salt=-,blocks=2"),
        format!("{hash},salt={salt}ee,blocks=2"),
        format!("{hash},salt=00,blocks="),
        format!("{hash},salt=00,blocks=0"),
        format!("{hash},salt=00,blocks=1"),
        format!("{hash},salt=00,blocks=02"),
        format!("{hash},salt=00,blocks=0x10"),
        format!("{hash},salt=00,blocks=4294967296"),
        format!("{hash},salt=00,blocks=2,"),
        format!("{hash},salt=00,blocks=2,blocks=3"),
        format!("{hash}0f,salt=00,blocks=2"),
        format!("{},salt=00,blocks=2", &hash[2..]),
    ] {
        assert_eq!(code(&format!("latchkey.root_verity={bad}")), "config-invalid-value", "{bad}");
    }
}

#[test]
fn contradictions_refuse() {
    assert_eq!(code("latchkey.cluster_step=command"), "config-missing-key");
    assert_eq!(code("latchkey.command=/bin/x"), "config-contradiction");
    assert_eq!(code(&format!("latchkey.join_service_key=sha256:{}", "00".repeat(32))), "config-contradiction");
}

/// What opens a shell, or starts something else, in one system or another. Here it changes nothing: it is measured like
/// every word, and the operating system decides what it does there.
#[test]
fn no_word_for_an_emergency_changes_what_the_agent_does() {
    let ours = "latchkey.network=none latchkey.init=/usr/lib/systemd/systemd";
    let expected = parse(ours);
    for word in [
        "init=/bin/sh",
        "rdinit=/bin/sh",
        "root=/dev/vda2",
        "rd.break",
        "rd.break=pre-mount",
        "rd.shell",
        "rd.debug",
        "rd.emergency=halt",
        "rd.systemd.debug_shell",
        "rd.systemd.unit=emergency.target",
        "systemd.debug_shell",
        "systemd.debug-shell=1",
        "systemd.unit=rescue.target",
        "systemd.crash_shell=yes",
        "systemd.confirm_spawn=yes",
        "systemd.run=/bin/sh",
        "systemd.setenv=SYSTEMD_SULOGIN_FORCE=1",
        "roothash=00",
        "break",
        "break=bottom",
        "emergency",
        "rescue",
        "single",
        "s",
        "S",
        "1",
        "-b",
        "sysrq_always_enabled",
        "kgdboc=ttyS0",
        "-- latchkey",
    ] {
        for line in [format!("{word} {ours}"), format!("{ours} {word}")] {
            assert_eq!(parse(&line), expected, "{line}");
        }
    }
}

#[test]
fn an_endless_command_line_refuses() {
    assert_eq!(code(&"x ".repeat(MAX_COMMAND_LINE)), "config-too-long");
}

#[test]
fn where_an_api_server_is_may_lack_a_port_only_where_an_operator_says_it() {
    let shown = |said| Endpoint::of_api_server_or(said, 6443).map(|endpoint| endpoint.to_string());
    for (said, means) in [
        ("api.example", "api.example:6443"),
        ("api.example:443", "api.example:443"),
        ("10.0.0.5", "10.0.0.5:6443"),
        ("10.0.0.5:1", "10.0.0.5:1"),
        ("[fd00::1]:443", "[fd00::1]:443"),
        ("fd00::1", "[fd00::1]:6443"),
    ] {
        assert_eq!(shown(said).as_deref(), Some(means));
        assert_eq!(Endpoint::of_api_server(said).is_some(), said == means, "{said}");
    }
    for bad in [
        "",
        ":6443",
        "a:",
        "a:0",
        "a:+1",
        "a:65536",
        "[fd00::1",
        "[fd00::1]",
        "[10.0.0.1]:1",
        "fd00::1:99999",
        "1.2.3",
        "Api.example",
        "a b:1",
        "https://a:1",
        "a/b:1",
        "[fe80::1%eth0]:1",
        "a\n:1",
        "user@a:1",
    ] {
        assert!(shown(bad).is_none(), "{bad}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Config::parse(&bytes);
    }

    #[test]
    fn no_value_makes_the_reader_panic(key in 0usize..23, value in "[ -~]{0,60}|(static|partlabel|device|sha256|tmpfs):[ -~]{0,40}|[0-9a-f]{64},salt=[ -~]{0,40}") {
        let keys = ["root_verity", "root_fs", "writable", "state_integrity", "init", "state_disk", "device_timeout", "network", "interface", "network_timeout",
            "metadata", "join_service", "join_service_key", "centre", "centre_key", "ek", "ak", "role_hint", "listen_port", "cluster_step", "command", "console_qr", "log"];
        let _ = Config::parse(format!("latchkey.{}={value}", keys[key]).as_bytes());
    }

    #[test]
    fn order_and_other_words_do_not_matter(
        mut words in Just(vec!["latchkey.state_disk=partlabel:state", "latchkey.log=warn", "latchkey.network=none",
            "latchkey.listen_port=1", "quiet", "console=ttyS0", "a=\"b c\""]).prop_shuffle(),
    ) {
        let expected = parse("latchkey.state_disk=partlabel:state latchkey.log=warn latchkey.network=none latchkey.listen_port=1");
        prop_assert_eq!(&parse(&words.join(" ")), &expected);
        words.push("latchkey.x=1");
        prop_assert_eq!(code(&words.join(" ")), "config-unknown-key");
    }

    #[test]
    fn an_endpoint_reads_what_it_shows(host in "[a-z][a-z0-9]{0,8}(\\.[a-z]{1,5})?", port in 1u16.., v6 in any::<u128>()) {
        for text in [format!("{host}:{port}"), format!("[{}]:{port}", std::net::Ipv6Addr::from(v6))] {
            let endpoint = Endpoint::parse(&text).unwrap();
            prop_assert_eq!(Endpoint::parse(&endpoint.to_string()), Some(endpoint));
        }
    }
}
