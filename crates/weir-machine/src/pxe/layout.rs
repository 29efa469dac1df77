//! The directory that is served: links to the files of the entries, and menus.
//!
//! It holds nothing but what the configuration names, and is made anew each time, because menus
//! name the address of the serving interface. Leases stay: a machine in the middle of its
//! installation keeps its address over a restart of the service.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::config::{Config, Kind};
use super::need::{Need, mfsbsd_images, served_as};
use super::{Place, ipxe, mfsbsd, pxelinux, script};

/// Below the directory of `pxe.toml`.
pub(crate) const DIR_NAME: &str = ".weir-pxe";

/// dnsmasq's leases, beside the directory that is served.
pub(super) const LEASES_NAME: &str = "leases";

/// Held while a directory is served.
const LOCK_NAME: &str = ".weir-pxe.lock";

/// What is served, for as long as this is kept: nobody else serves the directory meanwhile.
#[derive(Debug)]
pub struct Served {
    /// Where dnsmasq's own files go; not served.
    pub run_dir: PathBuf,
    /// The directory that TFTP serves.
    pub root: PathBuf,
    /// Files by their path, for HTTP.
    pub files: BTreeMap<String, PathBuf>,
    /// Console scripts that were written.
    pub scripts: Vec<PathBuf>,
    _lock: Flock<File>,
}

/// Makes the directory.
///
/// # Errors
/// In words: the file that could not be written.
pub fn make(config: &Config, dir: &Path, needs: &[Need], place: Place) -> Result<Served, String> {
    let failed =
        |path: &Path, error: &io::Error| format!("cannot write {}: {error}", path.display());
    let dir = fs::canonicalize(dir).map_err(|e| format!("cannot enter {}: {e}", dir.display()))?;
    let lock = lock(&dir.join(LOCK_NAME))?;
    let run_dir = dir.join(DIR_NAME);
    let root = run_dir.join("root");
    clear(&run_dir).map_err(|error| failed(&run_dir, &error))?;
    let mut layout = Layout { root, files: BTreeMap::new() };
    layout.directory(&run_dir)?;
    layout.directory(&layout.root)?;
    for need in needs {
        let file = fs::canonicalize(&need.file).map_err(|error| failed(&need.file, &error))?;
        layout.link(&need.served_as, &file)?;
    }
    for (entry, image) in mfsbsd_images(config) {
        let name = served_as(entry, image);
        let to = layout.root.join(&name);
        fs::remove_file(&to).map_err(|error| failed(&to, &error))?;
        mfsbsd::copy(&dir.join(image), &to, config.serial)?;
        fs::set_permissions(&to, Permissions::from_mode(0o644)).map_err(|e| failed(&to, &e))?;
        layout.files.insert(name, to);
    }
    layout.text("pxelinux.cfg/default", &pxelinux::menu(config, place, None))?;
    for host in &config.hosts {
        let name = format!("pxelinux.cfg/{}", pxelinux::machine_file(host.mac.0));
        layout.text(&name, &pxelinux::menu(config, place, Some(&host.entry)))?;
    }
    layout.text(ipxe::SCRIPT_NAME, &ipxe::script(config, place))?;
    let mut scripts = Vec::new();
    for entry in &config.entries {
        match &entry.kind {
            Kind::Openbsd { kernel, .. } => {
                layout.alias("bsd", &served_as(&entry.name, kernel))?;
                layout.text("etc/boot.conf", &boot_conf(config))?;
            }
            Kind::Netbsd { kernel, .. } => {
                layout.alias("netbsd", &served_as(&entry.name, kernel))?;
            }
            _ => {}
        }
        if let Some(text) = script::install(config, place, entry) {
            let path = run_dir.join(format!("install-{}.toml", entry.name));
            fs::write(&path, text).map_err(|error| failed(&path, &error))?;
            scripts.push(path);
        }
    }
    let Layout { root, files } = layout;
    Ok(Served { run_dir, root, files, scripts, _lock: lock })
}

/// Removes what an earlier service has left, but for the leases.
fn clear(run_dir: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(run_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != LEASES_NAME {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn lock(path: &Path) -> Result<Flock<File>, String> {
    let shown = path.display();
    let file = File::create(path).map_err(|error| format!("cannot write {shown}: {error}"))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| {
        format!("another weir pxe serves this directory: {shown} is locked ({error})")
    })
}

/// OpenBSD's boot.conf(8): the serial console first, then the kernel.
fn boot_conf(config: &Config) -> String {
    let serial = config.serial;
    format!("stty com{0} {1}\nset tty com{0}\nboot tftp:/bsd\n", serial.port, serial.speed)
}

struct Layout {
    root: PathBuf,
    files: BTreeMap<String, PathBuf>,
}

impl Layout {
    fn directory(&self, path: &Path) -> Result<(), String> {
        let made = fs::create_dir_all(path)
            // Whatever the umask is: dnsmasq reads as a user of its own.
            .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)));
        made.map_err(|error| format!("cannot make {}: {error}", path.display()))
    }

    /// The place of a served path, with its directory.
    fn place(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.root.join(name);
        if let Some(parent) = path.parent() {
            self.directory(parent)?;
        }
        Ok(path)
    }

    fn link(&mut self, name: &str, file: &Path) -> Result<(), String> {
        let path = self.place(name)?;
        symlink(file, &path).map_err(|error| {
            format!("cannot link {} to {}: {error}", path.display(), file.display())
        })?;
        self.files.insert(name.to_owned(), file.to_owned());
        Ok(())
    }

    /// Another name of what is served already.
    fn alias(&mut self, name: &str, of: &str) -> Result<(), String> {
        match self.files.get(of).cloned() {
            Some(file) => self.link(name, &file),
            None => Err(format!("`{of}` is not served")),
        }
    }

    fn text(&mut self, name: &str, text: &str) -> Result<(), String> {
        let path = self.place(name)?;
        let written = fs::write(&path, text)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o644)));
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        self.files.insert(name.to_owned(), path);
        Ok(())
    }
}
