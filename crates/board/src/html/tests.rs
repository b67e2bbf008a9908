use quick_xml::Reader;
use quick_xml::events::Event;
use tribunal_judge::{Family, Outcome, Severity};

use super::*;
use crate::samples::{self, all};

fn pages() -> Vec<String> {
    let mut pages: Vec<String> = all().iter().map(|one| verdict(one, &[])).collect();
    pages.push(report(&all()));
    pages.push(report(&[]));
    pages.push(board(&samples::summaries(&all())));
    pages
}

/// Names of elements, and every attribute's value, in order; panics where tags do not match.
fn parsed(page: &str) -> (Vec<String>, Vec<(String, String)>) {
    let mut reader = Reader::from_str(page);
    let (mut names, mut attributes) = (Vec::new(), Vec::new());
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error}")) {
            Event::Start(element) | Event::Empty(element) => {
                names.push(String::from_utf8_lossy(element.name().as_ref()).into_owned());
                for attribute in element.attributes() {
                    let attribute = attribute.expect("an attribute");
                    attributes.push((
                        String::from_utf8_lossy(attribute.key.as_ref()).into_owned(),
                        String::from_utf8_lossy(&attribute.value).into_owned(),
                    ));
                }
            }
            Event::Eof => return (names, attributes),
            _ => {}
        }
    }
}

fn values<'a>(attributes: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    attributes.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
}

#[test]
fn every_page_is_well_formed_and_self_contained() {
    for page in pages() {
        let (names, attributes) = parsed(&page);
        for forbidden in ["script", "link", "img", "iframe", "object", "form", "a-b"] {
            assert!(!names.iter().any(|name| name == forbidden), "{forbidden}");
        }
        assert!(
            attributes.iter().all(|(name, _)| !name.starts_with("on") && name != "src" && name != "style")
        );
        assert!(values(&attributes, "href").iter().all(|href| href.starts_with("#verdict-")));
        assert!(
            page.contains("default-src 'none'") && names.iter().filter(|name| *name == "main").count() == 1
        );
    }
}

#[test]
fn headings_go_down_one_level_at_a_time() {
    for page in pages() {
        let mut before = 0;
        for name in parsed(&page).0 {
            let Some(level) = name.strip_prefix('h').and_then(|level| level.parse::<u32>().ok()) else {
                continue;
            };
            assert!(level <= before + 1 && (level > 1 || before == 0), "h{level} after h{before}");
            before = level;
        }
        assert!(before > 0);
    }
}

#[test]
fn links_lead_to_sections_that_are_there() {
    let (_, attributes) = parsed(&report(&all()));
    let ids = values(&attributes, "id");
    let links = values(&attributes, "href");
    assert!(links.len() > all().len());
    assert!(links.iter().all(|link| ids.contains(&&link[1..])), "{links:?} {ids:?}");
    let mut once = ids.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "{ids:?}");
}

#[test]
fn a_server_says_where_links_lead() {
    let summaries = samples::summaries(&[samples::accepted()]);
    let body = board_body(&summaries, Links::Paths, 2);
    assert!(body.contains(&format!("href=\"/verdicts/{}\"", summaries[0].id)));
    assert!(body.contains("href=\"/challenges/layer_norm_backward\""));
    assert!(!board_body(&summaries, Links::None, 2).contains("href"));
}

#[test]
fn hostile_text_is_shown_and_does_nothing() {
    for page in
        [verdict(&samples::hostile(), &[]), report(&[samples::hostile()]), board(&samples::summaries(&all()))]
    {
        for raw in ["<b>bob", "<script>alert", "<img src=x>", "\u{202e}", "\u{1b}", "\u{7}"] {
            assert!(!page.contains(raw), "{raw:?}");
        }
        let shown = "bob&#60;/b&#62;|`x`\\u{202e}[a](http://evil)";
        assert!(page.contains(shown), "{}", &page[page.find("bob").unwrap_or(0)..][..200]);
    }
}

#[test]
fn every_number_of_the_board_is_there() {
    let verdicts = all();
    let page = report(&verdicts);
    let summaries = samples::summaries(&verdicts);
    for standings in ranking::rank(&summaries) {
        for place in &standings.places {
            assert!(page.contains(&format!(">{}<", crate::phrases::score(place))));
            for part in place.summary.dimensions.values() {
                assert!(page.contains(&format!(">{}<", words::score(part.score))));
            }
        }
    }
    // The same counts as the cases have: the four of batch all fail, as does the odd shape.
    for title in ["batch: 0 of 4 cases hold", "shapes: 1 of 2 cases hold", "edge: 0 of 2 cases hold"] {
        assert!(page.contains(title), "{title}");
    }
}

#[test]
fn what_was_not_judged_is_counted_in_words() {
    let page = report(&all());
    let counts = page.split("class=\"counts\">").nth(1).unwrap().split("</p>").next().unwrap();
    for said in ["1 accepted", "1 disqualified", "1 not judged (infrastructure)"] {
        assert!(counts.contains(&format!("</span> {said}</span>")), "{said}: {counts}");
    }
}

#[test]
fn an_interval_is_shown_where_the_rubric_is_at_hand() {
    let challenge = tribunal_judge::challenges::find("layer_norm_backward").expect("a challenge");
    let rubric = tribunal_judge::Rubric::parse(challenge.rubric()).expect("a rubric");
    let one = Verdict::new(samples::rejected().evidence(), &rubric);
    let [low, high] = Summary::of(&one).interval().expect("draws");
    let interval = format!("{low:.1}–{high:.1}");
    assert!(low < high && report(std::slice::from_ref(&one)).matches(&interval).count() >= 2);
    assert!(verdict(&one, &[]).contains(&interval));
}

#[test]
fn pictures_show_what_the_verdict_says() {
    let one = samples::rejected();
    let (_, attributes) = parsed(&verdict(&one, &[]));
    let marks: usize =
        values(&attributes, "data-count").iter().map(|count| count.parse::<usize>().unwrap()).sum();
    assert_eq!(marks, one.findings.iter().filter(|finding| finding.used.is_some()).count());
    let scores = values(&attributes, "data-score").len();
    assert_eq!(scores, one.dimensions.values().filter(|part| part.score.is_some()).count());
    let drawn: Vec<f64> =
        values(&attributes, "data-value").iter().map(|value| value.parse().unwrap()).collect();
    assert_eq!(drawn, [1.23e-4, 1.2e-3, 3_149_824.0], "times by size, then memory");
    let marks = values(&attributes, "data-mark");
    assert_eq!(marks.iter().filter(|mark| **mark == "floor").count(), 3);
    assert_eq!(marks.iter().filter(|mark| **mark == "reference").count(), 2);
}

#[test]
fn an_error_without_a_finite_number_is_said() {
    let mut one = samples::rejected();
    one.findings[0].used = Some(f64::INFINITY);
    // As it comes back from a file.
    one.findings[1].used = None;
    let page = verdict(&one, &[]);
    assert_eq!(page.matches("class=\"endless\" data-count=\"1\"").count(), 2);
    assert_eq!(page.matches(">∞ in 1</text>").count(), 2);
}

#[test]
fn failures_come_with_their_replays_and_passes_do_not() {
    let one = samples::rejected();
    let page = verdict(&one, &[]);
    for kind in crate::failures::kinds(&one) {
        assert!(page.contains(kind.finding.replay.as_deref().expect("a replay")));
        assert!(page.contains(kind.message.as_ref()) && page.contains(&kind.title));
    }
    let passed = one.findings.iter().find(|finding| finding.outcome == Outcome::Pass).unwrap();
    assert!(!page.contains(passed.replay.as_deref().unwrap()));
}

#[test]
fn a_page_does_not_grow_with_what_passes() {
    let mut one = samples::accepted();
    let small = verdict(&one, &[]).len();
    let passing =
        |i: usize| samples::finding(&format!("basic/{i}/4x8/float32:dx_within_budget"), Family::Basic);
    one.findings.extend((0..5000).map(passing));
    let large = verdict(&one, &[]).len();
    assert!(large < small + 200, "{small} {large}");
}

#[test]
fn a_finding_about_the_source_shows_its_lines() {
    let mut one = samples::accepted();
    let mut finding = samples::finding("code/kernel.py/2:no_dead_code", Family::Basic);
    (finding.outcome, finding.severity) = (Outcome::Fail, Severity::Minor);
    finding.message = "`unused` is never used".to_owned();
    one.findings.push(finding);
    let source = SourceFile {
        path: "kernel.py".to_owned(),
        text: "import os\ndef unused(): return '<b>'\u{202e}\n".to_owned(),
    };
    let page = verdict(&one, &[source]);
    assert!(page.contains("kernel.py:2") && page.contains("class=\"marked\""));
    assert!(page.contains("&#60;b&#62;") && !page.contains("<b>"));
    assert!(!verdict(&one, &[]).contains("kernel.py:2"));
}

/// Relative luminance of `#rrggbb`, as WCAG defines it.
fn luminance(colour: &str) -> f64 {
    let channel = |from: usize| {
        let value = f64::from(u8::from_str_radix(&colour[from..from + 2], 16).expect("two digits")) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn colours_can_be_read_and_told_apart_without_their_hue() {
    let style = include_str!("../../templates/style.css");
    let schemes: Vec<&str> = style.split(":root {").skip(1).take(2).collect();
    assert_eq!(schemes.len(), 2, "light and dark");
    for scheme in schemes {
        let colour = |name: &str| {
            let rest = scheme.split(&format!("--{name}: ")).nth(1).unwrap_or_else(|| panic!("no {name}"));
            &rest[..7]
        };
        let heat: Vec<f64> = (0..6).map(|step| luminance(colour(&format!("h{step}")))).collect();
        let (rising, falling) =
            (heat.windows(2).all(|pair| pair[0] < pair[1]), heat.windows(2).all(|pair| pair[0] > pair[1]));
        assert!(rising || falling, "{heat:?}");
        for step in 0..6 {
            let ratio = contrast(colour(&format!("h{step}")), colour(&format!("t{step}")));
            assert!(ratio >= 4.5, "h{step}: {ratio:.2}");
        }
        for text in ["ink", "faint", "accent", "good", "bad"] {
            for ground in ["page", "card", "bad-soft", "code"] {
                let ratio = contrast(colour(text), colour(ground));
                assert!(ratio >= 4.5, "{text} on {ground}: {ratio:.2}");
            }
        }
    }
}
