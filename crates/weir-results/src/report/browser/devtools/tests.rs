//! A Chromium without a window, spoken to in its DevTools protocol over a pipe: messages of JSON,
//! each ended by a zero byte, written to its descriptor 3 and read from 4.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// After so long without a message it is taken for dead.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// What keeps it from doing anything but showing a page.
const OPTIONS: [&str; 11] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--disable-component-update",
    "--disable-background-networking",
    "--hide-scrollbars",
];

pub(super) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    last_id: u64,
    session: Option<String>,
    complaints: Vec<String>,
}

impl Browser {
    /// Starts one with a profile of its own; `None` where none is installed.
    pub(super) fn start(profile: &Path) -> Option<Self> {
        let found = Command::new("sh").args(["-c", "command -v chromium"]).output().ok()?;
        if !found.status.success() {
            return None;
        }
        let descriptors = "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";
        let mut child = Command::new("sh")
            .args(["-c", descriptors, "sh"])
            .args(OPTIONS)
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let input = child.stdin.take().expect("a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            loop {
                let mut message = Vec::new();
                match output.read_until(0, &mut message) {
                    Ok(1..) => message.pop(),
                    _ => return,
                };
                let message = serde_json::from_slice(&message).unwrap_or_default();
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let (session, complaints) = (None, Vec::new());
        let mut browser = Self { child, input, messages, last_id: 0, session, complaints };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", &attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, &json!({}));
        }
        Some(browser)
    }

    /// What the console was told, and what was thrown, since the start.
    pub(super) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let text = format!("{message}\0");
        self.input.write_all(text.as_bytes()).expect("chromium reads");
        loop {
            let mut answer = self.next();
            if answer["id"] == self.last_id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    /// The next message; what the page complains of is kept.
    fn next(&mut self) -> Value {
        let message = self.messages.recv_timeout(SILENCE_MAX).expect("chromium answers");
        let complains = ["Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"];
        if message["method"].as_str().is_some_and(|method| complains.contains(&method)) {
            self.complaints.push(message["params"].to_string());
        }
        message
    }

    /// The size of the window, and what its reader prefers.
    pub(super) fn view(&mut self, (width, height): (u32, u32), scheme: &str) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// Opens a page and waits until it is there.
    pub(super) fn open(&mut self, url: &str) {
        // A page of the same address with another fragment would not be loaded again.
        for address in ["about:blank", url] {
            self.call("Page.navigate", &json!({"url": address}));
            let ready = format!("location.href === '{address}' && document.readyState");
            while self.evaluate(&ready) != "complete" {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// The value of an expression of the page.
    pub(super) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", &parameters);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Moves or presses the mouse.
    pub(super) fn mouse(&mut self, event: &str, (x, y): (f64, f64)) {
        let button = if event == "mouseMoved" { "none" } else { "left" };
        let parameters = json!({"type": event, "x": x, "y": y, "button": button, "clickCount": 1});
        self.call("Input.dispatchMouseEvent", &parameters);
    }

    /// The whole page as PNG.
    pub(super) fn picture(&mut self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", &json!({"captureBeyondViewport": true}));
        decoded(picture["data"].as_str().unwrap_or_default())
    }

    /// The page on paper, as PDF.
    pub(super) fn printed(&mut self) -> Vec<u8> {
        let printed = self.call("Page.printToPDF", &json!({"preferCSSPageSize": true}));
        decoded(printed["data"].as_str().unwrap_or_default())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Base64 (RFC 4648).
fn decoded(text: &str) -> Vec<u8> {
    let value = |byte: u8| -> u32 {
        match byte {
            b'A'..=b'Z' => u32::from(byte - b'A'),
            b'a'..=b'z' => u32::from(byte - b'a') + 26,
            b'0'..=b'9' => u32::from(byte - b'0') + 52,
            b'+' => 62,
            _ => 63,
        }
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').collect();
    let mut bytes = Vec::new();
    for four in digits.chunks(4) {
        let bits = four.iter().fold(0, |bits, byte| bits << 6 | value(*byte));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend(bits.to_be_bytes().iter().skip(1).take(four.len() - 1));
    }
    bytes
}
