//! `latchkey-initramfs`: builds the initramfs from the agent and a kernel's modules.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use latchkey_durable_file::Existing;
use latchkey_initramfs::{DEBIAN_CLOUD, Initramfs, InitramfsError, ModuleTree, Wanted, source_date_epoch};

const USAGE: &str = "\
Usage: latchkey-initramfs --agent FILE --modules DIRECTORY --output FILE [--module NAME]...

  --agent FILE         the static executable that becomes /init
  --modules DIRECTORY  a kernel's modules, for example /lib/modules/6.1.0-56-cloud-amd64
  --output FILE        where to write the compressed archive
  --module NAME        a module to include with its dependencies, ?NAME if the node boots without it;
                       may be repeated; default: what Debian's cloud kernels need

Times in the archive are 0, or SOURCE_DATE_EPOCH if that is set.
";

struct Arguments {
    agent: PathBuf,
    modules: PathBuf,
    output: PathBuf,
    wanted: Vec<Wanted>,
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprint!("latchkey-initramfs: {error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match source_date_epoch().and_then(|mtime| build(&arguments, mtime).map_err(|error| error.to_string())) {
        Ok(size) => {
            println!("{}: {size} bytes", arguments.output.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("latchkey-initramfs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn build(arguments: &Arguments, mtime: u32) -> Result<usize, InitramfsError> {
    let mut initramfs = Initramfs::new(read(&arguments.agent)?)?;
    initramfs.modules(ModuleTree::open(&arguments.modules)?.closure(&arguments.wanted)?)?;
    let bytes = initramfs.build(mtime)?;
    latchkey_durable_file::put(&arguments.output, 0o644, &bytes, Existing::Replace)
        .map_err(|source| InitramfsError::Io { path: arguments.output.clone(), source })?;
    Ok(bytes.len())
}

fn read(path: &Path) -> Result<Vec<u8>, InitramfsError> {
    std::fs::read(path).map_err(|source| InitramfsError::Io { path: path.into(), source })
}

fn arguments() -> Result<Option<Arguments>, lexopt::Error> {
    use lexopt::prelude::*;
    let (mut agent, mut modules, mut output, mut wanted) = (None, None, None, Vec::new());
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("agent") => agent = Some(parser.value()?.into()),
            Long("modules") => modules = Some(parser.value()?.into()),
            Long("output") => output = Some(parser.value()?.into()),
            Long("module") => wanted.push(Wanted::parse(&parser.value()?.string()?)),
            Short('h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    if wanted.is_empty() {
        wanted = DEBIAN_CLOUD.iter().map(|name| Wanted::parse(name)).collect();
    }
    let needed = |value: Option<PathBuf>, name: &str| value.ok_or(format!("--{name} is needed"));
    Ok(Some(Arguments {
        agent: needed(agent, "agent")?,
        modules: needed(modules, "modules")?,
        output: needed(output, "output")?,
        wanted,
    }))
}
