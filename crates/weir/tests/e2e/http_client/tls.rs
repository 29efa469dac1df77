//! TLS of client and server: with each other, with curl, openssl and nginx.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::bed::{self, Bed, SERVER};
use super::{adds_up, number, sum};
use crate::common::{assert_exit, can_run_lab, skipped, stderr, stdout, wait_until};

/// The test server, over TLS.
fn url(target: &str) -> String {
    format!("https://{SERVER}{target}")
}

/// An authority, and certificates that it has signed.
struct Authority {
    directory: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let authority = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        authority.self_signed("ca");
        authority
    }

    fn path(&self, file: &str) -> String {
        self.directory.path().join(file).to_string_lossy().into_owned()
    }

    fn openssl(&self, words: &[&str]) {
        let output = Command::new("openssl").args(words).current_dir(&self.directory).output();
        let output = output.expect("openssl runs");
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    }

    /// What openssl makes by itself: it says CA:TRUE.
    fn self_signed(&self, name: &str) {
        let (key, certificate) = (format!("{name}.key"), format!("{name}.pem"));
        let subject = format!("/CN={name}");
        let request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"];
        let files = ["-subj", &subject, "-keyout", &key, "-out", &certificate];
        self.openssl(&[&request[..], &files].concat());
    }

    /// NAME.pem and NAME.key, for what `names` says (x509v3_config(5)).
    fn sign(&self, name: &str, names: &str) {
        let [key, request, extensions, certificate] =
            ["key", "csr", "ext", "pem"].map(|kind| format!("{name}.{kind}"));
        let text = format!("subjectAltName={names}\n");
        std::fs::write(self.path(&extensions), text).expect("writable");
        let subject = format!("/CN={name}");
        let words = ["req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", &subject];
        self.openssl(&[&words[..], &["-keyout", &key, "-out", &request]].concat());
        let words = ["x509", "-req", "-in", &request, "-CA", "ca.pem", "-CAkey", "ca.key"];
        let files = ["-CAcreateserial", "-days", "2", "-extfile", &extensions];
        self.openssl(&[&words[..], &files, &["-out", &certificate]].concat());
    }

    /// What `weir http serve` shows it with.
    fn serving(&self, name: &str) -> [String; 5] {
        let [certificate, key] = ["pem", "key"].map(|kind| self.path(&format!("{name}.{kind}")));
        ["--tls".into(), "--cert".into(), certificate, "--key".into(), key]
    }
}

fn serve(bed: &Bed, words: &[String]) -> bed::Serving {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    bed.serve(&[&["--workers", "2"][..], &words].concat())
}

/// Full and resumed handshakes of either end.
fn handshakes(counts: &Value) -> [u64; 2] {
    ["full", "resumed"].map(|how| number(counts, &format!("/handshakes_{how}")))
}

#[test]
fn both_ends_count_the_same_handshakes() {
    if !can_run_lab("both_ends_count_the_same_handshakes") {
        return;
    }
    let bed = Bed::new();
    for (target, options, is_resumed) in [
        ("/b/128", &["--rate", "1k", "--connections", "16"][..], None),
        ("/b/128", &["--connections", "3", "--close", "fin"], Some(true)),
        ("/b/128", &["--connections", "3", "--close", "rst"], Some(true)),
        ("/b/128", &["--close", "fin", "--tls-resume", "off"], Some(false)),
        ("/b/128", &["--keepalive", "5", "--workers", "2"], Some(true)),
        ("/b/3M", &["--connections", "3"], None),
        ("/b/100Ki?chunked", &["--connections", "3"], None),
        ("/b/1Mi", &["--connections", "2", "--method", "HEAD"], None),
        ("/b/0", &["--connections", "2", "--body", "1Mi"], None),
        ("/b/{size}", &["--sizes", "0:1,40Ki:1", "--close", "fin"], Some(true)),
    ] {
        let run = |duration: &str| {
            let serving = bed.serve(&["--tls", "--workers", "2"]);
            let words = [&["--duration", duration, "--insecure"][..], options].concat();
            let result = bed::last_object(&bed.client(&url(target), &words));
            (result, serving.end())
        };
        let (mut result, mut total) = run("300ms");
        if is_resumed == Some(true) && handshakes(&total)[1] == 0 {
            // A busy machine was not through with the first ones.
            (result, total) = run("10s");
        }
        adds_up(&result);
        let of = |name: &str| number(&result, &format!("/counts/{name}"));
        assert!(of("answered") > 0, "{options:?}: {result:#}");
        assert_eq!(of("answered"), of("due"), "{options:?}: {result:#}");
        assert_eq!(of("answered"), number(&total, "/responses_2xx"), "{options:?}: {total:#}");
        assert_eq!(of("sent_bytes"), number(&total, "/received_bytes"), "{options:?}: {total:#}");
        assert_eq!(of("received_bytes"), number(&total, "/sent_bytes"), "{options:?}: {total:#}");
        let [full, resumed] = handshakes(&result["counts"]);
        assert_eq!([full, resumed], handshakes(&total), "{options:?}: {result:#} {total:#}");
        assert_eq!(full + resumed, of("established"), "{options:?}: {result:#}");
        assert_eq!(full + resumed, number(&result, "/handshake_ns/count"), "{result:#}");
        match is_resumed {
            Some(true) => assert!(resumed > 0 && full > 0, "{options:?}: {result:#}"),
            Some(false) => assert_eq!(resumed, 0, "{options:?}: {result:#}"),
            None => assert!(full > 0, "{options:?}: {result:#}"),
        }
        assert_eq!(number(&total, "/handshakes_failed"), 0, "{total:#}");
        assert!(result["tls_failure"].is_null(), "{result:#}");
    }
}

#[test]
fn a_certificate_has_to_be_signed_and_to_have_the_name() {
    if !can_run_lab("a_certificate_has_to_be_signed_and_to_have_the_name") {
        return;
    }
    let (bed, authority) = (Bed::new(), Authority::new());
    authority.sign("good", "IP:10.1.0.3,DNS:lab.example");
    authority.sign("other", "DNS:other.example");
    authority.self_signed("alone");
    let (ca, alone) = (authority.path("ca.pem"), authority.path("alone.pem"));
    let words = ["--connections", "2", "--rate", "50", "--duration", "300ms"];
    for (shown, trusted, why) in [
        ("good", Some(ca.as_str()), None),
        ("other", Some(&ca), Some("other.example")),
        ("good", Some(&alone), Some("signed by nobody who is trusted here")),
        ("good", None, Some("signed by nobody who is trusted here")),
        ("alone", Some(&alone), Some("that of an authority (CA:TRUE)")),
    ] {
        let serving = serve(&bed, &authority.serving(shown));
        let trust = trusted.map(|file| vec!["--ca", file]).unwrap_or_default();
        let output = bed.run(&url("/b/1"), &[&words[..], &trust].concat());
        let (result, total) = (bed::last_object(&output), serving.end());
        adds_up(&result);
        let failed = number(&result, "/counts/failures/tls");
        let not_opened = number(&result, "/counts/not_opened/tls");
        let Some(why) = why else {
            assert_exit(&output, 0);
            assert_eq!(failed + not_opened, 0, "{shown}: {result:#}");
            continue;
        };
        assert_exit(&output, 1);
        assert!(failed > 0 && not_opened == 2, "{shown}: {result:#}");
        assert_eq!(failed, sum(&result["counts"]["failures"]), "{shown}: {result:#}");
        assert_eq!(handshakes(&result["counts"]), [0, 0], "{shown}: {result:#}");
        let reason = result["tls_failure"].as_str().expect("a text");
        assert!(reason.contains(why), "{shown}: {reason}");
        assert_eq!(number(&total, "/handshakes_failed"), failed + not_opened, "{total:#}");
        assert_eq!(number(&total, "/requests"), 0, "{total:#}");
    }
    let serving = serve(&bed, &authority.serving("good"));
    let words = [&words[..], &["--ca", &ca]].concat();
    let output = bed.with_host("10.1.0.3 lab.example", "https://lab.example:80/b/1", &words);
    assert_exit(&output, 0);
    let result = bed::last_object(&output);
    assert_eq!(result["server"], SERVER, "{result:#}");
    assert_eq!(number(&result, "/counts/answered"), 15, "{result:#}");
    drop(serving.end());
}

#[test]
fn who_speaks_without_tls_is_a_failure_of_its_kind() {
    if !can_run_lab("who_speaks_without_tls_is_a_failure_of_its_kind") {
        return;
    }
    let bed = Bed::new();
    let words = ["--connections", "2", "--rate", "50", "--duration", "300ms"];
    let serving = bed.serve(&["--workers", "1"]);
    let output = bed.run(&url("/b/1"), &[&words[..], &["--insecure"]].concat());
    let result = bed::last_object(&output);
    adds_up(&result);
    assert_exit(&output, 1);
    assert!(number(&result, "/counts/failures/tls") > 0, "{result:#}");
    assert_eq!(result["tls_failure"], "the other end answered with what is not TLS");
    assert!(number(&serving.end(), "/bad_requests") > 0);
    let serving = bed.serve(&["--workers", "1", "--tls"]);
    let output = bed.run(&super::url("/b/1"), &words);
    let result = bed::last_object(&output);
    adds_up(&result);
    assert_exit(&output, 1);
    let of = |kind: &str| number(&result, &format!("/counts/failures/{kind}"));
    assert!(of("protocol") > 0, "{result:#}");
    let failures = sum(&result["counts"]["failures"]);
    assert_eq!(of("protocol") + of("reset"), failures, "{result:#}");
    let total = serving.end();
    assert!(number(&total, "/handshakes_failed") > 0, "{total:#}");
    assert_eq!(handshakes(&total), [0, 0], "{total:#}");
}

#[test]
fn a_pool_may_have_tls_and_another_none() {
    if !can_run_lab("a_pool_may_have_tls_and_another_none") {
        return;
    }
    let bed = Bed::new();
    let serving = bed.serve(&["--workers", "1", "--tls"]);
    let plain = bed.serve_at("10.1.0.3:81", &["--workers", "1"]);
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let pools = format!(
        "[[pool]]\nname = \"a\"\nurl = \"{}\"\ninsecure = true\nclose = \"fin\"\n\
         tls-resume = \"off\"\n[[pool]]\nname = \"b\"\nurl = \"http://10.1.0.3:81/b/1\"\n",
        url("/b/1")
    );
    std::fs::write(file.path(), pools).expect("writable");
    let path = file.path().to_string_lossy().into_owned();
    let output = bed.http(&["--pool", &path, "--rate", "200", "--duration", "500ms"]);
    assert_exit(&output, 0);
    let result = bed::last_object(&output);
    let counts = |pool: usize| &result["pools"][pool]["counts"];
    assert_eq!(handshakes(counts(0)), [50, 0], "{result:#}");
    assert_eq!(handshakes(counts(1)), [0, 0], "{result:#}");
    assert_eq!(number(counts(1), "/answered"), 50, "{result:#}");
    assert!(result["pools"][1]["handshake_ns"].is_null(), "{result:#}");
    assert_eq!(handshakes(&serving.end()), [50, 0]);
    assert_eq!(number(&plain.end(), "/requests"), 50);
}

#[test]
fn curl_trusts_the_server_and_takes_http_1_1() {
    if !can_run_lab("curl_trusts_the_server_and_takes_http_1_1") {
        return;
    }
    let (bed, authority) = (Bed::new(), Authority::new());
    authority.sign("good", "IP:10.1.0.3");
    let ca = authority.path("ca.pem");
    let serving = serve(&bed, &authority.serving("good"));
    let form = "%{http_code} %{http_version} %{size_download} %{ssl_verify_result}";
    let curl = ["curl", "-sS", "--max-time", "60", "-o", "/dev/null", "-w", form, "--cacert", &ca];
    for (target, words, expected) in [
        ("/b/128", &[][..], "200 1.1 128 0"),
        ("/b/3M", &["--http2"], "200 1.1 3000000 0"),
        ("/b/3M?chunked", &["--tls-max", "1.2"], "200 1.1 3000000 0"),
        ("/b/5", &["--http1.0", "--tlsv1.3"], "200 1.1 5 0"),
        ("/b/5", &["--data-binary", "0123456789"], "200 1.1 5 0"),
        ("/b/5", &["--data-binary", "x", "-H", "Expect: 100-continue"], "200 1.1 5 0"),
        ("/b/7?status=503", &["-H", "Connection: close"], "503 1.1 7 0"),
    ] {
        let url = url(target);
        let words = [&curl[..], words, &[&url]].concat();
        let output = bed.beside_client(&words).output().expect("ip runs");
        assert_exit(&output, 0);
        assert_eq!(stdout(&output), expected, "{words:?}");
    }
    let output = bed.beside_client(&["curl", "-sS", &url("/b/1")]).output().expect("ip runs");
    assert_exit(&output, 60);
    let total = serving.end();
    assert_eq!(handshakes(&total), [7, 0], "{total:#}");
    assert_eq!(number(&total, "/handshakes_failed"), 1, "{total:#}");
    assert_eq!(number(&total, "/requests"), 7, "{total:#}");
    // HTTP/1.0, `Connection: close`, and the handshake that came to nothing.
    assert_eq!(number(&total, "/closed_by_server"), 3, "{total:#}");
}

#[test]
fn openssl_resumes_a_session_at_any_worker() {
    if !can_run_lab("openssl_resumes_a_session_at_any_worker") {
        return;
    }
    let (bed, authority) = (Bed::new(), Authority::new());
    let serving = bed.serve(&["--workers", "4", "--tls"]);
    let session = authority.path("session");
    let ask = |words: &[&str]| {
        let words = [&["openssl", "s_client", "-connect", SERVER, "-ign_eof"][..], words].concat();
        let mut command = bed.beside_client(&words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("ip runs");
        let request = b"GET /b/3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        child.stdin.take().expect("a pipe").write_all(request).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        stdout(&output) + &stderr(&output)
    };
    for version in ["-tls1_2", "-tls1_3"] {
        let said = ask(&[version, "-sess_out", &session]);
        assert!(said.contains("New, ") && said.contains("\r\n\r\nwww"), "{version}: {said}");
        for _ in 0..4 {
            let said = ask(&[version, "-sess_in", &session]);
            assert!(said.contains("Reused, ") && said.contains("\r\n\r\nwww"), "{version}: {said}");
        }
    }
    let said = ask(&["-alpn", "h2"]);
    assert!(said.contains("no application protocol"), "{said}");
    let total = serving.end();
    assert_eq!(handshakes(&total), [2, 8], "{total:#}");
    assert_eq!(number(&total, "/handshakes_failed"), 1, "{total:#}");
    assert_eq!(number(&total, "/requests"), 10, "{total:#}");
}

/// A server that nobody here wrote.
struct Foreign(Child);

impl Foreign {
    /// Starts it in a directory, and waits until it listens.
    fn new(bed: &Bed, directory: &Path, words: &[&str]) -> Self {
        let mut command = bed.beside_server(words);
        command.current_dir(directory).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self(command.spawn().expect("ip runs"));
        wait_until("it listens", || {
            let words = ["ss", "-Hltn", "src", SERVER];
            !bed.beside_server(&words).output().expect("ip runs").stdout.is_empty()
        });
        server
    }

    /// `openssl s_server`, which has one connection at a time and closes it behind the answer, a
    /// file of that directory.
    fn openssl(bed: &Bed, directory: &Path, words: &[&str]) -> Self {
        let server = ["openssl", "s_server", "-accept", SERVER, "-cert", "good.pem"];
        Self::new(
            bed,
            directory,
            &[&server[..], &["-key", "good.key", "-WWW", "-quiet"], words].concat(),
        )
    }

    /// Has it do what is left, and end.
    fn quit(mut self) {
        bed::signal(self.0.id(), Signal::SIGQUIT);
        assert!(self.0.wait().expect("it ended").success());
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Its answers are of HTTP/1.0 and have no length, so that their end is that of TLS.
#[test]
fn a_server_of_openssl_is_read_to_its_end() {
    if !can_run_lab("a_server_of_openssl_is_read_to_its_end") {
        return;
    }
    let (bed, authority) = (Bed::new(), Authority::new());
    authority.sign("good", "IP:10.1.0.3");
    let text = "x".repeat(100_000);
    std::fs::write(authority.path("file.txt"), &text).expect("writable");
    let ca = authority.path("ca.pem");
    let words = ["--ca", &ca, "--connections", "1", "--rate", "20", "--duration", "500ms"];
    for version in ["-tls1_2", "-tls1_3"] {
        let server = Foreign::openssl(&bed, authority.directory.path(), &[version]);
        let output = bed.client(&url("/file.txt"), &words);
        drop(server);
        let result = bed::last_object(&output);
        adds_up(&result);
        let answered = number(&result, "/counts/answered");
        assert!(answered > 1, "{version}: {result:#}");
        let received_bytes = number(&result, "/counts/received_bytes");
        assert!(received_bytes > answered * text.len() as u64, "{version}: {result:#}");
        assert_eq!(handshakes(&result["counts"]), [1, answered - 1], "{version}: {result:#}");
    }
    for (options, why) in [
        (&["-alpn", "h2"][..], "speaks no HTTP/2"),
        // With TLS 1.3 it says so behind the handshake.
        (&["-Verify", "1", "-tls1_3"], "asks for a certificate of the client"),
    ] {
        let server = Foreign::openssl(&bed, authority.directory.path(), options);
        let output = bed.run(&url("/file.txt"), &words);
        drop(server);
        let result = bed::last_object(&output);
        adds_up(&result);
        assert_exit(&output, 1);
        assert!(number(&result, "/counts/failures/tls") > 0, "{result:#}");
        let reason = result["tls_failure"].as_str().expect("a text");
        assert!(reason.contains(why), "{reason}");
    }
}

/// Logs for each request whether its session was resumed: `r`, or else `.`.
const NGINX: &str = "daemon off; pid pid; user root; error_log stderr; events {}
http {
    client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;
    scgi_temp_path t5; log_format how '$ssl_session_reused'; access_log log how;
    server {
        listen 10.1.0.3:80 ssl; ssl_protocols VERSION;
        ssl_certificate good.pem; ssl_certificate_key good.key;
        location / { return 200 ok; }
    }
}
";

#[test]
fn nginx_logs_as_many_requests_and_resumed_sessions() {
    let test = "nginx_logs_as_many_requests_and_resumed_sessions";
    if !can_run_lab(test) {
        return;
    }
    if Command::new("nginx").arg("-v").output().is_err() {
        return skipped(test, "nginx is not installed");
    }
    let (bed, authority) = (Bed::new(), Authority::new());
    authority.sign("good", "IP:10.1.0.3");
    let ca = authority.path("ca.pem");
    for (version, options) in [
        ("TLSv1.2", &["--close", "fin"][..]),
        ("TLSv1.3", &["--close", "fin"]),
        ("TLSv1.3", &["--close", "fin", "--tls-resume", "off"]),
        ("TLSv1.3", &[]),
    ] {
        std::fs::write(authority.path("nginx.conf"), NGINX.replace("VERSION", version))
            .expect("writable");
        let words = ["nginx", "-p", ".", "-e", "stderr", "-c", "nginx.conf"];
        let server = Foreign::new(&bed, authority.directory.path(), &words);
        let words = ["--ca", &ca, "--connections", "4", "--rate", "100", "--duration", "500ms"];
        let output = bed.client(&url("/"), &[&words[..], options].concat());
        server.quit();
        let result = bed::last_object(&output);
        adds_up(&result);
        let log = std::fs::read_to_string(authority.path("log")).expect("a log");
        std::fs::remove_file(authority.path("log")).expect("removed");
        let [full, resumed] = [".", "r"].map(|how| log.lines().filter(|line| *line == how).count());
        let answered = number(&result, "/counts/answered");
        assert!(answered > 8, "{options:?}: {result:#}");
        assert_eq!((full + resumed) as u64, answered, "{options:?}: {log}");
        let of_client = handshakes(&result["counts"]);
        if options.contains(&"--close") {
            assert_eq!(of_client, [full, resumed].map(|count| count as u64), "{version}");
            assert_eq!(resumed == 0, options.contains(&"off"), "{version}: {log}");
        } else {
            assert_eq!(of_client.iter().sum::<u64>(), 4, "{result:#}");
        }
    }
}

#[test]
fn what_a_server_cannot_show_is_refused() {
    if !can_run_lab("what_a_server_cannot_show_is_refused") {
        return;
    }
    let authority = Authority::new();
    authority.self_signed("other");
    let [ca, key, other] = ["ca.pem", "ca.key", "other.key"].map(|file| authority.path(file));
    let serve = ["http", "serve", "--listen", "127.0.0.1:0"];
    for (words, why) in [
        (&["--cert", &ca, "--key", &key][..], "--tls"),
        (&["--tls", "--cert", &ca], "--key"),
        (&["--tls", "--cert", &ca, "--key", &other], "do not serve"),
        (&["--tls", "--cert", &key, "--key", &key], "cannot read a certificate"),
        (&["--tls", "--cert", &ca, "--key", &ca], "cannot read a private key"),
        (&["--tls", "--cert", &ca, "--key", "/there/is/none"], "/there/is/none"),
    ] {
        let output = crate::common::run(&[&serve[..], words].concat());
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(why), "{words:?}: {}", stderr(&output));
    }
}
