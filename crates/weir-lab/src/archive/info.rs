//! `.info` files: what a series is.
//!
//! Since 2016, shell assignments: `IMAGE=""`, `CFG=""`, `PKTGEN=""`, `UNAME=""`, without a final
//! newline. Before that, lines for people: `Image: …`, `CFG: …` (paths, or `none`), the output of
//! `uname -a` alone on its line, `Start time: …`, `End time: …`.

/// What an `.info` file says; what it leaves empty is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Info {
    /// The image: the second `-` field of its file's name, or all of it.
    pub(super) image: Option<String>,
    /// The configuration set: the last part of its path.
    pub(super) configuration: Option<String>,
    /// The pkt-gen set.
    pub(super) traffic: Option<String>,
    /// `uname -a` of the DUT.
    pub(super) uname: Option<String>,
    /// When the series began.
    pub(super) started: Option<String>,
    /// When it ended.
    pub(super) ended: Option<String>,
}

/// Reads a file of either era; the error says what is wrong and on which line.
pub(super) fn parse(bytes: &[u8]) -> Result<Info, (Option<u64>, String)> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        (Some(line_of(before)), "not UTF-8; the names of the files are used instead".to_owned())
    })?;
    let is_modern = ["IMAGE=", "CFG=", "PKTGEN=", "UNAME="]
        .iter()
        .any(|key| text.lines().any(|line| line.starts_with(key)));
    let info = if is_modern { assignments(text)? } else { lines(text) };
    if info == Info::default() && !is_modern {
        let what = "neither `CFG=\"…\"` nor `CFG: …`; the names of the files are used instead";
        return Err((Some(1), what.to_owned()));
    }
    Ok(info)
}

fn line_of(before: &[u8]) -> u64 {
    before.iter().fold(1, |line, byte| line + u64::from(*byte == b'\n'))
}

/// `KEY="VALUE"`; a value may go over lines.
fn assignments(text: &str) -> Result<Info, (Option<u64>, String)> {
    let value = |key: &str| -> Result<Option<String>, (Option<u64>, String)> {
        let opening = format!("{key}=\"");
        let found = text.match_indices(&opening).map(|(at, _)| at);
        let Some(at) = found.into_iter().find(|&at| at == 0 || text[..at].ends_with('\n')) else {
            return Ok(None);
        };
        let rest = &text[at + opening.len()..];
        let Some((value, _)) = rest.split_once('"') else {
            let line = line_of(&text.as_bytes()[..at]);
            return Err((Some(line), format!("{key} has no closing quote: the file is cut short")));
        };
        Ok(Some(value.trim().to_owned()).filter(|value| !value.is_empty()))
    };
    Ok(Info {
        image: value("IMAGE")?,
        configuration: value("CFG")?,
        traffic: value("PKTGEN")?,
        uname: value("UNAME")?,
        ..Info::default()
    })
}

fn lines(text: &str) -> Info {
    let mut info = Info::default();
    let given =
        |value: &str| Some(value.trim().to_owned()).filter(|v| !v.is_empty() && v != "none");
    for line in text.lines().map(str::trim_end) {
        if let Some(path) = line.strip_prefix("Image:") {
            info.image = given(path).map(|path| image(last_part(&path)));
        } else if let Some(path) = line.strip_prefix("CFG:") {
            info.configuration = given(path).map(|path| last_part(&path).to_owned());
        } else if let Some(path) = line.strip_prefix("PKTGEN:") {
            info.traffic = given(path).map(|path| last_part(&path).to_owned());
        } else if let Some(time) = line.strip_prefix("Start time:") {
            info.started = given(time);
        } else if let Some(time) = line.strip_prefix("End time:") {
            info.ended = given(time);
        } else if info.uname.is_none() && line.split(' ').count() >= 5 {
            info.uname = given(line);
        }
    }
    info
}

/// `BSDRP-244900-upgrade-amd64-serial.img.xz` is image 244900.
fn image(file: &str) -> String {
    file.split('-').nth(1).filter(|field| !field.is_empty()).unwrap_or(file).to_owned()
}

fn last_part(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNAME: &str = "FreeBSD box 10.2-RELEASE FreeBSD 10.2-RELEASE #0 r1: Tue Dec 8 amd64";

    fn text(value: &str) -> Option<String> {
        Some(value.to_owned())
    }

    #[test]
    fn both_eras_are_read() {
        let modern =
            format!("IMAGE=\"293069\"\nCFG=\"4Mstates-32KBhash\"\nPKTGEN=\"\"\nUNAME=\"{UNAME}\"");
        let info = parse(modern.as_bytes()).unwrap();
        assert_eq!((info.image, info.traffic), (text("293069"), None));
        assert_eq!((info.configuration, info.uname), (text("4Mstates-32KBhash"), text(UNAME)));
        let early = format!(
            "Image: /tmp/BSDRP-244900-upgrade-amd64.img.xz\nCFG: configs//pf-stateful/\n{UNAME}\n\
             Start time: Fri Sep 11 20:13:31 CEST 2015\nEnd time: Fri Sep 11 20:23:26 CEST 2015\n"
        );
        let info = parse(early.as_bytes()).unwrap();
        assert_eq!((info.image, info.configuration), (text("244900"), text("pf-stateful")));
        assert_eq!(info.uname, text(UNAME));
        assert_eq!(info.started, text("Fri Sep 11 20:13:31 CEST 2015"));
        assert_eq!(info.ended, text("Fri Sep 11 20:23:26 CEST 2015"));
        assert_eq!(parse(b"Image: none\nCFG: forwarding\n").unwrap().image, None);
    }

    #[test]
    fn what_is_damaged_is_named_with_its_line() {
        let cut = parse(b"IMAGE=\"\"\nCFG=\"pf").unwrap_err();
        assert_eq!(cut.0, Some(2));
        assert!(cut.1.contains("CFG has no closing quote"), "{}", cut.1);
        assert_eq!(parse(b"CFG=\"a\"\nUNAME=\"\xff\"").unwrap_err().0, Some(2));
        assert!(parse(b"").is_err());
        assert!(parse(b"hello\n").is_err());
        assert_eq!(parse(b"IMAGE=\"\"\nCFG=\"\"\n").unwrap(), Info::default());
    }
}
