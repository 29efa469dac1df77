//! The decoders, held against every way to cut a message into pieces, and against hyper.

use std::future::poll_fn;
use std::pin::Pin;

use hyper::body::Body as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weir_http::codec::{
    DecodeError, Ending, Event, FIELD_COUNT_MAX, HEAD_BYTES_MAX, INTERIM_COUNT_MAX, RequestDecoder,
    RequestHead, ResponseDecoder, ResponseHead, Step,
};

/// Responses as servers send them, well and badly; all end with the connection.
const RESPONSES: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\nConnection: close\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, and more than was said",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nhello",
    "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 200 OK\nContent-Length: 2\n\nab",
    "\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 404 Not Found\r\nServer: x\r\nContent-Length: 3\r\nDate: y\r\n\r\nno\n",
    "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nRetry-After: 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\n\r\nuntil the end",
    "HTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.0 200 OK\r\n\r\nold, until the end",
    "HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nold",
    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n00A\r\n0123456789\r\n\
     0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \t\r\nab\r\n0\r\nA: b\r\nC: d\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nanything",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\nhello\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\nx",
    "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
     HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 20",
    "",
    "HTTP/1.1 200 OK\r\nContent-Le",
    "HTTP/1.1 200 OK\r\nX: folded\r\n  value\r\nContent-Length:\r\n\t5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip,\r\n chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\n folded first: x\r\nContent-Length: 0\r\n\r\n",
    "HTTP/2 200 OK\r\n\r\n",
    "HTTP/1.1 OK\r\n\r\n",
    "HTTP/1.1 099 Low\r\n\r\n",
    "HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA: x\x01y\r\n\r\n",
    "SSH-2.0-OpenSSH_9.2\r\n",
    "<html>no head at all</html>",
];

/// What a decoder made of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen<H> {
    head: Option<H>,
    body: Vec<u8>,
    end: Result<&'static str, DecodeError>,
}

/// Decodes one message; `decode` is a decoder's. What it says about the end of the connection is
/// asked only if the message is not complete before.
fn seen<H>(
    pieces: &[&[u8]],
    mut decode: impl FnMut(&[u8]) -> Result<Step<H>, DecodeError>,
) -> (Seen<H>, bool) {
    let mut seen = Seen { head: None, body: Vec::new(), end: Ok("complete") };
    for piece in pieces {
        let mut at = 0;
        loop {
            let step = match decode(&piece[at..]) {
                Ok(step) => step,
                Err(error) => {
                    seen.end = Err(error);
                    return (seen, true);
                }
            };
            at += step.used_bytes;
            match step.event {
                Event::Head(head) => {
                    assert!(seen.head.replace(head).is_none(), "two heads");
                }
                Event::Body(size) => {
                    assert!(size > 0 && seen.head.is_some());
                    seen.body.extend_from_slice(&piece[at - size..at]);
                }
                Event::Done => return (seen, true),
                Event::More => break,
            }
        }
        assert_eq!(at, piece.len(), "bytes are left over");
    }
    (seen, false)
}

fn response(pieces: &[&[u8]], is_head_request: bool) -> Seen<ResponseHead> {
    let mut decoder = ResponseDecoder::new();
    decoder.begin(is_head_request);
    let (mut seen, is_over) = seen(pieces, |bytes| decoder.decode(bytes));
    if !is_over {
        seen.end = match decoder.end() {
            Ok(Ending::Done) => Ok("complete"),
            Ok(Ending::Idle) => Ok("nothing"),
            Err(error) => Err(error),
        };
    }
    seen
}

fn request(pieces: &[&[u8]]) -> Seen<RequestHead> {
    let mut decoder = RequestDecoder::new();
    let (mut seen, is_over) = seen(pieces, |bytes| decoder.decode(bytes));
    if !is_over {
        seen.end = if decoder.is_idle() { Ok("nothing") } else { Err(DecodeError::Short) };
    }
    seen
}

/// Every cut in two, and every byte by itself.
fn cuts(bytes: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    let in_two = (0..=bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]);
    in_two.chain([bytes.chunks(1).collect()])
}

#[test]
fn every_cut_of_every_response_gives_the_same() {
    for text in RESPONSES {
        for is_head_request in [false, true] {
            let bytes = text.as_bytes();
            let whole = response(&[bytes], is_head_request);
            for pieces in cuts(bytes) {
                assert_eq!(response(&pieces, is_head_request), whole, "{text:?} as {pieces:?}");
            }
        }
    }
}

#[test]
fn responses_end_as_they_should() {
    let ends = |end: Result<&'static str, DecodeError>| {
        let is = |text: &&&str| response(&[text.as_bytes()], false).end == end;
        RESPONSES.iter().filter(is).count()
    };
    assert_eq!(ends(Ok("nothing")), 1);
    assert_eq!(ends(Err(DecodeError::Short)), 7);
    assert_eq!(ends(Err(DecodeError::Length)), 3);
    assert_eq!(ends(Err(DecodeError::Coding)), 1);
    assert_eq!(ends(Err(DecodeError::Chunk)), 4);
    let upgrade = response(&[b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"], false);
    assert_eq!(upgrade.end, Err(DecodeError::Upgrade));
}

#[test]
fn heads_have_limits() {
    let fields = |count: usize| {
        let fields: String = (0..count).map(|at| format!("X-{at}: y\r\n")).collect();
        format!("HTTP/1.1 204 No Content\r\n{fields}\r\n").into_bytes()
    };
    assert_eq!(response(&[&fields(FIELD_COUNT_MAX)], false).end, Ok("complete"));
    let too_many = response(&[&fields(FIELD_COUNT_MAX + 1)], false);
    assert_eq!(too_many.end, Err(DecodeError::HeadTooLarge));
    for (more, end) in [(0, Ok("complete")), (1, Err(DecodeError::TooManyInterim))] {
        let interim =
            "HTTP/1.1 102 Processing\r\n\r\n".repeat(usize::from(INTERIM_COUNT_MAX) + more);
        let text = interim + RESPONSES[0];
        assert_eq!(response(&[text.as_bytes()], false).end, end);
    }
    let start = "HTTP/1.1 204 No Content\r\nX: ";
    for (size, end) in [(0, Ok("complete")), (1, Err(DecodeError::HeadTooLarge))] {
        let value = "y".repeat(HEAD_BYTES_MAX - start.len() - 4 + size);
        let text = format!("{start}{value}\r\n\r\n");
        for piece in [1000, text.len()] {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(piece).collect();
            assert_eq!(response(&pieces, false).end, end, "in pieces of {piece}");
        }
    }
}

#[test]
fn one_decoder_reads_responses_one_after_the_other() {
    let mut decoder = ResponseDecoder::new();
    for text in [RESPONSES[0], RESPONSES[20], RESPONSES[34]] {
        decoder.begin(false);
        let (seen, is_over) = seen(&[text.as_bytes()], |bytes| decoder.decode(bytes));
        assert!(is_over && seen.end == Ok("complete"), "{seen:?}");
        assert_eq!(decoder.end(), Ok(Ending::Idle));
    }
}

#[test]
fn bytes_that_are_thrown_away_unread_count() {
    let mut decoder = ResponseDecoder::new();
    decoder.begin(false);
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";
    decoder.decode(head).unwrap();
    assert_eq!(decoder.due_bytes(), 100);
    decoder.skip(99);
    assert_eq!(decoder.decode(b"").unwrap().event, Event::More);
    decoder.skip(1);
    assert_eq!(decoder.decode(b"").unwrap().event, Event::Done);
    assert_eq!(decoder.due_bytes(), 0);
}

/// What hyper's client makes of a response that comes in pieces: status, body, and whether both are
/// complete.
async fn by_hyper(pieces: Vec<Vec<u8>>, method: &str) -> (Option<u16>, Vec<u8>, bool) {
    let (client, mut server) = tokio::io::duplex(1 << 20);
    let mut builder = http1::Builder::new();
    builder.allow_obsolete_multiline_headers_in_responses(true);
    let (mut sender, connection) = builder.handshake(TokioIo::new(client)).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    tokio::spawn(async move {
        let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
        while !request.ends_with(b"\r\n\r\n") {
            let size = server.read(&mut buffer).await.unwrap();
            assert!(size > 0, "no request");
            request.extend_from_slice(&buffer[..size]);
        }
        // The client may have seen enough before all is written.
        for piece in pieces {
            drop(server.write_all(&piece).await);
            tokio::task::yield_now().await;
        }
    });
    let request = hyper::Request::builder().method(method).uri("/").header("host", "x");
    let sent = sender.send_request(request.body(String::new()).unwrap()).await;
    let Ok(response) = sent else { return (None, Vec::new(), false) };
    let (status, mut body) = (response.status().as_u16(), response.into_body());
    let mut bytes = Vec::new();
    loop {
        match poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            None => return (Some(status), bytes, true),
            Some(Err(_)) => return (Some(status), bytes, false),
            Some(Ok(frame)) => bytes.extend(frame.into_data().iter().flatten()),
        }
    }
}

#[test]
fn hyper_sees_the_same_of_every_cut() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for text in RESPONSES {
        for (method, is_head_request) in [("GET", false), ("HEAD", true)] {
            for pieces in cuts(text.as_bytes()) {
                let seen = response(&pieces, is_head_request);
                let ours =
                    (seen.head.map(|head| head.status), seen.body, seen.end == Ok("complete"));
                let given = pieces.iter().map(|piece| piece.to_vec()).collect();
                let theirs = runtime.block_on(by_hyper(given, method));
                let case = format!("{method} {text:?} as {pieces:?}");
                assert_eq!((ours.0, ours.2), (theirs.0, theirs.2), "{case}");
                // Of a body that is not complete, hyper may not hand out all that it has.
                assert!(ours.1.starts_with(&theirs.1), "{case}");
                assert!(!ours.2 || ours.1 == theirs.1, "{case}");
            }
        }
    }
}

/// Requests, and what becomes of them: status of an error, or bytes of the body.
const REQUESTS: &[(&str, Result<usize, u16>)] = &[
    ("GET /b/128?a=b HTTP/1.1\r\nHost: x\r\n\r\n", Ok(0)),
    ("GET http://x/b/1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Ok(0)),
    ("HEAD / HTTP/1.0\r\n\r\n", Ok(0)),
    ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Ok(0)),
    ("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", Ok(0)),
    ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", Ok(5)),
    ("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", Ok(0)),
    ("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx", Ok(1)),
    ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", Ok(2)),
    (
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked,\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        Ok(2),
    ),
    ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nabc\r\n", Err(400)),
    ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", Err(400)),
    ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Err(400)),
    (
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
        Err(400),
    ),
    ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Err(400)),
    ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", Err(400)),
    ("GET / HTTP/1.1\r\n\r\n", Err(400)),
    ("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", Err(400)),
    ("GET  / HTTP/1.1\r\nHost: x\r\n\r\n", Err(400)),
    ("GET / HTTP/1.1\r\nHost : x\r\n\r\n", Err(400)),
    ("GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", Err(400)),
    ("DELETE / HTTP/1.1\r\nHost: x\r\n\r\n", Err(501)),
    ("CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", Err(501)),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Err(505)),
    ("GET /\r\n\r\n", Err(400)),
    ("\x16\x03\x01\x02\x00\x01", Err(400)),
];

#[test]
fn every_cut_of_every_request_gives_the_same() {
    for (text, expected) in REQUESTS {
        let whole = request(&[text.as_bytes()]);
        let result = match whole.end {
            Ok("complete") => Ok(whole.body.len()),
            Ok(end) => panic!("{end}: {text:?}"),
            Err(error) => Err(error.status()),
        };
        assert_eq!(result, *expected, "{text:?}: {whole:?}");
        for pieces in cuts(text.as_bytes()) {
            assert_eq!(request(&pieces), whole, "{text:?} as {pieces:?}");
        }
    }
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(HEAD_BYTES_MAX));
    let end = request(&[long.as_bytes()]).end;
    assert_eq!(end.map_err(DecodeError::status), Err(431));
}

/// Chunks of these bytes, with an extension each.
fn chunked(chunks: &[Vec<u8>], extension: &str) -> Vec<u8> {
    let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in chunks {
        bytes.extend_from_slice(format!("{:X};{extension}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\nA: b\r\n\r\n");
    bytes
}

proptest! {
    #[test]
    fn chunks_come_out_as_they_went_in(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..6),
        extension in "[a-z=\"]{0,20}",
        sizes in prop::collection::vec(1_usize..200, 1..40),
    ) {
        let bytes = chunked(&chunks, &extension);
        let (mut pieces, mut rest) = (Vec::new(), &bytes[..]);
        for size in sizes {
            let (piece, after) = rest.split_at(size.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        let seen = response(&pieces, false);
        prop_assert_eq!(seen.end, Ok("complete"));
        prop_assert_eq!(seen.body, chunks.concat());
    }

    #[test]
    fn no_bytes_make_a_decoder_panic_or_say_another_thing_when_cut(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        start in prop::sample::select(RESPONSES),
        keep in 0_usize..100,
    ) {
        let mut message = start.as_bytes()[..keep.min(start.len())].to_vec();
        message.extend_from_slice(&bytes);
        let whole = response(&[&message], false);
        for pieces in cuts(&message) {
            prop_assert_eq!(&response(&pieces, false), &whole);
        }
        // It must end, whatever it says.
        request(&[&message]);
    }
}
