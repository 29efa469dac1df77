//! `weir lab image`: builds a disk for a virtual DUT, or makes one of what a system publishes.

use std::io::Write as _;

use anyhow::Context as _;
use weir_machine::image::ImageError;
use weir_machine::image::bsd::{self, Bsd};
use weir_machine::image::debian::{self, Request};

use super::require_root;
use crate::cli::image::{BsdArgs, DebianArgs, ImageCommand};
use crate::exit::{self, Outcome};
use crate::signals;

pub(super) fn command(command: &ImageCommand) -> anyhow::Result<Outcome> {
    match command {
        ImageCommand::Debian(args) => debian(args),
        ImageCommand::Freebsd(args) => bsd_image(Bsd::Freebsd, args),
        ImageCommand::Openbsd(args) => bsd_image(Bsd::Openbsd, args),
    }
}

fn debian(args: &DebianArgs) -> anyhow::Result<Outcome> {
    require_root(
        "weir lab image debian",
        "installs packages into a folder with the owners of their files",
    )?;
    let cancel = signals::listen().context("cannot listen to signals")?;
    let request = Request {
        out: args.out.clone(),
        qcow2: args.is_qcow2(),
        size_bytes: args.size,
        suite: args.suite.clone(),
        mirror: args.mirror.clone(),
        packages: args.packages.clone(),
        replace: args.force,
        weir: crate::VERSION.to_owned(),
    };
    let image = match debian::build(&request, &cancel, &mut tell) {
        Ok(image) => image,
        Err(error) => return stopped(error),
    };
    let text = if args.json.json {
        serde_json::to_string_pretty(&image)? + "\n"
    } else {
        let path = image.image.display();
        format!(
            "{path}: Debian {}, Linux {}, {} MiB on this disk\n\
             write `image = \"{path}\"` into [testbed] with kind = \"qemu\"\n",
            image.suite,
            image.kernel_version,
            image.file_size_bytes >> 20
        )
    };
    exit::put(&text)?;
    Ok(Outcome::Done)
}

fn bsd_image(system: Bsd, args: &BsdArgs) -> anyhow::Result<Outcome> {
    let cancel = signals::listen().context("cannot listen to signals")?;
    let request = bsd::Request {
        system,
        source: args.file.clone(),
        is_medium: (args.medium || args.disk).then_some(args.medium),
        out: args.out.clone(),
        size_bytes: args.size,
        cards: weir_lab::testbed::qemu::cards(),
        log: args.log.clone(),
        replace: args.force,
        weir: crate::VERSION.to_owned(),
    };
    let image = match bsd::make(&request, &cancel, &mut tell) {
        Ok(image) => image,
        Err(error) => return stopped(error),
    };
    let text = if args.json.json {
        serde_json::to_string_pretty(&image)? + "\n"
    } else {
        let path = image.image.display();
        format!(
            "{path}: {} {}, {} MiB on this disk\nwrite `image = \"{path}\"` and \
             `system = \"{}\"` into [testbed] with kind = \"qemu\"\n",
            image.system,
            image.kernel_version,
            image.file_size_bytes >> 20,
            image.system.to_lowercase()
        )
    };
    exit::put(&text)?;
    Ok(Outcome::Done)
}

/// A closed standard error must not end a build.
fn tell(step: &str) {
    drop(writeln!(anstream::stderr(), "{step}"));
}

/// What an error is to the command: a signal is none.
fn stopped(error: ImageError) -> anyhow::Result<Outcome> {
    match error {
        ImageError::Cancelled(signal) => {
            tell(&error.to_string());
            Ok(Outcome::Signal(signal))
        }
        error => Err(error.into()),
    }
}
