//! What a request is about: method, path and query, from a closed table.

use std::borrow::Cow;

use latchkey_factory_plus::Uuid;

/// The longest path that means something: two names of [`LONGEST_NAME`] bytes, each byte escaped, and what stands around them.
pub const LONGEST_PATH: usize = 2048;
/// The longest part of a repository's name, in bytes.
pub const LONGEST_NAME: usize = 255;

/// The methods of this server; HEAD is answered as GET is, without the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET, or HEAD.
    Get,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

/// How a client names a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repository {
    /// `/uuid/UUID/…`
    Uuid(Uuid),
    /// `/git/GROUP/NAME/…`: the `path` of an entry, with and without a final `.git`.
    Name(String),
}

/// The two services of git's protocol (gitprotocol-http(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// `git-upload-pack`: clone, fetch, pull.
    UploadPack,
    /// `git-receive-pack`: push.
    ReceivePack,
}

/// The two steps of each service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// `GET …/info/refs?service=SERVICE`: what there is.
    Advertise,
    /// `POST …/SERVICE`: the exchange.
    Exchange,
}

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A step of git's smart protocol.
    Git {
        /// Of which repository.
        repository: Repository,
        /// Of which service.
        service: Service,
        /// Which step.
        step: Step,
    },
    /// `GET /v1/status`: all branches that the caller may see.
    AllBranches,
    /// `GET /v1/status/UUID`: the branches of one repository.
    Branches(Uuid),
    /// `GET /v1/storage`: the repositories on disk.
    Storage,
    /// `DELETE /v1/storage/UUID`: deletes one.
    DeleteStorage(Uuid),
}

/// Why a request is about nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Nothing is there.
    #[error("nothing is here; repositories are /uuid/UUID and /git/GROUP/NAME, their branches /v1/status")]
    Unknown,
    /// The path is right, the method is not.
    #[error("this method means nothing here")]
    Method,
    /// The protocol without a program at the server.
    #[error("this server speaks git's smart protocol alone; use git 1.6.6 or later")]
    Dumb,
}

impl Service {
    /// The name in paths and queries.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }

    fn read(name: &str) -> Option<Self> {
        [Self::UploadPack, Self::ReceivePack].into_iter().find(|service| service.name() == name)
    }
}

impl Target {
    /// Reads a request's method, path and query, as they came: the path not decoded.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn read(method: Method, path: &str, query: Option<&str>) -> Result<Self, PathError> {
        if path.len() > LONGEST_PATH {
            return Err(PathError::Unknown);
        }
        let parts: Vec<&str> = path.strip_prefix('/').ok_or(PathError::Unknown)?.splitn(8, '/').collect();
        match *parts {
            ["v1", "status"] => only(method, Method::Get, Self::AllBranches),
            ["v1", "status", uuid] => only(method, Method::Get, Self::Branches(read_uuid(uuid)?)),
            ["v1", "storage"] => only(method, Method::Get, Self::Storage),
            ["v1", "storage", uuid] => only(method, Method::Delete, Self::DeleteStorage(read_uuid(uuid)?)),
            ["uuid", uuid, ref rest @ ..] => {
                let uuid = read_uuid(uuid.strip_suffix(".git").unwrap_or(uuid))?;
                read_git(method, Repository::Uuid(uuid), rest, query)
            }
            ["git", group, name, ref rest @ ..] => {
                let name = format!("{}/{}", read_name(group)?, read_name(name)?);
                read_git(method, Repository::Name(name), rest, query)
            }
            _ => Err(PathError::Unknown),
        }
    }
}

fn only(method: Method, right: Method, target: Target) -> Result<Target, PathError> {
    if method == right { Ok(target) } else { Err(PathError::Method) }
}

fn read_uuid(text: &str) -> Result<Uuid, PathError> {
    text.parse().map_err(|_| PathError::Unknown)
}

/// What is below a repository. The query is exactly what git sends: nothing that one reader of it might take for another service.
fn read_git(method: Method, repository: Repository, rest: &[&str], query: Option<&str>) -> Result<Target, PathError> {
    match *rest {
        ["info", "refs"] => {
            let service = query.unwrap_or_default().strip_prefix("service=").and_then(Service::read);
            let service = service.ok_or(PathError::Dumb)?;
            only(method, Method::Get, Target::Git { repository, service, step: Step::Advertise })
        }
        ["HEAD"] | ["objects", ..] => Err(PathError::Dumb),
        [name] => {
            let service = Service::read(name).ok_or(PathError::Unknown)?;
            only(method, Method::Post, Target::Git { repository, service, step: Step::Exchange })
        }
        _ => Err(PathError::Unknown),
    }
}

/// A part of a name, decoded. It is looked up among entries and never becomes a path of a file.
fn read_name(part: &str) -> Result<String, PathError> {
    let name = decoded(part).ok_or(PathError::Unknown)?;
    let fits = !name.is_empty() && name.len() <= LONGEST_NAME && !name.chars().any(|c| c == '/' || c.is_control());
    if fits { Ok(name.into_owned()) } else { Err(PathError::Unknown) }
}

/// Percent-decoding (RFC 3986, section 2.1).
fn decoded(part: &str) -> Option<Cow<'_, str>> {
    if !part.contains('%') {
        return Some(Cow::Borrowed(part));
    }
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => (digit(rest.next()?)? << 4) | digit(rest.next()?)?,
            _ => byte,
        });
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "f24d354d-abc1-4e32-98e1-0667b3e40b61";

    fn get(path: &str, query: Option<&str>) -> Result<Target, PathError> {
        Target::read(Method::Get, path, query)
    }

    #[test]
    fn the_two_services_have_two_steps_each() {
        for (name, service) in [("git-upload-pack", Service::UploadPack), ("git-receive-pack", Service::ReceivePack)] {
            let repository = Repository::Uuid(UUID.parse().unwrap());
            let query = format!("service={name}");
            for path in [format!("/uuid/{UUID}"), format!("/uuid/{UUID}.git")] {
                assert_eq!(
                    get(&format!("{path}/info/refs"), Some(&query)),
                    Ok(Target::Git { repository: repository.clone(), service, step: Step::Advertise })
                );
                assert_eq!(
                    Target::read(Method::Post, &format!("{path}/{name}"), None),
                    Ok(Target::Git { repository: repository.clone(), service, step: Step::Exchange })
                );
                assert_eq!(get(&format!("{path}/{name}"), None), Err(PathError::Method));
            }
        }
    }

    #[test]
    fn a_name_has_two_parts_and_is_decoded_once() {
        let named = |path: &str| match get(path, Some("service=git-upload-pack")) {
            Ok(Target::Git { repository: Repository::Name(name), .. }) => Some(name),
            _ => None,
        };
        assert_eq!(named("/git/cluster/Nord/info/refs").as_deref(), Some("cluster/Nord"));
        assert_eq!(named("/git/cluster/Nord.git/info/refs").as_deref(), Some("cluster/Nord.git"));
        assert_eq!(named("/git/my%20group/%C3%A9/info/refs").as_deref(), Some("my group/é"));
        assert_eq!(named("/git/a/%2541/info/refs").as_deref(), Some("a/%41"));
        for path in ["/git/a/info/refs", "/git/a/b/c/info/refs", "/git/a//info/refs", "/git//b/info/refs"] {
            assert_eq!(named(path), None, "{path}");
        }
        for part in ["%2f", "a%2Fb", "%", "%4", "%zz", "%00", "%0a", "%ff", &"a".repeat(256)] {
            assert_eq!(named(&format!("/git/a/{part}/info/refs")), None, "{part}");
        }
    }

    #[test]
    fn the_protocol_of_plain_files_is_not_spoken() {
        for path in ["HEAD", "objects/info/packs", "objects/ab/cdef", "info/refs"] {
            assert_eq!(get(&format!("/uuid/{UUID}/{path}"), None), Err(PathError::Dumb), "{path}");
        }
    }

    #[test]
    fn a_query_means_one_service_or_nothing() {
        for query in [
            "service=git-upload-pack&service=git-receive-pack",
            "service=git-upload-pack&a=b",
            "a=b&service=git-receive-pack",
            "service=git%2dreceive-pack",
            "service=git-upload-archive",
            "service=",
            "Service=git-upload-pack",
        ] {
            assert_eq!(get(&format!("/uuid/{UUID}/info/refs"), Some(query)), Err(PathError::Dumb), "{query}");
        }
    }

    #[test]
    fn the_pages_of_this_server_are_read() {
        let uuid = UUID.parse().unwrap();
        assert_eq!(get("/v1/status", None), Ok(Target::AllBranches));
        assert_eq!(get(&format!("/v1/status/{UUID}"), None), Ok(Target::Branches(uuid)));
        assert_eq!(get("/v1/storage", None), Ok(Target::Storage));
        let path = format!("/v1/storage/{UUID}");
        assert_eq!(Target::read(Method::Delete, &path, None), Ok(Target::DeleteStorage(uuid)));
        assert_eq!(get(&path, None), Err(PathError::Method));
        for path in ["", "/", "/v1", "/v1/status/x", "v1/status", "//v1/status", "/v1/status/", "/uuid", "/git/a"] {
            assert_eq!(get(path, None), Err(PathError::Unknown), "{path}");
        }
    }

    #[test]
    fn a_path_out_of_the_repository_is_no_path() {
        for rest in ["../x/info/refs", "info/refs/..", "./info/refs", "config", "info/..%2frefs", "hooks/update", ""] {
            assert_eq!(get(&format!("/uuid/{UUID}/{rest}"), Some("service=git-upload-pack")), Err(PathError::Unknown));
        }
        for uuid in ["..", "%2e%2e", &UUID.to_uppercase(), &format!("{UUID}.git.git"), &format!("{UUID}/..")] {
            assert!(get(&format!("/uuid/{uuid}/info/refs"), Some("service=git-upload-pack")).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_path_panics(path in "\\PC{0,80}", query in proptest::option::of("\\PC{0,40}")) {
            let _read = get(&path, query.as_deref());
            let _read = get(&format!("/git/{path}"), query.as_deref());
        }
    }
}
