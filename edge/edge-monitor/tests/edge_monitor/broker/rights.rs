//! A monitor whose rights to its number are revoked: said plainly, and back by itself.

use std::time::Duration;

use crate::broker::{NBIRTH, Site, born, dead};

const ALL: [&str; 3] = ["get", "update", "patch"];
const DAY: Duration = Duration::from_hours(24);

#[test]
fn without_the_right_to_read_its_number_there_is_no_birth_until_it_is_granted() {
    let Some(site) = Site::start_or_skip() else { return };
    let centre = Site::centre(DAY);
    site.keep("7");
    site.grant(&[]);
    let listener = site.broker.listen();
    let program = site.program(&centre);
    let said = program.says(&["Not connected", "no number for the connection", "configmaps/edge-monitor"]);
    assert!(said.contains("api-server-forbids") && said.contains("cannot get resource"), "{said}");
    site.grant(&ALL);
    // The first message that there is.
    born(&listener, 8);
    assert_eq!(site.kept().as_deref(), Some("8"));
    program.stop();
    dead(&listener, 8);
}

#[test]
fn numbers_go_on_without_rights_and_are_kept_again_when_they_are_back() {
    let Some(mut site) = Site::start_or_skip() else { return };
    let centre = Site::centre(DAY);
    site.grant(&ALL);
    let program = site.program(&centre);
    site.broker.says(NBIRTH);
    assert_eq!(site.kept().as_deref(), Some("0"));
    site.grant(&[]);
    for number in ["number=1", "number=2"] {
        site.broker.kill();
        site.broker.start();
        let said = program.says(&["The connection's number is not kept", number]);
        assert!(said.contains("api-server-forbids") && said.contains("configmaps/edge-monitor"), "{said}");
        site.broker.says(NBIRTH);
    }
    assert_eq!(site.kept().as_deref(), Some("0"));
    site.grant(&ALL);
    // The next connection counts on from those that were not kept.
    site.broker.kill();
    site.broker.start();
    site.broker.says(NBIRTH);
    assert_eq!(site.kept().as_deref(), Some("3"));
    let listener = site.broker.listen();
    program.kill();
    dead(&listener, 3);
    let program = site.program(&centre);
    born(&listener, 4);
    program.stop();
    dead(&listener, 4);
}
