//! `tribunal export`, `tribunal import`: verdicts on their way to another store.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tribunal_board::{Bundle, Store, StoreError, clean};
use tribunal_judge::Verdict;

use crate::arguments::{Common, ExportOptions, ImportOptions};
use crate::exit::{Exit, Failure};
use crate::store::{self, not_got};

pub fn export(options: &ExportOptions, common: &Common) -> Result<Exit, Failure> {
    let store = store::to_read(common)?;
    match (options.ids.as_slice(), &options.out) {
        ([id], out) if !out.as_ref().is_some_and(|out| out.is_dir() || ends_as_folder(out)) => {
            let line = store.bundle(id).map_err(not_got)?.line();
            match out {
                Some(file) => write_whole(file, &line)?,
                None => writeln!(anstream::stdout(), "{line}")?,
            }
            Ok(Exit::Accepted)
        }
        (_, None) => Err(Failure::Usage("several verdicts go into a folder: --out DIR".to_owned())),
        (ids, Some(out)) => {
            // What was named must be there before anything is written.
            for id in ids {
                store.get(id).map_err(not_got)?;
            }
            let ids = if ids.is_empty() { store.ids().map_err(not_got)? } else { ids.to_vec() };
            export_all(&store, &ids, out)
        }
    }
}

/// Saves what can be read, even from a store that is damaged.
fn export_all(store: &Store, ids: &[String], out: &Path) -> Result<Exit, Failure> {
    let into = Store::open(out).map_err(not_got)?;
    let mut lost = 0;
    for id in ids {
        match store.bundle(id) {
            Ok(bundle) => into.keep(&bundle).map_err(not_got)?,
            Err(error) => {
                anstream::eprintln!("tribunal: not exported: {error}");
                lost += 1;
            }
        }
    }
    writeln!(anstream::stdout(), "{} exported to {}", ids.len() - lost, out.display())?;
    Ok(if lost == 0 { Exit::Accepted } else { Exit::Infrastructure })
}

fn ends_as_folder(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Writes a file that appears whole or not at all.
fn write_whole(path: &Path, line: &str) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        // As other programs make files: the umask says who may read it.
        let anybody = fs::Permissions::from_mode(0o666);
        let mut file = tempfile::Builder::new().permissions(anybody).tempfile_in(folder)?;
        writeln!(file, "{line}")?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|error| Failure::Machine(format!("{}: {error}", path.display())))
}

pub fn import(options: &ImportOptions, common: &Common) -> Result<Exit, Failure> {
    let mut files = Vec::new();
    for path in &options.paths {
        files.extend(bundles(path)?);
    }
    let store = store::to_write(common)?;
    let (mut imported, mut unchanged, mut refused) = (0, 0, 0);
    for file in &files {
        match read(file) {
            Ok(bundle) if is_kept(&store, &bundle)? => unchanged += 1,
            Ok(bundle) => {
                store.keep(&bundle).map_err(not_got)?;
                imported += 1;
            }
            Err(why) => {
                let (file, why) = (clean::line(&file.display().to_string()), clean::cut(&why, 500));
                anstream::eprintln!("tribunal: refused {file}: {why}");
                refused += 1;
            }
        }
    }
    writeln!(anstream::stdout(), "{imported} imported, {unchanged} unchanged, {refused} refused")?;
    Ok(if refused == 0 { Exit::Accepted } else { Exit::Rejected })
}

/// The file, or those in the folder.
fn bundles(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: std::io::Error| Failure::Usage(format!("{}: {error}", path.display()));
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        // What begins with a dot is being written.
        let hidden = file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && file.extension().is_some_and(|extension| extension == "json") {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Failure::Usage(format!("no bundles in {}", path.display())));
    }
    Ok(files)
}

/// A bundle that says what follows from its evidence, or why it is none.
fn read(file: &Path) -> Result<Bundle, String> {
    let bundle =
        Bundle::read_file(file).map_err(|error| error.to_string())?.map_err(|why| why.to_string())?;
    bundle.check().map_err(|contradiction| contradiction.to_string())?;
    Ok(bundle)
}

/// Whether the same judging is there already, or a later one of the same.
fn is_kept(store: &Store, bundle: &Bundle) -> Result<bool, Failure> {
    let there = match store.bundle(&bundle.verdict.id) {
        Ok(there) if there.verdict.id == bundle.verdict.id => there,
        // A damaged one is set aside for the one that comes.
        Ok(_) | Err(StoreError::NotFound { .. } | StoreError::Ambiguous { .. } | StoreError::Damaged(_)) => {
            return Ok(false);
        }
        Err(error) => return Err(not_got(error)),
    };
    Ok(same_judging(&there.verdict, &bundle.verdict) || there.kept_at_ms >= bundle.kept_at_ms)
}

/// No two judgings take the same time to the nanosecond; what is written and read may lose a digit beyond.
fn same_judging(a: &Verdict, b: &Verdict) -> bool {
    (a.took_s - b.took_s).abs() < 1e-9 && a.findings.len() == b.findings.len()
}
