//! `weir lab image`: builds a disk for a virtual DUT.

use std::io::Write as _;

use anyhow::Context as _;
use weir_machine::image::ImageError;
use weir_machine::image::debian::{self, Request};

use super::require_root;
use crate::cli::image::{DebianArgs, ImageCommand};
use crate::exit::{self, Outcome};
use crate::signals;

pub(super) fn command(command: &ImageCommand) -> anyhow::Result<Outcome> {
    match command {
        ImageCommand::Debian(args) => debian(args),
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
    // A closed standard error must not end a build.
    let mut tell = |step: &str| drop(writeln!(anstream::stderr(), "{step}"));
    let image = match debian::build(&request, &cancel, &mut tell) {
        Ok(image) => image,
        Err(error @ ImageError::Cancelled(signal)) => {
            tell(&error.to_string());
            return Ok(Outcome::Signal(signal));
        }
        Err(error) => return Err(error.into()),
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
