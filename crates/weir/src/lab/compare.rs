//! `weir lab compare`: stores held against the first of them.

use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use weir_results::collection::CollectedSeries;
use weir_results::compare::{self, Asked, Report};
use weir_results::plot::PlotError;

use super::check_place;
use super::plot::{FileFormat, save};
use super::stores::{self, write};
use crate::cli::compare::{CompareArgs, Criterion};
use crate::exit::{self, Outcome};
use crate::progress;

/// Runs the command.
pub(super) fn command(args: &CompareArgs) -> anyhow::Result<Outcome> {
    let target = args.out.as_deref().map(Target::of).transpose()?;
    args.out.as_deref().map_or(Ok(()), check_place)?;
    let Some(stores) = stores::read(&args.stores, args.series.as_deref())? else {
        return Ok(Outcome::Refused);
    };
    let report = compare::compare(&stores.collections, asked(args)?)?;
    let tells = |series: &CollectedSeries| series.points.iter().any(|point| point.cost.is_some());
    let has_costs = report.matched.iter().any(|m| tells(m.baseline) && tells(m.other));
    if report.asked.cost_ratio.is_some() && !report.matched.is_empty() && !has_costs {
        bail!(
            "--fail-on cost: no series has a CPU time per packet on both sides; trials on Linux \
             that are not steered by `rps_cpus` have it, archives and older stores have not"
        )
    }
    if let Some(target) = &target {
        target.write(&report, &args.stores)?;
    }
    let text = if args.json.json {
        let mut value = report.json();
        value["report"] = args.out.as_ref().map(|p| p.display().to_string()).into();
        exit::json(&value)?
    } else {
        let blocks = if args.verbose.verbose { report.ministat() } else { Vec::new() };
        let blocks = blocks.iter().map(|(title, block)| format!("{title}\n{block}\n"));
        blocks.collect::<String>() + &progress::text(&report.document(&[]))
    };
    exit::put(&text)?;
    if let Some(path) = &args.out {
        progress::note(&format!("report: {}", super::absolute(path)?.display()));
    }
    Ok(if report.fails() || !stores.is_whole { Outcome::No } else { Outcome::Done })
}

fn asked(args: &CompareArgs) -> anyhow::Result<Asked> {
    let mut asked = Asked { margin_ratio: args.margin, ..Asked::default() };
    for criterion in &args.fail_on {
        match criterion {
            Criterion::Missing => asked.missing_fails = true,
            Criterion::Regression(_) if asked.regression_ratio.is_some() => {
                bail!("--fail-on names two regressions: one bound is enough")
            }
            Criterion::Regression(ratio) => asked.regression_ratio = Some(*ratio),
            Criterion::Cost(_) if asked.cost_ratio.is_some() => {
                bail!("--fail-on names two rises of the cost: one bound is enough")
            }
            Criterion::Cost(ratio) => asked.cost_ratio = Some(*ratio),
        }
    }
    Ok(asked)
}

/// Where a report goes.
enum Target<'a> {
    Html(&'a Path),
    Markdown(&'a Path),
    Json(&'a Path),
    Directory(&'a Path),
}

impl<'a> Target<'a> {
    fn of(path: &'a Path) -> anyhow::Result<Self> {
        match path.extension().and_then(|e| e.to_str()) {
            _ if path.is_dir() => Ok(Self::Directory(path)),
            Some("html") => Ok(Self::Html(path)),
            Some("md") => Ok(Self::Markdown(path)),
            Some("json") => Ok(Self::Json(path)),
            None => Ok(Self::Directory(path)),
            Some(_) => bail!(
                "{}: a report is a file that ends with .html, .md or .json, or a directory, whose \
                 name has no ending",
                path.display()
            ),
        }
    }

    fn write(&self, report: &Report<'_>, stores: &[PathBuf]) -> anyhow::Result<()> {
        match self {
            Self::Html(path) => write(path, html(report, stores, path)?.as_bytes()),
            Self::Markdown(path) => write(path, report.document(&[]).markdown().as_bytes()),
            Self::Json(path) => write(path, exit::json(&report.json())?.as_bytes()),
            Self::Directory(dir) => {
                let plots = dir.join("plots");
                std::fs::create_dir_all(&plots)
                    .with_context(|| format!("cannot make {}", plots.display()))?;
                let page = dir.join("compare.html");
                write(&page, html(report, stores, &page)?.as_bytes())?;
                write(&dir.join("compare.md"), report.document(&[]).markdown().as_bytes())?;
                write(&dir.join("compare.json"), exit::json(&report.json())?.as_bytes())?;
                for (name, figure) in report.figures() {
                    for (ending, format) in [
                        ("svg", FileFormat::Svg),
                        ("png", FileFormat::Png),
                        ("gp", FileFormat::Gnuplot),
                    ] {
                        let file = plots.join(format!("{name}.{ending}"));
                        match save(&figure, &file, format) {
                            // The SVG shows the same.
                            Err(error) if error.is::<PlotError>() => {
                                progress::warn(&format!("no {}: {error}", file.display()));
                            }
                            saved => saved?,
                        }
                    }
                }
                Ok(())
            }
        }
    }
}

/// The page, with links to the raw cells as they are reached from it.
fn html(report: &Report<'_>, stores: &[PathBuf], page: &Path) -> anyhow::Result<String> {
    let page = super::absolute(page)?;
    let from = page.parent().unwrap_or(Path::new("/"));
    let root = |store: &PathBuf| Ok(relative(from, &super::absolute(store)?));
    let roots: Vec<String> = stores.iter().map(root).collect::<anyhow::Result<_>>()?;
    Ok(report.document(&roots).html())
}

/// The path from one directory to another, both absolute; empty if it cannot be written as text.
fn relative(from: &Path, to: &Path) -> String {
    let names = |path: &Path| -> Option<Vec<String>> {
        let mut names = Vec::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => names.push(name.to_str()?.to_owned()),
                Component::ParentDir => drop(names.pop()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Some(names)
    };
    let (Some(from), Some(to)) = (names(from), names(to)) else { return String::new() };
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = from[shared..].iter().map(|_| "..");
    let parts: Vec<&str> = up.chain(to[shared..].iter().map(String::as_str)).collect();
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::relative;

    #[test]
    fn one_directory_is_reached_from_another() {
        for (from, to, path) in [
            ("/a/b", "/a/b/c", "c"),
            ("/a/b", "/a/c/d", "../c/d"),
            ("/a/b", "/a/b", "."),
            ("/a/./b/../c", "/x", "../../x"),
        ] {
            assert_eq!(relative(Path::new(from), Path::new(to)), path, "{from} {to}");
        }
    }
}
