//! Bundles from who wants the board to fail: whatever is read can be shown in every form, and shows nothing that acts.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use proptest::prelude::*;
use tribunal_board::{Bundle, Style, Summary, html, junit, markdown, sarif, terminal};

/// Bundles to be changed, without the source, which is most of the text.
fn bundles() -> &'static [String] {
    static BUNDLES: OnceLock<Vec<String>> = OnceLock::new();
    BUNDLES.get_or_init(|| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../serve/tests/verdicts");
        let files = fs::read_dir(folder).expect("verdicts to try with").flatten();
        let read = |path: &Path| {
            let mut bundle = Bundle::read_file(path).expect("a file").expect("a bundle");
            for source in &mut bundle.sources {
                source.text = source.text.chars().take(60).collect();
            }
            // Fewer findings, so that changes meet each key now and then.
            bundle.verdict.findings.truncate(3);
            bundle.line()
        };
        files.take(6).map(|file| read(&file.path())).collect()
    })
}

fn show(bundle: &Bundle) -> Result<(), TestCaseError> {
    let verdict = &bundle.verdict;
    let style = Style { color: false, width: 80 };
    for text in [terminal::verdict(verdict, &style), terminal::line(verdict, &style)] {
        prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    }
    let page = html::verdict(verdict, &bundle.sources);
    for acting in ["\u{1b}", "\u{202e}", "<a>"] {
        prop_assert!(!page.contains(acting), "{acting:?} on the page");
    }
    markdown::verdict(verdict);
    junit::report(std::slice::from_ref(verdict));
    sarif::report(std::slice::from_ref(verdict), Path::new("/"));
    Summary::of(verdict);
    Ok(())
}

proptest! {
    #![proptest_config(tribunal_hostile::cases(384))]

    #[test]
    fn whatever_is_imported_is_shown_or_refused(
        text in (0..bundles().len()).prop_flat_map(|at| tribunal_hostile::text(&bundles()[at])),
    ) {
        if let Ok(bundle) = Bundle::read(&text) {
            let again = Bundle::read(&bundle.line());
            prop_assert_eq!(again.as_ref(), Ok(&bundle), "what was read is read again");
            let _ = bundle.check();
            bundle.has_what_was_judged();
            show(&bundle)?;
        }
    }
}
