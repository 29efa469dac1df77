//! Keys of firewalls that send each other states: Ed25519, a private one in a file that nobody else
//! may read, a public one as a word of text. It knows nothing of connections.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, bail, ensure};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;

/// What a public key begins with.
const PREFIX: &str = "ed25519:";
const KEY_SIZE_BYTES: usize = 32;
/// SubjectPublicKeyInfo and PKCS#8 of Ed25519 are these bytes and then the key (RFC 8410).
const PUBLIC_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
const PRIVATE_HEAD: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// No file with a key, or with some, is as long as that.
const FILE_SIZE_BYTES_MAX: u64 = 1 << 16;

/// What one firewall shows, and the other one is given before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PublicKey([u8; KEY_SIZE_BYTES]);

impl PublicKey {
    /// As TLS carries it (SubjectPublicKeyInfo, RFC 7250).
    pub(super) fn spki(&self) -> Vec<u8> {
        [&PUBLIC_HEAD[..], &self.0].concat()
    }

    /// The same backwards; `None` if it is a key of another kind.
    pub(super) fn of_spki(spki: &[u8]) -> Option<Self> {
        spki.strip_prefix(&PUBLIC_HEAD)?.try_into().ok().map(Self)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for PublicKey {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let wrong = || {
            format!(
                "`{text}` is not a public key, which is {PREFIX} and 64 hexadecimal digits: \
                 `weir fw sync keygen --public` prints it on the other firewall"
            )
        };
        let digits = text.strip_prefix(PREFIX).with_context(wrong)?.as_bytes();
        ensure!(digits.len() == 2 * KEY_SIZE_BYTES, wrong());
        let mut key = [0; KEY_SIZE_BYTES];
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            let digit =
                |which: u8| char::from(which).to_digit(16).and_then(|it| it.try_into().ok());
            let pair: Option<(u8, u8)> = digit(pair[0]).zip(digit(pair[1]));
            let (high, low) = pair.with_context(wrong)?;
            *byte = high << 4 | low;
        }
        Ok(Self(key))
    }
}

/// The keys that a word names: itself, or those of a file, one on each line.
pub(super) fn peers(word: &str) -> anyhow::Result<Vec<PublicKey>> {
    if word.starts_with(PREFIX) {
        return Ok(vec![word.parse()?]);
    }
    let text = File::open(word).and_then(|file| {
        let mut text = String::new();
        file.take(FILE_SIZE_BYTES_MAX).read_to_string(&mut text).map(|_| text)
    });
    let text = text.with_context(|| {
        format!("--peer {word} is neither a key ({PREFIX}…) nor a readable file of keys")
    })?;
    let mut keys = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            keys.push(line.parse().with_context(|| format!("{word}:{}", at + 1))?);
        }
    }
    ensure!(!keys.is_empty(), "{word} has no key: put the other firewall's public key into it");
    Ok(keys)
}

/// A private key, with its public one.
pub(super) struct PrivateKey {
    pkcs8: PrivatePkcs8KeyDer<'static>,
    pub(super) public: PublicKey,
}

impl PrivateKey {
    /// A new one.
    pub(super) fn new() -> anyhow::Result<Self> {
        let mut seed = [0; KEY_SIZE_BYTES];
        let filled = SystemRandom::new().fill(&mut seed);
        filled.ok().context("the kernel gives no random numbers")?;
        Self::from_pkcs8([&PRIVATE_HEAD[..], &seed].concat().into())
    }

    fn from_pkcs8(pkcs8: PrivatePkcs8KeyDer<'static>) -> anyhow::Result<Self> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8.secret_pkcs8_der());
        let pair = pair.map_err(|why| anyhow::anyhow!("it is not an Ed25519 key: {why}"))?;
        let public = pair.public_key().as_ref().try_into().context("its public key is none")?;
        Ok(Self { pkcs8, public: PublicKey(public) })
    }

    /// For TLS.
    pub(super) fn pkcs8(&self) -> PrivatePkcs8KeyDer<'static> {
        self.pkcs8.clone_key()
    }

    /// Reads a file, which nobody but its owner may read.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let file = File::open(path).with_context(|| {
            format!("cannot read the key {name} (`weir fw sync keygen --key {name}` makes one)")
        })?;
        let about = file.metadata().with_context(|| format!("cannot read the key {name}"))?;
        ensure!(about.is_file(), "the key {name} is not a file");
        let mode = about.permissions().mode() & 0o777;
        ensure!(
            mode & 0o077 == 0,
            "the key {name} is not private: others may use it (mode {mode:04o}); \
             `chmod 600 {name}`, and make a new one if somebody may have read it"
        );
        let mut text = Vec::new();
        let read = file.take(FILE_SIZE_BYTES_MAX).read_to_end(&mut text);
        read.with_context(|| format!("cannot read the key {name}"))?;
        let pkcs8 = PrivatePkcs8KeyDer::from_pem_slice(&text)
            .map_err(|why| anyhow::anyhow!("{name} has no private key in PEM (PKCS#8): {why}"))?;
        Self::from_pkcs8(pkcs8).with_context(|| format!("the key {name} cannot be used"))
    }

    /// Writes it to a file, which appears as a whole.
    pub(super) fn write(&self, path: &Path, is_replaced: bool) -> anyhow::Result<()> {
        let name = path.display();
        let failed = || format!("cannot write the key {name}");
        if let Some(directory) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(directory);
            made.with_context(failed)?;
        }
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}", std::process::id()));
        let beside = Path::new(&beside);
        let written = write_private(beside, &self.pem());
        let placed = written.and_then(|()| {
            if is_replaced { fs::rename(beside, path) } else { fs::hard_link(beside, path) }
        });
        // After a rename it has gone.
        drop(fs::remove_file(beside));
        match placed {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(
                "{name} exists: `weir fw sync keygen --public --key {name}` prints its public key; \
                 --force makes a new one, which the other firewall does not know"
            ),
            placed => placed.with_context(failed),
        }
    }

    fn pem(&self) -> String {
        let text = base64(self.pkcs8.secret_pkcs8_der());
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).filter_map(|line| str::from_utf8(line).ok()).collect();
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// RFC 4648 section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let number = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn a_key_comes_back_from_its_file_and_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/sync.key");
        let key = PrivateKey::new().unwrap();
        key.write(&path, false).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(PrivateKey::read(&path).unwrap().public, key.public);

        let other = PrivateKey::new().unwrap();
        assert_ne!(other.public, key.public);
        let why = other.write(&path, false).unwrap_err().to_string();
        assert!(why.contains("exists") && why.contains("--force"), "{why}");
        assert_eq!(PrivateKey::read(&path).unwrap().public, key.public);
        other.write(&path, true).unwrap();
        assert_eq!(PrivateKey::read(&path).unwrap().public, other.public);
        let files = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "nothing is left beside it");
    }

    /// `openssl genpkey -algorithm ed25519`, and `openssl pkey -pubout` of it.
    #[test]
    fn a_key_of_openssl_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let text = "-----BEGIN PRIVATE KEY-----\n\
                    MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n\
                    -----END PRIVATE KEY-----\n";
        write_private(&path, text).unwrap();
        let key = PrivateKey::read(&path).unwrap();
        // The first test vector of RFC 8032.
        let public = "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(key.public.to_string(), public);
        assert_eq!(key.pem(), text);
    }

    #[test]
    fn a_bad_file_is_refused_with_its_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let refused = |part: &str| {
            let why = format!("{:#}", PrivateKey::read(&path).err().expect("refused"));
            assert!(why.contains(part) && why.contains("key"), "{part}: {why}");
        };
        refused("weir fw sync keygen");
        PrivateKey::new().unwrap().write(&path, false).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o610] {
            set_mode(&path, mode);
            refused("chmod 600");
        }
        fs::write(&path, "block all\n").unwrap();
        set_mode(&path, 0o600);
        refused("has no private key in PEM");
        let rsa = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
        fs::write(&path, rsa).unwrap();
        refused("it is not an Ed25519 key");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        refused("is not a file");
    }

    #[test]
    fn a_public_key_is_a_word_or_a_line_of_a_file() {
        let key = PrivateKey::new().unwrap().public;
        assert_eq!(PublicKey::of_spki(&key.spki()), Some(key));
        assert_eq!(PublicKey::of_spki(&key.spki()[1..]), None);
        let word = key.to_string();
        assert_eq!(peers(&word).unwrap(), [key]);
        for bad in [&word[..word.len() - 1], &format!("{word}0"), &word.replace("19:", "19:+")] {
            let why = peers(bad).unwrap_err().to_string();
            assert!(why.contains("64 hexadecimal digits"), "{why}");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("peers").to_str().unwrap().to_owned();
        assert!(peers(&path).unwrap_err().to_string().contains("nor a readable file of keys"));
        let second = PrivateKey::new().unwrap().public;
        fs::write(&path, format!("# the backup\n{word}  # since May\n\n{second}\n")).unwrap();
        assert_eq!(peers(&path).unwrap(), [key, second]);
        fs::write(&path, "# nobody\n").unwrap();
        assert!(peers(&path).unwrap_err().to_string().contains("has no key"));
        fs::write(&path, format!("{word}\nwrong\n")).unwrap();
        let why = format!("{:#}", peers(&path).unwrap_err());
        assert!(why.contains("peers:2") && why.contains("`wrong`"), "{why}");
    }
}
