//! Refusals as answers.

use latchkey_centre_service::Answer;

use crate::expand::NoList;
use crate::model::Conflict;
use crate::rights::Forbidden;

impl From<Forbidden> for Answer {
    fn from(why: Forbidden) -> Self {
        Self::refused(403, why)
    }
}

impl From<Conflict> for Answer {
    fn from(why: Conflict) -> Self {
        Self::refused(409, why)
    }
}

impl From<NoList> for Answer {
    fn from(why: NoList) -> Self {
        let status = match why {
            NoList::NoPrincipal => 404,
            NoList::TooLong => 503,
        };
        Self::refused(status, why)
    }
}
