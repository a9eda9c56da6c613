//! Conditional requests (RFC 9110, section 13).

use latchkey_factory_plus::Uuid;

/// What must hold of an entry, for a request to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// `If-Match`.
    pub if_match: Option<Tags>,
    /// `If-None-Match`.
    pub if_none_match: Option<Tags>,
}

/// What a precondition names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// `*`: any entry.
    Any,
    /// One of these revisions.
    Listed(Vec<Tag>),
}

/// An entity tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// Whether it was written `W/"…"`.
    pub weak: bool,
    /// What stands between the quotes.
    pub text: String,
}

/// Why headers are no preconditions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PreconditionsError {
    /// Neither `*` nor a list of entity tags.
    #[error("{0} is neither * nor a list of entity tags such as \"TAG\", W/\"TAG\"")]
    Malformed(&'static str),
    /// More than [`MOST_TAGS`].
    #[error("{0} lists more than {MOST_TAGS} entity tags")]
    TooMany(&'static str),
}

/// The most tags of one header.
const MOST_TAGS: usize = 64;

impl Preconditions {
    /// Reads the headers `If-Match` and `If-None-Match`, where there are any; several of one name are joined by commas.
    pub fn parse(if_match: Option<&str>, if_none_match: Option<&str>) -> Result<Self, PreconditionsError> {
        Ok(Self {
            if_match: if_match.map(|text| Tags::parse("If-Match", text)).transpose()?,
            if_none_match: if_none_match.map(|text| Tags::parse("If-None-Match", text)).transpose()?,
        })
    }

    /// Whether `If-Match` holds of an entry of this revision, or of none. It compares strongly: a weak tag never matches.
    pub fn match_holds(&self, etag: Option<Uuid>) -> bool {
        self.if_match.as_ref().is_none_or(|tags| tags.name(etag, false))
    }

    /// Whether `If-None-Match` holds. It compares weakly.
    pub fn none_match_holds(&self, etag: Option<Uuid>) -> bool {
        self.if_none_match.as_ref().is_none_or(|tags| !tags.name(etag, true))
    }

    /// Whether both hold.
    pub fn hold(&self, etag: Option<Uuid>) -> bool {
        self.match_holds(etag) && self.none_match_holds(etag)
    }
}

impl Tags {
    fn parse(header: &'static str, text: &str) -> Result<Self, PreconditionsError> {
        let malformed = PreconditionsError::Malformed(header);
        let mut rest = text.trim_matches([' ', '\t']);
        if rest == "*" {
            return Ok(Self::Any);
        }
        let mut tags = Vec::new();
        loop {
            let (tag, behind) = Tag::parse(rest).ok_or_else(|| malformed.clone())?;
            tags.push(tag);
            if tags.len() > MOST_TAGS {
                return Err(PreconditionsError::TooMany(header));
            }
            let behind = behind.trim_start_matches([' ', '\t']);
            if behind.is_empty() {
                return Ok(Self::Listed(tags));
            }
            rest = behind.strip_prefix(',').ok_or_else(|| malformed.clone())?.trim_start_matches([' ', '\t']);
        }
    }

    /// Whether they name an entry of this revision.
    fn name(&self, etag: Option<Uuid>, weakly: bool) -> bool {
        let Some(etag) = etag else { return false };
        match self {
            Self::Any => true,
            Self::Listed(tags) => {
                let text = etag.to_string();
                tags.iter().any(|tag| tag.text == text && (weakly || !tag.weak))
            }
        }
    }
}

impl Tag {
    /// The tag that a text begins with, and what stands behind it (RFC 9110, section 8.8.3).
    fn parse(text: &str) -> Option<(Self, &str)> {
        let (weak, quoted) = text.strip_prefix("W/").map_or((false, text), |quoted| (true, quoted));
        let (inside, behind) = quoted.strip_prefix('"')?.split_once('"')?;
        let allowed = |character: char| character == '!' || ('#'..='~').contains(&character) || character >= '\u{80}';
        inside.chars().all(allowed).then(|| (Self { weak, text: inside.into() }, behind))
    }
}
