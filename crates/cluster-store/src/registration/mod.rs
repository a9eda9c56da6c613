//! Whose clusters a centre takes up: the enrol service's directory, beside the policy and the manifests that a cluster directory has
//! as well.
//!
//! ```text
//! DIRECTORY/
//!   policy.json …           what evidence must show, manifests, denials: as in a cluster directory
//!   registration.json       what clusters become by default, and rules for machines that ask without an invitation (Rules)
//!   invitations/HASH.json   one for each invitation, named after the SHA-256 of its token (Invitation)
//!   held/EK-DIGEST.json     machines that no invitation and no rule speaks of; nothing is decided by it (Held)
//!   admitted/EK-DIGEST.json the operator's word on such a machine (Admitted)
//!   records                 what was decided; the service's alone
//! ```
//!
//! Files are replaced as a whole. The service writes `held/` and `records`, the command line everything else; a file that is removed
//! takes back what it said. What was decided by it stands in the records, so nothing here is ever used twice.

mod decided;
mod directory;
mod held;
mod invitation;
mod rules;

pub use decided::Admitted;
pub use directory::{RULES, RegistrationStore};
pub use held::{Held, MAX_HELD};
pub use invitation::{Invitation, InvitationFile, InvitationHash, InvitationToken};
pub use rules::{NamePattern, RegistrationRule, Rules, Wanted};
