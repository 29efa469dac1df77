//! `weir fw lsp`, as an editor speaks to it.

use std::fs;
use std::io::{BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::weir;

const FACTS: &str = "interface em0 192.0.2.1/24\ninterface lo0 loopback 127.0.0.1/8\n";

/// A server that does not answer within this is stuck.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server and the editor's end of it. It is killed when dropped.
struct Session {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    next_id: i64,
    directory: TempDir,
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Session {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let facts = directory.path().join("facts");
        fs::write(&facts, FACTS).expect("the facts are written");
        let mut child = weir()
            .args(["fw", "lsp", "--stdio", "--facts"])
            .arg(&facts)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut output = BufReader::new(child.stdout.take().expect("standard output"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            while let Some(message) = read(&mut output) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, messages, next_id: 0, directory }
    }

    /// A server that is ready, of an editor with these abilities.
    fn ready(abilities: &Value) -> Self {
        let mut session = Self::start();
        let params = json!({"processId": null, "rootUri": null, "capabilities": abilities});
        let answer = session.ask("initialize", &params);
        assert_eq!(answer["result"]["capabilities"]["positionEncoding"], "utf-16", "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "weir", "{answer}");
        session.tell("initialized", &json!({}));
        session
    }

    fn uri(&self, name: &str) -> String {
        format!("file://{}", self.directory.path().join(name).display())
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let input = self.input.as_mut().expect("it is open");
        write!(input, "Content-Length: {}\r\n\r\n{text}", text.len()).expect("it is written");
        input.flush().expect("it is written");
    }

    fn tell(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn receive(&self) -> Value {
        self.messages.recv_timeout(PATIENCE).expect("the server says something")
    }

    /// The answer to a request; what is published before it is passed over.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.receive();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn open(&mut self, name: &str, text: &str) {
        let uri = self.uri(name);
        let document = json!({"uri": uri, "languageId": "pf", "version": 1, "text": text});
        self.tell("textDocument/didOpen", &json!({"textDocument": document}));
    }

    fn change(&mut self, name: &str, version: i32, changes: &Value) {
        let document = json!({"uri": self.uri(name), "version": version});
        let params = json!({"textDocument": document, "contentChanges": changes});
        self.tell("textDocument/didChange", &params);
    }

    /// The next diagnostics of a file, at this version of it.
    fn diagnostics(&self, name: &str, version: Option<i32>) -> Vec<Value> {
        let uri = self.uri(name);
        loop {
            let message = self.receive();
            let params = &message["params"];
            let is_match = message["method"] == "textDocument/publishDiagnostics"
                && params["uri"] == uri
                && params["version"].as_i64() == version.map(i64::from);
            if is_match {
                return params["diagnostics"].as_array().expect("a list").clone();
            }
        }
    }

    fn at(&mut self, method: &str, name: &str, line: u32, character: u32) -> Value {
        let params = json!({
            "textDocument": {"uri": self.uri(name)},
            "position": {"line": line, "character": character},
        });
        self.ask(method, &params)["result"].clone()
    }

    fn end(mut self) -> ExitStatus {
        assert_eq!(self.ask("shutdown", &Value::Null)["result"], Value::Null);
        let late = self.ask("textDocument/hover", &json!({}));
        assert_eq!(late["error"]["code"], -32600, "{late}");
        self.tell("exit", &Value::Null);
        self.child.wait().expect("it ends")
    }
}

fn read(output: &mut impl std::io::BufRead) -> Option<Value> {
    let mut size = 0;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim() {
            "" => break,
            header => {
                let length = header.strip_prefix("Content-Length: ");
                size = length.map_or(size, |text| text.parse().expect("a number"));
            }
        }
    }
    let mut bytes = vec![0; size];
    output.read_exact(&mut bytes).ok()?;
    Some(serde_json::from_slice(&bytes).expect("it is JSON"))
}

fn range(line: u32, start: u32, end: u32) -> Value {
    json!({
        "start": {"line": line, "character": start},
        "end": {"line": line, "character": end},
    })
}

#[test]
fn what_is_wrong_shows_and_goes_while_one_types() {
    let abilities = json!({"textDocument": {"publishDiagnostics": {"relatedInformation": true}}});
    let mut session = Session::ready(&abilities);
    // The emoji is two units of UTF-16, and four bytes.
    session
        .open("pf.conf", "# a\npass in on em0 label \"😀\" kepe state\na = \"$a\"\npass on $a\n");
    let found = session.diagnostics("pf.conf", Some(1));
    let slip = &found[0];
    assert_eq!((&slip["range"], &slip["severity"]), (&range(1, 26, 30), &json!(1)), "{slip}");
    assert_eq!((&slip["source"], &slip["code"]), (&json!("weir"), &json!("syntax")));
    assert!(slip["message"].as_str().unwrap().contains("did you mean `keep`?"), "{slip}");
    let circle =
        found.iter().find(|finding| finding["code"] == "recursive-macro").expect("the circle");
    let related = &circle["relatedInformation"][0];
    assert_eq!(related["location"]["uri"], session.uri("pf.conf"));
    assert_eq!(related["location"]["range"]["start"]["line"], 2, "{circle}");

    let word = json!([{"range": range(1, 26, 30), "text": "keep"}]);
    session.change("pf.conf", 2, &word);
    let found = session.diagnostics("pf.conf", Some(2));
    assert!(found.iter().all(|finding| finding["range"]["start"]["line"] != 1), "{found:?}");
    session.change("pf.conf", 3, &json!([{"text": "pass on em7\n"}]));
    let found = session.diagnostics("pf.conf", Some(3));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["severity"], &found[0]["range"]), (&json!(2), &range(0, 8, 11)));
    session.change("pf.conf", 4, &json!([{"text": "pass on em0\n"}]));
    assert_eq!(session.diagnostics("pf.conf", Some(4)), Vec::<Value>::new());
    assert!(session.end().success());
}

#[test]
fn hovers_and_definitions() {
    let hover = json!({"textDocument": {"hover": {"contentFormat": ["markdown", "plaintext"]}}});
    let mut session = Session::ready(&hover);
    let text = "ext = \"em0\"\ntable <bad> { 10.0.0.1 }\n\
                pass in on $ext proto tcp from <bad> to port { 22 80 }\n";
    session.open("pf.conf", text);
    let rules = session.at("textDocument/hover", "pf.conf", 2, 1);
    let value = rules["contents"]["value"].as_str().expect("text");
    assert!(value.starts_with("```pf\npass in on em0 "), "{value}");
    assert_eq!(value.matches("\npass in").count(), 2, "{value}");
    assert_eq!(rules["range"]["start"], json!({"line": 2, "character": 0}));
    let hover = session.at("textDocument/hover", "pf.conf", 2, 12);
    assert_eq!(hover["contents"]["value"], "```pf\next = \"em0\"\n```", "{hover}");
    assert_eq!(hover["range"], range(2, 11, 15));
    assert_eq!(session.at("textDocument/hover", "pf.conf", 9, 9), Value::Null);
    assert_eq!(session.at("textDocument/hover", "other.conf", 0, 0), Value::Null);

    let uri = session.uri("pf.conf");
    let definition = session.at("textDocument/definition", "pf.conf", 2, 12);
    assert_eq!(definition, json!([{"uri": uri, "range": range(0, 0, 3)}]));
    let definition = session.at("textDocument/definition", "pf.conf", 2, 33);
    assert_eq!(definition[0]["range"]["start"]["line"], 1, "{definition}");
    assert_eq!(session.at("textDocument/definition", "pf.conf", 2, 1), json!([]));
    assert!(session.end().success());
}

/// What `weir fw check` says of rules that are right shows as well, with both places, and goes.
#[test]
fn what_is_pointless_shows_with_both_places() {
    let abilities = json!({"textDocument": {"publishDiagnostics": {"relatedInformation": true}}});
    let mut session = Session::ready(&abilities);
    let text = "unused = \"x\"\ntable <spare> { 10.0.0.1 }\npass in quick on em0 flags any\n\
                block in on em0 proto udp\npass in from <nowhere>\n";
    session.open("pf.conf", text);
    let found = session.diagnostics("pf.conf", Some(1));
    let by_code = |code: &str| {
        let finding = found.iter().find(|finding| finding["code"] == code);
        finding.unwrap_or_else(|| panic!("{code}: {found:#?}")).clone()
    };
    for (code, line) in
        [("unused-macro", 0), ("unused-table", 1), ("unreachable", 3), ("missing-table", 4)]
    {
        assert_eq!(by_code(code)["range"]["start"]["line"], line, "{code}");
        assert_eq!(by_code(code)["severity"], 2, "{code}");
    }
    let unreachable = by_code("unreachable");
    let places = unreachable["relatedInformation"].as_array().expect("a list");
    let last = &places.last().expect("one")["location"];
    assert_eq!(last["uri"], session.uri("pf.conf"), "{unreachable}");
    assert_eq!(last["range"]["start"]["line"], 2, "{unreachable}");
    session.change("pf.conf", 2, &json!([{"text": "pass in on em0\n"}]));
    assert_eq!(session.diagnostics("pf.conf", Some(2)), Vec::<Value>::new());
    assert!(session.end().success());
}

/// Anchors lead to their braces and to the statement that loads them, its file to itself; rules of
/// an anchor show on hover.
#[test]
fn anchors_have_definitions() {
    let mut session = Session::ready(&json!({}));
    fs::write(session.directory.path().join("own.conf"), "pass\n").expect("it is written");
    let text = "anchor \"in/*\"\nanchor \"in\" {\n  anchor web {\n    block\n  }\n}\n\
                load anchor \"in/own\" from \"own.conf\"\n";
    session.open("pf.conf", text);
    let lines: Vec<Value> = session
        .at("textDocument/definition", "pf.conf", 0, 9)
        .as_array()
        .expect("a list")
        .iter()
        .map(|definition| definition["range"]["start"]["line"].clone())
        .collect();
    assert_eq!(lines, [json!(2), json!(6)]);
    let definition = session.at("textDocument/definition", "pf.conf", 6, 27);
    assert_eq!(definition[0]["uri"], session.uri("own.conf"), "{definition}");
    let rule = session.at("textDocument/hover", "pf.conf", 3, 5);
    let value = rule["contents"].to_string();
    assert!(value.contains("block drop all"), "{rule}");
    assert!(session.end().success());
}

#[test]
fn an_included_file_is_part_of_what_includes_it() {
    let mut session = Session::ready(&json!({}));
    let part = session.directory.path().join("part.conf");
    fs::write(&part, "pass in on $ext\npass qiuck\n").expect("it is written");
    session.open("pf.conf", "ext = \"em0\"\ninclude \"part.conf\"\n");
    // It is not open: what is wrong with it is told of the file on the disk.
    let found = session.diagnostics("part.conf", None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["range"], range(1, 5, 10));
    // Once it is open, the editor's text holds, and the other file's macro is known in it.
    session.open("part.conf", "pass in on $ext\n");
    assert_eq!(session.diagnostics("part.conf", Some(1)), Vec::<Value>::new());
    let definition = session.at("textDocument/definition", "part.conf", 0, 13);
    assert_eq!(definition, json!([{"uri": session.uri("pf.conf"), "range": range(0, 0, 3)}]));
    let definition = session.at("textDocument/definition", "pf.conf", 1, 12);
    assert_eq!(definition[0]["uri"], session.uri("part.conf"), "{definition}");
    // Alone, it lacks the macro.
    let uri = session.uri("pf.conf");
    session.tell("textDocument/didClose", &json!({"textDocument": {"uri": uri}}));
    let found = session.diagnostics("part.conf", Some(1));
    assert_eq!(found[0]["code"], "undefined-macro", "{found:?}");
    assert!(session.end().success());
}

#[test]
fn bad_messages_and_ends_are_told() {
    let mut session = Session::ready(&json!({}));
    let unknown = session.ask("textDocument/rename", &json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    let bad = session.ask("textDocument/hover", &json!({"textDocument": 5}));
    assert_eq!(bad["error"]["code"], -32602, "{bad}");
    session.tell("textDocument/didOpen", &json!({"nothing": true}));
    session.tell("$/anything", &json!({}));
    assert_eq!(session.at("textDocument/hover", "pf.conf", 0, 0), Value::Null);
    // An end without `shutdown` is not a clean one.
    session.tell("exit", &Value::Null);
    assert_eq!(session.child.wait().expect("it ends").code(), Some(1));

    let mut session = Session::ready(&json!({}));
    session.input = None;
    assert_eq!(session.child.wait().expect("it ends").code(), Some(1));

    let mut session = Session::start();
    let input = session.input.as_mut().expect("it is open");
    input.write_all(b"Content-Length: nonsense\r\n\r\n").expect("it is written");
    session.input = None;
    assert_eq!(session.child.wait().expect("it ends").code(), Some(2));
    let mut message = String::new();
    let errors = session.child.stderr.as_mut().expect("standard error");
    errors.read_to_string(&mut message).expect("it is text");
    assert!(message.starts_with("error: "), "{message}");
    assert!(Path::new(&session.directory.path()).exists());
}
