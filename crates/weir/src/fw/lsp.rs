//! `weir fw lsp`: pf.conf in an editor, by the Language Server Protocol 3.17 on standard input and
//! output.
//!
//! Here are messages; `workspace` has the open texts, `analysis` what is asked about them, `place`
//! lines, columns and URIs. Diagnostics are published when the editor has been quiet for a moment,
//! so that a large ruleset is not read for every letter.

mod analysis;
mod place;
mod workspace;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use gen_lsp_types::{
    DefinitionParams, Diagnostic, DidChangeTextDocumentParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, Hover, HoverParams, InitializeResult, MarkupContent, MarkupKind,
    PositionEncodingKind, PublishDiagnosticsParams, ServerCapabilities, ServerInfo,
    TextDocumentContentChangeEvent, TextDocumentSyncKind, TextDocumentSyncOptions, Uri,
};
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::workspace::Workspace;
use super::load::Language;
use super::machine;
use crate::cli::fw::LspArgs;
use crate::exit::Outcome;

/// How long the editor is quiet before what has changed is read.
const QUIET: Duration = Duration::from_millis(80);

/// Runs the command. It is done after `shutdown` and `exit`; an end without them is not.
pub(super) fn command(args: &LspArgs) -> anyhow::Result<Outcome> {
    if std::io::stdin().is_terminal() {
        let hint = "weir fw lsp: waiting for an editor on standard input (docs/fw.md says how to \
                    set one up)";
        // Nobody is left to tell if standard error is closed.
        drop(writeln!(anstream::stderr(), "{hint}"));
    }
    let language = Language {
        dialect: args.dialect.map(Into::into),
        is_strict: args.dialect.is_some(),
        macros: args.macros.clone(),
        facts: machine::facts(args.facts.as_deref())?,
        disk: super::files::Disk::default(),
        names: None,
    };
    let (connection, threads) = Connection::stdio();
    let is_shut_down = serve(&connection, language)?;
    drop(connection);
    threads
        .join()
        .context("the editor's messages cannot be read, or it does not read the answers")?;
    Ok(if is_shut_down { Outcome::Done } else { Outcome::No })
}

/// Answers until `exit`, or until the editor is gone; whether `shutdown` came before.
fn serve(connection: &Connection, language: Language) -> anyhow::Result<bool> {
    let (id, params) =
        connection.initialize_start().context("the editor did not open the session")?;
    connection
        .initialize_finish(id, serde_json::to_value(abilities())?)
        .context("the editor did not open the session")?;
    let mut server = Server::new(connection, language, &params);
    loop {
        let message = if server.is_stale {
            match connection.receiver.recv_timeout(QUIET) {
                Err(error) if error.is_timeout() => {
                    server.publish()?;
                    continue;
                }
                result => result.ok(),
            }
        } else {
            connection.receiver.recv().ok()
        };
        match message {
            None => return Ok(false),
            Some(Message::Notification(notification)) if notification.method == "exit" => {
                return Ok(server.is_shut_down);
            }
            Some(Message::Notification(notification)) => server.notified(notification)?,
            Some(Message::Request(request)) => server.requested(request)?,
            // This server asks nothing.
            Some(Message::Response(_)) => {}
        }
    }
}

/// What the editor may ask for.
fn abilities() -> InitializeResult {
    InitializeResult {
        capabilities: ServerCapabilities {
            position_encoding: Some(PositionEncodingKind::UTF16),
            text_document_sync: Some(
                TextDocumentSyncOptions {
                    open_close: Some(true),
                    change: Some(TextDocumentSyncKind::Incremental),
                    ..TextDocumentSyncOptions::default()
                }
                .into(),
            ),
            hover_provider: Some(true.into()),
            definition_provider: Some(true.into()),
            ..ServerCapabilities::default()
        },
        server_info: Some(ServerInfo {
            name: "weir".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
    }
}

struct Server<'a> {
    connection: &'a Connection,
    workspace: Workspace,
    has_markdown: bool,
    is_shut_down: bool,
    /// Whether something has changed since the last publication.
    is_stale: bool,
    /// What was published last: the version of an open text, and what is wrong with it.
    published: BTreeMap<String, (Option<i32>, Vec<Diagnostic>)>,
}

impl<'a> Server<'a> {
    fn new(connection: &'a Connection, language: Language, params: &Value) -> Self {
        let ability = |path: &str| params.pointer(path).cloned().unwrap_or_default();
        let related =
            ability("/capabilities/textDocument/publishDiagnostics/relatedInformation") == true;
        let formats = ability("/capabilities/textDocument/hover/contentFormat");
        let mut formats = formats.as_array().into_iter().flatten();
        Self {
            connection,
            workspace: Workspace::new(language, related),
            has_markdown: formats.any(|format| format == "markdown"),
            is_shut_down: false,
            is_stale: false,
            published: BTreeMap::new(),
        }
    }

    /// What needs no answer. What is not known, or cannot be read, is passed over, as the protocol
    /// has it.
    fn notified(&mut self, notification: Notification) -> anyhow::Result<()> {
        match notification.method.as_str() {
            "textDocument/didOpen" => {
                if let Ok(params) =
                    serde_json::from_value::<DidOpenTextDocumentParams>(notification.params)
                {
                    let document = params.text_document;
                    self.workspace.open(document.uri, document.version, document.text);
                    self.is_stale = true;
                }
            }
            "textDocument/didChange" => {
                let params =
                    serde_json::from_value::<DidChangeTextDocumentParams>(notification.params);
                if let Ok(params) = params {
                    let changes = params.content_changes.into_iter().map(change).collect();
                    let version = params.text_document.version;
                    let uri = params.text_document.text_document_identifier.uri;
                    self.is_stale |= self.workspace.change(&uri, version, changes);
                }
            }
            "textDocument/didClose" => {
                let params =
                    serde_json::from_value::<DidCloseTextDocumentParams>(notification.params);
                if let Ok(params) = params {
                    self.workspace.close(&params.text_document.uri);
                    self.publish()?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn requested(&mut self, request: Request) -> anyhow::Result<()> {
        if self.is_shut_down {
            let text = "the server was shut down";
            return self.refuse(request.id, ErrorCode::InvalidRequest, text);
        }
        match request.method.as_str() {
            "shutdown" => {
                self.is_shut_down = true;
                self.answer(request.id, &Value::Null)
            }
            "textDocument/hover" => match params::<HoverParams>(request.params) {
                Ok(params) => {
                    self.workspace.refresh();
                    let at = params.text_document_position_params;
                    let found = self.workspace.hover(&at.text_document.uri, at.position);
                    let hover = found.map(|(hover, range)| Hover {
                        contents: self.contents(&hover).into(),
                        range: Some(range),
                    });
                    self.answer(request.id, &hover)
                }
                Err(text) => self.refuse(request.id, ErrorCode::InvalidParams, &text),
            },
            "textDocument/definition" => match params::<DefinitionParams>(request.params) {
                Ok(params) => {
                    self.workspace.refresh();
                    let at = params.text_document_position_params;
                    let found = self.workspace.definitions(&at.text_document.uri, at.position);
                    self.answer(request.id, &found)
                }
                Err(text) => self.refuse(request.id, ErrorCode::InvalidParams, &text),
            },
            method => {
                let text = format!("`{method}` is not supported by this server");
                self.refuse(request.id, ErrorCode::MethodNotFound, &text)
            }
        }
    }

    fn contents(&self, hover: &analysis::Hover) -> MarkupContent {
        let analysis::Hover { code, note, .. } = hover;
        let (kind, mut value) = if self.has_markdown {
            (MarkupKind::Markdown, format!("```pf\n{code}\n```"))
        } else {
            (MarkupKind::PlainText, code.clone())
        };
        if !note.is_empty() {
            value.push_str(&format!("\n\n{note}"));
        }
        MarkupContent { kind, value }
    }

    /// Tells the editor what is wrong, of files for which that has changed.
    fn publish(&mut self) -> anyhow::Result<()> {
        self.workspace.refresh();
        self.is_stale = false;
        let mut now = self.workspace.diagnostics();
        let gone: BTreeSet<String> = self.published.keys().cloned().collect();
        for uri in gone {
            now.entry(uri).or_default();
        }
        for (uri, diagnostics) in now {
            let version = self.workspace.get(&uri).map(|document| document.version);
            let is_kept = version.is_some() || !diagnostics.is_empty();
            let state = (version, diagnostics);
            if self.published.get(&uri) == Some(&state) {
                continue;
            }
            let params = PublishDiagnosticsParams {
                uri: Uri(uri.clone()),
                version,
                diagnostics: state.1.clone(),
            };
            let method = "textDocument/publishDiagnostics".to_owned();
            self.send(Notification::new(method, params).into())?;
            if is_kept {
                self.published.insert(uri, state);
            } else {
                self.published.remove(&uri);
            }
        }
        Ok(())
    }

    fn answer(&self, id: RequestId, result: &impl Serialize) -> anyhow::Result<()> {
        self.send(Response::new_ok(id, result).into())
    }

    fn refuse(&self, id: RequestId, code: ErrorCode, text: &str) -> anyhow::Result<()> {
        self.send(Response::new_err(id, code as i32, text.to_owned()).into())
    }

    fn send(&self, message: Message) -> anyhow::Result<()> {
        let sent = self.connection.sender.send(message);
        sent.map_err(|_| anyhow::anyhow!("the editor has stopped reading"))
    }
}

fn params<T: DeserializeOwned>(params: Value) -> Result<T, String> {
    serde_json::from_value(params).map_err(|error| error.to_string())
}

fn change(event: TextDocumentContentChangeEvent) -> (Option<gen_lsp_types::Range>, String) {
    match event {
        TextDocumentContentChangeEvent::TextDocumentContentChangePartial(edit) => {
            (Some(edit.range), edit.text)
        }
        TextDocumentContentChangeEvent::TextDocumentContentChangeWholeDocument(edit) => {
            (None, edit.text)
        }
    }
}
