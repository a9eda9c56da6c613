//! The question that a human answers, on a real terminal: a pseudo-terminal of the kernel.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support::node::FakeNode;
use crate::support::operator::Operator;
use crate::support::terminal::OnTerminal;

const QUESTION: &str = "Is this the machine that you mean? [yes/no]";

fn init(address: &str) -> Vec<&str> {
    let files = ["--master-secret", "master.json", "--init-secret", "init.secret", "--policy", "policy.json"];
    let rest = ["--reference", "demo.json", "--cluster", "plant", "--name", "plant", "--timeout", "60"];
    [&["init", address][..], &files, &rest].concat()
}

/// A policy that trusts two machines, of which one answers.
fn two_machines() -> (Operator, FakeNode, FakeNode) {
    let (operator, node) = Operator::with_node();
    let other = FakeNode::start(&operator.init_secret());
    operator.trust(&[&node, &other]);
    (operator, node, other)
}

#[test]
fn a_human_who_does_not_know_the_machine_sends_it_nothing() {
    let (operator, node, _other) = two_machines();
    let address = node.address();
    for answer in ["no\n", "\n", "y\n", "YES!\n"] {
        let asked = OnTerminal::start(&operator, &init(&address)).until(QUESTION);
        assert!(asked.seen.contains(&node.ek().to_string()), "the endorsement key is shown: {}", asked.seen);
        assert_eq!(node.shown(), (0, 0), "before the answer");
        let (ran, screen) = asked.answer(answer);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{screen}");
        assert!(screen.contains("you said that this is another machine"), "{screen}");
        assert_eq!(node.shown(), (0, 0), "neither secret nor key was sent after {answer:?}");
    }
}

#[test]
fn a_human_who_knows_the_machine_goes_on_with_it() {
    let (operator, node, _other) = two_machines();
    let address = node.address();
    let asked = OnTerminal::start(&operator, &init(&address)).until(QUESTION);
    assert!(asked.seen.contains(&node.ek().to_string()), "{}", asked.seen);
    let (ran, screen) = asked.answer("yes\n");
    assert_eq!(ran.code, 0, "{screen}");
    assert!(ran.out.contains(&node.ek().to_string()), "{}", ran.out);
    assert_eq!(node.shown(), (1, 1));
    assert_eq!(screen.matches(QUESTION).count(), 1, "it is asked once: {screen}");
}
