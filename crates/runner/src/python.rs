//! Finds an interpreter and numpy, and installs numpy into a folder of its own where there is none.
//!
//! Nothing of the user's is changed, and nothing of it is needed but an interpreter: numpy goes into the cache by `uv` or by any
//! `pip`, into a plain folder that a host appends to its path. A virtual environment would add nothing: hosts run
//! the base interpreter without `site`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cache::{once, open_to_all};
use crate::submission::hexadecimal;
use crate::{MachineError, cage};

/// The variable that names an interpreter.
pub const VARIABLE: &str = "TRIBUNAL_PYTHON";

/// An interpreter, and numpy for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Python {
    /// The interpreter itself: no shim, no link, no virtual environment.
    pub interpreter: PathBuf,
    /// Its version: `3.11.2`.
    pub version: String,
    /// numpy's version.
    pub numpy: String,
    /// The BLAS library that numpy was built with, and its version.
    pub blas: String,
    /// How numpy was come by.
    pub way: String,
    /// The folder that has numpy, to be appended to the module path.
    pub site: PathBuf,
    /// Folders of the interpreter that it reads.
    pub folders: Vec<PathBuf>,
}

/// What an interpreter says about itself.
#[derive(Debug, Clone, Deserialize)]
struct Interpreter {
    executable: PathBuf,
    version: (u32, u32, u32),
    folders: Vec<PathBuf>,
    numpy: Option<Numpy>,
}

#[derive(Debug, Clone, Deserialize)]
struct Numpy {
    version: String,
    blas: String,
    site: PathBuf,
}

const PROBE: &str = r#"
import json, os, sys, sysconfig
sys.path.extend(sys.argv[1:])
try:
    import numpy
    blas = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"] if numpy.__version__ >= "1.25" else {}
    numpy = {"version": numpy.__version__, "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
             "site": os.path.dirname(os.path.dirname(os.path.realpath(numpy.__file__)))}
except Exception:
    numpy = None
paths = sysconfig.get_paths()
folders = {os.path.realpath(paths["stdlib"]), os.path.realpath(paths["platstdlib"])}
if sys.base_prefix != "/usr":
    folders.add(os.path.realpath(os.path.join(sys.base_prefix, "lib")))
print(json.dumps({"executable": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
                  "version": sys.version_info[:3], "numpy": numpy,
                  "folders": sorted(path for path in folders if os.path.isdir(path))}))
"#;

/// The newest numpy that is known to work with an interpreter; `None` if the interpreter is too old.
fn numpy_for((major, minor, _): (u32, u32, u32)) -> Option<&'static str> {
    match (major, minor) {
        (3, 11..) => Some("2.3.5"),
        (3, 10) => Some("2.2.6"),
        (3, 9) => Some("2.0.2"),
        _ => None,
    }
}

/// What was found before in this process, and what was asked then.
struct Known {
    asked: Option<PathBuf>,
    cache: PathBuf,
    python: Python,
}

static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

impl Python {
    /// Finds an interpreter with numpy, or installs numpy for one. `asked` is the interpreter that the user named, if
    /// any; `cache` the folder for what is installed; `progress` is told in a line what takes time.
    ///
    /// In order: the interpreter asked for, if it has numpy; numpy in the cache; numpy installed into the cache by `uv`, then by `pip`;
    /// an interpreter of this system that has numpy.
    ///
    /// # Errors
    /// [`MachineError::Missing`] with the command that helps.
    pub fn find(asked: Option<&Path>, cache: &Path, progress: &dyn Fn(&str)) -> Result<Self, MachineError> {
        let asked = asked.map(Path::to_owned).or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
        // Starting every interpreter of a system takes a second; they do not change while we run.
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.iter().find(|found| found.asked == asked && found.cache == cache) {
            return Ok(found.python.clone());
        }
        let python = Self::look(asked.clone(), cache, progress)?;
        known.push(Known { asked, cache: cache.to_owned(), python: python.clone() });
        Ok(python)
    }

    /// A folder that has a package for this interpreter, to be appended to the module path; it is installed into the cache first if need be.
    ///
    /// # Errors
    /// [`MachineError::Missing`] with the command that helps.
    pub fn package(
        &self,
        requirement: &str,
        cache: &Path,
        progress: &dyn Fn(&str),
    ) -> Result<PathBuf, MachineError> {
        let mut numbers = self.version.split('.').map(|number| number.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        let interpreter = Interpreter {
            executable: self.interpreter.clone(),
            version: (next(), next(), next()),
            folders: Vec::new(),
            numpy: None,
        };
        let site = cache.join("python").join(interpreter.key(requirement));
        once::<MachineError>(&site, |making| {
            interpreter.install(requirement, making, progress)?;
            open_up(making).map_err(MachineError::system("opening the new folder to all"))
        })?;
        Ok(site)
    }

    fn look(asked: Option<PathBuf>, cache: &Path, progress: &dyn Fn(&str)) -> Result<Self, MachineError> {
        let interpreters = match &asked {
            Some(path) => vec![probe(path, &[]).ok_or_else(|| MachineError::Missing {
                what: format!("a Python interpreter at {}", path.display()),
                remedy: format!("name one that runs with --python or {VARIABLE}"),
            })?],
            None => on_this_system(),
        };
        if asked.is_some()
            && let Some(python) = interpreters.iter().find_map(|found| found.with_own_numpy("asked for"))
        {
            return Ok(python);
        }
        let Some((interpreter, version)) =
            interpreters.iter().find_map(|found| Some((found, numpy_for(found.version)?)))
        else {
            return Err(MachineError::Missing {
                what: "Python 3.9 or later".into(),
                remedy: "apt install python3, or the like".into(),
            });
        };
        match interpreter.provision(version, cache, progress) {
            Ok(python) => Ok(python),
            Err(why) => {
                interpreters.iter().find_map(|found| found.with_own_numpy("of this system")).ok_or(why)
            }
        }
    }
}

impl Interpreter {
    fn with_own_numpy(&self, whose: &str) -> Option<Python> {
        let numpy = self.numpy.clone()?;
        Some(self.with(numpy, format!("numpy {whose}")))
    }

    fn with(&self, numpy: Numpy, way: String) -> Python {
        let (major, minor, patch) = self.version;
        Python {
            interpreter: self.executable.clone(),
            version: format!("{major}.{minor}.{patch}"),
            numpy: numpy.version,
            blas: numpy.blas,
            way,
            site: numpy.site,
            folders: self.folders.clone(),
        }
    }

    /// Takes numpy from the cache, and installs it there first if need be.
    fn provision(
        &self,
        numpy_version: &str,
        cache: &Path,
        progress: &dyn Fn(&str),
    ) -> Result<Python, MachineError> {
        let requirement = format!("numpy=={numpy_version}");
        let site = cache.join("python").join(self.key(&requirement));
        let mut way = "numpy from the cache".to_owned();
        once::<MachineError>(&site, |making| {
            way = self.install(&requirement, making, progress)?;
            open_up(making).map_err(MachineError::system("opening the new folder to all"))
        })?;
        let numpy = probe(&self.executable, std::slice::from_ref(&site)).and_then(|found| found.numpy);
        // An interpreter's own numpy would come first, but the base interpreter is asked without `site`.
        let numpy = numpy.ok_or_else(|| MachineError::Missing {
            what: format!("a numpy that {} can import", self.executable.display()),
            remedy: format!("rm -r {}", site.display()),
        })?;
        Ok(self.with(numpy, way))
    }

    fn key(&self, requirement: &str) -> String {
        let key = format!("{}\n{:?}\n{requirement}\n", self.executable.display(), self.version);
        hexadecimal(&Sha256::digest(key.as_bytes())[..16])
    }

    /// Returns how it was done.
    fn install(
        &self,
        requirement: &str,
        target: &Path,
        progress: &dyn Fn(&str),
    ) -> Result<String, MachineError> {
        let mut last_words = String::new();
        for (name, mut command) in self.installers() {
            progress(&format!("installing {requirement} by {name}"));
            command.arg("--target").arg(target).args(["--only-binary", ":all:", requirement]);
            match command.output() {
                Ok(output) if output.status.success() => {
                    return Ok(format!("{requirement} installed by {name}"));
                }
                Ok(output) => {
                    let text = cage::clean(&output.stderr);
                    last_words =
                        text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().into();
                    progress(&format!("{name} failed: {last_words}"));
                }
                Err(_) => {} // not here
            }
        }
        let python = self.executable.display();
        let said = if last_words.is_empty() { String::new() } else { format!(" ({last_words})") };
        let package = requirement.split('=').next().unwrap_or(requirement);
        Err(MachineError::Missing {
            what: format!("{package} for {python}{said}"),
            remedy: format!(
                "apt install python3-{package}, or name an interpreter that has {package} with --python or {VARIABLE}; \
                 uv, or pip with access to a package index, would do as well"
            ),
        })
    }

    fn installers(&self) -> Vec<(&'static str, Command)> {
        let mut uv = Command::new("uv");
        // What it installs is read-only in the cage: without bytecode every start would compile it anew, which takes three times as long.
        uv.args(["pip", "install", "--quiet", "--compile-bytecode", "--python"]).arg(&self.executable);
        let quiet =
            ["install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-warn-conflicts"];
        let mut own = Command::new(&self.executable);
        own.args(["-m", "pip"]).args(quiet);
        let mut other = Command::new("pip3");
        other.arg("--python").arg(&self.executable).args(quiet);
        // A folder as current directory could shadow modules of the installer.
        let mut all = vec![("uv", uv), ("pip", own), ("another interpreter's pip", other)];
        all.iter_mut().for_each(|(_, command)| _ = command.current_dir("/"));
        all
    }
}

/// The interpreters of this system, the best first.
fn on_this_system() -> Vec<Interpreter> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<Interpreter> = Vec::new();
    for folder in std::env::split_paths(&path).chain(["/usr/bin".into(), "/usr/local/bin".into()]) {
        let candidate = folder.join("python3");
        if let Some(interpreter) = candidate.is_file().then(|| probe(&candidate, &[])).flatten()
            && !found.iter().any(|known| known.executable == interpreter.executable)
        {
            found.push(interpreter);
        }
    }
    // A caged host of root's runs as a user who cannot enter root's home, where some interpreters live.
    found.sort_by_key(|interpreter| !open_to_all(&interpreter.executable));
    found
}

/// Asks an interpreter about itself. With folders for its path it is asked as a host would run it.
fn probe(python: &Path, site: &[PathBuf]) -> Option<Interpreter> {
    let mut command = Command::new(python);
    command.current_dir("/").arg("-B").env("OPENBLAS_NUM_THREADS", "1");
    if !site.is_empty() {
        command.args(["-I", "-S"]);
    }
    let output = command.args(["-c", PROBE]).args(site).output().ok()?;
    output.status.success().then(|| serde_json::from_slice(&output.stdout).ok()).flatten()
}

/// Lets all users read what an installer made, whatever the umask.
fn open_up(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_symlink() {
            continue;
        }
        let open = if metadata.is_dir() { 0o555 } else { 0o444 };
        fs::set_permissions(&path, Permissions::from_mode(metadata.permissions().mode() | open))?;
        if metadata.is_dir() {
            open_up(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_that_is_not_there_is_the_machines_fault() {
        let error = Python::find(Some(Path::new("/nonexistent/python")), Path::new("/nonexistent"), &|_| {})
            .unwrap_err();
        assert!(matches!(error, MachineError::Missing { .. }), "{error}");
        assert!(error.to_string().contains("--python"), "{error}");
    }

    #[test]
    fn old_interpreters_have_no_numpy() {
        assert_eq!(numpy_for((3, 8, 10)), None);
        assert_eq!(numpy_for((2, 7, 18)), None);
        assert!(numpy_for((3, 13, 0)).is_some());
    }
}
