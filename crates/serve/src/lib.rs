//! The board as web pages, and the same as JSON.
//!
//! | page | as JSON | what |
//! |---|---|---|
//! | `/` | `/api/challenges` | the best of every challenge |
//! | `/challenges/<id>` | `/api/challenges/<id>` | its standings; `q`, `outcome`, `language`, `page` choose |
//! | `/contestants` | `/api/contestants` | who stands where on every challenge; `q`, `page` |
//! | `/contestants/<name>` | `/api/contestants/<name>` | one contestant |
//! | `/verdicts/<id>` | `/api/verdicts/<id>` | a verdict; `family`, `outcome`, `dimension`, `page` choose findings |
//! | `/verdicts/<id>/source/<path>` | `/api/verdicts/<id>/bundle` | the source that was judged, with what was found in it |
//! | `/compare?with=A&with=B` | `/api/compare?with=A&with=B` | contestants held against each other |
//! | `/judgings` | `/api/judgings` | what is being judged now, as it goes; `/judgings/events` is the stream of it |
//!
//! Two requests write, and only for who knows the token: `POST /api/verdicts` takes a bundle into the store, `POST /api/judgings`
//! has a folder on this machine judged.
//!
//! Every page is made of one snapshot, which is replaced as a whole when the store changes. Pages need no scripts; the one
//! that they carry shows what changes while one looks. Nothing that a submission wrote is ever markup: texts are cleaned, escaped by the
//! templates, and a policy in every answer forbids whatever does not come from the server itself.

#![forbid(unsafe_code)]

mod answer;
mod api;
mod door;
mod events;
mod pages;
mod problem;
mod site;
mod snapshot;
mod tasks;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use tokio::net::TcpListener;
use tribunal_board::{Store, StoreError};

pub use site::Site;
pub use tasks::Judges;

/// What to serve, where, and who may write.
#[derive(Debug)]
pub struct Options {
    /// The store of verdicts.
    pub store: Store,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Names by which readers reach this server, beside those of its own machine.
    pub hosts: Vec<String>,
    /// Who shows this may write. Nobody may without it.
    pub token: Option<String>,
    /// Judges what is asked for, where that is allowed.
    pub judges: Option<Judges>,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The system refused something else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Serves until somebody presses Ctrl-C. `ready` is told the address once it can be reached.
pub fn serve(options: Options, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    // Pages are made one for each processor at a time, in the order in which they were asked for: that keeps the wait of each short.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors)
        .max_blocking_threads(processors)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let address = options.listen;
        let listen = |error| ServeError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr()?;
        let site = Site::open(options)?;
        ready(address);
        tokio::select! {
            served = axum::serve(listener, router(site)) => Ok(served?),
            stopped = tokio::signal::ctrl_c() => Ok(stopped?),
        }
    })
}

/// All pages.
pub fn router(site: Arc<Site>) -> Router {
    let api = Router::new()
        .route("/challenges", get(api::challenges))
        .route("/challenges/{id}", get(api::challenge))
        .route("/contestants", get(api::contestants))
        .route("/contestants/{name}", get(api::contestant))
        .route("/verdicts", axum::routing::post(api::keep))
        .route("/verdicts/{id}", get(api::verdict))
        .route("/verdicts/{id}/bundle", get(api::bundle))
        .route("/compare", get(api::compare))
        .route("/judgings", get(api::judgings).post(api::judge));
    Router::new()
        .route("/", get(pages::home))
        .route("/challenges/{id}", get(pages::challenge))
        .route("/contestants", get(pages::contestants))
        .route("/contestants/{name}", get(pages::contestant))
        .route("/verdicts/{id}", get(pages::verdict))
        .route("/verdicts/{id}/source/{*path}", get(pages::source))
        .route("/compare", get(pages::compare))
        .route("/judgings", get(pages::judgings))
        .route("/judgings/events", get(events::events))
        .route("/style.css", get(pages::style))
        .route("/live.js", get(pages::script))
        .route("/icon.svg", get(pages::icon))
        .nest("/api", api)
        .method_not_allowed_fallback(pages::not_answered)
        .fallback(pages::nowhere)
        .layer(from_fn_with_state(site.clone(), door::guard))
        .with_state(site)
}
