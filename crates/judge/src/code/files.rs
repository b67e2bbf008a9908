//! The files of a submission, and which of them are a contestant's own work.

use std::fs;
use std::path::Path;

use tribunal_contract::Language;
use tribunal_runner::Submission;
use tribunal_runner::submission::is_ignored;

use super::SourceFile;

/// Files of the contract itself are not the contestant's code.
pub(super) const CONTRACT_FILES: [&str; 2] = ["tribunal.h", "src/contract.rs"];

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
                && !CONTRACT_FILES.contains(&name.as_str())
                && entry.metadata().is_ok_and(|metadata| metadata.len() <= SOURCE_BYTES_MAX)
                && let Ok(bytes) = fs::read(&path)
            {
                files.push(SourceFile { path: name, text: String::from_utf8_lossy(&bytes).into_owned() });
            }
        }
    }
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
