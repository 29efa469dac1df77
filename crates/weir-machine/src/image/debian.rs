//! `weir lab image debian`: a small Debian machine on a disk, out of the distribution's packages.
//!
//! mmdebstrap installs the packages into a folder, in a mount namespace of its own, so that
//! nothing stays mounted whatever ends it; mke2fs(8) makes the file system out of that folder, so
//! no loop device is needed. Packages come from where this host's apt has Debian from. All is made
//! in a folder beside the image, and takes its name at the end: a file is whole or absent.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_net::process::Invocation;

use super::build::{Building, WorkDir, check_names, check_tools, keygen};
use super::content::{APPEND, CONSOLE_READY, EXCLUDED, FILES, LABEL, PACKAGES};
use super::{About, Boot, Built, ImageError, Login, beside, name_of};
use crate::cancel::Cancel;
use crate::ssh::quote;

/// How long packages may take to be fetched and installed.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(3600);
/// The same of every other step.
const STEP_TIMEOUT: Duration = Duration::from_secs(900);
/// Least size of the disk: the packages take about 300 MB.
pub const SIZE_BYTES_MIN: u64 = 512 << 20;

/// What is to be built.
#[derive(Debug, Clone)]
pub struct Request {
    /// The disk; what belongs to it gets its name with an ending.
    pub out: PathBuf,
    /// Whether the disk is in QEMU's own format; raw otherwise.
    pub qcow2: bool,
    /// Size of the disk.
    pub size_bytes: u64,
    /// Release; absent: this host's.
    pub suite: Option<String>,
    /// Where packages come from; absent: as apt has it.
    pub mirror: Option<String>,
    /// Packages beside the usual ones.
    pub packages: Vec<String>,
    /// Whether an image that is there is replaced.
    pub replace: bool,
    /// Version of weir, for the record.
    pub weir: String,
}

/// What was built.
#[derive(Debug, Clone, Serialize)]
pub struct Image {
    /// The disk.
    pub image: PathBuf,
    /// What is known of it.
    pub about: PathBuf,
    pub kernel: PathBuf,
    /// Its initial RAM disk.
    pub initrd: PathBuf,
    /// The private key that logs in.
    pub key: PathBuf,
    /// Release of the distribution.
    pub suite: String,
    /// Version of the kernel.
    pub kernel_version: String,
    /// Size of the disk inside the machine.
    pub size_bytes: u64,
    /// What the file takes on this host.
    pub file_size_bytes: u64,
    /// How long it took.
    pub duration_ns: u64,
}

/// Builds an image; `tell` hears what is being done.
///
/// # Errors
/// When something is missing or fails, or somebody asked to stop. Nothing is left of it then.
pub fn build(
    request: &Request,
    cancel: &Cancel,
    tell: &mut dyn FnMut(&str),
) -> Result<Image, ImageError> {
    let started = Instant::now();
    check(request)?;
    let tools = ["mmdebstrap", "mke2fs", "ssh-keygen", "qemu-img"];
    check_tools(&tools[..if request.qcow2 { 4 } else { 3 }])?;
    // Before apt is asked, which takes seconds.
    let dir = WorkDir::beside(&request.out)?;
    let sources = Sources::choose(request)?;
    let mut building = Building { cancel, tell };
    let root = dir.join("root");
    install(request, &sources, &dir, &root, &mut building)?;
    let host_key = customise(&dir, &root, &mut building)?;
    let kernel_version = boot_files(&dir, &root)?;
    disk(request, &dir, &root, &mut building)?;
    let about = About {
        boot: Boot {
            kernel: Some(name_of(&beside(&request.out, "kernel"))),
            initrd: Some(name_of(&beside(&request.out, "initrd"))),
            append: Some(APPEND.to_owned()),
        },
        ssh: Login {
            user: Some("root".to_owned()),
            key: Some(name_of(&beside(&request.out, "key"))),
            host_key: Some(host_key),
        },
        console_ready: Some(CONSOLE_READY.to_owned()),
        built: Some(Built {
            weir: request.weir.clone(),
            time: jiff::Timestamp::now().to_string(),
            suite: sources.suite.clone(),
            kernel: kernel_version.clone(),
            packages: packages(request),
        }),
    };
    let text = toml::to_string(&about).map_err(ImageError::new)?;
    dir.write("about", 0o644, &format!("# How {} is booted.\n{text}", name_of(&request.out)))?;
    dir.place_all(&results(&request.out), request.replace)?;
    let disk = fs::metadata(&request.out)
        .map_err(|error| ImageError::file("look at", &request.out, &error))?;
    Ok(Image {
        image: request.out.clone(),
        about: beside(&request.out, "toml"),
        kernel: beside(&request.out, "kernel"),
        initrd: beside(&request.out, "initrd"),
        key: beside(&request.out, "key"),
        suite: sources.suite,
        kernel_version,
        size_bytes: request.size_bytes,
        file_size_bytes: disk.blocks() * 512,
        duration_ns: u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
    })
}

fn check(request: &Request) -> Result<(), ImageError> {
    let names = results(&request.out).into_iter().map(|(_, path)| path);
    check_names(&request.out, names, request.replace)?;
    if request.size_bytes < SIZE_BYTES_MIN {
        return Err(ImageError::new(format!(
            "a disk of {} bytes is too small for the packages: {} MiB at least",
            request.size_bytes,
            SIZE_BYTES_MIN >> 20
        )));
    }
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c))
    };
    if let Some(bad) = request.packages.iter().find(|name| !is_name(name)) {
        return Err(ImageError::new(format!("`{bad}` is not the name of a Debian package")));
    }
    Ok(())
}

/// What a build gives a name to: its name in the work folder, and the name. The disk is the last
/// one: where it is, everything is.
fn results(out: &Path) -> [(&'static str, PathBuf); 6] {
    [
        ("kernel", beside(out, "kernel")),
        ("initrd", beside(out, "initrd")),
        ("key", beside(out, "key")),
        ("key.pub", beside(out, "key.pub")),
        ("about", beside(out, "toml")),
        ("disk", out.to_owned()),
    ]
}

fn packages(request: &Request) -> Vec<String> {
    let asked = request.packages.iter().map(String::as_str);
    let all: BTreeSet<&str> = PACKAGES.into_iter().chain(asked).collect();
    all.into_iter().map(str::to_owned).collect()
}

/// Where packages come from.
struct Sources {
    suite: String,
    /// Lines of sources.list(5).
    lines: Vec<String>,
}

impl Sources {
    fn choose(request: &Request) -> Result<Self, ImageError> {
        let suite = match &request.suite {
            Some(suite) => suite.clone(),
            None => this_release()?,
        };
        let lines = match &request.mirror {
            Some(mirror) => vec![format!("deb {mirror} {suite} main")],
            None => {
                let asked = Invocation::program([
                    "apt-get",
                    "indextargets",
                    "--format",
                    FORMAT,
                    PACKAGES_ONLY,
                ]);
                let text = super::build::output(&asked, STEP_TIMEOUT)?;
                debian_lines(&text, &suite)
            }
        };
        if lines.is_empty() {
            return Err(ImageError::new(format!(
                "this host's apt has no packages of Debian {suite}: name a mirror with --mirror \
                 URL (and a release with --suite), such as http://deb.debian.org/debian"
            )));
        }
        Ok(Self { suite, lines })
    }
}

const FORMAT: &str = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)";
const PACKAGES_ONLY: &str = "Created-By: Packages";

/// Debian's own archives of a release, out of all that apt knows; others' are left out.
fn debian_lines(text: &str, suite: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let &[origin, uri, release, component] = fields.as_slice() else { continue };
        let of_suite = release == suite
            || ["updates", "security"].iter().any(|part| release == format!("{suite}-{part}"));
        let line = format!("deb {uri} {release} {component}");
        if origin == "Debian" && of_suite && !lines.contains(&line) {
            lines.push(line);
        }
    }
    // Without the release itself there is nothing to update.
    let has_base = lines.iter().any(|line| line.contains(&format!(" {suite} ")));
    if has_base { lines } else { Vec::new() }
}

fn this_release() -> Result<String, ImageError> {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim_matches('"').to_owned())
    };
    match (value("ID").as_deref(), value("VERSION_CODENAME")) {
        (Some("debian"), Some(suite)) => Ok(suite),
        _ => Err(ImageError::new(
            "this host is not a Debian release: name one with --suite, and where its packages are \
             with --mirror URL",
        )),
    }
}

fn install(
    request: &Request,
    sources: &Sources,
    dir: &WorkDir,
    root: &Path,
    building: &mut Building<'_>,
) -> Result<(), ImageError> {
    for (path, mode, content) in FILES {
        dir.write(&format!("overlay/{path}"), mode, content)?;
    }
    dir.write("sources.list", 0o644, &format!("{}\n", sources.lines.join("\n")))?;
    building.step(&format!("installing Debian {} (about a minute)", sources.suite));
    // apt does not always come to the point of naming the package that it does not have.
    let asked = match request.packages.as_slice() {
        [] => String::new(),
        names => format!("are the packages' names right ({}), and ", names.join(", ")),
    };
    let advice = format!("{asked}does `apt-get update` work on this host?");
    let command = install_command(request, &sources.suite, dir, root, &proxies());
    building.run_with_steps(&command, INSTALL_TIMEOUT, &advice)
}

/// mmdebstrap has apt's shell write to a descriptor, and dash knows only those of one digit: what
/// this process has inherited must not take them up.
const CLOSE_INHERITED: &str = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- && exec \"$@\"";

/// The command that installs the packages. Proxies go by the environment: with their credentials
/// they would stay in the image if they were options, and be seen in the list of processes.
fn install_command(
    request: &Request,
    suite: &str,
    dir: &WorkDir,
    root: &Path,
    proxies: &[(&str, String)],
) -> Invocation {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut argv: Vec<String> = [
        "sh",
        "-c",
        CLOSE_INHERITED,
        "sh",
        "unshare",
        "--mount",
        "mmdebstrap",
        "--mode=root",
        "--format=directory",
        "--variant=minbase",
        "--architectures=amd64",
        "--aptopt=Apt::Install-Recommends \"false\"",
    ]
    .map(str::to_owned)
    .into();
    argv.push(format!("--include={}", packages(request).join(",")));
    argv.extend(EXCLUDED.map(|path| format!("--dpkgopt=path-exclude={path}")));
    let overlay = quote(&text(&dir.join("overlay/.")));
    argv.push(format!("--essential-hook=cp -a {overlay} \"$1/\""));
    argv.extend([suite.to_owned(), text(root), text(&dir.join("sources.list"))]);
    let command = Invocation::program(argv);
    proxies.iter().fold(command, |command, (variable, proxy)| command.env(variable, proxy))
}

/// The proxies that this host's apt uses, by the variables that apt takes them from as well.
fn proxies() -> Vec<(&'static str, String)> {
    let asked = |(scheme, variable): (&str, &'static str)| {
        let key = format!("Acquire::{scheme}::Proxy");
        let asked = Invocation::program(["apt-config", "dump", &key]);
        let text = super::build::output(&asked, STEP_TIMEOUT).ok()?;
        Some((variable, proxy_in(&text, &key)?))
    };
    [("http", "http_proxy"), ("https", "https_proxy")].into_iter().filter_map(asked).collect()
}

/// The value of a key in the output of apt-config(8).
fn proxy_in(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" \""))?;
    let value = line.strip_suffix("\";")?;
    (!value.is_empty()).then(|| value.to_owned())
}

/// Keys, and what packages have set up that is not wanted. Returns the machine's public key.
fn customise(
    dir: &WorkDir,
    root: &Path,
    building: &mut Building<'_>,
) -> Result<String, ImageError> {
    building.step("making keys");
    let ssh = root.join("etc/ssh");
    for entry in fs::read_dir(&ssh).map_err(|e| ImageError::file("list", &ssh, &e))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("ssh_host_") {
            let path = entry.path();
            fs::remove_file(&path).map_err(|e| ImageError::file("remove", &path, &e))?;
        }
    }
    let host_key = ssh.join("ssh_host_ed25519_key");
    for (path, comment) in [(host_key.clone(), "weir-dut"), (dir.join("key"), "weir-lab")] {
        keygen(building, &path, comment)?;
    }
    let read = |path: &Path| {
        fs::read_to_string(path).map_err(|error| ImageError::file("read", path, &error))
    };
    dir.write("root/root/.ssh/authorized_keys", 0o600, &read(&dir.join("key.pub"))?)?;
    let folder = root.join("root/.ssh");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))
        .map_err(|error| ImageError::file("set the mode of", &folder, &error))?;
    // The console is the lab's own: root needs no password there, and SSH takes none.
    let shadow = root.join("etc/shadow");
    let text = read(&shadow)?;
    let open = |line: &str| match line.split(':').collect::<Vec<_>>().as_slice() {
        ["root", _, rest @ ..] => format!("root::{}\n", rest.join(":")),
        _ => format!("{line}\n"),
    };
    let text: String = text.lines().map(open).collect();
    fs::write(&shadow, text).map_err(|error| ImageError::file("write", &shadow, &error))?;
    let public = host_key.with_extension("pub");
    let words: Vec<String> = read(&public)?.split(' ').take(2).map(str::to_owned).collect();
    Ok(words.join(" "))
}

/// Copies kernel and initial RAM disk out of the image. Returns the kernel's version.
fn boot_files(dir: &WorkDir, root: &Path) -> Result<String, ImageError> {
    let boot = root.join("boot");
    let list = fs::read_dir(&boot).map_err(|error| ImageError::file("list", &boot, &error))?;
    let mut kernels: Vec<String> = list
        .flatten()
        .filter_map(|e| Some(e.file_name().to_str()?.strip_prefix("vmlinuz-")?.to_owned()))
        .collect();
    kernels.sort();
    let version = kernels.pop().ok_or_else(|| {
        ImageError::new("the packages contained no kernel: look at the output above")
    })?;
    for (from, to) in
        [(format!("vmlinuz-{version}"), "kernel"), (format!("initrd.img-{version}"), "initrd")]
    {
        let from = boot.join(from);
        fs::copy(&from, dir.join(to)).map_err(|error| ImageError::file("copy", &from, &error))?;
    }
    Ok(version)
}

fn disk(
    request: &Request,
    dir: &WorkDir,
    root: &Path,
    building: &mut Building<'_>,
) -> Result<(), ImageError> {
    building.step("making the disk");
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (root, raw, disk) = (text(root), text(&dir.join("raw")), text(&dir.join("disk")));
    let size = format!("{}k", request.size_bytes >> 10);
    let make = ["mke2fs", "-q", "-t", "ext4", "-L", LABEL, "-m", "0", "-d", &root, &raw, &size];
    let advice = "ask for a larger disk with --size; the directory of --out needs room too";
    building.run(&Invocation::program(make), STEP_TIMEOUT, advice)?;
    if request.qcow2 {
        let convert = ["qemu-img", "convert", "-O", "qcow2", &raw, &disk];
        return building.run(&Invocation::program(convert), STEP_TIMEOUT, advice);
    }
    fs::rename(&raw, &disk).map_err(|error| ImageError::file("rename", Path::new(&raw), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &str = "\
Debian|http://deb.debian.org/debian/|bookworm|main
Debian|http://deb.debian.org/debian/|bookworm-updates|main
Debian|http://security.debian.org/|bookworm-security|main
Debian|http://deb.debian.org/debian/|bookworm|main
Debian|http://deb.debian.org/debian/|trixie|main
Node Source|https://deb.nodesource.com/node_20.x/|nodistro|main
";

    fn request(out: &Path) -> Request {
        Request {
            out: out.to_owned(),
            qcow2: true,
            size_bytes: 1 << 30,
            suite: None,
            mirror: None,
            packages: Vec::new(),
            replace: false,
            weir: "test".to_owned(),
        }
    }

    #[test]
    fn only_debians_own_archives_of_the_release_are_taken() {
        let expected = [
            "deb http://deb.debian.org/debian/ bookworm main",
            "deb http://deb.debian.org/debian/ bookworm-updates main",
            "deb http://security.debian.org/ bookworm-security main",
        ];
        assert_eq!(debian_lines(KNOWN, "bookworm"), expected);
        assert_eq!(debian_lines(KNOWN, "sid"), [""; 0]);
        // Updates of something that is not there.
        let updates = KNOWN.lines().nth(1).unwrap();
        assert_eq!(debian_lines(updates, "bookworm"), [""; 0]);
    }

    #[test]
    fn what_cannot_be_built_is_refused_before_anything_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("dut.qcow2");
        assert!(check(&request(&out)).is_ok());
        let small = Request { size_bytes: 1 << 20, ..request(&out) };
        assert!(check(&small).unwrap_err().to_string().contains("512 MiB at least"));
        let bad = Request { packages: vec!["frr;reboot".to_owned()], ..request(&out) };
        assert!(check(&bad).unwrap_err().to_string().contains("`frr;reboot` is not the name"));
        fs::write(&out, "precious").unwrap();
        assert!(check(&request(&out)).unwrap_err().to_string().contains("exists already"));
        assert!(check(&Request { replace: true, ..request(&out) }).is_ok());
        assert!(check(&request(dir.path())).is_err());
    }

    #[test]
    fn files_that_no_build_has_made_are_never_overwritten() {
        for taken in ["lab.toml", "lab.key", "lab.key.pub", "lab.kernel", "lab.initrd"] {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("lab");
            fs::write(dir.path().join(taken), "[campaign]\nname = \"precious\"\n").unwrap();
            for replace in [false, true] {
                for has_disk in [false, true] {
                    if has_disk {
                        fs::write(&out, "disk").unwrap();
                    }
                    let error = check(&Request { replace, ..request(&out) }).unwrap_err();
                    let error = error.to_string();
                    assert!(error.contains("choose another name"), "{taken}: {error}");
                    assert!(!replace || error.contains(taken), "{taken}: {error}");
                    drop(fs::remove_file(&out));
                }
            }
        }
        // An image of an earlier build is replaced when that is asked for.
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("lab");
        let about = About { built: Some(Built::default()), ..About::default() };
        fs::write(dir.path().join("lab.toml"), toml::to_string(&about).unwrap()).unwrap();
        fs::write(dir.path().join("lab.key"), "key").unwrap();
        assert!(check(&request(&out)).is_err());
        check(&Request { replace: true, ..request(&out) }).unwrap();
    }

    #[test]
    fn a_proxy_with_its_password_is_neither_an_argument_nor_an_option_of_the_image() {
        let text = "Acquire::http::Proxy \"http://user:hunter22@proxy:3128\";\n";
        let proxy = proxy_in(text, "Acquire::http::Proxy").unwrap();
        assert_eq!(proxy, "http://user:hunter22@proxy:3128");
        assert_eq!(proxy_in("Acquire::http::Proxy \"\";\n", "Acquire::http::Proxy"), None);
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("dut");
        let work = WorkDir::beside(&out).unwrap();
        let proxies = [("http_proxy", proxy)];
        let root = work.join("root");
        let command = install_command(&request(&out), "bookworm", &work, &root, &proxies);
        let shown = command.to_string();
        assert!(shown.contains("mmdebstrap") && !shown.contains("hunter22"), "{shown}");
        assert!(!shown.contains("Proxy"), "{shown}");
        // It reaches the program all the same.
        assert!(format!("{command:?}").contains("(\"http_proxy\", \"http://user:hunter22@"));
    }
}
