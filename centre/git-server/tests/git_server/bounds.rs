//! What one client can take, and what is left when it goes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::rig::{MANAGER, NORD, Rig, commit, git, noise, succeed};
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::uuids::{permission, special};
use latchkey_git_server::backend::{Answer, BackendError, Limits, RequestHead};
use latchkey_git_server::git::GitLimits;
use latchkey_git_server::paths::{Repository, Service, Step, Target};
use latchkey_git_server::repositories::{Repositories, StorageError};
use latchkey_git_server::rights::Caller;
use latchkey_git_server::server::{GitServer, Reply, ReplyError};
use latchkey_test_support::block_on;
use smol::io::{AsyncRead, AsyncReadExt as _, Cursor, empty};

const LIST: [Access; 2] = [
    Access { permission: permission::GIT_PULL, target: special::WILDCARD },
    Access { permission: permission::GIT_PUSH, target: special::WILDCARD },
];

async fn ask(
    server: &GitServer,
    (service, step): (Service, Step),
    head: RequestHead,
    body: impl AsyncRead + Send + Unpin + 'static,
) -> Result<Answer, ReplyError> {
    let target = Target::Git { repository: Repository::Uuid(NORD), service, step };
    let caller = Caller { name: MANAGER, root: false, list: &LIST };
    match server.reply(caller, target, &head, body).await? {
        Reply::Git(answer) => Ok(answer),
        other => panic!("{other:?}"),
    }
}

const ADVERTISE: (Service, Step) = (Service::UploadPack, Step::Advertise);
const FETCH: (Service, Step) = (Service::UploadPack, Step::Exchange);
const PUSH: (Service, Step) = (Service::ReceivePack, Step::Exchange);

fn head_of(service: &str) -> RequestHead {
    let content_type = Some(format!("application/x-git-{service}-request"));
    RequestHead { content_type, ..RequestHead::default() }
}

/// A body that never comes; tells when it is dropped.
struct Never(#[expect(dead_code, reason = "held until this is dropped")] Arc<()>);

impl AsyncRead for Never {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }
}

#[test]
fn an_answer_that_nobody_reads_to_its_end_holds_nothing_up() {
    let rig = Rig::with(GitLimits::default(), Limits { runs: 1, runs_per_caller: 1, ..Limits::default() });
    let copy = rig.working_copy("one");
    let tip = commit(&copy, "large", &noise(4 << 20));
    succeed(git(&copy, &["push", "origin", "main"]));
    block_on(async {
        for _ in 0..3 {
            let want = format!("0032want {tip}\n00000009done\n");
            let mut answer = ask(&rig.server, FETCH, head_of("upload-pack"), Cursor::new(want)).await.unwrap();
            assert_eq!(answer.head.status, 200);
            answer.body.read_exact(&mut [0; 1000]).await.unwrap();
            // Four megabytes are left, and the one run is free again when this is gone.
            drop(answer);
        }
        let body = Arc::new(());
        let answer = ask(&rig.server, PUSH, head_of("receive-pack"), Never(Arc::clone(&body))).await.unwrap();
        drop(answer);
        ask(&rig.server, ADVERTISE, RequestHead::default(), empty()).await.unwrap();
        assert_eq!(Arc::strong_count(&body), 1, "its body is let go");
    });
}

#[test]
fn a_body_that_never_comes_ends_the_run() {
    let limits = Limits { idle: Duration::from_millis(50), ..Limits::default() };
    let rig = Rig::with(GitLimits::default(), limits);
    block_on(async {
        // A push has its head at once, and is told by its body that no more comes.
        let mut answer = ask(&rig.server, PUSH, head_of("receive-pack"), Never(Arc::new(()))).await.unwrap();
        let error = answer.body.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains("too long"), "{error}");
    });
}

#[test]
fn a_body_without_end_is_cut() {
    let rig = Rig::with(GitLimits { negotiation: 100_000, ..GitLimits::default() }, Limits::default());
    let endless = || smol::io::repeat(b'0');
    block_on(async {
        let mut answer = match ask(&rig.server, FETCH, head_of("upload-pack"), endless()).await {
            Ok(answer) => answer,
            Err(error) => return assert_eq!(error.status(), 413, "{error}"),
        };
        assert!(answer.body.read_to_end(&mut Vec::new()).await.is_err());
    });
    let long = RequestHead { content_length: Some(u64::MAX), ..head_of("upload-pack") };
    let error = block_on(ask(&rig.server, FETCH, long, endless())).unwrap_err();
    assert_eq!(error.status(), 413, "{error}");
}

#[test]
fn a_body_of_another_type_is_refused_before_anything_runs() {
    let rig = Rig::new();
    let coded = RequestHead { content_encoding: Some("br".into()), ..head_of("receive-pack") };
    for head in [RequestHead::default(), head_of("upload-pack"), coded] {
        let error = block_on(ask(&rig.server, PUSH, head, empty())).unwrap_err();
        assert!(matches!(error, ReplyError::Backend(BackendError::Unsupported(_))), "{error}");
    }
    assert!(!rig.stored(NORD).exists());
}

#[test]
fn a_directory_has_one_server_and_forgets_what_a_crash_left() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Repositories::open(directory.path(), GitLimits::default());
    let server = GitServer::new(open().unwrap(), Limits::default());
    server.change_entry(NORD, Some(&serde_json::json!({})));
    block_on(ask(&server, ADVERTISE, RequestHead::default(), empty())).unwrap();
    assert!(matches!(open(), Err(StorageError::Locked(_))));
    drop(server);
    let left = [
        directory.path().join(".unfinished-x/objects"),
        directory.path().join(NORD.to_string()).join("objects/tmp_objdir-incoming-x/pack"),
    ];
    for left in &left {
        std::fs::create_dir_all(left).unwrap();
    }
    let open_again = latchkey_test_support::until("the lock", || match open() {
        Err(StorageError::Locked(_)) => None,
        other => Some(other.unwrap()),
    });
    assert!(left.iter().all(|left| !left.exists()));
    drop(open_again);
}
