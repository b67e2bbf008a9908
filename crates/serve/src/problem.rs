//! Why a page is not shown.

use axum::http::StatusCode;
use tribunal_board::{Damaged, StoreError, clean};

/// What readers are told where the store fails; its machine's owner learns more from `tribunal board`.
pub(crate) const UNREADABLE: &str = "the store cannot be read just now";

/// What is damaged, without the folder it lies in: that is no reader's business.
pub(crate) fn told(damaged: &Damaged) -> String {
    format!("{}: {}", damaged.place.rsplit('/').next().unwrap_or_default(), damaged.why)
}

/// A status and a sentence for whoever asked. Not yet cleaned.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// What may be shown.
    pub(crate) fn text(&self) -> String {
        clean::cut(&self.message, 600)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::NotFound { .. } => StatusCode::NOT_FOUND,
            StoreError::Ambiguous { .. } | StoreError::Id(_) => StatusCode::BAD_REQUEST,
            StoreError::Damaged(damaged) => {
                return Self::new(StatusCode::INTERNAL_SERVER_ERROR, told(damaged));
            }
            _ => return Self::new(StatusCode::SERVICE_UNAVAILABLE, UNREADABLE),
        };
        Self::new(status, error.to_string())
    }
}
