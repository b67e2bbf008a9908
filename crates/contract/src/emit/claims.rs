//! The vocabulary of claims, to read.

use std::fmt::Write as _;

use crate::{Challenge, Claim, challenges};

/// The claims of a challenge, one an item.
pub(super) fn list(challenge: &Challenge) -> String {
    challenge.claims.iter().map(|claim| item(claim)).collect()
}

fn item(claim: &Claim) -> String {
    format!("- `{}` ({}): {}. {}\n", claim.name, claim.takes.short(), claim.doc, claim.rule)
}

const HEAD: &str = "# Claims

A submission may say what it is, under `[claims]` of its `tribunal.toml`:

```toml
[claims]
time_exponent = 1
bound = \"memory\"
repeatable = true
```

The judge decides each from what it measured, after everything else: *upheld*, *refuted* or *untestable*, with what is claimed and what was seen in the
finding `claims/<name>:holds`. The dimension *analysis* is the share of upheld ones among those that are upheld or refuted; a refuted claim has the suspect
`claim_refuted` and costs nothing else. Nothing is read into prose: what a README claims is found by
[reviewers](reviewers.md) alone, and counts for no score.

- Time, memory and traffic are measured of right answers only. Where they were not, claims on them are untestable.
- A claim is no stronger than its number. One that says *at most* or *at least* is upheld whatever room it leaves, up to twice what was measured: what
  would be as true of code half as good says nothing of this, and is untestable. One that says *how many* is refuted either way.
- Where an interval holds both answers, the claim is untestable.

How far each figure may be off, and why, stands in [`claims.rs`](../crates/judge/src/claims.rs). This page is written from the contract by
`TRIBUNAL_UPDATE_DOCS=1 cargo test -p tribunal-contract page_of_claims`.
";

/// `docs/claims.md`: every challenge's vocabulary, and how each claim is decided.
pub fn page() -> String {
    let mut text = HEAD.to_owned();
    for challenge in challenges::ALL {
        let _ = write!(text, "\n## {}\n\n{}", challenge.id, list(challenge));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::page;

    #[test]
    fn the_page_of_claims_is_what_the_vocabulary_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/claims.md");
        if std::env::var_os("TRIBUNAL_UPDATE_DOCS").is_some() {
            std::fs::write(&path, page()).expect("a page to write");
        }
        assert!(
            std::fs::read_to_string(&path).is_ok_and(|kept| kept == page()),
            "docs/claims.md is not what the contract says: TRIBUNAL_UPDATE_DOCS=1 writes it"
        );
    }
}
