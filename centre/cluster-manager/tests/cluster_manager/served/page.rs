//! The page, as a browser gets it.

use serde_json::Value;

use crate::served::http::ask;
use crate::served::rig::Rig;

#[test]
fn the_page_is_served_to_anybody_and_can_run_nothing_else() {
    let rig = Rig::new();
    let page = ask(rig.address(), "GET", "/", "");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").unwrap();
    for part in [
        "default-src 'none'",
        "script-src 'self';",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        &format!("ws://{}", rig.address()),
    ] {
        assert!(policy.contains(part), "{part}: {policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains('*'));
    assert_eq!(
        (page.header("x-content-type-options"), page.header("referrer-policy")),
        (Some("nosniff"), Some("no-referrer"))
    );
    let etag = page.header("etag").unwrap();
    let again = ask(rig.address(), "GET", "/index.html", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!((again.status, again.body.len()), (304, 0));

    // Everything that the page's files name is there.
    let mut size = page.body.len();
    let mut names = vec!["page.css".to_owned(), "icon.svg".to_owned(), "app.js".to_owned()];
    let mut seen = 0;
    while seen < names.len() {
        let file = ask(rig.address(), "GET", &format!("/{}", names[seen]), "");
        assert_eq!(file.status, 200, "{}", names[seen]);
        size += file.body.len();
        let imported = file.text().split("from \"./").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
        let new: Vec<String> = imported.filter(|name| !names.contains(name)).collect();
        names.extend(new);
        names.dedup();
        seen += 1;
    }
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/page")).unwrap().count();
    assert_eq!(names.len() + 1, files, "with index.html, and nothing that no file names: {names:?}");
    assert!(size <= 80 << 10, "{size}");

    let described: Value = serde_json::from_slice(&ask(rig.address(), "GET", "/page.json", "").body).unwrap();
    assert_eq!((described["realm"].as_str(), described["insecure"].as_bool()), (Some("EXAMPLE.ORG"), Some(true)));
    assert_eq!(described["services"]["cluster_manager"], format!("http://{}", rig.address()));
}

#[test]
fn nothing_else_is_served_to_anybody() {
    let rig = Rig::new();
    for (path, status) in [
        ("/page/../page.json", 401),
        ("/%2e%2e/etc/passwd", 401),
        ("/app.js/", 401),
        ("/v1/bootstrap/../cluster", 400),
        ("/v1/bootstrap/%2e%2e/cluster", 400),
        ("/v1/bootstrap/x/redeem", 405),
        ("/v1/cluster/", 401),
    ] {
        assert_eq!(ask(rig.address(), "GET", path, "").status, status, "{path}");
    }
    assert_eq!(ask(rig.address(), "POST", "/index.html", "Content-Length: 0\r\n").status, 401);
}
