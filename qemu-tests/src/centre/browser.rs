//! A real Chromium, driven by its own chromedriver (W3C `WebDriver`).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_test_support::{Lines, PATIENCE, Process, spawn, until};
use serde_json::{Value, json};

use crate::doctor::need;
use crate::error::{HarnessError, io_error};
use crate::run::Run;

/// The word for an element in JSON of `WebDriver`.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// The longest answer: a screenshot.
const LARGEST: u64 = 64 << 20;

/// A browser with one window. Dropping it ends it.
#[derive(Debug)]
pub struct Browser {
    session: String,
    driver: Driver,
    _process: Process,
    run: Run,
}

#[derive(Debug)]
struct Driver(SocketAddr);

/// An element of the page.
#[derive(Debug, Clone)]
pub struct Element<'a> {
    browser: &'a Browser,
    id: String,
}

/// Keys that are no characters, as `WebDriver` numbers them.
pub mod key {
    /// Tab.
    pub const TAB: &str = "\u{e004}";
    /// Enter.
    pub const ENTER: &str = "\u{e007}";
    /// Escape.
    pub const ESCAPE: &str = "\u{e00c}";
}

impl Browser {
    /// A new one, without a profile of before. It takes the certificates of the centre, whose authority it does not know.
    pub fn start(run: &Run) -> Result<Self, HarnessError> {
        let (chromium, chromedriver) = (need("chromium")?, need("chromedriver")?);
        let mut command = Command::new(chromedriver);
        let log = run.file("chromedriver.log");
        // It takes no port that somebody holds, but says which one it took.
        command.arg("--port=0").arg(format!("--log-path={}", log.display()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = spawn(command).map_err(io_error("start", "chromedriver".as_ref()))?;
        let (out, mut said) = (child.stdout.take().map(Lines::of), Vec::new());
        let process = Process::watch(child).map_err(io_error("watch", "chromedriver".as_ref()))?;
        let line = out
            .and_then(|out| out.find("chromedriver's port", &mut said, |line| line.contains("successfully on port ")));
        let port = line.as_deref().and_then(|line| line.rsplit_once(" on port ")?.1.trim_end_matches('.').parse().ok());
        let port = port.ok_or_else(|| HarnessError::Unusable(format!("chromedriver: {}", said.join("\n"))))?;
        let driver = Driver((Ipv4Addr::LOCALHOST, port).into());
        let profile = run.subdirectory("browser")?;
        let arguments = [
            "--headless=new".to_owned(),
            // Tests run as root in containers, where its sandbox cannot be.
            "--no-sandbox".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-gpu".to_owned(),
            "--window-size=1000,900".to_owned(),
            format!("--user-data-dir={}", profile.display()),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "acceptInsecureCerts": true,
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "binary": chromium, "args": arguments },
        } } });
        let made = driver.ask("POST", "/session", Some(&wanted))?;
        let session = made["sessionId"].as_str().unwrap_or_default().to_owned();
        Ok(Self { session, driver, _process: process, run: run.clone() })
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Result<Value, HarnessError> {
        let body = (method == "POST").then_some(body);
        self.driver.ask(method, &format!("/session/{}{path}", self.session), body)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, HarnessError> {
        self.command("POST", path, body)
    }

    /// Goes to a URL.
    pub fn open(&self, url: &str) -> Result<(), HarnessError> {
        self.post("/url", &json!({ "url": url })).map(drop)
    }

    /// Runs a script, which may `return` something.
    pub fn run(&self, script: &str, arguments: &[Value]) -> Result<Value, HarnessError> {
        self.post("/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// Runs a script that calls its last argument with what it found.
    pub fn run_async(&self, script: &str) -> Result<Value, HarnessError> {
        self.post("/execute/async", &json!({ "script": script, "args": [] }))
    }

    /// A command of the `DevTools` protocol: what a browser can be made to seem.
    pub fn devtools(&self, command: &str, parameters: &Value) -> Result<Value, HarnessError> {
        self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Allows or refuses something to the page.
    pub fn permission(&self, name: &str, state: &str) -> Result<(), HarnessError> {
        self.post("/permissions", &json!({ "descriptor": { "name": name }, "state": state })).map(drop)
    }

    /// The visible element that an `XPath` leads to, when there is one.
    ///
    /// # Panics
    /// If there is none in time: says what the page shows.
    pub fn find(&self, path: &str) -> Element<'_> {
        let found = || {
            let found = self.post("/elements", &json!({ "using": "xpath", "value": path })).ok()?;
            found.as_array()?.iter().find_map(|found| {
                let element = Element { browser: self, id: found[ELEMENT].as_str()?.to_owned() };
                let shown = self.command("GET", &format!("/element/{}/displayed", element.id), &Value::Null);
                (shown.ok()? == true).then_some(element)
            })
        };
        self.wait(path, found)
    }

    /// Waits until the page shows a text.
    ///
    /// # Panics
    /// As [`Self::find`].
    pub fn shows(&self, text: &str) {
        self.wait(text, || self.text().contains(text).then_some(()));
    }

    /// Waits for something of the page.
    ///
    /// # Panics
    /// If it is not there in time: says what the page shows.
    pub fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let mut text = String::new();
        let end = std::time::Instant::now() + PATIENCE / 4;
        let found = until(what, || match look() {
            Some(found) => Some(Some(found)),
            None if std::time::Instant::now() > end => {
                text = self.text();
                Some(None)
            }
            None => None,
        });
        found.unwrap_or_else(|| panic!("the page has no {what}, but:\n{text}"))
    }

    /// What the page shows, as text.
    pub fn text(&self) -> String {
        let text = self.run("return document.body.innerText", &[]);
        text.ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub fn press(&self, keys: &str) -> Result<(), HarnessError> {
        let each = keys.chars().flat_map(|key| {
            let key = key.to_string();
            [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
        });
        let actions = json!({ "actions": [{ "type": "key", "id": "keys", "actions": each.collect::<Vec<_>>() }] });
        self.post("/actions", &actions).map(drop)
    }

    /// Makes the window so large.
    pub fn size(&self, width: u32, height: u32) -> Result<(), HarnessError> {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics).map(drop)
    }

    /// What the browser complained of since it was asked last.
    pub fn complaints(&self) -> Result<Vec<String>, HarnessError> {
        let lines = self.post("/se/log", &json!({ "type": "browser" }))?;
        let lines = lines.as_array().cloned().unwrap_or_default();
        Ok(lines.iter().map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect())
    }

    /// A picture of the page in a file beside the logs, and where that is.
    pub fn picture(&self, name: &str) -> Result<std::path::PathBuf, HarnessError> {
        let picture = self.command("GET", "/screenshot", &Value::Null)?;
        let bytes = STANDARD.decode(picture.as_str().unwrap_or_default());
        let bytes = bytes.map_err(|error| HarnessError::Unusable(error.to_string()))?;
        let directory = crate::build::target_directory().join("qemu-logs");
        std::fs::create_dir_all(&directory).map_err(io_error("make", &directory))?;
        let path = directory.join(format!("{name}.png"));
        std::fs::write(&path, bytes).map_err(io_error("write", &path))?;
        Ok(path)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if std::thread::panicking() {
            match self.picture("failed-page") {
                Ok(path) => eprintln!("the page as it was: {}", path.display()),
                Err(error) => eprintln!("no picture of the page: {error}"),
            }
            eprintln!("its browser's log: {}", self.run.file("chromedriver.log").display());
        }
        // It ends with its driver in any case.
        let _ = self.command("DELETE", "", &Value::Null);
    }
}

impl Element<'_> {
    /// Clicks it.
    pub fn click(&self) -> Result<(), HarnessError> {
        self.browser.post(&format!("/element/{}/click", self.id), &json!({})).map(drop)
    }

    /// Types into it, after what it has.
    pub fn enter(&self, text: &str) -> Result<(), HarnessError> {
        self.browser.post(&format!("/element/{}/value", self.id), &json!({ "text": text })).map(drop)
    }

    /// Types into it, instead of what it has.
    pub fn replace(&self, text: &str) -> Result<(), HarnessError> {
        self.browser.post(&format!("/element/{}/clear", self.id), &json!({}))?;
        if text.is_empty() { Ok(()) } else { self.enter(text) }
    }

    /// What it shows.
    pub fn text(&self) -> Result<String, HarnessError> {
        let text = self.browser.command("GET", &format!("/element/{}/text", self.id), &Value::Null)?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }
}

impl Driver {
    /// One request on a connection of its own; the answer's `value`.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, HarnessError> {
        let failed = io_error("ask", "chromedriver".as_ref());
        let exchanged = self.exchange(method, path, body).map_err(failed)?;
        let unusable = |what: String| HarnessError::Unusable(format!("chromedriver, {method} {path}: {what}"));
        let answer: Value = serde_json::from_slice(&exchanged).map_err(|error| unusable(error.to_string()))?;
        let value = answer["value"].clone();
        match value["error"].as_str() {
            Some(error) => Err(unusable(format!("{error}: {}", value["message"]))),
            None => Ok(value),
        }
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&self.0, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
            self.0
        )?;
        // The driver leaves the connection open, so the head says how long the body is.
        let mut reader = BufReader::new(stream.take(LARGEST));
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line)? > 0 && !line.trim().is_empty() {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().map_err(std::io::Error::other)?;
            }
            line.clear();
        }
        let mut answer = Vec::new();
        reader.take(length).read_to_end(&mut answer)?;
        Ok(answer)
    }
}
