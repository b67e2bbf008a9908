//! Building: cached, caged, and its failures told.

use std::fs;
use std::path::Path;
use std::process::Command;

use tribunal_contract::Fault;
use tribunal_runner::{Artefact, MachineError, Submission, Trouble, Workshop};

use crate::toy::{HONEST_C, Toy, c_source, skip, toy, workshop};

pub(crate) fn make(workshop: &Workshop, toy: &Toy) -> Option<Result<Artefact, Trouble>> {
    match workshop.make(&Submission::open(toy.folder.path()).unwrap(), &|_| {}) {
        Err(Trouble::Machine(missing @ (MachineError::Missing { .. } | MachineError::NoCage { .. }))) => {
            skip(&missing);
            None
        }
        Err(Trouble::Machine(error)) => panic!("{error}"),
        other => Some(other),
    }
}

pub(crate) fn message(toy: &Toy) -> Option<String> {
    match make(&workshop(), toy)? {
        Err(Trouble::Fault(Fault::Build { message })) => Some(message),
        other => panic!("expected a failure to build, got {other:?}"),
    }
}

fn path(artefact: &Artefact) -> &Path {
    match artefact {
        Artefact::Library(library) => &library.path,
        Artefact::Module(_) | Artefact::Ptx(_) => panic!("a library"),
    }
}

#[test]
fn a_library_is_built_once_for_the_same_source() {
    let cache = tempfile::tempdir().unwrap();
    let workshop = Workshop { cache: cache.path().join("cache"), ..workshop() };
    let Some(first) = make(&workshop, &c_source(HONEST_C)) else { return };
    let first = first.unwrap();
    let built = fs::metadata(path(&first)).unwrap().modified().unwrap();
    let again = make(&workshop, &c_source(HONEST_C)).unwrap().unwrap();
    assert_eq!(first, again);
    assert_eq!(fs::metadata(path(&again)).unwrap().modified().unwrap(), built);
    let other = make(&workshop, &c_source(&format!("{HONEST_C}\n"))).unwrap().unwrap();
    assert_ne!(path(&first), path(&other));
    let Artefact::Library(library) = first else { panic!("a library") };
    assert!(library.compiler.is_some_and(|version| !version.is_empty()));
    assert!(
        library.flags.iter().any(|flag| flag == "-O3")
            && !library.flags.iter().any(|flag| flag.contains("fast-math"))
    );
}

#[test]
fn what_does_not_compile_says_why() {
    let Some(message) = message(&c_source("int tribunal_forward( {")) else { return };
    assert!(message.contains("submission.c:1:") && message.contains("error"), "{message}");
    assert!(message.len() < 5000);
}

#[test]
fn a_source_cannot_include_what_is_not_its_own() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret.h");
    fs::write(&secret, "#error the secret is 4711").unwrap();
    for path in [secret.to_str().unwrap(), "/etc/passwd", "/etc/hostname"] {
        let Some(message) = message(&c_source(&format!("#include \"{path}\"\nint x;"))) else { return };
        assert!(!message.contains("4711") && !message.contains("root:"), "{message}");
    }
}

#[test]
fn a_rust_project_that_is_no_cdylib_or_does_not_compile_says_so() {
    let manifest = "[package]\nname = \"toy\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    let plain = toy("rust", "Cargo.toml", &[("Cargo.toml", manifest), ("src/lib.rs", "pub fn f() {}\n")]);
    let Some(said) = message(&plain) else { return };
    assert!(said.contains("cdylib"), "{said}");
    let broken =
        toy("rust", "Cargo.toml", &[("Cargo.toml", manifest), ("src/lib.rs", "pub fn f() -> u32 {}\n")]);
    let said = message(&broken).unwrap();
    assert!(said.contains("mismatched types"), "{said}");
    let toml = toy("rust", "Cargo.toml", &[("Cargo.toml", "[package]\nname = 5"), ("src/lib.rs", "")]);
    assert!(!message(&toml).unwrap().is_empty());
}

#[test]
fn a_build_script_is_caged_too() {
    let manifest = "[package]\nname = \"toy\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n";
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "4711").unwrap();
    let script = format!(
        "fn main() {{\n let read = std::fs::read_to_string({secret:?}).is_ok();\n let wrote = std::fs::write({:?}, \"x\").is_ok();\n \
         let network = std::net::TcpStream::connect((\"127.0.0.1\", 22)).map_err(|e| e.kind());\n \
         let out = network.is_ok() || matches!(network, Err(std::io::ErrorKind::ConnectionRefused));\n \
         if read || wrote || out {{ panic!(\"read {{read}}, wrote {{wrote}}, {{network:?}}\") }} }}\n",
        outside.path().join("written"),
    );
    let files = [("Cargo.toml", manifest), ("src/lib.rs", ""), ("build.rs", script.as_str())];
    let Some(made) = make(&workshop(), &toy("rust", "Cargo.toml", &files)) else { return };
    assert!(made.is_ok(), "{made:?}");
    assert!(!outside.path().join("written").exists());
}

#[test]
fn a_member_of_a_workspace_may_read_it() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("Cargo.toml", "[workspace]\nresolver = \"2\"\nmembers = [\"base\", \"toy\"]\n");
    write("base/Cargo.toml", "[package]\nname = \"base\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    write("base/src/lib.rs", "pub const STATUS: i32 = 7;\n");
    write(
        "toy/Cargo.toml",
        "[package]\nname = \"toy\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\ncrate-type = [\"cdylib\"]\n[dependencies]\nbase = { path = \"../base\" }\n",
    );
    write(
        "toy/src/lib.rs",
        "#[no_mangle]\npub extern \"C\" fn tribunal_forward(_: *mut u8) -> i32 { base::STATUS }\n",
    );
    write(
        "toy/tribunal.toml",
        "name = \"toy\"\nchallenge = \"layer_norm_backward\"\nlanguage = \"rust\"\nentry = \"Cargo.toml\"\n",
    );
    let locked = Command::new("cargo")
        .args(["generate-lockfile", "--offline", "--quiet"])
        .current_dir(root.path())
        .status();
    if !locked.is_ok_and(|status| status.success()) {
        return skip(&"no cargo");
    }
    let submission = Submission::open(&root.path().join("toy")).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let workshop = Workshop { cache: cache.path().join("cache"), ..workshop() };
    let mut paths = Vec::new();
    for status in [7, 7, 8] {
        write("base/src/lib.rs", &format!("pub const STATUS: i32 = {status};\n"));
        match workshop.make(&submission, &|_| {}) {
            Ok(artefact) => paths.push(path(&artefact).to_owned()),
            Err(Trouble::Machine(missing @ (MachineError::Missing { .. } | MachineError::NoCage { .. }))) => {
                return skip(&missing);
            }
            Err(trouble) => panic!("{trouble}"),
        }
    }
    assert_eq!(paths[0], paths[1]);
    assert_ne!(paths[1], paths[2], "a change in the workspace is seen");
}

#[test]
fn an_entry_of_another_kind_is_refused() {
    let said = message(&toy("c", "kernel.f90", &[("kernel.f90", "")])).unwrap();
    assert!(said.contains("kernel.f90") && said.contains(".so"), "{said}");
    let said = message(&toy("rust", "lib.rs", &[("lib.rs", "")])).unwrap();
    assert!(said.contains("Cargo.toml"), "{said}");
}
