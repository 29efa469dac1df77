//! What the test server is asked for: the target of a request, read.
//!
//! A value may be a list with weights, `200:0.9,503:0.1`, of which one item is drawn for each
//! request. It never guesses: what is not understood is an error with a sentence for the client.

use std::borrow::Cow;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use weir_wire::units::{parse_count, parse_duration};

/// Longest body of a reply, bytes.
pub const SIZE_BYTES_MAX: u64 = 1 << 40;
/// Longest delay of a reply.
pub const DELAY_MAX: Duration = Duration::from_secs(3600);

/// What the server says of itself.
pub const USAGE: &str = "\
weir http serve answers:
  /b/SIZE                 a body of so many bytes: /b/128, /b/64Ki, /b/1M
  /b/SIZE?status=CODE     with this status, 200 to 599
  /b/SIZE?delay=TIME      so much later: 10ms, 1s
  /b/SIZE?chunked         with chunked coding; chunked=yes and chunked=no are the same as a value
  /stats                  what all workers together have counted, as JSON
Each value may be a list with weights, of which one is drawn for each request:
  /b/128:0.9,1M:0.1?status=200:0.99,503:0.01&delay=0s:0.9,200ms:0.1
The body of a POST or PUT is counted and thrown away.
";

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A body of some size.
    Content(Content),
    /// The counters.
    Stats,
    /// [`USAGE`].
    Usage,
}

/// A reply whose body means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// 0 to [`SIZE_BYTES_MAX`]; with status 204 or 304 nothing of it is sent.
    pub size_bytes: u64,
    /// 200 to 599.
    pub status: u16,
    /// Between the end of the request and the reply; up to [`DELAY_MAX`].
    pub delay: Duration,
    pub is_chunked: bool,
}

/// Why a request is not served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Status 404.
    #[error("there is nothing at `{0}`")]
    NoPath(String),
    /// Status 400.
    #[error("{0}")]
    Malformed(String),
}

impl AskError {
    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::NoPath(_) => 404,
            Self::Malformed(_) => 400,
        }
    }
}

/// Reads a request's target. `draw` gives random numbers, 32 bits each, one for every list.
///
/// # Errors
///
/// When there is nothing at its path, or a value is not understood.
pub fn read(target: &str, mut draw: impl FnMut() -> u32) -> Result<Ask, AskError> {
    let target = if target.contains('%') {
        let decoded = percent_decode_str(target).decode_utf8();
        decoded.map_err(|_| AskError::Malformed("the target is not UTF-8".to_owned()))?
    } else {
        Cow::Borrowed(target)
    };
    let target = origin_form(&target);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let Some(sizes) = path.strip_prefix("/b/") else {
        let ask = match path {
            "/" => Ask::Usage,
            "/stats" => Ask::Stats,
            _ => return Err(AskError::NoPath(path.to_owned())),
        };
        return match query {
            "" => Ok(ask),
            _ => Err(AskError::Malformed(format!("`{path}` takes no query"))),
        };
    };
    let size_bytes = choose("size", sizes, size, &mut draw)?;
    let mut content = Content { size_bytes, status: 200, delay: Duration::ZERO, is_chunked: false };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "status" => content.status = choose(name, value, status, &mut draw)?,
            "delay" => content.delay = choose(name, value, delay, &mut draw)?,
            "chunked" if value.is_empty() => content.is_chunked = true,
            "chunked" => content.is_chunked = choose(name, value, yes_or_no, &mut draw)?,
            _ => {
                let message = format!("`{name}` is none of status, delay, chunked");
                return Err(AskError::Malformed(message));
            }
        }
    }
    Ok(Ask::Content(content))
}

/// Path and query of a target that may be a whole URL (RFC 9112, section 3.2.2).
fn origin_form(target: &str) -> &str {
    let Some((scheme, rest)) = target.split_once("://") else { return target };
    if scheme.contains('/') {
        return target;
    }
    rest.find('/').map_or("/", |start| &rest[start..])
}

/// One item of `ITEM` or `ITEM:WEIGHT,…`, where all or none of several items have a weight.
fn choose<T>(
    name: &str,
    list: &str,
    parse: impl Fn(&str) -> Result<T, String>,
    draw: &mut impl FnMut() -> u32,
) -> Result<T, AskError> {
    let parse = |item: &str| {
        parse(item).map_err(|reason| AskError::Malformed(format!("{name} `{item}`: {reason}")))
    };
    if !list.contains([',', ':']) {
        return parse(list);
    }
    let mut items = Vec::new();
    for item in list.split(',') {
        items.push(match item.split_once(':') {
            Some((item, weight)) => (parse(item)?, Some(parse_weight(name, weight)?)),
            None => (parse(item)?, None),
        });
    }
    let weighted = items.iter().filter(|(_, weight)| weight.is_some()).count();
    if weighted != 0 && weighted != items.len() {
        let message = format!("{name} `{list}`: give all items a weight, or none");
        return Err(AskError::Malformed(message));
    }
    let total: f64 = items.iter().map(|(_, weight)| weight.unwrap_or(1.0)).sum();
    let mut left = f64::from(draw()) / (f64::from(u32::MAX) + 1.0) * total;
    let mut chosen = None;
    for (item, weight) in items {
        let weight = weight.unwrap_or(1.0);
        // What rounding leaves at the end belongs to the last item that may come at all.
        if weight > 0.0 {
            chosen = Some(item);
            if left < weight {
                break;
            }
        }
        left -= weight;
    }
    chosen.ok_or_else(|| AskError::Malformed(format!("{name} `{list}`: all weights are 0")))
}

fn parse_weight(name: &str, text: &str) -> Result<f64, AskError> {
    let weight = text.parse::<f64>().ok().filter(|weight| (0.0..=1e9).contains(weight));
    weight.ok_or_else(|| {
        AskError::Malformed(format!("{name}: the weight `{text}` is not a number from 0 to 1e9"))
    })
}

fn size(text: &str) -> Result<u64, String> {
    match parse_count(text) {
        Ok(bytes) if bytes <= SIZE_BYTES_MAX => Ok(bytes),
        Ok(_) => Err(format!("at most {SIZE_BYTES_MAX} bytes")),
        Err(error) => Err(error.to_string()),
    }
}

fn status(text: &str) -> Result<u16, String> {
    let code = text.parse::<u16>().ok().filter(|code| (200..=599).contains(code));
    code.ok_or_else(|| "a number from 200 to 599 is needed".to_owned())
}

fn delay(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(delay) if delay <= DELAY_MAX => Ok(delay),
        Ok(_) => Err("an hour is the longest".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("it is yes or no".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: Content =
        Content { size_bytes: 128, status: 200, delay: Duration::ZERO, is_chunked: false };

    fn content(target: &str) -> Content {
        match read(target, || 0) {
            Ok(Ask::Content(content)) => content,
            other => panic!("{target}: {other:?}"),
        }
    }

    #[test]
    fn targets() {
        assert_eq!(content("/b/128"), CONTENT);
        assert_eq!(content("http://host:80/b/128"), CONTENT);
        assert_eq!(content("/b/0?"), Content { size_bytes: 0, ..CONTENT });
        assert_eq!(content("/b/64Ki"), Content { size_bytes: 65_536, ..CONTENT });
        let delay = Duration::from_millis(10);
        let all = Content { status: 503, delay, is_chunked: true, ..CONTENT };
        assert_eq!(content("/b/128?status=503&delay=10ms&chunked"), all);
        assert_eq!(content("/b/128?chunked=yes&delay=10ms&status=503%3A1"), all);
        assert_eq!(read("/", || 0), Ok(Ask::Usage));
        assert_eq!(read("http://host", || 0), Ok(Ask::Usage));
        assert_eq!(read("/stats", || 0), Ok(Ask::Stats));
    }

    #[test]
    fn lists_are_drawn_by_weight() {
        let size_at = |share: f64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
            let draw = (share * f64::from(u32::MAX)) as u32;
            match read("/b/1:0.5,2:0,3:0.25,4:0.25", || draw) {
                Ok(Ask::Content(content)) => content.size_bytes,
                other => panic!("{other:?}"),
            }
        };
        let drawn = [0.0, 0.49, 0.51, 0.74, 0.76, 1.0].map(size_at);
        assert_eq!(drawn, [1, 1, 3, 3, 4, 4]);
        assert_eq!(content("/b/5,6,7"), Content { size_bytes: 5, ..CONTENT });
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (target, status, part) in [
            ("/c", 404, "nothing at `/c`"),
            ("*", 404, "nothing at `*`"),
            ("/b/", 400, "size ``"),
            ("/b/x", 400, "size `x`"),
            ("/b/1025Gi", 400, "at most"),
            ("/b/1?status=199", 400, "200 to 599"),
            ("/b/1?delay=10", 400, "no unit"),
            ("/b/1?delay=2h", 400, "an hour"),
            ("/b/1?chunked=1", 400, "yes or no"),
            ("/b/1?colour=red", 400, "`colour` is none of"),
            ("/b/1:0.5,2", 400, "all items a weight"),
            ("/b/1:-1,2:1", 400, "the weight `-1`"),
            ("/b/1:0,2:0", 400, "all weights are 0"),
            ("/b/%ff", 400, "UTF-8"),
            ("/stats?x", 400, "takes no query"),
        ] {
            let error = read(target, || 0).unwrap_err();
            assert_eq!(error.status(), status, "{target}");
            assert!(error.to_string().contains(part), "{target}: {error}");
        }
    }
}
