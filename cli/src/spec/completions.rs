//! `latchkey completions`: what a shell offers behind `latchkey`, from the table.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;

use super::help::GLOBAL;
use super::table::COMMANDS;
use super::{Arguments, Command, Flag, Operand};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Report, Style};

pub(super) const COMPLETIONS: Command = Command {
    path: &["completions"],
    operands: &[Operand { name: "SHELL", required: true, text: "bash, zsh or fish" }],
    flags: &[],
    summary: "prints what a shell completes commands and flags by",
    about: "Where the shells look for it:\n  bash  /usr/share/bash-completion/completions/latchkey\n  zsh   /usr/share/zsh/vendor-completions/_latchkey\n  fish  /usr/share/fish/vendor_completions.d/latchkey.fish",
    examples: &["latchkey completions bash > /usr/share/bash-completion/completions/latchkey"],
    run,
};

fn run(arguments: &Arguments, output: &Output) -> Result<Exit, CommandError> {
    let shell = arguments.operand_text(0)?;
    let script = match shell {
        "bash" => bash(),
        "zsh" => zsh(),
        "fish" => fish(),
        other => return Err(CommandError::usage(format!("{other} is no shell of these: bash, zsh, fish"))),
    };
    output.report(&CompletionsReport { shell, script })
}

/// What a shell reads.
#[derive(Serialize)]
struct CompletionsReport<'a> {
    shell: &'a str,
    script: String,
}

impl Report for CompletionsReport<'_> {
    fn text(&self, _: Style) -> String {
        self.script.clone()
    }
}

/// The first words of commands, each once.
fn first_words() -> BTreeSet<&'static str> {
    COMMANDS.iter().filter_map(|command| command.path.first().copied()).collect()
}

/// The second words of the commands that begin so.
fn second_words(first: &str) -> BTreeSet<&'static str> {
    let family = COMMANDS.iter().filter(|command| command.path.first() == Some(&first));
    family.filter_map(|command| command.path.get(1).copied()).collect()
}

fn flags(command: &Command) -> impl Iterator<Item = &Flag> {
    command.flags.iter().chain(GLOBAL)
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().collect::<Vec<_>>().join(" ")
}

/// What a flag is for, in one line.
fn first_line(flag: &Flag) -> &'static str {
    flag.text.lines().next().unwrap_or_default()
}

fn bash() -> String {
    let mut text = String::from(
        "# bash completion for latchkey, made by `latchkey completions bash`\n\
         _latchkey() {\n\
         \x20   local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path='' last='' word names=''\n\
         \x20   for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n\
         \x20       [[ $word == -* || $last == --output ]] || path+=\"$word \"\n\
         \x20       last=$word\n\
         \x20   done\n\
         \x20   COMPREPLY=()\n\
         \x20   if [[ $prev == --output ]]; then\n\
         \x20       COMPREPLY=($(compgen -W 'human json' -- \"$cur\"))\n\
         \x20       return\n\
         \x20   fi\n\
         \x20   case $path in\n",
    );
    for command in COMMANDS {
        let names: Vec<String> = flags(command).map(|flag| format!("--{}", flag.long)).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "        '{} '*) names='{}' ;;", command.name(), names.join(" "));
    }
    for first in first_words() {
        let second = words(second_words(first));
        if !second.is_empty() {
            let _ = writeln!(text, "        '{first} ') COMPREPLY=($(compgen -W '{second}' -- \"$cur\")); return ;;");
        }
    }
    let _ = write!(
        text,
        "        '') COMPREPLY=($(compgen -W '{} help --output --quiet --help --version' -- \"$cur\")); return ;;\n\
         \x20   esac\n\
         \x20   if [[ $cur == -* ]]; then\n\
         \x20       COMPREPLY=($(compgen -W \"$names\" -- \"$cur\"))\n\
         \x20   else\n\
         \x20       COMPREPLY=($(compgen -f -- \"$cur\"))\n\
         \x20   fi\n\
         }}\n\
         complete -o filenames -F _latchkey latchkey\n",
        words(first_words())
    );
    text
}

/// For single quotes in zsh, inside the brackets of a description.
fn zsh_quoted(text: &str) -> String {
    let mut quoted = String::new();
    for c in text.chars() {
        match c {
            '\'' => quoted.push_str("'\\''"),
            '[' | ']' | ':' | '\\' => quoted.extend(['\\', c]),
            _ => quoted.push(c),
        }
    }
    quoted
}

fn zsh() -> String {
    let mut text = String::from(
        "#compdef latchkey\n\
         # zsh completion for latchkey, made by `latchkey completions zsh`\n\
         _latchkey() {\n\
         \x20   local command=\"$words[2] $words[3]\"\n\
         \x20   if (( CURRENT == 2 )); then\n",
    );
    let _ = writeln!(text, "        compadd -- {} help", words(first_words()));
    text.push_str("        return\n    fi\n    if (( CURRENT == 3 )); then\n        case $words[2] in\n");
    for first in first_words() {
        let second = words(second_words(first));
        if !second.is_empty() {
            let _ = writeln!(text, "            {first}) compadd -- {second}; return ;;");
        }
    }
    text.push_str("        esac\n    fi\n    case $command in\n");
    for command in COMMANDS {
        let pattern = if command.path.len() == 1 { "\\ *" } else { "" };
        let name = command.path.join("\\ ");
        let _ = write!(text, "        {name}{pattern}) _arguments -S");
        for flag in flags(command) {
            let many = if flag.need.repeats() { "*" } else { "" };
            let (long, about) = (flag.long, zsh_quoted(first_line(flag)));
            let value = match (flag.long, flag.value) {
                ("output", _) => ":format:(human json)".to_owned(),
                (_, Some(value)) => format!(":{}:_files", zsh_quoted(value)),
                (_, None) => String::new(),
            };
            let _ = write!(text, " \\\n            '{many}--{long}[{about}]{value}'");
        }
        text.push_str(" \\\n            '*:argument:_files' ;;\n");
    }
    text.push_str(
        "    esac\n}\n[[ $zsh_eval_context[-1] == loadautofunc ]] && _latchkey \"$@\" || compdef _latchkey latchkey\n",
    );
    text
}

/// For single quotes in fish.
fn fish_quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}

fn fish() -> String {
    let mut text = String::from(
        "# fish completion for latchkey, made by `latchkey completions fish`\n\
         function __latchkey_words\n\
         \x20   set -l typed (commandline -opc)\n\
         \x20   set -e typed[1]\n\
         \x20   set -l last\n\
         \x20   for word in $typed\n\
         \x20       if not string match -q -- '-*' $word; and test \"$last\" != --output\n\
         \x20           echo $word\n\
         \x20       end\n\
         \x20       set last $word\n\
         \x20   end\n\
         end\n\
         function __latchkey_is\n\
         \x20   set -l words (__latchkey_words)\n\
         \x20   string match -q -- \"$argv *\" \"$words \"\n\
         end\n\
         function __latchkey_only\n\
         \x20   set -l words (__latchkey_words)\n\
         \x20   test \"$words\" = \"$argv\"\n\
         end\n",
    );
    for first in first_words() {
        let alone = COMMANDS.iter().find(|command| command.path == [first]);
        let about = alone.map_or("", |command| command.summary);
        let _ =
            writeln!(text, "complete -c latchkey -f -n '__latchkey_only \"\"' -a {first} -d '{}'", fish_quoted(about));
    }
    for command in COMMANDS {
        if let [first, second] = command.path {
            let about = fish_quoted(command.summary);
            let _ = writeln!(text, "complete -c latchkey -f -n '__latchkey_only {first}' -a {second} -d '{about}'");
        }
        for flag in flags(command) {
            let value = match (flag.long, flag.value) {
                ("output", _) => " -x -a 'human json'",
                (_, Some(_)) => " -r",
                (_, None) => "",
            };
            let (name, about) = (command.name(), fish_quoted(first_line(flag)));
            let _ =
                writeln!(text, "complete -c latchkey -n '__latchkey_is {name}' -l {}{value} -d '{about}'", flag.long);
        }
    }
    text
}
