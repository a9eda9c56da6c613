//! `./dev docs`: writes what documents have from the code.

use std::fs;
use std::process::ExitCode;

use latchkey_docs_check::{DocsError, Workspace, codes, limits};

fn main() -> ExitCode {
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("docs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write() -> Result<(), DocsError> {
    let workspace = Workspace::here()?;
    let sets = codes::sets(&workspace)?;
    let frozen = workspace.read(codes::FROZEN)?;
    let written = [
        (codes::DOCUMENT, codes::document(&sets)),
        (codes::FROZEN, codes::grown(&frozen, &sets)),
        (limits::DOCUMENT, limits::written(&workspace, &workspace.read(limits::DOCUMENT)?)?),
    ];
    for (name, text) in written {
        let path = workspace.root().join(name);
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            continue;
        }
        fs::write(&path, text).map_err(|source| DocsError::File { path, source })?;
        println!("{name} written");
    }
    Ok(())
}
