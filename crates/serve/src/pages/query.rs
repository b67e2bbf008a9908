//! What stands behind the question mark.

use axum::http::Uri;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// Names and values, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Query(Vec<(String, String)>);

/// Part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    /// From 0.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) of: usize,
    /// Pages before and after, from 1.
    pub(crate) before: Option<usize>,
    pub(crate) after: Option<usize>,
}

impl Query {
    pub(crate) fn of(uri: &Uri) -> Result<Self, Problem> {
        let pairs = serde_urlencoded::from_str(uri.query().unwrap_or_default());
        pairs.map(Self).map_err(|error| Problem::bad(format!("the query: {error}")))
    }

    /// The value of that name; empty where there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// All values of that name that are not empty.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(key, value)| key == name && !value.trim().is_empty())
            .map(|(_, value)| value.trim())
    }

    /// One of a set of names, if one was chosen.
    pub(crate) fn choice<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Problem> {
        let value = self.get(name);
        if value.is_empty() {
            return Ok(None);
        }
        serde_json::from_value(value.into())
            .map(Some)
            .map_err(|error| Problem::bad(format!("{name}: {error}")))
    }

    /// The part of a list that `page` asks for.
    pub(crate) fn slice(&self, of: usize, at_once: usize) -> Result<Slice, Problem> {
        let pages = of.div_ceil(at_once).max(1);
        let page = match self.get("page") {
            "" => 1,
            page => page
                .parse()
                .ok()
                .filter(|page| (1..=pages).contains(page))
                .ok_or_else(|| Problem::not_found(format!("page: there are {pages}, from 1 on")))?,
        };
        let from = (page - 1) * at_once;
        Ok(Slice {
            from,
            to: of.min(from + at_once),
            of,
            before: (page > 1).then(|| page - 1),
            after: (page < pages).then(|| page + 1),
        })
    }

    /// The same query with another page.
    pub(crate) fn at(&self, page: usize) -> String {
        let mut pairs: Vec<(&str, String)> = self
            .0
            .iter()
            .filter(|(name, value)| name != "page" && !value.is_empty())
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        pairs.push(("page", page.to_string()));
        format!("?{}", serde_urlencoded::to_string(pairs).expect("pairs of texts"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tribunal_judge::Outcome;

    fn query(text: &str) -> Query {
        Query::of(&format!("/x?{text}").parse().unwrap()).unwrap()
    }

    #[test]
    fn values_are_got_by_name() {
        let asked = query("with=a+b&with=%3Cc%3E&with=&outcome=fail&family=");
        assert_eq!(asked.all("with").collect::<Vec<_>>(), ["a b", "<c>"]);
        assert_eq!(asked.choice("outcome").unwrap(), Some(Outcome::Fail));
        assert_eq!(asked.choice::<Outcome>("family").unwrap(), None);
        let refused = query("outcome=failed").choice::<Outcome>("outcome").unwrap_err();
        assert!(refused.message.contains("outcome: unknown variant `failed`"), "{}", refused.message);
    }

    #[test]
    fn a_list_comes_in_pages() {
        let slice = query("page=2").slice(250, 100).unwrap();
        assert_eq!((slice.from, slice.to, slice.before, slice.after), (100, 200, Some(1), Some(3)));
        let slice = query("").slice(0, 100).unwrap();
        assert_eq!((slice.from, slice.to, slice.before, slice.after), (0, 0, None, None));
        for page in ["0", "4", "-1", "x"] {
            assert!(query(&format!("page={page}")).slice(250, 100).is_err(), "{page}");
        }
        assert_eq!(query("q=a%26b&page=2&outcome=").at(3), "?q=a%26b&page=3");
    }
}
