//! The files below a disk in QEMU's own format: what an overlay does not hold itself is in them.
//!
//! Source: QEMU's docs/interop/qcow2.rst, "Header". Headers are read, and never what a disk holds.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// First bytes of such a disk.
pub const MAGIC: [u8; 4] = *b"QFI\xfb";
/// The longest name of a file below, in bytes.
const NAME_BYTES_MAX: u32 = 1023;
/// The longest chain.
const DEPTH_MAX: usize = 32;
/// Of the header of version 3: the disk's data are in another file.
const EXTERNAL_DATA: u64 = 1 << 2;

/// The files below `disk`, the next one first; none below a disk of another format.
///
/// # Errors
/// When one cannot be read, is not a file of this machine, or keeps its data elsewhere.
pub fn backing(disk: &Path) -> Result<Vec<PathBuf>, String> {
    let mut chain: Vec<PathBuf> = Vec::new();
    while chain.len() <= DEPTH_MAX {
        let above = chain.last().map_or(disk, PathBuf::as_path);
        let cannot = |error: io::Error| format!("cannot read {}: {error}", above.display());
        let Some(name) = name_of_backing(above).map_err(cannot)? else { return Ok(chain) };
        let name = name.strip_prefix("file:").unwrap_or(&name);
        let is_elsewhere = name.split('/').next().is_some_and(|first| first.contains(':'));
        let place = above.parent().unwrap_or(Path::new(".")).join(name);
        if is_elsewhere || !place.is_file() {
            return Err(format!("what is below {} is not a file here: {name}", above.display()));
        }
        chain.push(place);
    }
    Err(format!("more than {DEPTH_MAX} disks are below {}", disk.display()))
}

/// The name of the file below, as the header has it.
fn name_of_backing(disk: &Path) -> io::Result<Option<String>> {
    let mut file = File::open(disk)?;
    let mut header = Vec::new();
    file.by_ref().take(80).read_to_end(&mut header)?;
    if header.len() < 24 || header[..4] != MAGIC {
        return Ok(None);
    }
    let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| header[at + i]));
    let half = |at: usize| u32::from_be_bytes(std::array::from_fn(|i| header[at + i]));
    let bad = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    if half(4) >= 3 && header.len() == 80 && word(72) & EXTERNAL_DATA != 0 {
        return bad("it keeps its data in another file; `qemu-img convert` makes one of them");
    }
    let (at, bytes) = (word(8), half(16));
    if at == 0 {
        return Ok(None);
    }
    if bytes > NAME_BYTES_MAX {
        return bad("its header is damaged; `qemu-img check` says more");
    }
    file.seek(SeekFrom::Start(at))?;
    let mut name = vec![0; bytes as usize];
    file.read_exact(&mut name)?;
    String::from_utf8(name).map(Some).or_else(|_| bad("the name of the file below is not text"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A header of version 3, with the name of the file below behind it.
    fn overlay(below: &str, features: u64) -> Vec<u8> {
        let mut disk = MAGIC.to_vec();
        disk.extend(3u32.to_be_bytes());
        disk.extend(if below.is_empty() { 0u64 } else { 104 }.to_be_bytes());
        disk.extend(u32::try_from(below.len()).unwrap().to_be_bytes());
        disk.resize(72, 0);
        disk.extend(features.to_be_bytes());
        disk.resize(104, 0);
        disk.extend(below.as_bytes());
        disk
    }

    #[test]
    fn a_chain_of_disks_is_found_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        let whole = place("whole").display().to_string();
        fs::create_dir(place("sub")).unwrap();
        fs::write(place("top"), overlay("sub/middle", 0)).unwrap();
        fs::write(place("sub/middle"), overlay(&whole, 0)).unwrap();
        fs::write(&whole, overlay("", 0)).unwrap();
        let chain = backing(&place("top")).unwrap();
        assert_eq!(chain, [place("sub/middle"), place("whole")]);
        fs::write(&whole, "any other format").unwrap();
        assert_eq!(backing(&place("top")).unwrap().len(), 2);
        assert!(backing(&place("whole")).unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk");
        for (below, features, part) in [
            ("missing", 0, "is not a file here: missing"),
            ("nbd://host/disk", 0, "is not a file here: nbd://host/disk"),
            ("json:{\"driver\": \"raw\"}", 0, "is not a file here: json:"),
            ("disk", 0, "more than 32 disks"),
            ("", EXTERNAL_DATA, "keeps its data in another file"),
        ] {
            fs::write(&disk, overlay(below, features)).unwrap();
            let error = backing(&disk).unwrap_err();
            assert!(error.contains(part), "{part:?} is not in: {error}");
        }
        fs::write(&disk, [overlay("", 0), vec![0]].concat()).unwrap();
        assert!(backing(&disk).unwrap().is_empty());
    }
}
