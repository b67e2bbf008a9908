//! Names as small numbers.

use std::collections::HashMap;

/// A name of one submission.
pub(super) type NameId = u32;

/// Numbers names in the order in which they are met.
#[derive(Debug, Default)]
pub(super) struct Names {
    ids: HashMap<String, NameId>,
    texts: Vec<String>,
}

impl Names {
    pub(super) fn id(&mut self, name: &str) -> NameId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = NameId::try_from(self.texts.len()).expect("fewer names than bytes looked at");
        self.ids.insert(name.to_owned(), id);
        self.texts.push(name.to_owned());
        id
    }

    pub(super) fn text(&self, id: NameId) -> &str {
        &self.texts[id as usize]
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.ids.contains_key(name)
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }
}

/// The identifiers in a text that no grammar reads.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'))
}
