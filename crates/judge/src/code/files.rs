//! The files of a submission, and which of them are a contestant's own work.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use tribunal_contract::{Language, challenges, emit};
use tribunal_runner::Submission;
use tribunal_runner::submission::is_ignored;

use super::SourceFile;

/// What the contracts' own files hold, by path. They are not the contestant's code; what only has their name is.
static CONTRACTS: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
    let files = |challenge| {
        [("tribunal.h", emit::c_header(challenge)), ("src/contract.rs", emit::rust_contract(challenge))]
    };
    challenges::ALL.iter().copied().flat_map(files).collect()
});

/// Whether it is a file of a contract, to the byte.
pub(super) fn is_contracts(file: &SourceFile) -> bool {
    CONTRACTS.iter().any(|(path, text)| file.path == *path && file.text == *text)
}

/// Source beyond this is not read.
const SOURCE_BYTES_MAX: u64 = 1 << 20;

/// The contestant's own source files of a language, in order of their names.
pub(crate) fn of(folder: &Path, language: Language) -> Vec<SourceFile> {
    let extensions: &[&str] = match language {
        Language::Python => &["py"],
        Language::C => &["c", "h", "cc", "cpp", "cxx", "hpp"],
        Language::Rust => &["rs"],
        Language::Cuda => &["cu", "cuh"],
    };
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries.flatten() {
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
            if kind.is_dir() {
                if !is_ignored(&path) {
                    folders.push(path);
                }
            } else if kind.is_file()
                && extensions.contains(&extension)
                && entry.metadata().is_ok_and(|metadata| metadata.len() <= SOURCE_BYTES_MAX)
                && let Ok(bytes) = fs::read(&path)
            {
                files.push(SourceFile { path: name, text: String::from_utf8_lossy(&bytes).into_owned() });
            }
        }
    }
    files.retain(|file| !is_contracts(file));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Every file of a submission that is text, so that it can be laid out again; the contestant's own source first.
pub fn all(submission: &Submission) -> Vec<SourceFile> {
    let mut files = of(&submission.folder, submission.manifest.language);
    let own = files.len();
    for path in submission.files().unwrap_or_default() {
        let name = path.to_string_lossy().into_owned();
        let path = submission.folder.join(path);
        if !files[..own].iter().any(|file| file.path == name)
            && fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= SOURCE_BYTES_MAX)
            && let Ok(text) = fs::read_to_string(&path)
        {
            files.push(SourceFile { path: name, text });
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_has_the_name_of_the_contract_is_the_contestants() {
        let folder = tempfile::tempdir().unwrap();
        let header = folder.path().join("tribunal.h");
        let paths = || of(folder.path(), Language::C).into_iter().map(|file| file.path).collect::<Vec<_>>();
        fs::write(folder.path().join("a.c"), "int a;\n").unwrap();
        for challenge in challenges::ALL {
            let text = emit::c_header(challenge);
            fs::write(&header, &text).unwrap();
            assert_eq!(paths(), ["a.c"]);
            fs::write(&header, text + "static int hidden(void) { return 1; }\n").unwrap();
            assert_eq!(paths(), ["a.c", "tribunal.h"]);
        }
    }
}
