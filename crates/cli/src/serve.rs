//! `tribunal serve`.

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;

use tribunal_serve::{Judges, Options, ServeError};

use crate::arguments::{Common, ServeOptions};
use crate::exit::{Exit, Failure};
use crate::store;

pub fn run(options: &ServeOptions, common: &Common) -> Result<Exit, Failure> {
    let may_write = options.token.as_deref().is_some_and(|token| !token.is_empty());
    let listen = SocketAddr::new(options.listen, options.port);
    let judges = options.submissions.clone().map(|submissions| judges(submissions, common)).transpose()?;
    if judges.is_some() && !may_write {
        return Err(Failure::Usage(
            "--submissions has folders judged for those who know a token: set TRIBUNAL_TOKEN".to_owned(),
        ));
    }
    let store = store::to_serve(common, may_write)?;
    if !listen.ip().is_loopback() {
        anstream::eprintln!(
            "tribunal: everybody who reaches {} can read every verdict and its source; what is sent is not encrypted",
            listen.ip()
        );
    }
    let options =
        Options { store, listen, hosts: options.host.clone(), token: options.token.clone(), judges };
    let ready = |address: SocketAddr| {
        // A reader that went away is no reason to stop.
        let _ = writeln!(anstream::stdout(), "http://{address}/");
        if !common.quiet {
            anstream::eprintln!("the board is there until Ctrl-C");
        }
    };
    tribunal_serve::serve(options, ready).map_err(|error| match error {
        ServeError::Listen { .. } => Failure::Usage(format!("{error}; `--port 0` takes any that is free")),
        error => Failure::Machine(error.to_string()),
    })?;
    Ok(Exit::Accepted)
}

fn judges(submissions: std::path::PathBuf, common: &Common) -> Result<Judges, Failure> {
    if !submissions.is_dir() {
        return Err(Failure::Usage(format!("{} is no folder", submissions.display())));
    }
    let python = common.python.iter().flat_map(|python| [OsString::from("--python"), python.into()]);
    Ok(Judges { program: std::env::current_exe()?, options: python.collect(), submissions })
}
