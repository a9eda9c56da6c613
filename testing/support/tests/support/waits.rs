//! Waits end: with what was waited for, or with a panic that names it.

use latchkey_test_support::{Lines, PATIENCE, Port, drained, finish, in_time, output, output_within, status_within};
use std::io::Write;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::panic::catch_unwind;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn a_program_that_ends_is_heard_out() {
    let heard = output(&mut shell("cat; echo out; echo err >&2; exit 3")).unwrap();
    assert_eq!((heard.status.code(), &heard.stdout[..], &heard.stderr[..]), (Some(3), &b"out\n"[..], &b"err\n"[..]));
    // More than a pipe holds.
    let mut much = shell("head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2");
    let heard = finish("head", much.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!((heard.stdout.len(), heard.stderr.len()), (1_000_000, 1_000_000));
    assert!(output(&mut Command::new("/no/such/program")).is_err());
}

#[test]
fn a_program_that_hangs_is_killed_and_named() {
    let begun = Instant::now();
    let told =
        catch_unwind(|| output_within(Duration::from_millis(200), &mut shell("echo here I am; exec sleep 3600")));
    let told = told.unwrap_err().downcast::<String>().unwrap();
    assert!(told.contains("sleep 3600") && told.contains("in vain"), "{told}");
    assert!(begun.elapsed() < PATIENCE);
    assert!(status_within(PATIENCE, &mut shell("exit 0")).unwrap().success());
}

#[test]
fn a_panic_of_what_is_waited_for_is_the_tests_own() {
    assert_eq!(in_time("a number", || 7), 7);
    let told = catch_unwind(|| in_time("nothing", || panic!("as asked"))).unwrap_err();
    assert_eq!(*told.downcast::<&str>().unwrap(), "as asked");
}

#[test]
fn lines_come_and_end() {
    let lines = Lines::of(&b"one\ntwo\nthree"[..]);
    assert_eq!(lines.next("one").as_deref(), Some("one"));
    let mut seen = Vec::new();
    assert_eq!(lines.find("three", &mut seen, |line| line.starts_with("th")).as_deref(), Some("three"));
    assert_eq!(seen, ["two", "three"]);
    assert_eq!((lines.next("nothing"), lines.find("four", &mut seen, |_| true)), (None, None));
}

#[test]
fn what_a_peer_said_before_it_hung_up_is_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    listener.accept().unwrap().0.write_all(b"bye").unwrap();
    assert_eq!(drained(&mut near), b"bye");
}

/// Also by a listener for IPv6 and IPv4, and while connections of before linger.
#[test]
fn a_reserved_port_is_refused_until_its_holder_listens_and_again_afterwards() {
    let port = Port::reserve();
    for address in [port.address(), SocketAddr::from((Ipv6Addr::UNSPECIFIED, port.number())), port.address()] {
        assert!(TcpStream::connect(port.address()).is_err());
        let listener = TcpListener::bind(address).unwrap();
        let near = TcpStream::connect(port.address()).unwrap();
        drop(listener.accept().unwrap());
        drop((listener, near));
    }
    assert!(TcpStream::connect(port.address()).is_err());
}
