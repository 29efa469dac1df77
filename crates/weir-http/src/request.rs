//! Requests as a client sends them: written once, checked once, sent as they are.

use crate::codec::HEAD_BYTES_MAX;

/// What a request is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestParts<'a> {
    /// A token, such as `GET`; not CONNECT, which opens a tunnel.
    pub method: &'a str,
    /// Path and query: `/b/128?delay=1ms`.
    pub target: &'a str,
    /// The value of Host: a name or an address, with the port if it is not the scheme's own. A
    /// field Host among `fields` goes before it.
    pub host: &'a str,
    /// Further header fields, in this order.
    pub fields: &'a [(String, String)],
    pub body: &'a [u8],
    /// Whether to ask the server to close the connection behind its response.
    pub closes: bool,
}

/// A request that cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Not a token (RFC 9110, section 5.6.2).
    #[error("`{0}` is not a method: write one word such as GET or POST")]
    Method(String),
    /// It asks for a tunnel.
    #[error("CONNECT opens a tunnel, which this client does not do")]
    Tunnel,
    /// Not a path, or with bytes that may not stand in one.
    #[error(
        "`{0}` cannot stand in a request: it begins with `/`, and blanks and anything but ASCII \
         are written as %XX"
    )]
    Target(String),
    /// Not a name of a field, or a value with control characters.
    #[error("`{name}: {value}` is not a header field")]
    Field { name: String, value: String },
    /// Another option says it.
    #[error("{0} is written by weir itself: it follows from the body and from how connections end")]
    Reserved(String),
    /// No server would take it.
    #[error("the request's head has {0} bytes, more than {HEAD_BYTES_MAX}")]
    HeadTooLarge(usize),
}

/// A request, as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestTemplate {
    bytes: Vec<u8>,
    is_head_request: bool,
}

impl RequestTemplate {
    /// Writes a request of HTTP/1.1. Content-Length stands in it if there is a body, or if the
    /// method says that there should be one (RFC 9110, section 8.6).
    ///
    /// # Errors
    ///
    /// When a part may not stand in a request, or is weir's to write: Connection, Content-Length,
    /// Transfer-Encoding, Expect, Upgrade.
    pub fn new(parts: &RequestParts<'_>) -> Result<Self, RequestError> {
        if !is_token(parts.method) {
            return Err(RequestError::Method(parts.method.to_owned()));
        }
        if parts.method == "CONNECT" {
            return Err(RequestError::Tunnel);
        }
        let is_graphic = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !parts.target.starts_with('/') || !is_graphic(parts.target) {
            return Err(RequestError::Target(parts.target.to_owned()));
        }
        let mut head = format!("{} {} HTTP/1.1\r\n", parts.method, parts.target);
        let names_host = |(name, _): &(String, String)| name.eq_ignore_ascii_case("host");
        if !parts.fields.iter().any(names_host) {
            push_field(&mut head, "Host", parts.host)?;
        }
        for (name, value) in parts.fields {
            if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
                return Err(RequestError::Reserved(name.clone()));
            }
            push_field(&mut head, name, value)?;
        }
        if !parts.body.is_empty() || matches!(parts.method, "POST" | "PUT" | "PATCH") {
            push_field(&mut head, "Content-Length", &parts.body.len().to_string())?;
        }
        if parts.closes {
            push_field(&mut head, "Connection", "close")?;
        }
        head.push_str("\r\n");
        if head.len() > HEAD_BYTES_MAX {
            return Err(RequestError::HeadTooLarge(head.len()));
        }
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(parts.body);
        Ok(Self { bytes, is_head_request: parts.method == "HEAD" })
    }

    /// Head and body.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the response has no body whatever its head says.
    #[must_use]
    pub fn is_head_request(&self) -> bool {
        self.is_head_request
    }
}

/// Fields whose value follows from other options, or from what this client does.
const RESERVED: [&str; 5] =
    ["Connection", "Content-Length", "Transfer-Encoding", "Expect", "Upgrade"];

fn push_field(head: &mut String, name: &str, value: &str) -> Result<(), RequestError> {
    let is_value = !value.chars().any(char::is_control) && value.trim() == value;
    if !is_token(name) || !is_value {
        return Err(RequestError::Field { name: name.to_owned(), value: value.to_owned() });
    }
    for part in [name, ": ", value, "\r\n"] {
        head.push_str(part);
    }
    Ok(())
}

/// RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    let is_token_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: RequestParts<'_> = RequestParts {
        method: "GET",
        target: "/b/128",
        host: "10.0.0.1:8080",
        fields: &[],
        body: b"",
        closes: false,
    };

    fn text(parts: &RequestParts<'_>) -> String {
        String::from_utf8(RequestTemplate::new(parts).unwrap().bytes().to_vec()).unwrap()
    }

    #[test]
    fn requests() {
        assert_eq!(text(&PARTS), "GET /b/128 HTTP/1.1\r\nHost: 10.0.0.1:8080\r\n\r\n");
        let fields = [("Accept".to_owned(), "*/*".to_owned()), ("host".to_owned(), "a".to_owned())];
        let parts = RequestParts { fields: &fields, closes: true, method: "HEAD", ..PARTS };
        assert_eq!(
            text(&parts),
            "HEAD /b/128 HTTP/1.1\r\nAccept: */*\r\nhost: a\r\nConnection: close\r\n\r\n"
        );
        assert!(RequestTemplate::new(&parts).unwrap().is_head_request());
        let parts = RequestParts { method: "POST", body: b"x=1", ..PARTS };
        assert!(text(&parts).ends_with("Content-Length: 3\r\n\r\nx=1"));
        let parts = RequestParts { method: "POST", ..PARTS };
        assert!(text(&parts).ends_with("Content-Length: 0\r\n\r\n"));
    }

    #[test]
    fn refusals() {
        let refused = |parts: &RequestParts<'_>| RequestTemplate::new(parts).unwrap_err();
        for method in ["", "GET ", "G\r\n", "Gé"] {
            let parts = RequestParts { method, ..PARTS };
            assert_eq!(refused(&parts), RequestError::Method(method.to_owned()));
        }
        assert_eq!(refused(&RequestParts { method: "CONNECT", ..PARTS }), RequestError::Tunnel);
        for target in ["", "b", "http://a/", "/a b", "/a\r\nX: y", "/é"] {
            let parts = RequestParts { target, ..PARTS };
            assert_eq!(refused(&parts), RequestError::Target(target.to_owned()));
        }
        for (name, value) in [("", "x"), ("A B", "x"), ("A", "x\r\nB: y"), ("A", " x"), ("A:", "")]
        {
            let fields = [(name.to_owned(), value.to_owned())];
            let error = refused(&RequestParts { fields: &fields, ..PARTS });
            assert!(matches!(error, RequestError::Field { .. }), "{name}: {error}");
        }
        let fields = [("content-length".to_owned(), "5".to_owned())];
        let error = refused(&RequestParts { fields: &fields, ..PARTS });
        assert_eq!(error, RequestError::Reserved("content-length".to_owned()));
        let target = format!("/{}", "x".repeat(HEAD_BYTES_MAX));
        let error = refused(&RequestParts { target: &target, ..PARTS });
        assert!(matches!(error, RequestError::HeadTooLarge(_)), "{error}");
    }
}
