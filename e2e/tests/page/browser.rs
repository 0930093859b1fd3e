//! Debian's Chromium, driven by its own driver over the `WebDriver` protocol.
//!
//! Source: W3C, *`WebDriver`*, Recommendation of 2018. The few commands that are needed are plain
//! HTTP.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use base64::prelude::{BASE64_STANDARD, Engine};
use minreq::Method;
use serde_json::{Value, json};

/// A browser with one page. It ends when the value goes.
pub(crate) struct Browser {
    driver: Driver,
    /// The path of the session.
    session: String,
    /// An empty profile of its own.
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser and opens a page.
    pub(crate) fn open(url: &str) -> Result<Self> {
        let profile = tempfile::tempdir()?;
        let driver = Driver::start(profile.path())?;
        let mut arguments = FLAGS.map(str::to_owned).to_vec();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let opened = driver.ask(Method::Post, "/session", &wanted)?;
        let id = opened["sessionId"].as_str().context("a session")?;
        let browser = Self { driver, session: format!("/session/{id}"), _profile: profile };
        browser.post("/url", &json!({"url": url}))?;
        Ok(browser)
    }

    /// The text of the element that a selector finds, as the visitor sees it.
    pub(crate) fn text(&self, selector: &str) -> Result<String> {
        self.get(&format!("/element/{}/text", self.find(selector)?))
    }

    /// An attribute of an element.
    pub(crate) fn attribute(&self, selector: &str, name: &str) -> Result<String> {
        self.get(&format!("/element/{}/attribute/{name}", self.find(selector)?))
    }

    /// Clicks an element, which must be in sight and not covered.
    pub(crate) fn click(&self, selector: &str) -> Result<()> {
        self.post(&format!("/element/{}/click", self.find(selector)?), &json!({})).map(drop)
    }

    /// Types into an element.
    pub(crate) fn write(&self, selector: &str, text: &str) -> Result<()> {
        let path = format!("/element/{}/value", self.find(selector)?);
        self.post(&path, &json!({"text": text})).map(drop)
    }

    /// Presses a key and releases it.
    pub(crate) fn press(&self, key: &str) -> Result<()> {
        let press =
            [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})];
        self.act(&json!({"type": "key", "id": "keys", "actions": press}))
    }

    /// Moves the mouse to an element.
    pub(crate) fn point(&self, selector: &str) -> Result<()> {
        let to = json!([self.to(selector)?]);
        let mouse = json!({"pointerType": "mouse"});
        self.act(&json!({"type": "pointer", "id": "mouse", "parameters": mouse, "actions": to}))
    }

    /// Taps an element with a finger.
    pub(crate) fn tap(&self, selector: &str) -> Result<()> {
        let [down, up] =
            ["pointerDown", "pointerUp"].map(|what| json!({"type": what, "button": 0}));
        let tap = json!([self.to(selector)?, down, up]);
        let touch = json!({"pointerType": "touch"});
        self.act(&json!({"type": "pointer", "id": "finger", "parameters": touch, "actions": tap}))
    }

    /// Gives the page so much room, and as many pixels.
    pub(crate) fn resize(&self, width: u32, height: u32) -> Result<()> {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &size)
    }

    /// Has the page know of a finger, as a phone's browser does.
    pub(crate) fn has_a_touchscreen(&self) -> Result<()> {
        let touch = json!({"enabled": true, "maxTouchPoints": 1});
        self.devtools("Emulation.setTouchEmulationEnabled", &touch)
    }

    /// Has the page's scripts and its drawing take so many times as long, as on a slower machine.
    pub(crate) fn slow_down(&self, times: u32) -> Result<()> {
        self.devtools("Emulation.setCPUThrottlingRate", &json!({"rate": times}))
    }

    /// A picture of what is in sight, as a PNG file.
    pub(crate) fn picture(&self) -> Result<Vec<u8>> {
        Ok(BASE64_STANDARD.decode(self.get("/screenshot")?)?)
    }

    /// A command of Chromium's own protocol.
    fn devtools(&self, command: &str, parameters: &Value) -> Result<()> {
        let command = json!({"cmd": command, "params": parameters});
        self.post("/goog/cdp/execute", &command).map(drop)
    }

    fn act(&self, source: &Value) -> Result<()> {
        self.post("/actions", &json!({"actions": [source]})).map(drop)
    }

    /// The way of a pointer to the middle of an element.
    fn to(&self, selector: &str) -> Result<Value> {
        let origin = json!({ELEMENT: self.find(selector)?});
        Ok(json!({"type": "pointerMove", "origin": origin, "x": 0, "y": 0, "duration": 0}))
    }

    /// What a function of the page's language returns, whose body this is.
    pub(crate) fn evaluate(&self, body: &str) -> Result<Value> {
        self.post("/execute/sync", &json!({"script": body, "args": []}))
    }

    /// Fails if the browser has complained: of a script that failed, or of something that the
    /// page's own policy forbids.
    pub(crate) fn has_no_complaints(&self) -> Result<()> {
        let lines = self.post("/se/log", &json!({"type": "browser"}))?;
        ensure!(lines.as_array().is_some_and(Vec::is_empty), "the browser complains: {lines:#}");
        Ok(())
    }

    /// The id of an element.
    fn find(&self, selector: &str) -> Result<String> {
        let found = self.post("/element", &json!({"using": "css selector", "value": selector}))?;
        let id = found[ELEMENT].as_str().with_context(|| format!("no element {selector}"))?;
        Ok(id.to_owned())
    }

    fn get(&self, path: &str) -> Result<String> {
        let value = self.driver.ask(Method::Get, &self.path(path), &Value::Null)?;
        Ok(value.as_str().with_context(|| format!("{value} is no text"))?.to_owned())
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.driver.ask(Method::Post, &self.path(path), body)
    }

    fn path(&self, path: &str) -> String {
        format!("{}{path}", self.session)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // If the driver cannot, the end of its process group ends the browser.
        let _ = self.driver.ask(Method::Delete, &self.session, &Value::Null);
    }
}

/// The driver's process.
struct Driver {
    process: Child,
    port: u16,
    /// Kept open: the driver may still have something to say.
    output: BufReader<ChildStdout>,
}

impl Driver {
    /// Starts it on a port that it chooses. It and its browser leave behind what they have in a directory of this test
    /// alone.
    fn start(directory: &Path) -> Result<Self> {
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .env("TMPDIR", directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("start chromedriver (Debian's package chromium-driver)")?;
        let output = process.stdout.take().context("its output")?;
        let mut driver = Self { process, port: 0, output: BufReader::new(output) };
        driver.port = driver.read_port()?;
        Ok(driver)
    }

    /// It says `ChromeDriver was started successfully on port 40123.`
    fn read_port(&mut self) -> Result<u16> {
        let mut line = String::new();
        while self.output.read_line(&mut line)? > 0 {
            if let Some((_, port)) = line.split_once("successfully on port ") {
                return port.trim().trim_end_matches('.').parse().context("a port");
            }
            line.clear();
        }
        bail!("chromedriver ended before it told its port")
    }

    /// Sends a command and returns the value of the answer.
    fn ask(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let mut request = minreq::Request::new(method, url).with_timeout(COMMAND_SECONDS);
        if !body.is_null() {
            let json = ("Content-Type", "application/json");
            request = request.with_header(json.0, json.1).with_body(body.to_string());
        }
        let answer = request.send().with_context(|| format!("ask the driver for {path}"))?;
        let mut body: Value = serde_json::from_slice(answer.as_bytes())?;
        ensure!(answer.status_code == 200, "the driver answers to {path}: {}", body["value"]);
        Ok(body["value"].take())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        use rustix::process::{Pid, Signal, kill_process_group};
        if let Some(group) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            // The browser is in the group too, should it have outlived its session.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.process.wait();
    }
}

/// As root and without a network, and without what a browser does at its first start.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
];

/// Keys that have no letter (section 17.4.2 of the Recommendation).
pub(crate) const TAB: &str = "\u{E004}";
pub(crate) const ESCAPE: &str = "\u{E00C}";
pub(crate) const DOWN: &str = "\u{E015}";

/// The key of an element's id (section 11 of the Recommendation).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

const COMMAND_SECONDS: u64 = 60;
