//! What came back, read strictly.

use serde::Deserialize;
use serde_json::Value;

/// Characters of a statement that are kept.
const STATEMENT_CHARS_MAX: usize = 600;

/// An answer that has the form that was asked for; its items may not.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) preference: Option<char>,
    pub(crate) items: Vec<Result<Item, Malformed>>,
}

/// An item that has none of the asked form.
#[derive(Debug, PartialEq)]
pub(crate) struct Malformed {
    pub(crate) why: String,
    pub(crate) statement: String,
}

/// What a model says, with what it cites. Other fields mean nothing.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Item {
    #[serde(default)]
    pub(crate) statement: String,
    pub(crate) file: String,
    pub(crate) first_line: usize,
    pub(crate) last_line: usize,
    pub(crate) quote: String,
    #[serde(default)]
    pub(crate) check: Option<String>,
    #[serde(default)]
    pub(crate) value: Value,
}

/// Reads a response of the API, down to the answer in it; an error says why it is no vote.
pub(crate) fn read(body: &str) -> Result<Answer, String> {
    let response: Value =
        serde_json::from_str(body).map_err(|error| format!("the response is not JSON: {error}"))?;
    let choice = &response["choices"][0];
    let Some(content) = choice["message"]["content"].as_str() else {
        return Err("the response holds no message".to_owned());
    };
    let cut = choice["finish_reason"] == "length";
    let answer: Value = serde_json::from_str(unwrapped(content)).map_err(|error| {
        let why = if cut { "the answer was cut at max_tokens" } else { "the answer is not JSON" };
        format!("{why}: {error}")
    })?;
    let Some(items) = answer["items"].as_array() else {
        return Err("the answer holds no list of items".to_owned());
    };
    let preference = match answer["preference"].as_str() {
        Some("A") => Some('A'),
        Some("B") => Some('B'),
        _ => None,
    };
    Ok(Answer { preference, items: items.iter().map(item).collect() })
}

fn item(value: &Value) -> Result<Item, Malformed> {
    let item: Item = serde_json::from_value(value.clone()).map_err(|error| Malformed {
        why: error.to_string(),
        statement: short(value["statement"].as_str().unwrap_or_default()),
    })?;
    Ok(Item { statement: short(&item.statement), ..item })
}

pub(crate) fn short(text: &str) -> String {
    text.chars().take(STATEMENT_CHARS_MAX).collect()
}

/// The answer without a fence of Markdown around it, and without what a model thinks aloud before it.
fn unwrapped(content: &str) -> &str {
    let content = content.rsplit_once("</think>").map_or(content, |(_, after)| after).trim();
    let Some(fenced) = content.strip_prefix("```") else { return content };
    let inside = fenced.strip_prefix("json").unwrap_or(fenced);
    inside.strip_suffix("```").unwrap_or(inside).trim()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn response(content: &str) -> String {
        json!({ "choices": [{ "message": { "content": content }, "finish_reason": "stop" }] }).to_string()
    }

    #[test]
    fn an_answer_is_read_bare_in_a_fence_and_after_thoughts() {
        let bare = r#"{"preference": "B", "items": []}"#;
        for content in
            [bare.to_owned(), format!("```json\n{bare}\n```"), format!("<think>{{</think>\n{bare}")]
        {
            let answer = read(&response(&content)).unwrap();
            assert_eq!(answer, Answer { preference: Some('B'), items: vec![] }, "{content}");
        }
    }

    #[test]
    fn what_is_no_answer_is_no_vote() {
        for (body, why) in [
            ("<html>".to_owned(), "the response is not JSON"),
            ("{}".to_owned(), "holds no message"),
            (response("Looks good to me!"), "the answer is not JSON"),
            (response("Here it is: {\"items\": []}"), "the answer is not JSON"),
            (response("[]"), "no list of items"),
            (response("{\"items\": 7}"), "no list of items"),
            (response("{\"items\": [").replace("stop", "length"), "cut at max_tokens"),
        ] {
            let error = read(&body).unwrap_err();
            assert!(error.contains(why), "{body}: {error}");
        }
    }

    #[test]
    fn an_item_of_another_form_spoils_no_other() {
        let good =
            json!({ "file": "A/1.py", "first_line": 1, "last_line": 1, "quote": "x", "confidence": 11 });
        let bad =
            json!({ "file": "A/1.py", "first_line": "one", "last_line": 1, "quote": "x", "statement": "so" });
        let answer = read(&response(&json!({ "items": [bad, good, 3] }).to_string())).unwrap();
        let shapes: Vec<bool> = answer.items.iter().map(Result::is_ok).collect();
        assert_eq!(shapes, [false, true, false]);
        let malformed = answer.items[0].as_ref().unwrap_err();
        assert!(malformed.statement == "so" && malformed.why.contains("one"), "{malformed:?}");
    }

    proptest! {
        #[test]
        fn no_response_breaks_the_reader(text in tribunal_hostile::text("{\"choices\":[{\"message\":{\"content\":\"```json{\\\"items\\\":[{}]}\"}}]}")) {
            let _ = read(&text);
            if let Ok(answer) = read(&response(&text)) {
                for item in answer.items.into_iter().flatten() {
                    prop_assert!(item.statement.chars().count() <= STATEMENT_CHARS_MAX);
                }
            }
        }
    }
}
