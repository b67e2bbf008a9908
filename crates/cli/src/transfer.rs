//! `tribunal export`, `tribunal import`: verdicts on their way to another store.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tribunal_board::{Bundle, Store, Taken, clean};

use crate::arguments::{Common, ExportOptions, ImportOptions};
use crate::exit::{Exit, Failure};
use crate::store::{self, not_got};

pub fn export(options: &ExportOptions, common: &Common) -> Result<Exit, Failure> {
    let store = store::to_read(common)?;
    match (options.ids.as_slice(), &options.out) {
        ([id], out) if !out.as_ref().is_some_and(|out| out.is_dir() || ends_as_folder(out)) => {
            let bundle = store.bundle(id).map_err(not_got)?;
            match out {
                Some(file) => write_whole(file, &bundle)?,
                None => writeln!(anstream::stdout(), "{}", bundle.line())?,
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

/// Writes a file that appears whole or not at all, in place of nothing but a bundle of the same verdict.
fn write_whole(path: &Path, bundle: &Bundle) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let taken = match Bundle::read_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Ok(Ok(there)) if there.verdict.id == bundle.verdict.id => true,
        _ => {
            return Err(Failure::Usage(format!(
                "{} is there, and no bundle of verdict {}: give another name",
                path.display(),
                bundle.verdict.id
            )));
        }
    };
    let write = || -> std::io::Result<()> {
        // As other programs make files: the umask says who may read it.
        let anybody = fs::Permissions::from_mode(0o666);
        let mut file = tempfile::Builder::new().permissions(anybody).tempfile_in(folder)?;
        writeln!(file, "{}", bundle.line())?;
        file.as_file().sync_all()?;
        if taken {
            file.persist(path)?
        } else {
            file.persist_noclobber(path)?
        };
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
    let (mut imported, mut unchanged, mut passed_over, mut refused, mut untold) = (0, 0, 0, 0, 0);
    for file in &files {
        let tell = |what: &str, why: &str| {
            let (file, why) = (clean::line(&file.display().to_string()), clean::cut(why, 500));
            anstream::eprintln!("tribunal: {what} {file}: {why}");
        };
        match read(file) {
            Ok(bundle) => match store.take(&bundle).map_err(not_got)? {
                Taken::Unchanged => unchanged += 1,
                Taken::PassedOver => {
                    passed_over += 1;
                    tell(
                        "passed over",
                        "the store has another judging of the same, and this is no later one",
                    );
                }
                Taken::Kept => {
                    imported += 1;
                    untold += usize::from(!bundle.sources.is_empty() && !bundle.has_what_was_judged());
                }
            },
            Err(why) => {
                tell("refused", &why);
                refused += 1;
            }
        }
    }
    let passed_over = if passed_over > 0 { format!(", {passed_over} passed over") } else { String::new() };
    let mut out = anstream::stdout();
    writeln!(out, "{imported} imported, {unchanged} unchanged{passed_over}, {refused} refused")?;
    if untold > 0 {
        writeln!(
            out,
            "whether the sources are what was judged cannot be told for {untold}: not all that was judged is there"
        )?;
    }
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
