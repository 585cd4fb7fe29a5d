//! Chromium without a window, driven by the DevTools protocol over a pipe.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails with the test")]
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// Chromium from the variable CHROME or from PATH.
fn chromium() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("CHROME") {
        return Some(given.into());
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let files: Vec<PathBuf> =
        std::env::split_paths(&paths).flat_map(|dir| names.map(|name| dir.join(name))).collect();
    files.into_iter().find(|file| file.is_file())
}

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    next: u64,
    /// Errors of scripts and of the console so far.
    pub errors: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// A browser, or `None` where there is none, which it says.
    pub fn start() -> Option<Self> {
        let Some(chromium) = chromium() else {
            // Straight to the terminal: tests that pass are silent otherwise.
            let why = "no Chromium on PATH, and CHROME is not set";
            std::io::stderr()
                .write_all(format!("SKIPPED a test of the page in a browser: {why}\n").as_bytes())
                .unwrap();
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        // The protocol uses the descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#])
            .arg(chromium)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"])
            .args(["--disable-dev-shm-usage", "--remote-debugging-pipe"])
            // It asks nobody but the test.
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let (session, errors) = (String::new(), Vec::new());
        let mut browser = Self { child, to, from, session, next: 0, errors, _profile: profile };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", &attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned).unwrap_or_default();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Calls a method and waits for its result; events on the way that tell of errors are kept.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut answer = Vec::new();
            self.from.read_until(0, &mut answer).unwrap();
            assert!(!answer.is_empty(), "the browser has ended, asked for {method}");
            let mut answer: Value = serde_json::from_slice(&answer[..answer.len() - 1]).unwrap();
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.keep_error(&answer);
        }
    }

    fn keep_error(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.errors.push(params["exceptionDetails"].to_string()),
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.errors.push(params["entry"].to_string());
            }
            _ => {}
        }
    }

    /// Opens an address.
    pub fn open(&mut self, address: &str) {
        self.call("Page.navigate", &json!({"url": address}));
        self.wait("document.readyState === 'complete' && document.body !== null");
    }

    /// Opens a page from its text, at a fragment.
    pub fn show(&mut self, page: &str, fragment: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("page.html"), page).unwrap();
        self.open(&format!("file://{}/page.html{fragment}", folder.path().display()));
        self.wait("document.getElementById('summary-title')?.textContent !== 'Loading'");
        folder
    }

    /// The value of an expression.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut result = self.call("Runtime.evaluate", &params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// The text of an expression.
    pub fn text(&mut self, expression: &str) -> String {
        self.eval(expression).as_str().map(str::to_owned).unwrap_or_default()
    }

    /// The text that the reader sees of an element.
    pub fn seen(&mut self, id: &str) -> String {
        self.text(&format!("document.getElementById({}).innerText", json!(id)))
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) {
        let poll = format!(
            "new Promise((done) => {{ let tries = 0; const look = () => {{ let is = false; try {{ is = {expression}; }} \
             catch {{}} if (is || ++tries > 1000) done(Boolean(is)); else setTimeout(look, 20); }}; look(); }})"
        );
        assert_eq!(self.eval(&poll), true, "never true: {expression}; errors: {:?}", self.errors);
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let params = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", &params);
        }
        if key == "Enter" {
            self.call("Input.dispatchKeyEvent", &json!({"type": "char", "text": "\r", "key": key}));
        }
    }

    /// Sets the size of the window, and whether the reader prefers dark pages.
    pub fn look(&mut self, width: u32, height: u32, dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &features);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
