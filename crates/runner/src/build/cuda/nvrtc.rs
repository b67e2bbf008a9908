//! NVIDIA's runtime compiler, where the user has it: found, and run in a process of its own.
//!
//! The library is loaded in the cage and never by the judge: this program is started again, there, as the compiler's
//! command line that NVRTC does not have. Its headers come with it from version 13.3 on.

use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int, c_uint, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};

use crate::MachineError;

/// The variable that names the library.
pub(crate) const VARIABLE: &str = "TRIBUNAL_NVRTC";

/// The first argument of a process that is the compiler.
pub(super) const COMPILE: &str = "__tribunal-nvrtc";

/// What every source gets. Its own headers define INFINITY again, and differently: that is warning 47.
pub(super) const FLAGS: [&str; 5] = [
    "--gpu-architecture=compute_80",
    "--std=c++17",
    "-lineinfo",
    "--diag-suppress=47",
    "--pre-include=tribunal_prelude.h",
];

/// The library: the one that the user names, or that of a CUDA toolkit or of a Python package.
///
/// # Errors
/// [`MachineError::Missing`] if there is none.
pub(crate) fn find() -> Result<PathBuf, MachineError> {
    if let Some(named) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        return named.canonicalize().map_err(|error| MachineError::Missing {
            what: format!("{} ({error})", named.display()),
            remedy: format!("{VARIABLE} must name libnvrtc.so"),
        });
    }
    let mut folders: Vec<PathBuf> =
        ["/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"].map(Into::into).to_vec();
    folders.extend(packages());
    let mut found: Vec<PathBuf> = folders.iter().flat_map(|folder| libraries(folder)).collect();
    found.sort_by_key(|path| path.file_name().and_then(version_in));
    found.pop().ok_or_else(|| MachineError::Missing {
        what: "NVRTC".into(),
        remedy: format!("pip install nvidia-cuda-nvrtc, or set {VARIABLE} to its library, or ask for clang"),
    })
}

/// Where `pip install` puts it, for the interpreters that a user is likely to have.
fn packages() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".local"));
    let environment = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let roots = environment.into_iter().chain(home).chain(["/usr/local".into(), "/usr".into()]);
    let mut folders = Vec::new();
    for python in roots.flat_map(|root| entries(&root.join("lib"))) {
        for site in ["site-packages", "dist-packages"] {
            for package in entries(&python.join(site).join("nvidia")) {
                folders.push(package.join("lib"));
            }
        }
    }
    folders
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn libraries(folder: &Path) -> Vec<PathBuf> {
    let is_library = |path: &PathBuf| path.file_name().and_then(version_in).is_some() && path.is_file();
    entries(folder).into_iter().filter(is_library).collect()
}

/// 13 in `libnvrtc.so.13`.
fn version_in(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix("libnvrtc.so.")?.split('.').next()?.parse().ok()
}

/// The release that PTX says it is made by, from the comment at its head.
pub(super) fn release(ptx: &str) -> String {
    let line = ptx.lines().take(20).find_map(|line| line.strip_prefix("// Cuda compilation tools, "));
    format!("NVRTC {}", line.unwrap_or("of unknown release"))
}

/// What the process is told: the library, what to write, a folder for headers, the source, options.
pub(super) fn arguments(library: &Path, made: &Path, headers: &Path, entry: &Path) -> Vec<OsString> {
    [OsStr::new(COMPILE), library.as_os_str(), made.as_os_str(), headers.as_os_str(), entry.as_os_str()]
        .map(OsStr::to_owned)
        .to_vec()
}

/// Becomes the compiler if this process was started as it; returns at once otherwise.
pub(crate) fn enter_if_compiler() {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_none_or(|word| word != OsStr::new(COMPILE)) {
        return;
    }
    let args: Vec<OsString> = args.collect();
    let [library, made, headers, entry, options @ ..] = &args[..] else { std::process::exit(2) };
    match compile(Path::new(library), Path::new(headers), Path::new(entry), options) {
        Ok(ptx) => match fs::write(made, ptx) {
            Ok(()) => std::process::exit(0),
            Err(error) => eprintln!("{error}"),
        },
        Err(message) => eprintln!("{message}"),
    }
    std::process::exit(1)
}

type Program = *mut c_void;
type Texts = *const *const c_char;

fn compile(library: &Path, headers: &Path, entry: &Path, options: &[OsString]) -> Result<Vec<u8>, String> {
    let source = fs::read(entry).map_err(|error| error.to_string())?;
    let source = c_text(&source)?;
    let name = c_text(entry.as_os_str().as_bytes())?;
    let mut options: Vec<CString> =
        options.iter().map(|option| c_text(option.as_bytes())).collect::<Result<_, _>>()?;
    let nvrtc = Nvrtc::load(library)?;
    nvrtc.install_headers(headers)?;
    for folder in [headers.to_owned(), headers.join("cccl"), ".".into()] {
        let option = [b"-I", folder.as_os_str().as_bytes()].concat();
        options.push(c_text(&option)?);
    }
    let ptx = nvrtc.compile(&source, &name, &options)?;
    Ok(with_short_paths(&String::from_utf8_lossy(&ptx), headers).into_bytes())
}

/// Names source files as the contestant knows them, which is from the folder of the submission.
fn with_short_paths(ptx: &str, headers: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    ptx.replace(&format!("\"{}/", here.display()), "\"./")
        .replace(&format!("\"{}/cccl/", headers.display()), "\"")
        .replace(&format!("\"{}/", headers.display()), "\"")
}

fn c_text(bytes: &[u8]) -> Result<CString, String> {
    CString::new(bytes).map_err(|_| "a byte of the source or of a path is zero".to_owned())
}

struct Nvrtc(Library);

impl Nvrtc {
    fn load(path: &Path) -> Result<Self, String> {
        // SAFETY: the user's own library, whose constructors this process is there to run; the cage is closed.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        library.map(Self).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// # Safety
    /// `T` must be the type of the function of that name.
    unsafe fn function<T>(&self, name: &str) -> Result<Symbol<T>, String> {
        // SAFETY: the caller's.
        unsafe { self.0.get(name.as_bytes()) }.map_err(|_| format!("this NVRTC has no {name}"))
    }

    fn check(&self, doing: &str, status: c_int) -> Result<(), String> {
        if status == 0 { Ok(()) } else { Err(format!("NVRTC: {doing}: error {status}")) }
    }

    fn install_headers(&self, folder: &Path) -> Result<(), String> {
        let folder = c_text(folder.as_os_str().as_bytes())?;
        // SAFETY: as nvrtc.h declares it.
        let install = unsafe {
            self.function::<unsafe extern "C" fn(*const c_char, c_uint, *mut *const c_char) -> c_int>(
                "nvrtcInstallBundledHeaders",
            )
        };
        let install =
            install.map_err(|why| format!("{why}: its headers come with version 13.3 and newer"))?;
        // SAFETY: a text that lives during the call; the message is not wanted.
        self.check("laying out its headers", unsafe { install(folder.as_ptr(), 0, null_mut()) })
    }

    fn compile(&self, source: &CStr, name: &CStr, options: &[CString]) -> Result<Vec<u8>, String> {
        type Create =
            unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, Texts, Texts) -> c_int;
        type Compile = unsafe extern "C" fn(Program, c_int, Texts) -> c_int;
        // SAFETY: both as nvrtc.h declares them.
        let (create, compile) = unsafe {
            (self.function::<Create>("nvrtcCreateProgram")?, self.function::<Compile>("nvrtcCompileProgram")?)
        };
        let mut program: Program = null_mut();
        // SAFETY: texts that live during the call, no headers in memory, and room for the handle.
        let status = unsafe { create(&mut program, source.as_ptr(), name.as_ptr(), 0, null(), null()) };
        self.check("taking the source", status)?;
        let options: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the handle just made, and as many texts as said. The process ends soon: it is not destroyed.
        match unsafe { compile(program, options.len() as c_int, options.as_ptr()) } {
            0 => self.text(program, "nvrtcGetPTXSize", "nvrtcGetPTX"),
            _ => {
                let log = self.text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")?;
                Err(String::from_utf8_lossy(&log).into_owned())
            }
        }
    }

    fn text(&self, program: Program, size: &str, get: &str) -> Result<Vec<u8>, String> {
        // SAFETY: both as nvrtc.h declares them.
        let (size, get) = unsafe {
            (
                self.function::<unsafe extern "C" fn(Program, *mut usize) -> c_int>(size)?,
                self.function::<unsafe extern "C" fn(Program, *mut c_char) -> c_int>(get)?,
            )
        };
        let mut bytes = 0;
        // SAFETY: a live handle, and room for the size.
        self.check("asking for a size", unsafe { size(program, &mut bytes) })?;
        let mut text = vec![0u8; bytes];
        // SAFETY: a live handle, and room for as many bytes as it just said.
        self.check("asking for a text", unsafe { get(program, text.as_mut_ptr().cast()) })?;
        while text.last() == Some(&0) {
            text.pop();
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_from_names_and_from_ptx() {
        assert_eq!(version_in(OsStr::new("libnvrtc.so.13")), Some(13));
        assert_eq!(version_in(OsStr::new("libnvrtc.so.11.2")), Some(11));
        assert_eq!(version_in(OsStr::new("libnvrtc-builtins.so.13.5")), None);
        assert_eq!(
            release("//\n// Cuda compilation tools, release 13.5, V13.5.37\n"),
            "NVRTC release 13.5, V13.5.37"
        );
    }
}
