//! The store that a command means.

use std::path::{Path, PathBuf};

use tribunal_board::{Store, StoreError};
use tribunal_judge::Verdict;

use crate::arguments::Common;
use crate::exit::Failure;

/// The store, which is made if need be.
pub fn to_write(common: &Common) -> Result<Store, Failure> {
    let path = path(common)?;
    if common.store.is_none() {
        tell_of_older(&path);
    }
    Store::open(path).map_err(|error| Failure::Machine(error.to_string()))
}

/// The store to serve. Who may write to it makes it, as a judging does; the user's own is nobody's mistake, and fills while it is served.
pub fn to_serve(common: &Common, may_write: bool) -> Result<Store, Failure> {
    if may_write {
        return to_write(common);
    }
    match existing(common)? {
        Some(store) => Ok(store),
        None => Store::open(path(common)?).map_err(|error| Failure::Machine(error.to_string())),
    }
}

/// The store, if it is there: who only reads makes none.
pub fn to_read(common: &Common) -> Result<Store, Failure> {
    existing(common)?.ok_or_else(|| Failure::Usage("nothing judged yet: tribunal judge PATH".to_owned()))
}

/// The store; none where it is the user's own and nothing was judged yet.
pub fn existing(common: &Common) -> Result<Option<Store>, Failure> {
    let store = if_there(common)?;
    if store.is_none() && common.store.is_some() {
        let path = path(common)?;
        return Err(Failure::Usage(format!(
            "{}; `tribunal judge PATH --store {1}` and `tribunal import PATH --store {1}` make one",
            StoreError::Absent(path.clone()),
            quoted(&path.display().to_string())
        )));
    }
    Ok(store)
}

/// The store; none where nothing was judged yet, for who may be about to.
pub fn if_there(common: &Common) -> Result<Option<Store>, Failure> {
    let path = path(common)?;
    match Store::existing(&path) {
        Ok(store) => Ok(Some(store)),
        Err(StoreError::Absent(_)) => {
            if common.store.is_none() {
                tell_of_older(&path);
            }
            Ok(None)
        }
        Err(error) => Err(Failure::Machine(error.to_string())),
    }
}

/// The verdict with commands that work as they are printed: those of another store than the user's own name it.
pub fn with_commands(verdict: &Verdict, common: &Common) -> Verdict {
    let mut verdict = verdict.clone();
    let option = option(common);
    for finding in &mut verdict.findings {
        if let Some(command) = &mut finding.replay {
            *command += &option;
        }
    }
    verdict
}

/// What a command takes to mean the same store, after a space.
pub fn option(common: &Common) -> String {
    let named = |path: &PathBuf| format!(" --store {}", quoted(&path.display().to_string()));
    common.store.as_ref().map_or_else(String::new, named)
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@".contains(&byte);
    if word.bytes().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// What was asked for is the user's to mend where it is not there, and the machine's where it cannot be read.
pub fn not_got(error: StoreError) -> Failure {
    match error {
        StoreError::NotFound { .. } | StoreError::Ambiguous { .. } => Failure::Usage(error.to_string()),
        _ => Failure::Machine(error.to_string()),
    }
}

fn path(common: &Common) -> Result<PathBuf, Failure> {
    common.store.clone().or_else(Store::default_path).ok_or_else(|| {
        Failure::Machine("no place to keep verdicts: set HOME, or give --store PATH".to_owned())
    })
}

/// Before there was a database, verdicts were kept in a folder beside it.
fn tell_of_older(path: &Path) {
    let older = path.with_extension("");
    if !path.exists() && older.is_dir() {
        let older = older.display();
        anstream::eprintln!(
            "tribunal: verdicts are kept in {} from now on; `tribunal import {older}` brings over those of {older}",
            path.display()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        assert_eq!(quoted("/data/s.sqlite"), "/data/s.sqlite");
        assert_eq!(quoted("my store"), "'my store'");
        assert_eq!(quoted("$(it's)"), r"'$(it'\''s)'");
    }
}
