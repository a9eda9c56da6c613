//! Which machine is meant. Attestation says what a machine runs; that it is *this* one, its endorsement key says.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use latchkey_attestation::machine::which;
use latchkey_attestation::{EkDigest, EkPrefix, KnownMachine, Policy};
use latchkey_cluster_store::NodeRecord;
use latchkey_tpm::wire::EkTemplate;

use crate::arguments::Arguments;
use crate::codes::CommandCode;
use crate::ek_file;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;
use crate::output::{Output, Tone};

/// A key, and what clouds and editors put around it.
const MAX_FILE: usize = 4096;

/// Which machine the operator means, of all that the policy admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meant {
    /// This one: by a flag, by the record of its name, or because the policy trusts no other.
    Named {
        /// Its TPM, or so much of its digest that no other begins alike.
        ek: EkPrefix,
        /// Who says so, for a refusal.
        by: &'static str,
    },
    /// Whichever answers, by an explicit word.
    Any,
    /// Nobody said.
    NotNamed,
}

/// The witness that the machine that answered is the one that is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeantMachine(EkDigest);

impl MeantMachine {
    pub(crate) fn ek(self) -> EkDigest {
        self.0
    }
}

impl Meant {
    /// By `--ek`, `--accept-any-ek`, or a policy that trusts one TPM alone. `nodes` are on record where this command looks.
    pub(crate) fn from_arguments(
        arguments: &Arguments,
        policy: &Policy,
        nodes: &[NodeRecord],
    ) -> Result<Self, CommandError> {
        let of_policy = |template| policy.ek_templates().contains(template);
        let known: Vec<_> = policy.pinned_eks().map(|ek| (ek, None)).chain(nodes.iter().map(on_record)).collect();
        match (prefix_of(arguments, "ek", &known, of_policy)?, arguments.has("accept-any-ek")) {
            (Some(_), true) => {
                Err(CommandError::usage("--ek names a machine, and --accept-any-ek names none: say one of them"))
            }
            (Some(ek), false) => Ok(Self::Named { ek, by: "--ek" }),
            (None, true) => Ok(Self::Any),
            (None, false) => Ok(policy.only_ek().map_or(Self::NotNamed, |ek| Self::named(ek, "the policy"))),
        }
    }

    /// This one.
    pub(crate) fn named(ek: EkDigest, by: &'static str) -> Self {
        Self::Named { ek: ek.into(), by }
    }

    /// Whether this is the machine; asks a human where nobody said. A policy that trusts several TPMs, or an authority that
    /// certifies millions, admits others in its place.
    pub(crate) fn check(&mut self, ek: EkDigest, output: &Output) -> Result<MeantMachine, CommandError> {
        match *self {
            Self::Named { ek: named, by } => expect(by, named, ek)?,
            Self::Any => {}
            Self::NotNamed if ask(ek, output)? => *self = Self::named(ek, "your answer"),
            Self::NotNamed => {
                let failure = CommandError::new(
                    Exit::Failed,
                    CommandCode::MachineNotConfirmed,
                    "you said that this is another machine",
                );
                return Err(failure
                    .because(format!("it has the TPM {ek}"))
                    .fix("find out who answers at this address"));
            }
        }
        Ok(MeantMachine(ek))
    }
}

/// Shows the endorsement key and waits for a `yes`. Where nobody can answer, that is an error which names it.
fn ask(ek: EkDigest, output: &Output) -> Result<bool, CommandError> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let what = "the policy trusts more TPMs than one, and nobody said which machine is meant";
        let failure = CommandError::new(Exit::Usage, CommandCode::MachineNotNamed, what);
        let failure = failure.because(format!("the machine that answers has the TPM {ek}, in words {}", ek.words()));
        return Err(
            failure.fix("compare that with the machine's console and say --ek DIGEST, or --accept-any-ek to take any")
        );
    }
    output.say(
        Tone::Warning,
        "TPM",
        &format!(
            "{ek}\n{}\nThe policy trusts more TPMs than this one. The machine's console shows its own.",
            ek.words()
        ),
    );
    let _ = write!(io::stderr(), "Is this the machine that you mean? [yes/no] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(|error| CommandError::usage("no answer").because(error.to_string()))?;
    Ok(answer.trim() == "yes")
}

/// A node as one of those that a name may mean.
pub(crate) fn on_record(node: &NodeRecord) -> KnownMachine {
    (node.ek_sha256, Some(node.name.to_string()))
}

/// The machine that a text means, of those that are known here: by its name on record, or by its digest or how that begins, in digits
/// or in words. `None` where it means none.
pub(crate) fn find(named: &str, known: &[KnownMachine]) -> Result<Option<EkDigest>, CommandError> {
    which(named, known).map_err(|several| {
        let failure = CommandError::usage(format!("{named} may mean {} machines", several.len()));
        let failure = several.iter().fold(failure, |failure, (ek, name)| {
            let name = name.as_ref().map_or_else(String::new, |name| format!(", {name}"));
            failure.because(format!("{ek}, {}{name}", ek.words()))
        });
        failure.fix("say more digits or words of the one that is meant")
    })
}

/// The machine that a flag names, of which nothing is known here: its digest, at least 32 of its digits, its twelve words, or a file
/// that holds the digest or the key.
pub(crate) fn prefix(arguments: &Arguments, flag: &str) -> Result<Option<EkPrefix>, CommandError> {
    prefix_of(arguments, flag, &[], ek_file::is_usual)
}

/// The same; one of `known` may be meant by its name, or by fewer digits and words. Of these templates.
fn prefix_of(
    arguments: &Arguments,
    flag: &str,
    known: &[KnownMachine],
    allowed: impl Fn(EkTemplate) -> bool,
) -> Result<Option<EkPrefix>, CommandError> {
    let Some(path) = arguments.path(flag) else { return Ok(None) };
    let found = || {
        let named = path.to_str().unwrap_or_default();
        match (find(named, known)?, EkPrefix::parse(named)) {
            (Some(ek), _) => Ok(ek.into()),
            (None, Some(prefix)) if prefix.names_alone() => Ok(prefix),
            // Whoever makes keys until one begins so would be taken for the machine.
            (None, Some(_)) => Err(CommandError::usage("no machine that is known here has a digest that begins so")
                .fix("say at least 32 digits, or all twelve words, as its console shows them")),
            (None, None) => read(path, allowed).map(EkPrefix::from),
        }
    };
    found().map(Some).map_err(|failure: CommandError| failure.because(format!("--{flag} {}", path.display())))
}

/// The EK digest that an argument names: 64 hexadecimal digits, or a file that holds them or the key.
pub(crate) fn read(named: &Path, allowed: impl Fn(EkTemplate) -> bool) -> Result<EkDigest, CommandError> {
    if let Some(ek) = named.to_str().and_then(|text| EkDigest::from_hex(&text.trim().to_ascii_lowercase())) {
        return Ok(ek);
    }
    let malformed = || {
        let what = "neither an EK digest of 64 hexadecimal digits nor a file that holds one, or the key";
        CommandError::usage(what).fix("see the line `TPM` of `latchkey verify NODE`")
    };
    let no_digest = "nor is it an EK digest: these are 64 hexadecimal digits";
    let file = files::read(named, MAX_FILE).map_err(|failure| failure.because(no_digest))?;
    let what = || format!("the endorsement key in {} cannot be used", named.display());
    ek_file::digest(&file, allowed)
        .ok_or_else(malformed)?
        .map_err(|refusal| CommandError::refused(Exit::Usage, what(), &refusal))
}

/// Refuses another machine than the one that a flag names.
pub(crate) fn expect(flag: &str, expected: EkPrefix, got: EkDigest) -> Result<(), CommandError> {
    if expected.matches(&got) {
        return Ok(());
    }
    let failure =
        CommandError::new(Exit::Attestation, CommandCode::AnotherMachine, "the node that answers is another machine");
    let failure = failure.because(format!("{flag} names the TPM {expected}, and this is the TPM {got}"));
    Err(failure.fix("check the address; if it is right, find out who answers there"))
}
