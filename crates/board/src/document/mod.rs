//! A page before it has a form: headings, paragraphs, tables and lists, which the terminal, Markdown and HTML show each in their
//! own way.
//!
//! A text is made of pieces that say where they come from. What is not ours is cleaned and escaped by whoever shows it.

pub mod html;
pub mod markdown;
pub mod terminal;

/// A page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// From top to bottom.
    pub blocks: Vec<Block>,
}

/// Part of a page.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A heading; 1 is the page's.
    Heading(u8, Text),
    /// A paragraph.
    Paragraph(Text),
    /// A table.
    Table(Table),
    /// A list.
    List(Vec<Text>),
    /// A picture, for pages that can show one: inline SVG, and what it shows.
    Picture(String, Text),
}

/// A table with a head.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The head.
    pub head: Vec<Text>,
    /// A letter a column: `w` for words, `n` for numbers.
    pub columns: String,
    /// Row by row.
    pub rows: Vec<Vec<Text>>,
}

/// Text in pieces.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Text(pub Vec<Piece>);

/// A piece of text.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Ours.
    Plain(String),
    /// Ours, and what the eye should find.
    Strong(String),
    /// A name from a submission.
    Name(String),
    /// Prose that may quote a submission.
    Foreign(String),
    /// A command to copy, which may contain names.
    Command(String),
}

impl Document {
    /// Adds a heading; 1 is the page's.
    pub fn heading(&mut self, level: u8, text: impl Into<Text>) {
        self.blocks.push(Block::Heading(level, text.into()));
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: impl Into<Text>) {
        self.blocks.push(Block::Paragraph(text.into()));
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// Adds a picture.
    pub fn picture(&mut self, svg: String, caption: Text) {
        self.blocks.push(Block::Picture(svg, caption));
    }

    /// A list; nothing where it is empty.
    pub fn list(&mut self, items: Vec<Text>) {
        if !items.is_empty() {
            self.blocks.push(Block::List(items));
        }
    }
}

impl Text {
    /// Ours, and what the eye should find.
    pub fn strong(text: impl Into<String>) -> Self {
        Self(vec![Piece::Strong(text.into())])
    }

    /// A name from a submission.
    pub fn name(text: impl Into<String>) -> Self {
        Self(vec![Piece::Name(text.into())])
    }

    /// Prose that may quote a submission.
    pub fn foreign(text: impl Into<String>) -> Self {
        Self(vec![Piece::Foreign(text.into())])
    }

    /// With another text after it.
    pub fn then(mut self, other: impl Into<Text>) -> Self {
        self.0.extend(other.into().0);
        self
    }

    /// With a command to copy after it.
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.0.push(Piece::Command(command.into()));
        self
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(vec![Piece::Plain(text.to_owned())])
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(vec![Piece::Plain(text)])
    }
}

impl Table {
    /// Whether a column holds numbers.
    fn is_number(&self, column: usize) -> bool {
        self.columns.as_bytes().get(column) == Some(&b'n')
    }
}

#[cfg(test)]
mod tests;
