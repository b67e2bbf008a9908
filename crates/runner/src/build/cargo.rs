//! Cargo projects that make a cdylib.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::lint::{self, Form, Lint};
use super::{Library, Workshop, copy_sources, policy, refusal, run, take_out, tools};
use crate::cache::{create_open, once};
use crate::cage::{Policy, clean};
use crate::submission::hexadecimal;
use crate::{MachineError, Submission, Trouble};

/// What every build gets, as C sources get it: code for this machine.
const FLAGS: [&str; 1] = ["-Ctarget-cpu=native"];

/// Groups of the compiler's lints that no `allow` silences, be it in the source or in a manifest.
pub(super) const FORCED: [&str; 4] = ["--cap-lints", "warn", "--force-warn", "unused"];
/// Groups of clippy's for mistakes, and no other: contracts ask for unsafe functions, which those for style would have documented.
pub(super) const CLIPPY: [&str; 6] =
    ["--allow", "clippy::all", "--force-warn", "clippy::correctness", "--force-warn", "clippy::suspicious"];

/// The tools themselves. What is found in `PATH` may be a shim that chooses a version by looking around, and can do
/// neither in a cage.
#[derive(Debug)]
pub(crate) struct Toolchain {
    sysroot: PathBuf,
    cargo: PathBuf,
    rustc: PathBuf,
    linker: PathBuf,
    host: String,
    version: String,
    home: Option<PathBuf>,
}

impl Toolchain {
    pub(crate) fn find() -> Result<Self, MachineError> {
        let missing =
            |what: &str, remedy: &str| MachineError::Missing { what: what.into(), remedy: remedy.into() };
        // Asked by its name and not by the file behind it: a shim is one file with many names.
        let rustc = Path::new("rustc");
        let sysroot = tools::ask(rustc, &["--print", "sysroot"]).map_err(|_| {
            missing("a Rust toolchain", "install it from https://rustup.rs, or apt install cargo")
        })?;
        let sysroot = PathBuf::from(sysroot);
        let of_toolchain = |name| Some(sysroot.join("bin").join(name)).filter(|path| path.is_file());
        let cargo = of_toolchain("cargo")
            .or_else(|| tools::locate("cargo"))
            .ok_or_else(|| missing("cargo", "rustup component add cargo, or apt install cargo"))?;
        let rustc = of_toolchain("rustc")
            .or_else(|| tools::locate("rustc"))
            .ok_or_else(|| missing("rustc", "rustup toolchain install stable, or apt install rustc"))?;
        let linker = tools::locate("cc").ok_or_else(|| missing("a linker named cc", "apt install gcc"))?;
        let verbose = tools::ask(&rustc, &["-vV"])?;
        let host =
            verbose.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default().to_owned();
        let version = verbose.lines().next().unwrap_or_default().to_owned();
        let home = std::env::var_os("CARGO_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))
            .filter(|home| home.is_dir());
        Ok(Self { sysroot, cargo, rustc, linker, host, version, home })
    }

    /// The workspace that a project belongs to, if that is more than the project: the folder of its root.
    pub(crate) fn workspace_above(&self, manifest: &Path) -> Result<Option<PathBuf>, Trouble> {
        let output = Command::new(&self.cargo)
            .args([
                "locate-project",
                "--workspace",
                "--offline",
                "--message-format",
                "plain",
                "--manifest-path",
            ])
            .arg(manifest)
            .current_dir("/")
            .output()
            .map_err(MachineError::system("running cargo locate-project"))?;
        if !output.status.success() {
            return Err(refusal(clean(&output.stderr).trim().to_owned()));
        }
        let root = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let (root, folder) = (root.parent(), manifest.parent());
        // A manifest can name any folder as its workspace; it is believed only if it lies in there.
        Ok(root.filter(|root| Some(*root) != folder && manifest.starts_with(root)).map(Path::to_owned))
    }

    /// The folder of the programs.
    pub(crate) fn programs(&self) -> Option<&Path> {
        self.cargo.parent()
    }

    /// Lets a caged program use the toolchain. `home` and `target` are folders that it may write to.
    pub(crate) fn equip(&self, policy: &mut Policy, home: &Path, target: &Path) -> Result<(), MachineError> {
        fs::create_dir_all(home).map_err(MachineError::system("making a folder for cargo"))?;
        policy.reads.extend(tools::headers());
        // A home of its own, with the packages that are here and without the user's configuration and credentials.
        for packages in ["registry", "git"] {
            let link = home.join(packages);
            let Some(there) = self.home.as_ref().map(|home| home.join(packages)).filter(|path| path.is_dir())
            else {
                continue;
            };
            if !link.exists() {
                symlink(&there, &link).map_err(MachineError::system("linking the packages"))?;
            }
            policy.reads.push(there);
        }
        policy.executes.push(self.sysroot.clone());
        let linker = format!("CARGO_TARGET_{}_LINKER", self.host.to_uppercase().replace(['-', '.'], "_"));
        policy.env.extend([
            ("CARGO_HOME".into(), home.into()),
            ("CARGO_TARGET_DIR".into(), target.into()),
            ("CARGO_INCREMENTAL".into(), "0".into()),
            ("RUSTC".into(), self.rustc.clone().into()),
            (linker.into(), self.linker.clone().into()),
        ]);
        Ok(())
    }
}

pub(super) fn make(
    workshop: &Workshop,
    submission: &Submission,
    progress: &dyn Fn(&str),
) -> Result<Library, Trouble> {
    if submission.manifest.entry.file_name().is_none_or(|name| name != "Cargo.toml") {
        return Err(refusal("`entry` of a Rust submission is its Cargo.toml".into()));
    }
    let toolchain = Toolchain::find()?;
    let path = match toolchain.workspace_above(&submission.entry())? {
        Some(root) if !root.starts_with(&submission.folder) => {
            make_member(workshop, &toolchain, submission, &root, progress)?
        }
        _ => {
            let key = tools::key(&[&submission.sha256, &toolchain.version, &FLAGS.join(" ")]);
            workshop.cached("lib.so", &key, |work, library| {
                progress(&format!("compiling {}", submission.manifest.name));
                // Cargo writes beside the manifest (Cargo.lock), so it gets a copy.
                let copy = work.join("source");
                copy_sources(submission, &copy)?;
                let manifest = copy.join(&submission.manifest.entry);
                let made = build(workshop, &toolchain, submission, &manifest, work, &[])?;
                take_out(&made, work, library)
            })?
        }
    };
    let flags = FLAGS.map(str::to_owned).to_vec();
    Ok(Library { path, compiler: Some(toolchain.version), flags })
}

/// A member is built in place: it may read its workspace. Whether it is up to date only cargo knows, so its folder
/// of intermediate results is kept.
fn make_member(
    workshop: &Workshop,
    toolchain: &Toolchain,
    submission: &Submission,
    root: &Path,
    progress: &dyn Fn(&str),
) -> Result<PathBuf, Trouble> {
    let (work, _lock) = member_folder(workshop, toolchain, submission)?;
    progress(&format!("compiling {}", submission.manifest.name));
    let made = build(workshop, toolchain, submission, &submission.entry(), &work, &[root.to_owned()])?;
    let fresh = tempfile::tempdir_in(&work).map_err(MachineError::system("making a folder"))?;
    let copy = fresh.path().join("lib.so");
    take_out(&made, &work, &copy)?;
    let bytes = fs::read(&copy).map_err(MachineError::system("reading the library"))?;
    let folder = workshop.build_folder().join(hexadecimal(&Sha256::digest(&bytes)[..16]));
    once::<Trouble>(&folder, |making| {
        fs::write(making.join("lib.so"), &bytes).map_err(MachineError::system("keeping the library"))?;
        Ok(())
    })?;
    Ok(folder.join("lib.so"))
}

/// The folder of a member's intermediate results, and the lock on it.
fn member_folder(
    workshop: &Workshop,
    toolchain: &Toolchain,
    submission: &Submission,
) -> Result<(PathBuf, fs::File), MachineError> {
    let key = tools::key(&[&submission.folder.to_string_lossy(), &toolchain.version, &FLAGS.join(" ")]);
    let work = workshop.build_folder().join(format!("member-{key}"));
    create_open(&work)?;
    let lock = fs::File::create(workshop.build_folder().join(format!(".lock-member-{key}")))
        .map_err(MachineError::system("locking the cache"))?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
        .map_err(MachineError::system("locking the cache"))?;
    Ok((work, lock))
}

/// Builds the project at `manifest`, writing to `work` only. Returns the library's path.
fn build(
    workshop: &Workshop,
    toolchain: &Toolchain,
    submission: &Submission,
    manifest: &Path,
    work: &Path,
    reads: &[PathBuf],
) -> Result<PathBuf, Trouble> {
    let target = work.join("target");
    let home = work.join("cargo");
    let release = target.join("release");
    refuse_links(&[&work.join("tmp"), &home, &target, &release])?;
    forget_libraries(&release)?;
    let mut policy = policy(&toolchain.cargo, submission);
    toolchain.equip(&mut policy, &home, &target)?;
    policy.reads.extend_from_slice(reads);
    policy.args =
        ["build", "--release", "--offline", "--lib", "--quiet", "--color", "never", "--manifest-path"]
            .map(Into::into)
            .to_vec();
    policy.args.push(manifest.into());
    policy.env.push(("CARGO_ENCODED_RUSTFLAGS".into(), FLAGS.join("\x1f").into()));
    policy.working_folder = Some(work.to_owned());
    run(&workshop.cage, policy, work)?;
    let [library] = libraries(&release)?.try_into().map_err(|found: Vec<_>| {
        refusal(format!(
            "expected the project to make one cdylib, it made {}: set crate-type = [\"cdylib\"] under [lib]",
            found.len()
        ))
    })?;
    Ok(library)
}

/// What reads a project for its warnings: clippy, or the compiler where it is not installed.
struct Linter {
    /// `cargo-clippy` and its version.
    clippy: Option<(PathBuf, String)>,
}

impl Linter {
    fn find(toolchain: &Toolchain) -> Self {
        let of_toolchain = |name| Some(toolchain.programs()?.join(name)).filter(|path| path.is_file());
        let version = of_toolchain("clippy-driver").and_then(|driver| tools::version(&driver).ok());
        Self { clippy: of_toolchain("cargo-clippy").zip(version) }
    }

    fn version<'a>(&'a self, toolchain: &'a Toolchain) -> &'a str {
        self.clippy.as_ref().map_or(&toolchain.version, |(_, version)| version)
    }

    fn flags(&self) -> Vec<&'static str> {
        let clippy: &[_] = if self.clippy.is_some() { &CLIPPY } else { &[] };
        FORCED.iter().chain(clippy).copied().collect()
    }
}

/// The linter of this machine, with its version.
pub(super) fn linter() -> Result<String, MachineError> {
    let toolchain = Toolchain::find()?;
    let linter = Linter::find(&toolchain);
    let version = linter.version(&toolchain);
    Ok(match linter.clippy {
        Some(_) => version.to_owned(),
        None => format!(
            "{version}; for clippy's warnings too: rustup component add clippy, or apt install rust-clippy"
        ),
    })
}

/// What clippy and the compiler warn of. A project's dependencies are checked for it once more, so what comes of it is kept.
pub(super) fn lint(
    workshop: &Workshop,
    submission: &Submission,
    progress: &dyn Fn(&str),
) -> Result<Lint, Trouble> {
    let toolchain = Toolchain::find()?;
    let linter = Linter::find(&toolchain);
    let flags = linter.flags().join(" ");
    let version = linter.version(&toolchain);
    let entry = submission.entry();
    let root = toolchain.workspace_above(&entry)?;
    let root = root.or_else(|| entry.parent().map(Path::to_owned)).unwrap_or_default();
    let text = if root.starts_with(&submission.folder) {
        let key =
            tools::key(&["lint", &submission.sha256, &toolchain.version, version, &flags, &FLAGS.join(" ")]);
        let kept = workshop.cached("warnings.json", &key, |work, kept| {
            progress(&format!("linting {}", submission.manifest.name));
            let copy = work.join("source");
            copy_sources(submission, &copy)?;
            let manifest = copy.join(&submission.manifest.entry);
            let text = warnings(workshop, &toolchain, &linter, submission, &manifest, work, &[])?;
            fs::write(kept, text).map_err(MachineError::system("keeping a linter's words"))?;
            Ok(())
        })?;
        fs::read_to_string(kept).map_err(MachineError::system("reading a linter's words"))?
    } else {
        let (work, _lock) = member_folder(workshop, &toolchain, submission)?;
        progress(&format!("linting {}", submission.manifest.name));
        warnings(workshop, &toolchain, &linter, submission, &entry, &work, std::slice::from_ref(&root))?
    };
    Ok(Lint {
        linter: format!("{version} {flags}"),
        form: Form::Cargo,
        text,
        root,
        folder: submission.folder.clone(),
    })
}

/// Checks the project at `manifest`, writing to `work` only. Returns what cargo printed.
fn warnings(
    workshop: &Workshop,
    toolchain: &Toolchain,
    linter: &Linter,
    submission: &Submission,
    manifest: &Path,
    work: &Path,
    reads: &[PathBuf],
) -> Result<String, Trouble> {
    let (target, home) = (work.join("target"), work.join("cargo"));
    refuse_links(&[&work.join("tmp"), &home, &target])?;
    // Settings that say nothing, so that clippy looks no further; outside of what a build script can write to.
    let settings = workshop.build_folder().join("clippy");
    create_open(&settings)?;
    fs::write(settings.join("clippy.toml"), "").map_err(MachineError::system("writing clippy's settings"))?;
    let (program, command) = match &linter.clippy {
        Some((program, _)) => (program, ["clippy", "--no-deps"].as_slice()),
        None => (&toolchain.cargo, ["check"].as_slice()),
    };
    let mut policy = policy(program, submission);
    toolchain.equip(&mut policy, &home, &target)?;
    policy.reads.extend_from_slice(reads);
    policy.reads.push(settings.clone());
    policy.args = command.iter().map(Into::into).collect();
    policy.args.extend(
        ["--release", "--offline", "--lib", "--quiet", "--message-format=json", "--manifest-path"]
            .map(Into::into),
    );
    policy.args.push(manifest.into());
    let mut flags = FLAGS.to_vec();
    if linter.clippy.is_some() {
        policy.args.push("--".into());
        policy.args.extend(linter.flags().iter().map(Into::into));
    } else {
        flags.extend(linter.flags());
    }
    policy.env.extend([
        ("CARGO".into(), toolchain.cargo.clone().into()),
        ("CLIPPY_CONF_DIR".into(), settings.into()),
        ("CARGO_ENCODED_RUSTFLAGS".into(), flags.join("\x1f").into()),
    ]);
    policy.working_folder = Some(work.to_owned());
    Ok(lint::run(workshop, policy, work)?.stdout)
}

/// An earlier build could have put a link where we are about to write with our own rights.
fn refuse_links(folders: &[&Path]) -> Result<(), Trouble> {
    match folders.iter().find(|folder| folder.is_symlink()) {
        Some(link) => Err(refusal(format!("an earlier build left a link at {}", link.display()))),
        None => Ok(()),
    }
}

/// The shared libraries that a build made. Those of its dependencies lie deeper.
fn libraries(release: &Path) -> Result<Vec<PathBuf>, MachineError> {
    if !release.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(release).map_err(MachineError::system("looking for the library"))?;
    Ok(entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "so"))
        .collect())
}

/// What an earlier build left; cargo puts back what is up to date.
fn forget_libraries(release: &Path) -> Result<(), MachineError> {
    for library in libraries(release)? {
        fs::remove_file(library).map_err(MachineError::system("removing an old library"))?;
    }
    Ok(())
}
