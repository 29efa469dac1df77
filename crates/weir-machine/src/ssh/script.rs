//! What runs on the far side: a POSIX `sh` script around each command.
//!
//! Three things are not in SSH itself. The script is not on a command line, where other users of
//! the machine could read it, but comes as the first line of standard input, in octal escapes, so
//! that it means the same to `sh` whatever the user's login shell is. A *watcher* reads the rest of
//! standard input: `signal NAME` signals the command's process group, `stop TENTHS` and the end of
//! the input (the connection broke, or the manager is gone) end it. And the last line of standard
//! error holds a *mark* and the exit code, because ssh's own exit code 255 does not tell a command
//! from a connection.
//!
//! This relies on the server making each session the leader of a process group, as OpenSSH's does
//! (`setsid` in `session.c`); where it is not, commands are refused. This module never connects.

use std::fmt::Write as _;

/// What the login shell is told: become `sh`, read a script, run it. No character in it means
/// something else to csh or fish.
pub(super) const BOOTSTRAP: &str =
    r#"exec sh -c 'IFS= read -r weir && eval "$(printf %b "$weir")"'"#;

/// Exit code of the script when the command could not be tried.
pub(super) const CANNOT_TRY: i32 = 125;

/// Parts that are the same for every command; `@MARK@`, `@DIR@` and others are replaced.
const PROLOGUE: &str = r#"PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin"
LC_ALL=C
export PATH LC_ALL
weir_end() { printf '\n%s %s\n' @MARK@ "$1" >&4; exit "$1"; }
exec 4>&2
kill -0 -$$ 2>/dev/null || {
    echo 'the SSH server gives sessions no process group: weir needs an OpenSSH server' >&2
    weir_end 125
}
mkdir -p @DIR@ && chmod 700 @DIR@ && cd @DIR@ || weir_end 125
"#;

const WATCHED: &str = r#"exec 3<&0 <@INPUT@ || weir_end 125
trap weir_signalled=1 TERM INT HUP USR1 USR2 QUIT
(
    trap : TERM INT HUP USR1 USR2 QUIT
    while read -r weir_word weir_argument; do
        case $weir_word in
        signal) kill -"$weir_argument" -$$ ;;
        stop) break ;;
        esac
    done
    kill -TERM -$$
    weir_tenths=${weir_argument:-20}
    while [ "$weir_tenths" -gt 0 ] && kill -0 $$; do
        sleep 0.1
        weir_tenths=$((weir_tenths - 1))
    done
    kill -KILL -$$
) <&3 @OUTPUT@ 2>/dev/null 4>&- &
weir_watcher=$!
exec 3<&-
"#;

/// What this shell itself has to say of how a command ended is nobody's.
const QUIET: &str = "exec 2>/dev/null\n";

/// Hands standard input to the command behind it. The command sees the end of its input only if all
/// of it came: else it is killed before, with this shell. Input that it leaves unread is its own
/// affair. Where its group is found stands in a file until it has ended ([`end_of_fed`]).
const FED: &str = r#"mkfifo @MARK@ 2>&4 && echo $$ >@MARK@.pid || weir_end 125
{
    wc -c <@MARK@ >@MARK@.size &
    tee @MARK@
    weir_code=$?
    wait
    read -r weir_size <@MARK@.size
    rm -f @MARK@ @MARK@.size
    case $weir_code in
    0) [ "$weir_size" = @SIZE@ ] ;;
    126 | 127) false ;;
    esac || {
        rm -f @MARK@.pid
        kill -KILL -$$
    }
} | "#;

const FED_ENDED: &str = "weir_code=$?\nrm -f @MARK@.pid\nweir_end $weir_code\n";

/// The command that ends one that is fed and is not waited for any longer: it does not read, so
/// the end of its input does not reach its shell.
pub(super) fn end_of_fed(mark: &str) -> String {
    format!("kill -KILL -$(cat {mark}.pid); rm -f {mark}*")
}

/// Once a command has ended that was to end, nobody watches what it has left behind.
const ENDED: &str = r#"weir_code=$?
[ -n "$weir_signalled" ] || kill -KILL $weir_watcher
weir_end $weir_code
"#;

/// What a command that stays has left behind ends when it is told to. The watcher holds the output
/// open until then.
const STAYED: &str = "weir_end $?\n";

/// A command to run on a machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Script<'a> {
    /// Working directory; it is made.
    pub(super) directory: &'a str,
    /// Environment variables to set.
    pub(super) environment: &'a [(String, String)],
    /// The mark of the last line.
    pub(super) mark: &'a str,
    /// File that is the command's standard input.
    pub(super) input: &'a str,
    /// The command, for `sh -c`.
    pub(super) command: &'a str,
}

impl Script<'_> {
    /// A command that ends, under a watcher, as the line to write to the bootstrap.
    pub(super) fn ends(&self) -> String {
        self.watched(">/dev/null", ENDED)
    }

    /// The same for a command that stays.
    pub(super) fn stays(&self) -> String {
        self.watched("", STAYED)
    }

    fn watched(&self, output: &str, epilogue: &str) -> String {
        let watched = WATCHED.replace("@INPUT@", &quote(self.input)).replace("@OUTPUT@", output);
        self.line(&format!("{watched}{}{epilogue}", self.run()))
    }

    /// The same with the rest of standard input as the command's own, which is `size_bytes` long.
    pub(super) fn fed(&self, size_bytes: u64) -> String {
        let of_mark = |text: &str| text.replace("@MARK@", self.mark);
        let fed = of_mark(FED).replace("@SIZE@", &size_bytes.to_string());
        self.line(&format!("{QUIET}{fed}{}{}", self.command(), of_mark(FED_ENDED)))
    }

    /// Runs the command. The watcher has descriptor 3, the mark and the command's standard error
    /// are descriptor 4.
    fn run(&self) -> String {
        format!("{QUIET}{}", self.command())
    }

    fn command(&self) -> String {
        format!("sh -c {} 2>&4 4>&-\n", quote(self.command))
    }

    fn line(&self, body: &str) -> String {
        let prologue =
            PROLOGUE.replace("@MARK@", self.mark).replace("@DIR@", &quote(self.directory));
        let mut script = prologue;
        for (name, value) in self.environment {
            let _ = writeln!(script, "{name}={}; export {name}", quote(value));
        }
        script.push_str(body);
        format!("{}\n", escape(&script))
    }
}

/// A word of `sh`, in quotes where it needs them.
#[must_use]
pub fn quote(word: &str) -> String {
    let quoted = shlex::Quoter::new().allow_nul(true).quote(word);
    quoted.expect("shlex refuses a NUL at most").into_owned()
}

/// Text for `printf %b`, without white space, quotes or anything else that a shell looks at.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"_-./:=,@+".contains(&byte) {
            escaped.push(byte.into());
        } else {
            let _ = write!(escaped, "\\0{byte:03o}");
        }
    }
    escaped
}

/// Splits what a script wrote to standard error into the command's own part and its exit code;
/// `None` where the mark is missing: the script did not come to its end.
pub(super) fn split_mark(stderr: &str, mark: &str) -> (String, Option<i32>) {
    let lead = format!("\n{mark} ");
    let Some((written, end)) = stderr.rsplit_once(&lead) else {
        return (stderr.to_owned(), None);
    };
    let (code, rest) = end.split_once('\n').unwrap_or((end, ""));
    (format!("{written}{rest}"), code.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_script_is_one_line_without_anything_special() {
        let script = Script {
            directory: "/tmp/a b",
            environment: &[("PW".to_owned(), "it's".to_owned())],
            mark: "weir-end",
            input: "/dev/null",
            command: "echo \"$HOME\" 'x' ! \\ é\n",
        };
        let line = script.ends();
        assert_eq!(line.matches('\n').count(), 1);
        let special = line.trim_end().bytes().find(|b| b" \"'!$`*?~#;&|<>()%{}[]\t".contains(b));
        assert_eq!(special, None, "{line}");
        assert!(BOOTSTRAP.len() < 100 && !BOOTSTRAP.contains(['!', '\n', '\\']), "{BOOTSTRAP}");
    }

    #[test]
    fn a_command_that_is_fed_sees_the_end_of_its_input_only_if_all_of_it_came() {
        let dir = tempfile::tempdir().unwrap();
        let feed = |size_bytes, content: &str| {
            let script = Script {
                directory: &dir.path().to_string_lossy(),
                environment: &[],
                mark: "weir-end",
                input: "",
                command: "cat >got && echo whole >whole",
            };
            let mut child = Command::new("sh")
                .args(["-c", BOOTSTRAP])
                .process_group(0)
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(script.fed(size_bytes).as_bytes()).unwrap();
            stdin.write_all(content.as_bytes()).unwrap();
            drop(stdin);
            let said = child.wait_with_output().unwrap().stderr;
            let code = split_mark(&String::from_utf8(said).unwrap(), "weir-end").1;
            (code, dir.path().join("whole").exists())
        };
        assert_eq!(feed(9, "too shor"), (None, false));
        assert_eq!(feed(9, "too long !"), (None, false));
        assert_eq!(feed(9, "all of it"), (Some(0), true));
        assert_eq!(std::fs::read(dir.path().join("got")).unwrap(), b"all of it");
    }

    #[test]
    fn the_mark_is_taken_out_wherever_it_stands() {
        assert_eq!(split_mark("a\n\nm 0\n", "m"), ("a\n".to_owned(), Some(0)));
        assert_eq!(split_mark("no end\nm 3\nlate", "m"), ("no endlate".to_owned(), Some(3)));
        assert_eq!(split_mark("a\n", "m"), ("a\n".to_owned(), None));
    }

    #[test]
    fn words_are_quoted_only_where_they_must() {
        assert_eq!(quote("net.inet.ip"), "net.inet.ip");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("$a b"), "'$a b'");
        assert_eq!(quote("it's"), r#""it's""#);
    }
}
