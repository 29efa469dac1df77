//! `weir lab image freebsd` and `openbsd`: a DUT out of what these systems publish, made over the
//! serial console of a virtual machine.
//!
//! An installation medium is booted and its installer answered; a published disk is copied. The
//! first boot gets a key to log in with, sshd, the serial console, forwarding, and the addresses,
//! neighbours and routes of the lab's two cards. Nothing is downloaded, and the user's file is not
//! written to. All is made in a folder beside the image, and takes its name at the end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_net::process::Invocation;

use super::build::{Building, WorkDir, check_names, check_tools, keygen};
use super::{About, Built, DiskFormat, ImageError, Login, beside, name_of};
use crate::cancel::Cancel;
use crate::qemu::{Accel, Chosen};
use machine::Machine;

mod machine;
mod script;
#[cfg(test)]
mod tests;

/// How long a disk may take to be copied.
const COPY_TIMEOUT: Duration = Duration::from_secs(1800);
/// Least size of a disk that a system is installed on.
pub const SIZE_BYTES_MIN: u64 = 4 << 30;
/// Where ISO 9660 has its name, and what it is (ECMA-119, 8.1).
const ISO_NAME_AT: u64 = 0x8001;
const ISO_NAME: &[u8] = b"CD001";

/// A system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bsd {
    /// FreeBSD, of the releases that are installed by `bsdinstall`.
    Freebsd,
    /// OpenBSD.
    Openbsd,
}

impl Bsd {
    /// As its makers write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Freebsd => "FreeBSD",
            Self::Openbsd => "OpenBSD",
        }
    }
}

/// One of the two cards of the lab, as the machine has it; IPv4 first, then IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    /// Its addresses, with the lengths of their prefixes.
    pub addresses: [&'static str; 2],
    /// The card at the other end.
    pub peer_mac: [u8; 6],
    /// The addresses there, with the lengths of their prefixes.
    pub peers: [&'static str; 2],
    /// What lies behind it.
    pub networks: [&'static str; 2],
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A CD or DVD: it is installed from.
    Cd,
    /// The image of a USB stick: the same.
    Stick,
    /// A disk with a system on it.
    Disk,
}

/// What is to be made.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which of the two it is.
    pub system: Bsd,
    /// The file that the user has downloaded.
    pub source: PathBuf,
    /// Whether it is a medium to install from, or a disk; absent: its content and name tell.
    pub is_medium: Option<bool>,
    /// The disk, in QEMU's own format; what belongs to it gets its name with an ending.
    pub out: PathBuf,
    /// Size of a disk that is installed on.
    pub size_bytes: u64,
    /// The lab's cards: the machine's second and third.
    pub cards: [Card; 2],
    /// Where everything is appended that the machine says.
    pub log: Option<PathBuf>,
    /// Whether an image that is there is replaced.
    pub replace: bool,
    /// Version of weir, for the record.
    pub weir: String,
}

/// What was made.
#[derive(Debug, Clone, Serialize)]
pub struct Image {
    /// The disk.
    pub image: PathBuf,
    /// What is known of it.
    pub about: PathBuf,
    /// The private key that logs in.
    pub key: PathBuf,
    /// The system's name.
    pub system: String,
    /// The version that it says of itself.
    pub kernel_version: String,
    /// What the file takes on this host.
    pub file_size_bytes: u64,
    /// How long it took.
    pub duration_ns: u64,
}

/// One boot of the machine.
struct Stage<'a> {
    /// For messages.
    name: &'a str,
    /// A medium, and whether it is a CD.
    medium: Option<(PathBuf, bool)>,
    /// What is typed.
    script: String,
    /// Whether the machine ends by itself.
    switches_off: bool,
}

/// Makes an image; `tell` hears what is being done.
///
/// # Errors
/// When something is missing or fails, the machine says what is not expected, or somebody asked to
/// stop. Nothing is left of it then.
pub fn make(
    request: &Request,
    cancel: &Cancel,
    tell: &mut dyn FnMut(&str),
) -> Result<Image, ImageError> {
    let started = Instant::now();
    let source = check(request)?;
    check_tools(&["qemu-system-x86_64", "qemu-img", "ssh-keygen"])?;
    let dir = WorkDir::beside(&request.out)?;
    let accel = Chosen::choose(Accel::Auto).map_err(ImageError::new)?;
    let mut building = Building { cancel, tell };
    keygen(&mut building, &dir.join("key"), "weir-lab")?;
    disk(request, source, &dir, &mut building)?;
    let log = request.log.as_deref();
    let machine = Machine { accel: &accel, disk: &dir.join("disk"), log, cancel };
    let public_key = fs::read_to_string(dir.join("key.pub"))
        .map_err(|error| ImageError::file("read", &dir.join("key.pub"), &error))?;
    let password = password()?;
    let environment = |name: &str| (name == script::PASSWORD).then(|| password.as_str().to_owned());
    let mut seen = BTreeMap::new();
    for stage in stages(request, source, public_key.trim()) {
        building.step(&format!("{} ({})", stage.name, accel.name()));
        machine.run(&stage, &environment, &mut |progress| {
            building.step(&format!("  {}", progress.name));
            if let Some(matched) = &progress.matched {
                seen.insert(progress.name.to_owned(), matched.clone());
            }
        })?;
    }
    let about = about(request, &seen)?;
    let kernel_version = about.built.as_ref().map(|b| b.kernel.clone()).unwrap_or_default();
    let text = toml::to_string(&about).map_err(ImageError::new)?;
    dir.write("about", 0o644, &format!("# How the image is logged in to.\n{text}"))?;
    dir.place_all(&results(&request.out), request.replace)?;
    let disk = fs::metadata(&request.out)
        .map_err(|error| ImageError::file("look at", &request.out, &error))?;
    Ok(Image {
        image: request.out.clone(),
        about: beside(&request.out, "toml"),
        key: beside(&request.out, "key"),
        system: request.system.name().to_owned(),
        kernel_version,
        file_size_bytes: disk.blocks() * 512,
        duration_ns: u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
    })
}

/// What a build gives a name to: its name in the work folder, and the name. The disk is the last.
fn results(out: &Path) -> [(&'static str, PathBuf); 4] {
    [
        ("key", beside(out, "key")),
        ("key.pub", beside(out, "key.pub")),
        ("about", beside(out, "toml")),
        ("disk", out.to_owned()),
    ]
}

fn check(request: &Request) -> Result<Source, ImageError> {
    let names = results(&request.out).into_iter().map(|(_, path)| path);
    check_names(&request.out, names, request.replace)?;
    let path = &request.source;
    let source = match (request.is_medium, look(path)?) {
        (Some(true), Source::Disk) => Source::Stick,
        (Some(false), _) => Source::Disk,
        (_, found) => found,
    };
    if request.system == Bsd::Openbsd && source == Source::Disk {
        return Err(ImageError::new(format!(
            "{}: OpenBSD publishes no disks: give installXX.iso or installXX.img (--medium if \
             the file has another name)",
            path.display()
        )));
    }
    if source != Source::Disk && request.size_bytes < SIZE_BYTES_MIN {
        return Err(ImageError::new(format!(
            "a disk of {} bytes is too small to install on: {} GiB at least",
            request.size_bytes,
            SIZE_BYTES_MIN >> 30
        )));
    }
    Ok(source)
}

/// What a file is, by its content, and by its name where a stick and a disk look alike.
fn look(path: &Path) -> Result<Source, ImageError> {
    let read = |at: u64, size: usize| -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(at))?;
        let mut bytes = Vec::new();
        file.take(size as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let failed = |error: std::io::Error| ImageError::file("read", path, &error);
    let begin = read(0, 6).map_err(failed)?;
    let packed: [(&[u8], &str); 4] = [
        (&[0xfd, b'7', b'z', b'X', b'Z'], "xz"),
        (&[0x1f, 0x8b], "gzip"),
        (b"BZh", "bzip2"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
    ];
    if let Some((_, tool)) = packed.iter().find(|(magic, _)| begin.starts_with(magic)) {
        let path = path.display();
        return Err(ImageError::new(format!(
            "{path} is compressed: unpack it first (`{tool} -d -k {path}`)"
        )));
    }
    if read(ISO_NAME_AT, ISO_NAME.len()).map_err(failed)? == ISO_NAME {
        return Ok(Source::Cd);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_stick = ["memstick", "install", "miniroot"].iter().any(|word| name.contains(word));
    Ok(if is_stick { Source::Stick } else { Source::Disk })
}

/// Makes the disk: a copy, or an empty one.
fn disk(
    request: &Request,
    source: Source,
    dir: &WorkDir,
    building: &mut Building<'_>,
) -> Result<(), ImageError> {
    let (to, size) = (dir.join("disk").to_string_lossy().into_owned(), request.size_bytes);
    let advice = "the directory of --out needs room for the disk";
    if source != Source::Disk {
        let size = size.to_string();
        let create = ["qemu-img", "create", "-q", "-f", "qcow2", &to, &size];
        return building.run(&Invocation::program(create), COPY_TIMEOUT, advice);
    }
    building.step("copying the disk");
    let format = DiskFormat::of(&request.source)
        .map_err(|error| ImageError::file("read", &request.source, &error))?;
    let from = request.source.to_string_lossy().into_owned();
    let convert = ["qemu-img", "convert", "-f", format.name(), "-O", "qcow2", &from, &to];
    building.run(&Invocation::program(convert), COPY_TIMEOUT, advice)
}

/// The boots that make a DUT of it.
fn stages(request: &Request, source: Source, public_key: &str) -> Vec<Stage<'static>> {
    let system = request.system;
    let mut stages = Vec::new();
    if source != Source::Disk {
        stages.push(Stage {
            name: "installing",
            medium: Some((request.source.clone(), source == Source::Cd)),
            script: script::install(system),
            switches_off: system == Bsd::Freebsd,
        });
    }
    let from_loader = source == Source::Disk;
    stages.push(Stage {
        name: "the first boot",
        medium: None,
        script: script::first_boot(system, from_loader, public_key, &request.cards),
        switches_off: true,
    });
    stages
}

/// What is known of the image, from what was seen.
fn about(request: &Request, seen: &BTreeMap<String, String>) -> Result<About, ImageError> {
    let behind = |step: &str| {
        let value = seen.get(step).and_then(|text| text.split_once(": "));
        let value = value.map(|(_, value)| value.trim().to_owned());
        value.ok_or_else(|| ImageError::new(format!("the machine has not shown its {step}")))
    };
    Ok(About {
        ssh: Login {
            user: Some("root".to_owned()),
            key: Some(name_of(&beside(&request.out, "key"))),
            host_key: Some(behind(script::HOST_KEY)?),
        },
        console_ready: Some("login:".to_owned()),
        built: Some(Built {
            weir: request.weir.clone(),
            time: jiff::Timestamp::now().to_string(),
            suite: request.system.name().to_owned(),
            kernel: behind(script::KERNEL)?,
            packages: Vec::new(),
        }),
        ..About::default()
    })
}

/// A root password that nobody is told: OpenBSD's installer asks for one, and the key logs in.
fn password() -> Result<String, ImageError> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; 12];
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| ImageError::file("read", path, &error))?;
    Ok(bytes.map(|byte| format!("{byte:02x}")).concat())
}
