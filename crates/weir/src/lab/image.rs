//! `weir lab image`: builds a disk for a virtual DUT, or makes one of what a system publishes.

use std::io::Write as _;

use anyhow::Context as _;
use serde::Serialize;
use weir_machine::image::ImageError;
use weir_machine::image::bsd::{self, Bsd};
use weir_machine::image::debian::{self, Request};

use super::{check_place, require_root};
use crate::cli::image::{BsdArgs, DebianArgs, ImageCommand};
use crate::exit::{self, Outcome};
use crate::signals;

pub(super) fn command(command: &ImageCommand) -> anyhow::Result<Outcome> {
    let out = match command {
        ImageCommand::Debian(args) => &args.out,
        ImageCommand::Freebsd(args) | ImageCommand::Openbsd(args) => &args.out,
    };
    // The directory of the image is made if it is the only one that is missing.
    out.parent().map_or(Ok(()), check_place)?;
    match command {
        ImageCommand::Debian(args) => debian(args),
        ImageCommand::Freebsd(args) => bsd_image(Bsd::Freebsd, args),
        ImageCommand::Openbsd(args) => bsd_image(Bsd::Openbsd, args),
    }
}

fn debian(args: &DebianArgs) -> anyhow::Result<Outcome> {
    require_root(
        "weir lab image debian",
        "installs packages into a directory with the owners of their files",
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
    show(debian::build(&request, &cancel, &mut tell), args.json.json, |image| {
        let path = image.image.display();
        format!(
            "{path}: Debian {}, Linux {}, {} MiB on this disk\n\
             write `image = \"{path}\"` into [testbed] with kind = \"qemu\"\n",
            image.suite,
            image.kernel_version,
            image.file_size_bytes >> 20
        )
    })
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
    show(bsd::make(&request, &cancel, &mut tell), args.json.json, |image| {
        let path = image.image.display();
        format!(
            "{path}: {} {}, {} MiB on this disk\nwrite `image = \"{path}\"` and \
             `system = \"{}\"` into [testbed] with kind = \"qemu\"\n",
            image.system,
            image.kernel_version,
            image.file_size_bytes >> 20,
            image.system.to_lowercase()
        )
    })
}

/// A closed standard error must not end a build.
fn tell(step: &str) {
    drop(writeln!(anstream::stderr(), "{step}"));
}

/// Prints what was made. A signal is not an error of the command.
fn show<T: Serialize>(
    made: Result<T, ImageError>,
    json: bool,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<Outcome> {
    match made {
        Ok(image) => {
            exit::put(&if json { exit::json(&image)? } else { text(&image) })?;
            Ok(Outcome::Done)
        }
        Err(error @ ImageError::Cancelled(signal)) => {
            tell(&error.to_string());
            Ok(Outcome::Signal(signal))
        }
        Err(error) => Err(error.into()),
    }
}
