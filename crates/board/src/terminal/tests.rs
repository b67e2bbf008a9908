use super::*;
use crate::samples;

fn plain(width: usize) -> Style {
    Style { color: false, width }
}

/// The text without its colours.
fn bleached(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or("").to_owned();
    first + &parts.map(|part| part.split_once('m').expect("a colour").1).collect::<String>()
}

#[test]
fn a_good_verdict() {
    insta::assert_snapshot!(verdict(&samples::accepted(), &plain(100)));
}

#[test]
fn a_bad_verdict() {
    insta::assert_snapshot!(verdict(&samples::rejected(), &plain(100)));
}

#[test]
fn a_bad_verdict_on_a_narrow_terminal() {
    insta::assert_snapshot!(verdict(&samples::rejected(), &plain(60)));
}

/// What a compiler says keeps its lines, and none of them can pass for the report's.
#[test]
fn a_submission_that_does_not_build() {
    let mut shown = samples::rejected();
    let mut builds = shown.failures()[0].clone();
    (builds.case, builds.check, builds.suspect) = ("start".to_owned(), "builds".to_owned(), None);
    builds.smallest = None;
    builds.message = "does not build: k.cu:2:12: error: use of undeclared identifier 'y'\n    2 |     x[0] = y;\n      |            ^\n\
                      ACCEPTED  100.0 / 100\n\u{1b}[31mred"
        .to_owned();
    shown.findings = vec![builds];
    let text = verdict(&shown, &plain(80));
    let quoted: Vec<&str> = text.lines().filter(|line| line.starts_with("     │")).collect();
    assert_eq!(
        quoted,
        [
            "     │ does not build: k.cu:2:12: error: use of undeclared identifier 'y'",
            "     │     2 |     x[0] = y;",
            "     │       |            ^",
            "     │ ACCEPTED  100.0 / 100",
            "     │ \\u{1b}[31mred",
        ]
    );
    let mut long = shown.clone();
    long.findings[0].message = format!(
        "b.h:13:19: error: static assertion failed: {}\n   13 | {}",
        "no word is lost ".repeat(6),
        "y".repeat(200)
    );
    let text = verdict(&long, &plain(80));
    let quoted: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("     │ ")).collect();
    let said = quoted[..2].iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    assert_eq!(said, long.findings[0].message.lines().next().unwrap().trim());
    assert!(
        quoted[2].starts_with("   13 | yyyy") && quoted[2].ends_with("yy…") && quoted.len() == 3,
        "{quoted:?}"
    );
    long.findings[0].message = "x\n".repeat(40);
    let more = format!("\n     … and 24 more lines: tribunal show {} --format json\n", long.id);
    assert!(verdict(&long, &plain(80)).contains(&more), "the margin is of what the compiler said");
}

#[test]
fn a_cheat() {
    insta::assert_snapshot!(verdict(&samples::disqualified(), &plain(100)));
}

#[test]
fn what_could_not_be_judged() {
    insta::assert_snapshot!(verdict(&samples::infrastructure(), &plain(100)));
}

#[test]
fn a_hostile_submission() {
    insta::assert_snapshot!(verdict(&samples::hostile(), &plain(100)));
}

#[test]
fn a_verdict_in_a_line() {
    let told = samples::all().map(|verdict| line(&verdict, &plain(60))).join("\n");
    insta::assert_snapshot!(told);
}

#[test]
fn a_board() {
    insta::assert_snapshot!(board(&samples::summaries(&samples::all()), &plain(120)));
}

#[test]
fn colour_changes_nothing_but_colour() {
    for shown in samples::all() {
        let coloured = verdict(&shown, &Style { color: true, width: 80 });
        assert!(coloured.contains('\u{1b}'));
        assert_eq!(bleached(&coloured), verdict(&shown, &plain(80)));
        let coloured = line(&shown, &Style { color: true, width: 80 });
        assert_eq!(bleached(&coloured), line(&shown, &plain(80)));
    }
    assert_eq!(
        bleached(&board(&samples::summaries(&samples::all()), &Style { color: true, width: 120 })),
        board(&samples::summaries(&samples::all()), &plain(120))
    );
}

#[test]
fn nothing_hidden_reaches_the_terminal() {
    let hostile = [samples::hostile()];
    for text in [verdict(&hostile[0], &plain(100)), board(&samples::summaries(&hostile), &plain(100))] {
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}' && c != '\u{2066}'),
            "{text:?}"
        );
    }
}

#[test]
fn lines_keep_to_the_width_but_for_the_name_and_commands() {
    for shown in samples::all() {
        for width in [60, 80, 100, 120] {
            for line in
                verdict(&shown, &plain(width)).lines().skip(1).filter(|line| !line.contains("tribunal "))
            {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
    }
    for width in [60, 80, 100, 120, 160] {
        assert!(
            board(&samples::summaries(&samples::all()), &plain(width))
                .lines()
                .all(|line| line.width() <= width),
            "{width}"
        );
    }
}

#[test]
fn a_narrow_board_leaves_out_what_matters_least_and_says_so() {
    let summaries = samples::summaries(&samples::all());
    let shown = |width: usize| board(&summaries, &plain(width));
    let left_out = |width: usize| {
        let legend = shown(width).split_whitespace().collect::<Vec<_>>().join(" ");
        legend
            .split_once("Left out for want of room: ")
            .map(|(_, rest)| rest.split('.').next().unwrap().to_owned())
    };
    assert_eq!(left_out(120), None);
    assert_eq!(left_out(80).unwrap(), "language, memo, comp, perf");
    insta::assert_snapshot!(shown(60));
}

#[test]
fn a_verdict_is_a_screen_at_most() {
    assert!(verdict(&samples::accepted(), &plain(100)).lines().count() <= 30);
    let worst = verdict(&samples::hopeless(), &plain(100));
    assert!(worst.lines().count() <= 60);
    assert!(worst.contains("… and 2 more: tribunal show "), "{worst}");
}

#[test]
fn only_perfection_fills_a_bar() {
    let filled = |score| bar(score).matches('█').count();
    assert_eq!([100.0, 99.9, 95.0, 50.0, 4.0, 0.4, 0.0].map(filled), [10, 9, 9, 5, 1, 0, 0]);
}
