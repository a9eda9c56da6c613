//! A mirror of Kubernetes' components: the files of a folder by their names, over HTTP, on loopback.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use crate::error::{HarnessError, io_error};
use crate::ports::Port;

/// Longer heads are none of the program's.
const MAX_HEAD: u64 = 16 * 1024;

/// The mirror, until this process ends.
#[derive(Debug)]
pub(super) struct Mirror {
    port: Port,
}

impl Mirror {
    pub(super) fn start(folder: &Path) -> Result<Self, HarnessError> {
        let port = Port::choose()?;
        let listener = TcpListener::bind(port.address()).map_err(io_error("listen for", folder))?;
        let folder = folder.to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let folder = folder.clone();
                // Who goes away early asks again.
                std::thread::spawn(move || drop(serve(&stream, &folder)));
            }
        });
        Ok(Self { port })
    }

    pub(super) fn port(&self) -> u16 {
        self.port.number()
    }
}

fn serve(mut stream: &TcpStream, folder: &Path) -> io::Result<()> {
    let mut lines = BufReader::new(io::Read::take(stream, MAX_HEAD)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let name = first.split(' ').nth(1).and_then(|path| PathBuf::from(path).file_name().map(ToOwned::to_owned));
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    match name.and_then(|name| File::open(folder.join(name)).ok()) {
        Some(mut file) => {
            let length = file.metadata()?.len();
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")?;
            io::copy(&mut file, &mut stream).map(drop)
        }
        None => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    }
}
