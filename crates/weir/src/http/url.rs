//! URLs of `weir http`: their parts, and the server that they name.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use anyhow::{Context as _, bail};

const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Parts of a URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) is_tls: bool,
    /// Name or address, and port, as in the URL: the value of Host.
    pub(super) host: String,
    /// The name or the address, without brackets: what a certificate has.
    pub(super) name: String,
    pub(super) port: u16,
    /// Path and query.
    pub(super) target: String,
}

impl Url {
    pub(super) fn parse(url: &str) -> anyhow::Result<Self> {
        let (is_tls, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some((scheme, _)) => {
                bail!("`{url}` begins with `{scheme}`: only http:// and https:// are supported")
            }
            None => bail!("`{url}` is not a URL: write http://ADDRESS[:PORT][/PATH]"),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, target) = rest.split_at(end);
        let target = match target.split('#').next().unwrap_or_default() {
            path if path.starts_with('/') => path.to_owned(),
            query => format!("/{query}"),
        };
        let default_port = if is_tls { HTTPS_PORT } else { HTTP_PORT };
        let Some((name, port)) = name_and_port(host, default_port) else {
            bail!(
                "`{host}` in `{url}` is not an address or a name, with a port or without: write \
                 10.0.0.1, [2001:db8::1]:8080 or www.example.org"
            );
        };
        Ok(Self { is_tls, host: host.to_owned(), name: name.to_owned(), port, target })
    }

    /// Where the server is: the first address of its name that `resolve` knows, of the IP version
    /// that connections come from.
    pub(super) fn server(
        &self,
        source: Option<IpAddr>,
        resolve: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>>,
    ) -> anyhow::Result<SocketAddr> {
        let server = match self.name.parse::<IpAddr>() {
            Ok(address) => SocketAddr::new(address, self.port),
            Err(_) => self.look_up(source, resolve)?,
        };
        if server.ip().is_multicast() || server.ip().is_unspecified() || server.port() == 0 {
            bail!("`{}` is not the address and port of a server", self.host);
        }
        Ok(server)
    }

    fn look_up(
        &self,
        source: Option<IpAddr>,
        resolve: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>>,
    ) -> anyhow::Result<SocketAddr> {
        let name = &self.name;
        let found = resolve(name, self.port).with_context(|| {
            format!(
                "`{name}` has no address that this machine knows (`getent hosts {name}`): write \
                 the address into the URL, and the name as --header 'Host: {name}'"
            )
        })?;
        let is_usable = |address: &&SocketAddr| {
            source.is_none_or(|source| source.is_ipv4() == address.is_ipv4())
        };
        found.iter().find(is_usable).copied().with_context(|| {
            let version = match source {
                Some(IpAddr::V4(_)) => "IPv4 ",
                Some(IpAddr::V6(_)) => "IPv6 ",
                None => "",
            };
            format!("`{name}` has no {version}address to connect to")
        })
    }
}

/// Asks the system's resolver, once.
pub(super) fn resolve(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    (name, port).to_socket_addrs().map(Iterator::collect)
}

/// `NAME`, `NAME:PORT`, `ADDRESS`, `ADDRESS:PORT`, `[ADDRESS]`, `[ADDRESS]:PORT`.
fn name_and_port(host: &str, default_port: u16) -> Option<(&str, u16)> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            let port = if port.is_empty() { None } else { Some(port.strip_prefix(':')?) };
            (address, port)
        }
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        },
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_name) {
        return None;
    }
    Some((name, port.map_or(Some(default_port), |port| port.parse().ok())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_server_and_a_path() {
        for (text, is_tls, name, port, host, target) in [
            ("http://10.0.0.1", false, "10.0.0.1", 80, "10.0.0.1", "/"),
            ("http://10.0.0.1:81/b?x=1#t", false, "10.0.0.1", 81, "10.0.0.1:81", "/b?x=1"),
            ("http://10.0.0.1?x", false, "10.0.0.1", 80, "10.0.0.1", "/?x"),
            ("http://10.0.0.1#x", false, "10.0.0.1", 80, "10.0.0.1", "/"),
            ("http://[2001:2::1]/a", false, "2001:2::1", 80, "[2001:2::1]", "/a"),
            ("https://[2001:2::1]:81/", true, "2001:2::1", 81, "[2001:2::1]:81", "/"),
            ("https://a-b.example/x", true, "a-b.example", 443, "a-b.example", "/x"),
            ("https://a.example:8443", true, "a.example", 8443, "a.example:8443", "/"),
        ] {
            let (name, host, target) = (name.into(), host.into(), target.into());
            let expected = Url { is_tls, host, name, port, target };
            assert_eq!(Url::parse(text).unwrap(), expected, "{text}");
        }
        for (text, word) in [
            ("ftp://10.0.0.1/", "`ftp`"),
            ("10.0.0.1/", "is not a URL"),
            ("http:///x", "not an address or a name"),
            ("http://me@a.example/", "not an address or a name"),
            ("http://2001:2::1/", "not an address or a name"),
            ("http://[10.0.0.1]/", "not an address or a name"),
            ("http://a.example:x/", "not an address or a name"),
        ] {
            let error = Url::parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_name_is_looked_up_for_the_version_of_the_source() {
        let known = |name: &str, port| match name {
            "a.example" => {
                Ok(vec![([10, 0, 0, 1], port).into(), SocketAddr::new([0x2001; 8].into(), port)])
            }
            "empty.example" => Ok(Vec::new()),
            _ => Err(io::Error::other("no such name")),
        };
        let server = |text: &str, source: Option<&str>| {
            let source = source.map(|source| source.parse().unwrap());
            Url::parse(text).unwrap().server(source, known)
        };
        let found = |text, source| server(text, source).unwrap().to_string();
        assert_eq!(found("http://a.example/", None), "10.0.0.1:80");
        assert_eq!(found("https://a.example/", Some("198.18.0.1")), "10.0.0.1:443");
        let six = "[2001:2001:2001:2001:2001:2001:2001:2001]:81";
        assert_eq!(found("http://a.example:81/", Some("2001:2::1")), six);
        assert_eq!(found("http://[2001:2::9]/", None), "[2001:2::9]:80");
        for (text, word) in [
            ("http://b.example/", "getent hosts b.example"),
            ("http://empty.example/", "no address to connect to"),
            ("http://0.0.0.0/", "not the address and port"),
            ("http://a.example:0/", "not the address and port"),
        ] {
            let error = server(text, None).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn the_system_knows_this_machine() {
        let addresses = resolve("localhost", 80).unwrap();
        assert!(!addresses.is_empty());
        assert!(addresses.iter().all(|address| address.ip().is_loopback()), "{addresses:?}");
    }
}
