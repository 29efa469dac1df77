//! As much of generic netlink (`Documentation/userspace-api/netlink/intro.rst` in the kernel
//! tree) as it takes to ask a family one dump question.
//!
//! The socket belongs to the calling thread's network namespace. It never sends anything that
//! changes the kernel's state.

use std::io;
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_DUMP_INTR: u16 = 0x10;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLMSG_HEADER_SIZE: usize = 16;
const GENL_HEADER_SIZE: usize = 4;
const ATTRIBUTE_HEADER_SIZE: usize = 4;
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;

/// The kernel never sends more than this at once.
const RECEIVE_SIZE_BYTES: usize = 64 * 1024;

/// A dump that was disturbed by a change is asked for again, this often.
const ATTEMPTS_MAX: usize = 8;

/// One attribute of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub(crate) kind: u16,
    pub(crate) value: Vec<u8>,
}

impl Attribute {
    pub(crate) fn u32(&self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.value.as_slice().try_into().ok()?))
    }
}

/// Asks a family for a dump; each answer is its list of attributes.
pub(crate) fn dump(
    family: &str,
    command: u8,
    attributes: &[(u16, &[u8])],
) -> io::Result<Vec<Vec<Attribute>>> {
    let mut name = family.as_bytes().to_vec();
    name.push(0);
    let question = [(CTRL_ATTR_FAMILY_NAME, name.as_slice())];
    let answers = ask(GENL_ID_CTRL, NLM_F_ACK, CTRL_CMD_GETFAMILY, &question)?;
    let id = answers
        .iter()
        .flatten()
        .find(|attribute| attribute.kind == CTRL_ATTR_FAMILY_ID)
        .and_then(|attribute| Some(u16::from_ne_bytes(attribute.value.as_slice().try_into().ok()?)))
        .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    ask(id, NLM_F_DUMP, command, attributes)
}

fn ask(
    message_type: u16,
    flags: u16,
    command: u8,
    attributes: &[(u16, &[u8])],
) -> io::Result<Vec<Vec<Attribute>>> {
    for _ in 0..ATTEMPTS_MAX {
        if let Some(answers) = ask_once(message_type, flags, command, attributes)? {
            return Ok(answers);
        }
    }
    Err(io::Error::new(io::ErrorKind::Interrupted, "the list kept changing while it was read"))
}

/// `None` if the dump was disturbed by a change.
fn ask_once(
    message_type: u16,
    flags: u16,
    command: u8,
    attributes: &[(u16, &[u8])],
) -> io::Result<Option<Vec<Vec<Attribute>>>> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkGeneric,
    )?;
    let request = encode(message_type, flags | NLM_F_REQUEST, command, attributes)?;
    send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
    let mut buffer = vec![0; RECEIVE_SIZE_BYTES];
    let mut answers = Vec::new();
    let mut disturbed = false;
    loop {
        let size = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut rest = &buffer[..size];
        while !rest.is_empty() {
            let (header, body, next) = split_message(rest)?;
            rest = next;
            disturbed |= header.flags & NLM_F_DUMP_INTR != 0;
            match header.message_type {
                NLMSG_DONE => return Ok((!disturbed).then_some(answers)),
                NLMSG_ERROR => match i32_at(body, 0)? {
                    0 => return Ok(Some(answers)),
                    code => return Err(io::Error::from_raw_os_error(-code)),
                },
                _ => answers
                    .push(decode_attributes(body.get(GENL_HEADER_SIZE..).ok_or_else(truncated)?)?),
            }
        }
    }
}

fn encode(
    message_type: u16,
    flags: u16,
    command: u8,
    attributes: &[(u16, &[u8])],
) -> io::Result<Vec<u8>> {
    let mut body = vec![command, 1, 0, 0];
    for (kind, value) in attributes {
        let size = u16::try_from(ATTRIBUTE_HEADER_SIZE + value.len())
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        body.extend(size.to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let size = u32::try_from(NLMSG_HEADER_SIZE + body.len())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut message = Vec::new();
    message.extend(size.to_ne_bytes());
    message.extend(message_type.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(1u32.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    message.extend(body);
    Ok(message)
}

struct Header {
    message_type: u16,
    flags: u16,
}

fn split_message(bytes: &[u8]) -> io::Result<(Header, &[u8], &[u8])> {
    let size = usize::try_from(u32_at(bytes, 0)?).map_err(|_| truncated())?;
    let header = Header { message_type: u16_at(bytes, 4)?, flags: u16_at(bytes, 6)? };
    let body = bytes.get(NLMSG_HEADER_SIZE..size).ok_or_else(truncated)?;
    let next = bytes.get(size.next_multiple_of(4)..).unwrap_or_default();
    Ok((header, body, next))
}

fn decode_attributes(mut bytes: &[u8]) -> io::Result<Vec<Attribute>> {
    let mut attributes = Vec::new();
    while !bytes.is_empty() {
        let size = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & ATTRIBUTE_TYPE_MASK;
        let value = bytes.get(ATTRIBUTE_HEADER_SIZE..size).ok_or_else(truncated)?.to_vec();
        attributes.push(Attribute { kind, value });
        bytes = bytes.get(size.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(attributes)
}

fn truncated() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a netlink message is cut short")
}

fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> io::Result<[u8; N]> {
    bytes.get(offset..offset + N).and_then(|part| part.try_into().ok()).ok_or_else(truncated)
}

fn u16_at(bytes: &[u8], offset: usize) -> io::Result<u16> {
    Ok(u16::from_ne_bytes(bytes_at(bytes, offset)?))
}

fn u32_at(bytes: &[u8], offset: usize) -> io::Result<u32> {
    Ok(u32::from_ne_bytes(bytes_at(bytes, offset)?))
}

fn i32_at(bytes: &[u8], offset: usize) -> io::Result<i32> {
    Ok(i32::from_ne_bytes(bytes_at(bytes, offset)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_survive_encoding_and_padding() {
        let message = encode(0x20, NLM_F_REQUEST, 11, &[(1, &[7, 0, 0, 0]), (2, b"abc")]).unwrap();
        let (header, body, next) = split_message(&message).unwrap();
        assert_eq!((header.message_type, header.flags), (0x20, NLM_F_REQUEST));
        assert_eq!(next, &[] as &[u8]);
        assert_eq!(&body[..2], &[11, 1]);
        let attributes = decode_attributes(&body[GENL_HEADER_SIZE..]).unwrap();
        assert_eq!(attributes[0].u32(), Some(7));
        assert_eq!(attributes[1], Attribute { kind: 2, value: b"abc".to_vec() });
    }

    #[test]
    fn cut_messages_are_errors_not_panics() {
        let message = encode(0x20, 1, 11, &[(1, &[7, 0, 0, 0])]).unwrap();
        for size in 1..message.len() {
            assert!(split_message(&message[..size]).is_err(), "{size} bytes");
        }
        // An attribute that claims to be shorter than its own header must not loop for ever.
        assert!(decode_attributes(&[0, 0, 1, 0]).is_err());
        assert!(decode_attributes(&[8, 0, 1, 0, 1]).is_err());
    }

    #[test]
    fn an_unknown_family_is_an_error() {
        let error = dump("weir-no-such", 1, &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
