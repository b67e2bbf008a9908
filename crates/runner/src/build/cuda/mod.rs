//! CUDA sources, made into PTX, and PTX that comes as it is.
//!
//! A compiler sees the submission's folder, its own files and our headers, and nothing else: it runs in a cage, without the system's
//! headers. So a source can include what `include/` here has and what lies beside it. The flags are fixed, and recorded with the verdict.

mod clang;
mod headers;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use self::clang::Clang;
use super::{Ptx, Workshop, policy, refusal, run, take_out, tools};
use crate::{MachineError, Submission, Trouble};

/// Most bytes of PTX: what a source of some thousand lines makes is a hundredth of it.
const PTX_BYTES_MAX: u64 = 16 << 20;

pub(super) fn make(
    workshop: &Workshop,
    submission: &Submission,
    progress: &dyn Fn(&str),
) -> Result<Ptx, Trouble> {
    let entry = submission.entry();
    let ptx = match entry.extension().and_then(OsStr::to_str) {
        Some("ptx") => Ptx { path: entry, compiler: None, flags: Vec::new() },
        Some("cu") => compile(workshop, submission, progress)?,
        _ => {
            return Err(refusal(format!(
                "`entry` is {}: expected a .cu source or .ptx",
                submission.manifest.entry.display()
            )));
        }
    };
    check_kernels(submission, &ptx.path)?;
    Ok(ptx)
}

fn compile(workshop: &Workshop, submission: &Submission, progress: &dyn Fn(&str)) -> Result<Ptx, Trouble> {
    let clang = Clang::find()?;
    let flags = clang.flags();
    let entry = submission.manifest.entry.to_string_lossy();
    let headers: String = headers::HEADERS.iter().flat_map(|(path, text)| [*path, *text]).collect();
    let program = clang.program.to_string_lossy();
    let key = tools::key(&[&submission.sha256, &entry, &program, &clang.version, &flags.join(" "), &headers]);
    let path = workshop.cached("kernels.ptx", &key, |work, kept| {
        progress(&format!("compiling {}", submission.manifest.name));
        let include = work.join("include");
        headers::lay_out(&include)?;
        let made = work.join("kernels.ptx");
        let mut policy = policy(&clang.program, submission);
        policy.reads.push(include.clone());
        policy.executes.extend(clang.folders());
        policy.args = flags.iter().map(Into::into).collect();
        policy.args.extend([
            "-I".into(),
            include.clone().into(),
            "-I.".into(),
            "-o".into(),
            made.clone().into(),
        ]);
        policy.args.extend(["--".into(), submission.manifest.entry.clone().into()]);
        // So paths in messages and in the PTX are those of the submission.
        policy.working_folder = Some(submission.folder.clone());
        run(&workshop.cage, policy, work).map_err(|trouble| without_prefix(trouble, &include))?;
        take_out(&made, work, kept)
    })?;
    Ok(Ptx { path, compiler: Some(clang.version), flags })
}

/// Names our headers in a compiler's message as sources name them.
fn without_prefix(trouble: Trouble, include: &Path) -> Trouble {
    match trouble {
        Trouble::Fault(tribunal_contract::Fault::Build { message }) => {
            refusal(message.replace(&format!("{}/", include.display()), ""))
        }
        other => other,
    }
}

/// Requires the kernels that the manifest launches.
fn check_kernels(submission: &Submission, path: &Path) -> Result<(), Trouble> {
    let length = fs::metadata(path).map_err(MachineError::system("reading the PTX"))?.len();
    if length > PTX_BYTES_MAX {
        return Err(refusal(format!("{length} bytes of PTX, more than {PTX_BYTES_MAX}")));
    }
    let bytes = fs::read(path).map_err(MachineError::system("reading the PTX"))?;
    let text = String::from_utf8_lossy(&bytes);
    let there = entries(&text);
    let wanted = submission.manifest.kernels.as_ref().map(|kernels| kernels.names()).unwrap_or_default();
    match wanted.into_iter().find(|name| !there.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let there = there.iter().take(20).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let there = if there.is_empty() { "none at all".to_owned() } else { there };
            Err(refusal(format!(
                "there is no kernel `{name}`, which the manifest launches; there are: {there} (kernels need extern \"C\" to keep \
                 their names)"
            )))
        }
    }
}

/// The names after `.entry`.
fn entries(ptx: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
    ptx.split(".entry")
        .skip(1)
        .filter(|rest| rest.starts_with(char::is_whitespace))
        .map(|rest| {
            let rest = rest.trim_start();
            &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())]
        })
        .filter(|name| !name.is_empty())
        .collect()
}

/// The clang that CUDA sources are compiled with.
///
/// # Errors
/// [`MachineError::Missing`] if there is none.
pub(crate) fn clang() -> Result<(PathBuf, String), MachineError> {
    Clang::find().map(|clang| (clang.program, clang.version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_in_ptx() {
        let text = ".visible .entry a(\n.param .u64 p)\n{ ret; }\n.entry\tb_2 ()\n.weak .entry c$1\n(";
        assert_eq!(entries(text), ["a", "b_2", "c$1"]);
        assert_eq!(entries(".entryx y(\n.entry"), [""; 0]);
    }
}
