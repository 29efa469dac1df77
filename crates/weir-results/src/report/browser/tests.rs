//! The page in a real Chromium: nothing in the console, nothing cut, and what its script does.
//!
//! One browser is started for all of it, without a window, and spoken to over a pipe in the
//! DevTools protocol. Where there is none the test says so. `WEIR_REPORT_LOOK=DIR` writes pictures
//! and a printed page of every fixture, to be looked at.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::devtools::Browser;
use super::tests::{campaigns, file};

#[path = "devtools/tests.rs"]
mod devtools;

/// Widths of a telephone, a tablet, and of three screens.
const WIDTHS: [u32; 5] = [390, 768, 1280, 1920, 2400];

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("weir-page-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// What of the page is wider than it has room for, with all of it unfolded.
const CUT: &str = "(() => {
  for (const one of document.querySelectorAll('details')) one.open = true;
  const wide = [...document.querySelectorAll('.scroll')].filter(s =>
    s.scrollWidth > s.clientWidth + 1);
  const page = document.documentElement;
  return {
    page: page.scrollWidth > innerWidth ? [page.scrollWidth] : [],
    tables: wide.map(s => `${s.closest('[id]')?.id}: ${s.scrollWidth} of ${s.clientWidth}`),
  };
})()";

/// Where the first point that is shown is, in pixels of the window, and what it tells.
const POINT: &str = "(() => {
  const hit = [...document.querySelectorAll('.wp a.hit[href^=\"cells/\"]')].find(hit =>
    hit.querySelector('circle')?.getClientRects().length);
  hit.scrollIntoView({block: 'center'});
  const box = hit.querySelector('circle').getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2, hit.getAttribute('aria-label')];
})()";

/// Chooses in a filter; what is shown of the DUTs then, in tables and in figures.
const FILTERED: &str = "(() => {
  const select = document.querySelector('.filters select[name=dut]');
  select.value = 'nft';
  select.dispatchEvent(new Event('change'));
  const shown = name => [...new Set([...document.querySelectorAll(name)].filter(e =>
    !e.hidden && !e.classList.contains('faded') && e.style.display !== 'none')
    .map(e => e.dataset.dut))];
  const csv = () => document.querySelector('table.series').weirCsv();
  const found = [shown('tr[data-dut]'), shown('g[data-dut]'), csv()];
  select.value = '';
  select.dispatchEvent(new Event('change'));
  return [...found, csv()];
})()";

/// Sorts a table by what a heading is clicked for: the cells of that column, from top to bottom.
const SORTED: &str = "(() => {
  const table = document.createElement('table');
  table.className = 'sortable';
  const row = cell => `<tr><td>${cell}</td></tr>`;
  const cells = ['a.10K', 'a.1M', 'a.1K', 'b.64Ki', 'a.9', '', 'b.2'];
  table.innerHTML = `<thead><tr><th>n</th></tr></thead><tbody>${cells.map(row).join('')}</tbody>`;
  document.body.append(table);
  window.weirSort(table);
  table.tHead.rows[0].cells[0].click();
  const found = [...table.tBodies[0].rows].map(row => row.textContent);
  table.remove();
  return found;
})()";

/// Opens what a click leads to: whether a dialog is open, its title, and whether it is whole JSON.
const RECORD: &str = "(() => {
  const dialog = document.querySelector('dialog.record');
  const trial = dialog.open ? JSON.parse(dialog.querySelector('pre').textContent) : {};
  const found = [dialog.open, dialog.querySelector('h2')?.textContent, trial.series ?? ''];
  if (dialog.open) dialog.close();
  return found;
})()";

fn list(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().filter_map(Value::as_str).collect()
}

/// Nothing is cut at any width, in light and in dark.
fn fits(browser: &mut Browser, name: &str, url: &str, look: Option<&Path>) {
    for width in WIDTHS {
        for scheme in ["light", "dark"] {
            // One of the schemes is enough for what depends on the width alone.
            if look.is_none() && (scheme == "dark") != (width == 768) {
                continue;
            }
            browser.view((width, 1080), scheme);
            browser.open(url);
            if let Some(look) = look {
                let path = look.join(format!("{name}-{width}-{scheme}.png"));
                fs::write(path, browser.picture()).expect("a picture");
            }
            let background = "getComputedStyle(document.body).backgroundColor";
            let expected = if scheme == "dark" { "rgb(20, 23, 26)" } else { "rgb(255, 255, 255)" };
            assert_eq!(browser.evaluate(background), expected, "{name} at {width}");
            let cut = browser.evaluate(CUT);
            assert_eq!(cut["page"], json!([]), "{name} at {width}: the page is wider");
            if width >= 1280 {
                assert_eq!(cut["tables"], json!([]), "{name} at {width}: tables are cut");
            }
        }
    }
}

/// A point tells of its trial, and a click opens its record; so does a key figure's trial.
fn points(browser: &mut Browser) {
    let found = browser.evaluate(POINT);
    let (x, y) = (found[0].as_f64().expect("x"), found[1].as_f64().expect("y"));
    let label = found[2].as_str().expect("a label").to_owned();
    for part in ["iteration 1", "Mpps delivered of", "dut-bound: ", "ring_full: "] {
        assert!(label.contains(part), "{part}: {label}");
    }
    browser.mouse("mouseMoved", (x, y));
    let tip = browser.evaluate(
        "[document.querySelector('.tip').hidden, \
                                document.querySelector('.tip').textContent]",
    );
    assert_eq!(tip, json!([false, label]));
    browser.mouse("mousePressed", (x, y));
    browser.mouse("mouseReleased", (x, y));
    let record = browser.evaluate(RECORD);
    assert_eq!(record[0], true, "{record}");
    let title = record[1].as_str().expect("a title");
    assert!(label.starts_with(title), "{title}: {label}");
    browser.mouse("mouseMoved", (2.0, 2.0));
    assert_eq!(browser.evaluate("document.querySelector('.tip').hidden"), true);
}

fn filters(browser: &mut Browser) {
    let found = browser.evaluate(FILTERED);
    assert_eq!(found[0], json!(["nft"]), "rows of tables");
    assert_eq!(found[1], json!(["nft"]), "rows of figures");
    let (one, all) = (found[2].as_str().expect("a file"), found[3].as_str().expect("a file"));
    let head = "Traffic,DUT,\"Median, pps\",Min–max,";
    assert!(one.starts_with(head) && all.starts_with(head), "{one}");
    assert_eq!((one.lines().count(), all.lines().count()), (4, 7), "{one}{all}");
    assert!(one.contains("\"flows-4900 · 4,900 flows\",nft,331000,"), "{one}");
}

fn contents(browser: &mut Browser) {
    let unfolded = browser.evaluate(
        "new Promise(done => {
           addEventListener('hashchange', () => setTimeout(() =>
             done(document.querySelector('#iterations-1').getClientRects().length > 0)));
           location.hash = '#iterations-1';
         })",
    );
    assert_eq!(unfolded, true, "a link unfolds what it leads to");
    let links = browser.evaluate(
        "[...document.querySelectorAll('.contents a')].map(a =>
           document.getElementById(a.hash.slice(1)) ? '' : a.hash).join('')",
    );
    assert_eq!(links, "", "every entry of the contents leads somewhere");
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn the_page_works_in_chromium() {
    let folder = Folder::new();
    let Some(mut browser) = Browser::start(&folder.0.join("profile")) else {
        eprintln!("skipped: chromium is not installed (Debian's package `chromium`)");
        return;
    };
    let look = std::env::var_os("WEIR_REPORT_LOOK").map(PathBuf::from);
    for (name, data) in campaigns() {
        let path = folder.0.join(format!("{name}.html"));
        fs::write(&path, file(&data, "report.html")).expect("the page");
        let url = format!("file://{}", path.display());
        fits(&mut browser, name, &url, look.as_deref());
        let printed = browser.printed();
        assert!(printed.starts_with(b"%PDF-"), "{name} is printed");
        if let Some(look) = &look {
            fs::write(look.join(format!("{name}.pdf")), printed).expect("a printed page");
        }
        if !["usual", "many"].contains(&name) {
            continue;
        }
        browser.view((1920, 1080), "light");
        browser.open(&url);
        let height = browser.evaluate("document.documentElement.scrollHeight");
        assert!(height.as_u64().is_some_and(|h| h <= 2 * 1080), "{name} fills {height} pixels");
        if name == "many" {
            continue;
        }
        points(&mut browser);
        filters(&mut browser);
        contents(&mut browser);
        let sorted = browser.evaluate(SORTED);
        assert_eq!(list(&sorted), ["a.9", "a.1K", "a.10K", "a.1M", "b.2", "b.64Ki", ""]);
        browser.view((390, 844), "light");
        browser.open(&url);
        points(&mut browser);
    }
    assert_eq!(browser.complaints(), &[] as &[String], "the console is empty");
}
