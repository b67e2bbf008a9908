//! Everything that was asked and answered, in a folder: a file for each exchange, and one for the reviewers.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::config::{ConfigError, Reviewer, reviewers, written};
use crate::courier::{Courier, Exchange, id};

/// The file of those who were asked.
const REVIEWERS: &str = "reviewers.toml";

/// Why a record cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The disk.
    #[error("{}: {error}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What.
        error: io::Error,
    },
    /// A question that was not asked then: other reviewers, other sources, another version of the rubric.
    #[error("the record has no exchange {id}, which is {reviewer}'s on {about}")]
    Missing {
        /// The exchange.
        id: String,
        /// Who was to be asked.
        reviewer: String,
        /// About what.
        about: String,
    },
    /// A file that is no exchange, or holds another than its name says.
    #[error("{} is not the exchange that its name says: {why}", path.display())]
    Altered {
        /// The file.
        path: PathBuf,
        /// In what way.
        why: String,
    },
    /// The file of reviewers.
    #[error(transparent)]
    Reviewers(#[from] ConfigError),
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> RecordError {
    move |error| RecordError::Io { path: path.to_owned(), error }
}

/// Keeps whatever another courier brings.
#[derive(Debug)]
pub struct Recorder<C> {
    folder: PathBuf,
    courier: C,
}

impl<C: Courier> Recorder<C> {
    /// Makes the folder, and notes who is asked.
    pub fn new(folder: &Path, asked: &[Reviewer], courier: C) -> Result<Self, RecordError> {
        fs::create_dir_all(folder).map_err(at(folder))?;
        let path = folder.join(REVIEWERS);
        fs::write(&path, written(asked)).map_err(at(&path))?;
        Ok(Self { folder: folder.to_owned(), courier })
    }
}

impl<C: Courier> Courier for Recorder<C> {
    fn carry(&self, reviewer: &Reviewer, request: &str) -> Result<Exchange, RecordError> {
        let exchange = self.courier.carry(reviewer, request)?;
        let path = self.folder.join(format!("{}.json", exchange.id()));
        let text = serde_json::to_string_pretty(&exchange).expect("an exchange has string keys only");
        fs::write(&path, text + "\n").map_err(at(&path))?;
        Ok(exchange)
    }
}

/// Brings what was kept, and makes no connection.
#[derive(Debug)]
pub struct Replay {
    folder: PathBuf,
}

impl Replay {
    /// A record, and who was asked then.
    pub fn open(folder: &Path) -> Result<(Self, Vec<Reviewer>), RecordError> {
        let path = folder.join(REVIEWERS);
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        Ok((Self { folder: folder.to_owned() }, reviewers(&text, &path)?))
    }
}

impl Courier for Replay {
    fn carry(&self, reviewer: &Reviewer, request: &str) -> Result<Exchange, RecordError> {
        let id = id(&reviewer.name, &reviewer.endpoint(), request);
        let path = self.folder.join(format!("{id}.json"));
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let about = crate::ask::about(request).unwrap_or("nothing that is asked");
                return Err(RecordError::Missing {
                    id,
                    reviewer: reviewer.name.clone(),
                    about: about.to_owned(),
                });
            }
            read => read.map_err(at(&path))?,
        };
        let altered = |why: String| RecordError::Altered { path: path.clone(), why };
        let exchange: Exchange = serde_json::from_str(&text).map_err(|error| altered(error.to_string()))?;
        if exchange.id() != id {
            return Err(altered(format!("it is {}", exchange.id())));
        }
        Ok(exchange)
    }
}
