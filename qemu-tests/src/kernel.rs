//! A Debian cloud kernel, fetched as a package and unpacked without privileges.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::{HarnessError, io_error};
use crate::process::{output, output_within};

/// The package that depends on the current kernel of the suite.
const META_PACKAGE: &str = "linux-image-cloud-amd64";
/// 30 MB.
const DOWNLOAD: Duration = Duration::from_mins(20);

/// A kernel and its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// As `uname -r` says it, for example `6.1.0-56-cloud-amd64`.
    pub release: String,
    /// The bootable image.
    pub image: PathBuf,
    /// The directory of its modules.
    pub modules: PathBuf,
}

impl Kernel {
    /// The kernel of this machine's Debian suite, from the cache or fetched into it.
    ///
    /// `LATCHKEY_KERNEL` names an unpacked kernel package (with `boot/` and `lib/modules/`) to use instead.
    pub fn provision() -> Result<Self, HarnessError> {
        static KERNEL: Mutex<Option<Kernel>> = Mutex::new(None);
        let mut kernel = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = kernel.as_ref() {
            return Ok(kernel.clone());
        }
        let directory = match std::env::var_os("LATCHKEY_KERNEL") {
            Some(directory) => directory.into(),
            None => cached_package()?,
        };
        Ok(kernel.insert(Self::unpacked(&directory)?).clone())
    }

    /// The kernel in an unpacked package.
    pub fn unpacked(directory: &Path) -> Result<Self, HarnessError> {
        let all = directory.join("lib/modules");
        // Packages for a merged /usr have them there.
        let all = if all.is_dir() { all } else { directory.join("usr/lib/modules") };
        let mut releases: Vec<_> = std::fs::read_dir(&all).map_err(io_error("read", &all))?.flatten().collect();
        releases.sort_by_key(std::fs::DirEntry::file_name);
        let Some(release) = releases.pop().and_then(|entry| entry.file_name().into_string().ok()) else {
            return Err(HarnessError::Unusable(format!("{}: no kernel modules", all.display())));
        };
        let image = directory.join("boot").join(format!("vmlinuz-{release}"));
        if !image.is_file() {
            return Err(HarnessError::Unusable(format!("{} is missing", image.display())));
        }
        Ok(Self { modules: all.join(&release), image, release })
    }
}

/// What may be kept between runs, of one kind: in `$XDG_CACHE_HOME/latchkey`, `~/.cache/latchkey`, or else the target directory.
pub(crate) fn cache(kind: &str) -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    base.map_or_else(crate::build::target_directory, |base| base.join("latchkey")).join(kind)
}

fn cached_package() -> Result<PathBuf, HarnessError> {
    let cache = cache("kernels");
    std::fs::create_dir_all(&cache).map_err(io_error("make", &cache))?;
    let (package, version) = match current_package() {
        Ok(found) => found,
        // Without package lists a kernel fetched before is as good.
        Err(error) => return newest(&cache).ok_or(error),
    };
    // An epoch's colon is no harm in a path, but a surprise.
    let place = cache.join(format!("{package}_{}", version.replace(':', "%3a")));
    if !place.is_dir()
        && let Err(error) = fetch(&package, &version, &cache, &place)
    {
        let older = newest(&cache).ok_or(error)?;
        eprintln!("notice: {package} {version} cannot be fetched; using {}", older.display());
        return Ok(older);
    }
    Ok(place)
}

/// The package that the meta package depends on, and the version apt would install.
fn current_package() -> Result<(String, String), HarnessError> {
    let depends = apt_cache(&["depends", "--important", META_PACKAGE])?;
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: ")).map(str::to_owned);
    let package = package.ok_or_else(|| no_lists(META_PACKAGE))?;
    let policy = apt_cache(&["policy", &package])?;
    let version = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: "));
    match version {
        Some(version) if version != "(none)" => Ok((package, version.to_owned())),
        _ => Err(no_lists(&package)),
    }
}

fn apt_cache(arguments: &[&str]) -> Result<String, HarnessError> {
    let apt_cache = crate::doctor::need("apt-cache")?;
    output(Command::new(apt_cache).env("LC_ALL", "C").args(arguments)).map_err(|_| no_lists(META_PACKAGE))
}

fn no_lists(package: &str) -> HarnessError {
    HarnessError::Unusable(format!(
        "apt knows no package {package}: run apt-get update, or give an unpacked kernel package with LATCHKEY_KERNEL"
    ))
}

/// Fetches into a directory of our own and moves that into place, so that a half-fetched kernel is never used.
fn fetch(package: &str, version: &str, cache: &Path, place: &Path) -> Result<(), HarnessError> {
    let work = cache.join(format!(".fetch-{}", std::process::id()));
    std::fs::create_dir_all(&work).map_err(io_error("make", &work))?;
    let result = fetch_into(package, version, &work).and_then(|tree| match std::fs::rename(&tree, place) {
        Ok(()) => Ok(()),
        // Another process was faster, with the same package.
        Err(_) if place.is_dir() => Ok(()),
        Err(source) => Err(io_error("make", place)(source)),
    });
    let _ = std::fs::remove_dir_all(&work);
    result
}

fn fetch_into(package: &str, version: &str, work: &Path) -> Result<PathBuf, HarnessError> {
    eprintln!("fetching {package} {version} (once)");
    let apt_get = crate::doctor::need("apt-get")?;
    let mut command = Command::new(apt_get);
    command.current_dir(work).args(["-o", "Acquire::Retries=3", "-o", "Acquire::http::Timeout=60"]);
    output_within(command.args(["download", &format!("{package}={version}")]), DOWNLOAD)?;
    let entries = std::fs::read_dir(work).map_err(io_error("read", work))?;
    let archive = entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "deb"));
    let archive = archive.ok_or_else(|| HarnessError::Unusable(format!("apt-get fetched no {package}")))?;
    let tree = work.join("tree");
    output(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&tree))?;
    Kernel::unpacked(&tree)?;
    Ok(tree)
}

fn newest(cache: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(cache).ok()?.flatten();
    let fetched = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    fetched.max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok()).map(|entry| entry.path())
}
