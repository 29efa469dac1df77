//! What ssh(1) says when it cannot connect, in terms of what is wrong and what to do.
//!
//! ssh has one exit code for all of it, so its words decide; they have not changed for many years,
//! and what is not known is handed on as it is. Taken from OpenSSH's `sshconnect.c`, `ssh.c` and
//! `packet.c`. This module never connects.

/// What is wrong with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Complaint {
    /// The machine has another key than the one that is known.
    WrongHostKey,
    /// No key of the machine is known.
    UnknownHostKey,
    /// The machine takes none of our keys.
    KeyRefused,
    NobodyListens,
    NoAnswer,
    /// The name has no address.
    UnknownName,
    /// The server hung up before it asked who we are.
    HungUp,
    /// The configuration or a key file is at fault.
    Local,
    /// Anything else.
    Other,
}

impl Complaint {
    /// Reads what ssh wrote.
    pub(super) fn read(said: &str) -> Self {
        const PHRASES: [(&str, Complaint); 18] = [
            ("REMOTE HOST IDENTIFICATION HAS CHANGED", Complaint::WrongHostKey),
            ("key is known for", Complaint::UnknownHostKey),
            ("Host key verification failed", Complaint::WrongHostKey),
            ("Permission denied (", Complaint::KeyRefused),
            ("Too many authentication failures", Complaint::KeyRefused),
            ("Could not resolve hostname", Complaint::UnknownName),
            ("Connection refused", Complaint::NobodyListens),
            ("Connection timed out", Complaint::NoAnswer),
            ("Operation timed out", Complaint::NoAnswer),
            ("No route to host", Complaint::NoAnswer),
            ("Host is down", Complaint::NoAnswer),
            ("Network is unreachable", Complaint::NoAnswer),
            ("timed out during banner exchange", Complaint::HungUp),
            ("kex_exchange_identification", Complaint::HungUp),
            ("Connection closed by", Complaint::HungUp),
            ("Bad configuration option", Complaint::Local),
            ("Can't open user config file", Complaint::Local),
            // There is no ssh.
            ("No such file or directory (os error 2)", Complaint::Local),
        ];
        let found = PHRASES.iter().find(|(phrase, _)| said.contains(phrase));
        found.map_or(Self::Other, |&(_, complaint)| complaint)
    }

    /// Whether waiting may help: a machine that is starting passes through these.
    pub(super) fn may_pass(self) -> bool {
        matches!(self, Self::NobodyListens | Self::NoAnswer | Self::HungUp | Self::Other)
    }

    /// A message: what is wrong, and what to do next. `destination` is as ssh was given it,
    /// `ssh` the beginning of a command by which the user can try it.
    pub(super) fn explain(self, destination: &str, ssh: &str, said: &str) -> String {
        let last = said.lines().map(str::trim).rfind(|l| !l.is_empty()).unwrap_or("nothing");
        match self {
            Self::WrongHostKey => wrong_host_key(destination, ssh, said),
            Self::UnknownHostKey => format!(
                "the host key of {destination} is not known here: compare it with the machine's \
                 own (on its console: `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`), then \
                 run `{ssh}` once and accept it"
            ),
            Self::KeyRefused => format!(
                "{destination} refuses the login ({last}): weir never types a password; put a \
                 public key there (`ssh-copy-id {destination}`), load the agent (`ssh-add -l`), \
                 and see that `{ssh} -o BatchMode=yes true` works"
            ),
            Self::NobodyListens => format!(
                "{destination} has nothing listening for SSH ({last}): start its sshd, or \
                 correct the port in the SSH configuration"
            ),
            Self::NoAnswer => format!(
                "{destination} does not answer ({last}): it is down or cannot be reached from \
                 here; look at its console, and at the way there with `{ssh} -v true`"
            ),
            Self::UnknownName => format!(
                "the name of {destination} has no address ({last}): correct `ssh` in the \
                 specification, or name it in ~/.ssh/config or /etc/hosts"
            ),
            Self::HungUp => format!(
                "{destination} answers, but its SSH server hangs up ({last}): it may still be \
                 starting, or be out of memory or connections; try `{ssh} true`"
            ),
            Self::Local => format!(
                "ssh cannot be used as it is set up here: {last}; see that `{ssh} true` works, and \
                 that ssh is installed (Debian: openssh-client)"
            ),
            Self::Other => format!("ssh cannot connect to {destination}: {last}; try `{ssh} -v`"),
        }
    }
}

/// Names the file and line of the known key, and the one that came instead.
fn wrong_host_key(destination: &str, ssh: &str, said: &str) -> String {
    let after = |lead: &str| {
        let line = said.lines().find_map(|line| line.split_once(lead))?.1;
        Some(line.trim().trim_end_matches('.').to_owned())
    };
    let known = said
        .lines()
        .filter(|line| line.starts_with("Offending "))
        .find_map(|line| line.split_once(" key in "))
        .map(|(_, place)| place.trim().to_owned());
    let fingerprint =
        said.lines().map(|l| l.trim().trim_end_matches('.')).find(|l| l.starts_with("SHA256:"));
    let name = after("Host key for ").map(|rest| rest.replace(" has changed and you", ""));
    let name = name.as_deref().and_then(|n| n.split_whitespace().next());
    let name = name.unwrap_or(destination);
    let shown = fingerprint.map_or_else(String::new, |f| format!(" (it is {f} now)"));
    let place = known.as_deref().unwrap_or("the known hosts file");
    let file = place.rsplit_once(':').map_or(place, |(file, _)| file);
    format!(
        "the host key of {destination} is not the one in {place}{shown}: if the machine was \
         reinstalled, compare the key on its console, run `ssh-keygen -R {name} -f {file}` and \
         then `{ssh}` once; if not, another machine is answering in its place"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As OpenSSH 9.2 writes it.
    const CHANGED: &str = "\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\r
The fingerprint for the ED25519 key sent by the remote host is\r
SHA256:Zr2Ej5P0s4P7bKZ7q5mY1sPz1Jx9xvY0d0wqg1yJ2nE.\r
Please contact your system administrator.\r
Add correct host key in /home/u/.ssh/known_hosts to get rid of this message.\r
Offending ED25519 key in /home/u/.ssh/known_hosts:7\r
Host key for [10.0.0.9]:2222 has changed and you have requested strict checking.\r
Host key verification failed.\r
";

    #[test]
    fn a_changed_key_is_told_with_both_places() {
        assert_eq!(Complaint::read(CHANGED), Complaint::WrongHostKey);
        let text = Complaint::WrongHostKey.explain("dut", "ssh dut", CHANGED);
        assert!(text.contains("/home/u/.ssh/known_hosts:7"), "{text}");
        assert!(text.contains("SHA256:Zr2Ej5P0s4P7bKZ7q5mY1sPz1Jx9xvY0d0wqg1yJ2nE now"), "{text}");
        assert!(
            text.contains("ssh-keygen -R [10.0.0.9]:2222 -f /home/u/.ssh/known_hosts`"),
            "{text}"
        );
    }

    #[test]
    fn each_complaint_has_its_own_next_step() {
        let cases = [
            (
                "No ED25519 host key is known for 10.0.0.9 and you have requested strict \
                 checking.\r\nHost key verification failed.\r\n",
                Complaint::UnknownHostKey,
                "accept it",
            ),
            (
                "root@10.0.0.9: Permission denied (publickey,password).",
                Complaint::KeyRefused,
                "ssh-copy-id",
            ),
            (
                "ssh: connect to host 10.0.0.9 port 22: Connection refused",
                Complaint::NobodyListens,
                "start its sshd",
            ),
            (
                "ssh: connect to host 10.0.0.9 port 22: Connection timed out",
                Complaint::NoAnswer,
                "look at its console",
            ),
            (
                "ssh: connect to host 10.0.0.9 port 22: No route to host",
                Complaint::NoAnswer,
                "look at its console",
            ),
            (
                "ssh: Could not resolve hostname dut: Name or service not known",
                Complaint::UnknownName,
                "~/.ssh/config",
            ),
            (
                "kex_exchange_identification: Connection closed by remote host",
                Complaint::HungUp,
                "still be starting",
            ),
            ("command-line: line 0: Bad configuration option: x", Complaint::Local, "set up here"),
            ("something new", Complaint::Other, "something new"),
        ];
        for (said, expected, next) in cases {
            let complaint = Complaint::read(said);
            assert_eq!(complaint, expected, "{said}");
            let text = complaint.explain("root@10.0.0.9", "ssh root@10.0.0.9", said);
            assert!(text.contains(next), "{text}");
        }
    }
}
