//! `[[image]]`: what the DUT's machine runs, block by block.

use std::time::Duration;

use crate::diagnostic::{Report, quote};
use crate::model::{Image, InstallOn};
use crate::spec::fields::{Fields, Text};
use crate::spec::{Named, check_name};

/// How long an installation may take, unless it says otherwise.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(900);

/// No installation takes longer.
const TIMEOUT_MAX: Duration = Duration::from_secs(6 * 3600);

/// An image as written.
#[derive(Debug)]
pub(crate) struct ImageSpec {
    pub(crate) name: Text,
    pub(crate) image: Image,
}

impl Named for ImageSpec {
    fn name(&self) -> &Text {
        &self.name
    }
}

/// One `[[image]]`.
pub(crate) fn image(fields: &Fields<'_, '_>, report: &mut Report) -> Option<ImageSpec> {
    let known = ["name", "file", "sha256", "install", "on", "check", "timeout"];
    fields.refuse_unknown(&known, report);
    let name = fields.required_text("name", report)?;
    check_name(&name.text, &name.span, report);
    let mut filled = |field: &str| {
        let text = fields.text(field, report)?;
        if text.text.trim().is_empty() {
            report.error(&text.span, format!("`{field}` is empty"));
        }
        Some(text)
    };
    let (file, sha256) = (filled("file"), filled("sha256"));
    let (install, check) = (filled("install"), filled("check"));
    if let Some(sha256) = &sha256 {
        check_sha256(sha256, file.is_some(), report);
    }
    let on = match fields.text("on", report) {
        None => InstallOn::Dut,
        Some(text) => match text.text.as_str() {
            "dut" => InstallOn::Dut,
            "manager" => InstallOn::Manager,
            other => {
                let message = format!("`on` is not {}", quote(other));
                report.error_help(&text.span, message, "\"dut\" or \"manager\"");
                InstallOn::Dut
            }
        },
    };
    if install.is_none() {
        for field in ["on", "timeout"] {
            if let Some(span) = fields.key_span(field) {
                let message = format!("`{field}` needs `install`");
                report.error_help(&span, message, "a shell line that installs the image");
            }
        }
    }
    let timeout = fields.duration("timeout", report).unwrap_or(TIMEOUT_DEFAULT);
    if timeout.is_zero() || timeout > TIMEOUT_MAX {
        let message = "`timeout` must be above zero and at most 6h";
        report.error(&fields.span_of("timeout"), message);
    }
    let text = |text: Option<Text>| text.map(|text| text.text);
    let image = Image {
        name: name.text.clone(),
        file: text(file),
        sha256: text(sha256).map(|digest| digest.to_lowercase()),
        install: text(install),
        on,
        check: text(check),
        timeout,
    };
    Some(ImageSpec { name, image })
}

fn check_sha256(digest: &Text, has_file: bool, report: &mut Report) {
    let good = digest.text.len() == 64 && digest.text.bytes().all(|b| b.is_ascii_hexdigit());
    if !good {
        let message = format!("{} is not a SHA-256", quote(&digest.text));
        report.error_help(&digest.span, message, "64 hexadecimal digits, as sha256sum prints");
    } else if !has_file {
        report.error(&digest.span, "`sha256` is that of `file`, and there is none");
    }
}
