//! What ships contains none of the stand-ins that tests use.

use latchkey_qemu_tests::build;

/// Names of test code: software TPMs, the rig around swtpm, what waits in tests, hostile peers, the thief. As they stand in symbols and strings.
const TEST_CODE: [&str; 7] =
    ["fake_tpm", "FakeTpm", "swtpm", "test_rig", "latchkey_test_support", "THIEF", "FakeKubeadm"];

fn contains(binary: &[u8], name: &str) -> bool {
    binary.windows(name.len()).any(|window| window == name.as_bytes())
}

#[test]
fn no_test_code_is_in_what_ships() {
    let mut programs = vec![build::agent().unwrap()];
    for binary in ["latchkey", "latchkey-join-service", "latchkey-key-service"] {
        // With symbols, so that names of functions show, too.
        programs.push(build::program(binary).unwrap());
    }
    for program in programs {
        let binary = std::fs::read(&program).unwrap();
        assert!(contains(&binary, "latchkey"), "{} is looked at the wrong way", program.display());
        for name in TEST_CODE {
            assert!(!contains(&binary, name), "{} contains {name}", program.display());
        }
    }
}

#[test]
fn the_look_finds_what_it_looks_for() {
    let thief = std::fs::read(build::guest("thief").unwrap()).unwrap();
    assert!(contains(&thief, "THIEF"));
}
