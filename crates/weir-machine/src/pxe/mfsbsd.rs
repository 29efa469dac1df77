//! The serial console of an mfsBSD image.
//!
//! The image is a disk with a UFS file system, which Linux cannot write. Its `/boot/loader.conf`
//! however begins with comments, is text, and lies in one piece: settings are written over
//! comments there, and no length changes. An image without such comments is refused, with the way
//! to do it on FreeBSD. The user's own image is never written: a copy is.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use super::config::Serial;

/// A line that every loader.conf of an mfsBSD image has, and no other text of it.
const MARK: &[u8] = b"mfs_type=\"mfs_root\"";
/// The longest loader.conf that is looked for, to each side of the mark.
const REACH_BYTES: usize = 16 * 1024;
/// How much is read at once.
const PIECE_BYTES: usize = 4 << 20;

/// Bytes to write at a place of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patch {
    /// Offset in the image, bytes.
    pub offset: u64,
    /// What is written there.
    pub bytes: Vec<u8>,
}

/// Finds what has to be written; nothing if the image has a serial console already.
///
/// # Errors
/// In words: why it cannot be done, and what can.
pub(super) fn look(image: &Path, serial: Serial) -> Result<Vec<Patch>, String> {
    let shown = image.display();
    let mut file = File::open(image).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let marks = marks(&mut file).map_err(|error| format!("cannot read {shown}: {error}"))?;
    if marks.is_empty() {
        return Err(format!(
            "{shown} has no loader.conf of mfsBSD in it: is it an mfsBSD .img, unpacked?"
        ));
    }
    let mut patches = Vec::new();
    for mark in marks {
        let begin = mark.saturating_sub(REACH_BYTES as u64);
        let mut around = Vec::new();
        file.seek(SeekFrom::Start(begin))
            .and_then(|_| (&file).take(2 * REACH_BYTES as u64).read_to_end(&mut around))
            .map_err(|error| format!("cannot read {shown}: {error}"))?;
        let at = usize::try_from(mark - begin).unwrap_or_default();
        let (start, text) = text_around(&around, at);
        match settings(text, serial) {
            Settings::There => {}
            Settings::Write { at, bytes } => {
                patches.push(Patch { offset: begin + (start + at) as u64, bytes });
            }
            Settings::NoRoom => return Err(no_room(image, serial)),
        }
    }
    Ok(patches)
}

/// Copies an image and writes the serial console into the copy, which is there as a whole or not
/// at all.
///
/// # Errors
/// In words.
pub(super) fn copy(image: &Path, to: &Path, serial: Serial) -> Result<(), String> {
    let patches = look(image, serial)?;
    let part = to.with_extension("part");
    let write = || {
        fs::copy(image, &part)?;
        let mut file = File::options().write(true).open(&part)?;
        for patch in &patches {
            file.seek(SeekFrom::Start(patch.offset))?;
            file.write_all(&patch.bytes)?;
        }
        file.sync_all()?;
        fs::rename(&part, to)
    };
    write().map_err(|error| {
        // What is left of it is of no use; that it cannot be removed is no news.
        let _ = fs::remove_file(&part);
        format!("cannot write {}: {error}", to.display())
    })
}

/// Where the mark is, everywhere.
fn marks(file: &mut File) -> std::io::Result<Vec<u64>> {
    let mut found = Vec::new();
    let mut held: Vec<u8> = Vec::new();
    let mut held_at = 0_u64;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            return Ok(found);
        }
        held.extend_from_slice(&piece[..count]);
        let mut from = 0;
        while let Some(at) = find(&held[from..], MARK) {
            found.push(held_at + (from + at) as u64);
            from += at + MARK.len();
        }
        // A mark may be cut by the end of the piece.
        let keep = held.len().saturating_sub(MARK.len() - 1).max(from);
        held.drain(..keep);
        held_at += keep as u64;
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|byte| *byte == what[0]) {
        if text[from + at..].starts_with(what) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// The text that surrounds a place: where it begins, and its bytes.
fn text_around(bytes: &[u8], at: usize) -> (usize, &[u8]) {
    let is_text = |byte: &u8| matches!(byte, b'\n' | b'\t' | b' '..=b'~');
    let start = bytes[..at].iter().rposition(|byte| !is_text(byte)).map_or(0, |last| last + 1);
    let end = bytes[at..].iter().position(|byte| !is_text(byte)).map_or(bytes.len(), |n| at + n);
    (start, &bytes[start..end])
}

enum Settings {
    There,
    Write { at: usize, bytes: Vec<u8> },
    NoRoom,
}

/// The settings of loader.conf(5).
fn loader_conf(serial: Serial) -> String {
    let mut text = "boot_serial=\"YES\"\nconsole=\"comconsole\"\n".to_owned();
    text += &format!("comconsole_speed=\"{}\"\n", serial.speed);
    let port = [None, Some("0x2f8"), Some("0x3e8"), Some("0x2e8")];
    if let Some(Some(port)) = port.get(usize::from(serial.port)) {
        text += &format!("comconsole_port=\"{port}\"\n");
    }
    text
}

/// Where in a loader.conf the settings go: over the first comments that have room for them.
fn settings(conf: &[u8], serial: Serial) -> Settings {
    let needed = loader_conf(serial);
    let lines: Vec<&[u8]> = conf.split_inclusive(|byte| *byte == b'\n').collect();
    let has = |line: &str| lines.iter().any(|l| l.trim_ascii_end() == line.as_bytes());
    if needed.lines().all(has) {
        return Settings::There;
    }
    let mut at = 0;
    let mut run = 0;
    for line in lines {
        let is_comment = line.starts_with(b"#") && line.ends_with(b"\n");
        run = if is_comment { run + line.len() } else { 0 };
        at += line.len();
        if run >= needed.len() {
            let mut bytes = needed.into_bytes();
            let rest = run - bytes.len();
            if rest > 0 {
                bytes.resize(run - 1, b'#');
                bytes.push(b'\n');
            }
            return Settings::Write { at: at - run, bytes };
        }
    }
    Settings::NoRoom
}

fn no_room(image: &Path, serial: Serial) -> String {
    let lines = loader_conf(serial).replace('\n', "; ");
    format!(
        "{} has no comments in its loader.conf to write the serial console over, and Linux cannot \
         write UFS. On FreeBSD: mdconfig -f IMAGE, mount /dev/md0p2 (or md0s1a), add to \
         boot/loader.conf: {lines}then unmount and mdconfig -d",
        image.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONF: &str = "# $Id$\n#\n# This is the /boot/loader.conf of your image\n#\n# Custom \
                        mfsbsd variables\n#\n#mfsbsd.rootpw=\"foobar\"\n#\n#mfsbsd.hostname=\"x\"\n\
                        \nmfs_load=\"YES\"\nmfs_type=\"mfs_root\"\nmfs_name=\"/mfsroot\"\n";

    /// An image with a loader.conf somewhere in it, cut by the pieces in which it is read.
    fn image(dir: &Path, conf: &str) -> std::path::PathBuf {
        let mut bytes = vec![0xa5; PIECE_BYTES - 300];
        bytes.push(0);
        bytes.extend_from_slice(conf.as_bytes());
        bytes.resize(PIECE_BYTES + 100_000, 0);
        let path = dir.join("mfsbsd.img");
        fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn the_console_is_written_over_comments_and_nothing_moves() {
        let dir = tempfile::tempdir().unwrap();
        let original = image(dir.path(), CONF);
        let to = dir.path().join("served.img");
        copy(&original, &to, Serial { port: 1, speed: 19_200 }).unwrap();
        let (before, after) = (fs::read(&original).unwrap(), fs::read(&to).unwrap());
        assert_eq!(before.len(), after.len());
        let conf = &after[PIECE_BYTES - 299..][..CONF.len()];
        let conf = std::str::from_utf8(conf).unwrap();
        for line in [
            "boot_serial=\"YES\"",
            "console=\"comconsole\"",
            "comconsole_speed=\"19200\"",
            "comconsole_port=\"0x2f8\"",
            "mfs_type=\"mfs_root\"",
        ] {
            assert!(conf.lines().any(|l| l == line), "{line} in\n{conf}");
        }
        assert!(
            conf.ends_with("\n\nmfs_load=\"YES\"\nmfs_type=\"mfs_root\"\nmfs_name=\"/mfsroot\"\n")
        );
        let changed = before.iter().zip(&after).filter(|(a, b)| a != b).count();
        assert!(changed < CONF.len());
        // Done once, there is nothing left to do.
        assert_eq!(look(&to, Serial { port: 1, speed: 19_200 }), Ok(Vec::new()));
        assert!(!dir.path().join("served.part").exists());
    }

    #[test]
    fn an_image_without_room_or_of_something_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let bare = image(dir.path(), "mfs_load=\"YES\"\nmfs_type=\"mfs_root\"\n# short\n");
        let error = look(&bare, Serial::default()).unwrap_err();
        assert!(error.contains("mdconfig") && error.contains("115200"), "{error}");
        let other = image(dir.path(), "autoboot_delay=\"3\"\n");
        let error = copy(&other, &dir.path().join("x"), Serial::default()).unwrap_err();
        assert!(error.contains("no loader.conf of mfsBSD"), "{error}");
        assert!(!dir.path().join("x").exists());
        assert!(look(Path::new("/nonexistent"), Serial::default()).is_err());
    }
}
