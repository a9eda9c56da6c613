//! Stage 2 as a machine: the cluster step, its mark on the disk, the report, the end.
//!
//! A failed step resets the disk, because a node that is half a member helps nobody; but once the step has succeeded, or etcd
//! counts this node, the disk holds a member's data and nothing here may wipe it.

use latchkey_reason::Reason;
use serde::{Deserialize, Serialize};

use super::event::DiskPhase;

/// Something the stage 2 driver saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Event {
    /// The hand-over was read.
    Entered {
        /// What the token says.
        phase: DiskPhase,
        /// Bootstraps of this disk that failed before.
        attempts: u8,
    },
    /// The cluster step ended well.
    StepDone,
    /// The cluster step failed; code and message.
    StepFailed {
        /// Reason code.
        #[serde(with = "super::code::any")]
        code: Reason,
        /// What happened, in one sentence.
        message: String,
        /// The disk holds what others need already: the next boot goes on with it.
        #[serde(default)]
        disk_stays: bool,
    },
    /// The token says `bootstrapped` now.
    Marked,
    /// The token could not be written; code and message.
    MarkFailed {
        /// Reason code.
        #[serde(with = "super::code::any")]
        code: Reason,
        /// What happened, in one sentence.
        message: String,
    },
    /// The report was delivered, or given up: it informs others and decides nothing.
    Reported,
    /// The header is wiped and the attempt counted.
    DiskReset,
    /// The hand-over is gone.
    Wiped,
}

/// What the stage 2 driver must do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A member's reboot: start what makes the node a member, e.g. the kubelet.
    StartMember,
    /// Make the node a member: `kubeadm init`, `kubeadm join`, or the hook.
    RunStep,
    /// Write `bootstrapped` into the token.
    Mark,
    /// Tell whoever follows, and the join service.
    Report(Outcome),
    /// Wipe the header and write the reset marker.
    ResetDisk {
        /// Attempts including this one.
        attempts: u8,
    },
    /// Remove the hand-over.
    Wipe,
    /// Exit with success; the agent is gone.
    Exit,
    /// Exit with an error, without touching the disk.
    ExitFailed,
    /// Reboot into a fresh start.
    Reboot,
}

/// How the bootstrap ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A member.
    Succeeded,
    /// Not a member; the disk may be reset.
    Failed {
        /// Reason code.
        code: Reason,
        /// What happened, in one sentence.
        message: String,
        /// The node starts anew from an empty disk.
        disk_reset: bool,
    },
}

/// A node in stage 2.
#[derive(Debug, Default)]
pub struct Bootstrap(State);

#[derive(Debug, Default)]
enum State {
    #[default]
    Begun,
    Starting,
    Running {
        attempts: u8,
    },
    Marking,
    Reporting(Ending),
    Resetting,
    Wiping(Ending),
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Well,
    Badly,
    Again,
    Reset { attempts: u8 },
}

impl Bootstrap {
    /// A stage 2 that has read nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// True once the process may only exit or reboot.
    pub fn ended(&self) -> bool {
        matches!(self.0, State::Ended)
    }

    /// Takes what the driver saw and says what it must do. Events out of place change nothing.
    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        let state = std::mem::take(&mut self.0);
        let (next, effects) = step(state, event);
        self.0 = next;
        effects
    }
}

fn step(state: State, event: Event) -> (State, Vec<Effect>) {
    match (state, event) {
        (State::Begun, Event::Entered { phase: DiskPhase::Bootstrapped, .. }) => {
            (State::Starting, vec![Effect::StartMember])
        }
        (State::Begun, Event::Entered { phase: DiskPhase::Formatted, attempts }) => {
            (State::Running { attempts }, vec![Effect::RunStep])
        }
        (State::Starting, Event::StepDone) | (State::Marking, Event::Marked) => {
            (State::Reporting(Ending::Well), vec![Effect::Report(Outcome::Succeeded)])
        }
        // A member that does not start keeps its data: an operator or the next boot mends it.
        (State::Starting, Event::StepFailed { code, message, .. })
        | (State::Marking, Event::MarkFailed { code, message }) => report(Ending::Badly, code, message),
        (State::Running { .. }, Event::StepDone) => (State::Marking, vec![Effect::Mark]),
        (State::Running { .. }, Event::StepFailed { code, message, disk_stays: true }) => {
            report(Ending::Again, code, message)
        }
        (State::Running { attempts }, Event::StepFailed { code, message, disk_stays: false }) => {
            report(Ending::Reset { attempts: attempts.saturating_add(1) }, code, message)
        }
        (State::Reporting(Ending::Reset { attempts }), Event::Reported) => {
            (State::Resetting, vec![Effect::ResetDisk { attempts }])
        }
        (State::Reporting(ending), Event::Reported) => (State::Wiping(ending), vec![Effect::Wipe]),
        (State::Resetting, Event::DiskReset) => (State::Wiping(Ending::Reset { attempts: 0 }), vec![Effect::Wipe]),
        (State::Wiping(ending), Event::Wiped) => (
            State::Ended,
            vec![match ending {
                Ending::Well => Effect::Exit,
                Ending::Badly => Effect::ExitFailed,
                Ending::Again | Ending::Reset { .. } => Effect::Reboot,
            }],
        ),
        (state, _) => (state, vec![]),
    }
}

fn report(ending: Ending, code: Reason, message: String) -> (State, Vec<Effect>) {
    let disk_reset = matches!(ending, Ending::Reset { .. });
    (State::Reporting(ending), vec![Effect::Report(Outcome::Failed { code, message, disk_reset })])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cluster::StepCode;

    fn failed() -> Event {
        Event::StepFailed { code: StepCode::Failed.into(), message: "exit status 1".into(), disk_stays: false }
    }

    fn failed_as_a_member_of_etcd() -> Event {
        Event::StepFailed { code: StepCode::Failed.into(), message: "exit status 1".into(), disk_stays: true }
    }

    fn any_event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::Entered { phase: DiskPhase::Formatted, attempts: 1 }),
            Just(Event::Entered { phase: DiskPhase::Bootstrapped, attempts: 0 }),
            Just(Event::StepDone),
            Just(failed()),
            Just(failed_as_a_member_of_etcd()),
            Just(Event::Marked),
            Just(Event::MarkFailed { code: StepCode::File.into(), message: "write failed".into() }),
            Just(Event::Reported),
            Just(Event::DiskReset),
            Just(Event::Wiped),
        ]
    }

    proptest! {
        #[test]
        fn a_member_is_never_reset_and_nobody_exits_before_the_hand_over_is_wiped(
            events in prop::collection::vec(any_event(), 0..40)
        ) {
            let mut machine = Bootstrap::new();
            let (mut member, mut wipe) = (false, false);
            for event in events {
                let before = format!("{machine:?}");
                let effects = machine.handle(event.clone());
                if effects.is_empty() {
                    prop_assert_eq!(before, format!("{machine:?}"));
                    continue;
                }
                member |= matches!(event, Event::StepDone) || event == failed_as_a_member_of_etcd() || effects.contains(&Effect::StartMember);
                for effect in effects {
                    let resets = matches!(effect, Effect::ResetDisk { .. });
                    prop_assert!(!(member && resets), "a member was reset");
                    wipe |= effect == Effect::Wipe;
                    if matches!(effect, Effect::Exit | Effect::ExitFailed | Effect::Reboot) {
                        prop_assert!(wipe && machine.ended());
                    }
                }
            }
        }
    }

    #[test]
    fn a_control_plane_that_fails_when_etcd_counts_it_keeps_its_disk_and_comes_again() {
        let mut machine = Bootstrap::new();
        machine.handle(Event::Entered { phase: DiskPhase::Formatted, attempts: 1 });
        let effects = machine.handle(failed_as_a_member_of_etcd());
        assert!(matches!(&effects[..], [Effect::Report(Outcome::Failed { disk_reset: false, .. })]));
        assert_eq!(machine.handle(Event::Reported), [Effect::Wipe]);
        assert_eq!(machine.handle(Event::Wiped), [Effect::Reboot]);
    }

    #[test]
    fn a_failed_first_bootstrap_is_reported_then_resets_the_disk_then_reboots() {
        let mut machine = Bootstrap::new();
        machine.handle(Event::Entered { phase: DiskPhase::Formatted, attempts: 1 });
        let effects = machine.handle(failed());
        assert!(matches!(&effects[..], [Effect::Report(Outcome::Failed { disk_reset: true, .. })]));
        assert_eq!(machine.handle(Event::Reported), [Effect::ResetDisk { attempts: 2 }]);
        assert_eq!(machine.handle(Event::DiskReset), [Effect::Wipe]);
        assert_eq!(machine.handle(Event::Wiped), [Effect::Reboot]);
    }
}
