//! Small pictures for the HTML pages: inline SVG without scripts.
//!
//! All are [`WIDTH`] units wide, about a phone's, so that their letters stay letters there. Colours come from the page
//! (classes, see `templates/style.css`); what must be told apart differs in form as well.

mod bars;
mod growth;
mod levels;
mod rivals;
mod scale;
mod strip;

pub(crate) use bars::{Bar, bars, whisker};
pub(crate) use growth::{Axes, growth};
pub(crate) use levels::{Level, levels};
pub(crate) use rivals::{Rivalry, rivals, sign};
pub(crate) use strip::{Row, strip};

use std::fmt::{Display, Write};

/// Units from left to right.
pub(crate) const WIDTH: f64 = 360.0;

/// A picture that grows by elements.
struct Picture(String);

impl Picture {
    /// `label` is what is read out in its place.
    fn new(height: f64, label: &str) -> Self {
        let label = escape(label);
        Self(format!(
            "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{label}\"><title>{label}</title>"
        ))
    }

    fn push(&mut self, element: impl Display) {
        let _ = write!(self.0, "{element}");
    }

    /// `place` is `start`, `middle` or `end`; the text is escaped here.
    fn text(&mut self, x: f64, y: f64, place: &str, class: &str, text: &str) {
        let text = escape(text);
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{place}\" class=\"{class}\">{text}</text>"
        ));
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.push(format_args!(
            "<path class=\"{class}\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    fn end(mut self) -> String {
        self.0 += "</svg>";
        self.0
    }
}

/// The width of a text in small letters, roughly: enough to keep labels apart.
fn width(text: &str) -> f64 {
    6.3 * text.chars().count() as f64
}

/// Text for an element or an attribute.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out_of_a_picture() {
        let mut picture = Picture::new(10.0, "\"><script>");
        picture.text(0.0, 0.0, "start", "small", "</text><script>'&");
        let svg = picture.end();
        assert!(!svg.contains("<script>"), "{svg}");
        assert!(svg.contains("&lt;/text&gt;&lt;script&gt;&#39;&amp;</text>"), "{svg}");
    }
}
