//! A mirror of Kubernetes' components: the files of folders by their names, over HTTP, on loopback.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{HarnessError, io_error};
use crate::machine::HOST;
use crate::ports::Port;

/// Longer heads are none of the program's.
const MAX_HEAD: u64 = 16 * 1024;

/// The mirror, until this process ends.
#[derive(Debug)]
pub(super) struct Mirror {
    port: Port,
    folders: Arc<Mutex<Vec<PathBuf>>>,
}

impl Mirror {
    pub(super) fn start(folder: &Path) -> Result<Self, HarnessError> {
        let port = Port::choose()?;
        let listener = TcpListener::bind(port.address()).map_err(io_error("listen for", folder))?;
        let folders = Arc::new(Mutex::new(vec![folder.to_owned()]));
        let served = Arc::clone(&folders);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let served = Arc::clone(&served);
                // Who goes away early asks again.
                std::thread::spawn(move || drop(serve(&stream, &served)));
            }
        });
        Ok(Self { port, folders })
    }

    /// Has another folder from now on.
    pub(super) fn add(&self, folder: PathBuf) {
        lock(&self.folders).push(folder);
    }

    /// What `latchkey` is told, where components are those of the table in this folder.
    pub(super) fn named(&self, folder: &Path) -> [String; 4] {
        let (address, table) = (format!("http://{HOST}:{}", self.port.number()), folder.join("table.json"));
        ["--components".to_owned(), address, "--table".to_owned(), table.display().to_string()]
    }
}

/// A thread that panicked left no list half made.
fn lock(folders: &Mutex<Vec<PathBuf>>) -> MutexGuard<'_, Vec<PathBuf>> {
    folders.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut stream: &TcpStream, folders: &Mutex<Vec<PathBuf>>) -> io::Result<()> {
    let mut lines = BufReader::new(io::Read::take(stream, MAX_HEAD)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let name = first.split(' ').nth(1).and_then(|path| PathBuf::from(path).file_name().map(ToOwned::to_owned));
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let open = |name: OsString| lock(folders).iter().find_map(|folder| File::open(folder.join(&name)).ok());
    match name.and_then(open) {
        Some(mut file) => {
            let length = file.metadata()?.len();
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")?;
            io::copy(&mut file, &mut stream).map(drop)
        }
        None => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    }
}
