//! The lock, with a real API server and a kubectl that loses answers (a script before the real one, named so).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use latchkey_api_server_rig::{ApiServer, program};
use latchkey_test_support::block_on;
use tempfile::TempDir;

use super::archive::Archive;
use super::file::Chart;
use super::lock::Lock;
use super::situation::{Situation, Standing};
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::lock::Times;
use crate::output::{Format, Output};
use crate::stock::{Kubectl, Stock};

struct Rig {
    server: ApiServer,
    directory: TempDir,
}

impl Rig {
    fn start() -> Self {
        Self { server: ApiServer::start(), directory: TempDir::new().unwrap() }
    }

    /// kubectl behind a script, which finds the real one as `$real`.
    fn kubectl_behind(&self, script: &str) -> Kubectl {
        let path = self.directory.path().join("hostile-kubectl");
        let real = program("kubectl").display().to_string();
        fs::write(&path, format!("#!/bin/sh\nreal={real}\ncd {}\n{script}\n", self.directory.path().display()))
            .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let kubeconfig = self.server.kubeconfig("admin", &self.server.admin());
        block_on(Stock::new(Some(&path), None).kubectl(&kubeconfig)).unwrap()
    }

    fn kubectl(&self) -> Kubectl {
        let kubeconfig = self.server.kubeconfig("admin", &self.server.admin());
        block_on(Stock::new(Some(&program("kubectl")), None).kubectl(&kubeconfig)).unwrap()
    }
}

fn output() -> Output {
    Output::new(Format::Human, true)
}

fn chart(name: &str) -> Chart {
    Chart::plain(name, "apps", Archive::of(b"nothing", name.as_ref()).unwrap())
}

/// No renewal is late on a machine that is busy, and a lock that is held is waited for as short as that allows.
const TIMES: Times = Times {
    held: Duration::from_secs(20),
    given_up: Duration::from_secs(15),
    renewed: Duration::from_millis(100),
    look: Duration::from_millis(200),
};

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn an_answer_that_is_lost_loses_no_lock() {
    let rig = Rig::start();
    // Of three writes the second is done, and its answer lost.
    let lossy = "case $1 in create|replace) echo >>writes; if [ $(($(wc -l <writes) % 3)) = 2 ]; then \
                 \"$real\" \"$@\" >/dev/null; echo 'unexpected EOF' >&2; exit 1; fi;; esac\nexec \"$real\" \"$@\"";
    let lossy = rig.kubectl_behind(lossy);
    let minute = Duration::from_mins(1);
    let times = Times { held: minute, given_up: minute, renewed: minute, ..TIMES };
    let lock = block_on(Lock::take_for(&lossy, &output(), times)).unwrap();
    let codes = block_on(lock.held(async {
        let mut codes = Vec::new();
        for number in 0..4 {
            let noted = lock.note(|in_work| _ = in_work.insert("apps/one".into(), number)).await;
            codes.push(noted.err().map(|error| error.code.as_str().to_owned()));
        }
        Ok::<_, CommandError>(codes)
    }));
    let lost = Some("api-server-unreachable".to_owned());
    assert_eq!(codes.unwrap(), [lost.clone(), None, lost, None]);
    let next = block_on(Lock::take_for(&rig.kubectl(), &output(), times)).unwrap();
    assert!(next.left(&chart("one"), Standing { situation: Situation::InstallBegun, last: 3 }));
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn a_renewal_that_hangs_ends_the_run_before_the_lock_is_another_s() {
    let rig = Rig::start();
    let hanging = rig.kubectl_behind("case $1 in replace) exec tail -f /dev/null;; esac\nexec \"$real\" \"$@\"");
    let lock =
        block_on(Lock::take_for(&hanging, &output(), Times { given_up: Duration::from_secs(3), ..TIMES })).unwrap();
    let begun = Instant::now();
    let ended: Result<(), CommandError> = block_on(lock.held(std::future::pending()));
    assert!(ended.unwrap_err().code == CommandCode::LockLost.into());
    assert!(begun.elapsed() < TIMES.held, "{:?}", begun.elapsed());
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn the_next_run_knows_what_was_in_work_and_at_which_revision() {
    let rig = Rig::start();
    let kubectl = rig.kubectl();
    let take = || block_on(Lock::take_for(&kubectl, &output(), TIMES)).unwrap();
    let standing = |last| Standing { situation: Situation::UpgradeBegun { good: 1 }, last };
    let lock = take();
    assert!(!lock.left(&chart("one"), standing(4)));
    let work = async { lock.note(|in_work| _ = in_work.insert("apps/one".into(), 4)).await };
    block_on(lock.held(work)).unwrap();

    let lock = take();
    let left = |name, last| lock.left(&chart(name), standing(last));
    assert_eq!([3, 4, 5, 6, 7].map(|last| left("one", last)), [false, true, true, true, false]);
    assert!(!left("two", 5));
    block_on(lock.held(lock.settled(&chart("one")))).unwrap();
    assert!(!take().left(&chart("one"), standing(5)));
}
