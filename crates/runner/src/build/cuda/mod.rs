//! CUDA sources, made into PTX, and PTX that comes as it is.
//!
//! A compiler sees the submission's folder, its own files and our headers, and nothing else: it runs in a cage, without the system's
//! headers. So a source can include what `include/` here has and what lies beside it. The flags are fixed, and recorded with the verdict.

mod advice;
mod clang;
mod headers;
mod nvrtc;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use tribunal_contract::{Fault, FrontEnd};

use self::advice::advice;
use self::clang::Clang;
use self::headers::Headers;
pub(crate) use self::nvrtc::{VARIABLE as NVRTC_VARIABLE, enter_if_compiler, find as nvrtc};
use super::lint::{self, Form, Lint};
use super::{Ptx, Workshop, policy, refusal, run, take_out, tools};
use crate::cage::{Policy, clean};
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

/// With the compiler that the manifest asks for; otherwise with clang, or where there is none with NVRTC.
fn compile(workshop: &Workshop, submission: &Submission, progress: &dyn Fn(&str)) -> Result<Ptx, Trouble> {
    let asked = submission.manifest.compiler;
    if asked == Some(FrontEnd::Nvrtc) {
        return compile_by_nvrtc(workshop, submission, progress);
    }
    match Clang::find() {
        Ok(clang) => compile_by_clang(&clang, workshop, submission, progress),
        Err(_) if asked.is_none() && nvrtc::find().is_ok() => {
            compile_by_nvrtc(workshop, submission, progress)
        }
        Err(error) => Err(error.into()),
    }
}

fn compile_by_clang(
    clang: &Clang,
    workshop: &Workshop,
    submission: &Submission,
    progress: &dyn Fn(&str),
) -> Result<Ptx, Trouble> {
    let flags = clang.flags();
    let tool = [&clang.program.to_string_lossy(), clang.version.as_str()].join(" ");
    let path = cached(workshop, submission, &tool, &flags, &headers::OURS, &|include, made, policy| {
        progress(&format!("compiling {}", submission.manifest.name));
        policy.program.clone_from(&clang.program);
        policy.executes.extend(clang.folders());
        policy.args = flags.iter().map(Into::into).collect();
        policy.args.extend(["-I".into(), include.into(), "-I.".into(), "-o".into(), made.into()]);
        policy.args.extend(["--".into(), submission.manifest.entry.clone().into()]);
    })?;
    Ok(Ptx { path, compiler: Some(clang.version.clone()), flags })
}

/// What clang warns of in a source that it compiles.
pub(super) fn lint(workshop: &Workshop, submission: &Submission) -> Result<Lint, MachineError> {
    let clang = Clang::find()?;
    let built = clang.flags().into_iter().filter(|flag| flag != "-S");
    let flags: Vec<String> = built.chain(clang::LINT.map(str::to_owned)).collect();
    let linter = lint::beside_build(&clang.version, &clang::LINT);
    let output = lint::run_in_scratch(workshop, |work| {
        let include = work.join("include");
        headers::OURS.lay_out(&include)?;
        let mut policy = policy(&clang.program, submission);
        policy.executes.extend(clang.folders());
        policy.args = flags.iter().map(Into::into).collect();
        policy.args.extend(["-I".into(), include.into(), "-I.".into()]);
        policy.args.extend(["--".into(), submission.manifest.entry.clone().into()]);
        policy.working_folder = Some(submission.folder.clone());
        Ok(policy)
    })?;
    let folder = submission.folder.clone();
    Ok(Lint { linter, form: Form::Gcc, text: output.stderr, root: folder.clone(), folder })
}

fn compile_by_nvrtc(
    workshop: &Workshop,
    submission: &Submission,
    progress: &dyn Fn(&str),
) -> Result<Ptx, Trouble> {
    let library = nvrtc::find()?;
    let flags = nvrtc::FLAGS.map(str::to_owned).to_vec();
    let about = fs::metadata(&library).map_err(MachineError::system("looking at NVRTC"))?;
    let tool = format!("{} {} {:?}", library.display(), about.len(), about.modified());
    let path = cached(workshop, submission, &tool, &flags, &headers::SHIMS, &|include, made, policy| {
        progress(&format!("compiling {}", submission.manifest.name));
        policy.program.clone_from(&workshop.cage.launcher);
        // Its other half lies beside it.
        policy.reads.extend(library.parent().map(Path::to_owned));
        let own = include.with_file_name("nvrtc");
        policy.args = nvrtc::arguments(&library, made, &own, &submission.manifest.entry);
        policy.args.extend(flags.iter().map(Into::into));
        policy.args.push(format!("-I{}", include.display()).into());
    })?;
    let text = fs::read(&path).map_err(MachineError::system("reading the PTX"))?;
    let compiler = clean(nvrtc::release(&String::from_utf8_lossy(&text)).as_bytes());
    Ok(Ptx { path, compiler: Some(compiler), flags })
}

/// The PTX of a submission in the cache, made if it is not there by the program that `fill` names in the policy: it gets a folder
/// with `headers` and the file to make.
fn cached(
    workshop: &Workshop,
    submission: &Submission,
    tool: &str,
    flags: &[String],
    headers: &Headers,
    fill: &dyn Fn(&Path, &Path, &mut Policy),
) -> Result<PathBuf, Trouble> {
    let entry = submission.manifest.entry.to_string_lossy();
    let key = tools::key(&[&submission.sha256, &entry, tool, &flags.join(" "), &headers.text()]);
    workshop.cached("kernels.ptx", &key, |work, kept| {
        let include = work.join("include");
        headers.lay_out(&include)?;
        let made = work.join("kernels.ptx");
        let mut policy = policy(Path::new(""), submission);
        fill(&include, &made, &mut policy);
        // So paths in messages and in the PTX are those of the submission.
        policy.working_folder = Some(submission.folder.clone());
        run(&workshop.cage, policy, work).map_err(|trouble| without_prefix(trouble, work))?;
        take_out(&made, work, kept)
    })
}

/// Names our headers in a compiler's message as sources name them.
fn without_prefix(trouble: Trouble, work: &Path) -> Trouble {
    match trouble {
        Trouble::Fault(Fault::Build { message }) => {
            let folders =
                ["include", "nvrtc/cccl", "nvrtc"].map(|name| format!("{}/", work.join(name).display()));
            let message = folders.iter().fold(message, |message, folder| message.replace(folder, ""));
            refusal(match advice(&message) {
                Some(advice) => format!("{message}\n{advice}"),
                None => message,
            })
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
