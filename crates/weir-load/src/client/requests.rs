//! The requests of a worker as bytes: written once, and chosen by their weights.

use std::fs;

use weir_http::pacing::unit;
use weir_http::request::{RequestError, RequestParts, RequestTemplate};

use super::config::{BodyConfig, RequestConfig};

/// What stands for a size in a target.
pub const SIZE_MARK: &str = "{size}";

/// Why there are no requests.
#[derive(Debug, thiserror::Error)]
pub enum RequestsError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("cannot read the body from {path}: {source}")]
    Body { path: String, source: std::io::Error },
    #[error("a body of {0} bytes is too large: at most {BODY_BYTES_MAX}")]
    TooLarge(u64),
}

/// Longest body: it is in memory, for each worker and each of the sizes.
const BODY_BYTES_MAX: u64 = 1 << 30;

/// Requests that differ in the size that they ask for.
#[derive(Debug)]
pub struct Requests {
    /// The sum of the weights up to each, as a share of all; ascending, the last is 1.
    up_to: Vec<f64>,
    /// For a connection that goes on.
    kept: Vec<RequestTemplate>,
    /// For one that the server shall close.
    last: Vec<RequestTemplate>,
}

impl Requests {
    /// Writes them.
    ///
    /// # Errors
    ///
    /// If a part may not stand in a request, or the body cannot be read.
    pub fn new(config: &RequestConfig) -> Result<Self, RequestsError> {
        let body = body(&config.body)?;
        let (mut kept, mut last) = (Vec::new(), Vec::new());
        for target in targets(config) {
            for (closes, list) in [(false, &mut kept), (true, &mut last)] {
                list.push(RequestTemplate::new(&RequestParts {
                    method: &config.method,
                    target: &target,
                    host: &config.host,
                    fields: &config.headers,
                    body: &body,
                    closes,
                })?);
            }
        }
        let all: f64 = config.sizes.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        let up_to = config.sizes.iter().map(|(_, weight)| {
            sum += weight;
            sum / all
        });
        Ok(Self { up_to: up_to.collect(), kept, last })
    }

    /// Which one comes next, by 64 random bits.
    #[must_use]
    pub fn choose(&self, draw: u64) -> usize {
        let share = unit(draw);
        let chosen = self.up_to.iter().position(|up_to| share < *up_to);
        chosen.unwrap_or(self.kept.len() - 1)
    }

    /// Whether the choice needs random bits.
    #[must_use]
    pub fn is_mixed(&self) -> bool {
        self.kept.len() > 1
    }

    /// One of them; `closes` asks the server to close the connection.
    #[must_use]
    pub fn get(&self, index: usize, closes: bool) -> &RequestTemplate {
        if closes { &self.last[index] } else { &self.kept[index] }
    }

    /// Whether all of them can be sent again by themselves when a server has closed an idle
    /// connection (RFC 9110 section 9.2.2).
    #[must_use]
    pub fn is_idempotent(config: &RequestConfig) -> bool {
        matches!(config.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
    }
}

fn body(config: &BodyConfig) -> Result<Vec<u8>, RequestsError> {
    let path = match config {
        BodyConfig::None => return Ok(Vec::new()),
        BodyConfig::Size(bytes) => {
            let size = usize::try_from(*bytes).ok().filter(|_| *bytes <= BODY_BYTES_MAX);
            return Ok(vec![b'x'; size.ok_or(RequestsError::TooLarge(*bytes))?]);
        }
        BodyConfig::File(path) => path,
    };
    let failed = |source| RequestsError::Body { path: path.display().to_string(), source };
    let size_bytes = fs::metadata(path).map_err(failed)?.len();
    if size_bytes > BODY_BYTES_MAX {
        return Err(RequestsError::TooLarge(size_bytes));
    }
    fs::read(path).map_err(failed)
}

fn targets(config: &RequestConfig) -> Vec<String> {
    if config.sizes.is_empty() {
        return vec![config.target.clone()];
    }
    let sizes = config.sizes.iter();
    sizes.map(|(size, _)| config.target.replace(SIZE_MARK, &size.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::random::splitmix64;

    fn config() -> RequestConfig {
        RequestConfig {
            method: "GET".into(),
            target: "/b/{size}".into(),
            host: "10.0.0.1".into(),
            headers: Vec::new(),
            body: BodyConfig::None,
            sizes: vec![(128, 3.0), (16_384, 1.0)],
        }
    }

    #[test]
    fn sizes_are_asked_for_by_their_weights() {
        let requests = Requests::new(&config()).unwrap();
        let large = (0..4000).filter(|draw| requests.choose(splitmix64(1, *draw)) == 1).count();
        // 1,000, give or take four standard deviations; the seed is fixed.
        assert!((890..1110).contains(&large), "{large}");
        assert_eq!((requests.choose(0), requests.choose(u64::MAX)), (0, 1));
        let text = |index, closes| {
            String::from_utf8(requests.get(index, closes).bytes().to_vec()).unwrap()
        };
        assert!(text(1, false).starts_with("GET /b/16384 HTTP/1.1\r\n"), "{}", text(1, false));
        assert!(text(0, true).contains("\r\nConnection: close\r\n"), "{}", text(0, true));
        assert!(!text(0, false).contains("Connection"), "{}", text(0, false));
    }

    #[test]
    fn bodies_are_of_their_size() {
        let body = BodyConfig::Size(3);
        let one = RequestConfig { method: "POST".into(), body, sizes: Vec::new(), ..config() };
        let requests = Requests::new(&RequestConfig { target: "/".into(), ..one.clone() }).unwrap();
        assert!(requests.get(0, false).bytes().ends_with(b"Content-Length: 3\r\n\r\nxxx"));
        assert!(!requests.is_mixed() && !Requests::is_idempotent(&one));
        let file = BodyConfig::File("/there/is/none".into());
        let error = Requests::new(&RequestConfig { body: file, ..config() }).unwrap_err();
        assert!(error.to_string().contains("/there/is/none"), "{error}");
        let error = Requests::new(&RequestConfig { target: "b".into(), ..config() }).unwrap_err();
        assert!(matches!(error, RequestsError::Request(RequestError::Target(_))), "{error}");
    }
}
