use super::*;
use crate::Style;

fn hostile() -> Document {
    let evil = "<script>x</script>|`a`\n# b \u{1b}[31m\u{202e}";
    let mut page = Document::default();
    page.heading(1, Text::name(evil));
    page.paragraph(Text::from("says: ").then(Text::foreign(evil)).command(evil));
    page.table(Table {
        head: vec!["name".into(), "score".into()],
        columns: "wn".to_owned(),
        rows: vec![vec![Text::name(evil), "1.0".into()]],
    });
    page.list(vec![Text::foreign(evil)]);
    page
}

#[test]
fn nothing_foreign_stays_active() {
    let html = html::body(&hostile());
    assert!(!html.contains("<script") && html.contains("&#60;script"), "{html}");
    assert!(!html.chars().any(|c| c.is_control() && c != '\n'), "{html}");
    let markdown = markdown::show(&hostile());
    assert!(!markdown.lines().any(|line| line.starts_with("# b")), "{markdown}");
    assert_eq!(markdown.lines().filter(|line| line.starts_with('|')).count(), 3, "{markdown}");
    let terminal = terminal::show(&hostile(), &Style { color: false, width: 80 });
    assert!(!terminal.contains('\u{1b}') && !terminal.contains('\u{202e}'), "{terminal}");
}

#[test]
fn an_empty_list_leaves_nothing() {
    let mut page = Document::default();
    page.list(Vec::new());
    assert_eq!(page, Document::default());
}
